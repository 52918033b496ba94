"""The encoding of tables of numbers: columns as they are, within public bounds, or standardised with noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Columns, Door, Facts, RowMap, Table
from ..mechanisms.samplers import Floats
from ..requirements import checked, choice, flag, number
from .encoding import Encoding
from .standardization import find_ranges, standardise


@dataclass(frozen=True, eq=False)
class LinearEncoding(Encoding):
    """How columns of numbers are brought to the grid. What it learns from the rows it buys at the door of the fit.

    ``bounds`` are public bounds of the columns. ``standardize="private"`` finds ranges (without bounds),
    means and standard deviations with noise. The other parameters are those of :class:`~dpsk.data.RowMap`.
    """

    fit_intercept: bool = flag(True)
    bounds: Any = checked(None, lambda name, value: as_bounds(value))
    standardize: str | None = choice(None, "private")
    data_norm: float | None = number(None, open_low=True)
    row_major: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data_norm is not None and (self.bounds is not None or self.standardize is not None):
            raise ValueError(
                f"data_norm={self.data_norm!r} cannot be combined with bounds or standardize='private': it bounds rows "
                "as they are, the others change columns first. Leave data_norm out, or bounds and standardize"
            )

    def require(self, facts: Facts) -> None:
        """Raise ValueError if this encoding is not for these data; called before any cost."""
        if self.bounds is not None:
            low, _ = as_bounds(self.bounds)
            if low.ndim == 1 and len(low) != facts.n_features:
                raise ValueError(f"bounds are given for {len(low)} columns, but X has {facts.n_features}")

    def learned(self, door: Door, table: Table) -> RowMap:
        """Return the map of rows onto the grid, after releases that find what is not public."""
        intercept, columns = bool(self.fit_intercept), None
        if self.bounds is not None:
            low, high = as_bounds(self.bounds)
            if not intercept:  # 0 has to stay where it is
                low, high = np.minimum(low, 0), np.maximum(high, 0)
            columns = Columns.within(low, high, table.facts.n_features)
        if self.standardize is not None:
            if columns is None:
                columns = find_ranges(door.open(table.raw()), through_zero=not intercept)
            placed = door.open(table.rows(RowMap(table.facts.n_scores, fit_intercept=False, columns=columns)))
            columns = standardise(placed, columns, centred=intercept)
        return RowMap(table.facts.n_scores, intercept, self.data_norm, columns, self.row_major)


def as_bounds(bounds: Any) -> tuple[Floats, Floats]:
    """Return lower and upper bounds as arrays; raise ValueError unless they are finite numbers in order."""
    try:
        low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
        low, high = np.broadcast_arrays(low, high)
        good = low.ndim <= 1 and (np.abs([low, high]) < 2.0**400).all() and (low <= high).all() and (low < high).any()
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"bounds={bounds!r} must be None or a pair (low, high) of finite numbers, or of arrays with one number per "
            "column, (lows, highs), with low <= high, and low < high somewhere: public knowledge, not taken from the "
            "data"
        )
    if low.shape == (2,) and (low == high).any():
        raise ValueError(
            f"bounds={bounds!r} leaves one of two columns a single value. It is read as (lows, highs), one number per "
            "column in each, and not as a pair per column. Turn it round, or drop a column that never changes"
        )
    return low, high
