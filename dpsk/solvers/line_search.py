"""DP-BLSGD: descent on random batches whose step sizes a private backtracking search finds (Chen & Lee 2020).

Read :meth:`LineSearch.iterates` beside Algorithms 1 to 3 of the paper. What differs is listed in docs/departures.md:
what touches one batch is paid jointly when it is drawn, and every repetition draws a fresh one; sums are divided by
the public expected size of a batch; the budget is kept at one Renyi order fixed beforehand; gains are compared per
unit of step length; the regulariser is part of the objective. With ``sampling.rate`` 1 this is DP-BLGD.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.private import Batch, PrivateData
from ..mechanisms import Gaussian, Mechanism
from ..mechanisms.samplers import Floats
from ..objectives import Objective
from ..privacy import BudgetExhausted, Cost, Sampling
from ..requirements import choice, clip, flag, integer, number, part
from .sampled import SampledSolver
from .solver import Diagnostics, Iterates
from .step_search import Along, Backtracking, Comparison, Search

# Prices rise as long as this many updates are left: at a fixed order one raise can multiply a price by hundreds.
_FEWEST = 10
_SMALLEST = 1e-6  # to which part of their first value clips may shrink


@dataclass(frozen=True)
class LineSearch(SampledSolver):
    """DP-BLSGD. The paper's constants: splits 50, search_share 1, both clips 3 and 1, first_price "paper".

    Parameters
    ----------
    sampling : Sampling
        How batches are drawn.
    search : {"armijo-svt", "exponential"}
        How the step is found: backtracking until a noisy Armijo condition holds (the paper's, with a sparse vector), or
        the exponential mechanism over the same steps and staying.
    noise : {"laplace", "gaussian"}
        Noise of the backtracking search. Gaussian noise pays for each step that may be tried.
    gains : {"per-unit", "clipped"}
        The quantity that backtracking compares: each row's gain per unit of step length, on the objective of the
        clipped gradients, whose noise shrinks with the step; or the difference of clipped losses, the paper's.
    splits : float
        Planned updates: how many the budget would last if every search succeeded at once and prices never grew.
    first_price : {"even", "paper"}
        The first update costs an even share of the budget, or, where that is less, what the paper starts with: mu of
        the gradient and epsilon of the search are epsilon / (2 * splits).
    search_share : float
        Epsilon of a search as a multiple of mu, the sensitivity over the noise of a gradient; 1 in the paper.
    gradient_clip, loss_clip : float
        C_grad and C_obj: bounds on one row's gradient norm, and on its loss where losses are clipped
        (``search="exponential"``, ``gains="clipped"``). Larger ones are clipped.
    step_max, shrink, candidates : float, float, int
        Steps tried: ``step_max * shrink**i`` for i below candidates (eta_0 and beta of the paper).
    sufficient : float
        The part of the linear decrease that a step has to keep, in (0, 1): alpha of the paper.
    adapt_every, growth : int, float
        After so many updates ``step_max`` falls to ``growth`` times the largest step taken meanwhile, if that is less.
    increase : {"auto", "angle", "always", "never", "merge"}
        The answer to a failed search, besides measuring the gradient again. "angle" looks at the angle between the two
        measurements (CHEB): far apart, gradients were too noisy and get dearer; close together, the search was, and
        gets dearer. "always" makes gradients dearer, "never" nothing. "merge" spends ``increase_by`` of the gradient's
        price on the second measurement, weights the two by price, and keeps paying for both. "auto" is "angle" on
        random batches and "merge" on all rows, as in the paper. Prices rise only while ten updates are left.
    increase_by : float
        How much more, relative to the price: xi of the paper.
    angle_memory, angle_max, angle_min : float
        psi, phi_max and phi_min of the paper.
    clip_decay : float
        By how much the clips shrink in an update that raised the price of gradients, in [0, 1): zeta of DP-BLSGD-AC.
    fallback : bool
        Take the shortest step where the search finds none, instead of measuring again.
    """

    any_model = True

    sampling: Sampling
    search: str = choice("armijo-svt", "armijo-svt", "exponential")
    noise: str = choice("laplace", "laplace", "gaussian")
    gains: str = choice("per-unit", "per-unit", "clipped")
    splits: float = number(200, 1)
    first_price: str = choice("even", "even", "paper")
    search_share: float = number(0.5, open_low=True)
    gradient_clip: float = clip(1.5)
    loss_clip: float = clip(3.0)
    step_max: float = number(3.0, open_low=True)
    shrink: float = part(0.8, whole=False)
    candidates: int = integer(15)
    sufficient: float = part(0.5, whole=False)
    adapt_every: int = integer(10)
    growth: float = number(1.2, 1)
    increase: str = choice("auto", "auto", "angle", "always", "never", "merge")
    increase_by: float = number(0.3, open_low=True)
    angle_memory: float = number(0.8, below=1)
    angle_max: float = number(1.1, open_low=True)
    angle_min: float = number(0.5, open_low=True)
    clip_decay: float = number(0.0, below=1)
    fallback: bool = flag(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest < 2.0**-60 or self.step_max > 2.0**60:
            raise ValueError(
                f"step_max={self.step_max!r}, shrink={self.shrink!r} and candidates={self.candidates!r} lead to steps "
                "beyond 2**-60 or 2**60: use fewer candidates, or a larger shrink"
            )

    @property
    def shortest(self) -> float:
        """The shortest step that is tried."""
        return self.step_max * self.shrink ** (self.candidates - 1)

    @property
    def on_failure(self) -> str:
        """What a failed search does, where ``increase`` leaves that open, too."""
        if self.increase == "auto":
            return "merge" if self.sampling.rate == 1 else "angle"
        return self.increase

    def iterates(self, data: PrivateData, objective: Objective) -> Iterates:
        updates = 0
        try:
            for w in self.descent(data, objective):
                updates += 1
                yield w
        except BudgetExhausted:
            if not updates:
                raise
        if updates >= self.splits / 10 or data.remaining > data.budget.limit / 2:
            return None
        doubt = (
            f"{updates} of {self.splits:g} planned updates were made: most of the budget went into searches that found "
            "no step. Columns on one scale (standardize='private'), a larger gradient_clip, more candidates or "
            "fallback=True help"
        )
        return Diagnostics(doubts=(doubt,))

    def descent(self, data: PrivateData, objective: Objective) -> Iterator[Floats]:
        """Yield iterates for as long as the budget lasts, then let BudgetExhausted pass."""
        w, before, usual_angle = objective.start(), np.zeros(objective.shape), 90.0
        step_max, chosen, clips = self.step_max, list[float](), (self.gradient_clip, self.loss_clip)
        mu, epsilon = self.first_strengths(data)
        while True:
            mu, epsilon = self.with_the_rest(data, mu, epsilon)
            measure, choose, bought = Gaussian(mu), self.chooser(epsilon), mu
            batch = data.subsample(self.sampling, [measure, choose], "gradient and search")
            gradient, precision = self.gradient(batch, objective, w, measure, clips[0]), mu**2
            step = self.step(batch, objective, w, gradient, self.searched(clips), choose, step_max)
            while step is None:
                again = Gaussian(math.sqrt(self.increase_by) * mu) if self.on_failure == "merge" else Gaussian(mu)
                batch = data.subsample(self.sampling, [again], "gradient again")
                second = self.gradient(batch, objective, w, again, clips[0])
                dearer = self.check_and_enlarge(mu, epsilon, angle_between(gradient, second), usual_angle)
                if _FEWEST * self.price(data, *dearer) <= data.remaining:
                    mu, epsilon = dearer
                gradient = (precision * gradient + again.mu**2 * second) / (precision + again.mu**2)
                precision += again.mu**2
                choose = self.chooser(epsilon)
                batch = data.subsample(self.sampling, [choose], "search again")
                step = self.step(batch, objective, w, gradient, self.searched(clips), choose, step_max)
            w = w - step * gradient
            if before.any():
                angle = angle_between(gradient, before)
                usual_angle = self.angle_memory * usual_angle + (1 - self.angle_memory) * angle
            before = gradient
            chosen.append(step)
            if len(chosen) == self.adapt_every:
                step_max, chosen = min(self.growth * max(chosen), step_max), []
            if mu > bought:
                decay = max(1 - self.clip_decay, _SMALLEST * self.gradient_clip / clips[0])
                clips = (decay * clips[0], decay * clips[1])
            yield w

    def gradient(self, batch: Batch, objective: Objective, w: Floats, bought: Gaussian, clip: float) -> Floats:
        """Return the noisy gradient of the objective."""
        noisy: Floats = batch.release(batch.measure(objective.gradient(w, clip=clip)), bought)
        gradient: Floats = noisy / batch.n_rows + objective.penalty.gradient(w)
        return gradient

    def check_and_enlarge(self, mu: float, epsilon: float, angle: float, usual_angle: float) -> tuple[float, float]:
        """Return the strengths after a search that failed, by the angle between two measurements of its gradient."""
        rule, doubtful = self.on_failure, angle > min(90.0, self.angle_max * usual_angle)
        if rule in ("always", "merge") or (rule == "angle" and doubtful):
            return math.sqrt(1 + self.increase_by) * mu, epsilon
        if rule == "angle" and angle < self.angle_min * usual_angle:
            return mu, (1 + self.increase_by) * epsilon
        return mu, epsilon

    def step(
        self, batch: Batch, objective: Objective, w: Floats, grad: Floats, search: Search, bought: Any, far: float
    ) -> float | None:
        """Return how far to go against the gradient, at most so ``far``, or None if no step passes."""
        if not grad.any():
            return None
        steps: Floats = far * np.power(self.shrink, np.arange(self.candidates))
        required = self.sufficient * steps * float(np.linalg.norm(grad)) ** 2
        index = search.find(batch, objective, Along(w, grad, steps, required), bought)
        if index == len(steps) and not self.fallback:
            return None
        return float(steps[min(index, len(steps) - 1)])

    def searched(self, clips: tuple[float, float]) -> Search:
        """Return how a step is found while these clips are in force."""
        if self.search == "exponential":
            return Comparison(clips[1])
        per_unit = self.gains == "per-unit"
        return Backtracking(clips[0] if per_unit else clips[1], self.noise, per_unit)

    def chooser(self, epsilon: float) -> Mechanism:
        """Return what a search costs that has this epsilon."""
        return self.searched((self.gradient_clip, self.loss_clip)).mechanism(epsilon, self.candidates)

    @property
    def planned(self) -> float:
        """How many updates are planned."""
        return self.splits

    def costs(self, mu: float, epsilon: float | None = None) -> tuple[Cost, Cost]:
        """Return what an update costs whose search succeeds at once."""
        return Gaussian(mu).cost, self.chooser(self.search_share * mu if epsilon is None else epsilon).cost

    def first_strengths(self, data: PrivateData) -> tuple[float, float]:
        """Return mu of the first gradient and epsilon of the first search."""
        mu = self.strongest(data, self.splits, 1.0, self.search_share)
        if self.first_price == "paper":
            mu = min(mu, data.budget.epsilon / (2 * self.splits))
        return mu, self.search_share * mu

    def with_the_rest(self, data: PrivateData, mu: float, epsilon: float) -> tuple[float, float]:
        """Return the strengths of an update; where the budget does not buy two of them, those of one that takes
        all, unless that is less than half of the precision.
        """
        price = self.price(data, mu, epsilon)
        if not 1e-6 * price < data.remaining < 2 * price:
            return mu, epsilon
        scale = self.strongest(data, 1.0, mu, epsilon)
        return (scale * mu, scale * epsilon) if scale**2 > 0.5 else (mu, epsilon)

    def price(self, data: PrivateData, mu: float, epsilon: float) -> float:
        """Return what an update costs whose search succeeds at once."""
        return data.currency.price(self.sampling.cost(self.costs(mu, epsilon)))

    def strongest(self, data: PrivateData, parts: float, mu: float, epsilon: float) -> float:
        """Return by how much an update's mu and epsilon can be scaled if so many share what is left of the budget."""
        return self.sampling.strongest(
            lambda scale: self.costs(scale * mu, scale * epsilon), data.share(parts, solved=True), data.currency
        )


def angle_between(a: Floats, b: Floats) -> float:
    """Return the angle between two arrays, in degrees; 90 where one of them is zero."""
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(np.vdot(a, b)) / norms if norms > 0 else 0.0
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
