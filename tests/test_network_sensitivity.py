"""Sums over rows of a network against sums of its rows one by one, in Python's integers, and against slow references.

Rows and weights are random and adversarial. What a row adds is never longer than the clip, comes close to it at the
worst, and has the same bits in every batch, order, storage and number of threads.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config

import dpsk.data.rows as rows_module
from dpsk import DPMLPClassifier
from dpsk.data import ArrayRows, Columns, RowMap, StoredRows
from dpsk.data.weights import ONE as WHOLE
from dpsk.data.weights import Weights
from dpsk.losses import Hinge, HuberHinge, Logistic, Loss, OneVsRest, Softmax, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.networks import Convolution, Dense, MaxPooling, Network
from dpsk.networks.signals import MOST_BLOCK_ROWS, ONE, REACH, SIGNAL_STEP, SLOPE_STEP
from dpsk.queries import NetworkGains, NetworkGradient, NetworkLosses

CLIP = 0.3
IMAGE = (Convolution((6, 6, 1), 3, 3), MaxPooling((4, 4, 3), 2), Dense((12,), 5), Dense((5,), 3))
TWICE = (
    Convolution((8, 7, 2), 2, 2), MaxPooling((7, 6, 2), 2), Convolution((3, 3, 2), 3, 2), Dense((12,), 1),
)  # fmt: skip
NETWORKS = {
    "no hidden layer": (Network.dense(4, (), 3), Softmax(3)),
    "relu": (Network.dense(4, (6,), 3), Softmax(3)),
    "relu, wide": (Network.dense(3, (300,), 2), OneVsRest(SquaredHinge(), 2)),
    "relu, wider and wider": (Network.dense(3, (2, 70), 3), Softmax(3)),
    "tanh, 2 layers": (Network.dense(4, (5, 3), 1, "tanh"), Logistic()),
    "hard tanh, 3 layers": (Network.dense(5, (4, 3, 4), 3, "hard-tanh"), OneVsRest(Logistic(), 3)),
    "identity": (Network.dense(4, (3,), 1, "identity"), Hinge()),
    "convolution": (Network(IMAGE), Softmax(3)),
    "convolutions, tanh": (Network(TWICE, "tanh"), HuberHinge()),
}


@dataclass(frozen=True)
class Mad(Loss):
    """Derivatives and values that no bound and no rule covers: infinite, NaN, huge, tiny."""

    n_classes: int = 3
    lipschitz = smoothness = math.inf

    def margins(self, scores, y):
        return scores

    def of_margins(self, margins):
        return self._pick(margins)[:, 0]

    def derivative(self, scores, y):
        return self._pick(scores)

    def second_derivative(self, scores, y):
        raise NotImplementedError

    def _pick(self, scores):
        values = np.array([np.nan, np.inf, -np.inf, 1e300, -5e-324, 1.0, -0.0])
        with np.errstate(all="ignore"):
            return values[(np.abs(scores) * 64).astype(np.int64) % 7]


def weights_of(network, kind, rng):
    """Return flat weights: as at the start, of other sizes, or at the edge of their grid."""
    w = network.start(1)
    if kind == "adversarial":
        signs = [np.where(rng.random(W.shape) < 0.5, -1.0, 1.0) for W in network.split(w)]
        full = [S / stage.layer.largest_sums(S) for S, stage in zip(signs, network.stages, strict=True)]
        return network.joined(full) * (1 + 2.0**-31)
    if kind == "biases":
        for W in network.split(w):
            W[-1] += 0.3
    return {"start": w, "biases": w, "huge": w * 1e80, "tiny": w * 1e-80, "zero": 0 * w}[kind]


def rows_for(network, w, rng, n=24):
    """Return rows that may be the worst: random ones of all sizes, one pixel, zeros, huge entries, aligned signs."""
    d = network.n_inputs
    X = rng.standard_t(1, (n, d)) * 10.0 ** rng.uniform(-8, 3, (n, 1))
    X[0], X[1], X[2] = 0, 1e300, -0.0
    X[3] = 64 * np.where(np.resize(w, d) < 0, -1, 1)
    X[4:8] = 0
    X[np.arange(4, 8), rng.integers(d, size=4)] = [64.0, -1e300, 2.0**-17, 5e-324]
    X[8] = rng.choice([-64.0, 64.0], d)
    return X


def labels_for(loss, n, rng):
    return rng.choice([-1.0, 1.0], n) if loss.n_classes is None else rng.integers(loss.n_classes, size=n)


def total(query, X, y, **storage):
    how = RowMap(query.loss.n_classes, fit_intercept=False)
    with np.errstate(all="ignore"):
        return query.over(ArrayRows(X, y, how, **storage), SeededBits(0))


def length(steps):
    """Return the square of the l2 norm of integers."""
    return sum(int(step) ** 2 for step in np.ravel(steps))


@pytest.mark.parametrize("kind", ["start", "biases", "huge", "tiny", "zero", "adversarial"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_row_moves_the_sum_by_more_than_the_clip(name, kind):
    network, loss = NETWORKS[name]
    rng = np.random.default_rng(len(name))
    w = weights_of(network, kind, rng)
    X = rows_for(network, w, rng)
    y = labels_for(loss, len(X), rng)
    mad = [(Mad(3), CLIP)] if loss.n_classes == 3 else []
    for some, clip in [(loss, CLIP), (loss, 2.0**60), *mad]:
        query = NetworkGradient(network, some, w, clip=clip)
        whole, largest = total(query, X, y), 0
        for i in range(len(X)):
            others = np.arange(len(X)) != i
            squared = length(whole - total(query, X[others], y[others]))
            assert squared * Fraction(query.unit) ** 2 <= Fraction(clip) ** 2
            largest = max(largest, squared)
        if (some, clip) == (loss, CLIP) and kind in ("start", "biases"):
            assert math.sqrt(largest) * query.unit > 0.99 * clip


@pytest.mark.parametrize("name", ["relu", "tanh, 2 layers", "convolution"])
def test_no_row_that_a_search_for_the_worst_finds_moves_the_sum_by_more(name):
    """Rows climb: a change is kept where the part of the row in the sum gets longer."""
    network, loss = NETWORKS[name]
    rng = np.random.default_rng(2)
    query = NetworkGradient(network, loss, weights_of(network, "biases", rng), clip=CLIP)
    most = Fraction(CLIP) ** 2 / Fraction(query.unit) ** 2
    best, x = 0, rng.normal(size=(1, network.n_inputs))
    y = labels_for(loss, 1, rng)
    for _ in range(300):
        there = x + rng.normal(size=x.shape) * 10.0 ** rng.uniform(-4, 1) * (rng.random(x.shape) < 0.3)
        squared = length(total(query, there, y))
        assert squared <= most
        if squared > best:
            best, x = squared, there
    assert best > most * Fraction(999, 1000)


@pytest.mark.parametrize("kind", ["start", "adversarial"])
@pytest.mark.parametrize("n", [MOST_BLOCK_ROWS, 5 * MOST_BLOCK_ROWS + 1])
def test_sums_of_many_extreme_rows_are_exact(n, kind):
    """Equal rows whose parts are as long as they may be, in one entry, fill every bound of a block."""
    rng = np.random.default_rng(0)
    for network, loss in (NETWORKS["no hidden layer"], NETWORKS["identity"], NETWORKS["convolution"]):
        w = weights_of(network, kind, rng)
        x = np.zeros((1, network.n_inputs))
        for at, value in ((slice(0, 1), 64.0), (slice(0, 1), -1e300), (slice(None), 64.0), (slice(None), 2.0**-16)):
            x[:, at] = value
            y = labels_for(loss, 1, rng)
            for clip in (1.0, 1.0 + 2.0**-40, 2.0**30):
                query = NetworkGradient(network, loss, w, clip=clip)
                one = total(query, x, y).astype(object)
                many = total(query, np.repeat(x, n, axis=0), np.repeat(y, n))
                assert (many == n * one).all()
            steps = rng.integers(0, WHOLE + 1, n).astype(np.int32)
            rows = ArrayRows(np.repeat(x, n, axis=0), np.repeat(y, n), RowMap(loss.n_classes), Weights(steps))
            high, low = query.over(rows, SeededBits(0)).astype(object)
            assert (high * WHOLE + low == int(steps.astype(np.int64).sum()) * one).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_more_rows_than_floats_hold_are_exact(weighted):
    """Parts of 2^38 in one entry: so many rows are beyond 2^53, and an odd number of odd steps shows each rounding."""
    network, loss, n = Network.dense(1, (), 1), Hinge(), 2**15 - 1 if weighted else 2**17 - 1
    x, y = np.array([[1 - 2.0**-16]]), np.ones(1)
    query = NetworkGradient(network, loss, np.zeros(2), clip=1.0 - 2.0**-19)
    one = total(query, x, y).astype(object)
    assert abs(one[0]) > 2**37
    assert one[0] % 2 == 1
    steps = Weights(np.full(n, WHOLE - 1, dtype=np.int32)) if weighted else None
    rows = ArrayRows(np.repeat(x, n, axis=0), np.ones(n), RowMap(), steps, chunk_rows=n)
    sums = query.over(rows, SeededBits(0)).astype(object)
    if weighted:
        assert (sums[0] * WHOLE + sums[1] == n * (WHOLE - 1) * one).all()
    else:
        assert (sums == n * one).all()


def storages(X, y, how, folder):
    """Yield rows of the same entries that lie elsewhere and otherwise."""
    yield ArrayRows(X, y, how, chunk_rows=513)
    yield ArrayRows(np.asfortranarray(X), y, RowMap(how.n_classes, row_major=True, columns=how.columns))
    yield ArrayRows(sp.csr_matrix(X), y, how)
    yield ArrayRows(sp.csr_matrix(X), y, how, chunk_rows=19)
    np.save(folder / "X.npy", X)
    yield ArrayRows(np.load(folder / "X.npy", mmap_mode="r"), y, how)
    for on_disk in (False, True):
        yield StoredRows([X[:101], X[101:]], y, how, on_disk=on_disk)
    order = np.random.default_rng(0).permutation(len(y))
    yield ArrayRows(X[order], y[order], how)
    yield ArrayRows(np.repeat(X, 2, axis=0)[::2], y, how).subset(np.arange(len(y)))


def queries_of(network, loss, w):
    step = 0.01 * np.random.default_rng(0).normal(size=w.shape)
    yield NetworkGradient(network, loss, w, clip=CLIP)
    yield NetworkGains(network, loss, w, step, [1.0, 0.5], clip=CLIP)
    yield NetworkGains(network, loss, w, step, [1.0, 0.5], clip=CLIP, per_unit=False)
    yield NetworkLosses(network, loss, w, step, [0.0, 1.0, 2.0], clip=CLIP)


@pytest.mark.parametrize(("columns", "share"), [(False, 0.5), (True, 0.5), (False, 0.97)])
@pytest.mark.parametrize("name", ["relu", "relu, wide", "tanh, 2 layers", "convolution", "convolutions, tanh"])
def test_sums_have_the_same_bits_in_any_storage_batch_order_and_number_of_threads(
    name, columns, share, tmp_path, monkeypatch
):
    network, loss = NETWORKS[name]
    rng = np.random.default_rng(5)
    w, d = weights_of(network, "biases", rng), network.n_inputs
    X = np.concatenate([rows_for(network, w, rng) for _ in range(22)])
    X[rng.random(X.shape) < share] = 0  # of so many zeros products are sparse, where columns are not centred
    y = labels_for(loss, len(X), rng)
    centred = Columns.within(-2.0, 3.0, d).standardised(np.ones(d), np.linspace(-0.4, 0.3, d)) if columns else None
    how = RowMap(loss.n_classes, columns=centred)
    expected = [query.over(ArrayRows(X, y, how), SeededBits(0)) for query in queries_of(network, loss, w)]
    for rows in storages(X, y, how, tmp_path):
        for query, sums in zip(queries_of(network, loss, w), expected, strict=True):
            assert np.array_equal(query.over(rows, SeededBits(0)), sums)
    one_by_one = ArrayRows(X[:30], y[:30], how, chunk_rows=1)
    for query in queries_of(network, loss, w):
        together = query.over(ArrayRows(X, y, how).subset(np.arange(30)), SeededBits(0))
        assert np.array_equal(query.over(one_by_one, SeededBits(0)), together)
    monkeypatch.setattr(rows_module, "_WORTH_THREADS", 1)
    rows = ArrayRows(X, y, how, chunk_rows=67)
    for query, sums in zip(queries_of(network, loss, w), expected, strict=True):
        with parallel_config("threading", n_jobs=4):
            assert np.array_equal(query.over(rows, SeededBits(0)), sums)
        parts = [query.over(rows.subset(part), SeededBits(0)) for part in np.array_split(rng.permutation(len(y)), 3)]
        assert np.array_equal(sum(parts), sums)


def slow_gradient(network, loss, w, x, y):
    """Return the gradient of one row before clipping and the signals of each layer, by plain loops over weights.

    Signals and slopes are rounded to their grids, as the library promises; all other numbers are Python's.
    """
    a, inputs, kept = [round(float(v) * ONE) for v in x], [], []
    a = [max(-REACH, min(REACH, v)) for v in a]
    matrices = network.split(w)
    for number, (stage, W) in enumerate(zip(network.stages, matrices, strict=True)):
        if number:
            a = [activated(network.activation, v) for v in a]
        inputs.append(a)
        z = [0.0] * math.prod(stage.layer.outputs)
        for out, place, row in connections(stage.layer):
            z[out] += (a[place] if place is not None else ONE) * float(W[row, out % W.shape[1]])
        taken = list(range(len(z)))
        for pool in stage.behind:
            taken = [first_largest(z, window) for window in windows_of(pool)]
        kept.append(taken)
        a = [z[k] for k in taken]
    scores = np.array([a]) * SIGNAL_STEP
    slopes = loss.derivative(scores if network.n_outputs > 1 else scores[:, 0], np.array([y])).ravel() / SLOPE_STEP
    slopes = [rounded(v) for v in slopes]
    gradients = []
    for stage, W, a, taken in reversed(list(zip(network.stages, matrices, inputs, kept, strict=True))):
        of_sums = [0] * math.prod(stage.layer.outputs)
        for k, slope in zip(taken, slopes, strict=True):
            of_sums[k] += slope
        gradient, back = np.zeros(W.shape, dtype=object), [0.0] * len(a)
        for out, place, row in connections(stage.layer):
            gradient[row, out % W.shape[1]] += (a[place] if place is not None else int(ONE)) * of_sums[out]
            if place is not None:
                back[place] += of_sums[out] * float(W[row, out % W.shape[1]])
        slopes = [rounded(b * steepness(network.activation, v)) for b, v in zip(back, a, strict=True)]
        gradients.append(gradient)
    return gradients[::-1], inputs


def rounded(slope):
    return round(max(-(2**22), min(2**22, slope)))


def activated(name, v):
    low, high = {"relu": (0, REACH), "hard-tanh": (-ONE, ONE)}.get(name, (-REACH, REACH))
    if name == "tanh":
        return round(math.tanh(max(low, min(high, v)) / ONE) * ONE)
    return round(max(low, min(high, v)))


def steepness(name, v):
    if name == "tanh":
        return 1 - (v / ONE) ** 2
    low, high = {"relu": (0, REACH), "hard-tanh": (-ONE, ONE)}.get(name, (-REACH, REACH))
    return low < v < high


def connections(layer):
    """Yield for every product the place of the output, that of the input (None: the constant), and the weights' row."""
    if isinstance(layer, Dense):
        for out in range(layer.n_outputs):
            yield from ((out, j, j) for j in range(layer.inputs[0]))
            yield out, None, layer.inputs[0]
        return
    (height, width, depth), k = layer.inputs, layer.size
    down, across, channels = layer.outputs
    for i, j, c in np.ndindex(down, across, channels):
        out = (i * across + j) * channels + c
        for a, b, e in np.ndindex(k, k, depth):
            yield out, ((i + a) * width + j + b) * depth + e, (a * k + b) * depth + e
        yield out, None, k * k * depth
    assert height >= down


def windows_of(pool):
    """Yield the places of each window of a pooling layer in the order in which ties are decided."""
    (_, width, channels), k = pool.inputs, pool.size
    for i, j, c in np.ndindex(*pool.outputs):
        yield [((i * k + a) * width + j * k + b) * channels + c for b in range(k) for a in range(k)]


def first_largest(values, window):
    return max(window, key=lambda place: values[place])  # the first one of several


@pytest.mark.parametrize("kind", ["start", "biases", "adversarial"])
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "relu, wide"])
def test_the_part_of_a_row_is_its_clipped_gradient_by_plain_loops(name, kind):
    """Each entry lies between 0 and that of the clipped gradient, less than a rounding of a residual away from it."""
    network, loss = NETWORKS[name]
    rng = np.random.default_rng(11)
    w = network.on_grid(weights_of(network, kind, rng))
    X = np.concatenate([rng.normal(size=(3, network.n_inputs)), rows_for(network, w, rng)[[0, 1, 3, 4, 6]]])
    y, step = labels_for(loss, len(X), rng), SIGNAL_STEP * SLOPE_STEP
    for clip in (CLIP, 2.0**10):
        query = NetworkGradient(network, loss, w, clip=clip)
        placed = ArrayRows(X, y, RowMap(loss.n_classes, fit_intercept=False))
        (chunk,) = placed._parts()
        entries = chunk.dense(slice(None)) * chunk.scale[:, None]
        for i in range(len(X)):
            slow, inputs = slow_gradient(network, loss, w, entries[i], y[i])
            norm = math.sqrt(sum(length(part) for part in slow)) * step
            share = min(1.0, clip * (1 - 2.0**-30) / norm) if norm else 1.0
            found = network.split(total(query, X[i : i + 1], y[i : i + 1]))
            for stage, part, true, a in zip(network.stages, found, slow, inputs, strict=True):
                # a residual is rounded, and times a signal; of a convolution the gradient itself is rounded
                rounding = np.abs([*a, ONE])[:, None] if isinstance(stage.layer, Dense) else 1.0
                exact = (true * step * share / query.unit).astype(np.float64)
                off = np.abs(exact) - np.abs(part)
                slack = 1e-9 * np.abs(exact) + 1e-6
                assert (np.sign(part) * np.sign(exact) >= 0).all()
                assert (off >= -slack).all()
                assert (off <= rounding + slack).all()


@pytest.mark.parametrize("name", ["no hidden layer", "tanh, 2 layers", "identity", "relu", "convolution"])
def test_gradients_are_differences_of_the_loss_without_any_grid(name):
    network, loss = NETWORKS[name]
    rng = np.random.default_rng(3)
    w = network.on_grid(weights_of(network, "biases", rng) * 0.7)
    X, h = rng.normal(size=(20, network.n_inputs)), 1e-5
    y = labels_for(loss, len(X), rng)
    query = NetworkGradient(network, loss, w, clip=2.0**10)
    gradient = total(query, X, y) * query.unit
    change = np.array([
        loss.value(plain_scores(network, w + h * e, X), y).sum()
        - loss.value(plain_scores(network, w - h * e, X), y).sum()
        for e in np.eye(len(w))
    ]) / (2 * h)  # fmt: skip
    assert np.linalg.norm(change - gradient) < 2e-3 * np.linalg.norm(gradient)


def plain_scores(network, w, X):
    """Return the scores in floats without grids, by products with whole matrices."""
    for number, (stage, W) in enumerate(zip(network.stages, network.split(w), strict=True)):
        if number:
            X = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}.get(network.activation, lambda z: z)(X)
        M = np.zeros((math.prod(stage.layer.inputs) + 1, math.prod(stage.layer.outputs)))
        for out, place, row in connections(stage.layer):
            M[-1 if place is None else place, out] += W[row, out % W.shape[1]]
        X = X @ M[:-1] + M[-1]
        for pool in stage.behind:
            X = np.stack([X[:, window].max(axis=1) for window in windows_of(pool)], axis=1)
    return X if network.n_outputs > 1 else X[:, 0]


def test_too_many_rows_are_refused_before_anything_is_paid(monkeypatch):
    """Their number is public, that of the rows in a batch is not: a batch that is refused would tell."""
    monkeypatch.setattr("dpsk.objectives.network_objective.MOST_ROWS", 7)
    model = DPMLPClassifier(hidden_layer_sizes=(2,), steps=1, sampling_rate=0.1)
    with pytest.raises(ValueError, match="8 rows are too many for a network: at most 7"):
        model.fit(np.ones((8, 2)), np.arange(8) % 2)
    assert not hasattr(model, "privacy_spent_")
