"""The numbers of a description as a graph of ONNX that scores rows in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..calibration import Curve
from ..data.features import QuantityFeatures
from ..mechanisms.samplers import Floats
from .description import Calibration, Description, Threshold
from .field_terms import CategoryTerms, NumberTerms
from .onnx_networks import passed_on, signals
from .onnx_nodes import DOUBLE, INT64, Graph

_FARTHEST = 1e100  # of scores, for a calibration
_LARGEST, _LEAST = 36.0, 2.0**-52  # log-odds that are told apart, and probabilities


def scores(graph: Graph, of: Description, inputs: list[str]) -> str:
    """Return the scores of rows: of a matrix of numbers, or of one column for each column of a raw table."""
    if of.inputs is not None:
        return _scores_of_network(graph, of, inputs)
    if of.features is not None:
        return _scores_of_table(graph, of, inputs)
    x = graph.clipped(graph.add("Cast", inputs[0], to=DOUBLE), of.low, of.high)
    x = graph.add("Sub", x, of.origin)
    sums = graph.add("MatMul", x, np.ascontiguousarray(of.coef.T))
    if of.data_norm is not None:
        norm = graph.add("Sqrt", graph.reduced("ReduceSum", graph.add("Mul", x, x)))
        sums = graph.add("Mul", sums, graph.add("Div", of.data_norm, graph.add("Max", norm, of.data_norm)))
    return graph.add("Add", sums, of.constant)


def _scores_of_network(graph: Graph, of: Description, inputs: list[str]) -> str:
    if of.features is None:
        x = graph.add("Cast", inputs[0], to=DOUBLE)
    else:  # a feature is the score of a model in which nothing else has a weight
        x = graph.add("Concat", *_terms(graph, of, inputs, lambda start, end: np.eye(end - start)), axis=1)
    x = passed_on(graph, of.hidden, signals(graph, of, graph.clipped(x, of.low, of.high)))
    return graph.add("Add", graph.add("MatMul", x, np.ascontiguousarray(of.coef.T)), of.constant)


def _scores_of_table(graph: Graph, of: Description, inputs: list[str]) -> str:
    total = ""
    for term in _terms(graph, of, inputs, lambda start, end: of.coef[:, start:end]):
        total = graph.add("Add", total, term) if total else term
    return graph.add("Add", total, of.constant)


def _terms(graph: Graph, of: Description, inputs: list[str], weights: Callable[[int, int], Floats]) -> Iterator[str]:
    """Yield what each field of a raw table adds to scores under the weights of its features, from one to another."""
    features: Any = of.features
    read = [column for column, kind in enumerate(features.schema.kinds) if kind is not None]
    by_column = dict(zip(read, inputs, strict=True))
    for part, start, end in zip(features.parts, features.starts[:-1], features.starts[1:], strict=True):
        column = features.schema.fields[part.at].column
        own, x = weights(start, end), by_column[column]
        if isinstance(part, QuantityFeatures):
            yield _of_number(graph, NumberTerms.of(part, own), x)
        else:
            yield _of_category(graph, CategoryTerms.of(part, features.schema.kinds[column], own), x)


def _of_number(graph: Graph, terms: NumberTerms, x: str) -> str:
    x = graph.add("Cast", x, to=DOUBLE)
    missing, zero = graph.add("IsNaN", x), graph.add("Cast", graph.add("Equal", x, 0.0), to=DOUBLE)
    known = graph.clipped(graph.add("Where", missing, terms.points[0], x), terms.points[0], terms.points[-1])
    curve = graph.linear(known, terms.points, terms.curve)
    there = graph.add("Add", curve, graph.add("Mul", zero, terms.zero[None]))
    return graph.add("Where", missing, terms.missing[None], there)


def _of_category(graph: Graph, terms: CategoryTerms, x: str) -> str:
    """A missing entry is an empty text, unless that is one of the values."""
    names = list(terms.names) if "" in terms.names else [*terms.names, ""]
    weights = np.vstack([terms.weights.T, terms.missing[None], terms.other[None]])
    codes: dict[str, Any] = {
        "keys_strings": names,
        "values_int64s": list(range(len(names))),
        "default_int64": len(weights) - 1,
    }
    at = graph.add("Reshape", graph.add("LabelEncoder", x, **codes), np.array([-1]))
    return graph.add("Gather", weights, at)


def predictions(graph: Graph, of: Description, found: str) -> tuple[str, str]:
    """Return the numbers of the predicted classes, and probabilities, or the scores where there are none."""
    two = len(of.classes) == 2
    label = _positive(graph, found) if two else _largest(graph, found)
    sure = None
    if of.probabilities is not None:
        odds = found if of.calibration is None else _calibrated(graph, of.calibration, found)
        sure = _probabilities(graph, odds, of.probabilities)
    for step in of.adjustments:
        second = found if sure is None or not two else graph.add("Gather", sure, np.array([1]), axis=1)
        if isinstance(step, Threshold):
            value = np.array(np.nan_to_num(step.value))
            label = graph.add("Cast", graph.add("Not", graph.add("Less", second, value)), to=INT64)
        elif two:
            moved = graph.add("Add", second if sure is None else _log_odds(graph, second), step.shift)
            label = _positive(graph, moved)
            sure = _probabilities(graph, _calibrated(graph, step.calibration, moved), "logistic")
        else:
            logs = graph.add("Log", graph.clipped(str(sure), _LEAST, 1.0))
            odds = _calibrated(graph, step.calibration, logs)
            label, sure = _largest(graph, odds), _probabilities(graph, odds, "softmax")
    return graph.add("Reshape", label, np.array([-1])), found if sure is None else sure


def _positive(graph: Graph, found: str) -> str:
    return graph.add("Cast", graph.add("Greater", found, 0.0), to=INT64)


def _largest(graph: Graph, found: str) -> str:
    return graph.add("ArgMax", found, axis=1, keepdims=0)


def _calibrated(graph: Graph, by: Calibration, found: str) -> str:
    found = graph.clipped(found, -_FARTHEST, _FARTHEST)
    if isinstance(by, Curve):
        return graph.bounded(graph.linear(found, by.scores, by.log_odds[None]))
    found = graph.add("Mul", found, float(by.factor))
    return graph.bounded(graph.add("Sub", found, graph.reduced("ReduceMax", found)))


def _probabilities(graph: Graph, odds: str, how: str) -> str:
    if how == "logistic":
        odds = graph.add("Concat", graph.add("Mul", odds, 0.0), odds, axis=1)
    elif how == "one-vs-rest":
        small = graph.add("Exp", graph.add("Neg", graph.add("Abs", odds)))
        odds = graph.add("Sub", graph.add("Min", odds, 0.0), graph.add("Log", graph.add("Add", small, 1.0)))
    return graph.add("Softmax", odds, axis=1)


def _log_odds(graph: Graph, p: str) -> str:
    odds = graph.add("Sub", graph.add("Log", p), graph.add("Log", graph.add("Sub", 1.0, p)))
    return graph.clipped(odds, -_LARGEST, _LARGEST)
