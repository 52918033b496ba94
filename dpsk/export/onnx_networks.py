"""Networks as nodes of ONNX. Signals are whole numbers in double precision, whose sums are exact in any runtime.

A convolution is a product of gathered inputs: runtimes convolve in single precision only, which would round.
"""

from __future__ import annotations

import math

import numpy as np

from ..data.grid import LARGEST_ENTRY, UNIT_BITS
from ..networks.signals import ONE, REACH
from .description import Description
from .hidden_layers import LEAST, ColumnInputs, HiddenLayer
from .onnx_nodes import INT64, Graph


def signals(graph: Graph, of: Description, x: str) -> str:
    """Return the signals of clipped columns."""
    if isinstance(of.inputs, ColumnInputs):
        placed = graph.add("Div", graph.add("Sub", x, of.origin), of.inputs.width)
        steps = graph.whole(graph.add("Mul", placed, of.inputs.steps))
        times = graph.add("Mul", graph.add("Sub", steps, of.inputs.centre), of.inputs.factor)
    else:
        x = x if of.data_norm is None else _shrunk(graph, x, of.data_norm)
        power = _power_above(graph, x)
        units = graph.whole(graph.add("Mul", graph.add("Div", x, power), 2.0**UNIT_BITS))
        times = graph.add("Mul", graph.add("Mul", units, ONE * 2.0**-UNIT_BITS), power)
    return graph.clipped(graph.add("Round", times), -REACH, REACH)


def _shrunk(graph: Graph, x: str, data_norm: float) -> str:
    """Return rows, longer ones scaled down to the norm."""
    norm = graph.add("Sqrt", graph.reduced("ReduceSum", graph.add("Mul", x, x)))
    return graph.add("Mul", x, graph.add("Div", data_norm, graph.add("Max", norm, data_norm)))


def _power_above(graph: Graph, x: str) -> str:
    """Return the smallest power of two for each row that is no smaller than any entry, and than LEAST."""
    powers = 2.0 ** np.arange(math.log2(LEAST), math.log2(LARGEST_ENTRY) + 1)
    below = graph.add("Less", powers[None, :-1], graph.reduced("ReduceMax", graph.add("Abs", x)))
    at = graph.add("Reshape", graph.reduced("ReduceSum", graph.add("Cast", below, to=INT64)), np.array([-1]))
    return graph.add("Gather", powers[:, None], at)


def passed_on(graph: Graph, layers: tuple[HiddenLayer, ...], x: str) -> str:
    """Return the signals that the last of these layers passes on."""
    for layer in layers:
        x = _activated(graph, layer, _sums(graph, layer, x))
    return x


def _sums(graph: Graph, layer: HiddenLayer, x: str) -> str:
    if layer.places is not None:
        x = graph.add("Gather", x, layer.places, axis=1)
    sums = graph.add("Add", graph.add("MatMul", x, np.ascontiguousarray(layer.weights)), layer.bias)
    if layer.places is not None:
        sums = graph.add("Reshape", sums, np.array([-1, layer.places.shape[0] * layer.weights.shape[1]]))
    if layer.rivals is None:
        return sums
    return graph.reduced("ReduceMax", graph.add("Gather", sums, layer.rivals, axis=1), axis=2, keepdims=0)


def _activated(graph: Graph, layer: HiddenLayer, sums: str) -> str:
    if layer.activation == "tanh":  # the runtime may have a tanh of its own in single precision only
        grown = graph.add("Exp", graph.add("Mul", sums, 2 / ONE))
        sums = graph.add("Mul", graph.add("Sub", 1.0, graph.add("Div", 2.0, graph.add("Add", grown, 1.0))), ONE)
    return graph.add("Round", graph.clipped(sums, *layer.ends))
