"""Public facts about the data of a fit: what a plan may depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

__all__ = ["Facts", "Unknown", "UnknownFact"]


@dataclass(frozen=True)
class Facts:
    """Everything that is public about the data of a fit.

    Parameters
    ----------
    n_rows, n_features, n_classes : int
        How many there are.
    remote : bool, default=False
        Whether the rows are in other processes, as those of a Dask collection may be.
    """

    n_rows: int
    n_features: int
    n_classes: int
    remote: bool = False


class UnknownFact(LookupError):
    """A plan depends on a fact that is not known yet."""


@dataclass(frozen=True)
class Unknown:
    """Facts before the data are seen: to read one raises UnknownFact."""

    def _refuse(self) -> NoReturn:
        raise UnknownFact("the numbers of rows, columns and classes, and where rows are, are not known yet")

    n_rows = n_features = n_classes = remote = property(_refuse)
