"""Networks as plain parts of scikit-learn: products, the largest of some, clipping, and rounding where they round.

Inside are whole numbers, so that sums are exact: the scores are those of the network, bit for bit. Only a tanh may be
rounded in another way by NumPy, which changes a signal by one step at most, and hardly ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import Normalizer

from ..data.grid import LARGEST_ENTRY, UNIT_BITS
from ..mechanisms.samplers import Floats
from ..networks.signals import ONE, REACH
from .description import Description
from .hidden_layers import LEAST, ColumnInputs, HiddenLayer
from .plain_parts import chain, clipped, function, minus, products, shrunk

_ROUNDED: dict[str, Any] = {"rounded": function(np.rint), "ends": clipped(-REACH, REACH)}

_MOST_PRODUCTS = 2**24
"""Of the convolution of one row: as a sparse matrix they take 200 megabytes."""


def hidden_steps(of: Description) -> dict[str, Any]:
    """Return the steps from clipped columns to what the last layer of a network sees."""
    n_inputs = len(of.low)
    if isinstance(of.inputs, ColumnInputs):
        steps = _signals(of.origin, of.inputs)
    else:
        steps = _signals_of_rows(n_inputs, of.data_norm)
    for k, layer in enumerate(of.hidden, 1):
        steps[f"layer_{k}"] = _layer(of, layer, n_inputs)
        n_inputs = layer.n_outputs
    return steps


def _signals(origin: Floats, inputs: ColumnInputs) -> dict[str, Any]:
    """Return the steps that turn clipped entries into signals, rounded as often as the network rounds."""
    return {
        "placed": minus(origin, inputs.width),
        "steps": chain(times=products(_diagonal(inputs.steps)), whole=function(np.trunc)),
        "signals": chain(times=minus(inputs.centre, np.full(len(origin), 1 / inputs.factor)), **_ROUNDED),
    }


def _signals_of_rows(n: int, data_norm: float | None) -> dict[str, Any]:
    """Return the same where each row has a grid of its own.

    scikit-learn divides each row by its largest entry. So rows are divided by a power of two, which is one more column,
    and later by its reciprocal, which is made large for that.
    """
    power = chain(
        sizes=function(np.abs),
        largest=function(np.max, axis=1, keepdims=True),
        least=clipped(LEAST, np.inf),
        octave=function(np.log2),
        above=function(np.ceil),
        power=function(np.exp2),
    )
    units = chain(
        both=FeatureUnion([("row", "passthrough"), ("power", power)]),
        divided=Normalizer("max"),
        times=products(_diagonal(np.full(n, 2.0**UNIT_BITS), n + 1)),
        whole=function(np.trunc),
        small=products(_diagonal(np.full(n, 2.0**-UNIT_BITS))),
    )
    reciprocal = chain(power=power, reciprocal=function(np.reciprocal), large=products(np.full((1, 1), LARGEST_ENTRY)))
    steps: dict[str, Any] = {}
    if data_norm is not None:
        steps |= {**shrunk(data_norm), "norm_again": products(_diagonal(np.full(n, data_norm), n + 1))}
    return steps | {
        "steps": FeatureUnion([("units", units), ("reciprocal", reciprocal)]),
        "times": Normalizer("max"),
        "signals": chain(times=products(_diagonal(np.full(n, ONE * LARGEST_ENTRY), n + 1)), **_ROUNDED),
    }


def _diagonal(factors: Floats, n_columns: int | None = None) -> Any:
    """Return a sparse matrix that multiplies columns, and drops those beyond."""
    n = len(factors)
    return sp.csr_array((factors, np.arange(n), np.arange(n + 1)), (n, n if n_columns is None else n_columns))


def _layer(of: Description, layer: HiddenLayer, n_inputs: int) -> Any:
    """Return one hidden layer: scikit-learn takes the bias for a mean that is taken off."""
    steps: dict[str, Any] = {
        "products": products(layer.weights.T if layer.places is None else _spread(of, layer, n_inputs)),
        "bias": minus(-np.tile(layer.bias, 1 if layer.places is None else len(layer.places))),
    }
    if layer.rivals is not None:
        steps |= {"rivals": function(np.take, indices=layer.rivals, axis=1), "largest": function(np.max, axis=2)}
    if layer.activation == "tanh":
        one = np.ones(layer.n_outputs)
        steps |= {"ones": minus(0 * one, ONE * one), "tanh": function(np.tanh), "steps": minus(0 * one, one / ONE)}
    return chain(**steps, activation=clipped(*layer.ends), rounded=function(np.rint))


def _spread(of: Description, layer: HiddenLayer, n_inputs: int) -> Any:
    """Return a convolution as a sparse matrix of shape (n_places * n_units, n_inputs)."""
    places: Any = layer.places
    (n_places, n_seen), n_units = places.shape, layer.weights.shape[1]
    if places.size * n_units > _MOST_PRODUCTS:
        raise ValueError(
            f"{of.estimator} has a convolution of {places.size * n_units:,} products for each row, for which "
            "scikit-learn has no part that is not far too large: use to_onnx() or to_json()"
        )
    columns = np.repeat(places, n_units, axis=0).ravel()
    entries = np.tile(layer.weights.T, (n_places, 1)).ravel()
    return sp.csr_array((entries, columns, np.arange(0, len(columns) + 1, n_seen)), (n_places * n_units, n_inputs))
