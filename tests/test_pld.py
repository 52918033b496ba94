"""Planned steps: privacy loss distributions against Renyi bounds, exact small cases, and what the ledger takes."""

import math
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from small_networks import SmallPerceptron

from dpsk import DPSGDClassifier
from dpsk.privacy import Budget, BudgetExhausted, GaussianCost, Ledger, PureCost, Sampling, best_order
from dpsk.privacy.conversions import gaussian_delta, gaussian_epsilon
from dpsk.privacy.pld import PlannedSteps

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")


def cost(plan):
    return Sampling(plan.rate).cost([GaussianCost(1 / plan.noise_multiplier)])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_one_step_equals_the_exact_profile_of_the_sampled_gaussian(epsilon):
    """delta(epsilon) of one Poisson batch by the formula of subsampled profiles (Balle, Barthe & Gaboardi 2018)."""
    rate, sigma = 0.2, 1.5
    inner = math.log1p((math.exp(epsilon) - 1) / rate)  # a row that leaves
    exact = rate * gaussian_delta(inner, 1 / sigma)
    found = PlannedSteps(rate, sigma).delta(1, epsilon)
    assert exact * (1 - 1e-10) <= found <= exact * 1.01 + 1e-9


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "steps", "epsilon"),
    [(0.1, 300, 0.2), (0.1, 300, 4.0), (0.02, 500, 1.0), (0.5, 20, 0.2), (0.5, 20, 4.0), (1.0, 30, 1.0)],
)
def test_a_plan_keeps_its_promise_with_less_noise_than_a_renyi_bound_needs(rate, steps, epsilon):
    plan = PlannedSteps.plan(rate, steps, epsilon, 1e-6)
    assert plan.delta(steps, epsilon) <= 1e-6
    assert replace(plan, noise_multiplier=plan.noise_multiplier * 0.999).delta(steps, epsilon) > 1e-6
    sampling = Sampling(rate)
    currency = best_order(sampling, lambda mu: (GaussianCost(mu),), steps, epsilon, 1e-6)
    mu = sampling.strongest(lambda mu: (GaussianCost(mu),), currency.limit(epsilon, 1e-6) / steps, currency)
    assert plan.noise_multiplier < 1 / mu < 1.35 * plan.noise_multiplier


def test_all_rows_compose_to_one_gaussian():
    plan = PlannedSteps(1.0, 20.0)
    exact = gaussian_delta(1.0, math.sqrt(50) / 20)
    assert exact <= plan.delta(50, 1.0) <= exact * 1.02


@pytest.mark.slow
def test_the_ledger_takes_the_planned_steps_and_nothing_else():
    plan = PlannedSteps.plan(0.1, 5, 1.0, 1e-6)
    ledger = Ledger(Budget(1.0, 1e-6, plan, 5.0))
    for other in (GaussianCost(0.01), PureCost(1e-9), Sampling(0.1).cost([GaussianCost(1e-3)]),
                  Sampling(0.1, "without-replacement").cost([GaussianCost(1 / plan.noise_multiplier)]),
                  Sampling(0.05).cost([GaussianCost(1 / plan.noise_multiplier)]),
                  Sampling(0.1).cost([GaussianCost(1 / plan.noise_multiplier)] * 2)):  # fmt: skip
        with pytest.raises(ValueError, match="may have no price in this currency"):
            ledger.charge(other, "other")
    for _ in range(5):
        ledger.charge(cost(plan), "batch")
    with pytest.raises(BudgetExhausted):
        ledger.charge(cost(plan), "batch")
    assert ledger.remaining == 0


@pytest.mark.slow
def test_a_budget_of_more_steps_than_it_pays_for_is_refused():
    plan = PlannedSteps.plan(0.1, 5, 1.0, 1e-6)
    with pytest.raises(ValueError, match="does not guarantee"):
        Budget(1.0, 1e-6, plan, 6.0)


@pytest.mark.slow
def test_limit_is_the_largest_number_of_steps():
    plan = PlannedSteps(0.1, 5.0)
    limit = plan.limit(1.0, 1e-6)
    assert plan.delta(limit, 1.0) <= 1e-6 < plan.delta(limit + 1, 1.0)


def test_epsilon_and_delta_are_each_other_s_inverse():
    plan = PlannedSteps(0.1, 5.0)
    epsilon = plan.epsilon(40, 1e-7)
    assert plan.delta(40, epsilon) == pytest.approx(1e-7, rel=1e-3)
    assert plan.epsilon(40, 0.0) == math.inf
    assert plan.epsilon(40.5, 1e-7) == plan.epsilon(41, 1e-7), "a part of a step counts as a step"


def test_groups_get_no_statement():
    plan = PlannedSteps(0.1, 5.0)
    assert plan.epsilon_for_group(7.0, 1e-6, 1) == plan.epsilon(7.0, 1e-6)
    assert plan.rho(7.0) is None
    with pytest.raises(ValueError, match="groups"):
        plan.epsilon_for_group(7.0, 1e-6, 2)


def test_an_epsilon_beyond_reach_is_refused():
    with pytest.raises(ValueError, match="too small"):
        PlannedSteps.plan(0.1, 5, 1e-12, 1e-300)


def test_a_delta_that_tails_hide_is_refused():
    with pytest.raises(ValueError, match=r"delta=1e-16 is too small .* use accountant='rdp'"):
        PlannedSteps.plan(0.1, 100, 1.0, 1e-16)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [100.0, 1e4])
def test_a_large_epsilon_needs_no_more_memory(epsilon):
    plan = PlannedSteps.plan(0.1, 100, epsilon, 1e-6)
    assert plan.delta(100, epsilon) <= 1e-6


# ---------------------------------------------------------------------------------------------------- the estimator


@pytest.mark.slow
def test_the_estimator_says_what_it_planned(cancer):
    model = DPSGDClassifier(2.0, 1e-5, steps=50, accountant="pld").fit(*cancer)
    report = model.privacy_spent_
    assert (report.epsilon, report.delta, report.rho) == (2.0, 1e-5, None)
    assert isinstance(report.currency, PlannedSteps)
    assert (report.charged, report.limit) == (50, 50)
    assert report.epsilon_at(1e-5) <= 2.0
    assert report.epsilon_at(1e-5) == pytest.approx(2.0, rel=1e-3)
    assert report.epsilon_at(1e-8) > 2.0 > report.epsilon_at(1e-3)
    assert "(2, 1e-05)-differential privacy" in report.statement()
    assert pickle.loads(pickle.dumps(report)) == report
    assert model.score(*cancer) > 0.7


@pytest.mark.slow
def test_the_estimator_uses_the_noise_that_was_planned(cancer, monkeypatch):
    from dpsk.mechanisms import additive

    scales = []
    whole = additive.noise_scale

    def noise_scale(sensitivity, mu):
        scales.append(1 / mu)
        return whole(sensitivity, mu)

    monkeypatch.setattr(additive, "noise_scale", noise_scale)
    model = DPSGDClassifier(2.0, 1e-5, steps=3, accountant="pld", random_state=0).fit(*cancer)
    np.testing.assert_allclose(scales, model.privacy_spent_.currency.noise_multiplier, rtol=1e-15)


def test_replaced_rows_need_twice_the_noise_on_all_rows(cancer, monkeypatch):
    """The plan is the same: noise is a multiple of the sensitivity, and that of replaced rows is twice as large."""
    from dpsk.mechanisms import additive

    asked, whole = [], additive.noise_scale
    monkeypatch.setattr(additive, "noise_scale", lambda *of: asked.append(of) or whole(*of))
    kept = {"accountant": "pld", "sampling_rate": 1.0, "steps": 1, "standardize": None, "bounds": (0, 1)}
    for adjacency in ("zero-out", "replace"):
        SmallPerceptron(2.0, 1e-5, adjacency=adjacency, **kept).fit(*cancer)
    sensitivities, strengths = (set(of) for of in zip(*asked, strict=True))
    assert len(strengths) == 1
    assert max(sensitivities) == 2 * min(sensitivities)
    assert len(sensitivities) == 2


@pytest.mark.slow
def test_the_same_plan_is_made_twice(cancer):
    models = [DPSGDClassifier(accountant="pld", steps=20, random_state=0).fit(*cancer) for _ in range(2)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_without_dp_accounting_the_remedy_is_named(cancer, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match=r'pip install "dpsk\[pld\]", or use accountant=\'rdp\''):
        DPSGDClassifier(accountant="pld").fit(*cancer)
    DPSGDClassifier(steps=3).fit(*cancer)


@pytest.mark.parametrize(("steps", "noise"), [(1000, 40.0), (100_000, 500.0)])
def test_what_fourier_transforms_lose_is_covered(steps, noise):
    """On all rows the truth is one Gaussian. Deltas far out were too small by up to 1.1e-12, and negative."""
    plan, mu = PlannedSteps(1.0, noise, 2e-4), math.sqrt(steps) / noise
    for k in range(6, 31):
        exact = 10.0**-k
        epsilon = gaussian_epsilon(exact, mu) * (1 - 1e-9)
        assert exact <= plan.delta(steps, epsilon) <= 1.5 * exact + 2 * steps * 2.0**-50
        assert plan.epsilon(steps, exact) >= epsilon
