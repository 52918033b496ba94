"""What was measured, by cell: where the figures, the summary and the claims look it up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from .experiments import accuracy, chen_lee_5, kddcup99, line_search, output_risk, second_order, settings
from .table import Folds, Rows, per_repeat

__all__ = [
    "all_cells", "all_folds", "bound_lines", "line_search_folds", "network_runs", "second_order_rows", "settings_folds",
]  # fmt: skip

Cells = Mapping[tuple[str, ...], Folds]


@cache
def all_folds(measure: str = "accuracy") -> Cells:
    """Return what was measured by data set, configuration and epsilon (KDDCup99 included)."""
    if measure == "seconds":  # measured on KDDCup99 only
        return accuracy.folds_of(kddcup99.rows(), measure)
    noisy = Rows(row for row in accuracy.TABLE.rows() if row["delta"] != "0.0")
    return accuracy.folds_of(Rows([*noisy, *kddcup99.rows()]), measure)


@cache
def all_cells(measure: str = "accuracy") -> Mapping[tuple[str, ...], np.ndarray]:
    """Return the same as means over the folds of every repeat."""
    return {cell: per_repeat(folds) for cell, folds in all_folds(measure).items()}


@cache
def settings_folds(measure: str = "accuracy") -> Cells:
    """Return what the settings of DP-AGD do, by variant, parameter, value and epsilon."""
    return settings.TABLE.folds(settings.CELL, measure)


@cache
def line_search_folds(measure: str = "accuracy") -> Cells:
    """Return what the settings of the line search do, by parameter, value and epsilon."""
    return line_search.TABLE.folds(line_search.CELL, measure)


@cache
def network_runs(field: str) -> Mapping[tuple[str, str, str], chen_lee_5.Runs]:
    """Return what the iterates of networks do, by data set, network and method."""
    return chen_lee_5.traces(field)


@cache
def second_order_rows() -> Rows:
    return second_order.TABLE.rows()


@cache
def bound_lines() -> list[output_risk.Line]:
    return output_risk.read()
