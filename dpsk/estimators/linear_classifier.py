"""Linear classifiers: what they ask for, and what a fitted one shows."""

from .classifier import PrivateClassifier


class LinearClassifier(PrivateClassifier):
    """Base of private classifiers whose scores are linear in the columns.

    Parameters
    ----------
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    """

    fit_intercept: bool = True
