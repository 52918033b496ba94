"""Audits of fits on random batches: what everything that one long fit releases tells, against what was promised.

The two data sets differ in one row whose gradient is clipped in every step, beside a row without any. Weights hardly
move, so all batches of one fit are alike, and T of them are T independent looks at one batch. The attacker tosses a
coin for every batch: heads where what was released looks like the row. Exact binomial bounds on the two coins give a
lower bound on what a batch costs in the currency of the fit (data processing), hence on what the fit cost (T of them),
to be compared with the cap it promised. It exceeds the truth with probability at most ERROR_PROBABILITY per audit.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import dpsk.mechanisms.additive as additive
import dpsk.privacy.amplification as amplification
import dpsk.solvers.sampled as sampled
from dpsk import DPLineSearchClassifier, DPSGDClassifier
from dpsk.data.private import SealedRows
from dpsk.privacy import GaussianDP, RenyiDP
from dpsk.testing import ERROR_PROBABILITY

CLIP = 0.1
CUTS = (0.25, 0.5, 1.0, 1.5, 2.0)  # of what a batch gives, in units of the row's gradient
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # two rows: the fit says that it is hopeless


@pytest.fixture(autouse=True)
def _no_remembered_prices():
    for cache in (amplification._batch_rdp, sampled._planned_currency):
        cache.cache_clear()
    yield
    for cache in (amplification._batch_rdp, sampled._planned_currency):
        cache.cache_clear()


def looks(model, row, monkeypatch):
    """Return how much the releases from each batch of a fit look like a row of 1 with the label 1."""
    released, release = [], SealedRows.release

    def recorded(self, sealed, mechanism):
        released.append((sealed.label, release(self, sealed, mechanism)))
        return released[-1][1]

    with monkeypatch.context() as patch:
        patch.setattr(SealedRows, "release", recorded)
        # without an intercept a row of zeros is the same as no row
        model.set_params(random_state=row + 1).fit(np.array([[abs(row)], [0.0]]), np.array([int(row > 0), 1]))
    gradients, waited = [], []
    for label, value in released:
        if label == "gradient":
            gradients.append(-float(value[0]) / CLIP)
            waited.append(0)
        else:  # the index of the step that passes
            waited[-1] += value
    gradients, waited = np.array(gradients), np.array(waited)
    # where the row agrees with the direction, longer steps pass
    return gradients - 0.1 * np.sign(gradients) * waited


def spent(model, monkeypatch, other=0):
    """Return a lower bound on what a fit cost, in parts of its cap."""
    with_row, without = (looks(model, row, monkeypatch) for row in (1, other))
    n = min(len(with_row), len(without))
    best, level = 0.0, ERROR_PROBABILITY / (4 * len(CUTS))
    for cut in CUTS:
        heads = [int((part[:n] > cut).sum()) for part in (with_row, without)]
        for more, less in (heads, [n - heads[1], n - heads[0]]):
            p = beta.ppf(level, more, n - more + 1) if more else 0.0
            r = beta.ppf(1 - level, less + 1, n - less) if less < n else 1.0
            if p > r:
                best = max(best, price_of_coins(p, r, model.privacy_spent_.currency))
    return best * n / model.privacy_spent_.limit


def price_of_coins(p, r, currency):
    """Return the least that a release costs which tells a coin with p from one with r < p, in either direction."""

    def renyi(a):
        pairs = ((p, r), (1 - r, 1 - p), (r, p), (1 - p, 1 - r))
        return max(math.log(x**a * y ** (1 - a) + (1 - x) ** a * (1 - y) ** (1 - a)) / (a - 1) for x, y in pairs)

    if isinstance(currency, RenyiDP):
        return renyi(currency.order)
    if isinstance(currency, GaussianDP):
        return (ndtri(p) - ndtri(r)) ** 2
    return max(renyi(a) / a for a in np.arange(1.1, 20, 0.1))  # rho


COMMON = {"delta": 1e-5, "alpha": 0.0, "gradient_clip": CLIP, "fit_intercept": False, "classes": [0, 1]}


def sgd(epsilon, batches, **parameters):
    return DPSGDClassifier(epsilon * batches, steps=batches, learning_rate=1e-6, **COMMON | parameters)


def search(epsilon, batches, **parameters):
    once = {"splits": batches, "step_max": 1e-6, "candidates": 4, "fallback": True, "search_share": 0.2}
    return DPLineSearchClassifier(epsilon * batches, **COMMON | once | parameters)


FITS = {  # noise of about one gradient of the row per batch; how much of the cap the attacker has to prove
    "poisson": (lambda: sgd(0.35, 3000, sampling_rate=0.5), 0, 0.03),
    "all rows": (lambda: sgd(0.6, 1500, sampling_rate=1.0), 0, 0.25),
    "without replacement": (
        lambda: sgd(3.0, 2000, sampling_rate=0.5, sampling="without-replacement", adjacency="replace"),
        -1,
        0.03,
    ),
    "search": (lambda: search(0.4, 2000, sampling_rate=0.5), 0, 0.01),
    "search on all rows": (lambda: search(0.6, 1500, sampling_rate=1.0), 0, 0.1),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_whole_fits_on_batches_cost_no_more_than_they_say(name, monkeypatch):
    make, other, least = FITS[name]
    proved = spent(make(), monkeypatch, other)
    assert proved <= 1
    assert proved > least, f"the audit has become blind: it proves {proved:.3f} of the cap only"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "all rows", "search on all rows"])
def test_the_audit_notices_halved_noise(name, monkeypatch):
    whole = additive.noise_scale
    monkeypatch.setattr(additive, "noise_scale", lambda sensitivity, mu: max(1, whole(sensitivity, mu) // 2))
    assert spent(FITS[name][0](), monkeypatch) > 1


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "search"])
def test_the_audit_notices_a_price_at_a_tenth_of_the_rate(name, monkeypatch):
    right = amplification.poisson_rdp
    monkeypatch.setattr(amplification, "poisson_rdp", lambda order, rate, curve: right(order, rate / 10, curve))
    assert spent(FITS[name][0](), monkeypatch) > 1
