"""Penalties: public functions of the weights, added to the mean loss. They cost no privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["L2", "Penalty"]

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


@dataclass(frozen=True)
class L2:
    """alpha/2 * ||w||^2; with ``free_intercept`` the last row of w is not penalised."""

    alpha: float
    free_intercept: bool = False

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and math.isfinite(self.alpha)):
            raise ValueError(f"alpha={self.alpha!r} must be a finite number >= 0")

    @property
    def smoothness(self) -> float:
        return self.alpha

    def value(self, w: Floats) -> float:
        return float(self.values(w[None])[0])

    def values(self, points: Floats) -> Floats:
        penalised = points[:, : points.shape[1] - self.free_intercept]
        values: Floats = self.alpha / 2 * np.square(penalised).sum(axis=tuple(range(1, points.ndim)))
        return values

    def gradient(self, w: Floats) -> Floats:
        gradient = self.alpha * w
        if self.free_intercept:
            gradient[-1] = 0
        return gradient
