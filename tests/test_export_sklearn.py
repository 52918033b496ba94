"""Models as plain objects of scikit-learn: equal predictions, and no dpsk in them."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from exported_models import (
    FOREIGN,
    MODELS,
    TABLES,
    edges,
    fitted,
    frame,
    model_of,
    random_rows,
    random_table,
    rows,
    tabular_of_all,
)
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from dpsk import (
    DPLinearSVC,
    DPLogisticRegression,
    OutputPerturbationLogisticRegression,
    PrivateCalibration,
    PrivateThreshold,
)

LINEAR = [*MODELS, *FOREIGN]


def largest_difference(model, taken, X):
    """Return how many labels differ, and the largest difference of probabilities."""
    assert hasattr(taken, "predict_proba") == hasattr(model, "predict_proba")
    with np.errstate(all="ignore"):  # scikit-learn adds up huge numbers to see whether they are finite
        wrong = int((taken.predict(X) != model.predict(X)).sum())
        if not hasattr(model, "predict_proba"):
            return wrong, 0.0
        return wrong, float(np.abs(taken.predict_proba(X) - model.predict_proba(X)).max())


@pytest.mark.parametrize("name", LINEAR)
def test_the_plain_model_predicts_the_same(name):
    model = model_of(name)
    taken = model.to_sklearn()
    for X in (edges(model), random_rows(20_000)):
        wrong, apart = largest_difference(model, taken, X)
        assert wrong == 0
        assert apart <= 1e-12
    assert taken.classes_.dtype == model.classes_.dtype
    assert taken.classes_.tolist() == model.classes_.tolist()
    assert taken.n_features_in_ == 5


@pytest.mark.thorough
@pytest.mark.parametrize("name", LINEAR)
def test_labels_are_equal_on_a_million_rows(name):
    model = model_of(name)
    taken = model.to_sklearn()
    for seed in range(10):
        wrong, apart = largest_difference(model, taken, random_rows(100_000, seed))
        assert wrong == 0
        assert apart <= 1e-12


@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPSGDClassifier of three", "threshold", "calibration"])
def test_types_of_rows_are_taken_alike(name):
    model = model_of(name)
    taken, X = model.to_sklearn(), random_rows(500)
    for given in (X.astype(np.float32), X.tolist(), np.rint(X).astype(np.int64), np.asfortranarray(X), X > 0):
        wrong, apart = largest_difference(model, taken, given)
        assert (wrong, apart <= 1e-12) == (0, True)


@pytest.mark.parametrize("name", ["DPLogisticRegression", "without ranges", "DPLinearSVC of three", "threshold"])
def test_the_plain_model_refuses_what_the_model_refuses(name):
    model = model_of(name)
    for entry, said in ((np.nan, "NaN"), (np.inf, "infinity")):
        X = random_rows(5)
        X[3, 2] = entry
        for one in (model, model.to_sklearn()):
            with pytest.raises(ValueError, match=said):
                one.predict(X)
    for one in (model, model.to_sklearn()):
        with pytest.raises(ValueError, match="expecting 5 features"):
            one.predict(random_rows(5)[:, :4])


def test_names_of_columns_are_kept_and_checked():
    X, y = rows()
    names = ["a", "b", "c", "d", "e"]
    X = pd.DataFrame(X, columns=names)
    model = PrivateThreshold(DPLogisticRegression(epsilon=5.0, random_state=0).fit(X, y), random_state=0).fit(X, y)
    for one in (model, model.estimator, PrivateCalibration(model.estimator, random_state=0).fit(X, y)):
        taken = one.to_sklearn()
        assert taken.feature_names_in_.tolist() == names
        assert (taken.predict(X) == one.predict(X)).all()
        with pytest.raises(ValueError, match="feature names should match"):
            taken.predict(X[names[::-1]])


@pytest.mark.parametrize("labels", [["a", "b"], [0, 1], [2.0, 7.0], [False, True], np.array(["x", "yy"], dtype=object)])
def test_labels_keep_their_type(labels):
    X, y = rows()
    model = DPLinearSVC(epsilon=5.0, random_state=0).fit(X, np.asarray(labels)[(y == "yes").astype(int)])
    for one in (model, PrivateThreshold(model, random_state=0).fit(X, model.predict(X))):
        taken = one.to_sklearn()
        assert taken.predict(X).dtype == one.predict(X).dtype
        assert taken.predict(X).tolist() == one.predict(X).tolist()


def test_decision_function_is_the_score_where_nothing_is_calibrated_and_the_log_odds_otherwise():
    X = random_rows(500)
    for name in ("DPSGDClassifier", "DPAGDSVC of three", "exact", "hinge", "one-vs-rest without intercept"):
        model = model_of(name)
        found = model.to_sklearn().decision_function(X)
        np.testing.assert_allclose(found, model.decision_function(X), rtol=1e-12, atol=1e-12)
    model = model_of("DPLogisticRegression")
    odds = model.calibration_(model.decision_function(X))
    np.testing.assert_allclose(model.to_sklearn().decision_function(X), odds, rtol=1e-12, atol=1e-12)


def test_rows_longer_than_the_norm_count_as_shorter_ones():
    model = fitted(OutputPerturbationLogisticRegression(epsilon=20.0, data_norm=30.0, random_state=0))
    X = np.vstack([random_rows(2000), random_rows(500) / 1e4, np.zeros((1, 5)), edges(model)])
    assert (np.linalg.norm(X[:2500], axis=1) < 30).any()
    wrong, apart = largest_difference(model, model.to_sklearn(), X)
    assert (wrong, apart <= 1e-12) == (0, True)


@pytest.mark.parametrize("name", ["exact one-vs-rest", "exact of three", "without ranges of three"])
def test_labels_are_right_for_huge_numbers_that_nothing_clips(name):
    model = model_of(name) if name in MODELS else fitted(
        DPLogisticRegression(epsilon=5.0, random_state=0, standardize=None), 3
    )  # fmt: skip
    X = np.random.default_rng(0).choice([-1e300, -1e120, -1e4, 0.0, 1e4, 1e120, 1e300], size=(2000, 5))
    with np.errstate(all="ignore"):
        assert (model.to_sklearn().predict(X) == model.predict(X)).all()


@pytest.mark.slow
def test_pipelines_keep_their_steps():
    X, y = rows()
    pipeline = make_pipeline(MinMaxScaler(), DPLogisticRegression(epsilon=5.0, random_state=0)).fit(X, y)
    search = PrivateThreshold(pipeline, random_state=0).fit(X, y)
    taken = search.to_sklearn()
    assert b"dpsk" not in pickle.dumps(taken)
    assert (taken.predict(X) == search.predict(X)).all()
    own = make_pipeline(model_of("table").encoder_, DPLogisticRegression(epsilon=5.0, random_state=0)).fit(*frame()[:2])
    held = [part[:200] for part in frame()[:2]]
    with pytest.raises(ValueError, match="the step TabularEncoder is no part of scikit-learn"):
        PrivateThreshold(own, random_state=0).fit(*held).to_sklearn()


def test_a_sparse_matrix_is_refused_and_the_error_tells_what_to_do():
    with pytest.raises(TypeError, match="toarray"):
        model_of("DPLogisticRegression").to_sklearn().predict(sp.csr_matrix(random_rows(5)))


def test_an_unfitted_model_has_no_other_form():
    for call in ("to_sklearn", "to_json"):
        with pytest.raises(NotFittedError):
            getattr(DPLogisticRegression(), call)()


ALONE = """
import pickle, sys, importlib.abc
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "dpsk":
            raise ImportError("dpsk is blocked")
sys.meta_path.insert(0, Blocker())
with open(sys.argv[1], "rb") as file:
    for model, X, labels in pickle.load(file):
        assert (model.predict(X) == labels).all(), model
assert not [name for name in sys.modules if name.split(".")[0] == "dpsk"]
"""


@pytest.mark.slow
def test_plain_models_load_where_dpsk_is_not(tmp_path):
    kept = [(model_of(name).to_sklearn(), random_rows(50), model_of(name).predict(random_rows(50))) for name in LINEAR]
    kept += [
        (model_of(name).to_sklearn(), random_table(50), model_of(name).predict(random_table(50))) for name in TABLES
    ]
    stored = pickle.dumps(kept)
    assert b"dpsk" not in stored
    (tmp_path / "models").write_bytes(stored)
    subprocess.run([sys.executable, "-c", ALONE, str(tmp_path / "models")], check=True)


@pytest.mark.parametrize("name", TABLES)
def test_the_plain_model_of_a_raw_table_predicts_the_same(name):
    model = model_of(name)
    wrong, apart = largest_difference(model, model.to_sklearn(), random_table(20_000))
    assert wrong == 0
    assert apart <= 1e-12


@pytest.mark.thorough
@pytest.mark.parametrize("name", TABLES)
def test_labels_of_raw_tables_are_equal_on_a_million_rows(name):
    model = model_of(name)
    taken = model.to_sklearn()
    for seed in range(10):
        wrong, apart = largest_difference(model, taken, random_table(100_000, seed))
        assert wrong == 0
        assert apart <= 1e-12


def test_columns_that_scikit_learn_cannot_read_alike_are_named():
    with pytest.raises(ValueError, match=r"'day' \(date\), 'note' \(text\), 'town' \(hashed categories\).*to_json"):
        tabular_of_all().to_sklearn()
