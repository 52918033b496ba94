"""Probabilities that mean what they say: one more release, and all scores multiplied by one factor.

Noise makes scores too large, the more the less precise a fit is. How much too large, a count of rows by label and score
tells.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, ndtr

from ..data.private import PrivateData
from ..mechanisms import Gaussian
from ..mechanisms.samplers import Floats
from ..objectives import LinearObjective
from .descent_noise import DescentNoise
from .gradient_descent import GradientDescent
from .precision import deviation
from .solver import Diagnostics, Iterates, Solver

SHARE = 0.02  # of the budget, for the count

_ENDS = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
EDGES = np.concatenate([[-8.0], -_ENDS[::-1], [0.0], _ENDS, [8.0]])
_CENTRES = (EDGES[1:] + EDGES[:-1]) / 2
_TRIED = np.geomspace(0.05, 2.0, 75)  # factors
_NORMS = 0.25  # the usual deviation of the logarithm of the norms of rows
_USUAL, _SPREAD = 0.65, 0.35  # the factor before anything was counted, and the deviation of its logarithm


@dataclass(frozen=True)
class Calibrated(Solver):
    """Descent, and then one count of rows by label and score. It gives the factor that makes probabilities right.

    Parameters
    ----------
    descent : GradientDescent
        What finds the weights; it has to spare what the count costs.
    """

    descent: GradientDescent

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        last = objective.start()
        descent = self.descent.iterates(data, objective)
        while True:
            try:
                last = next(descent)
            except StopIteration as end:
                noise: DescentNoise = end.value.attributes["descent_noise"]
                break
            yield last
        query = objective.outcomes(last, EDGES)
        mechanism = Gaussian.priced(data.share(), data.currency)
        counts = data.release(data.measure(query), mechanism)
        multiple = factor(counts, deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit)
        yield last * multiple
        curvature = curvature_of(counts / data.n_rows, noise.clip, objective.loss.n_classes)
        return Diagnostics({"descent_noise": replace(noise, curvature=curvature, factor=multiple)})


def factor(counts: Floats, noise: float) -> float:
    """Return the factor of the scores under which the counted rows have the smallest logistic loss, or nearly so.

    The less the noise lets us see, the nearer it is to a usual one.
    """
    scores = np.multiply.outer(_TRIED, _CENTRES)
    loss = np.logaddexp(0, scores) @ counts[0] + np.logaddexp(0, -scores) @ counts[1]
    at = _USUAL * _CENTRES
    sure = expit(at)
    curvature = float(np.maximum(counts.sum(axis=0), 0) @ (at**2 * sure * (1 - sure)))  # by the logarithm of the factor
    error = noise**2 * float(at**2 @ (sure**2 + (1 - sure) ** 2))  # the variance of the slope
    usual = (np.log(_TRIED / _USUAL) / _SPREAD) ** 2 / 2
    return float(_TRIED[np.argmin(loss * curvature + usual * error)]) if curvature > 0 else _USUAL


def curvature_of(shares: Floats, clip: float, n_classes: int | None) -> float:
    """Return the mean second derivative of the logistic loss over the counted rows, those that are clipped left out.

    With several classes it is that along differences of scores, if all classes but the likeliest are equally likely.
    """
    sure = expit(_CENTRES)
    residual = np.array([sure, 1 - sure])
    if n_classes is None:
        second = sure * (1 - sure)
    else:
        second = (sure * (1 - sure) + (1 - sure) * (1 - (1 - sure) / (n_classes - 1))) / (n_classes - 1)
    full = ndtr(np.log(clip / residual) / _NORMS)  # the part of rows that are not clipped
    return max(float((shares * full * second).sum()), 0.0)
