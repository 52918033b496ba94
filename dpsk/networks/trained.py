"""A trained network: the public map of rows onto their grid, the architecture and the released weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data import RowMap, rows_on_grid
from ..data.rows import Matrix
from ..mechanisms.samplers import Floats
from .dense import Dense
from .network import Network


@dataclass(frozen=True, eq=False, repr=False)
class TrainedNetwork:
    """A network as a fit has released it. It holds public numbers only.

    Parameters
    ----------
    network : Network
        The architecture.
    weights : ndarray of shape (network.n_weights,)
        The weights of all layers, on their grids.
    how : RowMap
        How rows of numbers become signals. Of a raw table these are its features.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 3.8 and 13.1)
    The scores of a row depend on that row and on these numbers alone, bit for bit.
    """

    network: Network
    weights: Floats
    how: RowMap

    def __reduce__(self) -> Any:
        """Return what is pickled: public numbers, and nothing that was computed from them."""
        network = Network(self.network.layers, self.network.activation)
        return type(self), (network, self.weights, replace(self.how))

    def scores(self, X: Matrix) -> Floats:
        """Return the scores of rows of finite numbers, dense or sparse: shape (n, n_outputs)."""
        parts = [self.network.scores(chunk, self.weights) for chunk in rows_on_grid(X, self.how)]
        scores: Floats = np.concatenate(parts) if parts else np.empty((0, self.network.n_outputs))
        return scores.reshape(-1, self.network.n_outputs)

    @classmethod
    def of(cls, network: Network, w: Floats, how: RowMap) -> TrainedNetwork:
        """Return the network with weights of a solver, without what the map of rows has for fits alone."""
        how = replace(how, features=None, class_shares=None, weight_bound=None)
        return cls(network, network.on_grid(w), how)

    @property
    def matrices(self) -> list[Floats]:
        """The weights layer by layer, each of shape (fan_in + 1, outputs) with the biases in its last row."""
        return list(self.network.split(self.weights))

    @property
    def matrices_for_columns(self) -> list[Floats]:
        """The same with a first layer for columns in the user's units; that of a convolution is for signals."""
        first, *others = self.matrices
        if isinstance(self.network.layers[0], Dense):
            coef, intercept = replace(self.how, fit_intercept=True).in_user_units(first)
            first = np.vstack([coef.T, intercept])
        return [first, *others]

    def __repr__(self) -> str:
        shapes = ["x".join(map(str, self.network.layers[0].inputs))]
        for layer in self.network.layers:
            shapes.append(f"{type(layer).__name__} {'x'.join(map(str, layer.outputs))}")
        return f"TrainedNetwork({' -> '.join(shapes)}, {self.network.activation}, {self.network.n_weights} weights)"
