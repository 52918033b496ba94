"""Rules of networks: what parameters are that were left at None, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..data import Facts, Unknown
from ..data.fields import Found
from ..privacy.neighbours import Adjacency
from ..requirements import listed, require_number

BATCH_ROWS = 2_048  # of a batch; all rows where there are not twice as many
PASSES = 30.0  # over the rows, by batches
STEPS_ON_ALL_ROWS = 100
CLIP = 1.0
ADAM, SHORTEST, LONGEST = 2.0, 1e-3, 0.1  # the sum of all step lengths, and the ends of the length of one
SGD = 2.0  # the step length


@dataclass(frozen=True)
class Schedule:
    """The parameters of a fit that its rules choose where the user did not."""

    sampling_rate: float
    steps: int
    learning_rate: float
    gradient_clip: float

    @classmethod
    def of(cls, estimator: Any, facts: Facts | Unknown) -> Schedule:
        """Return the parameters of an estimator of networks for data with these facts."""
        rate = estimator.sampling_rate
        rate = _sampling_rate(estimator, facts) if rate is None else float(rate)
        steps = estimator.steps
        if steps is None:
            steps = STEPS_ON_ALL_ROWS if rate == 1 else round(PASSES / rate)
        length = estimator.learning_rate
        if length is None:
            length = SGD if estimator.solver == "sgd" else min(max(ADAM / steps, SHORTEST), LONGEST)
        clip = CLIP if estimator.gradient_clip is None else float(estimator.gradient_clip)
        return cls(rate, int(steps), float(length), clip)


def sizes_of(value: Any) -> tuple[int, ...]:
    """Return the sizes of layers as they were given: one number, or one for each."""
    return (int(value),) if isinstance(value, Integral) else tuple(int(size) for size in value)


def require_sizes(name: str, value: Any, *, fewest: int = 1) -> None:
    """Raise ValueError unless these are sizes of at least so many layers."""
    sizes = [value] if isinstance(value, Integral) else value
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or len(sizes) < fewest:
        raise ValueError(f"{name}={value!r} must be a tuple of integers >= 1, one for each layer, such as (100,)")
    for size in sizes:
        require_number(f"a number in {name}={value!r}", size, 1, kind=Integral)


def require_known_values(facts: Facts | Unknown, rate: float) -> None:
    """Raise ValueError if a fit on random batches has to find values of categories."""
    found = _found(facts)
    if found:
        raise ValueError(
            f"sampling_rate={rate!r} cannot be combined with columns whose values have to be found, because that is "
            f"proved for all rows only: {listed(map(repr, found))}. Leave sampling_rate at None or use 1.0, or list or "
            f"hash the values: columns={{{found[0]!r}: Categories([...])}}, Categories(buckets=32), Text(buckets=256)"
        )


def _found(facts: Facts | Unknown) -> list[str]:
    """Return the names of the columns whose values a fit has to find."""
    fields = () if facts.schema is None else facts.schema.fields
    return [known.name for known in fields if isinstance(known, Found)]


def _sampling_rate(estimator: Any, facts: Facts | Unknown) -> float:
    """Return the part of the rows in a batch: all of them where random batches are not proved, or cost too much."""
    replaced = Adjacency(estimator.adjacency) is Adjacency.REPLACE
    if replaced or estimator.sampling != "poisson" or _found(facts) or facts.n_rows < 2 * BATCH_ROWS:
        return 1.0
    return BATCH_ROWS / facts.n_rows
