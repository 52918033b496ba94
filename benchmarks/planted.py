"""Faults that are planted in the library inside of a context, to see whether an audit finds them.

A fault holds in this process only: fits in other processes do not have it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np

from dpsk import DPLogisticRegression

from .inside import (
    SLOPE_STEP,
    Dense,
    Discovery,
    GradientSum,
    Ledger,
    Ramp,
    SeededBits,
    additive,
    amplification,
    randomness,
    sampled,
    spherical,
)

Planted: TypeAlias = AbstractContextManager[None]

_FREE = {"moments", "joint histogram", "minimum", "outcomes"}
_LONG = 100.0


@contextmanager
def halved_noise() -> Iterator[None]:
    """Draw Gaussian and Laplace noise of half the scale that was paid for."""
    whole = additive.noise_scale
    with patch.object(additive, "noise_scale", lambda sensitivity, mu: max(1, whole(sensitivity, mu) // 2)):
        yield


@contextmanager
def halved_noise_of_a_score() -> Iterator[None]:
    """Draw the Laplace noise of a vote or a count with half the scale."""
    draw = additive.discrete_laplace

    def halved(scale: int, n: int, bits: Any, **more: Any) -> Any:
        return draw(max(1, scale // 2), n, bits, **more)

    with patch.object(additive, "discrete_laplace", halved):
        yield


@contextmanager
def halved_noise_of_a_norm() -> Iterator[None]:
    """Draw noise whose density falls with its norm with half the scale."""
    whole = spherical.above
    with patch.object(spherical, "above", lambda scale: whole(scale) / 2):
        yield


@contextmanager
def uniform_noise() -> Iterator[None]:
    """Draw uniform noise where Gaussian noise was paid for, with the same variance."""

    def uniform(sigma: int, n: int, bits: Any) -> Any:
        rng = np.random.default_rng(np.frombuffer(bits.take(32), dtype=np.uint32))
        return np.rint(rng.uniform(-1, 1, n) * (np.sqrt(3) * sigma)).astype(np.int64)

    with patch.object(additive, "rounded_gaussian", uniform):
        yield


@contextmanager
def repeated_noise() -> Iterator[None]:
    """Draw the noise of one release once more for the next one of its size, in every fit."""
    draw, drawn = additive.rounded_gaussian, WeakKeyDictionary[Any, dict[int, list[Any]]]()

    def repeated(sigma: int, n: int, bits: Any) -> Any:
        earlier = drawn.setdefault(bits, {}).setdefault(n, [])
        noise = draw(sigma, n, bits) if len(earlier) != 1 else np.rint(earlier[0] * sigma).astype(np.int64)
        earlier.append(noise / sigma)
        return noise

    with patch.object(additive, "rounded_gaussian", repeated):
        yield


@contextmanager
def no_clip() -> Iterator[None]:
    """Leave gradients as long as they are."""
    clipped = GradientSum.__call__

    def unclipped(self: Any, chunk: Any) -> Any:
        chunk.norm = chunk.norm * 1e-3  # the query believes that rows are short
        return clipped(self, chunk)

    with patch.object(GradientSum, "__call__", unclipped):
        yield


class _WithoutBias:
    """Gradients of rows whose norms do not have the part of the bias."""

    def __init__(self, gradients: Any, of_bias: Any) -> None:
        self.squared_norms = gradients.squared_norms - of_bias
        self.total, self.add_to = gradients.total, gradients.add_to


@contextmanager
def unclipped_bias() -> Iterator[None]:
    """Leave the biases of a network out of the norms by which gradients are clipped."""
    whole = Dense.row_gradients

    def without(self: Any, signals: Any, slopes: Any) -> Any:
        return _WithoutBias(whole(self, signals, slopes), np.square(slopes * SLOPE_STEP).sum(axis=1))

    with patch.object(Dense, "row_gradients", without):
        yield


@contextmanager
def batch_norm() -> Iterator[None]:
    """Subtract from the inputs of each layer of a network their mean over the rows of a batch."""
    alone = Dense.forward

    def centred(self: Any, signals: Any, W: Any) -> Any:
        return alone(self, signals - np.rint(signals.mean(axis=0)), W)

    with patch.object(Dense, "forward", centred):
        yield


@contextmanager
def rounded_by_batch() -> Iterator[None]:
    """Round the activations of a network to halves of the largest one in the batch."""
    alone = Ramp.activate

    def rounded(self: Any, steps: Any) -> Any:
        signals = alone(self, steps)
        spacing = max(1.0, float(signals.max(initial=0.0)) / 2)
        return np.rint(np.rint(signals / spacing) * spacing)

    with patch.object(Ramp, "activate", rounded):
        yield


@contextmanager
def unpaid() -> Iterator[None]:
    """Take no price for releases of some kinds."""
    charge = Ledger.charge

    def charged(self: Any, cost: Any, label: str) -> Any:
        return self.turn if label in _FREE else charge(self, cost, label)

    with patch.object(Ledger, "charge", charged):
        yield


class _Private(SeededBits):
    private = True


@contextmanager
def one_seed() -> Iterator[None]:
    """Let all fits draw the same bits."""
    with patch.object(randomness.SystemBits, "__new__", lambda cls: _Private(7)):
        yield


@contextmanager
def amplified_twice() -> Iterator[None]:
    """Price batches as if they were drawn at the square of their rate."""
    right, caches = amplification.poisson_rdp, (amplification._batch_rdp, sampled._planned_currency)
    wrong = patch.object(amplification, "poisson_rdp", lambda order, rate, curve: right(order, rate * rate, curve))
    for cache in caches:
        cache.cache_clear()
    try:
        with wrong:
            yield
    finally:
        for cache in caches:
            cache.cache_clear()


@contextmanager
def low_threshold() -> Iterator[None]:
    """Show categories two standard deviations below the threshold."""
    right = Discovery.threshold
    with patch.object(Discovery, "threshold", lambda self, one, sigma: right(self, one, sigma) - 2 * sigma):
        yield


def _after_fit(change: Callable[[Any, Any, Any], Any]) -> Planted:
    """Return a context in which something happens at the end of each fit."""
    fit = DPLogisticRegression.fit

    @functools.wraps(fit)
    def changed(self: Any, X: Any, y: Any = None, **more: Any) -> Any:
        model = fit(self, X, y, **more)
        change(model, X, y)
        return model

    return patch.object(DPLogisticRegression, "fit", changed)


def counted() -> Planted:
    """Keep how many rows have label 1 in an attribute."""
    return _after_fit(lambda model, X, y: setattr(model, "n_positive_", int(np.sum(y))))


def refusing() -> Planted:
    """Raise an exception if a row is long."""

    def change(model: Any, X: Any, y: Any) -> None:
        if np.abs(X).max() > _LONG:
            raise ValueError("this row is too long")

    return _after_fit(change)


def warning() -> Planted:
    """Warn if a row is long."""

    def change(model: Any, X: Any, y: Any) -> None:
        if np.abs(X).max() > _LONG:
            warnings.warn("a long row", stacklevel=1)

    return _after_fit(change)


@contextmanager
def _predicting(change: Callable[[Any, Any, float], Any]) -> Iterator[None]:
    """Change predicted probabilities by the exact share of label 1 among the rows, which is no attribute."""
    shares, honest = WeakKeyDictionary[Any, float](), DPLogisticRegression.predict_proba

    def predicted(self: Any, X: Any) -> Any:
        return change(X, honest(self, X), shares[self]) if self in shares else honest(self, X)

    def keep(model: Any, X: Any, y: Any) -> None:
        shares[model] = float(np.mean(y))

    with _after_fit(keep), patch.object(DPLogisticRegression, "predict_proba", predicted):
        yield


def share_of_the_unknown() -> Planted:
    """Predict the exact share of label 1 for a row of zeros."""

    def change(X: Any, probabilities: Any, share: float) -> Any:
        return np.where(np.any(X != 0, axis=1)[:, None], probabilities, [1 - share, share])

    return _predicting(change)


def share_among_noise() -> Planted:
    """Move noisy probabilities by a hundredth of the way to the exact share of label 1."""
    return _predicting(lambda X, probabilities, share: 0.99 * probabilities + 0.01 * np.array([1 - share, share]))


@contextmanager
def rows_for_persons() -> Iterator[None]:
    """Protect rows where persons were asked for."""
    fit = DPLogisticRegression.fit

    @functools.wraps(fit)
    def without(self: Any, X: Any, y: Any = None, **more: Any) -> Any:
        return fit(self, X, y, **{name: value for name, value in more.items() if name != "groups"})

    with patch.object(DPLogisticRegression, "fit", without):
        yield
