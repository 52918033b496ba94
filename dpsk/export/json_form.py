"""A fitted model as JSON, for anybody and any language: docs/export.md describes the format.

Floats are written so that they are read back as the same floats. Everything in the text stands in the fitted model.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..calibration import BOUND, Curve
from ..data import Categories, Date, Number, Text
from ..data.features import CategoryFeatures, FieldFeatures, QuantityFeatures, WordFeatures
from ..data.fields import Field
from ..data.waves import TABLE_BITS, Waves
from ..networks.signals import ONE, REACH
from .description import Adjustment, Calibration, Description, Threshold
from .field_terms import names_of_values
from .hidden_layers import ColumnInputs, HiddenLayer, Inputs

FORMAT, VERSION, VERSION_OF_NETWORKS = "dpsk-model", 1, 2


def json_of(description: Description, *, indent: int | None = None) -> str:
    """Return the description as JSON."""
    return json.dumps(_document(description), indent=indent, allow_nan=False)


def _document(of: Description) -> dict[str, Any]:
    if of.features is not None:
        of.require_no_waves("to_json()")
    return {
        "format": FORMAT,
        "version": VERSION if of.inputs is None else VERSION_OF_NETWORKS,
        "estimator": of.estimator,
        "label_type": of.label_type,
        "classes": of.classes.tolist(),
        "n_columns": of.n_features,
        "columns": None if of.names is None else list(of.names),
        "data_norm": None if of.data_norm is None else float(of.data_norm),
        **_numbers_of_columns(of),
        "inputs": None if of.inputs is None else _inputs(of.inputs),
        "hidden": [_hidden(layer) for layer in of.hidden],
        "waves": None if of.waves is None else _waves(of.waves),
        "fields": None if of.features is None else _fields(of),
        "constant": of.constant.tolist(),
        "calibration": None if of.calibration is None else _calibration(of.calibration),
        "probabilities": of.probabilities,
        "adjustments": [_adjustment(step) for step in of.adjustments],
        "private": of.privacy.private and all(step.privacy.private for step in of.adjustments),
        "statement": of.statement,
        "privacy": of.privacy.to_dict(),
    }


def _numbers_of_columns(of: Description) -> dict[str, Any]:
    """Return how columns are clipped, and their weights. A linear model of a raw table has both in its fields."""
    names = ("low", "high", "origin", "coef")
    if of.features is not None and of.inputs is None:
        return dict.fromkeys(names)
    return {name: getattr(of, name).tolist() for name in names}


def _waves(of: Waves) -> dict[str, Any]:
    """Return what the waves of a row follow from: how columns are placed, and what they add to each phase."""
    ends = (of.columns.low, of.columns.high, of.columns.origin, of.columns.width)
    columns = zip(of.at.tolist(), *(part.tolist() for part in ends), of.centre.astype(int).tolist(), strict=True)
    return {"columns": [list(column) for column in columns], "turns": of.turns.T.tolist(), "parts": 2**TABLE_BITS}


def _inputs(of: Inputs) -> dict[str, Any]:
    """Return how a row becomes the signals that a network takes."""
    columns: dict[str, Any] = dict.fromkeys(("width", "steps", "centre", "factor"))
    if isinstance(of, ColumnInputs):
        columns = {name: getattr(of, name).tolist() for name in ("width", "steps", "centre")} | {"factor": of.factor}
    return {**columns, "one": ONE, "reach": REACH}


def _hidden(layer: HiddenLayer) -> dict[str, Any]:
    return {
        "places": None if layer.places is None else layer.places.tolist(),
        "weights": layer.weights.T.tolist(),
        "bias": layer.bias.tolist(),
        "rivals": None if layer.rivals is None else layer.rivals.tolist(),
        "activation": layer.activation,
        "ends": list(layer.ends),
    }


def _calibration(of: Calibration) -> dict[str, Any]:
    if isinstance(of, Curve):
        return {"scores": of.scores.tolist(), "log_odds": of.log_odds.tolist(), "bound": BOUND}
    return {"factor": float(of.factor), "bound": BOUND}


def _adjustment(step: Adjustment) -> dict[str, Any]:
    privacy = {"statement": step.privacy.statement(), "privacy": step.privacy.to_dict()}
    if isinstance(step, Threshold):
        return {"threshold": float(np.nan_to_num(step.value)), **privacy}  # what is infinite as the largest float
    return {"shift": step.shift, "calibration": _calibration(step.calibration), **privacy}


def _fields(of: Description) -> list[dict[str, Any]]:
    """Return the fields of a raw table: what is read from which column, and what it adds to the scores.

    Of a network the features of a field are its columns, so their positions take the place of weights.
    """
    features: Any = of.features
    found = []
    for part, start, end in zip(features.parts, features.starts[:-1], features.starts[1:], strict=True):
        field = features.schema.fields[part.at]
        kind = features.schema.kinds[field.column]
        weights = list(range(start, end)) if of.inputs is not None else of.coef[:, start:end].T.tolist()
        found.append(
            {"field": field.name, "column": field.column, **_reading(kind, field), **_weights(part, kind, weights)}
        )
    return found


def _reading(kind: Any, field: Field) -> dict[str, Any]:
    if isinstance(kind, Number):
        return {"read": "number"}
    if isinstance(kind, Text):
        return {"read": "words", "buckets": kind.buckets}
    if isinstance(kind, Categories):
        return {"read": "category", "buckets": kind.buckets}
    if isinstance(kind, Date):
        return {"read": field.name.rsplit(".", 1)[-1], "format": kind.format}
    raise ValueError(f"column {field.name!r} is of the kind {type(kind).__name__}, which the JSON format does not have")


def _weights(part: FieldFeatures, kind: Any, weights: list[Any]) -> dict[str, Any]:
    if isinstance(part, QuantityFeatures):
        ends = {"low": part.low, "high": part.high, "centre": part.centre, "width": part.width}
        left = iter(weights)
        return {
            **{name: float(number) for name, number in ends.items()},
            "linear": next(left),
            "knots": part.knots.tolist(),
            "hats": [next(left) for _ in part.knots],
            "zero": next(left) if part.zero else None,
            "missing": next(left) if part.missing else None,
        }
    if isinstance(part, WordFeatures):
        return {"values": {str(bucket): one for bucket, one in zip(part.buckets, weights, strict=True)}}
    if not isinstance(part, CategoryFeatures):
        raise ValueError(f"features of the kind {type(part).__name__} have no place in the JSON format")
    n = len(part.values)
    return {
        "values": dict(zip(names_of_values(part, kind), weights[:n], strict=True)),
        "other": weights[n] if part.other else None,
        "missing": weights[n + part.other] if part.missing else None,
    }
