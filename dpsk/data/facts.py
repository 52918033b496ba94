"""Public facts about the data of a fit: what a plan may depend on."""

from dataclasses import dataclass
from typing import NoReturn

from .schema import Schema


@dataclass(frozen=True)
class Facts:
    """Everything that is public about the data of a fit.

    ``n_rows`` is the number of units: of rows, or of persons, who have at most ``most_rows`` rows each, as far as is
    public. ``unit`` is the name of what is protected. Rows may be ``weighted``. ``remote``: rows may be in other
    processes, as with Dask. ``schema`` tells the columns of a raw table; it is None for a table of numbers. ``names``
    are the names of the columns, None where they have none.
    """

    n_rows: int
    n_features: int
    n_classes: int
    remote: bool = False
    schema: Schema | None = None
    names: tuple[str, ...] | None = None
    unit: str = "row"
    weighted: bool = False
    most_rows: int = 1

    @property
    def n_scores(self) -> int | None:
        """The number of classes where labels are 0..n_classes-1; None for two, whose labels are -1 and 1."""
        return self.n_classes if self.n_classes > 2 else None


class UnknownFact(LookupError):
    """A plan depends on a fact that is not known yet."""


@dataclass(frozen=True)
class Unknown:
    """Facts before the data are seen: to read one raises UnknownFact."""

    def _refuse(self) -> NoReturn:
        raise UnknownFact("the numbers of rows and classes, the columns, and where rows are, are not known yet")

    n_rows = n_features = n_classes = remote = n_scores = schema = names = property(_refuse)
    unit = weighted = most_rows = property(_refuse)
