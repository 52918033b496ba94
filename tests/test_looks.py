"""The looks at raw tables: right counts, one row's influence, the noise of every value, and what is not shown."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import dpsk.data.schema
import dpsk.estimators.raw_tables
import dpsk.queries.looks
from dpsk import Categories, Chunks, Date, DPTabularClassifier, Number, Text
from dpsk.data import ArrayRows, RowMap, schema_of
from dpsk.data.fields import Found, Listed, Quantity, Words
from dpsk.data.frame_tables import in_memory, on_disk
from dpsk.estimators.opening import open_table
from dpsk.mechanisms import Gaussian, Laplace, SeededBits
from dpsk.mechanisms.staircase import rounded_gaussian
from dpsk.privacy import Discovery
from dpsk.privacy.costs import GaussianCost
from dpsk.queries.looks import JointHistogram, SignedMagnitudes
from dpsk.queries.outcomes import Outcomes
from dpsk.testing import check_query

ONE = 2**16
EDGES = np.array([-1.0, 0.0, 0.0, 1.0, 10.0])
COLUMNS = {"x": Number(), "listed": Categories(["a", "b"]), "found": Categories(), "words": Text(8)}
POSSIBLE = {
    "x": [-3.0, 0.0, 0.2, 12.0, None],
    "listed": ["a", "b", "c", None],
    "found": ["p", "q", None],
    "words": ["", "u", "u v", "u v w some more words of a long text that fills buckets"],
}


def frame_with(rows):
    return pd.DataFrame({name: pd.Series([row[j] for row in rows], dtype=object) for j, name in enumerate(POSSIBLE)})


def rows_of(frame, columns=COLUMNS):
    return in_memory(schema_of(frame, columns), [frame]).raw()


def look_at(frame, columns=COLUMNS, *, kind=JointHistogram, mu=0.5, failure=0.01, adjacency="zero-out", edges=EDGES):
    """A look that gives every field so much noise that one row moves a count by mu of its deviations."""
    fields = dict(enumerate(schema_of(frame, columns).fields))
    n_found = sum(isinstance(field, Found) for field in fields.values())
    counts_mu = mu * math.sqrt(len(fields) * (2 if adjacency == "replace" else 1))
    discovery = Discovery(failure, n_found, mu * (1 + 2.0**-40)) if n_found else None
    ends = {at: edges for at, field in fields.items() if isinstance(field, Quantity)}
    return kind(fields, ends, mechanism=Gaussian(counts_mu), adjacency=adjacency, discovery=discovery)


class Bare(JointHistogram):
    """The same counts without noise, and without a threshold."""

    _threshold = -math.inf

    def _noisy(self, counts, bits):
        return counts


def bare(frame, columns=COLUMNS, **options):
    """Return the exact counts in steps, by name of the cell."""
    look = look_at(frame, columns, kind=Bare, **options)
    named = {}
    for at, counts in look(rows_of(frame, columns), SeededBits(0)).items():
        field = look.fields[at]
        cells = counts.names or range(len(counts.cells))
        named |= {(field.name, cell): count for cell, count in zip(cells, counts.cells, strict=True)}
        named |= {(field.name, rest): getattr(counts, rest) for rest in ("zero", "other", "missing")}
    return {name: round(count * ONE) for name, count in named.items() if count}


def of_python(rows):
    """Count the cells of rows one by one, with plain Python."""
    counts = {}

    def add(*name, weight=ONE):
        counts[name] = counts.get(name, 0) + weight

    kinds = [kind.fields(name, 0)[0] for name, kind in COLUMNS.items()]
    assert [type(field) for field in kinds] == [Quantity, Listed, Found, Words]
    for x, listed, found, words in rows:
        if x is None:
            add("x", "missing")
        elif x == 0:
            add("x", "zero")
        else:  # the last cell that starts at or below x, or the first
            add("x", max((k for k, (low, _) in enumerate(pairwise(EDGES)) if low <= x), default=0))
        if listed is None:
            add("listed", "missing")
        else:
            add("listed", listed if listed in "ab" else "other")
        add("found", found or "missing")
        buckets = {dpsk.data.kinds.bucket_of(word, 8) for word in words.split()}
        for bucket in buckets:
            add("words", bucket, weight=math.isqrt(ONE**2 // len(buckets)))
    return counts


ROWS = list(product(*POSSIBLE.values()))


# --------------------------------------------------------------------------------------------- counts, and one row


def test_counts_of_every_kind_of_field_are_those_of_plain_python():
    rng = np.random.default_rng(0)
    rows = [ROWS[k] for k in rng.integers(len(ROWS), size=300)]
    assert bare(frame_with(rows)) == of_python(rows)


def test_one_row_moves_counts_by_at_most_the_sensitivity():
    """For all tables: counts are sums over rows, and here are all rows and all pairs of them."""
    one_by_one = [bare(frame_with([row])) for row in ROWS]
    cells = sorted({name for counts in one_by_one for name in counts}, key=str)
    parts = np.array([[counts.get(cell, 0) for cell in cells] for counts in one_by_one])
    table = frame_with(ROWS)
    assert bare(table) == dict(zip(cells, parts.sum(axis=0).tolist(), strict=True))
    for adjacency, change in (("zero-out", parts), ("replace", (parts[:, None] - parts[None]).reshape(-1, len(cells)))):
        promised = look_at(table, adjacency=adjacency).sensitivity
        l1, l2 = np.abs(change).sum(axis=1).max(), math.sqrt((change**2).sum(axis=1).max())
        assert 0.7 * promised.l1 < l1 <= promised.l1, adjacency
        assert 0.9 * promised.l2 < l2 <= promised.l2, adjacency
        assert np.abs(change).max() <= promised.linf
        assert not promised.monotone or (change >= 0).all()


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_the_price_is_that_of_the_l2_sensitivity(adjacency):
    frame = frame_with(ROWS).drop(columns="found")
    look = look_at(frame, {name: COLUMNS[name] for name in frame}, adjacency=adjacency)
    parts = 3 * (2 if adjacency == "replace" else 1)
    assert look.cost == GaussianCost(0.5 * math.sqrt(parts))
    assert look.noise == pytest.approx(2.0, rel=1e-12)
    with pytest.raises(ValueError, match="not public"):
        JointHistogram({0: Found("f", 0)}, {}, mechanism=Gaussian(1.0), adjacency=adjacency)
    pure = JointHistogram(look.fields, look.edges, mechanism=Laplace(0.5), adjacency=adjacency)
    most = 1 + 1 + 3  # eight words of weight 1/sqrt(8)
    assert pure.noise == pytest.approx(math.sqrt(2) * most * (parts // 3) / 0.5)


def test_laplace_noise_covers_rows_of_many_words():
    """A row of m words adds sqrt(m) to all buckets together, which is more than 1."""
    text = pd.DataFrame({"t": [" ".join(f"w{k}" for k in range(400))]})
    columns = {"t": Text(64)}
    moved = sum(bare(text, columns).values())
    assert 7.9 * ONE < moved <= look_at(text, columns).sensitivity.l1 == 8 * ONE


def test_a_look_with_less_noise_than_its_discovery_says_is_refused():
    frame = frame_with(ROWS)
    look = look_at(frame)
    wrong = JointHistogram(
        look.fields,
        look.edges,
        mechanism=look.mechanism,
        adjacency="zero-out",
        discovery=replace(look.discovery, shift=0.4),
    )
    with pytest.raises(ValueError, match=r"one row moves counts by 0\.5 standard deviations"):
        wrong.check(rows_of(frame))
    pure = JointHistogram(
        look.fields, look.edges, mechanism=Laplace(1.0), adjacency="zero-out", discovery=look.discovery
    )
    with pytest.raises(TypeError, match="Gaussian noise, not with Laplace"):
        _ = pure.cost


def raw_rows(X, y):
    del y
    return in_memory(schema_of(X), [X]).raw()


@pytest.mark.parametrize("fields", [[0], [0, 2], range(5)])
def test_magnitudes_keep_their_sensitivity(fields):
    assert check_query(SignedMagnitudes(fields), n_features=5, make_rows=raw_rows) > 0.7


def test_magnitudes_are_counted_in_the_cell_between_their_ends():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-9, 15, 500), [0.0, -0.0, np.nan, 2.0**-20]])
    x = np.concatenate([x, SignedMagnitudes.ends, -SignedMagnitudes.ends])
    frame = pd.DataFrame({"x": x})
    (counts,) = rows_of(frame, "auto").total(SignedMagnitudes([0])) // ONE
    side, ends = len(SignedMagnitudes.ends), SignedMagnitudes.ends
    expected = np.zeros_like(counts)
    for value in x[~np.isnan(x)]:
        above = next((k for k, end in enumerate(ends) if abs(value) <= end), side - 1)
        expected[side if value == 0 else side + 1 + above if value > 0 else side - 1 - above] += 1
    expected[-1] = np.isnan(x).sum()
    np.testing.assert_array_equal(counts, expected)
    assert len(SignedMagnitudes.edges()) == len(counts)
    assert (np.diff(SignedMagnitudes.edges()) >= 0).all()


@pytest.mark.parametrize("n_classes", [None, 3, 10])
def test_outcomes_keep_their_sensitivity(n_classes):
    w = np.random.default_rng(0).normal(size=(5,) if n_classes is None else (5, n_classes))
    assert check_query(Outcomes(w, np.linspace(-4, 4, 9)), n_features=4, n_classes=n_classes) > 0.9


def test_outcomes_count_labels_by_score():
    rng = np.random.default_rng(0)
    X, w, edges = (
        rng.integers(-4, 5, size=(500, 3)) / 4,
        np.array([1.0, -0.5, 0.25, 0.125]),
        np.array([-1.0, 0, 0.5, 2]),
    )
    y = rng.choice([-1, 1], 500)
    counts = ArrayRows(X, y, RowMap()).total(Outcomes(w, edges)) >> 20
    scores, expected = X @ w[:3] + w[3], np.zeros((2, 3))
    for score, label in zip(scores, y, strict=True):
        expected[int(label > 0), int((score >= edges[1:-1]).sum())] += 1
    np.testing.assert_array_equal(counts, expected)
    several = (
        ArrayRows(X, rng.integers(3, size=500), RowMap(n_classes=3)).total(Outcomes(np.zeros((4, 3)), edges)) >> 20
    )
    assert several[:, 0].sum() == 500, "with equal scores p/(1-p) is 1/2 for each of three classes"


# ------------------------------------------------------------------------------------------------------- the noise

VALUES = [f"value {k:03d}" for k in np.random.default_rng(1).permutation(200)]
FREQUENT = pd.DataFrame({"v": [v for k, v in enumerate(VALUES) for _ in range(1 + k % 12)], "w": "one"})
FOUND = {"v": Categories(), "w": Categories()}


def require_noise_on_every_value(frame=FREQUENT, seed=3):
    """Draw the noise once more, for all values in sorted order, and compare what is shown bit for bit."""
    look, bits, again = look_at(frame, FOUND), SeededBits(seed), SeededBits(seed)
    released = look(rows_of(frame, FOUND), bits)
    sigma = math.ceil(look.sensitivity.l2 / look.mechanism.mu)
    threshold = look.discovery.threshold(ONE, sigma)
    for counts in released.values():  # entries without a value
        assert counts.missing == rounded_gaussian(sigma, 1, again)[0] / ONE
    for name, counts in zip(frame, released.values(), strict=True):
        true = frame[name].value_counts().sort_index()
        noisy = true.to_numpy() * ONE + rounded_gaussian(sigma, len(true), again)
        shown = noisy >= threshold
        assert list(counts.names) == list(true.index[shown])
        np.testing.assert_array_equal(counts.cells * ONE, noisy[shown])
    assert 10 < len(released[0].names) < 190, "some are shown and some are not"
    assert bits.take(32) == again.take(32), "as many bits were drawn"


def test_every_value_gets_noise_in_sorted_order_whether_it_is_shown_or_not():
    require_noise_on_every_value()


def test_order_of_occurrence_is_caught(monkeypatch):
    monkeypatch.setattr(dpsk.queries.looks, "sorted", lambda named, **_: list(named), raising=False)
    shuffled = FREQUENT.sample(frac=1.0, random_state=0)
    monkeypatch.setattr(
        dpsk.queries.looks._Count,
        "_by_name",
        lambda self, values, _: {
            values.keys[code]: int((values.codes == code).sum()) * ONE for code in dict.fromkeys(values.codes)
        },
    )
    with pytest.raises(AssertionError):
        require_noise_on_every_value(shuffled)


def test_a_value_without_noise_is_caught(monkeypatch):
    noisy = JointHistogram._noisy

    def without_one(self, counts, bits):
        found = noisy(self, counts, bits)
        if len(counts) > 1:
            found[counts.argmax()] = counts.max()
        return found

    monkeypatch.setattr(JointHistogram, "_noisy", without_one)
    with pytest.raises(AssertionError):
        require_noise_on_every_value()


def test_noise_on_shown_values_only_is_caught(monkeypatch):
    def frequent_only(self, named, bits):
        names = sorted(name for name, count in named.items() if count > 3 * ONE)
        noisy = self._noisy(np.array([named[name] for name in names], dtype=np.int64), bits)
        seen = np.flatnonzero(noisy >= self._threshold)
        return [names[i] for i in seen], noisy[seen] / ONE

    monkeypatch.setattr(JointHistogram, "_reached", frequent_only)
    with pytest.raises(AssertionError):
        require_noise_on_every_value()


# ------------------------------------------------------------------------------------------- values of a single row

ALONE = 10_000


def require_rare_values_hidden(*, sigma, failure, adjacency="zero-out", n_columns=2):
    """Every row has values of its own. Each row shows one with at most the probability that was promised."""
    frame = pd.DataFrame({f"c{j}": [f"{j} {k}" for k in range(ALONE)] for j in range(n_columns)})
    columns = dict.fromkeys(frame, Categories())
    parts = n_columns * (2 if adjacency == "replace" else 1)
    mu = math.nextafter(math.sqrt(parts), math.inf) * ONE / sigma
    look = JointHistogram(
        dict(enumerate(schema_of(frame, columns).fields)),
        {},
        mechanism=Gaussian(mu),
        adjacency=adjacency,
        discovery=Discovery(failure, n_columns, ONE / sigma),
    )
    rows = rows_of(frame, columns)
    look.check(rows)
    released = look(rows, SeededBits(5))
    shown = {int(name.split()[1]) for counts in released.values() for name in counts.names}
    tail = norm.sf((look._threshold - ONE - 0.5) / sigma)  # the noise is rounded
    promised = 1 - (1 - tail) ** n_columns
    assert promised <= failure
    assert binom.sf(len(shown) - 1, ALONE, promised) > 1e-6
    assert binom.cdf(len(shown), ALONE, promised) > 1e-6
    return len(shown)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize(("sigma", "n_columns"), [(3, 1), (3, 2), (50, 2), (10**6, 1), (10**6, 3)])
def test_a_value_of_one_row_shows_with_the_promised_probability_only(sigma, n_columns, adjacency):
    assert require_rare_values_hidden(sigma=sigma, failure=0.01, n_columns=n_columns, adjacency=adjacency) > 10


def test_a_threshold_by_the_continuous_tail_is_caught(monkeypatch):
    """At sigma = 3 the tail from 7 on is .0098, but noise that is rounded to 7 or more has .0151."""
    monkeypatch.setattr("dpsk.privacy.discovery.rounded_tail", lambda steps, sigma: float(norm.sf(steps / sigma)))
    with pytest.raises(AssertionError):
        require_rare_values_hidden(sigma=3, failure=0.01, n_columns=1)


def test_a_threshold_for_one_column_where_there_are_three_is_caught(monkeypatch):
    monkeypatch.setattr(Discovery, "_kept", lambda self, tail, _: tail <= self.failure)
    with pytest.raises(AssertionError):
        require_rare_values_hidden(sigma=10**6, failure=0.01, n_columns=3)


# ------------------------------------------------------------------------------------------ storages, and public kinds


def everything(rows, frame, adjacency="zero-out"):
    look = look_at(frame, adjacency=adjacency, mu=0.3)
    released = look(rows, SeededBits(1))
    return [(c.names, c.cells.tobytes(), c.zero, c.other, c.missing) for c in released.values()]


def test_blocks_files_and_clusters_give_the_same_bits(monkeypatch):
    dd = pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)
    frame, y = frame_with([ROWS[k] for k in rng.integers(len(ROWS), size=500)]), rng.integers(2, size=500)
    schema = schema_of(frame, COLUMNS)
    whole = everything(rows_of(frame), frame)
    cut = [frame.iloc[:3], frame.iloc[3:200], frame.iloc[200:]]
    assert everything(in_memory(schema, cut).raw(), frame) == whole
    assert everything(on_disk(schema, cut[::-1]).raw(), frame) == whole, "the order of rows does not matter either"
    model = DPTabularClassifier(columns=COLUMNS)
    cluster = open_table(
        model, dd.from_pandas(frame, npartitions=4), dd.from_pandas(pd.Series(y), npartitions=4), model
    )
    cluster = cluster.raw()
    assert everything(cluster, frame) == whole
    chunks = Chunks(lambda: [(frame.iloc[:90], y[:90]), (frame.iloc[90:], y[90:])])
    assert everything(open_table(model, chunks, None, model).raw(), frame) == whole
    monkeypatch.setattr(dpsk.data.schema, "ROWS_AT_A_TIME", 7)
    assert everything(rows_of(frame), frame) == whole


@pytest.mark.parametrize("at_once", [1, 50, 2_500])
def test_passes_over_shards_of_names_count_each_value_once(at_once, monkeypatch):
    counts = bare(FREQUENT, FOUND)
    monkeypatch.setattr(dpsk.queries.looks, "_NAMES_AT_ONCE", at_once)
    assert bare(FREQUENT, FOUND) == counts
    released = look_at(FREQUENT, FOUND)(rows_of(FREQUENT, FOUND), SeededBits(0))
    for found in released.values():
        assert list(found.names) == sorted(set(found.names))


def require_categories_of_a_dtype_unseen():
    """A pandas category lists values that nobody has, or that one row has: neither is shown, and no bit changes."""
    values = ["a", "b"] * 200 + ["only one row"]
    target = np.arange(401) % 2
    fits = []
    for categories in (["a", "b", "only one row"], ["never", "only one row", "b", "a", "nor this"]):
        frame = pd.DataFrame({"v": pd.Categorical(values, categories=categories)})
        fits.append(DPTabularClassifier(epsilon=2.0, random_state=0).fit(frame, target))
    names = [list(model.encoder_.get_feature_names_out()) for model in fits]
    assert names[0] == names[1]
    assert not any("only" in name or "never" in name or "nor" in name for name in names[0])
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_the_list_of_a_category_is_not_public():
    require_categories_of_a_dtype_unseen()


def test_a_list_that_was_taken_from_a_dtype_is_caught(monkeypatch):
    def leaking(X, columns="auto", **options):
        lists = {name: Categories(list(dtype.categories)) for name, dtype in X.dtypes.items()}
        return schema_of(X, lists if columns == "auto" else columns, **options)

    monkeypatch.setattr(dpsk.estimators.raw_tables, "schema_of", leaking)
    with pytest.raises(AssertionError):
        require_categories_of_a_dtype_unseen()


def require_kinds_without_a_look_at_values(derive):
    """Kinds follow from names and dtypes, however many values there are, and whatever they are."""
    usual = pd.DataFrame({"v": [f"{k % 3}" for k in range(500)], "n": 1.0, "d": pd.Timestamp("2020-01-01")})
    kinds = list(derive(usual).kinds)
    for values in ([f"{k}" for k in range(500)], ["2020-01-01"] * 500, ["3.5"] * 500, [None] * 500, ["a b c d"] * 500):
        other = usual.assign(v=pd.Series(values, dtype=usual["v"].dtype), n=np.arange(500.0))
        assert list(derive(other).kinds) == kinds
    assert kinds == [Categories(), Number(), Date()]


def test_kinds_do_not_follow_values():
    require_kinds_without_a_look_at_values(schema_of)


def test_hashing_by_cardinality_is_caught():
    def by_cardinality(X):
        return schema_of(X, {"v": Categories(buckets=32) if X["v"].nunique() > 100 else Categories()})

    with pytest.raises(AssertionError):
        require_kinds_without_a_look_at_values(by_cardinality)
