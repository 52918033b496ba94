"""A small solver for tests, and the example of docs/extending.md: gradient descent with equal shares of the budget."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpsk.data import PrivateData
from dpsk.losses import Loss
from dpsk.mechanisms import Gaussian
from dpsk.penalties import Penalty
from dpsk.queries import GradientSum


@dataclass(frozen=True)
class NoisyDescent:
    steps: int = 100
    step_size: float = 2.0
    clip: float = 2.0

    def iterates(self, data: PrivateData, loss: Loss, penalty: Penalty, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
        w = np.zeros(shape)
        mechanism = Gaussian.priced(data.portion(self.steps), data.currency)
        for _ in range(self.steps):
            gradient = data.release(data.measure(GradientSum(loss, w, clip=self.clip)), mechanism)
            w = w - self.step_size * (gradient / data.n_rows + penalty.gradient(w))
            yield w
