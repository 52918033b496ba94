"""DP-AGD: gradient descent that decides privately how far to go and how much to pay (Lee & Kifer 2018).

Read :meth:`AdaptiveGradient.iterates` beside Algorithm 2 of the paper. What differs is listed in
docs/departures.md: the step is chosen by the exponential mechanism unless asked otherwise, the regulariser is part
of the compared objective, the *unnormalised* gradient is averaged, and each price is checked before it is paid.
"""

from dataclasses import dataclass

import numpy as np

from ..data.private import PrivateData
from ..mechanisms import Gaussian
from ..objectives import LinearObjective
from ..requirements import choice, clip, integer, number
from .solver import Iterates, Solver
from .step_search import Comparison


@dataclass(frozen=True)
class AdaptiveGradient(Solver):
    """DP-AGD with the paper's names and defaults.

    Parameters
    ----------
    splits : float
        About how many iterations the budget would last if prices never grew.
    gamma : float
        How much more is paid to measure a direction again that turned out bad.
    gradient_clip, loss_clip : float
        C_grad and C_obj: bounds on one row's gradient norm and loss. Larger ones are clipped.
    selection : {"exponential", "laplace", "permute-and-flip"}
        How the step is chosen privately. "laplace" is the paper's.
    step_max : float
        The largest step tried at first; the range adapts.
    candidates, adapt_every, growth : int, int, float
        Steps are 0 and ``candidates`` even ones up to ``step_max``; every ``adapt_every`` choices step_max becomes
        (1 + growth) times the largest step chosen meanwhile, or the smallest step tried if all were 0.
    first_noise : float or None
        The first gradient is bought precise enough that its noise is at most this much of ``gradient_clip`` per row, if
        an even share of the budget allows. None: the paper's price, which at small epsilon buys mostly noise.
    batch_size : int or None
        Rows per iteration, drawn without regard to the data. None: all. Smaller batches save time on large data, not
        budget: each release costs as much as on all rows, so the noise per row grows like n_samples/batch_size. Use
        tens of thousands at least.
    """

    splits: float = number(60, 1)
    gamma: float = number(0.1, open_low=True)
    gradient_clip: float = clip(3.0)
    loss_clip: float = clip(3.0)
    selection: str = choice("exponential", "exponential", "laplace", "permute-and-flip")
    step_max: float = number(2.0, open_low=True)
    candidates: int = integer(20)
    adapt_every: int = integer(10)
    growth: float = number(0.1, open_low=True)
    first_noise: float | None = number(0.1, open_low=True, or_none=True)
    batch_size: int | None = integer(None)

    @property
    def demand(self) -> float:
        return 2.0  # half of the price is for choices: benchmarks/results/hopeless.md

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        w, step_max, chosen = objective.start(), self.step_max, list[float]()
        search = Comparison(self.loss_clip, self.selection)
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
