"""Problems whose minimisers are known to the last digits, for a sample as well.

The population has a finite number of points: d orthonormal directions (rotated, so that rows are dense), each equally
likely, with label +1 for a share of 0.85 to 0.6 of its rows. Risks are then sums of functions of one coordinate. This
file computes them and their minimisers without the library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .inside import paper_mu

__all__ = ["LIPSCHITZ", "MU", "PROBLEMS", "RADIUS", "Population", "Problem", "part"]

MU, RADIUS, LIPSCHITZ = 0.05, 4.0, 1.0


@dataclass(frozen=True)
class Problem:
    """A class of functions of the paper: a loss, and whether the penalty belongs to the objective."""

    name: str
    loss: str
    strongly: bool

    @property
    def smooth(self) -> bool:
        return self.loss == "logistic"

    @property
    def mu(self) -> float:
        return MU if self.strongly else 0.0

    @property
    def beta(self) -> float:
        """Smoothness of the loss of a row of norm 1."""
        return 0.25 if self.smooth else math.inf

    @property
    def sizes(self) -> tuple[int, ...]:
        first = 1000 if self.smooth else 500
        return tuple(first * 2**k for k in range(7 if self.smooth else 6))

    def bound(self, risk: str, d: int, n: int, epsilon: float, delta: float) -> float:
        """Return the paper's bound for its conceptual algorithm: the constants of its other theorems are larger."""
        a, pure, lipschitz = part(d, n, epsilon, delta), delta == 0, LIPSCHITZ
        empirical = risk == "empirical"
        if self.strongly and self.smooth:
            kappa = (self.beta + MU) / MU
            return lipschitz**2 / MU * (4 * kappa * a**2 + (0 if empirical else 2 / n))
        if self.strongly:
            constant = 2 if pure or not empirical else math.sqrt(2)
            return lipschitz**2 / MU * (constant * a + (0 if empirical else 2 / n))
        if self.smooth:
            constant = 48.5 if empirical else 83 if pure else 43
            size = self.beta ** (1 / 3) * lipschitz ** (2 / 3) * RADIUS ** (4 / 3)
            return size * (constant * a ** (2 / 3) + (0 if empirical else 11 / math.sqrt(n)))
        constant = 8.5 if empirical else 127 if pure else 19
        return lipschitz * RADIUS * (constant * math.sqrt(a) + (0 if empirical else 1 / (2 * math.sqrt(n))))

    def applies(self, d: int, n: int, epsilon: float, delta: float) -> bool:
        """Return whether the assumptions hold under which the bound is stated."""
        a = part(d, n, epsilon, delta)
        if self.smooth and not self.strongly:
            return a**2 <= LIPSCHITZ / (RADIUS * self.beta)
        return a <= 1

    def risk(self, shares: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the objective where ``shares[j]`` of all rows are direction j with labels +1 and -1."""
        phi = (lambda m: np.logaddexp(0, -m)) if self.smooth else (lambda m: np.maximum(0, 1 - m))
        return (shares[:, 0] * phi(u) + shares[:, 1] * phi(-u) + self.mu / 2 * u * u).sum(axis=-1)

    def minimiser(self, shares: np.ndarray, penalty: float | None = None) -> np.ndarray:
        """Return the minimiser of the objective, or of the loss with another penalty."""
        ahead, behind = shares.T
        penalty = self.mu if penalty is None else penalty
        if not self.smooth:
            return np.clip((ahead - behind) / penalty, -1, 1) if penalty else np.sign(ahead - behind)
        if not penalty:
            return np.log(ahead / behind)
        high = np.full(len(shares), LIPSCHITZ / penalty)
        low = -high
        for _ in range(100):
            u = (low + high) / 2
            rises = (ahead + behind) / (1 + np.exp(-u)) - ahead + penalty * u > 0
            low, high = np.where(rises, low, u), np.where(rises, u, high)
        return (low + high) / 2


PROBLEMS = (
    Problem("smooth, strongly convex", "logistic", True),
    Problem("non-smooth, strongly convex", "hinge", True),
    Problem("smooth, convex", "logistic", False),
    Problem("non-smooth, convex", "hinge", False),
)


def part(d: int, n: int, epsilon: float, delta: float) -> float:
    """Return d/(epsilon n), or sqrt(d)(c + sqrt(c² + epsilon))/(epsilon n): the paper's noise, and its bounds' a."""
    return d / (epsilon * n) if delta == 0 else math.sqrt(2 * d) / (paper_mu(epsilon, delta) * n)


class Population:
    """Points of norm 1 in d orthonormal directions, with two labels each."""

    def __init__(self, d: int) -> None:
        self.axes = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
        right = np.linspace(0.85, 0.6, d)
        self.shares = np.stack([right, 1 - right], axis=1) / d

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, labels, and the shares of the sample."""
        d = len(self.shares)
        counts = rng.multinomial(n, self.shares.ravel())
        points = np.repeat(np.arange(2 * d), counts)
        return self.axes[points // 2], np.where(points % 2, -1, 1), counts.reshape(d, 2) / n
