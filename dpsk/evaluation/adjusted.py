"""Fitted classifiers whose threshold or probabilities were set with private rows that they had not seen."""

from abc import abstractmethod
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from ..estimators.blocks import by_blocks
from .evaluate import private_evaluation
from .two_classes import BinaryEvaluation, require_costs

_FOR_ACCURACY = 0.05  # of epsilon: how often a model is right does not say where to cut


@dataclass(eq=False, repr=False)
class Adjusted(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
            check_is_fitted(self.estimator)
        evaluation = private_evaluation(
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
        )
        self._learn(evaluation)
        self.classes_, self.privacy_spent_ = np.asarray(self.estimator.classes_), evaluation.privacy_spent
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator, name):
                setattr(self, name, getattr(self.estimator, name))
        return self

    def _require_possible(self) -> None:
        """Raise ValueError for what no rows could mend."""

    @abstractmethod
    def _learn(self, evaluation: Any) -> None:
        """Set the fitted attributes."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_spent_")


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
        What is at least as likely is predicted to be of the second class; a score where the model has no probabilities.
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

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the predicted class labels."""
        check_is_fitted(self)
        model = self.estimator
        sure = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.decision_function(X)
        return self.classes_[(sure >= self.threshold_).astype(int)]
