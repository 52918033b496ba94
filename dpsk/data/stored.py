"""Rows that are rounded once and stored in single precision: in half the memory, or in a temporary file."""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray

from ..mechanisms.samplers import Integers
from .arrays import ArrayRows, blocks_of, require_rows
from .row_map import RowMap
from .rows import Chunk, ChunkRows, Labels, Matrix, Memory, n_threads
from .weights import Weights

_ALIGNMENT = 64
_ELSEWHERE = "Set the environment variable TMPDIR to a folder with more room before Python starts"


def require_room(n_bytes: float) -> None:
    """Raise ValueError if the folder for temporary files has not this much room."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise ValueError(
            f"the rounded rows need about {n_bytes / 1e9:.1f} GB in {folder}, but only {free / 1e9:.1f} GB are free. "
            + _ELSEWHERE
        )


class Scratch:
    """Arrays that are written to a temporary file one after the other, then read as if they lay in memory.

    Use it as a context. The file has no name (where the system allows that) and nobody else may open it. It is gone
    when its arrays are gone. The arrays are written to the file and not assigned to a mapping, because then a full disk
    is an error and does not end the process.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="dpsk-", buffering=0)  # noqa: SIM115 - closed when the scratch is
        self._placed: list[tuple[int, Any, tuple[int, ...], bool]] = []

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, array: NDArray[Any]) -> None:
        """Append an array of one or two dimensions, with its columns side by side if that is how they lie."""
        columns_first = array.ndim == 2 and not array.flags.c_contiguous and array.flags.f_contiguous
        flat = array.T if columns_first else np.ascontiguousarray(array)
        self._append(bytes(-self._file.tell() % _ALIGNMENT))
        self._placed.append((self._file.tell(), array.dtype, array.shape, columns_first))
        self._append(flat.reshape(-1).view(np.uint8).data)

    def _append(self, data: Any) -> None:
        """Write all of it. The file has no buffer, which is ten times faster here, and may take less at a time."""
        while len(data):
            try:
                written = self._file.write(data)
            except OSError as error:
                raise OSError(f"writing rows to a temporary file failed ({error.strerror}). {_ELSEWHERE}") from None
            data = data[written:]

    def read(self) -> list[NDArray[Any]]:
        """Return all arrays, as views of the file that nobody can write to. They outlast this object."""
        size = self._file.tell()
        mapped: Any = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        views = []
        for at, dtype, shape, columns_first in self._placed:
            flat = np.frombuffer(mapped, dtype, int(np.prod(shape)), at) if np.prod(shape) else np.zeros(0, dtype)
            views.append(flat.reshape(shape[::-1]).T if columns_first else flat.reshape(shape))
        return views


class _Stored:
    """A chunk whose units are kept in single precision: they have 19 bits, so nothing is lost."""

    def __init__(self, chunk: Chunk, first: int, kept: list[NDArray[Any]], at: slice) -> None:
        self._length, self._shape, self.sparse = len(chunk), chunk.units.shape, chunk.sparse
        self._n_classes, self._offset, self._first = chunk.n_classes, chunk.offset, first
        self._has_constant, self._has_weights = chunk.constant is not None, chunk.weights is not None
        self._kept, self._at, self._memory = kept, at, Memory()

    @staticmethod
    def arrays(chunk: Chunk) -> list[NDArray[Any]]:
        """Return what has to be kept of a chunk."""
        units = chunk.units
        parts = [units.data, units.indices, units.indptr] if chunk.sparse else [units]
        others = [some for some in (chunk.constant, chunk.weights) if some is not None]
        return [parts[0].astype(np.float32), *parts[1:], chunk.scale, chunk.norm, chunk.y, *others]

    def __len__(self) -> int:
        return self._length

    def take(self, indices: Integers) -> _Some:
        """Return these rows, to be made a chunk when they are needed."""
        return _Some([(self, indices)])

    def load(self, indices: Integers | None = None) -> Chunk:
        """Return the chunk, which remembers its products from one time to the next, or a new one of some rows."""
        arrays, memory, first = self._kept[self._at], self._memory, self._first
        units: Matrix = sp.csr_matrix(tuple(arrays[:3]), self._shape) if self.sparse else arrays[0]
        facts = arrays[3 if self.sparse else 1 :]
        if indices is not None:
            units, facts, memory, first = units[indices], [fact[indices] for fact in facts], Memory(), -1
        scale, norm, y, *others = facts
        ones = others[0] if self._has_constant else None
        weights = others[-1] if self._has_weights else None
        rows = units.astype(np.float64)
        return Chunk(rows, ones, scale, norm, y, self._n_classes, memory, self._offset, first, weights)


class _Some:
    """Some rows of stored chunks, which become one chunk for as long as it is needed."""

    def __init__(self, picks: list[tuple[_Stored, Integers]]) -> None:
        self._picks, self._memory, self.sparse = picks, Memory(), picks[0][0].sparse

    def __len__(self) -> int:
        return sum(len(indices) for _, indices in self._picks)

    def load(self) -> Chunk:
        """Return the rows. They remember their products from one time to the next."""
        chunks = [part.load(indices) for part, indices in self._picks]
        chunk = chunks[0] if len(chunks) == 1 else Chunk.joined(chunks)
        chunk.memory = self._memory
        return chunk

    def take(self, indices: Integers) -> _Some:
        """Return some of them."""
        ends = np.cumsum([len(picked) for _, picked in self._picks])
        which = np.searchsorted(ends, indices, side="right")
        starts = ends - [len(picked) for _, picked in self._picks]
        return _Some([(part, picked[indices[which == k] - starts[k]]) for k, (part, picked) in enumerate(self._picks)])

    @staticmethod
    def joined(parts: list[_Some]) -> _Some:
        """Return the rows of all parts."""
        return _Some([pick for part in parts for pick in part._picks])


class StoredRows(ChunkRows):
    """Rows of blocks, rounded once as :class:`ArrayRows` rounds them and kept in single precision.

    ``blocks``, arrays or CSR matrices, follow one another and are asked for once; memory-mapped ones are read a few
    thousand rows at a time.
    ``y`` holds the labels of all rows. ``on_disk`` keeps the rows in a temporary file; then only the scores of the rows
    take memory. Dense rows always lie side by side: they are written faster so, and multiplied as fast.
    """

    def __init__(
        self,
        blocks: Iterable[Matrix],
        y: Labels,
        how: RowMap | None = None,
        weights: Weights | None = None,
        *,
        on_disk: bool,
    ) -> None:
        require_rows(len(y))
        how = replace(how or RowMap(), row_major=True)
        kept, stored, count, width = list[NDArray[Any]](), list[_Stored](), 0, 0
        with Scratch() if on_disk else nullcontext() as scratch:
            keep = kept.append if scratch is None else scratch.write
            for start, rows in rounded(blocks, np.asarray(y), how, weights):
                width = rows.n_features - how.n_added
                for chunk in rows._chunks():
                    arrays = _Stored.arrays(chunk)
                    stored.append(_Stored(chunk, start + chunk.first, kept, slice(count, count + len(arrays))))
                    count += len(arrays)
                    for array in arrays:
                        keep(array)
            if scratch is not None:
                kept.extend(scratch.read())
        if not stored:
            raise ValueError("there are labels, but no blocks of rows")
        super().__init__(lambda: stored, how.of_shape(len(y), width), weights)


def rounded(
    blocks: Iterable[Matrix], y: Labels, how: RowMap, weights: Weights | None = None
) -> Iterator[tuple[int, ArrayRows]]:
    """Yield the position of some rows and these rows on their grid, in order; by as many threads as joblib is told."""

    def pieces() -> Iterator[tuple[int, Matrix]]:
        start = 0
        for block in blocks:
            for rows in blocks_of(block):
                yield start + rows.start, block[rows]
            start += block.shape[0]

    def on_grid(start: int, X: Matrix) -> tuple[int, ArrayRows]:
        rows = slice(start, start + X.shape[0])
        return start, ArrayRows(X, y[rows], how, weights.part(rows) if weights else None)

    jobs = n_threads()
    if jobs == 1:
        yield from (on_grid(*piece) for piece in pieces())
        return
    todo = pieces()
    with Parallel(n_jobs=jobs, backend="threading", return_as="generator") as parallel:
        # a few at a time: a disk that is slower than the threads must not fill the memory
        while some := list(islice(todo, 2 * jobs)):
            yield from parallel(delayed(on_grid)(*piece) for piece in some)
