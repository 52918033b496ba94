"""Second-order private descent for smooth losses that need not be convex (Differentially private optimization for
smooth non-convex ERM: Algorithms 1 to 3, mini-batches and two phases).

Read :meth:`SecondOrder.iterates` beside Algorithm 3. Six methods are one design: the direction is the noisy gradient,
or, where that is short, the noisy Hessian's most negative curvature; the step is short, or found by a private search
(``line_search``); derivatives are those of all rows, or of random batches (``sampling``); there is one phase, or an
optimistic one first (``phases``). What differs from the paper is listed in docs/departures.md: descent starts at 0,
where the objective is public, so the number of steps needs no noise; the Hessian's noise is 9 to 30 times smaller; each
release is paid for when it is made, the last gradient and the last Hessian included; each has a batch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from ..data import Batch, PrivateData
from ..losses import Loss
from ..mechanisms import AboveThreshold, Gaussian, Mechanism, SymmetricGaussian
from ..mechanisms.exact import Floats
from ..penalties import Penalty
from ..privacy import Cost, Sampling
from ..queries import GradientSum, HessianSum
from .certificate import Certificate, failure_of, gaussian_norm, largest_eigenvalue, sampling_error
from .eigen import smallest_eigenpair
from .line_search import Start, backtrack
from .standardization import typical_norm

__all__ = ["Constants", "Plan", "SecondOrder"]

# c_1, c_2 and c of the paper: noise of the gradient and the Hessian relative to what is measured
_C1, _C2, _C = 0.1, 0.05, 0.1
# c_g and c_H: the part of the decrease that a search asks for; t_2: how far a step along negative curvature may go
_C_G, _C_H = 0.25, 0.25
_T2 = 1.5 * (1 - _C - _C_H) + 3 * math.sqrt((1 - _C - _C_H) ** 2 / 4 - 2 * _C2 / 3)
_LONGER_G, _LONGER_H = 6, 3  # halvings from the first to the shortest step of a search
_FEWEST = 20  # steps that the budget of a phase buys at least, however small the tolerances are
_FINEST = 40  # quarters of an octave below the largest gradient that a default tolerance may be
_OPTIMISM = 1.0  # the first phase plans sqrt(T) times this many steps


@dataclass(frozen=True)
class Constants:
    """What is public about an objective whose rows are at most ``longest`` long, or are clipped as if they were.

    In the paper's names B_g (the largest gradient of a row) and B_H (Hessian, Frobenius norm), G, M and f(0).
    """

    gradient: float
    hessian: float
    smoothness: float
    jerk: float
    start: float

    @classmethod
    def of(cls, loss: Loss, penalty: Penalty, longest: float) -> Constants:
        at_zero = np.zeros((1, *(() if loss.n_classes is None else (loss.n_classes,))))
        constants = cls(
            gradient=loss.lipschitz * longest * (1 + 2.0**-20),  # norms of rows are rounded up
            hessian=HessianSum.largest(loss, longest) * (1 + 2.0**-20),
            smoothness=loss.smoothness * longest**2 + penalty.smoothness,
            jerk=loss.jerk * longest**3 + penalty.jerk,
            start=float(loss.of_margins(at_zero)[0]),
        )
        if not (math.isfinite(constants.jerk) and math.isfinite(constants.gradient)):
            raise ValueError(f"second-order descent needs a loss with bounded derivatives up to the third, not {loss!r}")
        return constants


@dataclass(frozen=True)
class Plan:
    """What one phase buys: strengths of gradients, Hessians and searches, and what it leaves of the budget."""

    gradient: float
    hessian: float
    search: float
    price: float
    reserve: float
    ends: bool


@dataclass(frozen=True)
class SecondOrder:
    """OPT, OPT-LS, OPT-B, 2OPT, 2OPT-LS and 2OPT-B.

    It returns a :class:`~dpsk.solvers.certificate.Certificate` when both tolerances are reached.

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
        Tolerance for the norm of the gradient. None: as small as noise lets the first phase see, see :meth:`resolved`.
    eps_h : float or None
        Tolerance for negative eigenvalues of the Hessian. None: sqrt(M * eps_g).
    longest : float or None
        A bound on the norms of rows with the constant column. Gradients and Hessians of longer ones are clipped as if
        they were that long. None: from one noisy count.
    first_phase, hessian_share, search_share : float
        The part of the budget of the first phase; the part of a phase for Hessians; the price of a search over that of
        a gradient.
    confidence : float
        Of the certificate.
    """

    sampling: Sampling = Sampling(1.0)  # noqa: RUF009
    line_search: bool = True
    phases: int = 2
    eps_g: float | None = None
    eps_h: float | None = None
    longest: float | None = None
    first_phase: float = 0.75
    hessian_share: float = 0.25
    search_share: float = 0.3
    confidence: float = 0.95

    def iterates(
        self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]
    ) -> Generator[Floats, None, Certificate]:
        longest = self.longest or usual_longest(data)
        known = Constants.of(loss, penalty, longest)
        eps_g, eps_h = self.resolved(data, known, shape)
        w, n_gradients, n_hessians = np.zeros(shape), 0, 0
        for plan in self.plans(data, known, eps_g, eps_h, shape):
            while plan.ends or data.remaining - plan.price >= plan.reserve:
                n_gradients += 1
                w, gradient, gradient_error = self.gradient(data, known, loss, penalty, w, plan, n_gradients)
                if np.linalg.norm(gradient) > eps_g:
                    size, short = float(np.linalg.norm(gradient)), 1 / known.smoothness
                    if self.line_search:
                        short = 2 * (1 - _C1 - _C_G) / known.smoothness
                    start = Start(loss, penalty, w, gradient, (known.gradient, 0.0))
                    step = self.step(data, plan, start, short, _LONGER_G, lambda s, size=size: _C_G * s * size**2)
                else:
                    n_hessians += 1
                    hessian, hessian_error = self.hessian(data, known, loss, penalty, w, plan, n_hessians)
                    value, curved = smallest_eigenpair(hessian, shape)
                    if value >= -eps_h:
                        if n_gradients == 1:
                            yield w
                        length = float(np.linalg.norm(gradient))
                        return Certificate(
                            True, eps_g, eps_h, self.confidence, longest, length, gradient_error, value, hessian_error
                        )
                    # p of the paper has p.g <= 0, and a step goes against the direction given
                    direction = curved if np.vdot(curved, gradient) > 0 else -curved
                    short = (_T2 if self.line_search else 2) * -value / known.jerk
                    start = Start(loss, penalty, w, direction, (known.gradient, 0.0))
                    step = self.step(
                        data, plan, start, short, _LONGER_H, lambda s, value=value: _C_H / 2 * np.square(s) * -value
                    )
                w = w - step * start.gradient
                yield w
        raise AssertionError("the last phase ends with the budget")

    def gradient(
        self, data: PrivateData, known: Constants, loss: Loss, penalty: Penalty, w: Floats, plan: Plan, count: int
    ) -> tuple[Floats, Floats, float]:
        """Return the weights as they are evaluated, the noisy gradient there, and a bound on its error."""
        query, mechanism = GradientSum(loss, w, clip=known.gradient), Gaussian(plan.gradient)
        batch = data.subsample(self.sampling, [mechanism], "gradient")
        noisy = batch.release(batch.measure(query), mechanism)
        gradient: Floats = noisy / batch.n_rows + penalty.gradient(query.w)
        sigma = query.sensitivity(batch.adjacency).l2 * query.unit / plan.gradient / batch.n_rows
        failure = failure_of(count, self.confidence)
        error = gaussian_norm(sigma, w.size, failure / 2) + self.of_sampling(batch, known.gradient, w.size + 1, failure)
        return query.w, gradient, error + 2.0**-16 * known.gradient * math.sqrt(w.size)  # of rounding residuals

    def hessian(
        self, data: PrivateData, known: Constants, loss: Loss, penalty: Penalty, w: Floats, plan: Plan, count: int
    ) -> tuple[Floats, float]:
        """Return the noisy Hessian, as one block or one per class, and a bound on how far it is above the true one."""
        query, mechanism = HessianSum(loss, w, clip=known.hessian), SymmetricGaussian(plan.hessian)
        batch = data.subsample(self.sampling, [mechanism], "Hessian")
        noisy = batch.release(batch.measure(query), mechanism)
        p, blocks = w.shape[0], w.reshape(w.shape[0], -1).T
        hessian = noisy.reshape(-1, p, p) / batch.n_rows
        hessian = hessian + np.stack([np.diag(block) for block in penalty.curvature(w).reshape(p, -1).T])
        sigma = query.sensitivity(batch.adjacency).l2 * query.unit / plan.hessian / batch.n_rows
        failure = failure_of(count, self.confidence)
        error = largest_eigenvalue(sigma, p, failure / 2, len(blocks))
        error += self.of_sampling(batch, known.hessian, w.size, failure)
        return hessian, error + query.rounding(p)

    def of_sampling(self, batch: Batch, largest: float, dimension: int, failure: float) -> float:
        """Return a bound on the error of having seen a batch only."""
        rate, scheme = self.sampling.rate, self.sampling.scheme
        return sampling_error(largest, batch.n_rows, rate, scheme, dimension, failure / 2)

    def step(
        self,
        data: PrivateData,
        plan: Plan,
        start: Start,
        short: float,
        longer: int,
        required: Callable[[Floats], Floats],
    ) -> float:
        """Return how far to go: the first of several steps, from long to ``short``, that decreases the objective as
        required; the short one where nothing is searched for or found, or the budget does not buy a search.
        """
        search = AboveThreshold(plan.search, longer + 1)
        if not self.line_search or data.remaining < self.price(data, search):
            return short
        steps: Floats = short * 0.5 ** np.arange(-longer, 1)
        batch = data.subsample(self.sampling, [search], "search")
        index = backtrack(batch, start, search, steps, required(steps))
        return float(steps[min(index, longer)])

    # ------------------------------------------------------------------------------------------ what is bought

    def steps(self, known: Constants, eps_g: float, eps_h: float) -> tuple[int, int]:
        """Return how many gradient steps, and how many along negative curvature, the worst case needs at most: f(0)
        over what a step gains surely (MIN_DEC of the paper) where noise is as small as the paper asks for.
        """
        if self.line_search:
            of_gradient = (1 - _C1 - _C_G) * _C_G / known.smoothness * eps_g**2
            of_curvature = _C_H / 4 * _T2**2 * eps_h**3 / known.jerk**2
        else:
            of_gradient = (1 - 2 * _C1) / (2 * known.smoothness) * eps_g**2
            of_curvature = 2 * (1 / 3 - _C2 - _C) * eps_h**3 / known.jerk**2
        return tuple(math.ceil(min(known.start / gain, 1e15)) for gain in (of_gradient, of_curvature))  # type: ignore

    def plans(
        self, data: PrivateData, known: Constants, eps_g: float, eps_h: float, shape: tuple[int, ...]
    ) -> list[Plan]:
        """Return the plan of each phase."""
        steps, curved = self.steps(known, eps_g, eps_h)
        whole = data.remaining
        if self.phases == 1:
            return [self.plan(data, known, eps_g, shape, whole, 0.0, steps, curved)]
        first, rest = self.first_phase * whole, (1 - self.first_phase) * whole
        few, few_curved = (math.ceil(_OPTIMISM * math.sqrt(count)) for count in (steps, curved))
        return [
            self.plan(data, known, eps_g, shape, first, rest, few, few_curved),
            self.plan(data, known, eps_g, shape, rest, 0.0, steps, curved),
        ]

    def plan(
        self,
        data: PrivateData,
        known: Constants,
        eps_g: float,
        shape: tuple[int, ...],
        amount: float,
        reserve: float,
        steps: int,
        curved: int,
    ) -> Plan:
        """Return what ``amount`` buys for so many steps.

        No gradient is bought that is noisier than half of the tolerance, even if so many steps of lesser noise cannot
        be paid: they would not see when to stop. At least a few steps are planned.
        """
        each = 1 + (self.search_share if self.line_search else 0.0)
        share = (1 - self.hessian_share) * amount * (1 - 1e-9)
        most = max(share / each / self.price_of_noise(data, known, eps_g / 2, shape), _FEWEST)
        of_gradient = share / each / (min(max(steps, curved), most) + 1)
        of_hessian = self.hessian_share * amount * (1 - 1e-9) / (min(curved, most) + 1)
        of_search = self.search_share * of_gradient
        strongest = self.strongest
        return Plan(
            gradient=strongest(data, of_gradient, lambda s: Gaussian(s).cost),
            hessian=strongest(data, of_hessian, lambda s: SymmetricGaussian(s).cost),
            search=strongest(data, of_search, lambda s: AboveThreshold(s, _LONGER_G + 1).cost),
            price=of_gradient + of_hessian + (of_search if self.line_search else 0.0),
            reserve=reserve,
            ends=reserve == 0,
        )

    def price(self, data: PrivateData, mechanism: Mechanism) -> float:
        """Return what a release on a batch of its own costs."""
        return data.currency.price(self.sampling.cost([mechanism.cost]))

    def strongest(self, data: PrivateData, price: float, cost: Callable[[float], Cost]) -> float:
        """Return the strength of what can be released for this price on a batch of its own."""
        return self.sampling.strongest(lambda strength: [cost(strength)], price, data.currency)

    def resolved(self, data: PrivateData, known: Constants, shape: tuple[int, ...]) -> tuple[float, float]:
        """Return both tolerances: where none is given, the smallest gradient for which the first phase can pay a plan of
        which noise is no more than half; it follows from public facts.
        """
        eps_g = self.eps_g
        if eps_g is None:
            each = 1 + (self.search_share if self.line_search else 0.0)
            amount = data.remaining * (self.first_phase if self.phases == 2 else 1.0)
            eps_g = known.gradient / 4
            for _ in range(_FINEST):
                finer = eps_g * 2.0**-0.25
                steps, _ = self.steps(known, finer, math.sqrt(known.jerk * finer))
                steps = math.ceil(_OPTIMISM * math.sqrt(steps)) if self.phases == 2 else steps
                share = (1 - self.hessian_share) * amount / each / (steps + 1)
                if self.price_of_noise(data, known, finer / 2, shape) > share:
                    break
                eps_g = finer
        return eps_g, math.sqrt(known.jerk * eps_g) if self.eps_h is None else self.eps_h

    def price_of_noise(self, data: PrivateData, known: Constants, noise: float, shape: tuple[int, ...]) -> float:
        """Return the price of a mean gradient whose noise is about that long."""
        replaced = data.adjacency == "replace" or (self.sampling.scheme != "poisson" and self.sampling.rate < 1)
        sensitivity = known.gradient * (2 if replaced else 1) / (data.n_rows * self.sampling.rate)
        return self.price(data, Gaussian(sensitivity * math.sqrt(math.prod(shape)) / noise))


def usual_longest(data: PrivateData) -> float:
    """Return a length that few rows exceed, from a noisy count."""
    shortest, longest = data.norm_range
    return float(np.clip(math.sqrt(2) * typical_norm(data), shortest, longest))
