"""Models of raw tables as plain objects of scikit-learn: columns of numbers, and categories by name.

What a number adds to a score is linear between points, so hats at these points carry it. 0 and a missing number have
indicators. A category has one for each of its values. Dates, words and hashes have no plain part that reads them alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import OneHotEncoder

from ..data.entries import key, plain
from ..data.features import QuantityFeatures
from ..data.grid import LARGEST_ENTRY
from ..mechanisms.samplers import Floats
from .description import Description
from .field_terms import CategoryTerms, NumberTerms, require_readable
from .plain_parts import chain, clipped, function, hats


def columns_of(of: Description) -> tuple[Any, Floats, Floats]:
    """Return a step that turns the columns of a raw table into features, their weights, and the constants."""
    features: Any = of.features
    require_readable(features.schema, "to_sklearn", "scikit-learn")
    steps, weights, constant = [], [], of.constant.copy()
    for part, start, end in zip(features.parts, features.starts[:-1], features.starts[1:], strict=True):
        field, own = features.schema.fields[part.at], of.coef[:, start:end]
        if isinstance(part, QuantityFeatures):
            step, found = _number(part, own)
        else:
            step, found, other = _category(part, features.schema.kinds[field.column], own)
            constant = constant + other
        steps.append((field.name, step, [field.column]))
        weights.append(found)
    table = ColumnTransformer(steps).fit(np.zeros((2, of.n_features), dtype=object))
    if of.names is not None:
        table.feature_names_in_ = np.array(of.names, dtype=object)
    return table, np.hstack(weights), constant


def _number(part: QuantityFeatures, own: Floats) -> tuple[Any, Floats]:
    """Return the step for a column of numbers, and the weights of its features."""
    terms = NumberTerms.of(part, own)
    step = chain(
        numbers=function(np.asarray, dtype=np.float64),
        ends=clipped(-LARGEST_ENTRY, LARGEST_ENTRY),
        parts=FeatureUnion(
            [
                ("curve", chain(filled=_filled(terms.points[0]), hats=hats(terms.points, "constant"))),
                ("zero", chain(filled=_filled(1.0), zero=_indicators([0.0]))),
                ("missing", MissingIndicator(features="all")),
            ]
        ),
    )
    return step, np.column_stack([terms.curve, terms.zero, terms.missing - terms.curve[:, 0]])


def _filled(number: float) -> Any:
    return SimpleImputer(strategy="constant", fill_value=float(number))


def _indicators(values: list[Any]) -> Any:
    return OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False)


def _category(part: Any, kind: Any, own: Floats) -> tuple[Any, Floats, Floats]:
    """Return the step for a column of categories, the weights of its features, and the weight of any other value."""
    terms = CategoryTerms.of(part, kind, own)
    encoders = [("names", _indicators([*terms.names, None, np.nan]))]
    weights = [*terms.weights.T, terms.missing, terms.missing]
    named = zip(terms.names, terms.weights.T, strict=True)
    numbers = [(number, weight) for name, weight in named for number in _number_named(name)]
    if numbers:
        encoders.append(("numbers", _indicators(sorted(number for number, _ in numbers))))
        weights += [weight for _, weight in sorted(numbers, key=lambda one: one[0])]
    step = chain(entries=function(np.asarray, dtype=object), indicators=FeatureUnion(encoders))
    return step, np.column_stack(weights) - terms.other[:, None], terms.other


def _number_named(name: str) -> list[float]:
    """Return the number that has this name as a category, if there is one."""
    try:
        number = float(name)
    except ValueError:
        return []
    return [number] if math.isfinite(number) and key(plain(number)) == name else []  # type: ignore[arg-type]
