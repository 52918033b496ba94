"""Data as they are given, checked: in memory, in files, in chunks, or on a cluster. No error quotes a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite, check_array, check_X_y, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..data import Chunks, DaskTable, StoredTable, require_table
from ..data.stored import Scratch, blocks_of, require_room
from ..data.tables import all_labels

__all__ = ["checked", "dask_table", "is_mapped", "stored_table", "without_values"]

_ROW_BYTES = 64  # what is kept of a row in files besides its entries, at most

_FREE_OF_VALUES = (
    "Input X contains",
    "Input y contains",
    "Input contains",
    "Found array with",
    "Found input variables",
    "Sparse data was passed",
    "The feature names",
    "Feature names are only supported",
    "Unknown label type",
    "X has ",
    "y should be",
)


def without_values(message: str) -> str:
    """Return a validation message that tells what is wrong and nothing that stands in the data."""
    if message.startswith("Expected 2D array, got"):
        return message.split(":")[0] + ". Reshape your data to (n_samples, n_features)."
    if message.startswith("Complex data not supported"):
        return "Complex data not supported"
    if "could not convert" in message or "must be a string or a real number" in message:
        return (
            "X contains text or objects where numbers are needed: could not convert them to float. Encode categories "
            "first, with public lists: OneHotEncoder(categories=[...]). Each argument must be a string or a real number"
        )
    if message.startswith(_FREE_OF_VALUES) or "requires y to be passed" in message:
        return message
    return (
        "X or y was refused by scikit-learn's validation; its message is withheld because it may quote values. X must "
        "be a table of plain numbers (no categories, dates or text), y one label per row"
    )


def is_mapped(X: Any) -> bool:
    """Return whether this is a table of numbers in a file, mapped into memory."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub" and X.shape[0] > 0


def checked(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Return some rows, and their labels if there are any, as scikit-learn checks them."""
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "ensure_min_samples": 0}
    try:
        if y is None:
            X = check_array(X, input_name="X", **options)
        else:
            X, y = check_X_y(X, y, **options)
            if len(y):
                check_classification_targets(y)
    except (ValueError, TypeError) as error:
        refused = ValueError(without_values(str(error)))
    else:
        return X, y
    raise refused  # here, where the original with its values is not attached to it


def _checked_labels(y: Any) -> Any:
    try:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    except (ValueError, TypeError) as error:
        refused = ValueError(without_values(str(error)))
    else:
        return y
    raise refused


def stored_table(estimator: Any, X: Any, y: Any) -> StoredTable:
    """Return the rows of a memory-mapped array, or of Chunks, which are read once; all are checked."""
    blocks, y = _chunks_on_disk(estimator, X, y) if isinstance(X, Chunks) else _mapped_blocks(estimator, X, y)
    n = sum(block.shape[0] for block in blocks)
    if n < 2:
        raise ValueError(f"Found array with {n} sample(s) while a minimum of 2 is required.")
    if len(y) != n:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n, len(y)]}")
    entries = sum(8 * block.nnz if sp.issparse(block) else 4 * block.size for block in blocks)
    require_room(entries + _ROW_BYTES * n)
    return StoredTable(blocks, y)


def _mapped_blocks(estimator: Any, X: Any, y: Any) -> tuple[list[Any], Any]:
    validate_data(estimator, X, y, skip_check_array=True)
    y, X = _checked_labels(y), np.asarray(X)  # a plain view of the file
    for rows in blocks_of(X):
        checked(X[rows])
    return [X], y


def _chunks_on_disk(estimator: Any, chunks: Chunks, y: Any) -> tuple[list[Any], Any]:
    """Return the rows of chunks as blocks in a temporary file, and their labels."""
    labels, shapes = list[Any](), list[tuple[bool, tuple[int, int]]]()
    with Scratch() as scratch:
        for X, chunk_y in chunks:
            if (y is None) == (chunk_y is None):
                raise ValueError(
                    "there are no labels: chunks must be pairs (X, y), or y has to be given to fit"
                    if y is None
                    else "labels came both with the chunks and as y: leave one of them out"
                )
            block, chunk_y = checked(X, chunk_y)
            if sp.issparse(block) and not block.has_canonical_format:
                block = block.copy()  # it may be the caller's
                block.sum_duplicates()  # in the precision in which they came
            named = X if hasattr(X, "columns") else block
            try:
                validate_data(estimator, named, reset=not shapes, skip_check_array=True)
            except ValueError as error:
                raise ValueError(f"chunks must have the same columns: {without_values(str(error))}") from None
            shapes.append((sp.issparse(block), block.shape))
            for array in (block.data, block.indices, block.indptr) if sp.issparse(block) else (block,):
                scratch.write(_in_single_if_exact(array))
            labels.append(chunk_y)
        arrays = iter(scratch.read())
    if not shapes:
        raise ValueError("Found array with 0 sample(s): the function given to Chunks returned no chunks")
    blocks = [
        sp.csr_matrix((next(arrays), next(arrays), next(arrays)), shape) if sparse else next(arrays)
        for sparse, shape in shapes
    ]
    return blocks, _checked_labels(all_labels(labels) if y is None else y)


def _in_single_if_exact(array: Any) -> Any:
    if array.dtype != np.float64:
        return array
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    return single if np.array_equal(single, array) else array


def dask_table(estimator: Any, X: Any, y: Any) -> DaskTable:
    """Return the rows of a Dask array or DataFrame, checked where they are."""
    require_table(X)
    if y is None:
        validate_data(estimator, np.zeros((0, 1)), y, skip_check_array=True)  # raises
    validate_data(estimator, getattr(X, "_meta", X) if hasattr(X, "columns") else X, skip_check_array=True)
    table = DaskTable(X, y, checked)
    if table.shape[0] < 2:
        raise ValueError(f"Found array with {table.shape[0]} sample(s) while a minimum of 2 is required.")
    return table
