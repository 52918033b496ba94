"""PrivGene: a population of weights that is bred and privately thinned out (Zhang et al. 2013)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..inside import (
    ArgMin,
    Budget,
    Linear,
    LinearEncoding,
    LossNamed,
    MarginLoss,
    NumericClassifier,
    Plan,
    PrivateData,
    Query,
    Sensitivity,
    Solver,
    check_clip,
    l2_of,
    power_of_two_above,
    weights_on_grid,
    with_parameters_of,
)

__all__ = ["LossesAmong", "PrivGene", "PrivGeneClassifier"]

_BLOCK = 4096


class LossesAmong(Query):
    """By how much the summed loss at every candidate exceeds each row's smallest one among the candidates.

    What is subtracted from a row's losses is the same for all candidates, so the order of the sums is that of
    the summed losses. What is left are the enhanced scores of Zhang et al. (2013): among candidates that lie close
    together no row has much to say, and little noise is needed.

    Formal guarantee
    ----------------
    Scores are exact (points and rows lie on grids), so a row's part depends on that row and the points alone, and is an
    integer in [0, clip/unit] at every candidate. A leaving row therefore moves all entries in the same direction by at
    most that much (monotone); a replaced one moves each by at most that much, in either direction.
    """

    label = "losses"

    def __init__(self, loss: MarginLoss, points: np.ndarray, *, clip: float) -> None:
        self.loss, self.clip = loss, check_clip(clip)
        self.points = np.array([weights_on_grid(point)[0] for point in points])
        self.unit = power_of_two_above(self.clip) * 2.0**-20
        self.evaluations = len(self.points)

    def sensitivity(self, adjacency: str) -> Sensitivity:
        count, linf = len(self.points), self.clip / self.unit
        l2 = float(np.nextafter(np.sqrt(count) * linf, np.inf))
        return Sensitivity(l1=count * linf, l2=l2, linf=linf, monotone=adjacency == "zero-out")

    def __call__(self, chunk) -> np.ndarray:
        if chunk.offset is not None:
            raise ValueError("PrivGene is for columns that are not centred")
        slopes, constant = self.points.T, np.zeros(len(self.points))
        if chunk.constant is not None:
            slopes, constant = slopes[:-1], slopes[-1]
        sums = np.zeros(len(self.points), dtype=np.int64)
        for start in range(0, len(chunk), _BLOCK):
            rows = slice(start, start + _BLOCK)
            scores = chunk.units[rows] @ slopes
            if chunk.constant is not None:
                scores += np.multiply.outer(chunk.constant[rows], constant)
            scores = np.clip(chunk.scale[rows, None] * scores, -(2.0**100), 2.0**100)
            losses = self.loss.of_margins(self.loss.margins(scores, chunk.y[rows, None]))
            losses -= losses.min(axis=1, keepdims=True)
            losses[~(losses < self.clip)] = self.clip  # whatever a loss returns, the bound holds
            sums += np.floor(losses / self.unit).astype(np.int64).sum(axis=0)
        return sums


@dataclass(frozen=True)
class PrivGene(Solver):
    """Generations of candidates; the exponential mechanism chooses who lives.

    A generation holds two children for every weight: the parents crossed over at that weight, which is then moved up or
    down by ``scale``; scales shrink by ``shrink`` from one generation to the next. There are rows * epsilon / ``pace``
    generations (800 in the experiments of Lee & Kifer 2018, who breed from one parent).

    Formal guarantee: (generations * parents) choices by the exponential mechanism at equal prices that add up to the
    budget. Crossing over and mutation see chosen candidates only.
    """

    pace: float = 800.0
    parents: int = 1
    scale: float = 0.5
    shrink: float = 0.95
    batch_size: int | None = None

    def iterates(self, data: PrivateData, objective) -> Iterator[np.ndarray]:
        loss, penalty, shape = objective.loss, objective.penalty, objective.shape
        generations = max(1, round(data.n_rows * data.budget.epsilon / self.pace))
        choose = ArgMin.priced(data.share(generations * self.parents, solved=True), data.currency)
        chosen, scale = [np.zeros(shape)] * self.parents, self.scale
        for _ in range(generations):
            points = self.children(chosen[0], chosen[-1], scale)
            batch = data.batch(self.batch_size)
            query = LossesAmong(loss, points, clip=loss.lipschitz * spread(points))
            scores = batch.measure(query) + batch.n_rows * np.array([penalty.value(w) for w in points])
            chosen = [points[batch.release(scores, choose)] for _ in range(self.parents)]
            scale *= self.shrink
            yield chosen[0]

    def children(self, one: np.ndarray, other: np.ndarray, scale: float) -> np.ndarray:
        p = len(one)
        crossed = np.where(np.tri(p, k=-1, dtype=bool), one, other)
        moves = scale * np.eye(p)
        return np.concatenate([crossed + moves, crossed - moves])


def spread(points: np.ndarray) -> float:
    """Return how far the scores of two candidates lie apart at most, for features (and constant) in [0, 1].

    Scores of rows beyond that are clipped, so this is a matter of accuracy only.
    """
    widest = 0.0
    for point in points:
        gaps = points - point
        widest = max(widest, float(np.maximum(gaps, 0).sum(axis=1).max()))
    return widest


class PrivGeneClassifier(NumericClassifier):
    """PrivGene for logistic regression or the linear SVM.

    Formal guarantee: epsilon-DP with ``delta=0``, as published. With a delta it is (epsilon, delta)-DP by zCDP, as in
    the experiments of Lee & Kifer (2018), with the exact conversion: kinder to it, as the choices are many. A row
    leaves (zero-out). Mini-batches of ``batch_size`` rows claim no amplification.
    """

    loss: str = "log_loss"
    alpha: float = 1e-3
    pace: float = 800.0
    parents: int = 1
    batch_size: int | None = None

    def _plan(self, facts):
        solver = with_parameters_of(self, PrivGene)
        objective = Linear(LossNamed(self.loss), l2_of(self))
        return Plan(solver, objective, with_parameters_of(self, LinearEncoding), Budget.of(self.epsilon, self.delta))
