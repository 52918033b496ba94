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
MOST_ROWS = 2**40
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
        The part of delta that pays for it: for each unit, a row or a person, the probability that a value which it
        alone has is shown.
    columns : int
        In how many columns values are unknown. A row has at most one value in each.
    shift : float
        By how many standard deviations of the noise one unit moves one count.
    most : int
        The most rows that one unit can have. So many values can a unit have in a column, with weights that add up to
        at most 1.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 4.12 and 4.13)
    A value is shown if some row has it and its noisy count is at least :meth:`threshold`. Then the values that one unit
    alone has, in all columns together, stay hidden with a probability of at least 1 - failure, and those that one group
    of units alone has with a probability of at least 1 - :meth:`of_group`. (Of many units with values of their own, one
    or another is shown with up to so many times that probability.)
    """

    failure: float
    columns: int
    shift: float
    most: int = 1

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
        most = _positive("most", self.most)
        if most > MOST_ROWS:
            raise ValueError(f"most={most!r} must be at most {MOST_ROWS}")
        for name, value in (("failure", failure), ("columns", columns), ("shift", shift), ("most", most)):
            object.__setattr__(self, name, value)

    def threshold(self, unit_steps: int, sigma: int) -> int:
        """Return the smallest integer threshold that arithmetic can prove enough for this ``failure``.

        Counts are integers: a unit counts ``unit_steps``, and the noise is N(0, sigma**2), rounded to integers.
        """
        unit_steps, sigma = _positive("unit_steps", unit_steps), _positive("sigma", sigma)
        if Fraction(unit_steps, sigma) > Fraction(up(self.shift)):  # as in of_group
            raise ValueError(
                f"sigma={sigma!r} is too small: one unit, unit_steps={unit_steps!r}, moves a count by more than the "
                f"promised {self.shift!r} standard deviations"
            )
        low, high = 0, 40 * sigma  # beyond it a tail is below e^-800
        while high - low > 1:
            middle = (low + high) // 2
            kept = self._kept(rounded_tail(middle, sigma), rounded_tail(middle + unit_steps, sigma))
            low, high = (low, middle) if kept else (middle, high)
        return unit_steps + high

    def _kept(self, tail: float, faint: float) -> bool:
        """Return whether ``failure`` is kept in the worst case, in which a unit has ``most`` values in every column.

        One has all its weight and is shown with the probability ``tail``, the others have next to none of it and are
        shown with the probability ``faint``.
        """
        if not tail < 1:
            return False
        hidden = math.log1p(-tail) + (self.most - 1) * math.log1p(-faint)
        return up(-math.expm1(self.columns * hidden)) <= self.failure

    def of_group(self, size: int) -> float:
        """Return the part of delta for ``size`` units together, rounded up.

        The worst are either ``size`` units with one value of their own, or a value of its own for each of them; and
        ``most - 1`` values of next to no weight for each of them.
        """
        size = _positive("size", size)
        if size == 1:
            return self.failure
        one = math.log1p(-self.failure) / self.columns  # log of the probability that the values of one unit stay hidden
        z = self._beyond(one)
        shared = float(log_ndtr(down(z) - up(self.shift) * (size - 1)))
        if self.most > 1:
            shared += size * (self.most - 1) * float(log_ndtr(down(z) + down(self.shift)))
        return min(1.0, up(-math.expm1(self.columns * min(shared, size * one))))

    def _beyond(self, hidden: float) -> float:
        """Return how far above one unit a threshold is at least, in deviations.

        ``hidden`` is the log of the probability that a column shows no value of one unit.
        """
        if self.most == 1:
            return -float(ndtri(-math.expm1(hidden)))
        low, high = 0.0, 40.0
        for _ in range(60):
            middle = (low + high) / 2
            all_of_them = float(log_ndtr(middle)) + (self.most - 1) * float(log_ndtr(middle + up(self.shift)))
            low, high = (low, middle) if all_of_them >= hidden else (middle, high)
        return low


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r} must be an integer >= 1")
    return int(value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name}={value!r} must be a number")
    return float(value)
