"""Canaries: units in directions of their own, each with one of two labels, which a fair coin decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.sparse import csr_matrix, issparse

from ..mechanisms.samplers import Floats
from .neighbouring import Data

_ROWS_OF_A_PERSON = 10  # more of them would make fits dear, and hardly tell more


@dataclass(frozen=True, eq=False)
class Canaries:
    """A data set of canaries. For other coins it has the same rows with other labels.

    Other rows would move the model as well, and an attacker would have to find out by how much. So there are only two,
    one of each label, in the middle of all columns: the set of labels is public, and may not depend on coins.

    Parameters
    ----------
    rows : table
        One row for each canary, and the two others at the end.
    labels : ndarray of shape (2,)
        The labels for tails and for heads.
    n : int
        How many canaries there are.
    each : int
        How many equal rows a unit has: 1, or those of a person.
    groups : ndarray or None
        Whose row it is.
    """

    rows: Any
    labels: NDArray[Any]
    n: int
    each: int = 1
    groups: NDArray[Any] | None = None

    @classmethod
    def like(cls, X: Any, y: Any, groups: Any, n: int, rng: np.random.Generator) -> Canaries:
        """Return n canaries with the columns of X and two labels of y; they are persons if there are ``groups``.

        The columns of numbers of a canary lie at the ends of what X has, with signs that make canaries as orthogonal as
        columns allow. Other columns are those of a row of X.
        """
        classes = np.unique(np.asarray(y))
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes.tolist()!r}: canaries need two labels to choose from")
        rows = _drawn_rows(X, n, rng)
        if groups is None:
            return cls(rows, classes[:2], n)
        each = _rows_of_a_person(groups)
        return cls(rows, classes[:2], n, each, np.repeat(np.arange(n + 2), each))

    def data(self, coins: NDArray[np.bool_]) -> Data:
        """Return the data set for these coins."""
        places = np.repeat(np.arange(self.n + 2), self.each)
        heads = np.concatenate([coins, [False, True]]).astype(np.intp)
        arguments: dict[str, Any] = {} if self.groups is None else {"groups": self.groups}
        frame = hasattr(self.rows, "iloc")
        rows = self.rows.iloc[places].reset_index(drop=True) if frame else self.rows[places]
        return Data(rows, self.labels[heads[places]], arguments)


def _rows_of_a_person(groups: Any) -> int:
    _, counts = np.unique(np.asarray(groups).astype(str), return_counts=True)
    return int(min(_ROWS_OF_A_PERSON, counts.max()))


def _signs(n: int, columns: int, rng: np.random.Generator) -> Floats:
    """Return a direction for each canary, as orthogonal as the number of columns allows, in [-1, 1]."""
    drawn: Floats
    if n <= columns:
        size = 1 << max(columns - 1, 0).bit_length()
        some = rng.permutation(size)[:n]
        drawn = hadamard(size)[some][:, rng.permutation(size)[:columns]] * rng.choice([-1.0, 1.0], columns)
        return drawn
    drawn = rng.standard_normal((n, columns))
    drawn /= np.abs(drawn).max(axis=1, keepdims=True)
    return drawn


def _drawn_rows(X: Any, n: int, rng: np.random.Generator) -> Any:
    if issparse(X):
        return csr_matrix(_at_ends(X.toarray(), n, rng))
    if not hasattr(X, "iloc"):
        return _at_ends(np.asarray(X, dtype=np.float64), n, rng)
    rows = X.iloc[rng.integers(len(X), size=n + 2)].reset_index(drop=True)
    numbers = [name for name in X.columns if getattr(X[name].dtype, "kind", "O") in "iuf"]
    if not numbers:
        raise ValueError("X has no column of numbers, so canaries have no directions of their own: use another attack")
    drawn = _at_ends(X[numbers].to_numpy(dtype=np.float64), n, rng)
    for column, name in enumerate(numbers):
        whole = X[name].dtype.kind in "iu"
        rows[name] = (np.rint(drawn[:, column]) if whole else drawn[:, column]).astype(X[name].dtype)
    return rows


def _at_ends(values: Floats, n: int, rng: np.random.Generator) -> Floats:
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    half = np.where(high > low, (high - low) / 2, 1.0)
    signs = np.vstack([_signs(n, values.shape[1], rng), np.zeros((2, values.shape[1]))])
    drawn: Floats = (low + high) / 2 + half * signs
    return drawn
