"""One step of DP-SGD by Opacus, where PyTorch and Opacus are installed: rivals of the time of ours.

"hooks" is Opacus's default, which forms the gradient of every row. "ghost" finds norms without forming gradients of
dense layers, and goes backward twice. Both draw Gaussian noise in floating point and update the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from math import prod

import numpy as np

from .inside import Convolution, Dense, MaxPooling, Network

__all__ = ["NAMES", "fits", "model", "step", "versions"]

NAMES = ("hooks, float32", "ghost, float32", "hooks, float64", "ghost, float64")
LARGEST = 2.0**31  # bytes of the gradients of all rows


def fits(network: Network, batch: int, peer: str) -> bool:
    """Return whether gradients of all rows fit in memory, if they are formed."""
    size = 4 if peer.endswith("32") else 8
    return peer.startswith("ghost") or network.n_weights * batch * size < LARGEST


def versions() -> str:
    return f"torch {version('torch')}, opacus {version('opacus')}"


def step(peer: str, network: Network, X: np.ndarray, y: np.ndarray) -> Callable[[], object] | None:
    """Return a step of DP-SGD on these rows, with one thread; None if the library is not installed."""
    try:
        import torch
        from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
    except ImportError:
        return None
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kind = torch.float32 if peer.endswith("32") else torch.float64
    made = model(torch.nn, network).to(kind)
    shape = network.layers[0].inputs
    images = X.reshape(len(X), *shape).transpose(0, 3, 1, 2) if len(shape) == 3 else X
    x, labels = torch.tensor(images.copy(), dtype=kind), torch.tensor(y)
    plain, loss = torch.optim.SGD(made.parameters(), lr=0.1), torch.nn.CrossEntropyLoss()
    given = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": len(X)}
    if peer.startswith("ghost"):
        wrapped = GradSampleModuleFastGradientClipping(made, max_grad_norm=1.0)
        optimizer = DPOptimizerFastGradientClipping(plain, **given)
        loss = DPLossFastGradientClipping(wrapped, optimizer, loss)
    else:
        wrapped, optimizer = GradSampleModule(made), DPOptimizer(plain, **given)

    def one() -> None:
        optimizer.zero_grad()
        loss(wrapped(x), labels).backward()
        optimizer.step()

    return one


def model(nn, network: Network):
    """Return the same network in PyTorch, with ReLU behind every layer with weights but the last."""
    layers = []
    for stage in network.stages:
        layer = stage.layer
        if layers:
            layers.append(nn.ReLU())
        if isinstance(layer, Dense):
            layers.extend([nn.Flatten(), nn.Linear(prod(layer.inputs), layer.n_outputs)])  # vectors stay as they are
        elif isinstance(layer, Convolution):
            layers.append(nn.Conv2d(layer.inputs[2], layer.channels, layer.size))
        layers.extend(nn.MaxPool2d(other.size) for other in stage.behind if isinstance(other, MaxPooling))
    return nn.Sequential(*layers)
