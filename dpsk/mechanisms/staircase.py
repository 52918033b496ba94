"""Exact Gaussian noise from a staircase over the bell curve.

A point is drawn uniformly below a staircase of integers that covers the curve, and is kept if it lies below the curve.
A table that is the same for every sigma names the step. Nearly all points lie so far below the curve that nothing has
to be compared. For the others a coin decides, which is exact. The binary digits of the point are read as they are
needed, so the product with sigma is rounded as the real number would be. Proof: docs/guarantees.md, 4.14.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .randomness import Bits
from .samplers import Integers, Refine, bernoulli_exp, check_scale, first_accepted, words

PER_UNIT = 64
"""Steps of the staircase in one standard deviation."""

HEIGHT = 200
"""The curve is ``HEIGHT * exp(-x**2/2)``."""

STEPS = 289
"""Steps on each side. Beyond them one place of the table stands for the whole tail."""

PLACES = 2**15
"""Places of the table, half of them for either sign. Each has the same area under the staircase."""

# A word has 15 bits for the place and 49 for the digits of a point within its step, of width 2^-6. So a point is an
# integer x in units of 2^-55 standard deviations: the number lies in [x, x + 1) units.
_WORD_DIGITS = 49
_DIGITS = 55

# Exponentials of floats are off by far less. No step is so close to an integer that this margin matters.
_MARGIN = 2.0**-30

_BLOCK = 2**13  # draws at a time: temporaries stay in the cache
_ACCEPTED = 0.979  # share of points that are kept: 2 * HEIGHT * PER_UNIT * sqrt(pi/2) / PLACES, rounded down
_SPREAD = 0.3  # times the root of how many points are drawn: two standard deviations of how many are kept


def heights() -> tuple[Integers, Integers]:
    """Return two heights for each step: the curve over the step lies nowhere below the first or above the second."""
    left = np.arange(STEPS) / PER_UNIT
    right = np.arange(1, STEPS + 1) / PER_UNIT
    below = np.floor(HEIGHT * np.exp(-right * right / 2) - _MARGIN)
    above = np.ceil(HEIGHT * np.exp(-left * left / 2) + _MARGIN)
    return np.maximum(below, 0).astype(np.int64), above.astype(np.int64)


def places() -> tuple[Integers, Integers, int]:
    """Return the step and the level of every place, and how many places from the first on need no coin.

    A step whose staircase is m high has a place for each level 0, ..., m - 1, and the same for the other sign, where
    step c is called -c - 1. Those that lie below the curve come first, the tail is last. Places that are left over get
    a level above the curve, so nothing is kept there.
    """
    below, above = heights()
    step = np.repeat(np.arange(STEPS), above)
    level = np.concatenate([np.arange(m) for m in above])
    tested = level >= below[step]
    order = np.argsort(tested, kind="stable")
    n_left = PLACES // 2 - len(step) - 1
    step = np.concatenate([step[order], np.zeros(n_left, dtype=np.int64), [STEPS]])
    level = np.concatenate([level[order], np.full(n_left, HEIGHT + 1), [0]])
    return np.stack([step, -step - 1], axis=1).ravel(), np.repeat(level, 2), 2 * int(below.sum())


_STEP, _LEVEL, _SURE = places()
_FIRST_TESTED = np.uint64(_SURE << _WORD_DIGITS)
_FIRST_OF_TAIL = PLACES - 2

# A word (place and digits) plus the entry of its place is the point (step and digits).
_TO_POINT = (_STEP - np.arange(PLACES)).astype(np.uint64) << np.uint64(_WORD_DIGITS)
_LEVEL.flags.writeable = _TO_POINT.flags.writeable = False


class _Point:
    """A real number x, known <= 2**length x < known + 1, whose further digits are read as they are needed."""

    def __init__(self, known: int, length: int, bits: Bits) -> None:
        self._known, self.length, self._bits = known, length, bits

    def _read(self, length: int) -> None:
        while self.length < length:
            self._known = self._known << 64 | int.from_bytes(self._bits.take(8), "little")
            self.length += 64

    def exponent(self, digits: int) -> tuple[Fraction, Fraction]:
        """Return brackets of x**2/2. They are squares of two ends, since zero never lies strictly between these."""
        self._read(digits)
        ends = (Fraction(k * k, 2 ** (2 * self.length + 1)) for k in (self._known, self._known + 1))
        low, high = sorted(ends)
        return low, high

    def nearest(self, sigma: int) -> int:
        """Return sigma*x, rounded to the nearest integer."""
        while True:
            half = 1 << self.length - 1
            low = (sigma * self._known + half) >> self.length
            if low == (sigma * (self._known + 1) + half - 1) >> self.length:
                return low
            self._read(self.length + 64)


def rounded_gaussian(sigma: int, n: int, bits: Bits) -> Integers:
    """Return ``n`` draws of a continuous N(0, sigma**2), each rounded to the nearest integer."""
    check_scale(sigma)
    sizes = [min(_BLOCK, n - start) for start in range(0, n, _BLOCK)]
    blocks = [
        first_accepted(size, lambda m: _propose(sigma, m, bits), rate=_ACCEPTED, spread=_SPREAD) for size in sizes
    ]
    return blocks[0] if len(blocks) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *blocks])


def _propose(sigma: int, n: int, bits: Bits) -> Integers:
    """Draw n points below the staircase, and return those below the curve, times sigma and rounded."""
    raw = words(n, bits)
    place = (raw >> np.uint64(_WORD_DIGITS)).view(np.int64)
    x = (raw + _TO_POINT[place]).view(np.int64)
    tested = np.flatnonzero(raw >= _FIRST_TESTED)
    if not tested.size:
        return _nearest(sigma, x, bits)
    points: dict[int, _Point] = {}
    x[tested], kept = _below_the_curve(x[tested], place[tested], points, bits)
    found = _nearest(sigma, x, bits)
    for i, point in points.items():
        if kept[i] and point.length > _DIGITS:
            found[tested[i]] = point.nearest(sigma)
    return np.delete(found, tested[~kept])


def _below_the_curve(
    x: Integers, place: Integers, points: dict[int, _Point], bits: Bits
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the points, those in the tail drawn anew, and which of them are below the curve.

    Points whose coin needed exact arithmetic are left in ``points``: their products are rounded with the same digits.
    """
    height = np.full(len(x), float(HEIGHT))
    for i in np.flatnonzero(place >= _FIRST_OF_TAIL):
        x[i], height[i] = _in_the_tail(int(x[i]), bits)

    def refine(i: int) -> Refine:
        points[i] = _Point(int(x[i]), _DIGITS, bits)
        return points[i].exponent

    exponent = np.square(x * 2.0**-_DIGITS) / 2
    return x, bernoulli_exp(exponent, refine, bits, level=_LEVEL[place], height=height)


def _in_the_tail(x: int, bits: Bits) -> tuple[int, float]:
    """Return a point beyond the steps, and the height of the curve where the place is 1 high.

    Part g = 0, 1, ... of the tail is one standard deviation wide and has the share 2^-(g+1) of the place. The digits
    of the place are its first digits there.
    """
    word = int.from_bytes(bits.take(8), "little")
    further, fair, g, length = word & (PER_UNIT - 1), word >> 6, 0, 58
    while fair == 0:
        fair, g, length = int.from_bytes(bits.take(8), "little"), g + length, 64
    g += (fair & -fair).bit_length() - 1
    digits = (x & (2**_WORD_DIGITS - 1)) * PER_UNIT + further
    point = ((STEPS + PER_UNIT * g) << _WORD_DIGITS) + digits
    return (point if x >= 0 else ~point), float(HEIGHT * PER_UNIT * 2 ** (g + 1))


def _nearest(sigma: int, x: Integers, bits: Bits) -> Integers:
    """Return sigma times these points, rounded to the nearest integers. Where their digits leave it open, more decide.

    With x = 2**27 a + b and sigma = 2**28 s + r, sigma*x/2**55 = a*s + (a*r + 2*b*s + b*r/2**27) / 2**28.
    """
    s, r = divmod(sigma, 2**28)
    a, b = x >> 27, x & (2**27 - 1)
    last = b * r
    part = (last >> 27) + a * r + b * (2 * s) + 2**27
    found: Integers = a * s + (part >> 28)
    part &= 2**28 - 1
    left = np.flatnonzero(part >= 2**28 + -sigma // 2**27)
    if left.size:
        rest = (part[left] << 27) + (last[left] & (2**27 - 1))
        found[left] += _carry(sigma, x[left], rest, bits)
    return found


def _carry(sigma: int, x: Integers, rest: Integers, bits: Bits) -> Integers:
    """Return what further digits of x add to the rounded products. ``rest`` is what is cut off so far, times 2**55."""
    digits = (words(len(x), bits) >> np.uint64(32)).astype(np.int64)
    s, r = divmod(sigma, 2**28)
    total = rest + ((s * digits + (r * digits >> 28)) >> 4)
    carry = total >> 55
    for i in np.flatnonzero((total & (2**55 - 1)) >= 2**55 - 1 + -sigma // 2**32):
        point = _Point(int(x[i]) << 32 | int(digits[i]), _DIGITS + 32, bits)
        carry[i] = point.nearest(sigma) - ((sigma * int(x[i]) + 2**54) >> 55)
    return carry
