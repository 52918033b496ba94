"""What every model offers to solvers: an objective once the data are known, and before that the model itself."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..data import Facts, RowMap
from ..data.private import Query
from ..losses import Loss
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..queries.at_points import AtPoints, Gains


class Objective(ABC):
    """The mean loss of rows, and a penalty. It hands out queries, so a solver does not know what the model is.

    Subclasses are frozen dataclasses. A solver that uses nothing but what is listed here suits every model.
    """

    linear: ClassVar[bool] = False
    """Whether scores are linear in the weights. A solver that does not need it says so (``any_model``)."""

    loss: Loss
    penalty: Penalty
    shape: tuple[int, ...]
    """The shape of the weights."""

    @property
    def n_weights(self) -> int:
        """How many weights there are."""
        return math.prod(self.shape)

    @abstractmethod
    def of_weighed(self, multiple: float) -> "Objective":
        """Return the objective whose losses were divided by ``multiple``: the penalty is, too."""

    @abstractmethod
    def attributes(self, w: Floats, how: RowMap) -> dict[str, Any]:
        """Return what a fitted model keeps of weights, by the names of its attributes: in the user's units."""

    @abstractmethod
    def start(self) -> Floats:
        """Return where descent starts: public weights, which need not be zero."""

    @abstractmethod
    def gradient(self, w: Floats, *, clip: float) -> Query:
        """Return the query for the sum of clipped gradients of the loss."""

    @abstractmethod
    def losses_along(self, w: Floats, step: Floats, multiples: Sequence[float] | Floats, *, clip: float) -> AtPoints:
        """Return the query for the sums of clipped losses at ``w + multiples[j] * step``."""

    @abstractmethod
    def gains(self, w: Floats, direction: Floats, steps: Floats, *, clip: float, per_unit: bool = True) -> Gains:
        """Return the query for what is gained by going from ``w`` to ``w - steps[j] * direction``."""


class Model(ABC):
    """A model before the data are known. Subclasses are frozen dataclasses."""

    linear: ClassVar[bool] = False
    """Whether scores are linear in the weights."""

    loss_for: Callable[[int], Loss]
    """The loss for every number of classes."""

    @abstractmethod
    def on(self, n_parameters: int, n_classes: int) -> Objective:
        """Return the objective for rows of so many numbers, the intercept's among them, and so many classes."""

    def require(self, facts: Facts) -> None:
        """Raise ValueError if the model is not for such data; called before any cost."""
        del facts
