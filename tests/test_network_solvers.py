"""Solvers on networks: they learn what no line separates, keep their budget, and refuse what is not for them."""

import math

import numpy as np
import pytest
from sampled_problem import budget_of, releases

from benchmarks.paper_price import claimed_epsilon, proved_epsilon
from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Logistic, Softmax
from dpsk.mechanisms import AboveThreshold, SeededBits
from dpsk.objectives import LinearObjective, NetworkModel, NetworkObjective, Perceptron
from dpsk.penalties import L2, WeightDecay
from dpsk.privacy import Budget, Ledger, Sampling
from dpsk.solvers import run
from dpsk.solvers.gradient_descent import GradientDescent
from dpsk.solvers.line_search import LineSearch
from dpsk.solvers.line_search_sgd import LineSearchSGD
from dpsk.solvers.sgd import SGD
from dpsk.testing import check_solver

TENTH = Sampling(0.1)
HOW = RowMap(fit_intercept=False)


def loss_for(n_classes):
    return Logistic() if n_classes == 2 else Softmax(n_classes)


MODEL = NetworkModel(loss_for, Perceptron((12,)), alpha=1e-4)
SOLVERS = {
    "sgd": SGD(TENTH, steps=200, learning_rate=1.0),
    "adam": SGD(TENTH, steps=200, optimizer="adam", learning_rate=0.03),
    "DP-BLSGD": LineSearch(TENTH, splits=150),
    "line search": LineSearchSGD(TENTH, steps=200),
    "line search, Gaussian": LineSearchSGD(TENTH, steps=200, noise="gaussian"),
    "line search of the paper": LineSearchSGD.of_paper(TENTH, 200),
}


def crosses(n=1000):
    """Return points in the four quarters of a square, labelled by the diagonal: no line tells them apart."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.2, 1.0, (n, 2)) * rng.choice([-1.0, 1.0], (n, 2))
    return X, np.sign(X[:, 0] * X[:, 1])


def data_for(solver, epsilon, rows=None, seed=0):
    rows = ArrayRows(*crosses(), HOW) if rows is None else rows
    return PrivateData(rows, Ledger(budget_of(solver)(epsilon)), SeededBits(seed))


def accuracy(objective, w, X, y):
    """Return how often a network is right: it has one output, whose sign is the label."""
    losses = [
        ArrayRows(X[i : i + 1], y[i : i + 1], HOW).total(objective.losses_along(w, 0 * w, [0.0], clip=2.0**7))
        for i in range(0, len(y), 10)
    ]
    return np.mean(np.concatenate(losses) * 2.0 ** (7 - 14) < math.log(2))


@pytest.mark.parametrize("name", SOLVERS)
def test_networks_learn_what_no_line_separates(name):
    """At a large epsilon; weights of zero or any line would be right for half or three quarters of the rows."""
    solver, objective = SOLVERS[name], MODEL.on(2, 2)
    data = data_for(solver, 300.0)
    result = run(solver, data, objective)
    assert not result.diagnostics.doubts
    assert accuracy(objective, result.w, *crosses()) > 0.97
    report = data.report()
    assert 0.9 * report.limit < report.charged <= report.limit


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_they_pass_check_solver_on_a_network(name):
    solver = SOLVERS[name]
    model = NetworkModel(loss_for, Perceptron((8,), "tanh"), alpha=1e-3)
    check_solver(solver, model=model, budget=budget_of(solver), large_epsilon=1e3, tolerance=0.03)


@pytest.mark.parametrize("name", ["sgd", "DP-BLSGD", "line search"])
def test_descent_starts_at_the_public_weights(name):
    solver = {
        "sgd": SGD(TENTH, steps=3, learning_rate=1e-9),
        "DP-BLSGD": LineSearch(TENTH, splits=3.0, step_max=1e-9, fallback=True),
        "line search": LineSearchSGD(TENTH, steps=3, step_max=1e-9),
    }[name]
    objective = MODEL.on(2, 2)
    (first, *_, last) = solver.iterates(data_for(solver, 300.0), objective)
    assert np.abs(objective.start()).max() > 0.1
    for w in (first, last):
        np.testing.assert_allclose(w, objective.start(), atol=1e-6)
        assert not np.array_equal(w, objective.start())


def test_the_first_step_of_adam_has_one_length_for_every_weight():
    """Its moments begin at zero, wherever descent starts: the first step is the sign of the gradient."""
    solver, objective = SGD(TENTH, steps=1, optimizer="adam", learning_rate=0.01), MODEL.on(2, 2)
    (w,) = solver.iterates(data_for(solver, 3.0), objective)
    np.testing.assert_allclose(np.abs(w - objective.start()), 0.01, rtol=1e-4)


def test_the_first_gradient_is_compared_with_none(monkeypatch):
    seen = []
    monkeypatch.setattr("dpsk.solvers.line_search.angle_between", lambda a, b: seen.append(b) or 60.0)
    solver = LineSearch(TENTH, splits=2.0, fallback=True)
    assert len(list(solver.iterates(data_for(solver, 3.0), MODEL.on(2, 2)))) == 2
    assert len(seen) == 1


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["line search", "line search, Gaussian"])
def test_the_search_on_a_fixed_schedule_passes_check_solver_on_linear_models(name):
    check_solver(SOLVERS[name], budget=budget_of(SOLVERS[name]), large_epsilon=1e3)


def test_solvers_of_linear_models_refuse_a_network_before_anything_is_paid():
    data, objective = data_for(SOLVERS["sgd"], 1.0), MODEL.on(2, 2)
    with pytest.raises(ValueError, match="GradientDescent is for linear models, and NetworkObjective is none"):
        run(GradientDescent(), data, objective)
    assert data.report().charged == 0
    with pytest.raises(ValueError, match="NetworkModel is none"):
        GradientDescent().require_model(MODEL)
    SOLVERS["line search"].require_model(MODEL)
    GradientDescent().require_model(LinearObjective(Logistic(), L2(0.1), (3,)))


def test_the_objective_of_a_network():
    objective = MODEL.on(4, 3)
    assert isinstance(objective, NetworkObjective)
    assert objective.loss == Softmax(3)
    assert objective.shape == (objective.n_weights,) == (4 * 12 + 12 + 12 * 3 + 3,)
    assert MODEL.on(4, 2).network.n_outputs == 1
    assert np.array_equal(objective.start(), objective.start())
    other = NetworkModel(loss_for, Perceptron((12,)), seed=1).on(4, 3)
    assert not np.array_equal(objective.start(), other.start())
    assert objective.of_weighed(4.0).penalty.smoothness == 1e-4 / 4
    assert objective.of_weighed(4.0).network == objective.network


def test_weights_are_penalised_and_biases_are_not():
    objective = MODEL.on(4, 3)
    penalty, w = objective.penalty, np.random.default_rng(0).normal(size=objective.n_weights)
    matrices = objective.network.split(w)
    expected = 1e-4 / 2 * sum(np.square(W[:-1]).sum() for W in matrices)
    assert penalty.value(w) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(penalty.values(np.stack([w, 2 * w])), [expected, 4 * expected], rtol=1e-12)
    for W, g in zip(matrices, objective.network.split(penalty.gradient(w)), strict=True):
        np.testing.assert_array_equal(g[:-1], 1e-4 * W[:-1])
        assert not g[-1].any()
        assert W[-1].any()
    assert penalty.curvature(w).sum() == pytest.approx(1e-4 * (4 * 12 + 12 * 3))
    assert (penalty.smoothness, penalty.concavity, penalty.jerk) == (1e-4, 0, 0)
    with pytest.raises(ValueError, match="alpha"):
        WeightDecay(-1.0)


# ------------------------------------------------------------------------------------- the search, step by step


def tried(solver, found, monkeypatch, gradient, noise=0.0, far=None):
    """Return the step taken where the search finds this index, and what it was asked."""
    asked = {}

    def find(self, batch, objective, along, bought):
        asked.update(steps=along.steps, required=along.required, search=self)
        return len(along.steps) if found is None else found

    monkeypatch.setattr("dpsk.solvers.step_search.Backtracking.find", find)
    return solver.step(None, None, 0 * gradient, gradient, noise, None, far or solver.longest), asked


def test_steps_are_tried_from_long_to_short_and_the_next_one_is_taken_unasked(monkeypatch):
    solver, g = LineSearchSGD(TENTH, step_max=2.0, shrink=0.5, candidates=3, sufficient=0.25), np.array([3.0, 4.0])
    step, asked = tried(solver, 1, monkeypatch, g)
    assert step == 1.0
    assert asked["steps"].tolist() == [2.0, 1.0, 0.5]
    assert asked["required"].tolist() == [0.25 * 25 * s for s in (2.0, 1.0, 0.5)]
    assert tried(solver, None, monkeypatch, g)[0] == 0.25
    assert tried(solver, 0, monkeypatch, g, far=0.125)[0] == 0.125


def test_noise_is_subtracted_from_what_a_gradient_promises(monkeypatch):
    solver, g = LineSearchSGD(TENTH, candidates=1, step_max=1.0), np.array([3.0, 4.0])
    assert tried(solver, 0, monkeypatch, g, noise=2.0)[1]["required"] == 0.1 * (25 - 2 * 4.0)
    assert tried(solver, 0, monkeypatch, g, noise=9.0)[1]["required"] == 0


@pytest.mark.parametrize("scheme", ["poisson", "without-replacement"])
def test_the_noise_that_is_subtracted_is_that_of_the_gradient(scheme, monkeypatch):
    """Within 15 %: without rows that gain anything, the mean square of 60 x 49 Gaussians has 2.6 % as its deviation."""
    solver, found = LineSearchSGD(Sampling(0.5, scheme), steps=60, step_max=1e-9), []

    def step(self, batch, objective, w, grad, noise, bought, far):
        found.append((np.square(grad).mean(), noise**2))
        return 1e-9

    monkeypatch.setattr(LineSearchSGD, "step", step)
    X = np.zeros((1000, 2))
    rows = ArrayRows(X, np.resize([1.0, -1.0], 1000), HOW)
    objective = MODEL.on(2, 2)
    list(solver.iterates(data_for(solver, 0.5, rows), objective))
    seen, said = np.mean(found, axis=0)
    assert seen == pytest.approx(said, rel=0.15)


def test_the_longest_step_follows_the_median_or_only_falls():
    rising = LineSearchSGD(TENTH, step_max=10.0, growth=1.5)
    assert rising.adapted(3.0, [1.0, 2.0, 9.0]) == 3.0
    assert rising.adapted(1.0, [8.0, 8.0, 8.0]) == 10.0
    falling = LineSearchSGD(TENTH, step_max=10.0, growth=1.5, rises=False)
    assert falling.adapted(3.0, [1.0, 1.5, 0.1]) == 2.25
    assert falling.adapted(3.0, [3.0, 1.0]) == 3.0


def test_the_longest_step_follows_from_the_clip():
    """Where nearly all rows are clipped, gradients are as long as the clip, and the path of descent should not be."""
    assert LineSearchSGD(TENTH).longest == LineSearchSGD(TENTH, gradient_clip=4.0).longest == 10
    assert LineSearchSGD(TENTH, gradient_clip=0.25).longest == 40
    assert LineSearchSGD(TENTH, gradient_clip=0.25, step_max=3.0).longest == 3


def test_the_schedule_is_fixed_and_uses_up_the_budget():
    solver = LineSearchSGD(TENTH, steps=23)
    data = data_for(solver, 1.0)
    assert len(list(solver.iterates(data, MODEL.on(2, 2)))) == 23
    report = data.report()
    assert releases(data) == {"gradient and search": 23}
    assert 0.999999 * report.limit < report.charged <= report.limit
    with pytest.raises(ValueError, match="2\\*\\*-60"):
        LineSearchSGD(TENTH, step_max=1e-18, shrink=0.1)


# --------------------------------------------------------------------------------------- the variant of the paper


def test_the_paper_by_name():
    solver = LineSearchSGD.of_paper(Sampling(1 / 200), 100, step_max=2.0, candidates=4)
    assert (solver.gradient_clip, solver.loss_clip, solver.shrink, solver.sufficient) == (3.0, 3.0, 0.8, 1e-3)
    assert solver.shortest == pytest.approx(2.0 * 0.8**4)
    search = solver.chooser(1.0)
    assert (search.length, search.noise, solver.search.per_unit, solver.search.clip) == (4, "gaussian", False, 3.0)
    assert LineSearch(TENTH).planned  # the other variant is still there
    objective = MODEL.on(2, 2)
    solver = LineSearchSGD.of_paper(TENTH, 7)
    *_, before, last = solver.iterates(data_for(solver, 1.0), objective)
    assert not np.allclose(before, last)  # no mean of iterates


@pytest.mark.parametrize("mu", [0.3, 2.0])
def test_the_search_has_the_noise_that_the_paper_buys_for_a_tenth(mu):
    """With rho of the iteration .9 and .1: sigma_1^2 = 3/(2 rho) of the threshold, sigma_2^2 = 3/rho of values."""
    solver = LineSearchSGD.of_paper(TENTH, 100)
    gradient, search = solver.costs(mu)
    rho = (mu**2 / 2) / 0.9 * 0.1
    assert gradient.mu == mu
    assert 1 / search.threshold**2 == pytest.approx(3 / (2 * rho))
    assert 1 / search.query**2 == pytest.approx(3 / rho)
    assert search.length == 15
    mechanism = AboveThreshold(solver.search_share * mu, 15, "gaussian")
    assert mechanism.cost == search


def test_the_price_of_the_paper_does_not_know_how_many_steps_are_tried():
    def prices(candidates):
        solver = LineSearchSGD.of_paper(Sampling(1 / 200), 500, candidates=candidates)
        return claimed_epsilon(solver, 1.0, 1e-8), proved_epsilon(solver, 1.0, 1e-8)

    (claimed, proved), (same, more) = prices(1), prices(30)
    assert claimed == same
    assert proved < claimed < more
    # of all rows the claim is that of rho_iter = mu^2/2 / .9, at the best of the orders that are tried
    solver = LineSearchSGD.of_paper(Sampling(1.0), 3)
    rho, delta = 3 * 0.5 / 0.9, 1e-8
    best = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert best <= claimed_epsilon(solver, 1.0, delta) <= 1.02 * best


def test_what_is_charged_is_the_price_that_is_proved():
    solver = LineSearchSGD.of_paper(TENTH, 20)
    data = data_for(solver, 2.0)
    mu = solver.calibrated(data)
    assert isinstance(data.budget, Budget)
    assert proved_epsilon(solver, mu, 1e-6) == pytest.approx(2.0, rel=1e-3)
