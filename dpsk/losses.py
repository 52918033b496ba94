"""Losses: functions of the scores only, with the constants that privacy needs.

Losses see the un-noised scores and labels of rows, so they belong to the trusted core: each row's value and derivative
must depend on that row alone.

A score is x.w for one row. Binary losses take scores of shape (n,) and labels -1/+1; losses for K classes take scores
of shape (n, K) and labels 0..K-1. The gradient of a row is ``derivative (x) x``, so its norm is
``||derivative|| * ||x||`` whatever the number of classes.

``lipschitz`` bounds the l2 norm of the derivative with respect to the scores of a row, ``smoothness`` the spectral norm
of the second derivative. A bound that does not exist is ``inf``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .elementwise import exp, log, log1p

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[Any]


class Loss(ABC):
    """A loss of scores and labels. Subclasses are frozen dataclasses, so that they can be cache keys.

    The value is computed in two steps. ``margins`` combines scores and label; it is linear in the scores.
    ``of_margins`` does the rest. So on a line of weights margins are needed at two points only.
    """

    lipschitz: float
    smoothness: float
    n_classes: int | None
    """None for scores of shape (n,), K for scores of shape (n, K)."""

    @property
    def typical_curvature(self) -> float:
        """A typical second derivative, by which step sizes are chosen; ``smoothness`` is the bound."""
        return self.smoothness

    @property
    def jerk(self) -> float:
        """A bound on the spectral norm of the third derivative; ``inf`` where second derivatives jump."""
        return math.inf

    @property
    def concavity(self) -> float:
        """A bound on how far below 0 second derivatives are: 0 for a convex loss."""
        return self.smoothness

    @abstractmethod
    def margins(self, scores: Floats, y: Labels) -> Floats:
        """Return a linear function of each row's scores, in their shape."""

    @abstractmethod
    def of_margins(self, margins: Floats) -> Floats:
        """Return one non-negative number per row."""

    @abstractmethod
    def derivative(self, scores: Floats, y: Labels) -> Floats:
        """Return the derivative with respect to the scores, in their shape."""

    @abstractmethod
    def second_derivative(self, scores: Floats, y: Labels) -> Floats:
        """Return the second derivative: shape (n,) for scores (n,), shape (n, K, K) for scores (n, K)."""

    def value(self, scores: Floats, y: Labels) -> Floats:
        """Return one non-negative number per row."""
        return self.of_margins(self.margins(scores, y))


def check_weights(loss: Loss, w: Floats) -> Floats:
    """Return ``w``; raise ValueError unless it has one column per class of the loss (or none for two classes)."""
    w = np.asarray(w)
    wanted = w.ndim == 1 if loss.n_classes is None else w.ndim == 2 and w.shape[1] == loss.n_classes
    if not wanted:
        shape = "(p,)" if loss.n_classes is None else f"(p, {loss.n_classes})"
        raise ValueError(f"{loss!r} takes weights of shape {shape}, not {w.shape}")
    return w


class MarginLoss(Loss):
    """A loss phi(m) of the margin m = y * score. Subclasses give phi and its two derivatives."""

    n_classes = None

    @abstractmethod
    def phi(self, margin: Floats) -> Floats:
        """Return the loss at each margin."""

    @abstractmethod
    def slope(self, margin: Floats) -> Floats:
        """Return phi' (a subgradient where phi has a kink)."""

    @abstractmethod
    def curvature(self, margin: Floats) -> Floats:
        """Return phi''."""

    def corner(self, steepness: Floats) -> Floats | None:
        """Return the largest margin at which a convex phi falls at least this steeply; None if phi is not convex.

        Below this margin :meth:`flattened` follows the tangent.
        """
        del steepness
        return None

    @property
    def concavity(self) -> float:
        return self.smoothness if self.corner(np.ones(1)) is None else 0.0

    def curvature_below(self, steepness: float) -> float:
        """Return a bound on phi'' where phi falls at most this steeply.

        Divided by steepness^2 it must not grow with steepness: long rows are the most curved.
        """
        del steepness
        return self.smoothness

    @property
    def decay(self) -> float:
        """The fastest decay of phi'': phi''(m + t) >= phi''(m) exp(-decay |t|); ``inf`` where phi'' can be 0."""
        return math.inf

    @property
    def conditioning(self) -> float:
        """The supremum of |m| phi''(m) - |phi'(m)|: it bounds how far a relative error of a margin moves phi'.

        The error of ``slope`` must be at most 2^-49 of the slope plus 2^-53 of this number, and the error of ``phi`` at
        most 2^-48 (phi + phi(0)). The bounds on the rounding of gradients need both.
        """
        return math.inf

    def flattened(self, margin: Floats, steepness: Floats, corner: Floats | None = None) -> Floats:
        """Return the convex loss whose slope is phi', but never steeper than ``steepness``.

        Its gradient is phi's, clipped. ``corner`` is ``corner(steepness)``, if it is known already.
        """
        corner = self.corner(steepness) if corner is None else corner
        if corner is None:
            raise ValueError(f"{self!r} is not convex")
        above: Floats = self.phi(np.maximum(margin, corner))
        if above.shape != margin.shape:
            raise TypeError(f"{self!r} must return one value per row")
        return above + steepness * np.maximum(corner - margin, 0)

    def margins(self, scores: Floats, y: Labels) -> Floats:
        return y * scores

    def of_margins(self, margins: Floats) -> Floats:
        return self.phi(margins)

    def derivative(self, scores: Floats, y: Labels) -> Floats:
        return y * self.slope(y * scores)

    def second_derivative(self, scores: Floats, y: Labels) -> Floats:
        return self.curvature(y * scores)


def _decay(margin: Floats) -> Floats:
    """Return 1 / (1 + exp(margin)): the probability that a logistic model gives to the other label."""
    return 1 / _grown(margin)


def _grown(margin: Floats) -> Floats:
    """Return 1 + exp(margin)."""
    with np.errstate(over="ignore"):
        grown = exp(margin)
    grown += 1
    return grown


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """log(1 + exp(-m))."""

    lipschitz = 1.0
    smoothness = 0.25
    jerk = 1 / (6 * math.sqrt(3))
    decay = 1.0  # the logarithm of phi'' has the derivative 1 - 2/(1 + exp(-m))

    def phi(self, margin: Floats) -> Floats:
        return log1p(exp(-np.abs(margin))) + np.maximum(-margin, 0)

    def slope(self, margin: Floats) -> Floats:
        slope: Floats = -1 / _grown(margin)
        return slope

    def curvature(self, margin: Floats) -> Floats:
        return _decay(margin) * _decay(-margin)

    conditioning = 0.25  # 0.224 at a margin of 1.54

    def curvature_below(self, steepness: float) -> float:
        return steepness * (1 - steepness) if steepness < 0.5 else self.smoothness

    def corner(self, steepness: Floats) -> Floats:
        steepness = np.minimum(steepness, 1.0)
        with np.errstate(divide="ignore"):  # as steep as the loss ever gets: nowhere
            corner: Floats = log1p(-steepness) - log(steepness)
        return np.maximum(corner, -(2.0**60))


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """max(0, 1 - m)."""

    lipschitz = 1.0
    smoothness = math.inf

    def phi(self, margin: Floats) -> Floats:
        return np.maximum(1 - margin, 0)

    def slope(self, margin: Floats) -> Floats:
        return np.where(margin < 1, -1.0, 0.0)

    def curvature(self, margin: Floats) -> Floats:
        return np.zeros_like(margin)

    def corner(self, steepness: Floats) -> Floats:
        return np.where(steepness < 1, 1.0, -(2.0**60))


@dataclass(frozen=True)
class HuberHinge(MarginLoss):
    """The hinge with its corner rounded on [1 - h, 1 + h] (Chaudhuri, Monteleoni & Sarwate 2011)."""

    h: float = 0.5
    lipschitz = 1.0

    def __post_init__(self) -> None:
        if not (self.h > 0 and math.isfinite(self.h)):
            raise ValueError(f"h={self.h!r} must be a positive finite number")

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        return 1 / (2 * self.h)

    @property
    def typical_curvature(self) -> float:
        """Half of the bound: only the corner reaches the bound, and many rows are outside of the corner."""
        return self.smoothness / 2

    def phi(self, margin: Floats) -> Floats:
        corner = np.clip(1 + self.h - margin, 0, 2 * self.h)
        return corner * corner / (4 * self.h) + np.maximum(1 - self.h - margin, 0)

    def slope(self, margin: Floats) -> Floats:
        return -np.clip((1 + self.h - margin) / (2 * self.h), 0, 1)

    def curvature(self, margin: Floats) -> Floats:
        return np.where(np.abs(1 - margin) < self.h, self.smoothness, 0.0)

    @property
    def conditioning(self) -> float:
        """The outer end of the corner times its curvature."""
        return (1 + self.h) / (2 * self.h)

    def corner(self, steepness: Floats) -> Floats:
        return np.where(steepness < 1, 1 + self.h - 2 * self.h * steepness, -(2.0**60))


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """max(0, 1 - m)**2. Its derivative is bounded only where the scores are."""

    lipschitz = math.inf
    smoothness = 2.0
    conditioning = 2.0  # at the corner; further in phi' grows as fast as the margin

    def phi(self, margin: Floats) -> Floats:
        return np.square(np.maximum(1 - margin, 0))

    def slope(self, margin: Floats) -> Floats:
        return -2 * np.maximum(1 - margin, 0)

    def curvature(self, margin: Floats) -> Floats:
        return np.where(margin < 1, 2.0, 0.0)

    def corner(self, steepness: Floats) -> Floats:
        return 1 - steepness / 2


@dataclass(frozen=True)
class Sigmoid(MarginLoss):
    """1 / (1 + exp(m)): bounded and not convex."""

    lipschitz = 0.25
    smoothness = 1 / (6 * math.sqrt(3))
    jerk = 0.125

    def phi(self, margin: Floats) -> Floats:
        return _decay(margin)

    def slope(self, margin: Floats) -> Floats:
        return -_decay(margin) * _decay(-margin)

    def curvature(self, margin: Floats) -> Floats:
        wrong = _decay(margin)
        return wrong * _decay(-margin) * (1 - 2 * wrong)


def sum_of_classes(values: Floats) -> Floats:
    """Return the sum over the second axis, always in one order. (NumPy's order depends on the shape of the array.)"""
    total = values[:, 0].copy()
    for k in range(1, values.shape[1]):
        total += values[:, k]
    return total


@dataclass(frozen=True)
class Softmax(Loss):
    """Multinomial logistic loss, log(sum_k exp(s_k)) - s_y."""

    n_classes: int
    lipschitz = math.sqrt(2)
    smoothness = 0.5
    concavity = 0.0

    @property
    def typical_curvature(self) -> float:
        """The second derivative of each class if all are equally likely: 1/4 for two classes, about 1/K for many."""
        return (self.n_classes - 1) / self.n_classes**2

    def margins(self, scores: Floats, y: Labels) -> Floats:
        """Return the scores minus the score of the label, so that the margin of the label is 0."""
        return scores - scores[np.arange(len(y)), y][:, None]

    def of_margins(self, margins: Floats) -> Floats:
        top = margins.max(axis=1)
        value: Floats = top + log(sum_of_classes(exp(margins - top[:, None])))
        return value

    def derivative(self, scores: Floats, y: Labels) -> Floats:
        residual = self._probabilities(scores)
        residual[np.arange(len(y)), y] -= 1
        return residual

    def second_derivative(self, scores: Floats, y: Labels) -> Floats:
        p = self._probabilities(scores)
        return p[:, :, None] * np.eye(self.n_classes) - p[:, :, None] * p[:, None, :]

    @staticmethod
    def _probabilities(scores: Floats) -> Floats:
        p: Floats = exp(scores - scores.max(axis=1)[:, None])
        p /= sum_of_classes(p)[:, None]
        return p


@dataclass(frozen=True)
class OneVsRest(Loss):
    """The mean of K binary losses, class k against all others. Being a mean, it needs the clip of one binary loss."""

    loss: MarginLoss
    n_classes: int

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.loss.lipschitz / math.sqrt(self.n_classes)

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        return self.loss.smoothness / self.n_classes

    @property
    def typical_curvature(self) -> float:
        return self.loss.typical_curvature / self.n_classes

    @property
    def jerk(self) -> float:
        return self.loss.jerk / self.n_classes

    @property
    def concavity(self) -> float:
        return self.loss.concavity / self.n_classes

    def _signs(self, y: Labels) -> Floats:
        signs = np.full((len(y), self.n_classes), -1.0, order="F")
        signs[np.arange(len(y)), y] = 1.0
        return signs

    def margins(self, scores: Floats, y: Labels) -> Floats:
        return self._signs(y) * scores

    def of_margins(self, margins: Floats) -> Floats:
        return sum_of_classes(self.loss.phi(margins)) / self.n_classes

    def derivative(self, scores: Floats, y: Labels) -> Floats:
        return self.loss.derivative(scores, self._signs(y)) / self.n_classes

    def second_derivative(self, scores: Floats, y: Labels) -> Floats:
        diagonal = self.loss.second_derivative(scores, self._signs(y)) / self.n_classes
        return diagonal[:, :, None] * np.eye(self.n_classes)
