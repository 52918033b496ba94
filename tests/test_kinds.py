"""Kinds of columns: what entries become, and that each is read on its own, in silence."""

import copy
import math
import pickle
import sys
import warnings
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from hashlib import blake2b
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from dpsk import Categories, Date, Number, Text
from dpsk.data.entries import distinct, key, microseconds, plain
from dpsk.data.fields import MISSING, OTHER, Listed, Quantity, Words

LARGEST = 2.0**500


class Hostile:
    """An object whose every method fails."""

    def _fail(self, *_):
        raise RuntimeError("nobody shall touch this")

    __eq__ = __hash__ = __str__ = __repr__ = __float__ = __int__ = __bool__ = __len__ = _fail


class Loud(str):
    """A text that fails when it is compared or hashed as itself."""

    __slots__ = ()

    def __hash__(self):
        raise RuntimeError

    def __eq__(self, other):
        warnings.warn("this entry was looked at", stacklevel=2)
        raise RuntimeError


class Ending:
    """An object that ends the process where somebody asks what it is."""

    @property
    def __class__(self):
        raise SystemExit


class OwnInteger(int):
    """A number that is turned into one of its own class, of which Python warns."""

    def __int__(self):
        return OwnInteger(5)


class OwnFloat(float):
    """The same for floats."""

    def __float__(self):
        return OwnFloat(5.0)


ODD = [
    Hostile(), Loud("a"), [1], {"a": 1}, {1}, (1, 2), object, float("nan"), float("inf"), -math.inf, 10**400,
    -(10**5000),
    Decimal("sNaN"), Decimal("1E+999999999"), Decimal("-Infinity"), 1 + 2j, np.complex128(1), b"\xff", bytearray(b"a"),
    pd.NaT, pd.NA, None, np.datetime64("NaT"), np.datetime64(2**62, "s"), np.timedelta64(2**62, "W"),
    pd.Timestamp.max,
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), datetime.max, date.min, time(3), timedelta.max,
    "\ud800", "", " ", "1e999", "٣", "1_000", "9" * 5000, "2020-02-30", "24:00", np.longdouble("1e4000"),
    np.void(b"ab"), pd.Interval(0, 1), pd.Period("2020-01"), UUID(int=5), range(3), np.array([1, 2]), pd.Series([1]),
    lambda: 0,
]  # fmt: skip


def read(kind, entries):
    (values,) = kind.read(distinct(entries))
    return values


@pytest.mark.parametrize("kind", [Number(), Categories(), Categories(["a"]), Categories(buckets=3), Text(8), Date()])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_an_odd_entry_changes_nothing_else(kind, odd):
    """No error and no warning (pytest makes errors of them), and the other rows keep their values and their types."""
    others = ["a", "b", "2020-01-02", 1, 2.5, None, True]
    alone, beside = kind.read(distinct(others)), kind.read(distinct([odd, *others]))
    for before, after in zip(alone, beside, strict=True):
        assert type(before) is type(after)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype
            assert np.array_equal(before, after[1:], equal_nan=before.dtype.kind == "f")
        elif hasattr(before, "keys"):
            names = [None if code < 0 else before.keys[code] for code in before.codes]
            assert names == [None if code < 0 else after.keys[code] for code in after.codes[1:]]
            assert before.codes.dtype == after.codes.dtype
        else:
            first = after.starts[1]
            assert np.array_equal(before.starts, after.starts[1:] - first)
            assert np.array_equal(before.buckets, after.buckets[first:])
            assert before.buckets.dtype == after.buckets.dtype


def test_numbers_of_classes_of_their_own_are_read_without_asking_them():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert distinct([OwnInteger(3), OwnFloat(2.5)]).values == [3, 2.5]
    assert not caught


def test_an_object_that_ends_the_process_is_missing():
    assert distinct([Ending(), 1]).codes.tolist() == [MISSING, 0]


def test_numbers():
    few = ["1.5", " -2e3\n", "nan", "x", "", 7, True, None, 10**400]
    entries, nan = [*few, -math.inf, Decimal("0.1"), 2**53 + 1, "-0", b"1"], math.nan
    expected = [1.5, -2000, nan, nan, nan, 7, 1, nan, LARGEST, -LARGEST, 0.1, float(2**53 + 1), 0, nan]
    values = read(Number(), entries)
    assert values.dtype == np.float64
    assert np.array_equal(values, expected, equal_nan=True)
    assert not np.signbit(values[-2]), "there is one zero: which of two came first would be a row's secret"


def test_lengths_of_time_are_days_and_times_of_day_hours():
    entries = [timedelta(hours=36), pd.Timedelta(days=2), np.timedelta64(12, "h"), time(13, 30)]
    assert read(Number(), entries).tolist() == [1.5, 2.0, 0.5, 13.5]


@pytest.mark.parametrize(
    ("entries", "name"),
    [
        ([1, 1.0, True, np.int8(1), np.float32(1), Decimal("1.00"), "1", np.bool_(True)], "1"),
        ([0.1, Decimal("0.1"), Decimal("0.10"), "0.1", np.float64(0.1)], "0.1"),
        ([float(np.float32(0.1)), np.float32(0.1)], "0.10000000149011612"),
        ([0.0, -0.0, 0, False], "0"),
        ([2**70, float(2**70), "1180591620717411303424"], "1180591620717411303424"),
        ([math.inf, Decimal("Infinity"), "inf"], "inf"),
        ([date(2020, 1, 2), datetime(2020, 1, 2), pd.Timestamp("2020-01-02"), np.datetime64(18263, "D")], "2020-01-02"),
        (
            [datetime(2020, 1, 2, 3, tzinfo=UTC), datetime(2020, 1, 2, 5, tzinfo=timezone(timedelta(hours=2)))],
            "2020-01-02 03:00:00+00:00",
        ),
        ([UUID(int=5), str(UUID(int=5))], str(UUID(int=5))),
        ([b"a"], "b'a'"),
        (["a", np.str_("a"), Loud("a")], "a"),
        ([pd.Interval(0, 10), "(0, 10]"], "(0, 10]"),
        ([timedelta(days=1), np.timedelta64(24, "h"), 1], "1"),
    ],
)
def test_equal_values_have_one_name_in_any_order(entries, name):
    for order in (entries, entries[::-1]):
        assert {key(plain(entry)) for entry in order} == {name}
        named = read(Categories(), order)
        assert list(named.keys) == [name]
        assert named.codes.tolist() == [0] * len(entries)


def test_missing_and_empty_entries():
    entries = [None, math.nan, pd.NaT, pd.NA, np.datetime64("NaT"), "", "nan", [1]]
    named = read(Categories(), entries)
    assert list(named.keys) == ["", "nan"]
    assert named.codes.tolist() == [MISSING] * 5 + [0, 1, MISSING]


def test_names_are_sorted_and_each_occurs():
    named = read(Categories(), ["b", "a", None, "c", "a", "B"])
    assert list(named.keys) == ["B", "a", "b", "c"]
    assert named.codes.tolist() == [2, 1, MISSING, 3, 1, 0]
    assert named.codes.dtype == np.int32


def test_a_public_list():
    kind = Categories(["yes", True, 2.5, date(2020, 1, 2)])
    (field,) = kind.fields("answer", 3)
    assert field == Listed("answer", 3, ("yes", "True", "2.5", "2020-01-02"))
    entries = ["yes", "no", 1, None, "2.5", pd.Timestamp("2020-01-02"), "True"]
    assert read(kind, entries).tolist() == [0, OTHER, 1, MISSING, 2, 3, OTHER]


def test_buckets_are_those_of_a_fixed_hash():
    kind = Categories(buckets=7)
    (field,) = kind.fields("zip", 0)
    assert field.labels == tuple(f"bucket {k}" for k in range(7))

    def bucket(name):
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") % 7

    names = [f"{k}" for k in range(1000)]
    codes = read(kind, [*names[:500], *range(500, 1000), None])
    assert codes[:-1].tolist() == [bucket(name) for name in names]
    assert codes[-1] == MISSING
    assert read(Categories(buckets=1000), ["Zürich", "3", ""]).tolist() == [368, 726, 756], "for ever"


def test_text_is_a_set_of_words():
    kind = Text(1000)
    assert kind.fields("note", 1) == (Words("note", 1, 1000),)
    bags = read(kind, ["Zürich, zürich; 3_3!", None, "", "3 ZÜRICH", 3])
    assert bags.starts.tolist() == [0, 2, 2, 2, 4, 5]
    assert bags.buckets.tolist() == [47, 726, 47, 726, 726]
    assert len(read(Text(2), ["a b c d e f g h i j k l m n o p"]).buckets) == 2, "a set, not a count"


def test_dates():
    kind = Date(parts=("time", "month", "weekday", "hour"))
    quantity, *listed = kind.fields("seen", 2)
    assert quantity == Quantity("seen.time", 2)
    assert [(f.name, len(f.labels), f.labels[0]) for f in listed] == [
        ("seen.month", 12, "January"), ("seen.weekday", 7, "Monday"), ("seen.hour", 24, "00")
    ]  # fmt: skip
    entries = [
        "1970-01-01", " 2024-02-29T18:00:00 ", datetime(2024, 2, 29, 18),
        pd.Timestamp("2024-02-29 18:00", tz="Asia/Tokyo"),
        "2024-02-29T20:00:00+02:00", date(1969, 12, 31), np.datetime64("2024-02-29T18"), "2023-02-29", 5, None, "soon",
    ]  # fmt: skip
    days, month, weekday, hour = kind.read(distinct(entries))
    leap, nan = (date(2024, 2, 29) - date(1970, 1, 1)).days, math.nan
    expected = [0, leap + 0.75, leap + 0.75, leap + 0.375, leap + 0.75, -1, leap + 0.75, nan, nan, nan, nan]
    assert np.array_equal(days, expected, equal_nan=True)
    assert month.tolist() == [0, 1, 1, 1, 1, 11, 1] + [MISSING] * 4
    assert weekday.tolist() == [3, 3, 3, 3, 3, 2, 3] + [MISSING] * 4
    assert hour.tolist() == [0, 18, 18, 9, 18, 0, 18] + [MISSING] * 4


def test_parts_of_dates_are_those_of_the_calendar():
    moments = np.random.default_rng(0).integers(-(2**55), 2**55, 2000)  # microseconds: years 829 to 3111
    values = moments.astype("datetime64[us]")
    days, month, weekday, hour = Date(parts=["time", "month", "weekday", "hour"]).read(microseconds(values))
    known = [datetime(1970, 1, 1) + timedelta(microseconds=int(moment)) for moment in moments]
    assert month.tolist() == [one.month - 1 for one in known]
    assert weekday.tolist() == [one.weekday() for one in known]
    assert hour.tolist() == [one.hour for one in known]
    assert days.tolist() == (moments / 86_400_000_000).tolist()


def test_dates_in_a_format_of_their_own():
    days, *_ = Date("%d.%m.%Y").read(distinct(["29.02.2024", "2024-02-29", date(2024, 2, 29), "31.02.2024"]))
    assert np.array_equal(days, [19782, np.nan, 19782, np.nan], equal_nan=True)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps"])
def test_one_moment_in_all_units(unit):
    with np.errstate(all="raise"):
        (days, *_) = Date().read(microseconds(np.array(["1970-01-01", "NaT"], f"datetime64[{unit}]")))
        (extreme, *_) = Date().read(microseconds(np.array([2**62, -(2**62)], np.int64).view(f"datetime64[{unit}]")))
    assert days[0] == 0
    assert np.isnan(days[1])
    assert extreme[0] > 0 > extreme[1]


BAD = [
    (lambda: Number(5, 5), "low=5 must be below high=5"),
    (lambda: Number("a"), "low='a' must be a finite number, or None where no bound is known"),
    (lambda: Number(high=math.nan), "high=nan must be a finite number, or None"),
    (lambda: Number(low=-1e200), "must lie between -2"),
    (lambda: Categories([]), "values=.* must be None or a list"),
    (lambda: Categories("abc"), "values='abc' must be None or a list"),
    (lambda: Categories({"a", "b"}), "must be None or a list"),
    (lambda: Categories(["a", None]), "values has None, which counts as missing"),
    (lambda: Categories([1, "1"]), "values has 1 and '1', which are the same category '1'"),
    (lambda: Categories(["a"], buckets=4), "values and buckets=4 cannot be combined"),
    (lambda: Categories(buckets=1), "buckets=1 must be an integer >= 2"),
    (lambda: Text(buckets=2.5), "buckets=2.5 must be an integer >= 2"),
    (lambda: Date("%d.%m."), "format='%d.%m.' must be None"),
    (lambda: Date("%q"), "format='%q' must be None"),
    (lambda: Date(parts=()), "parts=.* must list some of 'time'"),
    (lambda: Date(parts=("year",)), "parts=.* must list some of 'time'"),
    (lambda: Date(parts=("time", "time")), "each once"),
]


@pytest.mark.parametrize(("declare", "message"), BAD)
def test_bad_declarations(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()


@pytest.mark.parametrize("kind", [Number(0, 1), Categories(["a", 1]), Categories(), Text(), Date("%d.%m.%Y")])
def test_kinds_are_values(kind):
    read_before = kind.read(distinct(["a"]))
    for twin in (copy.deepcopy(kind), pickle.loads(pickle.dumps(kind))):
        assert twin == kind
        assert hash(twin) == hash(kind)
        assert repr(twin) == repr(kind)
    assert len(read_before) == len(kind.fields("x", 0))


def test_integers_that_python_will_not_write_have_a_name_too():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        keys = read(Categories(), [10**600, 10**5000, -(10**5000), 1]).keys
    finally:
        sys.set_int_max_str_digits(limit)
    assert sorted(keys) == sorted(["1", str(10**600), hex(10**5000), hex(-(10**5000))])
