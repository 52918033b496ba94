"""Strongly convex sums over rows: the objectives of minimisers, and the passes over rows that minimise them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np

from ..data.grid import UNIT_BITS, check_clip, power_of_two_above, weights_on_grid
from ..data.rows import Chunk, Labels, Line, Rows
from ..data.weights import ONE, joined, products
from ..losses import HuberHinge, Loss, MarginLoss, OneVsRest
from ..mechanisms.mechanism import positive
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers, permutation
from ..privacy.costs import positive_integer
from ..privacy.neighbours import Adjacency
from ..queries.hessian import weighted_products
from .newton import Common

ROUNDING = 2.0**-53 * (1 + 2.0**-20)  # of one operation; products of many of them and underflow are in the second part
_PARTS = 20  # of the rows, for methods that look at one at a time
_WIDE = 1.5  # the corner of a first problem, where the true one is narrower
# A Hessian is summed exactly in any order: entries of rows twice, a curvature and a block of 2^12 rows take 53 bits
_FACTOR_BITS, _WEIGHT_BITS = 12, 17
_TOGETHER = 16  # problems whose residuals are multiplied by the rows at a time

Curvatures: TypeAlias = Callable[[float], Floats]


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
    """``sum_i omega_i f_i(w) + penalty/2 ||w||^2``, and the facts about it that do not depend on the rows.

    f_i is the loss of row i, shortened to norm ``longest`` (with its constant), and flattened where its gradient would
    exceed ``clip``: the gradient of f_i is the gradient of the shortened row, clipped. For several classes one such
    sum per class, against all others; column k of every array belongs to class k.

    omega_i is what the row counts: 1, or its weight. Those of a unit add up to at most 1, and ``n_rows`` is the number
    of units.
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
        vars(self).update(longest=longest, penalty=penalty, one=one, n_classes=n_classes, shape=(p, n_classes or 1))
        clip = min(check_clip(self.clip), self.extent * one.lipschitz)
        vars(self).update(clip=clip, curvature=one.curvature_below(clip / self.extent))
        vars(self).update(smoothness=n * self.beta + penalty)

    def over(self, rows: Rows, bits: Bits | None = None) -> SumOverRows:
        """Return the sum of these rows, for the methods that minimise it."""
        return SumOverRows(self, rows, bits=bits)

    @property
    def extent(self) -> float:
        """A bound on the gradient of a row's margin."""
        return self.longest

    @property
    def beta(self) -> float:
        """A bound on the second derivative of one row's part in any direction; inf for a hinge."""
        return self.extent**2 * self.curvature

    def moved(self, adjacency: str) -> float:
        """Return how far one unit can move each minimiser: by its gradient over the penalty, or by two of these."""
        return self.clip / self.penalty * Adjacency(adjacency).parts

    def easier(self) -> Iterator[RegularizedSum]:
        """Yield easier objectives for Newton's method to minimise first: next to a narrow corner a loss is flat."""
        if isinstance(self.one, HuberHinge) and self.one.h < _WIDE:
            yield self.smoothed(HuberHinge(_WIDE))

    @property
    def bend(self) -> float:
        """The estimate of the largest second derivative by the score of a row."""
        return self.one.smoothness

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
        """A bound on the norm of each minimiser (docs/guarantees.md, 8.2)."""
        return min(self.n_rows * self.clip / self.penalty, math.sqrt(self.at_zero / self.penalty)) * (1 + 2.0**-40)

    @property
    def largest_error(self) -> float:
        """The largest certified length of a gradient for which :meth:`rounding` holds."""
        return math.inf

    def rounding(self, linear: float = 0.0) -> float:
        """Return a bound on the error of a computed gradient that is short (docs/guarantees.md, 8.5).

        ``linear`` bounds the length of a linear term, or of the penalty's gradient where the gradient is not short.
        """
        of_slopes = 3 * self.one.conditioning * self.longest + 19 * self.clip
        return ROUNDING * self.n_rows * of_slopes + self.summing(linear)

    def summing(self, linear: float = 0.0) -> float:
        """Return a bound on the rounding error of the sum of given residuals, the penalty and a linear term."""
        n = self.n_rows
        return ROUNDING * (n * self.clip * (math.sqrt(self.n_parameters) + 5) + 3 * linear)

    def finest(self, longest_w: float) -> float:
        """Return how long the gradient may be at the best representable weights, which are floats in two parts.

        Below a power of two P above their l1 norm, at most ``2 sqrt(p) longest_w``, they are no finer than 2^-52 P, and
        their second part, up to ``p 2^-31 P`` in l1 norm, no finer than 2^-30 of the power of two above that.
        """
        p = self.n_parameters
        return self.smoothness * p * (max(1, p / 256) * 2.0**-52 * longest_w + 2.0**-400)

    def check(self, rows: Rows) -> None:
        """Raise ValueError unless the numbers of units, parameters and classes are those that were prepared for."""
        n_classes = rows.public.n_classes
        if (rows.n_rows, rows.n_parameters, n_classes) != (self.n_rows, self.n_parameters, self.n_classes):
            raise ValueError(
                f"a minimum over {self.n_rows} units, {self.n_parameters} parameters and n_classes={self.n_classes} "
                f"was prepared, but there are {rows.n_rows}, {rows.n_parameters} and {n_classes}"
            )


class SumOverRows:
    """A :class:`RegularizedSum` of these rows: sums of integers, the same for every chunking and storage.

    Weights multiply what was clipped and split into integers. So the rounding errors of a row count as much as the row.
    """

    _limbs = 3  # of UNIT_BITS bits each: a residual to its last bit

    def __init__(
        self, what: RegularizedSum, rows: Rows, linear: Floats | float = 0.0, bits: Bits | None = None
    ) -> None:
        self._what, self._rows, self._linear, self._bits = what, rows, linear, bits
        self.convexity, self.smoothness, self.farthest = what.penalty, what.smoothness, what.farthest
        self._last: tuple[Floats, Floats] = np.zeros(0), np.zeros(0)  # where one method ends the next one begins
        self._spacing = power_of_two_above(what.clip) * 2.0**-UNIT_BITS
        self._shared: list[Common] = []  # by all sums of the same rows

    def sharing(self, other: SumOverRows) -> Self:
        """Return this sum. What is found of rows for one sum also serves the other, of the same rows, as short."""
        self._shared = other._shared
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy for kernels on other machines, without rows and without random bits."""
        return {**vars(self), "_rows": None, "_bits": None, "_shared": []}

    def gradient(self, w: Floats) -> Floats:
        if not np.array_equal(self._last[0], w):
            first, second = two_parts(w)
            self._last = w.copy(), self._of_losses(first, second) + self.convexity * (first + second) + self._linear
        return self._last[1].copy()

    def parts(self) -> list[Callable[[Floats], Floats]]:
        """Return the gradients over random parts of the units, in multiples of their size; without a linear term."""
        n = self._rows.n_rows
        chosen = np.array_split(self.shuffled(n), min(_PARTS, n))
        return [self._part(self._rows.subset(some), n / len(some)) for some in chosen]

    def _part(self, rows: Rows, multiple: float) -> Callable[[Floats], Floats]:
        part = self._what.over(rows)

        def gradient(w: Floats) -> Floats:
            first, second = two_parts(w)
            return multiple * part._of_losses(first, second) + self.convexity * (first + second)

        return gradient

    def shuffled(self, n: int) -> Integers:
        if self._bits is None:
            raise ValueError("this method draws random parts of the rows, so it needs a source of random bits")
        return permutation(n, self._bits)

    def _of_losses(self, first: Floats, second: Floats) -> Floats:
        """Return the gradients of the sums of losses at the sum of two parts."""
        line = self._line(first, second)

        return self.pull(lambda chunk: (slopes for slopes, _ in self._derivatives(chunk, line)))

    def pull(self, residuals: Callable[[Chunk], Iterable[Floats]]) -> Floats:
        """Return per problem the sum of residuals times rows times weights, exact to the last limb of residuals.

        Residuals are of (units - offset, constant), in multiples of the spacing; they are used up.
        """

        n_problems = self._what.shape[1]

        def kernel(chunk: Chunk) -> Integers:
            sums, each = [], iter(residuals(chunk))
            for first in range(0, n_problems, _TOGETHER):
                count = min(_TOGETHER, n_problems - first)
                limbs = np.empty((len(chunk), count * self._limbs), order="F")
                for k, left in enumerate(itertools.islice(each, count)):
                    for limb in limbs.T[k * self._limbs : (k + 1) * self._limbs]:
                        np.trunc(left, out=limb)
                        left -= limb
                        left *= 2.0**UNIT_BITS
                total = chunk.weighed(limbs)
                sums.append(total.reshape(*total.shape[:-1], count, self._limbs))
            return np.concatenate(sums, axis=-2)

        limb_units = self._spacing * 2.0 ** (-UNIT_BITS * np.arange(1.0, self._limbs + 1))
        return as_floats(self._rows.total(kernel), self._rows) @ limb_units

    def hessians(self, w: Floats, damping: Floats, which: Integers | None = None) -> Floats:
        what, line = self._what, self._line(*two_parts(w))
        which = np.arange(what.shape[1]) if which is None else which

        def curvatures(chunk: Chunk) -> Iterator[Floats]:
            each = zip(self._derivatives(chunk, line), damping * what.curvature, range(what.shape[1]), strict=True)
            return (curved(least) for (_, curved), least, k in each if k in which)

        return self._second(curvatures, len(which))

    def common(self) -> Common | None:
        """Return the sum of the products of rows with themselves: all Hessians are alike, if curvatures are."""
        if not self._shared:

            def ones(chunk: Chunk) -> Iterator[Floats]:
                return iter([np.full(len(chunk), self._what.bend)])

            self._shared.append(Common(self._second(ones, 1)[0] / self._what.bend))
        return self._shared[0]

    def curvatures(self, w: Floats, damping: Floats) -> Floats:
        """Return the trace of each Hessian, of the losses alone, in units of that of the common matrix."""
        what, line = self._what, self._line(*two_parts(w))

        def kernel(chunk: Chunk) -> Integers:
            parts = np.square(self._shortening(chunk) * chunk.norms / what.longest)
            each = zip(self._derivatives(chunk, line), damping * what.curvature, strict=True)
            values = [parts, *(curved(least) / what.bend * parts for (_, curved), least in each)]
            return np.stack([whole_parts(value, chunk.weights) for value in values], axis=-2)

        whole, *traces = total_of(self._rows.total(kernel), self._rows)
        curvatures: Floats = what.bend * np.array(traces) / max(whole, 1e-300)
        return curvatures

    def _second(self, curvatures: Callable[[Chunk], Iterator[Floats]], n_sums: int) -> Floats:
        """Return the sums of curvatures, at most ``bend``, times the products of rows with themselves."""
        what, reach = self._what, self._rows.public.column_bounds
        # what a row's weight is at most: of rows within reach, or of units within [-1, 1] that are at least 1/2 long
        largest = what.bend * (1.0 if reach is not None else (2 * what.longest) ** 2)
        bits = min(_WEIGHT_BITS, 62 - 2 * _FACTOR_BITS - math.ceil(math.log2(self._rows.n_rows)))
        finest = 2.0**bits / largest

        def kernel(chunk: Chunk) -> Integers:
            shortening = self._shortening(chunk)
            size = shortening if reach is not None else shortening * chunk.scale
            each = finest if chunk.weights is None else chunk.weights * (finest / ONE)  # too small ones are lost
            weights = [np.clip(np.rint(curved * size**2 * each), 0, 2.0**bits) for curved in curvatures(chunk)]
            columns = 2.0**_FACTOR_BITS * (1.0 if reach is None else chunk.largest_scale / reach)

            def block_of(rows: slice) -> tuple[Floats, list[Floats]]:
                block = chunk.dense(rows)
                block *= columns
                return np.rint(block, out=block), [weight[rows] for weight in weights]

            return weighted_products(chunk, n_sums, block_of)

        unit = largest * 2.0 ** -(bits + 2 * _FACTOR_BITS)
        second: Floats = self._rows.total(kernel).astype(np.float64) * unit
        return second if reach is None else second * np.multiply.outer(reach, reach)

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        what, (start, _) = self._what, two_parts(w)

        def multiply(direction: Floats) -> Floats:
            step, _ = two_parts(direction)
            line = self._line(start, step)
            # a spacing for each problem: what is left to one that is nearly solved must not vanish beside others
            largest = what.curvature * what.longest**2 * np.maximum(np.linalg.norm(step, axis=0), 1e-300)
            spacing = np.array([power_of_two_above(most) for most in largest]) * 2.0**-UNIT_BITS

            def kernel(chunk: Chunk) -> Integers:
                size = self._shortening(chunk) * chunk.scale
                along = _columns(chunk.products_along(line)[1])
                limit = 2.0**UNIT_BITS / chunk.norm
                each = 1.0 if chunk.weights is None else chunk.weights / ONE
                limbs = np.empty((len(chunk), 2 * what.shape[1]), order="F")
                coarse, fine = np.hsplit(limbs, 2)
                for k, (_, curvatures) in enumerate(self._derivatives(chunk, line, at=0.0)):
                    weights = curvatures(damping[k] * what.curvature) * size**2 / spacing[k]
                    residuals = np.clip(weights * along[:, k], -limit, limit) * each
                    np.rint(residuals, out=coarse[:, k])
                    np.rint((residuals - coarse[:, k]) * 2.0**UNIT_BITS, out=fine[:, k])
                return chunk.total(limbs)

            total = np.array(self._rows.total(kernel), dtype=np.float64, order="C")  # sums over it keep their order
            coarse, fine = np.hsplit(total, 2)
            sums = (coarse + fine * 2.0**-UNIT_BITS) * (spacing * 2.0**-UNIT_BITS)
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

    def _derivatives(self, chunk: Chunk, line: Line, at: float = 1.0) -> Iterator[tuple[Floats, Curvatures]]:
        """Yield per objective the derivatives of rows by (units - offset, constant).w, clipped, in multiples of the
        spacing, and how to get the second ones by shortened scores, or at least some number; at the start of a line
        plus ``at`` steps.
        """
        what, (_, factor, limit) = self._what, self.scales(chunk)
        for at_k, labels in zip(self._scores(chunk, line, at).T, self.labels(chunk), strict=True):
            slopes = what.one.derivative(at_k, labels) * factor
            clipped = np.minimum(np.maximum(slopes, -limit), limit)
            clipped[np.isnan(clipped)] = 0

            def curvatures(
                least: float, at_k: Floats = at_k, labels: Labels = labels, flat: Any = slopes != clipped
            ) -> Floats:
                return np.maximum(np.where(flat, 0.0, what.one.second_derivative(at_k, labels)), least)

            yield clipped, curvatures

    def _scores(self, chunk: Chunk, line: Line, at: float) -> Floats:
        start, step = chunk.products_along(line)
        return self._moved(chunk, self.scales(chunk)[0][:, None] * _columns(start + at * step))

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
    """Return two weights whose products with rows are exact. Their sum is ``w``, or nearly, and a float."""
    first, _ = weights_on_grid(w)
    size = np.abs(w).sum(axis=0).max(initial=0.0)
    second, _ = weights_on_grid(w - first, power_of_two_above(size) * 2.0**-52 if size > 0 else 0.0)
    return first, second


def differences(gradient: Callable[[Floats], Floats], w: Floats) -> Callable[[Floats], Floats]:
    """Return the function that multiplies directions by the second derivatives at ``w``, nearly."""

    def multiply(direction: Floats) -> Floats:
        length = max(float(np.abs(direction).max()), 1e-300)
        step = direction * (2.0**-20 * max(float(np.abs(w).max()), 2.0**-20 * length) / length)
        taken = float(np.abs(step).max()) / length
        return (gradient(w + step) - gradient(w - step)) / (2 * taken)

    return multiply


def whole_parts(values: Floats, weights: Floats | None = None) -> Integers:
    """Return the sum of numbers in [0, 1] as multiples of 2^-30 and 2^-60: integers, so the order does not matter.

    Where there are weights, which multiply the numbers, the integers are in two parts.
    """
    values = np.clip(np.nan_to_num(values), 0, 1) * 2.0**30
    first = np.trunc(values)
    second = np.trunc((values - first) * 2.0**30)
    if weights is None:
        return np.array([first.sum(), second.sum()], dtype=np.int64)
    high, low = products(np.stack([first, second], axis=1), weights)
    return joined(high.sum(axis=0).astype(np.int64), low.sum(axis=0).astype(np.int64))


def total_of(parts: Integers, rows: Rows) -> Floats:
    """Return the number that sums over rows of :func:`whole_parts` stand for."""
    total: Floats = as_floats(parts, rows) @ np.array([2.0**-30, 2.0**-60])
    return total


def as_floats(sums: Integers, rows: Rows) -> Floats:
    """Return the floats that are nearest to sums of integers over these rows, in two parts where these have weights."""
    if not rows.public.weighted:
        return sums.astype(np.float64)
    high, low = sums
    nearest = high.astype(np.float64)
    rest = (high - nearest.astype(np.int64)) + low / ONE  # exact, so that only the sum of both is rounded
    total: Floats = nearest + rest
    return total
