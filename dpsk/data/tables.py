"""Tables: rows and labels as they were given, and the rows on grids that are made of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats
from .arrays import ArrayRows, Compact, RawRows, require_rows
from .facts import Facts
from .labels import as_labels, known_classes
from .persons import Persons
from .row_map import RowMap
from .rows import ChunkRows, Matrix, Rows
from .schema import Schema
from .stored import StoredRows
from .weights import Weights, steps_of


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
            "these are rows in chunks, and an array is needed here: only dpsk's classifiers, private_score and "
            "private_evaluation take them. Splitters and searches of scikit-learn do not: dpsk.private_cross_validate "
            "has folds for chunks"
        )

    def __getitem__(self, _: object) -> NoReturn:
        raise TypeError(
            "chunks come one after the other and have no rows by position: dpsk.private_cross_validate has folds for "
            "them. For some of the rows write Chunks(lambda: ...), where ... takes them from each chunk"
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
    """Checked rows and their labels, wherever they are.

    ``seen`` are the labels that occur, sorted; ``classes`` lists all that may occur, None for those seen. ``remote``
    says that the rows are in other processes. ``schema`` tells the columns of a raw table. ``persons`` tells whose rows
    they are, if persons are protected, and ``sample_weight`` what each row weighs, if that was given.
    """

    persons: Persons | None = None
    sample_weight: Floats | None = None

    def __init__(
        self,
        shape: tuple[int, int],
        seen: NDArray[Any],
        classes: Any,
        *,
        remote: bool = False,
        schema: Schema | None = None,
    ) -> None:
        self.classes = known_classes(seen, classes)
        self.facts = Facts(*shape, len(self.classes), remote, schema)

    @property
    def sizes(self) -> dict[str, Any]:
        """The public numbers of rows and of persons, by their names in a report; no number where rows are protected."""
        if self.persons is None:
            return {"n_rows": int(self.facts.n_rows), "n_units": None}
        return {"n_rows": len(self.persons.codes), "n_units": self.persons.n}

    @abstractmethod
    def raw(self) -> Rows:
        """Return the rows in the user's units, without labels. They count by persons."""

    @abstractmethod
    def rows(self, how: RowMap) -> Rows:
        """Return the rows on their grid. They count by persons, by classes and by their own weights, if there are."""

    @abstractmethod
    def outcomes(self, how: RowMap) -> Rows:
        """Return rows with labels and weights as :meth:`rows` does, and with a single column of zeros."""

    def _of_persons(self) -> Weights | None:
        """Return the weights that rows have as rows of persons."""
        return None if self.persons is None else Weights(self.persons.weights, self.persons)

    def _weights(self, labels: NDArray[Any], how: RowMap) -> Weights | None:
        """Return the weights of all rows under this map."""
        steps = steps_of(labels, how, None if self.persons is None else self.persons.weights, self.sample_weight)
        return None if steps is None else Weights(steps, self.persons)

    def _outcomes(self, labels: NDArray[Any], how: RowMap) -> ArrayRows:
        """Return :meth:`outcomes` of labels in memory."""
        return outcome_rows(labels, how, self._weights(labels, how))


def outcome_rows(labels: NDArray[Any], how: RowMap, weights: Weights | None) -> ArrayRows:
    """Return rows with these labels and weights, and with a single column of zeros."""
    alone = RowMap(how.n_classes, fit_intercept=False)
    return ArrayRows(sp.csr_matrix((len(labels), 1)), labels, alone, weights)


class ArrayTable(Table):
    """An array or a sparse matrix in memory, checked to be finite."""

    def __init__(self, X: Matrix, y: Any, classes: Any = None) -> None:
        super().__init__(X.shape, np.unique(y), classes)
        self.given, self.compact, self.labels = X, Compact.trusted(X), as_labels(self.classes, y)

    def raw(self) -> RawRows:
        return RawRows(self.compact, weights=self._of_persons())

    def rows(self, how: RowMap) -> ChunkRows:
        weights = self._weights(self.labels, how)
        if how.waves is not None:  # hundreds of columns more: in single precision they take half the memory
            return StoredRows([self.compact.matrix], self.labels, how, weights, on_disk=False)
        return ArrayRows(self.compact, self.labels, how, weights)

    def outcomes(self, how: RowMap) -> ArrayRows:
        return self._outcomes(self.labels, how)


class StoredTable(Table):
    """Blocks of rows that lie in files, and their labels in memory."""

    def __init__(self, blocks: Sequence[Matrix], y: Any, classes: Any = None) -> None:
        require_rows(len(y))
        super().__init__((len(y), blocks[0].shape[1]), np.unique(y), classes)
        self._blocks, self._labels = blocks, as_labels(self.classes, y)

    def raw(self) -> RawRows:
        return RawRows(*self._blocks, weights=self._of_persons())

    def rows(self, how: RowMap) -> StoredRows:
        return StoredRows(self._blocks, self._labels, how, self._weights(self._labels, how), on_disk=True)

    def outcomes(self, how: RowMap) -> ArrayRows:
        return self._outcomes(self._labels, how)
