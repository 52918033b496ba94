"""A solver: a recipe that yields public weights until its budget ends."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..data import Facts
from ..data.private import PrivateData
from ..losses import Loss
from ..mechanisms.samplers import Floats
from ..objectives import Model, Objective
from ..privacy.currencies import Currency
from ..privacy.ledger import BudgetExhausted
from ..requirements import require_fields


@dataclass(frozen=True)
class Diagnostics:
    """What a solver knows of its last iterate, from releases alone.

    Parameters
    ----------
    attributes : mapping
        What the fitted estimator shows as attributes, by name without the underscore at the end.
    doubts : tuple of str
        What the user is warned about.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


Iterates = Generator[Floats, None, Diagnostics | None]
"""Public weights, one after the other, and at the end what is known of the last."""


@dataclass(frozen=True)
class Result:
    """What a run ends with: public weights, and what is known of them."""

    w: Floats
    diagnostics: Diagnostics


class Solver(ABC):
    """Base of solvers, which are frozen dataclasses of hyper-parameters.

    Each field says what its values must be (:mod:`dpsk.requirements`).
    """

    certifies: ClassVar[bool] = False
    """Whether it proves something of the objective: its mean is then over a number that rows cannot weigh more than."""

    any_model: ClassVar[bool] = False
    """Whether it uses nothing but what every :class:`~dpsk.objectives.Objective` offers. Others need linear models."""

    @property
    def demand(self) -> float:
        """How many times the rows of noisy gradient descent it takes to find more than chance: for a warning."""
        return 1.0

    def __post_init__(self) -> None:
        require_fields(self)

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        """Raise ValueError if this loss, these data or this currency is not for this solver; called before any cost."""
        del loss, facts, currency

    def require_model(self, model: Model | Objective) -> None:
        """Raise ValueError if this solver is not for this model."""
        if not (self.any_model or model.linear):
            raise ValueError(
                f"{type(self).__name__} is for linear models, and {type(model).__name__} is none: networks are fitted "
                "by SGD, LineSearchSGD or LineSearch"
            )

    @abstractmethod
    def iterates(self, data: PrivateData, objective: Any) -> Iterates:
        """Yield weights of the objective's shape, each computed from releases only, so each may be shown to anybody.

        It ends by returning what it knows of the last one, or None, or by letting BudgetExhausted pass.
        """


def run(
    solver: Solver,
    data: PrivateData,
    objective: Objective,
    on_iterate: Callable[[Floats], bool | None] | None = None,
) -> Result:
    """Return the solver's last iterate. ``on_iterate`` sees each one; by returning True it ends the run, which the
    solver sees as the end of its budget.

    Raises BudgetExhausted if the budget did not buy a single iterate: weights of zero would score like a coin.
    """
    solver.require_model(objective)
    last: Floats | None = None
    known: Any = None
    try:
        iterates = solver.iterates(data, objective)
        while True:
            last = _public(next(iterates), objective, solver)
            if on_iterate is not None and on_iterate(last) is True:
                last = _public(iterates.throw(BudgetExhausted("the run was stopped")), objective, solver)
    except StopIteration as end:
        known = end.value
    except BudgetExhausted as error:
        if last is None:
            raise BudgetExhausted(
                f"the budget ended before the first iterate ({error}). Besides a larger epsilon, columns on one public "
                "scale, about [0, 1], help: one huge column leaves no step that improves"
            ) from None
    if last is None:
        raise BudgetExhausted(
            f"the budget does not buy a single iterate of {type(solver).__name__}: raise epsilon (or lower splits or "
            "steps, where there are such)"
        )
    if not isinstance(known, Diagnostics | None):
        name, given = type(solver).__name__, type(known).__name__
        raise TypeError(f"{name} returned {given}: a solver returns Diagnostics, or nothing")
    # a copy: what is sealed, and the data themselves, refuse to be copied
    return Result(last, copy.deepcopy(known) if known is not None else Diagnostics())


def _public(w: Any, objective: Objective, solver: Solver) -> Floats:
    """Return what a solver yielded; raise for anything but finite weights in an array, which cannot hold a seal."""
    name = type(solver).__name__
    if not isinstance(w, np.ndarray) or w.dtype.kind != "f":
        raise TypeError(f"a solver yields arrays of floats, but {name} yielded {type(w).__name__}")
    if w.shape != objective.shape:
        raise ValueError(f"{name} yielded weights of shape {w.shape}, but the objective needs {objective.shape}")
    if not np.isfinite(w).all():
        raise ValueError(f"{name} yielded weights that are not finite: shorter steps may help")
    return w
