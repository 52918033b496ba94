"""The hidden layers of a network as numbers, and how a row becomes its inputs.

Numbers inside of a network are *signals*: whole numbers, ``ONE`` of which is 1. Sums of their products with weights are
exact in double precision, in whatever order they are added (docs/guarantees.md, 3.8). So a form that rounds where the
network rounds has the same scores, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..data import RowMap
from ..data.grid import UNIT_BITS
from ..mechanisms.samplers import Floats, Integers
from ..networks import Convolution, Dense, Layer, MaxPooling, Network
from ..networks.signals import ONE, REACH

LEAST = 2.0**-20
"""Where no entry of a row is larger, all of its signals are 0."""

_ENDS = {"relu": (0.0, REACH), "tanh": (-ONE, ONE), "hard-tanh": (-ONE, ONE), "identity": (-REACH, REACH)}


@dataclass(frozen=True, eq=False)
class ColumnInputs:
    """How the entries of a row, clipped and with the origin taken off, become signals.

    Entry x of column j is counted in steps: ``trunc(x / width[j] * steps[j]) - centre[j]``. Its signal is
    ``rint(factor * steps)``, clipped to +-REACH; ``factor`` is a power of two.
    """

    width: Floats
    steps: Floats
    centre: Floats
    factor: float


@dataclass(frozen=True, eq=False)
class RowInputs:
    """The same where neither bounds nor ranges tell how large entries are: each row has a step of its own.

    It is 2^-18 of the smallest power of two that is no smaller than any of its entries, and than ``LEAST``. Entries
    become multiples of it, ``trunc(x / step)``. Rows longer than the norm, if there is one, were scaled down to it.
    """


Inputs: TypeAlias = ColumnInputs | RowInputs


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """Sums of products, the largest of some of them, an activation, and rounding to signals.

    Parameters
    ----------
    weights : ndarray of shape (n_seen, n_units)
    bias : ndarray of shape (n_units,)
        In steps of signals: ``ONE`` times the bias of the network.
    activation : {"relu", "tanh", "hard-tanh", "identity"}
    places : ndarray of shape (n_places, n_seen) or None
        Of a convolution: which inputs each place sees. All places have the same weights, and there is a sum for each
        place and unit, in this order. None: all inputs are seen at once.
    rivals : ndarray of shape (n_outputs, n_rivals) or None
        Of pooling: the sums of which only the largest goes on.
    """

    weights: Floats
    bias: Floats
    activation: str
    places: Integers | None = None
    rivals: Integers | None = None

    @property
    def n_outputs(self) -> int:
        """How many signals the layer passes on."""
        n_sums = len(self.bias) * (1 if self.places is None else len(self.places))
        return n_sums if self.rivals is None else len(self.rivals)

    @property
    def ends(self) -> tuple[float, float]:
        """What the activation clips to. In between it is the identity, but for "tanh"."""
        return _ENDS[self.activation]


def inputs_of(how: RowMap) -> Inputs:
    """Return how rows become signals."""
    if how.grid is None:
        return RowInputs()
    return ColumnInputs(how.grid.columns.width, how.grid.steps, how.grid.offset, how.grid.scale * ONE * 2.0**-UNIT_BITS)


def hidden_of(network: Network, weights: Floats) -> Iterator[HiddenLayer]:
    """Yield the hidden layers of a network with these weights; raise ValueError for a layer that no form has."""
    for stage, W in zip(network.stages[:-1], network.split(weights)[:-1], strict=True):
        rivals = None
        for layer in stage.behind:
            nearest = _rivals(layer)
            rivals = nearest if rivals is None else rivals[nearest].reshape(len(nearest), -1)
        yield HiddenLayer(W[:-1], W[-1] * ONE, network.activation, _places(stage.layer), rivals)


def _places(layer: Layer) -> Integers | None:
    """Return which inputs are seen at each place of a layer, in the order of its weights; None: all at once."""
    if type(layer) is Dense:
        return None
    if type(layer) is not Convolution:
        raise ValueError(_unknown(layer))
    windows = sliding_window_view(_numbered(layer.inputs), (layer.size, layer.size), axis=(0, 1))
    places: Integers = windows.transpose(0, 1, 3, 4, 2).reshape(-1, layer.fan_in)
    return places


def _rivals(layer: Layer) -> Integers:
    """Return which of the values before pooling compete for each value behind it."""
    if type(layer) is not MaxPooling:
        raise ValueError(_unknown(layer))
    k, (height, width, channels) = layer.size, layer.outputs
    blocks = _numbered(layer.inputs)[: height * k, : width * k].reshape(height, k, width, k, channels)
    rivals: Integers = blocks.transpose(0, 2, 4, 1, 3).reshape(-1, k * k)
    return rivals


def _numbered(shape: tuple[int, ...]) -> Any:
    return np.arange(math.prod(shape)).reshape(shape)


def _unknown(layer: Layer) -> str:
    return (
        f"the network has a layer of the kind {type(layer).__name__}, which exported forms do not have: take the model "
        "away as a pickle or with skops"
    )
