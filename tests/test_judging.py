"""Private rows that meet a user's model or step: each is judged by itself, and nothing it does is seen or refunded."""

import warnings

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
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

from dpsk import Chunks, DPLogisticRegression, IndependentRows, PrivacyLedger, PrivateSearchCV, private_score
from dpsk.model_selection import TruncatedNegativeBinomial
from dpsk.model_selection.judging import correct, judges_rows_alone, labels_of
from dpsk.pipelines.in_front import transformed

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


@pytest.mark.thorough
@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("Step", [Binarizer, MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler])
@pytest.mark.parametrize("stored", [np.asarray, pd.DataFrame])
def test_a_step_that_writes_into_its_rows_does_not_scale_them_once_more_for_a_refused_one(Step, stored):
    rng = np.random.default_rng(0)
    X = rng.normal(3, 5, size=(200, 3))
    y = (X[:, 0] > 3).astype(int)
    model = make_pipeline(Step(copy=False), DPLogisticRegression(epsilon=4.0, random_state=0))
    model.fit(X.copy(), y)
    before = correct(model, stored(X.copy()), y)
    refused = X.copy()
    refused[0] = np.nan
    given = stored(refused.copy())
    assert (correct(model, given, y)[1:] == before[1:]).all()
    assert np.array_equal(np.asarray(given), refused, equal_nan=True)


def test_a_row_of_a_list_does_not_decide_what_type_the_others_have():
    """Squares of large integers overflow, those of floats do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    model = make_pipeline(FunctionTransformer(np.square), DPLogisticRegression(4.0, random_state=0).fit(X, y))
    given = (X * 3e9).astype(int).tolist()
    before = correct(model, given, y)
    given[0] = [0.5, 0.5, 0.5]
    assert (correct(model, given, y)[1:] == before[1:]).all()


def test_functions_of_whole_arrays_or_with_options_get_one_row_at_a_time():
    kept = np.zeros((5, 2))
    assert judges_rows_alone(FunctionTransformer(np.exp))
    assert not judges_rows_alone(FunctionTransformer(np.linalg._umath_linalg.det))
    assert not judges_rows_alone(FunctionTransformer(np.exp, kw_args={"out": kept}))


@pytest.mark.parametrize("labels", [["2020-01-01", "2021-01-01"], [0.0, 2.0**53]], ids=["dates", "large floats"])
@pytest.mark.parametrize("storage", ["array", "chunks", "dask"])
def test_a_refused_row_does_not_change_how_the_labels_of_others_are_compared(labels, storage):
    """As one piece they are an array, in several pieces objects: dates became integers, and no prediction was right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    classes = np.array(labels, dtype="datetime64[ns]" if isinstance(labels[0], str) else float)
    y = classes[(X[:, 0] > 0).astype(int)]
    model = DPLogisticRegression(epsilon=4.0, random_state=0).fit(X, y)
    right = model.predict(X) == y
    true = y if isinstance(labels[0], str) else labels_of([int(label) + (label > 0) for label in y])
    stored = {
        "array": lambda X: X,
        "chunks": lambda X: Chunks(lambda: np.array_split(X, 3)),
        "dask": lambda X: dask.array.from_array(X, chunks=(60, 3)),
    }[storage]
    before = correct(model, stored(X), true)
    if isinstance(labels[0], str):
        assert (before == right).all()
    X[0] = np.nan
    assert (correct(model, stored(X), true)[1:] == before[1:]).all()


def test_a_missing_label_does_not_change_the_type_of_the_others():
    whole = pd.Series([2**53, 2**53 + 1, 2**53 + 1]).astype("category")
    missing = whole.copy()
    missing[0] = None
    assert labels_of(missing)[1:].tolist() == labels_of(whole)[1:].tolist()
    assert labels_of(missing).dtype == labels_of(whole).dtype
    nullable = pd.Series([1, 2, 3], dtype="Int64")
    assert labels_of(nullable).dtype == labels_of(nullable.where(nullable > 1)).dtype


class Ends(BaseException):
    """An error as libraries in other languages raise it: it is no Exception."""


class ModelOfParts(ClassifierMixin, BaseEstimator):
    """A fitted model of several parts, one of which is not fitted."""

    def __init__(self, error=None):
        self.error = error

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if (X > 1e5).any():
            raise self.error
        return (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("error", [NotFittedError("part 7"), Ends(), SystemExit(1), MemoryError(), RecursionError()])
def test_whatever_a_row_raises_is_paid_for(error, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    X = np.random.default_rng(0).normal(size=(50, 2))
    y = (X[:, 0] > 0).astype(int)
    model = ModelOfParts(error).fit(X, y)
    X[3] = 1e6
    found = private_score(model, X, y, epsilon=1.0, ledger=ledger)
    assert found.n_rows == 50
    assert [spend.state for spend in ledger.history()] == ["closed"]
    assert np.flatnonzero(~correct(model, X, y)).tolist() == [3]
    step = FunctionTransformer(lambda X: X + model.predict(X)[:, None])
    assert not transformed(step.fit_transform, X, y)[3].any()


def test_a_model_that_is_not_fitted_says_so(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    fitted = DPLogisticRegression(epsilon=100.0, random_state=0).fit(X, y)
    for model in (DPLogisticRegression(), make_pipeline(StandardScaler(), fitted), make_pipeline(SVC())):
        with pytest.raises(NotFittedError):
            private_score(model, X, y, epsilon=1.0, ledger=ledger)
    assert ledger.remaining()["epsilon"] == 1.0


@pytest.mark.parametrize("stored", [pd.DataFrame, np.asarray])
def test_columns_of_text_are_refused_before_anything_is_paid(stored, tmp_path):
    """Their types are public, and every row would be wrong."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    model = DPLogisticRegression(epsilon=100.0, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="numbers"):
        private_score(model, stored(X.astype(str)), y, epsilon=1.0, ledger=ledger)
    with pytest.raises(ValueError, match="y is None"):
        private_score(model, Chunks(lambda: [(X, y)]), None, epsilon=1.0, ledger=ledger)
    assert ledger.remaining()["epsilon"] == 1.0


def test_a_model_need_not_be_one_of_scikit_learn():
    class Duck:
        n_features_in_ = 2

        def predict(self, X):
            return (X[:, 0] > 0).astype(int)

    X = np.random.default_rng(0).normal(size=(40, 2))
    assert correct(Duck(), X, (X[:, 0] > 0).astype(int)).all()


# ---------------------------------------------------------------------------------------- steps in front of a search


def test_a_row_that_a_step_drops_becomes_zeros():
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[[3, 17]] = 1e6
    found = transformed(FunctionTransformer(lambda X: X[np.abs(X).max(axis=1) < 1e5]).fit_transform, X, np.zeros(40))
    assert np.array_equal(found, np.where(X < 1e5, X, 0))


def test_a_refused_row_does_not_hide_what_is_wrong_with_the_types_of_columns():
    X = np.random.default_rng(0).normal(size=(40, 2))
    step = FunctionTransformer(lambda X: pd.DataFrame(np.sqrt(9 - X).astype(object), columns=["a", "b"]))
    model = make_pipeline(step, DPLogisticRegression())
    search = PrivateSearchCV(model, {"dplogisticregression__alpha": [0.01]}, epsilon=5.0, delta=1e-3)
    for value in (0.5, 10.0):  # the latter has no root
        X[3, 1] = value
        with pytest.raises(ValueError, match="'a' \\(object\\), 'b' \\(object\\)"):
            search.fit(X, np.arange(40) % 2)


def test_a_refused_row_leaves_the_entries_of_others_as_they_are():
    """Three entries for one place, the sum of which depends on their order and precision."""
    made = sp.csr_matrix((np.float32([1e8, 1, -1e8] * 40), np.zeros(120, int), np.arange(0, 121, 3)), (40, 1))

    def fit_transform(X, y):
        if (X < 0).any():
            raise ValueError
        return made[X[:, 0].astype(int)]

    X = np.arange(40.0)[:, None]
    refused = X.copy()
    refused[3] = -1
    whole, rest = transformed(fit_transform, X, X), transformed(fit_transform, refused, X)
    assert whole.dtype == rest.dtype
    assert (rest[4:].data == whole[4:].data).all()
    assert rest[3].nnz == 0


@pytest.mark.slow
def test_whether_columns_come_sparse_does_not_tell_how_many_categories_are_unknown():
    """By default the share of zeros decides, and a fitted step says what it came to."""
    frame = pd.DataFrame({"kind": ["a", "b"] * 20, "one": 1.0, "other": 1.0})
    encoder = make_column_transformer(
        (OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore"), ["kind"]),
        remainder="passthrough",
        sparse_threshold=0.75,
    )
    model, found = make_pipeline(encoder, DPLogisticRegression()), []
    for unknown in (0, 20):
        frame.loc[: unknown - 1, "kind"] = "secret"
        search = PrivateSearchCV(model, {"dplogisticregression__alpha": [0.01]}, epsilon=5.0, delta=1e-3)
        found.append(search.fit(frame, np.arange(40) % 2).best_estimator_[0].sparse_output_)
    assert found[0] == found[1]


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
    assert seen[-1] == 40  # another row stands in the place of each that was refused
    sparse = transformed(OneHotEncoder(categories=KINDS).fit_transform, frame[["kind"]], y)
    assert sp.issparse(sparse)
    assert np.array_equal(sparse.toarray(), found[:, :3])
    named = transformed(
        step.set_output(transform="pandas").set_params(picky__sparse_output=False).fit_transform, frame, y
    )
    assert np.array_equal(named.to_numpy(), found)
    assert list(named.columns)[-1] == "remainder__age"


def test_gaps_that_no_step_fills_are_an_error_as_in_any_fit():
    frame, y = table(60), np.arange(60) % 2
    frame.loc[4, "age"] = np.nan
    encoder = make_column_transformer((OneHotEncoder(categories=KINDS), ["kind"]), remainder="passthrough")
    with pytest.raises(ValueError, match="NaN or infinity that no step"):
        PrivateSearchCV(make_pipeline(encoder, DPLogisticRegression()), {}, epsilon=5.0).fit(frame, y)
    filling = make_column_transformer((SimpleImputer(strategy="constant", fill_value=30), ["age"]))
    assert transformed(filling.fit_transform, frame, y)[4] == 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a", "secret"])
def test_a_search_never_tells_that_a_row_was_refused(kind, tmp_path, recwarn):
    """The unknown category changes neither an outcome's kind, nor a warning, nor the price."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=20.0, delta=1e-5)
    frame = table(1000)
    frame.loc[5, "kind"] = kind
    frame.loc[6, "age"] = 30 if kind == "a" else -5  # no logarithm
    encoder = make_column_transformer(
        (OneHotEncoder(categories=KINDS), ["kind"]), (FunctionTransformer(np.log1p), ["age"])
    )
    search = PrivateSearchCV(
        make_pipeline(encoder, DPLogisticRegression()),
        {"dplogisticregression__alpha": [1e-4, 1e-3]},
        epsilon=20.0,
        n_iter_distribution=TruncatedNegativeBinomial(gamma=0.3),
        ledger=ledger,
    )
    search.fit(frame, (frame["age"] > 45).to_numpy())
    assert search.best_estimator_[-1].coef_.shape == (1, 4)
    assert search.best_score_ > 0.9
    assert ledger.remaining()["epsilon"] == 0
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


class Spied(DummyClassifier):
    """A model of another library that notes how many rows it gets, and refuses rows with a NaN."""

    def predict(self, X):
        sizes.append(len(X))
        if np.isnan(X).any():
            raise ValueError("a NaN")
        return super().predict(X)


sizes = []


def test_a_model_that_somebody_vouches_for_gets_all_rows_at_once():
    X, y = np.zeros((40, 2)), np.zeros(40, dtype=int)
    model = Spied().fit(X, y)
    for asked, expected in ((model, [1] * 40), (FrozenEstimator(model), [1] * 40), (IndependentRows(model), [40])):
        sizes.clear()
        assert private_score(asked, X, y, epsilon=1e3).accuracy > 0.9
        assert sizes == expected
    X[7] = np.nan
    sizes.clear()
    right = correct(IndependentRows(model), X, y)
    assert sizes[0] == 40
    assert min(sizes) == 1
    assert right.sum() == 39
    assert not right[7]


@pytest.mark.parametrize("kind", [str, "U3", "string"])
def test_text_for_numbers_is_refused_whatever_pandas_calls_it(kind, tmp_path):
    ledger = PrivacyLedger(tmp_path / "held.db", epsilon=1.0, delta=0)
    y = pd.Series(["ill", "not"] * 20)
    y = y.to_numpy().astype(kind) if kind == "U3" else y.astype("string" if kind == "string" else "str")
    if y.dtype == object:
        pytest.skip("this pandas has no type for text")
    with pytest.raises(ValueError, match="coded differently"):
        private_score(
            LogisticRegression().fit([[0.0], [1.0]], [0, 1]), np.zeros((40, 1)), y, epsilon=1.0, ledger=ledger
        )
    assert ledger.remaining()["epsilon"] == 1.0


def test_a_function_made_a_ufunc_may_remember_rows():
    """np.frompyfunc makes a real ufunc of any function."""
    seen = []
    remembers = np.frompyfunc(lambda x: seen.append(x) or len(seen), 1, 1)
    assert not judges_rows_alone(FunctionTransformer(remembers))
    assert judges_rows_alone(FunctionTransformer(np.log1p))
