"""Private rows on exact grids, and the one door through which anything leaves."""

from .arrays import ArrayRows, Compact, RawRows
from .columns import Columns
from .dask import DaskTable, is_dask, map_rows, require_table
from .facts import Facts, Unknown, UnknownFact
from .private import Batch, Door, NoisyQuery, PrivateData, Query, Sealed, Statistic
from .row_map import PublicShape, RowMap
from .rows import Chunk, Kernel, RawChunk, Rows
from .scores import row_scores
from .stored import StoredRows
from .tables import ArrayTable, Chunks, StoredTable, Table

__all__ = [
    "ArrayRows", "ArrayTable", "Batch", "Chunk", "Chunks", "Columns", "Compact", "DaskTable", "Door", "Facts",
    "Kernel", "NoisyQuery", "PrivateData", "PublicShape", "Query", "RawChunk", "RawRows", "RowMap", "Rows",
    "Sealed", "Statistic", "StoredRows", "StoredTable", "Table", "Unknown", "UnknownFact", "is_dask", "map_rows",
    "require_table", "row_scores",
]  # fmt: skip
