"""A ledger knows which one it is: a second one under the same path is noticed by whoever held the first.

And creating one is another act than opening it, wherever a lost record could become a new budget.
"""

import contextlib
import os
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import clone

from dpsk import DPLogisticRegression, LedgerError, PrivacyLedger
from dpsk.__main__ import main
from dpsk.privacy import Budget, PureCost
from dpsk.privacy.durable import ledger_file, store
from dpsk.privacy.durable.store import _handle, as_ledger

BUDGET = Budget.of(0.5, 0.0)
GIVEN = {"epsilon": 2.0, "delta": 1e-5}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


@pytest.fixture
def ledger(path):
    return PrivacyLedger(path, **GIVEN, timeout=0.2)


def reserve(ledger):
    return ledger.reserve(BUDGET, label="fit", adjacency="zero-out", private=True)


def made_anew(path):
    """Delete the file and run the line that creates it once more."""
    os.unlink(path)
    return PrivacyLedger(path, **GIVEN)


def as_older_versions_made_it(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE identity")
        db.commit()


# ------------------------------------------------------------------------------------------------ which ledger it is

USES = {
    "reserve": reserve,
    "remaining": PrivacyLedger.remaining,
    "left": PrivacyLedger.left,
    "history": PrivacyLedger.history,
    "statement": PrivacyLedger.statement,
    "terms": PrivacyLedger.terms,
    "on": lambda ledger: ledger.on("A"),
    "backup": lambda ledger: ledger.backup(f"{ledger.path}.copy"),
    "fit": lambda ledger: DPLogisticRegression(epsilon=0.5, ledger=ledger).fit([[0.0], [1.0]], [0, 1]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("holder", ["handle", "pickle", "on", "path that was used", "clone"])
def test_a_second_ledger_under_the_same_path_is_noticed_by_whoever_held_the_first(use, holder, ledger, path):
    if holder == "pickle":
        ledger = pickle.loads(pickle.dumps(ledger))
    if holder == "on":
        ledger = ledger.on("A")
    if holder == "path that was used":
        ledger = as_ledger(path)
        ledger.remaining()
    if holder == "clone":
        ledger = clone(DPLogisticRegression(ledger=ledger)).ledger
    second = made_anew(path)
    with pytest.raises(LedgerError, match=rf"another ledger \({second.identity}\).*was deleted or replaced"):
        USES[use](ledger)
    assert second.history() == []
    assert "another ledger" in repr(ledger)
    assert PrivacyLedger(path).remaining() == {"epsilon": 2.0, "delta": 1e-5}


@pytest.mark.parametrize("gone", [False, True])
def test_a_fit_under_way_says_that_its_end_could_not_be_recorded(gone, ledger, path):
    fit = ledger.fit(BUDGET, label="fit", adjacency="zero-out", private=True)
    fit.__enter__().charge(PureCost(0.5), "something")
    second = made_anew(path)
    if gone:
        os.unlink(path)
    with pytest.warns(UserWarning, match=r"could not be recorded.*(any more|another ledger)"):
        fit.__exit__(None, None, None)
    assert gone or second.history() == []


def test_whoever_held_a_ledger_that_is_gone_is_not_told_to_create_one(ledger, path):
    os.unlink(path)
    for use in USES.values():
        with pytest.raises(LedgerError, match=r"no ledger at .* any more: .*Restore a backup") as caught:
            use(ledger)
        assert "epsilon=" not in str(caught.value)
    assert os.listdir(os.path.dirname(path)) == []


def test_a_restored_backup_is_the_same_ledger(ledger, path, tmp_path):
    """Which is why nothing notices what it does not know."""
    ledger.backup(tmp_path / "backup.db")
    reserve(ledger)
    os.replace(tmp_path / "backup.db", path)
    assert ledger.history() == []
    assert PrivacyLedger(path).identity == ledger.identity


def test_each_ledger_has_a_name_of_its_own_and_every_handle_knows_it(ledger, path, tmp_path):
    other = PrivacyLedger(tmp_path / "other.db", **GIVEN)
    assert len(ledger.identity) == 32
    assert other.identity != ledger.identity
    late = as_ledger(path)
    assert late.identity is None
    late.history()
    for handle in (late, PrivacyLedger(path), ledger.on("A"), pickle.loads(pickle.dumps(late))):
        assert handle.identity == ledger.identity


# ------------------------------------------------------------------------------------- files of the previous version


def test_a_file_without_a_name_opens_and_gets_one(ledger, path):
    reserve(ledger)
    as_older_versions_made_it(path)
    before = as_ledger(path)
    assert before.remaining() == {"epsilon": 1.5, "delta": 1e-5}
    assert before.identity is None, "reading writes nothing"
    opened = PrivacyLedger(path, **GIVEN)
    assert len(opened.identity) == 32
    assert opened.remaining() == {"epsilon": 1.5, "delta": 1e-5}
    reserve(before)
    assert before.identity == opened.identity
    made_anew(path)
    for handle in (before, opened):
        with pytest.raises(LedgerError, match="another ledger"):
            reserve(handle)


def test_a_reservation_gives_a_name_to_a_file_without_one(ledger, path):
    as_older_versions_made_it(path)
    handle = as_ledger(path)
    reservation = reserve(handle)
    assert handle.identity == PrivacyLedger(path).identity is not None
    reservation.end(None)
    assert [spend.state for spend in handle.history()] == ["closed"]


def test_a_name_that_was_not_written_is_not_remembered(ledger, path):
    as_older_versions_made_it(path)
    handle = as_ledger(path)
    with pytest.raises(ValueError, match="adjacency"):  # after the name was drawn, before the commit
        handle.reserve(BUDGET, label="fit", adjacency="replace", private=True)
    assert handle.identity is None
    reserve(handle)
    assert handle.identity == PrivacyLedger(path).identity


def test_a_file_without_a_name_that_cannot_be_written_can_be_read(ledger, path, monkeypatch):
    as_older_versions_made_it(path)
    connect = ledger_file._connect

    def read_only(path, mode, timeout):
        connection = connect(path, mode, timeout)
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(ledger_file, "_connect", read_only)
    handle = PrivacyLedger(path)
    assert handle.identity is None
    assert handle.remaining() == {"epsilon": 2.0, "delta": 1e-5}
    with pytest.raises(LedgerError, match="read-only"):
        reserve(handle)


@pytest.mark.thorough
@pytest.mark.slow
def test_processes_that_name_a_file_at_once_give_it_one_name(ledger, path):
    as_older_versions_made_it(path)
    script = f"""
import sys
from dpsk import PrivacyLedger
from dpsk.privacy import Budget
print("ready", flush=True)
sys.stdin.readline()
ledger = PrivacyLedger({path!r}, epsilon=2.0, delta=1e-5)
ledger.reserve(Budget.of(0.25, 0.0), label="fit", adjacency="zero-out", private=True)
print(ledger.identity, flush=True)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(subprocess.Popen([sys.executable, "-c", script], **pipes)) for _ in range(4)]
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 4  # all have imported
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        named = {racer.stdout.readline().strip() for racer in racers}
    opened = PrivacyLedger(path)
    assert named == {opened.identity}
    assert opened.remaining() == {"epsilon": 1.0, "delta": 1e-5}


def test_a_handle_from_a_pickle_of_the_previous_version_opens(ledger, path):
    handle = _handle(path, (), 60.0)  # what such a pickle calls
    assert handle.remaining() == {"epsilon": 2.0, "delta": 1e-5}
    assert handle.identity == ledger.identity


def test_the_previous_version_goes_on_writing_to_a_file_with_a_name(ledger, path):
    """It looks at the layout and at the tables that it knows."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert [len(db.execute(f"PRAGMA table_info({name})").fetchall()) for name in ("terms", "accounts", "fits")] == [
            8,
            3,
            13,
        ]


# ----------------------------------------------------------------------------------------------- creating and opening


def test_the_line_that_creates_a_ledger_opens_it_at_every_other_start(path):
    first = PrivacyLedger(path, **GIVEN)
    reserve(first)
    again = PrivacyLedger(path, **GIVEN)
    assert again.identity == first.identity
    assert again.remaining()["epsilon"] == 1.5


def test_create_false_never_creates(path):
    for given in ({}, GIVEN):
        with pytest.raises(LedgerError, match="there is no ledger"):
            PrivacyLedger(path, create=False, **given)
    assert not os.path.exists(path)
    made = PrivacyLedger(path, create=True, **GIVEN)
    assert PrivacyLedger(path, create=False, **GIVEN).identity == made.identity
    with pytest.raises(ValueError, match=r"epsilon=3\.0.*was created with epsilon=2\.0"):
        PrivacyLedger(path, create=False, epsilon=3.0)


def test_create_true_never_opens(ledger, path):
    reserve(ledger)
    before = Path(path).read_bytes()
    with pytest.raises(LedgerError, match=r"create=True, but .* exists: open it with create=False"):
        PrivacyLedger(path, create=True, **GIVEN)
    os.truncate(path, 0)
    with pytest.raises(LedgerError, match="exists"):
        PrivacyLedger(path, create=True, **GIVEN)
    Path(path).write_bytes(before)
    assert ledger.remaining()["epsilon"] == 1.5
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        PrivacyLedger(f"{path}2", create=True)
    with pytest.raises(ValueError, match="create='yes' must be"):
        PrivacyLedger(path, create="yes")


def test_a_ledger_is_complete_when_it_appears(path, monkeypatch):
    write = store.write_terms

    def watched(db, terms):
        assert not os.path.exists(path)
        write(db, terms)
        assert not os.path.exists(path)

    monkeypatch.setattr(store, "write_terms", watched)
    assert PrivacyLedger(path, **GIVEN).remaining() == {"epsilon": 2.0, "delta": 1e-5}
    assert os.listdir(os.path.dirname(path)) == ["budget.db"]


def test_a_creation_that_fails_leaves_nothing(path, monkeypatch):
    def fails(db, terms):
        raise ZeroDivisionError

    monkeypatch.setattr(store, "write_terms", fails)
    with pytest.raises(ZeroDivisionError):
        PrivacyLedger(path, **GIVEN)
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize("links", [True, False])
def test_what_appears_meanwhile_is_left_as_it_is(links, path, monkeypatch):
    """A backup that is put back, say, or a ledger that another version creates."""

    def somebody_else_is_faster(db, terms):
        write(db, terms)
        Path(path).write_text("theirs")

    def refuses(*names):
        raise PermissionError

    write = store.write_terms
    monkeypatch.setattr(store, "write_terms", somebody_else_is_faster)
    if not links:
        monkeypatch.setattr(os, "link", refuses)
    with pytest.raises(LedgerError, match="appeared while this ledger was being made"):
        PrivacyLedger(path, **GIVEN)
    assert Path(path).read_text() == "theirs"
    assert os.listdir(os.path.dirname(path)) == ["budget.db"]
    os.unlink(path)
    monkeypatch.setattr(store, "write_terms", write)
    assert PrivacyLedger(path, **GIVEN).remaining() == {"epsilon": 2.0, "delta": 1e-5}
    assert os.listdir(os.path.dirname(path)) == ["budget.db"]


def test_a_creation_that_was_killed_when_all_was_done_is_finished_by_whoever_opens_it(ledger, path):
    os.link(path, f"{path}-new")
    assert ledger.remaining() == {"epsilon": 2.0, "delta": 1e-5}
    assert os.listdir(os.path.dirname(path)) == ["budget.db"]
    os.link(path, f"{path}-copy")
    with pytest.raises(LedgerError, match="has a second name"):
        ledger.remaining()


@pytest.mark.slow
def test_a_creation_that_was_killed_half_way_is_named_and_in_the_way_until_it_is_deleted(path):
    script = f"""
import os
from dpsk import PrivacyLedger
from dpsk.privacy.durable import store
store.write_terms = lambda db, terms: os.kill(os.getpid(), 9)
PrivacyLedger({path!r}, epsilon=2.0, delta=1e-5)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert not os.path.exists(path)
    with pytest.raises(LedgerError, match=r"budget.db-new' exists: another process is making this ledger.*delete that"):
        PrivacyLedger(path, timeout=0.1, **GIVEN)
    for left in os.listdir(os.path.dirname(path)):
        os.unlink(os.path.join(os.path.dirname(path), left))
    assert PrivacyLedger(path, **GIVEN).remaining() == {"epsilon": 2.0, "delta": 1e-5}


@pytest.mark.slow
def test_the_journal_of_a_ledger_that_is_gone_is_not_played_into_a_new_one(ledger, path):
    """A process is killed while it writes, then the file is deleted and the journal is not."""
    script = f"""
import os
from dpsk.privacy.durable.ledger_file import writing
with writing({path!r}, 1.0) as db:
    db.execute("PRAGMA cache_size = 1")
    db.execute("UPDATE terms SET epsilon = '1000.0'")
    for k in range(2000):
        db.execute("INSERT INTO accounts VALUES (?, '0', '0')", (f"{{k}}" * 50,))
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    os.unlink(path)
    assert os.path.exists(f"{path}-journal")
    with pytest.raises(LedgerError, match=r"budget.db-journal' belongs to a ledger that was at.*is gone"):
        PrivacyLedger(path, **GIVEN)
    assert not os.path.exists(path)
    os.unlink(f"{path}-journal")
    assert PrivacyLedger(path, **GIVEN).remaining() == {"epsilon": 2.0, "delta": 1e-5}


# -------------------------------------------------------------------------------------------------- the command line


def test_show_prints_the_name_and_refuses_an_emptied_file(ledger, path, capsys):
    assert main(["budget", "show", path]) == 0
    assert f"identity {ledger.identity}" in capsys.readouterr().out
    os.truncate(path, 0)
    assert main(["budget", "show", path]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "is an empty file" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert os.path.getsize(path) == 0
