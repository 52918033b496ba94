"""The schedule of noisy gradient descent, and that it descends."""

import math

import numpy as np
import pytest

from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Softmax
from dpsk.mechanisms import SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import ZCDP, Budget, BudgetExhausted, GaussianDP, Ledger
from dpsk.solvers import run
from dpsk.solvers.descent_noise import STAGES, first_averaged, tapered
from dpsk.solvers.gradient_descent import GradientDescent
from dpsk.solvers.precision import gradient_precision
from dpsk.testing import check_solver


def problem(epsilon=1.0, n=2000, d=5, n_classes=None, adjacency="zero-out", seed=0, currency=None, still=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (not still)
    y = (
        np.where(X[:, 0] + rng.logistic(size=n) > 0, 1.0, -1.0)
        if n_classes is None
        else rng.integers(n_classes, size=n)
    )
    ledger = Ledger(Budget.of(epsilon, 1e-6, currency=currency or GaussianDP()))
    return PrivateData(
        ArrayRows(X, y, RowMap(n_classes, fit_intercept=not still)), ledger, SeededBits(seed), adjacency=adjacency
    )


def iterates(solver, data, loss=None, penalty=None, shape=None):
    objective = LinearObjective(loss or Logistic(), penalty or L2(1e-4, True), shape or (data.n_parameters,))
    return list(solver.iterates(data, objective))


def spent(data):
    return {release.label: (release.count, release.cost) for release in data.report().releases}


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Hinge()], ids=lambda loss: type(loss).__name__)
def test_it_passes_check_solver(loss):
    # at the largest budget 300 steps still leave the hinge a little above its kinked optimum
    tolerance = 0.03 if isinstance(loss, Hinge) else 0.01
    check_solver(
        GradientDescent(),
        loss=loss,
        budget=lambda epsilon: Budget.of(epsilon, 1e-6, currency=GaussianDP()),
        tolerance=tolerance,
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Softmax(3), OneVsRest(HuberHinge(), 3)], ids=["softmax", "one-vs-rest"])
def test_it_passes_check_solver_with_several_classes(loss):
    check_solver(
        GradientDescent(),
        loss=loss,
        n_classes=3,
        budget=lambda epsilon: Budget.of(epsilon, 1e-6, currency=GaussianDP()),
    )


def prices_of(data):
    """Return what each gradient cost, in the order of the run: they are recorded when they first occur."""
    return [r.cost for r in data.report().releases if r.label == "gradient" for _ in range(r.count)]


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_every_step_buys_the_same_without_a_taper_and_all_is_spent(steps):
    data = problem()
    assert len(iterates(GradientDescent(steps=steps, taper=0.0), data)) == steps
    releases = spent(data)
    assert releases["row norms"][0] == 1
    count, cost = releases["gradient"]
    assert count == steps
    assert steps * cost + releases["row norms"][1] == pytest.approx(data.budget.limit, rel=1e-9)


@pytest.mark.parametrize("taper", [0.3, 0.999, None])
@pytest.mark.parametrize("steps", [1, 2, 7, 40, 133])
@pytest.mark.parametrize(("currency", "epsilon"), [(GaussianDP(), 0.3), (ZCDP(), 0.3), (GaussianDP(), 1e-3)], ids=str)
def test_tapered_prices_add_up_to_what_is_left(currency, epsilon, steps, taper):
    """Every release has a price of its own. All fit, and hardly anything is left over."""
    data = problem(epsilon, currency=currency)
    assert len(iterates(GradientDescent(steps=steps, taper=taper), data)) == steps
    prices = prices_of(data)
    assert len(prices) == steps
    assert math.fsum(prices) + spent(data)["row norms"][1] <= data.budget.limit
    assert math.fsum(prices) + spent(data)["row norms"][1] == pytest.approx(data.budget.limit, rel=1e-9)
    assert min(prices) > 0
    np.testing.assert_allclose(
        np.array(prices) / prices[0],
        tapered(steps, steps - math.ceil(steps / 2), 1.0 if taper is None else taper),
        rtol=1e-9,
    )


@pytest.mark.parametrize("average", [0.5, 0.2, 1.0, 1e-9])
def test_prices_fall_from_where_averaging_begins(average):
    for steps in (1, 3, 50, 300):
        first = first_averaged(steps, average)
        prices = tapered(steps, first, 1.0)
        assert (prices[: first + 1] == 1).all()
        assert (np.diff(prices) <= 0).all()
        assert prices[-1] > 0
        assert len(set(prices)) <= STAGES
        line = 1 - (np.arange(steps) - first) / (steps - first)
        stages = min(STAGES, steps - first)
        assert ((prices >= line - 1e-12) & (prices < line + 1 / stages))[first:].all()
        np.testing.assert_allclose(1 - tapered(steps, first, 0.4), 0.4 * (1 - prices))


def test_a_taper_is_for_noisy_runs():
    """None: full at low precision, nothing at high precision, and in between in between."""
    lows = []
    for epsilon in (0.01, 1.0, 1.5, 2.0, 30.0):
        data = problem(epsilon)
        iterates(GradientDescent(steps=80, gradient_clip=1.0, step_size=0.1), data)
        lows.append(min(prices_of(data)) / max(prices_of(data)))
    assert lows[0] == pytest.approx(1 / STAGES)
    assert lows[-1] == 1
    assert (np.diff(lows) >= 0).all()
    assert any(1 / STAGES + 0.01 < low < 0.99 for low in lows)


@pytest.mark.parametrize("taper", [-0.1, 1.0, math.nan, "half"])
def test_a_taper_out_of_range_is_refused(taper):
    with pytest.raises((ValueError, TypeError), match="taper="):
        GradientDescent(taper=taper)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "taper"), [("zero-out", 0.9), ("replace", 0.9), ("zero-out", 0.0)])
def test_the_noise_of_the_result_is_the_one_that_is_told(adjacency, taper):
    """Rows of zeros leave noise alone: 80 runs of 30 weights, along no curvature but the penalty's.

    Beyond 5.5 deviations of a deviation with probability below 1e-7.
    """
    found = []
    for seed in range(80):
        data = problem(1.0, n=50, d=30, adjacency=adjacency, seed=seed, still=True)
        solver = GradientDescent(steps=30, step_size=0.1, gradient_clip=0.5, taper=taper, traced=4)
        result = run(solver, data, LinearObjective(Logistic(), L2(0.3), (30,)))
        found.append(result.w)
    noise = result.diagnostics.attributes["descent_noise"]
    assert noise.taper == taper
    expected = float(noise.along(np.zeros(1))[0])
    assert abs(np.std(found) / expected - 1) < 5.5 / math.sqrt(2 * 30 * 80)


def test_nothing_is_measured_that_is_given():
    data = problem()
    iterates(GradientDescent(steps=3, step_size=0.1, gradient_clip=0.5), data)
    assert set(spent(data)) == {"gradient"}


def test_the_tail_is_averaged():
    """With a seed the steps are the same, whatever is averaged of them."""
    plain = iterates(GradientDescent(steps=10, average=1e-9, taper=0.0), problem())
    tail = iterates(GradientDescent(steps=10, average=0.5, taper=0.0), problem())
    for k in range(5):
        np.testing.assert_array_equal(tail[k], plain[k])
    # from then on the gradients are taken at the steps, not at their mean
    for k in range(5, 10):
        np.testing.assert_allclose(tail[k], np.mean(plain[5 : k + 1], axis=0), rtol=1e-9)


def test_momentum_repeats_the_last_step():
    """Without data in the way: noise is negligible and every gradient the same, so steps add up geometrically."""
    X, y = np.ones((1000, 1)), np.ones(1000)
    ledger = Ledger(Budget.of(1e8, 1e-6, currency=GaussianDP()))
    data = PrivateData(ArrayRows(X, y, RowMap(fit_intercept=False)), ledger, SeededBits(0))
    solver = GradientDescent(steps=4, momentum=0.5, step_size=1e-3, gradient_clip=1.0, average=1e-9)
    w = np.ravel(iterates(solver, data, penalty=L2(0.0), shape=(1,)))
    steps = np.diff([0, *w]) / (0.5e-3)  # the derivative of the logistic loss at 0 is -1/2
    np.testing.assert_allclose(steps, [1, 1.5, 1.75, 1.875], rtol=2e-3)


def test_precision_is_the_root_mean_square_of_signal_over_noise():
    data = problem(n=2000)
    mu = math.sqrt(data.budget.limit)
    assert gradient_precision(data, 6) == pytest.approx(mu * 2000 / math.sqrt(6), rel=1e-9)
    replaced = problem(n=2000, adjacency="replace")
    assert gradient_precision(replaced, 6) == pytest.approx(mu * 1000 / math.sqrt(6), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "low", "high"), [(1e-3, 30, 30), (1.0, 100, 299), (1e3, 300, 300)])
def test_less_noise_asks_for_more_steps(epsilon, low, high):
    data = problem(epsilon, n=1500)
    assert low <= len(iterates(GradientDescent(), data)) <= high


def test_noise_alone_does_not_blow_weights_up():
    for seed in range(20):
        data = problem(epsilon=0.01, n=100, seed=seed)
        w = iterates(GradientDescent(), data)[-1]
        assert np.abs(w).max() < 1e3


def test_a_large_penalty_is_stable():
    w = iterates(GradientDescent(), problem(epsilon=100.0), penalty=L2(1e6))[-1]
    assert np.abs(w).max() < 1e-3


def test_a_budget_that_buys_nothing_is_an_error():
    data = problem(epsilon=1e-14)
    with pytest.raises(BudgetExhausted):
        run(GradientDescent(), data, LinearObjective(Logistic(), L2(0.0), (6,)))
