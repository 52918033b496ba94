"""PrivateSearchCV, and scikit-learn's own searches, where persons are protected: whole persons are held out."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from contract import Untouchable
from scipy.stats import kstest
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from dpsk import (
    Categories,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    DPTabularClassifier,
    PrivacyLedger,
    PrivateSearchCV,
    private_score,
)
from dpsk.data.persons import Persons, keys_of
from dpsk.estimators.opening import open_table
from dpsk.model_selection import TruncatedNegativeBinomial, runs, search
from dpsk.testing import check_twins

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")

SPACE = {"alpha": [1e-3, 1e-2]}
TWO_RUNS = TruncatedNegativeBinomial(1.0, 0.5)


def searching(estimator=None, space=SPACE, **parameters):
    parameters = {"n_iter_distribution": TWO_RUNS, "epsilon": 20.0, **parameters}
    return PrivateSearchCV(DPLogisticRegression() if estimator is None else estimator, space, **parameters)


@pytest.fixture(scope="module")
def visits():
    """Visits of 80 patients in a random order, with labels; large patients have up to 40 of them."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(80), np.r_[rng.integers(1, 9, 77), 40, 40, 40]))
    frame = pd.DataFrame(rng.normal(size=(len(ids), 3)), columns=["a", "b", "c"])
    y = (frame["a"] + 0.5 * rng.normal(size=len(ids)) > 0).to_numpy().astype(int)
    return frame.assign(patient=[f"p{k}" for k in ids]), y


# ------------------------------------------------------------------------------------------------------- the shares


def shares_of(visits, monkeypatch, **parameters):
    """Return the patients whose rows were fitted, and those whose rows were scored, as models saw them."""
    seen = {"fit": [], "score": []}

    class Witness(DPLogisticRegression):
        def fit(self, X, y=None, **given):
            seen["fit"].append((X["place"].to_numpy(), given["groups"]))
            return super().fit(X, y, **given)

        def predict(self, X):
            seen["score"].append(X["place"].to_numpy())
            return super().predict(X)

    frame, y = visits
    frame = frame.assign(place=np.arange(len(y), dtype=float))
    monkeypatch.setattr(search, "repetitions", lambda *_: 2)
    searching(Witness(group_column="patient"), validation_fraction=0.5, **parameters).fit(frame, y)
    ids = frame["patient"].to_numpy()
    assert len(seen["fit"]) == 2
    for places, groups in seen["fit"]:
        same = pd.crosstab(ids[places.astype(int)], groups)
        assert ((same > 0).sum(axis=0) == 1).all(), "who is one person in the table is one in the fit"
        assert ((same > 0).sum(axis=1) == 1).all()
    fitted, scored = (np.concatenate(found).astype(int) for found in ([p for p, _ in seen["fit"]], seen["score"]))
    assert set(fitted) | set(scored) == set(range(len(y)))
    return set(ids[fitted]), set(ids[scored])


def test_a_person_is_never_in_both_halves(visits, monkeypatch):
    for seed in range(3):
        fitted, scored = shares_of(visits, monkeypatch, random_state=seed)
        assert fitted.isdisjoint(scored)
        assert len(fitted) == len(scored) == 40


def test_a_search_that_splits_by_rows_is_noticed(visits, monkeypatch):
    def by_rows(self, n_rows, persons, unit, bits):
        order = np.random.default_rng(0).permutation(n_rows)
        return np.sort(order[: n_rows // 2]), np.sort(order[n_rows // 2 :])

    monkeypatch.setattr(PrivateSearchCV, "_shares", by_rows)
    fitted, scored = shares_of(visits, monkeypatch, random_state=0)
    assert not fitted.isdisjoint(scored)


def test_the_draw_of_persons_does_not_look_at_their_rows():
    """With the same bits the same numbers of persons are held out, whatever rows they have."""
    model = searching(validation_fraction=0.25)
    few, many = (Persons(np.repeat(np.arange(20, dtype=np.int32), size), 20) for size in ([1] * 20, [1, 900] * 10))
    for seed in range(3):
        bits = [search.bits_for(seed) for _ in range(2)]
        (_, one), (_, two) = (
            model._shares(len(persons.codes), persons, "person", stream)
            for persons, stream in zip((few, many), bits, strict=True)
        )
        np.testing.assert_array_equal(np.unique(few.codes[one]), np.unique(many.codes[two]))
        assert len(one) == 5


def test_budgets_are_planned_for_the_number_of_persons(visits, monkeypatch):
    planned = []

    def spying(self, last, *facts):
        planned.extend(facts)
        return original(self, last, *facts)

    original = runs.Run.calibrated
    monkeypatch.setattr(runs.Run, "calibrated", spying)
    frame, y = visits
    searching(validation_fraction=0.25, random_state=0).fit(frame.drop(columns="patient"), y, groups=frame["patient"])
    found = {(known.n_rows, known.unit, known.weighted) for known in planned}
    assert found == {(1, "person", True), (60, "person", True)}
    assert all(known.most_rows <= len(y) - known.n_rows + 1 for known in planned)


def test_a_search_knows_of_persons_what_a_fit_knows_of_them(visits):
    frame, y = visits
    model, X = DPLogisticRegression(), frame[["a", "b", "c"]]
    run, *_ = searching(model)._planned(grouped=True)
    known = run.facts(model, X, 2, Persons.of(keys_of(frame["patient"])))
    assert known == open_table(model, X, y, model, groups=frame["patient"]).facts
    assert known.most_rows == len(y) - 79


@pytest.mark.slow
def test_a_run_is_scored_by_one_vote_for_each_person(visits):
    """Kolmogorov-Smirnov at error probability 1e-6; a third of the noise, or three times as much, fails."""
    frame, y = visits
    X, persons = frame[["a", "b", "c"]].to_numpy(), Persons.of(keys_of(frame["patient"]))
    model = searching(DPGradientDescentClassifier(steps=2, standardize=None), {}, epsilon=4.0, random_state=0)
    run, *_ = model._planned(grouped=True)
    shares = persons.rows_of(np.arange(40)), persons.rows_of(np.arange(40, 80))
    noise = []
    for seed in range(300):
        outcome = run({}, (0, seed), X, y, np.array([0, 1]), shares, persons)
        right = outcome.model.predict(X[shares[1]]) == y[shares[1]]
        noise.append(outcome.score / 2**20 - pd.Series(right).groupby(persons.codes[shares[1]]).mean().sum())
        assert outcome.accuracy == np.clip(outcome.score / 2**20 / 40, 0, 1)
    noise = np.array(noise) * run.score_epsilon()
    assert kstest(noise, "laplace").pvalue > 1e-6
    assert kstest(noise / 3, "laplace").pvalue < 1e-6
    assert kstest(noise * 3, "laplace").pvalue < 1e-6


# ----------------------------------------------------------------------------------------------- what is promised


def test_reports_and_ledger_have_the_unit(visits, tmp_path):
    frame, y = visits
    ledger = PrivacyLedger(tmp_path / "patients.db", epsilon=50.0, delta=1e-4, currency="basic", unit="patient")
    by_column = searching(DPLogisticRegression(group_column="patient"), ledger=ledger).fit(frame, y)
    by_array = searching(ledger=ledger).fit(frame.drop(columns="patient"), y, groups=frame["patient"])
    assert [spend.label for spend in ledger.history()] == ["PrivateSearchCV"] * 2
    for model in (by_column, by_array):
        assert model.privacy_spent_.unit == model.best_estimator_.privacy_spent_.unit == "patient"
        assert "The unit of protection is one patient" in model.privacy_spent_.statement()
    assert searching().fit(frame.drop(columns="patient"), y, groups=frame["patient"]).privacy_spent_.unit == "person"
    with pytest.raises(ValueError, match="promises too little for one patient"):
        searching(ledger=ledger).fit(Untouchable(), Untouchable())
    rows = PrivacyLedger(tmp_path / "rows.db", epsilon=50.0, delta=1e-4, currency="basic")
    with pytest.raises(ValueError, match="Keep another ledger"):
        searching(ledger=rows).fit(Untouchable(), Untouchable(), groups=Untouchable())
    with pytest.raises(ValueError, match="Keep another ledger"):
        searching(DPLogisticRegression(group_column="patient"), ledger=rows).fit(Untouchable(), Untouchable())


def test_ids_in_a_column_and_in_an_array_give_the_same_search(visits):
    frame, y = visits
    bare = frame.drop(columns="patient")
    one = searching(DPLogisticRegression(group_column="patient"), random_state=1).fit(frame, y)
    two = searching(random_state=1).fit(bare, y, groups=frame["patient"])
    np.testing.assert_array_equal(one.best_estimator_.coef_, two.best_estimator_.coef_)
    assert one.best_score_ == two.best_score_
    rows = searching(random_state=1).fit(bare, y)
    assert not np.array_equal(rows.best_estimator_.coef_, two.best_estimator_.coef_)


def test_the_best_model_takes_the_column_out_of_a_table(visits):
    frame, y = visits
    model = searching(DPLogisticRegression(group_column="patient"), random_state=1).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.best_estimator_.group_column == "patient"
    for method in ("predict", "predict_proba", "decision_function"):
        expected = getattr(model, method)(frame.drop(columns="patient"))
        np.testing.assert_array_equal(getattr(model, method)(frame), expected)
        np.testing.assert_array_equal(getattr(model.best_estimator_, method)(frame), expected)
    score = private_score(model, frame, y, epsilon=1.0)
    assert (score.unit, score.n_units) == ("patient", 80)


@pytest.mark.slow
def test_raw_tables_and_pipelines(visits):
    frame, y = visits
    raw = frame.assign(kind=np.where(frame["b"] > 0, "up", "down"))
    for columns in ("auto", {"kind": Categories(["up", "down"])}):  # a run may discover values (11.5), or know them
        tabular = searching(DPTabularClassifier(columns=columns, group_column="patient"), {}, random_state=1)
        assert tabular.fit(raw, y).privacy_spent_.unit == "patient"
        np.testing.assert_array_equal(tabular.predict(raw), tabular.predict(raw.drop(columns="patient")))
    piped = searching(make_pipeline(FunctionTransformer(), DPLogisticRegression()), {}, random_state=1)
    X = frame[["a", "b", "c"]].to_numpy()
    assert piped.fit(X, y, groups=frame["patient"]).privacy_spent_.unit == "person"
    plain = searching(DPLogisticRegression(), {}, random_state=1).fit(X, y, groups=frame["patient"])
    np.testing.assert_array_equal(piped.predict(X), plain.predict(X))


@pytest.mark.parametrize(
    ("estimator", "space", "message"),
    [
        (DPLogisticRegression(group_column="patient"), {"group_column": ["a"]}, "of a candidate is not 'patient'"),
        (DPLogisticRegression(), {"group_column": ["patient"]}, "group_column='patient' of a candidate is not"),
        (
            make_pipeline(MinMaxScaler(), DPLogisticRegression(group_column="p")),
            {},
            "give the ids to fit as groups",
        ),
        (DPLogisticRegression(group_column="row"), {}, "group_column='row'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_data_are_touched(estimator, space, message):
    with pytest.raises(ValueError, match=message):
        searching(estimator, space).fit(Untouchable(), Untouchable())


def test_what_no_run_could_do_for_persons_is_refused_before_anything_is_paid(visits, tmp_path):
    frame, y = visits
    bare = frame.drop(columns="patient")
    ledger = PrivacyLedger(tmp_path / "patients.db", epsilon=50.0, delta=1e-4, currency="basic", unit="patient")
    for estimator, X, groups, message in (
        (DPLogisticRegression(group_column="patient"), frame, frame["patient"], "cannot be combined"),
        (DPLogisticRegression(group_column="patient"), bare, None, "names no column of X"),
        (DPLogisticRegression(), bare, [1, 2], "groups has 2 entries, but X has"),
        (DPLogisticRegression(), bare, np.ones(len(y)), r"1 person\(s\) while a minimum of 2"),
        (DPLogisticRegression(), bare, np.arange(len(y)) % 2, "rows of 2 persons, which leaves fewer than 2 persons"),
    ):
        with pytest.raises(ValueError, match=message):
            searching(estimator, ledger=ledger).fit(X, y, groups=groups)
    space = {"solver": ["auto", "objective-perturbation"]}
    with pytest.raises(ValueError, match="objective perturbation is proved where one row is protected, not a person"):
        searching(space=space, ledger=ledger).fit(bare, y, groups=frame["patient"])
    sampled = DPSGDClassifier(
        sampling_rate=1 / 70
    )  # 80 patients have such batches, and the 64 that are fitted have not
    with pytest.raises(ValueError, match="of 64 rows leaves batches empty"):
        searching(sampled, ledger=ledger).fit(bare, y, groups=frame["patient"])
    with pytest.raises(TypeError, match=r"sample_weight cannot be given to a search.*class_weight"):
        searching(ledger=ledger).fit(bare, y, groups=frame["patient"], sample_weight=np.ones(len(y)))
    assert ledger.remaining() == {"epsilon": 50.0, "delta": 1e-4}


@pytest.mark.parametrize("unit", ["row", "patient"])
@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"missed": 3.0}, "class_weight has weights for 'missed', but the classes are 0, 1. Write labels as they are"),
        ({0: 0, 1: 0}, "leaves no class any weight: give one of them a number above 0"),
    ],
)
def test_class_weights_that_no_run_could_use_are_refused_before_anything_is_paid(
    unit, class_weight, message, visits, tmp_path
):
    frame, y = visits
    X, groups = frame.drop(columns="patient"), None if unit == "row" else frame["patient"]
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=50.0, delta=1e-4, unit=unit)
    for estimator, space in (
        (DPLogisticRegression(class_weight=class_weight), SPACE),
        (DPLogisticRegression(), {"class_weight": [None, class_weight]}),
        (make_pipeline(MinMaxScaler(), DPLogisticRegression(class_weight=class_weight)), {}),
    ):
        with pytest.raises(ValueError, match=message):
            searching(estimator, space, ledger=ledger).fit(X, y, groups=groups)
    assert ledger.remaining() == {"epsilon": 50.0, "delta": 1e-4}
    searching(space={"class_weight": [None, {0: 2.0}]}, ledger=ledger).fit(X, y, groups=groups)


@pytest.mark.slow
def test_a_whole_person_of_any_rows_is_seen_in_the_noise_only(visits):
    """A row stands for a person here, whose rows are all like it."""
    frame, y = visits
    X, y = frame[["a", "b", "c"]].to_numpy()[:90], y[:90]
    sizes = np.arange(90) % 4 + 1
    ids = np.repeat(np.arange(90), sizes)

    def action(X, y):
        X, y = np.repeat(X, sizes, axis=0), np.repeat(y, sizes)
        model = searching(DPGradientDescentClassifier(steps=2, classes=[0, 1]), epsilon=0.5)
        return model.fit(X, y, groups=ids)

    check_twins(action, X, y)


# ------------------------------------------------------------------------------------------- scikit-learn's own tools


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_a_grid_search_with_routing_fits_persons(visits, routing, tmp_path):
    frame, y = visits
    bare, ids = frame.drop(columns="patient"), frame["patient"]
    ledger = PrivacyLedger(tmp_path / "patients.db", epsilon=100.0, delta=1e-3, currency="basic", unit="patient")
    model = DPLogisticRegression(epsilon=9.0, ledger=ledger).set_fit_request(groups=True)
    grid = GridSearchCV(model, SPACE, cv=GroupKFold(3)).fit(bare, y, groups=ids)
    assert grid.best_estimator_.privacy_spent_.unit == "patient"
    assert len(ledger.history()) == 7
    model = DPLogisticRegression(epsilon=9.0).set_fit_request(groups=True)
    grid = GridSearchCV(model, SPACE, cv=GroupKFold(3)).fit(bare, y, groups=ids)
    assert grid.best_estimator_.privacy_spent_.unit == "person"


def test_a_cross_validation_with_routing_fits_persons(visits, routing):
    frame, y = visits
    bare, ids = frame.drop(columns="patient"), frame["patient"]
    model = DPLogisticRegression(epsilon=9.0).set_fit_request(groups=True)
    for estimator in (model, searching().set_fit_request(groups=True)):
        found = cross_validate(estimator, bare, y, cv=GroupKFold(2), params={"groups": ids}, return_estimator=True)
        assert {one.privacy_spent_.unit for one in found["estimator"]} == {"person"}
    assert cross_val_score(model, bare, y, cv=GroupKFold(3), params={"groups": ids}).shape == (3,)


def test_without_routing_the_groups_of_a_grid_search_protect_nobody(visits, tmp_path):
    """scikit-learn then keeps them for the splitter: the reports say row, and a ledger of persons refuses the fits."""
    frame, y = visits
    bare, ids = frame.drop(columns="patient"), frame["patient"]
    grid = GridSearchCV(DPLogisticRegression(epsilon=9.0), SPACE, cv=GroupKFold(3)).fit(bare, y, groups=ids)
    assert grid.best_estimator_.privacy_spent_.unit == "row"
    ledger = PrivacyLedger(tmp_path / "patients.db", epsilon=100.0, delta=1e-3, currency="basic", unit="patient")
    grid = GridSearchCV(DPLogisticRegression(epsilon=9.0, ledger=ledger), SPACE, cv=GroupKFold(3), error_score="raise")
    with pytest.raises(ValueError, match="promises too little for one patient"):
        grid.fit(bare, y, groups=ids)
    assert ledger.history() == []


def test_a_column_of_ids_needs_no_routing(visits):
    frame, y = visits
    model = DPLogisticRegression(epsilon=9.0, group_column="patient")
    grid = GridSearchCV(model, SPACE, cv=GroupKFold(3)).fit(frame, y, groups=frame["patient"])
    assert grid.best_estimator_.privacy_spent_.unit == "patient"
