"""Second-order private descent for smooth losses that need not be convex (Gao & Wright 2023: Algorithms 1 to 3,
mini-batches and two phases).

Read :meth:`SecondOrder.descent` beside Algorithm 3. Six methods are one design: the direction is the noisy gradient,
or, where that is short, the noisy Hessian's most negative curvature; the step is short, or found by a private search
(``line_search``); derivatives are those of all rows, or of random batches (``sampling``); there is one phase, or an
optimistic one first (``phases``). What differs from the paper is listed in docs/departures.md: descent starts at 0,
where the objective is public, so the number of steps needs no noise; the Hessian's noise is 9 to 30 times smaller; each
release is paid for when it is made, the last gradient and the last Hessian included; each has a batch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from ..data import Facts
from ..data.private import Batch, PrivateData
from ..losses import Loss
from ..mechanisms import Gaussian, Mechanism, SymmetricGaussian
from ..mechanisms.samplers import Floats
from ..objectives import LinearObjective
from ..penalties import Penalty
from ..privacy import BudgetExhausted, Cost, Currency, Sampling
from ..queries import GradientSum, HessianSum
from ..requirements import number, part
from .certificate import Certificate, failure_of, gaussian_norm, largest_eigenvalue, sampling_error
from .eigen import smallest_eigenpair
from .precision import typical_norm
from .sampled import SampledSolver
from .solver import Diagnostics, Iterates
from .step_search import Along, Backtracking

# c_1, c_2 and c of the paper: noise of the gradient and the Hessian relative to what is measured
_C1, _C2, _C = 0.1, 0.05, 0.1
# c_g and c_H: the part of the decrease that a search asks for; t_2: how far a step along negative curvature may go
_C_G, _C_H = 0.25, 0.25
_T2 = 1.5 * (1 - _C - _C_H) + 3 * math.sqrt((1 - _C - _C_H) ** 2 / 4 - 2 * _C2 / 3)
_LONGER_G, _LONGER_H = 6, 3  # halvings from the first to the shortest step of a search
_SURE = 2.0  # by how many scales of its noise a decrease has to exceed what is required
_FEWEST = 20  # steps that the budget of a phase buys at least, however small the tolerances are
# A default tolerance lies between these parts of the largest gradient: much coarser, and the start would be good enough
_COARSEST, _FINEST = 2.0**-4, 2.0**-12
_NOISE = 0.8  # of a planned gradient, at most, relative to the tolerance
MOST_WEIGHTS = 3000  # of a class: a Hessian has their square
SHORTEST, LONGEST = 2.0**-40, 2.0**40  # rows: clips of Hessians are squares, and have to fit on their grid


@dataclass(frozen=True)
class Constants:
    """What is public about an objective whose rows are at most ``longest`` long, or are clipped as if they were.

    In the paper's names B_g (the largest gradient of a row) and B_H (Hessian, Frobenius norm), G, M and f(0); and how
    far below 0 an eigenvalue can be anywhere.
    """

    gradient: float
    hessian: float
    smoothness: float
    jerk: float
    start: float
    concavity: float

    @classmethod
    def of(cls, loss: Loss, penalty: Penalty, longest: float) -> Constants:
        at_zero = np.zeros((1, *(() if loss.n_classes is None else (loss.n_classes,))))
        constants = cls(
            gradient=loss.lipschitz * longest * (1 + 2.0**-20),  # norms of rows are rounded up
            hessian=HessianSum.largest(loss, longest) * (1 + 2.0**-20),
            smoothness=loss.smoothness * longest**2 + penalty.smoothness,
            jerk=loss.jerk * longest**3 + penalty.jerk,
            start=float(loss.of_margins(at_zero)[0]),
            concavity=loss.concavity * longest**2 * (1 + 2.0**-20) + penalty.concavity,  # Hessians are clipped there
        )
        if not (math.isfinite(constants.jerk) and math.isfinite(constants.gradient)):
            raise ValueError(
                f"second-order descent needs a loss with bounded derivatives up to the third, not {loss!r}"
            )
        return constants


@dataclass(frozen=True)
class PhasePlan:
    """What one phase buys: strengths of gradients, Hessians and searches, what one of each costs together, and what is
    left for the next phase.
    """

    gradient: float
    hessian: float
    search: float
    price: float
    reserve: float


@dataclass(frozen=True)
class Task:
    """What is minimised, how well, and behind which door."""

    data: PrivateData
    objective: LinearObjective
    known: Constants
    eps_g: float
    eps_h: float


@dataclass(frozen=True)
class SecondOrder(SampledSolver):
    """OPT, OPT-LS, OPT-B, 2OPT, 2OPT-LS and 2OPT-B.

    Its diagnostics hold a :class:`~dpsk.solvers.certificate.Certificate`.

    Parameters
    ----------
    sampling : Sampling
        How batches are drawn; rate 1 is all rows.
    line_search : bool
        Whether steps are found by a private search, with the short step as the last resort.
    phases : {1, 2}
        Two: ``first_phase`` of the budget is for a plan of few steps; the rest, with what that leaves, for as many as
        the worst case asks for.
    eps_g : float or None
        Tolerance for the norm of the gradient of the mean objective, noise included. None: so small that noise is
        about 0.8 of it, from public facts.
    eps_h : float or None
        Tolerance for negative eigenvalues of the Hessian. None: sqrt(M * eps_g), with M the Lipschitz constant of the
        Hessian that follows from the loss, the penalty and the longest row.
    longest : float or None
        A bound on the norms of rows with the constant column. Gradients and Hessians of longer ones are clipped as if
        they were that long. None: from one noisy count.
    first_phase : float
        The part of the budget of the first of two phases.
    hessian_share : float
        The part of a phase's budget that is planned for Hessians. What they do not need is left for gradients.
    search_share : float
        The price of a search, as a part of the price of a gradient.
    confidence : float
        The probability with which the bounds in ``certificate_`` hold.
    batches : float
        How many batches the currency is chosen for.
    """

    certifies = True

    sampling: Sampling = Sampling(1.0)  # noqa: RUF009
    line_search: bool = True
    phases: int = 2
    eps_g: float | None = number(None, open_low=True)
    eps_h: float | None = number(None, open_low=True)
    longest: float | None = None
    first_phase: float = part(0.75, whole=False)
    hessian_share: float = part(0.25, whole=False)
    search_share: float = number(0.3, open_low=True)
    confidence: float = part(0.95, whole=False)
    batches: float = 200

    @property
    def demand(self) -> float:
        return 2.0  # a part of the budget is for Hessians and the search: benchmarks/results/hopeless.md

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest is not None and not SHORTEST <= self.longest <= LONGEST:
            raise ValueError(
                f"longest={self.longest!r} must lie between 2**-40 and 2**40: Hessians grow with its square. Bring the "
                "columns to a scale of about [0, 1]"
            )

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        super().require(loss, facts, currency)
        if facts.n_features >= MOST_WEIGHTS:
            raise ValueError(
                f"X has {facts.n_features} columns, and a Hessian the square of that: DPSecondOrderClassifier takes "
                f"fewer than {MOST_WEIGHTS}. Use DPLogisticRegression, which needs gradients only"
            )

    def planned_for(self, objective: LinearObjective) -> SecondOrder:
        """Return the same with the number of batches that the first phase plans, a guess where nothing is known."""
        if self.sampling.rate == 1:
            return self
        known = Constants.of(objective.loss, objective.penalty, self.longest or 2.0)
        eps_g = self.eps_g or known.gradient / 50
        count = self.few_steps if self.phases == 2 else self.most_steps
        steps, _ = count(known, eps_g, self.eps_h or math.sqrt(known.jerk * eps_g))
        return replace(self, batches=float(min(2 * steps, 2_000)))

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        longest, w = self.longest or usual_longest(data), objective.start()
        known = Constants.of(objective.loss, objective.penalty, longest)
        task = Task(data, objective, known, *self.tolerances(data, known, objective.n_weights))
        descent = self.descent(task, longest)
        certificate = Certificate(False, task.eps_g, task.eps_h, self.confidence, longest)
        try:
            while True:
                w = next(descent)
                yield w
        except StopIteration as end:
            certificate = end.value
        except BudgetExhausted:
            pass
        return Diagnostics({"certificate": certificate}, () if w.any() else (self.at_zero(),))

    def at_zero(self) -> str:
        """Return what to say of a fit that ended where it began."""
        # without eps_g the tolerance follows from the noise
        remedy = "raise epsilon, add rows or use fewer columns" if self.eps_g is None else "lower eps_g"
        return (
            "weights of 0 are within the tolerances already, and the fit ended there: every row gets the same score. "
            f"To get further, {remedy}, or bring columns that are fitted as they are to a scale of about [0, 1] "
            "(standardize='private')"
        )

    def descent(self, task: Task, longest: float) -> Generator[Floats, None, Certificate]:
        """Yield iterates until both tolerances are reached, or let BudgetExhausted pass."""
        w, measured, curved = task.objective.start(), 0, 0
        for plan in self.plans(task):
            while plan.reserve == 0 or task.data.remaining - plan.price >= plan.reserve:
                measured += 1
                w, gradient, gradient_error = self.gradient(task, plan, w, measured)
                length = float(np.linalg.norm(gradient))
                if length > task.eps_g:
                    short = (2 * (1 - _C1 - _C_G) if self.line_search else 1) / task.known.smoothness
                    steps = self.candidates(short, _LONGER_G)
                    direction, required = gradient, _C_G * steps * length**2
                else:
                    curved += 1
                    hessian, hessian_error = self.hessian(task, plan, w, curved)
                    eigenvalue, p = smallest_eigenpair(hessian, task.objective.shape)
                    if eigenvalue >= -task.eps_h:
                        yield w
                        known = length, gradient_error, eigenvalue, hessian_error, -task.known.concavity
                        return Certificate(True, task.eps_g, task.eps_h, self.confidence, longest, *known)
                    short = (_T2 if self.line_search else 2) * -eigenvalue / task.known.jerk
                    steps = self.candidates(short, _LONGER_H)
                    direction = turned(p, gradient)
                    required = _C_H / 2 * np.square(steps) * -eigenvalue
                w = w - self.step(task, plan, w, direction, steps, required) * direction
                yield w
        raise BudgetExhausted("the last phase lasts as long as the budget")

    def candidates(self, short: float, longer: int) -> Floats:
        """Return the steps that are tried, down to the short one."""
        steps: Floats = short * np.power(0.5, np.arange(-longer if self.line_search else 0, 1))
        return steps

    def step(
        self, task: Task, plan: PhasePlan, w: Floats, direction: Floats, steps: Floats, required: Floats
    ) -> np.float64:
        """Return how far to go against ``direction``: the first step that decreases the objective as required, and by
        so much more that noise alone would seldom do. The last, short one where nothing is searched for or found, or
        the budget does not buy a search.
        """
        search = Backtracking(task.known.gradient)
        bought = search.mechanism(plan.search, len(steps))
        if len(steps) > 1 and task.data.remaining >= self.price(task.data, bought):
            batch = task.data.subsample(self.sampling, [bought], "search")
            # of a gain per unit of length
            noise = 4 * task.known.gradient * batch.adjacency.parts / (plan.search * batch.n_rows)
            required = required + _SURE * noise * steps * float(np.linalg.norm(direction))
            index = search.find(batch, task.objective, Along(w, direction, steps, required), bought)
            return np.float64(steps[min(index, len(steps) - 1)])
        return np.float64(steps[-1])

    def gradient(self, task: Task, plan: PhasePlan, w: Floats, count: int) -> tuple[Floats, Floats, float]:
        """Return the weights as they are evaluated, the noisy gradient there, and a bound on its error."""
        largest, failure = task.known.gradient, failure_of(count, self.confidence) / 2
        query, mechanism = task.objective.gradient(w, clip=largest), Gaussian(plan.gradient)
        batch = task.data.subsample(self.sampling, [mechanism], "gradient")
        noisy: Floats = batch.release(batch.measure(query), mechanism)
        gradient: Floats = noisy / batch.n_rows + task.objective.penalty.gradient(query.w)
        noise = gaussian_norm(self.deviation(batch, query, mechanism.mu), w.size, failure)
        error = noise + self.sampling_error(batch, largest, w.size + 1, failure)
        return query.w, gradient, error + 2.0**-16 * largest * math.sqrt(w.size)  # residuals are rounded

    def hessian(self, task: Task, plan: PhasePlan, w: Floats, count: int) -> tuple[Floats, float]:
        """Return the noisy Hessian in blocks, one per class, and a bound on how far it is above the true one."""
        largest, failure = task.known.hessian, failure_of(count, self.confidence) / 2
        query, mechanism = task.objective.hessian(w, clip=largest), SymmetricGaussian(plan.hessian)
        batch = task.data.subsample(self.sampling, [mechanism], "Hessian")
        noisy = batch.release(batch.measure(query), mechanism)
        p, diagonals = len(w), task.objective.penalty.curvature(w).reshape(len(w), -1).T
        hessian: Floats = noisy.reshape(-1, p, p) / batch.n_rows + diagonals[:, :, None] * np.eye(p)
        noise = largest_eigenvalue(self.deviation(batch, query, mechanism.mu), p, failure, len(diagonals))
        error = noise + self.sampling_error(batch, largest, w.size, failure)
        return hessian, error + query.rounding(p)

    def deviation(self, batch: Batch, query: GradientSum | HessianSum, mu: float) -> float:
        """Return the standard deviation of the noise of a mean."""
        return query.sensitivity(batch.adjacency).l2 * query.unit / mu / batch.n_rows

    def sampling_error(self, batch: Batch, largest: float, dimension: int, failure: float) -> float:
        """Return a bound on the error of having seen a batch only."""
        return sampling_error(largest, batch.n_rows, self.sampling.rate, self.sampling.scheme, dimension, failure)

    # ------------------------------------------------------------------------------------------ what is bought

    def most_steps(self, known: Constants, eps_g: float, eps_h: float) -> tuple[int, int]:
        """Return how many gradient steps, and how many along negative curvature, the worst case needs: f(0) over what a
        step gains surely (MIN_DEC of the paper) where noise is as small as the paper asks for.
        """
        if self.line_search:
            of_gradient = (1 - _C1 - _C_G) * _C_G / known.smoothness * eps_g**2
            of_curvature = _C_H / 4 * _T2**2 * eps_h**3 / known.jerk**2
        else:
            of_gradient = (1 - 2 * _C1) / (2 * known.smoothness) * eps_g**2
            of_curvature = 2 * (1 / 3 - _C2 - _C) * eps_h**3 / known.jerk**2
        most = 2.0**50
        return math.ceil(known.start / max(of_gradient, known.start / most)), math.ceil(
            known.start / max(of_curvature, known.start / most)
        )

    def few_steps(self, known: Constants, eps_g: float, eps_h: float) -> tuple[int, int]:
        """Return how many an optimist plans: the root of that, or the cube root where steps are searched for."""
        root = 1 / 3 if self.line_search else 1 / 2
        steps, curved = self.most_steps(known, eps_g, eps_h)
        return math.ceil(steps**root), math.ceil(curved**root)

    def plans(self, task: Task) -> list[PhasePlan]:
        """Return the plan of each phase."""
        whole, tolerances = task.data.remaining, (task.known, task.eps_g, task.eps_h)
        if self.phases == 1:
            return [self.plan(task, whole, 0.0, *self.most_steps(*tolerances))]
        first, rest = self.first_phase * whole, (1 - self.first_phase) * whole
        return [
            self.plan(task, first, rest, *self.few_steps(*tolerances)),
            self.plan(task, rest, 0.0, *self.most_steps(*tolerances)),
        ]

    def plan(self, task: Task, amount: float, reserve: float, steps: int, curved: int) -> PhasePlan:
        """Return what ``amount`` buys for so many steps.

        No gradient is planned to be noisier than half of the tolerance, however many steps the worst case needs: the
        descent would not see when to stop. At least a few steps are planned.
        """
        data, share = task.data, self.share_of_gradients(task.data, amount)
        most = max(
            share / self.price_of_noise(data, task.known, _NOISE * task.eps_g, task.objective.n_weights), _FEWEST
        )
        of_gradient = share / (min(max(steps, curved), most) + 1)
        of_hessian = data.share(min(curved, most) + 1, of=self.hessian_share * amount, solved=True)
        of_search = self.search_share * of_gradient
        return PhasePlan(
            gradient=self.strongest(data, of_gradient, lambda s: Gaussian(s).cost),
            hessian=self.strongest(data, of_hessian, lambda s: SymmetricGaussian(s).cost),
            search=self.strongest(data, of_search, lambda s: Backtracking(1.0).mechanism(s, _LONGER_G + 1).cost),
            price=of_gradient + of_hessian + (of_search if self.line_search else 0.0),
            reserve=reserve,
        )

    def share_of_gradients(self, data: PrivateData, amount: float) -> float:
        """Return what of an amount is for gradients: no part for Hessians, and none for the searches beside them."""
        beside = 1 + (self.search_share if self.line_search else 0.0)
        return data.share(beside, of=(1 - self.hessian_share) * amount, solved=True)

    def tolerances(self, data: PrivateData, known: Constants, n_weights: int) -> tuple[float, float]:
        """Return eps_g and eps_h. Where none is given, the smallest gradient that noise lets us see if few steps are
        enough; that follows from public facts.
        """
        eps_g = self.eps_g
        if eps_g is None:
            share = self.share_of_gradients(data, data.remaining * (self.first_phase if self.phases == 2 else 1.0))
            eps_g = _COARSEST * known.gradient
            while eps_g > _FINEST * known.gradient:
                finer = eps_g * 2.0**-0.25
                steps, curved = self.few_steps(known, finer, self.eps_h or math.sqrt(known.jerk * finer))
                if (max(steps, curved) + 1) * self.price_of_noise(data, known, _NOISE * finer, n_weights) > share:
                    break
                eps_g = finer
        return eps_g, self.eps_h or math.sqrt(known.jerk * eps_g)

    def price_of_noise(self, data: PrivateData, known: Constants, noise: float, n_weights: int) -> float:
        """Return the price of a mean gradient whose noise is about that long."""
        replaced = self.sampling.scheme != "poisson" and self.sampling.rate < 1
        sensitivity = known.gradient * (2 if replaced else data.adjacency.parts) / (data.n_rows * self.sampling.rate)
        return self.price(data, Gaussian(sensitivity * math.sqrt(n_weights) / noise))

    def price(self, data: PrivateData, mechanism: Mechanism) -> float:
        """Return what a release on a batch of its own costs."""
        return data.currency.price(self.sampling.cost([mechanism.cost]))

    def strongest(self, data: PrivateData, price: float, cost: Callable[[float], Cost]) -> float:
        """Return the strength of what can be released for this price on a batch of its own."""
        return self.sampling.strongest(lambda strength: [cost(strength)], price, data.currency)

    @property
    def planned(self) -> float:
        """How many batches are planned, for the choice of a currency."""
        return self.batches

    def costs(self, mu: float) -> tuple[Cost]:
        """Return what a batch costs."""
        return (Gaussian(mu).cost,)


def turned(p: Floats, gradient: Floats) -> Floats:
    """Return p or -p: the one whose opposite direction does not raise the objective."""
    return p if np.vdot(p, gradient) >= 0 else -p


def usual_longest(data: PrivateData) -> float:
    """Return a length that few rows exceed, from a noisy count."""
    shortest, longest = data.norm_range
    usual = float(np.clip(math.sqrt(2) * typical_norm(data), shortest, longest))
    return min(max(usual, SHORTEST), LONGEST)
