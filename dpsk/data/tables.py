"""Tables: rows and labels as they were given, and the rows on grids that are made of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arrays import ArrayRows, RawRows, compact, require_rows
from .rows import Labels, Matrix, Rows
from .stored import StoredRows

__all__ = ["ArrayTable", "Chunks", "Coding", "StoredTable", "Table", "all_labels"]

Coding: TypeAlias = Callable[[Any], Labels]
"""Turns labels as they were given into those that losses take."""


class Chunks:
    """Rows that come in chunks, for data that do not fit into memory: a Parquet data set, a cursor of a database.

    ``fit`` calls ``read`` once and keeps what it needs in temporary files; ``predict`` calls it once as well.

    Parameters
    ----------
    read : callable
        Returns an iterable of chunks: arrays, sparse matrices or DataFrames X, or pairs (X, y) of these with their
        labels. Chunks may be of any length, all have the same columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from dpsk import Chunks, DPLogisticRegression
    >>> X, digit = load_digits(return_X_y=True)
    >>> def read():
    ...     yield from zip(np.array_split(X, 3), np.array_split(digit >= 5, 3))  # a file each, as it were
    >>> model = DPLogisticRegression(epsilon=4.0, bounds=(0, 16)).fit(Chunks(read))
    >>> model.predict(Chunks(read)).shape
    (1797,)
    """

    def __init__(self, read: Callable[[], Iterable[Any]]) -> None:
        if not callable(read):
            raise TypeError(
                f"Chunks takes a function that returns chunks, not {type(read).__name__}: for a list or a generator "
                "write Chunks(lambda: ...), where ... makes it anew"
            )
        self._read = read

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "these are rows in chunks, and an array is needed here: only dpsk's classifiers and private_score take them"
        )

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield pairs (X, y); y is None for chunks without labels."""
        chunks: Any = self._read()
        if not isinstance(chunks, Iterable) or getattr(chunks, "ndim", 3) < 3:
            raise TypeError(
                f"the function given to Chunks returned {type(chunks).__name__}, which is no iterable of chunks: yield "
                "them one after the other, or return a list of them"
            )
        for chunk in chunks:
            yield chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (chunk, None)


class Table(ABC):
    """Rows and their labels, wherever they are."""

    shape: tuple[int, int]
    """The numbers of rows and columns: public."""

    @abstractmethod
    def seen(self) -> NDArray[Any]:
        """Return the labels that occur, sorted."""

    @abstractmethod
    def raw(self) -> Rows:
        """Return the rows in the user's units, without labels."""

    @abstractmethod
    def rows(self, coding: Coding, **options: Any) -> Rows:
        """Return the rows on their grid; ``options`` are those of :class:`ArrayRows`."""


class ArrayTable(Table):
    """An array or a sparse matrix in memory."""

    def __init__(self, X: Matrix, y: Any) -> None:
        self.X, self.y, self.shape = X, y, X.shape

    def seen(self) -> NDArray[Any]:
        return np.unique(self.y)

    @cached_property
    def _compact(self) -> Matrix:
        return compact(self.X)  # once, for all the rows made of it

    def raw(self) -> RawRows:
        return RawRows(self._compact)

    def rows(self, coding: Coding, **options: Any) -> ArrayRows:
        return ArrayRows(self._compact, coding(self.y), **options)


class StoredTable(Table):
    """Blocks of rows that lie in files, and their labels in memory."""

    def __init__(self, blocks: Sequence[Matrix], y: Any) -> None:
        require_rows(len(y))
        self._blocks, self._y, self.shape = blocks, y, (len(y), blocks[0].shape[1])

    def seen(self) -> NDArray[Any]:
        return np.unique(self._y)

    def raw(self) -> RawRows:
        return RawRows(*self._blocks)

    def rows(self, coding: Coding, **options: Any) -> StoredRows:
        return StoredRows(self._blocks, coding(self._y), on_disk=True, **options)


def all_labels(parts: Sequence[Any]) -> NDArray[Any]:
    """Return the labels of all parts; raise ValueError if some are text and others numbers."""
    kinds = {"text" if part.dtype.kind in "OUST" else "numbers" for part in parts if len(part)}
    if len(kinds) > 1:
        raise ValueError("labels are text in some chunks and numbers in others: give them one type")
    return np.concatenate(parts)
