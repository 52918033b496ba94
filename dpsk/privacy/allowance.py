"""The allowance of one fit, or of one score, inside a run of a search."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from .ledger import Budget, Ledger
from .repetition import BestOf
from .units import ROW, require_same_unit


class Allowance:
    """Takes the place of a durable ledger inside a run. It accepts one budget, if the search covers that budget.

    Estimators take it as ``ledger``. It records nothing, because nobody may know how many runs there were.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 2.9)
    A run consists of a fit on some rows and a score on the others, each with an allowance of its own; which row is
    where does not depend on the data. It keeps every bound that its fit *and* its score keep, each for its own rows:
    no sum of them is due (parallel composition, McSherry 2009).
    """

    def __init__(self, search: BestOf, *, adjacency: str, private: bool, unit: str = ROW) -> None:
        self._search, self._adjacency, self._private, self._unit = search, adjacency, private, unit
        self._spent = False

    @contextmanager
    def fit(
        self, budget: Budget | None, *, label: str, adjacency: str, private: bool, unit: str = ROW
    ) -> Iterator[Ledger]:
        """Give the filter of the one fit or score that this is for; raise ValueError if it is not covered."""
        if self._spent:
            raise ValueError(f"{label} asks for a second budget: a run pays for one fit and one score only")
        if budget is None or adjacency != self._adjacency or private != self._private:
            raise ValueError(f"{label} keeps another promise than its search: neighbours and privacy must be the same")
        require_same_unit(label, unit, self._unit)
        if not self._search.covers(budget):
            raise ValueError(f"the budget of this run, in {budget.currency.name}, is more than the search allows")
        self._spent = True
        filtered = Ledger(budget, unit=self._unit)
        try:
            yield filtered
        finally:
            filtered.close()

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError("an allowance cannot be copied or pickled: a copy would pay for a second run")

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy
