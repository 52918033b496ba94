"""Newton's method for several strongly convex objectives at once: fast, and without a promise."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..mechanisms.samplers import Floats

_NEWTON_STEPS, _PLAIN_STEPS = 60, 20  # beyond the latter steps are solved for with the true Hessian
_SHORTENINGS = 20
# A step that leaves more of a gradient than this asks for a new Hessian, which is the dearer the more columns there are
_STALE, _STALE_OF_MANY, _MANY = 0.15, 0.5, 200
_LARGEST_HESSIAN = 1000  # columns beyond which products with the Hessian replace it
_ACCURACY = 0.05  # of systems that are solved by conjugate gradients


class Objectives(Protocol):
    """K objectives with Hessians between ``convexity`` and ``smoothness`` (times the identity)."""

    convexity: float
    smoothness: float

    def gradient(self, w: Floats) -> Floats:
        """Return the gradients at the columns of ``w``, nearly: the error must be small beside the tolerance."""

    def hessians(self, w: Floats, damping: Floats) -> Floats:
        """Return an approximate Hessian per column: shape (K, p, p). Curvatures below ``damping`` times their bound
        count as that much, because gradients further away are flatter than they seem.
        """

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        """Return the function that multiplies the columns of a direction by the same Hessians."""


def newton(objectives: Objectives, w: Floats, tolerance: float) -> Floats:
    """Return the point that Newton's method reaches. A step that goes far beyond the minimum along it is shortened."""
    gradient = objectives.gradient(w)
    lengths = first = np.linalg.norm(gradient, axis=0)
    solve: _System | None = None
    ratio, damping, short = np.ones_like(lengths), np.ones_like(lengths), np.zeros(len(lengths), dtype=bool)
    stale = _STALE + (_STALE_OF_MANY - _STALE) * min(1.0, len(w) / _MANY)
    for count in range(_NEWTON_STEPS):
        far = ~(lengths <= tolerance)
        if not far.any():
            break
        try:
            if solve is None or (ratio[far] > stale).any():
                near = (lengths / np.maximum(first, 1e-300)) ** 2
                damping = np.where(short, damping, np.minimum(damping, near))
                solve = _System(objectives, w, damping, exact=count >= _PLAIN_STEPS)
            step = -solve(gradient) * far
        except LinAlgError:
            break
        fall = -np.sum(gradient * step, axis=0)
        if not (np.abs(w) + np.abs(step) < 2.0**300).all():
            break
        taken = np.ones(len(lengths))
        for _ in range(_SHORTENINGS):
            ahead = objectives.gradient(w + taken * step)
            rise = np.sum(ahead * step, axis=0)
            too_far = far & ~(rise <= fall / 2)
            if not too_far.any():
                break
            taken = np.where(too_far, taken * np.clip(fall / (fall + rise), 0.1, 0.9), taken)
        else:
            break
        damping = np.where(rise < -fall / 2, damping / 10, damping)  # it went down nearly as steeply at the end
        short = far & (taken < 0.5)  # there was more curvature ahead than here
        damping = np.where(short, np.minimum(1.0, 30 * np.maximum(damping, 1e-3)), damping)
        w, gradient, before = w + taken * step, ahead, lengths
        lengths = np.linalg.norm(gradient, axis=0)
        ratio = lengths / np.maximum(before, 1e-300)
    return w


class _System:
    """Solves with the Hessian at one point: factored as far as it is not too large, and exactly by conjugate gradients.

    The factored one is rounded, which matters where columns are nearly collinear and the penalty is small.
    """

    def __init__(self, objectives: Objectives, w: Floats, damping: Floats, *, exact: bool) -> None:
        small = len(w) <= _LARGEST_HESSIAN
        self._factors = None
        if small:
            floor = objectives.convexity * np.eye(len(w))
            hessians = objectives.hessians(w, damping)
            self._factors = [cho_factor(hessian + floor, check_finite=False) for hessian in hessians]
        self._multiply = objectives.products(w, damping) if exact or not small else None

    def __call__(self, gradient: Floats) -> Floats:
        if self._multiply is None:
            return self._rounded(gradient)
        return _conjugate_gradients(self._multiply, self._rounded, gradient)

    def _rounded(self, gradient: Floats) -> Floats:
        if self._factors is None:
            return gradient
        pairs = zip(self._factors, gradient.T, strict=True)
        return np.stack([cho_solve(factor, column, check_finite=False) for factor, column in pairs], axis=1)


def _conjugate_gradients(
    multiply: Callable[[Floats], Floats], precondition: Callable[[Floats], Floats], target: Floats
) -> Floats:
    """Return nearly the solutions of one linear system per column."""
    solution, residual = np.zeros_like(target), target.copy()
    direction = precondition(residual)
    size = np.sum(residual * direction, axis=0)
    enough = _ACCURACY**2 * size
    for _ in range(len(target)):
        running = size > enough
        if not running.any():
            break
        product = multiply(direction)
        curved = np.sum(direction * product, axis=0)
        length = np.where(running & (curved > 0), size / np.where(curved > 0, curved, 1), 0.0)
        solution += length * direction
        residual -= length * product
        conditioned = precondition(residual)
        before, size = size, np.where(length > 0, np.sum(residual * conditioned, axis=0), 0.0)
        direction = conditioned + size / np.where(before > 0, before, 1) * direction
    return solution
