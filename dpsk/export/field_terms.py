"""What the fields of a raw table add to the scores, and which columns other libraries can read as dpsk does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Categories, Number
from ..data.entries import key, plain
from ..data.features import CategoryFeatures, QuantityFeatures
from ..mechanisms.samplers import Floats


@dataclass(frozen=True, eq=False)
class NumberTerms:
    """What a number adds: ``curve`` of shape (n_scores, n_points) is linear between points and constant beyond them.

    ``zero`` comes on top where the number is 0. ``missing`` is what a missing number adds.
    """

    points: Floats
    curve: Floats
    zero: Floats
    missing: Floats

    @classmethod
    def of(cls, part: QuantityFeatures, own: Floats) -> NumberTerms:
        """Return the terms of a field with these weights, of shape (n_scores, n_features)."""
        points = np.unique([part.low, part.high, *part.knots])
        if len(points) == 1:  # a constant
            points = np.append(points, points + max(1.0, abs(points[0])))
        zero, missing = np.zeros(len(own)), np.zeros(len(own))
        at_points = part.matrix(points)
        if part.zero:
            column = len(part.names) - 1 - part.missing
            zero, at_points[:, column] = own[:, column], 0.0
        if part.missing:
            missing = own[:, -1]
        return cls(points, own @ at_points.T, zero, missing)


@dataclass(frozen=True, eq=False)
class CategoryTerms:
    """What a category adds: ``weights`` of shape (n_scores, n_names), or those of any other value, or of none."""

    names: list[str]
    weights: Floats
    other: Floats
    missing: Floats

    @classmethod
    def of(cls, part: CategoryFeatures, kind: Any, own: Floats) -> CategoryTerms:
        """Return the terms of a field with these weights, of shape (n_scores, n_features)."""
        names, none = names_of_values(part, kind), np.zeros(len(own))
        other = own[:, len(names)] if part.other else none
        return cls(names, own[:, : len(names)], other, own[:, -1] if part.missing else none)


def names_of_values(part: CategoryFeatures, kind: Any) -> list[str]:
    """Return what the values of a field are called: names of categories, or numbers of buckets, months, days, hours."""
    if part.codes is None:
        return list(part.values)
    if isinstance(kind, Categories) and kind.values is not None:
        return [key(plain(kind.values[code])) for code in part.codes]  # type: ignore[arg-type]
    return [str(code) for code in part.codes]


def require_readable(schema: Any, form: str, library: str) -> None:
    """Raise ValueError if a table has columns whose entries a library does not read as dpsk does."""
    columns = zip(schema.names, schema.kinds, strict=True)
    other = [(name, kind.word) for name, kind in columns if not _is_readable(kind)]
    if other:
        named = ", ".join(f"{name!r} ({word})" for name, word in other)
        raise ValueError(
            f"{form}() cannot take away these columns, because no part of {library} reads their entries as dpsk does: "
            f"{named}. Use to_json(), which describes how they are read, or fit without them"
        )


def _is_readable(kind: Any) -> bool:
    return kind is None or isinstance(kind, Number) or (isinstance(kind, Categories) and kind.buckets is None)
