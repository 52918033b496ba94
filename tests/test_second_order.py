"""Second-order descent: six methods, what they pay, that they leave saddles, and that certificates are true."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sampled_problem import budget_of, releases

from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax, sum_of_classes
from dpsk.mechanisms import AboveThreshold, Gaussian, SeededBits, SymmetricGaussian
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2, Bounded
from dpsk.privacy import Budget, BudgetExhausted, Ledger, Sampling
from dpsk.queries import HessianSum
from dpsk.solvers import eigen, run, second_order
from dpsk.solvers.certificate import gaussian_norm, largest_eigenvalue
from dpsk.solvers.eigen import smallest_eigenpair
from dpsk.solvers.second_order import Constants, PhasePlan, SecondOrder, Task, turned, usual_longest
from dpsk.solvers.step_search import Backtracking
from dpsk.testing import check_solver

BATCHES, REPLACED = Sampling(0.3), Sampling(0.3, "without-replacement")
SOLVERS = {
    "opt": SecondOrder(line_search=False, phases=1),
    "opt-ls": SecondOrder(phases=1),
    "opt-b": SecondOrder(line_search=False, phases=1, sampling=BATCHES),
    "2opt": SecondOrder(line_search=False),
    "2opt-ls": SecondOrder(),
    "2opt-b": SecondOrder(line_search=False, sampling=BATCHES),
    "2opt-ls on batches": SecondOrder(sampling=BATCHES),
    "2opt-b without replacement": SecondOrder(line_search=False, sampling=REPLACED),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_it_passes_check_solver(name):
    solver = replace(SOLVERS[name], eps_g=0.01)
    check_solver(solver, budget=budget_of(solver), large_epsilon=1e4)


@pytest.mark.slow
def test_it_passes_check_solver_with_several_classes():
    check_solver(SecondOrder(eps_g=0.01), loss=OneVsRest(Logistic(), 3), n_classes=3, large_epsilon=1e4)


# ---------------------------------------------------------------------------------------------------- a problem


def behind_door(X, y, epsilon=1.0, seed=0, solver=None, adjacency="zero-out", **how):
    budget = Budget.of(epsilon, 1e-6) if solver is None else budget_of(solver)(epsilon)
    return PrivateData(ArrayRows(X, y, RowMap(**how)), Ledger(budget), SeededBits(seed), adjacency=adjacency)


def classified(n=2000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X[:, 0] * 4 + rng.logistic(size=n) > 0, 1.0, -1.0)


def solve(solver, data, loss=None, penalty=None, shape=None):
    """Return all iterates and the certificate."""
    iterates = []
    objective = LinearObjective(loss or Logistic(), penalty or Bounded(1e-3, True), shape or (data.n_parameters,))
    result = run(solver, data, objective, iterates.append)
    assert np.array_equal(result.w, iterates[-1])
    return iterates, result.diagnostics.attributes["certificate"]


def truth(X, y, w, loss, penalty):
    """Return the objective, its gradient's norm and the smallest eigenvalue of its Hessian, formed."""
    scores = X @ w
    gradient = X.T @ loss.derivative(scores, y) / len(y) + penalty.gradient(w)
    hessian = (X.T * loss.second_derivative(scores, y)) @ X / len(y) + np.diag(penalty.curvature(w))
    value = loss.value(scores, y).mean() + penalty.value(w)
    return value, np.linalg.norm(gradient), np.linalg.eigvalsh(hessian)[0]


def saddle():
    """Rows of a sigmoid problem with a strict saddle on the first axis: most rows pull along it; the others, on the
    wrong side of it, are symmetric about it, and where the loss is concave for them leaving it to either side gains.
    """
    X = np.array([[1.0, 0.0]] * 120 + [[-0.8, 1.6], [-0.8, -1.6]] * 40)
    return np.tile(X, (20, 1)), np.ones(4000)


# ---------------------------------------------------------------------------------------------------- it leaves saddles


@pytest.mark.parametrize("line_search", [True, False])
@pytest.mark.parametrize("phases", [1, 2])
def test_gradients_alone_stall_at_a_strict_saddle_and_negative_curvature_leaves_it(line_search, phases):
    X, y = saddle()
    loss, penalty, longest = Sigmoid(), L2(0.02), 1.8
    solver = SecondOrder(
        line_search=line_search, phases=phases, eps_g=3e-3, eps_h=0.02, longest=longest, hessian_share=0.5
    )

    def end(**options):
        data = behind_door(X, y, epsilon=1e8, fit_intercept=False)
        iterates, certificate = solve(replace(solver, **options), data, loss, penalty)
        assert certificate.reached
        return iterates[-1], certificate, releases(data)

    w, stalled, counts = end(eps_h=100.0)  # gradient steps alone: any curvature is accepted
    value, length, eigenvalue = truth(X, y, w, loss, penalty)
    assert counts["Hessian"] == 1
    assert length < 4e-3
    assert eigenvalue < -0.04, "a strict saddle"
    assert stalled.eigenvalue < -0.04, "which the noisy Hessian sees"
    assert abs(w[1]) < 0.1

    w, _, counts = end()
    after, length, eigenvalue = truth(X, y, w, loss, penalty)
    assert counts["Hessian"] >= 2
    assert length < 4e-3
    assert eigenvalue > -0.02
    assert abs(w[1]) > 0.5
    assert after < value - 0.005


def test_a_step_along_negative_curvature_goes_downhill():
    """p is turned so that p.g <= 0, and the first such step lowers the objective."""
    X, y = saddle()
    loss, penalty = Sigmoid(), L2(0.02)
    for seed in range(3):
        solver = SecondOrder(eps_g=3e-3, eps_h=0.02, longest=1.8, hessian_share=0.5)
        iterates, _ = solve(solver, behind_door(X, y, 1e8, seed, fit_intercept=False), loss, penalty)
        values = [truth(X, y, w, loss, penalty)[0] for w in iterates]
        assert (np.diff(values) < 1e-6).all()


def test_the_eigenvector_is_turned_so_that_going_against_it_does_not_climb():
    p, gradient = np.array([0.6, -0.8]), np.array([1.0, 0.5])
    assert np.array_equal(turned(p, gradient), p)
    assert np.array_equal(turned(-p, gradient), p)
    assert np.array_equal(turned(p, -gradient), -p)


@pytest.mark.parametrize("sampling", [Sampling(1.0), REPLACED], ids=["all rows", "batches"])
def test_what_a_search_asks_for(monkeypatch, sampling):
    """c_g gamma ||g||^2 of a step against the gradient, c_H/2 gamma^2 |lambda| of one along negative curvature, and of
    either twice the scale of the noise of its gain: 4 sensitivities of a row over the epsilon of the search.
    """
    X, y = saddle()
    solver = SecondOrder(sampling=sampling, eps_g=0.02, eps_h=0.02, longest=1.8, hessian_share=0.5)
    data = behind_door(X, y, 1e6, fit_intercept=False, solver=solver)
    asked, gradients, eigenvalues = [], [], []
    find, gradient, pair = Backtracking.find, SecondOrder.gradient, second_order.smallest_eigenpair

    def spied_search(search, batch, objective, along, bought):
        assert search == Backtracking(known.gradient)
        noise = 4 * (2 if sampling.rate < 1 else 1) / bought.epsilon / batch.n_rows
        asked.append((along.direction, along.steps, along.required, noise))
        return find(search, batch, objective, along, bought)

    def spied_gradient(*args):
        gradients.append(gradient(*args))
        return gradients[-1]

    def spied_pair(*args):
        eigenvalues.append(pair(*args)[0])
        return pair(*args)

    monkeypatch.setattr(Backtracking, "find", spied_search)
    monkeypatch.setattr(SecondOrder, "gradient", spied_gradient)
    monkeypatch.setattr(second_order, "smallest_eigenpair", spied_pair)
    penalty = L2(0.02)
    known = Constants.of(Sigmoid(), penalty, 1.8)
    solve(solver, data, Sigmoid(), penalty)
    lengths = [np.linalg.norm(g) for _, g, _ in gradients]
    against = [entry for entry in asked if len(entry[1]) == 7]
    along = [entry for entry in asked if len(entry[1]) == 4]
    assert against
    assert along or sampling.rate < 1
    for direction, steps, required, noise in against:
        length = np.linalg.norm(direction)
        assert length in lengths
        np.testing.assert_allclose(steps, 1.3 / known.smoothness * 2.0 ** np.arange(6, -1, -1))
        np.testing.assert_allclose(required, length**2 * steps / 4 + 2 * noise * known.gradient * steps * length)
    for (direction, steps, required, noise), eigenvalue in zip(along, eigenvalues, strict=False):
        assert np.linalg.norm(direction) == pytest.approx(1)
        short = second_order._T2 * -eigenvalue / known.jerk
        np.testing.assert_allclose(steps, short * 2.0 ** np.arange(3, -1, -1))
        np.testing.assert_allclose(required, -eigenvalue * steps**2 / 8 + 2 * noise * known.gradient * steps)


def test_short_steps_are_those_of_the_paper_and_the_last_iterate_is_the_point_that_was_measured(monkeypatch):
    """g/G against the gradient, 2 |lambda|/M along negative curvature, nothing after the stop (Algorithm 1)."""
    X, y = saddle()
    loss, penalty = Sigmoid(), L2(0.02)
    measured, pairs = [], []
    gradient, pair = SecondOrder.gradient, second_order.smallest_eigenpair
    monkeypatch.setattr(SecondOrder, "gradient", lambda *args: measured.append(gradient(*args)) or measured[-1])
    monkeypatch.setattr(second_order, "smallest_eigenpair", lambda *args: pairs.append(pair(*args)) or pairs[-1])
    solver = SecondOrder(line_search=False, eps_g=3e-3, eps_h=0.02, longest=1.8, hessian_share=0.5)
    iterates, certificate = solve(solver, behind_door(X, y, 1e8, fit_intercept=False), loss, penalty)
    assert certificate.reached
    known, curved = Constants.of(loss, penalty, 1.8), iter(pairs)
    for (w, noisy, _), after in zip(measured[:-1], iterates, strict=False):
        step = noisy / known.smoothness
        if np.linalg.norm(noisy) <= 3e-3:
            value, p = next(curved)
            step = 2 * -value / known.jerk * turned(p, noisy)
        np.testing.assert_allclose(after, w - step, rtol=1e-12)
    assert len(iterates) == len(measured)
    assert len(pairs) >= 2
    assert next(curved) is pairs[-1]
    assert np.array_equal(iterates[-1], measured[-1][0])


# ------------------------------------------------------------------------------------------------------ certificates


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), Sigmoid()], ids=repr)
@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.5)], ids=["all rows", "batches"])
def test_certificates_are_true(loss, sampling):
    """With confidence 0.95 the bounds hold; of 20 runs all fail with a probability of far less than 1e-9 to hold in 12.

    (Bounds are loose by the slack of union bounds, so in fact they hold in every run that reaches the tolerances.)
    """
    X, y = classified()
    penalty, held = Bounded(1e-3), 0
    for seed in range(20):
        solver = SecondOrder(sampling=sampling, eps_g=0.05, eps_h=0.2, longest=1.0)
        data = behind_door(X, y, 3.0, seed, solver, fit_intercept=False)
        iterates, certificate = solve(solver, data, loss, penalty)
        assert certificate.longest == 1.0
        if not certificate.reached:
            continue
        assert certificate.gradient_norm <= 0.05
        assert certificate.eigenvalue >= -0.2
        _, length, eigenvalue = truth(X, y, iterates[-1], loss, penalty)
        held += length <= certificate.gradient_bound and eigenvalue >= certificate.eigenvalue_bound
    assert held >= 12


@pytest.mark.slow
def test_the_error_of_a_noisy_gradient_is_what_the_certificate_says():
    """The distance of the noisy from the true gradient, over many seeds: below the bound, and above a third of it."""
    X, y = classified()
    solver = SecondOrder(eps_g=0.05, eps_h=0.2, longest=1.0)
    loss, penalty, w = Logistic(), L2(0.5), np.full(4, 0.25)
    true = X.T @ loss.derivative(X @ w, y) / len(y) + penalty.gradient(w)
    hessian = (X.T * loss.second_derivative(X @ w, y)) @ X / len(y) + 0.5 * np.eye(4)
    for adjacency in ("zero-out", "replace"):
        distances, bounds, gaps = [], set(), []
        for seed in range(30):
            data = behind_door(X, y, 1.0, seed, fit_intercept=False, adjacency=adjacency)
            task = Task(data, LinearObjective(loss, penalty, (4,)), Constants.of(loss, penalty, 1.0), 0.05, 0.2)
            plan = solver.plans(task)[0]
            at, gradient, bound = solver.gradient(task, plan, w, 1)
            assert np.array_equal(at, w)
            distances.append(np.linalg.norm(gradient - true))
            bounds.add(bound)
            noisy, error = solver.hessian(task, plan, w, 1)
            gaps.append((np.linalg.eigvalsh(noisy[0] - hessian)[-1]) / error)
        assert len(bounds) == 1, "a public number"
        assert bounds.pop() / 3 < max(distances) < bound
        assert 0.2 < max(gaps) < 1


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("loss", [Logistic(), OneVsRest(Sigmoid(), 3)], ids=repr)
def test_all_errors_of_a_run_share_its_confidence(loss, count):
    """The k-th gradient and the k-th Hessian may fail with 3/(pi k)^2 of 1 - confidence each, by noise with half."""
    X, y = classified()
    solver, penalty = SecondOrder(eps_g=0.05, eps_h=0.2, longest=1.0, confidence=0.9), L2(1e-3)
    shape, blocks = ((4,), 1) if loss.n_classes is None else ((4, 3), 3)
    labels = {} if loss.n_classes is None else {"n_classes": 3}
    data = behind_door(X, y if blocks == 1 else (y > 0).astype(int), 1.0, fit_intercept=False, **labels)
    task = Task(data, LinearObjective(loss, penalty, shape), Constants.of(loss, penalty, 1.0), 0.05, 0.2)
    plan, failure, known = solver.plans(task)[0], 0.1 * 3 / (math.pi * count) ** 2 / 2, task.known
    _, _, error = solver.gradient(task, plan, np.zeros(shape), count)
    of_noise = gaussian_norm(known.gradient / plan.gradient / len(y), math.prod(shape), failure)
    assert error == pytest.approx(of_noise + 2.0**-16 * known.gradient * math.sqrt(math.prod(shape)), rel=1e-6)
    _, error = solver.hessian(task, plan, np.zeros(shape), count)
    of_noise = largest_eigenvalue(known.hessian / plan.hessian / len(y), 4, failure, blocks)
    rounding = HessianSum(loss, np.zeros(shape), clip=known.hessian).rounding(4)
    assert error == pytest.approx(of_noise + rounding, rel=1e-6)


@pytest.mark.parametrize("sampling", [BATCHES, REPLACED], ids=["poisson", "without replacement"])
def test_the_error_of_a_batch_is_in_it(sampling):
    """With next to no noise what is left is the error of having seen a batch only."""
    X, y = classified()
    solver = SecondOrder(sampling=sampling, eps_g=0.05, eps_h=0.2, longest=1.0)
    loss, penalty, w = Logistic(), L2(1e-3), np.full(4, 0.25)
    true = X.T @ loss.derivative(X @ w, y) / len(y) + penalty.gradient(w)
    hessian = (X.T * loss.second_derivative(X @ w, y)) @ X / len(y) + 1e-3 * np.eye(4)
    data = behind_door(X, y, 1e7, fit_intercept=False, solver=solver)
    plan = PhasePlan(gradient=300.0, hessian=300.0, search=1.0, price=0.0, reserve=0.0)
    task = Task(data, LinearObjective(loss, penalty, (4,)), Constants.of(loss, penalty, 1.0), 0.05, 0.2)
    errors, gaps = [], []
    for _ in range(10):
        _, gradient, bound = solver.gradient(task, plan, w, 1)
        errors.append(np.linalg.norm(gradient - true) / bound)
        noisy, error = solver.hessian(task, plan, w, 1)
        gaps.append(np.linalg.eigvalsh(noisy[0] - hessian)[-1] / error)
    assert 0.1 < max(errors) < 1
    assert 0.02 < max(gaps) < 1


# ------------------------------------------------------------------------------------------------------ what is paid


def test_every_release_is_paid_for_the_last_gradient_and_hessian_included():
    X, y = classified()
    solver = SecondOrder(eps_g=0.1, eps_h=0.3, longest=1.0)
    data = behind_door(X, y, 5.0, fit_intercept=False)
    iterates, certificate = solve(solver, data)
    counts, steps = releases(data), len(iterates) - 1  # the last one is the point that is certified
    assert certificate.reached
    assert counts == {"gradient": steps + 1, "search": steps, "Hessian": 1}
    whole = behind_door(X, y, 5.0, fit_intercept=False)
    objective = LinearObjective(Logistic(), Bounded(1e-3, True), (4,))
    task = Task(whole, objective, Constants.of(objective.loss, objective.penalty, 1.0), 0.1, 0.3)
    plan = solver.plans(task)[0]
    price = (steps + 1) * Gaussian(plan.gradient).cost.rho + SymmetricGaussian(plan.hessian).cost.rho
    price += steps * AboveThreshold(plan.search, 7).cost.rho
    assert data.report().charged == pytest.approx(price, rel=1e-9)
    assert data.report().charged < data.report().limit, "it stopped early, and reports its cap"


def test_one_fixed_matrix_is_released_however_many_products_lanczos_takes(monkeypatch):
    """Noise drawn anew for every product would be a release each."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 320)) / 18, rng.choice([-1.0, 1.0], 400)
    drawn = []
    draw = SymmetricGaussian.__call__
    monkeypatch.setattr(SymmetricGaussian, "__call__", lambda *args: drawn.append(draw(*args)) or drawn[-1])
    data = behind_door(X, y, 1e4, fit_intercept=False)
    _, certificate = solve(SecondOrder(eps_g=0.5, eps_h=0.1, longest=1.0), data)
    assert certificate.reached
    assert len(drawn) == releases(data)["Hessian"] == 1
    assert drawn[0].shape == (320, 320)


def test_the_number_of_steps_is_public():
    """Descent starts at 0, where the objective is log 2 or 1/2 whatever the rows: plans do not look at them."""
    solver = SecondOrder(eps_g=0.03, longest=1.0)
    plans = []
    for seed in range(2):
        X, y = classified(seed=seed)
        data = behind_door(X * (1 - 0.9 * seed), -y, fit_intercept=False)
        known = Constants.of(Logistic(), L2(1e-3), 1.0)
        plans.append(solver.plans(Task(data, LinearObjective(Logistic(), L2(1e-3), (4,)), known, 0.03, 0.1)))
        assert data.remaining == data.budget.limit, "and cost nothing"
    assert plans[0] == plans[1]
    assert known.start == pytest.approx(math.log(2))
    assert Constants.of(Sigmoid(), L2(1e-3), 1.0).start == 0.5


@pytest.mark.parametrize("name", ["2opt", "2opt-ls", "2opt-b"])
def test_the_first_phase_leaves_the_second_its_part(name):
    """Tolerances out of reach: releases get weaker once, when three quarters are spent, and all is spent at the end."""
    solver = replace(SOLVERS[name], eps_g=1e-3, longest=1.0)
    X, y = classified()
    data = behind_door(X, y, 2.0, solver=solver, fit_intercept=False)
    iterates, certificate = solve(solver, data)
    assert not certificate.reached
    assert len(iterates) >= 20
    report = data.report()
    assert 0.9 * report.limit < report.charged <= report.limit
    prices = [release.cost for release in report.releases if release.label == "gradient"]
    assert len(set(prices)) == 2
    first = sum(r.cost * r.count for r in report.releases if r.label == "gradient" and r.cost == max(prices))
    assert first <= 0.75 * report.limit


@pytest.mark.parametrize("line_search", [True, False])
def test_plans_pay_for_all_the_steps_that_the_worst_case_needs(line_search):
    """Where noise allows: T gradients with their searches, and as many Hessians as curvature steps and one."""
    solver = SecondOrder(line_search=line_search, phases=1, eps_g=0.1, longest=1.0)
    X, y = classified()
    data, penalty = behind_door(X, y, 1e6, fit_intercept=False), Bounded(1e-3)
    known = Constants.of(Logistic(), penalty, 1.0)
    task = Task(data, LinearObjective(Logistic(), penalty, (4,)), known, 0.1, math.sqrt(0.1 * known.jerk))
    (plan,) = solver.plans(task)
    steps, curved = solver.most_steps(known, task.eps_g, task.eps_h)
    each = Gaussian(plan.gradient).cost.rho
    if line_search:
        each += AboveThreshold(plan.search, 7).cost.rho
    whole = (max(steps, curved) + 1) * each + (curved + 1) * SymmetricGaussian(plan.hessian).cost.rho
    assert 0.9 * data.remaining < whole <= data.remaining


def test_steps_of_the_worst_case_are_those_of_the_paper():
    """f(0)/MIN_DEC, equations (10) and (17) with c_1 = c = 0.1, c_2 = 0.05, c_g = c_H = 1/4."""
    known = Constants.of(Logistic(), L2(0.0), 2.0)
    assert (known.smoothness, known.gradient) == (1.0, pytest.approx(2.0, rel=1e-5))
    assert known.jerk == pytest.approx(8 / (6 * math.sqrt(3)))
    eps_g, eps_h = 0.1, 0.4
    short = SecondOrder(line_search=False).most_steps(known, eps_g, eps_h)
    assert short[0] == math.ceil(math.log(2) / (0.8 / 2 * 0.01))
    assert short[1] == math.ceil(math.log(2) / (2 * (1 / 3 - 0.15) * 0.4**3 / known.jerk**2))
    t2 = 1.5 * 0.65 + 3 * math.sqrt(0.65**2 / 4 - 0.1 / 3)
    assert -(t2**2) / 6 + 0.65 * t2 / 2 - 0.05 == pytest.approx(0, abs=1e-12)
    searched = SecondOrder().most_steps(known, eps_g, eps_h)
    assert searched[0] == math.ceil(math.log(2) / (0.65 * 0.25 * 0.01))
    assert searched[1] == math.ceil(math.log(2) / (0.25 / 4 * t2**2 * 0.4**3 / known.jerk**2))
    assert SecondOrder().most_steps(known, 1e-200, 1e-200) == (2**50, 2**50)


@pytest.mark.parametrize(("adjacency", "more"), [("zero-out", 1), ("replace", 2)])
def test_no_gradient_is_planned_that_is_noisier_than_the_tolerance(adjacency, more):
    X, y = classified()
    data = behind_door(X, y, 2.0, fit_intercept=False, adjacency=adjacency)
    known = Constants.of(Logistic(), L2(1e-3), 1.0)
    solver = SecondOrder(line_search=False, phases=1, eps_g=0.04, longest=1.0)
    (plan,) = solver.plans(Task(data, LinearObjective(Logistic(), L2(1e-3), (4,)), known, 0.04, 0.1))
    assert solver.most_steps(known, 0.04, 0.1)[0] > 200
    noise = more * known.gradient * math.sqrt(4) / plan.gradient / len(y)
    assert noise == pytest.approx(0.8 * 0.04, rel=0.05)


def test_the_default_tolerance_is_as_small_as_noise_allows():
    X, y = classified()
    found = []
    for epsilon in (0.5, 5.0, 50.0):
        data = behind_door(X, y, epsilon, fit_intercept=False)
        known = Constants.of(Logistic(), L2(1e-3), 1.0)
        eps_g, eps_h = SecondOrder().tolerances(data, known, 4)
        assert eps_h == pytest.approx(math.sqrt(known.jerk * eps_g))
        found.append(eps_g)
        (plan, _) = SecondOrder().plans(Task(data, LinearObjective(Logistic(), L2(1e-3), (4,)), known, eps_g, eps_h))
        assert known.gradient * 2 / plan.gradient / len(y) <= 0.81 * eps_g
    assert found[0] > 2 * found[1] > 4 * found[2]
    assert SecondOrder(eps_g=0.2, eps_h=0.7).tolerances(data, known, 4) == (0.2, 0.7)


def test_a_budget_for_nothing_is_an_error():
    X, y = classified()
    for solver in (SecondOrder(), SecondOrder(longest=1.0)):
        data = PrivateData(ArrayRows(X, y), Ledger(Budget.of(1e-13, 1e-60)), SeededBits(0))
        with pytest.raises(BudgetExhausted):
            run(solver, data, LinearObjective(Logistic(), L2(1e-3), (5,)))


def test_a_start_within_the_tolerances_is_certified():
    X, y = classified()
    iterates, certificate = solve(SecondOrder(eps_g=2.0, longest=1.0), behind_door(X, y, fit_intercept=False))
    assert certificate.reached
    assert len(iterates) == 1
    assert not iterates[0].any()


# --------------------------------------------------------------------------------------------------- its pieces


def test_constants_bound_what_they_say():
    """G, M, B_g and B_H of random rows of the largest norm, for every loss and penalty."""
    rng = np.random.default_rng(0)
    for loss in (Logistic(), Sigmoid()):
        for penalty in (L2(0.3), Bounded(0.3)):
            known = Constants.of(loss, penalty, 2.0)
            for _ in range(300):
                x = rng.normal(size=3)
                X, y = 2 * (x / np.linalg.norm(x))[None], np.ones(1)
                w, v = rng.normal(size=(2, 3)) * 2

                def hessian(at, X=X, y=y, loss=loss, penalty=penalty):
                    return (X.T * loss.second_derivative(X @ at, y)) @ X + np.diag(penalty.curvature(at))

                assert np.linalg.norm(hessian(w), 2) <= known.smoothness * (1 + 1e-12)
                assert np.linalg.eigvalsh(hessian(w))[0] >= -known.concavity - 1e-12
                change = np.linalg.norm(hessian(w) - hessian(v), 2)
                assert change <= known.jerk * np.linalg.norm(w - v) * (1 + 1e-12)
                assert np.linalg.norm(X.T @ loss.derivative(X @ w, y)) <= known.gradient
                of_loss = (X.T * loss.second_derivative(X @ w, y)) @ X
                assert np.linalg.norm(of_loss) <= known.hessian


def test_constants_of_several_classes():
    rng = np.random.default_rng(0)
    for one in (Logistic(), Sigmoid()):
        loss = OneVsRest(one, 3)
        known = Constants.of(loss, L2(0.0), 1.0)
        assert known.start == pytest.approx(Constants.of(one, L2(0.0), 1.0).start)
        scores, y = rng.normal(size=(4000, 3)) * 3, rng.integers(3, size=4000)
        slopes = np.sqrt(sum_of_classes(np.square(loss.derivative(scores, y))))
        assert 0.9 * known.gradient < slopes.max() <= known.gradient
        curvatures = loss.second_derivative(scores, y)
        assert 0.5 * known.hessian < np.linalg.norm(curvatures, axis=(1, 2)).max() <= known.hessian
        assert 0.9 * known.smoothness < np.abs(curvatures).max() <= known.smoothness


@pytest.mark.parametrize("longest", [1.0, 30.0])
@pytest.mark.parametrize("one", [Logistic(), Sigmoid()], ids=repr)
def test_no_hessian_has_smaller_eigenvalues_than_the_certificate_thinks_possible(one, longest):
    """Rows far longer than the longest too, whose clip would have room for all the curvature in one class."""
    rows = np.tile([[30.0, 0.0]], (200, 1))
    for loss, w, y in (
        (one, np.array([-1.317 / 30, 0.0]), np.ones(200)),
        (OneVsRest(one, 10), np.outer([1.0, 0.0], [-1.317 / 30, *[5.0] * 9]), np.zeros(200)),
    ):
        known = Constants.of(loss, L2(0.0), longest)
        query = HessianSum(loss, w, clip=known.hessian)
        total = ArrayRows(rows, y, RowMap(n_classes=loss.n_classes, fit_intercept=False)).total(query)
        smallest = np.linalg.eigvalsh(total * query.unit / len(rows)).min()
        assert smallest >= -known.concavity * (1 + 1e-12)
        if isinstance(one, Sigmoid):  # and not much larger ones
            assert smallest == pytest.approx(-known.concavity, rel=2e-3)


@pytest.mark.parametrize("loss", [HuberHinge(), Softmax(3), OneVsRest(HuberHinge(), 3)], ids=repr)
def test_losses_whose_curvature_jumps_are_refused(loss):
    with pytest.raises(ValueError, match=r"second-order descent needs|Hessians are summed for"):
        Constants.of(loss, L2(0.1), 1.0)


@pytest.mark.parametrize("p", [1, 3, 40, 400])
def test_the_smallest_eigenpair(p):
    rng = np.random.default_rng(p)
    both = rng.normal(size=(2, p, p))
    both = both + np.swapaxes(both, 1, 2)
    for blocks in (both, both[::-1]):
        values = np.linalg.eigvalsh(blocks)[:, 0]
        value, vector = smallest_eigenpair(blocks, (p, 2))
        k = int(values.argmin())
        assert value == pytest.approx(values[k], abs=1e-3)
        assert value <= values[k] + 1e-12
        assert not vector[:, 1 - k].any()
        np.testing.assert_allclose(blocks[k] @ vector[:, k], values[k] * vector[:, k], atol=1e-2)
    value, vector = smallest_eigenpair(blocks[:1], (p,))
    assert vector.shape == (p,)
    assert np.linalg.norm(vector) == pytest.approx(1)


def test_an_eigenvalue_that_lanczos_cannot_see_is_found():
    """The start of the iteration has no part along the smallest eigenvector: the factorisation notices."""
    p = 400
    start = np.cos(np.arange(p, dtype=np.float64))
    hidden = np.zeros(p)
    hidden[0], hidden[1] = start[1], -start[0]
    hidden /= np.linalg.norm(hidden)
    matrix = np.eye(p) * 2.0 - 3.0 * np.outer(hidden, hidden)
    value, vector = smallest_eigenpair(matrix[None], (p,))
    assert value == pytest.approx(-1.0, abs=1e-3)
    assert abs(vector @ hidden) == pytest.approx(1.0)


def test_an_eigenvalue_that_lanczos_missed_is_found(monkeypatch):
    """Where the iteration ends at the second smallest, the factorisation fails, and all are computed."""
    matrix = np.diag([0.0, -1.0, -1.001, *np.linspace(0, 1, 397)])
    asked = []
    monkeypatch.setattr(eigen, "eigsh", lambda *_, **__: asked.append(1) or (np.array([-1.0]), np.eye(400)[:, 1:2]))
    value, vector = smallest_eigenpair(matrix[None], (400,))
    assert asked
    assert value == pytest.approx(-1.001, abs=1e-9)
    assert abs(vector[2]) == pytest.approx(1.0)


def test_what_lanczos_finds_is_never_above_the_eigenvalue(monkeypatch):
    """A value that is too large by what the iteration may leave, but not by more, is moved below and kept."""
    matrix, slack = np.diag([-1.0, *np.linspace(0, 1, 399)]), 1e-6 * math.sqrt(400)
    monkeypatch.setattr(eigen, "eigsh", lambda *_, **__: (np.array([-1 + slack / 2]), np.eye(400)[:, :1]))
    value, _ = smallest_eigenpair(matrix[None], (400,))
    assert value == pytest.approx(-1 - slack / 2, abs=1e-12)


def test_the_longest_row_is_taken_for_a_little_longer_than_usual_ones():
    X, y = np.array([[0.6, 0.8]] * 500), np.ones(500)
    assert 1.18 < usual_longest(behind_door(X, y, 1e3, fit_intercept=False)) < 1.69  # sqrt(2), to a quarter octave


def test_rows_longer_than_the_longest_are_clipped_and_nothing_else_changes():
    X, y = classified()
    longer = X.copy()
    longer[0] *= 100
    penalty, solver = L2(1e-2), SecondOrder(eps_g=0.02, longest=1.0)
    ends = []
    for rows in (X, longer):
        ends.append(solve(solver, behind_door(rows, y, 1e3, fit_intercept=False), penalty=penalty)[0][-1])
    assert np.abs(ends[0] - ends[1]).max() < 0.2
