"""Weights of classes and of rows: what they are cut off at, and a count of how much all rows weigh.

A row counts at most once, so weights are divided by the largest one that there may be. How much is left of all rows
then, a solver has to know: a count of the classes tells, with noise. "balanced" weights follow from the same count.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Door, RowMap, Table
from ..mechanisms.samplers import Floats
from ..privacy import Budget
from ..privacy.pld import PlannedSteps
from ..queries import ClassCounts
from ..requirements import checked, clip, listed, require_clip, require_fields
from ..solvers.precision import deviation, share_of_noise

SHARE = 0.01  # of the budget, for the count
UNBOUNDED = 1.0  # what weights of rows are cut off at, unless a bound is given
_SURE = 2.0  # deviations of its noise below which a count is not believed


def require_class_weight(name: str, value: Any) -> None:
    """Raise ValueError unless these are weights of classes."""
    if isinstance(value, str) and value == "balanced":
        return
    if not isinstance(value, Mapping):
        raise ValueError(f'{name}={value!r} must be None, "balanced", or a dict such as {{0: 1.0, 1: 10.0}}')
    for label, weight in value.items():
        try:
            good = not isinstance(weight, bool | np.bool_) and math.isfinite(weight) and weight >= 0
        except TypeError:
            good = False
        if not good:
            raise ValueError(f"{name}[{label!r}]={weight!r} must be a finite number >= 0")
        if weight > 0:
            require_clip(f"{name}[{label!r}]", weight)


@dataclass(frozen=True)
class Weighed:
    """The map of rows with their weights, what they weigh together as far as is known, and what that means.

    ``weight`` is None where each unit weighs 1. The sum of all losses over ``weight``, times ``multiple``, is the mean
    over units of what was asked for. ``of_classes`` are the weights by class, None where there are none.
    """

    how: RowMap
    weight: float | None = None
    multiple: float = 1.0
    of_classes: Floats | None = None

    def over(self, n_units: int) -> "Weighed":
        """Return the same for sums over the number of units, which all rows surely do not weigh more than."""
        if self.weight is None:
            return self
        return replace(self, weight=None, multiple=self.multiple * n_units / self.weight)


@dataclass(frozen=True, eq=False)
class Weighting:
    """What rows count in the objective: by their class, and by weights of their own up to a public bound."""

    class_weight: Any = checked(None, require_class_weight)
    weight_bound: float | None = clip(None)

    def __post_init__(self) -> None:
        require_fields(self)

    def require(self, table: Table, budget: Budget | None) -> None:
        """Raise ValueError if the weights do not suit the data or the budget; called before anything is paid."""
        counted = self.class_weight is not None or table.sample_weight is not None
        if counted and budget is not None and isinstance(budget.currency, PlannedSteps):
            raise ValueError(
                "class_weight and sample_weight need a count of the classes, and accountant='pld' plans equal steps "
                "and nothing else: use accountant='rdp', or leave them out"
            )
        self.require_labels(table.classes)

    def require_labels(self, classes: NDArray[Any]) -> None:
        """Raise ValueError if weights are for labels that are no classes, or leave all classes without weight."""
        if not isinstance(self.class_weight, Mapping):
            return
        unknown = [label for label in self.class_weight if not (classes == label).any()]
        if unknown:
            raise ValueError(
                f"class_weight has weights for {listed(map(repr, unknown))}, but the classes are "
                f"{listed(map(repr, classes.tolist()))}. Write labels as they are in y, with the same type"
            )
        if not self._given(classes).any():
            raise ValueError(
                f"class_weight={self.class_weight!r} leaves no class any weight: give one of them a number above 0"
            )

    def doubts(self, table: Table) -> tuple[str, ...]:
        """Return what is questionable, as far as public facts tell."""
        if table.sample_weight is None or self.weight_bound is not None:
            return ()
        return (
            "sample_weight is given without weight_bound, so weights above 1.0 count as 1.0. Give weight_bound, a "
            "public number that is not taken from the data: all weights are cut off there and divided by it. (Ids of "
            "persons are given as groups=...)",
        )

    def learned(self, door: Door, table: Table, how: RowMap) -> Weighed:
        """Return the map of rows with their weights, after a release of how much each class weighs."""
        if self.class_weight is None and table.sample_weight is None:
            return Weighed(how)
        bound = None if table.sample_weight is None else float(self.weight_bound or UNBOUNDED)
        how = replace(how, weight_bound=bound)
        rows = door.open(table.outcomes(how))
        query, mechanism = ClassCounts(len(table.classes)), share_of_noise(rows, SHARE)
        counts = rows.release(rows.measure(query), mechanism)
        noise = deviation(mechanism, query.sensitivity(rows.adjacency)) * query.unit
        if bound is None:  # each unit weighs 1, so that counts add up to their number
            counts = counts + (rows.n_units - counts.sum()) / len(counts)
        counts = np.clip(counts, max(1.0, _SURE * noise), rows.n_units)
        weights = self._weights(table.classes, counts)
        shares = weights / weights.max()
        weight = float(np.clip(shares @ counts, 1.0, rows.n_units))
        return Weighed(
            replace(how, class_shares=None if self.class_weight is None else tuple(shares.tolist())),
            weight,
            weight * float(weights.max()) * (bound or 1.0) / rows.n_units,
            None if self.class_weight is None else weights,
        )

    def exact(self, table: Table, labels: NDArray[Any]) -> tuple[Floats | None, Floats | None]:
        """Return the weights of rows without noise, of which the mean over units is taken, and those of classes."""
        weights = of_classes = None
        if table.persons is not None:
            weights = 1 / np.bincount(table.persons.codes)[table.persons.codes]
        if table.sample_weight is not None:
            bound = math.inf if self.weight_bound is None else self.weight_bound
            weights = np.clip(table.sample_weight, 0, bound) * (1.0 if weights is None else weights)
        if self.class_weight is not None:
            codes = labels if len(table.classes) > 2 else (labels > 0).astype(np.intp)
            counts = np.bincount(codes, weights, minlength=len(table.classes))
            of_classes = self._weights(table.classes, np.maximum(counts, 1e-300))
            weights = of_classes[codes] if weights is None else of_classes[codes] * weights
        return weights, of_classes

    def _weights(self, classes: NDArray[Any], counts: Floats) -> Floats:
        """Return the weights of classes that weigh so much together."""
        if self.class_weight is None:
            return np.ones(len(classes))
        if isinstance(self.class_weight, Mapping):
            return self._given(classes)
        balanced: Floats = counts.sum() / (len(counts) * counts)
        return balanced

    def _given(self, classes: NDArray[Any]) -> Floats:
        """Return the weights that were given; classes that were left out have 1."""
        weights = np.ones(len(classes))
        for label, weight in self.class_weight.items():
            weights[classes == label] = weight
        return weights
