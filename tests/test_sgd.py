"""DP-SGD and DP-Adam: the schedule, its price, and what a step does."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, rdp
from sampled_problem import budget_of, problem, releases

from dpsk.losses import Hinge, Logistic, Softmax
from dpsk.mechanisms import Gaussian
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import Budget, BudgetExhausted, Sampling, best_order
from dpsk.queries import GradientSum
from dpsk.solvers.sgd import SGD
from dpsk.testing import check_solver

TENTH = Sampling(0.1)
OBJECTIVE = LinearObjective(Logistic(), L2(1e-3), (6,))
SOLVERS = {
    "sgd": SGD(TENTH),
    "adam": SGD(TENTH, optimizer="adam", learning_rate=0.05),
    "without replacement": SGD(Sampling(0.1, "without-replacement")),
    "all rows": SGD(Sampling(1.0)),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_it_passes_check_solver(name):
    check_solver(SOLVERS[name], budget=budget_of(SOLVERS[name]), large_epsilon=1e3)


@pytest.mark.thorough
@pytest.mark.slow
def test_it_passes_check_solver_with_other_losses():
    check_solver(SGD(TENTH), loss=Hinge(), budget=budget_of(SGD(TENTH)), large_epsilon=1e3, tolerance=0.03)
    check_solver(SGD(TENTH), loss=Softmax(3), n_classes=3, budget=budget_of(SGD(TENTH)), large_epsilon=1e3)


@pytest.mark.parametrize("steps", [1, 7, 40])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_the_steps_share_the_budget_evenly_and_leave_nothing(steps, rate):
    solver = SGD(Sampling(rate), steps=steps)
    data = problem(solver)
    assert len(list(solver.iterates(data, OBJECTIVE))) == steps
    report = data.report()
    assert releases(data) == {"batch": steps}
    assert 0.999999 * report.limit < report.charged <= report.limit


def test_no_order_would_have_bought_less_noise():
    """The order is the best for this plan, so the budget is that of a Renyi accountant that looks at all orders."""
    solver = SGD(TENTH, steps=100)
    mu = solver.calibrated(problem(solver))
    accountant = rdp.RdpAccountant(orders=list(range(2, 200)))
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(1 / mu))
    accountant.compose(event, 100)
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, rel=2e-3)


def test_a_noise_multiplier_is_taken_as_it_is():
    solver = SGD(TENTH, steps=3, noise_multiplier=20.0)
    data = problem(solver)
    list(solver.iterates(data, OBJECTIVE))
    assert data.report().charged == pytest.approx(3 * data.currency.price(TENTH.cost([Gaussian(0.05).cost])))
    with pytest.raises(BudgetExhausted):
        list(SGD(TENTH, steps=3, noise_multiplier=0.1).iterates(problem(solver), OBJECTIVE))


class Noiseless:
    """Data of which every batch is all rows and every release the same gradient: what is left is the optimizer."""

    n_rows = 10.0

    def __init__(self, gradients):
        self.gradients = list(gradients)

    def subsample(self, sampling, mechanisms, label):
        return self

    def measure(self, query):
        assert isinstance(query, GradientSum)
        self.clip = query.clip
        return query

    def release(self, sealed, mechanism):
        return 10 * np.array(self.gradients.pop(0))


def test_a_step_of_sgd():
    data = Noiseless([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [1.0, 1.0]])
    solver = SGD(TENTH, steps=4, learning_rate=0.5, average=0.5, noise_multiplier=1.0, gradient_clip=0.7)
    found = list(solver.iterates(data, LinearObjective(Logistic(), L2(0.2), (2,))))
    w, expected = np.zeros(2), []
    for gradient in ([1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [1.0, 1.0]):
        w = w - 0.5 * (np.array(gradient) + 0.2 * w)
        expected.append(w)
    np.testing.assert_allclose(found[:2], expected[:2])
    np.testing.assert_allclose(found[2:], [expected[2], (expected[2] + expected[3]) / 2])
    assert data.clip == 0.7


def test_a_step_of_adam():
    """Kingma & Ba (2015), Algorithm 1, written out."""
    gradients = np.random.default_rng(0).normal(size=(5, 3))
    solver = SGD(TENTH, steps=5, optimizer="adam", learning_rate=0.1, average=1e-9, noise_multiplier=1.0)
    found = list(solver.iterates(Noiseless(gradients), LinearObjective(Logistic(), L2(0.0), (3,))))
    w, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(found[t - 1], w)


def test_replaced_rows_need_twice_the_noise_and_more():
    """Without replacement sums are protected against replaced rows, at the price of the theorem for that scheme."""
    poisson, fixed = SGD(TENTH), SGD(Sampling(0.1, "without-replacement"))
    assert fixed.calibrated(problem(fixed)) < poisson.calibrated(problem(poisson))
    batch = problem(fixed).subsample(fixed.sampling, [Gaussian(0.01)], "b")
    assert batch.adjacency == "replace"
    assert batch.n_rows == 200


def test_the_budget_of_a_plan_is_its_best_order():
    solver = SGD(TENTH, steps=100)
    currency = best_order(TENTH, solver.costs, 100, 1.0, 1e-6)
    limit = Budget.of(1.0, 1e-6, currency=currency).limit
    assert 100 * currency.price(TENTH.cost(solver.costs(solver.calibrated(problem(solver))))) <= limit
