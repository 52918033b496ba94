"""ROC and precision-recall curves of two classes with bands, and the areas below them."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..mechanisms.samplers import Floats
from .evidence import Estimate, estimate
from .inversion import Noise, Of, Statistic, interval
from .rates import Rates, ratio


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def precision_recall_curve(rates: Rates, roc: RocCurve, base_rate: Estimate) -> PrecisionRecallCurve:
    """Return the curve that follows from a ROC curve and the part of the positive class."""
    kept = slice(1, None)  # where nothing is above the threshold there is no precision
    precision = _precision(base_rate.value, roc.tpr, roc.fpr)[kept]
    low = _precision(base_rate.interval[0], roc.tpr_band[:, 0], roc.fpr_band[:, 1])[kept]
    high = _precision(base_rate.interval[1], roc.tpr_band[:, 1], roc.fpr_band[:, 0])[kept]
    bands = np.stack([low, high], axis=1), roc.tpr_band[kept]
    return PrecisionRecallCurve(roc.thresholds[kept], precision, roc.tpr[kept], *bands, confidence=roc.confidence)


def _precision(base_rate: float, tpr: Floats, fpr: Floats) -> Floats:
    hits, false = base_rate * np.asarray(tpr), (1 - base_rate) * np.asarray(fpr)
    total = hits + false
    precision: Floats = np.divide(hits, total, out=np.ones(len(hits)), where=total > 0)
    return precision


def auc(rates: Rates) -> Estimate:
    """Return the area under the ROC curve: how often a row of the positive class has the higher score of two.

    Of two rows in one bin it is not known which has the higher score: for the lower end it is the wrong one.
    """
    level, evidence, sample = rates.released.table, rates.evidence, rates.sample
    noisy = level.counts.sum(axis=1)  # by label and bin
    scales = np.full(level.counts.shape[1], level.scale)  # of the noise that adds up in each
    most = [evidence.most(which, rates.error / 20) for which in (rates.label, ~rates.label)]
    fewer, more = np.clip(sorted(most), 1.0, sample.n)

    def statistic(ties: float, *, sampled: bool) -> Of:
        def at(theta: float) -> Statistic:
            below = np.cumsum(noisy[0]) - noisy[0] + ties * noisy[0] - theta * noisy[0].sum()
            above = noisy[1].sum() - np.cumsum(noisy[1]) + ties * noisy[1] - theta * noisy[1].sum()
            value = float(noisy[1] @ below)
            rows = sample.tails(fewer, theta, size=more) if sampled else None
            slack = (2 * ties - 1) * sample.lost * (fewer + more)
            noise = Noise.of(np.outer(scales, np.concatenate([below, above])).ravel())
            return Statistic(value + slack, noise, rows)

        return at

    kept = 0.9 * rates.error
    sampled = interval(statistic(0.0, sampled=True), statistic(1.0, sampled=True), kept)
    here = interval(statistic(0.0, sampled=False), statistic(1.0, sampled=False), rates.error)
    negative, positive = evidence.counts.sum(axis=1)
    pairs = positive @ (np.cumsum(negative) - negative / 2)
    return estimate(ratio(float(pairs), positive.sum() * negative.sum()) or 0.5, sampled, here)


def average_precision(roc: RocCurve, base_rate: Estimate) -> tuple[float, tuple[float, float]]:
    """Return the area under the curve of precision over recall, and its ends in the population."""
    middle = _area(roc.tpr, (roc.fpr[:-1] + roc.fpr[1:]) / 2, base_rate.value)
    low = _area(roc.tpr_band[:, 0], roc.fpr_band[1:, 1], base_rate.interval[0])
    high = _area(roc.tpr_band[:, 1], roc.fpr_band[:-1, 0], base_rate.interval[1])
    return middle, (min(low, middle), max(high, middle))


def _area(recall: Floats, fpr: Floats, base_rate: float) -> float:
    """Return the integral of precision over recall, where the rate of false positives is constant between edges.

    It is that of the integral of r / (r + c), which is r - c log(r + c).
    """
    if base_rate <= 0:
        return 0.0
    recall = np.append(recall, 1.0)
    odds = (1 - base_rate) / base_rate * np.append(fpr, 1.0)

    def integral(r: Floats) -> Floats:
        whole: Floats = r - odds * np.log(np.maximum(r + odds, 1e-300))
        return whole

    return float(np.clip((integral(recall[1:]) - integral(recall[:-1])).sum(), 0.0, 1.0))
