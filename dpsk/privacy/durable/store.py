"""The durable ledger: one budget, in one file, for every fit on the same data."""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from ..allowance import Allowance
from ..ledger import Budget, BudgetExhausted, Ledger, Recorded
from ..units import ROW
from .capacity import advice
from .handle import Handle
from .ledger_file import LedgerError, created
from .ledger_rows import (
    ALL,
    account,
    identify,
    now,
    read_terms,
    remark,
    require_sums,
    set_account,
    set_aside_delta,
    spends,
    write_terms,
)
from .ledger_statement import as_plain, ledger_statement, number_of
from .remarks import Remarks, checked_remark
from .reservation import Reservation
from .terms import NOTHING, Amount, Spend, Terms
from .whereabouts import travels_whole


class PrivacyLedger(Handle):
    """One privacy budget for everything that is done with the same data, kept in a file.

    Hand it to estimators as ``ledger=``. Clones, threads, processes and later sessions that use the same file share the
    budget: each fit sets its whole cap aside before it computes anything for release, or raises
    :class:`~dpsk.BudgetExhausted` and draws nothing. A crash leaves what was set aside counted.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 12.2 to 12.7 and 12.9 to 12.11)
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
    note, who : str, default=None
        Why, and by whom: recorded with every fit of this handle, and no terms of the ledger. Without ``who`` it is the
        login name ("" for none).

    Examples
    --------
    >>> import tempfile
    >>> from dpsk import PrivacyLedger
    >>> ledger = PrivacyLedger(tempfile.mkdtemp() + "/patients.db", epsilon=2.0, delta=1e-5, currency="basic")
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
        note: str | None = None,
        who: str | None = None,
    ) -> None:
        if create is not None and not isinstance(create, bool):
            raise ValueError(f"create={create!r} must be True, False or None")
        seconds, said = _as_seconds(timeout), (checked_remark("note", note), checked_remark("who", who))
        self._bind(_as_path(path), (), seconds, None, *said)
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
        if create or (create is None and has_budget and not os.path.exists(self.path)):
            self._create(Terms.fixed(**given), refuse_existing=bool(create), advise=currency is None)
        self.terms().require(self.path, **given)
        if self._identity is None:  # the ledger of an older version: a file that cannot be written stays without a name
            with suppress(LedgerError), self._writing():
                pass

    def _create(self, terms: Terms, *, refuse_existing: bool, advise: bool) -> None:
        with created(self.path, self._timeout) as db:
            if db is not None:
                write_terms(db, terms)
                identify(db)
            elif refuse_existing:
                raise LedgerError(f"create=True, but {self.path!r} exists: open it with create=False")
        if advise and db is not None and (told := advice(terms)):
            logging.getLogger("dpsk").warning(told)

    def on(self, *datasets: str, note: str | None = None, who: str | None = None) -> PrivacyLedger:
        """Return a handle on the same ledger for fits on the data set, or data sets, with these names.

        ``note`` and ``who`` are recorded with these fits; what is left out stays as it is. With one of them and without
        a name, the data sets of this handle stay as well; with nothing at all the handle is for all of the data.
        """
        note, who = checked_remark("note", note), checked_remark("who", who)
        self.terms().require_datasets(datasets)
        stays = not datasets and not (note is None and who is None)
        of_fits = self._note if note is None else note, self._who if who is None else who
        return _handle(self.path, self._datasets if stays else datasets, self._timeout, self._identity, *of_fits)

    def terms(self) -> Terms:
        """Return what was fixed at creation."""
        with self._reading() as db:
            return read_terms(db)

    # ---------------------------------------------------------------------------------------------- spending

    @contextmanager
    def fit(
        self, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW, asked: Any = None
    ) -> Iterator[Ledger | Recorded]:
        """Set the budget of one fit aside, then give the filter that the fit has to charge; settle when it ends.

        ``budget`` is None for a fit without any privacy, which gets no filter, but the name of its entry. ``asked`` is
        the estimator, or the arguments in a dict: its public parameters are recorded. Raises
        :class:`~dpsk.BudgetExhausted` if the budget does not fit, ValueError if the ledger refuses such fits, and
        LedgerError if it cannot be written.
        """
        reservation = self.reserve(budget, label=label, adjacency=adjacency, private=private, unit=unit, asked=asked)
        recorded, filtered = reservation.recorded, None
        if budget is not None:
            filtered = Ledger(budget, unit=reservation.unit, recorded=recorded)
        try:
            yield recorded if filtered is None else filtered
        finally:
            reservation.end(filtered)

    def reserve(
        self, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW, asked: Any = None
    ) -> Reservation:
        """Set the whole budget aside, on disk when this returns; :meth:`fit` does this and settles."""
        private = private and budget is not None
        remarks = Remarks.of(asked, self._who, self._note)  # runs code of the parameters: not while others wait
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
            remark(db, token, remarks)
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
        require_sums(db, terms, self.path)
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
            return spends(db, read_terms(db), self._datasets)

    def find(self, fit: Any) -> Spend:
        """Return the entry of a fitted model, of a report of it, or with an id, on whatever data sets it was."""
        report = getattr(fit, "privacy_spent_", getattr(fit, "privacy_spent", fit))
        wanted, of = (fit, None) if isinstance(fit, str) else (_of(report, "entry"), _of(report, "ledger"))
        with self._reading() as db:
            found = [spend for spend in spends(db, read_terms(db), ()) if spend.id == wanted]
        if of not in (None, self._identity):
            raise ValueError(f"this {type(fit).__name__} was recorded in the ledger {of}, not in {self._identity}")
        if not found:
            raise ValueError(
                f"the ledger {self.path!r} has no entry {wanted!r}. `python -m dpsk budget show` prints the ids. If "
                "this is one of them, an older copy of the file may have been put back"
            )
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the ledger holds on the data sets of this handle as plain values, ready for JSON."""
        with self._reading() as db:
            terms = read_terms(db)
            left = {name: terms.as_dict(terms.limit - account(db, name)) for name in terms.disjoint}
            recorded, rest = spends(db, terms, self._datasets), terms.as_dict(self._left(db, terms))
        return as_plain(self._identity, os.path.basename(self.path), terms, recorded, rest, left) | {
            "statement": self.statement()
        }

    def statement(self) -> str:
        """Return a paragraph for a report: what is promised for everything recorded, and what is not."""
        with self._reading() as db:
            terms = read_terms(db)
            names = self._datasets if terms.disjoint else ()  # names of others are labels: rows may lie in several
            recorded = spends(db, terms, names)
            left = self._left(db, terms)
            require_sums(db, terms, self.path)
        return ledger_statement(terms, recorded, left, names)

    def _name(self, account: str = ALL) -> str:
        names = (account,) if account != ALL else self._datasets
        return f"PrivacyLedger({self.path!r})" + (f".on({', '.join(map(repr, names))})" if names else "")

    def __repr__(self) -> str:
        try:
            with self._reading(min(self._timeout, 1.0)) as db:
                terms = read_terms(db)
                left = terms.words(self._left(db, terms))
                count = db.execute("SELECT count(*) FROM fits WHERE state != 'returned'").fetchone()[0]
        except (LedgerError, OSError) as error:
            return f"<{self._name()}: {'missing' if not os.path.exists(self.path) else error}>"
        more = f", reserve={terms.reserve:g}" if terms.reserve else ""
        more += f", unit={terms.unit!r}" if terms.unit != ROW else ""
        return (
            f"<{self._name()}: epsilon={terms.epsilon:g}, delta={terms.delta:g}, currency={terms.currency!r}{more}; "
            f"{left} left after {number_of(count, 'fit')}>"
        )


def _whole(ledger: PrivacyLedger) -> tuple[Any, ...]:
    """Return what makes this handle again in a process on the same machine."""
    held = vars(ledger)
    return _handle, tuple(held[f"_{name}"] for name in ("path", "datasets", "timeout", "identity", "note", "who"))


travels_whole(PrivacyLedger, _whole)


def _of(report: Any, name: str) -> str:
    """Return what a report tells of its entry; raise ValueError if there is none."""
    found = getattr(report, name, None)
    if not isinstance(found, str):
        raise ValueError(
            f"this {type(report).__name__} names no entry of a ledger: give the id of an entry, or a model that was "
            "fitted with ledger=..., or its privacy_spent_"
        )
    return found


@contextmanager
def set_aside(
    ledger: Any,
    budget: Budget | None,
    *,
    label: str,
    adjacency: str,
    private: bool,
    unit: str = ROW,
    asked: Any = None,
) -> Iterator[Any]:
    """Give the Ledger of one fit, after ``ledger`` reserved its whole budget; without a budget what was recorded.

    ``ledger`` is the parameter of the estimator; None reserves nothing. The unit of what is given is that of the
    durable ledger, if there is one, and ``unit`` otherwise. ``asked`` is the estimator, or the arguments of a call in a
    dict, whose parameters are recorded.
    """
    promise: Any = {"label": label, "adjacency": adjacency, "private": private, "unit": unit}
    if isinstance(ledger, Allowance):
        with ledger.fit(budget, **promise) as filtered:
            yield filtered
        return
    durable = as_ledger(ledger)
    if durable is None:
        yield Recorded() if budget is None else Ledger(budget, unit=unit)
    else:
        with durable.fit(budget, **promise, asked=asked) as reserved:
            yield reserved


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


def without_path(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an estimator to be saved, with a handle for the absolute path of a ledger."""
    ledger = state.get("ledger")
    if isinstance(ledger, str | os.PathLike) and os.path.isabs(ledger):
        with suppress(ValueError):  # what is no path fails in the fit, with a reason
            return state | {"ledger": as_ledger(ledger)}
    return state


def _handle(
    path: str,
    datasets: tuple[str, ...],
    timeout: float,
    identity: str | None = None,
    note: str | None = None,
    who: str | None = None,
) -> PrivacyLedger:
    """Return a handle without looking at the file; pickles of older versions call this, too."""
    return PrivacyLedger.__new__(PrivacyLedger)._bind(path, datasets, timeout, identity, note, who)


def _as_seconds(timeout: Any) -> float:
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 <= timeout < math.inf:
        raise ValueError(f"timeout={timeout!r} must be a number of seconds")
    return float(timeout)


def _as_path(path: Any) -> str:
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise ValueError(f"path={path!r} must be the name of a file, as a string or path")
    return os.path.realpath(text)
