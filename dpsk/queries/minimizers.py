"""Minimisers of perturbed objectives: the noise is inside, and the error of the solver has a sure bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.grid import UNIT_BITS, check_clip, power_of_two_above, weights_on_grid
from ..data.private import NoisyQuery
from ..data.rows import Chunk, Line, Rows
from ..losses import Loss, MarginLoss, OneVsRest
from ..mechanisms.additive import noise_scale
from ..mechanisms.base import positive
from ..mechanisms.exact import Floats, Integers, rounded_gaussian
from ..mechanisms.randomness import Bits
from ..privacy.costs import positive_integer
from ..privacy.perturbation import PerturbedMinimaCost
from .hessian import weighted_products
from .newton import minima

__all__ = ["PerturbedMinima"]

_ROUNDING = 2.0**-53
_LIMBS = 3  # of UNIT_BITS bits each: a residual to its last bit
# A Hessian is summed exactly in any order: entries of rows twice, a curvature and a block of 2^12 rows take 53 bits
_FACTOR_BITS, _WEIGHT_BITS = 12, 17
_NOISE_BITS = 40  # b is that much finer than its standard deviation
_LOOSE = 0.1  # the noise of the release, in units of 1/sqrt(smoothness)


@dataclass(frozen=True)
class PerturbedMinima(NoisyQuery):
    """The minimiser of ``sum_i f_i(w) + penalty/2 ||w||^2 + b.w`` with Gaussian b, released with a little noise.

    f_i is the loss of row i, shortened to norm ``longest`` (with its constant), and flattened where its gradient would
    exceed ``clip``: the gradient of f_i is the gradient of the shortened row, clipped, so that noise is scaled to the
    clip and curvature to the rows. For several classes one such minimiser per class, against all others.

    Formal guarantee
    ----------------
    That of :class:`~dpsk.privacy.PerturbedMinimaCost`. Its conditions: for a convex margin loss with a falling phi, f_i
    is a convex function of x_i.w whose derivative is Lipschitz and falls in absolute value no further than clip/||x_i||
    (:meth:`~dpsk.losses.MarginLoss.flattened`), and its Hessian has rank one and a norm of at most
    ``beta = longest^2 * curvature_below(clip/longest)``. b is a continuous Gaussian that is rounded to a fine grid
    after it is drawn: the rounding is an error of the gradient. The point released has a gradient of at most
    ``tolerance``, fixed beforehand: computed from exact sums, plus a bound on what rounding does to each row's
    derivative, plus the rounding of b. It is hence within tolerance/penalty of the minimiser, whatever the solver did,
    and noise for twice that distance covers it.
    """

    loss: Loss
    n_rows: int
    n_parameters: int
    clip: float
    longest: float
    penalty: float
    strength: float
    shift: float
    adjacency: str = "zero-out"

    # what follows from these, set once
    one: MarginLoss = field(init=False, repr=False)
    n_classes: int | None = field(init=False, repr=False)
    shape: tuple[int, int] = field(init=False, repr=False)
    curvature: float = field(init=False, repr=False)
    smoothness: float = field(init=False, repr=False)
    tolerance: float = field(init=False, repr=False)
    _cost: PerturbedMinimaCost = field(init=False, repr=False)
    _unit: float = field(init=False, repr=False)
    _sigma: int = field(init=False, repr=False)
    _error: float = field(init=False, repr=False)
    _grid: float = field(init=False, repr=False)
    _cover: int = field(init=False, repr=False)

    label = "minimum"

    def __post_init__(self) -> None:
        n, p = positive_integer("n_rows", self.n_rows), positive_integer("n_parameters", self.n_parameters)
        longest, penalty = check_clip(self.longest), positive("penalty", self.penalty)
        one, n_classes = _binary(self.loss)
        clip, replaced = min(check_clip(self.clip), longest * one.lipschitz), self.adjacency == "replace"
        k = n_classes or 1
        beta = self.largest_curvature(self.loss, clip, longest)
        log_determinant = k * math.log1p(beta / penalty) * (1 + 2.0**-40)
        cost = PerturbedMinimaCost(self.strength, self.shift, log_determinant, k, replaced)
        # b, in integers
        change, each = clip * (2 if replaced else 1), cost.strength / math.sqrt(k)
        unit = power_of_two_above(change / each) * 2.0**-_NOISE_BITS
        sigma = noise_scale(change / unit, each)
        # what is known of every gradient, and of the minimum, before the rows are seen
        largest_b = sigma * unit * (math.sqrt(p) + 40)  # exceeded with probability e^-800
        all_rows, at_zero = n * clip, n * float(one.phi(np.zeros(1))[0])
        per_row = longest * (16 + 4 * one.conditioning) + 4 * math.sqrt(p) * clip
        error = _ROUNDING * (n * per_row + 16 * math.sqrt(p) * (all_rows + largest_b)) + math.sqrt(p) * unit / 2
        smoothness = n * beta + penalty
        # weights are no finer than floats, and their second part no finer than 2^-60, so no solver can do better
        largest_w = 2 * largest_b / penalty + math.sqrt(2 * at_zero / penalty)
        finest = smoothness * p * max(1, p / 512) * 2.0**-52 * largest_w
        wanted = _LOOSE / math.sqrt(smoothness) * penalty * cost.shift / (2 * math.sqrt(k))
        tolerance = max(wanted, 10 * (error + finest))
        # the release, in integers: rounding moves two points apart by at most 1 per coordinate
        away = 2 * tolerance / penalty * (1 + 2.0**-40)
        farthest = (all_rows + largest_b) / penalty
        grid = max(power_of_two_above(away) * 2.0**-20, power_of_two_above(farthest) * 2.0**-60)
        cover = noise_scale(math.sqrt(k) * (away / grid + math.sqrt(p)), cost.shift)
        vars(self).update(clip=clip, longest=longest, penalty=penalty, shape=(p, k), one=one, n_classes=n_classes)
        vars(self).update(curvature=beta / longest**2, smoothness=smoothness, tolerance=tolerance)
        vars(self).update(_cost=cost, _unit=unit, _sigma=sigma, _error=error, _grid=grid, _cover=cover)

    @staticmethod
    def largest_curvature(loss: Loss, clip: float, longest: float) -> float:
        """Return beta: a bound on the second derivative of one row's part in any direction."""
        return longest**2 * _binary(loss)[0].curvature_below(clip / longest)

    @staticmethod
    def slope_at_zero(loss: Loss) -> float:
        """Return how steeply the loss falls at a row on the boundary."""
        return float(abs(_binary(loss)[0].slope(np.zeros(1))[0]))

    @property
    def cost(self) -> PerturbedMinimaCost:
        return self._cost

    def check(self, rows: Rows) -> None:
        if (rows.n_rows, rows.n_parameters, rows.n_classes) != (self.n_rows, self.n_parameters, self.n_classes):
            raise ValueError(
                f"a minimum over {self.n_rows} rows, {self.n_parameters} parameters and n_classes={self.n_classes} was "
                f"prepared, but there are {rows.n_rows}, {rows.n_parameters} and {rows.n_classes}"
            )

    def __call__(self, rows: Rows, bits: Bits) -> Floats:
        drawn = rounded_gaussian(self._sigma, math.prod(self.shape), bits)
        objectives = _SumOverRows(self, rows, drawn.reshape(self.shape).astype(np.float64) * self._unit)
        enough = (self.tolerance - self._error) * (1 - 2.0**-20)  # norms are rounded as well
        first, second = _two_parts(minima(objectives, self.shape, enough))
        w = first + second  # where the last gradient was computed
        noise = rounded_gaussian(self._cover, w.size, bits).reshape(w.shape)
        steps: Integers = np.rint(w / self._grid).astype(np.int64) + noise
        released: Floats = steps.astype(np.float64) * self._grid
        return released if self.n_classes is not None else released[:, 0]


def _binary(loss: Loss) -> tuple[MarginLoss, int | None]:
    """Return the loss of each problem, and how many classes there are where more than two."""
    one, n_classes = (loss.loss, loss.n_classes) if isinstance(loss, OneVsRest) else (loss, None)
    if isinstance(one, MarginLoss) and math.isfinite(one.conditioning):
        falls = one.slope(np.full(1, 2.0**100))[0] <= 0  # at the end, and so everywhere if it is convex
        if falls and one.corner(np.ones(1)) is not None:
            return one, n_classes
    raise ValueError(
        "objective perturbation is proved for smooth convex margin losses that fall and one-vs-rest of these, not for "
        f"{loss!r}: a row of the softmax changes a determinant by more than one factor"
    )


class _SumOverRows:
    """The objectives of :class:`PerturbedMinima`: sums of integers, the same for every chunking and storage."""

    def __init__(self, what: PerturbedMinima, rows: Rows, b: Floats) -> None:
        self._what, self._rows, self._b = what, rows, b
        self.convexity, self.smoothness = what.penalty, what.smoothness
        self._spacing = power_of_two_above(what.clip) * 2.0**-UNIT_BITS

    def gradient(self, w: Floats) -> Floats:
        first, second = _two_parts(w)
        line = self._line(first, second)

        def kernel(chunk: Chunk) -> Integers:
            sums, limbs = [], np.empty((len(chunk), _LIMBS), order="F")
            for slopes, _ in self._derivatives(chunk, line):
                for limb in limbs.T:
                    np.trunc(slopes, out=limb)
                    slopes -= limb
                    slopes *= 2.0**UNIT_BITS
                sums.append(chunk.total(limbs))
            return np.stack(sums, axis=1)

        limb_units = self._spacing * 2.0 ** (-UNIT_BITS * np.arange(1.0, _LIMBS + 1))
        gradient: Floats = self._rows.total(kernel) @ limb_units + self.convexity * (first + second) + self._b
        return gradient

    def hessians(self, w: Floats, damping: Floats) -> Floats:
        what, reach, line = self._what, self._rows.reach, self._line(*_two_parts(w))
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
        what, (start, _) = self._what, _two_parts(w)

        def multiply(direction: Floats) -> Floats:
            step, _ = _two_parts(direction)
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

    def _derivatives(self, chunk: Chunk, line: Line, at: float = 1.0) -> Iterator[tuple[Floats, Callable[[], Floats]]]:
        """Yield per objective the derivatives of rows by (units - offset, constant).w, clipped, in multiples of the
        spacing, and how to get the second ones by shortened scores; at the start of a line plus ``at`` steps.
        """
        what, (start, step) = self._what, chunk.products_along(line)
        size = self._shortening(chunk) * chunk.scale
        scores = size[:, None] * _columns(start + at * step)
        factor, limit = size / self._spacing, (what.clip * (1 - 2.0**-30) / self._spacing) / chunk.norm
        for k in range(what.shape[1]):
            at_k, labels = scores[:, k], chunk.y if what.n_classes is None else np.where(chunk.y == k, 1.0, -1.0)
            slopes = what.one.derivative(at_k, labels) * factor
            clipped = np.minimum(np.maximum(slopes, -limit), limit)
            clipped[np.isnan(clipped)] = 0

            def curvatures(at_k: Floats = at_k, labels: Floats = labels, flat: Any = slopes != clipped) -> Floats:
                return np.where(flat, 0.0, what.one.second_derivative(at_k, labels))

            yield clipped, curvatures

    def _line(self, start: Floats, step: Floats) -> Line:
        """Return the line of two parts of weights, in the shape that chunks take."""
        if self._what.n_classes is None:
            start, step = start[:, 0], step[:, 0]
        return Line(start, step, np.ones(1), (start + step)[None], exact=False)


def _columns(products: Floats) -> Floats:
    return products if products.ndim == 2 else products[:, None]


def _two_parts(w: Floats) -> tuple[Floats, Floats]:
    """Return two weights with exact products whose sum is a float: ``w``, or nearly."""
    first, _ = weights_on_grid(w)
    size = np.abs(w).sum(axis=0).max(initial=0.0)
    second, _ = weights_on_grid(w - first, power_of_two_above(size) * 2.0**-52 if size > 0 else 0.0)
    return first, second
