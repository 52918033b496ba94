"""Data of a fit, opened: checked once, and known as a table wherever they are."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..data import ArrayTable, Chunks, Facts, Table, frame_of, is_dask, schema_of
from .grouping import apart, set_persons, without_ids
from .raw_tables import open_raw_table, raw_blocks
from .validation import (
    dask_table,
    is_mapped,
    names_of,
    refuse_lazy,
    sample_weights,
    stored_table,
    validated,
    validated_rows,
)


def open_table(
    estimator: Any,
    X: Any,
    y: Any,
    asked: Any,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    in_memory: bool = False,
) -> Table:
    """Return the data, checked once, wherever they are, and keep their public facts in the estimator.

    ``asked`` has the parameters: ``classes``, ``columns``, which is None for a table of numbers and says otherwise what
    kinds they are, and ``group_column``, unless ``groups`` holds the person of each row. ``in_memory`` asks for rows in
    memory.
    """
    if in_memory and (is_dask(X) or isinstance(X, Chunks)):
        raise ValueError("epsilon=inf fits the exact model in memory: give it an array")
    refuse_lazy(X)
    X, find_keys = apart(X, asked.group_column, groups)
    table = _opened(estimator, X, y, asked.classes, in_memory, asked.columns)
    table.facts = replace(table.facts, names=names_of(estimator), weighted=sample_weight is not None)
    table.sample_weight = sample_weights(sample_weight, table.facts.n_rows)
    if find_keys is not None:
        set_persons(table, find_keys, asked.group_column)
    return table


def facts_of(model: Any, X: Any, n_classes: int) -> Facts:
    """Return what a fit of this model to a table in memory would know of it beforehand; no entry is read."""
    X = without_ids(X, model.group_column)
    frame = frame_of(X)
    names = frame.names if frame.names is not None and all(isinstance(name, str) for name in frame.names) else None
    schema = None if model.columns is None else schema_of(X, model.columns)
    return Facts(*frame.shape, n_classes, schema=schema, names=names)


def rows_for(model: Any, X: Any) -> Iterator[Any]:
    """Yield the rows of a table in memory as a fitted model scores them: numbers, or the features of a raw table."""
    if not hasattr(model, "encoder_"):
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
