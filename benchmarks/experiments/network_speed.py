"""How long a pass over rows takes for a network, in multiples of its bare products, and a step beside Opacus.

The floor of a gradient is every matrix product that backpropagation needs, in float64: forward, backward to the inputs
of all layers but the first, and by weights. For a convolution it also copies the windows of images (im2col) once, and
its products by weights are one per row: each row's gradient is clipped. Activations, losses, sums of columns of a
convolution's slopes, norms and sums of clipped gradients are not in it. The floor of gains is the forward products, two
of the first layer, whose sums are linear in its weights, and one of each later layer for every point; and at the start
the backward ones, and those of each row in convolutions, for the norms of gradients that clip gains. Products are made
for as many rows at a time as are fastest. Where rows are in CSR, those of the first layer are the faster of dense and
sparse ones, and the dense ones find dense rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import threadpool_limits

from .. import network_peers
from ..experiment import write
from ..inside import (
    ArrayRows,
    Convolution,
    Dense,
    Gaussian,
    Logistic,
    Loss,
    MaxPooling,
    Network,
    NetworkGains,
    NetworkGradient,
    RowMap,
    Softmax,
    SystemBits,
)
from ..table import Rows, Table, markdown
from ..timing import in_turn, times_as_long

CNN = "CNN"  # 28 x 28 x 1, 6 of 5 x 5, pool 2, 16 of 5 x 5, pool 2, 256, 128, 10: Chen & Lee (2020), section 5.7
DENSE, CSR = "dense", "CSR"
GRADIENT, GAINS = "gradient", "gains"
STEPS = 8  # of a line search, in one query
DENSITY, WORDS = 0.19, 100  # of rows in CSR: of MNIST, and in a row of text, which is what has more columns
BLOCKS = (16, 32, 64, 512)  # rows at a time, of bare products
ROUNDS, ENOUGH = (2, 15), 2.0  # at least and at most; seconds
FEW = 2_000  # rows on which the fastest bare products are found

CASES = (
    *(("108-100-1", n, storage) for n in (500, 5_000, 60_000) for storage in (DENSE, CSR)),
    *(("784-1000-10", n, DENSE) for n in (500, 5_000, 60_000)),
    ("784-1000-10", 5_000, CSR),
    *(("784-256-256-10", n, DENSE) for n in (500, 5_000, 60_000)),
    *((CNN, n, DENSE) for n in (500, 5_000, 60_000)),
    (CNN, 5_000, CSR),
    *(("4096-100-1", n, CSR) for n in (500, 5_000)),
)
SEARCHED = (("108-100-1", 5_000, DENSE), ("784-1000-10", 5_000, DENSE), ("784-256-256-10", 5_000, DENSE),
            (CNN, 5_000, DENSE))  # fmt: skip
BATCHES = (("784-1000-10", 300), ("784-1000-10", 2_048), (CNN, 300), (CNN, 2_048))


def network_of(name: str) -> Network:
    """Return a network by its sizes, or the paper's convolutional one."""
    if name != CNN:
        first, *hidden, last = map(int, name.split("-"))
        return Network.dense(first, hidden, last)
    one = Convolution((28, 28, 1), 6, 5)
    pooled = MaxPooling(one.outputs, 2)
    two = Convolution(pooled.outputs, 16, 5)
    behind = MaxPooling(two.outputs, 2)
    return Network((one, pooled, two, behind, Dense((256,), 256), Dense((256,), 128), Dense((128,), 10)))


def rows_of(network: Network, n: int, storage: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, in CSR with many zeros, and their classes."""
    rng = np.random.default_rng(0)
    X = rng.random((n, network.n_inputs))
    if storage == CSR:
        X *= rng.random(X.shape) < (WORDS / network.n_inputs if network.n_inputs > 1_000 else DENSITY)
    y = rng.integers(0, max(2, network.n_outputs), n)
    return X, y if network.n_outputs > 1 else 2.0 * y - 1


def loss_of(network: Network) -> Loss:
    return Softmax(network.n_outputs) if network.n_outputs > 1 else Logistic()


def put(X, y: np.ndarray, network: Network) -> ArrayRows:
    """Return rows as a fit with batches keeps them: those with many zeros as CSR, however they came."""
    return ArrayRows(X, y, RowMap(n_classes=network.n_outputs if network.n_outputs > 1 else None, row_major=True))


class Products:
    """The bare products of a network, ``size`` rows at a time, with results in the same memory each time."""

    def __init__(self, network: Network, size: int, *, first: bool = True) -> None:
        rng = np.random.default_rng(1)
        self.size, self.stages, self.with_first = size, network.stages, first
        self.weights = [rng.normal(size=stage.layer.weight_shape)[:-1] for stage in self.stages]
        self.inputs = [rng.normal(size=(size, *stage.layer.inputs)) for stage in self.stages]
        self.slopes = [rng.normal(size=(size, *stage.layer.outputs)) for stage in self.stages]
        self.memory: dict[tuple, np.ndarray] = {}

    def gradient(self, x: np.ndarray) -> None:
        """Make the products of one gradient of some rows; those of the first layer only if they are wanted."""
        for i, stage in enumerate(self.stages):
            if i or self.with_first:
                part = self.inputs[i][: len(x)] if i else x
                (self._dense if isinstance(stage.layer, Dense) else self._convolution)(i, part)

    def gains(self, x: np.ndarray, points: int) -> None:
        """Make the products of the scores of some rows at points of a line, and of gradients' norms at the first."""
        for i, stage in enumerate(self.stages):
            part = self.inputs[i][: len(x)] if i else x
            for point in range(points if i else 2):
                dense = isinstance(stage.layer, Dense)
                if i or not point:  # the inputs of the first layer are the same at all points
                    seen = part if dense else self._windows(i, part)
                self._product(seen, self.weights[i], (i, "forward"))
                if not point:
                    self._backward(i, None if dense else seen, len(x))

    def _dense(self, i: int, x: np.ndarray) -> None:
        self._product(x, self.weights[i], (i, "forward"))
        self._product(x.T, self.slopes[i][: len(x)], (i, "weights"))
        self._backward(i, None, len(x))

    def _convolution(self, i: int, x: np.ndarray) -> None:
        windows = self._windows(i, x)
        self._product(windows, self.weights[i], (i, "forward"))
        self._backward(i, windows, len(x))

    def _backward(self, i: int, windows: np.ndarray | None, n: int) -> None:
        """Make the gradient of each row by weights, given windows, and the product for the layer before."""
        slopes = self.slopes[i][:n]
        if windows is not None:
            slopes = slopes.reshape(n, windows.shape[1], -1)
            self._product(windows.transpose(0, 2, 1), slopes, (i, "weights"))
        if i:
            self._product(slopes.reshape(-1, slopes.shape[-1]), self.weights[i].T, (i, "back"))

    def _windows(self, i: int, x: np.ndarray) -> np.ndarray:
        """Return the windows of images, in the order in memory that is copied faster."""
        layer = self.stages[i].layer
        x = x.reshape(len(x), *layer.inputs)
        k, (down, across, _), channels = layer.size, layer.outputs, layer.inputs[2]
        seen = sliding_window_view(x, (k, k), axis=(1, 2))
        if across > k * channels:
            found = self._kept((i, "windows"), (len(x), k, k, channels, down, across))
            np.copyto(found, seen.transpose(0, 4, 5, 3, 1, 2))
            return found.reshape(len(x), -1, down * across).transpose(0, 2, 1)
        found = self._kept((i, "windows"), (len(x), down, across, k, k, channels))
        np.copyto(found, seen.transpose(0, 1, 2, 4, 5, 3))
        return found.reshape(len(x), down * across, -1)

    def _product(self, a: np.ndarray, b: np.ndarray, name: tuple) -> None:
        shape = (*a.shape[:-1], b.shape[-1])
        np.matmul(a, b, out=self._kept(name, shape))

    def _kept(self, name: tuple, shape: tuple[int, ...]) -> np.ndarray:
        if (*name, shape) not in self.memory:
            self.memory[*name, shape] = np.empty(shape)
        return self.memory[*name, shape]


def floors(network: Network, X: np.ndarray, work: str, storage: str) -> Iterator[Callable[[], object]]:
    """Yield the ways to make the bare products of a pass over the rows."""
    for size in BLOCKS:
        bare = Products(network, size)
        blocks = [X[a : a + size] for a in range(0, len(X), size)]
        if work == GAINS:
            yield lambda bare=bare, blocks=blocks: [bare.gains(x, STEPS + 1) for x in blocks]
            continue
        yield lambda bare=bare, blocks=blocks: [bare.gradient(x) for x in blocks]
        if storage == CSR and isinstance(network.layers[0], Dense):
            later, parts = Products(network, size, first=False), [sp.csr_matrix(x) for x in blocks]
            yield lambda bare=later, parts=parts: [_sparse(bare, x) for x in parts]


def _sparse(bare: Products, x: sp.csr_matrix) -> None:
    _ = x @ bare.weights[0], x.T @ bare.slopes[0][: x.shape[0]]
    bare.gradient(x[:, :1].toarray())


def processor(works: list[Callable[[], object]], rounds: int) -> np.ndarray:
    return in_turn(works, rounds, time.process_time)


def pass_of(network: Network, rows: ArrayRows, work: str) -> Callable[[], object]:
    """Return a pass over rows, as a solver makes it."""
    w, loss = network.start(0), loss_of(network)
    if work == GRADIENT:
        return lambda: rows.total(NetworkGradient(network, loss, w, clip=1.0))
    direction = network.start(1)
    lengths = 0.5 ** np.arange(STEPS)
    return lambda: rows.total(NetworkGains(network, loss, w, direction, lengths, clip=1.0))


def measure(folder: Path | None, name: str, n: int, storage: str, work: str) -> list[object]:
    """Return microseconds of processor time per row of a pass and of its floor, their ratio, and the rounds."""
    network = network_of(name)
    X, y = rows_of(network, n, storage)
    with threadpool_limits(1):
        tested = pass_of(network, put(X, y, network), work)
        few = X[:FEW]
        ways = np.median(processor([*floors(network, few, work, storage)], 3), axis=0)
        best, rounds = int(ways.argmin()), ENOUGH * len(few) / (3 * n * ways.min())
        rounds = int(np.clip(rounds, *ROUNDS))
        floor_of = [*floors(network, X, work, storage)][best]
        times = processor([tested, floor_of], rounds)
    took, floor = times.T
    micro = (f"{1e6 * np.median(t) / n:.2f}" for t in (took, floor))
    return [*micro, f"{times_as_long(took, floor):.2f}", rounds]


@cache
def batch_of(name: str, n: int) -> tuple[Network, np.ndarray, np.ndarray]:
    network = network_of(name)
    return network, *rows_of(network, n, DENSE)


def measure_peer(folder: Path | None, name: str, n: int, peer: str) -> list[object] | None:
    """Return milliseconds of one step of both and of ours without noise; ratios and versions.

    Without the peer there is no row.
    """
    network, X, y = batch_of(name, n)
    theirs = network_peers.step(peer, network, X, y)
    if theirs is None:
        return None
    rows, w = put(X, y, network), network.start(0)
    loss = loss_of(network)
    mechanism, bits = Gaussian(1.0), SystemBits()

    def summed() -> tuple[NetworkGradient, np.ndarray]:
        query = NetworkGradient(network, loss, w, clip=1.0)
        return query, rows.total(query)

    def ours() -> np.ndarray:
        query, total = summed()
        return w - (query.unit / n) * mechanism(total, query.sensitivity("zero-out"), bits)

    with threadpool_limits(1):
        times = processor([theirs, ours, summed], 5)
    them, us, without = times.T
    ratios = (f"{times_as_long(us, them):.2f}", f"{times_as_long(without, them):.2f}")
    return [*(f"{1e3 * t:.1f}" for t in np.median(times, axis=0)), *ratios, network_peers.versions()]


TABLE = Table(
    "network_speed",
    ("network", "rows", "storage", "work"),
    ("pass, us per row", "floor, us per row", "ratio", "rounds"),
    measure,
)
PEERS = Table(
    "network_speed_peers",
    ("network", "batch", "peer"),
    ("peer, ms", "dpsk, ms", "without noise, ms", "dpsk / peer", "without noise / peer", "versions"),
    measure_peer,
)


def report() -> None:
    rows, peers = TABLE.rows(), PEERS.rows()
    beside = peers.markdown() if peers else "Opacus was not installed."
    write("network_speed", table=ordered(rows).markdown(), peers=beside, worst=worst(rows), machine=TABLE.machine())


def ordered(rows: Rows) -> Rows:
    places = {tuple(map(str, key)): i for i, key in enumerate(keys_of_passes())}
    return Rows(sorted(rows, key=lambda row: places.get(tuple(row[field] for field in TABLE.key), len(places))))


def worst(rows: Rows) -> str:
    """Return the largest ratio of each kind of pass."""
    lines = []
    for (work,), group in rows.by("work").items():
        row = max(group, key=lambda row: float(row["ratio"]))
        lines.append([work, row["ratio"], row["network"], row["rows"], row["storage"]])
    return markdown(["work", "largest ratio", "network", "rows", "storage"], lines)


def keys_of_passes() -> list[tuple]:
    return [*((*case, GRADIENT) for case in CASES), *((*case, GAINS) for case in SEARCHED)]


def needs(repeats: None) -> list[tuple[Table, list[tuple]]]:
    peers = [
        (name, n, peer)
        for name, n in BATCHES
        for peer in network_peers.NAMES
        if network_peers.fits(network_of(name), n, peer)
    ]
    return [(TABLE, keys_of_passes()), (PEERS, peers)]
