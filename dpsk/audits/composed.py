"""The privacy profile of releases that follow one another, computed from below.

Everything that one fit releases is one pair of distributions. Its privacy loss is the sum of the losses of the
releases. Losses are rounded down to a grid, so the profile is never too high (but for the rounding of a Fourier
transform, which is subtracted).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr, logsumexp, ndtr

from ..mechanisms.samplers import Floats
from .coins import Coin

_CELLS = 1 << 19
_TAILS = 14.0  # standard deviations of the loss that the grid covers
_OF_TRANSFORM = 1e-11  # a bound on what rounding adds to a delta


@dataclass(frozen=True)
class Batches:
    """So many batches that hold a unit with probability ``rate``, and then are ``mu`` standard deviations off."""

    mu: float
    rate: float
    count: int


@dataclass(frozen=True, eq=False)
class Composed:
    """Releases one after the other: Gaussian noise, ``mu`` standard deviations in all; coins; random batches.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.4)
    :meth:`delta` lies below the profile of every sequence of releases of which each is at least as telling as stated,
    whatever came before it.
    """

    mu: float = 0.0
    coins: Sequence[Coin] = ()
    batches: Sequence[Batches] = ()

    def delta(self, epsilon: Floats) -> Floats:
        epsilon = np.asarray(epsilon, dtype=np.float64)
        if not self.coins and not self.batches:
            return gaussian_profile(self.mu, epsilon)
        if len(self.coins) == 1 and not self.mu and not self.batches:
            return self.coins[0].delta(epsilon)
        return np.maximum(*(losses.delta(epsilon) for losses in self._both_ways))

    @cached_property
    def _both_ways(self) -> tuple[_Total, _Total]:
        """The total loss, for both orders of the two data sets."""
        one, other = (self._total(sign) for sign in (1, -1))
        return one, other

    def _total(self, sign: int) -> _Total:
        parts = [(_of_coin(coin, sign), count) for coin, count in Counter(self.coins).items()]
        parts += [(_of_batch(one.mu, one.rate, sign), one.count) for one in self.batches]
        if self.mu:
            parts.append((_gaussian_loss(self.mu), 1))
        moments = [(loss.moments(), count) for loss, count in parts]
        spread = math.sqrt(sum(count * variance for (_, variance), count in moments))
        middle = sum(count * mean for (mean, _), count in moments)
        cell = 2 * (abs(middle) + _TAILS * spread + 1.0) / _CELLS
        size = next_fast_len(_CELLS, real=True)
        transform = np.ones(size // 2 + 1, dtype=np.complex128)
        for loss, count in parts:
            transform *= rfft(loss.on_grid(cell, size)) ** count
        masses = np.maximum(irfft(transform, size), 0.0)
        half = size // 2  # losses from -half cells on
        around = _below(-half * cell, cell, parts)
        return _Total.of((np.arange(size) - half) * cell, np.roll(masses, half), around)


@dataclass(frozen=True, eq=False)
class _Total:
    """A loss on a grid: by cell, the mass from there on, and the mass on the other data set.

    No more than ``around`` of the mass lies in cells that are too high, because it fell off the lower end of the grid.
    """

    losses: Floats
    above: Floats
    elsewhere: Floats
    around: float

    @classmethod
    def of(cls, losses: Floats, masses: Floats, around: float) -> _Total:
        weighed = masses * np.exp(-np.clip(losses, -700, 700))
        above, elsewhere = (np.append(np.cumsum(some[::-1])[::-1], 0.0) for some in (masses, weighed))
        return cls(losses, above, elsewhere, around)

    def delta(self, epsilon: Floats) -> Floats:
        first = np.searchsorted(self.losses, epsilon, side="right")
        delta = self.above[first] - np.exp(np.minimum(epsilon, 700)) * self.elsewhere[first]
        return np.maximum(delta - _OF_TRANSFORM - self.around, 0.0)


def gaussian_profile(mu: float, epsilon: Floats) -> Floats:
    """Return the delta of two normal distributions, ``mu`` standard deviations apart, at each epsilon >= 0.

    See docs/guarantees.md, 5.1.
    """
    epsilon = np.asarray(epsilon, dtype=np.float64)
    if mu <= 0:
        return np.zeros_like(epsilon)
    above = log_ndtr(-mu / 2 - epsilon / mu)
    delta = ndtr(mu / 2 - epsilon / mu) - np.exp(np.minimum(epsilon + above, 0.0))
    return np.asarray(np.maximum(delta, 0.0), dtype=np.float64)


@dataclass(frozen=True)
class _Loss:
    """A distribution of losses as masses between ends; the mass of a cell is taken at its lower end."""

    ends: Floats
    masses: Floats

    def moments(self) -> tuple[float, float]:
        total = self.masses.sum()
        mean = float((self.masses * self.ends).sum() / total)
        return mean, float((self.masses * (self.ends - mean) ** 2).sum() / total)

    def on_grid(self, cell: float, size: int) -> Floats:
        """Return the masses by multiples of ``cell``, losses rounded down; negative ones lie at the end."""
        steps = np.floor(self.ends / cell).astype(np.int64)
        inside = (steps >= -(size // 2)) & (steps < size // 2)
        masses: Floats = np.bincount(steps[inside] % size, self.masses[inside], minlength=size).astype(np.float64)
        return masses


def _below(end: float, cell: float, parts: Sequence[tuple[_Loss, int]]) -> float:
    """Return a bound on the probability that losses, rounded down to multiples of ``cell``, add up to below ``end``.

    A transform is periodic, so what falls off the lower end comes in at the upper one. The bound is Chernoff's: it is
    true for every tilt, and the best of a few is taken.
    """
    bound = 1.0
    for tilt in np.geomspace(0.1, 1e4, 26) / -end:
        exponent = tilt * end
        for loss, count in parts:
            steps = np.floor(loss.ends / cell)
            exponent += count * float(logsumexp(-tilt * cell * steps, b=loss.masses))
        bound = min(bound, math.exp(min(exponent, 0.0)))
    return bound


def _of_coin(coin: Coin, sign: int) -> _Loss:
    p, r = (coin.often, coin.seldom) if sign > 0 else (coin.seldom, coin.often)
    ends, masses = [], []
    for one, other in ((p, r), (1 - p, 1 - r)):
        if one > 0:
            ends.append(math.log(one / other) if other > 0 else 60.0)
            masses.append(one)
    return _Loss(np.array(ends), np.array(masses))


_FINE = 1 << 16


def _gaussian_loss(mu: float) -> _Loss:
    z = np.linspace(-_TAILS, _TAILS, _FINE + 1)
    return _Loss((z * mu + mu * mu / 2)[:-1], np.diff(ndtr(z)))


def _of_batch(mu: float, rate: float, sign: int) -> _Loss:
    """Return the loss of a batch: a normal number, ``mu`` off with probability ``rate``, against one that never is."""
    x = np.linspace(-_TAILS, _TAILS + mu, 4 * _FINE + 1)
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2)
    if sign > 0:
        masses = (1 - rate) * np.diff(ndtr(x)) + rate * np.diff(ndtr(x - mu))
        return _Loss(loss[:-1], masses)
    return _Loss(-loss[1:], np.diff(ndtr(x)))


def grouped(batches: Sequence[tuple[float, float]]) -> list[Batches]:
    """Return batches of (mu, rate), those of about one mu together: mu is rounded down to three digits."""

    def down(mu: float) -> float:
        unit = 10.0 ** (math.floor(math.log10(mu)) - 2)
        return math.floor(mu / unit + 1e-9) * unit

    counts = Counter((down(mu), rate) for mu, rate in batches if mu > 0)
    return [Batches(mu, rate, count) for (mu, rate), count in sorted(counts.items())]
