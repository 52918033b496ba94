import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk.data import ArrayRows, Chunk, Columns, RowMap
from dpsk.data.grid import weights_on_grid
from dpsk.data.rows import Line
from dpsk.losses import Logistic, OneVsRest, Softmax
from dpsk.queries import ArmijoGains, GradientSum, LossesAlong
from dpsk.testing import check_rows


def transposed_csr(X):
    """CSC built from the CSR of the transpose: the other sparse layout."""
    return sp.csr_array(X.T).T


def with_duplicates(X):
    """COO in which every entry is stored as two halves: exact, and not canonical."""
    coo = sp.coo_array(X)
    rows, columns = (np.tile(index, 2) for index in coo.coords)
    return sp.coo_array((np.tile(coo.data / 2, 2), (rows, columns)), X.shape)


STORAGES = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "CSR": sp.csr_matrix,
    "CSR array": sp.csr_array,
    "CSC": sp.csc_matrix,
    "CSR of the transpose": transposed_csr,
    "COO with duplicates": with_duplicates,
    "reversed view": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "strided view": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
}


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", [None, 777])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning:scipy")
def test_every_storage_gives_the_same_bits(storage, chunk_rows):
    check_rows(lambda X, y, how: ArrayRows(STORAGES[storage](X), y, how, chunk_rows=chunk_rows))


def test_a_memory_mapped_array_gives_the_same_bits(tmp_path):
    def mapped(X, y, how):
        np.save(tmp_path / "X.npy", X)
        return ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), y, how)

    check_rows(mapped)


def _sums(X, y, **options):
    rng = np.random.default_rng(5)
    rows = ArrayRows(X, y, **options)
    w, step = rng.normal(size=rows.n_parameters), rng.normal(size=rows.n_parameters)
    line = LossesAlong(Logistic(), w, step, range(21), clip=3.0)
    return np.concatenate([rows.total(query) for query in (line, GradientSum(Logistic(), line.points[4], clip=1.0))])


def _example(n=20_000, d=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)


def test_row_order_does_not_matter():
    X, y = _example()
    order = np.random.default_rng(1).permutation(len(y))
    assert np.array_equal(_sums(X, y), _sums(X[order], y[order]))


@pytest.mark.slow
def test_the_number_of_threads_does_not_matter():
    X, y = _example(100_000, 60)
    sums = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            sums.append(_sums(X, y))
    assert np.array_equal(*sums)


def test_float32_is_summed_as_the_float64_it_stands_for():
    X, y = _example()
    X = X.astype(np.float32)
    assert np.array_equal(_sums(X, y), _sums(X.astype(float), y))
    assert np.array_equal(_sums(sp.csr_matrix(X), y), _sums(X.astype(float), y))


def test_gradient_sums_equal_integer_arithmetic():
    """The same sum with Python integers, row by row, from the residuals that the promise describes."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 4)) * 10.0 ** rng.uniform(-3, 3, (200, 1))
    y = rng.choice([-1.0, 1.0], 200)
    query = GradientSum(Logistic(), rng.normal(size=5), clip=2.0)
    rows = ArrayRows(X, y)
    expected = [0] * 5
    for i in range(200):
        (chunk,) = ArrayRows(X[i : i + 1], y[i : i + 1])._chunks()
        units = [int(u * 2**18) for u in chunk.units[0]] + [int(chunk.constant[0] * 2**18)]
        residual = Logistic().derivative(chunk.scores(query.w), chunk.y)[0] * chunk.scale[0] / 2.0 ** (1 - 18)
        limit = 2.0 * (1 - 2**-30) / 2.0 ** (1 - 18) / chunk.norm[0]
        residual = int(np.clip(residual, -limit, limit))
        expected = [e + residual * u for e, u in zip(expected, units, strict=True)]
    assert rows.total(query).tolist() == expected


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sums_are_close_to_plain_floating_point(fit_intercept):
    X, y = _example(5000, 10)
    w = np.random.default_rng(3).normal(size=10 + fit_intercept) * 0.3
    X1 = np.hstack([X, np.ones((5000, 1))]) if fit_intercept else X
    rows = ArrayRows(X, y, RowMap(fit_intercept=fit_intercept))
    gradients = Logistic().derivative(X1 @ w, y)[:, None] * X1
    gradients *= np.minimum(1, 2.0 / np.linalg.norm(gradients, axis=1))[:, None]
    query = GradientSum(Logistic(), w, clip=2.0)
    np.testing.assert_allclose(rows.total(query) * query.unit, gradients.sum(axis=0), atol=5000 * 2e-5)
    step = np.ones(10 + fit_intercept) * 0.05
    line = LossesAlong(Logistic(), w, step, [0, 1, 7.5], clip=3.0)
    exact = [np.minimum(Logistic().value(X1 @ (w + t * step), y), 3.0).sum() for t in (0, 1, 7.5)]
    # a loss is rounded down to 2^-12 and read off a table with steps of 2^-12
    np.testing.assert_allclose(rows.total(line) * line.unit, exact, atol=5000 * 3e-4)


def test_scores_moved_along_a_line_equal_scores_computed_anew():
    X, y = _example(3000, 20)
    rng = np.random.default_rng(4)
    moved = ArrayRows(X, y)
    w = np.zeros(21)
    for _ in range(30):
        line = LossesAlong(Logistic(), w, rng.normal(size=21) * 0.02, range(21), clip=3.0)
        moved.total(line)
        w = line.points[rng.integers(21)]
        query = GradientSum(Logistic(), w, clip=1.0)
        assert np.array_equal(moved.total(query), ArrayRows(X, y).total(query))


def test_scores_are_really_remembered():
    """Without this test the memory could silently never be used, and every step would cost a third pass."""
    X, y = _example(100, 5)
    rows = ArrayRows(X, y)
    (chunk,) = rows._chunks()
    line = LossesAlong(Logistic(), np.zeros(6), np.full(6, 0.01), range(21), clip=3.0)
    rows.total(line)
    for multiple in (0, 1, 20):
        assert chunk.memory.recall(GradientSum(Logistic(), line.points[multiple], clip=1.0).w) is not None
    assert chunk.memory.recall(line.points[1] + 1) is None


def test_scores_are_not_moved_along_a_line_that_would_round():
    X, y = _example(100, 5)
    rows = ArrayRows(X, y)
    (chunk,) = rows._chunks()
    for multiples in ([0, 1 / 3], [0, 1, 2**30]):
        line = LossesAlong(Logistic(), np.full(6, 0.7), np.full(6, 0.01), multiples, clip=3.0)
        rows.total(line)
        assert chunk.memory.recall(line.points[0]) is not None
        assert chunk.memory.recall(line.points[1]) is None


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_data_norm_bounds_every_row_and_leaves_short_rows_alone(sparse, fit_intercept):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(500, 6)) * 10.0 ** rng.uniform(-2, 8, (500, 1))
    X[0] = 1e300
    X[1] = 0
    rows = ArrayRows(
        sp.csr_matrix(X) if sparse else X, np.ones(500), RowMap(fit_intercept=fit_intercept, data_norm=2.0)
    )
    (chunk,) = rows._chunks()
    units = chunk.units.toarray() if sparse else chunk.units
    held = units * chunk.scale[:, None]
    norms = np.linalg.norm(held, axis=1)
    assert norms.max() <= 2.0
    long = np.linalg.norm(np.minimum(np.abs(X), 1e100), axis=1) > 2
    assert norms[long].min() > 2.0 * (1 - 1e-4)
    np.testing.assert_allclose(held[~long], X[~long], atol=2.0 * 2**-17)
    free = ArrayRows(X, np.ones(500), RowMap(fit_intercept=fit_intercept))
    (chunk,) = free._chunks()
    np.testing.assert_array_equal(held[~long], (chunk.units * chunk.scale[:, None])[~long])


def test_huge_and_tiny_entries_do_not_overflow():
    X = np.array([[1e308, -1e308], [5e-324, 0.0], [1e-200, 1e200], [0.0, 0.0]])
    sums = _sums(X, np.array([1.0, -1.0, 1.0, -1.0]))
    assert sums.dtype == np.int64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_values_must_be_finite(store, bad):
    X = np.eye(3)
    X[1, 1] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        ArrayRows(store(X), np.ones(3))


def test_memory_mapped_values_must_be_finite(tmp_path):
    X = np.ones((10, 2))
    X[7, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="NaN or infinity"):
        ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), np.ones(10))


def test_arguments_are_validated():
    X, y = np.ones((3, 2)), np.ones(3)
    for arguments, message in (
        ({"X": np.ones(3)}, "two dimensions"),
        ({"y": np.ones(4)}, "as many rows"),
        ({"y": np.ones((3, 1))}, "y one"),
        ({"y": np.array([1.0, np.nan, -1.0])}, "-1 and 1 only"),
        ({"y": np.array([0, 1, 1])}, "-1 and 1 only"),
        ({"y": np.array([0, 1, 3]), "how": RowMap(n_classes=3)}, r"0\.\.2 only"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "0 rows"),
        ({"chunk_rows": 0}, "chunk_rows=0"),
    ):
        with pytest.raises(ValueError, match=message):
            ArrayRows(**{"X": X, "y": y, **arguments})
    for data_norm, message in ((0.0, "data_norm=0.0"), (np.nan, "data_norm=nan"), (np.inf, "data_norm=inf")):
        with pytest.raises(ValueError, match=message):
            RowMap(data_norm=data_norm)


def test_the_input_is_not_written_to():
    X = np.random.default_rng(0).normal(size=(50, 3)) * 1e3
    matrix = sp.csr_matrix(X)
    X.flags.writeable = False
    matrix.data.flags.writeable = False
    for data in (X, matrix):
        ArrayRows(data, np.ones(50), RowMap(data_norm=1.0))


def test_softmax_sums_do_not_depend_on_chunks():
    X, _ = _example(10_000, 8)
    y = np.random.default_rng(9).integers(5, size=10_000)
    line = LossesAlong(Softmax(5), np.zeros((9, 5)), np.random.default_rng(1).normal(size=(9, 5)), range(4), clip=3.0)
    sums = [ArrayRows(X, y, RowMap(n_classes=5), chunk_rows=c).total(line) for c in (10_000, 3333)]
    assert np.array_equal(*sums)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 9, 17, 64])
def test_rows_one_by_one_give_the_same_bits_for_any_number_of_classes(n_classes):
    """NumPy adds 8 or more numbers in another order when an array has a single row."""
    rng = np.random.default_rng(n_classes)
    X, y = rng.normal(size=(300, 8)) * 3, rng.integers(n_classes, size=300)
    w, step = rng.normal(size=(2, 9, n_classes))
    for loss in (Softmax(n_classes), OneVsRest(Logistic(), n_classes)):
        for query in (GradientSum(loss, w, clip=0.3), LossesAlong(loss, w, step, range(3), clip=3.0)):
            sums = [ArrayRows(X, y, RowMap(n_classes=n_classes), chunk_rows=c).total(query) for c in (300, 1)]
            assert np.array_equal(*sums)


def test_very_wide_rows_give_the_same_bits_on_dense_and_sparse_storage():
    """Beyond 2^17 columns a squared norm has more than 53 bits."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 300_000)), np.array([1.0, -1.0, 1.0, 1.0])
    query = GradientSum(Logistic(), np.zeros(300_001), clip=1.0)
    assert np.array_equal(ArrayRows(X, y).total(query), ArrayRows(sp.csr_matrix(X), y).total(query))


@pytest.mark.thorough
@pytest.mark.slow
def test_guards_survive_optimised_python():
    """``python -O`` strips assert statements; the guards of the core are not among them."""
    code = """
import copy, numpy as np
from dpsk.data import ArrayRows, PrivateData
from dpsk.losses import Logistic
from dpsk.mechanisms import Gaussian, Sensitivity, SeededBits
from dpsk.privacy import Budget, BudgetExhausted, Ledger
from dpsk.queries import GradientSum
data = PrivateData(ArrayRows(np.eye(3), np.ones(3)), Ledger(Budget.of(1.0, 1e-6)), SeededBits(0))
sealed = data.measure(GradientSum(Logistic(), np.zeros(4), clip=1.0))
attempts = [
    (TypeError, lambda: float(sealed)),
    (TypeError, lambda: np.asarray(sealed)),
    (TypeError, lambda: copy.copy(sealed)),
    (TypeError, lambda: data.release(3.0, Gaussian(1.0))),
    (BudgetExhausted, lambda: data.release(sealed, Gaussian(100.0))),
    (ValueError, lambda: Gaussian(1.0).check(Sensitivity(1, float("inf"), 1))),
    (ValueError, lambda: ArrayRows(np.array([[np.nan]]), np.ones(1))),
]
for error, attempt in attempts:
    try:
        attempt()
    except error:
        continue
    raise SystemExit(f"{error.__name__} was not raised")
if __debug__:
    raise SystemExit("not optimised")
print("guarded")
"""
    result = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout == "guarded\n", result.stdout + result.stderr


# ------------------------------------------------------------------------------------------------ what chunks remember


@pytest.fixture
def products(monkeypatch):
    """The weights that rows were multiplied with, in order."""
    multiplied, product = [], Chunk._product

    def record(self, w):
        multiplied.append(w)
        return product(self, w)

    monkeypatch.setattr(Chunk, "_product", record)
    return multiplied


def test_scores_at_the_same_weights_are_computed_once(products):
    X, y = _example(100, 5)
    (chunk,) = ArrayRows(X, y)._chunks()
    one, other = np.full(6, 0.5), np.full(6, 0.25)
    scores = [chunk.scores(w) for w in (one, one.copy(), other, other, one)]
    assert len(products) == 3
    for again in (scores[1], scores[4]):
        np.testing.assert_array_equal(again, scores[0])


def test_a_gradient_and_a_search_from_its_weights_share_a_product(products):
    X, y = _example(100, 5)
    rng = np.random.default_rng(7)
    for start in (np.zeros(6), rng.normal(size=6)):
        rows = ArrayRows(X, y)
        rows.total(GradientSum(Logistic(), start, clip=1.0))
        assert len(products) == 1
        rows.total(ArmijoGains(Logistic(), start, np.ones(6), [1.0, 0.5], clip=1.0))
        assert len(products) == 2
        rows = ArrayRows(X, y)
        for clip in (1.0, 2.0):
            rows.total(GradientSum(Logistic(), start, clip=clip))
        rows.total(LossesAlong(Logistic(), start, np.full(6, 2.0), range(3), clip=1.0))
        rows.total(GradientSum(Logistic(), start, clip=1.0))
        assert len(products) == 4
        products.clear()


def test_weights_that_are_changed_in_place_are_other_weights():
    X, y = _example(50, 5)
    (chunk,) = ArrayRows(X, y)._chunks()
    w = np.full(6, 0.5)
    first = chunk.scores(w)
    w *= 2
    np.testing.assert_array_equal(chunk.scores(w), 2 * first)


MEMORIES = {
    "dense": (np.asarray, {}, None),
    "sparse": (sp.csr_matrix, {}, None),
    "several classes": (np.asarray, {}, 3),
    "centred sparse, several classes": (sp.csr_matrix, {"columns": True}, 3),
    "centred sparse, no intercept": (sp.csr_matrix, {"columns": True, "fit_intercept": False}, None),
}


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("seed", range(4))
def test_remembered_scores_are_those_of_fresh_rows(kind, seed, products):
    """Random walks over few weights, so that they recur, among them neighbours that differ in one last digit."""
    store, options, n_classes = MEMORIES[kind]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 4)) * (rng.random((40, 4)) < 0.5)
    y = rng.choice([-1.0, 1.0], 40) if n_classes is None else rng.integers(n_classes, size=40)
    options = dict(options)
    if options.pop("columns", False):
        options["columns"] = Columns.within(-2, 2, 4).standardised(np.full(4, 1.5), np.full(4, 0.3))
    rows = ArrayRows(store(X), y, RowMap(n_classes, **options))
    (chunk,) = rows._chunks()
    shape = (rows.n_parameters, *(() if n_classes is None else (n_classes,)))
    loss = Logistic() if n_classes is None else Softmax(n_classes)
    pool = [np.zeros(shape), -np.zeros(shape), *(weights_on_grid(rng.normal(size=(3, *shape))[k])[0] for k in range(3))]
    near = pool[-1].copy()
    near.flat[0] += 2.0 ** (np.floor(np.log2(np.abs(near).sum())) - 29)
    pool.append(weights_on_grid(near)[0])
    assert not np.array_equal(pool[-1], pool[-2])
    recent, made, needed = pool, 0, 0
    for _ in range(60):
        fresh = chunk.take(np.arange(40))
        start, step = (of[rng.integers(len(of))] for of in (recent if rng.random() < 0.5 else pool, pool))
        multiples = [[0, 1, 2], [0.5, 1.0], [0, 1 / 3]][rng.integers(3)]
        line = LossesAlong(loss, start, step, multiples, clip=1.0)._line
        call = (lambda c, w=line.start: c.scores(w)) if rng.random() < 0.6 else (lambda c, at=line: c.scores_along(at))
        products.clear()
        seen = call(chunk)
        made += len(products)
        products.clear()
        np.testing.assert_array_equal(seen, call(fresh))
        needed += len(products)
        recent = [line.start] if len(np.shape(seen)) == len(shape) else list(line.points)
    assert made < 0.9 * needed


class Interrupted(Line):
    """A line during whose look-up another thread measures something else on the same rows."""

    @property
    def points(self):
        self.meanwhile()
        return self.start + np.multiply.outer(self.multiples, self.step)

    @points.setter
    def points(self, _):
        pass


@pytest.mark.parametrize("interrupted", [1, 2, 3])
def test_what_is_remembered_is_replaced_as_a_whole(interrupted):
    """Otherwise threads that share rows mix up products: in a stress test 1 sum in 200 was wrong."""
    X, y = _example(50, 3)
    (chunk,) = ArrayRows(X, y)._chunks()
    fresh = chunk.take(np.arange(50))
    start, step, other = np.ones(4), np.full(4, 0.5), np.full(4, 7.0)
    looks = []

    def meanwhile():
        looks.append(1)
        if len(looks) == interrupted:
            chunk.memory.keep(_line_through(other), fresh.scores(other), fresh.scores(other))

    line = Interrupted.__new__(Interrupted)
    vars(line).update(start=start, step=step, multiples=np.array([0.0, 1.0]), exact=True, meanwhile=meanwhile)
    for w in (start + step, start):
        chunk.scores_along(line)
        looks.clear()
        np.testing.assert_array_equal(chunk.scores(w), fresh.scores(w))


def _line_through(w):
    return LossesAlong(Logistic(), w, w, [0, 1], clip=1.0)._line
