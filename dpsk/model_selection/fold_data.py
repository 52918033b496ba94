"""The data of a cross-validation: all rows are checked once, and then taken from where they lie, share by share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from ..data import Chunks, Facts, aligned, is_dask, of_each, picked
from ..data.arrays import blocks_of
from ..data.labels import all_labels, known_classes
from ..data.persons import Keys, Persons
from ..data.stored import require_room
from ..estimators.classifier import PrivateClassifier
from ..estimators.grouping import apart
from ..estimators.opening import open_table
from ..estimators.validation import checked_labels, is_mapped, quietly, require_one_per_row
from ..mechanisms import Bits
from ..mechanisms.samplers import Integers
from ..pipelines.in_front import n_rows_of, rows_of
from ..privacy.units import several, unit_of
from .folds import Folds, Share
from .judging import labels_of


@dataclass(frozen=True, eq=False)
class FoldData:
    """Rows and labels as they were given, what is public about them, and the fold of each row.

    ``column`` is that of ids in X, ``persons`` are whose rows they are. ``labels`` are those of all rows, ``classes``
    all that occur. ``facts`` are those of a fit on all rows, None where steps in front of the model make its rows.
    ``blocks`` are pairs of blocks of a Dask collection with the place of their rows.
    """

    X: Any
    y: Any
    column: Any
    persons: Persons | None
    labels: NDArray[Any]
    classes: NDArray[Any]
    facts: Facts | None
    folds: Folds
    blocks: list[tuple[Any, Any, slice]]

    def held_out(self, fold: int) -> Integers:
        """Return the positions of the rows of a fold."""
        return Share(self.folds, fold, held=True).rows()

    def training_facts(self) -> list[Facts]:
        """Return the facts of each training set, as far as they are known before the fits."""
        return [] if self.facts is None else [self._facts_without(self.facts, fold) for fold in range(self.folds.n)]

    def n_units(self, fold: int) -> int:
        """Return the number of rows, or of persons, that a fold leaves for the fit."""
        rows = Share(self.folds, fold, held=False).rows()
        return len(rows) if self.persons is None else len(np.unique(self.persons.codes[rows]))

    def _facts_without(self, facts: Facts, fold: int) -> Facts:
        n_rows, n_units = len(self.labels) - len(self.held_out(fold)), self.n_units(fold)
        return replace(facts, n_rows=n_units, most_rows=1 if self.persons is None else n_rows - n_units + 1)

    def share(self, fold: int, *, held: bool) -> tuple[Any, Any, NDArray[np.int32] | None]:
        """Return rows, labels and numbers of persons of one fold, or of all others, stored as all rows are.

        Labels are None where they come with chunks. Numbers are None where ids are in the rows, or there are none.
        """
        share = Share(self.folds, fold, held)
        rows = share.rows()
        codes = None if self.persons is None or self.column is not None else self.persons.codes[rows]
        if isinstance(self.X, Chunks):
            return Chunks(partial(self._chunks, share)), None if self.y is None else taken(self.y, rows), codes
        if is_dask(self.X):
            parts = [(X, y, share.part(place)) for X, y, place in self.blocks]
            lengths = [len(part.rows()) for *_, part in parts]
            return *picked(partial(_pick, self.column), parts, lengths, self.X, self.y), codes
        X = _on_disk(self.X, rows) if is_mapped(self.X) else taken(self.X, rows)
        return X, taken(self.y, rows), codes

    def _chunks(self, share: Share) -> Iterator[tuple[Any, Any]]:
        stop = 0
        for X, y in self.X:
            start, stop = stop, stop + n_rows_of(X)
            some = _pick(self.column, X, y, share.part(slice(start, stop)))
            if n_rows_of(some[0]):
                yield some
        if stop != len(self.labels):
            raise ValueError(
                f"the function given to Chunks returned {stop} rows, and {len(self.labels)} before: it must make the "
                "same rows anew in every call, in the same order"
            )


def opened(last: PrivateClassifier, X: Any, y: Any, groups: Any, *, n_folds: int, bits: Bits, piped: bool) -> FoldData:
    """Return data that were checked as a fit on all rows would check them, and dealt out.

    ``last`` has the parameters of the fits. Where it stands behind other steps (``piped``) they make its rows, and each
    fit checks them. Raises ValueError if a training set has too few rows or persons.
    """
    column, noted, facts = last.group_column, _Noted(), None
    if piped:
        if isinstance(X, Chunks) and y is None:
            noted.labels = [None if part is None else checked_labels(part) for _, part in X]
        elif y is None:
            raise ValueError("y is None: a cross-validation needs one label per row of X")
        elif not isinstance(X, Chunks):
            quietly("y", check_consistent_length, X, y)
        seen = all_labels(noted.labels) if y is None else checked_labels(y)
        classes = known_classes(np.unique(seen), last.classes)
    else:
        probe = clone(last)
        table = open_table(probe, noted.of(X, column) if isinstance(X, Chunks) else X, y, probe, groups=groups)
        facts, classes = table.facts, table.classes
    blocks = list[tuple[Any, Any, slice]]()
    if is_dask(X):
        blocks, labels = _blocks(X, y)
    else:
        labels = labels_of(y) if y is not None else all_labels(noted.labels)
    keys = np.concatenate(noted.keys) if noted.keys else _keys(X, column, groups)
    if keys is None:
        persons, folds = None, Folds.dealt(n_folds, len(labels), bits)
    else:
        require_one_per_row("groups", len(keys), len(labels))
        persons, folds = Persons.of(keys), Folds.of_persons(n_folds, keys, bits)
    data = FoldData(X, y, column, persons, labels, classes, facts, folds, blocks)
    fewest = min(map(data.n_units, range(n_folds)))
    if fewest < 2:
        units = several(unit_of(column, grouped=groups is not None))
        raise ValueError(
            f"cv={n_folds} leaves {fewest} of the {units} for a fit, and 2 {units} are needed: a cross-validation "
            f"needs more {units}"
        )
    return data


@dataclass
class _Noted:
    """Labels and keys of chunks, noted while somebody else reads them."""

    labels: list[Any] = field(default_factory=list)
    keys: list[Keys] = field(default_factory=list)

    def of(self, chunks: Chunks, column: Any) -> Chunks:
        def read() -> Iterator[tuple[Any, Any]]:
            for X, y in chunks:
                if y is not None:
                    self.labels.append(checked_labels(y))
                found = _keys(X, column, None)
                if found is not None:
                    self.keys.append(found)
                yield X, y

        return Chunks(read)


def _keys(X: Any, column: Any, groups: Any) -> Keys | None:
    """Return the keys of the ids of a table that is no Chunks; None if nobody asks for persons."""
    find = apart(X, column, groups)[1]
    return None if find is None else find(None)


def _blocks(X: Any, y: Any) -> tuple[list[tuple[Any, Any, slice]], NDArray[Any]]:
    """Return the delayed blocks of a Dask collection with the places of their rows, and all labels."""
    rows, labels = aligned(X, y)
    found = of_each(labels_of, labels)
    ends = np.cumsum([0, *map(len, found)])
    places = [slice(int(start), int(end)) for start, end in pairwise(ends)]
    return list(zip(rows, labels, places, strict=True)), np.concatenate(found)


def _pick(column: Any, X: Any, y: Any, share: Share) -> tuple[Any, Any]:
    """Return the rows of a share among those of a block, and their labels; by ids, where these are in the block."""
    rows = share.rows(_keys(X, column, None))
    return taken(X, rows), None if y is None else taken(y, rows)


def taken(values: Any, rows: Integers) -> Any:
    """Return some rows of a table in memory, or some entries of a list or an array of any library."""
    if isinstance(values, list | tuple):
        return [values[row] for row in rows]
    if hasattr(values, "to_pylist"):  # of pyarrow
        return values.take(rows)
    return rows_of(values, rows)


def _on_disk(X: Any, rows: Integers) -> Any:
    """Return some rows of a memory-mapped array as such an array, in a temporary file without a name."""
    require_room(X.dtype.itemsize * len(rows) * X.shape[1])
    cuts = [(block, *np.searchsorted(rows, (block.start, block.stop))) for block in blocks_of(X)]
    with TemporaryFile(prefix="dpsk-") as file:
        for block, start, stop in cuts:
            file.write(np.asarray(X[block])[rows[start:stop] - block.start].tobytes())
        file.flush()
        return np.memmap(file, X.dtype, "r", shape=(len(rows), X.shape[1]))
