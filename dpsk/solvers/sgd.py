"""DP-SGD: noisy gradients of random batches, on a schedule fixed before the run (Abadi et al. 2016)."""

import math
from dataclasses import dataclass

import numpy as np

from ..data.private import PrivateData
from ..mechanisms import Gaussian
from ..objectives import Objective
from ..penalties import stable_step
from ..privacy import Cost, Sampling
from ..requirements import choice, clip, integer, number, part
from .sampled import SampledSolver
from .solver import Iterates


@dataclass(frozen=True)
class SGD(SampledSolver):
    """DP-SGD and DP-Adam: ``steps`` batches, each giving one noisy sum of clipped gradients.

    Parameters
    ----------
    sampling : Sampling
        How batches are drawn.
    steps : int
        Number of batches.
    optimizer : {"sgd", "adam"}
        Plain steps, or Adam's with its usual constants (Kingma & Ba 2015).
    learning_rate : float
        Length of a step, relative to the mean gradient (to 1 per weight for Adam).
    gradient_clip : float
        Bound on one row's gradient norm. Larger ones are clipped.
    average : float
        The last part of the iterates whose mean is the result, in (0, 1].
    noise_multiplier : float or None
        Standard deviation of the noise over the sensitivity. None: as little as the budget allows.
    """

    any_model = True

    sampling: Sampling
    steps: int = integer(500)
    optimizer: str = choice("sgd", "sgd", "adam")
    learning_rate: float = number(3.0, open_low=True)
    gradient_clip: float = clip(1.0)
    average: float = part(0.5)
    noise_multiplier: float | None = number(None, open_low=True)

    def iterates(self, data: PrivateData, objective: Objective) -> Iterates:
        mechanism = Gaussian(1 / self.noise_multiplier if self.noise_multiplier else self.calibrated(data))
        w = objective.start()
        mean, moment, square = (np.zeros(objective.shape) for _ in range(3))
        first, length = self.steps - math.ceil(self.average * self.steps), self.learning_rate
        if self.optimizer == "sgd":
            length = stable_step(length, objective.penalty)
        for step in range(self.steps):
            batch = data.subsample(self.sampling, [mechanism], "batch")
            noisy = batch.release(batch.measure(objective.gradient(w, clip=self.gradient_clip)), mechanism)
            gradient = noisy / batch.n_rows + objective.penalty.gradient(w)
            if self.optimizer == "adam":
                moment = 0.9 * moment + 0.1 * gradient
                square = 0.999 * square + 0.001 * gradient**2
                gradient = moment / (1 - 0.9 ** (step + 1)) / (np.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-8)
            w = w - length * gradient
            if step < first:
                yield w
            else:
                mean = mean + (w - mean) / (step - first + 1)
                yield mean
        return None

    def calibrated(self, data: PrivateData) -> float:
        """Return mu (1 / noise multiplier) of which ``steps`` batches cost what is left of the budget."""
        return self.sampling.strongest(self.costs, data.share(self.steps, solved=True), data.currency)

    @property
    def planned(self) -> int:
        """How many batches are planned."""
        return self.steps

    def costs(self, mu: float) -> tuple[Cost]:
        """Return what a batch costs."""
        return (Gaussian(mu).cost,)
