"""Losses of linear classifiers by name, and probabilities."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit
from sklearn.utils.metaestimators import available_if

from .. import losses
from ..elementwise import exp, log
from ..losses import sum_of_classes
from ..mechanisms.samplers import Floats
from .blocks import by_blocks

SMOOTH_LOSSES = ("log_loss", "huber_hinge")
LOSSES = ("log_loss", "hinge", "huber_hinge")


_MARGIN_LOSSES: dict[str, losses.MarginLoss] = {
    "log_loss": losses.Logistic(),
    "hinge": losses.Hinge(),
    "huber_hinge": losses.HuberHinge(),
    "squared_hinge": losses.SquaredHinge(),
    "sigmoid": losses.Sigmoid(),
}


@dataclass(frozen=True)
class LossNamed:
    """A loss by its name, for any number of classes: the softmax for several logistic ones unless ``one_vs_rest``."""

    name: str
    one_vs_rest: bool = False

    def __call__(self, n_classes: int) -> losses.Loss:
        one = _MARGIN_LOSSES[self.name]
        if n_classes == 2:
            return one
        return (
            losses.Softmax(n_classes)
            if self.name == "log_loss" and not self.one_vs_rest
            else losses.OneVsRest(one, n_classes)
        )


class Probabilities:
    """``predict_proba`` and ``predict_log_proba`` of a classifier whose scores are log-odds, or are calibrated.

    Attributes
    ----------
    calibration_ : Curve or Temperature
        The increasing map from scores to log-odds that was found with a part of the budget, see
        :mod:`dpsk.calibration`. Missing where scores count as log-odds without it.
    """

    decision_function: Any
    probabilities_of_several: ClassVar[str] = "softmax"
    """How probabilities follow from the log-odds of several classes."""

    def _log_odds(self, X: Any) -> Floats:
        scores: Floats = self.decision_function(X)
        calibration = getattr(self, "calibration_", None)
        return scores if calibration is None else calibration(scores)

    @by_blocks
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``.

        Noise makes scores too large where rows are few. Where there is a ``calibration_`` it corrects that; otherwise
        the probabilities are then too close to 0 and 1.
        """
        scores = self._log_odds(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        odds: Floats = exp(scores - scores.max(axis=1, keepdims=True))
        return odds / sum_of_classes(odds)[:, None]

    @by_blocks
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        scores = self._log_odds(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        scores = scores - scores.max(axis=1, keepdims=True)
        logarithms: Floats = scores - log(sum_of_classes(exp(scores)))[:, None]
        return logarithms


class OneVsRestProbabilities(Probabilities):
    """The same where scores of several classes are log-odds against all others, not logarithms of probabilities."""

    probabilities_of_several = "one-vs-rest"

    def _log_odds(self, X: Any) -> Floats:
        scores = super()._log_odds(X)
        return log_expit(scores) if scores.ndim == 2 else scores


def _is_log_loss(self: Any) -> bool:
    if self.loss != "log_loss":
        raise AttributeError(f"probabilities exist for loss='log_loss' only, not for loss={self.loss!r}")
    return True


class ProbabilitiesOfLogLoss(Probabilities):
    """The same where ``loss`` is a parameter: they exist for "log_loss" only."""

    @available_if(_is_log_loss)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``; for ``loss="log_loss"``."""
        return super().predict_proba(X)

    @available_if(_is_log_loss)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class; for ``loss="log_loss"``."""
        return super().predict_log_proba(X)


def _is_calibrated(self: Any) -> bool:
    return bool(self.calibrate) or _is_log_loss(self)


class ProbabilitiesIfCalibrated(Probabilities):
    """The same where ``loss`` and ``calibrate`` are parameters: they exist for "log_loss", or with a calibration."""

    @available_if(_is_calibrated)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``."""
        return super().predict_proba(X)

    @available_if(_is_calibrated)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        return super().predict_log_proba(X)
