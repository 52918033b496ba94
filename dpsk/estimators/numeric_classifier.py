"""Classifiers of tables of numbers: what they ask about columns."""

from typing import Any

from .linear_classifier import LinearClassifier


class NumericClassifier(LinearClassifier):
    """Base of linear classifiers that take tables of numbers.

    Parameters
    ----------
    bounds : pair of numbers or arrays, dict, or None
        Public lower and upper bounds of the columns: ``(0, 1)`` for all, ``(lows, highs)``, not a list of pairs, or by
        name, ``{"age": (0, 120), ...}``, for every column of a DataFrame. Values beyond are clipped, and columns are
        fitted in units of their bounds. With bounds nothing is spent on finding ranges.
    standardize : {"private", None}
        "private" spends a part of the budget on means and standard deviations of the columns (and, without
        ``bounds``, on their ranges first) and fits standardised columns; ``alpha`` then refers to these. The
        coefficients come back in the units of X. None fits the columns as they are.
    data_norm : float or None
        A public bound on the l2 norm of a row; longer rows are scaled down to it, in ``fit`` and in predictions. None:
        no bound is needed. It cannot be combined with ``bounds`` or ``standardize``, which look at columns.
    features : {None, "fourier"}
        "fourier" adds cosines and sines of random sums of columns (Rahimi & Recht 2007), so that the boundary between
        classes may be curved. Each sum is of one to three columns. At least one of them holds more than two values
        besides 0; 2 % of the budget (8 % of epsilon where delta is 0) tells which columns do. It takes
        ``standardize="private"``, which finds how far entries spread. Where there are too few rows for the budget, no
        features are added, a warning says so, and the fit is the one without, bit for bit. Where the true boundary is
        straight, they cost some tenths of a point of accuracy. They take the time and memory of some hundred columns
        more.
    features_seed : int
        The seed of the frequencies, which are public: it has nothing to do with ``random_state``. Without
        effect where there are none.

    Attributes
    ----------
    ranges_ : ndarray of shape (2, n_features), or None
        Lower and upper ends of the columns, public or released with noise. Values beyond count as the end of the range,
        in ``fit`` and in predictions. None where neither ``bounds`` nor ``standardize`` is used.
    data_norm_ : float or None
        The norm that longer rows are brought down to, in ``fit`` and in predictions; None where there is none.
    waves_ : Waves or None
        The public map of a row to its random Fourier features. Their coefficients are the last ``waves_.n_columns``
        columns of ``coef_``. None where there are none.
    """

    bounds: Any = None
    standardize: str | None = None
    data_norm: float | None = None
    features: str | None = None
    features_seed: int = 0
