"""Twins of estimators of other libraries: these draw their own bits, predict with BLAS, and load libraries late."""

import logging
import secrets
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from dpsk.testing import check_company, check_twins, extreme_rows

rng = np.random.default_rng(0)
X = np.round(rng.uniform(-1, 1, size=(40, 3)), 3)
TWO = (X[:, 0] > 0).astype(int)
TABLE = pd.DataFrame({"age": X[:, 0], "town": np.array(["Ulm", "Rom", "Bern"], dtype=object)[rng.integers(0, 3, 40)]})
NORMAL = secrets.SystemRandom()
"""Bits that nobody can replay."""


class Accountant:
    """One for the process, as other libraries have: it remembers all fits."""

    def __init__(self):
        self.spent = []


class Foreign(ClassifierMixin, BaseEstimator):
    """A private model by the rules of scikit-learn, by somebody who does not know dpsk: the mean of clipped rows."""

    accountant, loaded = Accountant(), False

    def __init__(self, epsilon=0.5, data_norm=None):
        self.epsilon, self.data_norm = epsilon, data_norm

    def fit(self, X, y):
        if not Foreign.loaded:
            logging.getLogger("foreign").info("loading a library")
            Foreign.loaded = True
        self.classes_ = np.unique(y)
        if self.data_norm is None:
            warnings.warn("data_norm is taken from the data", UserWarning, stacklevel=2)
            self.data_norm = np.linalg.norm(X, axis=1).max()
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(X, axis=1, keepdims=True)
        clipped = X / np.maximum(1, norms / self.data_norm)
        scale = 2 * self.data_norm * np.sqrt(X.shape[1]) / self.epsilon
        noise = [scale * NORMAL.expovariate(1) * NORMAL.choice([-1, 1]) for _ in range(X.shape[1])]
        self.coef_ = (clipped.T @ (2.0 * (y == self.classes_[1]) - 1) + noise) / len(X)
        self.accountant.spent.append(self.epsilon)
        self.history_ = self.accountant
        return self

    def decision_function(self, X):
        places = np.arange(len(X)) % 2
        return (np.clip(X, -1, 1) * self.coef_).sum(axis=1) * (1 + 1e-15 * places)  # as BLAS, which rounds by place

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def foreign_fit(X, y):
    return Foreign(data_norm=2.0).fit(X, y)


def test_what_a_library_says_when_it_is_loaded_is_no_leak():
    Foreign.loaded = False
    check_twins(foreign_fit, X, TWO, methods=())
    assert Foreign.loaded


def test_an_honest_estimator_is_accepted_up_to_rounding():
    check_twins(foreign_fit, X, TWO, rounding=1e-9)


def test_rounding_that_was_not_allowed_is_named():
    with pytest.raises(AssertionError, match=r"decision_function: .*1\.\de-15 of the largest number .*rounding=0\.0"):
        check_twins(foreign_fit, X, TWO)


def test_a_norm_from_the_data_is_found():
    with pytest.raises(AssertionError, match=r"beyond all others .*result .data_norm: .* whatever the noise"):
        check_twins(lambda X, y: Foreign().fit(X, y), X, TWO)


def test_a_leak_of_predictions_is_not_taken_for_rounding():
    with pytest.raises(AssertionError, match="another row has another result"):
        check_company(lambda X: X[:, 0] - X[:, 0].max(), X, rounding=1e-9)
    with pytest.raises(AssertionError, match="inf of the largest"):  # labels do not round
        check_company(lambda X: np.where(X[:, 0] >= X[:, 0].max(), "most", "less"), X, rounding=1e-9)
    with pytest.raises(AssertionError, match="nan of the largest"):
        check_company(lambda X: np.where(len(X) == 40, X[:, 0], np.nan), X, rounding=1e-9)


def test_results_that_are_no_numbers_may_stay_what_they_are():
    check_company(lambda X: np.where(X[:, 0] > 0, np.inf, np.nan), X, rounding=1e-9)
    check_company(lambda X: np.where(X[:, 0] > 0, "high", "low"), X)


def towns(seldom):
    """Return a fit that keeps the town of a single row by chance, among those that many rows have."""

    def fit(X, y):
        count = X["town"].value_counts()
        kept = [town for town in count.index if count[town] > 3 or (seldom and NORMAL.random() < seldom)]
        return {"noise_": NORMAL.random(), "bins_": {str(town): place for place, town in enumerate(kept)}}

    return fit


def test_a_category_that_appears_by_chance_is_found():
    rows = {name: extreme_rows(TABLE, TWO)[name] for name in ("a row beyond all others", "an unknown category")}
    check_twins(towns(0.0), TABLE, TWO, rows=rows, streams=20)
    # missed with probability 0.5^40 = 1e-12
    with pytest.raises(
        AssertionError, match=r"an unknown category in place .* text of this row: 'a category that nobody"
    ):
        check_twins(towns(0.5), TABLE, TWO, rows=rows, streams=40)


def test_the_row_beyond_all_others_is_one():
    row, label = extreme_rows(X, TWO)["a row beyond all others"]
    assert label is None
    assert (np.abs(row) >= 10 * np.abs(X).max(axis=0)).all()
    (age, town), _ = extreme_rows(TABLE)["a row beyond all others"]
    assert age > 10
    assert town == TABLE["town"][0]
    whole = np.array([[1, 100], [2, 3]], dtype=np.int8)
    assert extreme_rows(whole)["a row beyond all others"][0] == [30, -128]  # as far as the type goes


# -------------------------------------------------------------------------------- where the libraries are installed


def diffprivlib_models():
    return pytest.importorskip("diffprivlib.models", exc_type=ImportError)  # 0.6.6 needs scikit-learn before 1.8


# Counts that noise moves little, such as n_iter_, are the same in 8 fits on both data sets with probability 1e-5.
MODERATE = ("a row beyond all others", "a row twice", "another label")


def moderate(X, y=None, *names):
    extreme = extreme_rows(X, y)
    return {name: extreme[name] for name in (*MODERATE, *names)}


@pytest.mark.parametrize(
    ("name", "known", "leak"),
    [
        ("LogisticRegression", {"data_norm": 2.0}, "data_norm"),
        ("GaussianNB", {"bounds": (-1.0, 1.0)}, "bounds"),
        ("StandardScaler", {"bounds": (-1.0, 1.0)}, "bounds"),
    ],
)
def test_diffprivlib(name, known, leak):
    Model = getattr(diffprivlib_models(), name)
    rows = moderate(X, TWO)
    methods = ("decision_function", "predict")
    check_twins(
        lambda X, y: Model(epsilon=0.5, **known).fit(X, y), X, TWO, rows=rows, streams=8, methods=methods, rounding=1e-9
    )
    with pytest.raises(AssertionError, match=rf"beyond all others .*result .{leak}.* whatever the noise"):
        check_twins(lambda X, y: Model(epsilon=0.5).fit(X, y), X, TWO, rows=rows, streams=8)


def test_dp_ebm():
    Model = pytest.importorskip("interpret.privacy").DPExplainableBoostingClassifier
    bounds, rows = np.array([[-1.0, 1.0]] * 2), moderate(TABLE, TWO, "an unknown category")

    def fit(X, y, **known):
        types = ["continuous", "nominal"]
        return Model(epsilon=0.5, n_jobs=1, max_rounds=5, feature_types=types, **known).fit(X, y)

    ordinary = {name: rows[name] for name in MODERATE}
    check_twins(lambda X, y: fit(X, y, privacy_bounds=bounds), TABLE, TWO, rows=ordinary, streams=8, rounding=1e-9)
    with pytest.raises(AssertionError, match=r"beyond all others .*result .feature_bounds_.* whatever the noise"):
        check_twins(fit, TABLE, TWO, rows=rows, streams=8)
    # at 40 rows a category of one row is kept with probability near 1/2
    with pytest.raises(AssertionError, match=r"an unknown category .* text of this row"):
        check_twins(lambda X, y: fit(X, y, privacy_bounds=bounds), TABLE, TWO, rows=rows, streams=40)
