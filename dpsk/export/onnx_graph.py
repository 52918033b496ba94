"""Nodes of ONNX: the numbers of a description as a graph that scores rows in double precision."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..calibration import BOUND, Curve
from ..data.features import QuantityFeatures
from ..mechanisms.samplers import Floats
from .description import Calibration, Description, Threshold
from .field_terms import CategoryTerms, NumberTerms

_FARTHEST = 1e100  # of scores, for a calibration
_LARGEST, _LEAST = 36.0, 2.0**-52  # log-odds that are told apart, and probabilities
_DOUBLE, _INT64 = 11, 7  # types of tensors in ONNX
_AXES_AS_INPUT = {"ReduceSum": 13, "ReduceMax": 18}  # from this version of the operators on


class Graph:
    """Nodes that are added to a container of skl2onnx; each method returns the name of a result."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def add(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add a node; numbers and arrays among its inputs become constants."""
        name: str = self._scope.get_unique_variable_name(kind.lower()) if output is None else output
        given = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        domain, version = ("ai.onnx.ml", 2) if kind == "LabelEncoder" else ("", None)
        self._container.add_node(kind, given, [name], op_domain=domain, op_version=version, **attributes)
        return name

    def _constant(self, value: Any) -> str:
        array = np.asarray(value)
        array = array.astype(object) if array.dtype.kind == "U" else array
        name: str = self._scope.get_unique_variable_name("constant")
        self._container.initializers.append(import_module("onnx.numpy_helper").from_array(array, name))
        return name

    def reduced(self, kind: str, x: str) -> str:
        """Reduce each row to one number."""
        if self._container.target_opset >= _AXES_AS_INPUT[kind]:
            return self.add(kind, x, np.array([1]), keepdims=1)
        return self.add(kind, x, axes=[1], keepdims=1)

    def clipped(self, x: str, low: Any, high: Any) -> str:
        """Clip columns to their ends."""
        return self.add("Min", self.add("Max", x, np.asarray(low, float)), np.asarray(high, float))

    def linear(self, x: str, points: Floats, values: Floats) -> str:
        """Return what is linear between points, and beyond the last ones as before; x has one column.

        ``values`` has the shape (n_columns, n_points).
        """
        above = self.add("Cast", self.add("Not", self.add("Less", x, points[None, 1:-1])), to=_INT64)
        at = self.add("Reshape", self.reduced("ReduceSum", above), np.array([-1])) if len(points) > 2 else None
        if at is None:
            at = self.add("Reshape", self.add("Cast", self.add("Mul", x, 0.0), to=_INT64), np.array([-1]))
        here = [self.add("Gather", table, at) for table in (points[:-1, None], np.diff(points)[:, None])]
        part = self.add("Div", self.add("Sub", x, here[0]), here[1])
        rises = self.add("Gather", np.ascontiguousarray(np.diff(values, axis=1).T), at)
        starts = self.add("Gather", np.ascontiguousarray(values[:, :-1].T), at)
        return self.add("Add", starts, self.add("Mul", part, rises))

    def bounded(self, x: str) -> str:
        """Return what is within the bound as it is, and the rest less than 1 beyond it."""
        beyond = self.add("Max", self.add("Sub", self.add("Abs", x), BOUND), 0.0)
        tail = self.add("Div", beyond, self.add("Add", beyond, 1.0))
        return self.add("Add", self.clipped(x, -BOUND, BOUND), self.add("Mul", self.add("Sign", x), tail))


def scores(graph: Graph, of: Description, inputs: list[str]) -> str:
    """Return the scores of rows: of a matrix of numbers, or of one column for each column of a raw table."""
    if of.features is not None:
        return _scores_of_table(graph, of, inputs)
    x = graph.clipped(graph.add("Cast", inputs[0], to=_DOUBLE), of.low, of.high)
    x = graph.add("Sub", x, of.origin)
    sums = graph.add("MatMul", x, np.ascontiguousarray(of.coef.T))
    if of.data_norm is not None:
        norm = graph.add("Sqrt", graph.reduced("ReduceSum", graph.add("Mul", x, x)))
        sums = graph.add("Mul", sums, graph.add("Div", of.data_norm, graph.add("Max", norm, of.data_norm)))
    return graph.add("Add", sums, of.constant)


def _scores_of_table(graph: Graph, of: Description, inputs: list[str]) -> str:
    features: Any = of.features
    read = [column for column, kind in enumerate(features.schema.kinds) if kind is not None]
    by_column = dict(zip(read, inputs, strict=True))
    total = ""
    for part, start, end in zip(features.parts, features.starts[:-1], features.starts[1:], strict=True):
        column = features.schema.fields[part.at].column
        own, x = of.coef[:, start:end], by_column[column]
        if isinstance(part, QuantityFeatures):
            term = _of_number(graph, NumberTerms.of(part, own), x)
        else:
            term = _of_category(graph, CategoryTerms.of(part, features.schema.kinds[column], own), x)
        total = graph.add("Add", total, term) if total else term
    return graph.add("Add", total, of.constant)


def _of_number(graph: Graph, terms: NumberTerms, x: str) -> str:
    x = graph.add("Cast", x, to=_DOUBLE)
    missing, zero = graph.add("IsNaN", x), graph.add("Cast", graph.add("Equal", x, 0.0), to=_DOUBLE)
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
            label = graph.add("Cast", graph.add("Not", graph.add("Less", second, value)), to=_INT64)
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
    return graph.add("Cast", graph.add("Greater", found, 0.0), to=_INT64)


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
