"""The one private estimator that a fit of a model or pipeline fits once."""

from typing import Any

from sklearn.pipeline import Pipeline

from ..estimators.classifier import PrivateClassifier

_ADVICE = {"PrivateSearchCV": ". A fit of a PrivateSearchCV costs its own epsilon and delta, whatever it holds"}


def private_step(estimator: Any) -> PrivateClassifier:
    """Return the one private estimator that a fit of this one fits once."""
    last = estimator
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    nested: list[Any] = []
    if isinstance(last, PrivateClassifier):
        nested = [value for value in estimator.get_params().values() if isinstance(value, PrivateClassifier)]
    if not isinstance(last, PrivateClassifier) or len(nested) > (last is not estimator):
        given = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise ValueError(
            f"{given} is neither one of dpsk's classifiers nor a pipeline that ends in one and holds no other: what "
            f"one fit of it costs is not known{_ADVICE.get(given, '')}"
        )
    return last
