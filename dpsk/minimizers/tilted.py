"""Tilted losses: between their mean and the largest of them (Li, Beirami, Sanjabi & Smith 2020)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..data.rows import Chunk, Line, Rows
from ..elementwise import exp
from ..mechanisms.mechanism import positive
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers
from ..privacy.neighbours import Adjacency
from .regularized import (
    ROUNDING,
    Curvatures,
    RegularizedSum,
    SumOverRows,
    differences,
    total_of,
    two_parts,
    whole_parts,
)

_LARGEST = 2.0**400
_UP = 1 + 2.0**-40
_BINS = 4096


@dataclass(frozen=True)
class TiltedSum(RegularizedSum):
    """``n/tilt * log(1/n sum_i exp(tilt f_i(w))) + penalty/2 ||w||^2``: with a small tilt the sum of the f_i.

    f_i is flattened as in :class:`RegularizedSum`, and smooth. The penalty stays outside of the tilt. n is public: a
    row that leaves takes ``exp(tilt f_i) - 1`` out of the sum, so that it counts as one without a loss. Rows with
    weights are refused.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 8.7)
    Let all losses of rows be between a and A where minimisers can be, and C = exp(tilt (A - a)). One row moves the
    minimiser by at most

        n clip/penalty * 2 C/(C + n - 1)                   if replaced,
        n clip/penalty * (2 - exp(-tilt A)) C/(C + n - 1)  if it left.
    """

    tilt: float

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self).update(tilt=positive("tilt", self.tilt))
        if not math.isfinite(self.smoothness):
            raise ValueError(f"a tilted objective is built for smooth losses, not for {self.loss!r}")

    def over(self, rows: Rows, bits: Bits | None = None) -> SumOverRows:
        return _TiltedOverRows(self, rows, bits=bits)

    def check(self, rows: Rows) -> None:
        if rows.public.weighted:
            raise ValueError("tilted losses are proved for rows that count alike, not for rows with weights")
        super().check(rows)

    @property
    def beta(self) -> float:
        """A bound: the second derivative of a row plus tilt times the variance of gradients, beta + tilt L^2."""
        return super().beta + self.tilt * self.clip**2

    @property
    def bend(self) -> float:
        return super().bend + self.tilt * min(self.one.lipschitz, 4 * self.clip / self.longest) ** 2

    @property
    def losses(self) -> tuple[float, float]:
        """Bounds a and A on the losses of rows, where minimisers can be."""
        at_zero, reach = float(self.one.phi(np.zeros(1))[0]), np.array([self.longest * self.farthest])
        # the longest rows are flattened most, and lowest where their margins are largest
        lowest = float(self.one.flattened(reach, np.array([self.clip / self.longest]))[0])
        highest = min(float(self.one.phi(-reach)[0]), at_zero + self.clip * self.farthest)
        return max(lowest / _UP, 0.0), highest * _UP

    @property
    def heaviest(self) -> float:
        """The largest weight that a row can have at a minimiser, C/(C + n - 1)."""
        lowest, highest = self.losses
        return 1 / (1 + (self.n_rows - 1) * math.exp(-self.tilt * (highest - lowest))) * _UP

    def moved(self, adjacency: str) -> float:
        factor = 2.0 if Adjacency(adjacency) is Adjacency.REPLACE else 2 - math.exp(-self.tilt * self.losses[1]) / _UP
        by_weight = self.n_rows * self.clip / self.penalty * factor * self.heaviest
        return min(by_weight, 2 * self.farthest) * _UP

    @property
    def largest_error(self) -> float:
        return self.n_rows * self.clip

    def rounding(self, linear: float = 0.0) -> float:
        """Return a bound on the error of a gradient computed at a w that is certified with an error no larger than
        ``largest_error``: then ``penalty ||w|| <= 3 n clip`` (docs/guarantees.md, 8.5).
        """
        n, root = self.n_rows, math.sqrt(self.n_parameters)
        at_zero = float(self.one.phi(np.zeros(1))[0])
        part = ROUNDING * (32 + 80 * self.tilt * (at_zero + 3 * n * self.clip**2 / self.penalty))
        of_weights = n * self.clip * (1.25 * part + n * (2.0**-58 + root * 2.0**-69))
        return super().rounding(linear) + of_weights


class _TiltedOverRows(SumOverRows):
    """A :class:`TiltedSum` of these rows. Weights are relative to about the largest: at most 1, and one above 1/e."""

    _limbs = 4  # a sum of weights may be as small as one of them
    _what: TiltedSum

    def __init__(self, what: TiltedSum, rows: Rows, bits: Bits | None = None) -> None:
        super().__init__(what, rows, bits=bits)
        self._tops = self._totals = np.zeros(0)  # about the largest of each problem's tilted losses; sums of weights

    def parts(self) -> list[Callable[[Floats], Floats]]:
        raise ValueError("a tilted objective is no sum over rows, so a part of the rows does not estimate its gradient")

    def _of_losses(self, first: Floats, second: Floats) -> Floats:
        line = self._line(first, second)
        self._weigh(line)
        sums = self.pull(lambda chunk: (slopes for slopes, _ in self._derivatives(chunk, line)))
        return sums * (self._what.n_rows / self._totals)

    def _weigh(self, line: Line) -> None:
        """Find the largest tilted losses to within 1, and the sums of weights relative to these.

        Counts of rows find them, because rows give nothing but sums: between 0 and the most that the weights allow.
        """
        what = self._what
        at_zero, sizes = float(what.one.phi(np.zeros(1))[0]), np.linalg.norm(line.start + line.step, axis=0)
        high = what.tilt * np.atleast_1d(at_zero + what.clip * sizes) * (1 + 2.0**-20)  # norms of many weights round
        low = np.zeros_like(high)
        while (wide := high - low > np.maximum(1.0, 2.0**-45 * high)).any():
            ahead, behind = self._narrowed(line, low, high)
            high, low = np.where(wide, ahead, high), np.where(wide, behind, low)
        self._tops = tops = high

        def weights(chunk: Chunk) -> Integers:
            each = zip(self._losses(chunk, line), tops, strict=True)
            return np.stack([np.append(whole_parts(self._weights(losses, top)), len(chunk)) for losses, top in each])

        sums = self._rows.total(weights)
        # those that left have no loss; below 1/4 is only what is too far away for tops to be told
        self._totals = np.maximum(total_of(sums[:, :2], self._rows) + (what.n_rows - sums[:, 2]) * exp(-tops), 0.25)

    def _narrowed(self, line: Line, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the ends of the last of many bins between these that holds the tilted loss of a row."""
        tilt, width = self._what.tilt, np.maximum(high - low, 1.0) / _BINS

        def counts(chunk: Chunk) -> Integers:
            bins = (
                np.clip((tilt * losses - low_k) / width_k, 0, _BINS - 1).astype(np.int64)
                for losses, low_k, width_k in zip(self._losses(chunk, line), low, width, strict=True)
            )
            return np.stack([np.bincount(row, minlength=_BINS) for row in bins])

        last = np.array([np.flatnonzero(row).max(initial=0) for row in self._rows.total(counts)])
        return low + (last + 1) * width, low + last * width

    def _weights(self, losses: Floats, top: float) -> Floats:
        return exp(np.minimum(self._what.tilt * losses - top, 0.0))

    def _losses(self, chunk: Chunk, line: Line, at: float = 1.0) -> Iterator[Floats]:
        """Yield the losses of each problem."""
        what, (_, factor, limit) = self._what, self.scales(chunk)
        steepness = np.fmin(limit / factor, _LARGEST)
        for scores, labels in zip(self._scores(chunk, line, at).T, self.labels(chunk), strict=True):
            losses = what.one.flattened(labels * scores, steepness)
            yield np.fmax(np.fmin(losses, _LARGEST), 0.0)

    def _derivatives(self, chunk: Chunk, line: Line, at: float = 1.0) -> Iterator[tuple[Floats, Curvatures]]:
        size, tilt = self.scales(chunk)[0], self._what.tilt
        own = zip(super()._derivatives(chunk, line, at), self._losses(chunk, line, at), self._tops, strict=True)
        for (slopes, curvatures), losses, top in own:
            weights = self._weights(losses, top)

            def tilted(
                least: float,
                weights: Floats = weights,
                curvatures: Curvatures = curvatures,
                by_score: Floats = slopes * (self._spacing / size),
            ) -> Floats:
                return weights * (curvatures(least) + tilt * np.square(by_score))

            yield weights * slopes, tilted

    def common(self) -> None:
        """Return nothing: each problem weighs the rows in its own way."""

    def hessians(self, w: Floats, damping: Floats, which: Integers | None = None) -> Floats:
        """Return ``n (sum_i p_i (H_i + tilt g_i g_i^T) - tilt g g^T)`` with the mean g of gradients."""
        n, (_, n_problems) = self._what.n_rows, self._what.shape
        which = np.arange(n_problems) if which is None else which
        first, second_part = two_parts(w)
        mean = (self.gradient(w) - self.convexity * (first + second_part)).T[which]
        second: Floats = super().hessians(w, damping, which) * (n / self._totals[which])[:, None, None]
        return second - self._what.tilt / n * mean[:, :, None] * mean[:, None, :]

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        return differences(self.gradient, w)
