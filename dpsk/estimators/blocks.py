"""Predictions block by block: for memory-mapped arrays, Chunks, and Dask collections."""

import copy
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data import Chunks, is_dask, map_rows, require_table
from ..data.arrays import blocks_of
from .grouping import without_ids
from .validation import columns_of, is_mapped

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a method that predicts for an array take a memory-mapped one, Chunks or a Dask collection as well.

    The results are an array, and for Dask a Dask array that is computed when it is asked for. A column of ids, which no
    feature was made of, is left out.
    """

    @wraps(method)
    def predict(self: Any, X: Any) -> Any:
        X = without_ids(X, getattr(self, "group_column", None))
        if is_dask(X):
            return _on_dask(self, method.__name__, X)
        if isinstance(X, Chunks):
            found = [predict(self, block) for block, _ in X if np.shape(block)[:1] != (0,)]
            if not found:
                raise ValueError("the function given to Chunks returned no rows: it must make them anew in every call")
            return _joined(found)
        if is_mapped(X):
            return _joined([method(self, np.asarray(X[rows])) for rows in blocks_of(X)])
        return method(self, X)

    return cast(Method, predict)


def _joined(found: list[Any]) -> Any:
    return sp.vstack(found, "csr") if sp.issparse(found[0]) else np.concatenate(found)


def _on_dask(model: Any, method: str, X: Any) -> Any:
    check_is_fitted(model)
    require_table(X)
    validate_data(model, columns_of(X), reset=False, skip_check_array=True)
    columns, dtype = _shape_of_results(model, method)
    none = np.empty((0,) if columns is None else (0, columns), dtype)
    return map_rows(partial(_predicted, for_travel(model), method, none), X, columns, dtype)


def _shape_of_results(model: Any, method: str) -> tuple[int | None, Any]:
    """Return how many columns the results have, None if they are one number or label per row, and their type."""
    if method == "transform":
        if model.sparse_output:
            raise ValueError("sparse_output=True makes no Dask array: leave it False, or give one block at a time")
        return len(model.get_feature_names_out()), np.dtype(float)
    n_classes = len(model.classes_)
    if method == "predict":
        return None, model.classes_.dtype
    return (n_classes if method != "decision_function" or n_classes > 2 else None), np.dtype(float)


def for_travel(model: Any) -> Any:
    """Return a copy of a fitted model that workers predict with: it does nothing else, so it has no ledger."""
    model = copy.copy(model)
    if hasattr(model, "ledger"):
        model.ledger = None
    return model


def _predicted(model: Any, method: str, none: Any, block: Any) -> Any:
    return getattr(model, method)(block) if block.shape[0] else none  # blocks may be empty, arrays may not
