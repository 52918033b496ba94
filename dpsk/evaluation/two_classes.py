"""The evaluation of two classes, or of one class against all others: thresholds, curves and areas."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..requirements import require_number
from .curves import PrecisionRecallCurve, RocCurve, auc, average_precision, precision_recall_curve, roc_curve
from .evidence import Estimate, Evidence
from .inversion import reach
from .rates import Rates
from .results import BestThreshold, ConfusionMatrix, PrivateEvaluation, matrix_of, mean_of, plain


@dataclass(frozen=True, eq=False, repr=False)
class BinaryEvaluation(PrivateEvaluation):
    """The evaluation of a positive class against all others.

    Thresholds are probabilities, or scores where the model has no probabilities. A threshold between two edges of
    :meth:`roc_curve` gets an interval that holds for all rows in between, and None is what the model predicts.
    """

    @property
    def positive(self) -> Any:
        """The label of the positive class."""
        return self.labels[self.released.asked.positive]

    @cached_property
    def _rates(self) -> Rates:
        return Rates(self.released, self._sample, self._error)

    @property
    def _table(self) -> Evidence:
        return self._rates.evidence

    @property
    def _number_right(self) -> float:
        return self._table.total(self._rates.predicted == self._rates.label)

    @cached_property
    def base_rate(self) -> Estimate:
        """The part of the positive class."""
        value = self._table.total(self._rates.label) / self.n_units
        return self._table.part(value, (self._rates.label, ~self._rates.label))

    def recall(self, threshold: float | None = None) -> Estimate:
        """Return which part of the positive class is found."""
        return self._rates.recall(threshold)

    def specificity(self, threshold: float | None = None) -> Estimate:
        """Return which part of the negative class is left alone."""
        return _falling(self._rates.fall_out(threshold))

    def precision(self, threshold: float | None = None) -> Estimate:
        """Return which part of what is predicted to be positive is so."""
        return self._rates.precision(threshold)

    def f1(self, threshold: float | None = None) -> Estimate:
        """Return the harmonic mean of precision and recall."""
        return self._rates.f1(threshold)

    def accuracy_at(self, threshold: float) -> Estimate:
        """Return the part of right predictions at another threshold than the model's own."""
        return self._rates.accuracy_at(threshold)

    @cached_property
    def balanced_accuracy(self) -> Estimate:
        half = self._error / 2
        parts = self._rates.recall(error=half), _falling(self._rates.fall_out(error=half))
        return mean_of(parts)

    def confusion_matrix(self, threshold: float | None = None) -> ConfusionMatrix:
        """Return counts by true and predicted class: the others first, the positive class second."""
        rates = self._rates
        above, below, _, _ = rates.flagged(threshold)
        counts, ends = np.zeros((2, 2)), np.zeros((2, 2, 2))
        for label, which in enumerate((~rates.label, rates.label)):
            counts[label, 1] = rates.count(which, threshold)
            counts[label, 0] = max(0.0, self._table.total(which) - counts[label, 1])
            for predicted, (least, most) in enumerate(
                (((which & ~below), (which & ~above)), (which & above, which & below))
            ):
                ends[label, predicted] = self._between(least, most)
        return matrix_of(_pair(self.labels, self.released.asked.positive), counts, ends)

    def _between(self, least: NDArray[np.bool_], most: NDArray[np.bool_]) -> tuple[float, float]:
        """Return between what numbers a count lies: at least that of some cells, and at most that of others."""
        level, half = self._table.level, self._error / 2
        low = level.counts[least].sum() - reach(level.scale, int(least.sum()), half)
        return max(0.0, float(low)), min(float(self.n_units), max(0.0, self._table.most(most, half)))

    @cached_property
    def _roc(self) -> RocCurve:
        return roc_curve(self._rates)

    def roc_curve(self) -> RocCurve:
        """Return the rates of false and of true positives at the edges between bins."""
        return self._roc

    @cached_property
    def _precision_recall(self) -> PrecisionRecallCurve:
        return precision_recall_curve(self._rates, self._roc)

    def precision_recall_curve(self) -> PrecisionRecallCurve:
        """Return precision and recall at the edges between bins."""
        return self._precision_recall

    @cached_property
    def auc(self) -> Estimate:
        """The area under the ROC curve."""
        return auc(self._rates)

    @cached_property
    def average_precision(self) -> Estimate:
        """The area under the curve of precision over recall."""
        return average_precision(self._rates)

    @cached_property
    def log_loss(self) -> Estimate:
        return self._sureness.log_loss()

    @cached_property
    def brier(self) -> Estimate:
        """The mean squared difference between label and probability."""
        return self._sureness.brier()

    def cost(
        self, threshold: float | None = None, *, false_positive: float = 1.0, false_negative: float = 1.0
    ) -> Estimate:
        """Return the mean cost of mistakes, given what one of each kind costs."""
        require_costs(false_positive, false_negative)
        return self._rates.cost(threshold, false_positive, false_negative)

    def best_threshold(self, *, false_positive: float = 1.0, false_negative: float = 1.0) -> BestThreshold:
        """Return the threshold with the least mean cost: an edge between bins, or one that none or all rows reach.

        Parameters
        ----------
        false_positive, false_negative : float
            What one mistake of each kind costs.
        """
        require_costs(false_positive, false_negative)
        return BestThreshold(*self._rates.cheapest(false_positive, false_negative))

    @property
    def _about(self) -> str:
        return f", positive class {plain(self.positive)!r}"

    def _numbers(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("accuracy", self.accuracy), ("balanced_accuracy", self.balanced_accuracy))
        yield from (("precision", self.precision()), ("recall", self.recall()), ("f1", self.f1()))
        yield from (("auc", self.auc), ("average_precision", self.average_precision))
        if self.released.asked.is_probability:
            yield from (("log_loss", self.log_loss), ("brier", self.brier), ("ece", self.ece))
        yield "base_rate", self.base_rate


def require_costs(false_positive: Any, false_negative: Any) -> None:
    """Raise ValueError unless both are positive numbers."""
    for name, cost in (("false_positive", false_positive), ("false_negative", false_negative)):
        require_number(name, cost, 0.0, open_low=True)


def _falling(rate: Estimate) -> Estimate:
    """Return 1 less a rate."""
    (low, high), (least, most) = rate.interval, rate.interval_on_rows
    return Estimate(1 - rate.value, (1 - high, 1 - low), (1 - most, 1 - least))


def _pair(labels: NDArray[Any], positive: int | None) -> NDArray[Any]:
    """Return what stands for the others and for the positive class."""
    if len(labels) == 2:
        return labels if positive == 1 else labels[::-1]
    pair = np.empty(2, dtype=object)
    pair[:] = "others", plain(labels[positive])
    return pair
