"""Persons: ids are compared by value wherever they lie, and rows keep their persons in every storage."""

import datetime as dt
import hashlib
import pickle
import uuid
import warnings
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from threading import Lock
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.utils.fixes import parse_version

import dpsk.data.frames
from dpsk import Chunks, Date, DPLogisticRegression, DPTabularClassifier, Number
from dpsk.data import Columns, FrameChunk, RawChunk, RowMap
from dpsk.data.persons import Persons, keys_of
from dpsk.estimators.grouping import without_ids
from dpsk.estimators.opening import facts_of, open_table


@pytest.fixture(autouse=True)
def on_threads():
    with dask.config.set(scheduler="threads"):
        yield


# --- keys

IDS = [5, 12, 5, 0, 100, 12, 1, 77]
WORDS = ["ann", "Bob", "ann", "é ", "bob", "x" * 40, " ann", "12a"]


def strings(words):
    """Strings of NumPy, where it has them."""
    own = getattr(np.dtypes, "StringDType", None)
    return np.array(list(words), str if own is None else own())


NUMBERS = {
    "list": IDS,
    "tuple": tuple(IDS),
    **{dtype: np.array(IDS, dtype) for dtype in ("i1", "u1", "i8", "u8", ">i4", "f8", ">f8", "U", "S", "O")},
    "longdouble": np.array(IDS, np.longdouble),
    "NumPy's strings": strings(map(str, IDS)),
    "decimals": [Decimal(i) for i in IDS],
    "text with a point": [f" {i}.0\n" for i in IDS],
    "bytes": [str(i).encode() for i in IDS],
    "all sorts": [5, "12", 5.0, -0.0, b"1e2", np.int8(12), True, Decimal("77.0")],
    "spelled bytes": [f"b'{i}'" for i in IDS],
    "Series": pd.Series(IDS, index=range(8, 0, -1)),
    "Index": pd.Index(IDS),
    "nullable": pd.Series(IDS, dtype="Int16"),
    "array of pandas": pd.array(IDS, dtype="Float64"),
    "objects of pandas": pd.Series(IDS, dtype=object),
    "text of pandas": pd.Series(list(map(str, IDS)), dtype="string[python]"),
    "arrow in pandas": pd.Series(IDS, dtype="int64[pyarrow]"),
    "decimals in pandas": pd.Series([Decimal(i) for i in IDS], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
    "bytes in pandas": pd.Series([str(i).encode() for i in IDS], dtype=pd.ArrowDtype(pa.binary())),
    "categories": pd.Series(IDS).astype("category"),
    "categories of text": pd.Series(list(map(str, IDS))).astype("category"),
    "categories of bytes": pd.Series([str(i).encode() for i in IDS]).astype("category"),
    "a Categorical": pd.Categorical(IDS, categories=sorted(set(IDS), reverse=True)),
    "polars": pl.Series(IDS, dtype=pl.Int16),
    "text of polars": pl.Series(list(map(str, IDS))),
    "categories of polars": pl.Series(list(map(str, IDS)), dtype=pl.Categorical),
    "bytes of polars": pl.Series([str(i).encode() for i in IDS]),
    "decimals of polars": pl.Series([Decimal(i) for i in IDS]),
    "arrow": pa.array(IDS, pa.uint16()),
    "arrow in pieces": pa.chunked_array([IDS[:3], IDS[3:]], pa.int32()),
    "text of arrow": pa.array(list(map(str, IDS)), pa.large_string()),
    "bytes of arrow": pa.array([str(i).encode() for i in IDS]),
    "dictionary of arrow": pa.array(list(map(str, IDS))).dictionary_encode(),
}
TEXTS = {
    "list": WORDS,
    "array": np.array(WORDS),
    "objects": np.array(WORDS, object),
    "bytes": [word.encode() for word in WORDS],
    "array of bytes": np.array([word.encode() for word in WORDS]),
    "zeros at the end": [word + "\0" for word in WORDS],
    "NumPy's strings": strings(WORDS),
    "Series": pd.Series(WORDS),
    "text of pandas": pd.Series(WORDS, dtype="string[python]"),
    "arrow in pandas": pd.Series(WORDS, dtype="string[pyarrow]"),
    "categories": pd.Series(WORDS).astype("category"),
    "polars": pl.Series(WORDS),
    "an Enum of polars": pl.Series(WORDS, dtype=pl.Enum(sorted(set(WORDS), reverse=True))),
    "arrow": pa.array(WORDS),
    "bytes of arrow": pa.array([word.encode() for word in WORDS], pa.large_binary()),
}
DAYS = ["2001-02-03", "1969-12-31", "2001-02-03", "2024-02-29"]
MOMENTS = {
    "text": DAYS,
    **{unit: np.array(DAYS, f"M8[{unit}]") for unit in ("D", "h", "s", "ms", "us", "ns")},
    "dates": [dt.date.fromisoformat(day) for day in DAYS],
    "times in UTC": [dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC) for day in DAYS],
    "of pandas": pd.to_datetime(pd.Series(DAYS)),
    "of pandas, with a zone": pd.to_datetime(pd.Series(DAYS), utc=True).dt.tz_convert("Asia/Tokyo"),
    "objects": pd.to_datetime(pd.Series(DAYS)).astype(object),
    "categories": pd.to_datetime(pd.Series(DAYS)).astype("category"),
    "polars": pl.Series(DAYS).str.to_date(),
    "polars, in milliseconds": pl.Series(DAYS).str.to_datetime(time_unit="ms"),
    "arrow": pa.array([dt.date.fromisoformat(day) for day in DAYS]),
    "arrow, in nanoseconds": pa.array(np.array(DAYS, "M8[ns]")),
}


def same_value(ids):
    """Return which entries are one id."""
    keys = keys_of(ids)
    return (keys[:, None] == keys).all(axis=2)


@pytest.mark.parametrize("storages", [NUMBERS, TEXTS, MOMENTS], ids=["numbers", "text", "dates"])
def test_keys_have_the_same_bits_in_every_type_and_library(storages):
    first = keys_of(next(iter(storages.values())))
    assert first.dtype == np.uint64
    for name, ids in storages.items():
        keys = keys_of(ids)
        assert keys.shape == (len(ids), 2), name
        assert keys.dtype == np.uint64, name
        assert np.array_equal(keys, first), name


@pytest.mark.parametrize("values", [IDS, WORDS, DAYS, np.array(DAYS, "M8[s]").tolist()])
def test_other_values_have_other_keys(values):
    assert np.array_equal(same_value(values), np.equal.outer(np.array(values, object), np.array(values, object)))


def test_kinds_of_ids_do_not_meet():
    """The bits of a number and of a date are the same here, and the digest of text is neither."""
    number = float(np.array([86_400_000_000]).view(np.float64)[0])
    ids = [number, dt.date(1970, 1, 2), "day 1970-01-02", None, 0, "zero", "nan?"]
    assert np.array_equal(same_value(ids), np.eye(len(ids), dtype=bool))


def test_keys_are_what_they_are_said_to_be():
    keys = keys_of(["ann", 2.5, dt.datetime(1970, 1, 1, 0, 0, 1), None])
    assert keys[0].tobytes() == hashlib.blake2b(b"ann", digest_size=16).digest()
    assert keys[1:, 0].tolist() == [1, 2, 0]
    assert keys[1:, 1].tolist() == [int(np.float64(2.5).view(np.int64)), 1_000_000, 0]


def test_nothing_is_split_that_a_reader_may_change():
    for ids in (
        [True, 1, 1.0, "1", b"1", "True", "TRUE", "true", "01", "1.0", "+1", " 1 ", "1e0", "b'1'", Decimal("1.00")],
        [0, -0.0, False, "false", "-0", np.float32(0)],
        [1e300, 10**300, "1e300", np.inf, "inf", "Infinity", 10**999, "9" * 999, Decimal("1e999999")],
        ["ann", b"ann", np.str_("ann"), np.bytes_(b"ann"), "ann\0", 'b"ann"'],
        [b"\xff\xfe", np.bytes_(b"\xff\xfe"), "\udcff\udcfe"],
        ["\udc80", b"\x80", b"\xed\xb2\x80"],
        [uuid.UUID(int=7), str(uuid.UUID(int=7))],
        [
            dt.date(2001, 2, 3),
            dt.datetime(2001, 2, 3),
            pd.Timestamp("2001-02-03 00:00:00.000000999"),
            "2001-02-03",
            " 2001-02-03 00:00:00",
            "2001-02-03T02:00:00+02:00",
            str(pd.Timestamp("2001-02-03")),
        ],
    ):
        assert same_value(ids).all(), ids
    # a column of a file, read in chunks: the types of a chunk follow from its rows
    chunks = [
        pd.Series([7, 8]),
        pd.Series([7.0, np.nan]),
        pd.Series(["7", "x"]),
        pd.Series(["8.0", None], dtype=object),
    ]
    keys = np.concatenate([keys_of(chunk) for chunk in chunks])
    assert Persons.of(keys).n == 4  # 7, 8, x and the missing one


def test_what_is_masked_is_missing_and_the_rest_keeps_its_type():
    for values in (np.array(["2001-02-03"], "M8[ns]"), np.array([36], "m8[h]"), np.array([2.5]), np.array([7])):
        values = values.repeat(2)
        expected, keys = keys_of(values), keys_of(np.ma.array(values, mask=[0, 1]))
        assert np.array_equal(keys[0], expected[0])
        assert not keys[1].any()
        assert expected.any(axis=1).all()


def test_integers_beyond_53_bits_never_split():
    rng = np.random.default_rng(0)
    large = rng.integers(2**53, 2**63, 2_000)
    large[:9] = 2**53 + np.arange(9)
    expected = keys_of(large.astype(np.float64))
    for ids in (large, large.astype(np.uint64), large.tolist(), large.astype(str), [Decimal(int(i)) for i in large]):
        assert np.array_equal(keys_of(ids), expected)
    assert same_value([2**53, 2**53 + 1, float(2**53)]).all()
    assert not same_value([f"p{2**53}", f"p{2**53 + 1}"])[0, 1]  # the remedy


class Sulky:
    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = object.__hash__


def test_bytes_that_were_written_as_text_are_read_back():
    every = [bytes([k]) for k in range(256)] + [bytes(range(256)), b"'", b'"', b"'\"", b"\\x41", b"\\'", "é".encode()]
    assert np.array_equal(keys_of(every), keys_of(list(map(str, every))))
    assert np.array_equal(keys_of(every), keys_of(pl.Series(every)))
    twice = [str(text).encode() for text in every]  # bytes that hold what str makes of bytes
    for ids in (np.array(twice), [text.decode() for text in twice], list(map(str, twice)), pa.array(twice)):
        assert np.array_equal(keys_of(twice), keys_of(ids))
    texts = [f"text {k}".encode() for k in range(9)]
    assert np.array_equal(keys_of(texts), keys_of([text.decode() for text in texts]))


def test_missing_ids_are_one_person():
    odd = [None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), Decimal("nan"),
           "nan", " NaN ", "", "  ", b"", "\0", [1, 2], {}, Sulky(), object(), (3, 4), bytearray(b"5")]  # fmt: skip
    missing = [
        keys_of(odd),
        keys_of(np.array([np.nan, -np.nan, np.float64("nan")])),
        keys_of(np.array(["NaT", "NaT"], "M8[ns]")),
        keys_of(np.ma.masked_array([4, 5], [True, True])),
        keys_of(np.array([None, None])),
        *(keys_of(pd.Series([None, None], dtype=dtype)) for dtype in ("Int64", "string", "category", "boolean")),
        *(keys_of(pd.Series([None], dtype=dtype)) for dtype in ("int64[pyarrow]", "M8[ms]", "binary[pyarrow]")),
        *(keys_of(pl.Series([None, None], dtype=dtype)) for dtype in (pl.Int8, pl.String, pl.Date, pl.Null, pl.Binary)),
        keys_of(pa.nulls(3)),
        keys_of(pa.array(["a", None]).dictionary_encode())[1:],
        keys_of(pl.Series([dt.datetime(1, 1, 1), None]))[1:],
    ]  # fmt: skip
    assert Persons.of(np.concatenate(missing)).n == 1
    assert not same_value([None, 0]).all()
    # dates that Python does not have are missing, whoever holds them
    beyond = np.array(["20000-01-01", "-0001-01-01"], "M8[s]")
    assert same_value([None, *beyond]).all()
    assert not keys_of(beyond).any()


def test_nothing_is_told_of_an_id():
    ids = ["x", 10**5_000, Decimal("sNaN"), "9" * 9_999, "b'", "b'\\x'", "b'\\d'", "b'a'[0or b'b'", "b'" + "(" * 5_000,
           Sulky(), "\ud800", 1e400, dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-9)))]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keys_of(ids)
        keys_of(np.array([1e308, np.inf, -np.inf]).astype(np.longdouble) * 10)
        signalling = np.array([2**62 + 1, 0x7FF0_0000_0000_0001], np.uint64).view(np.float64)
        assert not keys_of(signalling)[1].any()  # a NaN with which arithmetic warns


BAD = {
    "is of type str": "patient",
    "is of type DataFrame": pd.DataFrame({"a": [1, 2]}),
    r"has the shape \(2, 1\)": np.ones((2, 1)),
    r"has the shape \(\)": np.array(3),
    "is of type complex128": np.ones(2, complex),
    "is of type void": np.zeros(2, [("a", int)]),
    r"has the shape \(1, 2\)": pd.MultiIndex.from_tuples([(1, 2)]),
    "is of type list": pa.array([[1], [2]]),
    "is of type period": pd.Series(pd.period_range("2001", periods=2, freq="M")),
    "is of type csr_array": sp.csr_array(np.eye(2)),
    "is of type generator": (i for i in range(2)),
    "is of type float16, which has lost digits": np.ones(2, np.float16),
    "is of type float32, which has lost digits": np.ones(2, np.float32),
    "is of type float32, which has lost digits of": pd.Series([1, None], dtype="Float32"),
    "is of type float32, which has lost digits of large": pd.Series(np.ones(2, np.float32)).astype("category"),
    "is of type float32, which has lost digits of large ids": pd.Series([1, None], dtype="float32[pyarrow]"),
    "is of type float16, which": pa.array(np.ones(2, np.float16)),
    "is of type float32, which has": np.ma.array(np.ones(2, np.float32), mask=[0, 1]),
    "is of type float32, which": pa.array(np.ones(2, np.float32)).dictionary_encode(),
    "is of type float32, .* read ids as integers, float64 or text": pl.Series([1, None], dtype=pl.Float32),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_no_column_of_ids_is_refused_by_type(message):
    with pytest.raises(ValueError, match=f"^groups {message}"):
        keys_of(BAD[message])


def test_persons_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    ids = rng.choice(["a", "b", "7", "8.5", None, "c"], 500)
    first, order = Persons.of(keys_of(ids)), rng.permutation(500)
    second = Persons.of(keys_of(ids[order]))
    assert first.n == second.n == 6
    assert first.codes.dtype == np.int32
    assert np.array_equal(first.codes[order], second.codes)
    assert np.array_equal(first.weights[order], second.weights)
    counts = {value: np.sum(ids == value) for value in set(ids.tolist())}
    assert [2**20 // counts[value] for value in ids] == first.weights.tolist()
    assert np.array_equal(first.rows_of(np.array([2])), np.flatnonzero(first.codes == 2))
    # NumPy's own way to find the different ones agrees
    _, codes = np.unique(keys_of(ids), axis=0, return_inverse=True)
    assert np.array_equal(codes.ravel(), first.codes)


# --- tables

N = 60
rng = np.random.default_rng(3)
ID = rng.permutation(np.repeat([f"p{k}" for k in range(12)], 5)).astype(object)
ID[[4, 40, 50]] = None
A, B = rng.normal(size=N), rng.integers(0, 9, N).astype(float)
Y = np.arange(N) % 3 == 1
WEIGHT = rng.uniform(-0.2, 3, N)
CUTS = (0, 7, 7, 31, N)
COLUMNS = {"a": Number(), "b": Number()}
FRAME = pd.DataFrame({"a": A, "who": pd.Series(ID), "b": B})
EXPECTED = Persons.of(keys_of(ID))


class Estimator(BaseEstimator):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def opened(X, y=Y, columns=None, group_column=None, **given):
    estimator = Estimator()
    asked = SimpleNamespace(classes=None, columns=columns, group_column=group_column)
    return open_table(estimator, X, y, asked, **given), estimator


def categories(frame, reverse):
    """The ids as categories that only these rows have, in an order of their own."""
    values = sorted(frame["who"].dropna().unique(), reverse=reverse)
    return frame.assign(who=pd.Categorical(frame["who"], values))


def dask_frame(frame, n=4):
    return dd.from_pandas(frame, npartitions=n, sort=False)


def dask_y(n=4):
    return dd.from_pandas(pd.Series(Y), npartitions=n, sort=False)


def partitions(frames):
    return dd.from_map(lambda k: frames[k], range(len(frames)), meta=frames[0].iloc[:0])


def cut(*makers):
    """The frame in chunks, each made by another function."""
    return [makers[k % len(makers)](FRAME.iloc[a:b]) for k, (a, b) in enumerate(pairwise(CUTS))]


def chunks(*makers):
    return Chunks(lambda: list(zip(cut(*makers), (Y[a:b] for a, b in pairwise(CUTS)), strict=True)))


def local(frame):
    return categories(frame, reverse=frame.index[0] in (0, 31)) if len(frame) else frame.iloc[:0]


WITH_COLUMN = {
    "pandas": lambda: (FRAME, Y),
    "categories": lambda: (categories(FRAME, True), Y),
    "polars": lambda: (pl.from_pandas(FRAME), Y),
    "arrow": lambda: (pa.Table.from_pandas(FRAME), Y),
    "chunks": lambda: (chunks(lambda part: part), None),
    "chunks of several libraries": lambda: (
        chunks(pl.from_pandas, local, pa.Table.from_pandas, lambda part: part.astype({"who": "string"})), None),
    "chunks of local categories": lambda: (chunks(local), None),
    "chunks without labels": lambda: (Chunks(lambda: cut(lambda part: part)), Y),
    "Dask": lambda: (dask_frame(FRAME), dask_y()),
    "Dask, with local categories": lambda: (
        partitions([local(FRAME.iloc[a:b]) for a, b in pairwise(CUTS) if a < b]),
        partitions([pd.Series(Y[a:b]) for a, b in pairwise(CUTS) if a < b])),
    "Dask, with an empty block": lambda: (
        partitions([FRAME.iloc[a:b] for a, b in pairwise(CUTS)]),
        partitions([pd.Series(Y[a:b]) for a, b in pairwise(CUTS)])),
}  # fmt: skip


# scikit-learn before 1.9 sees no names of columns in these
UNNAMED = ("polars", "chunks of several libraries") if parse_version(sklearn.__version__) < parse_version("1.9") else ()


def require_persons(table, unit):
    assert np.array_equal(table.persons.codes, EXPECTED.codes)
    assert np.array_equal(table.persons.weights, EXPECTED.weights)
    assert (table.facts.n_rows, table.facts.unit, table.facts.weighted) == (13, unit, True)
    assert np.bincount(table.persons.codes).max() <= table.facts.most_rows == N - 13 + 1


def require_no_trace(estimator):
    assert list(estimator.feature_names_in_) == ["a", "b"]
    assert estimator.n_features_in_ == 2
    kept = pickle.dumps(estimator)
    assert b"who" not in kept
    assert b"p11" not in kept


@pytest.mark.parametrize("raw", [False, True], ids=["numbers", "raw"])
@pytest.mark.parametrize("storage", WITH_COLUMN)
def test_a_column_of_ids_is_taken_out_wherever_it_lies(storage, raw):
    if storage in UNNAMED and not raw:
        pytest.skip("scikit-learn sees no names of columns here")
    table, estimator = opened(*WITH_COLUMN[storage](), columns=COLUMNS if raw else None, group_column="who")
    require_persons(table, "who")
    require_no_trace(estimator)
    assert (table.facts.n_features, table.facts.n_classes, table.facts.names) == (2, 2, ("a", "b"))
    assert table.sample_weight is None
    assert table.facts.schema is None if not raw else table.facts.schema.names == ("a", "b")


@pytest.mark.parametrize("storage", ["chunks of local categories", "Dask, with local categories"])
def test_codes_of_categories_would_be_caught(storage, monkeypatch):
    """Planted: the person is the code of a category, and codes are other ones in every chunk."""

    def faulty(codes, values):
        return dpsk.data.frames.distinct([None if code < 0 else code for code in codes.tolist()])

    data = WITH_COLUMN[storage]()
    monkeypatch.setattr(dpsk.data.frames, "of_codes", faulty)
    with pytest.raises(AssertionError):
        require_persons(opened(*data, group_column="who")[0], "who")


def mapped(path):
    X = np.memmap(path, np.float64, "w+", shape=(N, 2))
    X[:] = np.column_stack([A, B])
    return X


def array():
    return np.column_stack([A, B])


NAMELESS = {
    "array": lambda path: (array(), Y, None),
    "list": lambda path: (array().tolist(), Y.tolist(), None),
    "sparse": lambda path: (sp.csr_array(array()), Y, None),
    "memmap": lambda path: (mapped(path), Y, None),
    "frame": lambda path: (FRAME[["a", "b"]], Y, None),
    "chunks": lambda path: (Chunks(lambda: [(array()[a:b], Y[a:b]) for a, b in pairwise(CUTS)]), None, None),
    "sparse chunks": lambda path: (
        Chunks(lambda: [(sp.csr_array(array()[a:b]), Y[a:b]) for a, b in pairwise(CUTS) if a < b]), None, None),
    "Dask array": lambda path: (da.from_array(array(), chunks=(17, 2)), da.from_array(Y, chunks=17), 17),
    "Dask frame": lambda path: (dask_frame(FRAME[["a", "b"]]), dask_y(), 15),
}  # fmt: skip


@pytest.mark.parametrize("raw", [False, True], ids=["numbers", "raw"])
@pytest.mark.parametrize("storage", NAMELESS)
def test_groups_and_weights_beside_the_rows(storage, raw, tmp_path):
    X, y, chunk = NAMELESS[storage](tmp_path / "X")
    named = storage in ("frame", "Dask frame")
    names = {"a": Number(), "b": Number()} if named else {0: Number(), 1: Number()}
    beside = [
        (ID, WEIGHT),
        (pd.Series(ID).astype("category"), WEIGHT.tolist()),
        (pl.Series(ID.tolist()), pa.array(WEIGHT)),
    ]
    if chunk:
        beside.append((da.from_array(ID, chunks=chunk), da.from_array(WEIGHT, chunks=chunk)))
        beside.append((dask_frame(FRAME)["who"], dask_frame(pd.DataFrame({"w": WEIGHT}), 3)["w"]))
    for groups, weights in beside:
        table, estimator = opened(X, y, names if raw else None, groups=groups, sample_weight=weights)
        require_persons(table, "person")
        assert table.sample_weight.dtype == np.float64
        assert np.array_equal(table.sample_weight, np.maximum(WEIGHT, 0))
        assert b"p11" not in pickle.dumps(estimator)
    table, _ = opened(X, y, names if raw else None)
    assert table.persons is None
    assert table.sample_weight is None
    assert (table.facts.n_rows, table.facts.unit, table.facts.weighted) == (N, "row", False)


def test_rows_of_a_person_in_several_chunks_are_of_one_person():
    """Ids that are numbers in some chunks, with gaps in others, and text in one."""
    parts = [pd.DataFrame({"a": [1.0, 2], "id": ids}) for ids in ([7, 8], [7.0, np.nan], ["7", "no 8"], [None, "8.0"])]
    y = np.arange(8) % 2
    tables = [
        opened(Chunks(lambda: parts), y, group_column="id")[0],
        opened(pd.concat(parts), y, group_column="id")[0],
        opened(
            partitions(parts), partitions([pd.Series(y[k : k + 2]) for k in range(0, 8, 2)]), group_column="id"
        )[0],
    ]  # fmt: skip
    for table in tables:
        assert table.facts.n_rows == 4
        assert np.array_equal(table.persons.codes, tables[0].persons.codes)
        same = np.equal.outer(table.persons.codes, table.persons.codes)
        assert same[[0, 0, 1, 3], [2, 4, 7, 6]].all()
        assert same.sum() == 3**2 + 2**2 + 2**2 + 1


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (2, [2.0] * 4),
        (np.float32(0.5), [0.5] * 4),
        (-1, [0.0] * 4),
        ([1, 2, 3, 0], [1.0, 2, 3, 0]),
        (np.array([True, False, True, True]), [1.0, 0, 1, 1]),
        (np.array([-0.0, -5, 1e300, 2.0**-1074]), [0.0, 0, 2.0**500, 2.0**-1074]),
        (pd.Series([1, 2, 3, 4], index=[3, 2, 1, 0], dtype="Int8"), [1.0, 2, 3, 4]),
        (pl.Series([Decimal("0.5")] * 4), [0.5] * 4),
    ],
)
def test_sample_weights_are_floats_and_none_is_below_zero(weights, expected):
    table, _ = opened(np.eye(4), [0, 1, 0, 1], sample_weight=weights)
    assert table.sample_weight.dtype == np.float64
    assert table.sample_weight.tolist() == expected
    assert table.facts.weighted
    assert table.facts.n_rows == 4
    assert table.facts.unit == "row"


FOUR = np.eye(4)
REFUSED = {
    "groups has 3 entries, but X has 4 rows": {"groups": [1, 2, 3]},
    "groups has the shape": {"groups": np.ones((4, 1))},
    "groups is of type str": {"groups": "who"},
    r"1 person\(s\) while a minimum of 2": {"groups": [1, "1", 1.0, b"1"]},
    "groups must be a Dask array or Series": {"groups": da.ones((4, 1))},
    "groups is of type complex128": {"groups": da.ones(4, dtype=complex)},
    "sample_weight has 5 entries, but X has 4 rows": {"sample_weight": np.ones(5)},
    "sample_weight has the shape": {"sample_weight": np.ones((4, 2))},
    "sample_weight contains NaN or infinity": {"sample_weight": [1, 2, 3, np.nan]},
    "sample_weight contains NaN or infinity. ": {"sample_weight": np.inf},
    "sample_weight contains NaN": {"sample_weight": pd.Series([1, 2, None, 4], dtype="Int8")},
    "sample_weight is of type object": {"sample_weight": np.array([1, 2, 3, 4], object)},
    "sample_weight is of type text": {"sample_weight": ["1", "2", "3", "4"]},
    "sample_weight is of type complex128": {"sample_weight": np.ones(4, complex)},
    "sample_weight is of type datetime64": {"sample_weight": np.zeros(4, "M8[s]")},
    "sample_weight must be a Dask array or Series": {"sample_weight": da.ones((4, 2))},
    "sample_weight has 8 entries": {"sample_weight": da.ones(8, chunks=3)},
    "group_column='who' is the name of a column, but the columns of X have no names": {"group_column": "who"},
    "group_column='who' and groups cannot be combined": {"group_column": "who", "groups": [1, 2, 3, 4]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_errors_name_what_was_given_and_no_value(message):
    with pytest.raises(ValueError, match=message) as caught:
        opened(FOUR, [0, 1, 0, 1], **REFUSED[message])
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("storage", ["pandas", "polars", "arrow", "chunks", "Dask"])
def test_a_column_that_is_not_there_is_named(storage):
    with pytest.raises(ValueError, match="group_column='whom' names no column of X, which has 'a', 'who', 'b'"):
        opened(*WITH_COLUMN[storage](), group_column="whom")


def test_columns_of_ids_that_cannot_be_read():
    twice = pd.DataFrame(np.ones((4, 3)), columns=["a", "who", "who"])
    with pytest.raises(ValueError, match="several columns with the name 'who'"):
        opened(twice, [0, 1, 0, 1], group_column="who")
    nested = pa.table({"a": [1.0, 2, 3, 4], "who": [[1], [2], [3], [4]]})
    with pytest.raises(ValueError, match="group_column='who' is of type list"):
        opened(nested, [0, 1, 0, 1], group_column="who")
    with pytest.raises(ValueError, match=r"1 who\(s\) while a minimum of 2"):
        opened(pd.DataFrame({"a": [1.0, 2, 3, 4], "who": [None] * 4}), [0, 1, 0, 1], group_column="who")
    with pytest.raises(ValueError, match="group_column='who' is the only column of X"):
        opened(pd.DataFrame({"who": [1, 2, 3, 4]}), [0, 1, 0, 1], group_column="who")


def test_problems_of_blocks_are_returned_and_not_raised_where_rows_are():
    """Dask logs what a failing task was given."""
    blocks = [np.array([1, 2]), np.ones(2, complex)]
    ids = da.concatenate([da.from_delayed(dask.delayed(block), (2,), dtype=int) for block in blocks])
    with pytest.raises(ValueError, match=r"groups is of type complex128.*\(in block 1 of 2\)"):
        opened(FOUR, [0, 1, 0, 1], groups=ids)
    weights = da.concatenate([da.from_delayed(dask.delayed(block), (2,), dtype=int) for block in blocks])
    with pytest.raises(ValueError, match=r"sample_weight is of type complex128.*\(in block 1 of 2\)"):
        opened(FOUR, [0, 1, 0, 1], sample_weight=weights)


# --- sources that change the order of their rows


class Shuffling:
    """Partitions whose rows come in another order at every reading, as those of a shuffle in a cluster may."""

    def __init__(self, moved=None):
        self.readings, self._moved, self._lock, self._name = [0, 0, 0], moved, Lock(), str(uuid.uuid4())

    def __dask_tokenize__(self):
        return self._name

    def __call__(self, k):
        with self._lock:
            self.readings[k] += 1
            reading = self.readings[k]
        frame = LABELLED.iloc[20 * k : 20 * (k + 1)]
        if reading > 1 and k == 1 and self._moved is not None:
            frame = self._moved(frame)
        return frame.sample(frac=1, random_state=reading)

    def table(self, columns=None, **beside):
        whole = dd.from_map(self, range(3), meta=LABELLED.iloc[:0])
        return opened(whole.drop(columns="y"), whole["y"], columns, "who", **beside)[0]


LABELLED = FRAME.assign(y=Y)
LABELLED.loc[0, ["a", "b"]] = 0.0
WANTED = opened(FRAME.assign(a=LABELLED["a"], b=LABELLED["b"]), group_column="who")[0]
WANTED_RAW = opened(FRAME.assign(a=LABELLED["a"], b=LABELLED["b"]), columns=COLUMNS, group_column="who")[0]
MAP = RowMap(columns=Columns.within(-9.0, 9.0, 2))


class Seen:
    """The rows of a chunk as numbers of their bits: sums of them tell which rows were there with which weights."""

    def __call__(self, chunk):
        if isinstance(chunk, FrameChunk):
            rows = np.column_stack(chunk.values)
        elif isinstance(chunk, RawChunk):
            rows = np.zeros((len(chunk), chunk.n_features))
            rows[np.repeat(np.arange(len(chunk)), chunk.counts), chunk.columns] = chunk.values
        else:
            rows = np.column_stack([chunk.dense(slice(None)), chunk.y])
        steps = np.round(rows.astype(np.float64) * 2**20).astype(np.int64)
        return chunk.weights.astype(np.int64) @ np.hstack([steps, steps**2])  # modulo 2^64


KINDS = {
    "raw": (None, lambda table: table.raw()),
    "rows": (None, lambda table: table.rows(MAP)),
    "outcomes": (None, lambda table: table.outcomes(MAP)),
    "raw tables": (COLUMNS, lambda table: table.raw()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_dask_keep_their_persons_in_any_order(kind):
    columns, make = KINDS[kind]
    source = Shuffling()
    table = source.table(columns)
    assert min(source.readings) >= 2  # to check, and to find the persons
    rows, wanted = make(table), make(WANTED_RAW if columns else WANTED)
    assert min(source.readings) >= 3
    assert (rows.n_rows, rows.public.by_person) == (13, True)
    for batch, expected in [(rows, wanted)] + [
        (rows.subset(np.array(chosen)), wanted.subset(np.array(chosen)))
        for chosen in ([0], [12, 3, 7], range(13), np.zeros(0, np.int64))
    ]:
        assert np.array_equal(batch.total(Seen()), expected.total(Seen()))
        assert batch.public == expected.public or batch.n_rows == expected.n_rows
        assert batch.public.by_person


def test_parts_that_are_lost_and_read_again_keep_the_persons_of_a_batch():
    """As when a worker is lost: what was persisted is made anew, from rows in another order."""
    source = Shuffling()
    table, lost = source.table(), []

    def forgetting(*parts):
        lost.append(len(parts))
        return parts

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dask, "persist", forgetting)
        batch = table.rows(MAP).subset(np.array([2, 5, 11]))
        first = source.readings.copy()
        for _ in range(3):
            assert np.array_equal(batch.total(Seen()), WANTED.rows(MAP).subset(np.array([2, 5, 11])).total(Seen()))
    assert lost[0] == 3
    assert sum(source.readings) >= sum(first) + 3


@pytest.mark.parametrize("model", ["numbers", "raw"])
def test_fits_on_dask_have_the_same_bits_in_any_order(model, models):
    whole = dd.from_map(Shuffling(), range(3), meta=LABELLED.iloc[:0])
    model = clone(models[model == "raw"])
    if model.columns is not None:
        model.set_params(columns=COLUMNS)
    expected = fitted(clone(model), LABELLED.drop(columns="y"), Y)
    same(fitted(model, whole.drop(columns="y"), whole["y"]), expected)


@pytest.mark.parametrize(
    "moved",
    [
        lambda frame: frame.assign(who=["secret", *frame["who"].iloc[1:]]),
        lambda frame: frame.assign(who=[frame["who"].iloc[1], *frame["who"].iloc[1:]]),
    ],
    ids=["a new id", "another number of rows"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_changes_its_ids_is_refused(kind, moved):
    columns, make = KINDS[kind]
    source = Shuffling()
    table = source.table(columns)
    source._moved = moved
    with pytest.raises(ValueError, match="a block of X has other ids than before: its source must give the") as caught:
        make(table).total(Seen())
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="other numbers of rows than before"):
        Shuffling(moved=lambda frame: frame.iloc[1:]).table(columns)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_samples_go_by_order_on_dask(kind):
    """A weight that lands on the row of another person would make that row depend on it."""
    columns, make = KINDS[kind]
    make = (lambda table: table.rows(replace(MAP, weight_bound=2.0))) if kind == "rows" else make
    with pytest.raises(ValueError, match="same rows in the same order, as sample_weight is told by order, every time"):
        make(Shuffling().table(columns, sample_weight=WEIGHT)).total(Seen())
    steady = dd.from_pandas(LABELLED, npartitions=3, sort=False)
    table = opened(steady.drop(columns="y"), steady["y"], columns, "who", sample_weight=WEIGHT)[0]
    wanted = opened(LABELLED.drop(columns="y"), Y, columns, "who", sample_weight=WEIGHT)[0]
    assert np.array_equal(make(table).total(Seen()), make(wanted).total(Seen()))


def test_groups_beside_dask_go_by_order():
    """So the source must keep its order: a shuffle splits persons. This is a precondition of docs/guarantees.md."""
    whole = dd.from_map(Shuffling(), range(3), meta=LABELLED.iloc[:0])
    table, _ = opened(whole[["a", "b"]], whole["y"], groups=ID)
    assert not np.array_equal(table.rows(MAP).total(Seen()), WANTED.rows(MAP).total(Seen()))
    steady = dd.from_pandas(LABELLED, npartitions=3, sort=False)
    for groups in (ID, steady["who"]):
        table, _ = opened(steady[["a", "b"]], steady["y"], groups=groups)
        for chosen in (np.arange(13), np.array([12, 3, 7])):
            found, wanted = table.rows(MAP).subset(chosen), WANTED.rows(MAP).subset(chosen)
            assert np.array_equal(found.total(Seen()), wanted.total(Seen()))


# --- fits and predictions

OPTIONS = {"epsilon": 5.0, "random_state": 0}


def fitted(model, *data, **beside):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # accuracy is not the point here
        return model.fit(*data, **beside)


def same(model, other):
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(model.intercept_, other.intercept_)


@pytest.fixture(scope="module")
def models():
    with dask.config.set(scheduler="threads"):
        return [
            fitted(DPLogisticRegression(bounds=(-9, 9), group_column="who", **OPTIONS), FRAME, Y),
            fitted(DPTabularClassifier(group_column="who", **OPTIONS), FRAME, Y),
        ]


@pytest.mark.parametrize("storage", [name for name in WITH_COLUMN if name not in UNNAMED])
def test_fits_by_persons_have_the_same_bits_in_every_storage(storage, models):
    first = models[0]
    model = fitted(DPLogisticRegression(bounds=(-9, 9), group_column="who", **OPTIONS), *WITH_COLUMN[storage]())
    same(model, first)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.n_features_in_ == 2
    assert b"p11" not in pickle.dumps(model)


@pytest.mark.parametrize("storage", WITH_COLUMN)
def test_fits_of_raw_tables_by_persons_have_the_same_bits_in_every_storage(storage):
    model = DPTabularClassifier(columns=COLUMNS, group_column="who", **OPTIONS)
    same(fitted(clone(model), *WITH_COLUMN[storage]()), fitted(clone(model), FRAME, Y))


def test_fits_by_persons_do_not_depend_on_the_order_of_rows(models):
    order = np.random.default_rng(8).permutation(N)
    for model in models:
        same(fitted(clone(model), FRAME.iloc[order], Y[order]), model)
        rest = FRAME[["a", "b"]].iloc[order]
        alone = fitted(clone(model).set_params(group_column=None), rest, Y[order], groups=ID[order])
        same(alone, model)
        assert b"p11" not in pickle.dumps(alone)
        by_row = fitted(clone(model).set_params(group_column=None), FRAME[["a", "b"]], Y)
        assert not np.array_equal(by_row.coef_, model.coef_)


def test_rows_are_no_name_of_persons():
    with pytest.raises(ValueError, match="group_column='row' is the name of the unit of fits without ids"):
        opened(FRAME.rename(columns={"who": "row"}), group_column="row")


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba", "predict_log_proba"])
def test_predictions_leave_ids_out_wherever_they_are(models, method):
    for model in models:
        predict = getattr(model, method)
        expected = predict(FRAME[["a", "b"]])
        for storage, make in WITH_COLUMN.items():
            X, _ = make()
            if storage in UNNAMED and model.columns is None:
                continue
            found = predict(X)
            assert np.array_equal(found.compute() if storage.startswith("Dask") else found, expected), storage
        without = {
            "polars": pl.from_pandas(FRAME[["a", "b"]]),
            "chunks": Chunks(lambda: [FRAME[["a", "b"]].iloc[:9], FRAME.iloc[9:]]),
            "Dask": dask_frame(FRAME[["a", "b"]]),
        }
        for storage, X in without.items():
            if storage in UNNAMED and model.columns is None:
                continue
            found = predict(X)
            assert np.array_equal(found.compute() if storage == "Dask" else found, expected), storage
        assert model.score(FRAME, Y) == model.score(FRAME[["a", "b"]], Y)
        facts = facts_of(model, FRAME, 2)
        assert facts.n_features == 2
        assert facts.names == ("a", "b")


def test_a_table_without_the_column_stays_as_it_is():
    for X in (FRAME, array(), array().tolist(), sp.csr_array(array()), pl.from_pandas(FRAME), dask_frame(FRAME), None):
        assert without_ids(X, "another") is X
        assert without_ids(X, None) is X


def test_dates_beside_ids_are_fields():
    """Nothing but the column of ids is left out."""
    frame = FRAME.assign(seen=pd.Timestamp("2001-02-03"))
    table, estimator = opened(frame, columns={**COLUMNS, "seen": Date()}, group_column="who")
    assert list(estimator.feature_names_in_) == ["a", "b", "seen"]
    assert table.facts.schema.names == ("a", "b", "seen")
