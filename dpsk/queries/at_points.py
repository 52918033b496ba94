"""Queries that ask the same of several points of weights."""

from abc import abstractmethod

from ..data.private import Query
from ..mechanisms.samplers import Floats


class AtPoints(Query):
    """A query with one entry for each of several points of weights, which a search chooses from."""

    @property
    @abstractmethod
    def points(self) -> Floats:
        """The weights as they are evaluated, one point after the other along the first axis."""


class Gains(AtPoints):
    """What is gained by going to each of the points."""

    per_unit: bool
    """Whether gains are divided by the length of the step."""

    lengths: Floats
    """How far the points are from where the steps begin."""
