"""Audits by one run: the bound on right guesses, against every mechanism there is; and attacks on whole fits."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom

from dpsk import DPLogisticRegression
from dpsk.audit.canaries import Canaries
from dpsk.audit.claims import Claim
from dpsk.audit.guesses import Guesses, together
from dpsk.audit.neighbouring import Data
from dpsk.audit.one_run import Run, one_run
from dpsk.privacy.currencies import GaussianDP, PureDP


def best_of_all_mechanisms(guesses, epsilon, delta):
    """Return the largest probability of so many right guesses, by linear programming over all mechanisms.

    What is released is which coins are guessed, and how: any attacker is a part of the mechanism. The variables are the
    probabilities of each release for each setting of the coins, and how much of each exceeds what a neighbour allows.
    """
    m, grown = guesses.coins, np.exp(epsilon)
    settings = list(itertools.product((0, 1), repeat=m))
    releases = [
        (who, how)
        for who in itertools.combinations(range(m), guesses.made)
        for how in itertools.product((0, 1), repeat=guesses.made)
    ]
    pairs = [(i, settings.index((*s[:c], 1 - s[c], *s[c + 1 :]))) for i, s in enumerate(settings) for c in range(m)]
    S, R = len(settings), len(releases)
    win = [
        [sum(s[c] == g for c, g in zip(who, how, strict=True)) >= guesses.right for who, how in releases]
        for s in settings
    ]
    cost = np.concatenate([np.ravel(win) / -S, np.zeros(len(pairs) * R)])
    chosen = sp.eye(S).tocsr()
    one, other = chosen[[i for i, _ in pairs]], chosen[[j for _, j in pairs]]
    differences = sp.kron(one - grown * other, sp.eye(R))
    sums = sp.kron(sp.eye(len(pairs)), np.ones((1, R)))
    above = sp.bmat([[differences, -sp.eye(len(pairs) * R)], [sp.csr_matrix((len(pairs), S * R)), sums]])
    found = linprog(
        cost,
        A_ub=above.tocsr(),
        b_ub=np.concatenate([np.zeros(len(pairs) * R), np.full(len(pairs), delta)]),
        A_eq=sp.hstack([sp.kron(sp.eye(S), np.ones((1, R))), sp.csr_matrix((S, len(pairs) * R))]).tocsr(),
        b_eq=np.ones(S),
        bounds=(0, None),
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.5, 0.0), (0.5, 0.05), (1.5, 0.01)])
@pytest.mark.parametrize(("made", "coins"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3)])
def test_no_mechanism_allows_more_right_guesses_and_one_allows_as_many(made, coins, epsilon, delta):
    for right in range(made + 1):
        guesses = Guesses(right, made, coins)
        assert guesses.probability(epsilon, delta) == pytest.approx(
            best_of_all_mechanisms(guesses, epsilon, delta), abs=1e-7
        )
