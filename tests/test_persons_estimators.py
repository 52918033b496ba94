"""The contract of estimators where persons are protected: by ``groups``, or by a column of ids."""

import inspect
import math
import pickle
from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import scipy.sparse as sp
import sklearn
from contract import (
    CHECKED,
    OF_PERSONS,
    OUTSIDE,
    PERTURBING,
    SAMPLED,
    SHORT,
    TABULAR,
    Untouchable,
    each,
    each_estimator,
    each_of_persons,
    weights_of,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.metadata_routing import get_routing_for_object

from dpsk import Chunks, DPLogisticRegression, DPSGDClassifier, Number, PrivacyLedger
from dpsk.data import Facts
from dpsk.data.private import SealedRows
from dpsk.estimators import plan_of
from dpsk.solvers.gradient_descent import GradientDescent
from dpsk.solvers.objective_perturbation import ObjectivePerturbation
from dpsk.testing import check_twins, extreme_rows

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")
NAMES = ["age", "dose", "height"]


def visits(n_persons=60, seed=0, classes=2):
    """Return rows on a grid that float32 holds, labels, and the person of each row, in no order."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n_persons), rng.integers(1, 9, n_persons))
    ids = rng.permutation(np.append(ids, np.zeros(40, int)))
    X = rng.integers(0, 1025, (len(ids), 3)) / 1024
    score = X[:, 0] + 0.2 * rng.normal(size=n_persons)[ids]
    return X, np.digitize(score, np.linspace(0, 1, classes + 1)[1:-1]), ids


X, Y, IDS = visits()
FRAME = pd.DataFrame(X, columns=NAMES)
WITH_IDS = pd.DataFrame({"age": X[:, 0], "patient": IDS, "dose": X[:, 1], "height": X[:, 2]})
CUTS = (0, 1, 50, len(Y) // 2, len(Y))
PARTS = [slice(start, end) for start, end in pairwise(CUTS)]


def made(Estimator, **options):
    columns = {"columns": dict.fromkeys(NAMES, Number())} if Estimator in TABULAR else {}
    return Estimator(**{"random_state": 3, **columns, **SHORT.get(Estimator, {}), **options})


def fit_frame(Estimator, **options):
    return made(Estimator, **options).fit(FRAME, Y, groups=IDS)


def require_same(model, other, what=""):
    np.testing.assert_array_equal(weights_of(other), weights_of(model), err_msg=what)


# --------------------------------------------------------------------------------------------------------- the unit


@each_of_persons
def test_the_report_names_the_unit(Estimator):
    plain, grouped, named = (
        made(Estimator).fit(FRAME, Y),
        fit_frame(Estimator),
        made(Estimator, group_column="patient").fit(WITH_IDS, Y),
    )
    assert [model.privacy_spent_.unit for model in (plain, grouped, named)] == ["row", "person", "patient"]
    assert named.n_features_in_ == 3
    assert named.feature_names_in_.tolist() == NAMES
    require_same(grouped, named)
    assert not np.array_equal(weights_of(grouped), weights_of(plain))


@each_of_persons
def test_the_statement_says_who_is_protected(Estimator):
    named = made(Estimator, group_column="patient", random_state=None).fit(WITH_IDS, Y)
    assert "one patient: all rows with the same id" in named.privacy_spent_.statement()
    grouped = made(Estimator, random_state=None).fit(FRAME, Y, groups=IDS)
    assert "one person: all rows with the same id; two data sets" in grouped.privacy_spent_.statement()


@each_of_persons
def test_predictions_need_no_ids_and_leave_them_out(Estimator):
    model = made(Estimator, group_column="patient").fit(WITH_IDS, Y)
    for method in ("decision_function", "predict", "predict_proba"):
        if hasattr(model, method):
            predicted = getattr(model, method)(FRAME)
            np.testing.assert_array_equal(getattr(model, method)(WITH_IDS), predicted)
            np.testing.assert_array_equal(getattr(model, method)(WITH_IDS.assign(patient="somebody else")), predicted)
    assert model.score(WITH_IDS, Y) == model.score(FRAME, Y)


# ------------------------------------------------------------------------------------------ the same bits everywhere


def of_numbers(tmp_path):
    """Yield a name, what is fitted, and the options of the fit, for tables of numbers."""
    mapped = np.memmap(tmp_path / "rows.bin", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    blocks = tuple(part.stop - part.start for part in PARTS)
    on_dask = [da.from_array(array, chunks=(blocks, *(-1 for _ in array.shape[1:]))) for array in (X, Y, IDS)]
    yield "F", (np.asfortranarray(X), Y), {"groups": IDS}
    yield "CSR", (sp.csr_matrix(X), Y), {"groups": IDS}
    yield "CSC", (sp.csc_array(X), Y), {"groups": IDS.tolist()}
    yield "float32", (X.astype(np.float32), Y), {"groups": IDS.astype(float)}
    yield "mapped", (mapped, Y), {"groups": IDS.astype(str)}
    yield "chunks", (Chunks(lambda: [(X[part], Y[part]) for part in PARTS]),), {"groups": IDS}
    yield "sparse chunks", (Chunks(lambda: [sp.csr_matrix(X[part]) for part in PARTS]), Y), {"groups": IDS}
    yield "Dask array", (on_dask[0], on_dask[1]), {"groups": on_dask[2]}
    yield "Dask array, ids here", (on_dask[0], on_dask[1]), {"groups": IDS}


def of_frames():
    """Yield the same for tables with a column of ids, which has another type in each."""
    texts = WITH_IDS.assign(patient=IDS.astype(str))
    categories = WITH_IDS.assign(patient=pd.Categorical(IDS))
    backwards = np.argsort(-IDS, kind="stable")

    def chunks():
        for k, part in enumerate(PARTS):
            rows = [WITH_IDS, texts, categories][k % 3][part]
            yield (rows.assign(patient=rows["patient"].cat.remove_unused_categories()) if k % 3 == 2 else rows), Y[part]

    yield "texts", (texts, Y), {}
    yield "floats", (WITH_IDS.astype({"patient": "Float64"}), Y), {}
    yield "categories", (categories[["patient", *NAMES]], Y), {}
    yield "in another order", (texts.iloc[backwards], Y[backwards]), {}
    yield "chunks of several types", (Chunks(chunks),), {}
    yield "Dask", (dd.from_pandas(texts, npartitions=4), dd.from_pandas(pd.Series(Y), npartitions=4)), {}
    yield "polars", (polars.DataFrame(WITH_IDS.to_dict("list")), Y), {}
    yield "pyarrow", (pyarrow.table(WITH_IDS.to_dict("list")), Y), {}


@pytest.mark.slow
@each(e for e in OF_PERSONS if e not in TABULAR)
def test_ids_beside_the_rows_give_the_same_bits_on_every_storage(Estimator, tmp_path):
    model = made(Estimator).fit(X, Y, groups=IDS)
    require_same(model, fit_frame(Estimator), "frame")
    for name, data, options in of_numbers(tmp_path):
        require_same(model, made(Estimator).fit(*data, **options), name)


@pytest.mark.slow
@each_of_persons
def test_a_column_of_ids_gives_the_same_bits_on_every_storage(Estimator):
    """Also where rows come in another order: persons are drawn for batches by their ids, not by where they are."""
    model = fit_frame(Estimator)
    for name, data, options in of_frames():
        require_same(model, made(Estimator, group_column="patient").fit(*data, **options), name)


@each_of_persons
def test_rows_in_any_order_give_the_same_bits(Estimator):
    """For several classes and with all weights there are."""
    data, labels, ids = visits(classes=3)
    weights = np.random.default_rng(1).gamma(2.0, size=len(ids))
    frame = pd.DataFrame(data, columns=NAMES)
    models = []
    for order in (np.arange(len(ids)), np.random.default_rng(2).permutation(len(ids)), np.argsort(ids)):
        model = made(Estimator, class_weight="balanced", weight_bound=3.0, epsilon=5.0)
        model.fit(frame.iloc[order], labels[order], groups=ids[order], sample_weight=weights[order])
        require_same((models or [model])[0], model)
        models.append(model)


@each_of_persons
def test_the_bits_change_where_rows_are_of_other_persons(Estimator):
    """So the tests above could fail."""
    others = np.random.default_rng(5).permutation(IDS)
    one, other = (made(Estimator, epsilon=30.0).fit(FRAME, Y, groups=ids) for ids in (IDS, others))
    assert not np.array_equal(weights_of(one), weights_of(other))


# ----------------------------------------------------------------------------------------------------- what it means


def test_the_exact_model_counts_every_person_once():
    alpha, m = 1e-2, np.bincount(IDS)
    best = LogisticRegression(C=1 / (alpha * len(m)), tol=1e-10, max_iter=10_000)
    model = DPLogisticRegression(epsilon=math.inf, alpha=alpha).fit(X, Y, groups=IDS)
    np.testing.assert_allclose(model.coef_, best.fit(X, Y, sample_weight=1 / m[IDS]).coef_, rtol=1e-4)
    assert model.privacy_spent_.unit == "person"
    weights = np.random.default_rng(1).gamma(2.0, size=len(IDS))
    model.set_params(class_weight="balanced").fit(X, Y, groups=IDS, sample_weight=weights)
    weights = weights / m[IDS]
    weights *= (weights.sum() / (2 * np.bincount(Y, weights)))[Y]
    np.testing.assert_allclose(model.coef_, best.fit(X, Y, sample_weight=weights).coef_, rtol=1e-4)


@each([DPLogisticRegression, DPSGDClassifier])
def test_with_little_noise_every_person_counts_once(Estimator):
    """Persons with many rows have labels of their own: a fit on rows would follow them."""
    rng = np.random.default_rng(0)
    ids = np.append(np.arange(4_000), np.repeat(np.arange(200), 100))
    data = rng.uniform(size=(len(ids), 3))
    labels = (data[:, 0] > 0.5).astype(int)
    labels[np.isin(ids, np.arange(200))] = data[np.isin(ids, np.arange(200)), 0] < 0.5
    options = {"epsilon": 50.0, "random_state": 0, **({"steps": 200} if Estimator is DPSGDClassifier else {})}
    by_person = Estimator(**options).fit(data, labels, groups=ids)
    by_row = Estimator(**options).fit(data, labels)
    others = ids >= 200
    assert by_person.score(data[others], labels[others]) > 0.9
    assert by_row.score(data[others], labels[others]) < 0.1


@each_of_persons
def test_persons_of_one_row_each_take_the_same_way_as_others(Estimator, monkeypatch):
    """A shortcut without weights would show, by the grid that sums are on, that nobody has two rows."""
    weighted, measure = [], SealedRows.measure

    def watched(self, query):
        weighted.append((self._rows.public.weighted, self._rows.public.by_person))
        return measure(self, query)

    monkeypatch.setattr(SealedRows, "measure", watched)
    for ids in (np.arange(len(Y)), IDS, None):
        weighted.clear()
        report = made(Estimator).fit(FRAME, Y, groups=ids).privacy_spent_
        assert set(weighted) == {(ids is not None, ids is not None)}  # batches hold whole persons
        assert report.unit == ("row" if ids is None else "person")
        assert report.limit == made(Estimator).fit(FRAME, Y).privacy_spent_.limit


@pytest.mark.parametrize("unit", ["person", "patient"])
def test_auto_solves_no_perturbed_objective_for_persons(unit):
    """No theorem covers that: rows of one person together change a determinant by more than one row."""
    many = 10_000_000
    assert isinstance(plan_of(DPLogisticRegression(), Facts(many, 3, 2)).solver.solver, ObjectivePerturbation)
    assert isinstance(
        plan_of(DPLogisticRegression(), Facts(many, 3, 2, weighted=True)).solver.solver, ObjectivePerturbation
    )
    of_persons = Facts(many, 3, 2, unit=unit, weighted=True, most_rows=3)
    assert isinstance(plan_of(DPLogisticRegression(), of_persons).solver.solver, GradientDescent)


# --------------------------------------------------------------------------------------------- what a model holds


@each_of_persons
def test_a_pickle_holds_no_id_and_no_weight(Estimator):
    ids = np.array([f"patient number {k}" for k in IDS])
    weights = np.random.default_rng(1).gamma(2.0, size=len(IDS))
    model = made(Estimator, group_column="patient", weight_bound=2.0, class_weight="balanced")
    model.fit(WITH_IDS.assign(patient=ids), Y, sample_weight=weights)
    state = pickle.dumps(model)
    assert b"patient number" not in state
    for secret in (*weights, *np.minimum(weights, 2.0) / 2.0, 1 / np.bincount(IDS).max(), float(len(IDS))):
        assert secret in (1.0,) or np.float64(secret).tobytes() not in state
        assert secret in (1.0,) or np.float64(secret).tobytes()[::-1] not in state  # as pickle writes single floats
    held = {name for name in vars(pickle.loads(state)) if name.endswith("_")}
    plain = made(Estimator, class_weight="balanced").fit(FRAME, Y)
    assert held == {name for name in vars(plain) if name.endswith("_")}
    np.testing.assert_array_equal(pickle.loads(state).predict(FRAME), model.predict(FRAME))


@each_estimator
def test_clones_keep_parameters_and_forget_the_rest(Estimator):
    weights = {0: 1.0, 1: 2.0}
    model = made(Estimator, group_column="patient", class_weight=weights, weight_bound=2.0)
    for name, value in (("group_column", "patient"), ("class_weight", weights), ("weight_bound", 2.0)):
        assert clone(model).get_params()[name] == value
        assert inspect.signature(Estimator).parameters[name].default is None
    assert f"class_weight={weights!r}" in repr(model).replace("\n", " ").replace("  ", " ")
    assert weights == {0: 1.0, 1: 2.0}


@each_of_persons
def test_a_model_is_fitted_anew_with_other_units_and_weights(Estimator):
    model, plain = made(Estimator), made(Estimator).fit(FRAME, Y)
    weights = np.full(len(Y), 0.5)
    model.set_params(group_column="patient", class_weight={1: 2.0}, weight_bound=1.0)
    model.fit(WITH_IDS, Y, sample_weight=weights)
    model.set_params(group_column=None, class_weight=None, weight_bound=None).fit(FRAME, Y)
    require_same(plain, model)
    assert set(vars(model)) == set(vars(plain))
    assert model.privacy_spent_ == plain.privacy_spent_


def test_the_column_may_be_renamed_between_fits_and_the_earlier_model_stays_if_a_fit_is_refused():
    model = made(DPLogisticRegression, group_column="patient").fit(WITH_IDS, Y)
    before = model.coef_
    with pytest.raises(ValueError, match="group_column='client' names no column of X"):
        model.set_params(group_column="client").fit(WITH_IDS, Y)
    assert model.coef_ is before
    require_same(model.fit(WITH_IDS.rename(columns={"patient": "client"}), Y), fit_frame(DPLogisticRegression))
    assert model.privacy_spent_.unit == "client"


# ------------------------------------------------------------------------------------------------- what is refused


@each_estimator
@pytest.mark.parametrize(
    ("group_column", "message"),
    [
        (3, "group_column=3 must be None or the name of a column"),
        ("", "group_column='' must be None or the name of a column"),
        (b"patient", "group_column=b'patient' must be None or the name of a column"),
        (["patient"], r"group_column=\['patient'\] must be None or the name of a column"),
        (True, "group_column=True must be None or the name of a column"),
        (pd.Series(["P17", "P18"]), "^group_column of type Series must be None or the name of a column.* as groups$"),
        ("row", "group_column='row' is the name of the unit of fits without ids"),
        ("a\nb", "unit='a\\\\nb' must be a name"),
    ],
)
def test_bad_names_are_refused_before_the_data_are_touched(Estimator, group_column, message):
    with pytest.raises(ValueError, match=message):
        Estimator(group_column=group_column).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize("Estimator", PERTURBING)
def test_persons_are_refused_where_no_theorem_covers_them_and_nothing_is_spent(Estimator, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3, unit="patient")
    with pytest.raises(ValueError, match="proved where one row is protected, not a patient with all rows"):
        Estimator(ledger=ledger, group_column="patient").fit(WITH_IDS, Y)
    with pytest.raises(ValueError, match="not a person with all rows"):
        Estimator().fit(X, Y, groups=IDS)
    assert ledger.history() == []


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"delta": 0.5}, "a mechanism that publishes a random person would satisfy it"),
        ({"epsilon": 0.01}, rf"with {len(np.unique(IDS))} persons, .* fit more than \d+ persons, or use fewer columns"),
    ],
)
def test_warnings_count_persons(budget, message):
    with pytest.warns(UserWarning, match=message):
        DPLogisticRegression(**budget).fit(FRAME, Y, groups=IDS)


@each_estimator
def test_two_sources_of_ids_are_refused_before_the_data_are_touched(Estimator):
    with pytest.raises(ValueError, match="group_column='patient' and groups cannot be combined: leave one of them out"):
        Estimator(group_column="patient").fit(Untouchable(), Untouchable(), groups=Untouchable())


@each_estimator
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (IDS[:-1], f"groups has {len(IDS) - 1} entries, but X has {len(IDS)} rows"),
        (np.zeros(len(IDS)), r"1 person\(s\) while a minimum of 2 is required: all rows have the same id"),
        ([(i,) for i in range(len(IDS))], r"1 person\(s\).*Others, such as tuples, count as missing"),
        (np.full(len(IDS), np.nan), r"1 person\(s\) while a minimum of 2"),
        (np.stack([IDS, IDS], axis=1), "groups"),
        (IDS + 1j, "groups is of type complex128"),
    ],
)
def test_ids_that_cannot_be_are_refused_and_nothing_is_spent(Estimator, groups, message, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3, unit="person")
    with pytest.raises((ValueError, TypeError), match=message):
        made(Estimator, ledger=ledger, random_state=None).fit(FRAME, Y, groups=groups)
    assert ledger.history() == []


# ------------------------------------------------------------------------------------------------ metadata routing


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("Estimator", [*CHECKED, *OUTSIDE])
def test_groups_and_weights_can_be_asked_for(Estimator, routing):
    assert set(get_routing_for_object(Estimator()).fit.requests) == {"groups", "sample_weight"}
    asked = Estimator().set_fit_request(groups=True, sample_weight=False).get_metadata_routing().fit.requests
    assert asked == {"groups": True, "sample_weight": False}


@each_of_persons
def test_a_pipeline_hands_ids_and_weights_on(Estimator):
    weights = np.random.default_rng(1).uniform(size=len(Y))
    expected = made(Estimator, weight_bound=1.0).fit(FRAME, Y, groups=IDS, sample_weight=weights)
    name = Estimator.__name__.lower()
    plain = make_pipeline(FunctionTransformer(), made(Estimator, weight_bound=1.0))
    plain.fit(FRAME, Y, **{f"{name}__groups": IDS, f"{name}__sample_weight": weights})
    require_same(expected, plain[-1])
    with sklearn.config_context(enable_metadata_routing=True):
        model = made(Estimator, weight_bound=1.0).set_fit_request(groups=True, sample_weight=True)
        routed = make_pipeline(FunctionTransformer(), model).fit(FRAME, Y, groups=IDS, sample_weight=weights)
        require_same(expected, routed[-1])
        aliased = make_pipeline(FunctionTransformer(), clone(model).set_fit_request(groups="ids", sample_weight=False))
        without = made(Estimator, weight_bound=1.0).fit(FRAME, Y, groups=IDS)
        require_same(without, aliased.fit(FRAME, Y, ids=IDS)[-1])
    assert routed[-1].privacy_spent_.unit == "person"


def test_ids_that_nobody_asked_for_are_no_surprise(routing):
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="groups"):
        make_pipeline(FunctionTransformer(), DPLogisticRegression()).fit(X, Y, groups=IDS)


def test_cross_validation_by_persons(routing):
    """The ids that keep persons together among the folds are those that are protected."""
    model = made(DPLogisticRegression, epsilon=5.0).set_fit_request(groups=True)
    found = cross_validate(
        model, X, Y, cv=GroupKFold(3), params={"groups": IDS}, return_estimator=True, return_indices=True
    )
    for fold, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        assert fold.privacy_spent_.unit == "person"
        require_same(made(DPLogisticRegression, epsilon=5.0).fit(X[train], Y[train], groups=IDS[train]), fold)


# ---------------------------------------------------------------------------------------- what shows of one person

SIZES = np.tile([1, 2, 60], 7)


@pytest.mark.thorough
@pytest.mark.slow
@each_of_persons
@pytest.mark.parametrize(
    "how", ["groups", *(pytest.param(how, marks=pytest.mark.thorough) for how in ("column", "replaced"))]
)
def test_nothing_shows_of_one_person(Estimator, how):
    """Persons have one row, two or 60. Then all rows of one are huge, tiny or empty, or have another label or weight.

    The numbers of rows and persons are public, so they stay as they are. The last column holds the weights.
    """
    rng = np.random.default_rng(0)
    people = np.round(rng.uniform(size=(len(SIZES), 4)), 3)
    ids = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    signs = rng.choice([-1.0, 1.0], (len(ids), 1))
    labels = (people[:, 0] > 0.5).astype(int)
    held = {"adjacency": "replace"} if how == "replaced" else {}
    options = {"epsilon": 0.5, "delta": 1e-3, "verbose": 2, "random_state": None, **held}
    if held and Estimator in SAMPLED:
        options["sampling"] = "without-replacement"

    def fit(persons, of_persons):
        unit = "patient" if how == "column" else "person"
        ledger = PrivacyLedger("budget.db", epsilon=20.0, delta=1e-2, unit=unit, **held)
        model = made(Estimator, ledger=ledger, **options)
        model.set_params(class_weight="balanced", weight_bound=2.0, classes=[0, 1, 2])
        rows = pd.DataFrame(persons[ids, :3] * signs, columns=NAMES)
        given = {"sample_weight": persons[ids, 3]}
        if how == "column":
            model.set_params(group_column="patient")
            rows.insert(1, "patient", ids)
        else:
            given["groups"] = ids
        model.fit(rows, of_persons[ids], **given)
        return {name: value for name, value in vars(model).items() if name != "ledger"}

    check_twins(fit, people, labels, rows=extreme_rows(people, labels) | {"a new label": (None, 2)})
