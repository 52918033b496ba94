"""The baselines of the benchmarks keep what they promise: what is learned, the noise that is drawn, and its size."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import OptimizeResult

from dpsk.data import ArrayRows, PrivateData
from dpsk.losses import Hinge, HuberHinge, Logistic
from dpsk.mechanisms import SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import Budget, BudgetExhausted, GaussianCost, Ledger, Sampling, conversions
from dpsk.solvers import run
from dpsk.testing import check_query

pytest.importorskip("pandas")

from benchmarks.methods import CONFIGURATIONS
from benchmarks.solvers import objective_perturbation
from benchmarks.solvers.composed_sgd import SGDMA, AdvancedComposition, AllMoments, MomentsAccountant, SGDAdv
from benchmarks.solvers.gradient_output import (
    OutputGradientDescent,
    PermutedGradientDescent,
    RandomizedSensitivity,
)
from benchmarks.solvers.objective_perturbation import ApproximateMinima, GaussianObjective, PureObjective
from benchmarks.solvers.privgene import LossesAmong, PrivGene, PrivGeneClassifier
from benchmarks.solvers.unit_rows import LOSSES

BASELINES = {
    "PrivGene": PrivGeneClassifier(random_state=0),
    "PrivGene, two parents": PrivGeneClassifier(parents=2, random_state=0),
    "SGD-Adv": SGDAdv(steps=20, random_state=0),
    "SGD-MA": SGDMA(steps=20, random_state=0),
    "SGD-MA, all moments": SGDMA(steps=20, all_moments=True, random_state=0),
}


def small_problem(n=2000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.where(X @ np.linspace(-2, 2, d) + 0.3 * rng.normal(size=n) > 0, 1, -1)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_baselines_learn_and_spend_within_their_budget(name, loss):
    X, y = small_problem()
    model = BASELINES[name].__class__(**(BASELINES[name].get_params() | {"loss": loss, "epsilon": 8.0}))
    model.fit(X, y)
    spent = model.privacy_spent_
    assert spent.charged <= spent.limit
    assert (spent.epsilon, spent.delta) == (8.0, 1e-6)
    assert spent.charged > 0.99 * spent.limit
    assert model.score(X, y) > 0.75
    assert np.isfinite(model.coef_).all()


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=["logistic", "hinge"])
@pytest.mark.parametrize("clip", [0.25, 3.0])
def test_one_row_moves_the_scores_of_candidates_by_no_more_than_promised(loss, clip):
    points = PrivGene().children(np.array([0.3, -1.0, 0.5, 2.0]), np.array([-0.1, 1.0, 0.0, 0.4]), 0.5)
    reached = check_query(LossesAmong(loss, points, clip=clip), n_features=3, trials=200)
    assert reached > 0.1  # and the bound is not far away


def test_what_is_subtracted_does_not_change_the_order_of_candidates():
    X, y = small_problem(500)
    points = PrivGene().children(np.zeros(5), np.zeros(5), 0.5)
    query = LossesAmong(Logistic(), points, clip=64.0)  # clips nothing
    sums = query.over(ArrayRows(X, y.astype(float)), SeededBits(0)) * query.unit
    margins = y[:, None] * (np.column_stack([X, np.ones(len(X))]) @ points.T)
    expected = np.logaddexp(0, -margins)
    expected = (expected - expected.min(axis=1, keepdims=True)).sum(axis=0)
    # features are rounded to 18 bits, scores of rows down to multiples of the unit
    np.testing.assert_allclose(sums, expected, atol=500 * (query.unit + 1e-4))
    assert sums.argmin() == expected.argmin()


def test_scores_of_candidates_are_the_same_for_every_order_and_storage():
    X, y = small_problem(9000, 6)
    X[X < 0.4] = 0
    query = LossesAmong(Logistic(), PrivGene().children(np.full(7, 0.3), np.full(7, -0.7), 0.475), clip=2.0)
    order = np.random.default_rng(1).permutation(len(X))
    y = y.astype(float)
    sums = [query.over(rows, SeededBits(0)) for rows in (ArrayRows(X, y), ArrayRows(sp.csr_matrix(X), y))]
    sums.append(query.over(ArrayRows(X[order], y[order]), SeededBits(0)))
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])


def test_privgene_pays_for_every_choice_and_is_pure_without_a_delta():
    X, y = small_problem(800)
    for delta in (0.0, 1e-6):
        ledger = Ledger(Budget.of(4.0, delta))
        data = PrivateData(ArrayRows(X, y.astype(float)), ledger, SeededBits(0))
        run(PrivGene(pace=400, parents=2), data, LinearObjective(Logistic(), L2(1e-3), (5,)))
        (release,) = ledger.releases
        assert release.count == 2 * round(800 * 4.0 / 400)
        assert ledger.charged <= ledger.budget.limit
        assert ledger.budget.currency.name == ("rho" if delta else "epsilon")


@pytest.mark.slow
@pytest.mark.parametrize("currency", [AdvancedComposition, MomentsAccountant, AllMoments])
def test_a_plan_of_equal_steps_keeps_its_promise_and_no_more_steps_fit(currency):
    plan = currency.plan(0.02, 100, 1.0, 1e-6)
    assert plan.delta(100, 1.0) <= 1e-6 < currency(plan.rate, plan.noise_multiplier / 1.01).delta(100, 1.0)
    assert 100 <= plan.limit(1.0, 1e-6) < 105
    assert plan.epsilon(100, 1e-6) == pytest.approx(1.0, rel=1e-2)
    assert plan.price(GaussianCost(1 / plan.noise_multiplier)) == math.inf  # one on all rows is not what was planned
    ledger = Ledger(Budget(1.0, 1e-6, plan, 100.0))
    ledger.charge(Sampling(plan.rate).cost([GaussianCost(1 / plan.noise_multiplier)]), "batch", 100)
    with pytest.raises(BudgetExhausted):
        ledger.charge(Sampling(plan.rate).cost([GaussianCost(1 / plan.noise_multiplier)]), "batch")


def test_older_accounting_is_never_below_the_true_privacy_loss():
    """Against the loss distribution of the sampled Gaussian, composed by another library."""
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rate, noise, steps = 0.05, 2.0, 200
    true = losses.from_gaussian_mechanism(noise, sampling_prob=rate).self_compose(steps)
    for epsilon in (0.5, 1.0, 3.0):
        exact = true.get_delta_for_epsilon(epsilon)
        for currency in (AdvancedComposition, MomentsAccountant, AllMoments):
            # discretised losses are rounded up: allow for that
            assert currency(rate, noise).delta(steps, epsilon) >= exact * (1 - 1e-2)


@pytest.mark.slow
def test_the_moments_accountant_has_its_floor():
    assert MomentsAccountant(0.005, 1e4).epsilon(1, 1e-8) == pytest.approx(math.log(1e8) / 32, rel=1e-3)
    with pytest.raises(BudgetExhausted, match="raise epsilon"):
        MomentsAccountant.plan(0.005, 1, 0.5, 1e-8)
    assert AllMoments.plan(0.005, 1, 0.5, 1e-8).delta(1, 0.5) <= 1e-8


@pytest.mark.parametrize(("rate", "noise"), [(1.0, 40.0), (0.02, 3.0)])
def test_advanced_composition_is_the_published_formula(rate, noise):
    """The theorem's terms by hand, at the best a of the grid."""
    steps, epsilon = 10, 1.0

    def by_hand(a):
        b = math.log(1 + rate * (math.exp(a) - 1))
        left = epsilon - steps * b * (math.exp(b) - 1)
        slack = math.exp(-((left / b) ** 2) / (2 * steps)) if left > 0 else 1.0
        return steps * rate * conversions.gaussian_delta(a, 1 / noise) + slack

    best = min(by_hand(float(a)) for a in np.geomspace(1e-4, 20, 200))
    assert AdvancedComposition(rate, noise).delta(steps, epsilon) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("currency", [MomentsAccountant, AllMoments])
def test_moments_are_those_of_a_sampled_gaussian(currency):
    """Mironov, Talwar & Zhang (2019): E[(p/q)^a] at whole a is a binomial sum, here by hand."""
    rate, noise, steps, epsilon = 0.02, 1.5, 400, 2.0

    def moment(order):
        a = order + 1
        terms = (
            math.log(math.comb(a, k)) + (a - k) * math.log(1 - rate) + k * math.log(rate) + k * (k - 1) / (2 * noise**2)
            for k in range(a + 1)
        )
        return float(np.logaddexp.reduce(list(terms)))

    by_hand = math.exp(min(steps * moment(order) - order * epsilon for order in range(1, 33)))
    assert currency(rate, noise).delta(steps, epsilon) == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [OutputGradientDescent, PermutedGradientDescent, RandomizedSensitivity])
def test_a_replaced_row_moves_an_iterate_by_no_more_than_its_noise_is_for(kind, loss):
    rng = np.random.default_rng(0)
    model = kind(alpha=0.1)
    model.passes, reached = 3, 0.0
    for _ in range(100):
        size, n_batches, p = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        batches = rng.normal(size=(n_batches, size, p))
        batches /= np.linalg.norm(batches, axis=2, keepdims=True)
        at, _ = model.descend(batches, LOSSES[loss])
        for j in range(n_batches):
            other = batches.copy()
            # across the gradient's own row, or anything
            other[j, 0] = -other[j, 0] if rng.random() < 0.5 else np.eye(p)[0]
            there, moved = model.descend(other, LOSSES[loss])
            reached = max(reached, np.linalg.norm(there - at) / moved[j])
    # near 0 the slope of the logistic loss is half its bound, and opposite rows pull back
    assert (0.9 if loss == "huber_hinge" else 0.35) < reached <= 1 + 1e-12


class Recorder(np.random.Generator):
    """A generator that remembers what was drawn, and with what parameters."""

    def __init__(self, seed=0):
        super().__init__(np.random.PCG64(seed))
        self.normals, self.gammas, self.orders = [], [], []

    def normal(self, size):
        self.normals.append(super().normal(size=size))
        return self.normals[-1]

    def gamma(self, shape, scale):
        self.gammas.append((shape, scale, super().gamma(shape, scale)))
        return self.gammas[-1][-1]

    def permutation(self, n):
        self.orders.append(super().permutation(n))
        return self.orders[-1]


def drawn_from(kind, epsilon, delta, loss):
    """Return a fitted model, its weights, the rows of norm 1 with their signs, and what it drew."""
    X, y = small_problem(230, 3)
    drawn = Recorder()
    model = kind(epsilon, delta, loss=loss, random_state=drawn).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    rows *= (y / np.sqrt((rows**2).sum(axis=1)))[:, None]
    return model, np.append(model.coef_, model.intercept_), rows, drawn


@pytest.mark.parametrize(
    ("loss", "phi", "smoothness"), [("log_loss", Logistic(), 0.25), ("huber_hinge", HuberHinge(), 1)]
)
@pytest.mark.parametrize("epsilon", [0.002, 0.5, 3.0])
@pytest.mark.parametrize("kind", [PureObjective, GaussianObjective, ApproximateMinima])
def test_perturbed_objectives_draw_the_published_noise_and_find_the_minimum(kind, epsilon, loss, phi, smoothness):
    delta = 1e-5
    model, w, rows, drawn = drawn_from(kind, epsilon, delta, loss)
    n, p = rows.shape
    tolerance = 2 / n
    if kind is PureObjective:  # Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 2
        left, penalty = epsilon - 2 * math.log(1 + smoothness / (n * model.alpha)), n * model.alpha
        if left <= 0:
            left, penalty = epsilon / 2, smoothness / (math.exp(epsilon / 4) - 1)
        ((shape, scale, length),) = drawn.gammas
        assert (shape, scale) == (p, pytest.approx(2 / left))
        direction = drawn.normals[0]
        b = length * direction / np.linalg.norm(direction)
    elif kind is GaussianObjective:  # Kifer, Smith & Thakurta (2012), Algorithm 1
        penalty = max(n * model.alpha, 2 * smoothness / epsilon)
        b = math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon * drawn.normals[0]
    else:  # Iyengar et al. (2019), Algorithm 1
        of_b, of_rest = 0.99 * epsilon, 0.01 * epsilon
        share = min(of_b / 2, 0.999)
        penalty, tail = max(n * model.alpha, 2 * smoothness / (of_b - share)), 1 + math.sqrt(2 * math.log(2 / delta))
        b = 2 * tail / share * drawn.normals[0]
        # two neighbours may each be 1/(n penalty) away from their minima
        w = w - 2 / (n * penalty) * tail / of_rest * drawn.normals[1]
        tolerance = (1 + 1e-6) / n
    gradient = rows.T @ phi.slope(rows @ w) + penalty * w + b
    assert np.linalg.norm(gradient) <= tolerance


@pytest.mark.parametrize(("loss", "phi"), [("log_loss", Logistic()), ("huber_hinge", HuberHinge())])
def test_amp_goes_on_until_its_gradient_is_as_short_as_its_noise_is_for(monkeypatch, loss, phi):
    monkeypatch.setattr(
        objective_perturbation, "minimize", lambda value, start, **kwargs: OptimizeResult(x=start)
    )  # a solver that gives up at once
    epsilon, delta = 0.5, 1e-5
    model, w, rows, drawn = drawn_from(ApproximateMinima, epsilon, delta, loss)
    n, p = rows.shape
    b, penalty, spread = model._noise(n, p, phi.smoothness, Recorder())  # draws the same b
    w = w - spread * drawn.normals[1]
    assert np.linalg.norm(rows.T @ phi.slope(rows @ w) + penalty * w + b) <= (1 + 1e-6) / n


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("kind", [OutputGradientDescent, PermutedGradientDescent, RandomizedSensitivity])
def test_an_iterate_is_released_with_noise_for_what_a_row_moves(kind, delta, loss):
    epsilon = 0.7
    if kind is RandomizedSensitivity and not delta:
        with pytest.raises(ValueError, match=r"delta=0.0 must be positive"):
            drawn_from(kind, epsilon, delta, loss)
        return
    model, w, rows, drawn = drawn_from(kind, epsilon, delta, loss)
    size = len(rows) if kind is OutputGradientDescent else 50
    (order,) = drawn.orders
    batches = rows[order[: len(rows) // size * size]].reshape(-1, size, rows.shape[1])
    at, moved = model.descend(batches, LOSSES[loss])
    noise = w - at
    (direction,) = drawn.normals
    if delta:
        scale = noise / direction
        assert scale == pytest.approx(np.full(len(w), scale[0]))
        # the profile of Gaussian noise for the worst batch; a mixture may do with less
        assert conversions.gaussian_delta(epsilon, moved.max() / scale[0]) == pytest.approx(delta, rel=1e-6)
    else:
        ((shape, scale, length),) = drawn.gammas
        assert (shape, scale) == (len(w), moved.max() / epsilon)
        assert noise == pytest.approx(length * direction / np.linalg.norm(direction))


@pytest.mark.slow
def test_a_mixture_over_batches_costs_its_renyi_divergence_and_takes_the_lesser_noise():
    model = RandomizedSensitivity(0.7, 1e-3)
    moved = np.array([0.1] * 99 + [1.0])  # a row is seldom in the bad batch
    for sigma in (0.5, 4.0):
        found = []
        for a in np.concatenate([1 + np.geomspace(0.01, 1, 40), np.geomspace(2.1, 2000, 200)]):
            # mean over batches of the integral of p^a q^(1 - a), on a logarithmic scale
            parts = [a * (a - 1) * s**2 / (2 * sigma**2) for s in moved]
            top = max(parts)
            log_mean = top + math.log(sum(math.exp(part - top) for part in parts) / len(parts))
            slack = (math.log(1 / model.delta) - math.log(a)) / (a - 1) + math.log(1 - 1 / a)
            found.append(log_mean / (a - 1) + slack)
        assert model.mixture_epsilon(sigma, moved) == pytest.approx(min(found))
    worst = 1.0 / conversions.gaussian_mu(0.7, 1e-3)
    # nothing to gain
    np.testing.assert_allclose(model._noise(np.full(100, 1.0), 3, Recorder(1)), Recorder(1).normal(3) * worst)
    rare = np.array([1e-3] * 3000 + [1.0])
    rare_scale = (model._noise(rare, 3, Recorder(1)) / Recorder(1).normal(3))[0]
    assert rare_scale < 0.9 * worst
    assert model.mixture_epsilon(rare_scale, rare) == pytest.approx(0.7, rel=1e-6)


class _OneNoise:
    """Stands for a generator: shows the scale of what is drawn."""

    def normal(self, size):
        return np.ones(size)

    def gamma(self, shape, scale):
        return scale


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("kind", [PureObjective, GaussianObjective, ApproximateMinima])
def test_perturbed_objectives_keep_their_promise_in_one_dimension(kind, epsilon, loss):
    """The density of the minimum is that of b there times a derivative; compared on a grid, noise on it left out."""
    delta = 1e-3
    phi = LOSSES[loss]
    closest = math.inf
    for rows in ([1.0], [1.0, -1.0, 1.0]):
        leaves = kind is GaussianObjective
        others = [rows[1:]] if leaves else [[-rows[0], *rows[1:]], [0.0, *rows[1:]]]
        b, penalty, _ = kind(epsilon, delta)._noise(len(rows), 1, phi.smoothness, _OneNoise())
        scale = abs(float(b[0]))
        w = np.linspace(-60, 60, 400_001) * scale / penalty

        def log_density(rows, w=w, scale=scale, penalty=penalty):
            force = sum((x * phi.slope(x * w) for x in rows), penalty * w) / scale
            change = sum((x * x * phi.curvature(x * w) for x in rows), np.full_like(w, penalty)) / scale
            log_b = -np.abs(force) - math.log(2) if kind is PureObjective else -(force**2) / 2 - math.log(2 * np.pi) / 2
            return log_b + np.log(change)

        here = log_density(rows)
        assert np.exp(here).sum() * (w[1] - w[0]) == pytest.approx(1, abs=1e-3)
        for other in others:
            there = log_density(other)
            for one, two in ((here, there), (there, here)):
                if kind is PureObjective:
                    closest = min(closest, epsilon - (one - two).max())
                else:
                    excess = np.maximum(np.exp(one) - np.exp(epsilon + two), 0).sum() * (w[1] - w[0])
                    closest = min(closest, delta - excess)
    assert closest >= -1e-9


def test_baselines_of_the_paper_are_among_the_configurations():
    assert {"PrivGene", "SGD-Adv", "SGD-MA", "DP-Adam", "PrivGene SVM", "SGD-Adv SVM", "SGD-MA SVM"} <= set(
        CONFIGURATIONS
    )
