"""What the linear classifiers share beyond the fit: losses by name, scores and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils.metaestimators import available_if

from ..data import LARGEST_ENTRY
from ..losses import Hinge, HuberHinge, Logistic, Loss, OneVsRest, Softmax
from ..mechanisms.exact import Floats
from .blocks import by_blocks

__all__ = ["LOSSES", "SMOOTH_LOSSES", "Probabilities", "ProbabilitiesOfLogLoss", "linear_scores", "loss_named"]

SMOOTH_LOSSES = ("log_loss", "huber_hinge")
LOSSES = ("log_loss", "hinge", "huber_hinge")


def loss_named(name: str, n_classes: int) -> Loss:
    """Return the loss for this many classes: the softmax for several logistic ones, one-vs-rest for the others."""
    if name == "log_loss":
        return Logistic() if n_classes == 2 else Softmax(n_classes)
    hinge = Hinge() if name == "hinge" else HuberHinge()
    return hinge if n_classes == 2 else OneVsRest(hinge, n_classes)


def linear_scores(
    X: Any, coef: Floats, intercept: Floats, ranges: Floats | None, data_norm: float | None = None
) -> Floats:
    """Return ``X @ coef.T + intercept`` with the entries of X clipped to ``ranges``: lows and highs of the columns.

    Or with rows longer than ``data_norm`` scaled down to it.
    """
    if ranges is None:
        if data_norm is not None:
            X = _without_overflow(X)
        products = np.asarray(X @ coef.T)
        if data_norm is not None:
            squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.square(X, dtype=np.float64).sum(axis=1)
            norms = np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
            products = products * np.minimum(1.0, data_norm / np.maximum(norms, data_norm))[:, None]
        return products + intercept
    low, high = ranges
    if not sp.issparse(X):
        return np.asarray(np.clip(X, low, high) @ coef.T + intercept)
    # zeros that are not stored may be clipped as well: to the bound nearest to 0
    origin = np.clip(0.0, low, high)
    X = sp.csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.data = np.clip(X.data, low[X.indices], high[X.indices]) - origin[X.indices]
    return np.asarray(X @ coef.T + (intercept + coef @ origin))


def _without_overflow(X: Any) -> Any:
    """Return X with entries as large as ``fit`` takes them, so that the squares of all are finite."""
    entries = X.data if sp.issparse(X) else X
    if entries.dtype != np.float64 or np.abs(entries).max(initial=0.0) <= LARGEST_ENTRY:
        return X
    clipped = np.clip(entries, -LARGEST_ENTRY, LARGEST_ENTRY)
    return sp.csr_matrix((clipped, X.indices, X.indptr), X.shape) if sp.issparse(X) else clipped


class Probabilities:
    """``predict_proba`` and ``predict_log_proba`` of a classifier whose scores are log-odds."""

    decision_function: Any
    _one_vs_rest = False
    """Whether scores of several classes are log-odds against all others, rather than logarithms of probabilities."""

    def _log_odds(self, X: Any) -> Floats:
        scores: Floats = self.decision_function(X)
        return log_expit(scores) if self._one_vs_rest and scores.ndim == 2 else scores

    @by_blocks
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``.

        Noise makes scores too large where rows are few; the probabilities are then too close to 0 and 1.
        """
        scores = self._log_odds(X)
        probabilities: Floats
        if scores.ndim == 1:
            probabilities = np.column_stack([expit(-scores), expit(scores)])
        else:
            probabilities = softmax(scores, axis=1)
        return probabilities

    @by_blocks
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        scores = self._log_odds(X)
        logarithms: Floats
        if scores.ndim == 1:
            logarithms = np.column_stack([log_expit(-scores), log_expit(scores)])
        else:
            logarithms = log_softmax(scores, axis=1)
        return logarithms


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
