"""Probabilities that mean what they say, after any solver: a part of the budget is held back for one more look.

Noise makes scores too large, the more the less precise a fit is, and a linear model may be wrong about some scores even
without noise. Two classes: one count of rows by label and score, through which a curve is drawn. More classes: one
count of the classes, and one private choice of a factor of all scores.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from ..calibration import Curve, Known, Temperature, curve
from ..data import Facts
from ..data.private import PrivateData
from ..losses import Logistic, Loss, Softmax
from ..mechanisms import ArgMin, Gaussian
from ..mechanisms.samplers import Floats
from ..objectives import LinearObjective
from ..privacy import BudgetExhausted, Currency, ObjectiveDP
from ..queries import ClassCounts
from .precision import deviation, gradient_precision
from .solver import Diagnostics, Iterates, Solver

# The part of the budget that is held back: the smallest part from precision 1,000 on, and more below it
SHARE, PRECISE, LARGEST, LARGEST_OTHERWISE = 0.02, 1_000.0, 0.1, 0.04

NEAR, FARTHEST = 4.0, 40.0  # cells are even up to about here; and where the last ones begin
WIDTHS, FINEST = ((40.0, 0.5), (300.0, 0.25)), 0.12  # of cells, in units of NEAR, below a precision of counts
# What a score of 1 stands for without noise, in log-odds: of the logistic loss, and of others with two classes or more
NATURAL, OF_HINGE, OF_HINGES = 1.0, 1.7, 2.5

FACTORS = np.array([0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5])
USUAL, DOUBT = 0.7, 1.0  # the factor that is usual, and how far its logarithm is from that
_APART = 1e-6  # of scores, at the least
CLASSES = 0.25  # of what is held back, for the count of the classes
LOSS, LARGEST_LOSS, GROWTH = 2.0, 9.0, 50.0  # where losses are clipped, above that of equal shares


@dataclass(frozen=True)
class Calibrated(Solver):
    """Any solver, and then the calibration of its weights. The intercept moves so that predictions stay the likeliest.

    Parameters
    ----------
    solver : Solver
        What finds the weights, with all of the budget but what is held back: 2 %, and up to 10 % where that is so
        little that it would tell nothing. With several classes, and beside perturbed minima, which need most of the
        budget, it is up to 4 %.
    """

    solver: Solver

    @property
    def demand(self) -> float:
        return self.solver.demand

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        self.solver.require(loss, facts, currency)

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        precision = gradient_precision(data, 1)
        several, beside_minima = objective.loss.n_classes is not None, isinstance(data.currency, ObjectiveDP)
        most = LARGEST_OTHERWISE if several or beside_minima else LARGEST
        share = min(max(PRECISE / precision, 1.0) * SHARE, most)
        price, known = data.portion(1 / share), None
        last: Floats | None = None
        with data.holding_back(price):
            iterates = self.solver.iterates(data, objective)
            try:
                while True:
                    last = next(iterates)
                    try:
                        yield last
                    except BudgetExhausted as error:  # a callback ends the run: what it has found is calibrated
                        iterates.throw(error)
            except StopIteration as end:
                known = end.value
            except BudgetExhausted:
                if last is None:
                    raise
        if last is None:
            return None
        find = by_factor if several else by_curve
        w, calibration = find(last, data, objective, price, precision)
        known = known or Diagnostics()
        with suppress(BudgetExhausted):  # nothing is left to do
            yield w
        return replace(known, attributes={**known.attributes, "calibration": calibration})


def by_curve(
    w: Floats, data: PrivateData, objective: LinearObjective, price: float, precision: float
) -> tuple[Floats, Curve]:
    """Return the weights with the intercept moved, and the calibration, for two classes."""
    mechanism = Gaussian.priced(data.share(of=price), data.currency)
    edges = edges_at(precision * math.sqrt(price / data.budget.limit))
    query = objective.outcomes(w, edges)
    counts = data.release(data.measure(query), mechanism)
    noise = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit
    natural = NATURAL if isinstance(objective.loss, Logistic) else OF_HINGE
    fixed = data.n_parameters == data.n_features
    return curved(w, counts, edges, Known(noise, data.n_rows, precision, len(w), natural, fixed))


def edges_at(precision: float) -> Floats:
    """Return the ends of cells for scores, the finer the more precise counts are."""
    width = next((width for below, width in WIDTHS if precision < below), FINEST)
    size = math.ceil(math.asinh(FARTHEST / NEAR) / width)
    edges: Floats = NEAR * np.sinh(width * np.arange(-size, size + 1))
    return edges


def curved(w: Floats, counts: Floats, edges: Floats, known: Known) -> tuple[Floats, Curve]:
    """Return the weights moved so that the score 0 has even odds, and the curve for their scores.

    The less certain it is on which side of even odds the score 0 was, the less it is moved (James & Stein 1961).
    """
    scores, log_odds, uncertain = curve(counts, edges, known)
    slopes = np.diff(log_odds)[[0, -1]] / np.diff(scores)[[0, -1]]
    even = float(np.interp(0.0, log_odds, scores))
    if log_odds[0] >= 0:
        even = scores[0] - log_odds[0] / slopes[0]
    elif log_odds[-1] <= 0:
        even = scores[-1] - log_odds[-1] / slopes[1]
    at = 0.0 if known.fixed else max(0.0, 1 - uncertain) * even
    first, last = min(scores[0], at, even) - 1, max(scores[-1], at, even) + 1
    ends = log_odds[0] + slopes[0] * (first - scores[0]), log_odds[-1] + slopes[1] * (last - scores[-1])
    before, after = (scores < at - _APART) & (log_odds < 0), (scores > at + _APART) & (log_odds > 0)
    points = np.concatenate([[first], scores[before], [at], scores[after], [last]]) - at
    values = np.concatenate([ends[:1], log_odds[before], [0.0], log_odds[after], ends[1:]])
    w = w.copy()
    if not known.fixed:
        w[-1] -= at
    return w, Curve(points, values, edges - at, counts, known.noise)


def by_factor(
    w: Floats, data: PrivateData, objective: LinearObjective, price: float, precision: float
) -> tuple[Floats, Temperature]:
    """Return the weights with intercepts moved, and the calibration, for several classes.

    Between the natural factor and 0 lies the geometric mean of what the model says and of the shares of the classes.
    """
    n_classes = w.shape[1]
    mechanism = Gaussian.priced(data.share(of=CLASSES * price), data.currency)
    query = ClassCounts(n_classes)
    counts = data.release(data.measure(query), mechanism)
    noise = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit
    natural, shares = natural_of_several(objective.loss), shares_of(counts, noise, data.n_rows)
    known = precision * math.sqrt((1 - CLASSES) * price / data.budget.limit)
    clip = math.log(n_classes) + min(LARGEST_LOSS, LOSS + known / GROWTH)
    start = towards(shares, w, fixed=data.n_parameters == data.n_features)
    losses = replace(objective, loss=Softmax(n_classes)).losses_along(
        start, w - start / natural, natural * FACTORS, clip=clip
    )
    choice = ArgMin.priced(data.share(of=(1 - CLASSES) * price), data.currency)
    # the choice counts as one of these, each as likely beforehand as its distance from the usual one says
    surprise = np.square(np.log(FACTORS / USUAL) / DOUBT) / 2 * (data.adjacency.parts * clip / choice.eta)
    factor = float(natural * FACTORS[data.release(data.measure(losses) + surprise, choice)])
    return w + (1 / factor - 1 / natural) * start, Temperature(factor, shares)


def natural_of_several(loss: Loss) -> float:
    """Return the factor of scores of several classes that is usual without noise."""
    return NATURAL if isinstance(loss, Softmax) else OF_HINGES


def shares_of(counts: Floats, noise: float, n_rows: float) -> Floats:
    """Return the shares of the classes, the nearer to even ones the less the noisy counts tell (James & Stein 1961)."""
    even = n_rows / len(counts)
    apart = counts - counts.mean()
    kept = max(0.0, 1 - (len(counts) - 1) * noise**2 / max(float(apart @ apart), 1e-300))
    rows = np.maximum(even + kept * apart, max(noise / 2, 0.5))
    shares: Floats = rows / rows.sum()
    return shares


def towards(shares: Floats, w: Floats, *, fixed: bool) -> Floats:
    """Return the weights under which every row has these shares; 0 where there is no intercept."""
    start = np.zeros_like(w)
    if not fixed:
        start[-1] = np.log(shares)
    return start
