"""Private rows that meet a user's model or step: each is judged by itself, and nothing it does is seen or refunded."""

import warnings

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

from dpsk import Chunks, DPLogisticRegression, PrivacyLedger, PrivateSearchCV, private_score
from dpsk.model_selection.judging import correct, judges_rows_alone, labels_of, transformed

KINDS = [["a", "b", "c"]]


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"kind": rng.choice(list("abc"), n), "age": rng.uniform(0, 90, n)})


def pipeline_for(frame, y, **options):
    encoder = make_column_transformer((OneHotEncoder(categories=KINDS, **options), ["kind"]), remainder="passthrough")
    return make_pipeline(encoder, DPLogisticRegression(epsilon=20.0, bounds=(0, 90), random_state=0)).fit(frame, y)


class Nervous(ClassifierMixin, BaseEstimator):
    """A foreign model whose answers depend on the company: it warns, refuses, and looks at the mean of all rows."""

    def predict(self, X):
        X = np.asarray(X)
        if (X > 1e100).any():
            raise KeyError(f"no such value: {X.max()}")
        if (X < -1e100).any():
            warnings.warn(f"a small value: {X.min()}", UserWarning, stacklevel=2)
        return (X[:, 0] >= X[:, 0].mean()).astype(int)


# ------------------------------------------------------------------------------------------------ rows that are refused


def test_a_row_that_a_step_refuses_counts_as_wrong_and_is_paid_for(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=0)
    frame = table()
    y = (frame["age"] > 45).to_numpy()
    model = pipeline_for(frame, y)
    right = round(300 * private_score(model, frame, y, epsilon=1e6).accuracy)
    for changes in ({7: "secret"}, {7: "secret", 0: "other", 299: "x"}, dict.fromkeys(range(300), "all of them")):
        strange = frame.copy()
        for row, kind in changes.items():
            strange.loc[row, "kind"] = kind
        lost = int((model.predict(frame) == y)[list(changes)].sum())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = private_score(model, strange, y, epsilon=1e6)
            private_score(model, strange, y, epsilon=0.5, ledger=ledger)
        assert round(300 * found.accuracy) == right - lost
    assert ledger.remaining()["epsilon"] == 0.5
    assert {spend.state for spend in ledger.history()} == {"closed"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324])
@pytest.mark.parametrize("storage", ["array", "CSR", "frame", "chunks", "dask", "list"])
def test_rows_of_any_value_are_scored_in_silence(value, storage, cancer):
    X, y = cancer
    model = DPLogisticRegression(epsilon=4.0, random_state=0).fit(X, y)
    right = model.predict(X) == y
    X = X.copy()
    X[3], X[4, 2] = value, value
    stored = {
        "array": lambda: X,
        "CSR": lambda: sp.csr_matrix(X),
        "frame": lambda: pd.DataFrame(X),
        "chunks": lambda: Chunks(lambda: np.array_split(X, 5)),
        "dask": lambda: dask.array.from_array(X, chunks=(100, 30)),
        "list": lambda: X.tolist(),
    }[storage]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = correct(model, stored, y)
    others = np.delete(np.arange(len(y)), [3, 4])
    assert (found[others] == right[others]).all()
    if not np.isfinite(value):
        assert not found[[3, 4]].any()


def test_a_foreign_model_sees_one_row_at_a_time():
    X = np.arange(20.0)[:, None]
    assert correct(Nervous(), X, np.ones(20)).all(), "no row is below its own mean"
    X[5], X[6] = 1e200, -1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = correct(Nervous(), X, np.ones(20))
    assert np.flatnonzero(~found).tolist() == [5]


@pytest.mark.parametrize("Foreign", [LogisticRegression, SVC])
def test_rows_on_the_boundary_of_a_foreign_model_do_not_move_each_other(Foreign):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(103, 30)), rng.integers(2, size=103)
    model = Foreign().fit(X, y)
    if Foreign is LogisticRegression:
        for _ in range(3):
            X[:, 0] -= model.decision_function(X) / model.coef_[0, 0]
    whole = correct(model, X, y)
    for gone in (0, 51, 102):
        assert (correct(model, np.delete(X, gone, axis=0), np.delete(y, gone)) == np.delete(whole, gone)).all()


# ----------------------------------------------------------------------------------------------------------- labels


def test_labels_are_compared_one_by_one():
    X, y = np.arange(6.0)[:, None] - 2.5, [0, 0, 0, 1, 1, 1]
    model = DPLogisticRegression(epsilon=1e6, bounds=(-3, 3), random_state=0).fit(
        np.repeat(X, 500, axis=0), np.repeat(y, 500)
    )
    assert correct(model, X, labels_of(y)).all()
    odd = [0, "0", None, pd.NA, np.nan, {"a": 1}]  # in an array all of them would be text, or objects
    assert correct(model, X, labels_of(odd)).tolist() == [True, False, False, False, False, False]
    for strange in ("text", None, pd.NA, [0, 1], np.nan, 10**30):
        assert correct(model, X, labels_of([0, 0, 0, 1, 1, strange])).tolist() == [True] * 5 + [False]
    missing = pd.Series([0, 0, 0, 1, 1, pd.NA], dtype="Int64")
    assert correct(model, X, labels_of(missing)).tolist() == [True] * 5 + [False]


def test_labels_that_no_model_knows_are_wrong_and_paid_for(tmp_path, cancer):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    X, y = cancer
    model = DPLogisticRegression(epsilon=4.0, random_state=0).fit(X, y)
    assert private_score(model, X, np.full(len(y), 7), epsilon=0.4, ledger=ledger).accuracy < 0.1
    assert private_score(model, X, np.r_[1, np.full(len(y) - 1, 7)], epsilon=0.4, ledger=ledger).accuracy < 0.1
    assert ledger.remaining()["epsilon"] == pytest.approx(0.2)


# ------------------------------------------------------------------------------------------- who judges rows alone


def front(step):
    return make_pipeline(step, DPLogisticRegression())


def test_which_models_judge_each_row_by_itself():
    class Own(DPLogisticRegression):
        def predict(self, X):
            return super().predict(X - X.mean())

    encoders = make_column_transformer((OneHotEncoder(), [0]), ("drop", [1]), remainder=MinMaxScaler())
    search = PrivateSearchCV(DPLogisticRegression(), {})
    search.best_estimator_ = front(StandardScaler())
    for model in (
        DPLogisticRegression(),
        front("passthrough"),
        front(encoders),
        front(FeatureUnion([("a", Binarizer()), ("b", "passthrough")])),
        front(FunctionTransformer()),
        front(FunctionTransformer(np.log1p)),
        search,
    ):
        assert judges_rows_alone(model), model
    for model in (
        LogisticRegression(),
        Own(),
        front(Normalizer()),
        front(FunctionTransformer(abs)),
        front(make_column_transformer((FunctionTransformer(abs), [0]))),
        front(make_column_transformer((OneHotEncoder(), [0]), remainder=FunctionTransformer(abs))),
        front(FeatureUnion([("a", Normalizer())])),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(type("Mine", (StandardScaler,), {})(), DPLogisticRegression()),
    ):
        assert not judges_rows_alone(model), model


@pytest.mark.parametrize(
    "step",
    [
        Binarizer(),
        FunctionTransformer(),
        FunctionTransformer(np.exp),
        MaxAbsScaler(),
        MinMaxScaler(clip=True),
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        RobustScaler(),
        SimpleImputer(),
        StandardScaler(),
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0, 1]), remainder=StandardScaler()),
        FeatureUnion([("a", StandardScaler()), ("b", OneHotEncoder(handle_unknown="ignore"))]),
    ],
    ids=str,
)
def test_steps_that_are_given_all_rows_at_once_keep_them_apart(step):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 5)) * 3) / 7
    model = make_pipeline(step, DPLogisticRegression(epsilon=50.0, random_state=0)).fit(X, X[:, 0] > 0)
    assert judges_rows_alone(model)
    alone = np.concatenate([model.decision_function(x[None]) for x in X[:50]])
    huge = np.full((3, 5), 200.0)
    for company in (X, X[:50], X[:51], np.asfortranarray(X), np.concatenate([X[:50], huge]), X[49::-1][::-1]):
        assert model.decision_function(company)[:50].tobytes() == alone.tobytes()


# ---------------------------------------------------------------------------------------- steps in front of a search


def test_rows_that_steps_refuse_become_zeros():
    frame = table(40)
    frame.loc[[3, 17, 18], "kind"] = ["secret", "other", "x"]
    y = np.arange(40) % 2
    seen = []

    class Picky(OneHotEncoder):
        def fit(self, X, y=None):
            seen.append(len(X))
            return super().fit(X, y)

    step = make_column_transformer((Picky(categories=KINDS), ["kind"]), remainder="passthrough")
    found = transformed(step.fit_transform, frame, y)
    kept = np.delete(np.arange(40), [3, 17, 18])
    expected = make_column_transformer((OneHotEncoder(categories=KINDS), ["kind"]), remainder="passthrough")
    expected = expected.fit_transform(frame.iloc[kept])
    assert np.array_equal(found[kept], expected)
    assert not found[[3, 17, 18]].any()
    assert seen[-1] == 37
    sparse = transformed(OneHotEncoder(categories=KINDS).fit_transform, frame[["kind"]], y)
    assert sp.issparse(sparse)
    assert np.array_equal(sparse.toarray(), found[:, :3])
    named = transformed(
        step.set_output(transform="pandas").set_params(picky__sparse_output=False).fit_transform, frame, y
    )
    assert np.array_equal(named.to_numpy(), found)
    assert list(named.columns)[-1] == "remainder__age"


@pytest.mark.parametrize("kind", ["a", "secret"])
def test_a_search_never_tells_that_a_row_was_refused(kind, tmp_path, recwarn):
    """The unknown category changes neither an outcome's kind, nor a warning, nor the price."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=20.0, delta=1e-5)
    frame = table(2000)
    frame.loc[5, "kind"] = kind
    frame.loc[6, "age"] = 30 if kind == "a" else -5  # no logarithm
    encoder = make_column_transformer(
        (OneHotEncoder(categories=KINDS), ["kind"]), (FunctionTransformer(np.log1p), ["age"])
    )
    search = PrivateSearchCV(
        make_pipeline(encoder, DPLogisticRegression()),
        {"dplogisticregression__alpha": [1e-4, 1e-3]},
        epsilon=20.0,
        ledger=ledger,
    )
    search.fit(frame, (frame["age"] > 45).to_numpy())
    assert search.best_estimator_[-1].coef_.shape == (1, 4)
    assert search.best_score_ > 0.9
    assert ledger.remaining()["epsilon"] == 0
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
