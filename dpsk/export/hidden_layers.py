"""The hidden layers of a network as numbers, and how a row becomes its inputs.

Numbers inside of a network are *signals*: whole numbers, ``ONE`` of which is 1. Sums of their products with weights are
exact in double precision, in whatever order they are added (docs/guarantees.md, 3.8). So a form that rounds where the
network rounds has the same scores, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..mechanisms.samplers import Floats, Integers

ONE = 2.0**16
"""The signal that is 1."""

REACH = 2.0**22
"""The largest signal: what lies beyond +-64 counts as that."""

_ENDS = {"relu": (0.0, REACH), "tanh": (-ONE, ONE), "hard-tanh": (-ONE, ONE), "identity": (-REACH, REACH)}


@dataclass(frozen=True, eq=False)
class Inputs:
    """How the entries of a row, clipped and with the origin taken off, become signals.

    Entry x of column j is counted in units: ``rint(x / width[j] * steps[j]) - centre[j]``. Its signal is
    ``rint(units * factor)``, clipped to +-REACH; ``factor`` is a power of two.
    """

    width: Floats
    steps: Floats
    centre: Floats
    factor: float


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
