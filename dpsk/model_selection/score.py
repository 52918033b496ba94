"""A private accuracy, with intervals that take the noise into account."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier

from ..data import Chunks, PrivateData, RawRows, is_dask
from ..data.persons import Persons
from ..data.weights import Weights
from ..mechanisms import Laplace, bits_for
from ..mechanisms.additive import noise_scale
from ..mechanisms.randomness import Bits
from ..pipelines.in_front import n_rows_of
from ..privacy import Budget, PrivacySpent
from ..privacy.durable.store import set_aside
from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up, warn_not_private
from ..privacy.units import ROW, several
from ..queries import Successes
from .intervals import rows_interval, rows_population_interval, votes_interval, votes_population_interval
from .judging import correct, labels_of
from .voters import Voters


@dataclass(frozen=True)
class PrivateScore:
    """A released accuracy.

    Parameters
    ----------
    accuracy : float
        The noisy part of correct predictions, in [0, 1]. Where persons are protected, it is the mean over them of the
        part of their rows that is predicted correctly: each person counts once.
    interval : pair of floats
        Where the accuracy on the *population* lies, if these rows (or persons) are an independent random sample of it:
        it allows for the noise and for the sampling.
    interval_on_rows : pair of floats
        Where the accuracy on *these rows* (or persons) lies: it allows for the noise only.
    confidence : float
        How often each interval holds what it is for, at least.
    n_rows : int
        The number of held-out rows, which is public.
    n_units : int
        The number of held-out units, rows or persons, which is public.
    privacy_spent : PrivacySpent
        The guarantee for the held-out rows or persons.
    """

    accuracy: float
    interval: tuple[float, float]
    interval_on_rows: tuple[float, float]
    confidence: float
    n_rows: int
    n_units: int
    privacy_spent: PrivacySpent

    @property
    def unit(self) -> str:
        """What is protected and has one vote: "row", or a person with all rows."""
        return self.privacy_spent.unit

    def statement(self) -> str:
        """Return a paragraph for a report."""
        if not self.privacy_spent.private:
            return (
                "NOT PRIVATE: the noise of this accuracy was generated from a known seed (random_state), so whoever "
                "knows the seed can subtract it."
            )
        (low, high), spent = self.interval, self.privacy_spent
        confidence = math.floor(1e6 * self.confidence) / 1e6
        units, held = several(self.unit), f"{self.n_rows} held-out rows"
        if self.unit != ROW:
            held += f" of {self.n_units} {units}, each {self.unit} counting once"
        return (
            f"The accuracy on {held}, {self.accuracy:.3f}, was released with "
            f"({round_up(spent.epsilon, 4)}, 0)-differential privacy for each of these {units}: neighbours differ in "
            f"that {Adjacency(spent.adjacency).words(self.unit)}. If the {units} are a random sample, the "
            f"accuracy on their population lies between {math.floor(1e3 * low) / 1e3:.3f} and "
            f"{math.ceil(1e3 * high) / 1e3:.3f} with {confidence:g} confidence, noise and sampling considered. Other "
            f"releases from these {units}, fits included, add to it."
        )


def private_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    groups: Any = None,
    group_column: str | None = None,
    confidence: float = 0.95,
    adjacency: str = "zero-out",
    ledger: Any = None,
    random_state: int | None = None,
) -> PrivateScore:
    """Return the accuracy of a fitted classifier on held-out private rows, with noise that is paid for.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 13.2 to 13.4)
    epsilon-differential privacy (delta = 0) for rows, by discrete Laplace noise on the count of correct predictions;
    with ids for persons, of whom each has one vote: the part of its rows that is right. A row that the estimator
    refuses is wrong; no error, warning or refund tells of it. Rows of its fit pay twice, and score too high.

    Parameters
    ----------
    estimator : fitted classifier
        Anything with ``predict``. Classifiers of dpsk, alone or behind scikit-learn's encoders and scalers, predict for
        all rows at once. Anything else predicts for one row at a time, which takes a forest some milliseconds.
    X, y : array-like
        Held-out rows and their labels. Their number, the columns and the types of the arrays are public.
    epsilon : float
        The price. The noise has a standard deviation of about 1.4/epsilon rows, or persons.
    groups, group_column : array-like and str, or None
        The ids of the rows, or the column of X that holds them and is no feature. None: the ``group_column`` of the
        estimator if X has it, as Chunks should, and otherwise each row by itself. A model for persons needs ids.
    confidence : float, default=0.95
        How often the intervals hold. For persons they are wider: no law of votes is known.
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
    >>> train_X, test_X, train_y, test_y = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    >>> model = DPLogisticRegression(epsilon=4.0).fit(train_X, train_y)
    >>> score = private_score(model, test_X, test_y, epsilon=1.0)
    >>> score.interval[0] <= score.accuracy <= score.interval[1]
    True
    """
    require_possible("private_score", estimator, confidence, adjacency)
    budget, bits = Budget.of(epsilon, 0.0), bits_for(random_state)
    warn_not_private(noisy=True, seeded=not bits.private, stacklevel=2)
    voters, promise = Voters.of(estimator, X, groups, group_column), {"adjacency": adjacency, "ledger": ledger}
    counted, spent = released_successes(estimator, X, y, budget, voters, bits=bits, confidence=confidence, **promise)
    return counted.score(confidence, spent)


def require_possible(caller: str, estimator: Any, confidence: Any, adjacency: Any) -> None:
    """Raise ValueError for mistakes that show before the rows are there."""
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} must be a number between 0 and 1")
    Adjacency(adjacency)  # or its error
    if isinstance(estimator, type) or (isinstance(estimator, BaseEstimator) and not is_classifier(estimator)):
        raise ValueError(f"{caller} takes a fitted classifier: only classifiers have an accuracy")


@dataclass(frozen=True)
class Counted:
    """``noisy = one * (sum of votes) + noise``: discrete Laplace noise with this scale."""

    noisy: int
    n_rows: int
    n_units: int
    one: int
    scale: int

    @property
    def cut_off(self) -> int:
        """``noisy``, cut off where no count lies beyond."""
        return min(self.n_units * self.one, max(0, self.noisy))

    @property
    def accuracy(self) -> float:
        """The noisy mean of votes, in [0, 1]."""
        return self.cut_off / (self.n_units * self.one)

    def score(self, confidence: float, spent: PrivacySpent) -> PrivateScore:
        """Return the score with its intervals, both of which hold with this confidence."""
        law = self.one, self.scale, 1 - confidence
        if spent.unit == ROW:
            released = self.cut_off, self.n_rows, *law
            population, here = rows_population_interval(*released), rows_interval(*released)
        else:
            votes = self.cut_off, self.n_units, self.n_rows - self.n_units, *law
            population, here = votes_population_interval(*votes), votes_interval(*votes)
        return PrivateScore(self.accuracy, population, here, confidence, self.n_rows, self.n_units, spent)


def released_successes(
    estimator: Any,
    X: Any,
    y: Any,
    budget: Budget,
    voters: Voters,
    *,
    adjacency: str,
    ledger: Any,
    bits: Bits,
    confidence: float | None = None,
) -> tuple[Counted, PrivacySpent]:
    """Return the noisy sum of votes for the estimator, bought with the whole of a pure budget.

    ``confidence`` is that of the intervals that follow, which the ledger records.
    """

    def judged() -> tuple[NDArray[np.bool_], Persons | None]:
        true = labels_to_score("private_score", estimator, X, y)
        shown, persons_of = voters.apart(X)
        return correct(estimator, shown, true), persons_of(len(true))

    asked = {"estimator": type(estimator), "epsilon": budget.epsilon, "confidence": confidence, "adjacency": adjacency}
    asked |= {"group_column": voters.column, "random_state": None if bits.private else "given"}
    promise: Any = {"label": "private_score", "adjacency": adjacency, "unit": voters.unit, "asked": asked}
    return released_votes(judged, budget, ledger=ledger, bits=bits, **promise)


def released_votes(
    judged: Callable[[], tuple[NDArray[np.bool_], Persons | None]],
    budget: Budget,
    *,
    label: str,
    adjacency: str,
    unit: str,
    ledger: Any,
    bits: Bits,
    asked: Mapping[str, Any],
) -> tuple[Counted, PrivacySpent]:
    """Return the noisy sum of votes, bought with the whole of a pure budget before rows are judged.

    ``judged`` returns which rows are right, and whose rows they are, None where each has its own vote. ``asked`` are
    the parameters that the ledger records.
    """
    require_noise(budget, adjacency)
    promise: Any = {"label": label, "adjacency": adjacency, "private": bits.private, "unit": unit}
    with set_aside(ledger, budget, **promise, asked=asked) as filtered:
        right, persons = judged()
        weights = None if persons is None else Weights(persons.weights, persons)
        rows = RawRows(right.astype(np.float64)[:, None], weights=weights)
        data = PrivateData(rows, filtered, bits, adjacency=adjacency)
        votes = data.measure(Successes())
        released = data.release(votes, Laplace(budget.epsilon))
    noisy, one = round(float(released[0]) / votes.unit), round(1 / votes.unit)
    scale = noise_scale(votes.sensitivity.l1, budget.epsilon)
    spent = replace(data.report(), held_out=True, n_rows=len(right), n_units=None if persons is None else persons.n)
    return Counted(noisy, len(right), data.n_units, one, scale), spent


def require_noise(budget: Budget, adjacency: str) -> None:
    """Raise ValueError for an epsilon that is too small for the grid."""
    Laplace(budget.epsilon).check(Successes().sensitivity(adjacency))


def labels_to_score(caller: str, estimator: Any, X: Any, given: Any) -> NDArray[Any]:
    """Return labels; raise ValueError for mistakes that no value decides: the model, numbers of rows, types."""
    if given is None:
        raise ValueError("y is None: a score needs one label per row of X, also where X is Chunks")
    y = labels_of(given)
    if not callable(getattr(estimator, "predict", None)):
        raise ValueError(f"{caller} takes a fitted classifier: {type(estimator).__name__} cannot predict")
    n = None if is_dask(X) or isinstance(X, Chunks) else n_rows_of(X)
    if y.ndim != 1 or not len(y) or n not in (None, len(y)):
        raise ValueError(f"X has {n} rows and y the shape {y.shape}: one label per row is needed, and at least one row")
    # pandas has types of its own for text, which become objects in an array
    kind = "text" if str(getattr(given, "dtype", "")).startswith(("str", "String")) else _KINDS.get(y.dtype.kind)
    known = np.asarray(getattr(estimator, "classes_", y))
    if {kind, _KINDS.get(known.dtype.kind)} == {"text", "numbers"}:
        raise ValueError(
            f"the labels in y are {kind}, and those that the estimator was fitted on are not: are they "
            "coded differently?"
        )
    return y


_KINDS = {**dict.fromkeys("US", "text"), **dict.fromkeys("biuf", "numbers")}
