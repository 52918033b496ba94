"""What estimators on random batches share: how batches are drawn, and the budget of a plan of equal ones."""

from ..privacy import Budget, Currency, Sampling
from ..privacy.amplification import SCHEMES
from ..requirements import choice, part
from ..solvers.sampled import SampledSolver
from .batches import budget_on_batches, sampling_of
from .numeric_classifier import NumericClassifier


class SampledClassifier(NumericClassifier):
    """Base of estimators whose batches are random.

    Parameters
    ----------
    sampling_rate : float
        The part of the rows that a batch holds, drawn secretly and anew each time; 1.0 uses all rows.
    sampling : {"poisson", "without-replacement"}
        "poisson" keeps each row independently, for ``adjacency="zero-out"``. "without-replacement" draws batches of a
        fixed size and protects replaced rows under either adjacency. What is proved for it needs far more noise: unless
        the rate is near 0.01 or below, all rows (1.0) are better.
    """

    sampling_rate: float = part(0.1)
    sampling: str = choice("poisson", *SCHEMES)

    def _sampled(self, *, used: bool = True) -> Sampling:
        """Return how batches are drawn, all rows where batches are not ``used``; raise ValueError without a theorem."""
        return sampling_of(self.sampling_rate, self.sampling, self.adjacency) if used else Sampling(1.0)

    def _sampled_budget(self, solver: SampledSolver, of_all_rows: Currency) -> Budget:
        """Return the cap, kept at the Renyi order that is best for the plan, or as for batches that hold all rows."""
        return budget_on_batches(solver, self.epsilon, self.delta, of_all_rows)
