"""Frames of any library, seen as columns: their public names and forms, and the entries of some rows.

The form of a column follows from its type alone: ``"number"``, ``"bool"``, ``"text"`` (objects and categories, too),
``"moment"`` (dates), ``"span"`` (lengths of time and times of day), or None for what cannot be read. Frames of pandas
are read by pandas itself, tables of pyarrow by pyarrow, and others through narwhals.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .entries import Distinct, Entries, Moments, Numbers, days, distinct, hours, microseconds, of_codes, of_unit, plain
from .sparse import one_per_place

_FORMS = {"b": "bool", "i": "number", "u": "number", "f": "number", "M": "moment", "m": "span"}
_FORMS |= {"O": "text", "U": "text"}
_NAMELESS = {"U": "text", "S": "bytes", "V": "void"}  # types whose names tell how long the longest entry is
_BEYOND_NUMPY = ("Decimal", "Int128", "UInt128")  # types of numbers that NumPy does not have


class Frame(ABC):
    """A table of rows and columns. ``names`` is None where columns have none, ``typed`` whether they have types."""

    names: tuple[Any, ...] | None = None
    typed = True
    shape: tuple[int, int]

    @abstractmethod
    def form(self, column: int) -> tuple[str | None, str]:
        """Return the form of a column, and what its type is called."""

    @abstractmethod
    def rows(self, rows: slice) -> Frame:
        """Return some rows."""

    @abstractmethod
    def entries(self, column: int) -> Entries:
        """Return the entries of a column."""


def frame_of(X: Any) -> Frame:
    """Return a table in memory as a frame; raise ValueError or TypeError for what is none."""
    if sp.issparse(X):
        return _Sparse(X)
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return _Pandas(X)
    if pyarrow is not None and isinstance(X, pyarrow.Table):
        return _Arrow(X)
    if isinstance(X, np.ndarray) or (hasattr(X, "__array__") and not hasattr(type(X), "columns")):
        return _Array(X)
    if isinstance(X, list | tuple):
        return _List(X)
    return _of_narwhals(X)


def _of_narwhals(X: Any) -> Frame:
    if not hasattr(type(X), "columns"):
        raise TypeError(f"X is of type {type(X).__name__}, but a DataFrame or an array with rows and columns is needed")
    try:
        import narwhals
    except ImportError:
        raise ImportError(
            f"X is of type {type(X).__name__}, which is read with narwhals: pip install narwhals, or give a DataFrame "
            "of pandas"
        ) from None
    try:
        return _Narwhals(narwhals.from_native(X, eager_only=True))
    except TypeError:
        pass
    raise TypeError(
        f"X is of type {type(X).__name__}, which is no DataFrame in memory: call collect() or the like first, or give "
        "dpsk.Chunks"
    )


class Column:
    """One column in memory that came without its table; ``name`` is what errors call it.

    It raises ValueError for what is no column. Entries of a list are objects: NumPy would read a type off them.
    """

    def __init__(self, name: str, values: Any) -> None:
        self.name, self._values = name, _column(name, values)
        pyarrow = sys.modules.get("pyarrow")
        if pyarrow is not None and isinstance(self._values, pyarrow.Array | pyarrow.ChunkedArray):
            frame = frame_of(pyarrow.table({name: self._values}))
        elif isinstance(self._values, np.ndarray):
            _require_one(name, self._values.shape)
            frame = frame_of(self._values.reshape(-1, 1))
        else:
            frame = frame_of(self._values.to_frame())
        if frame.shape[1] != 1:  # an index of several levels
            _require_one(name, frame.shape)
        self._frame = frame
        self.form, self.type_name = frame.form(0)
        self.of_bytes = self.form is None and any(word in self.type_name.lower() for word in ("bytes", "binary"))

    def entries(self) -> Entries:
        """Return the entries; all are missing if the form is None."""
        return self._frame.entries(0)

    def objects(self) -> list[Any]:
        """Return the entries as objects of Python."""
        ways = ("to_pylist", "to_list", "tolist")
        found: list[Any] = next(getattr(self._values, way) for way in ways if hasattr(self._values, way))()
        return found


def _column(name: str, values: Any) -> Any:
    """Return a column as an array of NumPy or of pyarrow, or as a Series."""
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(values, pandas.api.extensions.ExtensionArray):
        return pandas.Series(values)
    if hasattr(type(values), "to_frame") or (
        pyarrow is not None and isinstance(values, pyarrow.Array | pyarrow.ChunkedArray)
    ):
        return values
    if isinstance(values, np.ndarray) and hasattr(values, "filled") and values.ndim == 1:
        values = _of_masked(values)
    if isinstance(values, list | tuple):
        filled = np.empty(len(values), dtype=object)
        for place, entry in enumerate(values):
            filled[place] = entry
        return filled
    if not hasattr(values, "__array__") or hasattr(type(values), "columns") or sp.issparse(values):
        raise ValueError(f"{name} is of type {type(values).__name__}, but one entry per row is needed: give an array")
    values = np.asarray(values)
    return values.astype(object) if values.dtype.kind == "T" else values


def _of_masked(values: Any) -> Any:
    """Return the entries of a masked array. What is masked is missing."""
    if values.dtype.kind not in "fMm":
        return values.tolist()
    filled = np.array(values.data)  # in a list floats would lose their type, and dates of nanoseconds become integers
    filled[values.mask] = np.nan if values.dtype.kind == "f" else "NaT"
    return filled


def _require_one(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise ValueError(f"{name} has the shape {shape}, but one entry per row is needed: give one column")


class _Array(Frame):
    def __init__(self, X: Any) -> None:
        self._X = X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {X.ndim}D array instead. Reshape your data to (n_samples, n_features). For "
                "one column of a DataFrame write frame[['age']]; turn a list of dicts into a DataFrame"
            )
        self.shape = X.shape

    def form(self, column: int) -> tuple[str | None, str]:
        dtype = self._X.dtype
        return _FORMS.get(dtype.kind), _NAMELESS.get(dtype.kind, dtype.name)

    def rows(self, rows: slice) -> Frame:
        return _Array(self._X[rows])

    def entries(self, column: int) -> Entries:
        return _of_array(self._X[:, column])


class _List(_Array):
    """Rows in a list, which says nothing of types: NumPy would read them off the rows.

    Each entry is one entry, whatever it holds. NumPy would look into entries that are lists, if all of them are.
    """

    typed = False

    def __init__(self, X: Any) -> None:
        lengths = {_length(row) for row in X}
        width = lengths.pop() if len(lengths) == 1 else None
        filled = np.empty(len(X) if width is None else (len(X), width), dtype=object)
        if width is not None:
            flat = filled.reshape(-1)
            for place, entry in enumerate(chain.from_iterable(X)):
                flat[place] = entry
        super().__init__(filled)


def _length(row: Any) -> int | None:
    """Return how many entries a row has; None for what is no row."""
    if isinstance(row, str | bytes) or not (isinstance(row, Sequence) or getattr(row, "ndim", 0) == 1):
        return None
    return len(row)


def _of_array(values: NDArray[Any]) -> Entries:
    kind = values.dtype.kind
    if kind in "biuf":
        return Numbers(values)
    if kind in "Mm":
        moments = microseconds(values)
        return moments if kind == "M" else days(moments)
    return distinct(values.tolist() if kind in "OU" else [None] * len(values))


class _Sparse(Frame):
    def __init__(self, X: Any) -> None:
        if len(X.shape) != 2:
            raise ValueError(f"Expected 2-dimensional sparse data, got {len(X.shape)} dimensions")
        self._X, self.shape = one_per_place(X), X.shape

    @cached_property
    def _by_column(self) -> Any:
        return self._X.tocsc()

    def form(self, column: int) -> tuple[str | None, str]:
        return _FORMS.get(self._X.dtype.kind), self._X.dtype.name

    def rows(self, rows: slice) -> Frame:
        return _Sparse(self._X[rows])

    def entries(self, column: int) -> Entries:
        return _of_array(self._by_column[:, [column]].toarray()[:, 0])


class _Pandas(Frame):
    def __init__(self, X: Any) -> None:
        self._X, self.names, self.shape = X, tuple(X.columns), X.shape

    @cached_property
    def _dtypes(self) -> list[Any]:
        return list(self._X.dtypes)

    def form(self, column: int) -> tuple[str | None, str]:
        dtype = self._dtypes[column]
        name = str(dtype.name)  # str(dtype) may list categories
        if hasattr(dtype, "pyarrow_dtype"):
            return _arrow_form(dtype.pyarrow_dtype), name
        if isinstance(dtype, np.dtype) or dtype.kind != "O":
            return _FORMS.get(dtype.kind), name
        return ("text" if _is_category(dtype) or _is_string(dtype) else None), name

    def rows(self, rows: slice) -> Frame:
        return _Pandas(self._X.iloc[rows])

    def entries(self, column: int) -> Entries:
        return _of_series(self._X.iloc[:, column])


def _is_category(dtype: Any) -> bool:
    return str(dtype.name) == "category"


def _is_string(dtype: Any) -> bool:
    return str(dtype.name) in ("string", "str")


def _of_series(series: Any) -> Entries:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _of_array(series.to_numpy())
    if hasattr(dtype, "pyarrow_dtype"):
        return _of_arrow(series.array.__arrow_array__())
    if _is_category(dtype):
        return of_codes(series.cat.codes.to_numpy(), series.cat.categories)
    if _is_string(dtype) and str(getattr(dtype, "storage", "")).startswith("pyarrow"):
        return _of_arrow(series.array.__arrow_array__())
    if _is_string(dtype):
        codes, values = series.array.factorize()
        return Distinct(codes, list(map(plain, values.tolist())))  # type: ignore[arg-type]
    if dtype.kind == "M":  # with a zone
        naive = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return microseconds(naive.to_numpy(), aware=True)
    if dtype.kind in "biuf" and hasattr(dtype, "numpy_dtype"):  # nullable
        return Numbers(series.to_numpy(dtype.numpy_dtype, na_value=0), series.isna().to_numpy())
    return _of_array(np.asarray(series))


class _Arrow(Frame):
    def __init__(self, X: Any) -> None:
        self._X, self.names, self.shape = X, tuple(X.column_names), X.shape

    def form(self, column: int) -> tuple[str | None, str]:
        kind = self._X.schema.types[column]
        return _arrow_form(kind), str(kind).split("<")[0]

    def rows(self, rows: slice) -> Frame:
        start, stop, _ = rows.indices(self.shape[0])
        return _Arrow(self._X.slice(start, stop - start))

    def entries(self, column: int) -> Entries:
        return _of_arrow(self._X.column(column))


def _arrow_form(kind: Any) -> str | None:
    from pyarrow import types

    forms = {
        "bool": types.is_boolean,
        "number": lambda kind: types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind),
        "moment": lambda kind: types.is_timestamp(kind) or types.is_date(kind),
        "span": lambda kind: types.is_duration(kind) or types.is_time(kind),
        "text": lambda kind: _is_arrow_text(kind) or types.is_null(kind),
    }
    if types.is_dictionary(kind):
        return None if _arrow_form(kind.value_type) is None else "text"
    found = [form for form, holds in forms.items() if holds(kind)]
    return found[0] if found else None


def _is_arrow_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _of_arrow(array: Any) -> Entries:
    """Return the entries of an array, in one piece or in several, of pyarrow."""
    import pyarrow as pa

    types = pa.types
    if _arrow_form(array.type) is None:
        return distinct([None] * len(array))
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    kind, form = array.type, _arrow_form(array.type)
    if form == "text":
        return _of_arrow_text(array)
    if types.is_decimal(kind):
        return distinct(array.to_pylist())
    if form in ("moment", "span"):
        array = array.cast(pa.int32()) if types.is_date32(kind) or types.is_time32(kind) else array
        array = array.cast(pa.int64())
    elif form == "bool":
        array = array.cast(pa.uint8())
    missing, values = np.asarray(array.is_null()), np.asarray(array.fill_null(0))
    if form in ("bool", "number"):
        return Numbers(values, missing)
    unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
    moments = of_unit(values, missing, unit, aware=getattr(kind, "tz", None) is not None)
    return moments if form == "moment" else _spans(moments, types.is_duration(kind))


def _spans(moments: Moments, durations: bool) -> Numbers:
    return days(moments) if durations else hours(moments)


def _of_arrow_text(array: Any) -> Entries:
    import pyarrow as pa

    # as bytes, because pyarrow does not make sure that they are text, and raises where a file holds others
    coded = array.cast(pa.large_binary())
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    coded = coded.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return of_codes(codes, list(map(_decoded, coded.dictionary.to_pylist())))


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


class _Narwhals(Frame):
    def __init__(self, X: Any) -> None:
        self._X, self.names, self.shape = X, tuple(X.columns), X.shape

    def form(self, column: int) -> tuple[str | None, str]:
        series = self._X[:, column]
        form, name = _narwhals_form(series.dtype), type(series.dtype).__name__
        empty = str(getattr(series.to_native(), "dtype", "")) == "Null"  # a column of polars that holds nothing
        return ("text" if empty else form), name

    def rows(self, rows: slice) -> Frame:
        return _Narwhals(self._X[rows])

    def entries(self, column: int) -> Entries:
        return _of_narwhals_series(self._X[:, column])


def _narwhals_form(dtype: Any) -> str | None:
    import narwhals as nw

    if dtype.is_numeric():
        return "number"
    forms = {
        "bool": (nw.Boolean,),
        "moment": (nw.Datetime, nw.Date),
        "span": (nw.Duration, nw.Time),
        "text": (nw.String, nw.Categorical, nw.Enum, nw.Object),
    }
    for form, kinds in forms.items():
        if isinstance(dtype, kinds):
            return form
    return None


def _of_narwhals_series(series: Any) -> Entries:
    import narwhals as nw

    dtype = series.dtype
    form = _narwhals_form(dtype)
    if form == "text" or type(dtype).__name__ in _BEYOND_NUMPY:
        if isinstance(dtype, nw.Categorical | nw.Enum):
            series = series.cast(nw.String)
        return distinct(series.to_list())
    if form is None:
        return distinct([None] * len(series))
    missing = series.is_null().to_numpy()
    if form in ("bool", "number"):
        if missing.any():
            series = series.fill_null(False if form == "bool" else 0)
        return Numbers(series.to_numpy(), missing)
    values = series.cast(nw.Int64).fill_null(0).to_numpy()
    unit = "D" if isinstance(dtype, nw.Date) else "ns" if isinstance(dtype, nw.Time) else dtype.time_unit
    moments = of_unit(values, missing, unit, aware=getattr(dtype, "time_zone", None) is not None)
    return moments if form == "moment" else _spans(moments, isinstance(dtype, nw.Duration))
