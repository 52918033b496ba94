"""The public map that puts rows on the grid, and the way back for coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ..mechanisms.samplers import Floats
from .columns import Columns
from .features import Features
from .grid import LARGEST_ENTRY, SHORTEST_NORM, UNIT_BITS, octaves, power_of_two_above
from .waves import Waves


@dataclass(frozen=True, eq=False)
class PublicShape:
    """Public facts about rows on the grid.

    ``n_parameters`` is the number of weights per class: the columns, and one more with an intercept. ``norm_range``
    says between what norms typical rows lie, as far as public facts tell; it is not a promise. ``column_bounds`` are
    powers of two that bound the columns, the constant's included, if all rows have one scale. ``n_classes`` is None for
    labels -1/+1. Where rows are ``weighted``, ``n_rows`` is the number of units: all weights add up to at most that.
    ``by_person``: units are persons, who may have several rows each.
    """

    n_rows: int
    n_features: int
    n_parameters: int
    norm_range: tuple[float, float]
    column_bounds: Floats | None = None
    n_classes: int | None = None
    weighted: bool = False
    by_person: bool = False


@dataclass(frozen=True, eq=False)
class RowMap:
    """How rows and labels become numbers on the grid: public, and the same wherever the rows lie.

    Labels are 0..n_classes-1, or -1/+1 if ``n_classes`` is None. ``fit_intercept`` appends a column of ones. Rows whose
    l2 norm (without that column) is above ``data_norm`` are scaled down to it, each on its own. With ``columns``, a map
    of the entries, all rows share one scale, and ``data_norm`` is not used. ``row_major`` keeps dense data row by row,
    so that batches are drawn several times faster, and not column by column, with products some percent faster.
    ``features`` turn the fields of a raw table into columns first. ``waves`` are further columns; ``columns`` has
    entries for these as well, at its end. ``class_shares`` are the weights of classes, in [0, 1], and ``weight_bound``
    is what weights of rows are cut off at and divided by; without them there are none.
    """

    n_classes: int | None = None
    fit_intercept: bool = True
    data_norm: float | None = None
    columns: Columns | None = None
    row_major: bool = False
    features: Features | None = None
    waves: Waves | None = None
    class_shares: tuple[float, ...] | None = None
    weight_bound: float | None = None

    def __post_init__(self) -> None:
        if self.data_norm is not None and not 0 < self.data_norm < LARGEST_ENTRY:
            raise ValueError(f"data_norm={self.data_norm!r} must be None or a positive finite number")
        if self.waves is not None and self.columns is None:
            raise ValueError("waves need columns, which say what the entries are divided by")
        if not all(0 <= share <= 1 for share in self.class_shares or ()):  # a row counts at most once
            raise ValueError(f"class_shares={self.class_shares!r} must lie in [0, 1]: divide weights by the largest")
        if self.weight_bound is not None and not 0 < self.weight_bound < math.inf:
            raise ValueError(f"weight_bound={self.weight_bound!r} must be None or a positive finite number")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without what follows from it."""
        return {known.name: getattr(self, known.name) for known in fields(self)}

    @cached_property
    def grid(self) -> ColumnGrid | None:
        """The grid that all rows share, None where each has its own."""
        return None if self.columns is None else ColumnGrid(self.columns, self.waves)

    @property
    def n_added(self) -> int:
        """How many columns the waves of a row are."""
        return 0 if self.waves is None else self.waves.n_columns

    def of_shape(self, n_rows: int, n_features: int) -> PublicShape:
        """Return what is public about so many rows on the grid, of a table of so many columns."""
        n_features += self.n_added
        one, shortest, longest, bounds = float(self.fit_intercept), 0.0, self.data_norm or math.inf, None
        if self.grid is not None:
            shortest, longest = SHORTEST_NORM * self.grid.scale, self.grid.longest
            bounds = np.append(self.grid.column_bounds, [1.0] * self.fit_intercept)
        norm_range = max(shortest, one), math.hypot(longest, one)
        return PublicShape(n_rows, n_features, n_features + self.fit_intercept, norm_range, bounds, self.n_classes)

    @property
    def ranges(self) -> Floats | None:
        """The ends of the columns of the table, of shape (2, n_features), in the user's units."""
        if self.columns is None:
            return None
        d = len(self.columns.low) - self.n_added
        return np.array([self.columns.low[:d], self.columns.high[:d]])

    def in_user_units(self, w: Floats) -> tuple[Floats, Floats]:
        """Return coefficients, one row per score, and intercepts, for weights of shape (p,) or (p, K)."""
        if self.columns is not None:
            w = self.columns.in_user_units(w, self.fit_intercept)
        rows = w.reshape(len(w), -1).T
        if not self.fit_intercept:
            return rows.copy(), np.zeros(len(rows))
        return rows[:, :-1].copy(), rows[:, -1].copy()


class ColumnGrid:
    """Entries mapped by :class:`Columns`, and their waves, on a grid that is the same for all rows.

    Units are at most 1/2, and so is the offset, so that a centred entry is at most 1.
    """

    def __init__(self, columns: Columns, waves: Waves | None = None) -> None:
        largest = float(np.abs(columns.factor).max(initial=0.5))
        self.columns, self.waves, self.scale = columns, waves, power_of_two_above(2 * largest)
        self.steps = columns.factor * (2.0**UNIT_BITS / self.scale)
        centre = np.zeros(len(self.steps)) if columns.centre is None else np.clip(columns.centre, -1, 1)
        self.offset = np.rint(centre * self.steps)
        farthest = np.maximum(columns.factor * (1 + np.abs(centre)), self.scale * 2.0**-UNIT_BITS)
        self.column_bounds = np.ldexp(1.0, octaves(farthest)[1])
        self.longest = float(np.linalg.norm(columns.factor * (1 + np.abs(centre))))
