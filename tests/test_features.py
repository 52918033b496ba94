"""Features of raw tables: what each kind of field becomes, and that released counts lead to the right ones."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest

import dpsk.data.features
from dpsk import Categories, Date, DPTabularClassifier, Number, Text
from dpsk.data import Door, schema_of
from dpsk.data.features import CategoryFeatures, Features, QuantityFeatures, WordFeatures
from dpsk.data.fields import FrameChunk, Named, StoredKeys
from dpsk.encodings import bins, field_features
from dpsk.encodings.tabular import Schedule
from dpsk.estimators.opening import open_table
from dpsk.estimators.plan import plan_of
from dpsk.mechanisms import bits_for
from dpsk.privacy.durable import set_aside
from dpsk.queries.looks import FieldCounts, SignedMagnitudes, Tally

pytestmark = pytest.mark.filterwarnings("ignore::dpsk.NotPrivateWarning")


def features_of(frame, part, columns="auto"):
    schema = schema_of(frame, columns)
    return Features(schema, (part,)).transform(schema.read(frame)).toarray()


def test_hats_and_the_linear_term_of_a_quantity():
    frame = pd.DataFrame({"a": [-5.0, 0.0, 1.0, 3.0, 99.0, np.nan]})
    knots = np.array([0.0, 2.0, 4.0])
    part = QuantityFeatures(0, "a", -1.0, 5.0, 1.0, knots, zero=True, missing=True)
    assert part.names == ("a", "a near 0", "a near 2", "a near 4", "a = 0", "a missing")
    expected = [
        [-0.5, 1, 0, 0, 0, 0],  # clipped to -1, which is half as far from the centre as 5 is
        [-0.25, 1, 0, 0, 1, 0],
        [0, 0.5, 0.5, 0, 0, 0],
        [0.5, 0, 0.5, 0.5, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(features_of(frame, part), expected)


def test_knots_that_are_near_have_names_of_their_own():
    part = QuantityFeatures(0, "t", 0.0, 1.0, 0.5, np.array([20210.5, 20210.50001, 20211.0]))
    assert part.names[1:] == ("t near 20210.5", "t near 20210.50001", "t near 20211")


def test_features_have_names_of_their_own():
    frame = pd.DataFrame({"a": ["b"], "a = b": [1.0]})
    parts = (
        CategoryFeatures(0, "a", ("b",)),
        QuantityFeatures(1, "a = b", 0, 1, 0.5),
        CategoryFeatures(2, "c", ("d",)),
    )
    assert Features(schema_of(frame), parts).names == ("a = b", "a = b (2)", "c = d")


def test_columns_that_tell_nothing_have_no_effect():
    """One that has one number in all rows, and one that has none."""
    rng = np.random.default_rng(5)
    n = 10_000
    frame = pd.DataFrame({"x": rng.normal(size=n), "one": 1.0, "seven": 7, "big": -1e6, "none": np.full(n, np.nan)})
    y = frame["x"] + rng.logistic(size=n) > 1  # without an intercept that is 0
    for seed in range(3):
        effects = DPTabularClassifier(epsilon=1.0, random_state=seed).fit(frame, y).effects_
        assert all(effects[name].importance < 0.15 for name in ("one", "seven", "big", "none"))
        assert effects["x"].importance > 0.5


def test_a_straight_line_has_one_feature():
    part = QuantityFeatures(0, "a", 0.0, 4.0, 2.0)
    np.testing.assert_array_equal(features_of(pd.DataFrame({"a": [0.0, 3.0, np.nan]}), part), [[-1], [0.5], [0]])


def test_indicators_of_discovered_and_of_listed_categories():
    frame = pd.DataFrame({"a": ["u", "w", None, "v", "u"]})
    found = CategoryFeatures(0, "a", ("u", "w"), other=True, missing=True)
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]]
    np.testing.assert_array_equal(features_of(frame, found), expected)
    listed = CategoryFeatures(0, "a", ("w", "u"), (2, 0), other=True, missing=True)
    by_list = features_of(frame, listed, {"a": Categories(["u", "v", "w"])})
    np.testing.assert_array_equal(by_list, np.array(expected)[:, [1, 0, 2, 3]])
    without = CategoryFeatures(0, "a", ("u",), (0,))
    nowhere = features_of(frame, without, {"a": Categories(["u", "v"])})
    np.testing.assert_array_equal(nowhere, [[1], [0], [0], [0], [1]])


def test_words_have_norm_one_and_dropped_buckets_nothing():
    frame = pd.DataFrame({"a": ["to be or not to be", "", None, "be"]})
    whole = features_of(frame, WordFeatures(0, "a", tuple(range(64)), 64), {"a": Text(64)})
    np.testing.assert_allclose((whole**2).sum(axis=1), [1, 0, 0, 1])
    bucket = int(whole[3].argmax())
    (one,) = features_of(frame, WordFeatures(0, "a", (bucket,), 64), {"a": Text(64)}).T
    np.testing.assert_allclose(one, whole[:, bucket])


def test_a_row_is_transformed_by_itself():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(300) < 0.1, np.nan, np.round(rng.normal(size=300), 1)),
            "b": rng.choice(["x", "y", "z"], 300),
            "c": rng.choice(["one two", "two three four", ""], 300),
            "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 300), unit="D"),
        }
    )
    columns = {"b": Categories(["x", "y"]), "c": Text(16)}
    model = DPTabularClassifier(epsilon=20.0, columns=columns, random_state=0).fit(frame, frame.a > 0)
    together = model.encoder_.transform(frame)
    alone = np.vstack([model.encoder_.transform(frame.iloc[[i]]) for i in range(0, 300, 7)])
    np.testing.assert_array_equal(alone, together[::7])
    assert np.abs(together).max() <= 1


@pytest.mark.parametrize("epsilon", [50.0, 1000.0])
def test_released_counts_lead_to_the_right_indicators(epsilon):
    """Indicators of a list that is not sorted, and of months, stand for the values that they are named for."""
    rng = np.random.default_rng(1)
    n = 4000
    size = rng.choice(["small", "large", "medium"], n, p=[0.5, 0.3, 0.2])
    seen = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D")
    frame = pd.DataFrame({"size": size, "seen": seen})
    columns = {"size": Categories(["small", "medium", "large", "huge"]), "seen": Date(parts=("month",))}
    model = DPTabularClassifier(epsilon=epsilon, columns=columns, random_state=0).fit(frame, rng.random(n) < 0.5)
    shown = pd.DataFrame(model.encoder_.transform(frame), columns=model.encoder_.get_feature_names_out())
    for value in ("small", "medium", "large"):
        np.testing.assert_array_equal(shown[f"size = {value}"], size == value)
    for number, month in [(1, "January"), (4, "April"), (12, "December")]:
        np.testing.assert_array_equal(shown[f"seen.month = {month}"], seen.month == number)
    assert "size = huge" not in shown


def encodings(model, frame, y, count):
    """Return the released features of fits that differ in their noise alone, by the names of the fields."""
    opened = open_table(model, frame, y, model)
    plan = plan_of(model, opened.facts)
    for seed in range(count):
        with set_aside(None, plan.budget, label="test", adjacency="zero-out", private=False) as reserved:
            how = plan.encoding.learned(Door(reserved, bits_for(seed), "zero-out"), opened)
        yield {part.label: part for part in how.features.parts}


def test_knots_ends_and_centres_follow_the_numbers():
    """Ends and centres do in most fits: in 1 of 5, noise lays one far out, since a tail is one wide bin.

    If it does so with a chance of 3/10, medians of 101 fits are off with a chance of 1e-5.
    """
    rng = np.random.default_rng(2)
    n = 20_000
    frame = pd.DataFrame(
        {
            "year": rng.integers(1950, 2021, n),
            "normal": rng.normal(100, 15, n),
            "flag": rng.integers(0, 2, n).astype(float),
            "spiky": np.where(rng.random(n) < 0.9, 0, rng.choice([1500, 5000, 7298], n)),
            "constant": 3,
            "gap": np.where(rng.random(n) < 0.3, np.nan, rng.exponential(size=n)),
        }
    )
    model = DPTabularClassifier(epsilon=8.0, random_state=0)
    found = list(encodings(model, frame, rng.random(n) < 0.5, 101))
    for name in ("year", "normal", "gap"):
        q = np.nanquantile(frame[name], [0.01, 0.99])
        ends = np.array([[parts[name].low, parts[name].high, parts[name].centre] for parts in found])
        off = np.median(np.abs(ends - [*q, frame[name].mean()]), axis=0) / (q[1] - q[0])
        most = {"year": 0.1, "normal": 0.3, "gap": 0.5}[name]
        assert (off < [most, most, 0.05]).all()
        for parts in found:
            assert len(parts[name].knots) >= 10
            assert (np.diff(parts[name].knots) > 0).all()
    parts = found[0]
    assert parts["gap"].missing
    assert not parts["normal"].missing
    assert len(parts["flag"].knots) == len(parts["constant"].knots) == 0
    assert parts["spiky"].zero
    for value in (1500, 5000, 7298):
        assert np.abs(parts["spiky"].knots - value).min() < 30


def test_one_long_text_does_not_take_the_memory_of_a_table_of_such(monkeypatch):
    """Whether memory suffices would tell that some row is long."""
    texts = ["b a", "", None, " ".join(map(str, range(200)))] + ["a c"] * 60
    frame, kind = pd.DataFrame({"t": texts, "n": np.arange(64.0)}), Text(2**12)
    schema = schema_of(frame, {"t": kind})
    parts = WordFeatures(0, "t", tuple(range(2**12)), 2**12), QuantityFeatures(1, "n", 0.0, 64.0, 1.0)
    features, chunk, shapes, entries = Features(schema, parts), schema.read(frame), [], WordFeatures.entries

    def watched(self, values):
        made = entries(self, values)
        shapes.append(made[0].shape)
        return made

    monkeypatch.setattr(WordFeatures, "entries", watched)
    together = features.transform(chunk)
    monkeypatch.setattr(dpsk.data.features, "MOST_SLOTS", 400)
    apart = features.transform(chunk)
    rows, slots = shapes[0]
    assert rows == 64
    assert 190 < slots <= 200, "some words share a bucket"
    assert all(rows * slots <= 400 for rows, slots in shapes[1:])
    assert sum(rows for rows, _ in shapes[1:]) == 64
    for name in ("data", "indices", "indptr"):
        assert getattr(together, name).tobytes() == getattr(apart, name).astype(getattr(together, name).dtype).tobytes()


def test_few_rows_get_straight_lines_and_many_get_curves():
    rng = np.random.default_rng(4)
    for n, epsilon, curved in [(300, 0.2, False), (5000, 0.01, False), (5000, 4.0, True)]:
        frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few rows for this epsilon
            model = DPTabularClassifier(epsilon=epsilon, random_state=0).fit(frame, rng.random(n) < 0.5)
        assert all(bool(len(part.knots)) is curved for part in model.encoder_.features.parts)


def test_the_schedule_gives_looks_less_and_curves_more_knots_where_noise_matters_less():
    schedules = [Schedule(precision, 10**6) for precision in np.geomspace(1, 1e6, 50)]
    for name, sign in [("share", -1), ("first", -1), ("closer", 1), ("n_knots", 1)]:
        values = [getattr(schedule, name) for schedule in schedules]
        assert (sign * np.diff(values) >= 0).all(), name
        assert len(set(values)) > 3, name
    assert all(0 < s.last < 1 and s.share <= 0.3 for s in schedules)
    assert [Schedule(1e6, n).n_knots for n in (100, 8000, 10**6)] == [4, 8, 32]


def test_rows_of_zero_are_no_found_numbers():
    """The cell of 0 says nothing of the cells beside it, nor of where other rows are."""
    edges, noise = SignedMagnitudes.edges(), 10.0
    zero = (len(edges) - 1) // 2
    counts = np.zeros(len(edges) - 1)
    counts[zero] = 5000.0
    counts[[zero - 1, zero + 3]] = 1.6 * noise
    counts[zero + 100] = 3.5 * noise  # too little, unless many rows are missing
    held = np.flatnonzero(bins.filled(edges, counts, noise, total=100.0))
    assert held.tolist() == [zero + 100]
    assert not bins.filled(edges, counts, noise, total=10.0).any()


def test_public_bounds_are_the_ends():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(40, 10, 3000), "b": rng.normal(40, 10, 3000)})
    columns = {"a": Number(0, 100), "b": Number(low=0)}
    model = DPTabularClassifier(epsilon=4.0, columns=columns, random_state=0).fit(frame, frame.a > 40)
    a, b = model.encoder_.features.parts
    assert (a.low, a.high) == (0, 100)
    assert b.low == 0
    assert 50 < b.high < 90


@pytest.mark.parametrize("kind", [Number(), Number(low=5), Number(high=-5), Number(0, 1)])
@pytest.mark.parametrize("counted", [-3.0, 0.0, 2.0])
def test_counts_of_noise_alone_lead_to_finite_features(kind, counted):
    """Whatever was released, the map of a column is one: its ends are in order, and nothing is divided by 0."""
    (field,) = kind.fields("a", 0)
    for edges in (np.linspace(-1, 1, 65), np.array([0.0, 1.0]), np.array([-8.0, -6.0, -5.5])):
        cells = np.full(len(edges) - 1, counted)
        found = field_features.counted(
            field, 0, FieldCounts(cells, zero=counted, missing=counted), edges, n_knots=4, n_rows=10, noise=1.0
        )
        part = found.features
        assert part.low <= part.centre <= part.high
        assert np.isfinite(found.sums).all()
        assert np.isfinite(found.products).all()
        assert np.abs(part.matrix(np.array([-9.0, 0.0, 0.5, 7.0, np.nan]))).max() <= 1


def test_features_refuse_nothing_about_values():
    part = QuantityFeatures(0, "a", 0.0, 1.0, 0.5, np.array([0.0, 0.5, 1.0]))
    schema = schema_of(pd.DataFrame({"a": [1.0]}))
    huge = FrameChunk(schema.fields, (np.array([2.0**500, -(2.0**500), 5e-324, -0.0]),), 4)
    assert np.abs(Features(schema, (part,)).transform(huge).toarray()).max() == 1


def test_a_thread_without_rows_adds_nothing():
    first = Tally({0: np.array([3])}, {0: {"a": 1}})
    tally = sum([0, first, 0, Tally({0: np.array([4])}, {0: {"a": 1, "b": 2}}), 0])
    assert tally.counts[0].tolist() == [7]
    assert tally.named == {0: {"a": 2, "b": 2}}
    assert first.counts[0].tolist() == [3]  # it may be added again, where a worker was lost
    assert first.named == {0: {"a": 1}}


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [2, 7])
def test_threads_change_no_bit(n_jobs):
    """With more threads than parts, some find nothing to count."""
    n = 2**18
    frame = pd.DataFrame({f"x{k}": np.arange(n) % (7 + k) for k in range(3)} | {"c": np.resize(["a", "b", "rare"], n)})
    y = np.arange(n) % 3 == 0

    def fitted():
        return DPTabularClassifier(epsilon=0.2, random_state=0, delta=1e-8).fit(frame, y)

    one = fitted()
    with joblib.parallel_config("threading", n_jobs=n_jobs):
        several = fitted()
    np.testing.assert_array_equal(one.coef_, several.coef_)
    assert one.encoder_.features.names == several.encoder_.features.names


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_what_a_fit_of_a_raw_table_reports(adjacency):
    """The discovery says by how much a row moves a count; the last count gets its part; kinds of columns are named."""
    rng = np.random.default_rng(6)
    n = 4000
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["u", "v"], n), "c": rng.choice(["w", "x"], n)})
    model = DPTabularClassifier(epsilon=2.0, adjacency=adjacency, random_state=0).fit(frame, frame.a > 0)
    spent = model.privacy_spent_
    looks = [release for release in spent.releases if release.label == "joint histogram"]
    mu = np.sqrt(max(release.cost for release in looks))
    rows = 1 if adjacency == "zero-out" else 2
    assert spent.discovery.shift * np.sqrt(3 * rows) == pytest.approx(mu, rel=1e-6)
    assert spent.discovery.columns == 2
    assert spent.discovery.failure == pytest.approx(0.1 * spent.delta)
    (outcomes,) = (release for release in spent.releases if release.label == "outcomes")
    assert outcomes.cost == pytest.approx(0.02 * spent.limit, rel=1e-3)
    assert spent.to_dict()["columns"] == {"a": "number"} | dict.fromkeys("bc", "categories to be discovered")
    assert spent.charged == pytest.approx(spent.limit, rel=1e-6)


def test_stored_names_are_the_names_and_have_their_marks():
    keys = ["", "a", "\ud800", "é", "long" * 100]
    stored = StoredKeys.of(keys)
    assert list(stored) == keys
    codes = np.arange(len(keys), dtype=np.int32)
    np.testing.assert_array_equal(Named(codes, stored).marks, Named(codes, keys).marks)
    assert len(set(stored.marks.tolist())) == len(keys)
