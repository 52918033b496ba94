"""Audits of whole fits for persons: what an attacker can tell about a person with several rows.

Two data sets differ in the labels of all rows of one person (replaced persons are neighbours under
``adjacency="replace"``). Otherwise as in ``test_audit.py``: the worst case for the sum of clipped gradients, and exact
binomial bounds, which exceed the truth with probability at most ERROR_PROBABILITY per audit.
"""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from dpsk import DPGradientDescentClassifier, DPLogisticRegression, OutputPerturbationLogisticRegression
from dpsk.data.persons import Persons
from dpsk.data.weights import ONE
from dpsk.privacy.conversions import gaussian_epsilon
from dpsk.testing import ERROR_PROBABILITY

EPSILON, DELTA, FITS, ROWS = 10.0, 1e-5, 400, 5
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.slow, pytest.mark.thorough]

X = np.repeat([[1.0], [0.0]], ROWS, axis=0)
PERSON = np.repeat([7, 8], ROWS)


def epsilon_lower_bound(make, groups=PERSON, fits=FITS):
    """Return a lower bound on the epsilon for the first person, from so many models on each of two neighbours."""
    counts = []
    for label in (1, 0):
        y = np.repeat([label, 1], ROWS)
        models = (make(seed).fit(X, y, groups=groups) for seed in range(label * fits, (label + 1) * fits))
        counts.append(sum(model.coef_[0, 0] > 0 for model in models))
    level = ERROR_PROBABILITY / 2
    true = beta.ppf(level, counts[0], fits - counts[0] + 1) if counts[0] else 0.0
    false = beta.ppf(1 - level, counts[1] + 1, fits - counts[1]) if counts[1] < fits else 1.0
    mu = ndtri(true) - ndtri(false)
    return gaussian_epsilon(DELTA, mu) if mu > 0 else 0.0


def descent(seed, **parameters):
    plain = {"steps": 4, "momentum": 0.0, "average": 1e-9, "alpha": 0.0, "step_size": 1e-3, "gradient_clip": 0.1}
    common = {"adjacency": "replace", "fit_intercept": False, "classes": [0, 1], "random_state": seed}
    return DPGradientDescentClassifier(EPSILON, DELTA, **common, **plain | parameters)


def default(seed):
    common = {"adjacency": "replace", "fit_intercept": False, "classes": [0, 1], "random_state": seed}
    return DPLogisticRegression(EPSILON, DELTA, bounds=(-1, 1), **common)


def output(seed):
    common = {"adjacency": "replace", "fit_intercept": False, "classes": [0, 1], "random_state": seed}
    return OutputPerturbationLogisticRegression(EPSILON, DELTA, **common)


FITS_OF = {
    "bounds": lambda seed: descent(seed, bounds=(-1, 1)),
    "ranges": descent,
    "default": default,
    "output": output,
}


@pytest.mark.parametrize("name", FITS_OF)
def test_fits_for_persons_cost_no_more_than_they_say(name):
    bound = epsilon_lower_bound(FITS_OF[name])
    assert bound <= EPSILON
    if name in ("bounds", "ranges"):  # momentum, averaging and penalties blur what the attacker sees
        assert bound > 2.5, f"the audit has become blind: it proves {bound:.2f} only"


@pytest.mark.parametrize("name", ["bounds", "ranges"])
def test_a_fit_for_rows_that_is_sold_as_one_for_persons_is_caught(name):
    assert epsilon_lower_bound(FITS_OF[name], groups=None) > EPSILON


@pytest.mark.parametrize("name", ["bounds"])
def test_weights_that_do_not_add_up_to_one_are_caught(name, monkeypatch):
    monkeypatch.setattr(Persons, "weights", property(lambda self: np.full(len(self.codes), ONE, dtype=np.int32)))
    assert epsilon_lower_bound(FITS_OF[name]) > EPSILON


@pytest.mark.parametrize("name", ["bounds"])
def test_a_person_whose_ids_are_split_is_caught(name):
    """As codes of categories would do that are local to a partition."""
    split = np.array([f"{person}-{row}" for row, person in enumerate(PERSON)])
    assert epsilon_lower_bound(FITS_OF[name], groups=split) > EPSILON
