"""Private searches for a step along a line: by backtracking, or by comparing all steps at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..data.private import SealedRows
from ..mechanisms import AboveThreshold, ArgMin, Mechanism, NoisyMin, PermuteAndFlip
from ..mechanisms.samplers import Floats
from ..objectives import Objective
from ..privacy import Currency

_AT_ONCE = 4  # gains that are computed together
_RULES = {"exponential": ArgMin, "permute-and-flip": PermuteAndFlip, "laplace": NoisyMin}


@dataclass(frozen=True)
class Along:
    """Where a search looks: at ``w - steps[j] * direction``.

    ``required`` is how much each step has to lower the objective, for a search that asks for that.
    """

    w: Floats
    direction: Floats
    steps: Floats
    required: Floats


class Search(Protocol):
    """How a step is found. What it asks of the rows is bought as one mechanism."""

    def mechanism(self, strength: float, n_steps: int) -> Mechanism:
        """Return what has to be paid for a search among so many steps."""

    def find(self, batch: SealedRows, objective: Objective, along: Along, bought: Any) -> int:
        """Return which step is taken, or their number if none is."""


@dataclass(frozen=True)
class Backtracking:
    """The first step whose noisy decrease reaches what is required of it, within the noise of a threshold.

    Parameters
    ----------
    clip : float
        The bound on a row's gradient norm (``per_unit``), or on its loss.
    noise : {"laplace", "gaussian"}
        Noise of the sparse vector.
    per_unit : bool
        Whether gains are counted per unit of step length, see :class:`~dpsk.queries.ArmijoGains`.
    """

    clip: float
    noise: str = "laplace"
    per_unit: bool = True

    def mechanism(self, strength: float, n_steps: int) -> AboveThreshold:
        return AboveThreshold(strength, n_steps, self.noise)

    def find(self, batch: SealedRows, objective: Objective, along: Along, bought: Any) -> int:
        w, penalty, clip = along.w, objective.penalty, self.clip
        search = batch.open(bought, "search")
        for first in range(0, len(along.steps), _AT_ONCE):  # gains are computed as they are needed
            some = slice(first, first + _AT_ONCE)
            steps = along.steps[some]
            gains = objective.gains(w, along.direction, steps, clip=clip, per_unit=self.per_unit)
            public = penalty.value(w) - penalty.values(gains.points) - along.required[some]
            public = np.clip(public / (gains.lengths if self.per_unit else 1.0), -(2.0**9) * clip, 2.0**9 * clip)
            index: int = batch.release(batch.measure(gains) + batch.n_rows * public, search)
            if index < len(public):
                return first + index
        return len(along.steps)


@dataclass(frozen=True)
class Comparison:
    """The step, or staying, with the smallest noisy objective.

    Parameters
    ----------
    clip : float
        The bound on a row's loss.
    rule : {"exponential", "permute-and-flip", "laplace"}
        How the smallest is chosen.
    """

    clip: float
    rule: str = "exponential"

    def __post_init__(self) -> None:
        if self.rule not in _RULES:
            raise ValueError(f"rule={self.rule!r} must be one of {', '.join(map(repr, _RULES))}")

    def mechanism(self, strength: float, n_steps: int) -> Mechanism:
        return _RULES[self.rule](strength)

    def priced(self, price: float, currency: Currency) -> Mechanism:
        """Return what can be bought for this price."""
        return _RULES[self.rule].priced(price, currency)

    def find(self, batch: SealedRows, objective: Objective, along: Along, bought: Any) -> int:
        return self.smallest(batch, objective, along.w, -along.direction, [*along.steps, 0.0], bought)[0]

    def smallest(
        self, batch: SealedRows, objective: Objective, w: Floats, step: Floats, at: Sequence[float], bought: Any
    ) -> tuple[int, Floats]:
        """Return which of ``w + at[j] * step`` was chosen, and the point."""
        line = objective.losses_along(w, step, at, clip=self.clip)
        # no clipped losses can outweigh a penalty beyond the cap, which keeps the sum on the grid
        penalties = np.minimum(objective.penalty.values(line.points), 2.0**19 * self.clip)
        index: int = batch.release(batch.measure(line) + batch.n_rows * penalties, bought)
        return index, line.points[index]
