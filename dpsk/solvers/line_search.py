"""DP-BLSGD: descent on random batches whose step sizes a private backtracking search finds (Chen & Lee 2020).

Read :meth:`LineSearch.iterates` beside Algorithms 1 to 3 of the paper. What differs is listed in docs/departures.md:
what touches one batch is paid jointly when it is drawn, and every repetition draws a fresh one; sums are divided by
the public expected size of a batch; the budget is kept at one Renyi order fixed beforehand; gains are compared per
unit of step length; the regulariser is part of the objective. With ``sampling.rate`` 1 this is DP-BLGD.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from .api import (
    Backtracking,
    Batch,
    BudgetExhausted,
    Comparison,
    Cost,
    Diagnostics,
    Floats,
    Gaussian,
    Iterates,
    LinearObjective,
    Mechanism,
    PrivateData,
    SampledSolver,
    Sampling,
    Search,
    require_choice,
    require_clip,
    require_flag,
    require_number,
    require_part,
)

# Prices rise as long as this many updates are left: at a fixed order one raise can multiply a price by hundreds.
_FEWEST = 10
_SMALLEST = 1e-6  # to which part of their first value clips may shrink
_CHOICES = {
    "search": ("armijo-svt", "exponential"),
    "noise": ("laplace", "gaussian"),
    "gains": ("per-unit", "clipped"),
    "increase": ("auto", "angle", "always", "never", "merge"),
    "first_price": ("even", "paper"),
}


@dataclass(frozen=True)
class LineSearch(SampledSolver):
    """DP-BLSGD. The paper's constants: splits 50, search_share 1, both clips 3 and 1, first_price "paper".

    Parameters
    ----------
    sampling : Sampling
        How batches are drawn.
    search : {"armijo-svt", "exponential"}
        Backtracking until a noisy Armijo condition holds (sparse vector), or the exponential mechanism over the same
        steps and 0.
    noise : {"laplace", "gaussian"}
        Noise of the sparse vector.
    splits : float
        How many updates the budget would last if every search succeeded at once and prices never grew.
    first_price : {"even", "paper"}
        What the first update costs: an even share of the budget, or, where that is less, what the paper's mu (and
        epsilon of the search) epsilon / (2 * splits) costs.
    search_share : float
        Epsilon of a search over mu (sensitivity over standard deviation) of a gradient; 1 in the paper.
    gradient_clip, loss_clip : float
        C_grad and C_obj: bounds on a row's gradient norm, and on its loss where losses are clipped: in the exponential
        search and with ``gains="clipped"``.
    gains : {"per-unit", "clipped"}
        What the Armijo search compares, see :class:`~dpsk.queries.ArmijoGains`.
    step_max, shrink, candidates : float, float, int
        Steps tried: ``step_max * shrink**i``, eta_0 and beta of the paper.
    sufficient : float
        alpha of the paper: the part of the linear decrease that a step has to keep.
    adapt_every, growth : int, float
        After so many updates step_max falls to growth times the largest step taken meanwhile, if that is less.
    increase : {"angle", "always", "never", "merge"}
        What a failed search does. "angle" measures the gradient again and pays more for gradients, or for searches, by
        the angle between the two (CHEB); "always" pays more for gradients each time, "never" at no time. "merge" is
        DP-AGD's: ``increase_by`` more for the same gradient.
    increase_by : float
        xi of the paper.
    angle_memory, angle_max, angle_min : float
        psi, phi_max and phi_min of the paper.
    clip_decay : float
        zeta: by how much both clips shrink in an update that pays more for gradients (DP-BLSGD-AC); 0 keeps them.
    fallback : bool
        Take the smallest step when none passes, instead of measuring again.
    """

    sampling: Sampling
    search: str = "armijo-svt"
    noise: str = "laplace"
    splits: float = 200
    first_price: str = "even"
    search_share: float = 0.5
    gradient_clip: float = 1.5
    loss_clip: float = 3.0
    gains: str = "per-unit"
    step_max: float = 3.0
    shrink: float = 0.8
    candidates: int = 15
    sufficient: float = 0.5
    adapt_every: int = 10
    growth: float = 1.2
    increase: str = "auto"
    increase_by: float = 0.3
    angle_memory: float = 0.8
    angle_max: float = 1.1
    angle_min: float = 0.5
    clip_decay: float = 0.0
    fallback: bool = False

    def __post_init__(self) -> None:
        for name, choice in (
            ("search", self.search),
            ("noise", self.noise),
            ("gains", self.gains),
            ("increase", self.increase),
            ("first_price", self.first_price),
        ):
            require_choice(name, choice, _CHOICES[name])
        require_number("splits", self.splits, 1)
        for name, value in (
            ("search_share", self.search_share),
            ("step_max", self.step_max),
            ("increase_by", self.increase_by),
            ("angle_max", self.angle_max),
            ("angle_min", self.angle_min),
        ):
            require_number(name, value, 0, open_low=True)
        require_number("growth", self.growth, 1)
        for name, clip in (("gradient_clip", self.gradient_clip), ("loss_clip", self.loss_clip)):
            require_clip(name, clip)
        for name, count in (("candidates", self.candidates), ("adapt_every", self.adapt_every)):
            require_number(name, count, 1, kind=Integral)
        for name, part in (("shrink", self.shrink), ("sufficient", self.sufficient)):
            require_part(name, part, whole=False)
        for name, part in (("clip_decay", self.clip_decay), ("angle_memory", self.angle_memory)):
            require_number(name, part, 0)
            if not part < 1:
                raise ValueError(f"{name}={part!r} must lie in [0, 1)")
        if self.shortest < 2.0**-60 or self.step_max > 2.0**60:
            raise ValueError(
                f"step_max={self.step_max!r}, shrink={self.shrink!r} and candidates={self.candidates!r} lead to steps "
                "beyond 2**-60 or 2**60: use fewer candidates, or a larger shrink"
            )
        require_flag("fallback", self.fallback)

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

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
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

    def descent(self, data: PrivateData, objective: LinearObjective) -> Iterator[Floats]:
        """Yield iterates for as long as the budget lasts, then let BudgetExhausted pass."""
        w, before, usual_angle = objective.start(), objective.start(), 90.0
        step_max, chosen, clips = self.step_max, list[float](), (self.gradient_clip, self.loss_clip)
        mu, epsilon = self.first_strengths(data)
        while True:
            mu, epsilon = self.with_the_rest(data, mu, epsilon)
            measure, choose, bought = Gaussian(mu), self.chooser(epsilon), mu
            batch = data.subsample(self.sampling, [measure, choose], "gradient and search")
            gradient, precision = self.gradient(batch, objective, w, measure, clips[0]), mu**2
            step = self.step(batch, objective, w, gradient, clips, choose, step_max)
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
                step = self.step(batch, objective, w, gradient, clips, choose, step_max)
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

    def gradient(self, batch: Batch, objective: LinearObjective, w: Floats, bought: Gaussian, clip: float) -> Floats:
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
        self,
        batch: Batch,
        objective: LinearObjective,
        w: Floats,
        gradient: Floats,
        clips: tuple[float, float],
        bought: Mechanism,
        step_max: float,
    ) -> float | None:
        """Return how far to go against the gradient, or None if no step passes."""
        if not gradient.any():
            return None
        steps: Floats = step_max * np.power(self.shrink, np.arange(self.candidates))
        required = self.sufficient * steps * float(np.linalg.norm(gradient)) ** 2
        index = self.searched(clips).find(batch, objective, w, gradient, steps, bought, required)
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
