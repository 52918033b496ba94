"""Minima of several strongly convex objectives at once, surely.

Column k of every array belongs to objective k; all share the passes over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..mechanisms.exact import Floats

__all__ = ["Objectives", "minima"]

_NEWTON_STEPS = 60
_SHORTENINGS = 20
_STALE = 0.15  # a step that leaves more of a gradient than this asks for a new Hessian
_LARGEST_HESSIAN = 1000  # columns beyond which products with the Hessian replace it


class Objectives(Protocol):
    """K objectives with Hessians between ``convexity`` and ``smoothness`` (times the identity)."""

    convexity: float
    smoothness: float

    def gradient(self, w: Floats) -> Floats:
        """Return the gradients at the columns of ``w``, nearly: the error must be small beside the tolerance."""

    def hessians(self, w: Floats, damping: Floats) -> Floats:
        """Return an approximate Hessian per column: shape (K, p, p). Curvatures below ``damping`` times their bound
        count as that much, because gradients further away are flatter than they seem.
        """

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        """Return the function that multiplies the columns of a direction by the same Hessians."""


def minima(objectives: Objectives, shape: tuple[int, int], tolerance: float) -> Floats:
    """Return points at which every gradient, as computed, is at most ``tolerance`` long.

    It always returns what it promises, as long as gradients are computed to within an eighth of the tolerance: Newton's
    method is stopped after a fixed number of steps, and a method with a guarantee goes on from where it is.
    """
    return _descend(objectives, _newton(objectives, np.zeros(shape), tolerance), tolerance)


def _newton(objectives: Objectives, w: Floats, tolerance: float) -> Floats:
    """Return where Newton's method gets, with steps shortened until they do not pass the minimum along them by far."""
    gradient = objectives.gradient(w)
    lengths = first = np.linalg.norm(gradient, axis=0)
    solve: _System | None = None
    ratio, damping = np.ones_like(lengths), np.ones_like(lengths)
    for _ in range(_NEWTON_STEPS):
        far = lengths > tolerance
        if not far.any():
            break
        try:
            if solve is None or (ratio[far] > _STALE).any():
                damping = np.minimum(damping, lengths / np.maximum(first, 1e-300))
                solve = _System(objectives, w, damping)
            step = -solve(gradient) * far
        except LinAlgError:
            break
        fall = -np.sum(gradient * step, axis=0)
        if not np.isfinite(fall).all():
            break
        taken = np.ones(len(lengths))
        for _ in range(_SHORTENINGS):
            ahead = objectives.gradient(w + taken * step)
            rise = np.sum(ahead * step, axis=0)
            too_far = far & ~(rise <= fall / 2)
            if not too_far.any():
                break
            taken = np.where(too_far, taken * np.clip(fall / (fall + rise), 0.1, 0.9), taken)
        else:
            break
        damping = np.where(rise < -fall / 2, damping / 10, damping)  # it went down nearly as steeply at the end
        w, gradient, before = w + taken * step, ahead, lengths
        lengths = np.linalg.norm(gradient, axis=0)
        ratio = lengths / np.maximum(before, 1e-300)
    return w


class _System:
    """Solves with the Hessian at one point: factored, or by conjugate gradients where it would be too large."""

    def __init__(self, objectives: Objectives, w: Floats, damping: Floats) -> None:
        if len(w) > _LARGEST_HESSIAN:
            self._multiply: Callable[[Floats], Floats] | None = objectives.products(w, damping)
            return
        self._multiply = None
        floor = objectives.convexity * np.eye(len(w))
        self._factors = [cho_factor(hessian + floor, check_finite=False) for hessian in objectives.hessians(w, damping)]

    def __call__(self, gradient: Floats) -> Floats:
        if self._multiply is not None:
            return _conjugate_gradients(self._multiply, gradient)
        columns = [
            cho_solve(factor, g, check_finite=False) for factor, g in zip(self._factors, gradient.T, strict=True)
        ]
        return np.stack(columns, axis=1)


def _conjugate_gradients(multiply: Callable[[Floats], Floats], target: Floats, accuracy: float = 0.05) -> Floats:
    """Return nearly the solutions of one linear system per column."""
    solution, residual = np.zeros_like(target), target.copy()
    direction, squared = residual.copy(), np.sum(residual * residual, axis=0)
    enough = accuracy**2 * squared
    for _ in range(len(target)):
        running = squared > enough
        if not running.any():
            break
        product = multiply(direction)
        curved = np.sum(direction * product, axis=0)
        length = np.where(running & (curved > 0), squared / np.where(curved > 0, curved, 1), 0.0)
        solution += length * direction
        residual -= length * product
        before, squared = squared, np.where(length > 0, np.sum(residual * residual, axis=0), 0.0)
        direction = residual + squared / np.where(before > 0, before, 1) * direction
    return solution


def _descend(objectives: Objectives, w: Floats, tolerance: float) -> Floats:
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
        far = lengths > tolerance
        if not far.any():
            return w
        ahead = at = w
        if accelerated:
            for _ in range(math.ceil(math.sqrt(c) * math.log(8 * c))):
                before, ahead = ahead, at - objectives.gradient(at) * far / objectives.smoothness
                at = ahead + momentum * (ahead - before)
            gradient_ahead = objectives.gradient(ahead)
            accelerated = (np.linalg.norm(gradient_ahead, axis=0) <= np.maximum(lengths / 2, tolerance)).all()
        if accelerated:
            w, gradient = ahead, gradient_ahead
        else:
            w = w - gradient * far / objectives.smoothness
            gradient = objectives.gradient(w)
