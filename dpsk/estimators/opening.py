"""Data of a fit, opened: checked once, and known as a table wherever they are."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..data import ArrayTable, Chunks, Facts, Table, frame_of, is_dask, schema_of
from .raw_tables import open_raw_table, raw_blocks
from .validation import dask_table, is_mapped, names_of, stored_table, validated, validated_rows


def open_table(
    estimator: Any,
    X: Any,
    y: Any,
    classes: Any,
    *,
    in_memory: bool = False,
    columns: Any = None,
    group_column: str | None = None,
    groups: Any = None,
    sample_weight: Any = None,
) -> Table:
    """Return the data, checked once, wherever they are.

    ``in_memory`` asks for rows in memory. ``columns`` is None for a table of numbers; for a raw table it says what
    kinds its columns are.
    """
    if in_memory and (is_dask(X) or isinstance(X, Chunks)):
        raise ValueError("epsilon=inf fits the exact model in memory: give it an array")
    table = _opened(estimator, X, y, classes, in_memory, columns)
    table.facts = replace(table.facts, names=names_of(estimator))
    return table


def facts_of(model: Any, X: Any, n_classes: int) -> Facts:
    """Return what a fit of this model to a table in memory would know of it beforehand; no entry is read."""
    frame = frame_of(X)
    names = frame.names if frame.names is not None and all(isinstance(name, str) for name in frame.names) else None
    schema = None if model.columns is None else schema_of(X, model.columns)
    return Facts(*frame.shape, n_classes, schema=schema, names=names)


def rows_for(model: Any, X: Any) -> Iterator[Any]:
    """Yield the rows of a table in memory as a fitted model scores them: numbers, or the features of a raw table."""
    if model.columns is None:
        yield validated_rows(model, X)
        return
    features = model.encoder_.features
    for chunk in raw_blocks(model, features.schema, X):
        yield features.transform(chunk)


def _opened(estimator: Any, X: Any, y: Any, classes: Any, in_memory: bool, columns: Any) -> Table:
    if columns is not None:
        return open_raw_table(estimator, X, y, classes, columns)
    if is_dask(X):
        return dask_table(estimator, X, y, classes)
    if isinstance(X, Chunks) or (is_mapped(X) and not in_memory):
        return stored_table(estimator, X, y, classes)
    return ArrayTable(*validated(estimator, X, y), classes)
