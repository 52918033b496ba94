"""DPTabularClassifier on tables as people have them: text, dates, gaps, ids, constants, nothing at all, copies."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpsk
from dpsk import (
    BudgetExhausted,
    Categories,
    Chunks,
    Date,
    DPLogisticRegression,
    DPTabularClassifier,
    Number,
    PrivacyLedger,
    PrivateSearchCV,
    Text,
    private_score,
    search_cost,
)
from dpsk.estimators.progress import Progress
from dpsk.model_selection.judging import correct
from dpsk.testing import check_company, check_twins

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")

N = 3_000
JOBS = ["nurse", "cook", "clerk", "driver", "pilot"]
SECRET = "the only beekeeper"
ODD_INCOME = 4321.098765432123


def table(n=N, seed=0):
    """Return a frame in which nearly everything occurs that frames have, and labels."""
    rng = np.random.default_rng(seed)
    age, job = rng.integers(18, 90, n), rng.choice(JOBS, n, p=[0.3, 0.3, 0.2, 0.15, 0.05])
    income = np.exp(rng.normal(7, 1, n))
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D")
    frame = pd.DataFrame(
        {
            "age": pd.array(age, dtype="Int64"),
            "income": income,
            "job": pd.Series(job, dtype="str"),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high", "never"]),
            "seen": pd.Series(seen),
            "smoker": pd.array(rng.random(n) < 0.3, dtype="boolean"),
            "id": [f"id {k}" for k in range(n)],
            "constant": 7,
            "nothing": np.full(n, np.nan),
            "age again": age,
        }
    )
    frame.loc[rng.random(n) < 0.2, "income"] = np.nan
    frame.loc[rng.random(n) < 0.1, ["age", "job"]] = pd.NA
    frame.loc[rng.random(n) < 0.1, "seen"] = pd.NaT
    frame.loc[3, "job"], frame.loc[5, "income"] = SECRET, ODD_INCOME
    y = (age > 50).astype(int) + (job == "cook") + rng.random(n) > 1.5
    return frame, np.where(y, "yes", "no")


@pytest.fixture(scope="module")
def data():
    return table()


@pytest.fixture(scope="module")
def model(data):
    return DPTabularClassifier(epsilon=8.0, random_state=0).fit(*data)


DECLARED = {
    "age": Number(0, 120), "income": Number(), "job": Categories(JOBS), "grade": Categories(["low", "mid", "high"]),
    "seen": Date(), "smoker": Categories([False, True]), "id": None, "constant": Number(), "nothing": Number(),
    "age again": Number(0, 120),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- models of real tables


def test_it_learns_from_a_table_as_it_is(data, model):
    fresh = table(seed=1)
    majority = max(np.mean(fresh[1] == label) for label in ("yes", "no"))
    assert model.score(*fresh) > majority + 0.15
    names = list(model.encoder_.get_feature_names_out())
    assert {"age", "age missing", "income missing", "job = nurse", "job missing", "grade = mid"} <= {*names}
    assert {"smoker = True", "seen.time", "seen.month = May", "seen.weekday = Monday"} <= {*names}
    assert not any("never" in name or SECRET in name or name.startswith("id = ") for name in names)
    assert model.coef_.shape == (1, len(names))
    assert model.n_features_in_ == len(data[0].columns)
    np.testing.assert_array_equal(model.feature_names_in_, data[0].columns)
    probabilities = model.predict_proba(fresh[0])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert log_loss(fresh[1], probabilities) < 0.55


def test_scores_are_those_of_the_features(data, model):
    features = model.encoder_.transform(data[0])
    expected = features @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(data[0]), expected, atol=1e-9)
    assert np.abs(features).max() <= 1


def test_the_encoder_stands_before_another_estimator(data, model):
    behind = make_pipeline(model.encoder_, DPLogisticRegression(epsilon=4.0, bounds=(-1, 1), random_state=0))
    assert behind.fit(*data).score(*data) > 0.7
    encoder = clone(model.encoder_).set_output(transform="pandas")
    found = encoder.fit_transform(data[0])
    assert list(found.columns) == list(encoder.get_feature_names_out())
    np.testing.assert_array_equal(found.to_numpy(), model.encoder_.transform(data[0]))


def test_the_encoder_takes_chunks_and_dask(data, model):
    dd = pytest.importorskip("dask.dataframe")
    frame, expected = data[0][:500], model.encoder_.transform(data[0][:500])
    chunks = Chunks(lambda: iter([(frame[:300], None), (frame[300:], None)]))
    np.testing.assert_array_equal(model.encoder_.transform(chunks), expected)
    cluster = dd.from_pandas(frame, npartitions=2)
    np.testing.assert_array_equal(model.encoder_.transform(cluster).compute(), expected)
    sparse = clone(model.encoder_).set_params(sparse_output=True)
    np.testing.assert_array_equal(sparse.transform(chunks).toarray(), expected)
    with pytest.raises(ValueError, match="sparse_output=True makes no Dask array"):
        sparse.transform(cluster)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_the_report_names_the_discovery(data, adjacency):
    spent = DPTabularClassifier(epsilon=2.0, delta=1e-5, adjacency=adjacency).fit(*data).privacy_spent_
    assert (spent.epsilon, spent.delta, spent.adjacency) == (2.0, 1e-5, adjacency)
    assert spent.discovery.columns == 3, "job, grade and id"
    assert spent.discovery.failure == pytest.approx(1e-6)
    assert "discovery of values" in spent.statement()
    assert spent.charged <= spent.limit
    public = DPTabularClassifier(epsilon=2.0, columns=DECLARED).fit(*data).privacy_spent_
    assert public.discovery is None
    assert "discovery" not in public.statement()


@pytest.mark.slow
def test_clone_pipeline_searches_and_cross_validation_of_scikit_learn(data):
    frame, y = data
    made = DPTabularClassifier(epsilon=3.0, columns={"id": None, "job": Categories(JOBS)}, random_state=0)
    assert clone(made).get_params() == made.get_params()
    assert not hasattr(clone(made.fit(frame, y)), "encoder_")
    pipeline = make_pipeline(FunctionTransformer(lambda X: X.drop(columns="age again")), made)
    assert cross_val_score(pipeline, frame, y, cv=3).mean() > 0.7
    pipeline = make_pipeline(FunctionTransformer(), made)
    search = GridSearchCV(pipeline, {"dptabularclassifier__epsilon": [0.1, 8.0]}, cv=2, n_jobs=2).fit(frame, y)
    assert search.best_params_ == {"dptabularclassifier__epsilon": 8.0}
    np.testing.assert_array_equal(search.best_estimator_[-1].feature_names_in_, frame.columns)


def test_a_pickle_holds_no_value_of_a_row(data):
    frame, y = data
    model = DPTabularClassifier(epsilon=2.0).fit(frame, y)
    held = pickle.dumps(model)
    loaded = pickle.loads(held)
    np.testing.assert_array_equal(loaded.decision_function(frame), model.decision_function(frame))
    assert loaded.privacy_spent_ == model.privacy_spent_
    assert b"nurse" in held, "what was discovered is there"
    for text in (SECRET, "beekeeper", "id 17", "never"):
        assert text.encode() not in held
    income = frame["income"].dropna()
    secrets = {ODD_INCOME, income.mean(), income.std(), income.min(), income.max(), income.median(), *income[:50]}
    secrets |= {float(frame["age again"].mean()), float((y == "yes").mean()), float(frame["seen"].isna().mean())}
    for secret in secrets:
        for order in ("<", ">"):
            assert np.array(secret, order + "f8").tobytes() not in held
    assert not {"table", "rows", "ledger_", "door"} & set(vars(loaded))


def test_a_refit_forgets_the_columns_of_the_fit_before(data):
    frame, y = data
    model = DPTabularClassifier(epsilon=2.0, random_state=0).fit(frame, y)
    model.fit(frame[["age", "job"]], y)
    assert list(model.feature_names_in_) == ["age", "job"]
    assert model.encoder_.n_features_in_ == 2
    model.fit(frame[["age again"]].to_numpy(), y)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(frame[["age again"]].to_numpy()).shape == (N,)


def test_a_fit_that_fails_after_a_release_leaves_its_report_alone(data, monkeypatch):
    model = DPTabularClassifier(epsilon=2.0).fit(*data)

    def breaks(w):
        raise ZeroDivisionError

    monkeypatch.setattr(Progress, "observer", lambda *_: breaks)
    with pytest.raises(ZeroDivisionError):
        model.fit(*data)
    assert not hasattr(model, "encoder_")
    assert not hasattr(model, "coef_")
    assert 0 < model.privacy_spent_.charged < model.privacy_spent_.limit
    assert "joint histogram" in {release.label for release in model.privacy_spent_.releases}


def test_progress_is_told(data, capsys):
    DPTabularClassifier(epsilon=2.0, verbose=1).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert 2 <= len(lines) <= 12
    assert all("of the budget used" in line for line in lines)


# -------------------------------------------------------------------------------------------------------- predictions


def scores(model, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.decision_function(frame)
    assert np.isfinite(found).all()
    return found


def test_values_of_other_types_are_the_same_values(data, model):
    frame = data[0].iloc[:300]
    expected = scores(model, frame)
    others = {
        "age": [frame["age"].astype("Float64"), frame["age"].astype(object), frame["age"].astype("string")],
        "income": [frame["income"].astype(object), frame["income"].astype(str)],
        "job": [frame["job"].astype(object), frame["job"].astype("category"), frame["job"].astype("string")],
        "grade": [frame["grade"].astype(object), frame["grade"].astype(str)],
        "seen": [frame["seen"].astype("datetime64[s]"), frame["seen"].astype(object), frame["seen"].dt.date],
        "smoker": [frame["smoker"].astype("Int64"), frame["smoker"].astype(object)],
        "constant": [frame["constant"].astype(str), frame["constant"].astype(float), frame["constant"].astype(object)],
    }
    for name, columns in others.items():
        for column in columns:
            np.testing.assert_array_equal(
                scores(model, frame.assign(**{name: column})), expected, err_msg=f"{name} {column.dtype}"
            )


def test_unseen_values_count_as_others_and_far_ones_as_the_end(data, model):
    frame = data[0].iloc[:50]
    for name, value in (("job", "astronaut"), ("grade", "never"), ("id", "id of another")):
        column = pd.Series([value] * 50, dtype=object, index=frame.index)
        assert scores(model, frame.assign(**{name: column})).shape == (50,)
    far = [scores(model, frame.assign(income=value)) for value in (1e12, 1e300, np.inf)]
    np.testing.assert_array_equal(far[0], far[1])
    np.testing.assert_array_equal(far[0], far[2])
    unreadable = frame.astype({"income": object, "seen": object}).copy()
    unreadable["income"], unreadable["seen"] = "not a number", "some day"
    missing = frame.assign(income=np.nan, seen=pd.NaT)
    np.testing.assert_array_equal(scores(model, unreadable), scores(model, missing))
    all_missing = pd.DataFrame({name: [None] * 3 for name in frame})
    assert scores(model, all_missing).shape == (3,)
    assert model.predict(frame.iloc[:1]).shape == (1,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.rename(columns={"job": "profession"}), "feature names.*[\\s\\S]*job"),
        (lambda X: X.drop(columns="job"), "feature names.*[\\s\\S]*job"),
        (lambda X: X.assign(more=1), "feature names.*[\\s\\S]*more"),
        (lambda X: X[X.columns[::-1]], "same order"),
        (lambda X: X.iloc[:, :4].to_numpy(dtype=object), "4 features"),
        (lambda X: X.iloc[:0], "0 sample"),
    ],
    ids=["renamed", "missing", "extra", "another order", "array", "no rows"],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_other_columns_are_refused_by_name(change, message, data, model):
    with pytest.raises(ValueError, match=message):
        model.predict(change(data[0]))


@pytest.mark.slow
def test_a_row_is_judged_by_itself(data, model):
    frame = data[0].iloc[:40]
    check_company(model.decision_function, frame, rows=extreme(frame))
    check_company(model.predict_proba, frame, rows=extreme(frame))


# ------------------------------------------------------------------------------------------------------------ twins

SMALL = table(60)
ORDINARY = SMALL[0][["age", "income", "job", "seen", "smoker"]].astype({"age": object, "income": object, "job": object})


def extreme(frame):
    """Rows that tables do not hold as a rule, by name."""
    usual = [frame.iloc[0, j] for j in range(frame.shape[1])]

    def with_entries(**entries):
        row = dict(zip(frame, usual, strict=True)) | entries
        return list(row.values()), None

    return {
        "a new category": with_entries(job="nobody has this"),
        "a huge number": with_entries(income=1.7e308),
        "an infinite number": with_entries(income=np.inf),
        "a late date": with_entries(seen=pd.Timestamp("2262-04-11")),
        "nothing": with_entries(**dict.fromkeys(frame, None)),
    }


def unparsable(frame):
    row = dict(zip(frame, [frame.iloc[0, j] for j in range(frame.shape[1])], strict=True))
    return {
        "an entry that is no number": (list((row | {"income": "n/a", "age": "old"}).values()), None),
        "bytes": (list((row | {"job": b"\xff\xfe"}).values()), None),
        "a long integer": (list((row | {"age": 10**400}).values()), None),
        "a long text": (list((row | {"job": "x" * 10_000}).values()), None),
        "a date in the year 9999": (list((row | {"seen": "9999-12-31"}).values()), None),
    }


KINDS = {"age": Number(), "income": Number(), "job": Categories(), "seen": Date(), "smoker": Categories([False, True])}


def fit_of(**options):
    options = {"epsilon": 0.5, "delta": 1e-3} | options

    def fit(X, y):
        adjacency = options.get("adjacency", "zero-out")
        ledger = PrivacyLedger("budget.db", epsilon=30.0, delta=1e-2, adjacency=adjacency)
        return DPTabularClassifier(ledger=ledger, verbose=2, **options).fit(X, y)

    return fit


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"adjacency": "replace"}, {"epsilon": 1.0, "delta": 1e-4}], ids=str)
def test_a_fit_tells_nothing_of_an_extreme_row(options):
    frame = SMALL[0][["age", "income", "job", "seen", "smoker"]]
    check_twins(fit_of(**options), frame, SMALL[1], rows=extreme(frame), streams=2)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [KINDS, KINDS | {"job": Text(16)}, KINDS | {"job": Categories(buckets=8)}])
def test_nor_of_entries_that_cannot_be_read(columns):
    frame = ORDINARY.astype({"seen": object, "smoker": object})
    check_twins(fit_of(columns=columns), frame, SMALL[1], rows=extreme(frame) | unparsable(frame), streams=2)


@pytest.mark.slow
def test_nor_does_a_fit_without_a_delta_or_one_with_a_label_that_nobody_had():
    frame, y = ORDINARY.astype({"seen": object, "smoker": object}), SMALL[1]
    rows = extreme(frame) | unparsable(frame)
    check_twins(fit_of(columns=KINDS | {"job": Text(8)}, delta=0), frame, y, rows=rows, streams=2)
    rows = extreme(frame) | {"a new label": (None, "maybe")}
    check_twins(fit_of(columns=KINDS, classes=["yes", "no", "maybe"]), frame, y, rows=rows, streams=2)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["chunks", "Dask"])
def test_nor_does_any_storage(storage):
    frame, y = ORDINARY.astype({"seen": object, "smoker": object}), SMALL[1]
    rows = extreme(frame) | unparsable(frame)
    if storage == "Dask":
        dd = pytest.importorskip("dask.dataframe")
        del rows["bytes"]  # Dask itself makes text of objects, and fails at bytes that are none

    def fit(X, y):
        made = DPTabularClassifier(epsilon=0.5, delta=1e-3, columns=KINDS)
        if storage == "Dask":
            return made.fit(dd.from_pandas(X, npartitions=3), dd.from_pandas(pd.Series(y), npartitions=3))
        return made.fit(Chunks(lambda: ((X[k : k + 9], y[k : k + 9]) for k in range(0, len(y), 9))))

    check_twins(fit, frame, y, rows=rows, streams=2)


@pytest.mark.slow
def test_nor_does_a_score_or_a_search_tell_of_one():
    frame, y = ORDINARY, SMALL[1]

    def search(X, y):
        made = DPTabularClassifier(columns=KINDS, delta=1e-4)
        return PrivateSearchCV(made, {"alpha": [1e-4, 1e-2]}, epsilon=1.0, delta=1e-2).fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = DPTabularClassifier(epsilon=20.0, columns=KINDS, random_state=0).fit(frame, y)

    def score(X, y):
        return private_score(made, X, y, epsilon=0.5)

    rows = {name: row for name, row in (extreme(frame) | unparsable(frame)).items() if name != "a long text"}
    check_twins(search, frame, y, rows=rows, streams=2)
    check_twins(score, frame, y, rows=rows, streams=2)


# ------------------------------------------------------------------------------------------------ libraries, storages


@pytest.mark.slow
def test_libraries_and_storages_give_the_same_bits(data):
    pl, dd = pytest.importorskip("polars"), pytest.importorskip("dask.dataframe")
    frame, y = data
    kinds = DECLARED | {"job": Categories(), "grade": Categories(), "id": Categories()}
    model = DPTabularClassifier(epsilon=4.0, columns=kinds, random_state=2).fit(frame, y)
    halves = Chunks(lambda: [(frame[:1000], y[:1000]), (frame[1000:], y[1000:])])
    cluster = dd.from_pandas(frame, npartitions=3)
    others = {
        "auto": (DPTabularClassifier(columns={k: v for k, v in kinds.items() if k in ("age", "age again")}), frame, y),
        "polars": (DPTabularClassifier(columns=kinds), pl.from_pandas(frame), y),
        "Chunks": (DPTabularClassifier(columns=kinds), halves, None),
        "Dask": (DPTabularClassifier(columns=kinds), cluster, dd.from_pandas(pd.Series(y), npartitions=3)),
        "objects": (DPTabularClassifier(columns=kinds), frame.astype(object), y),
    }
    for name, (other, X, labels) in others.items():
        fitted = other.set_params(epsilon=4.0, random_state=2).fit(X, labels)
        np.testing.assert_array_equal(fitted.coef_, model.coef_, err_msg=name)
        np.testing.assert_array_equal(fitted.intercept_, model.intercept_, err_msg=name)
        np.testing.assert_array_equal(fitted.decision_function(frame), model.decision_function(frame), err_msg=name)
    np.testing.assert_array_equal(model.predict(halves), model.predict(frame))
    np.testing.assert_array_equal(model.predict(cluster).compute(), model.predict(frame))
    np.testing.assert_array_equal(model.predict(pl.from_pandas(frame)), model.predict(frame))


def test_sparse_numbers_are_those_of_an_array():
    rows = sp.random(2000, 20, 0.2, format="csr", random_state=0)
    y = np.asarray(rows[:, :5].sum(axis=1)).ravel() > 0.5
    dense, sparse = (DPTabularClassifier(epsilon=8.0, random_state=0).fit(X, y) for X in (rows.toarray(), rows))
    np.testing.assert_array_equal(dense.coef_, sparse.coef_)
    np.testing.assert_array_equal(sparse.predict(rows), dense.predict(rows.toarray()))


def test_a_search_takes_a_table_of_pyarrow(data):
    """It takes rows of it by their positions; where that fails, every run comes to nothing, and is paid for."""
    pa, (frame, y) = pytest.importorskip("pyarrow"), data
    table = pa.Table.from_pandas(frame[["age", "job"]].astype({"job": object}), preserve_index=False)
    search = PrivateSearchCV(DPTabularClassifier(), {"alpha": [1e-4]}, epsilon=8.0, random_state=0)
    assert search.fit(table, y).predict(table).shape == y.shape


def test_a_list_has_the_same_score_in_any_company():
    """A row whose entries are lists is missing everything, also where all rows are such."""
    X = np.random.default_rng(0).normal(size=(400, 2)).tolist()
    model = DPTabularClassifier(epsilon=8.0, random_state=0).fit(X, [row[0] > 0 for row in X])
    nested = [[[1, 2], [3, 4]]] * 6
    labels = model.predict([[None, None]] * 6)
    assert correct(model, nested, labels).all()
    assert correct(model, [*nested, [0.0, 1.0]], np.append(labels, True))[:6].all()


def test_chunks_without_declared_columns_are_refused(data):
    frame, y = data
    with pytest.raises(ValueError, match=r"must be declared: columns=\{'age': Number\(\)"):
        DPTabularClassifier().fit(Chunks(lambda: [(frame, y)]))


# ---------------------------------------------------------------------------------------------- ledgers and searches


def ledger_of(tmp_path, currency="basic", **options):
    return PrivacyLedger(tmp_path / "budget.db", epsilon=4.0, delta=1e-5, currency=currency, **options)


def test_a_basic_ledger_counts_epsilon_and_delta(data, tmp_path):
    ledger = ledger_of(tmp_path)
    DPTabularClassifier(epsilon=1.0, ledger=ledger).fit(*data)
    assert ledger.remaining() == {"epsilon": 3.0, "delta": 9e-6}
    with pytest.raises(BudgetExhausted):
        DPTabularClassifier(epsilon=3.5, ledger=ledger).fit(*data)


@pytest.mark.parametrize(("currency", "options"), [("rho", {}), ("mu**2", {})])
def test_a_ledger_that_cannot_count_a_discovery_says_what_to_do(currency, options, data, tmp_path, monkeypatch):
    ledger = ledger_of(tmp_path, currency, **options)
    monkeypatch.setattr(dpsk.data.private.SealedRows, "release", lambda *_: pytest.fail("something was spent"))
    monkeypatch.setattr(dpsk.data.PrivateData, "draw", lambda *_: pytest.fail("something was spent"))
    with pytest.raises(ValueError, match=r"Categories\(\[\.\.\.\]\)"):
        DPTabularClassifier(epsilon=1.0, ledger=ledger).fit(*data)
    assert ledger.history() == []
    monkeypatch.undo()
    DPTabularClassifier(epsilon=1.0, columns=DECLARED, ledger=ledger).fit(*data)
    assert len(ledger.history()) == 1


def test_a_ledger_with_a_reserve_counts_mu_and_the_failure(data, tmp_path):
    ledger = ledger_of(tmp_path, "mu**2", reserve=1e-6)
    model = DPTabularClassifier(epsilon=1.0, ledger=ledger).fit(*data)
    (spend,) = ledger.history()
    assert spend.counted["delta"] == model.privacy_spent_.discovery.failure == pytest.approx(1e-7)
    assert spend.counted["mu**2"] == pytest.approx(model.privacy_spent_.charged, rel=1e-9)


@pytest.mark.slow
def test_a_search_among_models_that_discover(data):
    search = PrivateSearchCV(
        DPTabularClassifier(), {"alpha": [1e-4, 10.0]}, epsilon=8.0, delta=1e-5, random_state=0
    ).fit(*data)
    assert "job = nurse" in search.best_estimator_.encoder_.get_feature_names_out()
    spent = search.privacy_spent_
    assert (spent.epsilon, spent.delta) == (8.0, 1e-5)
    assert dict(spent.columns)["job"] == "categories to be discovered"
    assert search.best_estimator_.privacy_spent_ == spent
    assert search.score(*data) > 0.6
    listed = PrivateSearchCV(
        DPTabularClassifier(columns=DECLARED), {"alpha": [1e-4, 10.0]}, epsilon=8.0, random_state=0
    )
    assert listed.fit(*data).score(*data) > 0.6


def test_a_search_refuses_what_its_runs_would_refuse(data):
    search = PrivateSearchCV(DPTabularClassifier(), {"fit_intercept": [True, False]}, epsilon=8.0, delta=0.0)
    with pytest.raises(ValueError, match="delta=0 cannot pay for the discovery of values"):
        search.fit(*data)
    rows = [["a", 1.0], ["b", 2.0]] * 50
    with pytest.raises(ValueError, match="X is a list, whose columns have no types"):
        search.fit(rows, np.arange(100) % 2)
    piped = make_pipeline(FunctionTransformer(), DPTabularClassifier())
    with pytest.raises(ValueError, match="a search takes DPTabularClassifier alone"):
        PrivateSearchCV(piped, {"dptabularclassifier__alpha": [1e-4]}, epsilon=8.0).fit(*data)
    public = PrivateSearchCV(
        DPTabularClassifier(columns=DECLARED), {"fit_intercept": [True]}, epsilon=8.0, delta=0.0, random_state=0
    )
    assert public.fit(*data).privacy_spent_.delta == 0.0


def test_the_cost_of_a_search_is_known_beforehand(data, tmp_path):
    """A discovery has no price in mu**2 alone: where columns are not known, epsilons and deltas add up."""
    frame, y = data
    made = DPTabularClassifier(epsilon=0.5, delta=1e-7)
    sizes = {"n_rows": N, "n_features": frame.shape[1], "n_classes": 2}
    cost = search_cost(GridSearchCV(made, {"alpha": [1e-4, 1e-2]}, cv=KFold(3)))
    assert (cost.fits, cost.composition, cost.epsilon, cost.delta) == (7, "basic", 2.5, 5e-7)
    for X in (None, frame):
        cost = search_cost(made, X, y, cv=KFold(5), **sizes)
        assert (cost.composition, cost.epsilon) == ("basic", 2.0)
    public = DPTabularClassifier(epsilon=0.5, delta=1e-7, columns=DECLARED)
    assert search_cost(public, frame, y, cv=KFold(5), **sizes).composition == "mu**2"
    ledger = ledger_of(tmp_path, "mu**2", reserve=1e-6)
    with pytest.raises(ValueError, match="lists of all categories"):
        search_cost(made, frame, y, cv=KFold(5), ledger=ledger, **sizes)
    assert search_cost(public, frame, y, cv=KFold(5), ledger=ledger, **sizes).enough
    basic = PrivacyLedger(tmp_path / "basic.db", epsilon=3.0, delta=1e-5)
    assert search_cost(made, cv=KFold(5), ledger=basic).needs == {"epsilon": 2.5, "delta": 5e-7}


def test_a_private_score_of_it(data):
    made = DPTabularClassifier(epsilon=4.0, columns={"id": None}, random_state=0).fit(*data)
    fresh = table(seed=1)
    found = private_score(made, *fresh, epsilon=10.0, random_state=0)
    assert found.accuracy == pytest.approx(made.score(*fresh), abs=0.01)


# --------------------------------------------------------------------------------------------------------- parameters


def test_without_a_delta_categories_are_public_and_nothing_is_added(data):
    frame, y = data
    made = DPTabularClassifier(epsilon=8.0, delta=0, columns=DECLARED, random_state=0)
    spent = made.fit(frame, y).privacy_spent_
    assert (spent.delta, spent.currency.name) == (0.0, "epsilon")
    assert [release.label for release in spent.releases][-1] == "minimum"
    assert made.score(*table(seed=1)) > 0.7
    hashed = DECLARED | {"job": Categories(buckets=16), "grade": Text(16)}
    assert made.set_params(columns=hashed).fit(frame, y).score(*table(seed=1)) > 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made.set_params(adjacency="replace").fit(frame, y).privacy_spent_.charged <= 8.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"columns need that have no public list: 'job', 'grade', 'id'\. Give lists, columns=\{'job': Categories"),
        ({"columns": DECLARED, "alpha": 0.1}, r"alpha=0\.1 has no effect at delta=0"),
        ({"columns": DECLARED, "classes": ["yes", "no", "perhaps"]}, "delta=0 is for two classes, but there are 3"),
    ],
    ids=["discovery", "alpha", "classes"],
)
def test_what_a_delta_of_zero_cannot_do_is_refused_before_anything_is_spent(options, message, data, monkeypatch):
    monkeypatch.setattr(dpsk.data.private.SealedRows, "release", lambda *_: pytest.fail("something was spent"))
    monkeypatch.setattr(dpsk.data.PrivateData, "draw", lambda *_: pytest.fail("something was spent"))
    with pytest.raises(ValueError, match=message):
        DPTabularClassifier(delta=0, **options).fit(*data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": np.inf}, "epsilon=inf"),
        ({"columns": None}, "columns=None must be 'auto' or a dict"),
        ({"columns": {"jbo": Categories()}}, "columns names 'jbo', which X does not have. Did you mean 'job'"),
        ({"columns": {"job": "text"}}, r"columns\['job'\]='text' must be Number"),
        ({"columns": {"seen": Number()}}, "column 'seen' is of type datetime64.*, which Number cannot read"),
        ({"columns": dict.fromkeys(DECLARED)}, "leaves out every column"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options, message, data):
    with pytest.raises(ValueError, match=message):
        DPTabularClassifier(**options).fit(*data)


def test_a_budget_as_rho_is_no_parameter():
    with pytest.raises(TypeError, match="rho"):
        DPTabularClassifier(rho=0.1)


def test_types_that_no_kind_reads_are_named(data):
    frame, y = data
    with pytest.raises(ValueError, match=r"column 'z' is of type complex128.*columns=\{'z': None\}"):
        DPTabularClassifier().fit(frame.assign(z=1j), y)
    with pytest.raises(ValueError, match="several columns with the name 'age'"):
        DPTabularClassifier().fit(frame.rename(columns={"age again": "age"}), y)


# ------------------------------------------------------------------------------------------------------ odd tables

ODD = {
    "one feature": lambda rng: pd.DataFrame({"v": rng.normal(size=500)}),
    "one list": lambda rng: pd.DataFrame({"v": rng.choice(["a", "b"], 500)}),
    "only ids": lambda rng: pd.DataFrame({"id": [f"{k}" for k in range(500)]}),
    "only a constant": lambda rng: pd.DataFrame({"c": np.full(500, 3.0)}),
    "only zeros": lambda rng: pd.DataFrame({"c": np.zeros(500)}),
    "only nothing": lambda rng: pd.DataFrame({"n": [None] * 500}),
    "only missing numbers": lambda rng: pd.DataFrame({"n": np.full(500, np.nan)}),
    "two rows": lambda rng: pd.DataFrame({"v": [1.0, 2.0], "w": ["a", "b"]}),
    "three hundred columns": lambda rng: pd.DataFrame(rng.normal(size=(500, 300))).rename(columns=str),
    "two hundred categories": lambda rng: pd.DataFrame({f"c{j}": rng.choice(["a", "b"], 500) for j in range(200)}),
    "tiny and huge": lambda rng: pd.DataFrame({"t": rng.normal(size=500) * 1e-300, "h": rng.normal(size=500) * 1e300}),
    "whole numbers": lambda rng: pd.DataFrame({"k": rng.integers(-(2**62), 2**62, 500)}),
    "texts": lambda rng: pd.DataFrame({"t": ["so many different words " + str(k) for k in range(500)]}),
}


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("name", ODD)
def test_odd_tables_give_a_model(name, epsilon):
    frame = ODD[name](np.random.default_rng(0))
    y = np.arange(len(frame)) % 2
    for columns in ("auto", {"t": Text(16)}) if name == "texts" else ("auto",):
        model = DPTabularClassifier(epsilon=epsilon, columns=columns).fit(frame, y)
        assert np.isfinite(model.coef_).all()
        assert set(model.predict(frame)) <= {0, 1}
        assert np.isfinite(model.predict_proba(frame)).all()
        assert model.privacy_spent_.charged <= model.privacy_spent_.limit


def test_labels_of_one_class_are_refused_unless_they_are_declared(data):
    frame = data[0][["age", "job"]]
    with pytest.raises(ValueError, match="at least 2 classes"):
        DPTabularClassifier().fit(frame, np.ones(N))
    model = DPTabularClassifier(epsilon=4.0, classes=[0, 1], random_state=0).fit(frame, np.ones(N, int))
    assert model.predict(frame).mean() > 0.95


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_several_classes(data, fit_intercept):
    frame, _ = data
    y = np.digitize(frame["age again"], [40, 65])
    model = DPTabularClassifier(epsilon=8.0, fit_intercept=fit_intercept, random_state=0).fit(frame, y)
    assert model.coef_.shape == (3, len(model.encoder_.get_feature_names_out()))
    assert model.score(frame, y) > 0.8
    assert (model.intercept_ != 0).all() == fit_intercept


@pytest.mark.slow
def test_ten_classes_have_probabilities_that_mean_what_they_say():
    X, y = load_digits(return_X_y=True)
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    model = DPTabularClassifier(epsilon=8.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.75
    probabilities = model.predict_proba(X)
    assert abs(probabilities.max(axis=1).mean() - model.score(X, y)) < 0.15
