"""What solvers measure first: a typical norm of rows, and how precise a gradient can be."""

import math

import numpy as np

from ..data import PrivateData
from ..mechanisms import Gaussian, Laplace
from ..mechanisms.mechanism import Sensitivity
from ..privacy import PureDP
from ..queries import RowNorms

NORM_SHARE = 0.01
PURE_SHARE = 0.4


def share_of_noise(data: PrivateData, share: float) -> Gaussian | Laplace:
    """Return the noise that a share of the budget buys, of mu squared or rho: for that of epsilon, less of its root."""
    if isinstance(data.currency, PureDP):
        return Laplace.priced(data.portion(1 / (PURE_SHARE * math.sqrt(share))), data.currency)
    return Gaussian.priced(data.portion(1 / share), data.currency)


def deviation(mechanism: Gaussian | Laplace, sensitivity: Sensitivity) -> float:
    """Return the standard deviation of the noise that a release will have, in steps of its grid."""
    if isinstance(mechanism, Laplace):
        return math.sqrt(2) * sensitivity.l1 / mechanism.epsilon
    return sensitivity.l2 / mechanism.mu


def typical_norm(data: PrivateData) -> float:
    """Return a norm near most rows' norms: the noisy mode of their distribution, an octave wide at half height."""
    counts = data.release(data.measure(RowNorms()), share_of_noise(data, NORM_SHARE))
    tent = np.maximum(0, 1 - np.abs(np.arange(-8, 9)) / 8)
    near = np.convolve(counts, tent, mode="same")
    low, high = np.searchsorted(RowNorms.norms, data.norm_range)  # where noise is all there is, it stays plausible
    return float(RowNorms.norms[low : high + 1][np.argmax(near[low : high + 1])])


def gradient_precision(data: PrivateData, weights: int) -> float:
    """Return how many typical gradients outweigh the noise of all weights, if what is left bought a single one."""
    mu = Gaussian.priced(data.remaining, data.currency).mu
    return mu * data.n_rows / math.sqrt(weights) / data.adjacency.parts
