"""Fitted classifiers whose threshold or probabilities were set with private rows that they had not seen."""

from abc import abstractmethod
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..calibration import Known, Temperature
from ..elementwise import log
from ..estimators.blocks import by_blocks
from ..estimators.exported import Exported
from ..estimators.probabilities import Probabilities
from ..mechanisms.samplers import Floats
from ..privacy import Budget
from ..privacy.durable import without_path
from ..solvers.calibrated import curved
from ..solvers.shrunk import factor
from .counts import on_simplex
from .evaluate import evaluated
from .opinions import log_odds
from .release import LARGEST, Released
from .results import PrivateEvaluation
from .two_classes import BinaryEvaluation, require_costs

_FOR_ACCURACY = 0.05  # of epsilon: how often a model is right says neither where to cut nor how sure to be
_LEAST = 2.0**-52  # probability
_STEEP = 2.0  # log-odds of a typical score, where scores are no probabilities


@dataclass(eq=False, repr=False)
class Adjusted(Exported, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers that keep the model they are given, and change what follows from its scores.

    ``fit`` evaluates the model on held-out rows (:func:`~dpsk.private_evaluation`), which costs ``epsilon`` for these
    rows, and nothing for those that the model was fitted on. Rows of that fit will not do: on them it scores too high.
    """

    estimator: Any
    _: KW_ONLY
    epsilon: float = 1.0
    group_column: str | None = None
    adjacency: str = "zero-out"
    ledger: Any = None
    random_state: int | None = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Adjust the model to held-out rows, within the budget.

        Parameters
        ----------
        X, y : array-like
            Rows that the model was not fitted on, and their labels.
        groups : array-like or None
            The ids of the rows, where persons are protected.
        """
        self._require_possible()
        with suppress(TypeError):  # it has no fit
            check_is_fitted(
                self.estimator,
                msg="%(name)s is not fitted: fit it first, on other rows. clone() and whatever else copies estimators "
                "drops a fit: put the fitted model into sklearn.frozen.FrozenEstimator there",
            )
        evaluation = evaluated(
            type(self).__name__,
            self.estimator,
            X,
            y,
            epsilon=self.epsilon,
            accuracy_share=_FOR_ACCURACY,
            groups=groups,
            group_column=self.group_column,
            adjacency=self.adjacency,
            ledger=self.ledger,
            random_state=self.random_state,
            told=self.get_params(deep=False),
        )
        self._learn(evaluation)
        self.classes_, self.privacy_spent_ = np.asarray(self.estimator.classes_), evaluation.privacy_spent
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator, name):
                setattr(self, name, getattr(self.estimator, name))
        return self

    def budget_of_fit(self) -> Budget:
        """Return what a fit spends on the held-out rows: public, before any data."""
        return Budget.of(self.epsilon, 0.0)

    def _require_possible(self) -> None:
        """Raise ValueError for what no rows could mend."""

    def _says(self, X: Any) -> Floats:
        """Return the probabilities of the model, or its scores where it has none."""
        model = self.estimator
        said = model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X)
        return np.asarray(said, dtype=np.float64)

    @abstractmethod
    def _learn(self, evaluation: Any) -> None:
        """Set the fitted attributes."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without an absolute path."""
        return without_path(super().__getstate__())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_spent_")


def _has(method: str) -> Any:
    """Return a condition for what the model has, too."""

    def check(self: Any) -> bool:
        getattr(self.estimator, method)
        return True

    return check


@dataclass(eq=False, repr=False)
class PrivateThreshold(Adjusted):
    """A fitted classifier of two classes with the threshold at which its mistakes cost least, found in private.

    It takes the place of ``TunedThresholdClassifierCV``, whose threshold is an un-noised fact about the rows.

    Parameters
    ----------
    estimator : fitted classifier
        A model of two classes. To survive ``clone``, as in ``cross_val_score``, it has to be inside of scikit-learn's
        ``FrozenEstimator``.
    epsilon : float
        The price, for the held-out rows (delta = 0).
    false_positive, false_negative : float
        What one mistake of each kind costs. The second class, ``classes_[1]``, is the positive one.
    group_column, adjacency, ledger, random_state
        As for :func:`~dpsk.private_evaluation`.

    Attributes
    ----------
    threshold_ : float
        Rows with at least this probability of the second class are predicted to belong to it; a score where the model
        has no probabilities. 0 (or -inf) where all do, inf where none does.
    cost_ : Estimate
        The mean cost of mistakes at the threshold.
    privacy_spent_ : PrivacySpent
        The guarantee for the held-out rows.
    classes_ : ndarray

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression, PrivateThreshold
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLogisticRegression(epsilon=4.0).fit(X[:300], y[:300])
    >>> careful = PrivateThreshold(model, epsilon=2.0, false_positive=5.0).fit(X[300:], y[300:])
    >>> careful.predict(X).shape
    (569,)
    """

    _: KW_ONLY
    false_positive: float = 1.0
    false_negative: float = 1.0

    def _require_possible(self) -> None:
        if len(getattr(self.estimator, "classes_", (0, 1))) != 2:
            raise ValueError(
                f"PrivateThreshold is for two classes, but the model has {len(self.estimator.classes_)}: a threshold "
                "says nothing about which of several others is predicted"
            )
        require_costs(self.false_positive, self.false_negative)

    def _learn(self, evaluation: BinaryEvaluation) -> None:
        best = evaluation.best_threshold(false_positive=self.false_positive, false_negative=self.false_negative)
        self.threshold_, self.cost_ = best.threshold, best.cost

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    @by_blocks
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the model, which the threshold does not change."""
        check_is_fitted(self)
        return self.estimator.predict_proba(X)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    @by_blocks
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the model, which the threshold does not change."""
        check_is_fitted(self)
        return self.estimator.decision_function(X)

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the predicted class labels."""
        check_is_fitted(self)
        sure = self._says(X)
        sure = sure[:, 1] if sure.ndim > 1 else sure
        return self.classes_[(sure >= self.threshold_).astype(int)]


@dataclass(eq=False, repr=False)
class PrivateCalibration(Probabilities, Adjusted):
    """A fitted classifier with probabilities that held-out rows have set right, in private.

    It takes the place of ``CalibratedClassifierCV``, whose map is an un-noised fact about the rows. With two classes
    scores are mapped to log-odds along an increasing curve. It is bent where the counts support that, and a straight
    line where they are few. With more, probabilities are raised to one power. The likeliest class is predicted.
    Log-odds of the model beyond +-8 are not told apart, so one that is far too sure cannot be set right.

    Parameters
    ----------
    estimator : fitted classifier
        With several classes it needs ``predict_proba``. To survive ``clone`` it has to be inside of scikit-learn's
        ``FrozenEstimator``.
    epsilon : float
        The price, for the held-out rows (delta = 0).
    group_column, adjacency, ledger, random_state
        As for :func:`~dpsk.private_evaluation`.

    Attributes
    ----------
    calibration_ : Curve or Temperature
        The map from scores to log-odds, :mod:`dpsk.calibration`.
    shift_ : float
        What is added to scores before the map: a sum above 0 predicts the second class. 0 with several classes.
    privacy_spent_ : PrivacySpent
        The guarantee for the held-out rows.
    classes_ : ndarray

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import LinearSVC
    >>> from dpsk import PrivateCalibration
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC().fit(X[:300], y[:300])
    >>> PrivateCalibration(model, epsilon=2.0).fit(X[300:], y[300:]).predict_proba(X).shape
    (569, 2)
    """

    def _require_possible(self) -> None:
        n_classes = len(getattr(self.estimator, "classes_", (0, 1)))
        if n_classes > 2 and not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"PrivateCalibration of {n_classes} classes needs a model with predict_proba, and "
                f"{type(self.estimator).__name__} has none: with two classes decision_function is enough"
            )

    def _learn(self, evaluation: PrivateEvaluation) -> None:
        released = evaluation.released
        if isinstance(evaluation, BinaryEvaluation):
            self.shift_, self.calibration_ = _curve(released)
        else:
            self.shift_, self.calibration_ = 0.0, _temperature(released)

    def _log_odds(self, X: Any) -> Floats:
        """Return log-odds of the second class, or logarithms of probabilities up to a constant for each row."""
        check_is_fitted(self)
        said = self._says(X)
        if isinstance(self.calibration_, Temperature):
            return self.calibration_(log(np.clip(said, _LEAST, 1.0)))
        scores = said if said.ndim == 1 else log_odds(said[:, 1])
        mapped: Floats = self.calibration_(scores + self.shift_)
        return mapped

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the predicted class labels."""
        scores = self._log_odds(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def _curve(released: Released) -> tuple[float, Any]:
    """Return what to add to scores, and the curve of their log-odds."""
    level, width = released.table, released.grid[1] - released.grid[0]
    ends = min(released.grid[0], released.edges[0] - width), max(released.grid[-1], released.edges[-1] + width)
    edges = np.concatenate([ends[:1], released.edges, ends[1:]])
    counts, noise = level.counts.sum(axis=1), float(np.sqrt(2 * level.counts.shape[1])) * level.scale
    natural = 1.0
    if not released.asked.is_probability:
        middles = (released.grid[1:] + released.grid[:-1]) / 2
        part = on_simplex(released.spread.counts, 1.0)
        natural = _STEEP / float(np.sqrt(part @ middles**2) + width)
    known = Known(noise, float(released.n_units), np.inf, 0, natural, fixed=False)
    moved, curve = curved(np.zeros(1), counts, edges, known)
    return float(moved[0]), curve


def _temperature(released: Released) -> Temperature:
    """Return the power to which probabilities are raised, from counts of right and wrong predictions by bin."""
    level, n_classes = released.table, released.asked.n_classes
    ends = np.clip(np.concatenate([[-LARGEST], released.edges, [LARGEST]]), -LARGEST, LARGEST)
    found = factor(level.counts, float(np.sqrt(2)) * level.scale, n_classes, (ends[1:] + ends[:-1]) / 2)
    return Temperature(found, np.full(n_classes, 1 / n_classes))
