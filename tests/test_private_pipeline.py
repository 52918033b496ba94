"""PrivatePipeline: what its last step sees, wherever the rows lie, and that nothing else leaves it."""

import pickle
import threading
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as make_plain_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, SplineTransformer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from dpsk import (
    BudgetExhausted,
    Categories,
    Chunks,
    DPLogisticRegression,
    DPTabularClassifier,
    Number,
    OutputPerturbationLogisticRegression,
    PrivacyLedger,
    PrivatePipeline,
    PrivateSearchCV,
    PrivateThreshold,
    check_pipeline,
    make_pipeline,
    privacy_cost,
    private_evaluation,
    private_score,
)
from dpsk.model_selection.judging import judges_rows_alone
from dpsk.pipelines.in_front import silence, transformed
from dpsk.testing import check_twins

KINDS = ["a", "b", "c"]
few = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")
pytestmark = [few]


def numbers(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, d))
    scores = X @ np.arange(d)
    return X, (scores > np.median(scores)).astype(int)


def table(n=400, seed=0):
    X, y = numbers(n, 2, seed)
    frame = pd.DataFrame(X, columns=["age", "pay"])
    return frame.assign(kind=np.resize(KINDS, n)), y


def linear(**parameters):
    return DPLogisticRegression(**({"epsilon": 2.0, "bounds": (0, 1), "random_state": 3} | parameters))


def encoding():
    """Return known categories beside numbers; entries of another category are refused."""
    kinds = OneHotEncoder(categories=[KINDS], handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("kinds", kinds, ["kind"])], remainder="passthrough", sparse_threshold=0)


class RefusesNegative(TransformerMixin, BaseEstimator):
    """A step with a tag, which names the rows that it does not like."""

    def __dpsk_row_by_row__(self):
        return True

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        bad = np.asarray(X, dtype=float).min(axis=1) < 0
        if bad.any():
            warnings.warn(f"row {bad.argmax()}", stacklevel=1)
            raise ValueError(f"row {bad.argmax()} is negative")
        return X


# ------------------------------------------------------------------------------------------------ what the model sees


def test_it_is_the_fit_of_its_last_step_on_what_the_steps_make():
    X, y = numbers()
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(X, y)
    alone = linear().fit(np.sqrt(X), y)
    assert (pipeline[-1].coef_ == alone.coef_).all()
    assert (pipeline.predict_proba(X) == alone.predict_proba(np.sqrt(X))).all()
    assert (pipeline.decision_function(X) == alone.decision_function(np.sqrt(X))).all()
    assert (pipeline.predict_log_proba(X) == alone.predict_log_proba(np.sqrt(X))).all()
    assert pipeline.score(X, y) == alone.score(np.sqrt(X), y)
    assert pipeline.privacy_spent_ == alone.privacy_spent_
    assert pipeline.n_features_in_ == 4
    assert (pipeline.classes_ == [0, 1]).all()


def in_chunks(X, y, parts=5):
    ends = np.linspace(0, len(y), parts + 1).astype(int)
    blocks = [slice(a, b) for a, b in pairwise(ends)]
    return Chunks(lambda: ((X[rows], y[rows]) for rows in blocks))


def test_chunks_and_files_give_the_bits_of_memory(tmp_path):
    X, y = numbers()
    inside = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(X, y)
    chunked = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(in_chunks(X, y))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    on_disk = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(mapped, y)
    for other in (chunked, on_disk):
        assert (other[-1].coef_ == inside[-1].coef_).all()
        for rows in (mapped, in_chunks(X, y)):
            assert (other.predict(rows) == inside.predict(X)).all()
            assert (other.predict_proba(rows) == inside.predict_proba(X)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dask_gives_the_bits_of_memory():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    frame, y = table()
    inside = make_pipeline(encoding(), linear()).fit(frame, y)
    collection = dd.from_pandas(frame, npartitions=3)
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    on_dask = make_pipeline(encoding(), linear()).fit(collection, labels)
    assert (on_dask[-1].coef_ == inside[-1].coef_).all()
    assert (np.asarray(on_dask.predict(collection).compute()) == inside.predict(frame)).all()
    X, y = numbers()
    array = da.from_array(X, chunks=(90, -1))
    one = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(array, da.from_array(y, chunks=90))
    other = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(X, y)
    assert (one[-1].coef_ == other[-1].coef_).all()
    assert (np.asarray(one.predict_proba(array)) == other.predict_proba(X)).all()
    with pytest.raises(ValueError, match="sparse_output=False"):
        make_pipeline(OneHotEncoder(categories=[KINDS], handle_unknown="ignore"), linear()).fit(
            collection[["kind"]], labels
        )


def test_sparse_rows_stay_sparse():
    X, y = numbers()
    X = sp.csr_matrix(X * (X > 0.5))
    encoded = make_pipeline(Normalizer(), linear(bounds=None)).fit(X, y)
    assert (encoded.predict(X) == encoded[-1].predict(Normalizer().fit_transform(X))).all()


# ---------------------------------------------------------------------------------------------------- refused rows


@pytest.mark.parametrize("storage", ["memory", "chunks", "file", "one row a chunk"])
def test_a_refused_row_becomes_zeros_in_silence(storage, tmp_path, recwarn):
    X, y = numbers(60)
    refused, zeroed = X.copy(), X.copy()
    refused[[0, 7, 41]], zeroed[[0, 7, 41]] = -1.0, 0.0
    expected = linear(bounds=None).fit(zeroed, y).coef_
    given = (refused, y)
    if storage.endswith(("chunks", "chunk")):
        given = (in_chunks(refused, y, 60 if storage.startswith("one") else 4),)
    elif storage == "file":
        np.save(tmp_path / "X.npy", refused)
        given = (np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    recwarn.clear()
    model = make_pipeline(RefusesNegative(), linear(bounds=None)).fit(*given)
    assert (model[-1].coef_ == expected).all()
    assert not [warning for warning in recwarn if "row" in str(warning.message)]


def test_a_refused_row_of_a_raw_table_has_no_entries_and_types_stay():
    frame, y = table()
    frame = frame.assign(visits=np.arange(len(frame)) % 7, old=frame.age > 0.5, day=pd.Timestamp("2026-01-01"))
    seen = []

    class Keeps(DPTabularClassifier):
        def fit(self, X, y=None, sample_weight=None, groups=None):
            seen.append(X)
            return super().fit(X, y, sample_weight=sample_weight, groups=groups)

    def work(X):
        if (X["age"] < 0).any():
            raise ValueError("negative")
        return X

    bad = frame.copy()
    bad.loc[5, "age"] = -1.0
    steps = [("work", FunctionTransformer(work)), ("model", Keeps(epsilon=8.0, random_state=0))]
    for given in (frame, bad):
        PrivatePipeline(steps, public=["work"]).fit(given, y)
    plain, twin = seen
    assert list(plain.dtypes) == list(twin.dtypes)
    others = np.delete(np.arange(len(y)), 5)
    pd.testing.assert_frame_equal(plain.iloc[others], twin.iloc[others])
    empty = twin.iloc[5]
    assert empty[["age", "pay", "kind", "day"]].isna().all()
    assert (empty["visits"], empty["old"]) == (0, False)


def test_steps_that_refuse_every_row_are_a_public_error():
    X, y = numbers(60)
    for given in ((-1 - X, y), (in_chunks(-1 - X, y),)):
        with pytest.raises(ValueError, match="refuse every row"):
            make_pipeline(RefusesNegative(), linear()).fit(*given)


def test_twins_look_the_same(tmp_path):
    frame, y = table(120)

    def action(X, y):
        ledger = PrivacyLedger("twins.db", epsilon=9.0, delta=1e-5)
        return make_pipeline(encoding(), linear(random_state=None, epsilon=0.5, ledger=ledger)).fit(X, y)

    check_twins(action, frame, y)


def test_twins_look_the_same_in_chunks():
    X, y = numbers(120)

    def action(X, y):
        model = make_pipeline(RefusesNegative(), FunctionTransformer(np.log), linear(random_state=None, epsilon=0.5))
        model.fit(in_chunks(X, y))
        return model[-1].coef_, model.privacy_spent_

    rows = {"a negative row": ([-1.0] * 4, None), "a row of zeros": ([0.0] * 4, None)}
    check_twins(action, X, y, rows=rows)


# ---------------------------------------------------------------------------------------------------------- refusals


def test_a_learning_step_is_refused_before_data_are_touched(tmp_path):
    ledger = PrivacyLedger(tmp_path / "p.db", epsilon=3.0, delta=1e-5)

    class Untouchable:
        shape = (3, 3)

        def __array__(self, *args, **kwargs):
            raise AssertionError("touched")

    pipeline = make_pipeline(StandardScaler(), linear(random_state=None, ledger=ledger))
    with pytest.raises(ValueError, match="standardscaler"):
        pipeline.fit(Untouchable(), Untouchable())
    assert ledger.history() == []
    with pytest.raises(NotFittedError):
        pipeline.predict(np.zeros((3, 3)))


@pytest.mark.parametrize("last", [
    lambda: Pipeline([("scale", StandardScaler()), ("model", linear())]),
    lambda: GridSearchCV(linear(), {"alpha": [0.1, 1.0]}),
    lambda: CalibratedClassifierCV(linear()),
    lambda: OneVsRestClassifier(linear()),
    lambda: BaggingClassifier(linear()),
], ids=["pipeline", "grid", "calibrated", "one-vs-rest", "bagging"])  # fmt: skip
@pytest.mark.parametrize("front", [[], [("log", FunctionTransformer(np.log1p))]], ids=["alone", "behind a step"])
def test_what_other_libraries_wrap_around_a_private_classifier_is_no_last_step(last, front):
    X, y = numbers(60)
    with pytest.raises(ValueError, match="last step of a PrivatePipeline"):
        PrivatePipeline([*front, ("last", last())]).fit(X, y)


def test_a_pipeline_ends_in_a_private_classifier():
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(ValueError, match="LogisticRegression is none"):
        make_pipeline(FunctionTransformer(np.sqrt), LogisticRegression()).fit(*numbers())


def test_ids_that_steps_would_see_are_refused():
    frame, y = table()
    with pytest.raises(ValueError, match="give the ids to fit as groups"):
        make_pipeline(encoding(), linear(group_column="kind")).fit(frame, y)
    search = PrivateSearchCV(linear(group_column="kind", random_state=None), {"alpha": [1e-3]})
    with pytest.raises(ValueError, match="give the ids to fit as groups"):
        make_pipeline(encoding(), search).fit(frame, y)


def test_other_parameters_of_fit_are_refused():
    X, y = numbers()
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), linear(weight_bound=1.0))
    with pytest.raises(TypeError, match="functiontransformer__y"):
        pipeline.fit(X, y, functiontransformer__y=y)
    weights = np.where(y, 1.0, 0.5)
    one = clone(pipeline).fit(X, y, sample_weight=weights)
    other = clone(pipeline).fit(X, y, dplogisticregression__sample_weight=weights)
    assert (one[-1].coef_ == other[-1].coef_).all()
    assert (one[-1].coef_ != pipeline.fit(X, y)[-1].coef_).any()


def test_a_refused_fit_leaves_everything_as_it_was(tmp_path):
    X, y = numbers()
    ledger = PrivacyLedger(tmp_path / "p.db", epsilon=2.0, delta=1e-5)
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), linear(random_state=None, ledger=ledger)).fit(X, y)
    before = pipeline.predict_proba(X)
    with pytest.raises(BudgetExhausted):
        pipeline.fit(X[:, :3], y)
    assert (pipeline.predict_proba(X) == before).all()
    assert pipeline.ledger == ledger


# ------------------------------------------------------------------------------------------------- among others


def test_persons():
    X, y = numbers()
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(X, y, groups=np.arange(len(y)) // 4)
    assert pipeline.privacy_spent_.unit == "person"


def test_it_is_cloned_pickled_and_searched(tmp_path):
    X, y = numbers()
    steps = [("work", FunctionTransformer(lambda X: X)), ("model", linear())]
    pipeline = PrivatePipeline(steps, public=["work"])
    assert clone(pipeline).public == ["work"]
    assert clone(pipeline).set_params(model__random_state=None).check().safe
    assert set(pipeline.get_params(deep=False)) == {"steps", "public"}
    fitted = make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    found = GridSearchCV(fitted, {"dplogisticregression__alpha": [1e-3, 1e-2]}, cv=3).fit(X, y)
    assert type(found.best_estimator_) is PrivatePipeline
    assert len(cross_val_score(fitted, X, y, cv=3)) == 3
    assert isinstance(fitted[:-1], Pipeline)
    assert not isinstance(fitted[:-1], PrivatePipeline)
    assert isinstance(fitted[:], PrivatePipeline)
    assert fitted[-1] is fitted.named_steps["dplogisticregression"]


def test_scores_and_evaluations_take_it():
    frame, y = table(600)
    fitted = make_pipeline(encoding(), linear()).fit(frame[:400], y[:400])
    assert judges_rows_alone(fitted)
    score = private_score(fitted, frame[400:], y[400:], epsilon=50.0)
    assert score.accuracy == pytest.approx(fitted.score(frame[400:], y[400:]), abs=0.05)
    assert private_evaluation(fitted, frame[400:], y[400:], epsilon=50.0).accuracy.value > 0.3
    careful = PrivateThreshold(fitted, epsilon=5.0, false_negative=3.0).fit(frame[400:], y[400:])
    assert careful.predict(frame).shape == (600,)


@pytest.mark.slow
def test_searches_inside_and_outside():
    X, y = numbers()
    space = {"alpha": [1e-3, 1e-2]}
    inside = make_pipeline(
        FunctionTransformer(np.sqrt), PrivateSearchCV(linear(random_state=None), space, epsilon=4.0)
    ).fit(X, y)
    assert inside.privacy_spent_.epsilon == 4.0
    outer = {f"dplogisticregression__{name}": values for name, values in space.items()}
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), linear(random_state=None))
    search = PrivateSearchCV(pipeline, outer, epsilon=4.0).fit(X, y)
    assert type(search.best_estimator_) is PrivatePipeline
    assert search.best_estimator_.privacy_spent_.epsilon == 4.0


def test_the_statement_speaks_of_the_steps():
    X, y = numbers()
    pipeline = PrivatePipeline(
        [
            ("root", FunctionTransformer(np.sqrt)),
            ("own", FunctionTransformer(lambda X: X)),
            ("model", linear(random_state=None)),
        ],
        public=["own"],
    ).fit(X, y)
    text = pipeline.statement()
    assert text.startswith(pipeline.privacy_spent_.statement())
    assert "root, own" in text
    assert "For own that was vouched for" in text
    alone = make_pipeline(linear(random_state=None)).fit(X, y)
    assert alone.statement() == alone.privacy_spent_.statement()


def test_pure_epsilon_too():
    X, y = numbers()
    model = OutputPerturbationLogisticRegression(epsilon=20.0, bounds=(0, 1))
    assert make_pipeline(FunctionTransformer(np.sqrt), model).fit(X, y).privacy_spent_.delta == 0


def test_ties_to_scikit_learn():
    """Predictions of a row that a step refuses raise, as with scikit-learn's pipelines."""
    X, y = numbers()
    model = make_pipeline(RefusesNegative(), linear()).fit(X, y)
    with pytest.warns(UserWarning, match="row"), pytest.raises(ValueError, match="negative"):
        model.predict(-X - 1)


def test_raw_tables_need_types():
    with pytest.raises(ValueError, match="whose columns have no types"):
        make_pipeline(FunctionTransformer(), DPTabularClassifier()).fit([[1, "a"], [2, "b"]], [0, 1])


def test_a_refused_row_moves_no_bit_of_another_one():
    """Products of matrices of another shape may be rounded in another way, so as many rows are multiplied."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (301, 37))
    refused = X.copy()
    refused[[0, 150]] = -1.0
    front = Pipeline([("own", RefusesNegative()), ("wide", GaussianRandomProjection(11, random_state=1))])
    plain, twin = (transformed(clone(front).fit_transform, rows, None) for rows in (X, refused))
    others = np.delete(np.arange(301), [0, 150])
    assert (plain[others] == twin[others]).all()
    assert not twin[[0, 150]].any()


@pytest.mark.filterwarnings("ignore:(?s).*format of the columns of the 'remainder':FutureWarning")
def test_it_is_taken_away_as_plain_scikit_learn_and_as_onnx():
    X, y = numbers()
    model = make_pipeline(FunctionTransformer(np.sqrt), linear(random_state=None)).fit(X, y)
    plain_one = model.to_sklearn()
    assert type(plain_one) is Pipeline
    assert "dpsk" not in {type(step).__module__.split(".")[0] for _, step in plain_one.steps}
    assert (plain_one.predict(X) == model.predict(X)).all()
    assert np.abs(plain_one.predict_proba(X) - model.predict_proba(X)).max() < 1e-12
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    frame, labels = table()
    mixed = make_pipeline(encoding(), linear(random_state=None)).fit(frame, labels)
    for fitted, rows in ((make_pipeline(Normalizer(), linear(random_state=None)).fit(X, y), X), (mixed, frame)):
        graph = fitted.to_onnx(rows[:1])
        session = runtime.InferenceSession(graph.SerializeToString())
        inputs = {"X": rows}
        if rows is frame:
            inputs = {name: rows[[name]].to_numpy() for name in rows}
        said, probabilities = session.run(None, inputs)
        assert (said == fitted.predict(rows)).all()
        assert np.abs(probabilities - fitted.predict_proba(rows)).max() < 1e-5
        assert "differential privacy" in {one.key: one.value for one in graph.metadata_props}["privacy"]


def test_its_cost_is_that_of_its_last_step(tmp_path):
    X, y = numbers()
    ledger = PrivacyLedger(tmp_path / "p.db", epsilon=30.0, delta=1e-4, currency="basic")
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), linear(random_state=None, ledger=ledger))
    cost = privacy_cost(cross_validate, pipeline, X, y, cv=3)
    cross_validate(pipeline, X, y, cv=3)
    assert cost.fits == len(ledger.history()) == 3
    assert cost.needs["epsilon"] == pytest.approx(30.0 - ledger.remaining()["epsilon"])


def test_what_a_plain_pipeline_leaks_beside_its_fits_is_named():
    X, y = numbers()
    cost = privacy_cost(make_plain_pipeline(StandardScaler(), linear(random_state=None)), X, y)
    assert any("StandardScaler keeps the exact mean" in leak for leak in cost.leaks)
    assert not privacy_cost(make_pipeline(FunctionTransformer(np.sqrt), linear(random_state=None)), X, y).leaks


@pytest.mark.parametrize(
    "last",
    [
        make_plain_pipeline(StandardScaler(), linear(random_state=None)),
        GridSearchCV(linear(random_state=None), {"alpha": [1e-3, 1e-2]}),
        GridSearchCV(make_plain_pipeline(StandardScaler(), linear(random_state=None)), {}),
        OneVsRestClassifier(linear(random_state=None)),
        CalibratedClassifierCV(linear(random_state=None)),
        RFE(linear(random_state=None)),
        FixedThresholdClassifier(linear(random_state=None)),
    ],
    ids=lambda last: type(last).__name__,
)
@pytest.mark.parametrize("front", [[], [FunctionTransformer(np.log1p)]], ids=["alone", "behind a step"])
def test_nothing_that_nobody_pays_for_hides_in_the_last_step(last, front):
    with pytest.raises(ValueError, match=f"the last step of a PrivatePipeline is.* {type(last).__name__} is none"):
        make_pipeline(*front, clone(last)).fit(*numbers())


def test_a_search_at_the_end_or_around_it_refuses_learning_steps_too():
    X, y = numbers()
    inner = make_plain_pipeline(StandardScaler(), linear(random_state=None))
    space = {"dplogisticregression__alpha": [1e-3, 1e-2]}
    with pytest.raises(ValueError, match="standardscaler"):
        make_pipeline(PrivateSearchCV(inner, space, epsilon=4.0)).fit(X, y)
    around = PrivateSearchCV(make_pipeline(StandardScaler(), linear(random_state=None)), space, epsilon=4.0)
    with pytest.raises(ValueError, match="standardscaler"):
        around.fit(X, y)


def test_nobody_can_vouch_for_what_is_known_to_learn():
    X, y = numbers()
    scaler = StandardScaler()
    with pytest.raises(ValueError, match="standardscaler"):
        make_pipeline(scaler, linear(), public=[scaler]).fit(X, y)
    inside = ColumnTransformer([("scale", StandardScaler(), [0, 1])], sparse_threshold=0)
    with pytest.raises(ValueError, match="columntransformer > scale"):
        make_pipeline(inside, linear(), public=["columntransformer"]).fit(X, y)
    frozen = FrozenEstimator(StandardScaler().fit(numbers(seed=5)[0]))  # on public rows
    model = make_pipeline(frozen, linear(bounds=None), public=["frozenestimator"]).fit(X, y)
    assert model[0].mean_ is frozen.estimator.mean_


def test_objects_in_front_of_a_model_of_raw_tables_are_declared():
    frame, y = table()
    columns = ColumnTransformer([("both", "passthrough", ["age", "kind"])], sparse_threshold=0)
    with pytest.raises(ValueError, match=r"array of objects.* columns=\{0"):
        make_pipeline(columns, DPTabularClassifier(epsilon=8.0)).fit(frame, y)
    declared = DPTabularClassifier(epsilon=8.0, columns={0: Number(0, 1), 1: Categories(KINDS)})
    assert make_pipeline(columns, declared).fit(frame, y).predict(frame).shape == y.shape


def test_lists_have_no_types():
    X, y = numbers()
    with pytest.raises(ValueError, match="whose columns have no types"):
        make_pipeline(FunctionTransformer(np.sqrt), linear()).fit(X.tolist(), y)
    texts = np.array(["a b", "b c"] * 200, dtype=object)
    hashed = HashingVectorizer(n_features=8, alternate_sign=False)
    assert make_pipeline(hashed, linear(bounds=None)).fit(texts, y).predict(texts).shape == y.shape


def test_names_that_look_like_paths_are_refused():
    twins = ColumnTransformer([("x > y", FunctionTransformer(np.exp), [0]), ("x", FunctionTransformer(np.exp), [1])])
    with pytest.raises(ValueError, match="looks like a path"):
        check_pipeline(make_pipeline(twins, linear()), public=["x > y"])
    steps = [("model > s", StandardScaler()), ("model", linear())]
    with pytest.raises(ValueError, match="'model > s' of a step holds '>'"):
        PrivatePipeline(steps).fit(*numbers())


def test_steps_that_want_two_rows_do_not_refuse_a_neighbour():
    """A single row is refused by SplineTransformer.fit, so single rows are tried twice."""
    X = np.random.default_rng(0).uniform(0.1, 1, (101, 2))
    knots = np.linspace(0, 1, 4)[:, None] * np.ones(2)
    splines = SplineTransformer(n_knots=4, degree=1, knots=knots, extrapolation="constant")
    front = Pipeline([("own", RefusesNegative()), ("splines", splines)])
    plain = transformed(clone(front).fit_transform, X, None)
    for place in range(0, 101, 7):
        twin = X.copy()
        twin[place] = -1.0
        found = transformed(clone(front).fit_transform, twin, None)
        others = np.delete(np.arange(101), place)
        assert (found[others] == plain[others]).all()
        assert not found[place].any()


@pytest.mark.parametrize("state", [None, np.random.RandomState(3)], ids=["global", "own"])
def test_a_refused_row_shows_in_no_generator(state):
    X, y = numbers(60)
    refused = X.copy()
    refused[5] = -1.0
    seen = []
    for rows in (X, refused):
        np.random.seed(0)  # noqa: NPY002 - the global generator is what this is about
        random = RBFSampler(gamma=0.5, n_components=5, random_state=clone_of(state))
        model = make_pipeline(RefusesNegative(), random, linear(bounds=None)).fit(rows, y)
        own = model[1].random_state
        of_all = np.random.get_state()[2]  # noqa: NPY002
        seen.append((of_all, own if own is None else own.get_state()[2]))
        assert model.get_params()["rbfsampler__random_state"] is own
    assert seen[0] == seen[1]


def clone_of(state):
    return None if state is None else pickle.loads(pickle.dumps(state))


def test_a_clip_does_not_let_one_row_decide_a_type():
    clip = FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 2.5})
    assert not make_pipeline(clip, linear(random_state=None)).check().safe
    assert make_pipeline(clip.set_params(validate=True), linear(random_state=None)).check().safe


@pytest.mark.parametrize("refused", [False, True])
def test_frames_of_other_libraries_are_refused_whatever_is_in_them(refused):
    polars = pytest.importorskip("polars")
    frame, y = table()
    frame = polars.from_pandas(frame)
    if refused:
        frame[5, "age"] = -1.0

    def work(X):
        if X["age"].min() < 0:
            raise ValueError("negative")
        return X

    steps = [("work", FunctionTransformer(work)), ("model", DPTabularClassifier(epsilon=8.0))]
    with pytest.raises(ValueError, match="a table of polars"):
        PrivatePipeline(steps, public=["work"]).fit(frame, y)


def test_silence_of_threads_ends_as_it_began():
    before = list(warnings.filters)

    def work():
        for _ in range(200):
            with silence():
                warnings.warn("a row", stacklevel=1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_candidates_that_are_steps_are_looked_at():
    inner = make_plain_pipeline(FunctionTransformer(np.log1p), linear(random_state=None))
    pipeline = Pipeline([("front", FunctionTransformer(np.sqrt)), ("model", inner)])
    search = PrivateSearchCV(pipeline, {"model__functiontransformer": [StandardScaler()]}, epsilon=4.0)
    assert not check_pipeline(search).safe


def test_a_training_set_that_repeats_a_row_has_no_price():
    X, y = numbers()
    twice = [(np.r_[np.zeros(201, int), 1:200], np.arange(200, 400))]
    with pytest.raises(ValueError, match="more than once"):
        privacy_cost(cross_validate, linear(random_state=None), X, y, cv=twice)

    class Own:
        def get_n_splits(self, *data):
            return 2

        def split(self, X, y=None, groups=None):
            yield from twice

    cost = privacy_cost(cross_validate, linear(random_state=None), X, y, cv=Own())
    assert any("Own is not known here" in leak for leak in cost.leaks)
