import math
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from row_changes import fractions

from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.mechanisms import Gaussian
from dpsk.queries import Moments
from dpsk.testing import check_mechanism, check_query
from dpsk.testing.common import heavy_tailed

D = 4


def placed(X, **options):
    X = sp.csr_matrix(X) if options.pop("sparse", False) else np.asarray(X)
    d = X.shape[1]
    return ArrayRows(X, np.ones(X.shape[0]), RowMap(columns=Columns.within(-1, 1, d), fit_intercept=False), **options)


def check_moments(query, make, trials=100, seed=0):
    """Delete and replace rows; return the largest fraction of each promised norm that was reached."""
    rng = np.random.default_rng(seed)
    reached = {}

    def total(X):
        result = placed(X, sparse=rng.random() < 0.5).total(query)
        assert result.dtype == np.int64
        return result

    for _ in range(trials):
        n = int(rng.integers(2, 20))
        X = make(n, rng)
        other = X.copy()
        other[0] = -X[0] if rng.random() < 0.5 else make(1, rng)[0]
        whole = total(X)
        for adjacency, change in (("zero-out", whole - total(X[1:])), ("replace", whole - total(other))):
            assert not query.sensitivity(adjacency).monotone
            for key, fraction in fractions(query, adjacency, change).items():
                reached[key] = max(reached.get(key, 0), fraction)
    return reached


def heavy(n, rng):
    return heavy_tailed(n, D, rng)


def signs(n, rng):
    return rng.choice([-1.0, 1.0], (n, D))


def small(n, rng):
    """Entries whose squares hardly count: a row and its opposite are as far apart as two rows may be."""
    return rng.choice([-0.05, 0.05], (n, D))


def single(n, rng):
    X = np.zeros((n, D))
    X[np.arange(n), rng.integers(D, size=n)] = rng.choice([-0.1, 0.1], n)
    return X


def anything(n, rng):
    return [heavy, signs, small, single, lambda n, rng: rng.normal(size=(n, D))][rng.integers(5)](n, rng)


def categories(n, rng):
    """Entries of 1 or -1 and 0, whose rows are as long with |x| - x^2 as without."""
    return rng.choice([-1.0, 0.0, 1.0], (n, D))


def thirds(n, rng):
    """Entries where |x| - x^2 counts, with both signs, whatever signs were promised."""
    return rng.choice([-0.7, -0.3, 0.3, 0.5], (n, D))


ONE_SIGN = {"mixed": False, "one sign": True, "some of one sign": [True, False, True, False]}


@pytest.mark.slow
@pytest.mark.parametrize("one_sign", ONE_SIGN)
@pytest.mark.parametrize("clip", [1e-9, 2.0**-20, 0.001, 0.07, 0.3, 1.0, 1.7, 2.5, math.sqrt(2 * D), 1e9])
def test_sensitivity_is_kept(clip, one_sign):
    """Also by rows whose entries do not have the sign that was promised."""
    check_moments(Moments(D, clip=clip, one_sign=ONE_SIGN[one_sign]), anything, trials=150)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [0.001, 0.3, 1.0, 2.5, math.sqrt(2 * D), 1e9])
def test_sensitivity_is_reached_by_a_leaving_row(clip):
    reached = check_moments(Moments(D, clip=clip), signs)
    loss = 1e-5 / min(clip, 1)  # a weight is a multiple of 2^-18
    assert reached["zero-out", "l2"] > 1 - loss
    assert reached["zero-out", "l1"] > 1 - loss


@pytest.mark.parametrize("one_sign", ["one sign", "some of one sign"])
@pytest.mark.parametrize("clip", [0.001, 0.3, 1.0, 1.4, 2.0, 1e9])
def test_the_worst_rows_reach_the_clip(clip, one_sign):
    """Of every kind, adversarial ones included: more than .99 of it where a row can be so long, and never above."""
    query = Moments(D, clip=clip, one_sign=ONE_SIGN[one_sign])
    reached = max(
        check_moments(query, make, trials=40)["zero-out", "l2"] for make in (signs, thirds, categories, heavy)
    )
    assert 0.99 < reached <= 1


@pytest.mark.parametrize("one_sign", ONE_SIGN)
@pytest.mark.parametrize("clip", [0.001, 0.05])
def test_sensitivity_is_reached_by_a_replaced_row(clip, one_sign):
    query = Moments(D, clip=clip, one_sign=ONE_SIGN[one_sign])
    reached = {kind: check_moments(query, kind) for kind in (small, single, signs)}
    if one_sign == "mixed":
        assert reached[small]["replace", "l2"] > 0.99
        assert reached[single]["replace", "linf"] > 0.99
    elif one_sign == "one sign":  # all of these rows are their entries, without a second half
        assert reached[signs]["replace", "l2"] > 0.99
    assert max(found["replace", "l2"] for found in reached.values()) > 0.8


def test_an_entry_with_what_it_lacks_is_at_most_one_long_and_at_most_root_two_times_the_entry():
    x = np.linspace(0, 1, 2**17 + 1)
    square = x**2 * (1 + (1 - x) ** 2)
    assert (square <= 1).all()
    assert (square <= 2 * x**2).all()
    assert square[-1] == 1


def test_no_clip_above_the_longest_row_is_promised():
    for adjacency, most in (("zero-out", 1), ("replace", 2)):
        promised = Moments(8, clip=1e300).sensitivity(adjacency)
        assert promised.l2 * Moments(8, clip=1e300).unit == pytest.approx(4.0 * most, rel=1e-12)
        some = Moments(8, clip=1e300, one_sign=[True] * 7 + [False])
        assert some.sensitivity(adjacency).l2 * some.unit == pytest.approx(3.0 * most, rel=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_of_entries_on_the_grid_are_exact(sparse):
    X = np.array([[0.5, -0.25], [0.0, 0.125], [-0.75, 0.0], [0.0, 0.0], [2.0**-8, -(2.0**-7)]])
    query = Moments(2, clip=1.9)
    sums = placed(X, sparse=sparse).total(query) * query.unit
    assert sums.tolist() == [*X.sum(axis=0), *np.square(X).sum(axis=0)]


def test_sums_are_in_units_of_the_bounds():
    X = np.array([[5.0, 2005.0], [-2.5, 1990.0]])
    columns = Columns.within([-1, 1990], [10, 2020], 2)
    query = Moments(2, clip=2.0)
    sums = ArrayRows(X, np.ones(2), RowMap(columns=columns, fit_intercept=False)).total(query) * query.unit
    np.testing.assert_allclose(sums, [0.4, 0.5, 0.25 + 0.01, 0.25], rtol=0, atol=3e-5)  # -2.5 is clipped to -1


def slow(X, clip, one_sign):
    """The sums in Python integers, from the promise: truncated entries, truncated squares, a truncated weight."""
    sums = [0] * (2 * X.shape[1])
    for row in np.clip(X, -1, 1).tolist():
        entries = [math.trunc(v * 2**17) for v in row]
        squares = [e * e * 2 // 2**18 for e in entries]
        seconds = [abs(e) - s if one else s for e, s, one in zip(entries, squares, one_sign, strict=True)]
        norm = math.sqrt(sum(s * s for s in entries + seconds)) / 2**17
        weight = min(2**18, math.trunc(clip / norm * (1 - 2**-30) * 2**18)) if norm else 0
        sums = [s + weight * v for s, v in zip(sums, entries + seconds, strict=True)]
    return sums


@pytest.mark.parametrize("clip", [0.01, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_sums_equal_integer_arithmetic(sparse, clip):
    X = np.random.default_rng(0).normal(size=(300, 3)) * 0.7  # squares of nearly all of them are above the grid
    X[::5, 1] = 0
    X[np.abs(X) < 0.02] = 0
    for one_sign in ([False] * 3, [True] * 3, [True, False, True]):
        query = Moments(3, clip=clip, one_sign=one_sign)
        most = min(clip, math.sqrt(6 - sum(one_sign)))
        assert placed(X, sparse=sparse).total(query).tolist() == slow(X, most, one_sign)


@pytest.mark.parametrize("sparse", [False, True])
def test_of_columns_of_one_sign_sums_are_what_entries_lack(sparse):
    X = np.array([[0.5, -0.25, 0.25], [1.0, -1.0, -0.5], [0.0, -0.125, 0.0]])
    query = Moments(3, clip=2.0, one_sign=[True, True, False])
    sums = placed(X, sparse=sparse).total(query) * query.unit
    assert sums.tolist() == [*X.sum(axis=0), 0.25, 0.25 - 0.0625 + 0.125 - 0.125**2, 0.0625 + 0.25]


def test_a_long_row_is_scaled_down_and_a_short_one_is_not():
    query = Moments(2, clip=0.25)
    long, short = placed([[1.0, 0.5]]).total(query) * query.unit, placed([[0.125, 0.0625]]).total(query) * query.unit
    assert np.linalg.norm(long) == pytest.approx(0.25, rel=1e-4)
    np.testing.assert_allclose(long / long[0], [1, 0.5, 1, 0.25], rtol=1e-4)
    assert short.tolist() == [0.125, 0.0625, 0.125**2, 0.0625**2]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_whose_squares_vanish_is_not_scaled_down(sparse):
    query = Moments(2, clip=0.25)
    sums = placed([[2.0**-10, -(2.0**-11)]], sparse=sparse).total(query) * query.unit
    assert sums.tolist() == [2.0**-10, -(2.0**-11), 0, 0]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning:scipy")
def test_dense_and_sparse_rows_have_the_same_sums(tmp_path):
    X = heavy_tailed(9000, D, np.random.default_rng(1))
    X[:4] = [[1e-300] * D, [5e-324] * D, [1e300, -1e300, 1, 0], [0] * D]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for clip, one_sign in product((0.1, 1.0, 10.0), ONE_SIGN.values()):
        query = Moments(D, clip=clip, one_sign=one_sign)
        sums = [placed(X).total(query), placed(X, sparse=True).total(query), placed(X, chunk_rows=77).total(query)]
        rows = ArrayRows(
            mapped, np.ones(9000), RowMap(columns=Columns.within(-1, 1, D), fit_intercept=False), chunk_rows=1000
        )
        assert all(np.array_equal(sums[0], s) for s in [*sums, rows.total(query)])


def test_moments_of_rows_that_are_not_just_placed_are_refused():
    X, y, columns = sp.csr_matrix(np.eye(2)), np.ones(2), Columns.within(-1, 1, 2)
    refused = [
        ArrayRows(X, y, RowMap(columns=columns, fit_intercept=True)),
        ArrayRows(X, y, RowMap(columns=columns.standardised(np.ones(2), np.ones(2)), fit_intercept=False)),
        ArrayRows(X, y, RowMap(columns=columns.standardised(np.full(2, 3.0), None), fit_intercept=False)),
        ArrayRows(X, y, RowMap(fit_intercept=False)),
    ]
    for rows in refused:
        with pytest.raises(ValueError, match="moments are taken of placed columns"):
            rows.total(Moments(2, clip=1.0))


def test_moments_of_another_number_of_columns_are_refused():
    """Their noise would be too small, or their clip."""
    with pytest.raises(ValueError, match="2 columns"):
        placed(np.ones((3, 4))).total(Moments(2, clip=1.0))


@pytest.mark.parametrize("clip", [0, -1.0, np.nan])
def test_clip_is_validated(clip):
    with pytest.raises(ValueError, match="clip="):
        Moments(3, clip=clip)


# ---------------------------------------------------------------------------------- the conformance checks of the house


@pytest.mark.parametrize("clip", [0.3, 1.0, 2.0])
def test_moments_pass_check_query(clip):
    def rows(X, y):
        return ArrayRows(X, y, RowMap(columns=Columns.within(-1, 1, D), fit_intercept=False))

    for one_sign in (False, [True, False, False, True]):
        assert check_query(Moments(D, clip=clip, one_sign=one_sign), n_features=D, make_rows=rows) > 0.99


@pytest.mark.slow
def test_their_release_passes_check_mechanism():
    """At the sensitivity that they promise, the Gaussian mechanism costs what it says."""
    sensitivity = Moments(D, clip=1.0).sensitivity("zero-out")
    assert check_mechanism(Gaussian(0.5), sensitivity=sensitivity, draws=5000) > 0.05
