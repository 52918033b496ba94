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

    Other rows would move the model as well, and an attacker would have to find out by how much. So there are none.

    Parameters
    ----------
    rows : table
        One row for each canary.
    labels : ndarray of shape (2,)
        The labels for tails and for heads.
    n : int
        How many canaries there are.
    each : int
        How many equal rows a canary has: 1, or those of a person.
    groups : ndarray of shape (n * each,), or None
        Whose row it is.
    """

    rows: Any
    labels: NDArray[Any]
    n: int
    each: int = 1
    groups: NDArray[Any] | None = None

    @classmethod
    def like(cls, X: Any, y: Any, groups: Any, n: int, rng: np.random.Generator, *, reach: float) -> Canaries:
        """Return n canaries with the columns of X and two labels of y; they are persons if there are ``groups``.

        The columns of numbers of a canary lie at the ends of what X has, times ``reach``, with signs that make
        canaries as orthogonal as columns allow. Other columns are those of a row of X.
        """
        classes = np.unique(np.asarray(y))
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes.tolist()!r}: canaries need two labels to choose from")
        rows = _rows(X, n, rng, reach)
        if groups is None:
            return cls(rows, classes[:2], n)
        each = _rows_of_a_person(groups)
        return cls(rows, classes[:2], n, each, np.repeat(np.arange(n), each))

    def data(self, coins: NDArray[np.bool_]) -> Data:
        """Return the data set for these coins."""
        places = np.repeat(np.arange(self.n), self.each)
        arguments: dict[str, Any] = {} if self.groups is None else {"groups": self.groups}
        rows = self.rows.iloc[places] if hasattr(self.rows, "iloc") else self.rows[places]
        return Data(rows, self.labels[coins[places].astype(np.intp)], arguments)


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


def _rows(X: Any, n: int, rng: np.random.Generator, reach: float) -> Any:
    if issparse(X):
        return csr_matrix(_at_ends(X.toarray(), n, rng, reach))
    if not hasattr(X, "iloc"):
        return _at_ends(np.asarray(X, dtype=np.float64), n, rng, reach)
    rows = X.iloc[rng.integers(len(X), size=n)].reset_index(drop=True)
    numbers = [name for name in X.columns if getattr(X[name].dtype, "kind", "O") in "iuf"]
    drawn = _at_ends(X[numbers].to_numpy(dtype=np.float64), n, rng, reach)
    for column, name in enumerate(numbers):
        whole = X[name].dtype.kind in "iu"
        rows[name] = (np.rint(drawn[:, column]) if whole else drawn[:, column]).astype(X[name].dtype)
    return rows


def _at_ends(values: Floats, n: int, rng: np.random.Generator, reach: float) -> Floats:
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    half = np.where(high > low, (high - low) / 2, 1.0)
    drawn: Floats = (low + high) / 2 + reach * half * _signs(n, values.shape[1], rng)
    return drawn
