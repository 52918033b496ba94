"""Networks as nodes of ONNX. Signals are whole numbers in double precision, whose sums are exact in any runtime.

A convolution is a product of gathered inputs: runtimes convolve in single precision only, which would round.
"""

from __future__ import annotations

import numpy as np

from .hidden_layers import ONE, REACH, HiddenLayer, Inputs
from .onnx_nodes import Graph


def signals(graph: Graph, of: Inputs, x: str) -> str:
    """Return the signals of entries that are clipped, with the origin taken off."""
    units = graph.add("Round", graph.add("Mul", graph.add("Div", x, of.width), of.steps))
    times = graph.add("Mul", graph.add("Sub", units, of.centre), of.factor)
    return graph.clipped(graph.add("Round", times), -REACH, REACH)


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
