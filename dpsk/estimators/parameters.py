"""Parameters that estimators share: how they are checked, and what docstrings say of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..mechanisms.samplers import Floats

__all__ = [
    "NOT_TAKEN",
    "PARAMETERS",
    "as_bounds",
    "as_classes",
    "in_own_words",
    "require_choice",
    "require_clip",
    "require_number",
    "require_part",
    "require_stable_steps",
]

PARAMETERS = {
    "budget": """epsilon, delta : float, default=1.0 and 1e-6
        The privacy guarantee of the fit. Choose delta well below 1/n_samples.""",
    "budget or exact": """epsilon, delta : float, default=1.0 and 1e-6
        The privacy guarantee of the fit. Choose delta well below 1/n_samples. ``epsilon=inf`` fits the exact model
        instead, without noise, standardisation or bounds, and says that it is not private.""",
    "rho": """rho : float or None, default=None
        The budget as zero-concentrated differential privacy. If given it is used and ``epsilon`` is ignored; the
        epsilon reported is what rho guarantees at ``delta``.""",
    "losses": """loss : {"log_loss", "hinge", "huber_hinge"}, default="log_loss"
        Logistic loss (softmax for several classes), the hinge, or the hinge with a rounded corner (one-vs-rest).""",
    "sampling": """sampling_rate : float, default=0.1
        The part of the rows that a batch holds, drawn secretly and anew each time; 1.0 uses all rows.
    sampling : {"poisson", "without-replacement"}, default="poisson"
        "poisson" keeps each row independently, for ``adjacency="zero-out"``. "without-replacement" draws batches of a
        fixed size and protects replaced rows under either adjacency. What is proved for it needs far more noise: unless
        the rate is near 0.01 or below, all rows (1.0) are better.""",
    "columns": """bounds : pair of numbers or arrays, or None, default=None
        Public lower and upper bounds of the columns, such as ``(0, 1)`` or ``(lows, highs)``, not a list of pairs;
        values beyond are clipped, and columns are fitted in units of their bounds. With bounds nothing is spent on
        finding ranges.
    standardize : {"private", None}, default=%s
        "private" spends a part of the budget on means and standard deviations of the columns (and, without
        ``bounds``, on their ranges first) and fits standardised columns; ``alpha`` then refers to these. The
        coefficients come back in the units of X. None fits the columns as they are.""",
    "data": """fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    data_norm : float or None, default=None
        A public bound on the l2 norm of a row; longer rows are scaled down to it, in ``fit`` and in predictions. None:
        no bound is needed. It cannot be combined with ``bounds`` or ``standardize``, which look at columns.
    classes : array-like or None, default=None
        All labels that may occur. None: the labels seen, which are then treated as public.
    adjacency : {"zero-out", "replace"}, default="zero-out"
        Neighbouring data sets differ by one row that leaves every sum, or by one row replaced. The latter needs
        about twice the noise.""",
    "running": """ledger : PrivacyLedger, path or None, default=None
        One budget for everything that is done with the same data (:class:`~dpsk.PrivacyLedger`), or the path of its
        file. The fit sets its whole budget aside there before it touches the data, or raises
        :class:`~dpsk.BudgetExhausted` and draws nothing. Clones and worker processes share it.
    random_state : int or None, default=None
        None: secure noise from the operating system. An int makes the fit reproducible and NOT private.
    verbose : int, default=0
        1 prints progress at every tenth of the budget, 2 at every iterate. Only released values are shown.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    ranges_ : ndarray of shape (2, n_features), or None
        Lower and upper ends of the columns, public or released with noise. Values beyond count as the end of the range,
        in ``fit`` and in predictions. None where neither ``bounds`` nor ``standardize`` is used.
    data_norm_ : float or None
        The norm that longer rows are brought down to, in ``fit`` and in predictions; None where there is none.
    classes_ : ndarray of shape (n_classes,)
    evaluations_ : dict
        How many gradients ("gradient"), Hessians ("Hessian") and losses (in searches: "losses", "gains") were computed,
        in passes over the rows: 500 gradients of batches of a tenth are 50. It is the number expected, and tells
        nothing about how many rows a random batch held. Empty for objective and output perturbation, whose problem is
        solved without noise.
    privacy_spent_ : PrivacySpent
        The guarantee (fixed before the fit) and the releases that were made under it. ``privacy_spent_.statement()`` is
        a paragraph for a report. A fit that ends in an error after a release leaves only this attribute.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), if X had string column names""",
}
"""What docstrings of estimators share; each piece begins after four blanks."""

PARAMETERS["penalised data"] = PARAMETERS["data"].replace(
    "which is not penalised", "which is penalised like the other weights: the guarantee needs that"
)


NOT_TAKEN = {
    "sample_weight": "sample_weight is not supported: weights change how much one row can move a sum, and with it the "
    "privacy guarantee. Leave it out, or resample the rows beforehand by a rule that does not look at the data",
    "class_weight": "class_weight is not supported: weights change how much one row can move a sum, and with it the "
    "privacy guarantee. Leave it out; where classes are rare, choose a threshold for decision_function instead",
    "C": "C is not supported: give alpha, which is 1 / (C * n_samples)",
}
"""What scikit-learn's linear models take and these do not, with a way out."""


def in_own_words(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor name the class that was asked for, and a remedy, when it does not take an argument."""
    signature = inspect.signature(init)

    @wraps(init)
    def __init__(self: Any, *args: Any, **parameters: Any) -> None:
        try:
            signature.bind(self, *args, **parameters)
        except TypeError as error:
            wrong = next((text for name, text in NOT_TAKEN.items() if name in parameters), f"{error}")
        else:
            return init(self, *args, **parameters)
        known = ", ".join(list(signature.parameters)[1:])
        raise TypeError(f"{type(self).__name__}: {wrong}. Its parameters are {known}; all but the first two by name")

    return __init__


def require_number(name: str, value: object, low: float, *, kind: Any = Real, open_low: bool = False) -> None:
    """Raise ValueError unless ``value`` is a finite number of this kind, >= low (> low if ``open_low``)."""
    number: Any = value
    good = isinstance(number, kind) and not isinstance(number, bool | np.bool_) and math.isfinite(number)
    if not good or number < low or (open_low and number == low):
        wanted = "an integer" if kind is Integral else "a finite number"
        raise ValueError(f"{name}={value!r} must be {wanted} {'>' if open_low else '>='} {low:g}")


def require_choice(name: str, value: object, choices: tuple[str, ...], *, or_none: bool = False) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        none = "None or " if or_none else ""
        raise ValueError(f"{name}={value!r} must be {none}one of {', '.join(map(repr, choices))}")


def require_clip(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is a clip whose grid floats can hold."""
    require_number(name, value, 0, open_low=True)
    number: Any = value
    if not 2.0**-100 <= number <= 2.0**100:
        raise ValueError(f"{name}={value!r} must lie between 2**-100 and 2**100")


def require_part(name: str, value: object, *, whole: bool = True) -> None:
    """Raise ValueError unless ``value`` is a number in (0, 1], or in (0, 1) unless ``whole``."""
    require_number(name, value, 0, open_low=True)
    number: Any = value
    if not (number <= 1 if whole else number < 1):
        raise ValueError(f"{name}={value!r} must lie in (0, 1{']' if whole else ')'}")


def require_stable_steps(name: str, step: float, alpha: float) -> None:
    """Raise ValueError if plain steps along the penalty would grow without end."""
    if step * alpha > 2:
        raise ValueError(
            f"{name}={step!r} with alpha={alpha!r}: steps along the penalty would grow without end. Keep "
            f"{name} * alpha at most 2"
        )


def as_classes(classes: Any) -> Any:
    """Return the labels listed, sorted; raise ValueError unless they are at least two, of one type."""
    try:
        given = np.asarray(classes)
        labels = np.unique(given)
        kinds = {isinstance(label, str) for label in np.asarray(classes, dtype=object).ravel()}
        good = given.ndim == 1 and len(labels) > 1 and len(kinds) == 1 and (labels == labels).all()
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"classes={classes!r} must be None or list all labels that may occur, two or more, all text or all numbers"
        )
    return labels


def as_bounds(bounds: Any) -> tuple[Floats, Floats]:
    """Return lower and upper bounds as arrays; raise ValueError unless they are finite numbers in order."""
    try:
        low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
        low, high = np.broadcast_arrays(low, high)
        good = low.ndim <= 1 and (np.abs([low, high]) < 2.0**400).all() and (low <= high).all() and (low < high).any()
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"bounds={bounds!r} must be None or a pair (low, high) of finite numbers, or of arrays with one number per "
            "column, (lows, highs), with low <= high, and low < high somewhere: public knowledge, not taken from the "
            "data"
        )
    if low.shape == (2,) and (low == high).any():
        raise ValueError(
            f"bounds={bounds!r} leaves one of two columns a single value. It is read as (lows, highs), one number per "
            "column in each, and not as a pair per column. Turn it round, or drop a column that never changes"
        )
    return low, high
