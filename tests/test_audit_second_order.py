"""Audits of noisy Hessians: what an attacker can tell from them, against what was promised.

As in ``test_audit``: the attacker's best test of a mu-GDP release has Phi^-1(true positives) - Phi^-1(false positives)
of at most mu; exact binomial bounds turn counts into a lower bound on mu that exceeds the truth with probability at
most ERROR_PROBABILITY.
"""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import dpsk.mechanisms.additive as additive
from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Logistic, Sigmoid
from dpsk.mechanisms import SeededBits, SymmetricGaussian
from dpsk.privacy import Budget, Ledger
from dpsk.queries import HessianSum
from dpsk.testing import ERROR_PROBABILITY

MU, DRAWS = 2.0, 1000


def mu_lower_bound(true, false, times):
    level = ERROR_PROBABILITY / 2
    true = beta.ppf(level, true, times - true + 1) if true else 0.0
    false = beta.ppf(1 - level, false + 1, times - false) if false < times else 1.0
    return ndtri(true) - ndtri(false)


def hessian_audit(loss, w, rows, others, labels, adjacency):
    """Return a lower bound on mu from noisy Hessians of two neighbours, looked at along their difference."""

    def released(X, y, seed):
        bits = SeededBits(seed)
        data = PrivateData(
            ArrayRows(np.array(X), np.array(y), RowMap(fit_intercept=False)),
            Ledger(Budget.from_rho(1e6, 1e-6)),
            bits,
            adjacency=adjacency,
        )
        sealed = data.measure(HessianSum(loss, np.array(w), clip=0.1))
        return np.array([data.release(sealed, SymmetricGaussian(MU)) for _ in range(DRAWS)])

    def true(X, y):
        query = HessianSum(loss, np.array(w), clip=0.1)
        return ArrayRows(np.array(X), np.array(y), RowMap(fit_intercept=False)).total(query) * query.unit

    difference = true(rows, labels[0]) - true(others, labels[1])
    middle = np.vdot(difference, true(rows, labels[0]) + true(others, labels[1])) / 2
    along = [
        np.einsum("njk,jk->n", released(X, y, seed), difference) > middle
        for seed, (X, y) in enumerate(((rows, labels[0]), (others, labels[1])))
    ]
    return mu_lower_bound(along[0].sum(), along[1].sum(), DRAWS)


EAST, NORTH, NONE = [[5.0, 0.0, 0.0]], [[0.0, 3.0, 4.0]], [[0.0, 0.0, 0.0]]
CASES = {
    "a row leaves": (Logistic(), [0.0, 0.0, 0.0], EAST, NONE, ([1.0], [1.0]), "zero-out"),
    "off the diagonal": (Logistic(), [0.0, 0.0, 0.0], NORTH, NONE, ([1.0], [1.0]), "zero-out"),
    "a row is replaced": (Logistic(), [0.0, 0.0, 0.0], EAST, NORTH, ([1.0], [1.0]), "replace"),
    "a label is replaced": (Sigmoid(), [0.2, 0.0, 0.0], EAST, EAST, ([1.0], [-1.0]), "replace"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_noisy_hessians_cost_what_they_say_and_no_more(case):
    """Each case is the worst there is, so the bound comes close to mu."""
    bound = hessian_audit(*CASES[case])
    assert 0.65 * MU < bound <= MU


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_audit_notices_too_little_noise(case, monkeypatch):
    whole = additive.noise_scale
    monkeypatch.setattr(additive, "noise_scale", lambda sensitivity, mu: int(whole(sensitivity, mu) / 1.8))
    assert hessian_audit(*CASES[case]) > MU
