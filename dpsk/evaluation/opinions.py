"""What a model thinks of each held-out row: the class that it predicts, and how sure it is.

A row that the model refuses counts as predicted wrongly, and as sure of it as can be. So does a row with a label that
the model does not know, as a row of the first class.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..elementwise import log
from ..estimators.classifier import PrivateClassifier
from ..mechanisms.samplers import Floats, Integers
from ..model_selection.judging import answers, equal, is_search, predicts_as_dpsk
from ..pipelines.in_front import silence

LARGEST = 36.0  # log-odds: a probability of 1 - 2^-52


@dataclass(frozen=True)
class Asked:
    """What is asked of a model, which follows from the model and from parameters.

    Parameters
    ----------
    classes : ndarray
        The labels that it knows.
    positive : int or None
        The number of the class that is set against the others; None where all classes are looked at.
    method : str
        What tells how sure it is: "predict_proba" or "decision_function".
    joined : bool
        Whether the model predicts the positive class where its score is above 0, and nowhere else.
    """

    classes: NDArray[Any]
    positive: int | None
    method: str
    joined: bool

    @classmethod
    def of(cls, model: Any, positive: Any, caller: str = "private_evaluation") -> "Asked":
        """Return what to ask of a fitted classifier; raise ValueError for one that has no classes or no scores."""
        name = type(model).__name__
        if not callable(getattr(model, "predict", None)):
            raise ValueError(f"{caller} takes a fitted classifier: {name} cannot predict")
        if not hasattr(model, "classes_"):
            raise ValueError(f"{name} has no classes_: {caller} takes a classifier that was fitted")
        classes = np.asarray(model.classes_)
        if classes.ndim != 1 or len(classes) < 2:
            raise ValueError(f"{name} must have at least two classes in classes_, in one dimension")
        method = next((way for way in ("predict_proba", "decision_function") if hasattr(model, way)), None)
        if method is None:
            raise ValueError(
                f"{name} has neither predict_proba nor decision_function, so it does not tell how sure it is: "
                "private_score gives its accuracy"
            )
        if len(classes) > 2 and positive is None:
            if method != "predict_proba":
                raise ValueError(
                    f"{name} has {len(classes)} classes and no predict_proba: give positive=, the label of one class "
                    "that is set against the others, or use private_score"
                )
            return cls(classes, None, method, False)
        which = len(classes) - 1 if positive is None else _number_of(positive, classes)
        return cls(classes, which, method, len(classes) == 2 and _cuts_at_zero(model))

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def width(self) -> int:
        """How many numbers the model says of a row."""
        return self.n_classes if self.is_probability or self.n_classes > 2 else 1

    @property
    def is_probability(self) -> bool:
        """Whether scores are log-odds of probabilities."""
        return self.method == "predict_proba"


def _number_of(positive: Any, classes: NDArray[Any]) -> int:
    given = np.empty(1, dtype=object)
    given[0] = positive
    number = int(_codes(given, classes)[0])
    if number < 0:
        raise ValueError(f"positive={positive!r} must be one of the labels {classes.tolist()}")
    return number


def _cuts_at_zero(model: Any) -> bool:
    """Return whether a model of two classes is known to predict the second where its score is above 0."""
    while not isinstance(model, PrivateClassifier):
        if type(model) is FrozenEstimator:
            model = model.estimator
        elif type(model) is Pipeline:
            model = model.steps[-1][1]
        elif is_search(model):
            model = model.best_estimator_
        else:
            return False
    return type(model).predict is PrivateClassifier.predict and predicts_as_dpsk(model)


@dataclass(frozen=True)
class Opinions:
    """What a model thinks of rows, one entry per row.

    With a positive class the labels are 0 and 1, and ``score`` is that of the positive class. With several classes it
    is the score of the class that is predicted, and ``of_true`` that of the true class.
    """

    true: Integers
    predicted: Integers
    score: Floats
    of_true: Floats

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the prediction is right."""
        right: NDArray[np.bool_] = self.predicted == self.true
        return right


def opinions(model: Any, X: Any, labels: NDArray[Any], asked: Asked) -> Opinions:
    """Return what a model thinks of rows with these true labels.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 13.2 and 13.5)
    Entry i is a function of the model, of row i and of its label.
    """
    (guesses, sure), known = answers(model, X, len(labels), {"predict": None, asked.method: asked.width})
    with silence():
        true, predicted = _codes(labels, asked.classes), _codes(guesses, asked.classes)
        refused = ~known | ~np.isfinite(sure).all(axis=1) | (predicted < 0) | (true < 0)
        true, sure = np.maximum(true, 0), np.where(refused[:, None], 0.0, sure)
        if asked.positive is None:
            return _of_winner(true, predicted, sure, refused)
        return _of_positive(true == asked.positive, predicted == asked.positive, sure, refused, asked)


def _of_winner(true: Integers, predicted: Integers, sure: Floats, refused: NDArray[np.bool_]) -> Opinions:
    """Return opinions about all classes."""
    n, n_classes = sure.shape
    score, of_true = (log_odds(sure[np.arange(n), which]) for which in (sure.argmax(axis=1), true))
    predicted = np.where(refused, (true + 1) % n_classes, predicted)
    return Opinions(true, predicted, np.where(refused, LARGEST, score), np.where(refused, -LARGEST, of_true))


def _of_positive(
    true: NDArray[np.bool_], predicted: NDArray[np.bool_], sure: Floats, refused: NDArray[np.bool_], asked: Asked
) -> Opinions:
    """Return opinions about one class against the others."""
    score = sure[:, asked.positive or 0] if asked.width > 1 else sure[:, 0] * (1.0 if asked.positive else -1.0)
    score = log_odds(score) if asked.is_probability else score
    end = LARGEST if asked.is_probability else np.inf
    score = np.where(refused, np.where(true, -end, end), score)
    predicted = np.where(refused, ~true, predicted)
    if asked.joined:  # what a probability rounds off near 1/2
        score = np.where(predicted, np.maximum(score, ABOVE_ZERO), np.minimum(score, 0.0))
    return Opinions(true.astype(np.int64), predicted.astype(np.int64), score, np.where(true, score, -score))


ABOVE_ZERO = math.nextafter(0.0, 1.0)
"""The edge between scores that are above 0 and those that are not."""


def _codes(labels: NDArray[Any], classes: NDArray[Any]) -> Integers:
    """Return the number of the class of each label, -1 for a label that is none."""
    codes = np.full(len(labels), -1, dtype=np.int64)
    for k, label in enumerate(classes):
        same = np.empty(len(labels), dtype=classes.dtype)
        same.fill(label)
        codes[equal(labels, same)] = k
    return codes


def log_odds(probability: Floats) -> Floats:
    """Return log(p / (1 - p)), at most LARGEST either way."""
    p = np.clip(probability, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        odds: Floats = np.clip(log(p) - log(1.0 - p), -LARGEST, LARGEST)
    return odds
