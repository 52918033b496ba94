"""Batches of a fit: how they are drawn, and the budgets of plans of equal ones."""

from ..privacy import Budget, Currency, GaussianDP, Sampling
from ..privacy.neighbours import Adjacency
from ..privacy.pld import PlannedSteps, require_dp_accounting
from ..solvers.sampled import SampledSolver


def sampling_of(rate: float, scheme: str, adjacency: str) -> Sampling:
    """Return how batches are drawn; raise ValueError where no theorem covers it."""
    sampling = Sampling(float(rate), scheme)
    replaced = Adjacency(adjacency) is Adjacency.REPLACE
    if replaced and sampling.scheme == "poisson" and sampling.rate < 1:
        raise ValueError(
            "adjacency='replace' cannot be combined with sampling='poisson': no theorem covers it. Use "
            "sampling_rate=1.0, or sampling='without-replacement', which needs far more noise"
        )
    return sampling


def budget_on_batches(solver: SampledSolver, epsilon: float, delta: float, of_all_rows: Currency) -> Budget:
    """Return the cap, kept at the Renyi order that is best for the plan, or as for batches that hold all rows."""
    whole = Budget.of(epsilon, delta, currency=of_all_rows)
    if solver.sampling.rate == 1:
        return whole
    currency = solver.planned_currency(whole.epsilon, whole.delta)
    return Budget.of(epsilon, delta, currency=currency)


def require_equal_steps(sampling: str, standardize: str | None) -> None:
    """Raise ValueError unless a fit consists of steps that privacy loss distributions can account for."""
    require_dp_accounting()
    if sampling != "poisson" or standardize is not None:
        raise ValueError(
            "accountant='pld' plans equal steps on Poisson batches and nothing else: use sampling='poisson' "
            "and standardize=None, or accountant='rdp'"
        )


def planned_steps(rate: float, steps: int, epsilon: float, delta: float) -> PlannedSteps:
    """Return the plan of privacy loss distributions for so many steps."""
    Budget.of(epsilon, delta, currency=GaussianDP())  # or its error
    return PlannedSteps.plan(rate, int(steps), float(epsilon), float(delta))


def budget_of_steps(planned: PlannedSteps, steps: int, epsilon: float, delta: float) -> Budget:
    """Return the cap of a fit of so many planned steps."""
    return Budget(float(epsilon), float(delta), planned, float(steps))
