"""What solvers on random batches share: when batches are empty, and the currency their budget is kept in."""

from abc import abstractmethod
from functools import lru_cache

from ..data import Facts
from ..losses import Loss
from ..privacy import Cost, Sampling, best_order
from ..privacy.currencies import Currency, RenyiDP
from .solver import Solver


class SampledSolver(Solver):
    """A solver of equal batches, as far as can be planned."""

    sampling: Sampling
    """How batches are drawn."""

    @property
    @abstractmethod
    def planned(self) -> float:
        """How many batches are planned."""

    @abstractmethod
    def costs(self, strength: float) -> tuple[Cost, ...]:
        """Return what is released from one of them."""

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        if facts.n_rows * self.sampling.rate < 1:
            raise ValueError(
                f"sampling_rate={self.sampling.rate!r} of {facts.n_rows} rows leaves batches empty: set it to at least "
                f"{1 / facts.n_rows:.3g}, or to 1.0 for all rows"
            )

    def planned_currency(self, epsilon: float, delta: float) -> RenyiDP:
        """Return the currency in which the planned batches can be strongest, fixed before the run."""
        return _planned_currency(self, epsilon, delta)


@lru_cache(maxsize=256)
def _planned_currency(solver: SampledSolver, epsilon: float, delta: float) -> RenyiDP:
    return best_order(solver.sampling, solver.costs, solver.planned, epsilon, delta)
