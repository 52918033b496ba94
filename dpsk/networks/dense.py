"""Layers in which every output is a sum of all inputs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dgemm

from ..data.rows import Matrix
from ..data.weights import joined, products
from ..mechanisms.samplers import Floats, Integers
from .layer import RowGradients, Weighted
from .signals import ONE, SIGNAL_STEP, SLOPE_STEP, squared_norms


@dataclass(frozen=True)
class Dense(Weighted):
    """``n_outputs`` sums of all inputs and a bias."""

    inputs: tuple[int, ...]
    n_outputs: int

    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.inputs) != 1 or self.inputs[0] < 1 or self.n_outputs < 1:
            raise ValueError(f"inputs={self.inputs!r} of a dense layer must be (n,), and n_outputs at least 1")

    @property
    def outputs(self) -> tuple[int, ...]:
        return (self.n_outputs,)

    @property
    def weight_shape(self) -> tuple[int, int]:
        return self.inputs[0] + 1, self.n_outputs

    def forward(self, signals: Matrix, W: Floats) -> Floats:
        sums: Floats = signals @ W[:-1]
        sums += W[-1] * ONE
        return sums

    def backward(self, slopes: Floats, W: Floats) -> Floats:
        sums: Floats = slopes * W[:-1, 0] if self.n_outputs == 1 else slopes @ W[:-1].T
        return sums

    def row_gradients(self, signals: Matrix, slopes: Floats) -> RowGradients:
        return _DenseGradients(signals, slopes)


class _DenseGradients(RowGradients):
    """Gradients that are never formed: that of row i is ``(signals[i], 1) (x) slopes[i]``."""

    def __init__(self, signals: Matrix, slopes: Floats) -> None:
        self._signals, self._slopes = signals, slopes

    @property
    def squared_norms(self) -> Floats:
        step = SIGNAL_STEP * SLOPE_STEP
        norms: Floats = (squared_norms(self._signals) + ONE * ONE) * squared_norms(self._slopes) * (step * step)
        return norms

    def total(self, factors: Floats, unit: float, weights: Floats | None) -> Integers:
        shape = self._signals.shape[1] + 1, self._slopes.shape[1]
        sums = np.zeros(shape if weights is None else (2, *shape))
        self.add_to(sums, factors, unit, weights)
        whole: Integers = sums.astype(np.int64)
        return whole if weights is None else joined(*whole)

    def add_to(self, sums: Floats, factors: Floats, unit: float, weights: Floats | None) -> None:
        residuals = self._slopes * (factors * (SLOPE_STEP / (unit / SIGNAL_STEP)))[:, None]
        np.trunc(residuals, out=residuals)
        if weights is None:
            self._add(sums, residuals)
        else:
            for part, residuals_part in zip(sums, products(residuals, weights), strict=True):
                self._add(part, residuals_part)

    def _add(self, sums: Floats, residuals: Floats) -> None:
        """Add the product of signals and residuals to ``sums``, which lie row by row: as columns of its transpose."""
        sums[-1] += ONE * residuals.sum(axis=0)
        if sp.issparse(self._signals):
            sums[:-1] += self._signals.T @ residuals
            return
        whole = dgemm(1.0, residuals.T, self._signals.T, 1.0, sums[:-1].T, trans_b=True, overwrite_c=True)
        if not np.may_share_memory(whole, sums):  # where they do not lie row by row
            sums[:-1] = whole.T
