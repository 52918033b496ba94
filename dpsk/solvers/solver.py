"""What a solver is: a recipe that yields public weights until its budget ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ..data.private import PrivateData
from ..losses import Loss
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..privacy.ledger import BudgetExhausted

__all__ = ["Solver", "run"]


class Solver(Protocol):
    """A frozen dataclass of hyper-parameters.

    ``iterates`` yields weights of shape (p,) or (p, K), each computed from releases only, so each may be shown to
    anybody. It ends by returning, with what it knows of the last one if anything, or by letting BudgetExhausted pass.
    """

    def iterates(self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]) -> Iterator[Floats]: ...


def run(
    solver: Solver,
    data: PrivateData,
    loss: Loss,
    penalty: Penalty,
    shape: tuple[int, ...],
    on_iterate: Callable[[Floats], bool | None] | None = None,
    on_return: Callable[[Any], None] | None = None,
) -> Floats:
    """Return the solver's last iterate; ``on_iterate`` sees each one, and ends the run by returning True. ``on_return``
    gets what the solver returns, if it comes to that.

    Raises BudgetExhausted if the budget did not buy a single iterate: weights of zero would score like a coin.
    """
    last: Floats | None = None
    try:
        iterates = solver.iterates(data, loss, penalty, shape)
        while True:
            last = next(iterates)
            if on_iterate is not None and on_iterate(last) is True:
                break
    except StopIteration as end:
        if on_return is not None and last is not None:
            on_return(end.value)
    except BudgetExhausted as error:
        if last is None:
            raise BudgetExhausted(
                f"the budget ended before the first iterate ({error}). Besides a larger epsilon, columns on one public "
                "scale, about [0, 1], help: one huge column leaves no step that improves"
            ) from None
    if last is None:
        raise BudgetExhausted(
            "the budget does not buy a single iterate: raise epsilon (or lower splits or steps, where there are such)"
        )
    return last
