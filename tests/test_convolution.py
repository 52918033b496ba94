"""Convolutions and pooling against plain integers, and networks of them against finite differences."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.signal
import scipy.sparse as sp

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import Logistic, Softmax
from dpsk.networks import Convolution, Dense, MaxPooling, Network
from dpsk.networks.signals import ONE, REACH, SIGNAL_STEP, SLOPE_REACH, SLOPE_STEP
from dpsk.queries.network_gradient import NetworkGradient
from dpsk.testing import check_query

LAYERS = [
    Convolution((28, 28, 1), 6, 5),  # windows lie in memory place by place; slopes are rounded by a bit
    Convolution((12, 12, 6), 16, 5),  # window by window
    Convolution((7, 5, 2), 3, 2),
    Convolution((5, 9, 1), 2, 1),
    Convolution((4, 4, 3), 5, 4),  # one window
]
UNIT = 2.0**-38  # of a clip of 1


def integers(rng, shape, bound):
    return rng.integers(-int(bound), int(bound), shape, endpoint=True).astype(np.float64)


def whole_weights(layer, W):
    """Return weights on their grid, and the same as integers with their spacing: the lowest bit that is set."""
    W = layer.on_grid(W)
    mantissas, exponents = np.frexp(W[W != 0])
    digits = (mantissas * 2.0**53).astype(np.int64)
    spacing = ((digits & -digits) * 2.0 ** (exponents - 53)).min()
    return W, (W / spacing).astype(np.int64), spacing


def windows(layer, images):
    """Return the signals of all windows by loops: (n, windows, fan_in)."""
    k, (down, across, _) = layer.size, layer.outputs
    parts = [images[:, i : i + k, j : j + k].reshape(len(images), -1) for i in range(down) for j in range(across)]
    return np.stack(parts, axis=1)


def exact_gradients(layer, signals, slopes):
    """Return the gradients of rows in steps, as Python's integers."""
    ones = np.full((len(signals), layer.outputs[0] * layer.outputs[1], 1), ONE)
    seen = np.concatenate([windows(layer, signals), ones], axis=2).astype(np.int64).astype(object)
    slopes = slopes.reshape(len(slopes), -1, layer.channels).astype(np.int64).astype(object)
    return np.stack([s.T @ d for s, d in zip(seen, slopes, strict=True)])


def weights_of_all_sizes(layer, rng):
    """Yield weights, and some with a row, a column or all of a channel that are much larger than the others."""
    yield rng.normal(size=layer.weight_shape)
    for large in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[: -1 : layer.inputs[2]]):
        W = rng.normal(size=layer.weight_shape) * 1e-3
        W[large] *= 1e6
        yield W


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_outputs_and_slopes_are_sums_of_integers(layer):
    rng = np.random.default_rng(0)
    for W in weights_of_all_sizes(layer, rng):
        W, whole, spacing = whole_weights(layer, W)
        assert np.array_equal(layer.on_grid(W), W)
        signals, slopes = integers(rng, (3, *layer.inputs), REACH), integers(rng, (3, *layer.outputs), SLOPE_REACH)
        signals[0] = REACH
        slopes[0] = SLOPE_REACH
        seen = windows(layer, signals).astype(np.int64)
        wanted = seen @ whole[:-1] + int(ONE) * whole[-1]  # below 2^63, and below 2^53 if the grid is right
        assert np.abs(wanted).max() < 2**53
        found = layer.forward(signals, W) / spacing
        assert found.shape == (3, *layer.outputs)
        assert np.array_equal(found.reshape(wanted.shape), wanted)
        back = np.zeros((3, *layer.inputs), dtype=np.int64)
        k = layer.size
        for i in range(layer.outputs[0]):
            for j in range(layer.outputs[1]):
                sent = slopes[:, i, j].astype(np.int64) @ whole[:-1].T
                back[:, i : i + k, j : j + k] += sent.reshape(3, k, k, -1)
        assert np.array_equal(layer.backward(slopes, W) / spacing, back)
        assert np.abs(whole).sum(axis=0).max() * REACH < 2**53
        of_channel = np.abs(whole[:-1]).reshape(k * k, layer.inputs[2], -1).sum(axis=(0, 2))
        assert of_channel.max() * SLOPE_REACH < 2**53


def test_forward_is_the_valid_correlation():
    rng = np.random.default_rng(1)
    layer = Convolution((9, 8, 2), 3, 4)
    W = layer.on_grid(rng.normal(size=layer.weight_shape))
    signals = integers(rng, (2, *layer.inputs), REACH)
    kernels = W[:-1].reshape(4, 4, 2, 3)
    for image, found in zip(signals, layer.forward(signals, W), strict=True):
        for m in range(3):
            wanted = sum(scipy.signal.correlate(image[..., c], kernels[..., c, m], "valid") for c in range(2))
            np.testing.assert_allclose(found[..., m], wanted + ONE * W[-1, m], rtol=1e-12, atol=1e-3)


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_backward_is_the_adjoint_of_forward(layer):
    rng = np.random.default_rng(2)
    W, _, spacing = whole_weights(layer, rng.normal(size=layer.weight_shape))
    W[-1] = 0
    signals, slopes = integers(rng, (1, *layer.inputs), REACH), integers(rng, (1, *layer.outputs), SLOPE_REACH)
    forward = (layer.forward(signals, W) / spacing).astype(np.int64).astype(object)
    backward = (layer.backward(slopes, W) / spacing).astype(np.int64).astype(object)
    assert (forward * slopes.astype(np.int64)).sum() == (backward * signals.astype(np.int64)).sum()


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_gradients_of_rows_are_exact(layer):
    rng = np.random.default_rng(4)
    bits = max(0, 44 + math.ceil(math.log2(layer.outputs[0] * layer.outputs[1])) - 53)
    signals, slopes = integers(rng, (4, *layer.inputs), REACH), integers(rng, (4, *layer.outputs), SLOPE_REACH)
    signals[0], slopes[0] = REACH, SLOPE_REACH  # the largest sums
    signals[1], slopes[1] = 1 - REACH, SLOPE_REACH - 2.0**bits  # sums of all bits
    slopes[2] -= np.fmod(slopes[2], 2.0**bits)  # on the coarser grid already
    wanted = exact_gradients(layer, signals, np.rint(slopes / 2.0**bits) * 2.0**bits)
    gradients = layer.row_gradients(signals, slopes)
    step = SIGNAL_STEP * SLOPE_STEP
    for i in range(4):
        alone = (np.arange(4) == i).astype(np.float64)
        found = gradients.total(alone, step, None).astype(object)
        assert np.array_equal(found, wanted[i])
    norms = (wanted**2).sum(axis=(1, 2)).astype(np.float64) * step**2
    np.testing.assert_allclose(gradients.squared_norms, norms, rtol=1e-12)


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_a_row_adds_the_same_bits_alone_and_in_company(layer):
    rng = np.random.default_rng(5)
    n = 13
    signals, slopes = integers(rng, (n, *layer.inputs), 2.0**17), integers(rng, (n, *layer.outputs), 2.0**15)
    W = layer.on_grid(rng.normal(size=layer.weight_shape))
    factors, weights = rng.random(n), rng.integers(0, 2**20, n, endpoint=True).astype(np.float64)
    company = layer.row_gradients(signals, slopes)
    norms, forward, backward = company.squared_norms, layer.forward(signals, W), layer.backward(slopes, W)
    total, weighted = (company.total(factors, UNIT, some) for some in (None, weights))
    parts, parts_weighted = np.zeros(layer.weight_shape, dtype=object), np.zeros(layer.weight_shape, dtype=object)
    for i in range(n):
        alone = layer.row_gradients(signals[i : i + 1].copy(), slopes[i : i + 1].copy())
        assert alone.squared_norms[0] == norms[i]
        assert np.array_equal(layer.forward(signals[i : i + 1], W)[0], forward[i])
        assert np.array_equal(layer.backward(slopes[i : i + 1], W)[0], backward[i])
        part = alone.total(factors[i : i + 1], UNIT, None)
        assert np.linalg.norm(part.astype(np.float64)) <= factors[i] * math.sqrt(norms[i]) / UNIT * (1 + 1e-12)
        parts += part
        parts_weighted += part.astype(object) * int(weights[i])
    assert np.array_equal(total, parts)
    high, low = weighted.astype(object)
    assert np.array_equal(high * 2**20 + low, parts_weighted)
    assert (low >= 0).all()
    assert (low < 2**20).all()


def test_weighted_parts_are_exact_where_they_are_largest():
    """512 rows whose part is as long as the clip allows, each with the largest weight."""
    layer, n = Convolution((2, 2, 1), 1, 2), 512
    signals = np.zeros((n, 2, 2, 1))
    slopes = np.full((n, 1, 1, 1), -(2.0**20) - 1)
    signals[:, 0, 0] = 2.0**18 + 1
    gradients = layer.row_gradients(signals, slopes)
    weights = np.full(n, 2.0**20 - 1)
    for some in (weights, np.full(n, 2.0**20)):
        high, low = gradients.total(np.ones(n), 2.0**-34, some).astype(object)
        one = exact_gradients(layer, signals[:1], slopes[:1])[0]
        assert np.array_equal(high * 2**20 + low, one * n * int(some[0]))


def test_threads_do_not_share_what_they_work_on():
    rng = np.random.default_rng(6)
    layers = [Convolution((14, 14, 1), 4, 3), Convolution((14, 14, 3), 4, 3)]
    given = [(layer, integers(rng, (9, *layer.inputs), 2.0**17), layer.on_grid(rng.normal(size=layer.weight_shape)))
             for layer in layers]  # fmt: skip
    wanted = [layer.forward(signals, W) for layer, signals, W in given]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda i: given[i % 2][0].forward(*given[i % 2][1:]), range(200)))
    assert all(np.array_equal(sums, wanted[i % 2]) for i, sums in enumerate(found))


def pooled(images, size):
    """Return the largest values, and where each is taken from: the first column that has it, and its first row."""
    n, height, width, channels = images.shape
    found = np.empty((n, height // size, width // size, channels))
    place = np.zeros((*found.shape, 2), dtype=int)
    for i, down, across, c in np.ndindex(found.shape):
        block = images[i, down * size :, across * size :, c][:size, :size]
        found[i, down, across, c] = block.max()
        column, row = np.argwhere(block.max() == block.T)[0]
        place[i, down, across, c] = down * size + row, across * size + column
    return found, place


@pytest.mark.parametrize("shape", [(4, 6, 3), (5, 7, 1), (9, 9, 2), (3, 3, 1)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_pooling_takes_the_first_largest_value_and_sends_the_slope_there(shape, size):
    rng = np.random.default_rng(7)
    layer = MaxPooling(shape, size)
    images = rng.integers(-2, 3, (4, *shape)).astype(np.float64)  # with many ties
    slopes = integers(rng, (4, *layer.outputs), SLOPE_REACH)
    before = images.copy()
    found, known = layer.forward(images)
    wanted, place = pooled(before, size)
    assert found.shape[1:] == layer.outputs
    assert np.array_equal(found, wanted)
    back = np.zeros_like(images)
    for i, down, across, c in np.ndindex(wanted.shape):
        back[(i, *place[i, down, across, c], c)] += slopes[i, down, across, c]
    assert np.array_equal(layer.backward(slopes, known), back)
    assert np.array_equal(images, before)


def test_what_cannot_be_is_refused():
    for given, word in [(((4, 4), 1, 1), "inputs"), (((4, 4, 1), 0, 1), "channels"), (((4, 3, 1), 2, 4), "size=4"),
                        (((2**16, 2**17, 1), 1, 1), "2\\*\\*31")]:  # fmt: skip
        with pytest.raises(ValueError, match=word):
            Convolution(*given)
    for given, word in [(((4,), 2), "inputs"), (((4, 3, 1), 4), "size=4"), (((4, 4, 1), 0), "size=0")]:
        with pytest.raises(ValueError, match=word):
            MaxPooling(*given)


def small_network(n_outputs, activation="relu"):
    """Two convolutions, pooling that drops a row, and two dense layers, of images of 9 x 8."""
    first = Convolution((9, 8, 1), 3, 2)
    pool = MaxPooling(first.outputs, 2)
    second = Convolution(pool.outputs, 4, 2)
    return Network((first, pool, second, Dense((24,), 5), Dense((5,), n_outputs)), activation)


def floating_loss(network, X, y, w, act):
    """Return the sum of softmax losses of the small network in floats, by other means."""
    values = X.reshape(-1, 9, 8, 1)
    W1, W2, W3, W4 = network.split(w)
    for W, pool, channels in ((W1, True, 1), (W2, False, 3)):
        kernels = W[:-1].reshape(2, 2, channels, -1)
        values = np.stack(
            [
                np.stack(
                    [
                        sum(
                            scipy.signal.correlate(image[..., c], kernels[..., c, m], "valid", "direct")
                            for c in range(channels)
                        )
                        + W[-1, m]
                        for m in range(W.shape[1])
                    ],
                    axis=-1,
                )
                for image in values
            ]
        )
        if pool:
            n, height, width, m = values.shape
            values = values[:, : height // 2 * 2, : width // 2 * 2]
            values = values.reshape(n, height // 2, 2, width // 2, 2, m).max(axis=(2, 4))
        values = act(values)
    values = values.reshape(len(X), -1)
    scores = act(values @ W3[:-1] + W3[-1]) @ W4[:-1] + W4[-1]
    return (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(X)), y]).sum()


@pytest.mark.parametrize(
    ("activation", "act"), [("relu", lambda z: np.maximum(z, 0)), ("tanh", np.tanh)], ids=["relu", "tanh"]
)
def test_gradients_of_a_convolutional_network_equal_finite_differences(activation, act):
    rng = np.random.default_rng(8)
    network = small_network(3, activation)
    X, y = rng.normal(size=(6, 72)) / 4, np.array([0, 1, 2, 0, 1, 2])
    w = network.on_grid(network.start(0) + 0.1 * rng.normal(size=network.n_weights))
    query = NetworkGradient(network, Softmax(3), w, clip=1e3)
    found = ArrayRows(X, y, RowMap(n_classes=3, fit_intercept=False)).total(query) * query.unit
    h = 1e-6
    for i in range(0, network.n_weights, 3):
        step = np.zeros(network.n_weights)
        step[i] = h
        wanted = (floating_loss(network, X, y, w + step, act) - floating_loss(network, X, y, w - step, act)) / (2 * h)
        assert found[i] == pytest.approx(wanted, abs=2e-3)  # inputs are rounded to 2^-18 of their row's size
    assert np.abs(found).max() > 0.5


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_sensitivity_of_convolutional_networks(activation):
    for loss, n_classes in ((Logistic(), None), (Softmax(3), 3)):
        network = small_network(n_classes or 1, activation)
        w = network.start(1) * 3
        reached = check_query(
            NetworkGradient(network, loss, w, clip=0.3), n_features=72, n_classes=n_classes, trials=20
        )
        assert reached > 0.99


def test_storages_blocks_and_threads_give_equal_sums():
    rng = np.random.default_rng(9)
    network = small_network(3)
    X = rng.normal(size=(70, 72)) * (rng.random((70, 72)) < 0.2)
    y = rng.integers(0, 3, 70)
    query = NetworkGradient(network, Softmax(3), network.start(2), clip=0.5)
    how = RowMap(n_classes=3)
    wanted = ArrayRows(X, y, how).total(query)
    assert np.abs(wanted).max() > 2.0**30
    order = rng.permutation(70)
    for other in (
        ArrayRows(sp.csr_matrix(X), y, how),
        ArrayRows(X, y, how, chunk_rows=7),
        ArrayRows(X[order], y[order], RowMap(n_classes=3, row_major=True), chunk_rows=33),
    ):
        assert np.array_equal(other.total(query), wanted)
