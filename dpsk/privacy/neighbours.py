"""Which data sets are neighbours: what one row is protected against."""

from enum import StrEnum
from typing import NoReturn


class Adjacency(StrEnum):
    """How two neighbouring data sets differ. The unit of protection is one row in both.

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
        """How many rows' parts of a sum change: that of the row that leaves, or those of the old and the new row."""
        return 2 if self is Adjacency.REPLACE else 1

    @property
    def monotone(self) -> bool:
        """Whether a sum of parts that are not negative can only fall from one neighbour to the other."""
        return self is Adjacency.ZERO_OUT

    @property
    def words(self) -> str:
        """The difference, as the end of a sentence."""
        if self is Adjacency.REPLACE:
            return "one row is replaced by any other"
        return "one row leaves every sum while the number of rows stays as it is"
