"""Networks: layers one after the other, and one flat array with the weights of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ..data.rows import Chunk, Labels, Matrix
from ..losses import Loss
from ..mechanisms.randomness import SeededBits, generator_for
from ..mechanisms.samplers import Floats
from .activations import ACTIVATIONS, Activation
from .dense import Dense
from .layer import Layer, RowGradients, Unweighted, Weighted
from .signals import (
    LARGEST_SCORE,
    MOST_BLOCK_ROWS,
    SIGNAL_STEP,
    glorot,
    round_slopes,
    signals_of,
    slopes_of,
    sparse_signals_of,
)

# How many rows are worked on at a time. Arrays of a block should stay in cache. The memory of large arrays is given
# back to the system after each use, which doubles the time. That of small ones is kept: more rows mean fewer calls.
_BLOCK_ENTRIES = 2**17  # numbers of the widest layer
_FEWEST, _FEWEST_DENSE = 8, 64  # rows: each block passes over all weights, and dense layers have many
_LARGEST_BLOCK = 2**22  # numbers of the widest layer: memory is bounded by it, for up to 2^19 columns
_BLOCK_ROWS = 256
_SMALL = 2**14  # numbers of a small array: blocks may have more rows if they stay as small as this
_DENSE_IS_FASTER = 8  # 5 to 8 times for each entry: sparse products are made if fewer than one entry in 8 is not zero


@dataclass(frozen=True)
class Stage:
    """A weighted layer, what stands between it and the activation, and where its weights lie in the flat array."""

    layer: Weighted
    behind: tuple[Unweighted, ...]
    place: slice

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of what is activated."""
        return self.behind[-1].outputs if self.behind else self.layer.outputs


@dataclass(frozen=True)
class Pass:
    """What a network makes of some rows: ``scores``, the ``inputs`` of weighted layers, and what pooling remembers."""

    scores: Floats
    inputs: list[Matrix]
    known: list[list[Any]]


@dataclass(frozen=True)
class Network:
    """An architecture: public numbers. The last layer gives the scores; each weighted one before is activated.

    All weights lie in one flat array: layer by layer, each a matrix ``(fan_in + 1, outputs)`` with the biases in its
    last row. ``scores`` and ``row_gradients`` take weights as :meth:`on_grid` returns them.
    """

    layers: tuple[Layer, ...]
    activation: str = "relu"

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation={self.activation!r} must be one of {', '.join(map(repr, ACTIVATIONS))}")
        if not self.layers or not isinstance(self.layers[0], Weighted) or not isinstance(self.layers[-1], Dense):
            raise ValueError("layers of a network must begin with a weighted one and end with a dense one")
        for before, after in pairwise(self.layers):
            if math.prod(before.outputs) != math.prod(after.inputs):
                raise ValueError(f"layers: {after!r} cannot follow outputs of shape {before.outputs}")

    @classmethod
    def dense(
        cls, n_inputs: int, hidden_layer_sizes: Sequence[int], n_outputs: int, activation: str = "relu"
    ) -> Network:
        """Return a network of dense layers; ``n_outputs`` is 1 for two classes, and the number of classes for more."""
        sizes = [n_inputs, *hidden_layer_sizes, n_outputs]
        layers = tuple(Dense((a,), b) for a, b in pairwise(sizes))
        return cls(layers, activation)

    @property
    def n_inputs(self) -> int:
        """The number of columns of the data, without an intercept."""
        return math.prod(self.layers[0].inputs)

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row."""
        return math.prod(self.layers[-1].outputs)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The weighted layers, each with what follows up to the next one."""
        first = [i for i, layer in enumerate(self.layers) if isinstance(layer, Weighted)]
        found: list[Stage] = []
        start = 0
        for a, b in zip(first, [*first[1:], len(self.layers)], strict=True):
            layer = self.layers[a]
            behind = self.layers[a + 1 : b]
            if not isinstance(layer, Weighted) or not all(isinstance(other, Unweighted) for other in behind):
                raise TypeError("layers of a network must be Weighted or Unweighted")
            stop = start + math.prod(layer.weight_shape)
            found.append(Stage(layer, behind, slice(start, stop)))  # type: ignore[arg-type]
            start = stop
        return tuple(found)

    @property
    def n_weights(self) -> int:
        """The length of the flat array of weights, biases included."""
        return int(self.stages[-1].place.stop)

    @property
    def block_rows(self) -> int:
        """How many rows are worked on at a time."""
        return self._rows_of(max(layer.width for layer in self.layers))

    def split(self, w: Any) -> list[Any]:
        """Return the matrix of each weighted layer, a view of the flat array."""
        if w.shape != (self.n_weights,):
            raise ValueError(f"weights of this network have shape ({self.n_weights},), not {w.shape}")
        return [w[stage.place].reshape(stage.layer.weight_shape) for stage in self.stages]

    def joined(self, matrices: Sequence[Floats]) -> Floats:
        """Return the flat array of these matrices, one of each weighted layer."""
        return np.concatenate([np.asarray(W, dtype=np.float64).ravel() for W in matrices])

    def on_grid(self, w: Floats) -> Floats:
        """Return weights rounded layer by layer to grids on which products are exact, in an array of their own."""
        w = np.asarray(w, dtype=np.float64)
        on_grid = np.empty_like(w)
        for stage, given, rounded in zip(self.stages, self.split(w), self.split(on_grid), strict=True):
            rounded[...] = stage.layer.on_grid(given)
        return on_grid

    def start(self, seed: int) -> Floats:
        """Return initial weights, which are public: normal ones, and biases of 0."""
        generator, parts = generator_for(SeededBits(seed)), list[Floats]()
        for stage in self.stages:
            fans = stage.layer.fan_in, stage.layer.fan_out
            spread = glorot(*fans) if stage is self.stages[-1] else self._activation.spread(*fans)
            W = np.zeros(stage.layer.weight_shape)
            W[:-1] = spread * generator.standard_normal(W[:-1].shape)
            parts.append(W)
        return self.joined(parts)

    def blocks(self, chunk: Chunk) -> Iterator[tuple[slice, Matrix]]:
        """Yield slices of rows of a chunk, and the signals of these rows: an array, or a CSR matrix if that is faster.

        The bits of all sums are the same.
        """
        n, d = chunk.units.shape
        if d != self.n_inputs:
            raise ValueError(f"this network takes rows of {self.n_inputs} columns, but these have {d}")
        sparse, size = self._sparse(chunk), self.block_rows
        if sparse:  # the inputs take little room
            size = self._rows_of(max(math.prod(layer.outputs) for layer in self.layers))
        for a in range(0, n, size):
            rows = slice(a, min(a + size, n))
            if sparse:
                yield rows, sparse_signals_of(chunk.units[rows], chunk.scale[rows])
            else:
                own = chunk.dense(rows)[:, :d]  # a copy, which is written over if it lies row by row
                yield rows, signals_of(own, chunk.scale[rows], own if own.flags.c_contiguous else None)

    def _sparse(self, chunk: Chunk) -> bool:
        """Return whether sparse products of the first layer are possible and faster. No bit of a sum depends on it."""
        if not chunk.sparse or chunk.offset is not None or not self.stages[0].layer.takes_sparse:
            return False
        n, d = chunk.units.shape
        return bool(chunk.units.nnz * _DENSE_IS_FASTER < n * d)

    def scores(self, data: Chunk | Matrix, w: Floats) -> Floats:
        """Return the scores of a chunk, or of some rows of signals: (n, K), or (n,) for a network of one output."""
        if not isinstance(data, Chunk):
            return self.forward(data, self.split(w)).scores
        scores = np.empty((len(data), self.n_outputs) if self.n_outputs > 1 else len(data))
        for rows, signals in self.blocks(data):
            scores[rows] = self.scores(signals, w)
        return scores

    def row_gradients(self, signals: Matrix, y: Labels, w: Floats, loss: Loss) -> list[RowGradients]:
        """Return the gradients of the loss of some rows, layer by layer."""
        matrices = self.split(w)
        return self.backward(self.forward(signals, matrices), y, matrices, loss)

    def forward(self, signals: Matrix, matrices: Sequence[Floats], first: Floats | None = None) -> Pass:
        """Return what a pass over some rows of signals finds, with the weights of each layer.

        ``first`` are the sums of the first layer if they are known; they are written over.
        """
        inputs, known = list[Matrix](), list[list[Any]]()
        values = signals
        for stage, W in zip(self.stages, matrices, strict=True):
            if inputs:
                values = self._activation.activate(values)
            if isinstance(values, np.ndarray):
                values = values.reshape(len(values), *stage.layer.inputs)
            inputs.append(values)
            values = stage.layer.forward(values, W) if first is None or len(inputs) > 1 else first
            known.append([])
            for other in stage.behind:
                values, memory = other.forward(values)
                known[-1].append(memory)
        values = values * SIGNAL_STEP
        np.clip(values, -LARGEST_SCORE, LARGEST_SCORE, out=values)
        return Pass(values[:, 0] if self.n_outputs == 1 else values, inputs, known)

    def backward(self, seen: Pass, y: Labels, matrices: Sequence[Floats], loss: Loss) -> list[RowGradients]:
        """Return the gradients of the loss of rows after a pass over them with these weights, layer by layer."""
        inputs, known = seen.inputs, seen.known
        slopes = self._slopes(seen.scores, y, loss)
        found: list[RowGradients] = []
        for i in range(len(self.stages) - 1, -1, -1):
            layer = self.stages[i].layer
            found.append(layer.row_gradients(inputs[i], slopes))
            if i:
                before = self.stages[i - 1]
                slopes = layer.backward(slopes, matrices[i]).reshape(len(slopes), *before.outputs)
                self._activation.multiply(slopes, inputs[i].reshape(slopes.shape))
                round_slopes(slopes)
                for other, memory in reversed(list(zip(before.behind, known[i - 1], strict=True))):
                    slopes = other.backward(slopes, memory)
        return found[::-1]

    def _slopes(self, scores: Floats, y: Labels, loss: Loss) -> Floats:
        derivatives = loss.derivative(scores, y)
        if derivatives.shape != scores.shape:
            raise TypeError(f"{loss!r}.derivative changed the shape {scores.shape} of the scores")
        return slopes_of(derivatives).reshape(len(scores), self.n_outputs)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without what follows from it."""
        return {known.name: getattr(self, known.name) for known in fields(self)}

    @property
    def _activation(self) -> Activation:
        return ACTIVATIONS[self.activation]

    def _rows_of(self, width: int) -> int:
        """Return how many rows are worked on at a time where layers take and give at most so many numbers of a row."""
        rows = max(min(_BLOCK_ROWS, _BLOCK_ENTRIES // width), _SMALL // width)
        if all(isinstance(layer, Dense) for layer in self.layers):
            rows = max(rows, min(_FEWEST_DENSE, _LARGEST_BLOCK // width))
        return max(_FEWEST, min(MOST_BLOCK_ROWS, rows // 8 * 8))
