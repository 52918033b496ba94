"""Nodes of ONNX, in double precision."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..calibration import BOUND
from ..mechanisms.samplers import Floats

DOUBLE, INT64 = 11, 7  # types of tensors in ONNX
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

    def reduced(self, kind: str, x: str, axis: int = 1, keepdims: int = 1) -> str:
        """Reduce an axis, as a rule each row, to one number."""
        if self._container.target_opset >= _AXES_AS_INPUT[kind]:
            return self.add(kind, x, np.array([axis]), keepdims=keepdims)
        return self.add(kind, x, axes=[axis], keepdims=keepdims)

    def clipped(self, x: str, low: Any, high: Any) -> str:
        """Clip columns to their ends."""
        return self.add("Min", self.add("Max", x, np.asarray(low, float)), np.asarray(high, float))

    def whole(self, x: str) -> str:
        """Return numbers below 2^53 without their fractions."""
        return self.add("Cast", self.add("Cast", x, to=INT64), to=DOUBLE)

    def linear(self, x: str, points: Floats, values: Floats) -> str:
        """Return what is linear between points, and beyond the last ones as before; x has one column.

        ``values`` has the shape (n_columns, n_points).
        """
        above = self.add("Cast", self.add("Not", self.add("Less", x, points[None, 1:-1])), to=INT64)
        at = self.add("Reshape", self.reduced("ReduceSum", above), np.array([-1])) if len(points) > 2 else None
        if at is None:
            at = self.add("Reshape", self.add("Cast", self.add("Mul", x, 0.0), to=INT64), np.array([-1]))
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
