import math

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Columns, PrivateData, RawRows, RowMap
from dpsk.encodings.standardization import (
    FARTHEST,
    MOMENT_SHARE,
    NOISY,
    RANGE_SHARE,
    SCALE_POWER,
    _signs,
    column_moments,
    find_ranges,
    moments_of,
    shrunk,
    standardised,
)
from dpsk.mechanisms import Gaussian, SeededBits
from dpsk.privacy import ZCDP, Budget, BudgetExhausted, GaussianDP, Ledger
from dpsk.queries import Magnitudes, Moments, Positions, RowNorms
from dpsk.solvers.precision import NORM_SHARE, typical_norm


def ledger_of(epsilon, currency=None):
    return Ledger(Budget.of(epsilon, 1e-6, currency=currency or GaussianDP()))


def raw(X, epsilon=1e6, ledger=None, seed=0, adjacency="zero-out"):
    return PrivateData(RawRows(X), ledger or ledger_of(epsilon), SeededBits(seed), adjacency=adjacency)


def placed(X, columns, epsilon=1e6, ledger=None, seed=0, adjacency="zero-out"):
    rows = ArrayRows(X, np.ones(X.shape[0]), RowMap(columns=columns, fit_intercept=False))
    return PrivateData(rows, ledger or ledger_of(epsilon), SeededBits(seed), adjacency=adjacency)


def standardise(data, columns, *, centred):
    return standardised(columns, column_moments(data, columns), centred=centred)


class Watched:
    """A door that shows what a solver may use and nothing else, and keeps a record of what was released.

    ``replies`` are released instead of the truth: then nothing that comes out can depend on the rows.
    """

    ALLOWED = (
        "n_rows",
        "n_units",
        "n_features",
        "currency",
        "budget",
        "remaining",
        "adjacency",
        "portion",
        "norm_range",
    )

    def __init__(self, data, replies=()):
        self.__dict__.update(data=data, replies=list(replies), released=[])

    def __getattr__(self, name):
        assert name in self.ALLOWED, f"{name} is not for solvers"
        return getattr(self.data, name)

    def measure(self, query):
        return self.data.measure(query)

    def release(self, sealed, mechanism):
        value = self.data.release(sealed, mechanism)
        self.released.append((sealed, mechanism, value))
        return self.replies.pop(0) if self.replies else value


N = 4000


def make_columns(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "uniform": rng.uniform(size=n),
        "uniform above zero": rng.uniform(2, 3, n),
        "uniform below zero": rng.uniform(-8, -7, n),
        "uniform around zero": rng.uniform(-0.4, 0.1, n),
        "normal": rng.normal(size=n),
        "normal above zero": rng.normal(size=n) + 10,
        "one-hot": (rng.random(n) < 0.2).astype(float),
        "signs": rng.choice([-1.0, 1.0], n),
        "counts": rng.poisson(2, n).astype(float),
        "years": rng.integers(1990, 2021, n).astype(float),
        "tiny": rng.uniform(size=n) * 1e-6,
        "tiny and normal": rng.normal(size=n) * 1e-6,
        "huge": rng.uniform(size=n) * 1e6,
        "huge and normal": rng.normal(size=n) * 1e6,
        "Cauchy": rng.standard_t(1, n),
        "lognormal": np.exp(2 * rng.normal(size=n)),
    }


CONSTANTS = {"5": 5.0, "1e12": 1e12, "-3": -3.0, "1": 1.0, "-1e-6": -1e-6}


def inside(x, low, high):
    return np.mean((x >= low) & (x <= high))


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("epsilon", [30.0, 1e3, 1e6])
def test_ranges_hold_most_entries_and_are_not_much_wider_than_the_truth(epsilon, store):
    """Noise has at most 10 counts, of 4,000: only the heavy tails lose anything."""
    names, X = list(make_columns()), np.column_stack(list(make_columns().values()))
    columns = find_ranges(raw(store(X), epsilon), through_zero=False)
    for name, x, low, high in zip(names, X.T, columns.low, columns.high, strict=True):
        assert low <= high
        assert inside(x, low, high) > 0.9, name
        # a range may begin on the other side of zero where noise hides how many entries are zero
        assert high - low <= 4 * max(np.ptp(x), np.abs(x).max() * (epsilon < 1e3)), name


def test_ranges_are_tight_where_nothing_is_far_away():
    """64 bins over the power of two above the largest entry: no end is further off than two of them.

    Tails that are thinner than 2 in 1,000 rows a bin may be cut off.
    """
    data = make_columns()
    names, X = list(data), np.column_stack(list(data.values()))
    columns = find_ranges(raw(X), through_zero=False)
    for name, x, low, high in zip(names, X.T, columns.low, columns.high, strict=True):
        bin_width = 2.0 ** np.ceil(np.log2(np.abs(x).max())) / 32
        least, most = np.quantile(x, [0.005, 0.995])
        low_end = min(least, 0.0) if (x == 0).any() else least
        assert x.min() - 2 * bin_width <= low <= low_end + 2 * bin_width, name
        assert x.max() + 2 * bin_width >= high >= most - 2 * bin_width, name


@pytest.mark.parametrize("through_zero", [True, False])
def test_ranges_of_constant_columns(through_zero):
    X = np.tile(list(CONSTANTS.values()), (N, 1))
    columns = find_ranges(raw(X), through_zero=through_zero)
    for value, low, high in zip(CONSTANTS.values(), columns.low, columns.high, strict=True):
        assert low <= value <= high
        if through_zero:
            assert low <= 0 <= high
            assert high - low <= 1.1 * abs(value)
        else:
            assert high - low <= abs(value) / 15.9


def test_ranges_contain_zero_where_it_is_asked_for():
    X = np.column_stack(list(make_columns().values()))
    free, through = (find_ranges(raw(X), through_zero=choice) for choice in (False, True))
    assert (through.low <= np.minimum(free.low, 0)).all()
    assert (through.high >= np.maximum(free.high, 0)).all()
    assert (through.high - through.low <= 1.2 * np.abs(X).max(axis=0) + (X.max(axis=0) - X.min(axis=0))).all()
    assert (free.low > 0).any()
    assert (free.high < 0).any()


def test_ranges_contain_zero_where_many_entries_are_zero():
    rng = np.random.default_rng(0)
    X = rng.uniform(5, 6, (N, 3))
    X[:, 1] *= rng.random(N) < 0.05
    X[:, 2] *= rng.random(N) < 0.8
    columns = find_ranges(raw(sp.csr_matrix(X)), through_zero=False)
    assert columns.low.tolist() == [5.0, 0.0, 0.0]
    assert (columns.high == 6).all()


def test_wide_one_hot_data_are_seen_with_the_weight_of_their_few_entries():
    """A row has 3 entries of 300: noise is that of 3 columns."""
    rng = np.random.default_rng(1)
    at = rng.integers(0, 100, (N, 3)) + np.array([0, 100, 200])
    X = sp.csr_matrix((np.tile([1.0, 2.0, 100.0], N), at.ravel(), np.arange(N + 1) * 3), (N, 300))
    columns = find_ranges(raw(X, 100.0), through_zero=False)
    # 40 entries a column against 5 deviations of 0.85: nearly all are seen
    for first, value, reach in ((0, 1.0, 1.0), (100, 2.0, 2.0), (200, 100.0, 128.0)):
        high = columns.high[first : first + 100]
        assert np.mean((high >= value) & (high <= reach)) > 0.97
    assert (columns.low <= 0).all()


@pytest.mark.parametrize("epsilon", [3.0, 30.0, 100.0])
def test_one_outlier_moves_nothing(epsilon):
    """Its count is far below the noise, which is the same in both runs; in thin tails it may tip a comparison."""
    data = make_columns(20_000)
    thin = np.array([name in ("Cauchy", "lognormal") for name in data])
    X = np.column_stack(list(data.values()))
    before = find_ranges(raw(X, epsilon), through_zero=False)
    bin_width = np.maximum(before.high, -before.low) * 2 / 32
    for outlier in (1e300, -1e300):
        after = find_ranges(raw(np.vstack([X, np.full((1, X.shape[1]), outlier)]), epsilon), through_zero=False)
        for end, other in ((before.low, after.low), (before.high, after.high)):
            assert (np.abs(end - other) <= bin_width)[~thin].all()
            assert np.abs(end - other)[thin].max() < 1000
            assert np.mean(end == other) > 0.85


def test_one_outlier_moves_nothing_at_a_large_budget_either():
    X = np.random.default_rng(0).normal(size=(N, 1))
    columns = find_ranges(raw(np.vstack([X, [[1e300]]])), through_zero=False)
    assert columns.high[0] - columns.low[0] < 100


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_ranges_are_sane_when_everything_is_noise(adjacency):
    """Nothing is seen, so a column keeps about [-1, 1].

    10 calls look at 16 columns of fewer than 1,000 runs of bins each: 5 deviations are passed with probability 5 %, and
    not with these seeds; 3.5 deviations would be passed 40 times.
    """
    X = np.column_stack(list(make_columns(60).values()))
    for seed in range(5):
        for epsilon in (0.01, 0.1):
            columns = find_ranges(raw(X, epsilon, seed=seed, adjacency=adjacency), through_zero=seed % 2 == 0)
            # a bin or two at an end may look like few entries, with probability 0.2 %
            assert ((columns.low >= -1) & (columns.low <= -0.9)).all()
            assert ((columns.high >= 0.9) & (columns.high <= 1)).all()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_ranges_are_finite_and_in_order_at_every_budget(epsilon):
    X = np.column_stack(list(make_columns(500).values()))
    for seed in range(5):
        columns = find_ranges(raw(X, epsilon, seed=seed), through_zero=True)
        assert np.isfinite(columns.low).all()
        assert np.isfinite(columns.high).all()
        assert (columns.low <= 0).all()
        assert (columns.high >= 0).all()
        assert (columns.factor == 1).all()
        assert columns.centre is None


def test_noise_alone_does_not_cut_a_range():
    """Uniform entries at budgets from blind to sharp: 90 % stay in all but a few columns, whatever was seen.

    Where magnitudes are hardly seen, at epsilon 0.4 here, noise makes the second fullest bin the fullest one in 1 of 40
    columns. If a column loses more with a chance of 5 %, more than 32 of 300 do with a chance of 3e-5. At epsilon 1 the
    fullest bin has 250 rows more, 3.7 deviations of the difference, which noise makes up for in 1 of 10,000 columns: in
    more than 2 of 300 with a chance of 5e-6.
    """
    X = np.random.default_rng(0).uniform(-1, 1, (1000, 5))
    for epsilon in (0.1, 0.3, 0.4, 1.0, 3.0, 10.0, 100.0):
        kept = []
        for seed in range(60):
            columns = find_ranges(raw(X, epsilon, seed=seed), through_zero=False)
            kept += [inside(x, low, high) for x, low, high in zip(X.T, columns.low, columns.high, strict=True)]
        assert np.sum(np.array(kept) < 0.9) <= (32 if epsilon < 1 else 2)


def test_a_range_may_lose_a_few_entries_but_not_more():
    """Two clusters: 7 % at one end are too many to be cut off, and 1 % are few."""
    n = 20_000
    for share, kept in ((0.07, True), (0.01, False)):
        x = np.full(n, 0.9)
        rare = np.random.default_rng(0).choice(n, int(share * n), replace=False)
        x[rare] = np.linspace(-0.99, -0.6, len(rare))
        columns = find_ranges(raw(x[:, None], 2.0), through_zero=False)
        assert (columns.low[0] < -0.9) == kept


def test_entries_that_are_spread_thinly_are_seen_together():
    """100 entries in each of 40 powers of two, with noise of 45: no single count is sure, 8 at a time are."""
    X = 2.0 ** (np.arange(N) % 40 + 0.5)[:, None]
    for seed in range(4):
        columns = find_ranges(raw(X, ledger=Ledger(Budget.from_rho(0.0062, 1e-6)), seed=seed), through_zero=False)
        assert columns.high[0] >= 2.0**20


# --- the signs of columns that noise hides --------------------------------------------------------------------------


def one_hot(n, negative=0, seed=0):
    """Eight fields of five categories; entries of the last ``negative`` columns are +1 or -1 alike."""
    rng = np.random.default_rng(seed)
    X = np.hstack([np.eye(5)[rng.integers(0, 5, n)] for _ in range(8)])
    X[:, 40 - negative :] *= rng.choice([-1.0, 1.0], (n, negative))
    return X


HIDING = 0.2  # a count of 400 entries in a column of 2,000 rows has noise of 300


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_columns_that_noise_hides_have_a_sign_together(side, store):
    """16,000 entries beside noise of 1,900 in a sum of 40 columns: 8 deviations.

    A seed is missed with probability 7 % at most (noise above ``_FEWEST``), three of 10 with 3 %. Noise shows a side of
    one of 40 columns that has no such entries with probability 0.2 %.
    """
    found = []
    for seed in range(10):
        columns = find_ranges(raw(store(side * one_hot(2000)), HIDING, seed=seed), through_zero=seed % 2 == 0)
        low, high = (columns.low, columns.high) if side > 0 else (-columns.high, -columns.low)
        assert (high == 1).all()
        assert set(low) in ({0.0}, {-1.0})
        found.append((low == 0).all())
    assert sum(found) >= 8


@pytest.mark.parametrize("X", [np.random.default_rng(0).normal(size=(2000, 20)), one_hot(2000, 40)])
def test_columns_of_mixed_sign_keep_both_sides_where_noise_hides_them(X):
    """As many entries on either side: one is sure and the other few with probability 2 % at the worst budget.

    Sums of three deviations of their noise are the worst: the first is above 4 with probability 16 %, the second below
    1.5 with 7 %, and there are two sides. Farther from there it is rarer by far: four budgets with 3 seeds each lie
    from 1 to 12 deviations.
    """
    for epsilon in (0.05, 0.1, 0.3, 0.5):
        for seed in range(3):
            columns = find_ranges(raw(X, epsilon, seed=seed), through_zero=False)
            assert (columns.low < 0).all()
            assert (columns.high > 0).all()


def signs_of(sides, noise):
    """What is found of columns of which magnitudes showed nothing, from counts of negative and positive entries."""
    sides = np.array(sides, dtype=float)
    counts = np.zeros((len(sides), Positions.n_bins))
    counts[:, [0, -1]] = sides
    low, high = _signs(counts, noise)
    return low.tolist(), high.tolist()


def test_signs_are_a_function_of_two_sums_and_of_sides_that_are_seen():
    assert signs_of([[0, 50]] * 4, 20.0) == ([0.0] * 4, [1.0] * 4)  # 200, and 160 would be sure
    assert signs_of([[0, 39]] * 4, 20.0) == ([-1.0] * 4, [1.0] * 4)
    assert signs_of([[50, 0]] * 4, 20.0) == ([-1.0] * 4, [0.0] * 4)
    assert signs_of([[16, 50]] * 4, 20.0) == ([-1.0] * 4, [1.0] * 4)  # 64 on the other side, and 60 are too many
    assert signs_of([[9, 1e6]] * 4, 2.0) == ([-1.0] * 4, [1.0] * 4)  # 36, and 10 are too many
    assert signs_of([[-30, 50]] * 3 + [[90, 50]], 20.0) == ([0.0] * 3 + [-1.0], [1.0] * 4)  # one is seen


def test_one_row_does_not_decide_about_signs():
    """With the same noise, a row of huge negative entries in every column changes no range.

    It moves the sum over columns by 20, which has noise of 1,900: one of five decisions changes with probability 1 %.
    """
    X = one_hot(2000)
    for seed in range(5):
        ranges = []
        for row in (np.zeros(40), np.full(40, -1e300)):
            columns = find_ranges(raw(np.vstack([X, row]), HIDING, seed=seed), through_zero=False)
            ranges.append((columns.low.tolist(), columns.high.tolist()))
        assert ranges[0] == ranges[1]


# --- the typical norm -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("entries", "norm"), [(1, 1.0), (4, 2.0), (9, 2**1.75), (16, 4.0), (100, 2**3.5)])
def test_the_typical_norm_is_that_of_most_rows(entries, norm):
    X = np.zeros((1000, 100))
    X[:, :entries] = 1e5
    X[:200, :] = 1
    X[200:350, 1:] = 0
    for epsilon in (10.0, 1e6):
        assert typical_norm(raw(X, epsilon)) == pytest.approx(norm, rel=1e-14 if epsilon > 10 else 0.2)


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e6])
def test_the_typical_norm_of_normal_rows_is_near_their_length(length):
    X = np.random.default_rng(0).normal(size=(N, 25)) * length / 5
    data = PrivateData(ArrayRows(X, np.ones(N), RowMap(fit_intercept=False)), ledger_of(1e6), SeededBits(0))
    assert 0.8 * length < typical_norm(data) < 1.25 * length


# --- what is paid, and what is used ---------------------------------------------------------------------------------


@pytest.mark.parametrize("currency", [GaussianDP(), ZCDP()], ids=["GDP", "zCDP"])
def test_ranges_spend_exactly_their_shares(currency):
    ledger = ledger_of(1.0, currency)
    find_ranges(raw(np.ones((50, 2)), ledger=ledger), through_zero=False)
    limit = ledger.budget.limit
    spent = [(release.label, release.count, release.cost / limit) for release in ledger.releases]
    assert [(label, count) for label, count, _ in spent] == [("row norms", 1), ("magnitudes", 1), ("positions", 1)]
    assert [cost for _, _, cost in spent] == pytest.approx([0.01, 0.04, 0.04], rel=1e-9)
    assert (NORM_SHARE, RANGE_SHARE, MOMENT_SHARE) == (0.01, 0.04, 0.1)
    assert ledger.remaining == pytest.approx(0.91 * limit, rel=1e-9)


@pytest.mark.parametrize("currency", [GaussianDP(), ZCDP()], ids=["GDP", "zCDP"])
def test_standardisation_spends_exactly_its_shares(currency):
    ledger = ledger_of(1.0, currency)
    columns = Columns.within(-1, 1, 2)
    standardise(placed(np.ones((50, 2)), columns, ledger=ledger), columns, centred=True)
    limit = ledger.budget.limit
    spent = [(release.label, release.count, release.cost / limit) for release in ledger.releases]
    assert spent == [("row norms", 1, pytest.approx(0.01)), ("moments", 1, pytest.approx(0.1))]
    assert ledger.remaining == pytest.approx(0.89 * limit, rel=1e-9)


def test_nothing_is_returned_when_the_budget_does_not_reach():
    ledger = ledger_of(1.0)
    ledger.charge(Gaussian.priced(0.93 * ledger.budget.limit, ledger.budget.currency).cost, "before")
    with pytest.raises(BudgetExhausted):
        find_ranges(raw(np.ones((50, 2)), ledger=ledger), through_zero=False)
    assert [release.label for release in ledger.releases] == ["before", "row norms", "magnitudes"]


def peak(n_bins, at, height=1e6):
    counts = np.zeros(n_bins)
    counts[at] = height
    return counts


def test_ranges_are_a_function_of_what_was_released():
    """The same replies and public facts, other rows: the same ranges."""
    rng = np.random.default_rng(0)
    replies = [
        peak(len(RowNorms.norms), 256 + 4),
        rng.normal(size=(3, Magnitudes.n_bins)) * 1e3,
        rng.normal(size=(3, Positions.n_bins)) * 1e3,
    ]
    found = []
    for X in (np.zeros((50, 3)), rng.normal(size=(50, 3)) * 1e5, np.full((50, 3), 1e300), np.full((50, 3), -2.0)):
        watched = Watched(raw(X, 1.0), replies)
        columns = find_ranges(watched, through_zero=False)
        assert not watched.replies
        found.append((columns.low.tolist(), columns.high.tolist()))
    assert all(f == found[0] for f in found)


def test_standardisation_is_a_function_of_what_was_released():
    rng = np.random.default_rng(0)
    replies = [peak(len(RowNorms.norms), 256), rng.uniform(0, 50, 6)]
    columns, found = Columns.within(-1, 1, 3), []
    for X in (np.zeros((50, 3)), rng.normal(size=(50, 3)), np.full((50, 3), -2.0)):
        result = standardise(Watched(placed(X, columns, 1.0), replies), columns, centred=True)
        found.append((result.factor.tolist(), result.centre.tolist()))
    assert all(f == found[0] for f in found)
    assert len(set(found[0][0])) > 1
    known = column_moments(Watched(placed(X, columns, 1.0), replies), columns)
    expected = moments_of(replies[1][:3] / 50, replies[1][3:] / 50, known.noise, columns)
    assert found[0][1] == expected.mean.tolist()
    assert found[0][0] == (expected.variance ** (-SCALE_POWER / 2)).tolist()


def test_an_implausible_typical_norm_does_not_hide_the_ranges():
    X = np.random.default_rng(0).uniform(2, 3, (N, 4))
    watched = Watched(raw(X, 10.0), [peak(len(RowNorms.norms), 256 + 40)])  # as if rows had a million entries
    assert (find_ranges(watched, through_zero=False).high >= 3).all()
    assert watched.released[1][0].sensitivity.l2 <= 2**16 * 2 * (1 + 1e-9)


def test_the_typical_norm_is_plausible_when_everything_is_noise():
    """To a quarter octave: bins are that wide."""
    columns, X = Columns.within(-1, 1, 9), np.ones((20, 9))
    for seed in range(20):
        for data in (raw(X, 0.01, seed=seed), placed(X, columns, 0.01, seed=seed)):
            low, high = data.norm_range
            assert low <= typical_norm(data) < high * 2**0.25
    assert raw(X).norm_range == (1.0, 3.0)
    assert placed(X, columns).norm_range == (2.0**-4, 3.0)


# --- moments --------------------------------------------------------------------------------------------------------


def variance_of(columns):
    return columns.factor ** (-2 / SCALE_POWER)


def example(n=N, d=12):
    """Columns of many widths and means; rows are of about the same length, so that none is clipped."""
    rng = np.random.default_rng(3)
    spread = np.linspace(0.05, 2, d)
    return rng.uniform(-1, 1, (n, d)) * spread + rng.uniform(-0.5, 0.5, d)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_means_and_deviations_are_close_to_the_truth_at_a_large_budget(adjacency, store):
    X = example()
    columns = Columns.within(-3, 3, X.shape[1])
    result = standardise(placed(store(X), columns, adjacency=adjacency), columns, centred=True)
    x = columns.place(X)
    # entries and squares are truncated to 2^-17, noise is below 1e-5, and a few long rows are scaled down
    np.testing.assert_allclose(result.centre, x.mean(axis=0), rtol=0, atol=2e-4)
    np.testing.assert_allclose(variance_of(result), x.var(axis=0), rtol=0.01, atol=5e-5)
    np.testing.assert_allclose(result.factor, x.std(axis=0) ** -0.85, rtol=0.06)
    assert result.low.tolist() == columns.low.tolist()
    assert result.high.tolist() == columns.high.tolist()


def test_standardised_rows_have_mean_zero_and_nearly_one_spread():
    """The deviations to the power 0.15 remain: what standardising halfway means."""
    X = example()
    columns = Columns.within(-3, 3, X.shape[1])
    result = standardise(placed(X, columns), columns, centred=True)
    mapped = result.factor * (result.place(X) - result.centre)
    np.testing.assert_allclose(mapped.mean(axis=0), 0, atol=3e-3)
    np.testing.assert_allclose(mapped.std(axis=0), columns.place(X).std(axis=0) ** 0.15, rtol=0.06)


@pytest.mark.slow
def test_means_have_the_noise_that_was_paid_for():
    """400 releases of 12 means, with spread clip/(mu n); 5.5 deviations: error probability below 1e-6."""
    X, repeats = example(200), 400
    columns, centres = Columns.within(-3, 3, X.shape[1]), []
    for seed in range(repeats):
        watched = Watched(placed(X, columns, 100.0, seed=seed), [peak(len(RowNorms.norms), 256 + 4)])
        known = column_moments(watched, columns)
        sealed, mechanism, sums = watched.released[1]
        centres.append(sums[: X.shape[1]] / 200)
    noise = sealed.sensitivity.l2 * sealed.unit / mechanism.mu / 200
    assert noise == pytest.approx(2 * math.sqrt(2) / mechanism.mu / 200, rel=1e-9)
    assert known.noise == pytest.approx(noise, rel=1e-9)
    errors = np.array(centres) - columns.place(X).mean(axis=0)
    assert np.abs(errors.mean(axis=0)).max() < 5.5 * noise / math.sqrt(repeats) + 2e-5
    assert abs(errors.std() / noise - 1) < 5.5 / math.sqrt(2 * errors.size)


SIDES = {"positive": (0, 1), "negative": (-1, 0), "mixed": (-1, 1), "both": ([0, -1, -1, 0, -1], [1, 1, 0, 1, 0])}


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 10.0, 1e6])
def test_a_variance_is_never_below_the_noise_in_the_average(epsilon, sides, adjacency):
    """And that of a column far from the others not below its own. Means stay in their range."""
    X = np.hstack([np.full((100, 2), 0.5), np.zeros((100, 2)), np.full((100, 1), -1.0)])
    columns = Columns.within(*SIDES[sides], 5)
    for seed in range(20):
        watched = Watched(placed(X, columns, epsilon, seed=seed, adjacency=adjacency))
        found = column_moments(watched, columns)
        sealed, mechanism, _ = watched.released[1]
        assert found.noise == pytest.approx(sealed.sensitivity.l2 * sealed.unit / mechanism.mu / 100, rel=1e-9)
        floor = min(1.0, max(found.noise / math.sqrt(5), 1e-6))
        assert found.variance.min() >= floor * (1 - 1e-9)
        assert found.variance.max() <= 1
        assert (found.mean >= np.where(columns.low >= 0, 0, -1)).all()
        assert (found.mean <= np.where(columns.high <= 0, 0, 1)).all()


def test_one_column_far_from_many_stays_and_keeps_its_doubt():
    first, second, noise = np.full(200, 0.02), np.full(200, 0.01), 0.05
    first[7], second[7] = 0.6, 0.2
    found = moments_of(first, second, noise, Columns.within(0, 1, 200))
    assert found.mean[7] == pytest.approx(0.6 - FARTHEST * noise, abs=0.002)
    assert found.variance[7] >= noise
    others = np.delete(np.arange(200), 7)
    assert np.ptp(found.mean[others]) < 0.01
    assert (found.variance[others] < noise).all()


def test_shrinking_makes_errors_smaller():
    """Over 200 draws, summed squares: much smaller where columns are alike, and never larger by more than chance."""
    rng = np.random.default_rng(0)
    for spread in (0.0, 0.03, 0.1, 1.0):
        before = after = 0.0
        for _ in range(200):
            truth = 0.3 + spread * rng.normal(size=30)
            seen = truth + 0.1 * rng.normal(size=30)
            before += np.square(seen - truth).sum()
            after += np.square(shrunk(seen, 0.1)[0] - truth).sum()
        assert after < before * (0.2 if spread == 0 else 0.4 if spread == 0.03 else 0.85 if spread == 0.1 else 1.01)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 50])
def test_what_is_hardly_above_its_noise_is_brought_near_zero(d):
    means, left = shrunk(np.full(d, 0.05), 0.05 * math.sqrt(d) if d > 3 else 0.05)
    np.testing.assert_allclose(means, 0, atol=1e-12)
    assert ((left > 0) & (left <= 1)).all()
    means, left = shrunk(np.full(d, 0.5), 1e-9)
    np.testing.assert_allclose(means, 0.5, rtol=1e-9)
    assert shrunk(np.zeros(0), 0.1)[0].shape == (0,)


KINDS = {
    "one-hot": lambda rng: (rng.random((N, 6)) < 0.3).astype(float),
    "negative": lambda rng: -(rng.random((N, 6)) < 0.3).astype(float),
    "uniform": lambda rng: rng.uniform(size=(N, 6)),
    "beta": lambda rng: rng.beta(2, 5, size=(N, 6)),
    "normal": lambda rng: np.clip(0.3 * rng.normal(size=(N, 6)), -1, 1),
    "signs": lambda rng: rng.choice([-1.0, 1.0], (N, 6)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_at_a_large_budget_moments_are_those_of_the_rows(kind):
    X = KINDS[kind](np.random.default_rng(1))
    low, high = {"normal": (-1, 1), "signs": (-1, 1), "negative": (-1, 0)}.get(kind, (0, 1))
    columns = Columns.within(low, high, 6)
    found = column_moments(placed(X, columns), columns)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(found.variance, X.var(axis=0), rtol=0.1)  # long rows are shortened


def test_no_variance_is_believed_below_one_millionth():
    X, columns = np.zeros((20_000, 3)), Columns.within(-1, 1, 3)
    watched = Watched(placed(X, columns))
    result = standardise(watched, columns, centred=True)
    sealed, mechanism, _ = watched.released[1]
    assert sealed.sensitivity.l2 * sealed.unit / mechanism.mu / 20_000 < 5e-7
    np.testing.assert_allclose(variance_of(result), 1e-6, rtol=0.5)
    assert variance_of(result).min() >= 1e-6 * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_results_are_sane_when_everything_is_noise(epsilon):
    X, columns = example(20), Columns.within(-3, 3, 12)
    for seed in range(10):
        result = standardise(placed(X, columns, epsilon, seed=seed), columns, centred=True)
        assert (np.abs(result.centre) <= 1).all()
        assert (result.factor >= 1).all()
        assert (result.factor <= 1e-6 ** (-SCALE_POWER / 2) * (1 + 1e-9)).all()


def test_columns_that_are_not_centred_are_scaled_as_if_they_were():
    X, columns = example(), Columns.within(-3, 3, 12)
    centred, other = (standardise(placed(X, columns), columns, centred=choice) for choice in (True, False))
    assert other.centre is None
    assert other.factor.tolist() == centred.factor.tolist()


@pytest.mark.parametrize("low", [-1, 0])
@pytest.mark.parametrize("epsilon", [1e6, 0.003])
def test_moments_are_clipped_near_the_typical_norm(epsilon, low):
    """A few long rows count no more than others. Where noise is strong and signs are known, entries alone decide."""
    rng = np.random.default_rng(4)
    X = rng.choice([-0.1, 0.1], (N, 16))
    X[:40] = 1.0
    columns = Columns.within(low, 1, 16)
    watched = Watched(
        placed(np.maximum(X, low), columns, epsilon), [peak(len(RowNorms.norms), 256 - 6)]
    )  # 2^(-6/4) = 0.35
    result = standardise(watched, columns, centred=True)
    sealed, mechanism, _ = watched.released[1]
    clip = sealed.sensitivity.l2 * sealed.unit
    noisy = math.sqrt(2) * 0.4 / mechanism.mu / N > NOISY
    assert noisy == (epsilon < 1)
    room = 0.8 if noisy and low == 0 else math.sqrt(2)
    assert 0.35 * room * 0.99 < clip < 0.4 * room * 2**0.25 * 1.01
    assert sealed.sensitivity.l2 == Moments(16, clip=clip).sensitivity("zero-out").l2
    if not noisy and low < 0:
        long = clip / math.sqrt(32)
        expected = X[40:].sum(axis=0) / N + 0.01 * long
        np.testing.assert_allclose(result.centre, expected, atol=1e-3)


# ------------------------------------------------------------------------------- columns that sit far away from zero


FAR = {
    "years": lambda z: np.round(2005 + 9 * z),
    "temperatures": lambda z: 37 + 0.5 * z,
    "postcodes": lambda z: 95_000 + 600 * z,
    "seconds": lambda z: 1.7e9 + 9e6 * z,
    "below zero": lambda z: -300 + z,
    "hardly varying": lambda z: 1 + 1e-4 * z,
}


@pytest.mark.parametrize("name", FAR)
def test_columns_far_from_zero_are_looked_at_closely(name):
    """2,000 rows at epsilon 1: the range found is at most 16 standard deviations wide and holds most entries."""
    rng = np.random.default_rng(0)
    X = np.column_stack([FAR[name](rng.normal(size=2000)), rng.normal(size=(2000, 2))])
    ledger = ledger_of(1.0)
    columns = find_ranges(raw(X, ledger=ledger), through_zero=False)
    assert columns.high[0] - columns.low[0] <= 16 * X[:, 0].std()
    assert inside(X[:, 0], columns.low[0], columns.high[0]) > 0.8  # what noise can hide
    assert (columns.low[1:] < 0).all()
    assert (columns.high[1:] > 0).all()
    (count,) = (release.count for release in ledger.releases if release.label == "positions")
    assert count in (2, 3)


def test_a_column_that_may_be_zero_is_not_moved_away_from_it():
    """Years, but a fifth of the rows say 0: these must not be taken for the first year."""
    rng = np.random.default_rng(0)
    X = (2005 + 9 * rng.normal(size=(5000, 3))) * (rng.random((5000, 3)) < 0.8)
    columns = find_ranges(raw(X, 3.0), through_zero=False)
    assert (columns.low <= 0).all()


def test_small_means_of_many_columns_do_not_add_up_to_a_shift():
    """The noise of each would add up to its root of 3,000; large means stay."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (400, 3000)) * (rng.random((400, 3000)) < 0.003)
    X[:, 5] = 1.0
    columns = Columns.within(-1, 1, 3000)
    found = column_moments(placed(sp.csr_matrix(X), columns, 4.0), columns)
    assert found.mean[5] > 0.4
    others = np.delete(found.mean, 5)
    assert np.linalg.norm(others) < 0.2 * found.noise * math.sqrt(3000)
    assert abs(others.sum()) < 5 * found.noise * math.sqrt(3000)  # the noise of the average, as an exact sum has it
