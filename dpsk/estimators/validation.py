"""Data as they are given, checked: in memory, in files, in chunks, or on a cluster. No error quotes a value."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from ..data import Chunks, DaskTable, StoredTable, is_dask, per_block, require_table
from ..data.arrays import blocks_of
from ..data.entries import Numbers
from ..data.frames import Column
from ..data.labels import all_labels
from ..data.schema import refuse_duplicates
from ..data.sparse import one_per_place
from ..data.stored import Scratch, require_room
from ..encodings.fourier import MOST_PAIRS
from ..mechanisms.samplers import Floats
from ..requirements import listed

_ROW_BYTES = 64  # what is kept of a row in files besides its entries, at most
_NUMBERS: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}

_FREE_OF_VALUES = (
    "Found array with",
    "Sparse data was passed",
    "The feature names",
    "Feature names are only supported",
    "Expected a 2-dimensional container",
    "X has ",
    "y should be",
    "np.matrix is not supported",
)
_KINDS = {"U": "text", "S": "bytes", "V": "a structured array"}  # whose names tell how long the longest entry is


def without_values(name: str, message: str) -> str:
    """Return a validation message about ``name`` that tells what is wrong and nothing that stands in the data."""
    if message.startswith("Expected 2D"):
        return f"{name}: {message.split(':')[0].split(', got input')[0]}. Reshape your data to (n_samples, n_features)."
    if message.startswith("Complex data not supported"):
        return f"{name}: Complex data not supported; give real and imaginary parts as columns of their own"
    if message.startswith(("Input X contains", "Input contains")):
        return message.split("\n")[0] + (
            " Every value has to be finite, which is public: drop such rows, or fill them with a constant that is not "
            "taken from the data"
        )
    if message.startswith("Input y contains"):
        return f"{message} Drop rows without a label"
    if message.startswith("Found input variables"):
        return f"X and y: {message}; y needs one label per row of X"
    if "inhomogeneous" in message or "with a sequence" in message:
        return f"{name}: the parts of this list have different lengths; every row needs the same number of columns"
    if "could not convert" in message or "must be a string or a real number" in message:
        return (
            "X contains text or objects where numbers are needed: could not convert them to float. Give the table to "
            "DPTabularClassifier, or encode categories first, with public lists: OneHotEncoder(categories=[...]). Each "
            "argument must be a string or a real number"
        )
    if message.startswith("Found array with dim"):
        return f"{name}: {message} Of images, a row holds all pixels: X.reshape(len(X), -1)"
    if message.startswith(_FREE_OF_VALUES) or "requires y to be passed" in message:
        return message if message.startswith((name, "The feature", "Feature")) else f"{name}: {message}"
    return (
        f"{name} was refused by scikit-learn's validation; its message is withheld because it may quote values. X must "
        "be a table of plain numbers (no categories, dates or text), y one label per row"
    )


def require_numbers(X: Any) -> None:
    """Raise ValueError if the names or the types of columns, which are public, tell that this is no table of numbers.

    Whether text can be read as numbers would depend on rows, so a DataFrame must not have it.
    """
    refuse_lazy(X)
    dtypes = getattr(X, "dtypes", None)
    if hasattr(X, "columns") and dtypes is not None:
        names = list(X.columns)
        refuse_duplicates(names)
        other = {name: dtype for name, dtype in zip(names, dtypes, strict=True) if not _is_number(dtype)}
        if other:
            wrong = listed(f"{name!r} ({_name_of(dtype)})" for name, dtype in other.items())
            raise ValueError(
                f"X has columns that are no numbers: {wrong}. DPTabularClassifier takes such tables as they are, and "
                "so does DPMLPClassifier(columns='auto'). For other estimators turn dates into days since a fixed one, "
                "numbers read as text or objects into floats, X.astype({...: float}), and "
                "encode categories with public lists, OneHotEncoder(categories=[...])"
            )
    elif getattr(getattr(X, "dtype", None), "kind", "f") in "USTVMm":
        raise ValueError(
            f"X is {_name_of(X.dtype)}, but numbers are needed. DPTabularClassifier takes text and dates in a "
            "DataFrame as they are, and so does DPMLPClassifier(columns='auto'). For other estimators turn dates into "
            "days since a fixed one, text into floats or categories with public lists, "
            "OneHotEncoder(categories=[...]), and fields into columns"
        )


def refuse_lazy(X: Any) -> None:
    """Raise TypeError for a frame that was not computed yet."""
    if hasattr(type(X), "collect_schema") and not hasattr(type(X), "shape"):
        raise TypeError(
            f"X is of type {type(X).__name__}, which is no DataFrame in memory: call collect() or the like first, or "
            "give dpsk.Chunks"
        )


def _is_number(dtype: Any) -> bool:
    if not hasattr(dtype, "kind"):  # of Polars
        return bool(dtype.is_numeric()) or _name_of(dtype) == "Boolean"
    return dtype.kind in "biufc"  # complex numbers have an error of their own


def _name_of(dtype: Any) -> str:
    name = str(getattr(dtype, "name", type(dtype).__name__))  # str(dtype) may list categories
    return _KINDS.get(getattr(dtype, "kind", ""), name)


def quietly(name: str, check: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a check of scikit-learn finds; its error quotes no values, and overflow in its sums is no warning."""
    try:
        with np.errstate(all="ignore"):
            return check(*args, **options)
    except (MemoryError, Warning):  # warnings that somebody wants as errors speak of types and names
        raise
    except Exception as error:
        refused = (TypeError if isinstance(error, TypeError) else ValueError)(without_values(name, str(error)))
    raise refused  # here, where the original with its values is not attached to it


def names_of(estimator: Any) -> tuple[str, ...] | None:
    """Return the names of the columns that an estimator was given, None where they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(names)


def validated(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return rows and labels in memory as ``fit`` needs them."""
    if is_dask(X):
        raise ValueError("X is a Dask collection, but rows in memory are needed here: give an array")
    require_numbers(X)
    y = None if y is None else checked_labels(y)
    options = {**_NUMBERS, "accept_sparse": ("csr", "csc"), "ensure_min_samples": 2}
    X, y = quietly("X", validate_data, estimator, _in_rows(X), y, **options)
    return X, y


def validated_rows(estimator: Any, X: Any) -> Any:
    """Return rows in memory as predictions of a fitted estimator need them."""
    require_numbers(X)
    return quietly("X", validate_data, estimator, _in_rows(X), reset=False, **_NUMBERS)


def _in_rows(X: Any) -> Any:
    return one_per_place(X) if sp.issparse(X) and X.format == "coo" and X.ndim == 2 else X


def columns_of(X: Any) -> Any:
    """Return what tells the names and types of the columns of a Dask collection: for a DataFrame one without rows."""
    return getattr(X, "_meta", X) if hasattr(X, "columns") else X


def is_mapped(X: Any) -> bool:
    """Return whether this is a table of numbers in a file, mapped into memory."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub" and X.shape[0] > 0


def checked(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Return some rows, and their labels if there are any, as scikit-learn checks them."""
    require_numbers(X)
    X = quietly("X", check_array, _in_rows(X), input_name="X", ensure_min_samples=0, **_NUMBERS)
    if y is not None:
        y = checked_labels(y)
        quietly("y", check_consistent_length, X, y)
    return X, y


def checked_labels(y: Any) -> Any:
    """Return labels as an array; raise ValueError for what no label may be.

    Which labels there are, and how often, has no say: some rows may be all that is seen here.
    """
    y = quietly("y", column_or_1d, y, warn=True)
    if y.dtype.kind in "SV":
        raise ValueError(f"y is {_name_of(y.dtype)}, but labels are text or numbers: decode bytes to text")
    if y.dtype.kind == "c":
        raise ValueError("y: Complex data not supported; labels are text or numbers")
    if y.dtype.kind in "Mm" and np.isnat(y).any():
        raise ValueError("y contains NaT: drop rows without a label")
    if y.dtype.kind == "O":
        others = [label for label in y if not isinstance(label, str)]
        if any(label is None or type(label).__name__ in ("NAType", "NaTType") or label != label for label in others):
            raise ValueError("y contains NaN or None: drop rows without a label")
        if others:
            raise ValueError(
                "Unknown label type: y is an array of objects that are not all text. Give labels one type, "
                "y.astype(str) or y.astype(int)"
            )
    quietly("y", assert_all_finite, y, input_name="y")
    return y


def stored_table(estimator: Any, X: Any, y: Any, classes: Any) -> StoredTable:
    """Return the rows of a memory-mapped array, or of Chunks, which are read once; all are checked."""
    blocks, y = _chunks_on_disk(estimator, X, y) if isinstance(X, Chunks) else _mapped_blocks(estimator, X, y)
    n = sum(block.shape[0] for block in blocks)
    at_least(2, n, "sample")
    if len(y) != n:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n, len(y)]}")
    # of sparse rows what each needs without its entries: how many there are is not public
    per_row = _ROW_BYTES + (8 * MOST_PAIRS if getattr(estimator, "features", None) is not None else 0)
    require_room(per_row * n + sum(4 * block.size for block in blocks if not sp.issparse(block)))
    return StoredTable(blocks, y, classes)


def at_least(least: int, n: int, what: str) -> None:
    """Raise ValueError if there are fewer rows, or columns."""
    if n < least:
        raise ValueError(f"Found array with {n} {what}(s) while a minimum of {least} is required.")


def _mapped_blocks(estimator: Any, X: Any, y: Any) -> tuple[list[Any], Any]:
    validate_data(estimator, X, y, skip_check_array=True)
    y, X = checked_labels(y), np.asarray(X)  # a plain view of the file
    for rows in blocks_of(X):
        checked(X[rows])
    return [X], y


def _chunks_on_disk(estimator: Any, chunks: Chunks, y: Any) -> tuple[list[Any], Any]:
    """Return the rows of chunks as blocks in a temporary file, and their labels."""
    labels, shapes = list[Any](), list[tuple[bool, tuple[int, int]]]()
    with Scratch() as scratch:
        for X, chunk_y in chunks:
            require_one_source_of_labels(y, chunk_y)
            block, chunk_y = checked(X, chunk_y)
            if sp.issparse(block):
                block = one_per_place(block)  # added in the precision in which they came
            named = X if hasattr(X, "columns") else block
            require_same_columns(estimator, named, first=not shapes)
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
    return blocks, checked_labels(all_labels(labels) if y is None else y)


def require_one_source_of_labels(y: Any, chunk_y: Any) -> None:
    """Raise ValueError unless labels come either with the chunks or beside them."""
    if (y is None) == (chunk_y is None):
        raise ValueError(
            "there are no labels: chunks must be pairs (X, y), or y has to be given to fit"
            if y is None
            else "labels came both with the chunks and as y: leave one of them out"
        )


def require_same_columns(estimator: Any, X: Any, *, first: bool) -> None:
    """Take the columns of the first chunk for those of the fit; raise ValueError if another has others."""
    try:
        validate_data(estimator, X, reset=first, skip_check_array=True)
    except ValueError as error:
        raise ValueError(f"chunks must have the same columns: {without_values('X', str(error))}") from None


def _in_single_if_exact(array: Any) -> Any:
    if array.dtype != np.float64:
        return array
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    return single if np.array_equal(single, array) else array


def dask_table(estimator: Any, X: Any, y: Any, classes: Any) -> DaskTable:
    """Return the rows of a Dask array or DataFrame, checked where they are."""
    require_dask()
    require_table(X)
    require_numbers(X)
    if y is None:
        validate_data(estimator, np.zeros((0, 1)), y, skip_check_array=True)  # raises
    quietly("X", validate_data, estimator, columns_of(X), skip_check_array=True)
    table = DaskTable(X, y, checked, classes)
    at_least(2, table.facts.n_rows, "sample")
    return table


def require_dask() -> None:
    """Raise ImportError if Dask is not there."""
    try:
        import dask  # noqa: F401
    except ImportError:
        raise ImportError('X is a Dask collection, but Dask is not installed: pip install "dpsk[dask]"') from None


def require_one_per_row(name: str, n: int, n_rows: int) -> None:
    """Raise ValueError unless there are as many entries as rows."""
    if n != n_rows:
        raise ValueError(f"{name} has {n} entries, but X has {n_rows} rows: give one per row, in their order")


def sample_weights(given: Any, n_rows: int) -> Floats | None:
    """Return the weight of each row, None if there are none. A number is the weight of all rows.

    A weight below 0 counts as 0: an error would tell of a row.
    """
    if given is None:
        return None
    if isinstance(given, Real):
        given = np.full(n_rows, float(given))
    if not is_dask(given):
        parts = [_weights(given)]
    elif getattr(given, "ndim", None) != 1 or not hasattr(given, "to_delayed"):
        raise ValueError("sample_weight must be a Dask array or Series with one dimension, of one entry per row")
    else:
        _weights(getattr(given, "_meta", given))  # or its error, which follows from the type
        parts = per_block(_weights, given)
    weights = np.concatenate(parts)
    require_one_per_row("sample_weight", len(weights), n_rows)
    if not np.isfinite(weights).all():
        raise ValueError(
            "sample_weight contains NaN or infinity. Every weight has to be finite, which is public: drop such rows, "
            "or give them a constant that is not taken from the data"
        )
    return np.maximum(weights, 0.0)


def _weights(given: Any) -> Floats:
    """Return weights as floats; NaN where one is missing or infinite."""
    given = quietly("sample_weight", np.asarray, given) if isinstance(given, list | tuple) else given
    column = Column("sample_weight", given)
    if column.form not in ("number", "bool"):
        raise ValueError(f"sample_weight is of type {column.type_name}, but numbers are needed: turn it into floats")
    entries = column.entries()
    weights = entries.numbers()
    if isinstance(entries, Numbers):  # numbers() cuts the largest ones
        weights[~np.isfinite(entries.values)] = np.nan
    return weights
