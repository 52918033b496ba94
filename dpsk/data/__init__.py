"""Private rows on exact grids, and the one door through which anything leaves."""

from .arrays import ArrayRows, Compact, RawRows
from .columns import Columns
from .dask import DaskTable, aligned, is_dask, map_rows, of_each, per_block, picked, require_table
from .facts import Facts, Unknown, UnknownFact
from .fields import FrameChunk
from .frame_tables import DaskFrameTable, FrameTable, UnreadBlock
from .frames import frame_of
from .kinds import Categories, Date, Kind, Number, Text
from .private import Batch, Door, NoisyQuery, PrivateData, Query, Sealed, Statistic
from .row_map import PublicShape, RowMap
from .rows import Chunk, Kernel, RawChunk, Rows
from .schema import Schema, require_columns, schema_of
from .scores import row_scores, rows_on_grid
from .stored import StoredRows
from .tables import ArrayTable, Chunks, StoredTable, Table
from .waves import Waves

__all__ = [
    "ArrayRows", "ArrayTable", "Batch", "Categories", "Chunk", "Chunks", "Columns", "Compact", "DaskFrameTable",
    "DaskTable", "Date", "Door", "Facts", "FrameChunk", "FrameTable", "Kernel", "Kind", "NoisyQuery", "Number",
    "PrivateData", "PublicShape", "Query", "RawChunk", "RawRows", "RowMap", "Rows", "Schema", "Sealed", "Statistic",
    "StoredRows", "StoredTable", "Table", "Text", "Unknown", "UnknownFact", "UnreadBlock", "Waves", "aligned",
    "frame_of", "is_dask", "map_rows", "of_each", "per_block", "picked", "require_columns", "require_table",
    "row_scores", "rows_on_grid", "schema_of",
]  # fmt: skip
