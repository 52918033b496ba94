"""The evaluation of several classes at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .counts import consistent
from .evidence import Estimate, Evidence
from .inversion import reach
from .rates import ratio
from .results import ConfusionMatrix, PrivateEvaluation, matrix_of, mean_of, plain
from .sureness import likelihood

_SHOWN = 20  # classes in a summary
_OF_ONE_CLASS = (
    "auc", "average_precision", "roc_curve", "precision_recall_curve", "best_threshold", "cost", "brier", "specificity",
    "accuracy_at", "base_rate",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class MulticlassEvaluation(PrivateEvaluation):
    """The evaluation of several classes at once. One class has ROC curves and thresholds: ``positive=`` asks for them.

    Calibration is that of the class that is predicted.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ONE_CLASS:
            raise AttributeError(
                f"{name} is for one class against the others: give positive=, the label of that class, to "
                "private_evaluation"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

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
        ends = np.stack([level.counts - far, np.maximum(level.counts, 0.0) + far + self._sample.lost], axis=-1)
        return matrix_of(self.labels, self._confusion.counts, ends.clip(0.0, self.n_units))

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
        return mean_of([self._recall(k, error) for k in range(len(self.labels))])

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
        for label in self.labels[:_SHOWN]:
            yield f"recall of {plain(label)!r}", self.recall(label)
