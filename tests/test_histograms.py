import math

import numpy as np
import pytest
import scipy.sparse as sp
from row_changes import fractions

from dpsk.data import ArrayRows, RawRows, RowMap
from dpsk.mechanisms import Gaussian
from dpsk.queries import Magnitudes, Positions, PositionsOfSome, RowNorms
from dpsk.testing import check_mechanism, check_query
from dpsk.testing.common import heavy_tailed

D = 6
ONE = 2**16  # what an entry of full weight counts


def check_raw_query(query, trials=150, seed=0):
    """Delete and replace heavy-tailed rows; return the largest fraction of each promised norm that was reached."""
    rng = np.random.default_rng(seed)
    reached = {}

    def total(X):
        result = RawRows(sp.csr_matrix(X) if rng.random() < 0.5 else X).total(query)
        assert result.dtype == np.int64
        return result

    for _ in range(trials):
        X = heavy_tailed(int(rng.integers(2, 20)), D, rng)
        if rng.random() < 0.5:  # full, or with as many entries as any
            X[0] = rng.choice([-1.0, 1.0], D) * 10.0 ** rng.uniform(-20, 20)
            X[0, rng.permutation(D)[: rng.integers(D)]] = 0
        other = X.copy()
        other[0] = (X[1], -X[0], rng.choice([-1.0, 1.0], D) * 10.0 ** rng.uniform(-20, 20))[rng.integers(3)]
        whole = total(X)
        for adjacency, change in (("zero-out", whole - total(X[1:])), ("replace", whole - total(other))):
            for key, fraction in fractions(query, adjacency, change).items():
                reached[key] = max(reached.get(key, 0), fraction)
    return reached


# so many entries of a row count in full: fractions make weights that are rounded up too long
ENTRIES = [0.01, 0.7, 1.0, 1.1, 1.2, 1.3, 2.3, 2.9, 3.0, 4.1, 5.0, 6.0, 1000.0]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("entries", ENTRIES)
def test_sensitivity_of_magnitudes_is_kept_and_reached(entries, norm):
    reached = check_raw_query(Magnitudes(D, entries, norm=norm))
    for adjacency in ("zero-out", "replace"):
        assert reached[adjacency, "l1"] > 0.99
        m, most = np.arange(1, D + 1), min(entries, D)
        weight = np.minimum(1, most / m) ** (1 if norm == "l1" else 0.5)
        share = 0.99 if adjacency == "zero-out" else 0.85  # two rows of the same length at once are rare
        assert reached[adjacency, "l2"] > share * (weight * np.sqrt(m / most)).max()
        assert reached[adjacency, "linf"] > 0.99 * weight[0]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("entries", ENTRIES)
def test_sensitivity_of_positions_is_kept_and_reached(entries, norm):
    reach = 10.0 ** np.random.default_rng(0).uniform(-2, 2, D)
    reached = check_raw_query(Positions(D, entries, -reach, reach, norm=norm))
    assert min(reached[adjacency, norm] for adjacency in ("zero-out", "replace")) > 0.99
    if norm == "l2":
        assert min(reached[adjacency, "l1"] for adjacency in ("zero-out", "replace")) > 0.99


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_sensitivity_of_positions_of_some_columns_is_kept_and_reached(norm):
    reach, columns = 10.0 ** np.random.default_rng(0).uniform(-2, 2, D), np.array([3, 0])
    reached = check_raw_query(PositionsOfSome(D, columns, -reach[columns], reach[columns], norm=norm))
    assert min(reached[adjacency, norm] for adjacency in ("zero-out", "replace")) > 0.99


def test_positions_of_some_columns_are_those_of_a_table_without_the_others():
    X, columns, reach = heavy_tailed(200, D, np.random.default_rng(0)), np.array([3, 0, 1]), np.ones(3)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = 0
    alone = RawRows(X[:, columns]).total(Positions(3, 3.0, -reach, reach))
    for store in (np.asarray, sp.csr_matrix):
        assert np.array_equal(RawRows(store(X)).total(PositionsOfSome(D, columns, -reach, reach)), alone)
    with pytest.raises(ValueError, match=f"values are counted of {D + 1} columns"):
        RawRows(X).total(PositionsOfSome(D + 1, columns, -reach, reach))


def test_sensitivity_of_row_norms_is_kept_and_reached():
    reached = check_raw_query(RowNorms())
    assert min(reached.values()) > 1 - 1e-12


def test_only_a_leaving_row_moves_all_counts_in_one_direction():
    for query in (RowNorms(), Magnitudes(D, 2.0), Positions(D, 2.0, -np.ones(D), np.ones(D))):
        assert query.sensitivity("zero-out").monotone
        assert not query.sensitivity("replace").monotone


def test_no_more_entries_are_promised_than_there_are_columns():
    for adjacency in ("zero-out", "replace"):
        assert Magnitudes(4, 1e30).sensitivity(adjacency) == Magnitudes(4, 4.0).sensitivity(adjacency)


# --- rows by norm ---------------------------------------------------------------------------------------------------


class Norms:
    """A chunk that consists of nothing but norms."""

    weights = None

    def __init__(self, *norms):
        self.norms = np.array(norms, dtype=float)


def norm_bin(norm):
    (found,) = np.flatnonzero(RowNorms()(Norms(norm)))
    return int(found)


def test_every_quarter_octave_is_the_upper_end_of_its_bin():
    norms = RowNorms.norms
    for k in range(len(norms)):
        assert norm_bin(norms[k]) == k
        assert norm_bin(np.nextafter(norms[k], np.inf)) == min(k + 1, len(norms) - 1)
        assert norm_bin(np.nextafter(norms[k], 0)) == k


def test_the_bins_are_quarter_octaves_on_both_sides_of_one():
    norms = RowNorms.norms
    assert (norms[0], norms[-1]) == (2.0**-64, 2.0**64)
    np.testing.assert_allclose(norms[1:] / norms[:-1], 2**0.25, rtol=1e-14)
    for norm, end in ((1.0, 1.0), (1.01, 2**0.25), (1.2, 2**0.5), (1.5, 2**0.75), (1.7, 2.0), (0.3, 2**-1.5)):
        assert norms[norm_bin(norm)] == pytest.approx(end, rel=1e-14)


def test_norms_beyond_the_bins_are_counted_at_the_ends():
    last = len(RowNorms.norms) - 1
    for norm in (5e-324, 1e-300, 2.0**-64 * 0.9):
        assert norm_bin(norm) == 0
    for norm in (2.0**65, 1e300, 1.7e308):
        assert norm_bin(norm) == last


def test_every_row_is_counted_once():
    X = heavy_tailed(10_000, 5, np.random.default_rng(0))
    for rows in (RawRows(X), ArrayRows(X, np.ones(10_000))):
        assert rows.total(RowNorms()).sum() == 10_000


def test_norms_are_those_of_the_rows():
    X = np.array([[3.0, 4.0], [3.0, -4.0], [0.3, 0.4], [6.0, 8.0]])
    counts = ArrayRows(X, np.ones(4), RowMap(fit_intercept=False)).total(RowNorms())
    # a norm is rounded up by 2^-40: 5 and 10 lie well within their bins
    expected = np.zeros_like(counts)
    for norm in (5, 5, 0.5 * (1 - 1e-5), 10):  # 0.3 and 0.4 are truncated
        expected[np.searchsorted(RowNorms.norms, norm)] += 1
    assert counts.tolist() == expected.tolist()


def test_raw_rows_are_counted_by_the_root_of_their_number_of_entries():
    X = np.zeros((5, 16))
    for i, entries in enumerate((1, 2, 3, 4, 16)):
        X[i, :entries] = 1e200
    counts = RawRows(X).total(RowNorms())
    expected = np.zeros_like(counts)
    for norm in (1.0, 2**0.5, 2**0.75 * 1.0001, 2.0, 4.0):  # sqrt(3) = 2^0.79
        expected[np.searchsorted(RowNorms.norms, norm * (1 - 1e-15))] += 1
    assert counts.tolist() == expected.tolist()


def test_a_row_without_entries_is_counted_among_the_shortest():
    assert RawRows(np.zeros((1, 3))).total(RowNorms())[0] == 1


# --- entries --------------------------------------------------------------------------------------------------------


def magnitude_bin(value):
    ((_, found),) = np.argwhere(RawRows(np.array([[value]])).total(Magnitudes(1, 1.0)))
    return int(found)


def test_every_power_of_two_is_the_upper_end_of_its_bin():
    for k in range(Magnitudes.n_bins):
        end = 2.0 ** (k + Magnitudes.lowest)
        for value in (end, -end):
            assert magnitude_bin(value) == k
            assert magnitude_bin(np.nextafter(value, 0)) == k
            assert magnitude_bin(value * (1 + 2.0**-52)) == min(k + 1, Magnitudes.n_bins - 1)


def test_magnitudes_beyond_the_bins_are_counted_at_the_ends():
    for value in (5e-324, -5e-324, 1e-310, 1e-300, 2.0**-41):
        assert magnitude_bin(value) == 0
    for value in (2.0**61, 1e300, -1e300, 1.7e308):
        assert magnitude_bin(value) == Magnitudes.n_bins - 1


def position_bin(value, reach):
    ((_, found),) = np.argwhere(
        RawRows(np.array([[value]])).total(Positions(1, 1.0, -np.array([reach]), np.array([reach])))
    )
    return int(found)


@pytest.mark.parametrize("reach", [1.0, 1024.0, 2.0**-40, 2.0**60])
def test_positions_are_even_bins_from_minus_reach_to_reach(reach):
    for k in range(64):
        start, end = reach * (k / 32 - 1), reach * ((k + 1) / 32 - 1)
        assert position_bin((start + end) / 2, reach) == k
        if start:
            assert position_bin(start, reach) == k
            assert position_bin(start - reach * 1e-9, reach) == max(k - 1, 0)
    assert position_bin(reach, reach) == 63
    assert position_bin(-reach, reach) == 0


def test_positions_beyond_the_reach_are_counted_at_the_ends():
    for reach in (1e-300, 1.0, 1e300):
        for value in (1.1 * reach, 1e301, 1.7e308):
            assert position_bin(value, reach) == 63
            assert position_bin(-value, reach) == 0
    assert position_bin(5e-324, 1.0) == 32
    assert position_bin(5e-324, 5e-324) == 63


def test_each_column_has_its_own_reach_and_its_own_counts():
    X = np.array([[1.0, 1.0, -4.0], [0.0, 1.0, 0.0]])
    counts = RawRows(X).total(Positions(3, 3.0, -np.array([1.0, 4.0, 16.0]), np.array([1.0, 4.0, 16.0])))
    expected = np.zeros((3, 64), dtype=int)
    full = math.floor(math.sqrt(1 - 2.0**-40) * ONE)
    expected[0, 63] = full
    expected[1, 40] = full + ONE
    expected[2, 24] = full
    assert counts.tolist() == expected.tolist()


def test_an_entry_weighs_less_where_its_row_has_many():
    """min(1, sqrt(entries / m)), rounded down."""
    X = np.zeros((4, 8))
    for i, m in enumerate((1, 2, 5, 8)):
        X[i, :m] = 2.0**i
    counts = RawRows(X).total(Magnitudes(8, 2.5))
    expected = np.zeros((8, Magnitudes.n_bins), dtype=int)
    for i, (m, weight) in enumerate(((1, ONE), (2, ONE), (5, math.sqrt(2.5 / 5) * ONE), (8, math.sqrt(2.5 / 8) * ONE))):
        expected[:m, i - Magnitudes.lowest] = int(weight)
    assert counts.tolist() == expected.tolist()
    assert Magnitudes(8, 2.5).unit * ONE == 1.0


def test_zeros_are_not_counted():
    X = np.zeros((3, 4))
    assert not RawRows(X).total(Magnitudes(4, 2.0)).any()
    assert not RawRows(sp.csr_matrix(X)).total(Positions(4, 2.0, -np.ones(4), np.ones(4))).any()
    explicit = sp.csr_matrix((np.array([0.0, 3.0, 0.0]), np.array([0, 1, 2]), np.array([0, 3])), (1, 4))
    counts = RawRows(explicit).total(Magnitudes(4, 1.0))
    assert counts.sum() == counts[1, 2 - Magnitudes.lowest] > 0.99 * ONE  # one entry, with the weight of one


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("density", [0.1, 0.9])
def test_dense_and_sparse_rows_have_the_same_counts(density):
    rng = np.random.default_rng(1)
    X = heavy_tailed(9000, 7, rng)
    X[rng.random(X.shape) > density] = 0
    reach = 10.0 ** rng.uniform(-5, 5, 7)
    for query in (RowNorms(), Magnitudes(7, 2.2), Positions(7, 2.2, -reach, reach)):
        counts = [
            RawRows(stored).total(query) for stored in (X, np.asfortranarray(X), sp.csr_matrix(X), sp.csc_array(X))
        ]
        assert all(np.array_equal(counts[0], c) for c in counts)


def test_counts_equal_a_slow_count():
    rng = np.random.default_rng(2)
    X = heavy_tailed(5000, 4, rng)
    reach = 10.0 ** rng.uniform(-5, 5, 4)
    magnitudes, positions = np.zeros((4, Magnitudes.n_bins), dtype=int), np.zeros((4, 64), dtype=int)
    for row in X.tolist():
        m = sum(v != 0 for v in row)
        for j, v in enumerate(row):
            if v == 0:
                continue
            weight = ONE if m <= 1 else math.floor(math.sqrt(min(1, 1.9 / m)) * ONE)
            above = next((k for k in range(-40, 60) if abs(v) <= 2.0**k), 60)
            magnitudes[j, above + 40] += weight
            at = (min(max(v, -reach[j]), reach[j]) + reach[j]) / (2 * reach[j])
            positions[j, min(math.floor(at * 64), 63)] += weight
    assert RawRows(X).total(Magnitudes(4, 1.9)).tolist() == magnitudes.tolist()
    assert RawRows(X).total(Positions(4, 1.9, -reach, reach)).tolist() == positions.tolist()


def test_only_rows_in_the_user_s_units_with_as_many_columns_are_counted():
    """Sensitivities refer to that number of columns."""
    for query in (Magnitudes(3, 1.0), Positions(3, 1.0, -np.ones(3), np.ones(3))):
        for rows in (RawRows(np.ones((2, 2))), RawRows(np.zeros((2, 4))), ArrayRows(np.ones((2, 3)), np.ones(2))):
            with pytest.raises(ValueError, match="3 columns"):
                rows.total(query)


@pytest.mark.parametrize("entries", [0, -1.0, np.nan])
def test_entries_are_validated(entries):
    with pytest.raises(ValueError, match="entries="):
        Magnitudes(3, entries)


@pytest.mark.parametrize("high", [[1.0], [1.0, -3.0], [1.0, np.inf], [1.0, np.nan]])
def test_the_bounds_of_positions_are_validated(high):
    with pytest.raises(ValueError, match="low and high must hold"):
        Positions(2, 1.0, np.array([-2.0, -2.0]), np.array(high))


def test_positions_may_lie_away_from_zero():
    """Years: 64 bins over [1984, 2048); a column of one value has its own bin."""
    X = np.array([[1984.0, 5.0], [1985.0, 5.0], [1999.5, 5.0], [2050.0, 5.0], [1.0, 7.0]])
    counts = RawRows(X).total(Positions(2, 2.0, np.array([1984.0, 5.0]), np.array([2048.0, 5.0])))
    full = math.floor(math.sqrt(1 - 2.0**-40) * ONE)
    assert {k: c for k, c in enumerate(counts[0].tolist()) if c} == {0: 2 * full, 1: full, 15: full, 63: full}
    assert counts[1].tolist() == [5 * full] + 63 * [0]


# ---------------------------------------------------------------------------------- the conformance checks of the house

each_count = pytest.mark.parametrize(
    "query",
    [RowNorms(), Magnitudes(D, 2.0), Positions(D, 3.0, -np.full(D, 2.0), np.full(D, 2.0))],
    ids=lambda query: query.label,
)


@each_count
def test_counts_pass_check_query(query):
    assert check_query(query, n_features=D, make_rows=lambda X, y: RawRows(X)) > 0.99


@pytest.mark.thorough
@pytest.mark.slow
@each_count
def test_their_releases_pass_check_mechanism(query):
    """At the sensitivity that each promises, the Gaussian mechanism costs what it says."""
    assert check_mechanism(Gaussian(0.5), sensitivity=query.sensitivity("zero-out"), draws=5000) > 0.05
