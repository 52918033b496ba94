"""Raw tables: one content gives the same bits from every library and storage, and rows influence nothing but values."""

import sys
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from types import SimpleNamespace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

import dpsk.data.schema
from dpsk import Categories, Chunks, Date, Number, Text
from dpsk.data import RowMap, Unknown, UnknownFact, schema_of
from dpsk.data.fields import Bags, FrameChunk, Listed, Named, Quantity
from dpsk.data.frame_tables import in_memory, on_disk
from dpsk.estimators.opening import open_table
from dpsk.estimators.raw_tables import raw_blocks

pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

N = 60
LOCAL = [datetime(2020, 1, 1) + timedelta(days=11 * k, microseconds=k) for k in range(N)]
CONTENT = {
    "whole": list(range(N)),
    "big": [2**60 + k for k in range(N)],
    "real": [k / 7 - 3 for k in range(N)],
    "flag": [k % 3 == 0 for k in range(N)],
    "word": [["red", "green", "blue", "été"][k % 4] for k in range(N)],
    "text": [f"{k} words, and {k % 5} more" for k in range(N)],
    "seen": LOCAL,
    "zoned": [moment.replace(tzinfo=UTC) for moment in LOCAL],
    "day": [moment.date() for moment in LOCAL],
    "span": [timedelta(hours=k, microseconds=k) for k in range(N)],
    "time": [time(k % 24, k % 60, 0, k) for k in range(N)],
    "money": [Decimal(k) / 100 for k in range(N)],
}
COLUMNS = {
    "whole": Number(), "big": Categories(), "real": Number(), "flag": Categories([False, True]), "word": Categories(),
    "text": Text(64), "seen": Date(parts=("time", "month", "weekday", "hour")), "zoned": Date(), "day": Date(),
    "span": Number(), "time": Number(), "money": Number(),
}  # fmt: skip


def with_gaps(content):
    every = enumerate(content.items())
    return {name: [None if k % 7 == j % 7 else v for k, v in enumerate(values)] for j, (name, values) in every}


def pandas_of(content, **dtypes):
    return pd.DataFrame({name: pd.Series(values, dtype=dtypes.get(name, object)) for name, values in content.items()})


def arrow_type(kind):
    return pd.ArrowDtype(kind)


NULLABLE = {
    "whole": "Int64", "big": "Int64", "real": "Float64", "flag": "boolean", "word": "string", "text": "string",
    "seen": "datetime64[us]", "zoned": "datetime64[ns, UTC]", "span": "timedelta64[us]",
}  # fmt: skip
FRAMES = {
    "objects": pandas_of,
    "nullable": lambda c: pandas_of(c, **NULLABLE),
    "nanoseconds": lambda c: pandas_of(c, **NULLABLE | {"seen": "datetime64[ns]", "span": "timedelta64[ns]"}),
    "categories": lambda c: pandas_of(c, **dict.fromkeys(["whole", "word", "text", "flag", "seen", "day"], "category")),
    "pandas on arrow": lambda c: pandas_of(
        c,
        whole=arrow_type(pa.int64()), big=arrow_type(pa.uint64()), real=arrow_type(pa.float64()),
        flag=arrow_type(pa.bool_()), word=arrow_type(pa.string()), text=arrow_type(pa.large_string()),
        seen=arrow_type(pa.timestamp("us")), zoned=arrow_type(pa.timestamp("ns", "Asia/Tokyo")),
        day=arrow_type(pa.date32()), span=arrow_type(pa.duration("us")), time=arrow_type(pa.time64("us")),
        money=arrow_type(pa.decimal128(10, 2)),
    ),
    "pyarrow": lambda c: pa.table(c),
    "dictionaries": lambda c: pa.table(c).set_column(4, "word", pa.array(c["word"]).dictionary_encode()),
    "polars": lambda c: pl.DataFrame(c),
    "polars categories": lambda c: pl.DataFrame(c).with_columns(
        pl.col("word").cast(pl.Categorical), pl.col("text").cast(pl.Enum(sorted({t for t in c["text"] if t}))),
        pl.col("seen").cast(pl.Datetime("ns")), pl.col("zoned").dt.convert_time_zone("Asia/Tokyo"),
    ),
    "array": lambda c: np.array([*zip(*c.values(), strict=True)], dtype=object),
}  # fmt: skip


def assert_same(first, second):
    assert first.fields == second.fields
    assert len(first) == len(second)
    for a, b, field in zip(first.values, second.values, first.fields, strict=True):
        if isinstance(a, Named):
            assert list(a.keys) == list(b.keys), field
            a, b = a.codes, b.codes
        if isinstance(a, Bags):
            assert np.array_equal(a.starts, b.starts), field
            a, b = a.buckets, b.buckets
        assert a.dtype == b.dtype, field
        assert a.tobytes() == b.tobytes(), field


def reading(frame, columns=COLUMNS):
    chunk = schema_of(frame, columns if hasattr(frame, "columns") else dict(enumerate(columns.values()))).read(frame)
    if not hasattr(frame, "columns"):
        names = dict(zip([f"x{k}" for k in range(len(CONTENT))], CONTENT, strict=True))
        parts = [field.name.split(".") for field in chunk.fields]
        renamed = [".".join([names[first], *rest]) for first, *rest in parts]
        fields = tuple(type(f)(**vars(f) | {"name": n}) for f, n in zip(chunk.fields, renamed, strict=True))
        chunk = FrameChunk(fields, chunk.values, chunk.n_rows)
    return chunk


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("library", FRAMES)
def test_one_content_gives_the_same_bits(library, gaps):
    content = with_gaps(CONTENT) if gaps else CONTENT
    read = reading(FRAMES[library](content))
    assert_same(reading(pandas_of(content)), read)
    values = dict(zip([field.name for field in read.fields], read.values, strict=True))
    there = [v is not None for v in content["real"]]
    assert np.isfinite(values["real"]).tolist() == there, "they are read, and not all missing alike"
    assert values["real"][there].tolist() == [v for v in content["real"] if v is not None]
    assert len(values["big"].keys) == sum(v is not None for v in content["big"])
    assert [values["word"].keys[k] for k in values["word"].codes if k >= 0] == [w for w in content["word"] if w]
    assert np.isfinite(values["zoned.time"]).sum() == sum(v is not None for v in content["zoned"])


def test_numpy_numbers_and_sparse_matrices():
    X = np.arange(12.0).reshape(4, 3) % 5
    X[1, 2] = np.nan
    first = schema_of(X).read(X)
    assert [field.name for field in first.fields] == ["x0", "x1", "x2"]
    assert np.array_equal(np.stack(first.values, axis=1), X, equal_nan=True)
    for other in (X.astype(np.float32), sp.csr_matrix(X), sp.coo_array(X), X.astype(object).astype(float)):
        assert_same(first, schema_of(other).read(other))


def test_a_list_of_kinds_follows_from_dtypes():
    frame = pl.DataFrame(CONTENT)
    kinds = dict(zip(CONTENT, schema_of(frame).kinds, strict=True))
    number, date_, found = Number(), Date(), Categories()
    assert kinds == {
        "whole": number, "big": number, "real": number, "flag": Categories([False, True]), "word": found, "text": found,
        "seen": date_, "zoned": date_, "day": date_, "span": number, "time": number, "money": number,
    }  # fmt: skip
    assert schema_of(pa.table(CONTENT)).kinds == schema_of(frame).kinds
    assert schema_of(FRAMES["pandas on arrow"](CONTENT)).kinds == schema_of(frame).kinds
    assert set(schema_of(pandas_of(CONTENT)).kinds) == {found}, "objects may be anything"
    assert schema_of(frame, {"flag": None}).kinds[3] is None
    assert "flag" not in {field.name for field in schema_of(frame, {"flag": None}).fields}


def test_rows_in_a_list_have_no_types():
    schema = schema_of([["1", 2], [3.5, "x"]])
    assert schema.kinds == (Number(), Number())
    assert np.array_equal(np.stack(schema.read([["1", 2], [3.5, "x"]]).values), [[1, 3.5], [2, np.nan]], equal_nan=True)
    assert schema_of([[1, "a"]], {"x1": Categories(["a"])}).kinds == (Number(), Categories(["a"]))
    X = np.random.default_rng(0).normal(size=(5, 2))
    assert_same(schema_of(X).read(X), schema_of(X.tolist()).read(X.tolist()))


def test_columns_that_hold_nothing():
    nothing = [None, None]
    for frame in (pd.DataFrame({"a": nothing}), pl.DataFrame({"a": nothing}), pa.table({"a": nothing})):
        schema = schema_of(frame)
        assert schema.kinds == (Categories(),)
        (named,) = schema.read(frame).values
        assert named.codes.tolist() == [-1, -1]
        assert list(named.keys) == []
    assert np.isnan(schema_of(frame, {"a": Number()}).read(frame).values[0]).all()


def test_types_that_are_rare():
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.5, np.nan])})
    wide = pl.DataFrame({"a": pl.Series([0, 2**100, None], dtype=pl.Int128)})
    pieces = pa.table({"a": pa.chunked_array([[0], [7, None]])})
    half = pd.DataFrame({"a": np.array([0, 0.5, np.nan], np.float16)})
    for frame, second in ((sparse, 1.5), (wide, 2.0**100), (pieces, 7), (half, 0.5)):
        (values,) = schema_of(frame).read(frame).values
        assert values.dtype == np.float64
        assert np.array_equal(values, [0, second, np.nan], equal_nan=True)
    (named,) = schema_of(wide, {"a": Categories()}).read(wide).values
    assert list(named.keys) == ["0", str(2**100)]


def test_a_pandas_category_lists_no_values():
    """Its list is not public: a value that does not occur leaves no trace."""
    frame = pd.DataFrame({"job": pd.Categorical(["b", "a", "b"], categories=["a", "b", "secret"])})
    (named,) = schema_of(frame).read(frame).values
    assert list(named.keys) == ["a", "b"]


TWINS = {
    "objects": (
        pandas_of,
        {"whole": "n/a", "real": [1], "word": {"a": 1}, "text": b"\xff", "seen": "soon", "day": 3.5},
    ),
    "numbers": (
        lambda c: pandas_of({"real": c["real"], "whole": c["whole"]}, real=float, whole="Int64"),
        {"real": np.inf, "whole": None},
    ),
    "polars": (pl.DataFrame, {"real": float("nan"), "word": None, "seen": datetime.max, "day": date.min}),
    "dates": (lambda c: pandas_of({"seen": c["seen"]}, seen="datetime64[s]"), {"seen": np.datetime64(2**60, "s")}),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_one_odd_row_changes_no_other(twin):
    make, odd = TWINS[twin]
    changed = {name: [odd.get(name, values[0]), *values[1:]] for name, values in CONTENT.items()}
    kinds = {name: kind for name, kind in COLUMNS.items() if name in make(CONTENT).columns}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one, other = (reading(make(content), kinds) for content in (CONTENT, changed))
    assert not caught
    rest = np.arange(1, N)
    assert_same(one.take(rest), other.take(rest))


def test_entries_of_a_list_are_not_looked_into():
    """Whether all entries are lists of one length, which one row may decide, has no say; nor has what they raise."""

    class Hostile:
        def __array__(self, *_, **__):
            raise RuntimeError("secret")

    for nested in ([1, 2], (1, 2), np.ones(2), Hostile()):
        for X in ([[nested, nested]] * 2, [[nested, nested], [1, nested]], [[nested, nested]]):
            first, second = schema_of(X).read(X).values
            assert np.isnan(second).all()
            assert first[-1] == 1 or np.isnan(first).all()
            assert len(first) == len(X)


INVALID = pa.Array.from_buffers(  # "a", and two bytes that are no text
    pa.string(), 2, [None, pa.array([0, 1, 3], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff\xfe")]
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table({"a": INVALID}),
        lambda: pa.table({"a": pa.chunked_array([INVALID, pa.array(["b"])])}),
        lambda: pa.table({"a": INVALID.dictionary_encode()}),
        lambda: pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(INVALID)}),
        lambda: pd.DataFrame({"a": pd.array(pa.chunked_array([INVALID]), dtype="string[pyarrow]")}),
    ],
)
def test_bytes_of_a_file_that_are_no_text_are_missing(make):
    """Pyarrow reads them from files as they are, and raises an error with these bytes where they are asked for."""
    X = make()
    (named,) = schema_of(X).read(X).values
    assert named.codes[:2].tolist() == [0, -1]
    assert named.keys[0] == "a"
    assert np.isnan(schema_of(X, {"a": Number()}).read(X).values[0]).all()


def test_errors_do_not_tell_how_long_the_longest_entry_is():
    said = set()
    for X in (np.array([[b"a"]]), np.array([[b"abc"]])):
        with pytest.raises(ValueError, match="column 'x0' is of type bytes, of which") as raised:
            schema_of(X)
        said.add(str(raised.value))
    assert len(said) == 1


def test_unreadable_entries_are_missing_in_silence():
    frame = pd.DataFrame({"n": ["1", "x", None], "d": ["2020-01-01", "never", "1"]})
    schema = schema_of(frame, {"n": Number(), "d": Date(parts=["month"])})
    n, month = schema.read(frame).values
    assert np.array_equal(n, [1, np.nan, np.nan], equal_nan=True)
    assert month.tolist() == [0, -1, -1]
    # types that the kinds cannot read, where types may not decide
    n, month = schema.read(pd.DataFrame({"n": pd.to_datetime(["2020-01-01"] * 2), "d": [1, 2]})).values
    assert np.isnan(n).all()
    assert (month == -1).all()


BAD = [
    (pd.DataFrame({"z": [1j]}), {}, r"column 'z' is of type complex128, .*not supported.*columns=\{'z': None\}"),
    (pl.DataFrame({"z": [[1, 2]]}), {}, "column 'z' is of type List, of which no kind"),
    (pl.DataFrame({"z": [{"a": 1}]}), {}, "column 'z' is of type Struct"),
    (pl.DataFrame({"z": [b"a"]}), {}, "column 'z' is of type Binary"),
    (pa.table({"z": [[1]]}), {}, "column 'z' is of type list"),
    (
        pa.table({"z": pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([b"a"]))}),
        {},
        "column 'z' is of type dictionary, of which no kind",
    ),
    (pd.DataFrame({"z": pd.interval_range(0, 3)}), {}, "column 'z' is of type interval"),
    (pd.DataFrame({"z": [1, 2]}), {"z": Date()}, "column 'z' is of type int64, which Date cannot read"),
    (pl.DataFrame({"z": [date.max]}), {"z": Number()}, "column 'z' is of type Date, which Number cannot read"),
    (pd.DataFrame({"age": []}), {"agee": Number()}, "columns names 'agee', which X does not have. Did you mean 'age'"),
    (pd.DataFrame({"age": [1]}), {"job": Number()}, "columns names 'job', which X does not have. X has 'age'."),
    (np.ones((2, 2)), {"x2": Number()}, "columns names 2, which X does not have"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "X has several columns with the name 'a': rename or drop them"),
    (
        pd.DataFrame({"s.month": [1], "s": pd.to_datetime(["2020"])}),
        {},
        "several columns of X would become 's.month': rename",
    ),
    (pd.DataFrame({"a": [1]}), {"a": None}, "columns leaves out every column of X"),
    (pd.DataFrame({"a": [1]}), {"a": Number}, r"columns\['a'\]=<class .*Number'> must be Number\(\), "),
    (pd.DataFrame({"a": [1]}), ["a"], r"columns=\['a'\] must be 'auto' or a dict"),
    (np.ones(3), {}, "Expected 2D array, got 1D array instead. Reshape your data"),
    (pd.Series([1.0]), {}, "Expected 2D array, got 1D"),
    ([[1, 2], [3]], {}, "Expected 2D array, got 1D array"),
    ([1, 2], {}, "Expected 2D array, got 1D array"),
    (np.ones((2, 2), complex), {}, "Complex data not supported"),
    (pl.LazyFrame({"a": [1]}), {}, r"X is of type LazyFrame, which is no DataFrame in memory: call collect\(\)"),
    ("text", {}, "X is of type str, but a DataFrame or an array"),
]


@pytest.mark.parametrize(("X", "columns", "message"), BAD)
def test_errors_follow_from_names_and_types(X, columns, message):
    with pytest.raises((ValueError, TypeError), match=message):
        schema_of(X, columns)


def test_pandas_needs_no_narwhals(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    for name in ("objects", "nullable", "pandas on arrow", "pyarrow", "array"):
        assert_same(reading(pandas_of(CONTENT)), reading(FRAMES[name](CONTENT)))
    with pytest.raises(ImportError, match="X is of type DataFrame, which is read with narwhals: pip install narwhals"):
        schema_of(pl.DataFrame({"a": [1]}))


# Tables


@dataclass(frozen=True)
class Indicators:
    """Features for tests: numbers and codes as they are, and how many words, or letters of a name, there are."""

    n_features: int

    def transform(self, chunk):
        columns = []
        for values in chunk.values:
            if isinstance(values, Named):
                values = np.array([*map(len, values.keys), 0])[values.codes]
            elif isinstance(values, Bags):
                values = np.diff(values.starts)
            columns.append(np.nan_to_num(values.astype(float)))
        return sp.csr_matrix(np.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class FeatureMap(RowMap):
    """A row map with features, as the tabular encoding has it."""

    features: object = None


class Tally(dict):
    """A sum of a kernel that is no array: how often each name occurs."""

    def __add__(self, other):
        return Tally({name: self.get(name, 0) + other.get(name, 0) for name in [*self, *other]})

    def __radd__(self, zero):
        assert zero == 0
        return self


class Names:
    """A kernel that counts names, as discovery does."""

    def __init__(self, position):
        self.position = position

    def __call__(self, chunk):
        named = chunk.values[self.position]
        return Tally(zip(named.keys, np.bincount(named.codes[named.codes >= 0]).tolist(), strict=True))


def gradient(chunk):
    return chunk.total(np.rint(chunk.y * 2.0**10))


class Estimator(BaseEstimator):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


Y = np.arange(N) % 3 == 1
HOW = FeatureMap(features=Indicators(19), data_norm=None)


def chunked(frame, cuts=(0, 7, 7, 40, N)):
    return Chunks(lambda: [(frame.iloc[a:b], Y[a:b]) for a, b in pairwise(cuts)])


def opened(X, y=Y, columns=COLUMNS):
    estimator = Estimator()
    asked = SimpleNamespace(classes=None, columns=columns, group_column=None)
    return open_table(estimator, X, y, asked), estimator


def on_dask(frame, n=4):
    return dd.from_pandas(frame, npartitions=n), dd.from_pandas(pd.Series(Y), npartitions=n)


STORAGES = {
    "memory": lambda frame: opened(frame),
    "chunks": lambda frame: opened(chunked(frame), None),
    "chunks of polars": lambda frame: opened(
        Chunks(lambda: [(pl.from_pandas(frame.iloc[:9]), Y[:9]), (frame.iloc[9:], Y[9:])]), None
    ),
    "Dask": lambda frame: opened(*on_dask(frame)),
}  # fmt: skip


@pytest.fixture
def frame():
    return FRAMES["pandas on arrow"](with_gaps(CONTENT))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("block", [7, 2**14])
def test_every_storage_has_the_same_rows(storage, block, frame, monkeypatch):
    monkeypatch.setattr(dpsk.data.schema, "ROWS_AT_A_TIME", block)
    first, _ = opened(frame)
    table, estimator = STORAGES[storage](frame)
    assert table.facts.schema.fields == first.facts.schema.fields
    assert (table.facts.n_rows, table.facts.n_features, table.facts.n_classes) == (N, 12, 2)
    assert table.facts.remote == (storage == "Dask")
    assert list(estimator.feature_names_in_) == list(CONTENT)
    assert estimator.n_features_in_ == 12

    raw, names = table.raw(), Names(4)
    assert (raw.n_rows, raw.n_features, raw.n_parameters) == (N, 12, 12)
    words = [word for word in with_gaps(CONTENT)["word"] if word]
    assert raw.total(names) == {word: words.count(word) for word in set(words)}

    rows, expected = table.rows(HOW), first.rows(HOW)
    assert (rows.n_rows, rows.n_parameters) == (N, 20)
    assert np.array_equal(rows.total(gradient), expected.total(gradient))
    some = np.array([3, 8, 41, 59])
    assert np.array_equal(rows.subset(some).total(gradient), expected.subset(some).total(gradient))
    assert raw.subset(np.arange(0, N, 2)).total(names) == first.raw().subset(np.arange(0, N, 2)).total(names)
    assert rows.total(gradient).any()


def test_rows_know_their_position(frame, monkeypatch):
    monkeypatch.setattr(dpsk.data.schema, "ROWS_AT_A_TIME", 7)
    for storage in ("memory", "chunks"):
        table, _ = STORAGES[storage](frame)
        chunks = list(table.rows(HOW)._chunks())
        assert [chunk.first for chunk in chunks] == np.cumsum([0, *map(len, chunks)])[:-1].tolist()
        assert np.array_equal(np.concatenate([chunk.y for chunk in chunks]), np.where(Y, 1, -1))


def test_what_is_kept_in_a_file_is_what_was_read(frame):
    schema = schema_of(frame, COLUMNS)
    kept = on_disk(schema, [frame.iloc[:20], frame.iloc[20:]])
    parts = [part.load() for part in kept.parts]
    assert_same(schema.read(frame), FrameChunk.joined(parts))
    assert_same(schema.read(frame.iloc[:20]), parts[0])
    some = FrameChunk.joined([parts[0].take(np.array([3])), kept.parts[1].take(np.array([5]))])
    assert_same(schema.read(frame.iloc[[3, 25]]), some)
    odd = pd.DataFrame({"a": pd.Series(["\ud800", "", "é", None], dtype=object)})
    (part,) = on_disk(schema_of(odd), [odd]).parts
    assert list(part.load().values[0].keys) == ["", "é", "\ud800"]


def test_taking_rows_leaves_no_name_behind(frame):
    chunk = schema_of(frame, COLUMNS).read(frame)
    rows = np.array([4, 8, 12, 13])
    assert_same(schema_of(frame, COLUMNS).read(frame.iloc[rows]), chunk.take(rows))
    assert_same(chunk, in_memory(schema_of(frame, COLUMNS), [frame]).parts[0])


def test_chunks_must_be_declared(frame):
    with pytest.raises(ValueError, match=r"columns has no kind for 'time', 'money'\. .*columns=\{'time': Number\(\)"):
        opened(chunked(frame), None, {name: kind for name, kind in COLUMNS.items() if name not in ("time", "money")})
    with pytest.raises(ValueError, match=r"columns has no kind for 'whole'.* and 7 more"):
        opened(chunked(frame), None, "auto")


def test_types_of_chunks_have_no_say():
    """One "n/a" makes text of a column: in this chunk only."""
    chunks = [pd.DataFrame({"n": [1, 2]}), pd.DataFrame({"n": ["3", "n/a"]}), pd.DataFrame({"n": [4.5, None]})]
    table, _ = opened(Chunks(lambda: chunks), [0, 1, 0, 1, 0, 1], {"n": Number()})
    values = np.concatenate([part.load().values[0] for part in table.raw()._parts()])
    assert np.array_equal(values, [1, 2, 3, np.nan, 4.5, np.nan], equal_nan=True)


@pytest.mark.parametrize("first", [[None, None], [np.nan, np.nan], [3, 4]])
def test_types_of_the_first_chunk_have_no_say_either(first):
    """Of a column of dates in which the first chunk has no date, the type may be any."""
    chunks = [pd.DataFrame({"seen": first}), pd.DataFrame({"seen": pd.to_datetime(["2020-02-03", None])})]
    table, _ = opened(Chunks(lambda: chunks), [0, 1, 0, 1], {"seen": Date(parts=("month",))})
    assert np.array_equal(np.concatenate([part.load().values[0] for part in table.raw()._parts()]), [-1, -1, 1, -1])


def test_kinds_of_dask_follow_from_its_declared_types(frame):
    X, y = on_dask(pd.DataFrame({"a": [1.0, 2] * 30, "b": ["u", "v"] * 30}))
    table, _ = opened(X, y, "auto")
    assert table.facts.schema.kinds == (Number(), Categories())
    array = X[["a"]].to_dask_array(lengths=True)
    table, _ = opened(array, Y, "auto")
    assert table.facts.schema.fields == (Quantity("x0", 0),)


def test_memory_mapped_arrays(tmp_path):
    X = np.random.default_rng(0).normal(size=(N, 3))
    np.save(tmp_path / "X.npy", X)
    table, _ = opened(np.load(tmp_path / "X.npy", mmap_mode="r"), Y, "auto")
    assert type(table.rows(FeatureMap(features=Indicators(3)))).__name__ == "StoredRows"
    assert_same(schema_of(X).read(X), FrameChunk.joined([part.load() for part in table.raw()._parts()]))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (pd.DataFrame({"a": [1, 2]}), None, "requires y to be passed"),
        (pd.DataFrame({"a": [1, 2]}), [1, 2, 3], "X and y: Found input variables with inconsistent numbers"),
        (pd.DataFrame({"a": [1]}), [1], r"Found array with 1 sample\(s\) while a minimum of 2 is required"),
        (np.empty((3, 0)), [1, 0, 1], r"Found array with 0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1"),
        (pd.DataFrame([[1, 2]] * 3, columns=[0, "a"]), [1, 0, 1], "Feature names are only supported"),
        (pd.DataFrame({"a": [1, 2]}), ["u", None], "y contains NaN or None"),
    ],
)
def test_what_cannot_be_fitted(X, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        opened(X, y, "auto")


def test_predictions_read_the_columns_of_the_fit(frame, monkeypatch):
    monkeypatch.setattr(dpsk.data.schema, "ROWS_AT_A_TIME", 7)
    table, estimator = opened(frame)
    schema = table.facts.schema
    chunks = list(raw_blocks(estimator, schema, frame))
    assert max(map(len, chunks)) == 7
    assert_same(schema.read(frame), FrameChunk.joined(chunks))
    assert_same(schema.read(frame), FrameChunk.joined(list(raw_blocks(estimator, schema, pl.from_pandas(frame)))))
    for other, message in [
        (frame.rename(columns={"word": "name"}), "Feature names unseen at fit time"),
        (frame.drop(columns="word"), "Feature names seen at fit time, yet now missing"),
        (frame.assign(extra=1), "Feature names unseen at fit time"),
        (frame[frame.columns[::-1]], "Feature names must be in the same order"),
        (frame.iloc[:0], r"Found array with 0 sample\(s\)"),
        (frame.to_numpy()[:, :3], "X has 3 features, but Estimator is expecting 12"),
    ]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            with pytest.raises(ValueError, match=message):
                raw_blocks(estimator, schema, other)


def test_columns_whose_names_are_numbers_are_not_confused_either():
    """scikit-learn compares names that are text only."""
    frame = pd.DataFrame({2: [1, 2], 1: ["a", "b"]})
    table, estimator = opened(frame, [0, 1], {1: Categories(), 2: Number(0, 5)})
    assert table.facts.names is None
    assert [field.name for field in table.facts.schema.fields] == ["2", "1"]
    with pytest.raises(ValueError, match=r"X has the columns 1, 2, but .* in this order, '2', '1'"):
        list(raw_blocks(estimator, table.facts.schema, frame[[1, 2]]))


def test_facts_that_are_not_known_yet():
    with pytest.raises(UnknownFact, match="columns"):
        _ = Unknown().schema
    with pytest.raises(UnknownFact):
        _ = Unknown().names


def test_a_field_says_where_it_comes_from(frame):
    schema = schema_of(frame, COLUMNS | {"whole": Number(0, 10)})
    assert schema.fields[0] == Quantity("whole", 0, 0.0, 10.0)
    assert Listed("flag", 3, ("False", "True")) in schema.fields
    assert {field.column for field in schema.fields} == set(range(12))
    assert schema.names == tuple(CONTENT)
