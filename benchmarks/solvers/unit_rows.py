"""What baselines on rows of unit norm share: a linear model without standardisation, for the logistic or Huber hinge.

The constant column is part of a row and of its norm. Both losses have slopes within 1, and ``smoothness`` bounds their
second derivative; that of the Huber hinge jumps at two margins, which privacy does not mind: gradients stay Lipschitz,
so densities change by the determinant almost everywhere (Chaudhuri, Monteleoni & Sarwate 2011, section 3.4).
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from ..inside import HuberHinge, Logistic, MarginLoss

__all__ = ["UnitRowsClassifier", "unit_rows"]

LOSSES: dict[str, MarginLoss] = {"log_loss": Logistic(), "huber_hinge": HuberHinge(0.5)}


def unit_rows(X) -> np.ndarray:
    """Return the rows with a constant in the last column, scaled to norm 1."""
    rows = np.column_stack([np.asarray(X.todense()) if hasattr(X, "todense") else X, np.ones(X.shape[0])])
    return rows / np.linalg.norm(rows, axis=1)[:, None]


class UnitRowsClassifier(ClassifierMixin, BaseEstimator):
    """Two classes; subclasses learn the weights of rows that carry their sign."""

    def __init__(self, epsilon=1.0, delta=1e-6, alpha=1e-3, loss="log_loss", random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.loss = loss
        self.random_state = random_state

    def _weights(self, rows: np.ndarray, loss: MarginLoss, rng: np.random.Generator) -> np.ndarray:
        """Return private weights, given rows of unit norm times their labels of -1 and 1."""
        raise NotImplementedError

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        rows = unit_rows(X) * np.where(y == self.classes_[1], 1.0, -1.0)[:, None]
        w = self._weights(rows, LOSSES[self.loss], np.random.default_rng(self.random_state))
        self.coef_, self.intercept_ = w[None, :-1], w[-1:]
        return self

    def decision_function(self, X):
        return unit_rows(X) @ np.append(self.coef_, self.intercept_)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
