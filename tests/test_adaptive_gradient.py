import dataclasses

import numpy as np
import pytest

from dpsk.data import ArrayRows, PrivateData
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest
from dpsk.mechanisms import ArgMin, NoisyMin, PermuteAndFlip, SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import ZCDP, Budget, BudgetExhausted, GaussianDP, Ledger
from dpsk.solvers import run
from dpsk.solvers.adaptive_gradient import AdaptiveGradient
from dpsk.solvers.step_search import Comparison
from dpsk.testing import check_solver


@pytest.mark.slow
@pytest.mark.parametrize("selection", ["exponential", "laplace", "permute-and-flip"])
def test_conformance(selection):
    check_solver(AdaptiveGradient(selection=selection))


@pytest.mark.slow
def test_conformance_with_several_classes_and_other_losses():
    check_solver(AdaptiveGradient(), n_classes=3)
    check_solver(AdaptiveGradient(), loss=HuberHinge())
    check_solver(AdaptiveGradient(), loss=OneVsRest(Hinge(), 3), n_classes=3, tolerance=2e-2)


def test_conformance_in_mini_batches():
    """Bits are the same on all storages; steps follow batches, so the optimum is reached less closely."""
    check_solver(AdaptiveGradient(batch_size=1000), tolerance=5e-2)


@pytest.mark.slow
def test_conformance_under_gaussian_dp():
    check_solver(AdaptiveGradient(), budget=lambda epsilon: Budget.of(epsilon, 1e-6, currency=GaussianDP()))


def make_data(epsilon=1.0, n=2000, bits=0, budget=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) / 2
    y = np.where(X @ [3.0, -2, 1, 0] + rng.logistic(size=n) > 0, 1.0, -1.0)
    return PrivateData(ArrayRows(X, y), Ledger(budget or Budget.of(epsilon, 1e-6)), SeededBits(bits))


def fit(data, **parameters):
    seen = []
    objective = LinearObjective(Logistic(), L2(1e-3, free_intercept=True), (5,))
    run(AdaptiveGradient(**parameters), data, objective, seen.append)
    return seen


@pytest.mark.slow
def test_the_whole_budget_is_spent_and_not_more():
    for seed in range(20):
        data = make_data(bits=seed)
        fit(data)
        report = data.report()
        assert report.charged <= report.limit
        # what is left is less than one more measurement or choice at its price then
        assert data.remaining <= max(release.cost for release in report.releases)


def test_every_iterate_has_been_paid_for():
    """No iterate without a gradient and a choice before it; both kinds and nothing else are charged."""
    data = make_data()
    seen = fit(data)
    counts = {}
    for release in data.report().releases:
        counts[release.label] = counts.get(release.label, 0) + release.count
    assert set(counts) == {"gradient", "losses"}
    assert counts["gradient"] >= counts["losses"] >= len(seen)


def test_prices_only_grow_until_the_last():
    data = make_data(epsilon=0.3, n=300)
    fit(data)
    costs = [release.cost for release in data.report().releases if release.label == "gradient"]
    assert len(costs) > 2, "the example must raise its price, or this test tests nothing"
    full = [cost for cost in costs if cost >= costs[0]]
    assert full == sorted(full) or full[:-1] == sorted(full[:-1])


def test_a_direction_that_is_bad_is_measured_again_and_averaged_by_precision():
    """With two measurements of price p and gamma*p the average has the variance of one of price (1 + gamma)*p."""
    rng = np.random.default_rng(0)
    p, gamma = 0.5, 0.3
    first, again = rng.normal(0, np.sqrt(1 / (2 * p)), 200_000), rng.normal(0, np.sqrt(1 / (2 * gamma * p)), 200_000)
    average = (p * first + gamma * p * again) / ((1 + gamma) * p)
    assert average.var() == pytest.approx(1 / (2 * (1 + gamma) * p), rel=0.02)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1000.0, 1e5])
def test_the_first_price_never_exceeds_an_even_share(epsilon):
    """The paper's grows like epsilon squared: at 1,000 it would leave 11 iterations and at 100,000 none."""
    data = make_data(epsilon=epsilon)
    assert AdaptiveGradient(splits=60).first_price(data, 5) <= data.remaining / 120
    assert len(fit(data)) >= 10


def test_the_first_price_is_the_paper_s_or_buys_the_precision_asked_for():
    data = make_data(epsilon=0.1, n=20_000)
    paper = AdaptiveGradient(first_noise=None).first_price(data, 5)
    assert paper == pytest.approx((0.1 / 120) ** 2 / 2)
    precise = AdaptiveGradient(first_noise=0.06).first_price(data, 5)
    assert precise > paper
    sigma = 1 / np.sqrt(2 * precise)  # in units of the clip
    assert sigma * np.sqrt(5) == pytest.approx(0.06 * 20_000)
    batched = AdaptiveGradient(first_noise=0.06, batch_size=18_000).first_price(data, 5)
    assert batched == pytest.approx(precise * (20 / 18) ** 2)  # the noise is that of a batch's rows


@pytest.mark.parametrize(
    ("selection", "kind"), [("exponential", ArgMin), ("laplace", NoisyMin), ("permute-and-flip", PermuteAndFlip)]
)
def test_selection_chooses_its_mechanism_at_the_price_given(selection, kind, monkeypatch):
    chooser = Comparison(1.0, selection).priced(1e-4, make_data().currency)
    assert isinstance(chooser, kind)
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(Comparison, "priced", lambda search, *rest: seen.append(search) or chooser)
        fit(make_data(), selection=selection, loss_clip=1.5)
    assert seen == [Comparison(1.5, selection)]
    assert ZCDP().price(chooser.cost) == pytest.approx(1e-4, rel=1e-9)


def test_the_step_range_adapts():
    """A range that is far too large at first shrinks until steps are found."""
    wide = fit(make_data(epsilon=50.0), step_max=64.0)
    first, last = np.linalg.norm(wide[0]), np.linalg.norm(wide[-1] - wide[-2])
    assert first >= 64 / 20
    assert last < 64 / 20 / 2


def test_a_budget_too_small_for_one_iterate_is_an_error():
    data = make_data(n=50, epsilon=1e-12)
    with pytest.raises(ValueError, match="larger epsilon"):  # the noise would not fit on the grid
        fit(data)
    assert data.report().charged == 0
    outcomes = set()
    for seed in range(40):  # one gradient, one choice: if the choice is to stay, there is no iterate
        data = make_data(n=50, epsilon=0.1, bits=seed)
        try:
            outcomes.add(len(fit(data, splits=1)))
        except BudgetExhausted as error:
            outcomes.add("raise epsilon" in str(error))
    assert outcomes == {1}


def test_batches_cover_the_rows_before_any_comes_twice():
    data = make_data(n=100)
    data._rows.total = None  # measuring all rows would be a bug
    seen = []
    subset = data._rows.subset
    data._rows.subset = lambda indices: (seen.append(indices), subset(indices))[1]
    for _ in range(4):
        assert data.batch(25).n_rows == 25
    assert sorted(np.concatenate(seen)) == list(range(100))
    assert data.batch(None) is data
    assert data.batch(100) is data


def test_a_batch_spends_from_the_same_budget():
    data = make_data(n=500)
    fit(data, batch_size=100)
    assert data.report().charged > 0.5 * data.report().limit


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        AdaptiveGradient().splits = 3
