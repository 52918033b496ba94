"""Exponentials and logarithms of arrays whose bits depend on the number at each place, not on the place.

NumPy computes these functions for several numbers at once if it can, and otherwise one by one, for instance for an
array that is read backwards. The two ways differ in the last bit. But the number that a row adds to a sum must depend
on that row alone. So the modules that see rows take these functions from here. They give NumPy only arrays that lie in
memory in order and without gaps.

The bits still depend on the processor and on the C library: on a machine with AVX-512 `exp` differs from that of one
without in the last bit of about one number in twenty. Sums, differences, products, quotients, square roots and
roundings do not: IEEE 754 fixes every bit of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["exp", "log", "log1p"]


def exp(x: Any) -> NDArray[np.float64]:
    """Return e^x of every number."""
    return np.exp(_in_order(x))


def log(x: Any) -> NDArray[np.float64]:
    """Return the natural logarithm of every number."""
    return np.log(_in_order(x))


def log1p(x: Any) -> NDArray[np.float64]:
    """Return the natural logarithm of 1 + x of every number."""
    return np.log1p(_in_order(x))


def _in_order(x: Any) -> NDArray[np.float64]:
    """Return an array that lies in memory without gaps: the one given if it does, or a copy."""
    x = np.asarray(x)
    return x if x.flags.forc and x.flags.aligned else np.array(x, order="C")
