"""Solvers that cheat while they run: they spend too much, release what was not paid for, or carry a seal out."""

import contextlib
import copy
from dataclasses import replace

import numpy as np
import pytest

from dpsk import DPGradientDescentClassifier
from dpsk.data import ArrayRows, PrivateData
from dpsk.losses import Logistic
from dpsk.mechanisms import SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import Budget, BudgetExhausted, GaussianDP, Ledger, Sampling
from dpsk.solvers import Diagnostics, Solver, run
from dpsk.solvers.api import AboveThreshold, Gaussian, Minimizer
from dpsk.solvers.gradient_descent import GradientDescent
from dpsk.testing import find_peeks


def cheated(iterates, currency=None):
    """Run a solver with these iterates; return the ledger it could spend from, and what it ended with."""

    class Planted(Solver):
        def __post_init__(self):
            pass

    Planted.iterates = lambda self, data, objective: iterates(data, objective)
    Planted.__abstractmethods__ = frozenset()
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(300, 3)), rng.choice([-1.0, 1.0], 300))
    ledger = Ledger(Budget.of(1.0, 1e-6, currency=currency))
    data = PrivateData(rows, ledger, SeededBits(0))
    try:
        return ledger, run(Planted(), data, LinearObjective(Logistic(), L2(0.01), (4,)))
    except Exception as error:
        return ledger, error


def gradient(data, objective, price):
    sealed = data.measure(objective.gradient(objective.start(), clip=1.0))
    return data.release(sealed, Gaussian.priced(price, data.currency)) / data.n_rows


def test_an_honest_one_comes_through():
    def iterates(data, objective):
        for _ in range(5):
            yield gradient(data, objective, data.share(5 - _))
        return Diagnostics({"steps": 5}, ("a doubt",))

    ledger, result = cheated(iterates, GaussianDP())
    assert result.w.shape == (4,)
    assert result.diagnostics == Diagnostics({"steps": 5}, ("a doubt",))
    assert 0 < ledger.charged <= ledger.budget.limit


@pytest.mark.parametrize("times", [1.001, 10, 1e9])
def test_one_that_takes_a_share_of_more_than_there_is(times):
    def iterates(data, objective):
        yield gradient(data, objective, data.share(2))
        for _ in range(20):
            yield gradient(data, objective, data.share(of=times * data.remaining))

    ledger, result = cheated(iterates)
    assert ledger.charged <= ledger.budget.limit
    assert ledger.releases[0].count == 1  # the first, and nothing of what did not fit
    assert np.isfinite(result.w).all()


def test_one_that_never_stops_is_stopped():
    def iterates(data, objective):
        while True:
            yield gradient(data, objective, data.portion(7))

    ledger, _ = cheated(iterates)
    assert ledger.charged <= ledger.budget.limit
    assert ledger.releases[0].count in (6, 7)


def test_one_that_releases_twice_from_a_batch_it_paid_for_once():
    def iterates(data, objective):
        mechanism = Gaussian(0.01)
        batch = data.subsample(Sampling(0.5), [mechanism], "batch")
        sealed = batch.measure(objective.gradient(objective.start(), clip=1.0))
        yield batch.release(sealed, mechanism)
        yield batch.release(sealed, mechanism)

    ledger, error = cheated(iterates)
    assert isinstance(error, ValueError)
    assert "was not bought with this batch" in str(error)
    assert ledger.turn == 1


def test_one_that_buys_noise_and_releases_with_less():
    def iterates(data, objective):
        batch = data.subsample(Sampling(0.5), [Gaussian(0.01)], "batch")
        yield batch.release(batch.measure(objective.gradient(objective.start(), clip=1.0)), Gaussian(0.02))

    assert "was not bought with this batch" in str(cheated(iterates)[1])


def test_one_that_goes_on_with_a_search_after_something_else_was_paid():
    def iterates(data, objective):
        w = objective.start()
        search = data.open(AboveThreshold(0.01, 8), "search")
        gains = objective.gains(w, np.ones(4), np.array([1.0, 0.5]), clip=1.0)
        yield gradient(data, objective, data.share(4))
        data.release(data.measure(gains), search)

    assert "ended when something else was paid for" in str(cheated(iterates)[1])


def test_one_that_asks_a_batch_for_what_is_proved_for_all_rows_only():
    def iterates(data, objective):
        mechanism = Gaussian(0.01)
        batch = data.subsample(Sampling(0.5), [mechanism], "batch")
        minimum = Minimizer(objective.loss, 300, 4, clip=1.0, longest=2.0, penalty=30.0)
        yield batch.release(batch.measure(minimum), mechanism)

    error = cheated(iterates)[1]
    assert isinstance(error, TypeError)
    assert "Query" in str(error)


def test_one_that_hands_a_seal_to_the_fitted_model():
    def iterates(data, objective):
        sealed = data.measure(objective.gradient(objective.start(), clip=1.0))
        yield gradient(data, objective, data.share(2))
        return Diagnostics({"kept": [sealed]})

    error = cheated(iterates)[1]
    assert isinstance(error, TypeError)
    assert "sealed" in str(error)


def test_one_that_hands_the_data_to_the_fitted_model():
    def iterates(data, objective):
        yield gradient(data, objective, data.share(2))
        return Diagnostics({"data": data})

    assert "cannot be copied" in str(cheated(iterates)[1])


def in_an_array(sealed):
    w = np.empty(1, dtype=object)
    w[0] = sealed
    return w


@pytest.mark.parametrize("wrap", [lambda sealed: sealed, lambda sealed: [sealed], in_an_array])
def test_one_whose_weights_are_a_seal(wrap):
    def iterates(data, objective):
        yield wrap(data.measure(objective.gradient(objective.start(), clip=1.0)))

    ledger, error = cheated(iterates)
    assert isinstance(error, TypeError)
    assert "arrays of floats" in str(error)
    assert ledger.turn == 0


def test_one_that_changes_what_neighbours_are():
    def iterates(data, objective):
        data.adjacency = "zero-out"
        yield gradient(data, objective, data.share(2))

    assert isinstance(cheated(iterates)[1], AttributeError)


def test_one_that_swallows_the_end_of_its_budget():
    def iterates(data, objective):
        w = objective.start()
        for _ in range(50):
            with contextlib.suppress(BudgetExhausted):
                w = w - gradient(data, objective, data.portion(3))
            yield w

    ledger, result = cheated(iterates)
    assert ledger.charged <= ledger.budget.limit
    assert result.w.any()


def test_a_result_is_a_copy_of_what_the_solver_holds():
    kept = {"steps": [1]}

    def iterates(data, objective):
        yield gradient(data, objective, data.share(2))
        return Diagnostics(kept)

    _, result = cheated(iterates)
    kept["steps"].append(2)
    assert copy.copy(result.diagnostics.attributes) == {"steps": [1]}


@pytest.mark.parametrize(
    "line",
    [
        "from dpsk.data import Door",
        "from dpsk.encodings import LinearEncoding",
        "from dpsk.estimators.plan import plan_of",
        "w = data._pay(cost, 'nothing')",
        "w = data.measure(query)._shift",
        "data.adjacency = 'zero-out'",
        "low = table.given.min(axis=0)",
        "low = table.compact.matrix.min(axis=0)",
        "share = table.labels.mean()",
    ],
)
def test_what_the_source_of_a_solver_must_not_hold(line):
    assert find_peeks(line)


def test_what_a_solver_shows_does_not_replace_the_report():
    class Modest(GradientDescent):
        def iterates(self, data, objective):
            yield gradient(data, objective, data.share())
            return Diagnostics({"privacy_spent": "nothing", "evaluations": {}, "coef": 0, "known": 1})

    class Classifier(DPGradientDescentClassifier):
        def _plan(self, facts):
            return replace(super()._plan(facts), solver=Modest())

    model = Classifier(epsilon=100.0).fit(np.eye(4), [0, 1, 0, 1])
    assert model.known_ == 1
    assert model.coef_.shape == (1, 4)
    assert model.privacy_spent_.charged > 0
    assert model.evaluations_ == {"gradient": 1}
