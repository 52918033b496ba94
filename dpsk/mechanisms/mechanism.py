"""The interface of mechanisms, and the sensitivity: how far one row can move the value that a mechanism sees."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from ..privacy.conversions import largest_within
from ..privacy.costs import Cost, PureCost
from ..privacy.costs import positive as positive
from ..privacy.currencies import Currency
from .randomness import Bits
from .samplers import Integers


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

    def __post_init__(self) -> None:
        for name in ("l1", "l2", "linf"):  # plain Python numbers: narrow NumPy types overflow or round
            value = getattr(self, name)
            object.__setattr__(self, name, value.item() if isinstance(value, np.generic) else value)


class Mechanism(ABC):
    """A randomised release: its price, and how it is drawn.

    Subclasses are frozen dataclasses. Their first field is the strength: a stronger mechanism costs more. ``norm``
    names the sensitivity that scales the noise.
    """

    norm: ClassVar[str]
    selects: ClassVar[bool] = False
    """Whether the release is the index of an entry rather than an array."""

    def __post_init__(self) -> None:
        strength = dataclasses.fields(cast(Any, self))[0].name
        object.__setattr__(self, strength, positive(strength, getattr(self, strength)))

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The price of one release, whatever the value and its sensitivity."""

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        """Raise ValueError if such a value cannot be served; called before anything is charged."""
        if self.selects and shape is not None and len(shape) != 1:
            raise ValueError(f"{type(self).__name__} chooses along one axis, but the value has {len(shape)}")
        size = getattr(sensitivity, self.norm)
        if not (size > 0 and math.isfinite(size)):
            raise ValueError(
                f"{self.norm} sensitivity {size!r}: this mechanism needs a query with a positive finite bound"
            )

    @abstractmethod
    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int | NDArray[Any]:
        """Return one release: an array in grid units, or the index of the chosen entry."""

    @classmethod
    def priced(cls, price: float, currency: Currency, **options: Any) -> Self:
        """Return the strongest mechanism whose cost does not exceed ``price`` in ``currency``."""
        build: Callable[..., Self] = cls
        if not math.isfinite(currency.price(build(1.0, **options).cost)):
            raise ValueError(f"{cls.__name__} has no price in a budget kept in {currency.name}")
        return build(largest_within(lambda x: currency.price(build(x, **options).cost), price), **options)


@dataclass(frozen=True)
class PureMechanism(Mechanism):
    """A mechanism whose strength is its pure epsilon."""

    epsilon: float

    @property
    def cost(self) -> PureCost:
        return PureCost(self.epsilon)
