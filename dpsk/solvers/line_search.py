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

import numpy as np

from ..data import Batch, PrivateData
from ..losses import Loss
from ..mechanisms import AboveThreshold, ArgMin, Gaussian, Mechanism
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..privacy import Cost, Sampling
from ..queries import ArmijoGains, GradientSum, LossesAlong

__all__ = ["LineSearch"]

_AT_ONCE = 4  # gains that are computed together
# Prices rise as long as this many updates are left: at a fixed order one raise can multiply a price by hundreds.
_FEWEST = 10
_SMALLEST = 1e-6  # to which part of their first value clips may shrink


@dataclass(frozen=True)
class Start:
    """Where a search starts: an objective, weights, the noisy gradient there, and the clips in force."""

    loss: Loss
    penalty: Penalty
    w: Floats
    gradient: Floats
    clips: tuple[float, float]


@dataclass(frozen=True)
class LineSearch:
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
    increase: str = "angle"
    increase_by: float = 0.3
    angle_memory: float = 0.8
    angle_max: float = 1.1
    angle_min: float = 0.5
    clip_decay: float = 0.0
    fallback: bool = False

    def iterates(self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]) -> Iterator[Floats]:
        w, step_max, chosen, clips = np.zeros(shape), self.step_max, list[float](), (self.gradient_clip, self.loss_clip)
        mu, epsilon = self.first_strengths(data)
        before, usual_angle = np.zeros(shape), 90.0
        while True:
            mu, epsilon = self.with_the_rest(data, mu, epsilon)
            measure, choose, bought = Gaussian(mu), self.chooser(epsilon), mu
            batch = data.subsample(self.sampling, [measure, choose], "gradient and search")
            gradient, precision = self.gradient(batch, loss, penalty, w, measure, clips[0]), mu**2
            found = self.search_along(batch, Start(loss, penalty, w, gradient, clips), choose, step_max)
            while found is None:
                again = Gaussian(math.sqrt(self.increase_by) * mu) if self.increase == "merge" else Gaussian(mu)
                batch = data.subsample(self.sampling, [again], "gradient again")
                second = self.gradient(batch, loss, penalty, w, again, clips[0])
                dearer = self.check_and_enlarge(mu, epsilon, angle_between(gradient, second), usual_angle)
                if _FEWEST * self.price(data, *dearer) <= data.remaining:
                    mu, epsilon = dearer
                gradient = (precision * gradient + again.mu**2 * second) / (precision + again.mu**2)
                precision += again.mu**2
                choose = self.chooser(epsilon)
                batch = data.subsample(self.sampling, [choose], "search again")
                found = self.search_along(batch, Start(loss, penalty, w, gradient, clips), choose, step_max)
            w, step = found
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

    def gradient(
        self, batch: Batch, loss: Loss, penalty: Penalty, w: Floats, mechanism: Gaussian, clip: float
    ) -> Floats:
        """Return the noisy gradient of the objective."""
        noisy: Floats = batch.release(batch.measure(GradientSum(loss, w, clip=clip)), mechanism)
        gradient: Floats = noisy / batch.n_rows + penalty.gradient(w)
        return gradient

    def check_and_enlarge(self, mu: float, epsilon: float, angle: float, usual_angle: float) -> tuple[float, float]:
        """Return the strengths after a search that failed, by the angle between two measurements of its gradient."""
        doubtful = angle > min(90.0, self.angle_max * usual_angle)
        if self.increase in ("always", "merge") or (self.increase == "angle" and doubtful):
            return math.sqrt(1 + self.increase_by) * mu, epsilon
        if self.increase == "angle" and angle < self.angle_min * usual_angle:
            return mu, (1 + self.increase_by) * epsilon
        return mu, epsilon

    def search_along(
        self, batch: Batch, start: Start, choose: Mechanism, step_max: float
    ) -> tuple[Floats, float] | None:
        """Return where the search leads and the step taken, or None if no step passes."""
        if not start.gradient.any():
            return None
        steps: Floats = step_max * np.power(self.shrink, np.arange(self.candidates))
        if isinstance(choose, AboveThreshold):
            index = self.backtrack(batch, start, choose, steps)
        else:
            index = self.compare(batch, start, choose, steps)
        if index == len(steps) and not self.fallback:
            return None
        step = float(steps[min(index, len(steps) - 1)])
        return start.w - step * start.gradient, step

    def backtrack(self, batch: Batch, start: Start, choose: AboveThreshold, steps: Floats) -> int:
        """Return which step is the first whose noisy gain passes a noisy threshold."""
        required = self.sufficient * steps * float(np.linalg.norm(start.gradient)) ** 2
        return backtrack(batch, start, choose, steps, required, per_unit=self.gains == "per-unit")

    def compare(self, batch: Batch, start: Start, choose: Mechanism, steps: Floats) -> int:
        """Return which step, or staying (after the last), has the smallest noisy objective."""
        line = LossesAlong(start.loss, start.w, -start.gradient, [*steps, 0.0], clip=start.clips[1])
        # no clipped losses can outweigh a penalty beyond the cap, which keeps the sum on the grid
        penalties = np.minimum(start.penalty.values(line.points), 2.0**19 * start.clips[1])
        index: int = batch.release(batch.measure(line) + batch.n_rows * penalties, choose)
        return index

    def chooser(self, epsilon: float) -> Mechanism:
        """Return the mechanism that chooses a step for this epsilon."""
        if self.search == "exponential":
            return ArgMin(epsilon)
        return AboveThreshold(epsilon, self.candidates, self.noise)

    @property
    def planned(self) -> float:
        """How many updates are planned."""
        return self.splits

    def costs(self, mu: float, epsilon: float | None = None) -> tuple[Cost, Cost]:
        """Return what an update costs whose search succeeds at once."""
        return Gaussian(mu).cost, self.chooser(self.search_share * mu if epsilon is None else epsilon).cost

    def first_strengths(self, data: PrivateData) -> tuple[float, float]:
        """Return mu of the first gradient and epsilon of the first search."""
        mu = self.strongest(data, data.remaining / self.splits, 1.0, self.search_share)
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
        scale = self.strongest(data, data.remaining, mu, epsilon)
        return (scale * mu, scale * epsilon) if scale**2 > 0.5 else (mu, epsilon)

    def price(self, data: PrivateData, mu: float, epsilon: float) -> float:
        """Return what an update costs whose search succeeds at once."""
        return data.currency.price(self.sampling.cost(self.costs(mu, epsilon)))

    def strongest(self, data: PrivateData, price: float, mu: float, epsilon: float) -> float:
        """Return by how much an update's mu and epsilon can be scaled to cost ``price``."""
        return self.sampling.strongest(
            lambda scale: self.costs(scale * mu, scale * epsilon), price * (1 - 1e-9), data.currency
        )


def backtrack(
    batch: Batch, start: Start, choose: AboveThreshold, steps: Floats, required: Floats, *, per_unit: bool = True
) -> int:
    """Return which step against ``start.gradient`` is the first whose noisy decrease reaches what is required of it,
    within the noise of a threshold; their number if none does. Gains are computed as needed.
    """
    size, clip = float(np.linalg.norm(start.gradient)), start.clips[0] if per_unit else start.clips[1]
    search = batch.open(choose, "search")
    for first in range(0, len(steps), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        gains = ArmijoGains(start.loss, start.w, start.gradient, steps[some], clip=clip, per_unit=per_unit)
        public = start.penalty.value(start.w) - start.penalty.values(gains.points) - required[some]
        public = np.clip(public / (steps[some] * size if per_unit else 1.0), -(2.0**9) * clip, 2.0**9 * clip)
        index: int = batch.release(batch.measure(gains) + batch.n_rows * public, search)
        if index < len(public):
            return first + index
    return len(steps)


def angle_between(a: Floats, b: Floats) -> float:
    """Return the angle between two arrays, in degrees; 90 where one of them is zero."""
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(np.vdot(a, b)) / norms if norms > 0 else 0.0
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
