"""Spherical noise for pure output perturbation, exactly."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, getcontext, localcontext
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..privacy.ledger import BudgetExhausted
from ..privacy.rounding import above
from .mechanism import PureMechanism, Sensitivity
from .randomness import Bits
from .samplers import Integers, words

_MAX_BITS = 56
_CELL_BITS = 10  # what is released is coarser than the noise's scale by so many bits less
_DIGITS = 52  # of a uniform number, as far as it is known at first

Numbers: TypeAlias = NDArray[Any]
"""Floats, or decimals of any precision."""


@dataclass(frozen=True)
class NormGamma(PureMechanism):
    """Noise with density proportional to exp(-epsilon * ||z||_2 / l2 sensitivity).

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.11)
    epsilon-DP (Chaudhuri, Monteleoni & Sarwate 2011). The value plus real-valued noise lies in one cell of a grid,
    whose cells are a thousandth of the scale of the noise, and this cell is released. First binary digits of uniform
    numbers give an interval for the noise; more are drawn until it decides the cell. So the draw is exact: no tail is
    cut off, and delta is 0.
    """

    norm = "l2"

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        if not sensitivity.l2 / self.epsilon * math.prod(shape or ()) < 2.0**_MAX_BITS:
            raise BudgetExhausted(
                f"epsilon={self.epsilon!r} at an l2 sensitivity of {sensitivity.l2!r} needs noise beyond 2**62 grid "
                "units: spend more on this release (a larger epsilon, or fewer releases)"
            )

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> Integers:
        self.check(sensitivity, value.shape)
        scale = above(Fraction(sensitivity.l2) / Fraction(self.epsilon))  # at least the quotient, exact from here on
        cell = 1 << max(0, math.frexp(scale)[1] - _CELL_BITS)
        known = words(2 * value.size + value.size % 2, bits) >> np.uint64(64 - _DIGITS)
        with np.errstate(divide="ignore", invalid="ignore"):
            noise, error = _noise(known.astype(np.float64), value.size, scale, _FLOATS)
        small = np.abs(noise) + error < 2.0**61  # also False for nan: then no digit of it is known
        noise, error = (np.where(small, x, 0.0) for x in (noise, error))
        low, high = _cells(value.ravel(), noise, error, cell, np.floor)
        if not (small.all() and np.array_equal(low, high)):
            low = _decided(value.ravel(), known.astype(object), scale, cell, bits)
        return low.reshape(value.shape)


def _cells(value: Numbers, noise: Numbers, error: Numbers, cell: int, floor: Any) -> tuple[Integers, Integers]:
    """Return the cells in which the smallest and the largest noise lead; cells are around their multiples."""
    if cell == 1:
        noise = noise + type(noise.flat[0])(0.5)
    whole = [floor(noise - error), floor(noise + error)]
    if noise.dtype != object:
        whole = [x.astype(np.int64) for x in whole]
    low, high = ((value + cell // 2 + x) // cell * cell for x in whole)
    return low, high


def _decided(value: Integers, known: Numbers, scale: float, cell: int, bits: Bits) -> Integers:
    """Draw digits until they decide the cells; return the cells. Sums beyond 64 bits wrap around, as all sums do."""
    digits = _DIGITS
    while True:
        known = known << 64 | words(len(known), bits).astype(object)
        digits += 64
        with localcontext(Context(prec=digits // 3 + 25)):
            try:
                noise, error = _noise(known, value.size, Decimal(scale), _decimals(digits))
                low, high = _cells(value.astype(object), noise, error, cell, np.frompyfunc(math.floor, 1, 1))
            except ArithmeticError:  # a logarithm or a quotient of 0: no digit of it is known
                continue
        if np.array_equal(low, high):
            return ((low + 2**63) % 2**64 - 2**63).astype(np.int64)


@dataclass(frozen=True)
class _Numbers:
    """The arithmetic: uniform numbers are known to one ``unit``, and ``rounding`` is more than sums can lose."""

    unit: Any
    rounding: Any
    log: Callable[[Numbers], Numbers]
    circle: Callable[[Numbers], tuple[Numbers, Numbers]]


_TURN = 2 * math.pi * 2.0**-_DIGITS
_FLOATS = _Numbers(2.0**-_DIGITS, 2.0**-46, np.log, lambda k: (np.cos(k * _TURN), np.sin(k * _TURN)))


def _decimals(digits: int) -> _Numbers:
    """Return decimals of the precision of the current context, for so many binary digits."""
    rounding = Decimal(10) ** (10 - getcontext().prec)
    return _Numbers(Decimal(1) / 2**digits, rounding, np.frompyfunc(Decimal.ln, 1, 1), lambda k: _circle(k, digits))


def _circle(known: Numbers, digits: int) -> tuple[Numbers, Numbers]:
    """Return cosine and sine of that part of a turn, from those of 1/2, 1/4, ... by half-angles and products."""
    cosine, sine = (np.full(len(known), Decimal(x)) for x in (1, 0))
    c, s = Decimal(-1), Decimal(0)
    for place in range(digits - 1, -1, -1):
        one = (known >> place & 1).astype(bool)
        cosine, sine = (np.where(one, cosine * c - sine * s, cosine), np.where(one, cosine * s + sine * c, sine))
        c, s = (Decimal(0), Decimal(1)) if c < 0 else (((1 + c) / 2).sqrt(), s / (2 * ((1 + c) / 2).sqrt()))
    return cosine, sine


def _noise(known: Numbers, size: int, scale: Any, numbers: _Numbers) -> tuple[Numbers, Numbers]:
    """Return noise of this scale, and a bound on how far off it is.

    Each of the uniform numbers lies between k and k + 1 units, k being what is ``known``. The length is the sum of
    ``size`` exponential numbers; the direction is that of normal numbers (Box & Muller 1958), of which an angle and the
    root of an exponential number give two. The factor of 2 covers products of errors, which are below 1/16.
    """
    pairs, unit, rounding = size - size // 2, numbers.unit, numbers.rounding
    exponential = -numbers.log((2 * known[pairs:] + 1) * (unit / 2))
    off = 1 / (2 * known[pairs:] + 0 * unit) + rounding * exponential
    length, of_length = exponential[pairs:].sum(), off[pairs:].sum()
    radius = np.sqrt(exponential[:pairs])
    of_radius = off[:pairs] / radius + radius * (8 * unit + rounding)
    normal = np.concatenate([radius * x for x in numbers.circle(known[:pairs])])[:size]
    of_normal = np.concatenate([of_radius, of_radius])[:size]
    norm, of_norm = np.sqrt((normal * normal).sum()), np.sqrt((of_normal * of_normal).sum())
    noise, relative = normal * (length / norm * scale), of_length / length + of_norm / norm
    if not relative < 1 / type(relative)(16):
        return noise, noise * 0 + type(relative)(2**99)
    return noise, 2 * (of_normal * (length / norm * scale) + np.abs(noise) * (relative + rounding))
