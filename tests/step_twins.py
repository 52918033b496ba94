"""Twins for steps of pipelines: a step is fitted on rows, and on the same with an extreme one in place of one."""

import types
import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import scipy.sparse as sp

from dpsk.pipelines.in_front import n_rows_of, rows_of, transformed

N, PLACE = 40, 7


@dataclass
class Rows:
    """A table, its labels, and the rows that take the place of one of it."""

    X: object
    twins: dict
    y: np.ndarray = field(default_factory=lambda: np.arange(N) % 3 % 2)

    def with_row(self, row):
        if isinstance(self.X, pd.DataFrame):
            X = self.X.copy()
            for k, value in enumerate(row):
                X.iloc[PLACE, k] = value
            return X
        if sp.issparse(self.X):
            dense = self.X.toarray()
            dense[PLACE] = row
            return sp.csr_matrix(dense)
        X = self.X.copy()
        X[PLACE : PLACE + 1] = [row] if X.ndim > 1 else _one(row)
        return X


def _one(entry):
    """Return an array of one object, which may be a list."""
    array = np.empty(1, dtype=object)
    array[0] = entry
    return array


def numbers():
    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(0.1, 3.0, (N, 3)), 2)
    return Rows(X, number_rows(3))


def number_rows(d):
    return {
        "huge": [1e300] * d,
        "both signs": [(-1.0) ** k * 1e150 for k in range(d)],
        "tiny": [5e-324] * d,
        "zeros": [0.0] * d,
        "negative": [-1.0] * d,
        "equal": [1.0] * d,
        "another": [2.5, 0.2, 1.7, *[0.3] * (d - 3)],
        "infinite": [np.inf] * d,
        "missing": [np.nan] * d,
        "one missing": [1.0, *[np.nan] * (d - 2), 1.0],
    }


def gaps():
    """The row that is replaced has the only gap of column 2, and the only value of column 1."""
    X = numbers().X
    X[3, 0] = np.nan
    X[:, 1] = np.nan
    X[PLACE, 1], X[PLACE, 2] = 1.5, np.nan
    return Rows(X, number_rows(3))


def whole():
    """As numbers, in whole steps, as a frame: hours of a day."""
    X = pd.DataFrame({"a": np.arange(N) % 24, "b": np.arange(N) % 7, "c": np.arange(N) % 5})
    return Rows(X, {"huge": [10**9] * 3, "zeros": [0] * 3, "negative": [-5] * 3, "other": [3, 1, 4]})


def frame():
    """Numbers as a frame."""
    of = numbers()
    return Rows(pd.DataFrame(of.X, columns=["a", "b", "c"]), of.twins)


def sparse():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (N, 5)) * (rng.random((N, 5)) < 0.4)
    rows = {"zeros": [0] * 5, "full": [3, 1, 2, 1, 3], "huge": [1e300] * 5, "negative": [-1] * 5}
    return Rows(sp.csr_matrix(X, dtype=float), rows)


WORDS = [["blue", "green", "red"], ["large", "small"]]


def words():
    X = pd.DataFrame({"colour": ["red", "blue", "green", "red"] * 10, "size": ["small", "large"] * 20}, dtype=object)
    X.iloc[PLACE] = ["rare", "small"]
    return Rows(X, word_rows())


def constant():
    """A column that is constant but for one row."""
    X = frame().X.assign(b=1.0)
    return Rows(X, {"other": [1.0, 2.0, 1.0]})


def known():
    """Words that all stand in the lists."""
    rows = words()
    rows.X.iloc[PLACE] = ["red", "small"]
    return rows


def dense_words():
    """Words of which a quarter is in no list, so that 60 of 200 entries are not zero."""
    X = pd.DataFrame(
        {"colour": ["red", "blue", "green", "?"] * 10, "size": ["small", "large", "small", "?"] * 10}, dtype=object
    )
    X.iloc[[PLACE, 8]] = [["red", "small"], ["?", "?"]]
    return Rows(X, word_rows())


def objects():
    """Numbers in columns of any objects."""
    X = frame().X.assign(b=np.arange(N)).astype({"b": object})
    return Rows(X, {"text": [1.0, "b", 1.0], "number": [1.0] * 3})


def square():
    """A kernel of as many rows as columns."""
    X = numbers().X
    return Rows(X @ X.T, {"another": [1.0] * N})


def word_rows():
    return {
        "unknown": ["a colour nobody knows", "huge"],
        "None": [None, None],
        "missing": [np.nan, np.nan],
        "empty": ["", ""],
        "a common one": ["blue", "small"],
        "numbers": [3, 4.5],
    }


def mixed():
    X = pd.concat([frame().X, words().X], axis=1)
    rows = {f"{a}, {b}": [*number, *word] for a, number in number_rows(3).items() for b, word in word_rows().items()}
    some = {name: row for k, (name, row) in enumerate(rows.items()) if k % 7 == 0}
    return Rows(X, some)


def labels():
    return Rows(np.array(["a", "b"] * 20, dtype=object), {"unknown": "z", "other": "a"}, None)


def label_sets():
    X = np.empty(N, dtype=object)
    X[:] = [("a",), ("b", "a")] * 20
    return Rows(X, {"unknown": ("z",), "other": ("a", "b")}, None)


def texts():
    X = np.array(["the cat sat", "a dog and a cat", "birds sing a song", "the dog sat"] * 10, dtype=object)
    X[PLACE] = "one secret word"
    return Rows(X, {"other": "nothing known here", "empty": "", "known": "the cat", "long": "cat " * 500, "None": None})


def text_column():
    return Rows(pd.DataFrame({"text": texts().X}), {name: [row] for name, row in texts().twins.items()})


def dicts():
    X = np.array([{"a": 1.0, "b": 2.0}, {"a": 3.0}] * 20, dtype=object)
    X[PLACE] = {"secret": 5.0}
    return Rows(X, {"other": {"z": 1.0, "a": 2.0}, "empty": {}, "huge": {"a": 1e300}, "text": {"a": "b"}})


def days():
    X = pd.DataFrame({"day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), unit="D")})
    return Rows(
        X, {"noon": [pd.Timestamp("2024-01-05 13:37:11")], "old": [pd.Timestamp("1901-01-01")], "none": [pd.NaT]}
    )


def day_texts():
    X = pd.DataFrame({"day": [f"2024-01-{1 + k % 28:02d}" for k in range(N)]})
    return Rows(X, {"no day": ["a day nobody knows"], "none": [None]})


def nullable():
    X = pd.DataFrame({"a": pd.array(range(N), dtype="Int64"), "b": pd.array(np.arange(N) / 2, dtype="Float64")})
    return Rows(X, {"none": [pd.NA, pd.NA], "one": [pd.NA, 1.0], "huge": [10**12, 1e300]})


def truths():
    X = pd.DataFrame({"a": pd.array([True, False] * 20, dtype="boolean")})
    return Rows(X, {"none": [pd.NA], "other": [True]})


def categories():
    colours = pd.Categorical(["red", "blue"] * 20, categories=["red", "blue", "rare"])
    X = pd.DataFrame({"a": colours, "b": pd.Categorical(["small", "large"] * 20)})
    return Rows(X, {"missing": [np.nan, np.nan], "rare": ["rare", "small"], "other": ["blue", "small"]})


def strings():
    X = pd.DataFrame({"a": ["red", "blue"] * 20, "b": ["small", "large"] * 20}).astype("string")
    return Rows(X, {"none": [pd.NA, pd.NA], "long": ["a colour nobody knows", "small"]})


def halves():
    X = numbers().X.astype(np.float32)
    return Rows(X, {"huge": [3e38] * 3, "tiny": [1e-45] * 3, "missing": [np.nan] * 3, "zeros": [0] * 3})


def bytes_():
    X = (np.arange(N * 3) % 50).reshape(N, 3).astype(np.uint8)
    return Rows(X, {"huge": [255] * 3, "zeros": [0] * 3})


TYPES = (nullable, truths, categories, strings, halves, bytes_, objects, words, gaps, sparse, frame)
"""Rows of many types of columns."""

KINDS = {
    one.__name__.replace("_", " "): one
    for one in (
        numbers, gaps, whole, frame, sparse, words, mixed, labels, label_sets, constant, known, dense_words,
        objects, square, texts, text_column, dicts, days, day_texts,
    )
}  # fmt: skip


def fingerprint(thing, above=()):
    """Return what an object holds as plain tuples, to compare."""
    if id(thing) in above:
        return "again"
    above = (*above, id(thing))
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if sp.issparse(thing):
        return kind, thing.shape, *(fingerprint(part, above) for part in _packed(thing))
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return kind, str(thing.dtype), thing.shape, thing.tobytes()
    if isinstance(thing, pd.DataFrame | pd.Series | pd.Index):
        columns = [thing[name] for name in thing] if isinstance(thing, pd.DataFrame) else [thing]
        return kind, tuple((type_of(c.dtype), fingerprint(list(c), above)) for c in columns)
    if isinstance(thing, dict):
        return kind, tuple((repr(key), fingerprint(value, above)) for key, value in thing.items())
    if isinstance(thing, list | tuple | np.ndarray):
        return kind, tuple(fingerprint(entry, above) for entry in thing)
    if isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | np.ufunc | types.ModuleType):
        return kind, getattr(thing, "__qualname__", str(thing))
    if isinstance(thing, np.random.RandomState):
        return kind
    state = getattr(thing, "__dict__", None)
    if state is None and hasattr(thing, "__getstate__"):
        state = thing.__getstate__()
    return kind, (repr(thing) if not state else fingerprint(state, above))


def _packed(matrix):
    return (matrix.data, matrix.indices, matrix.indptr) if hasattr(matrix, "indptr") else (matrix.tocoo().data,)


@dataclass
class Seen:
    """What a step shows of the rows it is fitted on: what each of these holds must not depend on any row."""

    error: object = None
    warned: tuple = ()
    state: object = None
    form: object = None
    others: object = None


def type_of(dtype):
    """Return a type as text, with the categories where there are some."""
    return f"{dtype} {list(getattr(dtype, 'categories', ()))}"


def form_of(made):
    """Return type, width, dtype and storage of a table."""
    dtypes = tuple(map(type_of, made.dtypes)) if isinstance(made, pd.DataFrame) else str(getattr(made, "dtype", ""))
    names = tuple(map(str, made.columns)) if isinstance(made, pd.DataFrame) else ()
    small = tuple(str(part.dtype) for part in _packed(made)) if sp.issparse(made) else ()
    return type(made).__name__, np.shape(made), dtypes, names, getattr(made, "format", ""), small


def seen(make, X, y, place=PLACE):
    """Return what a new step shows when it is fitted on rows and transforms them."""
    shown = Seen()
    step = make()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        np.random.seed(0)  # noqa: NPY002 - steps without a seed draw from here
        try:
            if hasattr(step, "fit_transform") and not hasattr(step, "transform"):
                made = step.fit_transform(X, y)
            else:
                step.fit(X) if y is None else step.fit(X, y)
                made = step.transform(X) if hasattr(step, "transform") else None
        except Exception as error:
            shown.error = (type(error).__name__, str(error))
            made = None
    quiet = ("encountered in", "overflow")  # NumPy on the entries of this row
    shown.warned = tuple(str(one.message) for one in warned if not any(word in str(one.message) for word in quiet))
    shown.state = fingerprint(step)
    if made is not None:
        shown.form = form_of(made)
        if n_rows_of(made) == n_rows_of(X):
            shown.others = fingerprint(_others(made, place))
    return shown


def _others(made, place):
    kept = np.delete(np.arange(n_rows_of(made)), place)
    return rows_of(made, kept) if not isinstance(made, list) else [made[k] for k in kept]


def alone_is_refused(make, X, y):
    """Return whether the row in the place is refused by itself."""
    return (
        seen(make, rows_of(X, slice(PLACE, PLACE + 1)), None if y is None else y[PLACE : PLACE + 1], 0).error
        is not None
    )


def compare(make, rows):
    """Yield (twin, channel) for everything that one row moves; an error of a row that is refused alone is not there."""
    plain = seen(make, rows.X, rows.y)
    for name, row in rows.twins.items():
        X = rows.with_row(row)
        twin = seen(make, X, rows.y)
        for channel in ("warned", "error", "state", "form", "others"):
            if getattr(plain, channel) != getattr(twin, channel):
                if twin.error and plain.error is None and alone_is_refused(make, X, rows.y):
                    yield name, "refused alone"
                    break
                yield name, channel


def compare_in_private(make, rows):
    """As compare, for steps inside a private pipeline: refused rows become zeros, and nothing is shown.

    It is public that some row is accepted, and that refused rows hold no NaN: data for which this fails are left out.
    """

    def work(X):
        step = make()

        def fit_transform(some, y):
            np.random.seed(0)  # noqa: NPY002
            return step.fit_transform(some, y) if hasattr(step, "fit_transform") else step.fit(some, y).transform(some)

        try:
            made = transformed(fit_transform, X, rows.y)
        except ValueError as error:
            return str(error)[:40]
        return fingerprint(step), form_of(made), fingerprint(_others(made, PLACE))

    plain = work(rows.X)
    for name, row in rows.twins.items():
        twin = work(rows.with_row(row))
        if not isinstance(plain, str) and not isinstance(twin, str) and plain != twin:
            yield name, "in private"
