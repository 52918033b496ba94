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

from ..data import Categories, Number
from ..data.entries import key, plain
from ..data.features import QuantityFeatures
from ..data.grid import LARGEST_ENTRY
from ..mechanisms.samplers import Floats
from .description import Description
from .json_form import names_of_values
from .plain_parts import chain, clipped, function, hats


def columns_of(of: Description) -> tuple[Any, Floats, Floats]:
    """Return a step that turns the columns of a raw table into features, their weights, and the constants."""
    features: Any = of.features
    _require_plain(features.schema)
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


def _require_plain(schema: Any) -> None:
    """Raise ValueError if there are columns that no plain part reads as dpsk does."""
    columns = zip(schema.names, schema.kinds, strict=True)
    other = [(name, kind.word) for name, kind in columns if not _is_plain(kind)]
    if other:
        named = ", ".join(f"{name!r} ({word})" for name, word in other)
        raise ValueError(
            f"to_sklearn() cannot take away these columns, because no part of scikit-learn reads their entries as dpsk "
            f"does: {named}. Use to_json(), which describes how they are read, or fit without them"
        )


def _is_plain(kind: Any) -> bool:
    return kind is None or isinstance(kind, Number) or (isinstance(kind, Categories) and kind.buckets is None)


def _number(part: QuantityFeatures, own: Floats) -> tuple[Any, Floats]:
    """Return the step for a column of numbers, and the weights of its features."""
    points = np.unique([part.low, part.high, *part.knots])
    if len(points) == 1:  # a constant
        points = np.append(points, points + max(1.0, abs(points[0])))
    zero, missing = np.zeros(len(own)), np.zeros(len(own))
    at_points = part.matrix(points)
    if part.zero:
        column = len(part.names) - 1 - part.missing
        zero, at_points[:, column] = own[:, column], 0.0
    if part.missing:
        missing = own[:, -1]
    curve = own @ at_points.T
    step = chain(
        numbers=function(np.asarray, dtype=np.float64),
        ends=clipped(-LARGEST_ENTRY, LARGEST_ENTRY),
        parts=FeatureUnion(
            [
                ("curve", chain(filled=_filled(points[0]), hats=hats(points, "constant"))),
                ("zero", chain(filled=_filled(1.0), zero=_indicators([0.0]))),
                ("missing", MissingIndicator(features="all")),
            ]
        ),
    )
    return step, np.column_stack([curve, zero, missing - curve[:, 0]])


def _filled(number: float) -> Any:
    return SimpleImputer(strategy="constant", fill_value=float(number))


def _indicators(values: list[Any]) -> Any:
    return OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False)


def _category(part: Any, kind: Any, own: Floats) -> tuple[Any, Floats, Floats]:
    """Return the step for a column of categories, the weights of its features, and the weight of any other value."""
    names, none = names_of_values(part, kind), np.zeros(len(own))
    of_names = own[:, : len(names)]
    other = own[:, len(names)] if part.other else none
    missing = own[:, -1] if part.missing else none
    encoders = [("names", _indicators([*names, None, np.nan]))]
    weights = [*of_names.T, missing, missing]
    numbers = [(number, weight) for name, weight in zip(names, of_names.T, strict=True) for number in _number_named(name)]
    if numbers:
        encoders.append(("numbers", _indicators(sorted(number for number, _ in numbers))))
        weights += [weight for _, weight in sorted(numbers, key=lambda one: one[0])]
    step = chain(entries=function(np.asarray, dtype=object), indicators=FeatureUnion(encoders))
    return step, np.column_stack(weights) - other[:, None], other


def _number_named(name: str) -> list[float]:
    """Return the number that has this name as a category, if there is one."""
    try:
        number = float(name)
    except ValueError:
        return []
    return [number] if math.isfinite(number) and key(plain(number)) == name else []  # type: ignore[arg-type]
