"""Queries that ask the same of several points of weights."""

from abc import abstractmethod

import numpy as np

from ..data.private import Query
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats
from ..privacy.neighbours import Adjacency


class AtPoints(Query):
    """A query with one entry for each of several points of weights, which a search chooses from."""

    n_points: int
    """How many there are."""

    @property
    @abstractmethod
    def points(self) -> Floats:
        """The weights as they are evaluated, one point after the other along the first axis."""


class ClippedLosses(AtPoints):
    """The sums of losses at each of the points, those of each row clipped to [0, ``clip``]."""

    label = "losses"
    clip: float

    def sensitivity(self, adjacency: str) -> Sensitivity:
        return _of_each(self.n_points, self.clip / self.unit, monotone=Adjacency(adjacency).monotone)


class Gains(AtPoints):
    """What is gained by going to each of the points: at most ``clip`` by each row, or lost."""

    label = "gains"
    clip: float

    per_unit: bool
    """Whether gains are divided by the length of the step."""

    lengths: Floats
    """How far the points are from where the steps begin."""

    def sensitivity(self, adjacency: str) -> Sensitivity:
        return _of_each(self.n_points, self.clip / self.unit * Adjacency(adjacency).parts)


def _of_each(count: int, linf: float, *, monotone: bool = False) -> Sensitivity:
    """Return the sensitivity of so many entries, each of which a row moves by at most ``linf``."""
    l2 = np.sqrt(count) * linf * (1 + 2.0**-50)
    return Sensitivity(l1=count * linf, l2=l2, linf=linf, monotone=monotone)
