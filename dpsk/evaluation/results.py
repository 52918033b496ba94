"""What a private evaluation shows: every number is post-processing of one release."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats
from ..privacy import PrivacySpent
from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up
from ..privacy.units import ROW, several
from ..requirements import require_number
from .counts import consistent, number_right
from .curves import PrecisionRecallCurve, RocCurve, auc, average_precision, precision_recall_curve, roc_curve
from .evidence import Estimate, Evidence, Sample, estimate
from .inversion import reach
from .rates import Rates, ratio
from .release import Level, Released
from .sureness import CalibrationCurve, Sureness, likelihood


@dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of units by true class (first axis) and predicted class, in the order of ``labels``.

    ``interval_on_rows`` has the ends of an interval for each count, which allows for the noise.
    """

    labels: NDArray[Any]
    counts: Floats
    interval_on_rows: Floats


@dataclass(frozen=True)
class BestThreshold:
    """The threshold at which mistakes cost least, and what they cost there on average."""

    threshold: float
    cost: Estimate


@dataclass(frozen=True, repr=False)
class PrivateEvaluation(ABC):
    """A released evaluation of a classifier on held-out rows; :func:`~dpsk.private_evaluation` returns it.

    All numbers follow from the same noisy counts, so looking at any of them costs nothing more. Each is an
    :class:`~dpsk.evaluation.Estimate` with two intervals, or a curve with bands.

    Parameters
    ----------
    released : Released
        The noisy counts.
    confidence : float
        How often each interval, and each band as a whole, holds what it is for.
    privacy_spent : PrivacySpent
        The guarantee for the held-out rows or persons.
    """

    released: Released
    confidence: float
    privacy_spent: PrivacySpent

    @property
    def n_rows(self) -> int:
        """The number of held-out rows, which is public."""
        return self.released.n_rows

    @property
    def n_units(self) -> int:
        """The number of held-out units, rows or persons, which is public."""
        return self.released.n_units

    @property
    def unit(self) -> str:
        """What is protected and counts once: "row", or a person with all rows."""
        return self.privacy_spent.unit

    @property
    def labels(self) -> NDArray[Any]:
        """The labels of the classes, in the order of matrices."""
        return self.released.asked.classes

    @property
    def _error(self) -> float:
        return 1 - self.confidence

    @cached_property
    def _sample(self) -> Sample:
        single = self.unit == ROW
        return Sample(self.n_units, single, 0.0 if single else (self.n_rows - self.n_units) * 2.0**-20)

    def _evidence(self, level: Level, right: NDArray[np.bool_]) -> Evidence:
        """Return counts whose right cells add up to the number of right predictions."""
        accuracy = self.released.accuracy
        of_right = number_right(accuracy.counts, accuracy.scale, level.counts, right, level.scale, self.n_units)
        return Evidence(level, consistent(level.counts, right, of_right, self.n_units), self._sample, self._error)

    @property
    @abstractmethod
    def _table(self) -> Evidence:
        """The evidence of the table of scores."""

    @cached_property
    def accuracy(self) -> Estimate:
        """The part of right predictions."""
        right = np.array([False, True])
        evidence = self._evidence(self.released.accuracy, right)
        value = self._number_right / self.n_units
        return evidence.part(value, (right, ~right))

    @property
    @abstractmethod
    def _number_right(self) -> float:
        """The estimate of how many predictions are right."""

    @property
    @abstractmethod
    def balanced_accuracy(self) -> Estimate:
        """The mean over the classes of the part of their rows that is predicted rightly."""

    @property
    @abstractmethod
    def log_loss(self) -> Estimate:
        """The mean of -log of the probability of the true label. Log-odds beyond +-8 count as +-8."""

    @cached_property
    def _sureness(self) -> Sureness:
        if not self.released.asked.is_probability:
            raise AttributeError(
                "this model has no predict_proba, so there are no probabilities to judge: wrap it in "
                "PrivateCalibration, or use an estimator that has them"
            )
        return Sureness(self.released, self._table)

    @cached_property
    def ece(self) -> Estimate:
        """The expected calibration error over the bins of :meth:`calibration_curve`.

        It is the mean over the units of the distance between the mean probability in a bin and the part of the bin that
        belongs to the class; with several classes, of the class that is predicted.
        """
        return self._sureness.ece()

    def calibration_curve(self) -> CalibrationCurve:
        """Return how often rows belong to the class, beside the probability that they were given, by bin."""
        return self._sureness.curve()

    @abstractmethod
    def _numbers(self) -> Iterator[tuple[str, Estimate]]:
        """Yield the numbers of a summary, with their names."""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the summary and the guarantee as plain Python values, ready for JSON."""
        numbers = {
            name: {
                "value": number.value,
                "interval": list(number.interval),
                "interval_on_rows": list(number.interval_on_rows),
            }
            for name, number in self._numbers()
        }
        return {
            **numbers,
            "confidence": self.confidence,
            "n_rows": self.n_rows,
            "n_units": self.n_units,
            "privacy_spent": self.privacy_spent.to_dict(),
        }

    def statement(self) -> str:
        """Return a paragraph for a report."""
        if not self.privacy_spent.private:
            return (
                "NOT PRIVATE: the noise of this evaluation was generated from a known seed (random_state), so whoever "
                "knows the seed can subtract it."
            )
        spent, units = self.privacy_spent, several(self.unit)
        held = f"{self.n_rows} held-out rows"
        if self.unit != ROW:
            held += f" of {self.n_units} {units}, each {self.unit} counting once"
        numbers = "; ".join(f"{name.replace('_', ' ')} {number}" for name, number in self._numbers())
        confidence = math.floor(1e6 * self.confidence) / 1e6
        return (
            f"This evaluation on {held} was released once, with ({round_up(spent.epsilon, 4)}, 0)-differential privacy "
            f"for each of these {units}: neighbours differ in that {Adjacency(spent.adjacency).words(self.unit)}. All "
            f"numbers follow from it: {numbers}. If the {units} are a random sample, each number of their population "
            f"lies in the range in brackets with {confidence:g} confidence, noise and sampling considered. Other "
            f"releases from these {units}, fits included, add to it."
        )

    def __repr__(self) -> str:
        rows = [
            (name, f"{number.value:.3f}", *(f"{end:.3f}" for end in number.interval))
            for name, number in self._numbers()
        ]
        width = max(len(name) for name, *_ in rows)
        head = f"{type(self).__name__}(epsilon={self.privacy_spent.epsilon:g}, {self.n_units} {several(self.unit)})"
        lines = [f"  {name:<{width}}  {value}  ({low} to {high})" for name, value, low, high in rows]
        return "\n".join(
            [head, *lines, f"  {'':<{width}}  in brackets: {100 * self.confidence:g} % confidence, population"]
        )


@dataclass(frozen=True, repr=False)
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
        return _mean(parts)

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
        return _matrix(_pair(self.labels, self.released.asked.positive), counts, ends)

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

    def precision_recall_curve(self) -> PrecisionRecallCurve:
        """Return precision and recall at the edges between bins."""
        return precision_recall_curve(self._rates, self._roc, self.base_rate)

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

    def _numbers(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("accuracy", self.accuracy), ("balanced_accuracy", self.balanced_accuracy))
        yield from (("precision", self.precision()), ("recall", self.recall()), ("f1", self.f1()))
        yield from (("auc", self.auc), ("average_precision", self.average_precision))
        if self.released.asked.is_probability:
            yield from (("log_loss", self.log_loss), ("brier", self.brier), ("ece", self.ece))
        yield "base_rate", self.base_rate


@dataclass(frozen=True, repr=False)
class MulticlassEvaluation(PrivateEvaluation):
    """The evaluation of several classes at once. One class has ROC curves and thresholds: ``positive=`` asks for them.

    Calibration is that of the class that is predicted.
    """

    @cached_property
    def _right(self) -> NDArray[np.bool_]:
        right: NDArray[np.bool_] = np.eye(len(self.labels), dtype=bool)
        return right

    @cached_property
    def _confusion(self) -> Evidence:
        return self._evidence(self.released.confusion, self._right)

    @cached_property
    def _table(self) -> Evidence:
        right = np.indices(self.released.table.counts.shape)[0] == 1
        return self._evidence(self.released.table, right)

    @property
    def _number_right(self) -> float:
        return self._confusion.total(self._right)

    def confusion_matrix(self) -> ConfusionMatrix:
        """Return counts by true and predicted class."""
        level = self._confusion.level
        far = reach(level.scale, 1, self._error / 2)
        ends = np.stack([level.counts - far, level.counts + far + self._sample.lost], axis=-1)
        return _matrix(self.labels, self._confusion.counts, ends.clip(0.0, self.n_units))

    def recall(self, label: Any) -> Estimate:
        """Return which part of a class is found."""
        return self._recall(self._number_of(label), self._error)

    def precision(self, label: Any) -> Estimate:
        """Return which part of what is predicted to be of a class is so."""
        k = self._number_of(label)
        hits, same = self._cell(k), self._line(k, axis=1)
        value = ratio(self._confusion.total(hits), self._confusion.total(same))
        return self._confusion.part(value, (hits, same & ~hits))

    def f1(self, label: Any) -> Estimate:
        """Return the harmonic mean of precision and recall of a class."""
        k = self._number_of(label)
        hits, cross = self._cell(k), self._line(k, axis=0) | self._line(k, axis=1)
        value = ratio(self._confusion.total(hits), self._confusion.total(cross))
        return self._confusion.part(value, (hits, cross & ~hits), of=lambda q: 2 * q / (1 + q))

    @cached_property
    def balanced_accuracy(self) -> Estimate:
        error = self._error / len(self.labels)
        return _mean([self._recall(k, error) for k in range(len(self.labels))])

    @cached_property
    def log_loss(self) -> Estimate:
        level = self.released.likelihood
        everything = np.ones(len(level.counts), dtype=bool)
        counts = consistent(level.counts, everything, self.n_units, self.n_units)
        return likelihood(Evidence(level, counts, self._sample, self._error))

    def _recall(self, k: int, error: float) -> Estimate:
        hits, line = self._cell(k), self._line(k, axis=0)
        value = ratio(self._confusion.total(hits), self._confusion.total(line))
        return self._confusion.part(value, (hits, line & ~hits), error=error)

    def _number_of(self, label: Any) -> int:
        found = [k for k, known in enumerate(self.labels) if known == label]
        if not found:
            raise ValueError(f"label={label!r} must be one of {self.labels.tolist()}")
        return found[0]

    def _cell(self, k: int) -> NDArray[np.bool_]:
        cell = np.zeros_like(self._right)
        cell[k, k] = True
        return cell

    def _line(self, k: int, *, axis: int) -> NDArray[np.bool_]:
        line: NDArray[np.bool_] = np.indices(self._right.shape)[axis] == k
        return line

    def _numbers(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("accuracy", self.accuracy), ("balanced_accuracy", self.balanced_accuracy))
        yield from (("log_loss", self.log_loss), ("ece", self.ece))


def require_costs(false_positive: Any, false_negative: Any) -> None:
    """Raise ValueError unless both are positive numbers."""
    for name, cost in (("false_positive", false_positive), ("false_negative", false_negative)):
        require_number(name, cost, 0.0, open_low=True)


def _matrix(labels: NDArray[Any], counts: Floats, ends: Floats) -> ConfusionMatrix:
    """Return counts with their intervals, which reach to the estimates: these know of other levels, too."""
    low, high = np.minimum(ends[..., 0], counts), np.maximum(ends[..., 1], counts)
    return ConfusionMatrix(labels, counts, np.stack([low, high], axis=-1))


def _falling(rate: Estimate) -> Estimate:
    """Return 1 less a rate."""
    (low, high), (least, most) = rate.interval, rate.interval_on_rows
    return Estimate(1 - rate.value, (1 - high, 1 - low), (1 - most, 1 - least))


def _mean(parts: Any) -> Estimate:
    """Return the mean of numbers whose intervals hold together."""
    value = float(np.mean([part.value for part in parts]))
    low, high = np.mean([part.interval for part in parts], axis=0).tolist()
    least, most = np.mean([part.interval_on_rows for part in parts], axis=0).tolist()
    return estimate(value, (low, high), (least, most))


def _pair(labels: NDArray[Any], positive: int | None) -> NDArray[Any]:
    """Return what stands for the others and for the positive class."""
    if len(labels) == 2:
        return labels if positive == 1 else labels[::-1]
    pair = np.empty(2, dtype=object)
    pair[:] = "others", labels[positive]
    return pair
