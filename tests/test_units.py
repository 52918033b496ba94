"""The unit of protection: reports and ledgers name it, and a fit counts only where its unit is protected."""

import contextlib
import copy
import json
import math
import pickle
import re
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from dpsk import DPLogisticRegression, LedgerError, PrivacyLedger, PrivacySpent
from dpsk.__main__ import main
from dpsk.data.grid import SHARE_BITS
from dpsk.data.persons import Persons
from dpsk.privacy import Budget, Discovery, DiscoveryCost, GaussianCost, GaussianDP, Ledger, PureCost, RenyiDP
from dpsk.privacy.allowance import Allowance
from dpsk.privacy.durable import ledger_file
from dpsk.privacy.durable.store import require_room, set_aside
from dpsk.privacy.neighbours import Adjacency
from dpsk.privacy.repetition import BestOf, TruncatedNegativeBinomial, Within
from dpsk.privacy.units import PERSON, definition, require_same_unit, several, unit_of

BUDGET = Budget.of(0.5, 1e-6)
LITTLE = (GaussianCost(1e-3),)
PROMISE = {"label": "fit", "adjacency": "zero-out", "private": True}
UNITS = ("row", PERSON, "patient", "hospital")
BOOKED = {(unit, unit) for unit in UNITS} | {("person", "patient"), ("person", "hospital")}
PAIRS = [(unit, held) for unit in UNITS for held in UNITS]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


def created(path, **options):
    return PrivacyLedger(path, **({"epsilon": 2.0, "delta": 1e-5, "unit": "patient"} | options))


def fit(ledger, unit, charges=LITTLE, budget=BUDGET):
    """One fit, as estimators do it. Return its report."""
    with set_aside(ledger, budget, **PROMISE, unit=unit) as filtered:
        for charge in charges:
            filtered.charge(charge, "release")
        return PrivacySpent.of(filtered, adjacency="zero-out", private=True)


def spent(unit="patient", *, adjacency="zero-out", currency=None, epsilon=0.5, delta=1e-6):
    ledger = Ledger(Budget.of(epsilon, delta, currency=currency), unit=unit)
    ledger.charge(PureCost(0.01), "step")
    return PrivacySpent.of(ledger, adjacency=adjacency, private=True)


# --------------------------------------------------------------------------------------------------------- names


def test_the_unit_follows_from_where_the_ids_are():
    assert unit_of(None, grouped=False) == "row"
    assert unit_of(None, grouped=True) == "person"
    assert unit_of("patient", grouped=False) == unit_of("patient", grouped=True) == "patient"


def test_a_column_cannot_be_called_after_the_unit_of_fits_without_ids():
    """Else a fit for persons would be booked on a ledger of rows, and its report would promise it for rows."""
    with pytest.raises(ValueError, match=r"group_column='row'.*give the column another name"):
        unit_of("row", grouped=False)


@pytest.mark.parametrize("bad", ["", " ", 3, None, True, "two\nlines", ("patient",)])
def test_what_is_no_name_is_refused(bad, path):
    with pytest.raises(ValueError, match=r"unit=.* must be a name"):
        Ledger(BUDGET, unit=bad)
    if bad is not None:  # the default
        with pytest.raises(ValueError, match=r"unit=.* must be a name"):
            created(path, unit=bad)


@pytest.mark.parametrize(
    ("one", "more"),
    [("row", "rows"), ("patient", "patients"), ("family", "families"), ("day", "days"), ("class", "classes")],
)
def test_plurals(one, more):
    assert several(one) == more


# ------------------------------------------------------------------------------------------------------- reports


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_neighbours_are_described_for_their_unit(adjacency):
    assert "patient" not in adjacency.words("row")
    assert "patients and of rows stay as they are" in adjacency.words("patient")
    assert ("one patient is replaced" in adjacency.words("patient")) == (adjacency is Adjacency.REPLACE)
    assert ("one patient leaves every sum" in adjacency.words("patient")) == (adjacency is Adjacency.ZERO_OUT)


def test_the_report_names_its_unit():
    report = spent()
    assert report.unit == report.to_dict()["unit"] == "patient"
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["unit"] == "patient"
    assert "unit='patient'" in repr(report)
    assert "unit" not in repr(spent("row")), "as before"
    assert pickle.loads(pickle.dumps(report)) == report != spent("row")
    assert PrivacySpent.nothing_promised(1e-6, "zero-out", "patient").unit == "patient"
    assert PrivacySpent.nothing_promised(1e-6, "zero-out").unit == "row"


def test_the_statement_is_about_the_unit():
    text = spent().statement()
    for part in (
        "The unit of protection is one patient: all rows with the same id; two data sets",
        Adjacency.ZERO_OUT.words("patient"),
        "the number of rows and of patients, the number of columns, the set of class labels",
        "Two patients together are protected less: at the same delta epsilon is ",
    ):
        assert part in text
    assert "one row" not in text
    assert "contributed several rows" not in text
    two, ten = re.search(r"epsilon is ([\d.]+) for 2 patients and ([\d.]+) for 10", text).groups()
    assert float(two) >= spent().epsilon_for_group(2) > 0.99 * float(two)
    assert float(ten) >= spent().epsilon_for_group(10) > 0.99 * float(ten)
    assert "one person: all rows with the same id; two data sets" in spent("person").statement()
    assert "Nothing is stated for two patients together" in spent(currency=RenyiDP(40.0)).statement()


def test_a_report_without_a_model_and_one_of_discoveries_are_about_the_unit():
    facts = Discovery(1e-7, 4, 0.01)
    ledger = Ledger(Budget.of(0.5, 1e-6, currency=GaussianDP(facts)), unit="patient")
    ledger.charge(DiscoveryCost(0.03, facts), "values")
    broken = PrivacySpent.of(ledger, adjacency="zero-out", private=True, complete=False).statement()
    whole = PrivacySpent.of(ledger, adjacency="zero-out", private=True).statement()
    assert "for each patient. Neighbours differ in that one patient leaves" in broken
    for text in (broken, whole):
        assert "for each patient, with at most this probability a value that it alone has" in text
        assert "for each row" not in text


def test_reports_of_rows_read_as_before():
    text = spent("row").statement()
    for part in (
        "The unit of protection is one row of the training data; two data sets",
        "when one row leaves every sum while the number of rows stays as it is. ",
        "protected: the number of rows and of columns, the set of class labels, that all values are finite, and every",
        "A person who contributed several rows is protected less: at the same delta epsilon is",
    ):
        assert part in text


def test_a_pickle_of_an_older_report_is_one_of_rows():
    report = spent("row")
    state = {name: value for name, value in vars(report).items() if name != "unit"}
    older = PrivacySpent.__new__(PrivacySpent)
    older.__dict__.update(state)
    assert older == report
    assert older.statement() == report.statement()


# --------------------------------------------------------------------------------------- which fits a ledger takes


@pytest.mark.parametrize(("unit", "held"), PAIRS)
def test_a_fit_counts_only_on_a_ledger_of_its_unit(unit, held, path):
    ledger = created(path, unit=held)
    if (unit, held) in BOOKED:
        require_room(ledger, BUDGET, **PROMISE, unit=unit)
        assert fit(path, unit).unit == held, "the report names the unit of the ledger"
        assert len(ledger.history()) == 1
        return
    entered = []
    for use in (
        lambda: require_room(ledger, None, **PROMISE, unit=unit),
        lambda: ledger.reserve(BUDGET, **PROMISE, unit=unit),
        lambda: entered.append(fit(path, unit)),
    ):
        with pytest.raises(ValueError, match=f"unit of protection '{unit}'.*the ledger has '{held}'") as caught:
            use()
        assert re.search(r"([Kk]eep another ledger|[Gg]ive the ids)", str(caught.value))
    assert not entered
    assert ledger.history() == []
    assert ledger.remaining() == {"epsilon": 2.0, "delta": 1e-5}


def test_fits_of_rows_are_the_default_and_refused_on_a_ledger_of_patients(path, monkeypatch):
    """Also those of whole estimators, which know nothing of units: nothing is drawn."""
    drawn = []
    monkeypatch.setattr(Ledger, "charge", lambda *_, **__: drawn.append(1))
    ledger = created(path)
    for given in (ledger, path):
        with pytest.raises(ValueError, match=r"DPLogisticRegression.*'row'.*'patient'.*group_column='patient'"):
            DPLogisticRegression(ledger=given).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="'row'"), ledger.fit(BUDGET, **PROMISE):
        pass
    assert not drawn
    assert ledger.history() == []


def test_whole_fits_for_persons_are_booked_and_say_for_whom(path, tmp_path):
    rng = np.random.default_rng(0)
    X, y, ids = rng.normal(size=(3000, 2)), np.arange(3000) % 2, np.arange(3000) // 3
    ledger, rows = created(path), PrivacyLedger(tmp_path / "rows.db", epsilon=2.0, delta=1e-5)
    model = DPLogisticRegression(epsilon=0.5, solver="gradient-descent", bounds=(-4, 4))
    for durable, unit in ((ledger, "patient"), (None, "person")):
        fitted = model.set_params(ledger=durable).fit(X, y, groups=ids)
        assert fitted.privacy_spent_.unit == unit
        assert f"one {unit}: all rows with the same" in fitted.privacy_spent_.statement()
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=r"'person'.*'row'.*created with unit='person'"):
        model.set_params(ledger=rows).fit(X, y, groups=ids)
    with pytest.raises(ValueError, match=r"'client'.*'patient'"):
        model.set_params(ledger=ledger, group_column="client").fit(X, y)
    assert (model.coef_ == before).all()
    assert rows.history() == []
    assert [spend.label for spend in ledger.history()] == ["DPLogisticRegression"]


def test_without_a_durable_ledger_the_unit_is_that_of_the_fit():
    for unit in UNITS:
        require_room(None, BUDGET, **PROMISE, unit=unit)
        assert fit(None, unit).unit == unit


@pytest.mark.parametrize(("unit", "held"), PAIRS)
def test_a_run_of_a_search_keeps_the_unit_of_the_search(unit, held):
    search = BestOf(TruncatedNegativeBinomial(1.0, 0.1), (Within(1.0, 1e-6), Within(1.0, 1e-6)))
    allowance = Allowance(search, adjacency="zero-out", private=True, unit=held)
    if (unit, held) in BOOKED:
        assert fit(allowance, unit, ()).unit == held
    else:
        with pytest.raises(ValueError, match=f"'{unit}'.*'{held}'"):
            fit(allowance, unit)


def test_a_column_that_is_called_person_has_a_name():
    """Its ids may be finer than those of the ledger."""
    assert unit_of("person", grouped=True) == unit_of(None, grouped=True) == "person"
    require_same_unit("fit", unit_of(None, grouped=True), "household")
    require_same_unit("fit", unit_of("person", grouped=True), "person")
    with pytest.raises(ValueError, match=r"'person'.*'household'"):
        require_same_unit("fit", unit_of("person", grouped=True), "household")


def test_the_remedy_fits_the_case():
    for unit, held, remedy in (
        ("row", "patient", "group_column='patient' or as groups. (scikit-learn's searches and cross_val_score"),
        ("patient", "row", "created with unit='patient'"),
        ("person", "row", "created with unit='person'"),
        ("patient", "hospital", "Give the ids of 'hospital', or keep another ledger with unit='patient'"),
    ):
        with pytest.raises(ValueError, match=re.escape(remedy)):
            require_same_unit("fit", unit, held)


# ----------------------------------------------------------------------------------------------------------- why


def test_rows_of_one_person_together_move_a_sum_more_than_one_row():
    """A fit on rows promises too little for a person: the distance of two Gaussian outputs grows with the rows."""
    row = np.array([0.6, 0.8])
    for m in (2, 5, 40):
        moved = float(np.linalg.norm(np.tile(row, (m, 1)).sum(axis=0)))
        assert moved == pytest.approx(m)
        promised, kept = spent("row"), spent("row").epsilon_for_group(m)
        assert kept > 1.9 * promised.epsilon, "what is promised for one row is not kept for the person"


def shares(m):
    """The weight of a row of a person with m rows, in steps of 2^-SHARE_BITS."""
    return int(Persons(np.zeros(m, dtype=np.int32), 1).weights[0])


def largest_change(m):
    """s_m of 12.10, in steps of 2^-SHARE_BITS: exact integers."""
    return shares(m) + (m - 1) * (shares(m - 1) - shares(m))


@pytest.mark.parametrize("m", [2, 3, 7, 50, 999, 1500])
def test_a_row_that_leaves_a_person_moves_a_sum_by_no_more_than_stated(m):
    """By sums of integers on the grid: random rows stay below, the worst rows reach it, and an entry may rise."""
    rng, one = np.random.default_rng(m), 2**SHARE_BITS
    bound = largest_change(m)
    assert bound <= one - (m - 2) * shares(m) <= one
    assert abs(bound - 2 * one / m) <= m
    c = 1000
    worst = np.full((m, 1), -c)
    worst[0] = c
    for v, reached in ((worst, True), *((rng.integers(-c, c + 1, (m, 3)), False) for _ in range(20))):
        change = shares(m) * v.sum(axis=0) - shares(m - 1) * v[1:].sum(axis=0)
        assert np.abs(change).max() <= bound * c
        assert np.abs(change).max() == bound * c or not reached
    cells = rng.integers(0, c + 1, (m, 30))  # entries in [0, c], as losses and counts have them
    cells[:, 0], cells[:, 1] = c, 0
    cells[0, :2] = 0, c
    rise = shares(m - 1) * cells[1:].sum(axis=0) - shares(m) * cells.sum(axis=0)
    assert rise.max() - rise.min() == bound * c, "the length of the interval, reached by the first two entries"
    assert rise.min() < 0
    assert (rise.max() > 0) == (shares(m - 1) > shares(m)), "not monotone for rows, as such a sum is for persons"


def test_the_bound_holds_for_all_numbers_of_rows():
    m = np.arange(2, 2**SHARE_BITS + 3, dtype=np.int64)
    now, before = 2**SHARE_BITS // m, 2**SHARE_BITS // (m - 1)
    bound = now + (m - 1) * (before - now)
    assert (bound <= 2**SHARE_BITS - (m - 2) * now).all()
    assert (bound <= 2**SHARE_BITS).all()


# -------------------------------------------------------------------------------------------------------- the file


def test_the_unit_is_fixed_and_shown(path, capsys):
    ledger = created(path)
    assert ledger.terms().unit == PrivacyLedger(path, unit="patient").terms().unit == "patient"
    assert PrivacyLedger(path).terms() == created(path).terms() == ledger.terms()
    for other in ("row", "client"):
        with pytest.raises(ValueError, match=rf"unit='{other}'.*created with unit='patient'.*Leave unit out"):
            PrivacyLedger(path, unit=other)
    fit(ledger, "patient")
    assert "currency='basic', unit='patient'; epsilon 1.5" in repr(ledger)
    assert main(["budget", "show", path]) == 0
    printed = capsys.readouterr().out
    assert "unit='patient'" in printed
    assert ledger.statement() in printed
    for part in (
        "The unit of protection is one patient: all rows with the same id; two data sets",
        Adjacency.ZERO_OUT.words("patient"),
        "the numbers of rows, of patients and of columns",
        "Two patients together are protected less.",
    ):
        assert part in ledger.statement()
    assert "one row" not in ledger.statement()


def test_statements_about_rows_read_as_before(path):
    text = created(path, unit=None, disjoint=["A", "B"], currency="mu**2", reserve=1e-6).statement()
    for part in (
        "The unit of protection is one row; two data sets are neighbours when one row leaves every sum while",
        "is for fits that discover values: for each row, with at most this probability any of them shows a value that",
        "no row is in two of the data sets 'A', 'B', and that it is public which of them a row belongs to. ",
        "not protected: the numbers of rows and of columns, the sets of class labels, that all values are finite, and",
        "all parameters. A person who contributed several rows is protected less. Nothing is promised about what",
    ):
        assert part in text


def test_conditions_of_a_ledger_of_patients_are_about_patients(path):
    text = created(path, disjoint=["A", "B"], currency="mu**2", reserve=1e-6).statement()
    assert "no patient has rows in two of the data sets 'A', 'B'" in text
    assert "which of them a patient belongs to" in text
    assert "for each patient, with at most this probability" in text


@pytest.mark.parametrize(
    ("given", "layout"),
    [
        ({"unit": None}, 1),
        ({"unit": "row"}, 1),
        ({"unit": "row", "currency": "mu**2", "reserve": 1e-6}, 2),
        ({}, 3),
        ({"currency": "rho"}, 3),
        ({"currency": "mu**2", "reserve": 1e-6}, 3),
    ],
)
def test_a_ledger_of_rows_has_the_file_of_before(given, layout, path):
    """Earlier versions read layouts up to 2 and would book fits of rows, so a ledger of patients has another one."""
    ledger = created(path, **given)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (layout,)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert ("unit" in tables) == (layout == 3)
    assert ledger.terms().reserve == given.get("reserve", 0)
    unit = ledger.terms().unit
    assert unit == ("patient" if layout == 3 else "row")
    if ledger.terms().currency == "rho":
        fit(ledger, unit)
        assert ledger.history()[0].counted == {"rho": pytest.approx(5e-7)}
    else:
        fit(ledger, unit, (PureCost(0.1),), Budget.of(0.1, 0.0))
    assert len(PrivacyLedger(path).history()) == 1


def test_an_earlier_version_refuses_a_ledger_of_patients(path, monkeypatch):
    created(path)
    monkeypatch.setattr(ledger_file, "VERSION", 2)
    with pytest.raises(LedgerError, match="layout 3, made by a newer version of dpsk"):
        PrivacyLedger(path)


OLD = """
CREATE TABLE terms (
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, currency TEXT NOT NULL, amount TEXT NOT NULL, adjacency TEXT NOT NULL,
    disjoint TEXT NOT NULL, allow_nonprivate INTEGER NOT NULL, created TEXT NOT NULL
);
CREATE TABLE accounts (dataset TEXT PRIMARY KEY, amount TEXT NOT NULL, delta TEXT NOT NULL);
CREATE TABLE fits (
    number INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL, datasets TEXT NOT NULL, private INTEGER NOT NULL,
    epsilon TEXT NOT NULL, fit_delta TEXT NOT NULL, reserved TEXT NOT NULL, amount TEXT NOT NULL, delta TEXT NOT NULL,
    state TEXT NOT NULL, started TEXT NOT NULL, ended TEXT
);
INSERT INTO terms VALUES ('2.0', '1e-05', 'basic', '2', 'zero-out', '[]', 0, '2026-01-01T00:00:00+00:00');
INSERT INTO accounts VALUES ('', '1/2', '1/1000000');
INSERT INTO fits (token, label, datasets, private, epsilon, fit_delta, reserved, amount, delta, state, started, ended)
VALUES ('abc', 'old fit', '[]', 1, '0.5', '1e-06', '1/2', '1/2', '1/1000000', 'closed', '2026-01-01', '2026-01-01');
"""


@pytest.mark.parametrize("reserve", [False, True])
def test_a_file_of_an_earlier_version_is_a_ledger_of_rows(reserve, path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(OLD)
        if reserve:
            db.execute("ALTER TABLE terms ADD COLUMN reserve TEXT NOT NULL DEFAULT '1e-06'")
            db.execute("ALTER TABLE fits ADD COLUMN reserved_delta TEXT NOT NULL DEFAULT '0'")
            db.execute("UPDATE terms SET currency = 'mu**2'")
            db.execute("UPDATE accounts SET delta = '0'")
            db.execute("UPDATE fits SET delta = '0'")
        db.execute(f"PRAGMA application_id = {ledger_file.APPLICATION}")
        db.execute(f"PRAGMA user_version = {1 + reserve}")
        db.commit()
    ledger = PrivacyLedger(path)
    assert ledger.terms().unit == PrivacyLedger(path, unit="row").terms().unit == "row"
    assert ledger.terms().reserve == (1e-6 if reserve else 0)
    assert fit(ledger, "row", (PureCost(0.1),), Budget.of(0.1, 0.0)).unit == "row"
    assert [spend.label for spend in ledger.history()] == ["old fit", "fit"]
    for unit in ("person", "patient"):
        with pytest.raises(ValueError, match=f"'{unit}'.*'row'"):
            fit(ledger, unit)
    with pytest.raises(ValueError, match=r"unit='patient'.*created with unit='row'"):
        PrivacyLedger(path, unit="patient")
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1 + reserve,), "earlier versions go on reading it"


def test_the_unit_survives_copies_pickles_backups_and_data_sets(path, tmp_path):
    ledger = created(path)
    ledger.backup(tmp_path / "backup.db")
    for handle in (
        ledger.on("A"),
        copy.deepcopy(ledger),
        pickle.loads(pickle.dumps(ledger)),
        PrivacyLedger(tmp_path / "backup.db"),
    ):
        assert handle.terms().unit == "patient"
        with pytest.raises(ValueError, match="'row'"):
            fit(handle, "row")
        assert fit(handle, PERSON).unit == "patient"


def test_the_unit_is_that_of_the_file_for_another_process(path):
    """One process creates the ledger; two others, which get only the path, fit at the same time."""
    created(path)
    script = """
import sys
from dpsk import PrivacyLedger
from dpsk.privacy import Budget, GaussianCost
unit = sys.argv[2]
try:
    with PrivacyLedger(sys.argv[1]).fit(
        Budget.of(0.5, 1e-6), label=unit, adjacency="zero-out", private=True, unit=unit
    ) as filtered:
        filtered.charge(GaussianCost(1e-3), "draw")
        print(filtered.unit)
except ValueError as error:
    print("refused", error)
"""
    running = [
        subprocess.Popen([sys.executable, "-c", script, path, unit], stdout=subprocess.PIPE, text=True)
        for unit in ("patient", "row")
    ]
    taken, refused = (process.communicate(timeout=120)[0].strip() for process in running)
    assert taken == "patient"
    assert refused.startswith("refused row has the unit of protection 'row', and the ledger has 'patient'")
    assert [spend.label for spend in PrivacyLedger(path).history()] == ["patient"]


# ----------------------------------------------------------------------------------------------------- the command


def test_the_command_creates_a_ledger_once(path, capsys):
    command = ["budget", "create", path, "--epsilon", "2", "--delta", "1e-5", "--unit", "patient"]
    more = ["--currency", "mu**2", "--reserve", "1e-6", "--disjoint", "A", "B", "--adjacency", "replace"]
    assert main([*command, *more]) == 0
    assert "unit='patient'" in capsys.readouterr().out
    terms = PrivacyLedger(path).terms()
    assert (terms.unit, terms.epsilon, terms.delta, terms.currency) == ("patient", 2.0, 1e-5, "mu**2")
    assert (terms.reserve, terms.disjoint, terms.adjacency) == (1e-6, ("A", "B"), "replace")
    assert main(command) == 1
    printed = capsys.readouterr()
    assert "exists, and nothing was created" in printed.err
    assert printed.out == ""


def test_a_ledger_that_cannot_be_is_refused_in_one_line(path, capsys):
    assert main(["budget", "create", path, "--epsilon", "2", "--delta", "1e-5", "--unit", " "]) == 1
    printed = capsys.readouterr()
    assert "unit=' ' must be a name" in printed.err
    assert len(printed.err.splitlines()) == 1
    with pytest.raises(LedgerError, match="there is no ledger"):
        PrivacyLedger(path)


def test_the_default_of_the_command_is_the_row(path):
    assert main(["budget", "create", path, "--epsilon", "2", "--delta", "0"]) == 0
    assert PrivacyLedger(path).terms().unit == "row"
    assert math.isclose(PrivacyLedger(path).remaining()["epsilon"], 2.0)


def test_definitions():
    assert definition("row") == "one row"
    assert definition("client") == "one client: all rows with the same id"
