"""The reservation of one fit, from the moment it is on disk until the fit has ended."""

from __future__ import annotations

import math
import os
import warnings
from fractions import Fraction
from typing import TYPE_CHECKING

from ..ledger import Budget, Ledger, Recorded
from .ledger_file import LedgerError
from .ledger_rows import account, now, read_terms, require_sums, set_account
from .terms import NOTHING, Amount, Terms

if TYPE_CHECKING:
    from .store import PrivacyLedger


class Reservation:
    """The reservation of one fit, under a name that no other fit has in any file. It holds no connection."""

    def __init__(self, ledger: PrivacyLedger, token: str, budget: Budget | None, private: bool, terms: Terms) -> None:
        self._store, self._token, self._budget, self._private, self._terms = ledger, token, budget, private, terms
        self._process = os.getpid()

    @property
    def recorded(self) -> Recorded:
        """The entry in the ledger."""
        return Recorded(self._token, self._store.identity)

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
            require_sums(db, terms, store.path)
            row = db.execute("SELECT amount, delta, state FROM fits WHERE token = ?", (self._token,)).fetchone()
            if row is None:
                raise LedgerError(f"{store.path!r} is another file than the one in which this fit was set aside")
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
