"""Checks of layers: those of the library pass, and planted faults are named."""

from dataclasses import dataclass

import numpy as np
import pytest

from dpsk.losses import Logistic, OneVsRest, Sigmoid, Softmax
from dpsk.networks import ACTIVATIONS, Convolution, Dense, MaxPooling, Network
from dpsk.networks.activations import Ramp
from dpsk.networks.dense import _DenseGradients
from dpsk.networks.signals import ONE, SIGNAL_STEP, SLOPE_STEP
from dpsk.queries import NetworkGradient
from dpsk.testing import check_layer, check_network

LAYERS = [
    Dense((1,), 1),
    Dense((7,), 5),
    Dense((1000,), 2),
    Dense((3,), 60),
    Convolution((5, 6, 2), 3, 3),
    Convolution((7, 4, 1), 2, 1),
    Convolution((4, 4, 3), 2, 4),
    Convolution((25, 25, 1), 1, 2),  # so many windows that slopes are rounded for gradients
    MaxPooling((4, 6, 2), 2),
    MaxPooling((5, 7, 1), 3),
    MaxPooling((3, 3, 2), 1),
]


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_layers_of_the_library_pass(layer):
    check_layer(layer)


class Biasless(_DenseGradients):
    @property
    def squared_norms(self):
        step = SIGNAL_STEP * SLOPE_STEP
        return np.square(self._signals).sum(axis=1) * np.square(self._slopes).sum(axis=1) * (step * step)


class Unordered(_DenseGradients):
    """Squares of large numbers are added in the order of memory, which follows from the number of rows."""

    @property
    def squared_norms(self):
        step = SIGNAL_STEP * SLOPE_STEP
        squares = np.asfortranarray(np.square(self._signals)) if len(self._signals) > 1 else np.square(self._signals)
        sums = squares.sum(axis=1) + ONE * ONE
        return sums * np.square(self._slopes).sum(axis=1) * (step * step)


class Rounding(_DenseGradients):
    """Residuals are rounded to the nearest integer, and not towards 0."""

    def total(self, factors, unit, weights):
        slopes = np.rint(self._slopes * (factors * (SLOPE_STEP * SIGNAL_STEP / unit))[:, None])
        ones = np.ones(len(slopes))
        return _DenseGradients(self._signals, slopes).total(ones, SIGNAL_STEP * SLOPE_STEP, weights)


class Careless(_DenseGradients):
    """Rows with weights count as often as others."""

    def total(self, factors, unit, weights):
        found = super().total(factors, unit, None)
        return found if weights is None else np.stack([found, 0 * found])


class Half(_DenseGradients):
    """The derivatives by weights and by the bias do not fit together."""

    def total(self, factors, unit, weights):
        found = super().total(factors, unit, weights)
        found[..., -1, :] //= 2
        return found


def with_gradients(gradients, n_inputs=40):
    @dataclass(frozen=True)
    class Layer(Dense):
        def row_gradients(self, signals, slopes):
            return gradients(signals, slopes)

    return Layer((n_inputs,), 3)


@dataclass(frozen=True)
class BatchNorm(Dense):
    def forward(self, signals, W):
        return super().forward(signals - np.rint(signals.mean(axis=0)), W)


@dataclass(frozen=True)
class RoundedByTheBatch(Dense):
    def forward(self, signals, W):
        spacing = 2.0 ** np.ceil(np.log2(np.abs(signals).max(initial=1.0)) - 15)
        return super().forward(np.rint(signals / spacing) * spacing, W)


@dataclass(frozen=True)
class Single(Dense):
    def forward(self, signals, W):
        return (signals.astype(np.float32) @ W[:-1].astype(np.float32) + W[-1] * ONE).astype(np.float64)


@dataclass(frozen=True)
class Gridless(Dense):
    """Weights stay as they are: sums of products are rounded, in an order that follows from the batch."""

    def on_grid(self, W):
        return W


@dataclass(frozen=True)
class ByColumns(Dense):
    """The grid of weights does not know of backward sums."""

    def largest_sums(self, W):
        return np.abs(W).sum(axis=0).max()


@dataclass(frozen=True)
class Forgetful(Dense):
    """The bias has no place in the grid of the weights, nor in the sums."""

    def forward(self, signals, W):
        return signals @ W[:-1]


@dataclass(frozen=True)
class Backwards(Convolution):
    """The window of the way back is not turned round."""

    def backward(self, slopes, W):
        return super().backward(slopes, np.concatenate([W[:-1][::-1], W[-1:]]))


@dataclass(frozen=True)
class Overwriting(Dense):
    def forward(self, signals, W):
        sums = super().forward(signals, W)
        signals[:] = 0
        return sums


@dataclass(frozen=True)
class TiesByPlace(MaxPooling):
    """Of equal values one is taken by where the row stands."""

    def forward(self, values):
        kept, (rows, columns) = super().forward(values)
        odd = (np.arange(len(values)) % 2 == 1)[:, None, None, None]
        turned = values[:, : kept.shape[1] * self.size].reshape(len(values), kept.shape[1], self.size, -1)
        ties = (turned[:, :, 0] == turned[:, :, 1]).reshape(rows[0].shape)
        return kept, ([rows[0] | (ties & odd)], columns)


@dataclass(frozen=True)
class Mean(MaxPooling):
    def forward(self, values):
        kept, known = super().forward(values)
        return kept / 2, known


@dataclass(frozen=True)
class Generous(MaxPooling):
    """The slope goes to two places."""

    def backward(self, slopes, known):
        found = super().backward(slopes, known)
        return found + found[:, ::-1]


PLANTED = {
    "a bias left out of the norm": (with_gradients(Biasless), "squared_norms has .* for row"),
    "a norm in another order": (with_gradients(Unordered, 1000), "squared_norms depends on other rows"),
    "rounded residuals": (with_gradients(Rounding), "total is longer than the clipped gradient"),
    "weights of rows left out": (with_gradients(Careless), "does not count rows by their weights"),
    "a gradient that is none": (with_gradients(Half), "is not the derivative of forward"),
    "batch norm": (BatchNorm((7,), 4), "the row is not treated alone"),
    "rounding by the batch": (RoundedByTheBatch((7,), 4), "products are rounded"),
    "single precision": (Single((7,), 4), "its sums are rounded|products are rounded"),
    "weights without a grid": (Gridless((7,), 4), "rounded"),
    "a grid of columns": (ByColumns((3,), 60), "backward .*rounded"),
    "no bias": (Forgetful((7,), 4), "is not the derivative of forward"),
    "a window that is not turned": (Backwards((5, 5, 1), 2, 2), "backward is not the adjoint of forward"),
    "signals overwritten": (Overwriting((7,), 4), "changes the numbers that it is given"),
    "ties by place": (TiesByPlace((4, 4, 2), 2), "backward .* depends on other rows"),
    "values that no row has": (Mean((4, 4, 2), 2), "other values than the row's"),
    "slopes to two places": (Generous((4, 4, 2), 2), "is not the adjoint of forward|not slopes"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_named(name):
    layer, words = PLANTED[name]
    with pytest.raises(AssertionError, match=words):
        check_layer(layer)


NETWORKS = {
    "scores alone": (Network.dense(4, (), 1), Logistic()),
    "relu": (Network.dense(4, (6,), 3), Softmax(3)),
    "tanh": (Network.dense(4, (5, 3), 1, "tanh"), Sigmoid()),
    "hard tanh": (Network.dense(3, (4, 4, 4), 2, "hard-tanh"), OneVsRest(Logistic(), 2)),
    "convolution": (
        Network((Convolution((6, 6, 1), 3, 3), MaxPooling((4, 4, 3), 2), Dense((12,), 5), Dense((5,), 3))),
        Softmax(3),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_library_pass_and_reach_the_clip(name):
    assert check_network(*NETWORKS[name], clip=0.3, trials=8) > 0.99


class ByTheBatch(Ramp):
    def activate(self, steps):
        spacing = 2.0 ** np.ceil(np.log2(np.abs(steps).max(initial=1.0)) - 12)
        return np.rint(super().activate(steps) / spacing) * spacing


class FlatRamp(Ramp):
    """The slope does not know where the ramp is flat."""

    def multiply(self, slopes, signals):
        pass


@pytest.mark.parametrize(
    ("activation", "words"), [(ByTheBatch(), "Network.scores depends on other rows"), (FlatRamp(), "not those of the")]
)
def test_planted_activations_are_named(activation, words, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "relu", activation)
    with pytest.raises(AssertionError, match=words):
        check_network(*NETWORKS["relu"])


class LayerByLayer(NetworkGradient):
    """Each layer is clipped for itself, so that all together are longer than the clip."""

    def _add(self, sums, signals, y, weights):
        whole = self.network.row_gradients
        try:
            for k in range(len(self.network.stages)):
                object.__setattr__(self.network, "row_gradients", lambda *given, k=k: only(whole(*given), k))
                super()._add(sums, signals, y, weights)
        finally:
            object.__delattr__(self.network, "row_gradients")


def only(gradients, k):
    """Return gradients of which those of one layer alone are longer than 0."""
    return [gradient if i == k else Nothing(gradient) for i, gradient in enumerate(gradients)]


class Nothing:
    def __init__(self, gradient):
        self.squared_norms = 0 * gradient.squared_norms

    def add_to(self, *given):
        pass


def test_a_network_whose_layers_are_clipped_one_by_one_is_named(monkeypatch):
    monkeypatch.setattr("dpsk.testing.check_layers.NetworkGradient", LayerByLayer)
    with pytest.raises(AssertionError, match="one unit moved the sum"):
        check_network(*NETWORKS["relu"])


@dataclass(frozen=True)
class CareOfZeros(Dense):
    """The products of a CSR matrix are rounded."""

    def forward(self, signals, W):
        sums = super().forward(signals, W)
        return sums if isinstance(signals, np.ndarray) else sums.astype(np.float32).astype(np.float64)


def test_a_layer_that_takes_sparse_signals_must_take_them_as_others():
    with pytest.raises(AssertionError, match="forward of a CSR matrix differs from that of an array"):
        check_layer(CareOfZeros((7,), 4))
