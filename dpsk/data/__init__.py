"""Private rows on exact grids, and the one door through which anything leaves."""

from .arrays import ArrayRows, RawRows, compact
from .columns import Columns
from .private import PrivateData, Query, Sealed
from .rows import Chunk, Kernel, RawChunk, Rows

__all__ = [
    "ArrayRows",
    "Chunk",
    "Columns",
    "Kernel",
    "PrivateData",
    "Query",
    "RawChunk",
    "RawRows",
    "Rows",
    "Sealed",
    "compact",
]
