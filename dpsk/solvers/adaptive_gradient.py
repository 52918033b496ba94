"""DP-AGD: gradient descent that decides privately how far to go and how much to pay (Lee & Kifer 2018).

Read :meth:`AdaptiveGradient.iterates` beside Algorithm 2 of the paper. What differs is listed in
docs/departures.md: the step is chosen by the exponential mechanism unless asked otherwise, the regulariser is part
of the compared objective, the *unnormalised* gradient is averaged, and each price is checked before it is paid.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from .api import Comparison, Gaussian, Iterates, LinearObjective, PrivateData, Solver, require_clip, require_number


@dataclass(frozen=True)
class AdaptiveGradient(Solver):
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

    def __post_init__(self) -> None:
        require_number("splits", self.splits, 1)
        for name, value in (("gamma", self.gamma), ("step_max", self.step_max), ("growth", self.growth)):
            require_number(name, value, 0, open_low=True)
        for name, clip in (("gradient_clip", self.gradient_clip), ("loss_clip", self.loss_clip)):
            require_clip(name, clip)
        for name, count in (("candidates", self.candidates), ("adapt_every", self.adapt_every)):
            require_number(name, count, 1, kind=Integral)
        if self.first_noise is not None:
            require_number("first_noise", self.first_noise, 0, open_low=True)
        if self.batch_size is not None:
            require_number("batch_size", self.batch_size, 1, kind=Integral)
        self.search()  # or its error

    def search(self) -> Comparison:
        """Return how a step is chosen."""
        return Comparison(self.loss_clip, self.selection)

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        w, step_max, chosen, search = objective.start(), self.step_max, list[float](), self.search()
        gradient_price = choice_price = self.first_price(data, w.size)
        choose = search.priced(choice_price, data.currency)
        while data.remaining > choice_price:
            # Leave nothing behind: if the rest does not buy another iteration, this one takes it.
            if data.remaining < 2 * (gradient_price + choice_price):
                gradient_price = data.share(of=data.remaining - choice_price)
            batch = data.batch(self.batch_size)
            sealed = batch.measure(objective.gradient(w, clip=self.gradient_clip))
            gradient = batch.release(sealed, Gaussian.priced(gradient_price, data.currency))
            while True:
                direction = gradient + batch.n_rows * objective.penalty.gradient(w)
                direction /= np.linalg.norm(direction) or 1.0
                step = -step_max / self.candidates * direction
                index, point = search.smallest(batch, objective, w, step, range(self.candidates + 1), choose)
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
            w = point
            yield w
        return None

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
