"""The file of a ledger: what cannot be used is refused with a clear error, and what was written stays."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest

from dpsk import LedgerError, PrivacyLedger
from dpsk.privacy import Budget
from dpsk.privacy.durable import ledger_file
from dpsk.privacy.durable.ledger_file import reading, writing

BUDGET = Budget.of(0.5, 1e-6)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


@pytest.fixture
def ledger(path):
    return PrivacyLedger(path, epsilon=2.0, delta=1e-5, timeout=0.2)


def reserve(ledger):
    return ledger.reserve(BUDGET, label="fit", adjacency="zero-out", private=True)


def refused(ledger, match):
    """A reservation fails with this message, as a LedgerError that keeps SQLite's own as its cause."""
    with pytest.raises(LedgerError, match=match) as caught:
        reserve(ledger)
    assert ledger.path in str(caught.value)


# ------------------------------------------------------------------------------------------- transactions and bytes


def test_a_block_that_raises_writes_nothing(ledger, path):
    with contextlib.suppress(ZeroDivisionError), writing(path, 1.0) as db:
        db.execute("DELETE FROM accounts")
        raise ZeroDivisionError
    with reading(path, 1.0) as db:
        assert db.execute("SELECT count(*) FROM accounts").fetchone() == (1,)


def test_reading_writes_nothing(ledger, path):
    with contextlib.suppress(LedgerError), reading(path, 1.0) as db:
        db.execute("DELETE FROM accounts")
    assert ledger.remaining() == {"epsilon": 2.0, "delta": 1e-5}


def test_a_block_of_writing_keeps_other_writers_out_from_its_first_line(ledger, path):
    """Whoever reads a sum and writes it back must not be overtaken in between."""
    with writing(path, 1.0):
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()


def test_every_commit_is_on_disk_when_it_returns(ledger, path):
    with writing(path, 1.0) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,), "EXTRA: the directory as well"
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",), "nothing stays outside of the one file"


def test_the_file_alone_is_the_whole_ledger(ledger, path, tmp_path):
    reserve(ledger)
    assert os.listdir(tmp_path) == ["budget.db"]
    copy = shutil.copy(path, tmp_path / "copy.db")
    assert PrivacyLedger(copy).remaining() == ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6}


def test_no_connection_stays_open(ledger, path):
    reserve(ledger)
    open_files = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert path not in open_files


def test_no_fork_falls_into_an_operation(ledger, path):
    """A thread in the middle of an operation keeps a fork waiting until the connection is closed."""
    inside, order = threading.Event(), []

    def operation():
        with writing(path, 1.0):
            inside.set()
            time.sleep(0.2)
            order.append("written")

    thread = threading.Thread(target=operation)
    thread.start()
    inside.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which this is about
        number = os.fork()
        if number == 0:
            with contextlib.suppress(BaseException):
                reserve(ledger)  # the lock is free in the child
                os._exit(7)
            os._exit(1)
        order.append("forked")
        deadline = time.monotonic() + 30
        while (ended := os.waitpid(number, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if ended == (0, 0):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            pytest.fail("the child waits for a lock that nobody will release")
        assert os.waitstatus_to_exitcode(ended[1]) == 7
    thread.join()
    assert order == ["written", "forked"]


# ------------------------------------------------------------------------------------------------- what is refused


def test_a_missing_file_is_never_created_in_silence(path):
    for use in (
        lambda: PrivacyLedger(path),
        lambda: reading(path, 1.0).__enter__(),
        lambda: writing(path, 1.0).__enter__(),
    ):
        with pytest.raises(LedgerError, match=r"no ledger at .*Create it once.*PrivacyLedger\(.*epsilon"):
            use()
    assert not os.path.exists(path)


def test_a_ledger_that_was_deleted_is_not_made_anew(ledger, path):
    os.unlink(path)
    refused(ledger, "there is no ledger")
    assert not os.path.exists(path)


@pytest.mark.parametrize("given", [{}, {"epsilon": 2.0, "delta": 1e-5}], ids=["opened", "created"])
@pytest.mark.parametrize("create", [None, False])
def test_a_file_that_was_emptied_is_no_new_budget(ledger, path, given, create):
    """The line that created it runs at every start of a script: it must not make another ledger of the file."""
    reserve(ledger)
    os.truncate(path, 0)
    with pytest.raises(LedgerError, match=r"is an empty file.*restore a backup.*never did, delete it, and create"):
        PrivacyLedger(path, create=create, **given)
    refused(ledger, "is an empty file")
    assert os.path.getsize(path) == 0
    assert os.listdir(os.path.dirname(path)) == ["budget.db"]
    os.unlink(path)  # on purpose
    assert PrivacyLedger(path, epsilon=1.0, delta=0).remaining() == {"epsilon": 1.0, "delta": 0.0}


@pytest.mark.parametrize("given", [{}, {"epsilon": 1.0, "delta": 1e-6}], ids=["opened", "created"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: Path(path).write_text("name,age\nAda,36\n" * 100), "not a ledger, nor any other SQLite file"),
        (lambda path: Path(path).write_bytes(b"SQLite format 3\0" + b"x" * 2000), "ledger"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE t (a)").connection.close(), "another application"),
        (
            lambda path: sqlite3.connect(path).execute("PRAGMA user_version = 3").connection.close(),
            "another application",
        ),
        (lambda path: os.mkdir(path), "cannot be opened"),
    ],
    ids=["text", "garbage", "tables of another", "version of another", "directory"],
)
def test_a_foreign_file_is_refused_and_left_as_it_is(make, message, given, path):
    make(path)
    before = None if os.path.isdir(path) else Path(path).read_bytes()
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger(path, **given)
    assert before is None or Path(path).read_bytes() == before
    assert os.listdir(os.path.dirname(path)) == ["budget.db"]


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(LedgerError, match=r"nowhere.*cannot be opened"):
        PrivacyLedger(tmp_path / "nowhere" / "budget.db", epsilon=1.0, delta=1e-6)


def test_a_ledger_of_a_newer_version_is_refused_and_left_as_it_is(ledger, path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {ledger_file.VERSION + 1}")
    before = Path(path).read_bytes()
    refused(ledger, r"layout 4, made by a newer version of dpsk.*Upgrade")
    for given in ({}, {"epsilon": 2.0, "delta": 1e-5}):
        with pytest.raises(LedgerError, match="newer version"):
            PrivacyLedger(path, **given)
    assert Path(path).read_bytes() == before


def test_a_damaged_ledger_is_refused(ledger, path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    refused(ledger, "damaged")


def test_a_locked_ledger_is_waited_for_and_then_refused(ledger, path):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    start = time.perf_counter()
    refused(ledger, r"kept locked by another process for 0\.2 s")
    assert 0.15 < time.perf_counter() - start < 5
    assert "locked" in repr(ledger)
    holder.close()
    reserve(ledger)
    assert ledger.remaining()["epsilon"] == 1.5


def test_a_lock_that_is_released_in_time_is_no_error(ledger, path):
    command = "import sqlite3, sys, time; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
    command += "db.execute('BEGIN EXCLUSIVE'); print('held', flush=True); time.sleep(0.4); db.execute('ROLLBACK')"
    with subprocess.Popen([sys.executable, "-c", command, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        reserve(PrivacyLedger(path, timeout=30.0))
    assert ledger.remaining()["epsilon"] == 1.5


def test_a_full_disk_is_an_error_and_loses_nothing(ledger, path, monkeypatch):
    reserve(ledger)
    connect = ledger_file._connect

    def on_a_full_disk(*arguments):
        connection = connect(*arguments)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(ledger_file, "_connect", on_a_full_disk)
    with pytest.raises(LedgerError, match=r"the disk is full.*Nothing was recorded"):
        ledger.reserve(BUDGET, label="x" * 10_000, adjacency="zero-out", private=True)
    monkeypatch.undo()
    assert [spend.label for spend in ledger.history()] == ["fit"]
    assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6}
    ledger.statement()  # its sums are those of its records
    reserve(ledger)


@pytest.mark.slow
def test_a_file_that_cannot_grow_is_an_error_and_loses_nothing(ledger, path):
    """The operating system refuses the bytes: the limit of file sizes stands in for a disk without room."""
    script = f"""
import resource
from dpsk import LedgerError, PrivacyLedger
from dpsk.privacy import Budget
ledger = PrivacyLedger({path!r})
ledger.reserve(Budget.of(0.5, 1e-6), label="fit", adjacency="zero-out", private=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    ledger.reserve(Budget.of(0.5, 1e-6), label="fit", adjacency="zero-out", private=True)
except LedgerError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "Nothing was recorded" in result.stdout
    assert "disk" in result.stdout
    assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6}
    ledger.statement()


@contextlib.contextmanager
def as_nobody():
    """Without the superuser's right to write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_is_read_only_can_be_read_and_not_spent_from(what):
    with tempfile.TemporaryDirectory() as directory:  # one that others can enter, unlike tmp_path
        path = os.path.join(directory, "budget.db")
        ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, timeout=0.2)
        reserve(ledger)
        os.chmod(path, 0o444 if what == "file" else 0o666)
        os.chmod(directory, 0o777 if what == "file" else 0o555)
        with as_nobody():
            assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6}
            assert len(ledger.history()) == 1
            refused(ledger, "read-only|cannot be written")
            with pytest.raises(LedgerError, match=r"cannot be|read-only"):
                PrivacyLedger(os.path.join(directory, "new", "x.db"), epsilon=1.0, delta=1e-6)
        os.chmod(directory, 0o777)
        os.chmod(path, 0o666)
        assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6}
        reserve(ledger)


@pytest.mark.slow
def test_two_that_create_at_once_share_one_ledger(path):
    script = f"""
import sys
from dpsk import PrivacyLedger
from dpsk.privacy import Budget
print("ready", flush=True)
sys.stdin.readline()
ledger = PrivacyLedger({path!r}, epsilon=2.0, delta=1e-5)
ledger.reserve(Budget.of(0.25, 1e-6), label="fit", adjacency="zero-out", private=True)
"""
    command = [sys.executable, "-c", script]
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        racers = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(3)]
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 3  # all have imported
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert PrivacyLedger(path).remaining()["epsilon"] == 1.25
