"""Audits of whole fits: what an attacker can tell from released models, against what was promised.

Two data sets differ in the label of one row (replaced rows are neighbours under ``adjacency="replace"``). The row's
gradients are clipped in every step and the others are 0, so this is the worst case: all gradients together are worth
2C against the noise of the whole budget. The attacker looks at the sign of the coefficient of fresh fits.

mu-GDP bounds what any test can do: Phi^-1(true positives) - Phi^-1(false positives) <= mu (Dong, Roth & Su 2022). Exact
binomial bounds turn counts into a lower bound on mu, hence on epsilon at the promised delta. It exceeds the truth with
probability at most ERROR_PROBABILITY per audit.
"""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import dpsk.mechanisms.additive as additive
from dpsk import DPGradientDescentClassifier, DPLogisticRegression
from dpsk.privacy.conversions import gaussian_epsilon
from dpsk.queries import GradientSum
from dpsk.testing import ERROR_PROBABILITY

EPSILON, DELTA, FITS = 10.0, 1e-5, 400
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # two rows: the fit says that it is hopeless


def epsilon_lower_bound(make):
    """Return a lower bound on the epsilon of whole fits, from FITS models on each of two neighbours."""
    X = np.array([[1.0], [0.0]])
    counts = []
    for label in (1, 0):
        fits = (make(seed).fit(X, np.array([label, 1])) for seed in range(label * FITS, (label + 1) * FITS))
        counts.append(sum(model.coef_[0, 0] > 0 for model in fits))
    level = ERROR_PROBABILITY / 2
    true = beta.ppf(level, counts[0], FITS - counts[0] + 1) if counts[0] else 0.0
    false = beta.ppf(1 - level, counts[1] + 1, FITS - counts[1]) if counts[1] < FITS else 1.0
    mu = ndtri(true) - ndtri(false)
    return gaussian_epsilon(DELTA, mu) if mu > 0 else 0.0


def descent(seed, **parameters):
    # plain descent without averaging: the model is the sum of all noisy gradients, the best statistic there is
    plain = {"steps": 4, "momentum": 0.0, "average": 1e-9, "alpha": 0.0, "step_size": 1e-3, "gradient_clip": 0.1}
    return DPGradientDescentClassifier(
        EPSILON,
        DELTA,
        adjacency="replace",
        fit_intercept=False,
        classes=[0, 1],
        random_state=seed,
        **plain | parameters,
    )


FITS_OF = {
    "bounds": lambda seed: descent(seed, bounds=(-1, 1)),
    "ranges": descent,
    "as it is": lambda seed: descent(seed, standardize=None),
    "default": lambda seed: DPLogisticRegression(
        EPSILON, DELTA, adjacency="replace", fit_intercept=False, classes=[0, 1], bounds=(-1, 1), random_state=seed
    ),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", FITS_OF)
def test_whole_fits_cost_no_more_than_they_say(name):
    bound = epsilon_lower_bound(FITS_OF[name])
    assert bound <= EPSILON
    if name != "default":  # momentum and averaging blur what the attacker sees
        assert bound > 2.5, f"the audit has become blind: it proves {bound:.2f} only"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["bounds", "ranges", "as it is"])
def test_the_audit_notices_halved_noise(name, monkeypatch):
    whole = additive.noise_scale
    monkeypatch.setattr(additive, "noise_scale", lambda sensitivity, mu: max(1, whole(sensitivity, mu) // 2))
    assert epsilon_lower_bound(FITS_OF[name]) > EPSILON


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["bounds", "as it is"])
def test_the_audit_notices_a_forgotten_clip(name, monkeypatch):
    clipped = GradientSum.__call__

    def unclipped(self, chunk):
        chunk.norm = chunk.norm * 1e-3  # the query believes that rows are short and need no clipping
        return clipped(self, chunk)

    monkeypatch.setattr(GradientSum, "__call__", unclipped)
    assert epsilon_lower_bound(FITS_OF[name]) > EPSILON
