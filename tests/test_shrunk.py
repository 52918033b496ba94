"""The factor that makes probabilities right, from counts of rows by label and score."""

import numpy as np
import pytest
from scipy.special import logsumexp

from dpsk.queries.outcomes import log_odds_of_winner
from dpsk.solvers import shrunk


def counts_of(scores, y, edges):
    """Return the exact counts of right and wrong predictions by log-odds, or of labels by score."""
    if scores.ndim == 1:
        return np.array([np.histogram(np.clip(scores[y == k], -8, 8), edges)[0] for k in (0, 1)], dtype=float)
    odds = np.clip(log_odds_of_winner(scores), -8, 8)
    right = scores.argmax(axis=1) == y
    return np.array([np.histogram(odds[right == k], edges)[0] for k in (False, True)], dtype=float)


@pytest.mark.parametrize("wanted", [0.5, 0.8, 1.0, 1.6])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("spread", [0.7, 2.5])
def test_the_factor_of_scores_is_found_for_any_number_of_classes(n_classes, spread, wanted):
    """Labels follow the probabilities of ``wanted`` times the scores."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40_000, n_classes)) * spread
    true = wanted * scores + rng.gumbel(size=scores.shape)
    y = true.argmax(axis=1)
    given = scores[:, 1] - scores[:, 0] if n_classes == 2 else scores
    known = None if n_classes == 2 else n_classes
    counts = counts_of(given, y, shrunk.EDGES)

    def excess(factor):
        return loss_of(scores * factor, y) - loss_of(scores * wanted, y)

    found = shrunk.factor(counts, 1.0, known)
    assert excess(found) < 0.04
    if (n_classes, spread, wanted) == (10, 0.7, 1.6):  # as if the winner had a single rival
        assert excess(shrunk.factor(counts, 1.0, None)) > 0.1


def loss_of(scores, y):
    return float((logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]).mean())


def test_where_noise_is_all_the_factor_is_the_usual_one():
    for known in (None, 3, 10):
        counts = np.random.default_rng(0).normal(size=(2, len(shrunk.EDGES) - 1)) * 1e4 + 100
        usual, _ = shrunk._USUAL if known is None else shrunk._USUAL_OF_SEVERAL
        assert 0.7 * usual < shrunk.factor(counts, 1e5, known) < 1.5 * usual
