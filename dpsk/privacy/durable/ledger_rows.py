"""The tables of a ledger file: its terms, its identity, and the sum in each account."""

import json
import sqlite3
import uuid
from datetime import UTC, datetime
from fractions import Fraction

from ..units import ROW
from .ledger_file import WITH_RESERVE, WITH_UNIT, LedgerError, layout
from .terms import NOTHING, Amount, Terms

ALL = ""
"""The one account of a ledger whose data sets are not declared disjoint."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def identity(db: sqlite3.Connection) -> str | None:
    """Return the random name of the ledger; None if an older version made it and nobody has written to it since."""
    if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'identity'").fetchone()[0]:
        return None
    return str(db.execute("SELECT name FROM identity").fetchone()[0])


def identify(db: sqlite3.Connection) -> str:
    """Give the ledger a random name and return it. Older versions ignore its table, so they can go on writing."""
    name = uuid.uuid4().hex
    db.execute("CREATE TABLE identity (name TEXT NOT NULL)")
    db.execute("INSERT INTO identity VALUES (?)", (name,))
    return name


def write_terms(db: sqlite3.Connection, terms: Terms) -> None:
    budget = repr(terms.epsilon), repr(terms.delta), terms.currency, str(terms.limit.main)
    rest = terms.adjacency, json.dumps(terms.disjoint), terms.allow_nonprivate, now()
    db.execute("INSERT INTO terms VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*budget, *rest))
    if terms.reserve or terms.unit != ROW:
        db.execute(f"ALTER TABLE terms ADD COLUMN reserve TEXT NOT NULL DEFAULT '{terms.reserve!r}'")
        db.execute("ALTER TABLE fits ADD COLUMN reserved_delta TEXT NOT NULL DEFAULT '0'")
        db.execute(f"PRAGMA user_version = {WITH_RESERVE}")
    if terms.unit != ROW:
        db.execute("CREATE TABLE unit (name TEXT NOT NULL)")
        db.execute("INSERT INTO unit VALUES (?)", (terms.unit,))
        db.execute(f"PRAGMA user_version = {WITH_UNIT}")
    db.executemany("INSERT INTO accounts VALUES (?, '0', '0')", [(name,) for name in terms.disjoint or (ALL,)])


def read_terms(db: sqlite3.Connection) -> Terms:
    rows = db.execute("SELECT epsilon, delta, currency, amount, adjacency, disjoint, allow_nonprivate FROM terms")
    epsilon, delta, currency, amount, adjacency, disjoint, allow = rows.fetchone()
    reserve = db.execute("SELECT reserve FROM terms").fetchone()[0] if _has_reserve(db) else "0"
    limit = Amount(Fraction(amount), Fraction(delta if currency == "basic" else reserve))
    promise = float(epsilon), float(delta), currency, limit
    unit = str(db.execute("SELECT name FROM unit").fetchone()[0]) if layout(db) >= WITH_UNIT else ROW
    return Terms(*promise, adjacency, tuple(json.loads(disjoint)), bool(allow), float(reserve), unit)


def set_aside_delta(db: sqlite3.Connection, token: str, delta: Fraction) -> None:
    """Note how much of the reserve was set aside for a fit."""
    if _has_reserve(db):
        db.execute("UPDATE fits SET reserved_delta = ? WHERE token = ?", (str(delta), token))


def reserved_deltas(db: sqlite3.Connection) -> dict[int, Fraction]:
    """Return, by the number of the fit, how much of the reserve was set aside."""
    rows = db.execute("SELECT number, reserved_delta FROM fits") if _has_reserve(db) else ()
    return {number: Fraction(delta) for number, delta in rows}


def _has_reserve(db: sqlite3.Connection) -> bool:
    return layout(db) >= WITH_RESERVE


def account(db: sqlite3.Connection, name: str) -> Amount:
    main, delta = db.execute("SELECT amount, delta FROM accounts WHERE dataset = ?", (name,)).fetchone()
    return Amount(Fraction(main), Fraction(delta))


def set_account(db: sqlite3.Connection, name: str, amount: Amount) -> None:
    db.execute(
        "UPDATE accounts SET amount = ?, delta = ? WHERE dataset = ?", (str(amount.main), str(amount.delta), name)
    )


def require_sums(db: sqlite3.Connection, terms: Terms, path: str) -> None:
    """Raise LedgerError unless every account is the sum of what is recorded for it."""
    sums = dict.fromkeys(terms.disjoint or (ALL,), NOTHING)
    counted = "SELECT datasets, amount, delta, count(*) FROM fits GROUP BY datasets, amount, delta"
    for datasets, main, delta, count in db.execute(counted):
        names = tuple(dict.fromkeys(json.loads(datasets))) if terms.disjoint else ()
        for name in names or sums:
            sums[name] += Amount(count * Fraction(main), count * Fraction(delta))
    if sums != {name: account(db, name) for name in sums}:
        raise LedgerError(
            f"the ledger {path!r} is damaged: its sums are not those of its records. Restore a "
            "backup, and count what was fitted since"
        )
