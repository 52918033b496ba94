"""DP-BLSGD: prices, searches, what a failed search changes, and that it descends."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sampled_problem import budget_of, problem, releases

from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Softmax
from dpsk.mechanisms import AboveThreshold, ArgMin, Gaussian
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import BudgetExhausted, Sampling
from dpsk.solvers import run
from dpsk.solvers.line_search import LineSearch, angle_between
from dpsk.testing import check_solver

TENTH = Sampling(0.1)


def iterates(solver, data, loss=None, penalty=None):
    """Return all iterates, to the end of the budget."""
    found = []
    objective = LinearObjective(loss or Logistic(), penalty or L2(1e-3, True), (data.n_parameters,))
    run(solver, data, objective, found.append)
    return found


SOLVERS = {
    "default": LineSearch(TENTH),
    "without replacement": LineSearch(Sampling(0.1, "without-replacement")),
    "all rows": LineSearch(Sampling(1.0), increase="merge"),
    "gaussian": LineSearch(TENTH, noise="gaussian"),
    "exponential": LineSearch(TENTH, search="exponential"),
    "clipped": LineSearch(TENTH, gains="clipped"),
    "decaying clips": LineSearch(TENTH, clip_decay=0.05),
    "fallback": LineSearch(TENTH, fallback=True),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_it_passes_check_solver(name):
    solver = SOLVERS[name]
    check_solver(solver, budget=budget_of(solver), large_epsilon=1e3)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("loss", [Hinge(), HuberHinge()], ids=lambda loss: type(loss).__name__)
def test_it_passes_check_solver_with_a_hinge(loss):
    solver = LineSearch(TENTH)
    check_solver(solver, loss=loss, budget=budget_of(solver), large_epsilon=1e3, tolerance=0.03)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("loss", [Softmax(3), OneVsRest(HuberHinge(), 3)], ids=["softmax", "one-vs-rest"])
def test_it_passes_check_solver_with_several_classes(loss):
    solver = LineSearch(TENTH)
    check_solver(solver, loss=loss, n_classes=3, budget=budget_of(solver), large_epsilon=1e3, tolerance=0.03)


# ------------------------------------------------------------------------------------------------------ prices


@pytest.mark.slow
@pytest.mark.parametrize("search", ["armijo-svt", "exponential"])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_splits_updates_whose_search_succeeds_take_the_whole_budget(rate, search):
    solver = LineSearch(Sampling(rate), search=search, splits=12, fallback=True)  # every search ends with a step
    data = problem(solver)
    assert len(iterates(solver, data)) == 12
    report = data.report()
    assert 0.999 * report.limit < report.charged <= report.limit


@pytest.mark.slow
def test_the_search_gets_its_share():
    solver = LineSearch(TENTH, search_share=0.25)
    data = problem(solver)
    mu, epsilon = solver.first_strengths(data)
    assert epsilon == 0.25 * mu
    gradient, search = solver.costs(mu)
    assert gradient == Gaussian(mu).cost
    assert search == AboveThreshold(epsilon, solver.candidates).cost


@pytest.mark.slow
def test_the_paper_s_first_price():
    solver = LineSearch(TENTH, splits=50, first_price="paper", search_share=1.0)
    data = problem(solver, epsilon=0.4)
    assert solver.first_strengths(data) == (0.004, 0.004)
    # what buys 50 updates in the paper's accounting is a small part of the budget in a tight one
    price = data.currency.price(TENTH.cost(solver.costs(0.004)))
    assert 50 * price < 0.1 * data.budget.limit


def test_the_last_update_takes_what_is_left():
    solver = LineSearch(TENTH, fallback=True)
    data = problem(solver)
    mu = solver.strongest(data, 2.5, 1.0, 1.0)
    assert solver.with_the_rest(data, mu, mu) == (mu, mu)
    data.subsample(TENTH, [Gaussian(mu), solver.chooser(mu)], "spent elsewhere")
    more, also = solver.with_the_rest(data, 0.99 * mu, 0.99 * mu)
    price = data.currency.price(TENTH.cost(solver.costs(more, also)))
    assert 0.999 * data.remaining < price <= data.remaining

    # one that hardly fits is bought a little weaker; what buys less than half of its precision is left
    less, _ = solver.with_the_rest(data, 1.2 * mu, 1.2 * mu)
    assert mu < less < 1.2 * mu
    assert solver.with_the_rest(data, 2.0 * mu, 2.0 * mu) == (2.0 * mu, 2.0 * mu)


def test_nothing_left_buys_nothing():
    solver = LineSearch(TENTH, fallback=True)
    data = problem(solver)
    data.subsample(TENTH, [Gaussian(solver.sampling.strongest(lambda mu: [Gaussian(mu).cost], data.remaining,
                                                               data.currency))], "all")  # fmt: skip
    assert data.remaining < 1e-6 * data.budget.limit
    assert solver.with_the_rest(data, 0.5, 0.5) == (0.5, 0.5)


def test_an_update_that_does_not_fit_ends_the_run():
    class Dear(LineSearch):
        def first_strengths(self, data):
            return 50.0, 50.0

    with pytest.raises(BudgetExhausted, match="before the first iterate"):
        iterates(Dear(TENTH), problem(Dear(TENTH)))


@pytest.mark.slow
def test_the_paper_s_first_price_is_never_more_than_an_even_share():
    """It grows like epsilon squared, and would leave no updates."""
    solver = LineSearch(TENTH, splits=50, first_price="paper")
    assert solver.first_strengths(problem(solver, epsilon=1e6)) == replace(solver, first_price="even").first_strengths(
        problem(solver, epsilon=1e6)
    )


@pytest.mark.slow
def test_prices_rise_only_while_ten_updates_are_left(play):
    log, _ = play(["miss"] * 12 + ["hit"], increase="always")
    mu = np.array([entry[1] for entry in log if entry[0] == "gradient"])
    rises = np.flatnonzero(np.diff(mu) > 0)
    assert 1 <= len(rises) < 11, "at first, and not to the end"
    assert (np.diff(mu) >= 0).all()


def test_clips_do_not_vanish(play):
    log, _ = play(["miss", "hit"] * 8 + ["hit"], increase="always", increase_by=1e-3, clip_decay=0.99)
    clips = [entry[2] for entry in log if entry[0] == "gradient"]
    assert min(clips) == pytest.approx(1.5e-6)


# ----------------------------------------------------------------------------------------------- what is computed


class FakeBatch:
    """Releases what it is told, and shows what it was asked."""

    n_rows = 25.0

    def __init__(self, released):
        self.released, self.queries = released, []

    def measure(self, query):
        self.queries.append(query)
        return np.zeros(len(getattr(query, "lengths", [0.0])))

    def release(self, sealed, mechanism):
        self.shift = sealed
        return self.released

    def open(self, mechanism, label):
        return mechanism


def test_gradients_are_divided_by_the_expected_size_of_a_batch():
    w = np.array([1.0, -2.0, 0.0])
    batch = FakeBatch(np.full(3, 50.0))
    objective = LinearObjective(Logistic(), L2(0.5, True), (3,))
    gradient = LineSearch(TENTH).gradient(batch, objective, w, Gaussian(1.0), 1.0)
    np.testing.assert_allclose(gradient, 50 / 25 + np.array([0.5, -1.0, 0.0]))


@pytest.mark.parametrize("gains", ["per-unit", "clipped"])
def test_the_armijo_condition_holds_at_the_threshold(gains):
    """gain(step) + n (penalty(w) - penalty(there)) - n alpha step ||g||^2 is what is compared with 0."""
    solver = LineSearch(TENTH, gains=gains, candidates=3, sufficient=0.25, step_max=2.0, shrink=0.5)
    w, gradient, penalty = np.array([1.0, 0.5]), np.array([0.5, -1.0]), L2(0.1)
    batch = FakeBatch(0)
    objective = LinearObjective(Logistic(), penalty, (2,))
    found = solver.step(batch, objective, w, gradient, solver.searched((1.5, 3.0)), solver.chooser(1.0), 2.0)
    steps = np.array([2.0, 1.0, 0.5])
    there = w - steps[:, None] * gradient
    public = 0.05 * (w @ w) - 0.05 * np.square(there).sum(axis=1) - 0.25 * steps * (gradient @ gradient)
    length = steps * np.linalg.norm(gradient) if gains == "per-unit" else 1.0
    np.testing.assert_allclose(batch.shift, 25 * public / length)
    assert [query.clip for query in batch.queries] == [1.5 if gains == "per-unit" else 3.0]
    assert found == 2.0
    np.testing.assert_allclose(batch.queries[0].points, there, atol=1e-8)


def test_gains_are_computed_until_one_fires():
    solver = LineSearch(TENTH, candidates=15)
    w, gradient = np.zeros(2), np.ones(2)

    class Third(FakeBatch):
        def release(self, sealed, mechanism):
            return len(sealed) if len(self.queries) < 3 else 1

    batch = Third(None)
    objective = LinearObjective(Logistic(), L2(0.0), (2,))
    step = solver.step(batch, objective, w, gradient, solver.searched((1.5, 3.0)), solver.chooser(1.0), 3.0)
    assert len(batch.queries) == 3
    assert step == pytest.approx(3.0 * 0.8**9)
    np.testing.assert_allclose(batch.queries[2].points[1], -step * gradient, rtol=1e-8)


@pytest.mark.parametrize("search", ["armijo-svt", "exponential"])
def test_no_step_or_the_shortest(search):
    class Nothing(FakeBatch):
        def release(self, sealed, mechanism):
            return len(sealed) - (search == "exponential")  # the last entry of the exponential search is staying

    objective, w, gradient = LinearObjective(Logistic(), L2(0.0), (2,)), np.zeros(2), np.ones(2)

    class Line(Nothing):
        def measure(self, query):
            self.queries.append(query)
            return np.zeros(query.evaluations - (search == "armijo-svt"))

    for fallback in (False, True):
        solver = LineSearch(TENTH, search=search, fallback=fallback)
        found = solver.step(Line(None), objective, w, gradient, solver.searched((1.0, 1.0)), solver.chooser(1.0), 1.0)
        if fallback:
            assert found == pytest.approx(0.8**14)
        else:
            assert found is None


def test_a_gradient_of_zero_leads_nowhere():
    solver = LineSearch(TENTH)
    objective, zero = LinearObjective(Logistic(), L2(0.0), (2,)), np.zeros(2)
    assert solver.step(None, objective, zero, zero, solver.searched((1.0, 1.0)), solver.chooser(1.0), 1.0) is None


def test_the_choosers():
    assert LineSearch(TENTH, search="exponential").chooser(0.3) == ArgMin(0.3)
    assert LineSearch(TENTH, noise="gaussian", candidates=7).chooser(0.3) == AboveThreshold(0.3, 7, "gaussian")


# ---------------------------------------------------------------------------------------- after a failed search


class Scripted(LineSearch):
    """A search whose outcomes are written down: "hit", "miss"; and gradients too."""

    def gradient(self, batch, objective, w, mechanism, clip):
        super().gradient(batch, objective, w, mechanism, clip)
        LOG.append(("gradient", round(mechanism.mu, 12), round(clip, 12)))
        return np.array(GRADIENTS.pop(0)) if GRADIENTS else np.ones_like(w)

    def step(self, batch, objective, w, gradient, clips, choose, step_max):
        LOG.append(("search", round(choose.epsilon, 12), gradient.copy(), step_max))
        batch.open(choose, "search")
        outcome = OUTCOMES.pop(0)
        step = outcome if isinstance(outcome, float) else 0.1
        return None if outcome == "miss" else step


LOG, OUTCOMES, GRADIENTS = [], [], []


@pytest.fixture
def play():
    """Return a function that runs a scripted solver and returns what it did."""

    def play(outcomes, gradients=(), **options):
        LOG[:], OUTCOMES[:], GRADIENTS[:] = [], list(outcomes), list(gradients)
        solver = Scripted(TENTH, splits=100, **options)
        data = problem(solver, d=1)
        steps = solver.iterates(data, LinearObjective(Logistic(), L2(0.0), (2,)))
        for _ in range(sum(outcome != "miss" for outcome in outcomes)):
            next(steps)
        return list(LOG), data

    yield play
    LOG[:], OUTCOMES[:], GRADIENTS[:] = [], [], []


EAST, NORTH, NORTH_EAST = [1.0, 0.0], [0.0, 1.0], [1.0, 0.9]
UP = 1.3**0.5


@pytest.mark.parametrize(
    ("increase", "gradients", "measured", "searched", "direction"),
    [
        # more than 90 degrees, or more than 1.1 times the usual 90: doubtful gradients get dearer
        ("angle", (EAST, [-1.0, 0.1]), UP, 1.0, [0.0, 0.05]),
        # 42 degrees is below half the usual 90: the search was too noisy
        ("angle", (EAST, NORTH_EAST), 1.0, 1.3, [1.0, 0.45]),
        # 63 degrees: neither
        ("angle", (EAST, [0.5, 1.0]), 1.0, 1.0, [0.75, 0.5]),
        ("always", (EAST, EAST), UP, 1.0, EAST),
        ("never", (EAST, NORTH), 1.0, 1.0, [0.5, 0.5]),
        # DP-AGD: 0.3 more for the same gradient, merged by precision
        ("merge", (EAST, NORTH), UP, 1.0, [1 / 1.3, 0.3 / 1.3]),
    ],
)
def test_what_a_failed_search_changes(play, increase, gradients, measured, searched, direction):
    log, data = play(["miss", "hit", "hit"], gradients, increase=increase)
    kinds = [entry[0] for entry in log]
    assert kinds == ["gradient", "search", "gradient", "search", "gradient", "search"]
    (_, mu, _), (_, epsilon, *_), (_, again, _), (_, repeated, merged, _), (_, later, _), (_, last, *_) = log
    assert again == pytest.approx(mu * (0.3**0.5 if increase == "merge" else 1.0))
    assert later == pytest.approx(measured * mu)
    assert repeated == last == pytest.approx(searched * epsilon)
    np.testing.assert_allclose(merged, direction)
    assert releases(data) == {"gradient and search": 2, "gradient again": 1, "search again": 1}


def test_an_update_goes_the_step_that_was_found_against_the_merged_gradient():
    OUTCOMES[:], GRADIENTS[:] = [0.5, "miss", 2.0], [EAST, EAST, NORTH]
    solver = Scripted(TENTH, splits=100, increase="never")
    steps = solver.iterates(problem(solver, d=1), LinearObjective(Logistic(), L2(0.0), (2,)))
    np.testing.assert_allclose(next(steps), [-0.5, 0.0])
    np.testing.assert_allclose(next(steps), [-1.5, -1.0])


def test_each_repetition_is_paid_for_on_a_batch_of_its_own(play):
    log, data = play(["miss", "miss", "hit"], increase="never")
    mu, epsilon = log[0][1], log[1][1]
    solver = Scripted(TENTH)
    prices = [
        data.currency.price(TENTH.cost(costs))
        for costs in (
            solver.costs(mu, epsilon),
            *[[Gaussian(mu).cost]] * 2,
            *[[solver.chooser(epsilon).cost]] * 2,
        )
    ]
    assert data.report().charged == pytest.approx(sum(prices), rel=1e-9)


def test_clips_shrink_once_in_an_update_that_pays_more_for_gradients(play):
    log, _ = play(["hit", "miss", "miss", "hit", "hit"], increase="always", clip_decay=0.05, gradient_clip=2.0)
    clips = [entry[2] for entry in log if entry[0] == "gradient"]
    assert clips == pytest.approx([2.0, 2.0, 2.0, 2.0, 1.9])
    log, _ = play(["miss", "hit", "hit"], increase="never", clip_decay=0.05)
    assert {entry[2] for entry in log if entry[0] == "gradient"} == {1.5}


def test_the_usual_angle_is_a_moving_average(play):
    """After an update at 0 degrees it is 0.8 * 90: an angle of 85 now is more than 1.1 times that."""
    tilted = [math.cos(math.radians(85)), math.sin(math.radians(85))]
    log, _ = play(["hit", "hit", "miss", "hit"], (EAST, EAST, EAST, tilted), increase="angle")
    mu = [entry[1] for entry in log if entry[0] == "gradient"]
    log, _ = play(["hit", "hit", "miss", "hit", "hit"], (EAST, EAST, EAST, tilted), increase="angle")
    assert [entry[1] for entry in log if entry[0] == "gradient"][-1] == pytest.approx(UP * mu[0])
    log, _ = play(["miss", "hit", "hit"], (EAST, tilted), increase="angle")
    assert [entry[1] for entry in log if entry[0] == "gradient"][-1] == mu[0]


def test_the_range_of_steps_shrinks_and_never_grows(play):
    log, _ = play([0.5, 1.0, 0.2, 2.9, 2.0, 3.0, 0.1], adapt_every=3, step_max=3.0)
    assert [entry[3] for entry in log if entry[0] == "search"] == pytest.approx([3.0, 3.0, 3.0, 1.2, 1.2, 1.2, 1.2])


def test_angles():
    assert angle_between(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(45)
    assert angle_between(np.array([1.0]), np.array([-3.0])) == pytest.approx(180)
    assert angle_between(np.zeros(2), np.ones(2)) == 90
    assert angle_between(np.ones((2, 3)), 2 * np.ones((2, 3))) == pytest.approx(0, abs=1e-5)


# ---------------------------------------------------------------------------------------------------- it descends


@pytest.mark.slow
def test_step_sizes_follow_the_curvature_of_the_data():
    """Rows 8 times as long need steps 64 times as short; a fixed step could not serve both."""
    for scale in (1.0, 8.0):
        solver = LineSearch(Sampling(1.0), step_max=64.0, candidates=45, gradient_clip=3.0 * scale)
        data = problem(solver, epsilon=1e3, scale=scale)
        w = iterates(solver, data, penalty=L2(1e-4, True))[-1]
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 5)) * scale
        y = np.where(X[:, 0] + scale * rng.logistic(size=2000) > 0, 1.0, -1.0)
        best = np.logaddexp(0, -y * (X[:, 0] / scale)).mean()  # at the weights that made the labels
        assert np.logaddexp(0, -y * (X @ w[:-1] + w[-1])).mean() < best + 0.005


@pytest.mark.slow
def test_batches_that_may_be_empty_do_no_harm():
    solver = LineSearch(Sampling(0.02), splits=20, fallback=True)
    data = problem(solver, n=30)
    assert all(np.isfinite(w).all() for w in iterates(solver, data))
