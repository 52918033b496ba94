"""Layers and networks: exact sums on public grids, the same for a row in any company."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.losses import Softmax
from dpsk.networks import ACTIVATIONS, Convolution, Dense, Network, signals
from dpsk.networks.activations import Activation
from dpsk.networks.signals import (
    ONE,
    REACH,
    SIGNAL_STEP,
    SLOPE_REACH,
    SLOPE_STEP,
    on_weight_grid,
    signals_of,
    slopes_of,
    squared_norms,
)
from dpsk.testing.common import places

EACH_ACTIVATION = pytest.mark.parametrize("name", ACTIVATIONS)

# The functions, and their derivatives, of numbers that are not rounded.
FLOAT = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "hard-tanh": (lambda x: np.clip(x, -1, 1), lambda x: (np.abs(x) < 1) * 1.0),
    "identity": (lambda x: x, np.ones_like),
}


def exact_product(A, B):
    """Return a matrix product of floats as fractions."""
    A, B = (np.vectorize(Fraction, otypes=[object])(M) for M in (A, B))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in B.T] for row in A]


def heavy_weights(shape, rng):
    """Return weights whose largest l1 norm, forward or backward, is just below a power of two, and odd in last bits."""
    W = rng.choice([-1.0, 1.0], shape) * rng.dirichlet(np.ones(shape[0]), shape[1]).T
    size = max(np.abs(W).sum(axis=0).max(), np.abs(W).sum(axis=1).max())
    return W / size * (1 - 2.0**-20)


# ------------------------------------------------------------------------------------------------------- grids


def test_values_are_rounded_to_signals_and_clipped():
    found = signals_of(np.array([[0.5, 63.0, -1e300, 0.0], [2.0**-17 * 1.01, 0.25, 33.0, -40.0]]), np.array([1.0, 2.0]))
    assert found.tolist() == [[0.5 * ONE, 63 * ONE, -REACH, 0.0], [1.0, 0.5 * ONE, REACH, -REACH]]
    assert REACH * SIGNAL_STEP == 64
    assert SLOPE_REACH * SLOPE_STEP == 16


def test_derivatives_are_rounded_to_slopes_whatever_they_are():
    found = slopes_of(np.array([np.nan, np.inf, -np.inf, 1e300, -0.5, 2.0**-20, 0.75 * SLOPE_STEP]))
    assert found.tolist() == [0.0, SLOPE_REACH, -SLOPE_REACH, SLOPE_REACH, -0.5 / SLOPE_STEP, 0.0, 1.0]
    assert slopes_of(np.array([[1, 2], [3, 4]], dtype=np.float16)).dtype == np.float64


@pytest.mark.parametrize("shape", [(5, 3), (9, 40), (300, 2), (2, 1)])
@pytest.mark.parametrize("size", [1e-90, 1.0, 3.7e8])
def test_weights_on_their_grid_stay_where_they_are(shape, size):
    """Rounding twice is rounding once, also where rounding takes a norm above a power of two."""
    rng, layer = np.random.default_rng(0), Dense((shape[0] - 1,), shape[1])
    for W in (size * rng.normal(size=shape), size * heavy_weights(shape, rng), size * np.full(shape, 1 / 3)):
        once = layer.on_grid(W)
        assert np.array_equal(layer.on_grid(once), once)
        norm = layer.largest_sums(W)
        assert np.abs(once - W).max() <= norm * 2.0**-30
        assert not np.array_equal(once, W)
        # on the grid, no sum is larger than its 31 bits
        steps = np.abs(once) / (2.0 ** math.ceil(math.log2(norm)) * 2.0**-30)
        assert np.array_equal(2 * steps, np.rint(2 * steps))
        assert max(steps.sum(axis=0).max(), steps.sum(axis=1).max()) <= 2.0**30 + max(shape)


def test_a_norm_that_rounding_takes_above_a_power_of_two():
    steps = 2**30 // 5 + 0.6  # five of these are below 2^30 steps; rounded, they are above
    once = Dense((4,), 1).on_grid(np.full((5, 1), steps * 2.0**-30))
    assert once.sum() > 1
    assert np.array_equal(Dense((4,), 1).on_grid(once), once)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e300])
def test_weights_that_are_too_large_are_refused(wrong):
    with pytest.raises(ValueError, match=r"finite and below 2\*\*400"):
        Dense((2,), 2).on_grid(np.array([[1.0, 2.0], [wrong, 0.0], [0.0, 0.0]]))
    assert not on_weight_grid(np.full((2, 2), 1e-300), 4e-300).any()


@pytest.mark.parametrize("shape", [(6, 4), (8, 130), (400, 3)])
def test_products_of_layers_are_exact_to_the_last_bit(shape):
    """At both ends of all bounds, in any order, alone and in company."""
    rng, layer = np.random.default_rng(1), Dense((shape[0] - 1,), shape[1])
    W = layer.on_grid(heavy_weights(shape, rng))
    signs = np.sign(W)
    inputs = np.stack([REACH * signs[:-1, 0], REACH * signs[:-1, -1], rng.integers(-REACH, REACH, shape[0] - 1)])
    forward = layer.forward(inputs, W)
    expected = exact_product(np.hstack([inputs, np.full((3, 1), ONE)]), W)
    assert [[Fraction(s) for s in row] for row in forward] == expected
    slopes = np.stack([SLOPE_REACH * signs[0], SLOPE_REACH * signs[-2], rng.integers(-REACH, REACH, shape[1])])
    backward = layer.backward(slopes, W)
    assert [[Fraction(s) for s in row] for row in backward] == exact_product(slopes, W[:-1].T)
    order = rng.permutation(shape[0] - 1)
    assert np.array_equal(layer.forward(inputs[:, order], W[np.append(order, shape[0] - 1)]), forward)
    for i in range(3):
        assert np.array_equal(layer.forward(inputs[i : i + 1], W)[0], forward[i])
        assert np.array_equal(layer.backward(slopes[i : i + 1], W)[0], backward[i])


def test_a_grid_of_columns_alone_would_be_too_fine_for_slopes():
    """A layer of 8 x 1024: the l1 norms of rows are 128 times those of columns."""
    layer, rng = Dense((8,), 1024), np.random.default_rng(2)
    W = rng.uniform(0.5, 1, (9, 1024))
    slopes = rng.integers(0.9 * SLOPE_REACH, SLOPE_REACH, (1, 1024)) * 1.0
    exact = layer.backward(slopes, layer.on_grid(W))
    order = rng.permutation(1024)
    assert np.array_equal(layer.backward(slopes[:, order], layer.on_grid(W)[:, order]), exact)
    fine = on_weight_grid(W, np.abs(W).sum(axis=0).max() / 4)
    sums = {float((slopes * fine[0])[0, rng.permutation(1024)].cumsum()[-1]) for _ in range(20)}
    assert len(sums) > 1


@pytest.mark.parametrize("width", [1, 2, 3, 784, 1001])
def test_squared_norms_are_the_same_in_any_company(width):
    """Also where they are above 2^53, and where a row of those stands beside others."""
    rng = np.random.default_rng(3)
    x = np.rint(rng.uniform(0.9 * REACH, REACH, (13, width)))
    x[::2] = np.rint(x[::2] / 100)
    x[0] = REACH
    together = squared_norms(x)
    exact = [sum(int(v) ** 2 for v in row) for row in x]
    assert all(abs(Fraction(found) - e) <= Fraction(e) / 2**48 for found, e in zip(together, exact, strict=True))
    if width > 600:
        assert max(exact) > 2**53 > min(exact)
    wide = np.zeros((26, 2 * width))
    wide[::2, ::2] = x
    for other in (np.asfortranarray(x), wide[::2, ::2], np.ascontiguousarray(x[::-1])[::-1], sp.csr_matrix(x)):
        assert np.array_equal(squared_norms(other), together)
    for i in range(13):
        assert squared_norms(x[i : i + 1])[0] == together[i]
    for empty in (np.zeros((0, 2, width)), sp.csr_matrix((0, width))):
        assert squared_norms(empty).shape == (0,)


def test_squared_norms_of_sparse_rows_are_those_of_dense_ones():
    """Rows without entries, with entries that are 0, and above 2^53 with zeros between the others."""
    rng = np.random.default_rng(4)
    x = np.rint(rng.uniform(0.9 * REACH, REACH, (9, 5000))) * (rng.random((9, 5000)) < 0.3)
    x[::2, 400:] = 0
    x[[2, 8]] = 0
    sparse = sp.csr_matrix(x)
    sparse.data[::50] = 0
    assert np.array_equal(squared_norms(sparse), squared_norms(sparse.toarray()))
    assert (squared_norms(sparse)[1::2] > 2**53).all()
    assert (squared_norms(sparse)[2::6] == 0).all()


# ------------------------------------------------------------------------------------------------- activations


@EACH_ACTIVATION
def test_activations_are_the_functions_rounded(name):
    values = np.concatenate([np.linspace(-5, 5, 4001), np.linspace(-63, 63, 50)])
    found = ACTIVATIONS[name].activate(values / SIGNAL_STEP)
    assert np.array_equal(found, np.rint(found))
    assert np.abs(found * SIGNAL_STEP - FLOAT[name][0](values)).max() <= SIGNAL_STEP * (0.5 + 1e-6)
    far = ACTIVATIONS[name].activate(np.array([1e120, -1e120]))
    limit = {"relu": (64, 0), "identity": (64, -64)}.get(name, (1, -1))
    assert (far * SIGNAL_STEP).tolist() == list(limit)


@EACH_ACTIVATION
def test_slopes_are_multiplied_by_derivatives(name):
    values = np.append(np.linspace(-5, 5, 401), [0.0, 70.0, -70.0])
    slopes = np.full(len(values), 8.0 / SLOPE_STEP)
    ACTIVATIONS[name].multiply(slopes, ACTIVATIONS[name].activate(values / SIGNAL_STEP))
    expected = 8 * FLOAT[name][1](values) * (np.abs(values) <= 64)
    assert np.abs(slopes * SLOPE_STEP - expected).max() <= 8 * 2.1 * SIGNAL_STEP


@EACH_ACTIVATION
def test_an_activation_gives_a_number_the_same_bits_in_every_place(name):
    steps = np.random.default_rng(4).normal(size=(40, 7)) / SIGNAL_STEP
    expected = ACTIVATIONS[name].activate(steps.copy())
    slopes = np.full(steps.shape, SLOPE_REACH)
    ACTIVATIONS[name].multiply(slopes, expected)
    for where, place in places(steps):
        assert np.array_equal(ACTIVATIONS[name].activate(place), expected), where
        some = np.full_like(place, SLOPE_REACH)
        ACTIVATIONS[name].multiply(some, place)
        assert np.array_equal(some, slopes), where


def test_activations_are_those_of_the_table():
    assert all(isinstance(activation, Activation) for activation in ACTIVATIONS.values())
    assert list(ACTIVATIONS) == ["relu", "tanh", "hard-tanh", "identity"]


# ----------------------------------------------------------------------------------------------------- networks


def test_weights_of_all_layers_lie_in_one_array():
    network = Network.dense(7, [5, 4], 3)
    assert network.n_weights == 8 * 5 + 6 * 4 + 5 * 3
    w = np.arange(network.n_weights, dtype=float)
    matrices = network.split(w)
    assert [W.shape for W in matrices] == [(8, 5), (6, 4), (5, 3)]
    assert all(np.shares_memory(W, w) for W in matrices)
    assert np.array_equal(network.joined(matrices), w)
    assert (network.n_inputs, network.n_outputs) == (7, 3)
    with pytest.raises(ValueError, match=r"have shape \(79,\), not \(78,\)"):
        network.split(w[1:])


def test_networks_are_public_numbers():
    network = Network.dense(7, [5], 3, "tanh")
    assert len(network.stages) == 2  # known from now on
    again = pickle.loads(pickle.dumps(network))
    assert again == network == Network((Dense((7,), 5), Dense((5,), 3)), "tanh")
    assert hash(again) == hash(network)
    assert again != Network.dense(7, [5], 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network.dense(7, [5], 3, "gelu"), "activation='gelu' must be one of 'relu', 'tanh'"),
        (lambda: Network((Dense((7,), 5), Dense((4,), 3))), r"cannot follow outputs of shape \(5,\)"),
        (lambda: Network(()), "must begin with a weighted one and end with a dense one"),
        (lambda: Network.dense(7, [0], 3), "n_outputs"),
        (lambda: Dense((7, 2), 3), r"inputs=\(7, 2\)"),
    ],
)
def test_what_is_no_network_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@EACH_ACTIVATION
def test_initial_weights_are_public_and_keep_the_size_of_signals(name):
    network = Network.dense(400, [300, 200], 10, name)
    w = network.start(3)
    assert np.array_equal(w, network.start(3))
    assert not np.array_equal(w, network.start(4))
    assert not any(W[-1].any() for W in network.split(w))
    for i, (W, stage) in enumerate(zip(network.split(w), network.stages, strict=True)):
        fan_in, fan_out = stage.layer.fan_in, stage.layer.fan_out
        spread = math.sqrt(2 / fan_in) if name == "relu" and i < 2 else math.sqrt(2 / (fan_in + fan_out))
        assert abs(W[:-1].std() / spread - 1) < 6 / math.sqrt(2 * W[:-1].size)  # six standard deviations


def forward_in_floats(network, w, X):
    """Return the values in front of each activation, the last of them scores, and the inputs of layers."""
    function, values, inputs = FLOAT[network.activation][0], [], [X]
    for W in network.split(w):
        values.append(inputs[-1] @ W[:-1] + W[-1])
        inputs.append(function(values[-1]))
    return values, inputs[:-1]


def gradient_in_floats(network, w, X, y, loss):
    """Return the gradient of the sum of losses."""
    values, inputs = forward_in_floats(network, w, X)
    scores = values[-1] if network.n_outputs > 1 else values[-1][:, 0]
    slopes, found = loss.derivative(scores, y).reshape(len(X), -1), []
    for i in range(len(values) - 1, -1, -1):
        found.append(np.vstack([inputs[i].T @ slopes, slopes.sum(axis=0)]))
        if i:
            slopes = slopes @ network.split(w)[i][:-1].T * FLOAT[network.activation][1](values[i - 1])
    return network.joined(found[::-1])


@EACH_ACTIVATION
@pytest.mark.parametrize("n_outputs", [1, 4])
def test_scores_are_those_of_floats_within_the_grid(name, n_outputs):
    rng = np.random.default_rng(5)
    network, X = Network.dense(6, [20, 10], n_outputs, name), rng.normal(size=(700, 6))
    w = network.on_grid(network.start(0))
    rows = ArrayRows(X, np.ones(700))
    scores = np.concatenate([network.scores(part.load(), w) for part in rows._parts()])
    expected = forward_in_floats(network, w, X)[0][-1]
    assert scores.shape == ((700, 4) if n_outputs == 4 else (700,))
    # half a step per signal, times the l1 norms of what follows, and the rounding of rows
    bound = SIGNAL_STEP
    for W in network.split(w):
        bound = bound * np.abs(W[:-1]).sum(axis=0).max() + SIGNAL_STEP
    assert np.abs(scores.reshape(700, -1) - expected).max() < bound


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sp.csr_matrix])
def test_signals_are_columns_of_the_data(store, fit_intercept):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.5)
    network = Network.dense(4, [3], 1)
    for columns in (None, Columns.within(-4.0, 4.0, 4), Columns(np.zeros(4), np.full(4, 2.0), np.ones(4), np.ones(4))):
        rows = ArrayRows(store(X), np.ones(30), RowMap(columns=columns, fit_intercept=fit_intercept))
        (chunk,) = (part.load() for part in rows._parts())
        (found,) = (inputs for _, inputs in network.blocks(chunk))
        expected = chunk.dense(slice(None))[:, :4] * chunk.scale[:, None]
        assert np.array_equal(found, np.rint(expected * ONE))
        assert found.flags.c_contiguous
    of_five = Network.dense(5, [3], 1).blocks(chunk)
    with pytest.raises(ValueError, match="takes rows of 5 columns, but these have 4"):
        next(of_five)


def test_rows_with_few_entries_stay_sparse():
    """The first layer takes them as they are, unless it is a convolution or something is subtracted from columns."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 100)) * 10.0 ** rng.uniform(-7, 4, (300, 1)) * (rng.random((300, 100)) < 0.1)
    X[0], y = -0.0, np.ones(300)
    dense, images = Network.dense(100, [3], 1), Network((Convolution((10, 10, 1), 2, 3), Dense((128,), 1)))

    def blocks(network, X, **how):
        (chunk,) = (part.load() for part in ArrayRows(X, y, RowMap(**how))._parts())
        assert chunk.sparse
        found = [signals for _, signals in network.blocks(chunk)]
        expected = signals_of(chunk.dense(slice(None))[:, :100], chunk.scale)
        assert np.array_equal(
            np.concatenate([part.toarray() if sp.issparse(part) else part for part in found]), expected
        )
        assert np.array_equal(
            network.scores(chunk, w := network.on_grid(network.start(0))), network.scores(expected, w)
        )
        return {sp.issparse(part) for part in found}

    for fit_intercept in (False, True):
        assert blocks(dense, sp.csr_matrix(X), fit_intercept=fit_intercept) == {True}
    assert blocks(dense, sp.csr_matrix(X), columns=Columns.within(-4.0, 4.0, 100)) == {True}
    assert blocks(
        dense, sp.csr_matrix(X), columns=Columns.within(-4.0, 4.0, 100).standardised(np.ones(100), y[:100])
    ) == {False}
    assert blocks(dense, sp.csr_matrix(X + (rng.random(X.shape) < 0.1))) == {False}
    assert blocks(images, sp.csr_matrix(X)) == {False}


@pytest.mark.parametrize("n_outputs", [1, 6])
def test_products_of_sparse_signals_are_those_of_dense_ones(n_outputs):
    rng, layer = np.random.default_rng(9), Dense((40,), n_outputs)
    x = np.rint(rng.uniform(-REACH, REACH, (20, 40))) * (rng.random((20, 40)) < 0.1)
    x[0] = 0
    W, sparse = layer.on_grid(rng.normal(size=(41, n_outputs))), sp.csr_matrix(x)
    assert layer.forward(sparse, W).tobytes() == layer.forward(x, W).tobytes()
    slopes = np.rint(rng.uniform(-SLOPE_REACH, SLOPE_REACH, (20, n_outputs)))
    ours, theirs = layer.row_gradients(sparse, slopes), layer.row_gradients(x, slopes)
    assert np.array_equal(ours.squared_norms, theirs.squared_norms)
    factors = rng.random(20)
    for weights in (None, rng.integers(0, 2**20, 20) * 1.0):
        total = ours.total(factors, 2.0**-30, weights)
        assert total.any()
        assert np.array_equal(total, theirs.total(factors, 2.0**-30, weights))


def test_blocks_are_small_where_layers_are_wide():
    assert Network.dense(10, [10], 1).block_rows == signals.MOST_BLOCK_ROWS == 512
    assert Network.dense(108, [100], 1).block_rows == 256
    assert Network.dense(784, [1000], 10).block_rows == 128
    assert Network.dense(10_000, [100], 1).block_rows == 64
    assert Network.dense(10**6, [10], 10).block_rows == 8


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("weights", [None, np.array([2.0**20, 3.0, 77.0])])
def test_totals_are_added_to_sums_wherever_these_lie(weights, order):
    rng, layer = np.random.default_rng(8), Dense((4,), 3)
    gradients = layer.row_gradients(rng.integers(-99, 99, (3, 4)) * 1.0, rng.integers(-(2**20), 2**20, (3, 3)) * 1.0)
    sums = np.zeros((5, 3) if weights is None else (2, 5, 3), order=order)
    for _ in range(2):
        gradients.add_to(sums, np.ones(3), 2.0**-38, weights)
    total = gradients.total(np.ones(3), 2.0**-38, weights)
    assert total.any()
    if weights is not None:
        sums, total = (high * 2.0**20 + low for high, low in (sums, total))
    assert np.array_equal(sums, 2 * total)


def test_a_loss_sees_scores_within_reach():
    """As scores of linear models: squares of them are finite."""
    network = Network.dense(1, [], 1)
    w = network.on_grid(np.array([2.0**390, 0.0]))
    (chunk,) = (part.load() for part in ArrayRows(np.array([[1.0], [-1.0]]), np.ones(2))._parts())
    assert network.scores(chunk, w).tolist() == [2.0**100, -(2.0**100)]


@EACH_ACTIVATION
def test_row_gradients_are_those_of_floats_within_the_grid(name):
    rng = np.random.default_rng(7)
    network, X, y = Network.dense(6, [20, 10], 3, name), rng.normal(size=(1, 6)), np.array([1])
    w = network.on_grid(network.start(2))
    (chunk,) = (part.load() for part in ArrayRows(X, y, RowMap(3))._parts())
    ((_, inputs),) = network.blocks(chunk)
    gradients = network.row_gradients(inputs, y, w, Softmax(3))
    expected = network.split(gradient_in_floats(network, w, X, y, Softmax(3)))
    unit = 2.0**-38
    for gradient, reference in zip(gradients, expected, strict=True):
        found = gradient.total(np.ones(1), unit, None) * unit
        assert np.abs(found - reference).max() < 1e-3
        assert abs(math.sqrt(gradient.squared_norms[0]) - np.linalg.norm(reference)) < 1e-3
