"""First-order methods, and minima with a sure bound on their gradients whatever method came near them.

Column k of every array belongs to objective k; all share the passes over the rows.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..mechanisms.samplers import Floats, Integers
from .newton import Objectives, newton

_EPOCHS = 30
_FARTHEST = 2.0**300
_STEPS = 300  # of the subgradient method


class RandomParts(Objectives, Protocol):
    """Objectives whose gradients can be estimated from random parts of the rows."""

    farthest: float
    """A bound on the norm of each minimiser."""

    def parts(self) -> list[Callable[[Floats], Floats]]:
        """Return the gradients over random parts of the rows of equal size, in multiples of that size: their mean is
        the gradient.
        """

    def shuffled(self, n: int) -> Integers:
        """Return a random order of n things."""


def minima(
    objectives: Objectives,
    shape: tuple[int, int],
    tolerance: float,
    method: str = "newton",
    start: Floats | None = None,
) -> Floats:
    """Return points at which every computed gradient is at most ``tolerance`` long; begin at 0 or at a start.

    It always keeps this promise if gradients are computed to within an eighth of the tolerance: it stops the method
    after a fixed number of steps, and another method, which has a guarantee, goes on from there.
    """
    begin = np.zeros(shape) if start is None else start
    w = near(objectives, begin, tolerance, method)
    if method in ROUGH:
        w = near(objectives, w, tolerance, "newton")
        if not _within(objectives, w, tolerance):
            w = near(objectives, begin, tolerance, "newton")
    return descend(objectives, w, tolerance)


def _within(objectives: Objectives, w: Floats, tolerance: float) -> bool:
    return bool((np.linalg.norm(objectives.gradient(w), axis=0) <= tolerance).all())


def near(objectives: Objectives, w: Floats, tolerance: float, method: str) -> Floats:
    """Return the point that a method reaches, or the start if no gradient can be computed at that point."""
    found = METHODS[method](objectives, w.copy(), tolerance)
    return found if (np.abs(found) < _FARTHEST).all() else w


def descend(objectives: Objectives, w: Floats, tolerance: float) -> Floats:
    """Return points with gradients within the tolerance, halving each gradient by steps whose number is bounded.

    With condition number c, the optimality gap starts at most ||g||^2/(2 convexity) and falls by 1 - 1/sqrt(c) in each
    step of Nesterov's method, so sqrt(c) log(8c) of them halve ||g|| in exact arithmetic. Should rounding prevent that
    once, plain steps of 1/smoothness take over: with gradients off by at most an eighth of the tolerance each lowers
    the objective by a fixed amount as long as the tolerance is not reached, so they come to an end.
    """
    c = objectives.smoothness / objectives.convexity
    momentum = (math.sqrt(c) - 1) / (math.sqrt(c) + 1)
    gradient, accelerated = objectives.gradient(w), True
    while True:
        lengths = np.linalg.norm(gradient, axis=0)
        far = ~(lengths <= tolerance)
        if not far.any():
            return w
        ahead = at = w
        if accelerated:
            half = np.maximum(lengths / 2, tolerance)
            for _ in range(math.ceil(math.sqrt(c) * math.log(8 * c))):
                gradient_at = objectives.gradient(at)
                if (np.linalg.norm(gradient_at, axis=0) <= half).all():
                    ahead = at
                    break
                before, ahead = ahead, at - gradient_at * far / objectives.smoothness
                at = ahead + momentum * (ahead - before)
            gradient_ahead = objectives.gradient(ahead)
            accelerated = bool((np.linalg.norm(gradient_ahead, axis=0) <= half).all())
        if accelerated:
            w, gradient = _helped(objectives, ahead, gradient_ahead, tolerance)
        else:
            w = w - gradient * far / objectives.smoothness
            gradient = objectives.gradient(w)


def _helped(objectives: Objectives, w: Floats, gradient: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Return the point that Newton's method reaches, and its gradient, if it is nearer; otherwise the given ones."""
    if (np.linalg.norm(gradient, axis=0) <= tolerance).all():
        return w, gradient
    found = near(objectives, w, tolerance, "newton")
    gradient_found = objectives.gradient(found)
    nearer = np.linalg.norm(gradient_found, axis=0) <= np.linalg.norm(gradient, axis=0)
    return (found, gradient_found) if nearer.all() else (w, gradient)


def stay(objectives: Objectives, w: Floats, tolerance: float) -> Floats:
    """Return the start. Nesterov's accelerated descent follows every method, so here it does all the work."""
    return w


def subgradient(objectives: RandomParts, w: Floats, tolerance: float) -> Floats:
    """Return the average of subgradient steps of length 2/(convexity (t + 1)); later points weigh more."""
    return _subgradient(objectives, w, lambda t, at: objectives.gradient(at), _STEPS)


def stochastic_subgradient(objectives: RandomParts, w: Floats, tolerance: float) -> Floats:
    """Return the same for steps that each look at one random part of the rows."""
    parts = objectives.parts()
    order = np.concatenate([objectives.shuffled(len(parts)) for _ in range(_EPOCHS)])
    return _subgradient(objectives, w, lambda t, at: parts[order[t]](at), len(order))


def _subgradient(objectives: RandomParts, w: Floats, gradient: Callable[[int, Floats], Floats], steps: int) -> Floats:
    average = w
    for t in range(steps):
        w = w - gradient(t, w) * (2 / (objectives.convexity * (t + 1)))
        w = w * np.minimum(1.0, objectives.farthest / np.maximum(np.linalg.norm(w, axis=0), 1e-300))
        average = average + (w - average) * (2 / (t + 2))
    return average


def katyusha(objectives: RandomParts, w: Floats, tolerance: float) -> Floats:
    """Return where variance-reduced steps with negative momentum get (Allen-Zhu 2017), or stop at the tolerance."""
    parts = objectives.parts()
    count, convexity, smoothness = len(parts), objectives.convexity, objectives.smoothness
    tau = min(0.5, math.sqrt(count * convexity / (3 * smoothness)))
    step = 1 / (3 * tau * smoothness)
    weights = (1 + step * convexity) ** np.arange(count)
    at = far = w
    for _ in range(_EPOCHS):
        whole = objectives.gradient(w)
        if (np.linalg.norm(whole, axis=0) <= tolerance).all():
            break
        snapshot, total = w, np.zeros_like(w)
        for j, part in enumerate(objectives.shuffled(count)):
            middle = tau * far + snapshot / 2 + (0.5 - tau) * at
            moved = step * (whole + parts[part](middle) - parts[part](snapshot))
            far, at = far - moved, middle - tau * moved
            total = total + weights[j] * at
        w = total / weights.sum()
    return w


METHODS: dict[str, Callable[..., Floats]] = {
    "newton": newton,
    "agd": stay,
    "katyusha": katyusha,
    "subgradient": subgradient,
    "stochastic-subgradient": stochastic_subgradient,
}
"""What may come near a minimum first: each has Lowy & Razaviyayn (2021)'s name where it is theirs."""

ROUGH = ("subgradient", "stochastic-subgradient")
"""Methods that may end far from it, where the penalty is small: Newton's goes on from there, or from the start."""
