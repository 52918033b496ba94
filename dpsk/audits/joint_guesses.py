"""The probability of right guesses under a promise with a whole profile: smaller than under each of its pairs alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, identity, kron, spmatrix, vstack

from ..mechanisms.samplers import Floats
from .coins import Profile
from .guesses import Guesses

_EPSILONS = 16  # more of them gain less than a percent
_LARGEST = 2000  # guesses, above which a program takes too long
_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class Certificate:
    """Numbers for which theorem 17.8 bounds a probability, whatever solver found them.

    Parameters
    ----------
    epsilons : ndarray of shape (k,)
    slopes : ndarray of shape (k,)
        What each unit of the delta at each epsilon adds.
    constant : float
        The bound where all deltas are 0.
    """

    epsilons: Floats
    slopes: Floats
    constant: float

    def probability(self, promised: Profile) -> float:
        """Return the bound for a promise: docs/guarantees.md, 17.8."""
        return float(self.constant + self.slopes @ promised(self.epsilons))

    @classmethod
    def of(cls, guesses: Guesses, epsilons: Floats, weights: Floats) -> Certificate:
        """Return what weights >= 0 of shape (k, made) prove: for each epsilon, and for 1 to ``made`` right guesses."""
        weights = np.maximum(weights, 0.0)
        wins = np.arange(guesses.made + 1) >= guesses.right
        left = np.sum([_gains(guesses.made, e) @ a for e, a in zip(epsilons, weights, strict=True)], axis=0)
        largest = weights.max(axis=1)
        rounding = _ROUNDING * (1 + float(np.exp(epsilons) @ largest))
        slopes = largest * guesses.coins / guesses.made * (1 + 1e-9)
        return cls(epsilons, slopes, float((wins - left).max()) + rounding)


def _gains(made: int, epsilon: float) -> spmatrix:
    """Return the matrix from weights a_1, ..., a_made to a_w w/made - e^epsilon a_(w+1) (made - w)/made."""
    w = np.arange(made)
    right, wrong = (w + 1) / made, np.exp(epsilon) * (made - w) / made
    places = np.concatenate([w + 1, w]), np.concatenate([w, w])
    return csr_matrix((np.concatenate([right, -wrong]), places), shape=(made + 1, made))


@dataclass(eq=False)
class Joint:
    """Which promises what was seen leaves standing; certificates are added where they are needed.

    Parameters
    ----------
    guesses : Guesses
    error : float
        A promise is refuted if what was seen is less probable than that.
    """

    guesses: Guesses
    error: float
    certificates: list[Certificate] = field(default_factory=list)
    _last: Floats | None = None

    def allows(self, promised: Profile) -> bool:
        """Return whether no certificate refutes a promise: for each epsilon, the delta for one coin."""
        if not self.certificates:
            self._last = promised(self._epsilons)
            return True
        allowed = all(one.probability(promised) >= self.error for one in self.certificates)
        if allowed:
            self._last = promised(self._epsilons)
        return allowed

    def add(self) -> bool:
        """Add the certificate against the last promise that was allowed; return whether there is one."""
        if self._last is None or self.guesses.right == 0 or self.guesses.made > _LARGEST:
            return False
        found = _best(self.guesses, self._epsilons, self._last)
        if found is not None:
            self.certificates.append(found)
        return found is not None

    @property
    def _epsilons(self) -> Floats:
        made, right = self.guesses.made, self.guesses.right
        return np.linspace(0.0, max(0.5, 1.5 * np.log((right + 0.5) / (made - right + 0.5))), _EPSILONS)


def _best(guesses: Guesses, epsilons: Floats, deltas: Floats) -> Certificate | None:
    """Return the certificate with the least bound for these deltas, as a linear program finds it."""
    made, k = guesses.made, len(epsilons)
    wins = (np.arange(made + 1) >= guesses.right).astype(np.float64)
    gains = hstack([_gains(made, e) for e in epsilons])
    # variables: the weights (k blocks of `made`), the largest of each block, the constant
    covered = hstack([-gains, csr_matrix((made + 1, k)), csr_matrix(-np.ones((made + 1, 1)))])
    blocks = kron(identity(k), np.ones((made, 1)))
    below = hstack([identity(k * made), -blocks, csr_matrix((k * made, 1))])
    cost = np.concatenate([np.zeros(k * made), deltas * guesses.coins / made, [1.0]])
    limits = np.concatenate([-wins, np.zeros(k * made)])
    found = linprog(cost, A_ub=vstack([covered, below]).tocsr(), b_ub=limits, bounds=(0, None), method="highs-ipm")
    if found.x is None or not np.isfinite(found.x).all():
        return None
    return Certificate.of(guesses, epsilons, found.x[: k * made].reshape(k, made))
