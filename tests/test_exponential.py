"""The exponential mechanism over weights: what is drawn, that it is exact and private, and what is refused."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from contract import Untouchable
from scipy.integrate import cumulative_trapezoid
from scipy.stats import chi2
from test_minimizers import data, example

from dpsk import OutputPerturbationLogisticRegression, losses
from dpsk.data import ArrayRows, Facts, PrivateData, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, SquaredHinge
from dpsk.mechanisms import NormGamma, SeededBits
from dpsk.minimizers import Minimizer, SampledWeights
from dpsk.minimizers import sampled_weights as exponential
from dpsk.minimizers.sampled_weights import _Draw
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import ZCDP, Budget, GaussianDP, Ledger, PureDP
from dpsk.solvers.exponential import ExponentialSampling
from dpsk.testing import ERROR_PROBABILITY

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")


def prepared(rows, loss=None, **options):
    sizes = {"n_rows": rows.n_rows, "n_parameters": rows.n_parameters}
    defaults = {"longest": 1.0, "penalty": 1.0, "eta": 2.0, "radius": 3.0, "inside": 2.0}
    return SampledWeights(loss or Logistic(), **sizes | defaults | options)


def some_rows(d, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 0.6
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > -0.1, 1.0, -1.0)


def draws(what, rows, count, seed=0):
    """Return many draws, with one envelope."""
    bits, found = SeededBits(seed), []
    draw = _Draw(what, rows)
    original, exponential._Draw = exponential._Draw, lambda *_: draw
    try:
        with np.errstate(all="ignore"):
            found = [what(rows, bits) for _ in range(count)]
    finally:
        exponential._Draw = original
    return np.array(found)


def objective(what, X, y, w):
    """Return the sum at many points, one per row of w."""
    return what.loss.phi(y * (w @ X.T)).sum(axis=1) + what.penalty / 2 * (w * w).sum(axis=1)


def farthest(sample, values, cumulative):
    """Return the Kolmogorov distance of a sample and a distribution function."""
    at = np.interp(np.sort(sample), values, cumulative / cumulative[-1])
    steps = np.arange(len(sample) + 1) / len(sample)
    return max((steps[1:] - at).max(), (at - steps[:-1]).max())


def close(count):
    """Return what the Kolmogorov distance of so many right draws hardly ever exceeds (Dvoretzky-Kiefer-Wolfowitz)."""
    return math.sqrt(math.log(2 / ERROR_PROBABILITY) / (2 * count))


# --------------------------------------------------------------------------------- the distribution, by quadrature


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "centre", "count"),
    [
        (Logistic(), None, 4000),
        (Logistic(), 0.0, 1000),
        (Logistic(), 1.9, 1000),
        (Logistic(), -2.0, 400),  # few proposals are kept there
        (HuberHinge(), None, 2000),
    ],
)
def test_in_one_dimension(loss, centre, count):
    """Around a centre as well, also where the minimum is far outside of the ball; not with 2/3 or 3/2 of the strength.

    The sampler is right with probability 1 - ERROR_PROBABILITY for each of these.
    """
    X, y = some_rows(1)
    rows = ArrayRows(X, y, RowMap(fit_intercept=False))
    options = {} if centre is None else {"centre": (centre,), "localized": True, "radius": 0.6, "inside": 0.4}
    what = prepared(rows, loss, eta=3.0, **options)
    sample = draws(what, rows, count)[:, 0]
    middle = centre or 0.0
    w = np.linspace(middle - what.radius, middle + what.radius, 20_001)
    exponent = what.strength * objective(what, X, y, w[:, None])
    for times in (1.0, 2 / 3, 3 / 2):
        density = np.exp(-times * (exponent - exponent.min()))
        distance = farthest(sample, w, cumulative_trapezoid(density, w, initial=0))
        # around a centre a draw has few units of the exponent to tell strengths apart by
        near = distance < close(count)
        assert near if times == 1 else (not near or centre is not None or loss != Logistic())
    assert np.abs(sample - middle).max() <= what.radius


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("centre", [None, (1.0, -0.5), (-0.6, 0.0)])
def test_in_two_dimensions(centre):
    """Three projections of the disc against integrals over it."""
    X, y = some_rows(2, 200 if centre is None else 30)
    rows = ArrayRows(X, y, RowMap(fit_intercept=False))
    options = {} if centre is None else {"centre": centre, "localized": True, "radius": 0.8, "inside": 0.4}
    what = prepared(rows, eta=4.0, penalty=4.0, **options)
    count = 4000 if centre is None else 1000
    sample = draws(what, rows, count)
    middle = np.zeros(2) if centre is None else np.array(centre)
    side = np.linspace(-what.radius, what.radius, 1201)
    points = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    points = points[np.linalg.norm(points, axis=1) <= what.radius] + middle
    exponent = np.concatenate([objective(what, X, y, part) for part in np.array_split(points, 40)]) * what.strength
    strengths = (1.0, 2 / 3, 3 / 2)
    distances = dict.fromkeys(strengths, 0.0)
    for direction in ((1.0, 0.0), (0.0, 1.0), (0.6, -0.8)):
        along = points @ np.array(direction)
        order = np.argsort(along)
        for times in strengths:
            density = np.exp(-times * (exponent - exponent.min()))[order]
            distance = farthest(sample @ np.array(direction), along[order], np.cumsum(density))
            distances[times] = max(distances[times], distance)
    assert distances[1.0] < close(count)
    assert centre is not None or min(distances[2 / 3], distances[3 / 2]) > close(count)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_on_a_coarse_grid_every_point_has_the_probability_that_its_exponent_says(d, monkeypatch):
    """A chi-squared test over all points of the grid, with exponents as fractions; no point is rounded to another."""
    monkeypatch.setattr(exponential, "_FINE", 0.6)
    X, y = some_rows(d, 20)
    rows = ArrayRows(X, y, RowMap(fit_intercept=False))
    what = prepared(rows, eta=1.0, penalty=3.0)
    draw, reach = _Draw(what, rows), math.ceil(what.radius / what.grid)
    points = [np.array(k) for k in itertools.product(range(-reach, reach + 1), repeat=d)]
    points = [k for k in points if np.linalg.norm(k * what.grid) <= what.radius]
    weight = np.array([math.exp(-float(draw.exponent(k))) for k in points])
    expected = 2000 * weight / weight.sum()
    found = np.rint(draws(what, rows, 2000) / what.grid).astype(int)
    counts = np.array([(found == k).all(axis=1).sum() for k in points])
    assert counts.sum() == 2000
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    assert len(counts) > 5
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, len(counts) - 1)


# -------------------------------------------------------------------------------------------- the envelope, surely


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["example", "badly scaled", "two rows", "rank one", "separable", "all alike", "zero"])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.2)], ids=repr)
def test_no_exponent_is_ever_negative(loss, kind):
    """Then the chance of a coin would have to be above 1, and the draw would not be exact."""
    X, y = example(loss, 40) if kind == "example" else data(kind, loss)
    rows, closest = ArrayRows(X, y), math.inf
    for options in (
        {"longest": 1.5, "radius": 4.0},
        {"longest": 1.5, "penalty": 30.0, "eta": 20.0, "radius": 1.0},
        {"longest": 1.5, "radius": 0.5, "localized": True, "centre": (0.5, 0.0, 1.0, 0.0, 0.0)},
        {"longest": 1.5, "radius": 0.2, "eta": 9.0, "localized": True, "centre": (0.0, 9.0, 0.0, 0.0, -9.0)},
    ):
        what, bits = prepared(rows, loss, inside=0.1, **options), SeededBits(0)
        with np.errstate(all="ignore"):
            draw = _Draw(what, rows)
            for k, passed, laplace in itertools.islice(
                itertools.chain.from_iterable(draw.proposals(bits) for _ in range(20)), 300
            ):
                exponent = draw.exponent(k) - laplace - passed
                assert passed >= 0
                assert exponent >= 0
                closest = min(closest, float(exponent))
    assert closest < 3  # nor is the envelope far away


def test_the_envelope_holds_across_the_ball_where_second_derivatives_fall_as_fast_as_they_can():
    """Rows far on one side and one row far on the other, with the minimum at the edge of the ball."""
    X, y = np.ones((149, 1)), np.append(np.ones(148), -1.0)
    rows = ArrayRows(X, y, RowMap(fit_intercept=False))
    options = {"longest": 1.01, "penalty": 1e-3, "radius": 2.0, "localized": True}
    what = prepared(rows, eta=1000.0, centre=(7.0,), **options)
    draw, nearest = _Draw(what, rows), math.inf
    for w in np.linspace(5.0, 8.99, 60):
        k = np.rint(np.array([w]) / what.grid).astype(np.int64)
        form = draw._pivots[0] / 2 * float(k[0] - draw._c[0]) ** 2
        over = float(draw.exponent(k)) - form - draw._most
        assert over >= 0
        nearest = min(nearest, over / max(form, 1.0) if w > 8 else math.inf)
    assert nearest < 0.2


@pytest.mark.parametrize("fine", [2.0**-8, 0.6])
def test_the_first_coin_never_needs_a_chance_above_one(fine, monkeypatch):
    monkeypatch.setattr(exponential, "_FINE", fine)
    rows = ArrayRows(*some_rows(3), RowMap(fit_intercept=False))
    draw, most = _Draw(prepared(rows), rows), 0.0
    for pivot, scale in zip(draw._pivots, draw._scales, strict=True):
        d = np.arange(60 * scale)
        most += (d / scale - pivot / 2 * np.maximum(d - 0.5, 0) ** 2).max()  # a mean is rounded by 1/2 at most
    assert most <= draw._most


def test_no_linear_function_falls_more_in_the_ball():
    rng = np.random.default_rng(0)
    rows, largest = ArrayRows(*some_rows(2), RowMap(fit_intercept=False)), 0.0
    what = prepared(rows, centre=(1.0, 2.0), localized=True, radius=2.0)
    draw = _Draw(what, rows)
    for _ in range(200):
        shift, gradient = rng.normal(size=2), rng.normal(size=2)
        shift *= rng.choice([0.0, 0.3, 0.999]) * 2.0 / np.linalg.norm(shift)
        falls = gradient @ shift + 2.0 * np.linalg.norm(gradient)  # where the ball ends against the gradient
        bound = draw._steepest_fall(np.array(what.centre) + shift, gradient)
        assert falls <= bound * (1 + 1e-9)
        largest = max(largest, falls / bound)
    assert largest > 0.9


@pytest.mark.parametrize("unit", [2.0**-40, 1.0, 2.0**20, 2.0**40])
def test_second_derivatives_are_as_exact_as_the_envelope_needs_in_whatever_units(unit):
    """Off by more, in any direction, the quadratic form would not be a lower bound."""
    X = np.array([[1.0, 0.25, 0.0], [1.0, 0.5, -0.125], [-0.5, 1.0, 1.0]])[np.arange(300) % 3] * unit
    y = np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    rows = ArrayRows(X, y, RowMap(fit_intercept=False))
    what = prepared(rows, longest=2 * unit, penalty=3.0 * unit**2, radius=0.5 / unit, inside=0.2 / unit, eta=50.0)
    draw = _Draw(what, rows)
    for at in (np.zeros(3), np.array([0.25, -0.5, 0.125]) / unit):
        exact = X.T @ (Logistic().curvature(X @ at)[:, None] * X)
        error = np.linalg.norm(draw._second(at) - exact, 2)
        assert error <= what.n_rows * what.objective.beta * 2.0**-38


def test_losses_rise_as_the_docstring_says():
    rng = np.random.default_rng(0)
    m, delta = rng.normal(size=10_000) * 5, rng.normal(size=10_000) * 5
    one, t = Logistic(), np.abs(delta)
    least = one.phi(m) + one.slope(m) * delta + one.curvature(m) * (np.exp(-t) + t - 1)
    assert (one.phi(m + delta) >= least - 1e-12).all()
    assert (one.curvature(m + delta) >= one.curvature(m) * np.exp(-one.decay * t) * (1 - 1e-12)).all()
    assert {loss.decay for loss in (HuberHinge(), SquaredHinge(), Hinge(), Sigmoid())} == {math.inf}


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_bound_on_the_chance_of_a_proposal_is_one(d):
    """Rows that are as hard as can be thought of, and usual ones; a mean over proposals errs by 6 standard errors."""
    for hard in (True, False):
        X, y = some_rows(d, 300)
        if hard:
            X, y = np.eye(d)[np.arange(300) % d], np.where(np.arange(300) % 7 > 2, 1.0, -1.0)
        rows = ArrayRows(X, y, RowMap(fit_intercept=False))
        radius = math.sqrt(math.log(2) / 0.05)
        what = prepared(rows, penalty=15.0, radius=1.25 * radius, inside=radius, eta=3.0)
        draw, bits, chances = _Draw(what, rows), SeededBits(0), []
        while len(chances) < 200:
            found = list(draw.proposals(bits))
            chances += [math.exp(-float(draw.exponent(k) - laplace - passed)) for k, passed, laplace in found]
        assert np.mean(chances) + 6 * np.std(chances) / math.sqrt(len(chances)) > what.acceptance
        assert what.acceptance > 1e-5


# --------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("centre", [None, 1.0])
def test_probabilities_of_neighbours_keep_the_cost(adjacency, centre, monkeypatch):
    """All probabilities on a coarse grid, from the exponents: their log-ratios lie in an interval of length eta."""
    monkeypatch.setattr(exponential, "_FINE", 0.3)
    n, largest = 4, 0.0
    for first, other in ((1.0, -1.0), (1.0, 0.0), (0.3, -1.0)):
        y = np.array([1.0, 1.0, -1.0, 1.0])
        X = np.array([[first], [0.2], [0.5], [-0.4]])
        replaced = np.vstack([[other], X[1:]])
        options = {} if centre is None else {"centre": (centre,), "localized": True, "radius": 1.5}
        logs = []
        for rows_X, rows_y in ((X, y), (X[1:], y[1:]) if adjacency == "zero-out" else (replaced, y)):
            rows = ArrayRows(rows_X, rows_y, RowMap(fit_intercept=False))
            rows.public = replace(rows.public, n_rows=n)
            what = prepared(rows, eta=1.5, adjacency=adjacency, **options)
            draw, reach = _Draw(what, rows), math.ceil(what.radius / what.grid)
            around = round((centre or 0.0) / what.grid)
            points = [np.array([around + k]) for k in range(-reach, reach + 1)]
            points = [k for k in points if abs(k[0] * what.grid - (centre or 0.0)) <= what.radius]
            exponents = np.array([float(draw.exponent(k)) for k in points])
            logs.append(-exponents - np.logaddexp.reduce(-exponents))
        ratio = logs[0] - logs[1]
        assert np.ptp(ratio) <= 1.5 * (1 + 1e-12)
        assert np.abs(ratio).max() <= 1.5 * (1 + 1e-12)
        largest = max(largest, np.ptp(ratio))
    assert largest > (0.4 if centre is None else 0.25) * 1.5


def test_whatever_a_loss_returns_a_row_adds_no_more_than_the_range():
    class Wild(Logistic):
        def phi(self, margin):
            return np.where(np.abs(margin) > 0.3, -1e300 * np.sign(margin), np.nan)

    rows = ArrayRows(np.ones((1, 1)), np.ones(1), RowMap(fit_intercept=False))
    calm = prepared(rows)
    draw = _Draw(calm, rows)
    vars(calm)["objective"] = replace(calm.objective, loss=Wild())
    points = np.rint(np.linspace(-1, 1, 19) * calm.radius / calm.grid).astype(np.int64)
    with np.errstate(all="ignore"):
        found = np.array([float(draw.exponent(k)) for k in points[:, None]])
    of_loss = found - calm.strength * calm.penalty / 2 * (points * calm.grid) ** 2
    assert np.ptp(of_loss) == pytest.approx(calm.eta)


# -------------------------------------------------------------------------------------------------- the solver


def problem(epsilon, d=2, n=2000, store=np.asarray, **options):
    X, y = some_rows(d, n)
    ledger = Ledger(Budget.of(epsilon, 0.0, currency=PureDP()))
    return PrivateData(ArrayRows(store(X), y, **options), ledger, SeededBits(0))


def linear(d=2, alpha=0.0):
    return LinearObjective(Logistic(), L2(alpha), (d + 1,))


@pytest.mark.parametrize("localized", [False, True])
def test_the_solver_spends_all_and_gives_the_same_bits_on_every_storage(localized):
    solver, found = ExponentialSampling(localized=localized, longest=1.5), []
    for options in ({}, {"store": sp.csr_matrix}, {"chunk_rows": 777}):
        private = problem(2.0, **options)
        *_, w = solver.iterates(private, linear())
        found.append(w.tobytes())
        report = private.report()
        assert [r.label for r in report.releases] == ["minimum"] * localized + ["weights"]
        assert 2.0 * (1 - 1e-9) < sum(r.count * r.cost for r in report.releases) <= 2.0
    assert len(set(found)) == 1


class _Elsewhere:
    """Rows on workers, some of which compute exp otherwise: off in the last bit of one number in twenty."""

    shared = False

    def __init__(self, rows, mixed_from, monkeypatch):
        self._rows, self._left, self._monkeypatch = rows, mixed_from, monkeypatch

    def __getattr__(self, name):
        return getattr(self._rows, name)

    def total(self, kernel):
        with self._monkeypatch.context() as patch:
            if self._left <= 0:
                exp = losses.exp
                patch.setattr(
                    losses, "exp", lambda x: np.where(np.sin(1e6 * x) > 0.98, np.nextafter(exp(x), 1), exp(x))
                )
            self._left -= 1
            return self._rows.total(kernel)


@pytest.mark.parametrize("mixed_from", [0, 25, 10**9])
def test_workers_that_compute_other_bits_are_refused(mixed_from, monkeypatch):
    """The integer of a row at a point must be the same in every pass, or the number of proposals shows in the draw."""
    (*_, w) = ExponentialSampling(longest=1.5).iterates(problem(2.0), linear())
    private = problem(2.0)
    private._rows = _Elsewhere(private._rows, mixed_from, monkeypatch)
    draw = ExponentialSampling(longest=1.5).iterates(private, linear())
    if mixed_from < 10**9:
        with pytest.raises(RuntimeError, match=r"other last bits .* mechanism='noise'"):
            list(draw)
        assert private._rows._left < 0
    else:
        assert list(draw)[-1].tobytes() == w.tobytes()


def test_with_a_large_epsilon_it_comes_near_the_minimum():
    for localized in (False, True):
        private = problem(300.0)
        solver = ExponentialSampling(localized=localized, automatic=False, longest=1.5)
        *_, w = solver.iterates(private, linear(alpha=0.02))
        what = Minimizer(Logistic(), 2000, 3, clip=9.0, longest=1.5, penalty=40.0)
        best = what.over(private._rows, SeededBits(0)) * what.unit
        assert np.linalg.norm(w - best) < 0.1


def test_what_would_take_too_long_is_refused_before_anything_is_paid():
    for localized, d in ((False, 20), (True, 60)):
        private = problem(0.5, d=d)
        solver = ExponentialSampling(localized=localized, longest=1.5)
        with pytest.raises(ValueError, match=r"an exact draw of \d+ weights .* could take about 1?\d?"):
            list(solver.iterates(private, linear(d)))
        assert private.report().charged == 0
    with pytest.raises(ValueError, match="more than 1e300"):
        prepared(ArrayRows(*some_rows(2)), n_parameters=5000).require_hope("")


def test_losses_without_a_proof_and_other_currencies_are_refused():
    rows = ArrayRows(*some_rows(2))
    for bad in (Hinge(), SquaredHinge(), OneVsRest(Logistic(), 3)):
        with pytest.raises(ValueError, match="two classes and smooth losses"):
            prepared(rows, bad)
    with pytest.raises(ValueError, match="convex margin loss"):
        prepared(rows, Sigmoid())
    solver, facts = ExponentialSampling(longest=1.0), Facts(60, 2, 2)
    for currency in (GaussianDP(), ZCDP()):
        with pytest.raises(ValueError, match="pure epsilon"):
            solver.require(Logistic(), facts, currency)
    solver.require(Logistic(), facts, PureDP())
    private = PrivateData(rows, Ledger(Budget.of(1.0, 1e-6, currency=GaussianDP())), SeededBits(0))
    with pytest.raises(ValueError, match=r"."):  # also where nobody asks
        list(solver.iterates(private, linear()))
    assert private.report().charged == 0


def test_the_ball_of_localisation_holds_the_minimum():
    """In all but 10^-9 of cases; so it does in each of 300."""
    X, y = some_rows(2)
    rows = ArrayRows(X, y)
    minimum = Minimizer(Logistic(), 60, 3, clip=9.0, longest=1.5, penalty=3.0)
    noise = NormGamma(1.0)
    draw = SampledWeights.around(minimum, noise, 1.0, "replace")
    value, bits = minimum.over(rows, SeededBits(0)), SeededBits(1)
    sensitivity, far = minimum.sensitivity("replace"), []
    for _ in range(300):
        noisy = noise(value, sensitivity, bits)
        far.append(np.linalg.norm((noisy - value) * minimum.unit))
    assert max(far) <= draw.radius
    assert np.mean(np.array(far) > draw.inside) < 0.02
    assert draw.radius < 10 * np.mean(far)


# ------------------------------------------------------------------------------------------------ the estimator


@pytest.mark.parametrize("mechanism", ["exponential", "localization"])
def test_the_estimator_learns_with_pure_epsilon(mechanism):
    X, y = some_rows(3, 3000)
    model = OutputPerturbationLogisticRegression(1.0, mechanism=mechanism, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert (model.privacy_spent_.epsilon, model.privacy_spent_.delta) == (1.0, 0.0)
    assert sum(r.count * r.cost for r in model.privacy_spent_.releases) <= 1.0


@pytest.mark.parametrize("mechanism", ["exponential", "localization"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 1e-6}, "with delta=1e-06: it is built for delta=0"),
        ({"objective": "tilted"}, "objective='tilted'"),
        ({"gradient_clip": 1.0}, r"gradient_clip=1\.0"),
        ({"alpha": 0.1, "radius": 2.0}, r"radius=2\.0 beside a number for alpha"),
    ],
)
def test_combinations_without_a_meaning_are_refused_before_the_data_are_touched(mechanism, options, message):
    with pytest.raises(ValueError, match=message):
        OutputPerturbationLogisticRegression(mechanism=mechanism, **options).fit(Untouchable(), Untouchable())
    with pytest.raises(ValueError, match="mechanism='mcmc' must be one of"):
        OutputPerturbationLogisticRegression(mechanism="mcmc").fit(Untouchable(), Untouchable())


def test_several_classes_are_refused(iris):
    with pytest.raises(ValueError, match="for two classes, but there are 3"):
        OutputPerturbationLogisticRegression(mechanism="exponential").fit(*iris)
