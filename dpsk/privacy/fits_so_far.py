"""A notice: how much the fits of this process without a ledger add up to, where their tables look alike.

What is said depends on public facts alone: on the columns, the unit and the budgets, and never on a row. So it cannot
know whether two tables hold the same rows, and says so. It is a message of the logger "dpsk".
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from hashlib import sha256
from typing import Any

from .durable.terms import decimal
from .ledger import Budget
from .units import several

_MOST_KINDS = 256
_LOGGER = logging.getLogger("dpsk")


class FitsSoFar:
    """Sums of the budgets of fits, for each kind of table; the kind that was new first is forgotten first."""

    def __init__(self) -> None:
        self._lock, self._sums = threading.Lock(), dict[tuple[object, ...], tuple[int, Fraction, Fraction]]()

    def add(self, kind: tuple[object, ...], budget: Budget) -> tuple[int, Fraction, Fraction]:
        """Count a fit; return the number of fits of its kind, and the sums of their epsilons and deltas."""
        with self._lock:
            fits, epsilon, delta = self._sums.get(kind, (0, Fraction(0), Fraction(0)))
            found = fits + 1, epsilon + decimal(budget.epsilon), delta + decimal(budget.delta)
            if kind not in self._sums and len(self._sums) == _MOST_KINDS:
                del self._sums[next(iter(self._sums))]
            self._sums[kind] = found
        return found


_so_far = FitsSoFar()


def _forget() -> None:
    global _so_far
    _so_far = FitsSoFar()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # another process; and a lock that was held would stay so


@contextmanager
def as_in_a_new_process() -> Iterator[None]:
    """Start to count anew in here, and go on with the earlier counts afterwards."""
    global _so_far
    earlier = _so_far
    _forget()
    try:
        yield
    finally:
        _so_far = earlier


def count_fit(
    ledger: Any,
    budget: Budget | None,
    *,
    columns: int,
    names: tuple[str, ...] | None,
    unit: str,
    adjacency: str,
    private: bool,
) -> None:
    """Count a fit that has no ledger, and tell the sum at the second, fourth, eighth and so on of its kind.

    A fit that is not private does not count. One inside a private search has an allowance as its ledger.
    """
    if ledger is not None or budget is None or not private:
        return
    known = None if names is None else sha256("\0".join(names).encode(errors="surrogatepass")).digest()
    fits, epsilon, delta = _so_far.add((columns, known, str(unit), adjacency), budget)
    if fits == 1 or fits & (fits - 1):
        return
    _LOGGER.warning(
        "dpsk: %d fits of this process were on tables with %s%d columns and without a ledger. If they are about the "
        "same %s, their guarantees add up to epsilon %g, delta %g. A PrivacyLedger keeps count (ledger=...). "
        'logging.getLogger("dpsk").setLevel("ERROR") switches this notice off.',
        fits,
        "" if names is None else "these ",
        columns,
        several(unit),
        float(epsilon),
        float(delta),
    )
