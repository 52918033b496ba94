"""Rules of networks: what parameters are that were left at None, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..data import Facts, Unknown
from ..data.fields import Found
from ..privacy import conversions
from ..privacy.neighbours import Adjacency
from ..requirements import listed

STEPS, FEWEST_STEPS = 300, 60  # FEWEST_STEPS where batches hold all of many rows
PASSES, FEWEST_PASSES, MOST_PASSES = 30.0, 3.0, 15.0  # over the rows: PASSES times mu of the budget, within these ends
BATCH_ROWS, LARGEST_PART = 1_500, 0.1  # a batch has BATCH_ROWS at least, and beyond that LARGEST_PART of all at most
CLIP = 1.0
MOVED = 0.2  # by how much the noise of all steps together may move a weight
LONGER = 3.0  # times longer steps of Adam at most, where rows far outweigh the noise in all weights of dense layers
TYPICAL_NORM = 10.0  # of standardised rows: steps of Adam are shorter where rows are longer
LONGEST_DENSE, LONGEST_IMAGES = 8.0, 4.0  # the longest plain steps, for a clip of 1


@dataclass(frozen=True)
class Schedule:
    """The parameters of a fit that its rules choose where the user did not."""

    sampling_rate: float
    steps: int
    learning_rate: float
    gradient_clip: float

    @classmethod
    def of(cls, estimator: Any, facts: Facts | Unknown, n_weights: Callable[[], int] | None = None) -> Schedule:
        """Return the parameters of an estimator of networks for data with these facts.

        ``n_weights`` returns the number of weights where all layers are dense: longer steps help there, if rows far
        outweigh the noise in all weights.
        """
        rate = estimator.sampling_rate
        if rate is None:
            rate = _sampling_rate(estimator, facts)
        steps = _steps(rate, facts) if estimator.steps is None else int(estimator.steps)
        clip = CLIP if estimator.gradient_clip is None else float(estimator.gradient_clip)
        length = estimator.learning_rate
        if estimator.solver.endswith("line-search"):
            length = 1.0  # without effect
        elif length is None:
            plain = estimator.solver == "sgd"
            rule = _plain if plain else _adam
            length = rule(estimator, facts, steps, n_weights) / (clip if plain else 1.0)
        return cls(float(rate), steps, float(length), clip)


def _sampling_rate(estimator: Any, facts: Facts | Unknown) -> float:
    """Return the part of the rows in a batch: all of them where random batches are not proved, or cost too much."""
    replaced = Adjacency(estimator.adjacency) is Adjacency.REPLACE
    if replaced or estimator.sampling != "poisson" or _found(facts):
        return 1.0
    passes = min(MOST_PASSES, max(FEWEST_PASSES, PASSES * _mu(estimator)))
    part = passes / (STEPS if estimator.steps is None else int(estimator.steps))
    return min(1.0, max(BATCH_ROWS / facts.n_rows, min(LARGEST_PART, part)))


def _steps(rate: float, facts: Facts | Unknown) -> int:
    if rate < 1:
        return STEPS
    return round(min(STEPS, max(FEWEST_STEPS, STEPS * BATCH_ROWS / facts.n_rows)))


def _adam(estimator: Any, facts: Facts | Unknown, steps: int, n_weights: Callable[[], int] | None) -> float:
    """Return the length of the steps of Adam."""
    length = MOVED / math.sqrt(steps)
    if n_weights is not None:
        length *= min(LONGER, max(1.0, _strength(estimator, facts) / n_weights()))
    if estimator.standardize is not None:  # then the norm of a row is about the root of the number of columns
        length *= min(1.0, TYPICAL_NORM / math.sqrt(facts.n_features))
    return length


def _plain(estimator: Any, facts: Facts | Unknown, steps: int, n_weights: Callable[[], int] | None) -> float:
    """Return the length of plain steps for a clip of 1."""
    return min(MOVED * _strength(estimator, facts) / steps, LONGEST_IMAGES if n_weights is None else LONGEST_DENSE)


def _strength(estimator: Any, facts: Facts | Unknown) -> float:
    """Return how many rows outweigh the noise in one weight, if the whole budget bought one sum of gradients."""
    return _mu(estimator) * facts.n_rows / Adjacency(estimator.adjacency).parts


def _mu(estimator: Any) -> float:
    """Return mu of a Gaussian release that takes the whole budget."""
    return conversions.gaussian_mu(float(estimator.epsilon), float(estimator.delta))


def sizes_of(value: Any) -> tuple[int, ...]:
    """Return the sizes of layers as they were given: one number, or one for each."""
    return (int(value),) if isinstance(value, Integral) else tuple(int(size) for size in value)


def require_sizes(name: str, value: Any, *, fewest: int = 1) -> None:
    """Raise ValueError unless these are sizes of at least so many layers."""
    sizes = [value] if isinstance(value, Integral) else value
    good = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) >= fewest
    if not good or not all(_is_size(size) for size in sizes):
        raise ValueError(f"{name}={value!r} must be a tuple of integers >= 1, one for each layer, such as (32,)")


def _is_size(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1


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
