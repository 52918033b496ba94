"""Probabilities that mean what they say: one more release, and all scores multiplied by one factor.

Noise makes scores too large, the more the less precise a fit is. How much too large, a count of rows by label and score
tells.
"""

from dataclasses import dataclass, replace

import numpy as np

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
_NORMS = 0.15  # how much the norms of rows differ, by their logarithm
# The factor before anything was counted, and the deviation of its logarithm: with two classes, and with more
_USUAL, _USUAL_OF_SEVERAL = (0.65, 0.35), (1.0, 0.5)


@dataclass(frozen=True)
class Shrunk(Solver):
    """Descent, and then one count of rows by label and score. It gives the factor that makes probabilities right.

    Parameters
    ----------
    descent : GradientDescent
        What finds the weights, with all but what the count costs.
    """

    descent: GradientDescent

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        last = objective.start()
        with data.holding_back(SHARE * data.budget.limit):
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
        spread = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit
        multiple = factor(counts, spread, objective.loss.n_classes)
        yield last * multiple
        curvature = curvature_of(counts / data.n_rows, noise.clip, objective.loss.n_classes)
        return Diagnostics({"descent_noise": replace(noise, curvature=curvature, factor=multiple)})


def rivals(n_classes: int | None, centres: Floats = _CENTRES) -> Floats:
    """Return for each cell the logarithm of how many other classes compete with the one that is predicted.

    A factor c turns its log-odds s into about c (s + r) - r, where r is the entropy of the other classes, in proportion
    to their probabilities: exactly if they are equally likely, or if only one is, and to first order always. r is at
    most log(K - 1), and at least -s, since none of them is likelier. The middle is near what rows have. With two
    classes, 0.
    """
    if n_classes is None:
        return np.zeros(len(centres))
    most = np.log(n_classes - 1)
    others: Floats = (np.clip(-centres, 0, most) + most) / 2
    return others


def factor(counts: Floats, noise: float, n_classes: int | None, centres: Floats = _CENTRES) -> float:
    """Return the factor of the scores under which the counted rows have the smallest logistic loss, or nearly so.

    The less the noise lets us see, the nearer it is to a usual one.
    """
    others, (likely, doubt) = rivals(n_classes, centres), _USUAL if n_classes is None else _USUAL_OF_SEVERAL
    leads = centres + others
    scores = np.multiply.outer(_TRIED, leads) - others
    loss = np.logaddexp(0, scores) @ counts[0] + np.logaddexp(0, -scores) @ counts[1]
    at = likely * leads
    sure = 1 / (1 + np.exp(others - at))
    curvature = float(np.maximum(counts.sum(axis=0), 0) @ (at**2 * sure * (1 - sure)))  # by the logarithm of the factor
    error = noise**2 * float(at**2 @ (sure**2 + (1 - sure) ** 2))  # the variance of the slope
    usual = (np.log(_TRIED / likely) / doubt) ** 2 / 2
    return float(_TRIED[np.argmin(loss * curvature + usual * error)]) if curvature > 0 else likely


def curvature_of(shares: Floats, clip: float, n_classes: int | None) -> float:
    """Return the mean second derivative of the logistic loss over the counted rows, those that are clipped left out.

    With several classes it is that along differences of scores, if all classes but the likeliest are equally likely.
    """
    sure = 1 / (1 + np.exp(-_CENTRES))
    residual = np.array([sure, 1 - sure])
    if n_classes is None:
        second = sure * (1 - sure)
    else:
        second = (sure * (1 - sure) + (1 - sure) * (1 - (1 - sure) / (n_classes - 1))) / (n_classes - 1)
    full = 1 / (1 + (residual / clip) ** (1 / _NORMS))  # the part of rows that are not clipped
    return max(float((shares * full * second).sum()), 0.0)
