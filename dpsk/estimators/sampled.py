"""What estimators on random batches share: how batches are drawn, and the currency their budget is kept in."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import Any, Protocol

from ..privacy import ZCDP, Budget, Cost, Sampling, best_order
from ..privacy.amplification import SCHEMES
from ..privacy.currencies import Currency, RenyiDP
from ..solvers import Solver
from .classifier import Facts, PrivateClassifier
from .parameters import require_choice, require_part

__all__ = ["SampledClassifier"]


class SampledSolver(Solver, Protocol):
    """A solver of equal batches, as far as can be planned."""

    @property
    def sampling(self) -> Sampling: ...

    @property
    def planned(self) -> float:
        """How many batches are planned."""

    def costs(self, strength: float) -> tuple[Cost, ...]:
        """Return what is released from one of them."""


class SampledClassifier(PrivateClassifier):
    """Base of estimators whose batches are random: ``sampling_rate``, ``sampling``."""

    sampling_rate: float
    sampling: str
    _row_major = True
    _of_all_rows: Currency = ZCDP()
    """What the budget is kept in where batches hold all rows."""

    @abstractmethod
    def _solver(self) -> SampledSolver:
        """Return the solver with this estimator's parameters."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_part("sampling_rate", self.sampling_rate)
        require_choice("sampling", self.sampling, SCHEMES)
        if self.adjacency == "replace" and self.sampling == "poisson" and self._sampling().rate < 1:
            raise ValueError(
                "adjacency='replace' cannot be combined with sampling='poisson': no theorem covers it. Use "
                "sampling_rate=1.0, or sampling='without-replacement', which needs far more noise"
            )

    def _check_size(self, n_rows: int, n_features: int) -> None:
        super()._check_size(n_rows, n_features)
        if n_rows * self._sampling().rate < 1:
            raise ValueError(
                f"sampling_rate={self.sampling_rate!r} of {n_rows} rows leaves batches empty: set it to at least "
                f"{1 / n_rows:.3g}, or to 1.0 for all rows"
            )

    def _sampling(self) -> Sampling:
        return Sampling(float(self.sampling_rate), self.sampling)

    def _budget(self, facts: Facts | None = None) -> Budget:
        whole = Budget.of(self.epsilon, self.delta, currency=self._of_all_rows)
        if self._sampling().rate == 1:
            return whole
        solver: Any = self._solver()  # a frozen dataclass, hence a key of the cache
        currency = _planned_currency(solver, whole.epsilon, whole.delta)
        return Budget.of(self.epsilon, self.delta, currency=currency)


@lru_cache(maxsize=256)
def _planned_currency(solver: Any, epsilon: float, delta: float) -> RenyiDP:
    return best_order(solver.sampling, solver.costs, solver.planned, epsilon, delta)
