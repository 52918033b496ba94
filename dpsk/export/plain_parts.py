"""Parts of scikit-learn with their fitted attributes set: none of them is fitted to anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, SplineTransformer, StandardScaler
from sklearn.svm import LinearSVC

from ..mechanisms.samplers import Floats

_CLASSIFIERS = {None: LinearSVC, "logistic": LogisticRegression, "softmax": LogisticRegression}


def function(called: Any, **arguments: Any) -> Any:
    """Return a step that calls a function of NumPy or SciPy."""
    return FunctionTransformer(called, kw_args=arguments or None)


def clipped(low: Any, high: Any) -> Any:
    """Return a step that clips columns to their ends."""
    return function(np.clip, a_min=low, a_max=high)


def entrance(low: Floats, high: Floats, names: tuple[str, ...] | None) -> Any:
    """Return the first step: it checks rows as scikit-learn does, and clips them in double precision."""
    step = FunctionTransformer(np.clip, validate=True, kw_args={"a_min": low, "a_max": high})
    step.n_features_in_ = len(low)
    if names is not None:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


def minus(origin: Floats, width: Floats | None = None) -> Any:
    """Return a step that takes a number off each column, and divides by a width."""
    step = StandardScaler(with_std=width is not None)
    step.mean_, step.var_, step.scale_ = origin, None, width
    step.n_features_in_, step.n_samples_seen_ = len(origin), 1
    return step


def products(weights: Any) -> Any:
    """Return a step whose columns are the products of a row with each of these rows of weights, dense or sparse."""
    step = TruncatedSVD(n_components=weights.shape[0])
    step.components_, step.n_features_in_ = weights, weights.shape[1]
    return step


def shrunk(data_norm: float) -> dict[str, Any]:
    """Return steps that divide rows by their norm, or by ``data_norm`` where they are shorter.

    The divisor becomes one more column. It is the largest of its row, so it is what rows are divided by.
    """
    norm = chain(norm=function(np.linalg.norm, axis=1, keepdims=True), least=clipped(data_norm, np.inf))
    return {"norm": FeatureUnion([("row", "passthrough"), ("divisor", norm)]), "shrink": Normalizer("max")}


def added_in_order() -> Any:
    """Return a step that makes rows sparse: SciPy adds their products one after the other, as dpsk does."""
    return function(sp.csr_matrix)


def hats(knots: Floats, extrapolation: str) -> Any:
    """Return a step that makes a number into hats: hat j is 1 at knot j, 0 at the others, and linear in between."""
    step = SplineTransformer(degree=1, knots=knots[:, None], extrapolation=extrapolation)
    return step.fit(knots[:, None])


def classifier(classes: NDArray[Any], coef: Floats, intercept: Floats, probabilities: str | None) -> Any:
    """Return a linear classifier. Of one-vs-rest, probabilities are those of each class alone, brought to the sum 1."""
    one_vs_rest = probabilities == "one-vs-rest"
    model = SGDClassifier(loss="log_loss") if one_vs_rest else _CLASSIFIERS[probabilities]()
    model.classes_, model.coef_, model.intercept_ = classes, coef, intercept
    model.n_features_in_, model.n_iter_ = coef.shape[1], np.zeros(1, dtype=np.int32)
    return model


def chain(**steps: Any) -> Any:
    """Return a pipeline of these steps."""
    return Pipeline(list(steps.items()))
