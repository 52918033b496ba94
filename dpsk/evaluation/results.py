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
from .counts import consistent, number_right
from .evidence import Estimate, Evidence, Sample, estimate
from .release import Level, Released
from .sureness import CalibrationCurve, Sureness


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False, repr=False)
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
        return self._calibration

    @cached_property
    def _calibration(self) -> CalibrationCurve:
        return self._sureness.curve()

    @abstractmethod
    def confusion_matrix(self) -> ConfusionMatrix:
        """Return counts by true and predicted class."""

    @property
    def _about(self) -> str:
        """What the numbers are about, for a heading."""
        return ""

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
        matrix = self.confusion_matrix()
        return {
            **numbers,
            "labels": matrix.labels.tolist(),
            "confusion_matrix": matrix.counts.tolist(),
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
            f"numbers follow from it{self._about}: {numbers}. If the {units} are a random sample, each number of their "
            f"population lies in the range in brackets with {confidence:g} confidence, noise and sampling considered. "
            f"Other releases from these {units}, fits included, add to it."
        )

    def __repr__(self) -> str:
        rows = [
            (name, f"{number.value:.3f}", *(f"{end:.3f}" for end in number.interval))
            for name, number in self._numbers()
        ]
        width = max(len(name) for name, *_ in rows)
        held = f"{self.n_units} {several(self.unit) if self.n_units > 1 else self.unit}"
        head = f"{type(self).__name__}(epsilon={self.privacy_spent.epsilon:g}, {held}{self._about})"
        lines = [f"  {name:<{width}}  {value}  ({low} to {high})" for name, value, low, high in rows]
        return "\n".join(
            [head, *lines, f"  {'':<{width}}  in brackets: {100 * self.confidence:g} % confidence, population"]
        )


def plain(label: Any) -> Any:
    """Return a label as Python shows it."""
    return label.item() if isinstance(label, np.generic) else label


def matrix_of(labels: NDArray[Any], counts: Floats, ends: Floats) -> ConfusionMatrix:
    """Return counts with their intervals, which reach to the estimates: these know of other levels, too."""
    low, high = np.minimum(ends[..., 0], counts), np.maximum(ends[..., 1], counts)
    return ConfusionMatrix(labels, counts, np.stack([low, high], axis=-1))


def mean_of(parts: Any) -> Estimate:
    """Return the mean of numbers whose intervals hold together."""
    value = float(np.mean([part.value for part in parts]))
    low, high = np.mean([part.interval for part in parts], axis=0).tolist()
    least, most = np.mean([part.interval_on_rows for part in parts], axis=0).tolist()
    return estimate(value, (low, high), (least, most))
