"""The discovery of values: a look that shows the values of a column that enough rows have, and their noisy counts.

A value of one row can show with a small probability, whatever the noise. This probability is a part of delta. Proofs:
docs/guarantees.md, 4.12 and 4.13.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from scipy.special import log_ndtr, ndtr, ndtri

from .rounding import MARGIN, down, up

SMALLEST_FAILURE = 1e-290
"""The smallest probability that can be asked for: parts of it are still floats with all digits."""
MOST_COLUMNS = 2**30
INSTEAD = "list the values of these columns (Categories([...])) or hash them (Text(buckets=256)): neither looks at rows"
"""What makes a discovery needless, as the end of a message."""


def rounded_tail(steps: int, sigma: float) -> float:
    """Return P(noise >= steps), rounded up, for N(0, sigma**2) that is rounded to the nearest integer.

    The rounded number is at least ``steps`` where the number itself is at least ``steps - 1/2``. The tail from
    ``steps`` on, without the half, is smaller and would be wrong.
    """
    z = float(Fraction(2 * steps - 1) / (2 * Fraction(sigma)))
    return min(1.0, up(float(ndtr(MARGIN * abs(z) - z))))


@dataclass(frozen=True)
class Discovery:
    """The public facts of the one discovery of a fit, fixed before the fit.

    Parameters
    ----------
    failure : float
        The part of delta that pays for it: for each row, the probability that a value which it alone has is shown.
    columns : int
        In how many columns values are unknown. A row has at most one value in each.
    shift : float
        By how many standard deviations of the noise one row moves one count.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 4.12 and 4.13)
    A value is shown if some row has it and its noisy count is at least :meth:`threshold`. Then the values that one row
    alone has, in all columns together, stay hidden with a probability of at least 1 - failure, and those that one group
    of rows alone has with a probability of at least 1 - :meth:`of_group`. (Of many rows with values of their own, one
    or another is shown with up to so many times that probability.)
    """

    failure: float
    columns: int
    shift: float

    def __post_init__(self) -> None:
        failure, shift = (_number(name, getattr(self, name)) for name in ("failure", "shift"))
        if not SMALLEST_FAILURE <= failure < 0.5:
            raise ValueError(
                f"failure={self.failure!r} must lie in [{SMALLEST_FAILURE:g}, 0.5): choose a part of delta"
            )
        if not (shift > 0 and math.isfinite(shift)):
            raise ValueError(f"shift={self.shift!r} must be a positive finite number")
        columns = _positive("columns", self.columns)
        if columns > MOST_COLUMNS:
            raise ValueError(f"columns={columns!r} must be at most {MOST_COLUMNS}")
        for name, value in (("failure", failure), ("columns", columns), ("shift", shift)):
            object.__setattr__(self, name, value)

    def threshold(self, unit_steps: int, sigma: int) -> int:
        """Return the smallest integer threshold that arithmetic can prove enough for this ``failure``.

        Counts are integers: a row counts ``unit_steps``, and the noise is N(0, sigma**2), rounded to integers.
        """
        unit_steps, sigma = _positive("unit_steps", unit_steps), _positive("sigma", sigma)
        if Fraction(unit_steps, sigma) > Fraction(up(self.shift)):  # as in of_group
            raise ValueError(
                f"sigma={sigma!r} is too small: one row, unit_steps={unit_steps!r}, moves a count by more than the "
                f"promised {self.shift!r} standard deviations"
            )
        low, high = 0, 40 * sigma  # beyond it a tail is below e^-800
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._kept(rounded_tail(middle, sigma)) else (middle, high)
        return unit_steps + high

    def _kept(self, tail: float) -> bool:
        """Return whether values that are shown with this probability each, one in every column, keep ``failure``."""
        return tail < 1 and up(-math.expm1(self.columns * math.log1p(-tail))) <= self.failure

    def of_group(self, size: int) -> float:
        """Return the part of delta for ``size`` rows together, rounded up.

        The worst are either ``size`` rows with one value of their own, or a value of its own for each of them.
        """
        size = _positive("size", size)
        if size == 1:
            return self.failure
        one = math.log1p(-self.failure) / self.columns  # log of the probability that the value of one row stays hidden
        z = -float(ndtri(-math.expm1(one)))
        shared = float(log_ndtr(down(z) - up(self.shift) * (size - 1)))
        return min(1.0, up(-math.expm1(self.columns * min(shared, size * one))))


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r} must be an integer >= 1")
    return int(value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name}={value!r} must be a number")
    return float(value)
