"""The tables of a ledger file: its terms, its identity, the sum in each account, and what is told of each fit."""

import json
import sqlite3
import uuid
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from ..units import ROW
from .ledger_file import WITH_RESERVE, WITH_UNIT, LedgerError, layout
from .remarks import Remarks
from .terms import NOTHING, Amount, Spend, Terms

ALL = ""
"""The one account of a ledger whose data sets are not declared disjoint."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def identity(db: sqlite3.Connection) -> str | None:
    """Return the random name of the ledger; None if an older version made it and nobody has written to it since."""
    if not _has_table(db, "identity"):
        return None
    return str(db.execute("SELECT name FROM identity").fetchone()[0])


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    found: int = db.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    return bool(found)


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


def remark(db: sqlite3.Connection, token: str, remarks: Remarks) -> None:
    """Note what is told of a fit. Older versions ignore this table; fits that they record have no row in it."""
    db.execute(
        "CREATE TABLE IF NOT EXISTS remarks (token TEXT PRIMARY KEY, parameters TEXT NOT NULL, who TEXT NOT NULL, "
        "note TEXT NOT NULL)"
    )
    db.execute("INSERT INTO remarks VALUES (?, ?, ?, ?)", (token, remarks.parameters, remarks.who, remarks.note))


def spends(db: sqlite3.Connection, terms: Terms, on: tuple[str, ...]) -> list[Spend]:
    """Return everything that was recorded on these data sets, in order; none named stands for all of the data."""
    rows = db.execute(
        "SELECT number, label, datasets, private, epsilon, fit_delta, reserved, amount, delta, state, started, ended, "
        "token FROM fits ORDER BY number"
    )
    found, deltas, told = list[Spend](), reserved_deltas(db), _remarks(db)
    for number, label, datasets, private, *amounts, state, started, ended, token in rows:
        epsilon, fit_delta, reserved, main, delta = amounts
        names = tuple(json.loads(datasets))
        if on and names and not set(names) & set(on):
            continue
        of_delta = Fraction(fit_delta) if terms.currency == "basic" else deltas.get(number, Fraction(0))
        held = terms.as_dict(Amount(Fraction(reserved), of_delta) if private else NOTHING)
        counted = terms.as_dict(Amount(Fraction(main), Fraction(delta)))
        of_fit = number, label, names, bool(private), float(epsilon), float(fit_delta)
        parameters, who, note = told.get(token, (None, "", ""))
        found.append(Spend(*of_fit, held, counted, state, started, ended, token, parameters, who, note))
    return found


def _remarks(db: sqlite3.Connection) -> dict[str, tuple[dict[str, Any], str, str]]:
    if not _has_table(db, "remarks"):
        return {}
    rows = db.execute("SELECT token, parameters, who, note FROM remarks")
    return {token: (json.loads(parameters), who, note) for token, parameters, who, note in rows}


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
