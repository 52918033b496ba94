"""Fitted models as plain objects of scikit-learn, which work where dpsk is not installed.

Each step is a class of scikit-learn with public attributes, or a function of NumPy or SciPy. Nothing is fitted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.validation import check_is_fitted

from ..calibration import BOUND, Curve, Temperature
from ..mechanisms.samplers import Floats
from .description import Calibration, Description, described, unwrapped
from .plain_networks import hidden_steps
from .plain_parts import added_in_order, chain, classifier, clipped, entrance, function, hats, minus, products, shrunk
from .plain_tables import columns_of

_FARTHEST = 1e100  # of scores, for a curve
_LARGEST, _LEAST = 36.0, 2.0**-52  # log-odds that are told apart, and probabilities


def plain(model: Any) -> Any:
    """Return a fitted model, or a pipeline that ends in one, in parts of scikit-learn alone."""
    check_is_fitted(model)
    model = unwrapped(model)
    if isinstance(model, Pipeline):
        steps = [(name, _step(step)) for name, step in model.steps[:-1]]
        return Pipeline([*steps, (model.steps[-1][0], plain(model.steps[-1][1]))], memory=model.memory)
    if not _of_dpsk(model):
        return model
    if hasattr(model, "threshold_"):
        return _with_threshold(model)
    if hasattr(model, "shift_"):
        return _recalibrated(model)
    return _of_weights(described(model))


def _of_dpsk(model: Any) -> bool:
    return any(kind.__module__.split(".")[0] == "dpsk" for kind in type(model).__mro__)


def _step(step: Any) -> Any:
    if _of_dpsk(step):
        raise ValueError(f"the step {type(step).__name__} is no part of scikit-learn: to_sklearn() cannot take it away")
    return step


def _of_weights(of: Description) -> Any:
    of.require_no_waves("to_sklearn()")
    if of.inputs is not None:
        return finished(of, {**_columns(of), **hidden_steps(of)}, of.coef)
    if of.features is not None:
        table, coef, constant = columns_of(of)
        return finished(replace(of, constant=constant), {"columns": table}, coef)
    steps: dict[str, Any] = {"clip": entrance(of.low, of.high, of.names)}
    coef = of.coef
    if of.origin.any():
        steps["origin"] = minus(of.origin)
    if of.data_norm is not None:
        steps |= shrunk(of.data_norm)
        coef = np.column_stack([coef * of.data_norm, np.zeros(len(coef))])
    return finished(of, steps, coef)


def _columns(of: Description) -> dict[str, Any]:
    """Return the steps that make the columns of a network: those of a table, clipped, or the features of a raw one."""
    if of.features is None:
        return {"clip": entrance(of.low, of.high, of.names)}
    n = len(of.low)
    table, weights, constant = columns_of(replace(of, coef=np.eye(n), constant=np.zeros(n)))
    return {"columns": table, "features": products(weights), "rest": minus(-constant), "clip": clipped(of.low, of.high)}


def finished(of: Description, steps: dict[str, Any], coef: Floats) -> Any:
    """Return a pipeline of steps, and the classifier that follows."""
    if of.inputs is None:  # the sums of networks are exact in any order
        steps["in_order"] = added_in_order()
    if of.calibration is None:
        steps["classifier"] = classifier(of.classes, coef, of.constant, of.probabilities)
        return chain(**steps)
    if of.probabilities == "one-vs-rest":
        raise ValueError(
            f"{of.estimator} has a calibration of classes that are each set against all others, for which scikit-learn "
            "has no part: use to_json() or to_onnx()"
        )
    steps["products"], steps["scores"] = products(coef), minus(-of.constant)
    return chain(**steps, **log_odds(of.calibration, len(of.constant)), classifier=_on_bounded(of.classes))


def log_odds(calibration: Calibration, n_scores: int) -> dict[str, Any]:
    """Return steps from scores to the parts of log-odds, as :func:`_on_bounded` adds them.

    With several classes these are gaps: by how much the largest log-probability is above that of each class.
    """
    if isinstance(calibration, Curve):
        signs = np.array([[1.0], [1.0], [-1.0]])
        steps = {
            "finite": clipped(-_FARTHEST, _FARTHEST),
            "hats": hats(calibration.scores, "linear"),
            "log_odds": products(signs * calibration.log_odds),
        }
        tails = 2
    else:
        eye, one = np.eye(n_scores), np.ones((n_scores, 1))
        largest = function(np.max, axis=1, keepdims=True)
        steps = {
            "largest": FeatureUnion([("scores", "passthrough"), ("largest", largest)]),
            "gaps": products(np.vstack([np.hstack([-eye, one])] * 2)),
            "times": minus(np.zeros(2 * n_scores), np.full(2 * n_scores, 1 / calibration.factor)),
        }
        tails = n_scores
    return steps | _bounded(tails, n_scores)


def _bounded(tails: int, within: int) -> dict[str, Any]:
    """Return steps that keep some columns within the bound, and make others into what they are beyond it.

    What is b beyond becomes 1 - 1/(1 + b), so that a tail grows by less than 1.
    """
    kept, beyond = np.zeros(within), np.ones(tails)
    low, high = np.append(kept - BOUND, beyond), np.append(kept + BOUND, np.inf * beyond)
    inverse = ColumnTransformer(
        [
            ("within", "passthrough", list(range(within))),
            ("beyond", function(np.reciprocal), list(range(within, within + tails))),
        ]
    )
    inverse.fit(np.ones((1, within + tails)))
    return {
        "beyond": minus(np.append(kept, (BOUND - 1) * beyond)),
        "ends": clipped(low, high),
        "inverse": inverse,
        "tails": minus(np.append(kept, beyond), np.append(kept + 1, -beyond)),
    }


def _on_bounded(classes: Any) -> Any:
    """Return the classifier of log-odds: what is within the bound, and the tails."""
    if len(classes) == 2:
        return classifier(classes, np.array([[1.0, 1.0, -1.0]]), np.zeros(1), "logistic")
    eye = np.eye(len(classes))
    return classifier(classes, -np.hstack([eye, eye]), np.zeros(len(classes)), "softmax")


def _with_threshold(model: Any) -> Any:
    inner = plain(model.estimator)
    method = "predict_proba" if hasattr(inner, "predict_proba") else "decision_function"
    taken = FixedThresholdClassifier(
        FrozenEstimator(inner), threshold=float(model.threshold_), pos_label=model.classes_[1], response_method=method
    )
    taken.estimator_ = inner
    if hasattr(inner, "n_features_in_"):
        taken.n_features_in_ = inner.n_features_in_
    return _with_names_of(taken, inner)


def _recalibrated(model: Any) -> Any:
    """Return a stack: what the inner model says of a row goes through the calibration."""
    inner = plain(model.estimator)
    method = "predict_proba" if hasattr(inner, "predict_proba") else "decision_function"
    steps: dict[str, Any] = {}
    if isinstance(model.calibration_, Temperature):
        steps |= {"least": clipped(_LEAST, 1.0), "logarithms": function(np.log)}
    elif method == "predict_proba":
        steps |= {"log_odds_of_model": function(logit), "most": clipped(-_LARGEST, _LARGEST)}
    else:
        steps["most"] = clipped(-_FARTHEST, _FARTHEST)
    if isinstance(model.calibration_, Curve):
        steps["shift"] = minus(np.array([-model.shift_]))
    numbers = np.arange(len(model.classes_))
    n_scores = 1 if len(numbers) == 2 else len(numbers)
    last = chain(**steps, **log_odds(model.calibration_, n_scores), classifier=_on_bounded(numbers))
    taken = StackingClassifier(
        [("model", FrozenEstimator(inner))], FrozenEstimator(last), cv="prefit", stack_method=method
    )
    encoder = LabelEncoder()
    encoder.classes_ = taken.classes_ = model.classes_
    taken._label_encoder, taken.stack_method_ = encoder, [method]
    taken.estimators_, taken.final_estimator_ = [inner], last
    return _with_names_of(taken, inner)


def _with_names_of(taken: Any, inner: Any) -> Any:
    if hasattr(inner, "feature_names_in_"):
        taken.feature_names_in_ = inner.feature_names_in_
    return taken
