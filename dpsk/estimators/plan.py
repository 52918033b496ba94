"""A fit is a value: what will be run on which objective, how rows are encoded, and what it may cost."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_UP, Context, Decimal
from typing import Any, TypeVar, cast

from ..data import Facts, Unknown
from ..encodings import Encoding, Weighting
from ..objectives import Model
from ..penalties import L2
from ..privacy import Budget, GaussianDP, conversions
from ..privacy.neighbours import Adjacency
from ..privacy.units import several
from ..requirements import require_fields
from ..solvers import Solver

Part = TypeVar("Part")

# Rows must outweigh the noise ONCE times, and EACH times more for every class; more often from WIDE columns on.
ONCE, EACH, WIDE = 4.0, 2.0, 1000  # benchmarks/results/hopeless.md
_SCALES = ("bounds", "standardize", "data_norm")  # what brings columns to a scale that suits a network
FIELD = 20  # columns that a field of a raw table counts as, before it is known how many features it becomes


@dataclass(frozen=True)
class Plan:
    """Everything that a fit will do, fixed before it is paid for.

    Parameters
    ----------
    solver : Solver
        The algorithm, with its parameters.
    objective : Model
        The model, its loss and its penalty.
    encoding : Encoding
        How a table becomes numbers on a grid.
    budget : Budget or None
        The cap of the fit and what it is kept in; None for the exact model, which is not private.
    weighting : Weighting
        What rows count, by their class and by weights of their own.
    """

    solver: Solver
    objective: Model
    encoding: Encoding
    budget: Budget | None
    weighting: Weighting = field(default_factory=Weighting)

    def __post_init__(self) -> None:
        wanted: dict[str, Any] = {"solver": Solver, "objective": Model, "encoding": Encoding, "budget": Budget | None}
        for name, kind in wanted.items():
            if not isinstance(getattr(self, name), kind):
                given = getattr(self, name)
                what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
                raise TypeError(f"{name} of a plan must be of type {getattr(kind, '__name__', kind)}, not {what}")

    def require(self, facts: Facts) -> None:
        """Raise ValueError if the parts do not suit these data, or one another."""
        if self.budget is not None:
            self.encoding.require(facts)
            self.solver.require_model(self.objective)
            self.objective.require(facts)
            if not self.objective.linear and facts.schema is None:
                self.objective.on(facts.n_features, facts.n_classes)  # or its error
            self.solver.require(self.objective.loss_for(facts.n_classes), facts, self.budget.currency)


def with_parameters_of(estimator: Any, kind: Callable[..., Part], **others: Any) -> Part:
    """Return a part of a plan whose parameters are those of the same name of an estimator, and ``others``."""
    declared = {known.name for known in fields(estimator)}
    names = [known.name for known in fields(cast(Any, kind)) if known.name in declared and known.name not in others]
    return kind(**{name: getattr(estimator, name) for name in names}, **others)


def l2_of(estimator: Any) -> L2:
    """Return the L2 penalty of an estimator's ``alpha``, which leaves an intercept free."""
    return L2(float(estimator.alpha), free_intercept=bool(estimator.fit_intercept))


def plan_of(estimator: Any, facts: Facts | Unknown) -> Plan:
    """Return the plan of an estimator for data with these facts; raise ValueError for a bad parameter.

    Raises :class:`~dpsk.data.UnknownFact` where the plan depends on a fact that is not known.
    """
    plan = _planned(estimator, facts)
    if isinstance(facts, Facts):
        plan.require(facts)
    return plan


def budget_of_plan(estimator: Any, facts: Facts | Unknown) -> Budget | None:
    """Return the budget of a plan, whether or not its parts suit such data; None for the exact model.

    Raises :class:`~dpsk.data.UnknownFact` where the budget depends on a fact that is not known.
    """
    return _planned(estimator, facts).budget


def _planned(estimator: Any, facts: Facts | Unknown) -> Plan:
    """Return the plan; raise if it is none, promises less privacy than the parameters say, or ignores one of them."""
    require_fields(estimator)
    plan, name = estimator._plan(facts), type(estimator).__name__
    if not isinstance(plan, Plan):
        raise TypeError(f"{name}._plan returned {type(plan).__name__}: it must return a dpsk.estimators.Plan")
    promised = math.inf if plan.budget is None else plan.budget.epsilon
    if getattr(estimator, "rho", None) is None and promised > float(estimator.epsilon):
        raise ValueError(f"{name}._plan returned a budget of epsilon {promised:g}, but epsilon={estimator.epsilon!r}")
    if plan.budget is None and getattr(estimator, "features", None) is not None:
        raise ValueError(
            f"features={estimator.features!r} with epsilon=inf: the exact model is fitted to the columns as they are. "
            "Leave features out, or put scikit-learn's RBFSampler in front of the classifier"
        )
    for column in ("bounds", "standardize", "data_norm", "features"):
        if getattr(estimator, column, None) is not None and not hasattr(plan.encoding, column):
            value, reason = getattr(estimator, column), _why_ignored(estimator, plan.encoding)
            raise ValueError(f"{column}={value!r} has no effect in {name}: {reason}. Leave it at None")
    return replace(plan, weighting=with_parameters_of(estimator, Weighting))


def _why_ignored(estimator: Any, encoding: Encoding) -> str:
    """Return why an encoding takes no notice of what is known about columns."""
    if getattr(estimator, "columns", None) is not None:
        return "columns says where the numbers of a raw table lie, such as columns={'age': Number(0, 120)}"
    return f"{type(encoding).__name__} has no such field"


def doubts(plan: Plan, facts: Facts, *, adjacency: str, delta: float | None = None) -> Iterator[str]:
    """Yield what makes a fit questionable, as far as public facts tell.

    ``delta`` is that of the whole of which the fit is a part, where it is one.
    """
    budget, n = plan.budget, facts.n_rows
    if budget is None:
        return
    delta = budget.delta if delta is None else delta
    if delta > 1 / n:
        yield (
            f"delta={delta:g} is larger than 1/n = {1 / n:.2g}: a mechanism that publishes a random "
            f"{facts.unit} would satisfy it. Choose delta well below 1/n"
        )
    if not plan.objective.linear and all(getattr(plan.encoding, name, None) is None for name in _SCALES):
        yield (
            "bounds=None and standardize=None: columns are fitted as they are, and entries beyond 64 count as 64. Give "
            "the public range of the columns, bounds=(0, 255) for pixels or (0, 1), or standardize='private'"
        )
    product = hopeful_product(plan, facts, adjacency)
    if not plan.objective.linear:  # so that it does not depend on how batches are drawn, which follows from n
        budget = Budget.of(budget.epsilon, budget.delta, currency=GaussianDP())
    if n * strength_of(budget) < product:
        yield _hopeless(budget, facts, product)


def strength_of(budget: Budget) -> float:
    """Return one over the noise that a budget buys: mu, or epsilon where delta is 0."""
    if budget.delta == 0:
        return budget.epsilon
    rho = budget.currency.rho(budget.limit)
    if rho is None:  # sampled batches: about as noisy as all rows would be for the same promise
        rho = conversions.zcdp_rho(budget.epsilon, budget.delta)
    return math.sqrt(2 * rho)


def hopeful_product(plan: Plan, facts: Facts, adjacency: str) -> float:
    """Return the product of rows and strength from which on fits find more than chance, on most data.

    ``noise`` is that in a sum of gradients, for the weights of one class, if a budget of strength 1 buys that sum: its
    norm over that of the gradient of a typical row. The rows of a class have to outweigh it. With K classes these are
    about one in K of all rows, so what is needed grows with K. Where there are very many columns, each tells little
    beside the noise in its own weight. With these constants the rule tells hopeless fits on made data from others
    (benchmarks/results/hopeless.md). Networks find something from about there on, too, whatever their size is.
    """
    columns = facts.n_features * (1 if facts.schema is None else FIELD) + bool(plan.encoding.fit_intercept)
    scores = facts.n_scores or 1
    pure = plan.budget is not None and plan.budget.delta == 0
    # the norm of pure noise grows with the number of all weights, not with its root
    noise = columns * math.sqrt(scores) if pure else math.sqrt(columns)
    often = (ONCE + EACH * facts.n_classes) * math.sqrt(math.sqrt(max(1.0, columns / WIDE)))
    return Adjacency(adjacency).parts * noise * often * plan.solver.demand


def _hopeless(budget: Budget, facts: Facts, product: float) -> str:
    """Return the warning that noise is too large for these data, and what would be enough."""
    n, units = facts.n_rows, several(facts.unit)
    fields, fewer = ("columns" if facts.schema is None else "fields"), " or classes" if facts.n_scores else ""
    pure = ", or spend a delta, whose noise grows with the root of their number only" if budget.delta == 0 else ""
    return (
        f"epsilon={budget.epsilon:.3g} with {n} {units}, {facts.n_features} {fields} and {facts.n_classes} classes: "
        f"the noise outweighs what so many {units} can tell, so expect little more than chance, unless classes lie far "
        "apart, columns repeat one another or most entries are 0. Raise epsilon beyond "
        f"{_rounded_up(_epsilon(budget, product / n))}, fit more than {product / strength_of(budget):.0f} {units}, or "
        f"use fewer {fields}{fewer}{pure}"
    )


def _rounded_up(x: float) -> str:
    """Return a number with two digits that is not below it."""
    return f"{float(Decimal(x).normalize(Context(prec=2, rounding=ROUND_UP))):g}"


def _epsilon(budget: Budget, needed: float) -> float:
    """Return the epsilon at which a budget of this kind has the strength that is needed."""
    if budget.delta == 0:
        return needed
    if isinstance(budget.currency, GaussianDP):
        return budget.currency.epsilon(needed**2, budget.delta)
    return conversions.zcdp_epsilon(budget.delta, needed**2 / 2)
