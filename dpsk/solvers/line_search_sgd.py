"""DP-SGD whose steps a private line search finds, on a schedule fixed before the run (Chen & Lee 2020, §5.7).

Nothing is bought twice and no price grows: each batch pays for one gradient and one search, and where the search finds
no step, a shorter one is taken unasked. So the number of steps is known before the run, as for DP-SGD.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..data.private import Batch, PrivateData
from ..mechanisms import Gaussian, Mechanism
from ..mechanisms.samplers import Floats
from ..objectives import Objective
from ..privacy import Cost, Sampling
from ..requirements import choice, clip, flag, integer, number, part
from .sampled import SampledSolver
from .solver import Iterates
from .step_search import Along, Backtracking

USUAL_LONGEST = 10.0
LAST = 1e-9  # a value of ``average`` so small that it means the last iterate alone


@dataclass(frozen=True)
class LineSearchSGD(SampledSolver):
    """DP-SGD with a backtracking search for every step. :meth:`of_paper` gives the variant of Chen & Lee (2020), §5.7.

    A batch gives a noisy gradient g. The search tries ``step_max * shrink**i`` for i = 0, 1, ... and takes the first
    step whose noisy gain reaches ``sufficient`` times what a straight line along g would gain. If none of
    ``candidates`` steps does, the next shorter one is taken. The search costs the same whichever step it finds. Columns
    should be centred: along a direction that all rows share only short steps gain anything.

    Parameters
    ----------
    sampling : Sampling
        How batches are drawn.
    steps : int
        Number of batches.
    gradient_clip, loss_clip : float
        C_grad and C_obj: bounds on one row's gradient norm, and on its loss where losses are clipped
        (``gains="clipped"``). Larger ones are clipped.
    gains : {"per-unit", "clipped"}
        What the search compares: each row's gain per unit of step length, within ``gradient_clip``, whose noise shrinks
        with the step; or the difference of clipped losses, the paper's.
    noise : {"laplace", "gaussian"}
        Noise of the search. Gaussian noise pays for each step that may be tried.
    search_share : float
        Epsilon of a search as a multiple of mu, the sensitivity over the noise of a gradient.
    step_max, shrink, candidates : float or None, float, int
        eta_0, beta and max_it of the paper. ``step_max=None``: 10; for a ``gradient_clip`` below 1, which makes
        gradients shorter, 10 / ``gradient_clip``.
    sufficient : float
        alpha of the paper, in (0, 1).
    denoised : bool
        Whether the noise in g, whose size is public, is subtracted from its squared length before a gain is required.
        With many weights most of that length is noise, and no step could gain so much.
    adapt_every, growth : int, float
        tau and varsigma of the paper: after so many steps the longest one that is tried becomes ``growth`` times what
        was taken meanwhile.
    rises : bool
        True: that is their median, and the longest step may rise again up to ``step_max``. So a few steps that noise
        has chosen do no harm. False: it is the longest of them, and the longest step that is tried only falls; the
        paper's.
    average : float
        The last part of the iterates whose mean is the result, in (0, 1].
    """

    any_model = True

    sampling: Sampling
    steps: int = integer(500)
    gradient_clip: float = clip(1.0)
    loss_clip: float = clip(3.0)
    gains: str = choice("per-unit", "per-unit", "clipped")
    noise: str = choice("laplace", "laplace", "gaussian")
    search_share: float = number(0.5, open_low=True)
    step_max: float | None = number(None, open_low=True)
    shrink: float = part(0.7, whole=False)
    candidates: int = integer(10)
    sufficient: float = part(0.1, whole=False)
    denoised: bool = flag(True)
    adapt_every: int = integer(10)
    growth: float = number(1.5, 1)
    rises: bool = flag(True)
    average: float = part(0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest < 2.0**-60 or self.longest > 2.0**60:
            raise ValueError(
                f"step_max={self.longest!r}, shrink={self.shrink!r} and candidates={self.candidates!r} lead to steps "
                "beyond 2**-60 or 2**60: use fewer candidates, or a larger shrink"
            )

    @property
    def longest(self) -> float:
        """The longest step that is ever tried."""
        return USUAL_LONGEST / min(self.gradient_clip, 1.0) if self.step_max is None else self.step_max

    @property
    def shortest(self) -> float:
        """The step that is taken where the search finds none, at first."""
        return self.longest * self.shrink**self.candidates

    @classmethod
    def of_paper(
        cls, sampling: Sampling, steps: int, *, step_max: float = 3.0, candidates: int = 15, search_price: float = 0.1
    ) -> "LineSearchSGD":
        """Return DP-BLSGD as Chen & Lee (2020) run it on networks (§5.7), at a sound price.

        ======================  ==================  ==========================================================
        here                    paper               value
        ======================  ==================  ==========================================================
        ``sampling.rate``       q                   1/200
        ``steps``               iterations          not in the text
        ``step_max``            eta_0               not in the text
        ``candidates``          max_it              not in the text
        ``shrink``              beta                .8
        ``sufficient``          alpha               .001, of ||g||^2 with its noise
        ``gradient_clip``       C_grad              3
        ``loss_clip``           C_obj               3; gains are differences of losses clipped at it
        ``noise``               NOISYBTLS           Gaussian
        ``search_price``        10 % of rho_iter    .1
        ``adapt_every``         tau                 10
        ``growth``              varsigma            1.2
        no step passes          beta^max_it eta_0   ``shrink ** candidates * step_max``
        ======================  ==================  ==========================================================

        Noises are in the proportion of the paper: sigma_1^2 = 3/(2 rho) and sigma_2^2 = 3/rho for the search, with rho
        = epsilon^2/2 a tenth of rho_iter, and rho = mu^2/2 nine tenths of it for the gradient. What they cost is not
        what the paper says: its price of the search does not grow with max_it, which is false, and it amplifies
        gradient and search of one batch apart. Here the search pays for each step that may be tried, and both are
        amplified together. The penalty is part of the objective, and sums are divided by the expected size of a batch.
        """
        share = math.sqrt(search_price / (1 - search_price))
        return cls(
            sampling, steps, gradient_clip=3.0, loss_clip=3.0, gains="clipped", noise="gaussian", search_share=share,
            step_max=step_max, shrink=0.8, candidates=candidates, sufficient=1e-3, denoised=False, adapt_every=10,
            growth=1.2, rises=False, average=LAST,
        )  # fmt: skip

    def iterates(self, data: PrivateData, objective: Objective) -> Iterates:
        mu = self.calibrated(data)
        measure, choose = Gaussian(mu), self.chooser(self.search_share * mu)
        w, mean, far, chosen = objective.start(), np.zeros(objective.shape), self.longest, list[float]()
        first = self.steps - math.ceil(self.average * self.steps)
        for step in range(self.steps):
            batch = data.subsample(self.sampling, [measure, choose], "gradient and search")
            sealed = batch.measure(objective.gradient(w, clip=self.gradient_clip))
            noisy = batch.release(sealed, measure)
            gradient = noisy / batch.n_rows + objective.penalty.gradient(w)
            noise = sealed.sensitivity.l2 * sealed.unit / mu / batch.n_rows if self.denoised else 0.0
            chosen.append(self.step(batch, objective, w, gradient, noise, choose, far))
            w = w - chosen[-1] * gradient
            if len(chosen) == self.adapt_every:
                far, chosen = self.adapted(far, chosen), []
            if step < first:
                yield w
            else:
                mean = mean + (w - mean) / (step - first + 1)
                yield mean
        return None

    def adapted(self, far: float, chosen: list[float]) -> float:
        """Return the longest step to be tried from now on, after these were taken."""
        if self.rises:
            return min(self.growth * float(np.median(chosen)), self.longest)
        return min(self.growth * max(chosen), far)

    def step(
        self, batch: Batch, objective: Objective, w: Floats, grad: Floats, noise: float, bought: Mechanism, far: float
    ) -> float:
        """Return how far to go against the gradient, at most so ``far``; ``noise`` is that in each of its entries."""
        steps: Floats = far * np.power(self.shrink, np.arange(self.candidates + 1))
        square = float(np.square(grad).sum())
        if square == 0:
            return float(steps[-1])
        hoped = self.sufficient * max(square - grad.size * noise**2, 0.0)
        along = Along(w, grad, steps[:-1], hoped * steps[:-1])
        return float(steps[self.search.find(batch, objective, along, bought)])

    @property
    def search(self) -> Backtracking:
        """How a step is found."""
        per_unit = self.gains == "per-unit"
        return Backtracking(self.gradient_clip if per_unit else self.loss_clip, self.noise, per_unit)

    def chooser(self, epsilon: float) -> Mechanism:
        """Return what a search costs that has this epsilon."""
        return self.search.mechanism(epsilon, self.candidates)

    def calibrated(self, data: PrivateData) -> float:
        """Return mu of a gradient, of which ``steps`` batches cost what is left of the budget."""
        return self.sampling.strongest(self.costs, data.share(self.steps, solved=True), data.currency)

    @property
    def planned(self) -> int:
        """How many batches are planned."""
        return self.steps

    def costs(self, mu: float) -> tuple[Cost, Cost]:
        """Return what a batch costs."""
        return Gaussian(mu).cost, self.chooser(self.search_share * mu).cost
