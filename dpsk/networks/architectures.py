"""Architectures: networks before the numbers of columns and of classes are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from .network import Network


class Architecture(ABC):
    """A network before the data are known. Subclasses are frozen dataclasses of public numbers."""

    @abstractmethod
    def on(self, n_inputs: int, n_outputs: int) -> Network:
        """Return the network for rows of so many columns, with so many scores (1 for two classes).

        Raise ValueError if it is not for so many columns.
        """


@dataclass(frozen=True)
class Perceptron(Architecture):
    """Dense layers of these sizes, and one of scores behind them."""

    hidden_layer_sizes: tuple[int, ...]
    activation: str = "relu"

    def on(self, n_inputs: int, n_outputs: int) -> Network:
        return Network.dense(n_inputs, self.hidden_layer_sizes, n_outputs, self.activation)
