"""Pairs of data sets that differ in one row, or in all rows of one person: the worst that are known for a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Data:
    """What a fit is given: rows, labels, and further arguments of ``fit`` such as ``groups``."""

    X: Any
    y: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two data sets, how they differ, and in how many units: 2 where a unit of one left and another one came."""

    name: str
    one: Data
    other: Data
    size: int = 1
