"""The rows that the last step of a private pipeline sees, in memory, in chunks or on a cluster."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data import Chunks, is_dask, map_rows, require_table
from ..data.arrays import blocks_of
from ..estimators.validation import is_mapped
from .in_front import NO_ROW_IS_ACCEPTED, EveryRowRefused, Step, rows_of, transformed


def seen_in_fit(front: Any, X: Any, y: Any, *, numbers: bool) -> Any:
    """Fit the steps in front, and return the training rows as the model behind them sees them.

    Where a table is not in memory, steps are fitted to its first block: they learn nothing from rows. ``numbers`` says
    that the model takes finite numbers only.
    """
    if is_dask(X):
        return _on_dask(front, X, numbers=numbers)
    if isinstance(X, Chunks) or is_mapped(X):
        return Chunks(partial(_blocks_seen, front, X, numbers=numbers))
    X, y = (given if given is None or hasattr(given, "shape") else np.asarray(given) for given in (X, y))
    return transformed(front.fit_transform, X, y, numbers=numbers)


def seen_in_prediction(front: Any, X: Any, width: int) -> Any:
    """Return rows as the model behind the steps sees them. A row that a step refuses is an error, as in scikit-learn.

    ``width`` is the number of columns that the steps make.
    """
    if is_dask(X):
        require_table(X)
        return map_rows(partial(_dense, front, np.empty((0, width))), X, width, np.dtype(float))
    if isinstance(X, Chunks) or is_mapped(X):
        return Chunks(lambda: (through(front, block) for block, _ in _blocks(X) if np.shape(block)[:1] != (0,)))
    return through(front, X)


def through(front: Any, X: Any) -> Any:
    """Return rows after fitted steps, one by one: a pipeline of stateless steps alone says that it is not fitted."""
    for _, step in front.steps:
        if step is not None and not isinstance(step, str):
            X = step.transform(X)
    return X


def _blocks(X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the blocks of rows of Chunks or of a table in a file, and their labels if they come with them."""
    if isinstance(X, Chunks):
        yield from X
    else:
        for rows in blocks_of(X):
            yield np.asarray(X[rows]), None


def _blocks_seen(front: Any, X: Any, *, numbers: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the blocks of a table as the model sees them, with their labels.

    Blocks wait until a row was accepted, which tells how rows look behind the steps.
    """
    like, waiting = None, list[tuple[Any, Any]]()
    for pair in _blocks(X):
        waiting.append(pair)
        if like is None:
            try:
                like = rows_of(transformed(front.fit_transform, *pair, numbers=numbers), slice(0, 1))
            except EveryRowRefused:
                continue
        for rows, labels in waiting:
            yield transformed(_transform_of(front), rows, labels, numbers=numbers, like=like), labels
        waiting.clear()
    if waiting:
        raise EveryRowRefused(NO_ROW_IS_ACCEPTED)


def _on_dask(front: Any, X: Any, *, numbers: bool) -> Any:
    """Return a Dask array of what the model sees. The steps are fitted here, to the first block that has rows."""
    require_table(X)
    if not numbers:
        raise ValueError(
            "a model of raw tables behind other steps takes tables in memory and dpsk.Chunks, not Dask collections: "
            "apply the steps with X.map_partitions, and fit the model alone"
        )
    blocks = X.blocks if hasattr(X, "chunks") else X.partitions
    for k in range(X.numblocks[0] if hasattr(X, "chunks") else X.npartitions):
        try:
            made = transformed(front.fit_transform, blocks[k].compute(), None)
        except EveryRowRefused:
            continue
        if sp.issparse(made):
            raise ValueError(
                "the steps in front of the model make a sparse matrix, which cannot become a Dask array: give them "
                "sparse_output=False, or hand the rows over as dpsk.Chunks"
            )
        like = np.asarray(made, dtype=np.float64)[:1]
        return map_rows(partial(_numbers, front, like), X, like.shape[1], like.dtype)
    raise EveryRowRefused(NO_ROW_IS_ACCEPTED)


def _numbers(front: Any, like: Any, block: Any) -> Any:
    return np.asarray(transformed(_transform_of(front), block, None, like=like), dtype=np.float64)


def _dense(front: Any, nothing: Any, block: Any) -> Any:
    return np.asarray(through(front, block), dtype=np.float64) if len(block) else nothing


def _transform_of(front: Any) -> Step:
    return lambda X, _: through(front, X)
