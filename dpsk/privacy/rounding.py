"""Rounding to the safe side, for every formula of privacy that floating-point numbers compute.

A price, an epsilon or a delta is rounded up; a limit or a strength is rounded down. The margins are small:

* formulas with exponentials, error functions and the like by :data:`MARGIN`. Measured against 50 digits they are off by
  less than 1e-12 (tests); a root that was searched for is checked with the formula so rounded;
* sums of epsilons are not rounded if a float can hold them, otherwise by one unit in the last place;
* nothing that is positive is stated below :data:`LEAST`, because floats near 1e-308 lose their digits.

A limit is turned into a delta at ``(1 + MARGIN)`` times its value. So prices that are plain products and sums, which
are off by at most one part in 2^48, may be added up as they are.
"""

import math
from fractions import Fraction

MARGIN = 2.0**-38
"""What a computed number is moved by, relative to it: 3.6e-12."""
LEAST = 1e-301
"""The smallest positive price or delta that is stated."""


def up(value: float) -> float:
    """Return a positive computed number as a bound from above."""
    return max(value * (1 + MARGIN), LEAST)


def down(value: float) -> float:
    """Return a positive computed number as a bound from below."""
    return value * (1 - MARGIN)


def above(exact: Fraction) -> float:
    """Return the smallest float that is at least this number; inf where there is none."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if nearest < exact else nearest


def below(exact: Fraction) -> float:
    """Return the largest float that is at most this number, which is not negative."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.nextafter(math.inf, 0)
    return math.nextafter(nearest, 0) if nearest > exact else nearest
