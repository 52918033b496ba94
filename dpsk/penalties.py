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

    def value(self, w: Floats) -> float: ...

    def gradient(self, w: Floats) -> Floats: ...


@dataclass(frozen=True)
class L2:
    """alpha/2 * ||w||^2; with ``free_intercept`` the last row of w is not penalised."""

    alpha: float
    free_intercept: bool = False

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and math.isfinite(self.alpha)):
            raise ValueError(f"alpha={self.alpha!r} must be a finite number >= 0")

    def _penalised(self, w: Floats) -> Floats:
        if not self.free_intercept:
            return w
        w = w.copy()
        w[-1] = 0
        return w

    def value(self, w: Floats) -> float:
        return self.alpha / 2 * float(np.sum(np.square(self._penalised(w))))

    def gradient(self, w: Floats) -> Floats:
        return self.alpha * self._penalised(w)
