"""Conformance of a loss."""

import dataclasses
from itertools import product

import numpy as np

from ..losses import Loss, MarginLoss
from .common import Array, places, random_labels, require


def check_loss(loss: Loss, *, n_classes: int | None = None, seed: int = 0) -> None:
    """Check values, derivatives, constants and overflow of a loss, and that a row's do not depend on its place.

    ``n_classes`` is None for scores of shape (n,) with labels -1/+1, K for scores (n, K) with labels 0..K-1.
    """
    rng = np.random.default_rng(seed)
    require(hash(loss) == hash(dataclasses.replace(loss)), f"{loss!r} must be a frozen dataclass")  # type: ignore[type-var]
    n = 4000
    columns = () if n_classes is None else (n_classes,)
    y = random_labels(n_classes, n, rng)
    scores = rng.normal(size=(n, *columns)) * 10.0 ** rng.uniform(-2, 4, size=(n,) + (1,) * len(columns))
    scores[:: n // 40] = rng.choice([-1e4, 0.0, 1e4], size=scores[:: n // 40].shape)
    _check_constants(loss, scores, y)

    few = scores[:50].copy()
    few[7] *= 2.0**80  # a huge row among others
    for part, function in (("value", loss.value), ("derivative", loss.derivative)):
        with np.errstate(over="ignore"):
            finite = np.isfinite(function(few, y[:50])).all()
        require(finite, f"{loss!r}.{part} is not finite for scores near 2**93")
    _check_places(loss, np.concatenate([scores[:600], few]), np.concatenate([y[:600], y[:50]]))

    scores = rng.normal(size=(n, *columns)) * 2
    _check_differences(loss, scores, y, rng.normal(size=(n, *columns)))
    if isinstance(loss, MarginLoss):
        _check_flattened(loss, rng)
        _check_decay(loss, scores, rng.normal(size=n) * 3)


def _norms(vectors: Array) -> Array:
    norms: Array = np.abs(vectors) if vectors.ndim == 1 else np.linalg.norm(vectors, axis=1)
    return norms


def _eigenvalues(matrices: Array) -> Array:
    """Return the eigenvalues of second derivatives, in a row each."""
    return matrices[:, None] if matrices.ndim == 1 else np.linalg.eigvalsh(matrices)


def _check_constants(loss: Loss, scores: Array, y: Array) -> None:
    """Check shapes, overflow, and the bounds of derivatives that a loss states."""
    name, (n, *columns) = repr(loss), scores.shape
    value, slope, curvature = loss.value(scores, y), loss.derivative(scores, y), loss.second_derivative(scores, y)
    require(value.shape == (n,), f"{name}.value must return one number per row")
    require(slope.shape == scores.shape, f"{name}.derivative must have the shape of the scores")
    require(curvature.shape == (n, *columns, *columns), f"{name}.second_derivative must be (n,) or (n, K, K)")
    for what, array in (("value", value), ("derivative", slope), ("second_derivative", curvature)):
        require(np.isfinite(array).all(), f"{name}.{what} overflows for scores up to 1e4")
    require((value >= 0).all(), f"{name}.value must not be negative: clipped sums are monotone only then")
    bends = _eigenvalues(curvature)
    for constant, seen, slack in (
        ("lipschitz", _norms(slope).max(), loss.lipschitz * 1e-12),
        ("smoothness", np.abs(bends).max(), loss.smoothness * 1e-12),
        ("concavity", -bends.min(), 1e-12),
    ):
        stated = getattr(loss, constant)
        require(seen <= stated + slack, f"{name}.{constant} is {stated}, seen {seen}")


def _check_differences(loss: Loss, scores: Array, y: Array, direction: Array) -> None:
    """Compare derivatives with differences for 95 % of the rows: a loss may have kinks, where they mean nothing."""
    name, h = repr(loss), 1e-6
    slope, curvature = loss.derivative(scores, y), loss.second_derivative(scores, y)
    if scores.ndim == 1:
        along, bending = slope * direction, curvature * direction
    else:
        along, bending = (slope * direction).sum(axis=1), np.einsum("ijk,ik->ij", curvature, direction)
    for part, function, expected, of in (
        ("derivative", loss.value, along, "value"),
        ("second_derivative", loss.derivative, bending, "derivative"),
    ):
        difference = (function(scores + h * direction, y) - function(scores - h * direction, y)) / (2 * h)
        close = np.isclose(difference, expected, rtol=1e-4, atol=1e-7)
        require(close.mean() > 0.95, f"{name}.{part} is not the derivative of its {of}")
    h = 1e-3
    change = np.abs(_eigenvalues(loss.second_derivative(scores + h * direction, y) - curvature)).max(axis=1)
    moved = h * _norms(direction)
    require((change <= loss.jerk * moved + 1e-12).all(), f"{name}.jerk is {loss.jerk}, seen {(change / moved).max()}")


def _check_decay(loss: MarginLoss, margins: Array, distance: Array) -> None:
    if np.isfinite(loss.decay):
        least = loss.curvature(margins) * np.exp(-loss.decay * abs(distance))
        ahead = loss.curvature(margins + distance)
        require((ahead >= least * (1 - 1e-9)).all(), f"{loss!r}.decay is {loss.decay}, but phi'' falls faster")


def _check_places(loss: Loss, scores: Array, y: Array) -> None:
    """Check that the loss of a row has the same bits at every place in memory, next to any other numbers.

    A loss that mixes rows would break every sensitivity.
    """
    for part in ("value", "derivative", "second_derivative"):
        _check_place(loss, part, scores, y)
    if isinstance(loss, MarginLoss):
        steepness = np.abs(scores) + 2.0**-20
        parts = {"phi": scores, "slope": scores, "curvature": scores}
        if loss.corner(steepness) is not None:
            parts["corner"] = steepness
        for part, numbers in parts.items():
            _check_place(loss, part, numbers)
            _check_place(loss, part, numbers.astype(np.float32))  # as a line search takes them


def _check_place(loss: Loss, part: str, numbers: Array, *labels: Array) -> None:
    function, name = getattr(loss, part), f"{loss!r}.{part}"
    remedy = "take exp, log and log1p from dpsk.elementwise, and add up classes with dpsk.losses.sum_of_classes"
    with np.errstate(all="ignore"):
        expected = function(numbers, *labels)
        for where, place in places(numbers):
            same = np.array_equal(function(place, *labels), expected, equal_nan=True)
            require(same, f"{name} depends on where numbers lie in memory ({where}): {remedy}")
        for n, first in product(range(1, 71), (0, 1, 3, 590)):
            rows = slice(first, first + n)
            found = function(numbers[rows], *(label[rows] for label in labels))
            same = np.array_equal(found, expected[rows], equal_nan=True)
            require(same, f"{name} of a row depends on other rows, or on how many there are: {remedy}")


def _check_flattened(loss: MarginLoss, rng: np.random.Generator) -> None:
    """Check that the flattened loss is the integral of the clipped slope, in double and in single precision."""
    name = repr(loss)
    steepness = 10.0 ** rng.uniform(-3, 1, size=2000)
    corner = loss.corner(steepness)
    if corner is None:
        return
    require(corner.shape == steepness.shape, f"{name}.corner must return one margin per row")
    margin, h = np.where(np.abs(corner) < 100, corner, 0.0) + rng.normal(size=2000), 1e-6
    ahead, behind = (loss.flattened(margin + s * h, steepness, corner) for s in (1, -1))
    clipped = np.maximum(loss.slope(margin), -steepness)
    close = np.isclose((ahead - behind) / (2 * h), clipped, rtol=1e-3, atol=1e-6)
    require(close.mean() > 0.95, f"{name}.flattened does not have the clipped slope: is corner right?")
    _check_curvature_below(loss)
    above = margin >= corner
    require(
        np.array_equal(loss.flattened(margin, steepness, corner)[above], loss.phi(margin)[above]),
        f"{name}.flattened must be phi above the corner",
    )


def _check_curvature_below(loss: MarginLoss) -> None:
    """Check the bounds of phi'' that determinants and rounding errors of minima need; long rows have the largest."""
    if not np.isfinite(loss.smoothness):
        return
    name, sizes = repr(loss), np.geomspace(1e-3, 1e4, 1000)
    margins = np.concatenate([-sizes, [0.0], sizes])
    slope, bend = np.abs(loss.slope(margins)), loss.curvature(margins)
    steepness = np.geomspace(1e-3, 4.0, 60)
    below = np.array([loss.curvature_below(s) for s in steepness])
    seen = np.array([bend[slope < s].max(initial=0.0) for s in steepness])
    require((seen <= below * (1 + 1e-12)).all(), f"{name}.curvature_below is too small: phi'' is larger where it looks")
    relative = below / np.square(steepness)
    require((np.diff(relative) <= 1e-12 * relative[1:]).all(), f"{name}.curvature_below grows faster than its square")
    seen_conditioning = float((np.abs(margins) * bend - slope).max())
    require(
        seen_conditioning <= loss.conditioning * (1 + 1e-12),
        f"{name}.conditioning is {loss.conditioning}, seen {seen_conditioning}",
    )
