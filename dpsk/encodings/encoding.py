"""What an encoding is: how the columns of a table become numbers on the grid."""

from abc import ABC, abstractmethod

from ..data import Door, Facts, RowMap, Table
from ..requirements import require_fields


class Encoding(ABC):
    """Base of encodings, which are frozen dataclasses. Columns are understood here and nowhere else.

    Each field says what its values must be (:mod:`dpsk.requirements`).
    """

    fit_intercept: bool
    """Whether a column of ones is appended."""

    def __post_init__(self) -> None:
        require_fields(self)

    def require(self, facts: Facts) -> None:
        """Raise ValueError if this encoding is not for data with these facts; called before anything is paid."""
        del facts

    def left_out(self, how: RowMap) -> str | None:
        """Return which parameter had no effect on the map that was learned, and why; None if all had one."""
        del how
        return None

    @abstractmethod
    def learned(self, door: Door, table: Table) -> RowMap:
        """Return the public map of rows onto the grid.

        Whatever it takes from the rows is released first: ``door.open(table.raw())`` gives the rows as they are behind
        the door, ``door.open(table.rows(...))`` those that another map puts on the grid.
        """
