"""Networks as plain parts of scikit-learn: products, the largest of some, clipping, and rounding where they round.

Inside are whole numbers, so that sums are exact: the scores are those of the network, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mechanisms.samplers import Floats
from .description import Description
from .hidden_layers import ONE, REACH, HiddenLayer, Inputs
from .plain_parts import chain, clipped, function, minus, products

_MOST_PRODUCTS = 2**24
"""Of the convolution of one row: as a sparse matrix they take 200 megabytes."""


def hidden_steps(of: Description) -> dict[str, Any]:
    """Return the steps from clipped rows to what the last layer of a network sees."""
    steps = _signals(of.origin, of.inputs) if of.inputs is not None else {}
    n_inputs = len(of.origin)
    for k, layer in enumerate(of.hidden, 1):
        steps[f"layer_{k}"] = _layer(of, layer, n_inputs)
        n_inputs = layer.n_outputs
    return steps


def _signals(origin: Floats, inputs: Inputs) -> dict[str, Any]:
    """Return the steps that turn clipped entries into signals, rounded as often as the network rounds."""
    times = sp.dia_array((inputs.steps[None], [0]), shape=(len(origin), len(origin))).tocsr()
    return {
        "placed": minus(origin, inputs.width),
        "units": chain(times=products(times), rounded=function(np.rint)),
        "signals": chain(
            times=minus(inputs.centre, np.full(len(origin), 1 / inputs.factor)),
            rounded=function(np.rint),
            ends=clipped(-REACH, REACH),
        ),
    }


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
