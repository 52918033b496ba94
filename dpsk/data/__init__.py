"""Private rows on exact grids, and the one door through which anything leaves."""

from .arrays import LARGEST_ENTRY, ArrayRows, RawRows, compact
from .columns import Columns
from .private import Batch, NoisyQuery, PrivateData, Query, Sealed, Statistic
from .rows import Chunk, Kernel, RawChunk, Rows

__all__ = [
    "LARGEST_ENTRY",
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
