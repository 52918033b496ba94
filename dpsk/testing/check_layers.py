"""Conformance of a layer of networks, and of a whole network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import scipy.sparse as sp

from ..data import ArrayRows, RowMap
from ..data.weights import ONE as WHOLE
from ..losses import Loss
from ..mechanisms.randomness import SeededBits
from ..networks import Layer, Network, Unweighted, Weighted
from ..networks.signals import ONE, REACH, SIGNAL_STEP, SLOPE_REACH, SLOPE_STEP
from ..queries import NetworkGradient
from .check_queries import check_query, check_weights
from .common import Array, random_labels, require

_SLACK = Fraction(1, 2**31)  # of a squared norm: clips are made smaller by 2^-30 for all roundings together
_PLACE = (
    "what a layer returns for a row must have the same bits in every batch: use sums of integers below 2^53, and "
    "elementwise operations in one order"
)


def check_layer(layer: Layer, *, n_rows: int = 9, seed: int = 0) -> None:
    """Check that a layer is exact, that its passes and gradients belong together, and that no row knows of another.

    Weights, signals and slopes are random and adversarial: as large as they may be, all of one sign, zeros, weights
    near 2^390 and 2^-390. Choose small layers, of some hundred weights, and one with a thousand inputs and a few
    outputs: sums of squares of so many signals are above 2^53, where the order of additions begins to matter.

    * ``on_grid`` changes little, and nothing the second time.
    * ``forward`` is exact: a sum of signals times weights in integers; and ``backward`` is its adjoint.
    * ``row_gradients`` are the derivatives of forward by the weights, ``squared_norms`` are not below the true ones,
      and no row's part of ``total`` is longer than asked.
    * All of these have the same bits for a row alone, in any company and order, and for arrays in any order of memory.
    * Rows with weights are counted with them, in two parts.

    A layer without weights has to keep one of its inputs in every output, and to send the slope back to that one.
    """
    rng = np.random.default_rng(seed)
    name, n_rows = repr(layer), max(n_rows, 6)
    require(hash(layer) == hash(type(layer)(**vars(layer))), f"{name} must be a frozen dataclass of public numbers")
    if isinstance(layer, Unweighted):
        _check_unweighted(layer, n_rows, rng)
    elif isinstance(layer, Weighted):
        _check_weighted(layer, n_rows, rng)
    else:
        raise AssertionError(f"{name} must be a Weighted or an Unweighted layer")


def _check_weighted(layer: Weighted, n_rows: int, rng: np.random.Generator) -> None:
    name = repr(layer)
    for what, given in _weights(layer, rng):
        W = _on_grid(layer, given, what)
        spacing = _finest_grid(W)
        matrix = _matrix(layer, W, spacing)
        signals = _large(layer.inputs, matrix[:-1], REACH, n_rows, rng)
        slopes = _large(layer.outputs, matrix[:-1].T, SLOPE_REACH, n_rows, rng)
        _check_passes(layer, W, matrix, spacing, signals, slopes, what)
        _check_company(f"{name}.forward", partial(layer.forward, W=W), signals)
        _check_company(f"{name}.backward", partial(layer.backward, W=W), slopes)
    _check_gradients(layer, signals, slopes, rng)
    for _, given in _weights(layer, rng) if layer.takes_sparse else ():
        _check_sparse(layer, layer.on_grid(given), signals, slopes, rng)


def _weights(layer: Weighted, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield weights that are ordinary and adversarial."""
    shape = layer.weight_shape
    normal = rng.normal(size=shape)
    yield "normal weights", normal
    yield "weights of one sign that fill the largest sum", np.abs(normal) / layer.largest_sums(normal)
    yield "equal weights", np.full(shape, 1 / layer.largest_sums(np.ones(shape)))
    yield (
        "weights on a grid that is too fine",
        np.rint(np.abs(normal) / layer.largest_sums(normal) * 2.0**36) * 2.0**-36,
    )
    yield "weights over thirty orders of magnitude", normal * 10.0 ** rng.uniform(-15, 15, shape)
    yield "weights near 2^390", normal / layer.largest_sums(normal) * 2.0**390
    yield "weights near 2^-390", normal / layer.largest_sums(normal) * 2.0**-390
    yield "weights of 0", np.zeros(shape)


def _on_grid(layer: Weighted, W: Array, what: str) -> Array:
    """Return weights on their grid, after checking it."""
    name, given = f"{layer!r}.on_grid", W.copy()
    found = layer.on_grid(W)
    require(np.array_equal(W, given), f"{name} changes the weights that it is given ({what})")
    require(found.shape == W.shape and found.dtype == np.float64, f"{name} must return floats of the same shape")
    far = np.abs(found - W).max() <= layer.largest_sums(W) * 2.0**-29
    require(far, f"{name} moves {what} further than a grid of 2^-30 of the largest sum does")
    require(np.array_equal(layer.on_grid(found), found), f"{name} changes {what} that lie on the grid")
    return found


def _finest_grid(W: Array) -> float:
    """Return the largest power of two that all numbers are multiples of; 1 for zeros."""
    mantissa, exponent = np.frexp(W[W != 0])
    whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)).astype(np.int64) + exponent - 53
    return 2.0 ** int(lowest.min(initial=1024)) if len(lowest) else 1.0


def _integers(layer: Layer, values: Array, spacing: float, of: str) -> Array:
    """Return numbers of steps as integers."""
    steps = values / spacing
    whole = (np.abs(steps) < 2.0**62).all() and np.array_equal(np.rint(steps), steps)
    require(whole, f"{layer!r}.{of} does not return multiples of the grid of the weights: its sums are rounded")
    return steps.astype(np.int64)


def _matrix(layer: Weighted, W: Array, spacing: float) -> Array:
    """Return what a step of each input adds to the outputs, in integers; the constant's is in the last row."""
    n = math.prod(layer.inputs)
    ones = np.concatenate([np.eye(n), np.zeros((1, n))]).reshape(n + 1, *layer.inputs)
    alone = [layer.forward(ones[i : i + 1], W).reshape(-1) for i in range(n + 1)]
    require(
        all(sums.shape == (math.prod(layer.outputs),) for sums in alone),
        f"{layer!r}.forward must return {layer.outputs} numbers for a row",
    )
    matrix = _integers(layer, np.array(alone), spacing, "forward")
    matrix[:-1] -= matrix[-1]
    return matrix


def _large(shape: tuple[int, ...], signs: Array, reach: float, n_rows: int, rng: np.random.Generator) -> Array:
    """Return rows of integers of all sizes, some as large as they may be, with signs that make sums largest.

    Odd ones just below the reach have the most bits: their products and squares are no multiples of anything.
    """
    n = math.prod(shape)
    rows = np.rint(rng.uniform(-1, 1, (n_rows, n)) * reach * 2.0 ** -rng.integers(0, 22, (n_rows, 1)))
    rows[rng.random(rows.shape) < 0.2] = 0
    odd = reach - 1 - 2.0 * rng.integers(0, 2**10, (n_rows, n))
    rows[0] = np.where(signs[:, rng.integers(signs.shape[1])] < 0, -1, 1) * odd[0]
    rows[1], rows[2], rows[3] = reach, -0.0, odd[3]
    rows[4] = rng.choice([-1.0, 1.0], n) * reach
    rows[-1] = rows[0]
    return rows.reshape(n_rows, *shape)


def _check_passes(
    layer: Weighted, W: Array, matrix: Array, spacing: float, signals: Array, slopes: Array, what: str
) -> None:
    """Compare both passes with sums of integers, which no order changes."""
    name, n = repr(layer), len(signals)
    for part, values, weights, shape in (
        ("forward", signals, matrix[:-1], layer.outputs),
        ("backward", slopes, matrix[:-1].T, layer.inputs),
    ):
        given = values.copy()
        sums = getattr(layer, part)(values, W)
        require(np.array_equal(values, given), f"{name}.{part} changes the numbers that it is given")
        require(sums.shape == (n, *shape), f"{name}.{part} returns the shape {sums.shape}, not {(n, *shape)}")
        found = _integers(layer, sums.reshape(n, -1), spacing, part)
        expected = values.reshape(n, -1).astype(np.int64) @ weights
        if part == "forward":
            expected += matrix[-1]
        why = {
            "forward": "of a row differs from the exact sum of its signals times weights: products are rounded, or the "
            "row is not treated alone",
            "backward": "is not the adjoint of forward, or is rounded",
        }[part]
        require(np.array_equal(found, expected), f"{name}.{part} {why} ({what})")


def _check_company(name: str, function: Callable[[Array], Array], rows: Array) -> None:
    """Check that the numbers of a row have the same bits alone, in any order and company, and from any memory."""
    expected, n = function(rows).copy(), len(rows)
    order = np.random.default_rng(n).permutation(n)
    found = {"in another order": (function(rows[order]), expected[order])}
    found["among more rows"] = (function(np.concatenate([rows[::-1]] * 3 + [rows]))[-n:], expected)
    for first in range(1, n):
        found[f"as one of {n - first} rows"] = (function(rows[first:]), expected[first:])
    for i in range(n):
        found[f"alone, row {i}"] = (function(rows[i : i + 1].copy()), expected[i : i + 1])
    for where, place in _memories(rows):
        found[where] = (function(place), expected)
    for where, (now, then) in found.items():
        require(np.array_equal(now, then), f"{name} depends on other rows, or on where a row lies ({where}): {_PLACE}")


def _memories(rows: Array) -> Iterator[tuple[str, Array]]:
    yield "in order F", np.asfortranarray(rows)
    yield "at every 2. place", np.repeat(rows, 2, axis=0)[::2]
    yield "at every 2. column", np.repeat(rows, 2, axis=-1)[..., ::2]
    yield "read backwards", rows[::-1].copy()[::-1]
    room = np.zeros(rows.nbytes + 8, dtype=np.uint8)[8:].view(rows.dtype).reshape(rows.shape)
    room[...] = rows
    yield "8 bytes on", room


def _check_gradients(layer: Weighted, signals: Array, slopes: Array, rng: np.random.Generator) -> None:
    name, n, fine = f"{layer!r}.row_gradients", len(signals), SIGNAL_STEP * SLOPE_STEP
    slopes = slopes[rng.permutation(n)]
    coarse = np.rint(slopes / 64) * 64  # a layer may round slopes before it forms gradients
    ones = np.ones(n)

    def total(rows: Array, factors: Array, unit: float, weights: Array | None = None, slopes: Array = slopes) -> Array:
        found = layer.row_gradients(signals[rows], slopes[rows]).total(factors[rows], unit, weights)
        require(found.dtype == np.int64, f"{name}: total must return 64-bit integers")
        return found.astype(object)

    for i in range(n):
        gradient = total(np.array([i]), ones, fine, slopes=coarse)
        require(gradient.shape == layer.weight_shape, f"{name}: total has the shape {gradient.shape}")
        for _ in range(6):
            R = rng.integers(-(2**8), 2**8, layer.weight_shape)
            along = layer.forward(signals[i : i + 1], R.astype(np.float64)).reshape(-1)
            expected = sum(int(a) * int(b) for a, b in zip(along, coarse[i].reshape(-1), strict=True))
            right = int((gradient * R.astype(object)).sum()) == expected
            require(right, f"{name}: total is not the derivative of forward by the weights, or not exact (row {i})")
    alone = [total(np.array([i]), ones, fine) for i in range(n)]
    squares = layer.row_gradients(signals, slopes).squared_norms
    _check_norms(name, squares, alone, fine)
    _check_company(
        f"{name}.squared_norms", lambda rows: layer.row_gradients(signals[rows], slopes[rows]).squared_norms,
        np.arange(n),
    )  # fmt: skip
    for where, place in _memories(signals):
        same = np.array_equal(layer.row_gradients(place, slopes).squared_norms, squares)
        require(same, f"{name}.squared_norms depends on where signals lie ({where}): {_PLACE}")
    for where, place in _memories(slopes):
        same = np.array_equal(layer.row_gradients(signals, place).squared_norms, squares)
        require(same, f"{name}.squared_norms depends on where slopes lie ({where}): {_PLACE}")
    _check_totals(name, total, alone, squares, rng)


def _check_norms(name: str, squares: Array, gradients: list[Array], unit: float) -> None:
    require(squares.shape == (len(gradients),), f"{name}: squared_norms must have one number per row")
    for i, (square, gradient) in enumerate(zip(squares, gradients, strict=True)):
        true = sum(int(entry) ** 2 for entry in gradient.ravel()) * Fraction(unit) ** 2
        enough = np.isfinite(square) and Fraction(float(square)) >= true * (1 - _SLACK)
        require(enough, f"{name}: squared_norms has {square} for row {i}, whose gradient has {float(true)}")


def _check_totals(
    name: str, total: Callable[..., Array], gradients: list[Array], squares: Array, rng: np.random.Generator
) -> None:
    """Check clipped sums: no row's part is longer than asked, and a sum is that of its rows, with their weights."""
    n, clip, fine = len(gradients), 0.75, SIGNAL_STEP * SLOPE_STEP
    every = np.arange(n)
    unit = 2.0**-22 * SIGNAL_STEP
    factors = np.minimum(1.0, clip / np.sqrt(np.maximum(squares, 2.0**-80)))
    alone = [total(every[i : i + 1], factors, unit) for i in range(n)]
    for i, part in enumerate(alone):
        most = np.abs(gradients[i]) * Fraction(fine) * Fraction(float(factors[i])) * (1 + _SLACK) / Fraction(unit)
        require((np.abs(part) <= most).all(), f"{name}: total is longer than the clipped gradient of row {i}")
        signs = (part * gradients[i] >= 0).all()
        require(signs, f"{name}: total has another sign than the gradient of row {i}: truncate, do not round")
    for rows in (every, every[::-1], rng.permutation(n), np.tile(every, 5)):
        expected = sum(alone[i] for i in rows)
        found = total(rows, factors, unit)
        require((found == expected).all(), f"{name}: total of several rows is not the sum of those of each")
    steps = rng.integers(0, WHOLE + 1, n).astype(np.float64)
    steps[:2] = WHOLE, 0
    parts = total(every, factors, unit, steps)
    require(parts.shape == (2, *alone[0].shape), f"{name}: total of rows with weights must be in two parts")
    expected = sum(int(k) * part for k, part in zip(steps, alone, strict=True))
    require(
        (parts[0] * WHOLE + parts[1] == expected).all() and ((parts[1] >= 0) & (parts[1] < WHOLE)).all(),
        f"{name}: total does not count rows by their weights, in parts as data.weights.joined",
    )


def _check_sparse(layer: Weighted, W: Array, signals: Array, slopes: Array, rng: np.random.Generator) -> None:
    """Check that signals in a CSR matrix, of which some entries are zeros, give the bits of an array."""
    signals = np.where(rng.random(signals.shape) < 0.5, 0.0, signals)
    sparse, n = sp.csr_matrix(signals), len(signals)
    sparse.data[::7] = 0
    signals = sparse.toarray()
    dense, found = layer.row_gradients(signals, slopes), layer.row_gradients(sparse, slopes)
    factors = np.minimum(1.0, 1 / np.sqrt(np.maximum(dense.squared_norms, 2.0**-80)))
    steps = rng.integers(0, WHOLE + 1, n).astype(np.float64)
    unit = 2.0**-22 * SIGNAL_STEP
    for part, one, other in (
        ("forward", layer.forward(signals, W), layer.forward(sparse, W)),
        ("squared_norms", dense.squared_norms, found.squared_norms),
        ("total", dense.total(factors, unit, None), found.total(factors, unit, None)),
        ("total with weights", dense.total(factors, unit, steps), found.total(factors, unit, steps)),
    ):
        require(np.array_equal(one, other), f"{layer!r}: {part} of a CSR matrix differs from that of an array")


def _check_unweighted(layer: Unweighted, n_rows: int, rng: np.random.Generator) -> None:
    """Check a layer that keeps some inputs: values, the way back, ties, and company."""
    name, shape = repr(layer), (n_rows, *layer.inputs)
    apart = rng.permuted(np.arange(math.prod(shape)).reshape(n_rows, -1), axis=1) * 2.0**10
    tied = np.rint(rng.uniform(-1, 1, shape)) * 2.0**10  # many equal ones
    slopes = _large(layer.outputs, np.ones((math.prod(layer.outputs), 1)), SLOPE_REACH, n_rows, rng)
    for what, values in (("different values", apart.reshape(shape)), ("equal values", tied), ("zeros", 0 * tied)):
        given = values.copy()
        kept, known = layer.forward(values)
        require(np.array_equal(values, given), f"{name}.forward changes the values that it is given")
        require(kept.shape == (n_rows, *layer.outputs), f"{name}.forward returns the shape {kept.shape}")
        for i in range(n_rows):
            require(np.isin(kept[i], values[i]).all(), f"{name}.forward returns other values than the row's ({what})")
        back = layer.backward(slopes.copy(), known)
        require(back.shape == shape, f"{name}.backward returns the shape {back.shape}, not {shape}")
        whole = np.array_equal(np.rint(back), back) and (np.abs(back) <= SLOPE_REACH).all()
        require(whole, f"{name}.backward returns numbers that are not slopes: integers within their reach ({what})")
        if what == "different values":
            moved = np.rint(rng.uniform(-16, 16, shape))
            along = layer.forward(values + moved)[0] - kept
            right = [int((slopes[i] * along[i]).sum()) == int((back[i] * moved[i]).sum()) for i in range(n_rows)]
            require(all(right), f"{name}.backward is not the adjoint of forward: slopes go elsewhere")
        _check_company(f"{name}.forward", lambda some: layer.forward(some)[0], values)

        def there_and_back(rows: Array, values: Array = values) -> Array:
            return layer.backward(slopes[rows], layer.forward(values[rows])[1])

        _check_company(f"{name}.backward ({what})", there_and_back, np.arange(n_rows))
        for where, place in _memories(values):
            same = np.array_equal(layer.backward(slopes.copy(), layer.forward(place)[1]), back)
            require(same, f"{name}.backward depends on where values lie ({where}, {what}): {_PLACE}")


def check_network(
    network: Network, loss: Loss, w: Array | None = None, *, clip: float = 1.0, trials: int = 20, seed: int = 0
) -> float:
    """Check every layer of a network, its scores, and the sum of its clipped gradients, at some public weights.

    * Each layer passes :func:`check_layer`.
    * The scores and the clipped gradient of a row have the same bits alone, and in any company and order.
    * Gradients agree with differences of the loss, as far as the grids of signals and kinks let them.
    * The sum of clipped gradients passes :func:`check_query` and :func:`check_weights`.

    ``w`` are flat weights, initial ones by default. Returns the largest part of the clip that a row reached.
    """
    rng, d = np.random.default_rng(seed), network.n_inputs
    for layer in dict.fromkeys(network.layers):
        check_layer(layer, seed=seed)
    w = network.on_grid(network.start(seed) if w is None else w)
    query, n_classes = NetworkGradient(network, loss, w, clip=clip), loss.n_classes
    y = random_labels(n_classes, 24, rng)
    signals = np.clip(np.rint(rng.normal(size=(24, d)) * ONE), -REACH, REACH)
    signals[:8] = _heavy_tailed_signals(8, d, rng)
    _check_company("Network.scores", lambda some: network.scores(some, w), signals)
    few = np.arange(12)
    _check_company("a clipped gradient", lambda rows: _each(query, signals[rows], y[rows], RowMap(n_classes)), few)
    _check_differences(network, loss, w, signals[8:], y[8:], rng)
    reached = check_query(query, n_features=d, n_classes=n_classes, trials=trials, seed=seed)
    persons = check_weights(query, n_features=d, n_classes=n_classes, trials=max(1, trials // 4), seed=seed)
    return max(reached, persons)


def _heavy_tailed_signals(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return rows of signals, some as large as they may be, some zeros, some with one entry."""
    rows = np.rint(rng.standard_t(1, (n, d)) * 10.0 ** rng.uniform(-1, 7, (n, 1)))
    rows[0], rows[1], rows[2:4, 1:] = REACH, 0, 0
    return np.clip(rows, -REACH, REACH)


def _each(query: NetworkGradient, signals: Array, y: Array, how: RowMap) -> Array:
    """Return the part of each row in the sum of several: the sum of all but that of the others."""
    rows = np.arange(len(y))
    whole = query.over(ArrayRows(signals * SIGNAL_STEP, y, how), SeededBits(0))
    return np.array([whole - _rest(query, signals, y, how, rows != i, whole) for i in rows])


def _rest(query: NetworkGradient, signals: Array, y: Array, how: RowMap, rows: Array, whole: Array) -> Array:
    if not rows.any():
        return 0 * whole
    rest: Array = query.over(ArrayRows(signals[rows] * SIGNAL_STEP, y[rows], how), SeededBits(0))
    return rest


def _check_differences(
    network: Network, loss: Loss, w: Array, signals: Array, y: Array, rng: np.random.Generator
) -> None:
    """Compare derivatives along random directions with differences of the loss, over the step that fits a row best.

    Steps must not be short, because signals are rounded, and not be long, because activations have kinks.
    """
    for _ in range(3):
        direction = rng.normal(size=w.shape)
        direction *= max(1.0, float(np.linalg.norm(w))) / np.linalg.norm(direction)
        derivative = _derivatives(network, loss, w, signals, y, direction)
        far = np.full(len(y), np.inf)
        for h in 2.0 ** -np.arange(4.0, 21.0, 2.0):
            ahead, behind = (
                loss.value(network.scores(signals, network.on_grid(w + s * h * direction)), y) for s in (1, -1)
            )
            far = np.minimum(far, np.abs((ahead - behind) / (2 * h) - derivative))
        off = float(np.median(far)) / max(float(np.abs(derivative).max()), 1e-2)
        require(off < 0.02, f"gradients of the network are not those of the loss: they differ by {off:.2g} of them")


def _derivatives(network: Network, loss: Loss, w: Array, signals: Array, y: Array, direction: Array) -> Array:
    """Return the derivative of the loss of each row along a direction, by the gradients of the layers."""
    parts = network.split(direction)
    found, ones, unit = np.zeros(len(y)), np.ones(1), SIGNAL_STEP * SLOPE_STEP
    for i in range(len(y)):
        gradients = network.row_gradients(signals[i : i + 1], y[i : i + 1], w, loss)
        found[i] = sum(
            float((gradient.total(ones, unit, None) * (unit * part)).sum())
            for gradient, part in zip(gradients, parts, strict=True)
        )
    return found
