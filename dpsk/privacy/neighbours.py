"""Which data sets are neighbours: what one unit, a row or a person, is protected against."""

from enum import StrEnum
from typing import NoReturn

from .units import ROW, several


class Adjacency(StrEnum):
    """How two neighbouring data sets differ. The unit of protection, a row or a person, is the same in both.

    ``Adjacency(value)`` is the only reader of such a value. It raises ValueError for one that is unknown, so that no
    sensitivity is computed for neighbours that nobody has thought about.
    """

    ZERO_OUT = "zero-out"
    REPLACE = "replace"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"adjacency={value!r} must be one of {', '.join(repr(known.value) for known in cls)}")

    @property
    def parts(self) -> int:
        """How many units' parts of a sum change: that of the unit that leaves, or those of the old and the new one."""
        return 2 if self is Adjacency.REPLACE else 1

    @property
    def monotone(self) -> bool:
        """Whether a sum of parts that are not negative can only fall from one neighbour to the other."""
        return self is Adjacency.ZERO_OUT

    def words(self, unit: str) -> str:
        """Return the difference for this unit, as the end of a sentence."""
        numbers = f"while the numbers of {several(unit)} and of rows stay as they are"
        if self is Adjacency.REPLACE:
            replaced = f"one {unit} is replaced by any other"
            return replaced if unit == ROW else f"{replaced}, with all rows, {numbers}"
        if unit == ROW:
            return "one row leaves every sum while the number of rows stays as it is"
        return f"one {unit} leaves every sum, with all rows, {numbers}"
