"""Grids on which sums are exact.

A sum of products is exact in float64, in whatever order it is added, as long as every partial sum is an integer
multiple of one power of two and below 2^53 such multiples (docs/guarantees.md, 3.1 to 3.6). Three choices ensure that:

* a row is 2^e times a row of *units*: entries in [-1, 1] on the grid 2^-UNIT_BITS, e a function of that row alone;
* a clipped residual lies on a grid of 2^-UNIT_BITS relative to the clip;
* weights, which are public, lie on a grid of 2^-WEIGHT_BITS relative to their own l1 norm. Products with units then
  take 48 of 53 bits; the other 5 are room for steps along a line.

No public bound on the data is needed, and no grid depends on the data. Sums of centred columns are exact before the
centre is subtracted as well: rows count as at least SHORTEST_NORM long, and fewer are added at a time.
"""

import math

import numpy as np

from ..mechanisms.mechanism import positive
from ..mechanisms.samplers import Floats, Integers

UNIT_BITS = 18
WEIGHT_BITS = 30
SHARE_BITS = 20  # weights of rows are multiples of 2^-20
CHUNK_ROWS = 2 ** (53 - 2 * UNIT_BITS)
SHORTEST_NORM = 2.0**-5
CENTRED_CHUNK_ROWS = int(2 * SHORTEST_NORM * CHUNK_ROWS)
LARGEST_ENTRY = 2.0**500  # beyond, clipped: products and squares of these are finite


def check_clip(clip: float) -> float:
    """Return ``clip`` as a float; raise ValueError unless its grids stay far from the smallest and largest floats."""
    clip = positive("clip", clip)
    if not 2.0**-100 <= clip <= 2.0**100:
        raise ValueError(f"clip={clip!r} must lie between 2**-100 and 2**100")
    return clip


def power_of_two_above(x: float) -> float:
    """Return the smallest power of two that is >= x > 0."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def octaves(x: Floats) -> tuple[Floats, Integers]:
    """Return x > 0 as mantissa in (1/2, 1] times a power of two: exact, unlike a logarithm. 0 is 0 times 2^0."""
    mantissa, exponent = np.frexp(x)
    power = mantissa == 0.5
    return np.where(power, 1.0, mantissa), exponent - power


def weights_on_grid(w: Floats, spacing: float = 0.0) -> tuple[Floats, float]:
    """Return ``w`` rounded to its grid, or to one at least as coarse as ``spacing``, and the spacing used.

    Weights that already lie on a somewhat finer grid, as the points of a line do, are returned as they are as long as
    their products stay exact.
    """
    w = np.array(w, dtype=np.float64)
    size = float(np.abs(w).sum(axis=0).max(initial=0.0))
    if not size < 2.0**400:
        raise ValueError("weights must be finite and below 2**400 in l1 norm")
    if size < 2.0**-400:
        return np.zeros_like(w), max(spacing, 2.0**-400)
    own = power_of_two_above(size) * 2.0**-WEIGHT_BITS
    finer = own * 0.5 ** np.arange(53 - UNIT_BITS - WEIGHT_BITS + 1)
    if not spacing and _lie_on(finer[-1], w):  # what is not on the finest grid is on none of them
        return w, float(next(grid for grid in finer if _lie_on(grid, w)))
    spacing = max(own, spacing)
    return np.rint(w / spacing) * spacing, spacing


def _lie_on(spacing: float, w: Floats) -> bool:
    """Return whether weights are multiples of a power of two. The first few mostly tell that they are not."""
    parts = (w.reshape(-1)[:8], w) if w.size > 8 else (w,)
    return all(np.array_equal(np.rint(part / spacing) * spacing, part) for part in parts)
