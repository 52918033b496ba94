"""Private rows on exact grids, and the one door through which anything leaves."""

from .arrays import ArrayRows, RawRows, compact
from .columns import Columns
from .dask import DaskTable, is_dask, map_rows, require_table
from .private import Batch, NoisyQuery, PrivateData, Query, Sealed, Statistic
from .rows import Chunk, Kernel, RawChunk, Rows
from .scores import row_scores
from .stored import StoredRows
from .tables import ArrayTable, Chunks, StoredTable, Table

__all__ = [
    "ArrayRows",
    "ArrayTable",
    "Batch",
    "Chunk",
    "Chunks",
    "Columns",
    "DaskTable",
    "Kernel",
    "NoisyQuery",
    "PrivateData",
    "Query",
    "RawChunk",
    "RawRows",
    "Rows",
    "Sealed",
    "Statistic",
    "StoredRows",
    "StoredTable",
    "Table",
    "compact",
    "is_dask",
    "map_rows",
    "require_table",
    "row_scores",
]
