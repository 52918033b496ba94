"""Objective perturbation as a solver and as an estimator: what it buys, how near it comes, and its seat in "auto"."""

import math
import warnings

import numpy as np
import pytest
from contract import Untouchable
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dpsk import BudgetExhausted, DPLinearSVC, DPLogisticRegression, ObjectivePerturbationClassifier
from dpsk.data import ArrayRows, PrivateData, RowMap
from dpsk.encodings import fourier, standardization, weighting
from dpsk.estimators.default_classifiers import PRECISE
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Softmax
from dpsk.mechanisms import Gaussian, SeededBits
from dpsk.objectives import LinearObjective
from dpsk.penalties import L2
from dpsk.privacy import Budget, GaussianDP, Ledger, ObjectiveDP, conversions
from dpsk.privacy.perturbation import PLANNED
from dpsk.solvers import calibrated, run
from dpsk.solvers.objective_perturbation import SHIFT_SHARE, ObjectivePerturbation
from dpsk.solvers.precision import NORM_SHARE
from dpsk.testing import check_solver


def budget(epsilon=1.0, n_minima=1, replaced=False):
    currency = ObjectiveDP.plan(epsilon, 1e-6, min(0.15 * epsilon, 10.0 * n_minima), n_minima, replaced=replaced)
    return Budget.of(epsilon, 1e-6, currency=currency)


def problem(epsilon=1.0, n=2000, d=5, n_classes=None, adjacency="zero-out", seed=0, cap=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = (
        np.where(X[:, 0] + rng.logistic(size=n) > 0, 1.0, -1.0)
        if n_classes is None
        else rng.integers(n_classes, size=n)
    )
    cap = cap or budget(epsilon, n_classes or 1, adjacency == "replace")
    return PrivateData(ArrayRows(X, y, RowMap(n_classes=n_classes)), Ledger(cap), SeededBits(seed), adjacency=adjacency)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=lambda loss: type(loss).__name__)
def test_it_passes_check_solver(loss):
    check_solver(ObjectivePerturbation(gradient_clip=100.0), loss=loss, budget=budget)


def test_it_passes_check_solver_with_several_classes():
    check_solver(
        ObjectivePerturbation(gradient_clip=100.0),
        loss=OneVsRest(HuberHinge(), 3),
        n_classes=3,
        budget=lambda epsilon: budget(epsilon, 3),
    )


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("n_classes", [None, 3])
def test_one_iterate_takes_all_that_is_left(adjacency, n_classes):
    data = problem(n_classes=n_classes, adjacency=adjacency)
    loss = Logistic() if n_classes is None else OneVsRest(Logistic(), n_classes)
    shape = (data.n_parameters, *(() if n_classes is None else (n_classes,)))
    (w,) = ObjectivePerturbation().iterates(data, LinearObjective(loss, L2(1e-4), shape))
    assert w.shape == shape
    assert [(release.label, release.count) for release in data.report().releases] == [("row norms", 1), ("minimum", 1)]
    assert 0 <= data.remaining < 1e-8 * data.budget.limit
    with pytest.raises(BudgetExhausted):
        list(ObjectivePerturbation().iterates(data, LinearObjective(loss, L2(1e-4), shape)))


def test_what_was_spent_before_makes_the_noise_larger_and_the_promise_stays():
    costs = []
    for share in (0.0, 0.2):
        data = problem()
        if share:
            data._ledger.charge(Gaussian.priced(share * data.budget.limit, data.currency).cost, "before")
        list(ObjectivePerturbation().iterates(data, LinearObjective(Logistic(), L2(1e-4), (data.n_parameters,))))
        costs.append(data.report().releases[-1].cost)
    assert costs[1] == pytest.approx(costs[0] - 0.2 * data.budget.limit, rel=1e-6)


def test_spending_too_much_before_leaves_too_little_for_a_minimum():
    """Less than three fifths of the budget were not planned for: another corner would weigh too much."""
    data = problem()
    data._ledger.charge(Gaussian.priced(0.5 * data.budget.limit, data.currency).cost, "before")
    with pytest.raises(ValueError, match="'minimum' costs inf"):
        list(ObjectivePerturbation().iterates(data, LinearObjective(Logistic(), L2(1e-4), (data.n_parameters,))))
    assert data.remaining > 0.4 * data.budget.limit


@pytest.mark.parametrize("loss", [Hinge(), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_losses_without_a_theorem_are_refused_before_the_minimum_is_paid(loss):
    data = problem(n_classes=None if isinstance(loss, Hinge) else 3)
    shape = (data.n_parameters,) if isinstance(loss, Hinge) else (data.n_parameters, 3)
    with pytest.raises(ValueError, match=r"convex margin loss(es)? that falls?"):
        run(ObjectivePerturbation(), data, LinearObjective(loss, L2(1e-4), shape))
    assert [release.label for release in data.report().releases] == ["row norms"]


def test_another_currency_is_refused_before_anything_is_paid():
    data = problem(cap=Budget.of(1.0, 1e-6, currency=GaussianDP()))
    with pytest.raises(ValueError, match="needs a budget kept in ObjectiveDP"):
        run(ObjectivePerturbation(), data, LinearObjective(Logistic(), L2(1e-4), (data.n_parameters,)))
    assert not data.report().releases


def test_the_penalty_is_what_the_determinant_asks_for_or_what_was_asked_for():
    """At a large epsilon, with the noise all but gone, the minimiser is the one of the penalty in force."""
    for alpha in (1e-4, 0.1):
        data = problem(epsilon=200.0, n=5000)
        objective = LinearObjective(Logistic(), L2(alpha), (data.n_parameters,))
        w = run(ObjectivePerturbation(gradient_clip=100.0), data, objective).w
        chunk = next(iter(problem(n=5000)._rows._chunks()))
        X, y = chunk.dense(slice(None)) * chunk.scale[:, None], chunk.y

        def mean_loss(v, X=X, y=y, alpha=alpha):
            m = y * (X @ v)
            return np.logaddexp(0, -m).mean() + alpha / 2 * v @ v, -X.T @ (y * expit(-m)) / len(y) + alpha * v

        best = minimize(mean_loss, np.zeros(6), jac=True, options={"gtol": 1e-9}).x
        assert np.abs(w - best).max() < 0.02


# ------------------------------------------------------------------------------------------------------ estimators


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(30_000, 3))
    return X, X[:, 0] + 0.3 * rng.logistic(size=len(X)) > X[:, 1]


@pytest.mark.parametrize("loss", ["log_loss", "huber_hinge"])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_it_is_accurate(many, loss, adjacency):
    X, y = many
    best = LogisticRegression().fit(X, y).score(X, y)
    model = ObjectivePerturbationClassifier(loss=loss, adjacency=adjacency, bounds=(0, 1), random_state=0).fit(X, y)
    assert model.score(X, y) > best - 0.005
    assert model.privacy_spent_.rho is None
    with pytest.raises(ValueError, match="gives no statement for groups of rows"):
        model.privacy_spent_.epsilon_for_group(2)
    assert (model.evaluations_, hasattr(model, "predict_proba")) == ({}, loss == "log_loss")


def test_probabilities_of_several_classes_are_those_of_one_against_all_others(iris):
    X, y = iris
    model = ObjectivePerturbationClassifier(epsilon=50.0, random_state=0).fit(X, y)
    odds = expit(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), odds / odds.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-9)
    assert (model.classes_[model.predict_proba(X).argmax(axis=1)] == model.predict(X)).all()


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 3.0, 100.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_the_promise_holds_for_every_epsilon(epsilon, n_classes):
    """The budget's own check, and again by hand: all of it on one minimum whose corner counts, or not."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(2000, 2)), rng.integers(n_classes, size=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows for the smallest
        report = ObjectivePerturbationClassifier(epsilon, 1e-6, bounds=(0, 1)).fit(X, y).privacy_spent_
    assert report.delta_at(epsilon) <= 1e-6
    left = epsilon - report.currency.log_determinant
    assert conversions.gaussian_delta(left, math.sqrt(report.limit)) <= 1e-6
    assert report.epsilon_at(1e-6) == pytest.approx(epsilon, rel=1e-6)


def test_the_determinant_share_trades_noise_for_penalty(many):
    X, y = many
    small, large = (
        ObjectivePerturbationClassifier(0.01, bounds=(0, 1), determinant_share=share, random_state=0).fit(X, y)
        for share in (0.01, 0.5)
    )
    assert small.privacy_spent_.limit > 3 * large.privacy_spent_.limit
    assert np.linalg.norm(small.coef_) < np.linalg.norm(large.coef_)


def solver_of(model):
    return "objective" if isinstance(model.privacy_spent_.currency, ObjectiveDP) else "descent"


@pytest.mark.thorough
@pytest.mark.slow
def test_auto_perturbs_the_objective_where_noise_hardly_matters(many):
    X, y = many
    mu = conversions.gaussian_mu(1.0, 1e-6)
    enough = PRECISE / (mu / math.sqrt(4))  # rows
    assert enough < 150_000
    rows = np.arange(int(enough * 1.01) + 1) % len(y)
    fewer = rows[: int(enough * 0.99)]
    for Estimator in (DPLogisticRegression, DPLinearSVC):
        assert solver_of(Estimator(bounds=(0, 1)).fit(X[rows], y[rows])) == "objective"
        assert solver_of(Estimator(bounds=(0, 1)).fit(X[fewer], y[fewer])) == "descent"
        assert solver_of(Estimator(bounds=(0, 1), adjacency="replace").fit(X[rows], y[rows])) == "descent"
        assert solver_of(Estimator(bounds=(0, 1), rho=0.1).fit(X[rows], y[rows])) == "descent"
        assert solver_of(Estimator(bounds=(0, 1), solver="gradient-descent").fit(X[rows], y[rows])) == "descent"
        assert solver_of(Estimator(bounds=(0, 1), fit_intercept=False).fit(X[fewer], y[fewer])) == "objective"
    three = (X[:, 0] * 3).astype(int)
    assert solver_of(DPLogisticRegression(bounds=(0, 1)).fit(X[rows], three[rows])) == "descent"


def test_the_named_solver_is_the_estimator_of_its_own(many):
    X, y = many
    a = DPLogisticRegression(solver="objective-perturbation", bounds=(0, 1), random_state=0).fit(X, y)
    b = ObjectivePerturbationClassifier(bounds=(0, 1), random_state=0).fit(X, y)
    assert [release.label for release in a.privacy_spent_.releases[-2:]] == ["minimum", "outcomes"]
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0.1, atol=0.05)  # a part of the budget is for the calibration
    c = DPLinearSVC(solver="objective-perturbation", bounds=(0, 1), random_state=0).fit(X, y)
    d = ObjectivePerturbationClassifier(loss="huber_hinge", bounds=(0, 1), random_state=0).fit(X, y)
    np.testing.assert_allclose(c.coef_, d.coef_, rtol=0.1, atol=0.05)


def test_refused_combinations(iris):
    with pytest.raises(ValueError, match=r"rho=0\.1 cannot be combined with solver='objective-perturbation'"):
        DPLogisticRegression(rho=0.1, solver="objective-perturbation").fit(Untouchable(), Untouchable())
    model = DPLogisticRegression(solver="objective-perturbation")
    with pytest.raises(
        ValueError, match=r"not proved for a softmax of 3 classes: use\s+ObjectivePerturbationClassifier"
    ):
        model.fit(*iris)
    assert not hasattr(model, "privacy_spent_"), "nothing was spent"
    assert DPLinearSVC(epsilon=20.0, solver="objective-perturbation", random_state=0).fit(*iris).score(*iris) > 0.6
    for Estimator in (ObjectivePerturbationClassifier, DPLogisticRegression):
        solver = {} if Estimator is ObjectivePerturbationClassifier else {"solver": "objective-perturbation"}
        with pytest.raises(ValueError, match=r"delta=0 must lie strictly between 0 and 1.*output perturbation"):
            Estimator(delta=0, **solver).fit(Untouchable(), Untouchable())


def test_what_may_come_before_a_minimum_leaves_the_planned_part():
    """Norms are counted for ranges, moments and the clip; positions up to three times; classes with weights of them."""
    looks = (1 + standardization._LOOKS) * standardization.RANGE_SHARE
    found = looks + standardization.MOMENT_SHARE + fourier.MIDDLE_SHARE + fourier.VALUES_SHARE + 3 * NORM_SHARE
    before = found + weighting.SHARE + calibrated.LARGEST_OTHERWISE
    assert (1 - before) * (1 - SHIFT_SHARE) > PLANNED


@pytest.mark.parametrize("seed", range(3))
def test_columns_far_from_zero_leave_enough_for_a_minimum(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(3000, 3)), rng.uniform(20_000, 20_001, 3000)])
    model = DPLogisticRegression(
        epsilon=1.0, solver="objective-perturbation", class_weight="balanced", random_state=seed
    )
    assert "minimum" in {release.label for release in model.fit(X, X[:, 0] > 0).privacy_spent_.releases}
