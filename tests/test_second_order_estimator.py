"""DPSecondOrderClassifier: what it adds to the contract of every estimator."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from contract import Untouchable

from dpsk import DPSecondOrderClassifier
from dpsk.data import Facts, Unknown
from dpsk.estimators.plan import budget_of_plan, plan_of
from dpsk.losses import Logistic, OneVsRest, Sigmoid
from dpsk.penalties import L2, Bounded
from dpsk.privacy import ZCDP, Sampling
from dpsk.privacy.currencies import RenyiDP
from dpsk.solvers.certificate import Certificate

METHODS = ("opt", "opt-ls", "opt-b", "2opt", "2opt-ls", "2opt-b")


@pytest.fixture(scope="module")
def rows():
    """Rows of a logistic model, enough of them for sensible noise."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 6))
    y = X @ np.array([4.0, -4.0, 2.0, 0.0, 0.0, 1.0]) - 1.5 + rng.logistic(size=20_000) > 0
    return X, np.where(y, "yes", "no")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log_loss", "sigmoid"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(method, loss, rows):
    model = DPSecondOrderClassifier(3.0, loss=loss, method=method, random_state=0).fit(*rows)
    assert model.score(*rows) > (0.7 if method in ("opt", "opt-b") else 0.72)  # the best reach 0.76, the majority 0.63
    report = model.privacy_spent_
    assert 0 < report.charged <= report.limit
    assert (report.currency == ZCDP()) != method.endswith("-b")
    assert isinstance(model.certificate_, Certificate)


def test_names_stand_for_what_they_say():
    def plan(**options):
        return plan_of(DPSecondOrderClassifier(**options), Unknown())

    solvers = {method: plan(method=method).solver for method in METHODS}
    for method, solver in solvers.items():
        assert solver.line_search == ("ls" in method)
        assert solver.phases == (2 if "2" in method else 1)
        assert solver.sampling == Sampling(0.1 if "b" in method else 1.0)
    assert plan(alpha=0.3).objective.penalty == Bounded(0.3, free_intercept=True)
    assert plan(alpha=0.3, fit_intercept=False).objective.penalty == Bounded(0.3)
    assert plan(alpha=0.3, penalty="l2").objective.penalty == L2(0.3, free_intercept=True)
    assert plan(loss="sigmoid").objective.loss_for(3) == OneVsRest(Sigmoid(), 3)
    assert plan().objective.loss_for(2) == Logistic()


OPTIONS = {
    "l2": {"penalty": "l2"},
    "no penalty": {"alpha": 0.0},
    "sigmoid and l2": {"loss": "sigmoid", "penalty": "l2"},
    "tolerances": {"eps_g": 0.05, "eps_h": 0.5},
    "replaced rows": {"adjacency": "replace"},
    "replaced rows on batches": {"method": "2opt-b", "sampling": "without-replacement", "sampling_rate": 0.5},
    "bounds": {"bounds": (0, 1)},
    "not standardised": {"standardize": None},
    "bounds only": {"standardize": None, "bounds": (0, 1)},
    "data_norm": {"standardize": None, "data_norm": 2.0},
    "shares": {"first_phase": 0.5, "hessian_share": 0.5, "search_share": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_learns(name, rows):
    model = DPSecondOrderClassifier(10.0, random_state=0, **OPTIONS[name]).fit(*rows)
    assert model.score(*rows) > 0.7


def test_several_classes_share_one_budget_and_one_gradient(iris):
    X, y = iris
    model = DPSecondOrderClassifier(20.0, random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    labels = {release.label for release in model.privacy_spent_.releases}
    assert labels <= {"row norms", "magnitudes", "positions", "moments", "gradient", "Hessian", "search"}
    assert model.privacy_spent_.charged <= model.privacy_spent_.limit


def test_sparse_and_dense_rows_give_the_same_bits(rows):
    X, y = rows[0].copy(), rows[1]
    X[X < 0.8] = 0
    options = {"epsilon": 2.0, "loss": "sigmoid", "random_state": 0, "eps_g": 0.01, "eps_h": 0.05}
    dense, sparse = (DPSecondOrderClassifier(**options).fit(store, y) for store in (X, sp.csc_matrix(X)))
    assert np.array_equal(dense.coef_, sparse.coef_)
    assert dense.certificate_ == sparse.certificate_
    assert "Hessian" in {release.label for release in dense.privacy_spent_.releases}


def test_the_certificate_is_true_of_the_model(rows):
    """With data_norm the objective is that of the rows as they are: it can be formed, and its derivatives with it."""
    X, y = rows
    options = {"standardize": None, "data_norm": 2.5, "eps_g": 0.03, "eps_h": 0.3, "confidence": 0.9}
    for loss, seed in (("log_loss", 0), ("sigmoid", 1)):
        model = DPSecondOrderClassifier(3.0, loss=loss, random_state=seed, **options).fit(X, y)
        certificate = model.certificate_
        assert certificate.reached
        assert certificate.confidence == 0.9
        assert certificate.longest == pytest.approx(np.hypot(2.5, 1))
        w = np.append(model.coef_[0], model.intercept_)
        with_ones = np.hstack([X, np.ones((len(X), 1))])
        signs = np.where(y == "yes", 1.0, -1.0)
        objective = plan_of(model, Facts(*X.shape, 2)).objective.on(X.shape[1] + 1, 2)
        scores = with_ones @ w
        gradient = with_ones.T @ objective.loss.derivative(scores, signs) / len(y) + objective.penalty.gradient(w)
        hessian = (with_ones.T * objective.loss.second_derivative(scores, signs)) @ with_ones / len(y)
        hessian += np.diag(objective.penalty.curvature(w))
        assert np.linalg.norm(gradient) <= certificate.gradient_bound
        assert np.linalg.eigvalsh(hessian)[0] >= certificate.eigenvalue_bound
        assert np.linalg.norm(gradient) <= 2 * 0.03
        assert "With probability at least 0.9" in certificate.statement()


def test_the_same_of_standardised_columns_in_the_units_that_are_fitted(rows):
    model = DPSecondOrderClassifier(5.0, random_state=0).fit(*rows)
    assert model.certificate_.reached
    assert 0 < model.certificate_.gradient_norm <= model.certificate_.eps_g
    assert model.certificate_.eigenvalue >= -model.certificate_.eps_h
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.certificate_ == model.certificate_


def test_a_budget_that_ends_first_says_that_nothing_is_known(rows):
    model = DPSecondOrderClassifier(0.5, eps_g=1e-4, eps_h=0.1, random_state=0).fit(*rows)
    assert not model.certificate_.reached
    assert (model.certificate_.eps_g, model.certificate_.eps_h) == (1e-4, 0.1)
    assert model.certificate_.gradient_bound is None
    assert "nothing is known" in model.certificate_.statement()
    assert model.score(*rows) > 0.7, "but the model is of use"
    assert model.privacy_spent_.charged > 0.9 * model.privacy_spent_.limit


def test_a_callback_that_stops_the_fit_leaves_nothing_known(rows):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

    class Stop:
        def setup(self, estimator, context):
            pass

        teardown = setup

        def on_fit_task_begin(self, estimator, context, **options):
            pass

        def on_fit_task_end(self, estimator, context, **options):
            return True

    model = DPSecondOrderClassifier(5.0, random_state=0).set_callbacks(Stop()).fit(*rows)
    assert not model.certificate_.reached


ADVICE = r"or bring columns that are fitted as they are to a scale of about \[0, 1\] \(standardize='private'\)"


def test_a_fit_that_stays_at_zero_warns(rows):
    with pytest.warns(UserWarning, match=f"weights of 0 are within the tolerances.* lower eps_g, {ADVICE}$"):
        model = DPSecondOrderClassifier(5.0, eps_g=5.0).fit(*rows)
    assert model.certificate_.reached
    assert not model.coef_.any()
    with pytest.warns(UserWarning, match=f"weights of 0 are within the tolerances.* lower eps_g, {ADVICE}$"):
        DPSecondOrderClassifier(5.0, eps_g=500.0, standardize=None).fit(*rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPSecondOrderClassifier(5.0).fit(*rows)


def test_an_early_end_reports_the_cap(rows):
    report = DPSecondOrderClassifier(1.5, 1e-7, eps_g=0.1).fit(*rows).privacy_spent_
    assert (report.epsilon, report.delta) == (1.5, 1e-7)
    assert report.charged < 0.8 * report.limit


def test_the_order_of_batches_is_fixed_before_the_fit(rows):
    model = DPSecondOrderClassifier(1.5, method="2opt-b")
    currency = budget_of_plan(model, Unknown()).currency
    assert isinstance(currency, RenyiDP)
    assert model.fit(rows[0][:5000], rows[1][:5000]).privacy_spent_.currency == currency


def test_batches_and_replaced_rows(rows):
    with pytest.raises(ValueError, match="adjacency='replace' cannot be combined with sampling='poisson'"):
        DPSecondOrderClassifier(method="opt-b", adjacency="replace").fit(*rows)
    assert DPSecondOrderClassifier(adjacency="replace").fit(*rows).privacy_spent_.adjacency == "replace"
    with pytest.raises(ValueError, match="leaves batches empty"):
        DPSecondOrderClassifier(method="opt-b", sampling_rate=1e-6).fit(*rows)


def test_too_many_columns_for_a_hessian_are_refused_before_anything_is_spent():
    X = sp.csr_matrix((10, 3000))
    model = DPSecondOrderClassifier()
    with pytest.raises(ValueError, match="X has 3000 columns, and a Hessian the square of that"):
        model.fit(X, np.arange(10) % 2)
    assert not hasattr(model, "privacy_spent_") or model.privacy_spent_.charged == 0


def test_probabilities_exist_for_the_logistic_loss_only(rows):
    assert hasattr(DPSecondOrderClassifier(), "predict_proba")
    assert not hasattr(DPSecondOrderClassifier(loss="sigmoid"), "predict_proba")


@pytest.mark.parametrize("data_norm", [1e-13, 1e29])
def test_a_data_norm_whose_square_does_not_fit_is_refused_before_the_data_are_touched(data_norm):
    with pytest.raises(ValueError, match=r"data_norm=.* must lie between 2\*\*-40 and 2\*\*40"):
        DPSecondOrderClassifier(standardize=None, data_norm=data_norm).fit(Untouchable(), Untouchable())


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-40, 1e-13, 1e16, 1e40])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["2opt-ls", "opt-b"])
def test_columns_of_any_size_are_fitted_as_they_are(method, fit_intercept, scale, rows):
    options = {"method": method, "standardize": None, "fit_intercept": fit_intercept, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny columns leave weights of 0
        model = DPSecondOrderClassifier(3.0, **options).fit(rows[0][:3000] * scale, rows[1][:3000])
    assert np.isfinite(model.coef_).all()
