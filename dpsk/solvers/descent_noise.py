"""The noise in weights that descent has found: how far noisy gradients move them, along each direction.

Near a solution descent is linear in its noise. Along a direction of some curvature it answers each noisy gradient by
itself, and the answers add up. The longer a direction is followed, and the less curved it is, the more noise it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..mechanisms.samplers import Floats


@dataclass(frozen=True)
class DescentNoise:
    """What the noise in the result of a heavy-ball descent follows from: public facts and releases.

    ``deviation`` is that of the noise in one coordinate of a mean gradient. ``clip`` is the largest derivative of the
    loss by the score that is not clipped in a typical row. ``curvature`` is the mean second derivative by the score, as
    far as it is known, and ``penalty`` that of the penalty. ``factor`` is what all weights were multiplied with in the
    end.
    """

    steps: int
    step_size: float
    momentum: float
    average: float
    deviation: float
    clip: float
    curvature: float
    penalty: float
    factor: float = 1.0

    def along(self, moments: Floats) -> Floats:
        """Return the standard deviation of the result along directions in which the columns have these mean squares."""
        pull = self.step_size * (self.curvature * np.asarray(moments, dtype=np.float64) + self.penalty)
        first = first_averaged(self.steps, self.average)
        # the answer to one step of length 1, and its sums: it is the same after each gradient, only later
        answer, velocity = np.zeros_like(pull), np.zeros_like(pull)
        sums = np.zeros((self.steps + 1, *pull.shape))
        for k in range(self.steps):
            velocity = self.momentum * velocity - pull * answer + (k == 0)
            answer = answer + velocity
            sums[k + 1] = sums[k] + answer
        left = np.arange(self.steps, 0, -1)  # steps that answer the first gradient, the second, ...
        averaged = sums[left] - sums[np.maximum(left - (self.steps - first), 0)]
        spread: Floats = np.sqrt(np.square(averaged).sum(axis=0)) / (self.steps - first)
        return self.factor * self.step_size * self.deviation * spread


def first_averaged(steps: int, average: float) -> int:
    """Return the step from which on iterates are averaged, if that is the last part ``average`` of them."""
    return steps - math.ceil(average * steps)
