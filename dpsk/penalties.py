"""Penalties: public functions of the weights, added to the mean loss. They cost no privacy."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


class Penalty(Protocol):
    """A penalty of weights with shape (p,) or (p, K); the last row belongs to the intercept where there is one."""

    @property
    def smoothness(self) -> float:
        """A bound on the second derivative."""

    def value(self, w: Floats) -> float:
        """Return the penalty of one array of weights."""

    def values(self, points: Floats) -> Floats:
        """Return the penalty of each point along the first axis."""

    def gradient(self, w: Floats) -> Floats:
        """Return the gradient at w."""

    @property
    def concavity(self) -> float:
        """A bound on how far below 0 the second derivative is."""

    @property
    def jerk(self) -> float:
        """A bound on the third derivative."""

    def curvature(self, w: Floats) -> Floats:
        """Return the diagonal of the Hessian at w, in the shape of w; all other entries are 0."""

    def divided(self, by: float) -> Self:
        """Return the penalty over a number."""


def _require_alpha(alpha: float) -> None:
    if not (alpha >= 0 and math.isfinite(alpha)):
        raise ValueError(f"alpha={alpha!r} must be a finite number >= 0")


@dataclass(frozen=True)
class _SumOfEntries(ABC):
    """alpha times a sum over the entries of w; ``free_intercept`` leaves the last row of w out of the sum."""

    alpha: float
    free_intercept: bool = False

    def __post_init__(self) -> None:
        _require_alpha(self.alpha)

    def divided(self, by: float) -> Self:
        return replace(self, alpha=self.alpha / by)

    @abstractmethod
    def _terms(self, w: Floats) -> Floats:
        """Return what each entry adds, over alpha."""

    def value(self, w: Floats) -> float:
        return float(self.values(w[None])[0])

    def values(self, points: Floats) -> Floats:
        penalised = points[:, : points.shape[1] - self.free_intercept]
        values: Floats = self.alpha * self._terms(penalised).sum(axis=tuple(range(1, points.ndim)))
        return values

    def _of_penalised(self, derivative: Floats) -> Floats:
        derivative = self.alpha * derivative
        if self.free_intercept:
            derivative[-1] = 0
        return derivative


@dataclass(frozen=True)
class L2(_SumOfEntries):
    """alpha/2 * ||w||^2; with ``free_intercept`` the last row of w is not penalised."""

    concavity = 0.0
    jerk = 0.0

    @property
    def smoothness(self) -> float:
        return self.alpha

    def _terms(self, w: Floats) -> Floats:
        return np.square(w) / 2

    def gradient(self, w: Floats) -> Floats:
        return self._of_penalised(w)

    def curvature(self, w: Floats) -> Floats:
        return self._of_penalised(np.ones_like(w))


@dataclass(frozen=True)
class WeightDecay:
    """alpha/2 * ||w||^2 for a flat vector of weights, without the entries from ``a`` to ``b`` for each (a, b) of
    ``free``: the biases of a network.
    """

    alpha: float
    free: tuple[tuple[int, int], ...] = ()

    concavity = 0.0
    jerk = 0.0

    def __post_init__(self) -> None:
        _require_alpha(self.alpha)

    @property
    def smoothness(self) -> float:
        return self.alpha

    def divided(self, by: float) -> Self:
        return replace(self, alpha=self.alpha / by)

    def value(self, w: Floats) -> float:
        ends = [0, *(end for part in self.free for end in part), len(w)]
        # not by dot: the order of its sum depends on the number of threads
        squares = (float(np.einsum("i,i->", w[a:b], w[a:b])) for a, b in zip(ends[::2], ends[1::2], strict=True))
        return self.alpha / 2 * math.fsum(squares)

    def values(self, points: Floats) -> Floats:
        return np.array([self.value(w) for w in points])

    def gradient(self, w: Floats) -> Floats:
        return self._of_penalised(self.alpha * w)

    def curvature(self, w: Floats) -> Floats:
        return self._of_penalised(np.full(w.shape, self.alpha))

    def _of_penalised(self, derivative: Floats) -> Floats:
        for a, b in self.free:
            derivative[a:b] = 0
        return derivative


@dataclass(frozen=True)
class Bounded(_SumOfEntries):
    """alpha * sum w^2/(1 + w^2), which is not convex.

    With u = w^2 its derivatives are 2w/(1+u)^2, (2-6u)/(1+u)^3 and 24w(u-1)/(1+u)^4, times alpha: the second lies in
    [-1/2, 2], the third within 4.6686 of 0.
    """

    @property
    def smoothness(self) -> float:
        return 2 * self.alpha

    @property
    def concavity(self) -> float:
        return self.alpha / 2

    @property
    def jerk(self) -> float:
        return 4.66856 * self.alpha

    def _terms(self, w: Floats) -> Floats:
        return 1 - 1 / (1 + np.square(w))

    def gradient(self, w: Floats) -> Floats:
        return self._of_penalised(2 * w / np.square(1 + np.square(w)))

    def curvature(self, w: Floats) -> Floats:
        one = 1 + np.square(w)
        return self._of_penalised((8 - 6 * one) / one**3)


def stable_step(step: float, penalty: Penalty) -> float:
    """Return the length of a plain step, shorter where steps along the penalty would grow without end.

    A parameter is checked against ``alpha`` beforehand. The penalty of rows that weigh little is heavier than that.
    """
    return step if step * penalty.smoothness <= 2 else 1 / penalty.smoothness
