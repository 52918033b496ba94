"""The contract that every public estimator keeps."""

import inspect
import io
import itertools
import pickle
import re
import subprocess
import sys
import threading
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import (
    ADAPTIVE,
    CHECKED,
    ESTIMATORS,
    NETWORKS,
    ONCE,
    OUTSIDE,
    PACKAGED,
    PERTURBING,
    PURE,
    SAMPLED,
    SECOND_ORDER,
    SHORT,
    STANDARDISING,
    TABULAR,
    Untouchable,
    each_estimator,
    each_iterative,
    each_numeric,
    each_with_rho,
    weights_of,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import dpsk
from dpsk import DPAGDSVC, BudgetExhausted, DPAGDLogisticRegression, DPConvolutionalClassifier, Number, PrivacySpent
from dpsk.calibration import Curve, Temperature
from dpsk.data import Columns, RowMap
from dpsk.estimators.budgets import is_exact
from dpsk.estimators.progress import Progress
from dpsk.networks import Convolution, Dense, MaxPooling, Network, TrainedNetwork
from dpsk.privacy.ledger import Release
from dpsk.solvers.calibrated import FACTORS, NATURAL, OF_HINGES
from dpsk.solvers.certificate import Certificate
from dpsk.solvers.sgd import SGD

# many fits here are on few rows, and say so
pytestmark = [
    pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning"),
    pytest.mark.filterwarnings("ignore:bounds=None and standardize=None:UserWarning"),
]


EQUIVALENCE = (
    "a row with weight 2 is not the same as two rows, because the number of rows is public (see "
    "tests/test_sample_weight.py, where both have it)"
)
ALL_ZERO = "an error would tell that no row has a weight, which noise has to hide (see tests/test_sample_weight.py)"


def failures_to_expect(estimator):
    """Checks of scikit-learn that ask for another thing than docs/refused-combinations.md says of weights."""
    both = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    return {**dict.fromkeys(both, EQUIVALENCE), "check_all_zero_sample_weights_error": ALL_ZERO}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sample_weight is given without weight_bound:UserWarning")
@parametrize_with_checks(
    [Estimator(**SHORT.get(Estimator, {})) for Estimator in [*CHECKED, *OUTSIDE]],
    expected_failed_checks=failures_to_expect,
)
def test_scikit_learn_checks(estimator, check):
    if "one_label_sample_weights" in str(check):  # it has five rows with a weight, and wants no prediction to err
        estimator = clone(estimator).set_params(epsilon=1e5)
    check(estimator)


def n_columns(model):
    """How many columns the weights are for: those of the rows, or of the features that were made of them."""
    return model.n_features_in_ if type(model) not in TABULAR else len(model.encoder_.get_feature_names_out())


def require_weights_for(model, n_scores):
    if type(model) in NETWORKS:
        assert len(model.coefs_) == len(model.intercepts_) == model.n_layers_ - 1
        assert model.intercepts_[-1].shape == model.coefs_[-1].shape[1:] == (n_scores,)
        assert isinstance(model, DPConvolutionalClassifier) or model.coefs_[0].shape[0] == n_columns(model)
    else:
        assert model.coef_.shape == (n_scores, n_columns(model))
        assert model.intercept_.shape == (n_scores,)


@each_estimator
def test_two_classes(Estimator, cancer):
    models = [Estimator(epsilon=5.0, random_state=seed).fit(*cancer) for seed in range(3)]
    model = models[0]
    scores = [each.score(*cancer) for each in models]  # pure noise has heavier tails: single draws are below 0.8 often
    assert np.median(scores) > (0.85 if model.privacy_spent_.delta > 0 else 0.75)
    require_weights_for(model, 1)
    assert model.n_features_in_ == 30
    assert model.decision_function(cancer[0]).shape == (569,)


@pytest.mark.slow
@each_estimator
def test_several_classes_share_one_budget(Estimator, iris):
    models = [Estimator(epsilon=10.0, random_state=seed).fit(*iris) for seed in range(3)]
    model = models[0]
    scores = [each.score(*iris) for each in models]
    assert np.median(scores) > 0.6  # one-vs-rest lines cannot do better than 0.8 here, the majority has 0.33
    require_weights_for(model, 3)
    assert model.decision_function(iris[0]).shape == (1500, 3)
    assert model.privacy_spent_.epsilon == 10.0
    assert model.privacy_spent_.charged <= model.privacy_spent_.limit


@pytest.mark.parametrize("Estimator", ADAPTIVE)
def test_a_large_budget_reaches_the_optimum_of_the_objective(Estimator, cancer):
    X, y = cancer
    model = Estimator(epsilon=1e4, alpha=1e-2, splits=500, random_state=0).fit(X, y)

    def objective(coef, intercept):
        margin = (2 * y - 1) * (X @ coef.ravel() + intercept)
        loss = np.logaddexp(0, -margin) if Estimator is DPAGDLogisticRegression else np.maximum(1 - margin, 0)
        return loss.mean() + 0.5e-2 * np.square(coef).sum()

    best = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-10, max_iter=10_000).fit(X, y)
    if Estimator is DPAGDLogisticRegression:
        assert objective(model.coef_, model.intercept_) < objective(best.coef_, best.intercept_) + 2e-3
    else:
        assert objective(model.coef_, model.intercept_) < objective(np.zeros(30), 0.0) - 0.3


@pytest.mark.slow
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_probabilities(data, request):
    X, y = request.getfixturevalue(data)
    model = DPAGDLogisticRegression(epsilon=5.0, random_state=0).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(y), len(model.classes_))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities)
    assert np.isfinite(model.predict_log_proba(1e4 * X)).all()
    assert not hasattr(DPAGDSVC(), "predict_proba")


# ------------------------------------------------------------------------------------ scikit-learn machinery


@pytest.mark.thorough
@pytest.mark.slow
@each_estimator
def test_pipeline_grid_search_and_cross_validation(Estimator, cancer):
    epsilon = 30.0 if Estimator in PURE else 3.0  # without a delta 400 rows are few
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), Estimator(epsilon=epsilon, random_state=0))
    name = Estimator.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__alpha": [1e-3, 1e-2]}, cv=3, n_jobs=2).fit(*cancer)
    assert search.best_score_ > 0.8
    assert isinstance(search.best_estimator_[-1].privacy_spent_, PrivacySpent)
    result = cross_validate(pipeline, *cancer, cv=3, return_estimator=True)
    assert all(model[-1].privacy_spent_.epsilon == epsilon for model in result["estimator"])


@each_estimator
def test_clone_forgets_the_fit(Estimator, cancer):
    model = Estimator(epsilon=2.0, alpha=0.1).fit(*cancer)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")
    assert not hasattr(copy, "privacy_spent_")


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_a_model_survives_pickle_and_joblib(Estimator, data, request, tmp_path):
    X, y = request.getfixturevalue(data)
    model = Estimator(epsilon=2.0, **SHORT.get(Estimator, {})).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    for loaded in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        assert loaded.privacy_spent_ == model.privacy_spent_


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize("changed", [{"epsilon": np.inf}, {"data_norm": 0.1}, {"bounds": (0, 0.1)}], ids=str)
def test_predictions_do_not_follow_parameters_that_are_set_later(Estimator, changed, cancer):
    if Estimator in TABULAR:
        changed = changed if "epsilon" in changed else {"columns": dict.fromkeys(range(30), Number(0, 0.1))}
    X, y = cancer
    standardize = {"standardize": None} if "standardize" in Estimator().get_params() else {}
    model = Estimator(**standardize, **SHORT.get(Estimator, {}), random_state=0)
    before = model.fit(X, y).decision_function(X)
    np.testing.assert_array_equal(model.set_params(**changed).decision_function(X), before)


# ------------------------------------------------------------------------------------------ what a model holds

PUBLIC = {
    "coef_", "intercept_", "ranges_", "classes_", "n_features_in_", "feature_names_in_", "privacy_spent_",
    "evaluations_", "data_norm_", "waves_",
}  # fmt: skip


OF_NETWORKS = PUBLIC - {"coef_", "intercept_", "waves_"} | {
    "coefs_", "intercepts_", "network_", "n_layers_", "n_iter_", "solver_",
}  # fmt: skip


def public(Estimator):
    if Estimator in NETWORKS:
        return OF_NETWORKS
    calibrated = {"calibration_"} if Estimator in STANDARDISING else set()
    return PUBLIC | calibrated | ({"certificate_"} if Estimator in SECOND_ORDER else set())


def walk(thing, seen=None):
    """Yield every object reachable from ``thing`` by attributes and containers."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    children = []
    if isinstance(thing, dict):
        children = [*thing, *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        children = list(thing)
    elif hasattr(thing, "__dict__"):
        children = list(vars(thing).values())
    for child in children:
        yield from walk(child, seen)


@pytest.mark.slow
@each_numeric
@pytest.mark.parametrize("seed", [None, 987_654])
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_a_pickle_holds_nothing_that_was_not_released(Estimator, seed, data, request):
    X, y = request.getfixturevalue(data)
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    model = Estimator(epsilon=1.0, random_state=seed, **SHORT.get(Estimator, {})).fit(frame, y)
    loaded = pickle.loads(pickle.dumps(model))
    assert set(vars(loaded)) == set(loaded.get_params()) | public(Estimator)
    released = {id(vars(loaded).get(name)) for name in PUBLIC}
    if Estimator in NETWORKS:
        how = loaded.network_.how
        of_columns = (how.columns.low, how.columns.high, how.columns.factor, how.columns.centre) if how.columns else ()
        released |= {id(part) for part in (*loaded.coefs_, *loaded.intercepts_, loaded.network_.weights, *of_columns)}
    released |= {
        id(part) for part in (vars(loaded.calibration_) if "calibration_" in public(Estimator) else {}).values()
    }
    secrets = {float(v) for v in (*X.sum(axis=0), *np.linalg.norm(X, axis=1), *np.unique(X), len(y))}
    parameters = {float(v) for v in loaded.get_params().values() if isinstance(v, int | float)}
    secrets -= {0.0, 0.1, 0.15, 0.5, 0.9, 1.0, *parameters}
    secrets -= {float(natural * factor) for natural in (NATURAL, OF_HINGES) for factor in FACTORS}  # of a temperature
    for thing in walk(loaded):
        if isinstance(thing, np.ndarray):
            assert id(thing) in released, "an array that is not a released one"
        elif isinstance(thing, float):
            assert thing not in secrets, f"the model holds {thing}, a fact of the data"
        else:
            known = (int, str, bool, type(None), dict, list, tuple, Estimator, PrivacySpent, Release, Certificate)
            known += (Curve, Temperature, SGD, TrainedNetwork, Network, Dense, Convolution, MaxPooling, RowMap, Columns)
            assert isinstance(thing, known) or type(thing).__module__.startswith("dpsk.privacy."), type(thing)
    # weights lie on a grid, which some facts are on by chance
    assert not np.isin(weights_of(loaded), [fact for fact in secrets if fact * 2**20 != round(fact * 2**20)]).any()
    numbers = [thing for thing in walk(loaded) if isinstance(thing, int) and not isinstance(thing, bool)]
    assert (987_654 in numbers) == (seed is not None)
    assert numbers.count(len(y)) == 1, "the number of rows is public, and its one place is the report"
    assert loaded.privacy_spent_.n_rows == len(y)


@pytest.mark.slow
@each_estimator
def test_a_seeded_fit_says_that_it_is_not_private(Estimator, cancer):
    short = SHORT.get(Estimator, {})
    seeded, secret = Estimator(random_state=0, **short).fit(*cancer), Estimator(**short).fit(*cancer)
    assert not seeded.privacy_spent_.private
    assert "NOT PRIVATE" in seeded.privacy_spent_.statement()
    assert secret.privacy_spent_.private
    assert "NOT PRIVATE" not in secret.privacy_spent_.statement()


@pytest.mark.slow
@each_estimator
def test_two_fits_without_a_seed_differ(Estimator, cancer):
    short = SHORT.get(Estimator, {})
    one, other = (Estimator(**short).fit(*cancer) for _ in range(2))
    assert not np.array_equal(weights_of(one), weights_of(other))


@each_estimator
def test_the_report_states_the_cap(Estimator, cancer):
    report = Estimator(epsilon=0.7, delta=1e-5, **SHORT.get(Estimator, {})).fit(*cancer).privacy_spent_
    assert (report.epsilon, report.delta, report.adjacency) == (0.7, 1e-5, "zero-out")
    assert report.charged <= report.limit
    if Estimator in (*SAMPLED, *PERTURBING):
        assert report.rho is None, "neither a batch of sampled rows nor a perturbed objective has a rho"
    else:
        assert report.rho == (
            report.limit if Estimator in (*ADAPTIVE, *SECOND_ORDER) else report.limit / 2
        )  # mu^2 = 2 rho


@each_with_rho
def test_a_budget_given_as_rho_is_the_cap(Estimator, cancer):
    by_rho = Estimator(rho=0.02, epsilon=123.0).fit(*cancer).privacy_spent_
    assert by_rho.rho == 0.02
    assert by_rho.epsilon == by_rho.epsilon_at(1e-6) < 1


# ---------------------------------------------------------------------------------------- the same bits everywhere


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_the_same_seed_gives_the_same_bits_on_every_storage_and_row_order(Estimator, data, request):
    X, y = request.getfixturevalue(data)
    order = np.random.default_rng(0).permutation(len(y))
    storages = {
        "F": (np.asfortranarray(X), y),
        "CSR": (sp.csr_matrix(X), y),
        "CSC": (sp.csc_matrix(X), y),
        "CSR array": (sp.csr_array(X), y),
        "COO": (sp.coo_array(X), y),
        "permuted": (X[order], y[order]),
        "list": (X.tolist(), list(y)),
        "view": (np.repeat(X, 2, axis=0)[::2], y),
    }
    if Estimator in SAMPLED:
        del storages["permuted"]  # batches are chosen by position: other rows would be in them
    short = SHORT.get(Estimator, {})
    model = Estimator(random_state=3, **short).fit(X, y)
    for name, (other_X, other_y) in storages.items():
        other = Estimator(random_state=3, **short).fit(other_X, other_y)
        np.testing.assert_array_equal(weights_of(other), weights_of(model), err_msg=name)


@pytest.mark.thorough
@pytest.mark.slow
@each_estimator
def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads(Estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 30))  # three chunks, of sizes that BLAS shares out
    y = X[:, 0] + rng.normal(size=20_000) > 0
    models, short = [], {"splits": 5} if Estimator in ADAPTIVE else SHORT.get(Estimator, {})
    for threads in (1, 2):
        with threadpool_limits(threads):
            models.append(Estimator(random_state=3, **short).fit(X, y))
    np.testing.assert_array_equal(weights_of(models[0]), weights_of(models[1]))


@each_estimator
def test_float32_is_fitted_as_what_it_stands_for(Estimator, cancer):
    X, y = cancer[0].astype(np.float32), cancer[1]
    short = SHORT.get(Estimator, {})
    single, double = (Estimator(random_state=1, **short).fit(rows, y) for rows in (X, X.astype(float)))
    np.testing.assert_array_equal(weights_of(single), weights_of(double))


@pytest.mark.parametrize("Estimator", ADAPTIVE)
def test_mini_batches(Estimator, cancer):
    model = Estimator(epsilon=5.0, batch_size=300, random_state=0).fit(*cancer)
    assert model.score(*cancer) > 0.8


# ------------------------------------------------------------------------------------------------- input and errors


@each_estimator
def test_data_frames_and_feature_names(Estimator, cancer):
    frame = pd.DataFrame(cancer[0], columns=[f"c{j}" for j in range(30)])
    model = Estimator(random_state=0).fit(frame, pd.Series(cancer[1]))
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"c0": "other"}))


@pytest.mark.slow
@each_estimator
def test_classes_can_be_fixed_beforehand(Estimator, cancer):
    X, y = cancer
    model = Estimator(epsilon=5.0, classes=[0, 1, 2], random_state=0).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    require_weights_for(model, 3)
    only = Estimator(classes=[0, 1], random_state=0).fit(X[y == 1], y[y == 1])
    assert only.classes_.tolist() == [0, 1]


BAD = {
    "epsilon zero": ({"epsilon": 0}, "epsilon=0"),
    "epsilon negative": ({"epsilon": -1.0}, r"epsilon=-1\.0"),
    "epsilon nan": ({"epsilon": np.nan}, "epsilon=nan"),
    "epsilon infinite, bad delta": ({"epsilon": np.inf, "delta": "small"}, "epsilon=inf|delta='small'"),
    "epsilon negative infinite": ({"epsilon": -np.inf}, "epsilon=-inf"),
    "epsilon text": ({"epsilon": "1"}, "epsilon='1'"),
    "delta zero": ({"delta": 0}, r"delta=0 .*output perturbation"),
    "delta one": ({"delta": 1.0}, r"delta=1\.0"),
    "delta negative": ({"delta": -0.1}, r"delta=-0\.1"),
    "delta text": ({"delta": "small"}, "delta='small'"),
    "rho zero": ({"rho": 0.0}, r"rho=0\.0"),
    "rho without delta": ({"rho": 0.1, "delta": 0}, "delta=0 must lie"),
    "alpha": ({"alpha": -1}, "alpha=-1"),
    "data_norm": ({"data_norm": 0}, "data_norm=0"),
    "alpha in words": ({"alpha": "small"}, "alpha='small' must be"),
    "target": ({"target": "test"}, "target='test' must be one of 'empirical', 'population'"),
    "radius": ({"radius": 0}, "radius=0"),
    "adjacency": ({"adjacency": "add"}, "adjacency='add' must be one of"),
    "fit_intercept": ({"fit_intercept": "yes"}, "fit_intercept='yes'"),
    "splits": ({"splits": 0}, "splits=0"),
    "gamma": ({"gamma": 0}, "gamma=0"),
    "gradient_clip": ({"gradient_clip": np.inf}, "gradient_clip=inf"),
    "loss_clip": ({"loss_clip": None}, "loss_clip=None"),
    "selection": ({"selection": "best"}, "selection='best' must be one of"),
    "conversion": ({"conversion": "loose"}, "conversion='loose' must be one of"),
    "step_max": ({"step_max": -2}, "step_max=-2"),
    "first_noise": ({"first_noise": 0}, "first_noise=0"),
    "batch_size": ({"batch_size": 0.5}, "batch_size=0.5 must be an integer"),
    "steps": ({"steps": 0}, "steps=0 must be an integer"),
    "momentum": ({"momentum": 1.0}, r"momentum=1\.0 must lie in"),
    "momentum negative": ({"momentum": -0.1}, r"momentum=-0\.1"),
    "step_size": ({"step_size": 0}, "step_size=0"),
    "step_size for alpha": ({"step_size": 1e6, "alpha": 1e-3}, r"step_size=1000000\.0 with alpha=0\.001"),
    "gradient_clip tiny": ({"gradient_clip": 1e-40, "steps": 1}, "gradient_clip=1e-40 must lie between"),
    "average zero": ({"average": 0}, "average=0"),
    "average": ({"average": 1.5}, r"average=1\.5 must lie in"),
    "loss": ({"loss": "squared"}, "loss='squared' must be one of '(log_loss|huber_hinge)', "),
    "sampling_rate zero": ({"sampling_rate": 0.0}, r"sampling_rate=0\.0"),
    "sampling_rate": ({"sampling_rate": 1.5}, r"sampling_rate=1\.5 must lie in"),
    "sampling": ({"sampling": "shuffle"}, "sampling='shuffle' must be one of 'poisson', 'without-replacement'"),
    "poisson batches and replaced rows": (
        {"adjacency": "replace", "sampling": "poisson", "sampling_rate": 0.1},
        "adjacency='replace' cannot be combined with sampling='poisson'.*without-replacement",
    ),
    "optimizer": ({"optimizer": "rmsprop"}, "optimizer='rmsprop' must be one of 'sgd', 'adam'"),
    "learning_rate": ({"learning_rate": -1}, "learning_rate=-1"),
    "learning_rate for alpha": ({"learning_rate": 1e5, "alpha": 1e-3}, r"learning_rate=100000\.0 with alpha=0\.001"),
    "accountant": ({"accountant": "moments"}, "accountant='moments' must be one of 'rdp', 'pld'"),
    "pld without replacement": (
        {"accountant": "pld", "sampling": "without-replacement"},
        "accountant='pld' plans equal steps on Poisson batches",
    ),
    "pld and standardize": ({"accountant": "pld", "standardize": "private"}, "accountant='pld' plans equal steps"),
    "search": ({"search": "golden"}, "search='golden' must be one of 'armijo-svt', 'exponential'"),
    "noise": ({"noise": "uniform"}, "noise='uniform' must be one of ('laplace', 'gaussian'|'exact', 'paper')"),
    "gains": ({"gains": "all"}, "gains='all' must be one of"),
    "increase": ({"increase": "twice"}, "increase='twice' must be one of"),
    "increase_by": ({"increase_by": 0}, "increase_by=0"),
    "first_price": ({"first_price": "low"}, "first_price='low' must be one of"),
    "search_share": ({"search_share": 0}, "search_share=0"),
    "shrink": ({"shrink": 1.0}, r"shrink=1\.0 must lie in"),
    "sufficient": ({"sufficient": 0}, "sufficient=0"),
    "candidates": ({"candidates": 0}, "candidates=0"),
    "determinant_share": ({"determinant_share": 1.0}, r"determinant_share=1\.0 must lie in \(0, 1\)"),
    "determinant_share zero": ({"determinant_share": 0}, "determinant_share=0"),
    "steps of a search": ({"step_max": 1.0, "shrink": 0.1, "candidates": 100}, "lead to steps beyond"),
    "adapt_every": ({"adapt_every": 0}, "adapt_every=0"),
    "growth": ({"growth": 0.5}, r"growth=0\.5"),
    "clip_decay": ({"clip_decay": 1.0}, r"clip_decay=1\.0 must lie in"),
    "fallback": ({"fallback": "yes"}, "fallback='yes'"),
    "method": ({"method": "3opt"}, "method='3opt' must be one of 'opt', 'opt-ls', "),
    "penalty": ({"penalty": "l1"}, "penalty='l1' must be one of 'nonconvex', 'l2'"),
    "eps_g": ({"eps_g": 0}, "eps_g=0"),
    "eps_h": ({"eps_h": -1.0}, r"eps_h=-1\.0"),
    "first_phase": ({"first_phase": 1}, r"first_phase=1 must lie in \(0, 1\)"),
    "hessian_share": ({"hessian_share": 0}, "hessian_share=0"),
    "confidence": ({"confidence": 1.0}, r"confidence=1\.0 must lie in"),
    "solver": ({"solver": "best"}, "solver='best' must be one of '(auto|newton|adam)'"),
    "standardize": ({"standardize": True}, "standardize=True must be None or 'private'"),
    "bounds a number": ({"bounds": 1.0}, r"bounds=1\.0 must be None or a pair"),
    "bounds out of order": ({"bounds": (1, 0)}, r"bounds=\(1, 0\) must be"),
    "bounds of nothing": ({"bounds": (0, 0)}, r"bounds=\(0, 0\) must be"),
    "bounds infinite": ({"bounds": (0, np.inf)}, r"bounds=\(0, inf\) must be"),
    "bounds nan": ({"bounds": (0, [1, np.nan])}, "bounds=.* must be"),
    "bounds of two shapes": ({"bounds": ([0, 0], [1, 1, 1])}, "bounds=.* must be"),
    "data_norm with bounds": ({"data_norm": 2.0, "bounds": (0, 1), "standardize": None}, "cannot be combined"),
    "data_norm with standardize": ({"data_norm": 2.0, "standardize": "private"}, "cannot be combined"),
    "activation": ({"activation": "logistic"}, "activation='logistic' must be one of 'relu', 'tanh'"),
    "initial_seed": ({"initial_seed": -1}, "initial_seed=-1"),
    "no sizes": ({"hidden_layer_sizes": "100"}, r"hidden_layer_sizes='100' must be a tuple of integers"),
    "a size of 0": ({"hidden_layer_sizes": (8, 0)}, r"hidden_layer_sizes=\(8, 0\) must be a tuple of integers >= 1"),
    "channels": ({"channels": ()}, r"channels=\(\) must be a tuple of integers"),
    "kernel_size": ({"kernel_size": 0}, "kernel_size=0"),
    "pool_size": ({"pool_size": 0}, "pool_size=0"),
    "image_shape": ({"image_shape": (28,)}, r"image_shape=\(28,\) must be \(height, width\)"),
    "small images": ({"image_shape": (3, 9), "kernel_size": 4}, "images are too small for channels=.*3 x 9"),
    "no steps to choose": ({"solver": "line-search", "learning_rate": 0.1}, "learning_rate=0.1 has no effect"),
    "pld of a search": (
        {"accountant": "pld", "solver": "line-search", "activation": "tanh"},
        "accountant='pld' plans equal steps and solver='line-search' takes others",
    ),
    "verbose": ({"verbose": -1}, "verbose=-1"),
    "verbose float": ({"verbose": 1.5}, r"verbose=1\.5 must be an integer"),
    "verbose text": ({"verbose": "2"}, "verbose='2' must be an integer"),
    "random_state generator": ({"random_state": np.random.default_rng(0)}, "random_state=.*None .*integer"),
    "random_state RandomState": ({"random_state": np.random.RandomState(0)}, "random_state=.*None .*integer"),
    "random_state negative": ({"random_state": -1}, "random_state=-1"),
    "random_state float": ({"random_state": 1.0}, r"random_state=1\.0"),
}


def bad_cases():
    """Every estimator with every case whose parameters it has; delta = 0 is what some are for."""
    for Estimator, (case, (parameters, message)) in itertools.product([*CHECKED, *OUTSIDE], BAD.items()):
        if Estimator in SECOND_ORDER and "sampling" in parameters:
            parameters = {**parameters, "method": "opt-b"}
        if Estimator in NETWORKS and case == "learning_rate for alpha":
            parameters = {**parameters, "solver": "sgd"}
        if set(parameters) <= set(Estimator().get_params()) and not (
            case == "delta zero" and Estimator in [*PURE, *TABULAR]
        ):
            yield pytest.param(Estimator, parameters, message, id=f"{Estimator.__name__}-{case}")


@pytest.mark.parametrize(("Estimator", "parameters", "message"), list(bad_cases()))
def test_bad_parameters_are_refused_before_the_data_are_touched(Estimator, parameters, message):
    with pytest.raises(ValueError, match=message):
        Estimator(**parameters).fit(Untouchable(), Untouchable())


def spoiled(cancer, what):
    X, y = cancer[0].copy(), cancer[1].astype(float)
    if what in ("nan", "inf"):
        X[3, 2] = float(what)
    elif what == "nan in y":
        y[5] = np.nan
    elif what == "missing text in y":
        y = np.where(y == 1, "a", "b").astype(object)
        y[5] = np.nan
    elif what == "one class":
        y[:] = 1
    elif what == "continuous":
        y += np.linspace(0, 0.1, len(y))
    elif what == "lengths":
        y = y[:-1]
    return X, y


@each_numeric
@pytest.mark.parametrize(("what", "message"), [("nan", "NaN"), ("inf", "infinity")])
def test_rows_that_are_not_finite_are_refused_and_nothing_is_spent(Estimator, what, message, cancer, monkeypatch):
    monkeypatch.setattr(dpsk.data.private.SealedRows, "release", lambda *_: pytest.fail("something was spent"))
    with pytest.raises(ValueError, match=message):
        Estimator().fit(*spoiled(cancer, what))


@each_estimator
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nan in y", "y contains NaN"),
        ("missing text in y", "NaN"),
        ("one class", "at least 2 classes"),
        ("continuous", "continuous"),
        ("lengths", "inconsistent numbers of samples"),
    ],
)
def test_bad_data_are_refused_and_nothing_is_spent(Estimator, what, message, cancer, monkeypatch):
    monkeypatch.setattr(dpsk.data.private.SealedRows, "release", lambda *_: pytest.fail("something was spent"))
    model = Estimator()
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*spoiled(cancer, what))
    assert not hasattr(model, "classes_")


@each_estimator
def test_labels_outside_classes_are_refused_without_naming_them(Estimator, cancer):
    X, y = cancer[0], cancer[1].astype(object)
    y[y == 1] = "a very private label"
    y[y == 0] = "b"
    with pytest.raises(ValueError, match="labels that are not in classes") as caught:
        Estimator(classes=["b", "c"]).fit(X, y)
    assert "very private" not in str(caught.value)


@each_estimator
def test_what_else_fit_is_given_is_refused_before_the_data_are_touched(Estimator, cancer):
    Estimator().fit(*cancer, weights=None)
    with pytest.raises(
        TypeError, match=r"unexpected arguments: ids, weights\. It takes X, y, sample_weight and groups"
    ):
        Estimator().fit(Untouchable(), Untouchable(), weights=Untouchable(), ids=Untouchable())
    with pytest.raises(TypeError, match="C is not supported: give alpha"):
        Estimator().fit(Untouchable(), Untouchable(), C=1.0)


@each_estimator
def test_the_wrong_number_of_features_is_refused(Estimator, cancer):
    model = Estimator().fit(*cancer)
    with pytest.raises(ValueError, match="features"):
        model.predict(cancer[0][:, :5])


@pytest.mark.slow
@each_estimator
def test_a_delta_above_one_over_n_is_warned_about(Estimator, cancer):
    with pytest.warns(UserWarning, match=r"delta=0\.01 is larger than 1/n"):
        Estimator(delta=0.01, **SHORT.get(Estimator, {})).fit(*cancer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Estimator(delta=1e-3).fit(*cancer)


@each_estimator
def test_a_budget_too_small_for_one_iterate_is_an_error_and_leaves_no_model(Estimator, cancer):
    # at this epsilon a delta of 1e-6 still buys one release of mu = 2.5e-6, and a single one is all a minimum needs
    model = Estimator(epsilon=1e-12, **({"delta": 1e-60} if Estimator in PERTURBING else {}))
    with pytest.raises(ValueError, match="epsilon"):
        model.fit(*cancer)
    assert not hasattr(model, "classes_")
    assert issubclass(BudgetExhausted, ValueError)


@each_estimator
def test_adjacency_replace_needs_more_noise(Estimator, cancer):
    options = {"sampling": "without-replacement", "epsilon": 3.0} if Estimator in SAMPLED else {}
    model = Estimator(adjacency="replace").set_params(**options).fit(*cancer)
    assert model.privacy_spent_.adjacency == "replace"
    assert "replaced by any other" in model.privacy_spent_.statement()


@each_estimator
def test_huge_and_constant_columns_do_not_break_a_fit(Estimator, cancer):
    X = cancer[0].copy()
    X[0, 0], X[:, 1], X[:, 2] = 1e300, 1e12, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "epsilon=.* expect little more than chance")  # with as many fields
        model = Estimator().fit(X, cancer[1])
    assert np.isfinite(weights_of(model)).all()


@pytest.mark.parametrize("Estimator", [*ESTIMATORS, *OUTSIDE])
def test_without_an_intercept(Estimator, cancer):
    model = Estimator(fit_intercept=False, epsilon=5.0, random_state=0).fit(*cancer)
    assert model.intercept_.tolist() == [0.0]


@pytest.mark.thorough
@pytest.mark.slow
@each_numeric
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_long_rows_count_as_shorter_ones_in_predictions_as_in_the_fit(Estimator, storage):
    """With a rare class the intercept is large beside shortened rows, and would be small beside long ones."""
    atol = 2.0**-10 if Estimator in NETWORKS else 0.0  # their signals are rounded to 2^-16
    X = np.random.default_rng(0).normal(size=(3000, 8))
    y = X @ np.arange(8.0) > 15
    model = Estimator(data_norm=1.0, random_state=0).set_params(standardize=None).fit(X, y)
    shortened = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    np.testing.assert_allclose(
        model.decision_function(storage(X)), model.decision_function(shortened), rtol=1e-9, atol=atol
    )
    huge, along = np.zeros((2, 8)), np.eye(8)[:2]
    huge[[0, 1], [0, 1]] = 1e200, 1e300  # whose squares overflow
    np.testing.assert_allclose(
        model.decision_function(storage(huge)), model.decision_function(along), rtol=1e-9, atol=atol
    )
    exact = Estimator(data_norm=1.0, epsilon=np.inf).set_params(standardize=None)
    if is_exact(exact):
        exact.fit(X, y)
        assert not np.allclose(exact.decision_function(X), exact.decision_function(shortened))


# ------------------------------------------------------------------------------------------ progress and callbacks


@pytest.mark.thorough
@pytest.mark.slow
@each_estimator
def test_progress_shows_released_values_only(Estimator, cancer, capsys):
    Estimator(verbose=1, **SHORT.get(Estimator, {})).fit(*cancer)
    lines = capsys.readouterr().out.splitlines()
    assert (1 if Estimator in ONCE else 2) <= len(lines) <= 12
    pattern = rf"\[{Estimator.__name__}\] iterate \d+: \d+% of the budget used"
    assert all(re.fullmatch(pattern, line) for line in lines)
    Estimator(verbose=0).fit(*cancer)
    assert capsys.readouterr().out == ""
    Estimator(verbose=True).fit(*cancer)
    assert capsys.readouterr().out


@pytest.mark.slow
@each_estimator
def test_numpy_numbers_are_numbers(Estimator, cancer):
    for kind in (np.float32, np.float16, np.int64):
        assert Estimator(epsilon=kind(1), **SHORT.get(Estimator, {})).fit(*cancer).privacy_spent_.epsilon == 1.0
    if "rho" in Estimator().get_params():
        assert Estimator(rho=np.float32(0.1)).fit(*cancer).privacy_spent_.rho == float(np.float32(0.1))


class Recorder:
    """A scikit-learn callback that keeps everything it is shown."""

    def __init__(self, stop_after=None):
        self.seen, self.models, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.seen.append((X, y, metadata))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.seen.append((X, y, metadata))
        self.models.append(fitted_estimator)
        return self.stop_after is not None and len(self.models) >= self.stop_after


@each_estimator
def test_callbacks_see_models_and_never_the_data(Estimator, cancer):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    recorder = Recorder()
    model = Estimator(epsilon=3.0, random_state=0).set_callbacks(recorder).fit(*cancer)
    assert len(recorder.models) > (1 if Estimator in ONCE else 3)
    assert all(estimator is not None for estimator in recorder.models)
    assert set(recorder.seen) == {(None, None, None)}
    np.testing.assert_array_equal(weights_of(recorder.models[-1]), weights_of(model))
    np.testing.assert_array_equal(recorder.models[-1].predict(cancer[0]), model.predict(cancer[0]))
    state = pickle.dumps(model)
    assert b"Recorder" not in state
    assert not [name for name in vars(pickle.loads(state)) if "callback" in name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("Estimator", "wrapped"),
    [(DPAGDLogisticRegression, "pipeline"), (DPAGDLogisticRegression, "search"), *((e, "plain") for e in CHECKED)],
)
def test_scikit_learn_s_progress_bar_works(Estimator, wrapped, cancer, monkeypatch, capfd):
    callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    pytest.importorskip("rich")
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    model = Estimator(random_state=0, **SHORT.get(Estimator, {}))
    if wrapped == "pipeline":
        model = make_pipeline(model)
    elif wrapped == "search":
        model = GridSearchCV(model, {"alpha": [1e-3, 1e-2]}, cv=2)
    model.set_callbacks(callback.ProgressBar()).fit(*cancer)
    assert not failed
    shown = capfd.readouterr().out  # long names are cut off
    assert Estimator.__name__[:25] in shown or wrapped == "pipeline"


@each_iterative
def test_a_callback_may_stop_the_fit(Estimator, cancer):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    recorder = Recorder(stop_after=2)
    model = Estimator(epsilon=3.0, random_state=0).set_callbacks(recorder).fit(*cancer)
    assert len(recorder.models) == 3  # two iterates, and the end of the fit
    # all but the intercept, which a calibration moves
    np.testing.assert_array_equal(weights_of(recorder.models[1])[:-1], weights_of(model)[:-1])
    assert model.privacy_spent_.epsilon == 3.0
    assert model.privacy_spent_.charged < model.privacy_spent_.limit


# ----------------------------------------------------------------------------------------------------- first use


@each_estimator
def test_every_parameter_and_attribute_is_documented(Estimator, cancer):
    model = Estimator().fit(*cancer)
    for name in (*inspect.signature(Estimator).parameters, *(n for n in vars(model) if n.endswith("_"))):
        assert re.search(rf"\b{name}\b", Estimator.__doc__), f"{name} is not documented"


def test_public_names():
    assert all(hasattr(dpsk, name) for name in dpsk.__all__)
    assert {Estimator.__name__ for Estimator in PACKAGED} <= set(dpsk.__all__)


@pytest.mark.thorough
@pytest.mark.slow
def test_the_demo_runs_without_a_network_and_prints_what_it_promises(tmp_path):
    command = [sys.executable, "-m", "dpsk", "demo", "--picture", str(tmp_path / "demo.png")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    for promised in ("not private", "majority class", "epsilon", "differential privacy"):
        assert promised in result.stdout
    assert (tmp_path / "demo.png").exists() or "matplotlib is not installed" in result.stdout


@pytest.mark.slow
def test_an_unknown_command_explains_itself():
    result = subprocess.run([sys.executable, "-m", "dpsk"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "demo" in result.stderr
    assert io.StringIO(result.stdout).read() == ""


# ------------------------------------------------------------------------------- what errors say and leave behind


@each_estimator
@pytest.mark.parametrize("what", ["text", "one dimension", "complex", "ragged", "text in y"])
def test_an_error_never_quotes_the_data(Estimator, what, cancer):
    X, y = cancer[0].copy(), cancer[1]
    secret = 0.123454321
    X[3, 2] = secret
    if what == "text":
        X = X.astype(object)
        X[5, 5] = "SECRET-Alice"
    elif what == "one dimension":
        X = X.ravel()[: len(y)]
        X[0] = secret
    elif what == "complex":
        X = X + 1j
    elif what == "ragged":
        X = [list(row) for row in X]
        X[4] = [secret]
    elif what == "text in y":
        y = y.astype(object)
        y[0] = "SECRET-Alice"
    if what == "text" and Estimator in TABULAR:
        Estimator(columns=dict.fromkeys(range(30), Number())).fit(X, y)  # where it is no number, it is missing
        return
    with pytest.raises((ValueError, TypeError)) as caught:
        Estimator().fit(X, y)
    trail = [caught.value]
    while trail[-1] is not None:
        assert "SECRET" not in str(trail[-1])
        assert "0.1234" not in str(trail[-1])
        trail.append(trail[-1].__cause__ or trail[-1].__context__)


@each_estimator
def test_a_refit_that_fails_leaves_no_report_of_the_fit_before(Estimator, cancer, monkeypatch):
    model = Estimator(random_state=0).fit(*cancer)

    class Breaks(Exception):
        pass

    def observe(w):
        raise Breaks

    monkeypatch.setattr(Progress, "observer", lambda *_: observe)
    with pytest.raises(Breaks):
        model.fit(*cancer)
    assert not hasattr(model, "classes_")
    assert 0 < model.privacy_spent_.charged <= model.privacy_spent_.limit
    labels = {release.label for release in model.privacy_spent_.releases}
    assert labels <= {
        *("gradient", "losses") * (Estimator in [*ADAPTIVE, *OUTSIDE]),
        *("row norms", "magnitudes", "positions", "moments", "gradient") * (Estimator in STANDARDISING),
        *("batch", "gradient and search", "gradient again", "search again") * (Estimator in SAMPLED),
        *("row norms", "magnitudes", "positions", "moments", "minimum") * (Estimator in ONCE),
        *("row norms", "magnitudes", "positions", "moments", "gradient", "search") * (Estimator in SECOND_ORDER),
        *("magnitudes", "joint histogram", "row norms", "gradient") * (Estimator in TABULAR),
        *("row norms", "magnitudes", "positions", "moments", "batch") * (Estimator in NETWORKS),
    }
    assert labels & {"gradient", "batch", "gradient and search", "minimum"}
    assert sum(release.count for release in model.privacy_spent_.releases) <= 10


@pytest.mark.parametrize("Estimator", ADAPTIVE)
def test_a_tiny_remainder_does_not_lose_a_paid_fit(Estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    outcomes = []
    for seed in range(25):
        model = Estimator(epsilon=1e-6, splits=5, random_state=seed)
        try:
            outcomes.append(np.isfinite(model.fit(X, X[:, 0] > 0).coef_).all())
        except BudgetExhausted:  # the budget ended before the first iterate: the one error there is
            outcomes.append(False)
            assert model.privacy_spent_.releases[-1].label in ("gradient", "losses")
    assert outcomes.count(True) >= 12


@each_estimator
def test_the_caller_s_floating_point_settings_do_not_matter(Estimator, cancer):
    X = cancer[0].copy()
    X[0, :3] = [1e150, 1e-300, 0]
    with np.errstate(all="raise"):
        model = Estimator(random_state=0).fit(X, cancer[1])
    assert np.isfinite(weights_of(model)).all()
