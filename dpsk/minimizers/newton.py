"""Newton's method for several strongly convex objectives at once: fast, and without a promise."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from ..mechanisms.samplers import Floats, Integers

_NEWTON_STEPS, _PLAIN_STEPS = 60, 20  # beyond the latter steps are solved for with the true Hessian
_SHORTENINGS = 20
# A step that leaves more of a gradient than this asks for a new Hessian, which is the dearer the more columns there are
_STALE, _STALE_OF_MANY, _MANY = 0.15, 0.5, 200
_LARGEST_HESSIAN = 1000  # columns beyond which products with the Hessian replace it
_ACCURACY = 0.05  # of systems that are solved by conjugate gradients
# From so many columns on, and so many more over the number of objectives, products with Hessians and one common matrix
# take less time than a Hessian for each (benchmarks/results/speed_minima.md)
_COMMON, _COMMON_ALONE = 50, 50
_PRODUCTS = 8  # at least, before an objective gets a Hessian of its own after all,
_COLUMNS_A_PRODUCT = 40  # and as many as that Hessian costs: columns over this, times the objectives that wait

Flags: TypeAlias = NDArray[np.bool_]


class Common:
    """A matrix that stands in for the losses' Hessian of every objective, times one number for each.

    Its eigenvectors are found once, and solve for all numbers.
    """

    def __init__(self, matrix: Floats) -> None:
        self._values, self._vectors = eigh(matrix, check_finite=False, driver="evd")

    def solve(self, multiples: Floats, floor: float, target: Floats) -> Floats:
        """Return the solutions for ``multiple * matrix + floor * identity``, column by column."""
        sizes = np.multiply.outer(np.maximum(self._values, 0), multiples) + floor
        solution: Floats = self._vectors @ ((self._vectors.T @ target) / sizes)
        return solution


class Objectives(Protocol):
    """K objectives with Hessians between ``convexity`` and ``smoothness`` (times the identity)."""

    convexity: float
    smoothness: float

    def gradient(self, w: Floats) -> Floats:
        """Return the gradients at the columns of ``w``, nearly: the error must be small beside the tolerance."""

    def hessians(self, w: Floats, damping: Floats, which: Integers | None = None) -> Floats:
        """Return approximate Hessians of some objectives, or of all: shape (len(which), p, p). Curvatures below
        ``damping`` times their bound count as that much, because gradients further away are flatter than they seem.
        """

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        """Return the function that multiplies the columns of a direction by the same Hessians, ``convexity`` added."""

    def common(self) -> Common | None:
        """Return what stands in for all Hessians, if anything does."""

    def curvatures(self, w: Floats, damping: Floats) -> Floats:
        """Return how often the common matrix is in each of the same Hessians, on average over directions."""


def newton(objectives: Objectives, w: Floats, tolerance: float) -> Floats:
    """Return the point that Newton's method reaches. A step that goes far beyond the minimum along it is shortened."""
    gradient = objectives.gradient(w)
    lengths = first = np.linalg.norm(gradient, axis=0)
    system = _system(objectives, *w.shape)
    ratio, damping, short = np.ones_like(lengths), np.ones_like(lengths), np.zeros(len(lengths), dtype=bool)
    for count in range(_NEWTON_STEPS):
        far = ~(lengths <= tolerance)
        if not far.any():
            break
        try:
            if (new := system.worn(ratio, far)).any():
                near = (lengths / np.maximum(first, 1e-300)) ** 2
                damping = np.where(short | ~new, damping, np.minimum(damping, near))
                system.renew(w, damping, new, exact=count >= _PLAIN_STEPS)
            step = -system(gradient * far) * far
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

    def __init__(self, objectives: Objectives, n_columns: int, n_objectives: int) -> None:
        self._objectives, self._n_columns = objectives, n_columns
        self._factors: list[Any] = [None] * n_objectives
        self._multiply: Callable[[Floats], Floats] | None = None

    def worn(self, ratio: Floats, far: Flags) -> Flags:
        """Return which objectives need the Hessian at another point, by what was left of gradients."""
        stale = _STALE + (_STALE_OF_MANY - _STALE) * min(1.0, self._n_columns / _MANY)
        return far & (ratio > stale)

    def renew(self, w: Floats, damping: Floats, new: Flags, *, exact: bool) -> None:
        """Take these objectives' Hessians at ``w``."""
        small = self._n_columns <= _LARGEST_HESSIAN
        if small:
            self._factor(w, damping, new)
        self._multiply = self._objectives.products(w, damping) if exact or not small else None

    def __call__(self, gradient: Floats) -> Floats:
        if self._multiply is None:
            return self._rounded(gradient)
        return _conjugate_gradients(self._multiply, self._rounded, gradient)[0]

    def _factor(self, w: Floats, damping: Floats, new: Flags) -> None:
        floor, which = self._objectives.convexity * np.eye(self._n_columns), np.flatnonzero(new)
        for k, hessian in zip(which, self._objectives.hessians(w, damping, which), strict=True):
            self._factors[k] = cho_factor(hessian + floor, check_finite=False)

    def _rounded(self, gradient: Floats) -> Floats:
        """Return the solutions with the factored Hessians; gradients of objectives without one stay as they are."""
        solution = gradient.copy()
        for k, factor in enumerate(self._factors):
            if factor is not None:
                solution[:, k] = cho_solve(factor, gradient[:, k], check_finite=False)
        return solution


class _CommonSystem(_System):
    """Solves with the Hessian at the last point, by conjugate gradients that one matrix for all objectives hastens.

    An objective for which that takes long gets a Hessian of its own. Later on that one takes the common one's place.
    """

    def __init__(self, objectives: Objectives, common: Common, n_columns: int, n_objectives: int) -> None:
        super().__init__(objectives, n_columns, n_objectives)
        self._common = common

    def worn(self, ratio: Floats, far: Flags) -> Flags:
        return far

    def renew(self, w: Floats, damping: Floats, new: Flags, *, exact: bool) -> None:
        self._at, self._exact = (w, damping), exact
        self._multiples = self._objectives.curvatures(w, damping)

    def __call__(self, gradient: Floats) -> Floats:
        multiply = self._objectives.products(*self._at)
        patience = math.inf if self._exact else self._n_columns / _COLUMNS_A_PRODUCT
        solution, left = _conjugate_gradients(multiply, self._rounded, gradient, patience)
        if left.any():
            try:
                self._factor(*self._at, left)
            except LinAlgError:
                return solution
            again = _conjugate_gradients(multiply, self._rounded, gradient * left, patience)[0]
            solution = np.where(left, again, solution)
        return solution

    def _rounded(self, gradient: Floats) -> Floats:
        own = np.array([factor is not None for factor in self._factors])
        solution = self._common.solve(self._multiples, self._objectives.convexity, gradient)
        return np.where(own, super()._rounded(gradient), solution) if own.any() else solution


def _system(objectives: Objectives, n_columns: int, n_objectives: int) -> _System:
    """Return what solves for steps at the least cost, as public facts tell."""
    if _COMMON + _COMMON_ALONE / n_objectives <= n_columns <= _LARGEST_HESSIAN:
        with suppress(LinAlgError):  # no eigenvectors
            common = objectives.common()
            if common is not None:
                return _CommonSystem(objectives, common, n_columns, n_objectives)
    return _System(objectives, n_columns, n_objectives)


def _conjugate_gradients(
    multiply: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    target: Floats,
    patience: float = math.inf,
) -> tuple[Floats, Flags]:
    """Return nearly the solutions of one linear system per column, and which are not near enough.

    That is where there were as many products as ``patience`` times the number of columns that waited for them.
    """
    solution, residual = np.zeros_like(target), target.copy()
    direction = precondition(residual)
    size = np.sum(residual * direction, axis=0)
    enough = _ACCURACY**2 * size
    for count in range(len(target)):
        running = size > enough
        if count >= max(_PRODUCTS, patience * running.sum()) or not running.any():
            break
        product = multiply(direction)
        curved = np.sum(direction * product, axis=0)
        length = np.where(running & (curved > 0), size / np.where(curved > 0, curved, 1), 0.0)
        solution += length * direction
        residual -= length * product
        conditioned = precondition(residual)
        before, size = size, np.where(length > 0, np.sum(residual * conditioned, axis=0), 0.0)
        direction = conditioned + size / np.where(before > 0, before, 1) * direction
    return solution, size > enough
