"""Rows of mapped columns, and rows as they are. The storages of plain rows are in test_rows.py."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, ArrayTable, Columns, RawRows, RowMap, arrays
from dpsk.data.arrays import _BLOCK_ROWS
from dpsk.data.grid import CENTRED_CHUNK_ROWS, SHORTEST_NORM, UNIT_BITS, weights_on_grid
from dpsk.losses import Hinge, Logistic, Softmax
from dpsk.queries import GradientSum, LossesAlong
from dpsk.testing.common import heavy_tailed

LOW = np.array([-3.0, 0.0, -0.3, 1990.0, -7.0, 5.0, -1.0])
HIGH = np.array([5.0, 0.7, 0.0, 2020.0, -3.0, 5.0, 1e-3])
D = len(LOW)


def make_columns(centred, rng=None):
    rng = rng or np.random.default_rng(10)
    columns = Columns.within(LOW, HIGH, D)
    return columns.standardised(rng.uniform(0.3, 30.0, D), rng.uniform(-1, 1, D) if centred else None)


def make_rows(n, density, seed=0):
    """Rows on both sides of every bound; the first ones extreme."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(LOW - 0.3 * (HIGH - LOW) - 0.1, HIGH + 0.3 * (HIGH - LOW) + 0.1, (n, D))
    X[rng.random((n, D)) > density] = 0
    X[:7] = np.array([[0.0], [1e300], [-1e300], [5e-324], [-5e-324], [1.0], [-1e-200]])[: min(n, 7)]
    return X, rng.choice([-1.0, 1.0], n)


def held(chunk):
    """The units of a chunk less its offset, as integers: what the products stand for."""
    units = chunk.units.toarray() if sp.issparse(chunk.units) else chunk.units
    offset = np.zeros(units.shape[1]) if chunk.offset is None else chunk.offset
    integers = (units - offset) * 2.0**UNIT_BITS
    assert (integers == np.rint(integers)).all()
    return integers.astype(np.int64)


def as_grid_values(X, columns):
    """The same map in exact fractions, entry by entry: integers, the power of two that a row stands for, the offset."""
    scale = Fraction(1)
    largest = max(Fraction(1, 2), *(abs(Fraction(f)) for f in columns.factor))
    while scale / 2 >= 2 * largest:
        scale /= 2
    while scale < 2 * largest:
        scale *= 2
    offsets, rows = [], []
    for j in range(X.shape[1]):
        centre = Fraction(0) if columns.centre is None else Fraction(columns.centre[j])
        offsets.append(round(centre * Fraction(columns.factor[j]) * 2**UNIT_BITS / scale))
    for x in X:
        row = []
        for j, entry in enumerate(x):
            low, high = Fraction(columns.low[j]), Fraction(columns.high[j])
            origin = min(max(Fraction(0), low), high)
            width = max(high - origin, origin - low) or Fraction(1)
            placed = (min(max(Fraction(entry), low), high) - origin) / width
            steps = placed * Fraction(columns.factor[j]) * 2**UNIT_BITS / scale
            row.append(int(steps) - offsets[j])  # int truncates toward zero
        rows.append(row)
    return np.array(rows), scale, np.array(offsets)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("centred", [True, False])
def test_grid_values_equal_exact_fractions(centred, store):
    X, y = make_rows(200, 0.7)
    columns = make_columns(centred)
    expected, scale, offsets = as_grid_values(X, columns)
    (chunk,) = ArrayRows(store(X), y, RowMap(columns=columns))._chunks()
    # products are rounded before they are truncated: about one entry in 2^33 could differ
    assert np.array_equal(held(chunk), expected)
    assert (chunk.scale == float(scale)).all()
    assert (chunk.constant == np.trunc(2.0**UNIT_BITS / float(scale)) / 2.0**UNIT_BITS).all()
    if store is sp.csr_matrix and centred:
        assert (chunk.offset * 2.0**UNIT_BITS).tolist() == offsets.tolist()
        assert chunk.units.nnz <= np.count_nonzero(X)
    else:
        assert chunk.offset is None


@pytest.mark.parametrize(("factor", "scale"), [(0.01, 1), (0.5, 1), (0.51, 2), (1.0, 2), (1.1, 4), (100.0, 256)])
def test_one_scale_leaves_room_for_the_centre(factor, scale):
    columns = Columns.within(-1, 1, 2).standardised(np.array([factor, 0.001]), np.array([-1.0, 1.0]))
    (chunk,) = ArrayRows(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.ones(2), RowMap(columns=columns))._chunks()
    assert (chunk.scale == scale).all()
    assert np.abs(chunk.units).max() <= 1
    (chunk,) = ArrayRows(sp.csr_matrix([[1.0, -1.0], [-1.0, 1.0]]), np.ones(2), RowMap(columns=columns))._chunks()
    assert np.abs(chunk.units.data).max() <= 0.5
    assert np.abs(chunk.offset).max() <= 0.5


def test_a_centre_beyond_the_unit_interval_is_clipped():
    for centre, kept in ((1e300, 1.0), (-7.0, -1.0)):
        columns = Columns.within(-1, 1, 1).standardised(np.ones(1), np.array([centre]))
        (chunk,) = ArrayRows(np.zeros((1, 1)), np.ones(1), RowMap(columns=columns))._chunks()
        assert held(chunk).tolist() == [[-kept * 2**17]]


def storages(X, tmp_path):
    """The same rows in every way in which they may be given."""
    coo = sp.coo_array(X)
    rows, at = (np.tile(index, 2) for index in coo.coords)
    zero = np.flatnonzero(X.ravel() == 0)[:: max(1, np.count_nonzero(X == 0) // 50)]
    rows, at = np.concatenate([rows, zero // X.shape[1]]), np.concatenate([at, zero % X.shape[1]])
    data = np.concatenate([np.tile(coo.data / 2, 2), np.zeros(len(zero))])
    order = np.lexsort((np.random.default_rng(0).random(len(rows)), rows))
    indptr = np.searchsorted(rows[order], np.arange(len(X) + 1))
    loose = sp.csr_array((data[order], at[order], indptr), X.shape)
    assert not loose.has_sorted_indices
    assert not loose.has_canonical_format
    explicit = sp.csr_matrix(np.where(X == 0, 1.0, X))
    explicit.data[(X == 0).ravel()] = 0
    assert explicit.nnz == X.size
    np.save(tmp_path / "X.npy", X)
    return {
        "C": (X, {}),
        "F": (np.asfortranarray(X), {}),
        "CSR": (sp.csr_matrix(X), {}),
        "CSC": (sp.csc_array(X), {}),
        "explicit zeros": (explicit, {}),
        "duplicates, explicit zeros and unsorted indices": (loose, {}),
        "memory-mapped": (np.load(tmp_path / "X.npy", mmap_mode="r"), {}),
        "C in chunks": (X, {"chunk_rows": 777}),
        "CSR in chunks": (sp.csr_matrix(X), {"chunk_rows": 1000}),
        "memory-mapped in chunks": (np.load(tmp_path / "X.npy", mmap_mode="r"), {"chunk_rows": 333}),
    }


@pytest.mark.parametrize("density", [0.2, 0.8])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("n_classes", [None, 3])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning:scipy")
def test_every_storage_gives_the_same_bits(n_classes, centred, fit_intercept, density, tmp_path):
    X, y = make_rows(9000, density)
    X[X == 5e-324] = 1e-300  # halves of it are needed
    X[X == -5e-324] = -1e-300
    rng = np.random.default_rng(1)
    y = y if n_classes is None else rng.integers(n_classes, size=len(y))
    loss = Logistic() if n_classes is None else Softmax(n_classes)
    shape = (D + fit_intercept,) if n_classes is None else (D + fit_intercept, n_classes)
    columns = make_columns(centred)
    w, step = rng.normal(size=shape), rng.normal(size=shape) * 0.1
    line = LossesAlong(loss, w, step, range(5), clip=3.0)
    queries = [GradientSum(loss, w, clip=0.7), line, GradientSum(loss, line.points[3], clip=100.0)]
    first = None
    for name, (stored, options) in storages(X, tmp_path).items():
        rows = ArrayRows(
            stored, y, RowMap(n_classes=n_classes, fit_intercept=fit_intercept, columns=columns), **options
        )
        totals = [rows.total(query) for query in queries]
        scores = np.concatenate([chunk.scores(queries[0].w) for chunk in rows._chunks()])
        found = [*totals, scores]
        first = first or found
        assert all(np.array_equal(a, b) for a, b in zip(first, found, strict=True)), name


@pytest.mark.parametrize("centred", [True, False])
def test_float32_is_mapped_as_the_float64_it_stands_for(centred, tmp_path):
    X, y = make_rows(500, 0.6)
    X = np.clip(X, -1e30, 1e30).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    query = GradientSum(Hinge(), np.random.default_rng(0).normal(size=D + 1), clip=1.0)
    expected = ArrayRows(X.astype(float), y, RowMap(columns=make_columns(centred))).total(query)
    for stored in (X, sp.csr_matrix(X), np.load(tmp_path / "X.npy", mmap_mode="r")):
        assert np.array_equal(ArrayRows(stored, y, RowMap(columns=make_columns(centred))).total(query), expected)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scores_and_gradient_sums_equal_integer_arithmetic(fit_intercept, store):
    X, y = make_rows(150, 0.6, seed=3)
    columns = make_columns(True)
    integers, scale, _ = as_grid_values(X, columns)
    scale = float(scale)
    if fit_intercept:
        integers = np.hstack([integers, np.full((150, 1), int(2**UNIT_BITS / scale))])
    query = GradientSum(Logistic(), np.random.default_rng(2).normal(size=D + fit_intercept), clip=2.0)
    rows = ArrayRows(store(X), y, RowMap(fit_intercept=fit_intercept, columns=columns))
    (chunk,) = rows._chunks()
    scores = chunk.scores(query.w)
    expected = [0] * (D + fit_intercept)
    for i in range(150):
        exact = sum(int(u) * Fraction(w) for u, w in zip(integers[i], query.w, strict=True)) * Fraction(scale)
        assert Fraction(scores[i]) == exact / 2**UNIT_BITS
        residual = Logistic().derivative(scores[i : i + 1], y[i : i + 1])[0] * scale / 2.0 ** (1 - 18)
        limit = 2.0 * (1 - 2**-30) / 2.0 ** (1 - 18) / chunk.norm[i]
        residual = int(np.clip(residual, -limit, limit))
        expected = [e + residual * int(u) for e, u in zip(expected, integers[i], strict=True)]
    assert rows.total(query).tolist() == expected


@pytest.mark.parametrize("shape", [(), (3,)], ids=["vector", "K=3"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_scores_equal_those_of_the_weights_in_user_units(store, shape):
    rng = np.random.default_rng(4)
    X = rng.uniform(LOW, HIGH, (300, D))
    columns = make_columns(True)
    n_classes, y = (None, np.ones(300)) if shape == () else (3, np.zeros(300, dtype=int))
    (chunk,) = ArrayRows(store(X), y, RowMap(n_classes=n_classes, columns=columns))._chunks()
    w, _ = weights_on_grid(rng.normal(size=(D + 1, *shape)))
    in_units = columns.in_user_units(w, True)
    # an entry is off by at most two steps of its grid
    tolerance = 2 * chunk.scale[0] * 2.0**-UNIT_BITS * np.abs(w).sum()
    np.testing.assert_allclose(chunk.scores(w), X @ in_units[:-1] + in_units[-1], rtol=0, atol=tolerance)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("centred", [True, False])
def test_norms_are_never_too_short_and_hardly_too_long(centred, fit_intercept, store):
    X, y = make_rows(1000, 0.6)
    columns = make_columns(centred)
    rng = np.random.default_rng(0)
    middle = columns.origin[None]
    if centred:
        middle = rng.uniform(LOW, HIGH, (1, D))
        columns = columns.standardised(columns.factor, columns.place(middle)[0])
    # rows close to the centre are shorter than the shortest norm
    X[::2] = middle + columns.width * rng.normal(size=(500, D)) * 1e-4
    (chunk,) = ArrayRows(store(X), y, RowMap(fit_intercept=fit_intercept, columns=columns))._chunks()
    integers = held(chunk)
    if fit_intercept:
        integers = np.hstack([integers, (chunk.constant * 2.0**UNIT_BITS).astype(np.int64)[:, None]])
    lengths = []
    for row, norm in zip(integers, chunk.norm, strict=True):
        true2 = Fraction(sum(int(u) ** 2 for u in row), 4**UNIT_BITS)
        assert Fraction(norm) ** 2 >= max(true2, Fraction(SHORTEST_NORM) ** 2)
        # a row of zeros may have any norm: it adds nothing to any sum
        assert true2 == 0 or float(norm) <= max(float(true2) ** 0.5 * (1 + 1e-11), SHORTEST_NORM)
        lengths.append(norm)
    if not fit_intercept:
        assert min(lengths) == SHORTEST_NORM  # such rows have been met


def test_the_norms_of_rows_are_in_the_units_of_the_columns():
    columns = Columns.within(-2, 2, 2).standardised(np.array([3.0, 4.0]), None)
    rows = ArrayRows(np.array([[2.0, 2.0], [1.0, 0.0]]), np.ones(2), RowMap(columns=columns, fit_intercept=False))
    (chunk,) = rows._chunks()
    np.testing.assert_allclose(chunk.norms, [5.0, 1.5], rtol=1e-4)


def worst_case(n, rng):
    """Sparse rows close to a centre at the end of the grid: long before centring, and hardly anything after."""
    d = 3
    columns = Columns.within(-1, 1, d).standardised(np.ones(d), np.full(d, 1 - 2.0**-6) * [1, -1, 1])
    X = (1 - rng.integers(0, 3, (n, d)) * 2.0**-17) * [1, -1, 1]
    return sp.csr_matrix(X), columns


def test_the_worst_partial_sums_stay_below_2_to_53():
    rng = np.random.default_rng(5)
    X, columns = worst_case(3 * CENTRED_CHUNK_ROWS + 17, rng)
    rows = ArrayRows(X, np.ones(X.shape[0]), RowMap(columns=columns, fit_intercept=False))
    lengths = []
    for chunk in rows._chunks():
        lengths.append(len(chunk))
        assert (chunk.norm == SHORTEST_NORM).all()
        # what a gradient may have as residuals: as large as allowed, in all directions, and odd
        largest = (2.0**UNIT_BITS * (1 - 2.0**-30) / chunk.norm).astype(np.int64)
        units = np.rint(chunk.units.toarray() * 2.0**UNIT_BITS).astype(np.int64)
        offset = np.rint(chunk.offset * 2.0**UNIT_BITS).astype(np.int64)
        assert np.abs(units).max() * largest.max() > 2.0**39.99  # this is the worst that may happen
        assert max(int(s) for s in (np.abs(units).T @ largest)) <= 2**53
        assert max(int(s) for s in np.abs(offset) * largest.sum()) <= 2**53
        for residuals in (largest, -largest, largest - 2 * rng.integers(0, 3, len(chunk))):
            expected = [sum((int(u) - int(o)) * int(r) for u, r in zip(column, residuals, strict=True))
                        for column, o in zip(units.T, offset, strict=True)]  # fmt: skip
            assert chunk.total(residuals.astype(float)).tolist() == expected
    assert sum(lengths) == X.shape[0]
    assert max(lengths) == CENTRED_CHUNK_ROWS


def test_the_worst_case_gives_the_same_gradient_sums_in_small_chunks_and_on_dense_storage():
    rng = np.random.default_rng(6)
    X, columns = worst_case(20_000, rng)
    y = rng.choice([-1.0, 1.0], 20_000, p=[0.1, 0.9])
    query = GradientSum(Logistic(), np.full(3, 0.1), clip=2.0**-10)  # clips every residual
    totals = [
        ArrayRows(stored, y, RowMap(columns=columns, fit_intercept=False), **options).total(query)
        for stored, options in ((X, {}), (X, {"chunk_rows": 100}), (X.toarray(), {}))
    ]
    assert np.array_equal(totals[0], totals[1])
    assert np.array_equal(totals[0], totals[2])


def test_more_rows_than_are_centred_at_a_time_are_never_in_one_chunk():
    """Dense arrays of mostly zeros are stored like sparse ones; on others the centre is subtracted at once."""
    X = np.zeros((CENTRED_CHUNK_ROWS + 1, 4))
    X[:, 0] = 1
    for stored in (X, sp.csr_matrix(X), sp.csr_matrix(X + 1)):
        rows = ArrayRows(stored, np.ones(len(X)), RowMap(columns=Columns.within(0, 1, 4)))
        assert [len(chunk) for chunk in rows._chunks()] == [CENTRED_CHUNK_ROWS, 1]


def test_the_worst_partial_sums_of_dense_rows_stay_below_2_to_53():
    """Many rows, each as long as its entry: the largest residual times the largest entry is 2^36 steps."""
    rng = np.random.default_rng(8)
    columns = Columns.within(-1, 1, 1).standardised(np.ones(1), -np.ones(1))
    X = 1 - rng.integers(0, 3, (40_000, 1)) * 2.0**-17
    for chunk in ArrayRows(X, np.ones(40_000), RowMap(columns=columns, fit_intercept=False))._chunks():
        assert chunk.offset is None
        residuals = np.trunc(2.0**UNIT_BITS * (1 - 2.0**-30) / chunk.norm)
        integers = held(chunk)[:, 0]
        assert integers.min() >= 2**18 - 2
        assert int(np.abs(integers) @ residuals.astype(np.int64)) <= 2**53
        exact = sum(int(u) * int(r) for u, r in zip(integers, residuals, strict=True))
        assert chunk.total(residuals).tolist() == [exact]


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("centred", [True, False])
def test_a_subset_is_what_its_rows_are_on_their_own(centred, store):
    X, y = make_rows(3000, 0.6)
    columns = make_columns(centred)
    chosen = np.random.default_rng(0).permutation(3000)[:500]
    w = np.random.default_rng(1).normal(size=D + 1)
    line = LossesAlong(Logistic(), w, 0.1 * w, range(3), clip=3.0)
    subset = ArrayRows(store(X), y, RowMap(columns=columns), chunk_rows=700).subset(chosen)
    alone = ArrayRows(store(X[chosen]), y[chosen], RowMap(columns=columns))
    for query in (GradientSum(Logistic(), w, clip=1.0), line):
        assert np.array_equal(subset.total(query), alone.total(query))


def test_the_data_norm_is_not_used_with_columns():
    X, y = make_rows(100, 0.6)
    query = GradientSum(Logistic(), np.ones(D + 1), clip=1.0)
    totals = [ArrayRows(X, y, RowMap(columns=make_columns(True), data_norm=norm)).total(query) for norm in (None, 1e-3)]
    assert np.array_equal(*totals)


def unchanged(matrix, use):
    """Use a CSR matrix that nobody may write to, and look whether it is as it was."""
    parts = (matrix.data, matrix.indices, matrix.indptr)
    before = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = False
    use(matrix)
    after = (matrix.data, matrix.indices, matrix.indptr)
    assert all(a is b for a, b in zip(parts, after, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def loose_csr():
    """Unsorted indices, duplicates and a zero, on both sides of a block border."""
    n = _BLOCK_ROWS + 10
    indices = np.tile([2, 0, 2, 1], n)
    data = np.tile([0.25, 3.0, 0.5, 0.0], n)
    return sp.csr_matrix((data, indices, np.arange(n + 1) * 4), (n, 3))


def test_the_input_is_not_written_to():
    X = np.random.default_rng(0).normal(size=(50, 3))
    before = X.copy()
    X.flags.writeable = False
    columns = Columns.within(-1, 1, 3).standardised(np.ones(3), np.full(3, 0.25))
    ArrayRows(X, np.ones(50), RowMap(columns=columns))
    RawRows(X).total(lambda chunk: len(chunk.values))
    assert np.array_equal(X, before)
    for matrix in (loose_csr(), sp.csr_matrix(before)):
        unchanged(matrix, lambda m: ArrayRows(m, np.ones(m.shape[0]), RowMap(columns=columns)))
    for matrix in (loose_csr(), sp.csr_matrix(before)):
        unchanged(matrix, lambda m: list(RawRows(m)._chunks()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_values_must_be_finite(store, bad):
    X = np.ones((3, 3))
    X[1, 1] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        ArrayRows(store(X), np.ones(3), RowMap(columns=Columns.within(-1, 1, 3)))
    with pytest.raises(ValueError, match="NaN or infinity"):
        RawRows(store(X)).total(lambda chunk: len(chunk.values))


@pytest.mark.parametrize("columns", [None, Columns.within(-1.0, 1.0, 3)])
@pytest.mark.parametrize("store", [np.array, sp.csr_matrix])
def test_values_that_change_after_the_check_do_not_get_onto_the_grid(store, columns):
    """An array may be a plain view of a file, or another thread's: one NaN would move a sum by 2^63."""
    X = store(np.random.default_rng(0).uniform(0.1, 1.0, (20, 3)))
    table = ArrayTable(X, np.resize([-1, 1], 20))
    (X.data if sp.issparse(X) else X.reshape(-1))[7] = np.nan
    with pytest.raises(ValueError, match="finiteness is public"):
        table.rows(RowMap(columns=columns))
    with pytest.raises(ValueError, match="finiteness is public"):
        table.raw().total(lambda chunk: np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("store", [np.array, sp.csr_matrix])
def test_values_that_change_right_after_their_check_are_not_used(store, monkeypatch):
    """The copy is checked, not the array that somebody may write to."""
    X = store(np.random.default_rng(0).uniform(0.1, 1.0, (20, 3)))
    table, check = ArrayTable(X, np.resize([-1, 1], 20)), arrays._finite

    def late(values):
        checked = check(values)
        (X.data if sp.issparse(X) else X.reshape(-1))[7] = np.nan
        return checked

    monkeypatch.setattr(arrays, "_finite", late)
    seen = []
    table.raw().total(lambda chunk: seen.append(chunk.values) or np.zeros(1, dtype=np.int64))
    assert np.isfinite(np.concatenate(seen)).all()


def test_values_beyond_the_first_block_must_be_finite():
    for bad in (np.nan, np.inf):
        X = np.ones((_BLOCK_ROWS + 2, 1))
        X[-1] = bad
        with pytest.raises(ValueError, match="NaN or infinity"):
            RawRows(X).total(lambda chunk: len(chunk.values))


def raw_entries(rows):
    """All rows of RawRows, each as a list of (column, value)."""
    found = []
    for chunk in rows._chunks():
        assert len(chunk.values) == len(chunk.columns) == chunk.counts.sum()
        assert chunk.values.dtype == np.float64
        ends = np.cumsum(chunk.counts)
        for start, end in zip(ends - chunk.counts, ends, strict=True):
            pairs = zip(chunk.columns[start:end].tolist(), chunk.values[start:end].tolist(), strict=True)
            found.append(sorted(pairs))
    return found


def test_raw_rows_hold_the_entries_as_they_are(tmp_path):
    X = heavy_tailed(_BLOCK_ROWS + 100, 5, np.random.default_rng(7))
    X[:3] = [[5e-324, -1e300, 0, 0, 1.0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]]
    np.save(tmp_path / "X.npy", X)
    expected = [[(j, v) for j, v in enumerate(row) if v] for row in X.tolist()]
    for stored in (X, np.asfortranarray(X), sp.csr_matrix(X), sp.csc_array(X), sp.coo_array(X),
                   np.load(tmp_path / "X.npy", mmap_mode="r")):  # fmt: skip
        rows = RawRows(stored)
        assert (rows.n_rows, rows.n_features) == X.shape
        assert raw_entries(rows) == expected
    assert raw_entries(RawRows(X[:3].clip(-1e30, 1e30).astype(np.float32)))[2] == list(
        enumerate([1.0, 2.0, 3.0, 4.0, 5.0])
    )


def test_raw_rows_skip_zeros_and_add_duplicates_up():
    assert raw_entries(RawRows(loose_csr())) == [[(0, 3.0), (2, 0.75)]] * (_BLOCK_ROWS + 10)
    cancelling = sp.csr_matrix((np.array([1.0, -1.0, 0.0]), np.array([1, 1, 0]), np.array([0, 3, 3])), (2, 3))
    assert raw_entries(RawRows(cancelling)) == [[], []]


def test_a_subset_of_raw_rows_is_those_rows():
    X = heavy_tailed(_BLOCK_ROWS + 100, 5, np.random.default_rng(9))
    chosen = np.random.default_rng(0).permutation(len(X))[:300]
    expected = raw_entries(RawRows(X[np.sort(chosen)]))
    assert raw_entries(RawRows(X).subset(chosen)) == expected
    assert raw_entries(RawRows(sp.csr_matrix(X)).subset(chosen)) == expected


def test_raw_rows_have_the_norms_of_their_patterns():
    X = np.array([[1e300, 1e-300, 0, 0], [0, 0, 0, 0], [1, 1, 1, -1]])
    (chunk,) = RawRows(X)._chunks()
    assert chunk.norms.tolist() == [np.sqrt(2), 0.0, 2.0]


def test_entries_are_sorted_once(monkeypatch):
    """Sorting in every pass would cost more than the passes."""
    rng = np.random.default_rng(0)
    X = sp.random(3 * _BLOCK_ROWS, 40, 0.2, format="csr", random_state=rng)
    loose = sp.csr_matrix((X.data.copy(), X.indices.copy(), X.indptr.copy()), X.shape)
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        loose.data[a:b], loose.indices[a:b] = X.data[a:b][::-1], X.indices[a:b][::-1]
    assert not loose.has_canonical_format
    table = ArrayTable(loose, rng.integers(0, 2, X.shape[0]))
    assert (table.compact.matrix != X).nnz == 0
    monkeypatch.setattr(np, "lexsort", None)
    w, kept = rng.normal(size=41), ArrayRows(X, np.ones(X.shape[0]))
    query = GradientSum(Logistic(), w, clip=1.0)
    assert np.array_equal(ArrayRows(table.compact, np.ones(X.shape[0])).total(query), kept.total(query))
