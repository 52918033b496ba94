"""A handle on a ledger file: it knows which ledger it is on, and notices when another one lies there."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from .ledger_file import LedgerError, reading, writing
from .ledger_rows import identify, identity
from .whereabouts import located, portable, remember

_SAY_WHERE = (
    "say where the ledger is, set_params(ledger=PrivacyLedger(path)), or set_params(<step>__ledger=...) of a pipeline"
)


class Handle:
    """Where a ledger is, which one it is, and what is recorded with the fits of this handle.

    Copies are the handle itself. What is saved holds the identity of the ledger and no absolute path.
    """

    _path: str
    _identity: str | None

    def _bind(
        self,
        path: str,
        datasets: tuple[str, ...],
        timeout: float,
        identity: str | None = None,
        note: str | None = None,
        who: str | None = None,
        strayed: bool = False,
    ) -> Self:
        self._path, self._datasets, self._timeout, self._identity = path, datasets, timeout, identity
        self._note, self._who = note, who
        self._strayed = strayed  # whether it was loaded here without knowing where its ledger is
        return self

    @contextmanager
    def _reading(self, timeout: float | None = None) -> Iterator[sqlite3.Connection]:
        """Give a connection to the ledger that this handle knows, or is about to know."""
        self._require_here()
        with reading(self._path, self._timeout if timeout is None else timeout) as db:
            self._found(self._recognised(db))
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that alone may write to it. A ledger without a name gets one."""
        self._require_here()
        with writing(self._path, self._timeout) as db:
            found = self._recognised(db) or identify(db)
            yield db
        self._found(found)

    def _found(self, identity: str | None) -> None:
        self._identity, self._strayed = identity, False
        remember(identity, self._path)

    def _require_here(self) -> None:
        if self._strayed and self._identity is None:
            raise LedgerError(
                f"this object was loaded, and what is saved does not tell which ledger it used, so {self._path!r} may "
                f"be another one: {_SAY_WHERE}"
            )
        if self._strayed and not os.path.exists(self._path):
            raise LedgerError(
                f"there is no ledger at {self._path!r}. This object was loaded, and what is saved holds no absolute "
                f"path: {_SAY_WHERE}. If ledger {self._identity} is lost, restore a backup, and count what was fitted "
                "since"
            )
        if self._identity is not None and not os.path.exists(self._path):
            raise LedgerError(
                f"there is no ledger at {self._path!r} any more: it was deleted or moved. Restore a backup, and "
                "count what was fitted since"
            )

    def _recognised(self, db: sqlite3.Connection) -> str | None:
        """Return the name in the file; raise LedgerError if it is not the one that was there before."""
        found = identity(db)
        if self._strayed and self._identity != found:
            raise LedgerError(
                f"{self._path!r} is another ledger ({found}) than the one that was used ({self._identity}). This "
                f"object was loaded, and what is saved holds no absolute path: {_SAY_WHERE}"
            )
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return (self._path, self._datasets) == (other._path, other._datasets)

    def __hash__(self) -> int:
        return hash((self._path, self._datasets))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickles and the like hold: no absolute path, but the identity, by which the file is known."""
        if self._identity is None:
            with suppress(LedgerError, OSError), self._reading(min(self._timeout, 1.0)):
                pass
        held = {"identity": self._identity, "note": self._note, "who": self._who}
        return {"name": portable(self._path), "datasets": self._datasets, "timeout": self._timeout} | held

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = dict(state)
        path, seen = located(held.pop("name"), held["identity"])
        self._bind(path, **held, strayed=not seen)
