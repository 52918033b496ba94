import numpy as np
import pytest
from noisy_descent import NoisyDescent

from dpsk.data import ArrayRows, PrivateData
from dpsk.losses import Logistic
from dpsk.mechanisms import SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import Budget, BudgetExhausted, Ledger
from dpsk.solvers import Diagnostics, Result, Solver, run

OBJECTIVE = LinearObjective(Logistic(), L2(0.1), (4,))


def make_data(epsilon=1.0):
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(200, 3)), rng.choice([-1.0, 1.0], 200))
    return PrivateData(rows, Ledger(Budget.of(epsilon, 1e-6)), SeededBits(0))


class Yields(Solver):
    """A solver that yields some weights and then runs out of budget."""

    def __init__(self, *weights, exhausted):
        self.weights, self.exhausted = weights, exhausted

    def iterates(self, data, objective):
        yield from self.weights
        if self.exhausted:
            raise BudgetExhausted("enough")


@pytest.mark.parametrize("exhausted", [True, False])
def test_the_last_iterate_is_returned_and_every_one_is_shown(exhausted):
    seen = []
    weights = [np.full(OBJECTIVE.shape, float(k)) for k in (1, 2, 3)]
    last = run(Yields(*weights, exhausted=exhausted), make_data(), OBJECTIVE, seen.append)
    assert last == Result(weights[-1], Diagnostics())
    assert all(shown is given for shown, given in zip(seen, weights, strict=True))


@pytest.mark.parametrize("exhausted", [True, False])
def test_a_budget_without_a_single_iterate_is_an_error(exhausted):
    with pytest.raises(BudgetExhausted):
        run(Yields(exhausted=exhausted), make_data(), OBJECTIVE)


def test_other_errors_pass():
    def broken(*_):
        raise ZeroDivisionError
        yield

    solver = Yields(exhausted=False)
    solver.iterates = broken
    with pytest.raises(ZeroDivisionError):
        run(solver, make_data(), OBJECTIVE)


def test_equal_shares_use_up_the_budget_and_no_more():
    data = make_data()
    run(NoisyDescent(steps=7), data, OBJECTIVE)
    report = data.report()
    assert report.releases[0].count == 7
    assert report.charged <= report.limit
    assert report.charged == pytest.approx(report.limit, rel=1e-9)


def test_a_solver_that_asks_for_more_stops_at_the_cap():
    class Greedy(NoisyDescent):
        def iterates(self, data, objective):
            while True:
                yield from super().iterates(data, objective)

    data = make_data()
    run(Greedy(steps=7), data, OBJECTIVE)
    assert data.report().releases[0].count == 7
