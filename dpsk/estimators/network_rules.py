"""Rules of networks: what parameters are that were left at None, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..data import Facts, Unknown
from ..data.fields import Found
from ..privacy.neighbours import Adjacency

BATCH_ROWS = 2_048  # of a batch; all rows where there are not twice as many
PASSES = 30.0  # over the rows, by batches
STEPS_ON_ALL_ROWS = 100
CLIP = 1.0
LEARNING_RATES = {"adam": 3e-3, "sgd": 0.5}
SPLITS = 100  # of a line search


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
            steps = SPLITS if estimator.solver == "line-search" else _steps(rate)
        length = estimator.learning_rate
        length = LEARNING_RATES.get(estimator.solver, 1.0) if length is None else float(length)
        clip = CLIP if estimator.gradient_clip is None else float(estimator.gradient_clip)
        return cls(rate, int(steps), length, clip)


def require_sizes(name: str, value: Any) -> None:
    """Raise ValueError unless these are numbers of units, one for each hidden layer."""
    sizes = [value] if isinstance(value, Integral) else value
    good = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) > 0
    if not good or not all(isinstance(n, Integral) and not isinstance(n, bool) and n >= 1 for n in sizes):
        raise ValueError(f"{name}={value!r} must be a tuple of integers >= 1, one for each hidden layer: (100,)")


def discovers(facts: Facts | Unknown) -> bool:
    """Return whether a fit has to find values of categories that are not public."""
    return facts.schema is not None and any(isinstance(known, Found) for known in facts.schema.fields)


def _sampling_rate(estimator: Any, facts: Facts | Unknown) -> float:
    """Return the part of the rows in a batch: all of them where random batches are not proved, or cost too much."""
    replaced = Adjacency(estimator.adjacency) is Adjacency.REPLACE
    if replaced or estimator.sampling != "poisson" or discovers(facts) or facts.n_rows < 2 * BATCH_ROWS:
        return 1.0
    return BATCH_ROWS / facts.n_rows


def _steps(rate: float) -> int:
    return STEPS_ON_ALL_ROWS if rate == 1 else round(PASSES / rate)
