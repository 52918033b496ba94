"""Calibration inside a fit: what is held back for it, the curve or factor that is found, and what probabilities do."""

import math
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss

from dpsk import DPGradientDescentClassifier, DPLinearSVC, DPLogisticRegression
from dpsk.calibration import BOUND, Curve, Known, Temperature, curve
from dpsk.calibration.score_curve import rows_in
from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.losses import Logistic, Softmax
from dpsk.mechanisms import Gaussian, SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import ZCDP, Budget, BudgetExhausted, GaussianDP, Ledger
from dpsk.solvers import Solver, run
from dpsk.solvers.adaptive_gradient import AdaptiveGradient
from dpsk.solvers.calibrated import LARGEST, LARGEST_OTHERWISE, SHARE, Calibrated, curved, edges_at, shares_of
from dpsk.solvers.gradient_descent import GradientDescent
from dpsk.testing import check_company

pytestmark = [
    pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning"),
    pytest.mark.filterwarnings("ignore:this fit or score is NOT private:UserWarning"),
]


def problem(n_classes=None, *, epsilon=1.0, n=4_000, d=4, currency=None, informative=True, seed=0):
    """Return private rows and an objective."""
    X, y = example(n_classes or 2, n=n, d=d, informative=informative)
    y = np.where(y > 0, 1.0, -1.0) if n_classes is None else y
    ledger = Ledger(Budget.of(epsilon, 1e-6, currency=currency or GaussianDP()))
    data = PrivateData(ArrayRows(X, y, RowMap(n_classes=n_classes)), ledger, SeededBits(seed))
    shape = (data.n_parameters,) if n_classes is None else (data.n_parameters, n_classes)
    loss = Logistic() if n_classes is None else Softmax(n_classes)
    return data, LinearObjective(loss, L2(1e-4, True), shape)


def example(n_classes=2, *, n=4_000, d=4, informative=True, seed=0):
    """Return rows in [-1, 1] and labels, of which the first is the most frequent one."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    scores = X[:, :1] * 2 * np.linspace(-1, 1, n_classes) * informative - 0.8 * np.arange(n_classes)
    return X, (scores + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


def costs(data):
    spent = {}
    for release in data.report().releases:
        spent[release.label] = spent.get(release.label, 0) + release.count * release.cost
    return spent


# ------------------------------------------------------------------------------------------ a part that is held back


def test_what_is_held_back_cannot_be_bought_and_comes_back():
    ledger = Ledger(Budget.of(1.0, 1e-6, currency=GaussianDP()))
    limit = ledger.budget.limit
    with ledger.holding_back(limit / 4):
        assert ledger.remaining == pytest.approx(0.75 * limit)
        with ledger.holding_back(limit / 4):
            assert ledger.remaining == pytest.approx(limit / 2)
            with pytest.raises(BudgetExhausted):
                ledger.charge(Gaussian(math.sqrt(0.6 * limit)).cost, "too much")
            assert ledger.charged == 0
        ledger.charge(Gaussian.priced(ledger.remaining, ledger.budget.currency).cost, "the rest")
        assert ledger.remaining < 1e-9 * limit
    assert ledger.remaining == pytest.approx(limit / 4, rel=1e-9)
    ledger.charge(Gaussian.priced(ledger.remaining, ledger.budget.currency).cost, "what was held back")
    assert ledger.charged <= limit


def test_no_more_can_be_held_back_than_is_left_and_an_error_gives_it_back():
    ledger = Ledger(Budget.of(1.0, 1e-6, currency=ZCDP()))
    for amount in (2 * ledger.budget.limit, -1.0):
        with pytest.raises(BudgetExhausted, match="cannot be held back"), ledger.holding_back(amount):
            pass
    with suppress(KeyError), ledger.holding_back(ledger.budget.limit):
        assert ledger.remaining == 0
        raise KeyError
    assert ledger.remaining == pytest.approx(ledger.budget.limit)


class Greedy(Solver):
    """It buys one gradient with all that is left."""

    def iterates(self, data, objective):
        query = objective.gradient(objective.start(), clip=1.0)
        mechanism = Gaussian.priced(data.share(), data.currency)
        yield -data.release(data.measure(query), mechanism) / data.n_rows


@pytest.mark.parametrize("currency", [GaussianDP(), ZCDP()], ids=["mu**2", "rho"])
@pytest.mark.parametrize("n_classes", [None, 3])
@pytest.mark.parametrize(
    "solver",
    [Greedy(), GradientDescent(steps=20), AdaptiveGradient(splits=10)],
    ids=lambda solver: type(solver).__name__,
)
def test_any_solver_leaves_what_its_calibration_costs(solver, n_classes, currency):
    data, objective = problem(n_classes, currency=currency)
    result = run(Calibrated(solver), data, objective)
    limit, paid = data.budget.limit, costs(data)
    calibration = paid.get("outcomes", 0) + paid.get("class counts", 0)
    if n_classes is not None:  # the searches of DP-AGD are losses, too: the choice of a factor is the last of them
        assert paid["class counts"] == pytest.approx(0.25 * SHARE * limit, rel=0.5)
        calibration += 0.75 / 0.25 * paid["class counts"]
    most = LARGEST if n_classes is None else LARGEST_OTHERWISE
    assert SHARE * (1 - 1e-9) <= calibration / limit <= most * (1 + 1e-9)
    assert 0.97 * limit < data.report().charged <= limit
    kind = Curve if n_classes is None else Temperature
    assert isinstance(result.diagnostics.attributes["calibration"], kind)


def test_without_a_part_held_back_nothing_is_left_for_a_calibration(monkeypatch):
    """The test above would fail if a solver saw the whole budget."""
    data, objective = problem()
    monkeypatch.setattr(PrivateData, "holding_back", lambda self, price: nullcontext())
    with pytest.raises(BudgetExhausted):
        list(Calibrated(Greedy()).iterates(data, objective))


@pytest.mark.parametrize("n_classes", [None, 3])
@pytest.mark.parametrize("at", [1, 3, 21])
def test_a_run_that_is_stopped_is_calibrated_where_it_stands(at, n_classes):
    data, objective = problem(n_classes)
    seen = []
    result = run(Calibrated(GradientDescent(steps=20)), data, objective, lambda w: seen.append(w) or len(seen) == at)
    assert len(seen) == at
    assert "calibration" in result.diagnostics.attributes
    made = sum(release.count for release in data.report().releases if release.label == "gradient")
    assert made == min(at, 20)
    if n_classes is None:  # the weights are those of the last iterate, but for the intercept
        np.testing.assert_array_equal(result.w[:-1], seen[-1][:-1])
    if n_classes is None and at < 21:  # which moved as far as the edges of the cells
        moved = seen[-1][-1] - result.w[-1]
        assert moved == pytest.approx(-result.diagnostics.attributes["calibration"].edges.mean(), abs=1e-9)
        assert at > 1 or abs(moved) > 0.01


# ------------------------------------------------------------------------------------------ the curve


def counted(scores, positive, noise=0.0, *, edges=None, seed=0):
    edges = edges_at(1e4) if edges is None else edges
    within = np.clip(scores, edges[0], edges[-1])
    counts = np.array([np.histogram(within[positive == k], edges)[0] for k in (False, True)], dtype=float)
    return counts + np.random.default_rng(seed).normal(size=counts.shape) * noise, edges


def known(noise, n, *, precision=1e4, n_weights=5, fixed=False):
    return Known(noise, n, precision, n_weights, 1.0, fixed)


TRUTHS = {
    "steep": lambda s: 1.4 * s,
    "flat": lambda s: 0.3 * s - 1.0,
    "bent": lambda s: 1.5 * np.minimum(s, 0.5) + 0.2 * np.maximum(s - 0.5, 0) - 0.5,
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_the_curve_is_found_where_counts_are_precise(truth):
    """The excess loss of a curve with k free numbers is about k/2n; 0.002 is that of 400."""
    rng = np.random.default_rng(1)
    scores = rng.normal(-1, 2, size=100_000)
    positive = rng.random(len(scores)) < expit(truth(scores))
    counts, edges = counted(scores, positive, 10.0)
    at, log_odds, _ = curve(counts, edges, known(10.0, len(scores)))
    assert (np.diff(log_odds) > 0).all()

    def loss(found):
        chance = expit(truth(scores))
        return float((chance * np.logaddexp(0, -found) + (1 - chance) * np.logaddexp(0, found)).mean())

    excess = loss(np.interp(scores, at, log_odds)) - loss(truth(scores))
    assert excess < 0.002
    if truth is TRUTHS["bent"]:  # no straight line would do
        lines = [loss(a + b * scores) for a in np.linspace(-2, 1, 13) for b in np.linspace(0.2, 1.5, 14)]
        assert min(lines) - loss(truth(scores)) > 5 * excess


def test_scores_that_say_nothing_leave_the_share_of_the_label():
    """In the middle of the scores, where rows are; the noisy share has a deviation of 0.003."""
    rng = np.random.default_rng(0)
    scores, positive = rng.normal(-2, 3, size=50_000), rng.random(50_000) < 0.2
    counts, edges = counted(scores, positive, 30.0)
    at, log_odds, _ = curve(counts, edges, known(30.0, 50_000))
    assert np.abs(expit(np.interp(np.linspace(-5, 1, 20), at, log_odds)) - 0.2).max() < 0.03


def test_where_noise_is_all_the_curve_is_near_the_usual_line():
    """The noise is 100 times all rows. No noisy count moves the slope far from what is usual."""
    for seed in range(5):
        counts, edges = counted(np.zeros(1_000), np.ones(1_000, bool), 1e5, edges=edges_at(10.0), seed=seed)
        what = known(1e5, 1_000, precision=40.0)
        at, log_odds, _ = curve(counts, edges, what)
        slopes = np.diff(log_odds) / np.diff(at)
        assert (slopes > what.usual / 4).all()
        assert (slopes < 4 * what.usual).all()


def test_rows_of_cells_are_smoothed_as_far_as_they_are_noise():
    scores = np.random.default_rng(0).normal(size=20_000)
    exact, _ = counted(scores, scores > 0)
    np.testing.assert_allclose(rows_in(exact, known(0.0, 20_000)), exact.sum(axis=0), atol=1e-6)
    noisy, _ = counted(scores, scores > 0, 100.0)
    found = rows_in(noisy, known(100.0, 20_000))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(20_000)
    assert np.abs(found - exact.sum(axis=0)).sum() < np.abs(noisy.sum(axis=0) - exact.sum(axis=0)).sum() / 2


def test_what_many_weights_are_fitted_to_by_chance_makes_the_curve_flatter():
    """Labels follow the scores as much as 100 weights follow 1,000 labels that are chance."""
    rng = np.random.default_rng(0)
    X, positive = rng.normal(size=(1_000, 100)), rng.random(1_000) < 0.5
    w = np.linalg.lstsq(X, 4.0 * (positive - 0.5), rcond=None)[0]
    counts, edges = counted(X @ w, positive)
    slopes = []
    for n_weights in (1, 100):
        at, log_odds, _ = curve(counts, edges, known(0.0, 1_000, precision=math.inf, n_weights=n_weights))
        slopes.append(np.interp(0.5, at, log_odds) - np.interp(-0.5, at, log_odds))
    assert slopes[1] < slopes[0] / 2


@pytest.mark.parametrize("shift", [-9.0, -1.0, 0.0, 4.0])
@pytest.mark.parametrize("fixed", [False, True])
def test_the_score_0_has_even_odds_after_the_intercept_moved(shift, fixed):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=5_000)
    counts, edges = counted(scores, rng.random(5_000) < expit(scores - shift), 5.0)
    w, found = curved(np.zeros(3), counts, edges, known(5.0, 5_000, fixed=fixed))
    assert found(0.0) == 0
    assert (found(np.array([-1e-9, -1.0])) < 0).all()
    assert (found(np.array([1e-9, 1.0])) > 0).all()
    assert (np.diff(found.scores) > 0).all()
    assert (np.diff(found.log_odds) > 0).all()
    assert w[-1] == pytest.approx(0.0 if fixed else -shift, abs=max(0.15, 0.3 * abs(shift)))
    assert (np.sign(found.log_odds) == np.sign(found.scores)).all()


def test_a_curve_increases_is_bounded_and_judges_each_score_by_itself():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=2_000)
    counts, edges = counted(scores, rng.random(2_000) < expit(scores), 5.0)
    _, found = curved(np.zeros(3), counts, edges, known(5.0, 2_000))
    wide = np.unique(np.concatenate([np.linspace(-60, 60, 999), -np.geomspace(1e-12, 1e4, 99), [0.0]]))
    assert (np.diff(found(wide)) > 0).all()
    huge = np.array([-np.inf, -1e308, -1e10, 1e10, 1e308, np.inf])
    assert (np.abs(found(huge)) <= BOUND + 1).all()
    together = found(wide)
    for chosen in (slice(None, None, -1), slice(3, 4), slice(None, None, 7)):
        assert found(wide[chosen]).tobytes() == together[chosen].tobytes()
    assert "counts with noise of 5 rows" in repr(found)


# ------------------------------------------------------------------------------------------ the factor


@pytest.mark.parametrize("wanted", [0.3, 1.0])
def test_the_factor_of_several_classes_is_found(wanted):
    """Weights are given that are 1/wanted times too large: at this budget the choice is right to the next candidate."""

    class Given(Solver):
        def iterates(self, data, objective):
            w = np.zeros(objective.shape)
            w[0] = 3 * np.linspace(-1, 1, 4) / wanted
            yield w

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 2))
    y = (3 * X[:, :1] * np.linspace(-1, 1, 4) + rng.gumbel(size=(20_000, 4))).argmax(axis=1)
    data = PrivateData(
        ArrayRows(X, y, RowMap(n_classes=4)),
        Ledger(Budget.of(8.0, 1e-6, currency=GaussianDP())),
        SeededBits(0),
    )
    objective = LinearObjective(Softmax(4), L2(1e-4, True), (3, 4))
    found = run(Calibrated(Given()), data, objective).diagnostics.attributes["calibration"]
    assert found.factor == pytest.approx(wanted, rel=0.25)


def test_a_temperature_keeps_the_order_and_bounds_what_a_row_can_cost():
    found = Temperature(0.5, np.full(3, 1 / 3))
    scores = np.random.default_rng(0).normal(size=(50, 3)) * 3
    np.testing.assert_allclose(softmax(found(scores), axis=1), softmax(0.5 * scores, axis=1), rtol=1e-9)
    far = found(np.array([[0.0, 1e6, 2e6]]))
    assert (np.diff(far) > 0).all()
    assert far.min() >= -(BOUND + 1)
    assert np.isfinite(found(np.array([[0.0, np.inf, -np.inf]]))).all()


def test_shares_are_even_where_noise_is_all():
    rng = np.random.default_rng(0)
    counts = np.array([700.0, 200.0, 100.0])
    np.testing.assert_allclose(shares_of(counts, 0.0, 1_000), [0.7, 0.2, 0.1])
    apart = [np.ptp(shares_of(counts + 1e4 * rng.normal(size=3), 1e4, 1_000)) for _ in range(20)]
    assert np.median(apart) < 0.2  # positive parts of James and Stein's factor are 0 about half of the time
    assert all(shares_of(counts + 1e4 * rng.normal(size=3), 1e4, 1_000).min() > 0 for _ in range(20))


# ------------------------------------------------------------------------------------------ estimators

BOTH = pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPLinearSVC])


@BOTH
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("epsilon", "informative"), [(0.1, True), (1.0, True), (1.0, False)])
def test_predictions_are_the_likeliest_classes(Estimator, n_classes, epsilon, informative):
    X, y = example(n_classes, informative=informative)
    model = Estimator(epsilon=epsilon, random_state=0).fit(X, y)
    probabilities, scores = model.predict_proba(X), model.decision_function(X)
    assert np.array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, rtol=1e-9)
    if n_classes == 2:
        order = np.argsort(scores, kind="stable")
        assert (np.diff(probabilities[order, 1]) >= 0).all()
    linear = X @ model.coef_.T + model.intercept_ if not informative else None
    if linear is not None:  # ranges clip some entries
        assert np.corrcoef(linear.ravel(), scores.ravel())[0, 1] > 0.9
    check_company(model.predict_proba, X[:20])


@BOTH
def test_without_an_intercept_none_appears(Estimator):
    X, y = example()
    model = Estimator(epsilon=1.0, fit_intercept=False, random_state=0).fit(X, y)
    assert model.intercept_.tolist() == [0.0]
    assert model.calibration_(0.0) == 0


@BOTH
@pytest.mark.parametrize("solver", ["gradient-descent", "adaptive-gradient", "objective-perturbation"])
def test_every_solver_of_the_defaults_is_calibrated_within_the_budget(Estimator, solver):
    X, y = example()
    model = Estimator(epsilon=1.0, solver=solver, random_state=0).fit(X, y)
    assert model.privacy_spent_.charged <= model.privacy_spent_.limit
    assert [release.label for release in model.privacy_spent_.releases][-1] == "outcomes"
    assert log_loss(y, model.predict_proba(X)) < log_loss(y, np.tile(np.bincount(y) / len(y), (len(y), 1)))


@BOTH
def test_a_budget_in_rho_persons_and_weights_are_calibrated(Estimator):
    X, y = example()
    persons, own, even = np.arange(len(y)) // 2, np.where(y, 1.0, 0.25), 1 / np.bincount(y)[y]
    for options, given, weights in (
        ({"rho": 0.1}, {}, None),
        ({}, {"groups": persons}, None),
        ({"weight_bound": 1.0}, {"sample_weight": own}, own),
        ({"class_weight": "balanced"}, {}, even),
    ):
        model = Estimator(epsilon=2.0, random_state=0, **options).fit(X, y, **given)
        assert model.privacy_spent_.charged <= model.privacy_spent_.limit
        mean = np.average(model.predict_proba(X)[:, 1], weights=weights)  # of what the rows weigh
        assert mean == pytest.approx(np.average(y, weights=weights), abs=0.05), options


def test_noise_on_columns_that_say_nothing_costs_next_to_nothing():
    """Without calibration the same fits lose more than a tenth of a nat on average; five seeds each."""
    base, ours, plain = [], [], []
    for seed in range(5):
        X, y = example(n=3_000, d=40, informative=False, seed=seed)
        tested, labels = example(n=3_000, d=40, informative=False, seed=100 + seed)
        base.append(log_loss(labels, np.tile(np.bincount(y) / len(y), (len(labels), 1))))
        for found, calibrate in ((ours, True), (plain, False)):
            model = DPGradientDescentClassifier(epsilon=0.5, calibrate=calibrate, random_state=seed).fit(X, y)
            found.append(log_loss(labels, model.predict_proba(tested)))
    assert np.mean(ours) < np.mean(base) + 0.02
    assert np.mean(plain) > np.mean(base) + 0.1


def test_the_open_estimator_does_what_the_default_does_and_less_if_asked():
    X, y = example()
    default = DPLogisticRegression(epsilon=1.0, solver="gradient-descent", random_state=0).fit(X, y)
    model = DPGradientDescentClassifier(epsilon=1.0, random_state=0)
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), default.predict_proba(X))
    without = clone(model).set_params(calibrate=False).fit(X, y)
    assert not hasattr(without, "calibration_")
    np.testing.assert_array_equal(without.predict_proba(X)[:, 1], expit(without.decision_function(X)))
    assert "outcomes" not in {release.label for release in without.privacy_spent_.releases}
    assert hasattr(DPGradientDescentClassifier(loss="huber_hinge"), "predict_proba")
    assert not hasattr(DPGradientDescentClassifier(loss="huber_hinge", calibrate=False), "predict_proba")
    with pytest.raises(ValueError, match="calibrate"):
        clone(model).set_params(calibrate="yes").fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_exact_machine_has_exact_probabilities_and_the_exact_model_is_left_alone(n_classes, fit_intercept):
    X, y = example(n_classes)
    tested, labels = example(n_classes, seed=1)
    machine = DPLinearSVC(epsilon=math.inf, fit_intercept=fit_intercept).fit(X, y)
    model = DPLogisticRegression(epsilon=math.inf, fit_intercept=fit_intercept).fit(X, y)
    assert not hasattr(model, "calibration_")
    found = machine.predict_proba(tested)
    assert np.array_equal(machine.classes_[found.argmax(axis=1)], machine.predict(tested))
    # several hinges of shifted classes have no common factor that makes all probabilities right
    assert log_loss(labels, found) < log_loss(labels, model.predict_proba(tested)) + (0.01 if n_classes == 2 else 0.15)
