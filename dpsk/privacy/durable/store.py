"""The durable ledger: one budget, in one file, for every fit on the same data."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import uuid
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from typing import Any, Self

from ..allowance import Allowance
from ..ledger import Budget, BudgetExhausted, Ledger
from ..units import ROW
from .ledger_file import LedgerError, created, reading, writing
from .ledger_rows import (
    ALL,
    account,
    identify,
    identity,
    now,
    read_terms,
    require_sums,
    reserved_deltas,
    set_account,
    set_aside_delta,
    write_terms,
)
from .ledger_statement import ledger_statement, number_of
from .terms import NOTHING, Amount, Spend, Terms


class PrivacyLedger:
    """One privacy budget for everything that is done with the same data, kept in a file.

    Hand it to estimators as ``ledger=``. Clones, threads, processes and later sessions that use the same file share the
    budget: each fit sets its whole cap aside before it computes anything for release, or raises
    :class:`~dpsk.BudgetExhausted` and draws nothing. A crash leaves what was set aside counted.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 12.2 to 12.7, 12.9 and 12.10)
    Everything that fits and scores recorded here release, together, is (epsilon, delta)-differentially private for
    each unit, whatever was chosen on the way and in which order, also while fits run at the same time (Rogers, Roth,
    Ullman & Vadhan 2016; Feldman & Zrnic 2021; Smith & Thakurta 2022; Haney et al. 2023):

    * An account holds the sum of the caps of open fits and of what closed fits counted at the end. A transaction adds a
      cap only if the sum stays within the limit, and is on disk before the fit computes anything for release.
    * A fit whose own filter is kept in the currency of the ledger counts, once it has ended, as what it charged. Others
      keep the whole cap: sampled batches, pure epsilon, privacy loss distributions and everything under "basic".
    * A fit that ended before it charged anything drew nothing and counts for nothing.
    * If it is fixed and public which data set a unit belongs to, each disjoint data set has an account of its own, and
      a fit on several counts in all of theirs. (Numbers of rows are public for each data set.)

    The guarantee is ``epsilon`` and ``delta``, not what is counted so far: how much that is may depend on the data.

    Parameters
    ----------
    path : str or path
        The file. Its directory must be writable, and on a local disk: locks of network file systems are not reliable.
    epsilon, delta : float
        The budget of the data: needed to create the ledger, and read from the file afterwards. Whatever is given when
        an existing ledger is opened has to agree with it.
    currency : {"basic", "rho", "mu**2"}, default="basic"
        What adds up: epsilons and deltas, for every kind of fit; or rho or mu squared, which grow far more slowly over
        many fits, for fits that have one (on all rows: random batches have neither).
    adjacency : {"zero-out", "replace"}, default="zero-out"
        Which data sets are neighbours. Fits with another adjacency protect something else and are refused.
    disjoint : list of names, default=None
        Names of data sets that have no row, or no person, in common, such as two hospitals: each then has the whole
        budget to itself. It must be fixed and public which of them a unit belongs to. None: everything adds up,
        whatever its name.
    allow_nonprivate : bool, default=False
        Whether to record fits that are not private (with ``random_state``, or ``epsilon=inf``) instead of refusing
        them. They count for nothing and void the guarantee, which :meth:`statement` then says.
    reserve : float, default=0
        With ``currency="mu**2"``: the part of delta that is for fits that discover the values of columns. Their
        failures add up to at most this; a fit that ended before its discovery returns its part.
    unit : str, default="row"
        What is protected: "row", or a name for the persons whose rows are protected together, such as "patient". Fits
        of another unit are refused. Fits with ``group_column="patient"`` go on a ledger of patients, and so do fits
        whose ids are given as ``groups``, which are then taken to be those of patients.
    create : bool or None, default=None
        None: open the ledger; if there is no file and a budget is given, create it. True: create the ledger, and refuse
        if there is a file. False: open the ledger, and refuse if there is no file. Use False in scripts that run often,
        so that a lost file does not become a new budget.
    timeout : float, default=60.0
        How many seconds to wait while another process writes.

    Examples
    --------
    >>> import tempfile
    >>> from dpsk import PrivacyLedger
    >>> ledger = PrivacyLedger(tempfile.mkdtemp() + "/patients.db", epsilon=2.0, delta=1e-5)
    >>> ledger.remaining()
    {'epsilon': 2.0, 'delta': 1e-05}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        currency: str | None = None,
        adjacency: str | None = None,
        disjoint: Iterable[str] | None = None,
        allow_nonprivate: bool | None = None,
        reserve: float | None = None,
        unit: str | None = None,
        create: bool | None = None,
        timeout: float = 60.0,
    ) -> None:
        if create is not None and not isinstance(create, bool):
            raise ValueError(f"create={create!r} must be True, False or None")
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 <= timeout < math.inf:
            raise ValueError(f"timeout={timeout!r} must be a number of seconds")
        self._bind(_as_path(path), (), float(timeout))
        given: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "currency": currency,
            "adjacency": adjacency,
            "disjoint": disjoint if disjoint is None or isinstance(disjoint, str) else tuple(disjoint),
            "allow_nonprivate": allow_nonprivate,
            "reserve": reserve,
            "unit": unit,
        }
        has_budget = epsilon is not None or delta is not None
        if create or (create is None and has_budget and not os.path.exists(self._path)):
            self._create(Terms.fixed(**given), refuse_existing=bool(create))
        self.terms().require(self._path, **given)
        if self._identity is None:  # the ledger of an older version: a file that cannot be written stays without a name
            with suppress(LedgerError), self._writing():
                pass

    def _create(self, terms: Terms, *, refuse_existing: bool) -> None:
        with created(self._path, self._timeout) as db:
            if db is not None:
                write_terms(db, terms)
                identify(db)
            elif refuse_existing:
                raise LedgerError(f"create=True, but {self._path!r} exists: open it with create=False")

    def _bind(self, path: str, datasets: tuple[str, ...], timeout: float, identity: str | None = None) -> Self:
        self._path, self._datasets, self._timeout, self._identity = path, datasets, timeout, identity
        return self

    @contextmanager
    def _reading(self, timeout: float | None = None) -> Iterator[sqlite3.Connection]:
        """Give a connection to the ledger that this handle knows, or is about to know."""
        self._require_here()
        with reading(self._path, self._timeout if timeout is None else timeout) as db:
            self._identity = self._recognised(db)
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that alone may write to it. A ledger without a name gets one."""
        self._require_here()
        with writing(self._path, self._timeout) as db:
            found = self._recognised(db) or identify(db)
            yield db
        self._identity = found

    def _require_here(self) -> None:
        if self._identity is not None and not os.path.exists(self._path):
            raise LedgerError(
                f"there is no ledger at {self._path!r} any more: it was deleted or moved. Restore a backup, and "
                "count what was fitted since"
            )

    def _recognised(self, db: sqlite3.Connection) -> str | None:
        """Return the name in the file; raise LedgerError if it is not the one that was there before."""
        found = identity(db)
        if self._identity not in (None, found):
            raise LedgerError(
                f"{self._path!r} is another ledger ({found}) than the one that was used here ({self._identity}). The "
                "first one was deleted or replaced, and its record is not here. Restore it from a backup. If this "
                f"ledger is for other data, open it anew: PrivacyLedger({self._path!r})"
            )
        return found

    @property
    def path(self) -> str:
        """Where the ledger is."""
        return self._path

    @property
    def identity(self) -> str | None:
        """The random name of the ledger; None before a look at the file, or for one of an older version (read-only)."""
        return self._identity

    @property
    def datasets(self) -> tuple[str, ...]:
        """Which data sets fits with this handle are on; none named stands for all of the data."""
        return self._datasets

    def on(self, *datasets: str) -> PrivacyLedger:
        """Return a handle on the same ledger for fits on the data set, or data sets, with these names."""
        self.terms().require_datasets(datasets)
        return _handle(self._path, datasets, self._timeout, self._identity)

    def terms(self) -> Terms:
        """Return what was fixed at creation."""
        with self._reading() as db:
            return read_terms(db)

    # ---------------------------------------------------------------------------------------------- spending

    @contextmanager
    def fit(
        self, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW
    ) -> Iterator[Ledger | None]:
        """Set the budget of one fit aside, then give the filter that the fit has to charge; settle when it ends.

        ``budget`` is None for a fit without any privacy. Raises :class:`~dpsk.BudgetExhausted` if the budget does not
        fit, ValueError if the ledger refuses such fits, and LedgerError if it cannot be written.
        """
        reservation = self.reserve(budget, label=label, adjacency=adjacency, private=private, unit=unit)
        filtered = None if budget is None else Ledger(budget, unit=reservation.unit)
        try:
            yield filtered
        finally:
            reservation.end(filtered)

    def reserve(
        self, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW
    ) -> Reservation:
        """Set the whole budget aside, on disk when this returns; :meth:`fit` does this and settles."""
        private = private and budget is not None
        with self._writing() as db:
            terms = read_terms(db)
            terms.require_fit(label, adjacency, private, unit)
            amount = self._amount(db, terms, budget if private else None, label)
            for name in self._accounts(terms):
                set_account(db, name, account(db, name) + amount)
            token, main, delta = uuid.uuid4().hex, str(amount.main), str(amount.delta)
            promise = (math.inf, 0.0) if budget is None else (budget.epsilon, budget.delta)
            db.execute(
                "INSERT INTO fits (token, label, datasets, private, epsilon, fit_delta, reserved, amount, delta, "
                "state, started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)",
                (token, label, json.dumps(self._datasets), private, *map(repr, promise), main, main, delta, now()),
            )
            set_aside_delta(db, token, amount.delta)
        return Reservation(self, token, budget, private, terms)

    def require_room(
        self, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW
    ) -> None:
        """Raise what :meth:`reserve` would raise now, without a trace. Without a budget, something has to be left."""
        with self._reading() as db:
            terms = read_terms(db)
            terms.require_fit(label, adjacency, private, unit)
            self._amount(db, terms, budget if private else None, label)
            left = self._left(db, terms)
            if private and not left.main > 0:
                raise BudgetExhausted(f"nothing of {terms.words(terms.limit)} is left in {self._name()} for {label}")

    def _amount(self, db: sqlite3.Connection, terms: Terms, budget: Budget | None, label: str) -> Amount:
        """Return what a fit with this budget sets aside; raise BudgetExhausted if it does not fit into an account."""
        terms.require_datasets(self._datasets)
        require_sums(db, terms, self._path)
        amount = NOTHING if budget is None else terms.price(budget)
        for name in self._accounts(terms):
            held = account(db, name)
            if not (held + amount).fits_into(terms.limit):
                raise BudgetExhausted(
                    f"{label} asks for {terms.words(amount)}, but {terms.words(terms.limit - held)} of "
                    f"{terms.words(terms.limit)} is left in {self._name(name)}. Nothing was drawn"
                    f"{terms.remedy(amount, terms.limit - held)}"
                )
        return amount

    def _accounts(self, terms: Terms) -> tuple[str, ...]:
        """Return the accounts in which a fit with this handle counts: all of them where no data set is named."""
        if not terms.disjoint:
            return (ALL,)
        return tuple(dict.fromkeys(self._datasets)) or terms.disjoint

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger into another file. Copying it by other means while this process uses it would undo its locks.

        A backup knows nothing of later fits: where it has to be restored, they count as well.
        """
        copy = _as_path(path)
        if os.path.exists(copy):
            raise ValueError(f"path={copy!r} exists: a backup goes into a new file")
        with self._reading() as db, closing(sqlite3.connect(copy)) as other:
            db.backup(other)

    # ---------------------------------------------------------------------------------------------- reading

    def remaining(self) -> dict[str, float]:
        """Return what is left for a fit with this handle, rounded down: asking for exactly this much fits."""
        with self._reading() as db:
            terms = read_terms(db)
            return terms.as_dict(self._left(db, terms))

    def left(self) -> Amount:
        """Return what is left for a fit with this handle, exactly."""
        with self._reading() as db:
            return self._left(db, read_terms(db))

    def _left(self, db: sqlite3.Connection, terms: Terms) -> Amount:
        left = [terms.limit - account(db, name) for name in self._accounts(terms)]
        return Amount(min(amount.main for amount in left), min(amount.delta for amount in left))

    def history(self) -> list[Spend]:
        """Return everything that was recorded on the data sets of this handle, in order."""
        with self._reading() as db:
            return self._history(db, read_terms(db), self._datasets)

    def _history(self, db: sqlite3.Connection, terms: Terms, on: tuple[str, ...]) -> list[Spend]:
        rows = db.execute(
            "SELECT number, label, datasets, private, epsilon, fit_delta, reserved, amount, delta, state, started, "
            "ended FROM fits ORDER BY number"
        )
        spends, deltas = [], reserved_deltas(db)
        for number, label, datasets, private, epsilon, fit_delta, reserved, main, delta, state, started, ended in rows:
            names = tuple(json.loads(datasets))
            if on and names and not set(names) & set(on):
                continue
            of_delta = Fraction(fit_delta) if terms.currency == "basic" else deltas.get(number, Fraction(0))
            set_aside = Amount(Fraction(reserved), of_delta)
            held = terms.as_dict(set_aside if private else NOTHING)
            counted = terms.as_dict(Amount(Fraction(main), Fraction(delta)))
            of_fit = number, label, names, bool(private), float(epsilon), float(fit_delta)
            spends.append(Spend(*of_fit, held, counted, state, started, ended))
        return spends

    def statement(self) -> str:
        """Return a paragraph for a report: what is promised for everything recorded, and what is not."""
        with self._reading() as db:
            terms = read_terms(db)
            names = self._datasets if terms.disjoint else ()  # names of others are labels: rows may lie in several
            spends = self._history(db, terms, names)
            left = self._left(db, terms)
            require_sums(db, terms, self._path)
        return ledger_statement(terms, spends, left, names)

    def _name(self, account: str = ALL) -> str:
        names = (account,) if account != ALL else self._datasets
        return f"PrivacyLedger({self._path!r})" + (f".on({', '.join(map(repr, names))})" if names else "")

    def __repr__(self) -> str:
        try:
            with self._reading(min(self._timeout, 1.0)) as db:
                terms = read_terms(db)
                left = terms.words(self._left(db, terms))
                count = db.execute("SELECT count(*) FROM fits WHERE state != 'returned'").fetchone()[0]
        except (LedgerError, OSError) as error:
            return f"<{self._name()}: {'missing' if not os.path.exists(self._path) else error}>"
        more = f", reserve={terms.reserve:g}" if terms.reserve else ""
        more += f", unit={terms.unit!r}" if terms.unit != ROW else ""
        return (
            f"<{self._name()}: epsilon={terms.epsilon:g}, delta={terms.delta:g}, currency={terms.currency!r}{more}; "
            f"{left} left after {number_of(count, 'fit')}>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyLedger):
            return NotImplemented
        return (self._path, self._datasets) == (other._path, other._datasets)

    def __hash__(self) -> int:
        return hash((self._path, self._datasets))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _handle, (self._path, self._datasets, self._timeout, self._identity)


class Reservation:
    """The reservation of one fit, under a name that no other fit has in any file. It holds no connection."""

    def __init__(self, ledger: PrivacyLedger, token: str, budget: Budget | None, private: bool, terms: Terms) -> None:
        self._store, self._token, self._budget, self._private, self._terms = ledger, token, budget, private, terms
        self._process = os.getpid()

    @property
    def unit(self) -> str:
        """The unit of the ledger, which the fit protects: ids in an array have no name of their own."""
        return self._terms.unit

    def end(self, filtered: Ledger | None) -> None:
        """Record the end of the fit that charged ``filtered``, which is closed; None leaves the reservation whole.

        In a forked copy this does nothing: the fit goes on in the process that began it. If the file cannot be written,
        the whole reservation stays counted, and a warning says so: what was trained and paid for is not lost.
        """
        if self._process != os.getpid():
            return
        charged, failure = (math.inf, 0.0) if filtered is None else (filtered.close(), filtered.failure)
        try:
            self._close(charged, failure)
        except LedgerError as error:
            warnings.warn(
                f"the end of this fit could not be recorded, so all that it set aside stays counted: {error}",
                UserWarning,
                stacklevel=2,
            )

    def _close(self, charged: float, failure: float) -> None:
        store = self._store
        with store._writing() as db:
            terms = read_terms(db)
            require_sums(db, terms, store._path)
            row = db.execute("SELECT amount, delta, state FROM fits WHERE token = ?", (self._token,)).fetchone()
            if row is None:
                raise LedgerError(f"{store._path!r} is another file than the one in which this fit was set aside")
            if row[2] != "open":
                return
            held, kept = Amount(Fraction(row[0]), Fraction(row[1])), NOTHING
            if self._private and self._budget is not None and charged > 0:
                kept = terms.settled(self._budget, charged, failure)
            if not kept.fits_into(held):  # cannot be: then nothing is given back
                kept = held
            for name in store._accounts(terms):
                set_account(db, name, account(db, name) - held + kept)
            db.execute(
                "UPDATE fits SET amount = ?, delta = ?, state = ?, ended = ? WHERE token = ?",
                (str(kept.main), str(kept.delta), "closed" if charged > 0 else "returned", now(), self._token),
            )


@contextmanager
def set_aside(
    ledger: Any, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW
) -> Iterator[Any]:
    """Give the Ledger of one fit (None without a budget), after ``ledger`` reserved its whole budget.

    ``ledger`` is the parameter of the estimator; None reserves nothing. The unit of what is given is that of the
    durable ledger, if there is one, and ``unit`` otherwise.
    """
    durable = ledger if isinstance(ledger, Allowance) else as_ledger(ledger)
    if durable is None:
        yield None if budget is None else Ledger(budget, unit=unit)
    else:
        with durable.fit(budget, label=label, adjacency=adjacency, private=private, unit=unit) as filtered:
            yield filtered


def require_room(
    ledger: Any, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW
) -> None:
    """Raise what :func:`set_aside` would raise now; without a budget, what is known before one is."""
    durable = None if isinstance(ledger, Allowance) else as_ledger(ledger)
    if durable is not None:
        durable.require_room(budget, label=label, adjacency=adjacency, private=private, unit=unit)


def as_ledger(value: Any) -> PrivacyLedger | None:
    """Return the ledger for the parameter ``ledger`` of an estimator; a path must lead to an existing ledger."""
    if value is None or isinstance(value, PrivacyLedger):
        return value
    if isinstance(value, str | os.PathLike):
        return _handle(_as_path(value), (), 60.0)
    raise ValueError(f"ledger={value!r} must be None, a PrivacyLedger, or the path of one")


def _handle(path: str, datasets: tuple[str, ...], timeout: float, identity: str | None = None) -> PrivacyLedger:
    """Return a handle without looking at the file: a pickle may be read on a machine that does not have the file."""
    return PrivacyLedger.__new__(PrivacyLedger)._bind(path, datasets, timeout, identity)


def _as_path(path: Any) -> str:
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise ValueError(f"path={path!r} must be the name of a file, as a string or path")
    return os.path.realpath(text)
