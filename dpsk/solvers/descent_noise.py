"""The noise in weights that descent has found: how far noisy gradients move them, along each direction.

Near a solution descent is linear in its noise. Along a direction of some curvature it answers each noisy gradient by
itself, and the answers add up. The longer a direction is followed, and the less curved it is, the more noise it has.

How curved it is, the run itself tells, as well as noise allows: gradients grow where weights move, the less the more
other weights move along. What was released says no more, so this is an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..mechanisms.samplers import Floats, Integers

STAGES = 8  # in which prices fall
BEGINNING = 0.15  # of a run, in which weights are far from where they end


@dataclass(frozen=True, eq=False)
class Trace:
    """Mean weights and mean gradients of the parts of a run, all of them released. ``part`` has that of each step."""

    part: Integers
    weights: np.ndarray[Any, np.dtype[np.float32]]
    gradients: np.ndarray[Any, np.dtype[np.float32]]

    @classmethod
    def of(cls, steps: int, parts: int, shape: tuple[int, ...]) -> Trace:
        """Return an empty trace of so many steps; those at the beginning belong to part -1."""
        begin, parts = int(BEGINNING * steps), min(parts, steps)
        part = np.arange(-begin, steps - begin) * parts // (steps - begin)
        nothing = np.zeros((parts, *shape), dtype=np.float32)
        return cls(np.maximum(part, -1), nothing, nothing.copy())

    def add(self, step: int, w: Floats, gradient: Floats) -> None:
        """Take in the weights of a step, and the noisy gradient there."""
        part = self.part[step]
        if part < 0 or not len(self.weights):
            return
        size = np.count_nonzero(self.part == part)
        self.weights[part] += w / size
        self.gradients[part] += gradient / size

    def curvature(self, features: slice, directions: Floats) -> Floats:
        """Return by how much gradients grow along directions of some features (columns), for each score (last axis)."""
        moves, answers = (
            np.einsum(
                "tik,ij->tjk",
                (seen - seen.mean(axis=0))[:, features].reshape(len(seen), len(directions), -1),
                directions,
            )
            for seen in (self.weights.astype(np.float64), self.gradients.astype(np.float64))
        )
        squares = np.square(moves).sum(axis=0)
        grown: Floats = (moves * answers).sum(axis=0) / np.where(squares > 0, squares, 1.0)
        return grown


@dataclass(frozen=True, eq=False)
class DescentNoise:
    """What the noise in the result of a heavy-ball descent follows from: public facts and releases.

    ``deviation`` is that of the noise in one coordinate of the first mean gradient. ``taper`` says by how much later
    gradients were cheaper (:func:`tapered`). ``clip`` is the largest derivative of the loss by the score that is not
    clipped in a typical row. ``curvature`` is the mean second derivative by the score, as far as it is known, and
    ``penalty`` that of the penalty. ``trace`` is what the run has shown, and ``factor`` is what all weights were
    multiplied with in the end.
    """

    steps: int
    step_size: float
    momentum: float
    average: float
    deviation: float
    clip: float
    curvature: float
    penalty: float
    trace: Trace
    factor: float = 1.0
    taper: float = 0.0

    def covariances(self, moments: Floats, features: slice) -> Floats:
        """Return the covariance of the weights of some features, with these mean products, for each score (first axis).

        Along an eigenvector of ``moments`` the loss is curved as the run has shown, but not more than if all other
        weights stood still.
        """
        values, vectors = np.linalg.eigh(moments)
        most = self.curvature * np.maximum(values, 0)
        shown = np.clip(self.trace.curvature(features, vectors), 0, most[:, None])
        covariances: Floats = (vectors * np.square(self.along(shown)).T[:, None]) @ vectors.T
        return covariances

    def along(self, curvature: Floats) -> Floats:
        """Return the standard deviation of the result along directions in which the loss is curved so much."""
        pull = self.step_size * (np.asarray(curvature, dtype=np.float64) + self.penalty)
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
        prices = tapered(self.steps, first, self.taper)  # a price is the inverse of a variance
        spread: Floats = np.sqrt(np.tensordot(1 / prices, np.square(averaged), axes=1)) / (self.steps - first)
        return self.factor * self.step_size * self.deviation * spread


def first_averaged(steps: int, average: float) -> int:
    """Return the step from which on iterates are averaged, if that is the last part ``average`` of them."""
    return steps - math.ceil(average * steps)


def tapered(steps: int, first: int, taper: float) -> Floats:
    """Return the prices of steps over that of the first one: 1 up to step ``first``, then falling in stages, above 0.

    From step ``first`` on iterates are averaged. The price of a step is 1 less ``taper`` times the part of all averaged
    iterates that came before the stage of the step. Why: along a direction that is hardly curved, a gradient moves all
    later iterates alike. So its noise weighs in their mean as much as there are averaged iterates after it, and prices
    in proportion to this number leave the least noise (Cauchy & Schwarz). A taper of 1 has these prices, but for the
    stages, which keep reports short.
    """
    prices, late = np.ones(steps), steps - first
    stages = min(STAGES, late)
    prices[first:] -= taper * (np.arange(late) * stages // late) / stages
    return prices
