"""What a mechanism is, and how far one row can move the value it sees."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..privacy.conversions import largest_within
from ..privacy.costs import Cost
from ..privacy.currencies import Currency
from .exact import Integers
from .randomness import Bits

__all__ = ["Mechanism", "Sensitivity", "bounded", "positive"]


@dataclass(frozen=True)
class Sensitivity:
    """The most that one row can change a vector of integers, in grid units.

    ``l1``, ``l2`` and ``linf`` bound the norms of the change over all pairs of neighbours. ``monotone`` says that
    the change never has both signs: every entry moves up, or every entry moves down. A norm that is not bounded is
    ``inf``.
    """

    l1: float
    l2: float
    linf: float
    monotone: bool = False


class Mechanism(ABC):
    """A randomised release: what it costs, and how it is drawn.

    Subclasses are frozen dataclasses whose first field is their strength: the larger, the dearer.
    """

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The price of one release, whatever the value and its sensitivity."""

    @abstractmethod
    def check(self, sensitivity: Sensitivity) -> None:
        """Raise ValueError if this sensitivity cannot be served; called before anything is charged."""

    @abstractmethod
    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int | NDArray[Any]:
        """Return one release: an array in grid units, or the index of the chosen entry."""

    @classmethod
    def priced(cls, price: float, currency: Currency, **options: Any) -> Self:
        """Return the strongest mechanism whose cost does not exceed ``price`` in ``currency``."""
        build: Callable[..., Self] = cls
        return build(largest_within(lambda x: currency.price(build(x, **options).cost), price), **options)


def positive(name: str, value: float) -> None:
    """Raise ValueError unless ``value`` is positive and finite."""
    if not (isinstance(value, int | float | np.floating | np.integer) and value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}={value!r} must be a positive finite number")


def bounded(norm: str, value: float) -> None:
    """Raise ValueError unless a query bounds this norm."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{norm} sensitivity {value!r}: this mechanism needs a query with a positive finite bound")
