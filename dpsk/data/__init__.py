"""Private rows on exact grids, and the one door through which anything leaves."""

from .arrays import ArrayRows, RawRows, compact
from .columns import Columns
from .private import Batch, NoisyQuery, PrivateData, Query, Sealed, Statistic
from .rows import Chunk, Kernel, RawChunk, Rows

__all__ = [
    "ArrayRows",
    "Batch",
    "Chunk",
    "Columns",
    "Kernel",
    "NoisyQuery",
    "PrivateData",
    "Query",
    "RawChunk",
    "RawRows",
    "Rows",
    "Sealed",
    "Statistic",
    "compact",
]
