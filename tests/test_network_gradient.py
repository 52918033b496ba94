"""Sums of clipped gradients of networks: bounded, exact, and the same in any company."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from test_networks import EACH_ACTIVATION, forward_in_floats, gradient_in_floats

from dpsk.data import ArrayRows, Columns, Door, RowMap, StoredRows
from dpsk.data.grid import CHUNK_ROWS
from dpsk.data.rows import ChunkRows
from dpsk.data.weights import MOST_ROWS, ONE, Weights
from dpsk.losses import HuberHinge, Logistic, OneVsRest, Softmax, SquaredHinge
from dpsk.mechanisms import Gaussian
from dpsk.mechanisms.randomness import SeededBits
from dpsk.networks import Network, network
from dpsk.networks.dense import _DenseGradients
from dpsk.networks.signals import ONE as ONE_SIGNAL
from dpsk.networks.signals import squared_norms
from dpsk.privacy import Budget, GaussianDP
from dpsk.privacy.ledger import Ledger
from dpsk.queries import NetworkGradient
from dpsk.queries import network_gradient as module
from dpsk.testing import check_query

LOSSES = [Logistic(), SquaredHinge(), Softmax(3), OneVsRest(HuberHinge(), 3)]


def query_of(loss, d, hidden=(6, 5), activation="relu", *, clip=1.0, seed=0, size=1.0, kind=NetworkGradient):
    made = Network.dense(d, hidden, loss.n_classes or 1, activation)
    return kind(made, loss, size * made.start(seed), clip=clip)


# ------------------------------------------------------------------------------------------------------- bounds


@EACH_ACTIVATION
def test_sensitivity(name):
    for loss, clip, size, hidden in zip(
        LOSSES, [1.3, 1e-6, 1e6, 0.7], [1, 100, 1e-3, 3], [(5,), (3, 4), (), (9,)], strict=True
    ):
        query = query_of(loss, 4, hidden, name, clip=clip, size=size)
        check_query(query, n_features=4, n_classes=loss.n_classes, trials=25)
        check_query(query, n_features=4, n_classes=loss.n_classes, fit_intercept=False, trials=10)


@EACH_ACTIVATION
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_sensitivity_is_reached(name, loss):
    query = query_of(loss, 4, activation=name, clip=0.3)
    assert check_query(query, n_features=4, n_classes=loss.n_classes, trials=20) > 0.9999


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300])
@pytest.mark.parametrize("whole", [Logistic(), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_a_row_is_bounded_whatever_a_loss_returns(whole, what):
    class Careless(type(whole)):
        def derivative(self, scores, y):
            residual = super().derivative(scores, y)
            residual.reshape(len(y), -1)[scores.reshape(len(y), -1)[:, 0] > 0, :1] = what
            return residual

    loss = Careless(3) if isinstance(whole, Softmax) else Careless()
    for size in (1.0, 1e30):
        query = query_of(loss, 3, clip=0.9, size=size)
        check_query(query, n_features=3, n_classes=loss.n_classes, trials=15)


def test_a_loss_of_short_numbers_does_not_loosen_the_bound():
    class Short(Softmax):
        def derivative(self, scores, y):
            return super().derivative(scores, y).astype(np.float16)

    for clip in (1e-3, 0.3):
        check_query(query_of(Short(3), 4, clip=clip), n_features=4, n_classes=3, trials=20)


def test_check_query_catches_a_norm_without_biases(monkeypatch):
    def squared_norms(self):
        whole = found.fget(self)
        return whole - 2.0**-36 * np.square(self._slopes).sum(axis=1)

    found = _DenseGradients.squared_norms
    monkeypatch.setattr(_DenseGradients, "squared_norms", property(squared_norms))
    with pytest.raises(AssertionError, match="one unit moved the sum"):
        check_query(query_of(Logistic(), 4, clip=0.5), n_features=4)


def test_check_query_catches_a_norm_of_one_layer_alone(monkeypatch):
    def squared_norms(self):
        return found.fget(self) * (self._slopes.shape[1] == 1)

    found = _DenseGradients.squared_norms
    monkeypatch.setattr(_DenseGradients, "squared_norms", property(squared_norms))
    with pytest.raises(AssertionError, match="one unit moved the sum"):
        check_query(query_of(Logistic(), 4, clip=0.5), n_features=4)


def test_check_query_catches_a_promise_for_rows_that_leave():
    class IgnoresReplacement(NetworkGradient):
        def sensitivity(self, adjacency):
            return super().sensitivity("zero-out")

    with pytest.raises(AssertionError, match="one unit moved the sum"):
        check_query(query_of(Logistic(), 4, clip=0.5, kind=IgnoresReplacement), n_features=4)


# --------------------------------------------------------------------------------------------------- exactness


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 9)) * np.exp(rng.normal(size=(300, 1))) * (rng.random((300, 9)) < 0.6)
    return X, rng.integers(3, size=300)


COLUMNS = {"as they are": None, "centred": Columns(np.full(9, -3.0), np.full(9, 2.0), np.ones(9), np.full(9, 0.3))}


@pytest.mark.parametrize("columns", COLUMNS)
@EACH_ACTIVATION
def test_every_storage_gives_the_same_bits(name, columns, table, tmp_path):
    X, y = table
    query = query_of(Softmax(3), 9, (8, 7), name, clip=0.7)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for fit_intercept in (True, False):
        found = []
        for row_major in (True, False):
            how = RowMap(3, columns=COLUMNS[columns], fit_intercept=fit_intercept, row_major=row_major)
            found += [ArrayRows(form, y, how) for form in (X, np.asfortranarray(X), sp.csr_matrix(X), mapped)]
            found.append(ArrayRows(X, y, how, chunk_rows=37))
        found.append(StoredRows([X[:100], X[100:]], y, how, on_disk=False))
        first, *others = (rows.total(query) for rows in found)
        assert first.any()
        assert all(np.array_equal(total, first) for total in others)


@pytest.mark.parametrize("weighted", [False, True])
@EACH_ACTIVATION
def test_rows_with_few_entries_give_the_same_bits_in_every_storage(name, weighted, tmp_path):
    """Rows of zeros, huge entries, and rows whose squared norms are beyond 2^53 among them."""
    rng, n, d = np.random.default_rng(7), 400, 800
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-7, 3, (n, 1)) * (rng.random((n, d)) < 0.02)
    X[0], X[1, ::90], X[2:4] = 0, -1e300, rng.normal(size=(2, d)) * 1e3
    y, steps = rng.integers(3, size=n), rng.integers(0, ONE + 1, n).astype(np.int32)
    query, how = query_of(Softmax(3), d, (8, 7), name, clip=0.7), RowMap(3)
    weights = Weights(steps) if weighted else None
    np.save(tmp_path / "X.npy", X)
    mapped = ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), y, how, weights)  # stays dense
    forms = [X, np.asfortranarray(X), sp.csr_matrix(X), sp.csc_matrix(X)]
    found = [mapped, *(ArrayRows(form, y, how, weights) for form in forms)]
    found += [ArrayRows(forms[2], y, how, weights, chunk_rows=77), found[3].subset(rng.permutation(n))]
    totals = [rows.total(query).astype(object) for rows in found]
    total, *others = (high * ONE + low for high, low in totals) if weighted else totals
    assert total.any()
    assert all(np.array_equal(other, total) for other in others)
    for rows, sparse in ((mapped, False), (found[3], True)):
        (chunk, *_) = (part.load() for part in rows._parts())
        signals = next(query.network.blocks(chunk))[1]
        assert sp.issparse(signals) is sparse
        assert (squared_norms(signals)[2:4] > 2**53).all()


@EACH_ACTIVATION
def test_a_row_adds_the_same_in_any_company(name, table, monkeypatch):
    """Alone, in another order, in batches, in blocks of any size."""
    X, y = table
    query = query_of(Softmax(3), 9, (40, 30), name, clip=0.7, size=2.0)
    whole = ArrayRows(X, y, RowMap(3))
    total = whole.total(query)
    assert np.array_equal(sum(ArrayRows(X[i : i + 1], y[i : i + 1], RowMap(3)).total(query) for i in range(300)), total)
    order = np.random.default_rng(1).permutation(300)
    assert np.array_equal(ArrayRows(X[order], y[order], RowMap(3)).total(query), total)
    batches = [whole.subset(part).total(query) for part in np.split(order, [7, 50, 200])]
    assert np.array_equal(sum(batches), total)
    for entries in (40, 40 * 24, 40 * 200):
        monkeypatch.setattr(network, "_BLOCK_ENTRIES", entries)
        assert np.array_equal(whole.total(query), total)


def test_the_number_of_threads_does_not_matter():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(2**14, 64)), rng.choice([-1.0, 1.0], 2**14)
    query, rows = query_of(Logistic(), 64, (16,)), ArrayRows(X, y, chunk_rows=1000)
    total = rows.total(query)
    with joblib.parallel_config("threading", n_jobs=2):
        assert np.array_equal(rows.total(query), total)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_the_largest_chunks_are_exact(weighted):
    """Rows at the end of the bound, all of one sign: their sum is that of one of each kind, many times."""
    loss, n = Logistic(), MOST_ROWS if weighted else CHUNK_ROWS
    kinds = np.array([[1.0, 0.0, 0.0], [-1.0, 2.0**-16, 0.0], [64.0, 64.0, -64.0]])
    which = np.sort(np.arange(n) % 3)
    steps = np.array([ONE, ONE - 1, 3], dtype=np.int32)
    for clip in (2.0**-12, 2.0**-12 * (1 - 1.5 * 2.0**-22)):  # the first leaves room for no bit more
        query = query_of(loss, 3, (2,), "identity", clip=clip)
        weights = Weights(steps[which]) if weighted else None
        rows = ArrayRows(kinds[which], np.ones(n), RowMap(), weights, chunk_rows=n)
        total = rows.total(query).astype(object)
        expected = 0
        for kind in range(3):
            one = ArrayRows(kinds[kind : kind + 1], np.ones(1)).total(query).astype(object)
            assert max(abs(one)) * module.MOST_ROWS < 2**62 + 2**40
            expected = expected + one * int((which == kind).sum()) * (int(steps[kind]) if weighted else 1)
        assert ((total[0] * ONE + total[1] if weighted else total) == expected).all()
        assert not weighted or ((total[1] >= 0).all() and (total[1] < ONE).all())


def test_gradients_at_the_end_of_their_bound_leave_no_room_for_more_rows():
    """One output that only its bias moves: a row adds nearly 2^38 to one entry."""
    made = Network.dense(1, [], 1)
    query = NetworkGradient(made, Logistic(), np.array([0.0, -500.0]), clip=0.5)
    rows = ArrayRows(np.zeros((2**15 + 3, 1)), np.ones(2**15 + 3), chunk_rows=2**15 + 3)
    one = ArrayRows(np.zeros((1, 1)), np.ones(1)).total(query)
    assert 2**38 * (1 - 2.0**-20) < -one[1] <= 2**38
    assert (rows.total(query) == (2**15 + 3) * one).all()
    assert module._EXACT_ROWS[False] * 2**38 == 2**53


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_equal_integer_arithmetic(weighted, table):
    """Layer by layer, what is clipped and truncated is multiplied by signals in Python's integers."""
    X, y = table
    query = query_of(Softmax(3), 9, (8,), "tanh", clip=3.0)
    weights = np.random.default_rng(4).integers(0, ONE + 1, 300).astype(np.int32)
    (chunk,) = ArrayRows(X, y, RowMap(3), Weights(weights) if weighted else None)._parts()
    inputs = np.concatenate([signals for _, signals in query.network.blocks(chunk)])
    gradients = query.network.row_gradients(inputs, y, query.w, query.loss)
    signals = [np.hstack([g._signals, np.full((300, 1), ONE_SIGNAL)]).astype(int).astype(object) for g in gradients]
    slopes = [g._slopes.astype(int).astype(object) for g in gradients]
    expected, clipped = 0, 0
    for i in range(300):
        norm = math.sqrt(sum(sum(a[i] ** 2) * sum(s[i] ** 2) for a, s in zip(signals, slopes, strict=True))) * 2.0**-34
        factor, clipped = min(1.0, 3.0 * (1 - 2.0**-30) / norm), clipped + (norm > 3.0)
        residuals = [np.vectorize(int, otypes=[object])(s[i].astype(float) * (factor * 2.0**2)) for s in slopes]
        part = np.concatenate([np.outer(a[i], r).ravel() for a, r in zip(signals, residuals, strict=True)])
        expected = expected + part * (int(weights[i]) if weighted else 1)
    assert 50 < clipped < 250
    total = query(chunk).astype(object)
    assert ((total[0] * ONE + total[1] if weighted else total) == expected).all()


# ------------------------------------------------------------------------------------------------------- values


@EACH_ACTIVATION
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_gradients_are_those_of_floats(name, loss):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 6))
    y = rng.choice([-1.0, 1.0], 500) if loss.n_classes is None else rng.integers(3, size=500)
    query = query_of(loss, 6, (20, 10), name, clip=64.0)
    total = ArrayRows(X, y, RowMap(loss.n_classes)).total(query) * query.unit
    expected = gradient_in_floats(query.network, query.w, X, y, loss)
    assert np.abs(total - expected).max() / 500 < 2e-5
    assert np.abs(expected).max() / 500 > 0.01


@EACH_ACTIVATION
def test_gradients_are_finite_differences_of_the_mean_loss(name):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(2000, 5)), rng.integers(3, size=2000)
    query = query_of(Softmax(3), 5, (8,), name, clip=64.0)
    gradient = ArrayRows(X, y, RowMap(3)).total(query) * query.unit / 2000

    def mean_loss(w):
        return Softmax(3).value(forward_in_floats(query.network, w, X)[0][-1], y).mean()

    h = 1e-4
    for direction in rng.normal(size=(5, query.w.size)):
        change = (mean_loss(query.w + h * direction) - mean_loss(query.w - h * direction)) / (2 * h)
        assert abs(change - gradient @ direction) < 1e-3 * np.linalg.norm(gradient) * np.linalg.norm(direction)


def test_clipped_rows_keep_their_direction(table):
    X, y = table
    for i in range(20):
        rows = ArrayRows(X[i : i + 1], y[i : i + 1], RowMap(3))
        whole, clipped = (rows.total(q) * q.unit for q in (query_of(Softmax(3), 9, clip=c) for c in (32.0, 0.25)))
        length = np.linalg.norm(whole)
        assert length > 0.25
        assert np.abs(clipped - whole * (0.25 / length)).max() < 1e-4
        assert np.linalg.norm(clipped) <= 0.25


def test_slopes_that_vanish_and_networks_without_hidden_layers():
    """Zero weights: only the biases of the last layer move. Without hidden layers it is a linear model."""
    made = Network.dense(3, [4], 2)
    query = NetworkGradient(made, Softmax(2), np.zeros(made.n_weights), clip=1.0)
    rows = ArrayRows(np.array([[1.0, 2.0, 3.0]]), np.array([1]), RowMap(2))
    first, last = made.split(rows.total(query))
    assert not first.any()
    assert not last[:-1].any()
    assert (last[-1] * query.unit == [0.5, -0.5]).all()
    linear = NetworkGradient(Network.dense(3, [], 2), Softmax(2), np.zeros(8), clip=8.0)
    found = linear.network.split(rows.total(linear))[0] * linear.unit
    assert np.array_equal(found, np.outer([1.0, 2.0, 3.0, 1.0], [0.5, -0.5]))


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("clip", [0, -1.0, np.nan, np.inf, 2.0**101])
def test_clip_is_validated(clip):
    with pytest.raises(ValueError, match="clip="):
        query_of(Logistic(), 3, clip=clip)


def test_a_loss_must_fit_the_outputs():
    made = Network.dense(3, [4], 2)
    with pytest.raises(ValueError, match="needs 3 outputs; this network has 2"):
        NetworkGradient(made, Softmax(3), made.start(0), clip=1.0)
    with pytest.raises(ValueError, match="needs 1 outputs; this network has 2"):
        NetworkGradient(made, Logistic(), made.start(0), clip=1.0)
    with pytest.raises(ValueError, match=r"have shape \(26,\), not \(25,\)"):
        NetworkGradient(made, Softmax(2), made.start(0)[1:], clip=1.0)


def test_a_loss_must_keep_the_shape_of_scores():
    class Flat(Softmax):
        def derivative(self, scores, y):
            return super().derivative(scores, y)[:, 0]

    with pytest.raises(TypeError, match="changed the shape"):
        ArrayRows(np.ones((2, 4)), np.zeros(2), RowMap(3)).total(query_of(Flat(3), 4))


def test_no_number_of_rows_is_told_by_a_refusal():
    """All that a query knows of the number of rows is how many a batch holds, which is secret."""
    rows, query = ArrayRows(np.ones((4, 2)), np.ones(4)), query_of(Logistic(), 2)
    drawn = ChunkRows(rows._chunks, replace(rows.public, n_rows=2**40))
    data = Door(Ledger(Budget(math.inf, 1e-6, GaussianDP(), 1.0)), SeededBits(0), "zero-out").open(drawn)
    assert data.measure(query).shape == query.w.shape


def test_a_sum_beyond_64_bits_wraps_around():
    """Nothing else happens: no float, no warning, no other entry (docs/guarantees.md, 3.5 and 3.8)."""
    made = Network.dense(1, [], 1)
    query = NetworkGradient(made, Logistic(), np.array([0.0, -500.0]), clip=0.5)
    rows = ArrayRows(np.zeros((2**15, 1)), np.ones(2**15), chunk_rows=2**15)
    (chunk,) = rows._chunks()
    one, n = query(chunk), 2**11  # chunks of 2^15 rows: 2^26 in all
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = ChunkRows(lambda: [chunk] * n, rows.public).total(lambda chunk: one)
    exact = [int(entry) * n for entry in one]
    assert min(exact) < -(2**63)
    assert [int(entry) for entry in total] == [(entry + 2**63) % 2**64 - 2**63 for entry in exact]


def test_a_release_has_the_shape_of_the_weights():
    rows = ArrayRows(np.ones((4, 2)), np.ones(4))
    data = Door(Ledger(Budget(math.inf, 1e-6, GaussianDP(), 1.0)), SeededBits(0), "zero-out").open(rows)
    query = query_of(Logistic(), 2)
    released = data.release(data.measure(query), Gaussian(0.01))
    assert released.shape == query.w.shape
    assert data.evaluations == {"gradient": 1.0}
    assert query.unit == 2.0**-38
    assert Fraction(query.sensitivity("replace").l2) == 2 * Fraction(2) ** 38
