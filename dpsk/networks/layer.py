"""Layers of a network: frozen public numbers, and exact maps of signals and slopes."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ..mechanisms.samplers import Floats, Integers
from .signals import largest_sums, on_weight_grid


class Layer(ABC):
    """A map of one row's input to one row's output. Subclasses are frozen dataclasses of public numbers."""

    inputs: tuple[int, ...]
    """The shape of one row's input: ``(784,)``, or ``(28, 28, 1)``, channels last."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[int, ...]:
        """The shape of one row's output."""

    @property
    def weight_shape(self) -> tuple[int, int] | None:
        """``(fan_in + 1, number of output columns or channels)``, biases in the last row; None without weights."""
        return None

    @property
    def width(self) -> int:
        """The larger of the numbers of inputs and outputs of a row. Blocks of wide layers have fewer rows."""
        return max(math.prod(self.inputs), math.prod(self.outputs))


class RowGradients(ABC):
    """The gradients of some rows by the weights of one layer. They are valid until the layer computes others."""

    @property
    @abstractmethod
    def squared_norms(self) -> Floats:
        """The squared l2 norm of each row's gradient, in values (not steps): the same bits in any company."""

    @abstractmethod
    def total(self, factors: Floats, unit: float, weights: Floats | None) -> Integers:
        """Return the sum over rows of ``factors[i] * gradient_i / unit``, each truncated to integers, exactly.

        No row's part is longer than ``factors[i] * gradient_i / unit``. The shape is ``weight_shape``. Where rows have
        weights, each part is multiplied by its row's, and the sum is in two parts as :func:`dpsk.data.weights.joined`.
        """

    def add_to(self, sums: Floats, factors: Floats, unit: float, weights: Floats | None) -> None:
        """Add :meth:`total` to ``sums``, whose entries stay below 2^53."""
        sums += self.total(factors, unit, weights)


class Weighted(Layer):
    """A layer with weights. Its products are sums of integers times weights on their grid, and exact.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 3.8)
    What a row's output, slopes and gradient are depends on that row and on public numbers alone, bit for bit.
    """

    takes_sparse: ClassVar[bool] = False
    """Whether signals may also be a CSR matrix, which the first layer gets where most columns of rows are zeros."""

    @property
    @abstractmethod
    def weight_shape(self) -> tuple[int, int]: ...

    @property
    def fan_in(self) -> int:
        """How many signals an output is a sum of, without the constant."""
        return self.weight_shape[0] - 1

    @property
    def fan_out(self) -> int:
        """How many outputs a signal goes to; for initial weights, so that it need not be exact."""
        return self.weight_shape[1]

    def largest_sums(self, W: Floats) -> float:
        """Return the largest l1 norm of the weights in one sum, forward or backward."""
        return largest_sums(W)

    def on_grid(self, W: Floats) -> Floats:
        """Return weights rounded to the grid on which products are exact. Those that lie on it are not changed."""
        return on_weight_grid(W, self.largest_sums(W))

    @abstractmethod
    def forward(self, signals: Floats, W: Floats) -> Floats:
        """Return ``(n, *outputs)`` sums in steps of signals, exact and not rounded, of ``(n, *inputs)`` signals."""

    @abstractmethod
    def backward(self, slopes: Floats, W: Floats) -> Floats:
        """Return ``(n, *inputs)`` sums in steps of slopes, exact and not rounded, of ``(n, *outputs)`` slopes."""

    @abstractmethod
    def row_gradients(self, signals: Floats, slopes: Floats) -> RowGradients:
        """Return the gradients of rows with these ``(n, *inputs)`` signals and ``(n, *outputs)`` slopes."""


class Unweighted(Layer):
    """A layer without weights that keeps some of its inputs, as pooling does. It stands behind a weighted one."""

    @abstractmethod
    def forward(self, values: Floats) -> tuple[Floats, Any]:
        """Return ``(n, *outputs)`` values, and what :meth:`backward` has to know of these rows."""

    @abstractmethod
    def backward(self, slopes: Floats, known: Any) -> Floats:
        """Return ``(n, *inputs)`` slopes, integers again, of ``(n, *outputs)`` slopes."""
