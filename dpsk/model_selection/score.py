"""A private accuracy, with intervals that take the noise into account."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom
from sklearn.base import BaseEstimator, is_classifier

from ..data import Chunks, PrivateData, RawRows, is_dask
from ..mechanisms import Laplace, bits_for
from ..mechanisms.additive import noise_scale
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats
from ..privacy import Budget, PrivacySpent
from ..privacy.durable.store import set_aside
from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up, warn_not_private
from ..queries import Successes
from .judging import correct, labels_of, n_rows_of


@dataclass(frozen=True)
class PrivateScore:
    """A released accuracy.

    Parameters
    ----------
    accuracy : float
        The noisy part of correct predictions, in [0, 1].
    interval : pair of floats
        Where the accuracy on the *population* lies, if these rows are an independent random sample of it: it allows for
        the noise and for the sampling.
    interval_on_rows : pair of floats
        Where the accuracy on *these rows* lies: it allows for the noise only.
    confidence : float
        How often each interval holds what it is for, at least.
    n_rows : int
        The number of held-out rows, which is public.
    privacy_spent : PrivacySpent
        The guarantee for the held-out rows.
    """

    accuracy: float
    interval: tuple[float, float]
    interval_on_rows: tuple[float, float]
    confidence: float
    n_rows: int
    privacy_spent: PrivacySpent

    def statement(self) -> str:
        """Return a paragraph for a report."""
        if not self.privacy_spent.private:
            return (
                "NOT PRIVATE: the noise of this accuracy was generated from a known seed (random_state), so whoever "
                "knows the seed can subtract it."
            )
        (low, high), spent = self.interval, self.privacy_spent
        confidence = math.floor(1e6 * self.confidence) / 1e6
        return (
            f"The accuracy on {self.n_rows} held-out rows, {self.accuracy:.3f}, was released with "
            f"({round_up(spent.epsilon, 4)}, 0)-differential privacy for each of these rows: neighbours differ in that "
            f"{Adjacency(spent.adjacency).words(spent.unit)}. If the rows are a random sample, the "
            f"accuracy on their population lies between {math.floor(1e3 * low) / 1e3:.3f} and "
            f"{math.ceil(1e3 * high) / 1e3:.3f} with {confidence:g} confidence, noise and sampling considered. Other "
            "releases from these rows, fits included, add to it."
        )


def private_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    confidence: float = 0.95,
    adjacency: str = "zero-out",
    ledger: Any = None,
    random_state: int | None = None,
) -> PrivateScore:
    """Return the accuracy of a fitted classifier on held-out private rows, with noise that is paid for.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 13.2)
    epsilon-differential privacy (delta = 0) for the rows of X and y, by discrete Laplace noise on the count of correct
    predictions. A row that the estimator refuses counts as wrong. No error, warning or refund depends on what a row
    holds. Rows that the estimator was fitted on pay twice, and their accuracy is too high.

    Parameters
    ----------
    estimator : fitted classifier
        Anything with ``predict``. Classifiers of dpsk, alone or behind scikit-learn's encoders and scalers, predict for
        all rows at once. Anything else predicts for one row at a time: a fraction of a millisecond a row for a linear
        model, some milliseconds for a forest of 100 trees or a pipeline with a ColumnTransformer.
    X, y : array-like
        Held-out rows and their labels. Their number, the columns and the types of the arrays are public.
    epsilon : float
        The price. The noise has a standard deviation of about 1.4/epsilon rows.
    confidence : float, default=0.95
        How often the intervals hold.
    adjacency : {"zero-out", "replace"}, default="zero-out"
        Which data sets are neighbours; the noise is the same for both.
    ledger : PrivacyLedger, path or None, default=None
        The ledger of the held-out rows, which the price is set aside in before they are touched.
    random_state : int or None, default=None
        None: secure noise from the operating system. An int makes the score reproducible and NOT private.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from dpsk import DPLogisticRegression, private_score
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0)
    >>> model = DPLogisticRegression(epsilon=4.0).fit(train_X, train_y)
    >>> score = private_score(model, test_X, test_y, epsilon=1.0)
    >>> score.interval[0] <= score.accuracy <= score.interval[1]
    True
    """
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} must be a number between 0 and 1")
    Adjacency(adjacency)  # or its error
    if isinstance(estimator, type) or (isinstance(estimator, BaseEstimator) and not is_classifier(estimator)):
        raise ValueError("private_score takes a fitted classifier: only classifiers have an accuracy")
    budget, bits = Budget.of(epsilon, 0.0), bits_for(random_state)
    warn_not_private(noisy=True, seeded=not bits.private, stacklevel=2)
    counted, spent = released_successes(estimator, X, y, budget, adjacency=adjacency, ledger=ledger, bits=bits)
    return counted.score(confidence, spent)


@dataclass(frozen=True)
class Counted:
    """``noisy = one * (number of correct predictions) + noise``: discrete Laplace noise with this scale."""

    noisy: int
    n_rows: int
    one: int
    scale: int

    @property
    def cut_off(self) -> int:
        """``noisy``, cut off where no count lies beyond."""
        return min(self.n_rows * self.one, max(0, self.noisy))

    @property
    def accuracy(self) -> float:
        """The noisy part of correct predictions, in [0, 1]."""
        return self.cut_off / (self.n_rows * self.one)

    def score(self, confidence: float, spent: PrivacySpent) -> PrivateScore:
        """Return the score with its intervals, both of which hold with this confidence."""
        released = self.cut_off, self.n_rows, self.one, self.scale, 1 - confidence
        population, rows = _population_interval(*released), _rows_interval(*released)
        return PrivateScore(self.accuracy, population, rows, confidence, self.n_rows, spent)


def released_successes(
    estimator: Any, X: Any, y: Any, budget: Budget, *, adjacency: str, ledger: Any, bits: Bits
) -> tuple[Counted, PrivacySpent]:
    """Return the noisy number of correct predictions, bought with the whole of a pure budget."""
    mechanism, query = Laplace(budget.epsilon), Successes()
    sensitivity = query.sensitivity(adjacency)
    mechanism.check(sensitivity)  # an epsilon too small for the grid fails here
    with set_aside(ledger, budget, label="private_score", adjacency=adjacency, private=bits.private) as filtered:
        if y is None:
            raise ValueError("y is None: a score needs one label per row of X, also where X is Chunks")
        true = labels_of(y)
        _require_scorable(estimator, X, true)
        right = correct(estimator, X, true).astype(np.float64)
        data = PrivateData(RawRows(right[:, None]), filtered, bits, adjacency=adjacency)
        released = data.release(data.measure(query), mechanism)
    noisy, one = round(float(released[0]) / query.unit), int(sensitivity.l1)
    return Counted(noisy, len(true), one, noise_scale(sensitivity.l1, budget.epsilon)), data.report()


def _require_scorable(estimator: Any, X: Any, y: NDArray[Any]) -> None:
    """Raise ValueError for mistakes that do not depend on values: the model, numbers of rows, types of labels."""
    if not callable(getattr(estimator, "predict", None)):
        raise ValueError(f"private_score takes a fitted classifier: {type(estimator).__name__} cannot predict")
    n = None if is_dask(X) or isinstance(X, Chunks) else n_rows_of(X)
    if y.ndim != 1 or not len(y) or n not in (None, len(y)):
        raise ValueError(f"X has {n} rows and y the shape {y.shape}: one label per row is needed, and at least one row")
    kinds = {_KINDS.get(labels.dtype.kind) for labels in (y, np.asarray(getattr(estimator, "classes_", y)))}
    if kinds == {"text", "numbers"}:
        raise ValueError(
            f"the labels in y are {_KINDS[y.dtype.kind]}, and those that the estimator was fitted on are not: are they "
            "coded differently?"
        )


_KINDS = {**dict.fromkeys("US", "text"), **dict.fromkeys("biuf", "numbers")}


def _rows_interval(noisy: int, n: int, one: int, scale: int, error: float) -> tuple[float, float]:
    """Return an interval that misses count/n with probability ``error``, for ``noisy = one * count + noise``.

    It rests on the tails of the discrete Laplace distribution (docs/guarantees.md, 13.3).
    """
    reach = max(0, math.ceil(scale * math.log(2 / (error * (1 + math.exp(-1 / scale))))) - 1)
    low = max(0, -((reach - noisy) // one))  # counts are integers: round up, and down
    high = min(n, (noisy + reach) // one)
    return (low / n, high / n) if low <= high else (noisy / (n * one),) * 2


def _population_interval(noisy: int, n: int, one: int, scale: int, error: float) -> tuple[float, float]:
    """Return an interval that misses p with probability ``error``, for ``noisy = one * Binomial(n, p) + noise``.

    It consists of all p under which neither tail has a probability of at most error/2 (docs/guarantees.md, 13.3).
    """

    def tail(p: float, sign: int) -> float:
        """Return how much likelier than error/2 the noisy count or less (1) or the noisy count or more (-1) is."""
        count, weight = _counts(n, p)
        return 1e-15 + float(weight @ _noise_cdf(sign * (noisy - one * count), scale)) - error / 2

    low = 0.0 if tail(0.0, -1) > 0 else float(brentq(tail, 0.0, 1.0, (-1,), xtol=1e-10)) - 1e-9
    high = 1.0 if tail(1.0, 1) > 0 else float(brentq(tail, 0.0, 1.0, (1,), xtol=1e-10)) + 1e-9
    return max(0.0, low), min(1.0, high)


def _counts(n: int, p: float) -> tuple[Floats, Floats]:
    """Return the counts that are not negligible (the others have 1e-20 together, covered by 1e-15), with chances."""
    reach = 10 * math.sqrt(n * p * (1 - p)) + 60
    count = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1)
    return count.astype(np.float64), binom.pmf(count, n, p)


def _noise_cdf(k: Floats, scale: int) -> Floats:
    """Return P(noise <= k) for discrete Laplace noise."""
    r = math.exp(-1 / scale)
    far = np.exp(-np.where(k >= 0, k + 1, -k) / scale) / (1 + r)
    cdf: Floats = np.where(k >= 0, 1 - far, far)
    return cdf
