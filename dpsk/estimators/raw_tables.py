"""Raw tables as they are given, in memory, in chunks or on a cluster: opened for a fit, and read for predictions.

Errors follow from names and types of columns. An entry that cannot be read is missing, in silence.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import validate_data

from .._sklearn_compat import with_names
from ..data import Chunks, DaskFrameTable, FrameTable, Table, UnreadBlock, frame_of, is_dask, require_table, schema_of
from ..data.fields import FrameChunk
from ..data.frame_tables import in_memory, on_disk
from ..data.labels import all_labels
from ..data.schema import Schema
from .validation import (
    at_least,
    checked_labels,
    columns_of,
    is_mapped,
    quietly,
    require_dask,
    require_one_source_of_labels,
    require_same_columns,
)


def open_raw_table(estimator: Any, X: Any, y: Any, classes: Any, columns: Any) -> Table:
    """Return a raw table, read once, wherever it lies; ``columns`` says what kinds its columns are."""
    if isinstance(X, Chunks):
        return _of_chunks(estimator, X, y, classes, columns)
    if is_dask(X):
        return _on_dask(estimator, X, y, classes, columns)
    schema = schema_of(X, columns)
    _require_labels(estimator, y)
    n_rows, _ = frame_of(X).shape
    at_least(2, n_rows, "sample")
    y = checked_labels(y)
    quietly("y", check_consistent_length, X, y)
    quietly("X", validate_data, estimator, _columns(X), skip_check_array=True)
    if is_mapped(X):
        return FrameTable(schema, on_disk(schema, [np.asarray(X)]), y, classes, on_disk=True)
    return FrameTable(schema, in_memory(schema, [X]), y, classes)


def raw_blocks(estimator: Any, schema: Schema, X: Any) -> Iterator[FrameChunk]:
    """Return the rows of a table in memory as predictions of a fitted estimator need them, some thousand at a time.

    The columns must be those of the fit, in their order. Their types may be others: what cannot be read is missing.
    """
    at_least(1, frame_of(X).shape[0], "sample")
    quietly("X", validate_data, estimator, _columns(X), reset=False, skip_check_array=True)
    return schema.blocks(X)


def _columns(X: Any) -> Any:
    frame = frame_of(X)
    return with_names(X, frame.names, frame.shape)


def _require_labels(estimator: Any, y: Any) -> None:
    if y is None:
        validate_data(estimator, np.zeros((0, 1)), y, skip_check_array=True)  # raises


def _of_chunks(estimator: Any, chunks: Chunks, y: Any, classes: Any, columns: Any) -> FrameTable:
    labels, pairs = list[Any](), iter(chunks)
    first = next(pairs, None)
    if first is None:
        raise ValueError("Found array with 0 sample(s): the function given to Chunks returned no chunks")
    schema = schema_of(first[0], columns, declared=True)

    def tables() -> Iterator[Any]:
        for X, chunk_y in chain([first], pairs):
            require_one_source_of_labels(y, chunk_y)
            require_same_columns(estimator, _columns(X), first=not labels)
            labels.append(None if chunk_y is None else checked_labels(chunk_y))
            if chunk_y is not None:
                quietly("y", check_consistent_length, X, chunk_y)
            yield X

    blocks = on_disk(schema, tables())
    y = checked_labels(all_labels(labels) if y is None else y)
    at_least(2, blocks.shape[0], "sample")
    if len(y) != blocks.shape[0]:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[blocks.shape[0], len(y)]}")
    return FrameTable(schema, blocks, y, classes, on_disk=True)


def _on_dask(estimator: Any, X: Any, y: Any, classes: Any, columns: Any) -> DaskFrameTable:
    require_dask()
    require_table(X)
    empty = columns_of(X) if hasattr(X, "columns") else np.empty((0, X.shape[1]), X.dtype)
    schema = schema_of(empty, columns)
    _require_labels(estimator, y)
    quietly("X", validate_data, estimator, columns_of(X), skip_check_array=True)
    table = DaskFrameTable(X, y, partial(_unread, schema), classes, schema)
    at_least(2, table.facts.n_rows, "sample")
    return table


def _unread(schema: Schema, X: Any, y: Any) -> tuple[UnreadBlock, Any]:
    y = checked_labels(y)
    quietly("y", check_consistent_length, X, y)
    return UnreadBlock(schema, X), y
