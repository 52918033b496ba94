"""DP-AGD: gradient descent that decides privately how far to go and how much to pay (Lee & Kifer 2018).

Read :meth:`AdaptiveGradient.iterates` beside Algorithm 2 of the paper. What differs is listed in
docs/departures.md: the step is chosen by the exponential mechanism unless asked otherwise, the regulariser is part
of the compared objective, the *unnormalised* gradient is averaged, and each price is checked before it is paid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..data import PrivateData
from ..losses import Loss
from ..mechanisms import ArgMin, Gaussian, Mechanism, NoisyMin, PermuteAndFlip
from ..mechanisms.samplers import Floats
from ..penalties import Penalty
from ..queries import GradientSum, LossesAlong

__all__ = ["AdaptiveGradient"]


@dataclass(frozen=True)
class AdaptiveGradient:
    """DP-AGD with the paper's names and defaults.

    Parameters
    ----------
    splits : float
        About how many iterations the budget would last if prices never grew.
    gamma : float
        A direction that turns out bad is measured again for (1 + gamma) times its price in all.
    gradient_clip, loss_clip : float
        C_grad and C_obj: bounds on one row's gradient norm and loss.
    selection : {"exponential", "laplace", "permute-and-flip"}
        How the step is chosen.
    step_max, candidates, adapt_every, growth : float, int, int, float
        Steps are 0 and ``candidates`` even ones up to ``step_max``; every ``adapt_every`` choices step_max becomes
        (1 + growth) times the largest step chosen meanwhile, or the smallest step tried if all were 0.
    first_noise : float or None
        The first gradient is bought precise enough that its noise is at most this much of ``gradient_clip`` per row, if
        an even share of the budget allows. None: the paper's price, which at small epsilon buys mostly noise.
    batch_size : int or None
        Rows per iteration, drawn without regard to the data; None for all. Smaller batches save time, not budget.
    """

    splits: float = 60
    gamma: float = 0.1
    gradient_clip: float = 3.0
    loss_clip: float = 3.0
    selection: str = "exponential"
    step_max: float = 2.0
    candidates: int = 20
    adapt_every: int = 10
    growth: float = 0.1
    first_noise: float | None = 0.1
    batch_size: int | None = None

    def iterates(self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]) -> Iterator[Floats]:
        w, step_max, chosen = np.zeros(shape), self.step_max, list[float]()
        gradient_price = choice_price = self.first_price(data, w.size)
        choose = self.chooser(choice_price, data)
        while data.remaining > choice_price:
            # Leave nothing behind: if the rest does not buy another iteration, this one takes it.
            if data.remaining < 2 * (gradient_price + choice_price):
                gradient_price = (data.remaining - choice_price) * (1 - 1e-12)
            batch = data.batch(self.batch_size)
            sealed = batch.measure(GradientSum(loss, w, clip=self.gradient_clip))
            gradient = batch.release(sealed, Gaussian.priced(gradient_price, data.currency))
            while True:
                direction = gradient + batch.n_rows * penalty.gradient(w)
                direction /= np.linalg.norm(direction) or 1.0
                step = -step_max / self.candidates * direction
                line = LossesAlong(loss, w, step, range(self.candidates + 1), clip=self.loss_clip)
                # no clipped losses can outweigh a penalty beyond the cap, which keeps the sum on the grid
                penalties = np.minimum(penalty.values(line.points), 2.0**19 * self.loss_clip)
                objectives = batch.measure(line) + batch.n_rows * penalties
                index = batch.release(objectives, choose)
                chosen.append(index * step_max / self.candidates)
                if len(chosen) == self.adapt_every:
                    step_max = (1 + self.growth) * max(chosen) or step_max / self.candidates
                    chosen = []
                if index > 0:
                    break
                # No step was better than staying: buy more precision and average, each measurement by its price.
                more = self.gamma * gradient_price
                again = batch.release(sealed, Gaussian.priced(more, data.currency))
                gradient = (gradient_price * gradient + more * again) / (gradient_price + more)
                gradient_price += more
            w = line.points[index]
            yield w

    def first_price(self, data: PrivateData, n_weights: int) -> float:
        """Return the paper's first price (epsilon / (2 * splits))^2 / 2, within two bounds from public facts.

        From below by ``first_noise``: noise of standard deviation clip/mu in every weight has norm
        clip*sqrt(n_weights)/mu, which is first_noise * clip * rows for the mu below. From above by an even share
        of the budget: the paper's price grows like epsilon squared and would leave no iterations where epsilon is
        large.
        """
        price = (data.budget.epsilon / (2 * self.splits)) ** 2 / 2
        if self.first_noise is not None:
            rows = min(self.batch_size or data.n_rows, data.n_rows)
            mu = np.sqrt(n_weights) / (self.first_noise * rows)
            price = max(price, data.currency.price(Gaussian(mu).cost))
        return min(price, data.portion(2 * self.splits))

    def chooser(self, price: float, data: PrivateData) -> Mechanism:
        """Return the mechanism that chooses a step for this price."""
        if self.selection == "exponential":
            return ArgMin.priced(price, data.currency)
        if self.selection == "permute-and-flip":
            return PermuteAndFlip.priced(price, data.currency)
        return NoisyMin.priced(price, data.currency, noise="laplace")
