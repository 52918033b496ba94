"""Losses of networks at points of a line, and what steps gain: one row's part, exact sums, the right numbers."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import HuberHinge, Logistic, MarginLoss, OneVsRest, Softmax
from dpsk.networks import Convolution, Dense, MaxPooling, Network
from dpsk.objectives import NetworkModel, Perceptron
from dpsk.queries import ArmijoGains, LossesAlong, NetworkGains, NetworkLosses
from dpsk.testing import check_query
from dpsk.testing.common import heavy_tailed, random_labels

STEPS = [4.0, 1.0, 0.3, 0.01]
LOSSES = [Logistic(), HuberHinge(), Softmax(3), OneVsRest(Logistic(), 3)]


def network_for(loss, hidden=(6, 5), activation="relu", n_inputs=4):
    return Network.dense(n_inputs, hidden, loss.n_classes or 1, activation)


def queries(loss, *, size=1.0, along=1.0, clip=1.3, steps=STEPS, **options):
    """Return gains in both forms, and losses, on one line."""
    network = network_for(loss, **options)
    w, direction = size * network.start(0), along * np.random.default_rng(1).normal(size=network.n_weights)
    return {
        "per unit": NetworkGains(network, loss, w, direction, steps, clip=clip),
        "clipped": NetworkGains(network, loss, w, direction, steps, clip=clip, per_unit=False),
        "losses": NetworkLosses(network, loss, w, -direction, [0.0, *steps], clip=clip),
    }


def total(rows, query):
    with np.errstate(all="ignore"):  # as PrivateData.measure does
        return rows.total(query)


# --------------------------------------------------------------------------------------------- one row's influence


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sensitivity(loss, kind):
    for clip, activation in ((1e-3, "relu"), (1.3, "tanh"), (500.0, "hard-tanh")):
        query = queries(loss, clip=clip, activation=activation)[kind]
        check_query(query, n_features=4, n_classes=loss.n_classes, fit_intercept=False, trials=10)


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
@pytest.mark.parametrize(("size", "along"), [(1e100, 1e100), (1e-100, 1e-100), (1e100, 1e-100), (0.0, 1e-30)])
def test_sensitivity_with_extreme_weights_and_steps(kind, size, along):
    for steps in ([1e-12, 1e12], [2.0**59]):
        for loss in (Logistic(), Softmax(3)):
            query = queries(loss, size=size, along=along, steps=steps, clip=2.0**-100)[kind]
            check_query(query, n_features=4, n_classes=loss.n_classes, fit_intercept=False, trials=5)


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
def test_sensitivity_is_reached(kind):
    """By rows that gain the most that counts, and by rows that lose as much in their place."""
    query = queries(Logistic(), steps=[4.0], clip=2.0**-9)[kind]
    if kind == "losses":
        network = network_for(Logistic())
        query = NetworkLosses(network, Logistic(), *np.zeros((2, network.n_weights)), [0.0], clip=0.1)
    assert 0.99 < check_query(query, n_features=4, fit_intercept=False) <= 1


def test_losses_are_monotone_and_gains_are_not():
    for kind, query in queries(Softmax(3)).items():
        assert query.sensitivity("zero-out").monotone == (kind == "losses")
        assert not query.sensitivity("replace").monotone


class Strange(MarginLoss):
    """A loss that returns whatever there is."""

    lipschitz = smoothness = math.inf

    def phi(self, margin):
        return np.choose(
            (np.abs(margin) * 1e6).astype(np.int64) % 4, [margin * math.nan, margin * 0 + math.inf, -margin, margin]
        )

    slope = curvature = phi


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
def test_one_row_is_bounded_whatever_a_loss_returns(kind):
    for clip in (1e-3, 2.0):
        check_query(queries(Strange(), clip=clip)[kind], n_features=4, fit_intercept=False, trials=20)


# ------------------------------------------------------------------------------------- exact sums, row by row


def stored_in_every_way(X, y, n_classes):
    how = RowMap(n_classes, fit_intercept=False)
    yield ArrayRows(X, y, how)
    yield ArrayRows(np.asfortranarray(X), y, how)
    yield ArrayRows(sp.csr_matrix(X), y, how)
    yield ArrayRows(X, y, how, chunk_rows=7)


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_the_part_of_a_row_does_not_depend_on_its_company(loss, kind):
    """Blocks have at most 512 rows: rows alone, in other blocks and in other orders add the same integers."""
    rng, n = np.random.default_rng(5), 600
    X, y = heavy_tailed(n, 4, rng), random_labels(loss.n_classes, n, rng)
    for hidden, activation in (((), "relu"), ((9,), "tanh"), ((40, 7), "relu")):
        query = queries(loss, hidden=hidden, activation=activation, clip=50.0)[kind]
        whole = [total(rows, query) for rows in stored_in_every_way(X, y, loss.n_classes)]
        assert all(np.array_equal(whole[0], other) for other in whole)
        order = rng.permutation(n)
        how = RowMap(loss.n_classes, fit_intercept=False)
        assert np.array_equal(whole[0], total(ArrayRows(X[order], y[order], how), query))
        alone = [total(ArrayRows(X[i : i + 1], y[i : i + 1], how), query) for i in range(0, n, 20)]
        some = slice(0, n, 20)
        assert np.array_equal(sum(alone), total(ArrayRows(X[some], y[some], how), query))
        assert np.array_equal(whole[0], total(ArrayRows(X, y, how), pickle.loads(pickle.dumps(query))))


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_rows_with_few_entries_give_the_same_bits_in_every_storage(loss, kind, tmp_path):
    """Rows of zeros, huge entries, and rows whose squared norms are beyond 2^53 among them."""
    rng, n, d = np.random.default_rng(6), 300, 800
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-7, 3, (n, 1)) * (rng.random((n, d)) < 0.02)
    X[0], X[1, ::90], X[2:4] = 0, -1e300, rng.normal(size=(2, d)) * 1e3
    y = random_labels(loss.n_classes, n, rng)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")  # stays dense
    for hidden, activation in (((), "relu"), ((9, 7), "tanh")):
        query = queries(loss, hidden=hidden, activation=activation, clip=50.0, n_inputs=d)[kind]
        total_of_dense = total(ArrayRows(mapped, y, RowMap(loss.n_classes, fit_intercept=False)), query)
        assert total_of_dense.any()
        for rows in stored_in_every_way(X, y, loss.n_classes):
            assert all(part.load().sparse for part in rows._parts())
            assert np.array_equal(total(rows, query), total_of_dense)


@pytest.mark.parametrize("network", ["dense", "images"])
def test_gains_are_clipped_with_the_gradients_at_their_start(network):
    """Those of the gradient's query, bit for bit: the pass at the start of the line is that at the weights."""
    loss, rng = Softmax(3), np.random.default_rng(10)
    made = network_for(loss, n_inputs=36) if network == "dense" else of_images(loss)
    w, X, y = made.start(0), rng.normal(size=(50, 36)), rng.integers(3, size=50)
    query = NetworkGains(made, loss, w, rng.normal(size=w.shape), STEPS, clip=0.1)
    (chunk,) = (part.load() for part in ArrayRows(X, y, RowMap(3))._parts())
    ((_, signals),) = made.blocks(chunk)
    squared = sum(part.squared_norms for part in made.row_gradients(signals, y, made.on_grid(w), loss))
    start = next(query._line.passes(signals))
    assert np.array_equal(start.scores, made.scores(signals, made.on_grid(w)))
    assert np.array_equal(query._factors(start, y), 0.1 / np.maximum(np.sqrt(squared), 0.1))
    assert (squared > 0.01).any()


# ------------------------------------------------------------------------------------------------ right numbers


def floats(network, w, X, activation=np.tanh):
    """Return scores without any grid."""
    values = X
    for k, W in enumerate(network.split(w)):
        values = (activation(values) if k else values) @ W[:-1] + W[-1]
    return values[:, 0] if network.n_outputs == 1 else values


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_sums_are_those_of_arithmetic_without_grids(loss):
    """Within what signals of 2^-16 and weights of 2^-30 leave: 1e-3 of a loss per row at these sizes."""
    rng, n = np.random.default_rng(2), 300
    X, y = rng.normal(size=(n, 4)), random_labels(loss.n_classes, n, rng)
    network, rows = network_for(loss, (8, 5), "tanh"), ArrayRows(X, y, RowMap(loss.n_classes, fit_intercept=False))
    w, direction = network.start(1), rng.normal(size=network.n_weights) / 5
    here, there = (
        np.array([loss.value(floats(network, w - s * direction, X), y) for s in steps]) for steps in ([0.0], STEPS)
    )
    gains = NetworkGains(network, loss, w, direction, STEPS, clip=1e3)
    lengths = np.array(STEPS) * np.linalg.norm(direction)
    np.testing.assert_allclose(gains.lengths, lengths, rtol=1e-12)
    expected = ((here - there).sum(axis=1) / lengths) / n
    np.testing.assert_allclose(total(rows, gains) * gains.unit / n, expected, atol=2e-3)
    clipped = NetworkGains(network, loss, w, direction, STEPS, clip=0.5, per_unit=False)
    expected = (np.minimum(here, 0.5) - np.minimum(there, 0.5)).mean(axis=1)
    np.testing.assert_allclose(total(rows, clipped) * clipped.unit / n, expected, atol=1e-3)
    losses = NetworkLosses(network, loss, w, -direction, STEPS, clip=0.5)
    np.testing.assert_allclose(total(rows, losses) * losses.unit / n, np.minimum(there, 0.5).mean(axis=1), atol=1e-3)
    for query in (gains, losses):
        assert query.points.shape == (len(STEPS), network.n_weights)
        np.testing.assert_allclose(query.points, w - np.multiply.outer(STEPS, direction), atol=1e-7)
    # the last grids are so fine that the points evaluate as they are
    again = NetworkLosses(network, loss, gains.points[1], np.zeros_like(w), [0.0], clip=0.5)
    assert abs(total(rows, again)[0] - total(rows, losses)[1]) <= 2 * n


def test_without_hidden_layers_it_is_the_linear_model():
    rng, n = np.random.default_rng(3), 200
    X, y = rng.normal(size=(n, 4)), rng.choice([-1.0, 1.0], n)
    w, direction = rng.normal(size=(2, 5))
    network = network_for(Logistic(), ())
    ours, linear = ArrayRows(X, y, RowMap(fit_intercept=False)), ArrayRows(X, y)
    a = NetworkGains(network, Logistic(), w, direction, STEPS, clip=0.7, per_unit=False)
    b = ArmijoGains(Logistic(), w, direction, STEPS, clip=0.7, per_unit=False)
    np.testing.assert_allclose(total(ours, a) * a.unit, total(linear, b) * b.unit, atol=n * 1e-4)
    a = NetworkLosses(network, Logistic(), w, direction, STEPS, clip=0.7)
    b = LossesAlong(Logistic(), w, direction, STEPS, clip=0.7)
    np.testing.assert_allclose(total(ours, a) * a.unit, total(linear, b) * b.unit, atol=n * 1e-3)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_a_short_step_gains_what_the_clipped_gradients_say(loss):
    """Nearly all rows are clipped here: the slope along a direction is that of the sum of clipped gradients."""
    rng, n, clip = np.random.default_rng(4), 400, 0.3
    X, y = rng.normal(size=(n, 4)) * 3, random_labels(loss.n_classes, n, rng)
    objective = NetworkModel(lambda _: loss, Perceptron((8,), "tanh")).on(4, 3)
    rows, w = ArrayRows(X, y, RowMap(loss.n_classes, fit_intercept=False)), objective.start()
    query = objective.gradient(w, clip=clip)
    gradient = total(rows, query) * query.unit
    unclipped = total(rows, objective.gradient(w, clip=1e3)) * objective.gradient(w, clip=1e3).unit
    for direction in (gradient, rng.normal(size=gradient.shape)):
        direction = direction / np.linalg.norm(direction)
        gains = objective.gains(w, direction, [0.01], clip=clip)
        slope = total(rows, gains)[0] * gains.unit
        assert slope == pytest.approx(gradient @ direction, abs=0.01 * n * clip)
        assert abs(unclipped @ direction - slope) > 0.03 * n * clip  # so another slope would be seen


# ------------------------------------------------------------------------------------------------------ images


def of_images(loss):
    """Return a network of windows, which is pooled before it is activated, for images of 6 times 6 places."""
    first = Convolution((6, 6, 1), 3, 3)
    pooled = MaxPooling(first.outputs, 2)
    second = Convolution(pooled.outputs, 4, 2)
    return Network((first, pooled, second, Dense((4,), 5), Dense((5,), loss.n_classes or 1)))


@pytest.mark.parametrize("kind", ["per unit", "clipped", "losses"])
def test_networks_of_images(kind):
    loss, rng, n = Softmax(3), np.random.default_rng(8), 300
    network = of_images(loss)
    w, direction = network.start(0), rng.normal(size=network.n_weights)
    query = {
        "per unit": NetworkGains(network, loss, w, direction, STEPS, clip=0.1),
        "clipped": NetworkGains(network, loss, w, direction, STEPS, clip=0.1, per_unit=False),
        "losses": NetworkLosses(network, loss, w, -direction, STEPS, clip=0.1),
    }[kind]
    check_query(query, n_features=36, n_classes=3, fit_intercept=False, trials=10)
    X, y = heavy_tailed(n, 36, rng), rng.integers(3, size=n)
    whole, *others = (total(rows, query) for rows in stored_in_every_way(X, y, 3))
    assert all(np.array_equal(whole, other) for other in others)


@pytest.mark.parametrize(
    "network", [network_for(Softmax(3), n_inputs=36), of_images(Softmax(3))], ids=["dense", "images"]
)
def test_losses_are_those_of_the_network_at_every_point(network):
    """Within the step of the grid of losses for nearly every row: points are off their grids by 2^-30 at most."""
    loss, rng, n = Softmax(3), np.random.default_rng(9), 100
    X, y = rng.normal(size=(n, 36)), rng.integers(3, size=n)
    w, direction = network.start(0), rng.normal(size=network.n_weights)
    query = NetworkLosses(network, loss, w, direction, [0.0, 0.03, 0.5], clip=4.0)
    rows = ArrayRows(X, y, RowMap(3, fit_intercept=False))
    (chunk,) = (part.load() for part in rows._parts())
    for point, found in zip(query.points, total(rows, query), strict=True):
        losses = loss.value(network.scores(chunk, network.on_grid(point)), y)
        assert abs(np.floor(np.minimum(losses, 4.0) / query.unit).sum() - found) <= 5


# --------------------------------------------------------------------------------------------------- refusals


def test_refusals():
    network = network_for(Logistic())
    w = np.ones(network.n_weights)
    with pytest.raises(ValueError, match="positive"):
        NetworkGains(network, Logistic(), w, w, [1.0, 0.0], clip=1.0)
    with pytest.raises(ValueError, match="direction must not be zero"):
        NetworkGains(network, Logistic(), w, 0 * w, [1.0], clip=1.0)
    with pytest.raises(ValueError, match="1 outputs; this network has 3"):
        NetworkGains(network_for(Softmax(3)), Logistic(), w, w, [1.0], clip=1.0)
    with pytest.raises(ValueError, match="3 outputs; this network has 1"):
        NetworkLosses(network, Softmax(3), w, w, [1.0], clip=1.0)
    with pytest.raises(ValueError, match="shape"):
        NetworkLosses(network, Logistic(), w[1:], w[1:], [1.0], clip=1.0)
    with pytest.raises(ValueError, match="multiples"):
        NetworkLosses(network, Logistic(), w, w, [], clip=1.0)
    with pytest.raises(ValueError, match="clip"):
        NetworkLosses(network, Logistic(), w, w, [1.0], clip=0.0)
