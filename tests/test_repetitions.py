"""The number of runs is drawn with exactly the probabilities of its law."""

import numpy as np
import pytest
from scipy.stats import chi2, poisson

from dpsk.mechanisms import SeededBits
from dpsk.mechanisms.repetitions import repetitions
from dpsk.privacy.repetition import Poisson, TruncatedNegativeBinomial

DRAWS = 4000


def probabilities(law, upto):
    if isinstance(law, Poisson):
        return poisson.pmf(np.arange(upto), law.mean)
    weights = [0.0, 1.0]
    for k in range(2, 5000):
        weights.append(weights[-1] * (1 - law.gamma) * (k - 1 + law.eta) / k)
    return np.array(weights[:upto]) / sum(weights)


QUICK = [TruncatedNegativeBinomial(0.4, 0.3), Poisson(0.3)]
LAWS = [
    TruncatedNegativeBinomial(1.0, 0.2),
    TruncatedNegativeBinomial(0.0, 0.1),
    TruncatedNegativeBinomial(-0.5, 0.1),
    TruncatedNegativeBinomial(2.3, 0.4),
    TruncatedNegativeBinomial(3.0, 0.8),
    Poisson(4.2),
]


@pytest.mark.parametrize("law", [*QUICK, *(pytest.param(law, marks=pytest.mark.slow) for law in LAWS)], ids=repr)
def test_draws_follow_the_law(law):
    """Chi-square at error probability 1e-6 per law, for a fixed seed."""
    bits = SeededBits(0)
    draws = np.array([repetitions(law, bits) for _ in range(DRAWS)])
    expected = DRAWS * probabilities(law, 60)
    cells = np.flatnonzero(expected >= 8)
    counts = np.array([(draws == k).sum() for k in cells])
    statistic = ((counts - expected[cells]) ** 2 / expected[cells]).sum()
    rest = DRAWS - expected[cells].sum()
    if rest > 0:
        statistic += (DRAWS - counts.sum() - rest) ** 2 / max(rest, 1.0)
    assert statistic < chi2.isf(1e-6, len(cells))
    assert (draws.min() >= 1) == isinstance(law, TruncatedNegativeBinomial)
