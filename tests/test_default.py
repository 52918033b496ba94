"""What the default estimators promise beyond the contract: units, ranges, solvers, and the exact model at infinity."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from contract import ADAPTIVE, SHORT, STANDARDISING, Untouchable, each_linear, each_standardising
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import dpsk
from dpsk import DPGradientDescentClassifier, DPLinearSVC, DPLogisticRegression

# many fits here are on few rows, and say so
pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")


@pytest.mark.parametrize("Estimator", ADAPTIVE)
def test_an_infinite_epsilon_is_refused_where_there_is_no_exact_model(Estimator):
    with pytest.raises(ValueError, match="epsilon=inf"):
        Estimator(epsilon=np.inf).fit(Untouchable(), Untouchable())


@pytest.mark.slow
@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPGradientDescentClassifier])
@pytest.mark.parametrize("data", ["cancer", "iris", "raw cancer", "sparse"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_infinite_epsilon_is_scikit_learn_s_logistic_regression(Estimator, data, fit_intercept, request):
    X, y = request.getfixturevalue("iris" if data == "iris" else "cancer")
    if data == "raw cancer":
        X = load_breast_cancer(return_X_y=True)[0]
    best = LogisticRegression(C=0.1, tol=1e-12, max_iter=10_000, solver="newton-cg", fit_intercept=fit_intercept)
    best.fit(X, y)
    alpha = 10 / len(y)
    model = Estimator(epsilon=np.inf, alpha=alpha, fit_intercept=fit_intercept, random_state=None)
    model.fit(sp.csr_matrix(X) if data == "sparse" else X, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-4)
    np.testing.assert_allclose(
        model.intercept_ - model.intercept_.mean(), best.intercept_ - best.intercept_.mean(), atol=1e-4
    )
    np.testing.assert_allclose(model.predict_proba(X), best.predict_proba(X), atol=1e-4)


@pytest.mark.thorough
@pytest.mark.slow
@each_linear
def test_ranges_are_public_bounds_or_nothing(Estimator, cancer):
    assert Estimator(standardize=None).fit(*cancer).ranges_ is None
    low, high = np.linspace(-1, 0, 30), np.linspace(1, 2, 30)
    model = Estimator(bounds=(low, high)).fit(*cancer)
    np.testing.assert_array_equal(model.ranges_, [low, high])
    assert Estimator(bounds=(0, 1)).fit(*cancer).ranges_.shape == (2, 30)


@pytest.mark.slow
@each_linear
@pytest.mark.parametrize("data", ["cancer", "iris"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scores_are_linear_within_the_ranges_and_constant_beyond(Estimator, data, fit_intercept, request):
    X, y = request.getfixturevalue(data)
    X = X + 0.5  # zeros that a sparse matrix does not store are out of range
    options = {"epsilon": 5.0, "bounds": (0.5, 1.2), "standardize": "private", **SHORT.get(Estimator, {})}
    model = Estimator(fit_intercept=fit_intercept, random_state=0, **options).fit(X, y)
    low, high = model.ranges_
    assert (low <= 0.5).all()
    inside = np.clip(X, low, high)
    linear = inside @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(inside), linear.squeeze(), rtol=1e-9, atol=1e-9)
    far = np.vstack([X * 1e6, -X * 1e6, np.zeros_like(X[:3]), X])
    expected = np.clip(far, low, high) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(far), expected.squeeze(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(sp.csr_matrix(far)), expected.squeeze(), rtol=1e-9, atol=1e-9)


@each_linear
def test_bounds_for_another_number_of_columns_are_refused_before_anything_is_spent(Estimator, cancer, monkeypatch):
    monkeypatch.setattr(dpsk.data.private.SealedRows, "release", lambda *_: pytest.fail("something was spent"))
    with pytest.raises(ValueError, match="bounds are given for 3 columns, but X has 30"):
        Estimator(bounds=([0, 0, 0], 1)).fit(*cancer)


@pytest.fixture(scope="module")
def normal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 8))
    return X, rng.random(12_000) < 1 / (1 + np.exp(-0.8 * X.sum(axis=1)))


def held_out(Estimator, X, y, **parameters):
    """Return accuracy on the second half: its standard deviation over noise and rows is below 0.01."""
    half = len(y) // 2
    return Estimator(random_state=0, **parameters).fit(X[:half], y[:half]).score(X[half:], y[half:])


UNITS = {
    "1e-6 to 1e6": lambda X: X * 10.0 ** np.linspace(-6, 6, 8),
    "far from zero": lambda X: 2005 + 9 * X,
    "negative and far": lambda X: X - 300,
    "one column of 1e12": lambda X: np.column_stack([X, 1e12 * np.abs(X[::-1, 0])]),
    "constants": lambda X: np.column_stack([X, np.full((len(X), 3), [7.0, 1e12, -1e-9])]),
    "one outlier": lambda X: np.vstack([[[1e300] + 7 * [0.0]], X[1:]]),
    "rare large entries": lambda X: np.column_stack([X, np.where(np.abs(X[::-1]) > 2.8, 1000.0, 0)]),
    "copies": lambda X: np.tile(X, 5),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("Estimator", STANDARDISING)
@pytest.mark.parametrize("units", UNITS)
def test_units_do_not_matter(Estimator, units, normal):
    """Without bounds and without scaling: at most 2 points below the same data in units of their deviation."""
    X, y = normal
    assert held_out(Estimator, UNITS[units](X), y) > held_out(Estimator, X, y) - 0.02


@pytest.mark.slow
def test_standardisation_is_for_every_estimator(normal):
    X, y = normal
    hard = X * 10.0 ** np.linspace(-6, 6, 8) + 50
    for Estimator in ADAPTIVE:
        plain, private = (held_out(Estimator, hard, y, standardize=choice) for choice in (None, "private"))
        assert private > 0.75 > 0.65 > plain


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "gradient-descent", "adaptive-gradient"])
def test_each_solver_of_the_default_estimators(solver, normal):
    for Estimator in (DPLogisticRegression, DPLinearSVC):
        assert held_out(Estimator, *normal, solver=solver) > 0.75
    model = DPLogisticRegression(solver=solver).fit(*normal)
    assert model.privacy_spent_.currency.name == ("rho" if solver == "adaptive-gradient" else "mu**2")


@pytest.mark.slow
@each_standardising
def test_without_an_intercept_nothing_is_centred_or_moved(Estimator):
    """Scores go through the origin, in the fit as in predictions: three quarters of the rows are positive."""
    X = np.random.default_rng(0).uniform(0, 1, (8000, 2))
    y = X[:, 0] > 0.4 * X[:, 1]
    for bounds in (None, (0, 1)):
        model = Estimator(fit_intercept=False, bounds=bounds, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.96
        assert not model.decision_function(np.zeros((1, 2))).any()
    years = Estimator(fit_intercept=False, epsilon=10.0).fit(2005 + 9 * X, y).ranges_
    assert (years[0] <= 0).all()


@each_standardising
def test_rho_goes_before_epsilon(Estimator, cancer):
    report = Estimator(epsilon=np.inf, rho=0.1).fit(*cancer).privacy_spent_
    assert report.private
    assert report.rho == 0.1


@each_standardising
def test_too_few_rows_are_warned_about(Estimator, cancer):
    X, y = cancer
    with pytest.warns(
        UserWarning, match=r"epsilon=0\.1 with 569 rows, 30 columns and 2 classes: .*Raise epsilon"
    ) as caught:
        Estimator(epsilon=0.1).fit(X, y)
    assert caught[0].filename == __file__, "the warning must point at the user's line"


@each_standardising
def test_an_infinite_epsilon_says_that_nothing_is_promised(Estimator, cancer):
    report = Estimator(epsilon=np.inf).fit(*cancer).privacy_spent_
    assert not report.private
    assert report.epsilon == report.epsilon_at(1e-3) == report.epsilon_for_group(3) == np.inf
    assert report.delta_at(5.0) == 1.0
    assert "NOT PRIVATE: epsilon is infinite" in report.statement()
    assert "no noise" in repr(report)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["epsilon"] is None
    assert pickle.loads(pickle.dumps(report)) == report


def test_an_exact_model_that_is_not_exact_is_warned_about(cancer, monkeypatch):
    monkeypatch.setattr(dpsk.estimators.nonprivate, "_TOLERANCE", 0.0)
    with pytest.warns(ConvergenceWarning, match=r"may be separable.*Raise alpha"):
        DPLogisticRegression(epsilon=np.inf).fit(*cancer)
