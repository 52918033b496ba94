"""Public facts about the data of a fit: what a plan may depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Facts:
    """Everything that is public about the data of a fit. ``remote``: rows may be in other processes, as with Dask."""

    n_rows: int
    n_features: int
    n_classes: int
    remote: bool = False


class UnknownFact(LookupError):
    """A plan depends on a fact that is not known yet."""


@dataclass(frozen=True)
class Unknown:
    """Facts before the data are seen: only where the rows are is known. To read another fact raises UnknownFact."""

    remote: bool = False

    def _refuse(self) -> NoReturn:
        raise UnknownFact("the numbers of rows, columns and classes are not known yet")

    n_rows = n_features = n_classes = property(_refuse)
