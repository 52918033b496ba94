"""Strongly convex sums over rows: what a minimiser is the minimiser of, and the passes over rows that find it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ..data.grid import UNIT_BITS, check_clip, power_of_two_above, weights_on_grid
from ..data.rows import Chunk, Labels, Line, Rows
from ..losses import Loss, MarginLoss, OneVsRest
from ..mechanisms.base import positive
from ..mechanisms.exact import Floats, Integers, permutation
from ..mechanisms.randomness import Bits
from ..privacy.costs import positive_integer
from .hessian import weighted_products

__all__ = ["RegularizedSum", "SumOverRows", "largest_curvature", "margin_loss", "slope_at_zero", "two_parts"]

_ROUNDING = 2.0**-53
_PARTS = 20  # of the rows, for methods that look at one at a time
_LIMBS = 3  # of UNIT_BITS bits each: a residual to its last bit
# A Hessian is summed exactly in any order: entries of rows twice, a curvature and a block of 2^12 rows take 53 bits
_FACTOR_BITS, _WEIGHT_BITS = 12, 17


def margin_loss(loss: Loss) -> tuple[MarginLoss, int | None]:
    """Return the loss of each problem, and how many classes there are where more than two.

    Raises ValueError unless it is a convex loss of margins that falls, or one-vs-rest of such: then the gradient of a
    row of several problems is that of each.
    """
    one, n_classes = (loss.loss, loss.n_classes) if isinstance(loss, OneVsRest) else (loss, None)
    if isinstance(one, MarginLoss):
        falls = one.slope(np.full(1, 2.0**100))[0] <= 0  # at the end, and so everywhere if it is convex
        if falls and one.corner(np.ones(1)) is not None:
            return one, n_classes
    raise ValueError(f"{loss!r} must be a convex margin loss that falls, or one-vs-rest of such a loss")


def largest_curvature(loss: Loss, clip: float, longest: float) -> float:
    """Return a bound on the second derivative of one row's part in any direction; inf for a hinge."""
    return longest**2 * margin_loss(loss)[0].curvature_below(clip / longest)


def slope_at_zero(loss: Loss) -> float:
    """Return how steeply the loss falls at a row on the boundary."""
    return float(abs(margin_loss(loss)[0].slope(np.zeros(1))[0]))


@dataclass(frozen=True)
class RegularizedSum:
    """``sum_i f_i(w) + penalty/2 ||w||^2``, and what is known of it before the rows are.

    f_i is the loss of row i, shortened to norm ``longest`` (with its constant), and flattened where its gradient would
    exceed ``clip``: the gradient of f_i is the gradient of the shortened row, clipped. For several classes one such
    sum per class, against all others; column k of every array belongs to class k.
    """

    loss: Loss
    n_rows: int
    n_parameters: int
    clip: float
    longest: float
    penalty: float

    # what follows from these, set once
    one: MarginLoss = field(init=False, repr=False)
    n_classes: int | None = field(init=False, repr=False)
    shape: tuple[int, int] = field(init=False, repr=False)
    curvature: float = field(init=False, repr=False)
    smoothness: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n, p = positive_integer("n_rows", self.n_rows), positive_integer("n_parameters", self.n_parameters)
        longest, penalty = check_clip(self.longest), positive("penalty", self.penalty)
        one, n_classes = margin_loss(self.loss)
        clip = min(check_clip(self.clip), longest * one.lipschitz)
        curvature = one.curvature_below(clip / longest)
        vars(self).update(clip=clip, longest=longest, penalty=penalty, one=one, n_classes=n_classes)
        vars(self).update(shape=(p, n_classes or 1), curvature=curvature)
        vars(self).update(smoothness=n * longest**2 * curvature + penalty)

    def smoothed(self, one: MarginLoss) -> Self:
        """Return the same sum of another loss."""
        loss = one if self.n_classes is None else OneVsRest(one, self.n_classes)
        return dataclasses.replace(self, loss=loss)

    @property
    def at_zero(self) -> float:
        """A bound on the sum at w = 0."""
        return self.n_rows * float(self.one.phi(np.zeros(1))[0])

    @property
    def farthest(self) -> float:
        """A bound on the norm of each minimiser w.

        Its gradient is 0, so penalty ||w|| <= n clip; and by strong convexity F(0) >= F(w) + penalty/2 ||w||^2, where
        F(w) >= penalty/2 ||w||^2.
        """
        return min(self.n_rows * self.clip / self.penalty, math.sqrt(self.at_zero / self.penalty)) * (1 + 2.0**-40)

    def rounding(self, linear: float = 0.0) -> float:
        """Return a bound on the error of a computed gradient; ``linear`` bounds the length of a linear term's.

        Scores are exact but for a few roundings of their own size, and a slope moves by at most
        :attr:`~dpsk.losses.MarginLoss.conditioning` (and itself) times their relative error. Sums are exact, but for
        the limbs cut off and for the penalty's and the linear term's last digits.
        """
        n, root = self.n_rows, math.sqrt(self.n_parameters)
        per_row = self.longest * (16 + 4 * self.one.conditioning) + 4 * (root + 1) * self.clip
        return _ROUNDING * (n * per_row + 16 * root * (n * self.clip + linear))

    def finest(self, longest_w: float) -> float:
        """Return how long a gradient may be next to the minimum because weights are floats in two parts.

        They are no finer than floats, and their second part no finer than 2^-60.
        """
        p = self.n_parameters
        return self.smoothness * p * (max(1, p / 512) * 2.0**-52 * longest_w + 2.0**-400)

    def check(self, rows: Rows) -> None:
        """Raise ValueError unless these rows are such as it was prepared for."""
        if (rows.n_rows, rows.n_parameters, rows.n_classes) != (self.n_rows, self.n_parameters, self.n_classes):
            raise ValueError(
                f"a minimum over {self.n_rows} rows, {self.n_parameters} parameters and n_classes={self.n_classes} was "
                f"prepared, but there are {rows.n_rows}, {rows.n_parameters} and {rows.n_classes}"
            )


class SumOverRows:
    """A :class:`RegularizedSum` of these rows: sums of integers, the same for every chunking and storage."""

    def __init__(
        self, what: RegularizedSum, rows: Rows, linear: Floats | float = 0.0, bits: Bits | None = None
    ) -> None:
        self._what, self._rows, self._linear, self._bits = what, rows, linear, bits
        self.convexity, self.smoothness, self.farthest = what.penalty, what.smoothness, what.farthest
        self._last: tuple[Floats, Floats] = np.zeros(0), np.zeros(0)  # where one method ends the next one begins
        self._spacing = power_of_two_above(what.clip) * 2.0**-UNIT_BITS

    def __getstate__(self) -> dict[str, Any]:
        """Return what its kernels take along to rows elsewhere: neither rows nor random bits."""
        return {**vars(self), "_rows": None, "_bits": None}

    def gradient(self, w: Floats) -> Floats:
        if not np.array_equal(self._last[0], w):
            first, second = two_parts(w)
            self._last = w.copy(), self._of_losses(first, second) + self.convexity * (first + second) + self._linear
        return self._last[1].copy()

    def parts(self) -> list[Callable[[Floats], Floats]]:
        """Return the gradients over random parts of the rows, in multiples of their size; without a linear term."""
        n = self._rows.n_rows
        chosen = np.array_split(self.shuffled(n), min(_PARTS, n))
        return [self._part(self._rows.subset(some), n / len(some)) for some in chosen]

    def _part(self, rows: Rows, multiple: float) -> Callable[[Floats], Floats]:
        part = SumOverRows(self._what, rows)

        def gradient(w: Floats) -> Floats:
            first, second = two_parts(w)
            estimate: Floats = multiple * part._of_losses(first, second) + self.convexity * (first + second)
            return estimate

        return gradient

    def shuffled(self, n: int) -> Integers:
        if self._bits is None:
            raise ValueError("random parts of the rows need random bits")
        return permutation(n, self._bits)

    def _of_losses(self, first: Floats, second: Floats) -> Floats:
        """Return the gradients of the sums of losses at the sum of two parts."""
        line = self._line(first, second)

        return self.pull(lambda chunk: (slopes for slopes, _ in self._derivatives(chunk, line)))

    def pull(self, residuals: Callable[[Chunk], Iterable[Floats]]) -> Floats:
        """Return per problem the sum of residuals times rows, exact to the last limb.

        Residuals are of (units - offset, constant), in multiples of the spacing; they are used up.
        """

        def kernel(chunk: Chunk) -> Integers:
            sums, limbs = [], np.empty((len(chunk), _LIMBS), order="F")
            for left in residuals(chunk):
                for limb in limbs.T:
                    np.trunc(left, out=limb)
                    left -= limb
                    left *= 2.0**UNIT_BITS
                sums.append(chunk.total(limbs))
            return np.stack(sums, axis=1)

        limb_units = self._spacing * 2.0 ** (-UNIT_BITS * np.arange(1.0, _LIMBS + 1))
        sums: Floats = self._rows.total(kernel) @ limb_units
        return sums

    def hessians(self, w: Floats, damping: Floats) -> Floats:
        what, reach, line = self._what, self._rows.reach, self._line(*two_parts(w))
        # what a row's weight is at most: of rows within reach, or of units within [-1, 1] that are at least 1/2 long
        largest = what.one.smoothness * (1.0 if reach is not None else (2 * what.longest) ** 2)
        bits = min(_WEIGHT_BITS, 62 - 2 * _FACTOR_BITS - math.ceil(math.log2(self._rows.n_rows)))

        def kernel(chunk: Chunk) -> Integers:
            shortening = self._shortening(chunk)
            size = shortening if reach is not None else shortening * chunk.scale
            weights = [
                np.clip(np.rint(np.maximum(curvatures(), least) * size**2 * (2.0**bits / largest)), 0, 2.0**bits)
                for (_, curvatures), least in zip(self._derivatives(chunk, line), damping * what.curvature, strict=True)
            ]
            columns = 2.0**_FACTOR_BITS * (1.0 if reach is None else chunk.largest_scale / reach)

            def block_of(rows: slice) -> tuple[Floats, list[Floats]]:
                block = chunk.dense(rows)
                block *= columns
                return np.rint(block, out=block), [weight[rows] for weight in weights]

            return weighted_products(chunk, what.shape[1], block_of)

        unit = largest * 2.0 ** -(bits + 2 * _FACTOR_BITS)
        hessians: Floats = self._rows.total(kernel).astype(np.float64) * unit
        return hessians if reach is None else hessians * np.multiply.outer(reach, reach)

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        what, (start, _) = self._what, two_parts(w)

        def multiply(direction: Floats) -> Floats:
            step, _ = two_parts(direction)
            line = self._line(start, step)
            largest = what.curvature * what.longest**2 * max(np.linalg.norm(step, axis=0).max(), 1e-300)
            spacing = power_of_two_above(largest) * 2.0**-UNIT_BITS

            def kernel(chunk: Chunk) -> Integers:
                size = self._shortening(chunk) * chunk.scale
                along = _columns(chunk.products_along(line)[1])
                limit = 2.0**UNIT_BITS / chunk.norm
                residuals = np.empty((len(chunk), what.shape[1]), order="F")
                for k, (_, curvatures) in enumerate(self._derivatives(chunk, line, at=0.0)):
                    weights = np.maximum(curvatures(), damping[k] * what.curvature) * size**2 / spacing
                    residuals[:, k] = np.clip(weights * along[:, k], -limit, limit)
                coarse = np.rint(residuals)
                fine = np.rint((residuals - coarse) * 2.0**UNIT_BITS)
                return np.stack([chunk.total(coarse), chunk.total(fine)])

            coarse, fine = self._rows.total(kernel).astype(np.float64) * (spacing * 2.0**-UNIT_BITS)
            sums = coarse + fine * 2.0**-UNIT_BITS
            product: Floats = sums + self.convexity * step
            return product

        return multiply

    def _shortening(self, chunk: Chunk) -> Floats:
        """Return the factors that bring rows within ``longest``."""
        return np.minimum(1.0, self._what.longest * (1 - 2.0**-30) / chunk.norms)

    def scales(self, chunk: Chunk) -> tuple[Floats, Floats, Floats]:
        """Return what rows of (units - offset, constant) are multiplied by, what slopes of losses are to become
        residuals, and how large a residual may be.
        """
        size = self._shortening(chunk) * chunk.scale
        return size, size / self._spacing, (self._what.clip * (1 - 2.0**-30) / self._spacing) / chunk.norm

    def labels(self, chunk: Chunk) -> Iterator[Labels]:
        """Yield the labels -1/+1 of each problem."""
        for k in range(self._what.shape[1]):
            yield chunk.y if self._what.n_classes is None else np.where(chunk.y == k, 1.0, -1.0)

    def scores(self, chunk: Chunk, w: Floats) -> Floats:
        """Return the scores of the shortened rows, a column per problem."""
        start, step = chunk.products_along(self._line(*two_parts(w)))
        return self.scales(chunk)[0][:, None] * _columns(start + step)

    def _derivatives(self, chunk: Chunk, line: Line, at: float = 1.0) -> Iterator[tuple[Floats, Callable[[], Floats]]]:
        """Yield per objective the derivatives of rows by (units - offset, constant).w, clipped, in multiples of the
        spacing, and how to get the second ones by shortened scores; at the start of a line plus ``at`` steps.
        """
        what, (start, step) = self._what, chunk.products_along(line)
        size, factor, limit = self.scales(chunk)
        scores = self._moved(chunk, size[:, None] * _columns(start + at * step))
        for at_k, labels in zip(scores.T, self.labels(chunk), strict=True):
            slopes = what.one.derivative(at_k, labels) * factor
            clipped = np.minimum(np.maximum(slopes, -limit), limit)
            clipped[np.isnan(clipped)] = 0

            def curvatures(at_k: Floats = at_k, labels: Labels = labels, flat: Any = slopes != clipped) -> Floats:
                return np.where(flat, 0.0, what.one.second_derivative(at_k, labels))

            yield clipped, curvatures

    def _moved(self, chunk: Chunk, scores: Floats) -> Floats:
        """Return the scores that losses are taken of; called once per chunk and pass."""
        return scores

    def _line(self, start: Floats, step: Floats) -> Line:
        """Return the line of two parts of weights, in the shape that chunks take."""
        if self._what.n_classes is None:
            start, step = start[:, 0], step[:, 0]
        return Line(start, step, np.ones(1), (start + step)[None], exact=False)


def _columns(products: Floats) -> Floats:
    return products if products.ndim == 2 else products[:, None]


def two_parts(w: Floats) -> tuple[Floats, Floats]:
    """Return two weights with exact products whose sum is a float: ``w``, or nearly."""
    first, _ = weights_on_grid(w)
    size = np.abs(w).sum(axis=0).max(initial=0.0)
    second, _ = weights_on_grid(w - first, power_of_two_above(size) * 2.0**-52 if size > 0 else 0.0)
    return first, second
