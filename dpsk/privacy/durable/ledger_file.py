"""One SQLite file, opened for one operation at a time. After a write the data are on disk, or an error is raised."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

APPLICATION = int.from_bytes(b"dpsk", "big")
"""What SQLite files of this kind are marked with (``PRAGMA application_id``)."""

PLAIN, WITH_RESERVE, WITH_UNIT = 1, 2, 3
"""The layouts (``PRAGMA user_version``), each with all of the one before.

A ledger gets the first that holds its terms: the second for a reserve for discoveries, the third for a unit of
protection other than the row. So older versions can use the ledgers that they understand, and refuse the others.
"""

VERSION = WITH_UNIT
"""The newest layout this version can read."""

_LAYOUT = """
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
"""


class LedgerError(RuntimeError):
    """A ledger file cannot be used. Nothing was recorded, so nothing may be drawn."""


# Threads of one process wait here rather than in SQLite, and no fork falls into the middle of an operation: the child
# would hold a second copy of an open connection.
_one_at_a_time = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release, after_in_child=_one_at_a_time.release
    )


def _connect(path: str, mode: str, timeout: float) -> sqlite3.Connection:
    """Open the file for one operation. When a commit returns, it is on disk, and so is the directory's entry.

    The rollback journal (SQLite's default) keeps everything in one file whenever no operation is under way; a
    write-ahead log would not.
    """
    if os.path.isfile(path) and os.stat(path).st_nlink > 1 and not _finished(path):
        raise LedgerError(
            f"{path!r} has a second name (a hard link). After a crash under one name SQLite could not restore the file "
            "under the other. Delete one of the names"
        )
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode={mode}", uri=True, timeout=timeout, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync does not reach the disk
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def reading(path: str, timeout: float) -> Iterator[sqlite3.Connection]:
    """Give a connection that sees one state of an existing ledger."""
    with _one_at_a_time, _explained(path, timeout), closing(_connect(_existing(path), "rw", timeout)) as connection:
        _require_ledger(connection, path)
        connection.execute("BEGIN")
        yield connection
        connection.execute("ROLLBACK")


@contextmanager
def writing(path: str, timeout: float) -> Iterator[sqlite3.Connection]:
    """Give a connection that alone may write to an existing ledger.

    All is recorded when the block ends, nothing if it raises.
    """
    with _one_at_a_time, _explained(path, timeout), closing(_connect(_existing(path), "rw", timeout)) as connection:
        _require_ledger(connection, path)
        with _transaction(connection):
            _require_ledger(connection, path)
            yield connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def created(path: str, timeout: float) -> Iterator[sqlite3.Connection | None]:
    """Give a connection to a new ledger with empty tables; None if there is a ledger at ``path`` already.

    The file is made under another name, which only one process at a time can hold. It gets the name ``path`` when it
    is complete, at the end of the block. So an empty file at ``path`` is never a ledger in the making: somebody
    emptied it.
    """
    making = _making(path)
    with _one_at_a_time:
        if not _claimed(making, path, timeout):
            yield None
            return
        try:
            if os.path.lexists(path):
                yield None
                return
            _require_no_traces(path)
            with (
                _explained(path, timeout),
                closing(_connect(making, "rw", timeout)) as connection,
                _transaction(connection),
            ):
                for statement in _LAYOUT.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {PLAIN}")
                yield connection
            _publish(making, path)
        finally:  # if somebody else has this name by now, the ledger exists, and it is of no use to them
            with suppress(FileNotFoundError):
                os.unlink(making)
        _sync_directory(os.path.dirname(path))


def _making(path: str) -> str:
    return f"{path}-new"


def _publish(making: str, path: str) -> None:
    """Give a complete ledger its name, unless something has it."""
    try:
        try:
            os.link(making, path)  # unlike renaming it never replaces a file
        except FileExistsError:
            raise
        except OSError:  # there are file systems without second names
            if os.path.lexists(path):
                raise FileExistsError from None
            os.rename(making, path)
    except FileExistsError:
        raise LedgerError(f"{path!r} appeared while this ledger was being made, and was not changed: open it") from None


def _finished(path: str) -> bool:
    """Remove the temporary name of a complete ledger, if the process that made it stopped before it did so."""
    try:
        if not os.path.samefile(path, _making(path)):
            return False
        os.unlink(_making(path))
    except FileNotFoundError:
        pass
    return os.stat(path).st_nlink == 1


def _claimed(making: str, path: str, timeout: float) -> bool:
    """Return whether this process may make the ledger: False once another one has made it."""
    deadline = time.monotonic() + timeout
    while not os.path.lexists(path):
        try:
            os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        except FileExistsError:
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            raise LedgerError(
                f"{making!r} exists: another process is making this ledger, or ended half-way. If none is, delete that "
                "file and try again"
            ) from None
        except OSError as error:
            raise LedgerError(f"the ledger {path!r} {_NOT_THERE} [{error.strerror}]. Nothing was recorded") from error
        return True
    return False


def _require_no_traces(path: str) -> None:
    """Raise LedgerError if the journal of another ledger lies here: SQLite would copy it into the new ledger."""
    journal = f"{path}-journal"
    if os.path.lexists(journal):
        raise LedgerError(
            f"{journal!r} belongs to a ledger that was at {path!r} and is gone. Restore a backup of it, and count what "
            "was fitted since. If you want a new budget, delete the journal"
        )


def _sync_directory(directory: str) -> None:
    """Write the directory entry of a file to disk, on systems where directories can be opened for that."""
    with suppress(OSError):
        number = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _existing(path: str) -> str:
    if not os.path.exists(path):
        raise LedgerError(
            f"there is no ledger at {path!r}. Create it once, with the budget of the data: "
            f"PrivacyLedger({path!r}, epsilon=..., delta=...)"
        )
    return path


def layout(connection: sqlite3.Connection) -> int:
    """Return the layout of a ledger."""
    return _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return not (tables or _pragma(connection, "application_id") or _pragma(connection, "user_version"))


def _require_ledger(connection: sqlite3.Connection, path: str) -> None:
    """Raise LedgerError unless the file is a ledger of a layout known here."""
    if _is_empty(connection):
        raise LedgerError(
            f"{path!r} is an empty file, not a ledger. If it held one, its record is lost: restore a backup, and count "
            "what was fitted since. If it never did, delete it, and create the ledger with the budget of the data: "
            f"PrivacyLedger({path!r}, epsilon=..., delta=...)"
        )
    if _pragma(connection, "application_id") != APPLICATION:
        raise LedgerError(f"{path!r} is an SQLite file of another application, not a ledger; it was left as it is")
    version = layout(connection)
    if version > VERSION:
        raise LedgerError(
            f"the ledger {path!r} has layout {version}, made by a newer version of dpsk; this one knows layouts up to "
            f"{VERSION}. Upgrade dpsk; the ledger was left as it is"
        )
    if version < 1:
        raise LedgerError(
            f"the ledger {path!r} is damaged: layout {version} does not exist. Restore a backup, "
            "and count what was fitted since"
        )


_NOT_THERE = "cannot be opened, or its directory cannot be written: is it there, and may you write there?"


@contextmanager
def _explained(path: str, timeout: float) -> Iterator[None]:
    """Turn errors of SQLite into what is wrong with the file, and what helps."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        locked = f"was kept locked by another process for {timeout:g} s: try again, or give a longer timeout"
        reasons = {
            sqlite3.SQLITE_BUSY: locked,
            sqlite3.SQLITE_LOCKED: locked,
            sqlite3.SQLITE_READONLY: "cannot be written: the file or its directory is read-only",
            sqlite3.SQLITE_IOERR: "could not be written or read (is the disk full, or was it removed?)",
            sqlite3.SQLITE_CORRUPT: "is damaged: restore a backup, and count what was fitted since",
            sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
            sqlite3.SQLITE_CANTOPEN: _NOT_THERE,
            sqlite3.SQLITE_NOTADB: "cannot be read: not a ledger, nor any other SQLite file; it was left as it is",
        }
        reason = reasons.get(code, "could not be used")
        raise LedgerError(f"the ledger {path!r} {reason} [SQLite: {error}]. Nothing was recorded") from error
