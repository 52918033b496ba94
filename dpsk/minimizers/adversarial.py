"""Losses under attack: every row is moved, within a ball, to where its loss is largest."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..data.rows import Chunk, Rows
from ..mechanisms.mechanism import positive
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers
from .regularized import ROUNDING, RegularizedSum, SumOverRows, differences, total_of, two_parts, whole_parts

_KINK = 0.1  # where the norm is rounded off, in units of how far one row can move the minimiser
_EASIER = 8.0 ** np.arange(6, 0, -1)  # kinks that are rounded off more widely, for the methods to begin with


@dataclass(frozen=True)
class AttackedSum(RegularizedSum):
    """``sum_i omega_i max f_i(w; x_i + v) + penalty/2 ||w||^2``, the largest over ||v|| <= radius in the attack's norm.

    The constant is not attacked. For a margin loss that falls the worst v has a closed form, which shortens the margin
    by ``radius * N(w)``. N is the l2 norm of the weights of the features for an attack in l2, and their l1 norm for an
    attack in l_inf. N has a kink, which is rounded off: ``sqrt(||w||^2 + kink^2) - kink`` takes the place of ||w||, or
    of every |w_j|. It is smaller by at most ``kink``.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 8.8)
    The gradient of a margin is at most ``extent`` long, and f_i is flattened where that times its slope would exceed
    ``clip``. Everything that is proved of a :class:`RegularizedSum` holds: a row moves the minimiser by clip/penalty.
    """

    radius: float
    norm: float
    constant: bool
    kink: float = 0.0

    # what follows from these
    rounded_off: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        vars(self).update(radius=positive("attack_radius", self.radius))
        if self.norm not in (2, math.inf):
            raise ValueError(f"attack_norm={self.norm!r} must be 2 or inf")
        super().__post_init__()
        if not math.isfinite(self.smoothness):
            raise ValueError(f"an adversarial objective is built for smooth losses, not for {self.loss!r}")
        # no finer than weights can be told apart, for so many rows
        finest = 2.0**-41 * self.n_rows * self.n_parameters * self.farthest
        rounded_off = self.kink or max(_KINK * self.clip / self.penalty, finest)
        smoothness = self.smoothness + self.n_rows * self.radius * self.steepest / rounded_off
        vars(self).update(rounded_off=rounded_off, smoothness=smoothness)

    def over(self, rows: Rows, bits: Bits | None = None) -> SumOverRows:
        return _AttackedOverRows(self, rows, bits=bits)

    @property
    def n_features(self) -> int:
        return self.n_parameters - self.constant

    @property
    def length(self) -> float:
        """The largest l2 norm of a gradient of N."""
        return 1.0 if self.norm == 2 else math.sqrt(max(self.n_features, 1))

    @property
    def extent(self) -> float:
        return (self.longest + self.radius * self.length) * (1 + 2.0**-40)

    @property
    def steepest(self) -> float:
        """A bound on the slope of a row's loss: it is flattened at the clip."""
        return min(self.one.lipschitz, self.clip / (self.radius * self.length))

    @property
    def hidden(self) -> float:
        """A bound on how far the sum lies below the sum with the kink."""
        kinks = 1 if self.norm == 2 else self.n_features
        return self.n_rows * self.steepest * self.radius * kinks * self.rounded_off

    def easier(self) -> Iterator[RegularizedSum]:
        """Yield sums with kinks that are rounded off more and more narrowly."""
        for times in _EASIER:
            if times * self.rounded_off < self.farthest:
                easier = dataclasses.replace(self, kink=times * self.rounded_off)
                yield from RegularizedSum.easier(easier)
                yield easier

    def norms(self, w: Floats) -> tuple[Floats, Floats]:
        """Return N of every column, and its gradient."""
        features = w[: self.n_features]
        size = features if self.norm != 2 else np.linalg.norm(features, axis=0)
        root = np.sqrt(np.square(size) + self.rounded_off**2)
        values = np.square(size) / (root + self.rounded_off)
        gradient = np.zeros_like(w)
        gradient[: self.n_features] = features / root
        return (values if self.norm == 2 else values.sum(axis=0)), gradient

    def second_of_norm(self, w: Floats, damping: float) -> Floats:
        """Return the second derivative of N at one column; ``damping`` makes it that of a parabola through 0."""
        d, features = self.n_features, w[: self.n_features]
        second = np.zeros((len(w), len(w)))
        if self.norm == 2:
            root = math.sqrt(features @ features + self.rounded_off**2)
            second[:d, :d] = np.eye(d) / root - (1 - damping) * np.outer(features, features) / root**3
        else:
            roots = np.sqrt(np.square(features) + self.rounded_off**2)
            second[range(d), range(d)] = 1 / roots - (1 - damping) * np.square(features) / roots**3
        return second

    @property
    def largest_error(self) -> float:
        return self.n_rows * self.clip

    def rounding(self, linear: float = 0.0) -> float:
        """Return a bound on the error of a gradient computed at a w that is certified with an error no larger than
        ``largest_error``: then ``penalty ||w|| <= 3 n clip`` (docs/guarantees.md, 8.5).
        """
        n, p, longest_w = self.n_rows, self.n_parameters, 3 * self.n_rows * self.clip / self.penalty
        margin = (p + 16) * self.extent * longest_w
        of_slopes = self.extent * (self.one.smoothness * margin + self.one.conditioning) + 17 * self.clip
        return ROUNDING * n * (of_slopes + (p / 2 + 15) * self.clip) + self.summing(linear)


class _AttackedOverRows(SumOverRows):
    """An :class:`AttackedSum` of these rows: the attack moves all margins of a problem alike."""

    _what: AttackedSum

    def __init__(self, what: AttackedSum, rows: Rows, bits: Bits | None = None) -> None:
        super().__init__(what, rows, bits=bits)
        self._shift = self._steepness = np.zeros(what.shape[1])  # of all margins, and the sum of all slopes

    def _of_losses(self, first: Floats, second: Floats) -> Floats:
        what, line = self._what, self._line(first, second)
        values, outward = what.norms(first + second)
        self._shift = -what.radius * values
        unit = what.steepest * (1 + 2.0**-40)

        def steepness(chunk: Chunk) -> Integers:
            by_slope = (self._spacing / unit) / self.scales(chunk)[0]
            each = (np.abs(slopes) * by_slope for slopes, _ in self._derivatives(chunk, line))
            return np.stack([whole_parts(values, chunk.weights) for values in each], axis=-2)

        self._steepness = unit * total_of(self._rows.total(steepness), self._rows)
        sums = self.pull(lambda chunk: (slopes for slopes, _ in self._derivatives(chunk, line)))
        return sums + outward * (what.radius * self._steepness)

    def scales(self, chunk: Chunk) -> tuple[Floats, Floats, Floats]:
        what, (size, factor, _) = self._what, super().scales(chunk)
        lengths = size * chunk.norm + what.radius * what.length
        return size, factor, (what.clip * (1 - 2.0**-30) / self._spacing) * size / lengths

    def _moved(self, chunk: Chunk, scores: Floats) -> Floats:
        return scores + np.stack([y * by for y, by in zip(self.labels(chunk), self._shift, strict=True)], axis=1)

    def common(self) -> None:
        """Return nothing: the attack bends every problem in its own way."""

    def hessians(self, w: Floats, damping: Floats, which: Integers | None = None) -> Floats:
        """Return the second derivatives, where the margin's gradient is y x - r s with s = grad N:

            sum_i phi_i'' (y x_i - r s)(y x_i - r s)^T + r sum_i |phi_i'| (second derivative of N),

        or twice the first and the last term of the product where rounding leaves that without an inverse.
        """
        what, r = self._what, self._what.radius
        self.gradient(w)  # so that shift and steepness are those of w
        second, parts = super().hessians(w, damping, which), two_parts(w)
        line, at = self._line(*parts), parts[0] + parts[1]
        outward = what.norms(at)[1].T
        which = np.arange(len(outward)) if which is None else which
        largest = max(what.one.smoothness * what.longest / what.clip, 1.0)

        def curvatures(chunk: Chunk) -> Iterator[Floats]:
            own = zip(self._derivatives(chunk, line), damping * what.curvature, strict=True)
            return (curved(least) for (_, curved), least in own)

        def residuals(chunk: Chunk) -> Iterator[Floats]:
            factor, limit = self.scales(chunk)[1:]
            pairs = zip(self.labels(chunk), curvatures(chunk), strict=True)
            return (np.clip(labels * curved * (factor / largest), -limit, limit) for labels, curved in pairs)

        def summed(chunk: Chunk) -> Integers:
            each = (curved / what.one.smoothness for curved in curvatures(chunk))
            return np.stack([whole_parts(values, chunk.weights) for values in each], axis=-2)

        crossed = self.pull(residuals).T * largest
        curvature = what.one.smoothness * total_of(self._rows.total(summed), self._rows)
        for place, k in enumerate(which):
            s = outward[k]
            kink = r * self._steepness[k] * what.second_of_norm(at[:, k], damping[k])
            mixed, own_s = r * np.outer(crossed[k], s), r**2 * curvature[k] * np.outer(s, s)
            exact = second[place] - mixed - mixed.T + own_s + kink
            try:
                np.linalg.cholesky(exact + self.convexity * np.eye(len(s)))
            except np.linalg.LinAlgError:
                exact = 2 * (second[place] + own_s) + kink
            second[place] = exact
        return second

    def products(self, w: Floats, damping: Floats) -> Callable[[Floats], Floats]:
        return differences(self.gradient, w)
