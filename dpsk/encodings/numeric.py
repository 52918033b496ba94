"""The encoding of tables of numbers: columns as they are, within public bounds, or standardised with noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Columns, Door, Facts, RowMap, Table
from ..mechanisms.samplers import Floats
from ..requirements import checked, choice, flag, integer, listed, number
from .encoding import Encoding
from .fourier import LEFT_OUT, with_waves
from .standardization import SCALE_POWER, WEIGHTED_POWER, column_moments, find_ranges, standardised

_LARGEST = 2.0**400  # of a bound
_SHOWN = 5  # columns in an example


@dataclass(frozen=True, eq=False)
class LinearEncoding(Encoding):
    """How columns of numbers are brought to the grid. What it learns from the rows it buys at the door of the fit.

    ``bounds`` are public bounds of the columns, in order or by name. ``standardize="private"`` finds ranges (without
    bounds), means and standard deviations with noise; with a ``class_weight``, which makes fits as noisy as fits on few
    rows, columns that hardly vary are enlarged less. ``features="fourier"`` adds random Fourier features, drawn with
    ``features_seed``, where public facts tell that there are rows enough (:mod:`dpsk.encodings.fourier`). The other
    parameters are those of :class:`~dpsk.data.RowMap`.
    """

    fit_intercept: bool = flag(True)
    bounds: Any = checked(None, lambda name, value: require_bounds(value))
    standardize: str | None = choice(None, "private")
    data_norm: float | None = number(None, open_low=True)
    row_major: bool = False
    class_weight: Any = None
    features: str | None = choice(None, "fourier")
    features_seed: int = integer(0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is not None and self.standardize is None:
            raise ValueError(
                f"features={self.features!r} needs standardize='private', from which it knows where the entries of "
                "columns lie: give that as well, or leave features out"
            )
        if self.data_norm is not None and (self.bounds is not None or self.standardize is not None):
            raise ValueError(
                f"data_norm={self.data_norm!r} cannot be combined with bounds or standardize='private': it bounds rows "
                "as they are, the others change columns first. Leave data_norm out, or bounds and standardize"
            )

    def require(self, facts: Facts) -> None:
        """Raise ValueError if this encoding is not for these data; called before any cost."""
        if self.bounds is not None:
            low, _ = bounds_of_columns(self.bounds, facts)
            if low.ndim == 1 and len(low) != facts.n_features:
                raise ValueError(f"bounds are given for {len(low)} columns, but X has {facts.n_features}")

    def left_out(self, how: RowMap) -> str | None:
        if self.features is None or how.waves is not None:
            return None
        return LEFT_OUT.format(name="features", columns="a column of more than two values besides 0")

    def learned(self, door: Door, table: Table) -> RowMap:
        """Return the map of rows onto the grid, after releases that find what is not public."""
        intercept, columns, waves = bool(self.fit_intercept), None, None
        if self.bounds is not None:
            low, high = bounds_of_columns(self.bounds, table.facts)
            if not intercept:  # 0 has to stay where it is
                low, high = np.minimum(low, 0), np.maximum(high, 0)
            columns = Columns.within(low, high, table.facts.n_features)
        if self.standardize is not None:
            raw = door.open(table.raw())
            if columns is None:
                columns = find_ranges(raw, through_zero=not intercept)
            placed = door.open(table.rows(RowMap(table.facts.n_scores, fit_intercept=False, columns=columns)))
            power = SCALE_POWER if self.class_weight is None else WEIGHTED_POWER
            moments = column_moments(placed, columns)
            columns = standardised(columns, moments, centred=intercept, power=power)
            if self.features is not None:
                seed, n_scores = int(self.features_seed), table.facts.n_scores
                columns, waves = with_waves(raw, placed, columns, moments, seed, n_scores)
        return RowMap(table.facts.n_scores, intercept, self.data_norm, columns, self.row_major, waves=waves)


def require_bounds(bounds: Any) -> None:
    """Raise ValueError unless these are bounds of columns in order, or by name."""
    if not isinstance(bounds, Mapping):
        as_bounds(bounds)
        return
    if not bounds:
        raise ValueError("bounds={} must name every column: bounds={'age': (0, 120), ...}")
    for name, pair in bounds.items():
        try:
            low, high = map(float, pair)
            good = abs(low) < _LARGEST and abs(high) < _LARGEST and low < high
        except (TypeError, ValueError):
            good = False
        if not good:
            raise ValueError(f"bounds[{name!r}]={pair!r} must be a pair (low, high) of finite numbers with low < high")


def bounds_of_columns(bounds: Any, facts: Facts) -> tuple[Floats, Floats]:
    """Return lower and upper bounds in the order of the columns; raise ValueError unless names are those of columns."""
    if not isinstance(bounds, Mapping):
        return as_bounds(bounds)
    if facts.names is None:
        raise ValueError(
            "bounds names columns, but the columns of X have no names: give X as a DataFrame, or bounds=(lows, highs)"
        )
    missing = [name for name in facts.names if name not in bounds]
    unknown = [name for name in bounds if name not in facts.names]
    if missing or unknown:
        wrong = {"has no bounds for": missing, "names columns that X does not have:": unknown}
        raise ValueError(
            f"bounds {' and '.join(f'{what} {listed(map(repr, names))}' for what, names in wrong.items() if names)}. "
            "Name every column of X once, bounds={'age': (0, 120), ...}"
        )
    low, high = np.array([bounds[name] for name in facts.names], dtype=np.float64).T
    return low, high


def as_bounds(bounds: Any) -> tuple[Floats, Floats]:
    """Return lower and upper bounds as arrays; raise ValueError unless they are finite numbers in order."""
    try:
        low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
        low, high = np.broadcast_arrays(low, high)
        good = low.ndim <= 1 and (np.abs([low, high]) < _LARGEST).all() and (low <= high).all() and (low < high).any()
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"bounds={bounds!r} must be None or a pair (low, high) of finite numbers, or of arrays with one number per "
            "column, (lows, highs), with low <= high, and low < high somewhere: public knowledge, not taken from the "
            f"data{_turned_round(bounds)}"
        )
    if low.shape == (2,) and (low == high).any():
        raise ValueError(
            f"bounds={bounds!r} leaves one of two columns a single value. It is read as (lows, highs), one number per "
            f"column in each, and not as a pair per column. Drop a column that never changes{_turned_round(bounds)}"
        )
    return low, high


def _turned_round(bounds: Any) -> str:
    """Return how to write what may be a pair per column, as (lows, highs)."""
    try:
        lows, highs = np.array(bounds, dtype=np.float64).reshape(len(bounds), 2).T
    except (TypeError, ValueError):
        return ""
    if not (lows <= highs).all():
        return ""
    more = ["..."] * (len(lows) > _SHOWN)
    low, high = (", ".join([*(f"{end:g}" for end in ends[:_SHOWN]), *more]) for ends in (lows, highs))
    return f". For a pair per column write bounds=([{low}], [{high}]), or name them: bounds={{'age': (0, 120), ...}}"
