"""Data behind a door with the budget that the estimator of a solver on random batches would open."""

from functools import lru_cache

import numpy as np

from dpsk.data import ArrayRows, PrivateData
from dpsk.mechanisms import SeededBits
from dpsk.privacy import Budget, Ledger, best_order


@lru_cache
def budget_of(solver):
    """Return the function that makes the budget this solver's estimator would have."""

    @lru_cache  # the best order takes as long as a fit
    def budget(epsilon):
        if solver.sampling.rate == 1:
            return Budget.of(epsilon, 1e-6)
        currency = best_order(solver.sampling, solver.costs, solver.planned, epsilon, 1e-6)
        return Budget.of(epsilon, 1e-6, currency=currency)

    return budget


def problem(solver, epsilon=1.0, n=2000, d=5, seed=0, adjacency="zero-out", scale=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * scale
    y = np.where(X[:, 0] + scale * rng.logistic(size=n) > 0, 1.0, -1.0)
    ledger = Ledger(budget_of(solver)(epsilon))
    return PrivateData(ArrayRows(X, y), ledger, SeededBits(seed), adjacency=adjacency)


def releases(data):
    """Return counts by label."""
    counts = {}
    for release in data.report().releases:
        counts[release.label] = counts.get(release.label, 0) + release.count
    return counts
