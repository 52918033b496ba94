"""A small solver for tests, and the example of docs/extending.md: gradient descent with equal shares of the budget."""

from dataclasses import dataclass

import numpy as np

from dpsk.solvers.api import Gaussian, Iterates, LinearObjective, PrivateData, Solver


@dataclass(frozen=True)
class NoisyDescent(Solver):
    steps: int = 100
    step_size: float = 2.0
    clip: float = 2.0

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        w = np.zeros(objective.shape)
        mechanism = Gaussian.priced(data.portion(self.steps), data.currency)
        for _ in range(self.steps):
            gradient = data.release(data.measure(objective.gradient(w, clip=self.clip)), mechanism)
            w = w - self.step_size * (gradient / data.n_rows + objective.penalty.gradient(w))
            yield w
