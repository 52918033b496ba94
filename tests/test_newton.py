import hashlib
import itertools

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from dpsk.minimizers import descent, newton
from dpsk.minimizers.descent import minima

P, K = 5, 3
TOLERANCE = 1e-7

# slope and curvature of one row's part by its score, and a bound on the curvature
SHAPES = {
    "quadratic": (lambda m: m, np.ones_like, 1.0),
    "logistic": (lambda m: np.tanh(m / 2) / 2, lambda m: 1 / (4 * np.cosh(m / 2) ** 2), 0.25),
    "flattened": (
        lambda m: np.clip(np.tanh(m / 2) / 2, -0.1, 0.1),
        lambda m: np.where(np.abs(np.tanh(m / 2)) < 0.2, 0.25, 0.0),
        0.25,
    ),
    "flat, then steep": (
        lambda m: np.clip(20 * (np.abs(m) - 1), 0, 1) * np.sign(m),
        lambda m: np.where((np.abs(m) > 1) & (np.abs(m) < 1.05), 20.0, 0.0),
        20.0,
    ),
}


class Sum:
    """Rows of one shape in K objectives of different difficulty: column k has its own scale of scores and line."""

    def __init__(self, shape="logistic", *, seed=0, n=60, p=P, k=K, convexity=0.5, line=3.0):
        rng = np.random.default_rng(seed)
        self.slope, self.curve, self.bound = SHAPES[shape]
        self.rows, self.sizes = rng.normal(size=(n, p)), 2.0 ** -np.arange(k)
        self.line = line * rng.normal(size=(p, k)) * 4.0 ** np.arange(k)
        self.convexity, self.gradients = convexity, 0
        self.smoothness = convexity + self.bound * np.linalg.norm(self.rows, 2) ** 2

    def gradient(self, w):
        self.gradients += 1
        slopes = self.slope(self.rows @ w * self.sizes) * self.sizes
        return self.rows.T @ slopes + self.convexity * w + self.line

    def _curvatures(self, w, damping):
        return np.maximum(self.curve(self.rows @ w * self.sizes), damping * self.bound) * self.sizes**2

    def hessians(self, w, damping, which):
        return np.stack([(self.rows.T * c) @ self.rows for c in self._curvatures(w, damping).T[which]])

    def products(self, w, damping):
        weights = self._curvatures(w, damping)
        return lambda step: self.rows.T @ (weights * (self.rows @ step)) + self.convexity * step

    def common(self):
        return newton.Common(self.rows.T @ self.rows)

    def curvatures(self, w, damping):
        return self._curvatures(w, damping).mean(axis=0)


class Noisy(Sum):
    """Gradients off by an eighth of the tolerance, in a direction that only w decides."""

    def gradient(self, w):
        exact = super().gradient(w)
        seed = int.from_bytes(hashlib.sha256(np.ascontiguousarray(w).tobytes()).digest()[:8], "little")
        noise = np.random.default_rng(seed).normal(size=w.shape)
        return exact + noise * (TOLERANCE / 8 / np.linalg.norm(noise, axis=0))


def solve(objectives, tolerance=TOLERANCE, shape=(P, K)):
    with np.errstate(all="ignore"):  # as PrivateData.draw does
        return minima(objectives, shape, tolerance)


def lengths(objectives, w):
    """Of the gradients without noise."""
    return np.linalg.norm(Sum.gradient(objectives, w), axis=0)


def never(*_):
    raise AssertionError("the fallback was asked")


@pytest.fixture
def no_fallback(monkeypatch):
    def check(objectives, w, tolerance):
        assert (np.linalg.norm(objectives.gradient(w), axis=0) <= tolerance).all()
        return w

    monkeypatch.setattr(descent, "descend", check)


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_newton_alone_reaches_the_tolerance(shape, seed):
    objectives = Sum(shape, seed=seed)
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()
    assert objectives.gradients < 150


@pytest.mark.usefixtures("no_fallback")
def test_a_quadratic_takes_one_step():
    objectives = Sum("quadratic")
    solve(objectives)
    assert objectives.gradients == 3  # at 0, after the step, and the fixture's


def test_the_answer_is_the_minimum():
    objectives = Sum("quadratic")
    expected = [
        np.linalg.solve(h + 0.5 * np.eye(P), -objectives.line[:, k])
        for k, h in enumerate(objectives.hessians(np.zeros((P, K)), np.zeros(K), np.arange(K)))
    ]
    np.testing.assert_allclose(solve(objectives), np.transpose(expected), atol=TOLERANCE / 0.5, rtol=0)


def test_minima_are_found_together_as_alone():
    """Easy objectives, and one that starts at its minimum, do not stop the others from being solved."""
    together = Sum("flattened")
    together.line[:, 1] = 0
    w = solve(together)
    assert not w[:, 1].any()
    for k in range(K):
        alone = Sum("flattened", k=K)
        alone.line, alone.sizes = together.line[:, [k]], together.sizes[[k]]
        assert np.linalg.norm(solve(alone, shape=(P, 1))[:, 0] - w[:, k]) <= 2 * TOLERANCE / together.convexity


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_newton_that_is_stopped_early_is_finished_by_the_fallback(shape, steps, monkeypatch):
    monkeypatch.setattr(newton, "_NEWTON_STEPS", steps)
    objectives = Sum(shape)
    w = solve(objectives)
    assert (lengths(objectives, w) <= TOLERANCE).all()


def test_the_fallback_takes_as_many_steps_as_it_says(monkeypatch):
    """sqrt(c) log(8c) gradients for each halving of the longest one; a plain method would take c log(...)."""
    monkeypatch.setattr(newton, "_NEWTON_STEPS", 0)
    objectives = Sum("logistic", convexity=0.01)
    c = objectives.smoothness / objectives.convexity
    assert c > 1000
    halvings = np.ceil(np.log2(lengths(objectives, np.zeros((P, K))).max() / TOLERANCE))
    objectives.gradients = 0
    solve(objectives)
    assert objectives.gradients <= (halvings + 1) * (np.sqrt(c) * np.log(8 * c) + 3)


def test_plain_steps_go_on_where_momentum_fails(monkeypatch):
    """Say it is wrong about the convexity: then nothing may be halved in time, and plain steps have to do."""
    monkeypatch.setattr(newton, "_NEWTON_STEPS", 0)
    objectives = Sum("quadratic", k=1, convexity=0.02)
    objectives.convexity, true = objectives.smoothness, objectives.convexity  # a single step without momentum
    objectives.gradient = lambda w: objectives.rows.T @ (objectives.rows @ w) + true * w + objectives.line[:, :1]
    w = solve(objectives, shape=(P, 1))
    assert (np.linalg.norm(objectives.gradient(w), axis=0) <= TOLERANCE).all()


BAD_HESSIANS = {
    "not a number": lambda h, rng: np.full_like(h, np.nan),
    "one is not a number": lambda h, rng: np.where(np.arange(len(h))[:, None, None] == 1, np.nan, h),
    "infinite": lambda h, rng: np.full_like(h, np.inf),
    "zero": lambda h, rng: np.zeros_like(h),
    "negative": lambda h, rng: -h - 1e3 * np.eye(P),
    "garbage": lambda h, rng: rng.normal(size=h.shape) * 1e3,
    "positive garbage": lambda h, rng: np.stack([g @ g.T for g in rng.normal(size=h.shape) * 100]),
    "much too small": lambda h, rng: h * 1e-12,
    "much too large": lambda h, rng: h * 1e12,
    "overflowing": lambda h, rng: h * 1e306,
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["logistic", "flat, then steep"])
@pytest.mark.parametrize("bad", BAD_HESSIANS)
def test_useless_hessians_lead_to_the_fallback(bad, shape):
    class Bad(Sum):
        rng = np.random.default_rng(7)

        def hessians(self, w, damping, which):
            return BAD_HESSIANS[bad](super().hessians(w, damping, which), self.rng)

    objectives = Bad(shape)
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.0, np.nan, np.inf, -1.0, 1e300])
def test_useless_products_lead_to_the_fallback(factor, monkeypatch):
    monkeypatch.setattr(newton, "_LARGEST_HESSIAN", 0)

    class Bad(Sum):
        def products(self, w, damping):
            return lambda step: factor * step

    objectives = Bad()
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()


@pytest.mark.parametrize("where", ["hessians", "products"])
def test_linear_algebra_errors_lead_to_the_fallback(where, monkeypatch):
    def fail(*_):
        raise LinAlgError("not positive definite")

    monkeypatch.setattr(newton, "_LARGEST_HESSIAN", 0 if where == "products" else 1000)
    objectives = Sum()
    setattr(objectives, where, fail)
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [60, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_noise_of_an_eighth_of_the_tolerance_does_not_prevent_the_end(shape, steps, monkeypatch):
    monkeypatch.setattr(newton, "_NEWTON_STEPS", steps)
    for seed in range(3):
        objectives = Noisy(shape, seed=seed)
        assert (lengths(objectives, solve(objectives)) <= TOLERANCE * 9 / 8).all()


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("shape", list(SHAPES))
def test_conjugate_gradients_reach_the_same_minimum(shape, monkeypatch):
    by_factors = solve(Sum(shape))
    monkeypatch.setattr(newton, "_LARGEST_HESSIAN", 0)
    objectives = Sum(shape)
    objectives.hessians = never
    assert (np.linalg.norm(solve(objectives) - by_factors, axis=0) <= 2 * TOLERANCE / objectives.convexity).all()


def test_what_is_returned_is_within_the_tolerance_as_computed():
    """The very gradient that is promised: for noisy ones, of any difficulty, with any solver, to the last bit."""
    for seed, shape, kind in itertools.product(range(3), SHAPES, (Sum, Noisy)):
        for tolerance in (1.0, 1e-3, TOLERANCE):
            objectives = kind(shape, seed=seed, line=10.0**seed)
            w = solve(objectives, tolerance)
            assert w.shape == (P, K)
            assert (np.linalg.norm(objectives.gradient(w), axis=0) <= tolerance).all()


# --------------------------------------------------------------------------------- one matrix for all objectives


@pytest.fixture
def shared(monkeypatch):
    """Let products and the common matrix do the work, however few columns there are."""
    monkeypatch.setattr(newton, "_COMMON", 0)
    monkeypatch.setattr(newton, "_COMMON_ALONE", 0)


@pytest.mark.usefixtures("no_fallback", "shared")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_products_alone_reach_the_tolerance(shape, seed):
    """Their systems are solved within five columns' worth of products, so that no Hessian is needed."""
    objectives = Sum(shape, seed=seed)
    objectives.hessians = never
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()
    assert objectives.gradients < 150


class Apart(Sum):
    """Rows that bend the last objectives much less or more than the first: no matrix serves all. Who got a Hessian?"""

    def __init__(self, p=40):
        super().__init__("quadratic", n=3 * p, p=p, convexity=1e-3)
        self.rows = np.diag(10.0 ** np.linspace(-3, 1, p))[np.arange(3 * p) % p]
        self.sizes, self.line = np.ones(K), self.line / 4.0 ** np.arange(K)
        self.curved = np.ones((3 * p, K))  # the first one bends as the common matrix does
        self.curved[:, 1:] = np.tile(10.0 ** np.random.default_rng(1).uniform(-3, 0, (p, K - 1)), (3, 1))
        self.smoothness, self.asked = 1e3, []

    def gradient(self, w):
        self.gradients += 1
        return self.rows.T @ (self.curved * (self.rows @ w)) + self.convexity * w + self.line

    def _curvatures(self, w, damping):
        return self.curved

    def hessians(self, w, damping, which):
        self.asked.append(which.tolist())
        return super().hessians(w, damping, which)


@pytest.mark.usefixtures("no_fallback", "shared")
def test_objectives_for_which_products_take_long_get_hessians_of_their_own(monkeypatch):
    monkeypatch.setattr(newton, "_PRODUCTS", 3)
    objectives = Apart()
    w = minima(objectives, (40, K), TOLERANCE)
    assert (np.linalg.norm(objectives.gradient(w), axis=0) <= TOLERANCE).all()
    assert objectives.asked
    assert all(0 not in which for which in objectives.asked)
    assert len(objectives.asked) <= 3  # they serve all later steps


@pytest.mark.usefixtures("shared")
def test_own_hessians_that_cannot_be_factored_stop_nothing(monkeypatch):
    monkeypatch.setattr(newton, "_PRODUCTS", 3)
    objectives = Apart()
    objectives.hessians = lambda w, damping, which: np.zeros((len(which), 40, 40)) - np.eye(40)
    with np.errstate(all="ignore"):
        w = minima(objectives, (40, K), TOLERANCE)
    assert (np.linalg.norm(objectives.gradient(w), axis=0) <= TOLERANCE).all()


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("shape", ["logistic", "flat, then steep"])
@pytest.mark.parametrize("bad", BAD_HESSIANS)
def test_a_useless_common_matrix_leads_to_the_fallback(bad, shape):
    class Bad(Sum):
        def common(self):
            matrix = BAD_HESSIANS[bad](np.stack([self.rows.T @ self.rows]), np.random.default_rng(7))
            return newton.Common(matrix[0])

    objectives = Bad(shape)
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("factor", [0.0, np.nan, np.inf, -1.0, 1e300])
def test_useless_curvatures_and_products_lead_to_the_fallback(factor):
    objectives = Sum()
    objectives.curvatures = lambda w, damping: factor * np.ones(K)
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()
    objectives.products = lambda w, damping: lambda step: factor * step
    assert (lengths(objectives, solve(objectives)) <= TOLERANCE).all()


@pytest.mark.parametrize(
    ("n_columns", "n_objectives", "common"),
    [(99, 1, False), (100, 1, True), (54, 10, False), (55, 10, True), (1000, 3, True), (1001, 3, False)],
)
def test_columns_and_objectives_decide_how_systems_are_solved(n_columns, n_objectives, common):
    class Asked:
        def common(self):
            return "a matrix"

    found = newton._system(Asked(), n_columns, n_objectives)
    assert isinstance(found, newton._CommonSystem) == common
    without = newton._system(type("Bent", (), {"common": lambda self: None})(), n_columns, n_objectives)
    assert not isinstance(without, newton._CommonSystem)


def test_only_objectives_that_are_far_and_hardly_moved_get_new_hessians():
    system = newton._System(None, P, 4)
    ratio, far = np.array([0.01, 0.9, 0.9, np.nan]), np.array([True, True, False, True])
    assert system.worn(ratio, far).tolist() == [False, True, False, False]
