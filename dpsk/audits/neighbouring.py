"""Pairs of data sets that differ in one row, or in all rows of one person: the worst that are known for a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from ..mechanisms.samplers import Floats
from ..pipelines.in_front import rows_of
from .rows_in_place import NEW_CATEGORY, Columns, columns_of, with_rows

REPLACE, ZERO_OUT, ADD_REMOVE, EITHER = "replace", "zero-out", "add-remove", "replace or add-remove"
_QUIET = 2000


@dataclass(frozen=True, eq=False)
class Data:
    """What a fit is given: rows, labels, and further arguments of ``fit`` such as ``groups``."""

    X: Any
    y: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two data sets, how they differ, and in how many units: 2 where a unit of one left and another one came.

    ``probes`` are rows at which an attacker asks fitted models for predictions; None for the first rows of both.
    The rows at the places ``leaving``, if there are any, leave every sum of the second fit: a transcript can tell what
    a fit would be without them, but a user cannot make such a fit.
    """

    name: str
    one: Data
    other: Data
    size: int = 1
    probes: Any = None
    leaving: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class _Row:
    """What a row holds: the entries of its columns, and its label."""

    name: str
    entries: Sequence[Any]
    label: Any


@dataclass(frozen=True, eq=False)
class _Target:
    """Where the unit lies whose rows change, its label, and another label that it may have."""

    places: Any
    label: Any
    flipped: Any | None


def made_data(columns: int = 2) -> tuple[Floats, Any]:
    """Return 24 rows with some columns of entries in [-1, 1], and labels 0 and 1 that follow the first column."""
    places = np.arange(1, 25)
    y = places % 2 == 0
    X = 1.2 * (np.multiply.outer(places, np.sqrt(np.arange(columns) + 0.5)) % 1) - 0.6
    X[:, 0] += np.where(y, 0.4, -0.4)
    return X, y.astype(np.int64)


def pairs_of(
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    adjacency: str,
    takes_weights: bool,
    classes: Any = None,
    many: bool = False,
) -> list[Pair]:
    """Return the worst neighbours that are known for fits on these data, the most telling ones first.

    Both data sets of a pair have the same columns, types, set of labels, and number of rows (but for "add-remove",
    where a row is there or is not).

    Parameters
    ----------
    X, y : array-like, DataFrame or sparse matrix, and labels
        Public data of the kind that the fit is for; X=None for :func:`made_data`.
    groups : array-like or None
        Whose row it is. All rows of one person change together, and ``groups`` is an argument of the fit.
    adjacency : {"replace", "zero-out", "add-remove", "replace or add-remove"}
        What is promised: a unit is replaced by another one, its part of every sum is left out, or it is not there. If
        nobody knows whether it is the first or the third, units are replaced, and that counts as two changes.
    takes_weights : bool
        Whether ``fit`` takes ``sample_weight``: then a unit of weight 0 is one that is left out.
    classes : array-like or None
        The labels that may occur, where the fit knows them beforehand; those in ``y`` by default.
    many : bool
        For attackers who see transcripts. Made data have many rows where all but one are zeros: a penalty then leaves
        more of what the row does. Of two rows that replace each other, those come first that differ in all.
    """
    if adjacency not in (REPLACE, ZERO_OUT, ADD_REMOVE, EITHER):
        raise ValueError(f"adjacency={adjacency!r} must be one of {(REPLACE, ZERO_OUT, ADD_REMOVE, EITHER)}")
    made = X is None
    if made:
        X, y = made_data()
    y = np.asarray(y)
    y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
    X, columns = columns_of(X)
    if len(y) != columns.rows or len(y) < 2:
        raise ValueError(f"X has {columns.rows} rows and y has {len(y)} labels: give at least 2 rows, and a label each")
    target = _target(y, groups, classes)
    make, rows = _Makers(X, y, groups, target), _contents(y, columns, target)
    quiet = _quiet(make, rows, many=many and made)
    some = [] if quiet is None else _found(quiet, _few(rows), adjacency, takes_weights, many)
    found = [
        pair for both in zip_longest(_found(make, rows, adjacency, takes_weights, many), some) for pair in both if pair
    ]
    probed = [row.entries for name, row in rows.items() if name != "largest"]
    probes = with_rows(rows_of(X, np.zeros(len(probed), dtype=np.intp)), probed, range(len(probed)))
    return [replace(pair, probes=probes) for pair in found]


def _found(make: _Makers, rows: Mapping[str, _Row], adjacency: str, takes_weights: bool, many: bool) -> Iterator[Pair]:
    """Yield the pairs for these rows."""
    single = _single(rows, make.target)
    size = 1 if adjacency == REPLACE else 2
    replaced = list(_replacements(rows, make.target))
    if many:  # the one that moves all releases, and changes row and label
        replaced.sort(key=lambda two: "half" not in two[1].name)
    kinds = [(make.replaced(*two, size=size) for two in replaced)]
    if adjacency == ADD_REMOVE:
        kinds.insert(0, (make.removed(row) for row in single))
    if adjacency == ZERO_OUT:
        kinds.insert(0, (make.leaving(row) for row in single))
        if takes_weights:
            kinds.append(make.weightless(row) for row in single)
    # in turn: a row that leaves tells most of noise, and one that is replaced shows what has none
    yield from (pair for turn in zip_longest(*kinds) for pair in turn if pair)


def _single(rows: Mapping[str, _Row], target: _Target) -> list[_Row]:
    """Return the rows that leave, the worst ones with each of two labels."""
    found = [rows[name] for name in _WORST if name in rows]
    if target.flipped is None:
        return found
    others = [replace(row, name=f"{row.name}, of another label", label=target.flipped) for row in found[:2]]
    return [row for both in zip_longest(found, others) for row in both if row is not None]


def _few(rows: Mapping[str, _Row]) -> dict[str, _Row]:
    """Return the rows that move a model most where it has nothing else to learn from."""
    return {name: row for name, row in rows.items() if name in ("aligned", "huge", "half")}


def _quiet(make: _Makers, rows: Mapping[str, _Row], *, many: bool) -> _Makers | None:
    """Return the same where all other rows are zeros, so that the changed rows decide a model alone.

    None for columns without numbers.
    """
    if "zeros" not in rows:
        return None
    told = ", all other rows zeros"
    if many:
        return replace(make, X=np.zeros((_QUIET, 2)), y=np.tile([0, 1], _QUIET // 2), told=told)
    n = len(make.y)
    return replace(make, X=with_rows(make.X, [rows["zeros"].entries] * n, range(n)), told=told)


@dataclass(frozen=True, eq=False)
class _Makers:
    """Make pairs by putting rows in the places of the target."""

    X: Any
    y: Any
    groups: Any
    target: _Target
    told: str = ""

    @property
    def _unit(self) -> str:
        return "row" if self.groups is None else "person"

    def _with(self, row: _Row, **more: Any) -> Data:
        y = self.y.copy()
        y[self.target.places] = row.label
        X = with_rows(self.X, [row.entries] * len(self.target.places), self.target.places)
        groups = {} if self.groups is None else {"groups": self.groups}
        return Data(X, y, groups | more)

    def replaced(self, one: _Row, other: _Row, size: int) -> Pair:
        return Pair(
            f"one {self._unit}: {one.name} or {other.name}{self.told}", self._with(one), self._with(other), size
        )

    def weightless(self, row: _Row) -> Pair:
        weights = np.ones(len(self.y)), np.ones(len(self.y))
        weights[1][self.target.places] = 0.0
        one, other = (self._with(row, sample_weight=some) for some in weights)
        return Pair(f"one {self._unit}: {row.name}, with weight 1 or 0{self.told}", one, other)

    def leaving(self, row: _Row) -> Pair:
        data, places = self._with(row), tuple(int(place) for place in self.target.places)
        return Pair(f"one {self._unit}: {row.name}, in all sums or in none{self.told}", data, data, leaving=places)

    def removed(self, row: _Row) -> Pair:
        one, places = self._with(row), self.target.places
        groups = {} if self.groups is None else {"groups": np.delete(np.asarray(self.groups), places)}
        others = np.delete(np.arange(len(self.y)), places)
        other = Data(rows_of(one.X, others), one.y[others], groups)
        return Pair(f"one {self._unit}: {row.name}, there or not{self.told}", one, other)


def _target(y: Any, groups: Any, classes: Any) -> _Target:
    """Return the unit whose rows change: its labels are found in other rows too, or are known beforehand."""
    labels, counts = np.unique(y, return_counts=True)
    often = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    if groups is None:
        units = [np.array([place]) for place in range(len(y))]
    else:
        names = np.asarray(groups).astype(str)  # missing ids are one person
        units = [np.flatnonzero(names == name) for name in np.unique(names)]
    for places in sorted(units, key=lambda unit: (-len(unit), -often[_plain(y[unit[0]])])):
        if len(places) < len(y) and (classes is not None or set(np.delete(y, places).tolist()) == set(often)):
            known = labels if classes is None else np.asarray(classes).astype(y.dtype)
            others = [label for label in known if label != y[places[0]]]
            flipped = max(others, key=lambda label: often.get(_plain(label), 0), default=None)
            return _Target(places, y[places[0]], flipped)
    raise ValueError(
        "y has no row, or no person, whose labels are found in other rows too, so the set of labels would change: give "
        "at least 2 rows of a class, or the labels that are known beforehand (classes)"
    )


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _contents(y: Any, columns: Columns, target: _Target) -> dict[str, _Row]:
    """Return rows with the label of the target that tell the most against, or to, a model of the other rows."""
    wrong = target.label if target.flipped is None else target.flipped
    columns = columns.beside(int(np.flatnonzero(~np.isin(np.arange(len(y)), target.places))[0]))
    signs = columns.separating(y == wrong)
    entries: dict[str, tuple[str, Sequence[Any] | None]] = {"copy": ("a copy of another row", columns.ordinary)}
    if columns.has_numbers:
        entries |= {
            "aligned": ("an extreme row that looks like another class", columns.corner(signs)),
            "typical": ("an extreme row that looks like its class", columns.corner(-signs)),
            "huge": ("a huge row", columns.filled(signs, 1e3 * columns.largest)),
            "high": ("a row of the largest entries", columns.corner(np.ones_like(signs))),
            "low": ("a row of the smallest entries", columns.corner(-np.ones_like(signs))),
            "half": ("one half as long as others", columns.filled(signs, 0.5 * columns.largest)),
            "zeros": ("a row of zeros", columns.filled(signs, 0.0)),
        }
    entries |= {
        "largest": ("a row of 1e300", columns.filled(signs, 1e300) if columns.has_floats else None),
        "category": (f"a new category {NEW_CATEGORY!r}", columns.with_new_category()),
        "missing": ("missing entries", columns.with_missing()),
    }
    return {key: _Row(name, found, target.label) for key, (name, found) in entries.items() if found is not None}


_WORST = ("huge", "high", "aligned", "typical", "copy", "category", "largest", "missing")


def _replacements(rows: Mapping[str, _Row], target: _Target) -> Iterator[tuple[_Row, _Row]]:
    """Yield two rows that take the place of each other."""
    for name in ("aligned", "huge", "largest", "copy"):
        if name in rows and target.flipped is not None:
            yield rows[name], replace(rows[name], name="the same with another label", label=target.flipped)
    if "high" in rows:
        yield rows["high"], rows["low"]
    if "huge" in rows:
        if target.flipped is not None and "half" in rows:
            other = f"{rows['half'].name}, with another label"
            yield rows["huge"], replace(rows["half"], name=other, label=target.flipped)
        if "zeros" in rows:
            yield rows["huge"], rows["zeros"]
    for name in ("category", "missing"):
        if name in rows and "copy" in rows:
            yield rows[name], rows["copy"]
