"""ROC and precision-recall curves of two classes with bands, and the areas below them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from ..mechanisms.samplers import Floats
from .evidence import Estimate, estimate
from .inversion import Noise, Of, Statistic, interval, normal_tails
from .rates import Rates, ratio


@dataclass(frozen=True, eq=False)
class RocCurve:
    """A ROC curve at the edges between bins, from the highest threshold to the lowest.

    All rates of the population lie in their bands together, as often as ``confidence`` says. ``bands`` hold lower and
    upper ends in their last axis.
    """

    thresholds: Floats
    fpr: Floats
    tpr: Floats
    fpr_band: Floats
    tpr_band: Floats
    confidence: float


@dataclass(frozen=True, eq=False)
class PrecisionRecallCurve:
    """Precision and recall at the edges between bins, from the highest threshold to the lowest, with common bands."""

    thresholds: Floats
    precision: Floats
    recall: Floats
    precision_band: Floats
    recall_band: Floats
    confidence: float


def roc_curve(rates: Rates) -> RocCurve:
    """Return the curve with its two ends, where nothing and where everything is above the threshold."""
    edges, error = rates.released.edges, rates.error / (2 * len(rates.released.edges))
    shown = expit(edges) if rates.released.asked.is_probability else edges
    tpr, fpr = ([_at_edge(rates, k, positive, error) for k in range(len(edges))] for positive in (True, False))
    ends = Estimate(0.0, (0.0, 0.0), (0.0, 0.0)), Estimate(1.0, (1.0, 1.0), (1.0, 1.0))
    both = [[ends[0], *rate[::-1], ends[1]] for rate in (fpr, tpr)]
    values = [np.maximum.accumulate([point.value for point in points]) for points in both]
    bands = [np.array([point.interval for point in points]) for points in both]
    for band in bands:  # rates rise
        band[:, 0] = np.maximum.accumulate(band[:, 0])
        band[:, 1] = np.minimum.accumulate(band[::-1, 1])[::-1]
    thresholds = np.concatenate([[np.inf], shown[::-1], [-np.inf]])
    (fprs, tprs), (fpr_band, tpr_band) = values, bands
    return RocCurve(thresholds, fprs, tprs, fpr_band, tpr_band, 1 - rates.error)


def _at_edge(rates: Rates, k: int, positive: bool, error: float) -> Estimate:
    which, above = rates.label if positive else ~rates.label, rates.from_bin(k + 1)
    value = ratio(rates.evidence.total(which & above), rates.evidence.total(which))
    return rates.evidence.part(value, (which & above, which & ~above), error=error)


def precision_recall_curve(rates: Rates, roc: RocCurve) -> PrecisionRecallCurve:
    """Return the curve from the edge with the highest threshold to where everything is above.

    The recall of a ROC curve takes half of the error, and the precision here the other half.
    """
    error = rates.error / (2 * rates.n_bins)
    found = [_precision(rates, k, error) for k in reversed(range(rates.n_bins))]
    precision, band = np.array([some.value for some in found]), np.array([some.interval for some in found])
    kept = slice(1, None)  # where nothing is above the threshold there is no precision
    return PrecisionRecallCurve(
        roc.thresholds[kept], precision, roc.tpr[kept], band, roc.tpr_band[kept], roc.confidence
    )


def _precision(rates: Rates, k: int, error: float) -> Estimate:
    above = rates.from_bin(k)
    value = ratio(rates.evidence.total(rates.label & above), rates.evidence.total(above))
    return rates.evidence.part(value, (rates.label & above, ~rates.label & above), error=error)


def auc(rates: Rates) -> Estimate:
    """Return the area under the ROC curve: how often a row of the positive class has the higher score of two.

    Of two rows in one bin it is not known which has the higher score: for the lower end it is the wrong one. What rows
    happen to be has binomial tails, as if there were no more pairs than rows of the rarer class, or a normal law where
    its deviation is smaller (docs/guarantees.md, 13.6).
    """
    level, evidence, sample = rates.released.table, rates.evidence, rates.sample
    noisy = level.counts.sum(axis=1)  # by label and bin
    scales = np.full(level.counts.shape[1], level.scale)  # of the noise that adds up in each
    most = np.clip([evidence.most(which, rates.error / 20) for which in (~rates.label, rates.label)], 1.0, sample.n)
    fewer, more = sorted(most.tolist())
    deviation = _deviation_of_pairs(evidence.counts.sum(axis=1), most)

    def statistic(ties: float, *, sampled: bool) -> Of:
        def at(theta: float) -> Statistic:
            below = np.cumsum(noisy[0]) - noisy[0] + ties * noisy[0] - theta * noisy[0].sum()
            above = noisy[1].sum() - np.cumsum(noisy[1]) + ties * noisy[1] - theta * noisy[1].sum()
            value = float(noisy[1] @ below)
            rows = sample.tails(fewer, theta, size=more) if sampled else None
            if rows is not None and deviation(theta) < rows.deviation:
                rows = normal_tails(deviation(theta))
            slack = (2 * ties - 1) * sample.lost * (fewer + more)
            noise = Noise.of(np.outer(scales, np.concatenate([below, above])).ravel())
            return Statistic(value + slack, noise, rows)

        return at

    kept = 0.9 * rates.error
    sampled = interval(statistic(0.0, sampled=True), statistic(1.0, sampled=True), kept)
    here = interval(statistic(0.0, sampled=False), statistic(1.0, sampled=False), rates.error)
    negative, positive = evidence.counts.sum(axis=1)
    pairs = positive @ (np.cumsum(negative) - negative / 2)
    return estimate(min(ratio(float(pairs), float(positive.sum() * negative.sum())) or 0.5, 1.0), sampled, here)


def _deviation_of_pairs(counts: Floats, most: Floats) -> Callable[[float], float]:
    """Return about how far the number of pairs in the right order, less theta times all pairs, happens to be from 0.

    It is a standard deviation, by theta. A row adds its place among the rows of the other class (DeLong, DeLong &
    Clarke-Pearson 1988), which is known up to its bin; a person adds a mean of such places, which varies less. As with
    other means, there is one more row of each class with the largest value.
    """
    parts = (counts + 1 / counts.shape[1]) / (counts.sum(axis=1, keepdims=True) + 1)
    upper = np.cumsum(parts, axis=1)
    middle, width = upper - parts / 2, parts / 2
    places = np.array([1 - middle[1], middle[0]])  # of a negative row, and of a positive one

    def deviation(theta: float) -> float:
        squares = (parts * ((places - theta) ** 2 + width[::-1] ** 2)).sum(axis=1)
        return float(np.sqrt(((most * squares + 1) * most[::-1] ** 2).sum()))

    return deviation


def average_precision(rates: Rates) -> Estimate:
    """Return the area under the curve of precision over recall, at every score as scikit-learn has it.

    Rows of a bin count as mixed. For the ends of intervals all rows of one class come first in every bin, and then an
    error is added that has a normal law. Its variance follows from how the area changes with each count, over a step of
    one standard deviation of the noise (docs/guarantees.md, 13.6).
    """
    level, sample = rates.released.table, rates.sample
    counts = rates.evidence.counts.sum(axis=1)[:, ::-1]  # by label and bin, from the highest
    noise = math.sqrt(2 * level.counts.shape[1]) * level.scale
    step = max(noise, 1.0) * np.eye(counts.size).reshape(-1, *counts.shape)
    value, fewer = float(_area(counts)), np.maximum(counts - step, 0.0)
    rise, fall = _area(counts + step) - value, value - _area(fewer)
    taken = np.maximum((counts - fewer).sum(axis=(1, 2)), 1e-9)
    slope = np.sign(rise) * np.maximum(np.abs(rise) / max(noise, 1.0), np.abs(fall) / taken)
    ends = float(_area(counts, first=0)), float(_area(counts, first=1))
    of_noise = float((slope**2).sum()) * noise**2 + (float(np.abs(slope).max()) * sample.lost) ** 2
    units = counts.ravel() + 1
    of_rows = max(float(units @ slope**2) - float(units @ slope) ** 2 / sample.n, 0.0)
    here, sampled = (
        (max(0.0, ends[0] - far), min(1.0, ends[1] + far))
        for far in -ndtri(rates.error / 2) * np.sqrt([of_noise, of_noise + of_rows])
    )
    return estimate(value, sampled, here)


def _area(counts: Floats, first: int | None = None) -> Floats:
    """Return the mean precision at rows of the positive class, from counts by label and bin from the highest.

    ``first`` is the label of the rows that come first in every bin; None: they are mixed. With H hits and A rows above
    a bin, of which h and a are in it, the integral of (H + hu) / (A + au) over u from 0 to 1 is
    q + (H - qA) log(1 + a/A) / a, where q = h/a.
    """
    false, hits = counts[..., 0, :], counts[..., 1, :]
    above_false, above_hits = (np.cumsum(some, axis=-1) - some for some in (false, hits))
    if first == 0:
        above_false = above_false + false
    here = hits if first is not None else hits + false  # what comes together with the hits
    above, share = above_false + above_hits, hits / np.maximum(here, _TINY)
    spread = np.log((above + here + _TINY) / (above + _TINY)) / np.maximum(here, _TINY)
    precision = share + (above_hits - share * above) * spread
    area: Floats = (hits * precision).sum(axis=-1) / np.maximum(hits.sum(axis=-1), _TINY)
    return area


_TINY = 1e-9  # of a count
