"""An entry of a ledger tells which fit it is, with which parameters, by whom and why. A saved handle tells no path."""

import contextlib
import copy
import getpass
import io
import json
import logging
import os
import pickle
import sqlite3
import subprocess
import sys
from functools import partial

import cloudpickle
import joblib
import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpsk import (
    DPGradientDescentClassifier,
    DPLogisticRegression,
    LedgerError,
    PrivacyLedger,
    PrivateCalibration,
    PrivateSearchCV,
    PrivateThreshold,
    private_evaluation,
    private_score,
)
from dpsk.__main__ import main
from dpsk.estimators import classifier
from dpsk.privacy import Budget, PrivacySpent
from dpsk.privacy.durable import whereabouts
from dpsk.privacy.durable.capacity import advice, fits_of_each
from dpsk.privacy.durable.remarks import LONGEST_VALUE, parameters_of
from dpsk.testing import check_twins

GIVEN = {"epsilon": 20.0, "delta": 1e-4, "currency": "basic"}
BUDGET = Budget.of(0.5, 0.0)
WHAT = {"label": "fit", "adjacency": "zero-out", "private": True}
X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
MODEL = partial(DPGradientDescentClassifier, epsilon=1.0, bounds=(-3.0, 3.0))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "secret_place").mkdir()
    return str(tmp_path / "secret_place" / "budget.db")


@pytest.fixture
def ledger(path):
    return PrivacyLedger(path, **GIVEN, who="Ada")


def without_remarks(path):
    """Make the file one of the version before entries told anything."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE remarks")
        db.commit()


# -------------------------------------------------------------------------------------------------- what an entry tells


def test_an_entry_tells_the_parameters_who_and_why(ledger):
    handle = ledger.on("hospital A", note="table 3 of the report")
    model = MODEL(alpha=0.01, classes=[0, 1], ledger=handle, verbose=False).fit(X, Y)
    (spend,) = ledger.history()
    assert (spend.label, spend.datasets) == ("DPGradientDescentClassifier", ("hospital A",))
    assert (spend.who, spend.note) == ("Ada", "table 3 of the report")
    assert spend.parameters["alpha"] == 0.01
    assert spend.parameters["classes"] == [0, 1]
    assert spend.parameters["bounds"] == [-3.0, 3.0]
    assert set(spend.parameters) == set(model.get_params(deep=False)) - {"ledger", "verbose"}
    assert pickle.loads(pickle.dumps(spend)) == spend


def test_parameters_are_those_that_were_fitted_whatever_happens_to_them_meanwhile(ledger, monkeypatch):
    model, opened = MODEL(alpha=0.01, ledger=ledger), classifier.open_table

    def changing(*arguments, **options):
        model.alpha = 0.5
        return opened(*arguments, **options)

    monkeypatch.setattr(classifier, "open_table", changing)
    model.fit(X, Y)
    assert model.alpha == 0.5
    assert ledger.history()[0].parameters["alpha"] == 0.01


def test_a_handle_keeps_what_is_not_given_anew(path, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "login")
    ledger = PrivacyLedger(path, **GIVEN, note="first")
    handles = [ledger, ledger.on("A"), ledger.on("A", who="Bo"), ledger.on("A").on(note="second"), ledger.on("A").on()]
    for handle in handles:
        handle.reserve(BUDGET, **WHAT)
    assert [(s.datasets, s.who, s.note) for s in ledger.history()] == [
        ((), "login", "first"),
        (("A",), "login", "first"),
        (("A",), "Bo", "first"),
        (("A",), "login", "second"),
        ((), "login", "first"),
    ]
    PrivacyLedger(path).on(who="", note="").reserve(BUDGET, **WHAT)
    last = ledger.history()[-1]
    assert (last.who, last.note, last.parameters) == ("", "", {})
    assert PrivacyLedger(path, note="other", who="other", create=False).remaining() == ledger.remaining()


def test_without_a_login_name_nobody_is_named(path, monkeypatch):
    def nobody():
        raise OSError("no table of users")

    monkeypatch.setattr(getpass, "getuser", nobody)
    PrivacyLedger(path, **GIVEN).reserve(BUDGET, **WHAT)
    assert PrivacyLedger(path).history()[0].who == ""


@pytest.mark.parametrize("name", ["note", "who"])
@pytest.mark.parametrize(
    ("value", "message"),
    [(3, "must be a text"), (b"x", "must be a text"), ("x" * 501, "501 characters"), ("\x1b[2J", "cannot be shown")],
)
def test_remarks_that_cannot_be_shown_are_refused_before_a_file_is_made(name, value, message, path):
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        PrivacyLedger(path, **GIVEN, **{name: value})
    assert not os.path.exists(path)
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        PrivacyLedger(path, **GIVEN).on("A", **{name: value})


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no")


class Unreadable(BaseEstimator):
    def get_params(self, deep=True):
        raise RuntimeError("no")


class Seeded:
    def __repr__(self):
        return f"Seeded(random_state=1234, at {object()!r})"


ENDLESS = []
ENDLESS.extend([ENDLESS] * 30)
ODD = {
    "unshowable": (Unshowable(), "<Unshowable>"),
    "unreadable": (Unreadable(), "<Unreadable>"),
    "seeded": (Seeded(), "Seeded(random_state=..., at <object object>)"),
    "function": (len, "<built-in function len>"),
    "infinite": (float("inf"), "inf"),
    "not a number": (np.float32("nan"), "nan"),
    "huge": (2**70, str(2**70)),
    "numpy": (np.int16(3), 3),
    "long text": ("x" * 1000, "x" * (LONGEST_VALUE - 3) + "..."),
    "surrogate": ("\ud800", "\ud800"),
    "type": (MODEL.func, "DPGradientDescentClassifier"),
    "set": ({2, 1}, [1, 2]),
    "array": (np.array([[1.5, 2.0]]), [[1.5, 2.0]]),
    "long list": (list(range(50)), {"length": 50, "first": list(range(20))}),
    "long array": (np.arange(30.0), {"shape": [30], "dtype": "float64", "first": [float(k) for k in range(20)]}),
    "keys": ({(1, 2): None}, {"(1, 2)": None}),
    "random_state": (1234, "given"),
    "ledger inside": ([DPLogisticRegression(random_state=1234, ledger="/secret_place/x.db")], None),
    "endless": (ENDLESS, None),
    "too deep to print": (10**5000, None),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_parameters_are_recorded_as_well_as_can_be(name):
    value, shown = ODD[name]
    text = parameters_of({name: value})
    found = json.loads(text)
    if shown is not None:
        assert found == {name: shown}
    assert len(text) <= 20_000
    assert "1234" not in text
    assert "secret_place" not in text


def test_many_large_parameters_are_cut():
    text = parameters_of({f"p{k}": ["y" * 199] * 20 for k in range(300)})
    assert len(json.loads(text)) > 1
    assert len(text) <= 20_000
    assert parameters_of(Unreadable()) == "{}"
    assert parameters_of(None) == "{}"


def test_a_fit_does_not_fail_at_a_parameter_that_cannot_be_shown(ledger):
    class Odd(MODEL.func):
        odd: object = None

    model = Odd(epsilon=1.0, bounds=(-3.0, 3.0), ledger=ledger, odd=Unshowable()).fit(X, Y)
    assert ledger.find(model).parameters["odd"] == "<Unshowable>"


def test_a_seed_is_not_recorded(path):
    ledger = PrivacyLedger(path, **GIVEN, allow_nonprivate=True)
    model = MODEL(random_state=987654321, ledger=ledger).fit(X, Y)
    private_score(model, X, Y, epsilon=0.5, random_state=987654321, ledger=ledger)
    private_evaluation(model, X, Y, epsilon=0.5, random_state=987654321, ledger=ledger)
    assert [spend.parameters["random_state"] for spend in ledger.history()] == ["given"] * 3
    with open(path, "rb") as file:
        assert b"987654321" not in file.read()


def test_scores_and_adjustments_tell_their_arguments_and_the_type_of_the_model(ledger):
    model = MODEL().fit(X, Y)
    private_score(model, X, Y, epsilon=0.5, confidence=0.9, ledger=ledger)
    evaluation = private_evaluation(make_pipeline(FunctionTransformer(), model), X, Y, epsilon=0.5, ledger=ledger)
    threshold = PrivateThreshold(model, epsilon=0.5, false_positive=3.0, ledger=ledger).fit(X, Y)
    calibration = PrivateCalibration(model, epsilon=0.5, ledger=ledger).fit(X, Y)
    score, whole, cut, calibrated = ledger.history()
    assert score.parameters == {
        "estimator": "DPGradientDescentClassifier", "epsilon": 0.5, "confidence": 0.9, "group_column": None,
        "adjacency": "zero-out", "random_state": None,
    }  # fmt: skip
    assert whole.parameters["estimator"] == "Pipeline"
    assert whole.parameters["accuracy_share"] == 0.6
    assert cut.parameters["false_positive"] == 3.0
    assert cut.parameters["estimator"] == calibrated.parameters["estimator"] == "DPGradientDescentClassifier"
    assert set(calibrated.parameters) == set(calibration.get_params(deep=False)) - {"ledger"}
    assert [ledger.find(one).number for one in (evaluation, threshold, calibration)] == [2, 3, 4]


def test_a_search_tells_its_parameters_and_nothing_that_was_drawn(ledger):
    space = {"alpha": loguniform(1e-4, 1e-1)}
    search = PrivateSearchCV(MODEL(loss="huber_hinge"), space, epsilon=4.0, ledger=ledger)
    told = json.loads(parameters_of(search))
    search.fit(X, Y)
    (spend,) = ledger.history()
    assert spend.parameters == told
    assert told["estimator"]["parameters"]["loss"] == "huber_hinge"
    assert set(told) == set(search.get_params(deep=False)) - {"ledger"}
    assert ledger.find(search) == ledger.find(search.best_estimator_) == spend


# ------------------------------------------------------------------------------------------------------------- ids


def test_a_model_and_its_entry_have_one_id(ledger, path):
    models = [MODEL(ledger=where).fit(X, Y) for where in (ledger, path)]
    for number, model in enumerate(models, 1):
        spent = model.privacy_spent_
        assert (len(spent.entry), spent.ledger) == (32, ledger.identity)
        for asked in (model, spent, spent.entry, pickle.loads(pickle.dumps(model))):
            assert ledger.find(asked).number == number
        assert spent.to_dict()["entry"] == spent.entry
        assert spent.statement().endswith(f" It is entry {spent.entry} of the ledger {ledger.identity}.")
    first, second = (model.privacy_spent_ for model in models)
    assert first.entry != second.entry
    assert PrivacyLedger(path).on("elsewhere").find(first).number == 1


def test_a_fit_that_came_to_nothing_and_one_without_noise_have_an_id(path, monkeypatch):
    ledger = PrivacyLedger(path, **GIVEN, allow_nonprivate=True)
    exact = DPLogisticRegression(epsilon=float("inf"), ledger=ledger).fit(X, Y)
    assert ledger.find(exact).private is False
    broken = MODEL(ledger=ledger)
    monkeypatch.setattr("dpsk.estimators.classifier.Progress.attributes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        broken.fit(X, Y)
    assert ledger.find(broken).number == 2
    assert "NO MODEL" in broken.privacy_spent_.statement()
    assert broken.privacy_spent_.entry in broken.privacy_spent_.statement()


def test_without_a_ledger_there_is_no_id(ledger, tmp_path):
    model = MODEL().fit(X, Y)
    assert (model.privacy_spent_.entry, model.privacy_spent_.ledger) == (None, None)
    assert "entry" not in model.privacy_spent_.statement()
    for asked in (model, make_pipeline(FunctionTransformer(), model), 3):
        with pytest.raises(ValueError, match=r"names no entry of a ledger"):
            ledger.find(asked)
    with pytest.raises(ValueError, match="has no entry 'x'"):
        ledger.find("x")
    other = PrivacyLedger(tmp_path / "other.db", **GIVEN)
    with pytest.raises(ValueError, match=f"recorded in the ledger {other.identity}, not in {ledger.identity}"):
        ledger.find(MODEL(ledger=other).fit(X, Y))


def test_reports_that_differ_in_their_entry_alone_are_equal():
    report = PrivacySpent.nothing_promised(1e-6, "zero-out")
    named = PrivacySpent(**{**vars(report), "entry": "a", "ledger": "b"})
    assert report == named
    assert hash(report) == hash(named)


def test_an_entry_follows_from_public_facts(tmp_path):
    """Two data sets that differ in one row, both fitted: what the entries tell beside what was charged is the same."""
    seen = []
    for extreme in (0.0, 1e6):
        rows = X.copy()
        rows[7] = extreme
        ledger = PrivacyLedger(tmp_path / f"{extreme}.db", **GIVEN, who="Ada", note="why")
        model = MODEL(ledger=ledger).fit(rows, Y)
        private_score(model, rows, Y, epsilon=0.5, ledger=ledger)
        PrivateThreshold(model, ledger=ledger).fit(rows, Y)
        seen.append([(s.number, s.label, s.parameters, s.who, s.note, s.reserved) for s in ledger.history()])
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_twins_leave_the_same_record_and_get_the_same_advice():
    def action(rows, labels):
        ledger = PrivacyLedger("budget.db", epsilon=3.0, delta=1e-5, note="why")
        model = MODEL(ledger=ledger.on("A")).fit(rows, labels)
        return model, ledger.find(model).parameters, list(ledger.to_dict())

    check_twins(action, X, Y, streams=2)


# ------------------------------------------------------------------------------------------------------ older versions


def test_a_file_of_the_version_before_opens_and_goes_on(ledger, path, tmp_path):
    ledger.reserve(BUDGET, **WHAT)
    without_remarks(path)
    (old,) = PrivacyLedger(path).history()
    assert (old.parameters, old.who, old.note, len(old.id)) == (None, "", "", 32)
    assert ledger.find(old.id) == old
    ledger.on(note="new").reserve(BUDGET, **WHAT, asked={"a": 1})
    with contextlib.closing(sqlite3.connect(path)) as db:  # as the version before writes
        db.execute("UPDATE accounts SET amount = '3/2'")
        db.execute(
            "INSERT INTO fits (token, label, datasets, private, epsilon, fit_delta, reserved, amount, delta, state, "
            "started) VALUES ('t', 'fit', '[]', 1, '0.5', '0.0', '1/2', '1/2', '0', 'open', '2026')"
        )
        db.commit()
    assert [(s.parameters, s.note) for s in ledger.history()] == [(None, ""), ({"a": 1}, "new"), (None, "")]
    assert ledger.remaining()["epsilon"] == 18.5
    ledger.statement()
    ledger.backup(tmp_path / "backup.db")
    assert PrivacyLedger(tmp_path / "backup.db").history() == ledger.history()


def test_the_layout_is_that_of_before(ledger, path):
    ledger.reserve(BUDGET, **WHAT)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    assert [name for name in names if not name.startswith("sqlite")] == [
        "accounts", "fits", "identity", "remarks", "terms",
    ]  # fmt: skip


def test_a_refused_fit_leaves_no_remark(ledger, path):
    with pytest.raises(ValueError, match="adjacency"):
        ledger.reserve(BUDGET, label="fit", adjacency="replace", private=True, asked={"a": 1})
    ledger.reserve(BUDGET, **WHAT)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM remarks").fetchone() == (1,)


def test_reports_and_entries_of_older_pickles_have_no_id(ledger):
    report = PrivacySpent.nothing_promised(1e-6, "zero-out")
    older = PrivacySpent.__new__(PrivacySpent)
    vars(older).update({name: value for name, value in vars(report).items() if name not in ("entry", "ledger")})
    assert (older.entry, older.ledger) == (None, None)
    assert older == report
    older.statement()


# -------------------------------------------------------------------------------------------- no absolute path is saved


def bytes_of(thing):
    """Yield what each way to save a thing writes."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.dumps(thing, protocol=protocol)
    yield cloudpickle.dumps(thing)
    stream = io.BytesIO()
    joblib.dump(thing, stream)
    yield stream.getvalue()


def holders(ledger, path):
    model = MODEL(ledger=ledger).fit(X, Y)
    yield from (ledger, ledger.on("A", note="x"), model, MODEL(ledger=ledger), MODEL(ledger=path).fit(X, Y))
    yield from (MODEL(ledger=path), make_pipeline(FunctionTransformer(), model), PrivateThreshold(model, ledger=path))
    yield PrivateSearchCV(MODEL(), {"alpha": [0.1]}, ledger=path)
    yield GridSearchCV(MODEL(ledger=path), {"alpha": [0.1, 0.2]}, cv=2, error_score="raise").fit(X, Y)
    yield PrivateThreshold(model, epsilon=0.5, ledger=path).fit(X, Y)
    yield PrivacyLedger.find(ledger, model)
    yield model.privacy_spent_


@pytest.mark.slow
@pytest.mark.parametrize("below", [False, True], ids=["elsewhere", "below the working directory"])
def test_nothing_that_is_saved_holds_an_absolute_path(below, ledger, path, tmp_path, monkeypatch):
    if below:
        monkeypatch.chdir(tmp_path)
    for thing in holders(ledger, path):
        for saved in bytes_of(thing):
            assert str(tmp_path).encode() not in saved, thing
            assert (b"secret_place" in saved) <= below, thing
        assert type(pickle.loads(pickle.dumps(thing))) is type(thing)
    skops = pytest.importorskip("skops.io")
    import zipfile

    for thing in (MODEL(ledger=ledger).fit(X, Y), MODEL(ledger=path).fit(X, Y)):
        with zipfile.ZipFile(io.BytesIO(skops.dumps(thing))) as archive:
            saved = b"".join(archive.read(name) for name in archive.namelist())
        assert ledger.identity.encode() in saved
        assert str(tmp_path).encode() not in saved


def loads_elsewhere(saved, cwd, lines):
    """Load something in another process with another working directory, and return what lines of code print there."""
    script = (
        "import pickle, sys\n"
        "from dpsk import LedgerError, PrivacyLedger\n"
        "thing = pickle.loads(sys.stdin.buffer.read())\n"
        "try:\n"
        + "".join(f"    {line}\n" for line in lines)
        + "except LedgerError as error:\n    print('LedgerError', error)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], input=saved, capture_output=True, cwd=cwd, check=True)
    return result.stdout.decode()


@pytest.mark.thorough
@pytest.mark.slow
def test_another_process_finds_the_ledger_from_the_same_directory_or_says_how_to_go_on(
    ledger, path, tmp_path, monkeypatch
):
    other, wrong = (tmp_path / name for name in ("other", "wrong"))
    for made in (other, wrong):
        made.mkdir()
    monkeypatch.chdir(tmp_path)
    saved = pickle.dumps(ledger.on("A", note="why", who="Bo"))
    ledger.reserve(BUDGET, **WHAT)
    use = ["print(thing.remaining(), thing.datasets)", "thing.reserve"]
    assert loads_elsewhere(saved, tmp_path, use).split("} ") == ["{'epsilon': 19.5, 'delta': 0.0001", "('A',)\n"]
    wanted = [r"print(repr(thing))", "thing.remaining()"]
    monkeypatch.chdir("/")
    by_name = pickle.dumps(ledger)
    told = loads_elsewhere(by_name, other, wanted)
    assert "missing" in told
    assert "LedgerError there is no ledger at" in told
    assert "set_params(ledger=PrivacyLedger(path))" in told
    PrivacyLedger(wrong / "budget.db", **GIVEN)
    told = loads_elsewhere(by_name, wrong, wanted)
    assert f"than the one that was used ({ledger.identity})" in told
    assert "set_params(ledger=PrivacyLedger(path))" in told
    unused = pickle.dumps(MODEL(ledger=str(tmp_path / "nowhere" / "budget.db")))
    told = loads_elsewhere(unused, wrong, ["print(thing.ledger.remaining())"])
    assert "does not tell which ledger it used" in told
    assert PrivacyLedger(wrong / "budget.db").history() == []


def test_in_the_same_process_a_ledger_is_found_from_every_directory(ledger, path, tmp_path, monkeypatch):
    saved = pickle.dumps(MODEL(ledger=path))
    monkeypatch.chdir(tmp_path)
    loaded = pickle.loads(saved).fit(X, Y)
    assert loaded.ledger == ledger
    assert ledger.find(loaded).number == 1
    ledger.backup(tmp_path / "backup.db")
    assert PrivacyLedger(tmp_path / "backup.db").identity == ledger.identity
    ambiguous = pickle.loads(saved).ledger  # two files are this ledger, and neither is where the name leads
    with pytest.raises(LedgerError, match=r"there is no ledger at .*set_params"):
        ambiguous.remaining()
    monkeypatch.chdir(tmp_path / "secret_place")
    assert pickle.loads(saved).ledger.remaining() == ledger.remaining()


def test_what_strayed_and_was_found_is_a_handle_like_any_other(ledger, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved = pickle.dumps(ledger)
    monkeypatch.setattr(whereabouts, "_known", {})
    found = pickle.loads(saved)
    assert found.remaining() == ledger.remaining()
    os.unlink(path)
    with pytest.raises(LedgerError, match="any more"):
        found.remaining()


def test_a_path_that_was_given_stays_for_clones_and_parameters(path, ledger):
    model = MODEL(ledger=path)
    assert clone(model).ledger == model.get_params()["ledger"] == path
    copied = copy.deepcopy(model)
    assert copied.ledger == ledger
    assert pickle.loads(pickle.dumps(MODEL(ledger="relative.db"))).ledger == "relative.db"


@pytest.mark.slow
@pytest.mark.parametrize("given", ["handle", "path"])
@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_worker_processes_find_the_ledger_wherever_they_work(backend, given, ledger, path, tmp_path, monkeypatch):
    search = GridSearchCV(
        MODEL(ledger=ledger.on("A", note="why") if given == "handle" else path),
        {"alpha": [1e-3, 1e-2]}, cv=2, n_jobs=2, refit=False, error_score="raise",
    )  # fmt: skip
    with parallel_config(backend):
        search.fit(X, Y)
        monkeypatch.chdir(tmp_path)
        search.fit(X, Y)
    assert len(ledger.history()) == 8
    assert {spend.note for spend in ledger.history()} == {"why" if given == "handle" else ""}
    assert {spend.parameters["alpha"] for spend in ledger.history()} == {1e-3, 1e-2}


@pytest.mark.slow
def test_processes_of_the_standard_library_find_the_ledger(ledger, monkeypatch):
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        monkeypatch.chdir("/")  # from where the file has no relative path
        assert pool.submit(PrivacyLedger.remaining, ledger).result() == ledger.remaining()


# ------------------------------------------------------------------------------------------------- JSON and the advice

ENTRY = {
    "number": int, "label": str, "datasets": list, "private": bool, "epsilon": (float, type(None)), "delta": float,
    "reserved": dict, "counted": dict, "state": str, "started": str, "ended": (str, type(None)), "id": str,
    "parameters": (dict, type(None)), "who": str, "note": str,
}  # fmt: skip
TERMS = {
    "epsilon": float, "delta": float, "currency": str, "limit": dict, "adjacency": str, "disjoint": list,
    "allow_nonprivate": bool, "reserve": float, "unit": str,
}  # fmt: skip
LEDGER = {
    "schema": int, "identity": str, "file": str, "terms": dict, "left": dict, "left_for": dict, "entries": list,
    "statement": str,
}  # fmt: skip


def require_schema(found, schema):
    assert set(found) == set(schema)
    for name, kinds in schema.items():
        assert isinstance(found[name], kinds), name


def test_show_prints_json(path, capsys):
    ledger = PrivacyLedger(path, **GIVEN, disjoint=["A", "B"], allow_nonprivate=True, note="why", who="Ada")
    ledger.on("A").reserve(BUDGET, **WHAT, asked={"a": float("inf")})
    ledger.reserve(None, label="exact", adjacency="zero-out", private=False)
    assert main(["budget", "show", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    require_schema(found, LEDGER)
    require_schema(found["terms"], TERMS)
    for entry in found["entries"]:
        require_schema(entry, ENTRY)
    assert found == json.loads(json.dumps(ledger.to_dict()))
    assert found["left"] == {"epsilon": 19.5, "delta": 1e-4}
    assert found["left_for"]["B"] == {"epsilon": 20.0, "delta": 1e-4}
    assert [entry["epsilon"] for entry in found["entries"]] == [0.5, None]
    assert found["entries"][0]["parameters"] == {"a": "inf"}
    assert "secret_place" not in json.dumps(found)


def test_create_and_plan_print_json(path, capsys):
    assert main(["budget", "create", path, "--epsilon", "3", "--delta", "1e-5", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert found.pop("advice") == advice(PrivacyLedger(path).terms())
    require_schema(found, LEDGER)
    assert main(["budget", "plan", "--epsilon", "2", "--delta", "1e-5", "--fits", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"epsilon", "delta", "currencies"}
    assert set(found["currencies"]) == {"basic", "rho", "mu**2"}
    for one in found["currencies"].values():
        require_schema(one, {"fits": int, "epsilon": float, "delta": float, "estimators": str})


def test_show_prints_who_why_and_the_parameters(ledger, path, capsys):
    ledger.on(note="table 3\nof the report").reserve(BUDGET, **WHAT, asked={"alpha": 0.01, "loss": "log_loss"})
    ledger.on(who="").reserve(BUDGET, **WHAT)
    assert main(["budget", "show", path]) == 0
    printed = capsys.readouterr().out
    one, two = (spend.id for spend in ledger.history())
    assert f"       entry {one} by Ada: table 3 of the report\n       alpha=0.01, loss=log_loss\n" in printed
    assert f"       entry {two}\n" in printed


def test_advice_is_given_once_by_whoever_makes_a_ledger_without_choosing_a_currency(path, caplog):
    budget = {"epsilon": 3.0, "delta": 1e-5}
    ledger = PrivacyLedger(path, **budget)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("dpsk", logging.WARNING)
    assert "holds 6 fits of epsilon 0.5 and delta 1e-06" in record.getMessage()
    assert "it would hold 33 such fits" in record.getMessage()
    PrivacyLedger(path, **budget)
    ledger.on("A")
    PrivacyLedger(f"{path}1", **budget, currency="basic")
    PrivacyLedger(f"{path}2", **budget, currency="mu**2")
    PrivacyLedger(f"{path}3", epsilon=3.0, delta=0.0)
    assert len(caplog.records) == 1
    PrivacyLedger(f"{path}4", **budget)
    assert len(caplog.records) == 2, "a second ledger is a second choice"


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-5), (1.0, 1e-6), (0.1, 1e-9), (10.0, 1e-3), (1e9, 0.5)])
def test_the_numbers_of_the_advice_are_those_that_go_through(epsilon, delta, tmp_path):
    ledger = PrivacyLedger(tmp_path / "basic.db", epsilon=epsilon, delta=delta, currency="basic")
    told = advice(ledger.terms())
    basic, each, each_delta, squared = (
        float(word.rstrip("."))
        for before in ("holds ", "epsilon ", "delta ", "would hold ")
        for word in [told.split(before)[1].split(" ")[0]]
    )
    assert 4 <= basic <= 10
    assert basic == fits_of_each("basic", epsilon, delta, each, each_delta)
    assert squared == fits_of_each("mu**2", epsilon, delta, each, each_delta)
    assert squared >= basic or epsilon > 1e3


def test_the_command_advises_on_its_output_alone(path, capsys, caplog):
    create = ["budget", "create", path, "--epsilon", "3", "--delta", "1e-5"]
    assert main(create) == 0
    assert "it would hold 33 such fits" in capsys.readouterr().out
    assert caplog.records == []
    create[2] = f"{path}2"
    assert main([*create, "--currency", "basic"]) == 0
    assert "would hold" not in capsys.readouterr().out
