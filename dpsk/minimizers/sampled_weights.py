"""The exponential mechanism over weights: one exact draw, by rejection under a strongly convex envelope."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

import numpy as np
from scipy.linalg import cholesky
from scipy.special import gammainc, gammainccinv

from ..data.grid import SHARE_BITS, power_of_two_above
from ..data.private import NoisyQuery
from ..data.rows import Chunk, Rows
from ..data.weights import ONE
from ..losses import Loss
from ..mechanisms.mechanism import positive
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers, bernoulli_exp, discrete_laplace, exactly
from ..mechanisms.spherical import NormGamma
from ..privacy.costs import BoundedRangeCost
from ..privacy.neighbours import Adjacency
from .descent import minima
from .minimum import Minimizer
from .regularized import RegularizedSum, SumOverRows, two_parts

_HOPELESS = 1e-5  # expected acceptance below which a draw is refused
_FINE = 2.0**-14  # the grid, in units of the narrowest standard deviation that there can be
_LOST = 1e-3  # of an exponent, to rounding losses down to integers
_BATCH = 128  # proposals at a time
_PROBES = 4096  # margins at which workers have to compute the same losses


@dataclass(frozen=True)
class SampledWeights(NoisyQuery):
    """One draw of weights w from a grid in a ball, with probability in proportion to

        exp(-eta/range * (sum_i omega_i f_i(w) + penalty/2 ||w||^2)).

    f_i is the loss of row i, shortened to norm ``longest``, and omega_i is what the row counts. Algorithm 9 of Lowy &
    Razaviyayn (2021, after Bassily, Smith & Thakurta 2014), on ``||w - centre|| <= radius``; with a released centre it
    is the second step of Algorithm 11. For two classes.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 10.1 to 10.3)
    eta-bounded range, and so eta-DP (McSherry & Talwar 2007; Dong, Durfee & Rogers 2020): the draw is exact, from a
    finite set, and the loss of a row is an integer between 0 and ``top``. Weights multiply these integers exactly, so
    those of a unit add up to at most ``top`` as well. Proposals are discrete Laplace around the means of a quadratic
    form K that bounds the exponent from below; one is kept by two coins, and the first needs no pass over the rows.
    Exponents are fractions, so the coins are those of infinitely many bits. The envelope depends on the rows. It
    decides how long the draw takes, but not what is drawn.

    The integer of a row at a point must be the same in every pass. In one process it is (:mod:`dpsk.elementwise`). A
    worker is refused if it computes other bits than this process at any of 4,096 margins. Draws that would take too
    long are refused by public facts (around a centre: for all but a thousandth of centres).
    """

    loss: Loss
    n_rows: int
    n_parameters: int
    longest: float
    penalty: float
    eta: float
    radius: float
    inside: float
    """How far from the centre the minimum lies at most, or in all but a thousandth of cases."""
    adjacency: str = "zero-out"
    centre: tuple[float, ...] | None = None
    localized: bool = False

    # what follows from these, set once
    objective: RegularizedSum = field(init=False, repr=False)
    top: int = field(init=False, repr=False)
    unit: float = field(init=False, repr=False)
    grid: float = field(init=False, repr=False)

    label = "weights"
    weighed = True

    def __post_init__(self) -> None:
        clip = self.longest * 2.0**40  # flattens nothing
        what = RegularizedSum(self.loss, self.n_rows, self.n_parameters, clip, self.longest, self.penalty)
        if what.n_classes is not None or not (math.isfinite(what.smoothness) and math.isfinite(what.one.lipschitz)):
            raise ValueError(
                f"the exponential mechanism is built for two classes and smooth losses with a bounded slope, not for "
                f"{self.loss!r}"
            )
        eta, reach = positive("eta", self.eta), np.array([what.longest * positive("radius", self.radius)])
        if self.localized:
            spread = 2 * what.one.lipschitz * reach[0]
        else:
            spread = float((what.one.phi(-reach) - what.one.phi(reach))[0])
        top = 2 ** min(36, math.ceil(math.log2(max(2.0, what.n_rows * eta / _LOST))))
        unit = spread * (1 + 2.0**-20) / top
        vars(self).update(objective=what, top=top, unit=unit, eta=eta)
        narrowest = 1 / math.sqrt(self.strength * what.smoothness)
        vars(self).update(grid=power_of_two_above(max(narrowest * _FINE, self.radius * 2.0**-40)))

    @property
    def steps(self) -> int:
        """How far one unit can move the sum of the integers times weights."""
        return self.top * Adjacency(self.adjacency).parts

    @property
    def strength(self) -> float:
        """What losses are multiplied by."""
        return self.eta / (self.steps * self.unit)

    @property
    def cost(self) -> BoundedRangeCost:
        return BoundedRangeCost(self.eta)

    @classmethod
    def around(cls, minimum: Minimizer, noise: NormGamma, eta: float, adjacency: str) -> Self:
        """Return the draw around a noisy release of this minimum: Algorithms 10 and 11 of Lowy & Razaviyayn (2021).

        The ball holds the minimum in all but 10^-9 of cases, about in the way of their xi. The draw is private and
        exact in these as well; they take longer. ``dataclasses.replace(..., centre=...)`` puts it where the release is.
        """
        what = minimum.objective
        scale = minimum.sensitivity(adjacency).l2 * minimum.unit / noise.epsilon * 1.01  # rounded to cells
        p = what.n_parameters
        radius, inside = (float(gammainccinv(p, chance)) * scale + minimum.near for chance in (1e-9, 1e-3))
        return cls(
            what.loss, what.n_rows, p, what.longest, what.penalty, eta, radius, inside, adjacency, localized=True
        )

    def psi(self, distance: float) -> float:
        """Return the factor of u^T H u by which the losses rise at least, within this distance."""
        t = self.objective.longest * distance * self.objective.one.decay
        if not math.isfinite(t):
            return 0.0
        return 0.5 - t / 6 if t < 1e-4 else (math.exp(-t) + t - 1) / t**2 * (1 - 2.0**-30)

    @property
    def acceptance(self) -> float:
        """A lower bound on the chance that a proposal that passed the first coin is kept.

        Close to the minimum, within a, the sum is no more than ``u^T (psi' H + penalty/2) u`` above it, with psi' =
        (exp(t) - t - 1)/t^2 for t = longest * a (1/2, and H at its largest, for losses in general). So the chance is at
        least the root of the ratio of determinants, times that of a Gaussian to be within a, for the best a.
        """
        what, p = self.objective, self.n_parameters
        least = 2 * self.psi(self.radius + self.inside) * what.beta + what.penalty / what.n_rows
        best = 0.0
        for a in max(self.radius - self.inside, 0.0) * np.linspace(0.05, 1, 20):
            t = what.longest * a * what.one.decay
            above = 0.5 + t if t < 1e-4 else (math.expm1(t) - t) / t**2 if t < 500 else math.inf
            above = above if math.isfinite(what.one.decay) else 0.5
            most = 2 * above * what.beta + what.penalty / what.n_rows
            within = float(gammainc(p / 2, self.strength * what.penalty * a**2 / 2))
            best = max(best, (least / most) ** (p / 2) * within)
        return best

    def require_hope(self, remedy: str) -> None:
        """Raise ValueError if, by public facts, a draw could take too many proposals."""
        if not self.acceptance >= _HOPELESS:
            expected = "more than 1e300" if self.acceptance < 1e-300 else f"about {1 / self.acceptance:.0e}"
            raise ValueError(
                f"an exact draw of {self.n_parameters} weights at epsilon={self.eta:g} with alpha="
                f"{self.penalty / self.n_rows:.2g} and {self.n_rows} rows could take {expected} proposals, and is "
                f"refused beyond {1 / _HOPELESS:.0e}: {remedy}"
            )

    def check(self, rows: Rows) -> None:
        self.objective.check(rows)

    def __call__(self, rows: Rows, bits: Bits) -> Floats:
        draw = _Draw(self, rows)
        while True:
            for k, passed, laplace in draw.proposals(bits):
                exponent = draw.exponent(k) - laplace - passed
                if bernoulli_exp(np.array([float(exponent)]), lambda _: exactly(exponent), bits)[0]:  # noqa: B023
                    return k.astype(np.float64) * self.grid


class _Draw:
    """The envelope of one draw: its centre, its quadratic form and its constant."""

    def __init__(self, what: SampledWeights, rows: Rows) -> None:
        self.what, self._rows, objective, p = what, rows, what.objective, what.n_parameters
        self._sums = SumOverRows(objective, rows)
        self._centre = np.zeros(p) if what.centre is None else np.array(what.centre)
        self._expected = None if rows.shared else _probed(what)
        largest = what.radius * 2
        self._c = np.rint(self._minimum(1e-2 / (largest * what.strength)) / what.grid).astype(np.int64)
        at = self._c.astype(np.float64) * what.grid
        gradient = self._sums.gradient(at[:, None])[:, 0]
        # c need not be near the minimum: the penalty's gradient there may be long
        rounding = objective.rounding(objective.penalty * self._length(at))
        slack = self._steepest_fall(at, gradient) + rounding * largest
        # a pass rounds a loss down, and is off by up to 2^-45 of the largest number that comes up on the way
        at_zero = float(objective.one.phi(np.zeros(1))[0])
        largest_loss = 1 + at_zero + what.longest * (2 * what.radius + self._length(at))
        slack += objective.n_rows * (what.unit + 2.0**-44 * largest_loss)
        diameter = what.radius + self._length(at - self._centre)
        second = 2 * what.psi(diameter) * (self._second(at) - objective.n_rows * objective.beta * 2.0**-38 * np.eye(p))
        second = (second + objective.penalty * np.eye(p)) * (what.strength * what.grid**2 * (1 - 2.0**-30))
        factor = cholesky(second, lower=True)
        self._pivots = np.diag(factor) ** 2
        self._mixing = factor / np.diag(factor)  # unit lower triangular
        self._scales = [max(1, math.ceil(1 / math.sqrt(pivot))) for pivot in self._pivots]
        laplace = 1 / np.array(self._scales)
        # |d|/t - pivot/2 (|d| - 1/2)^2 is at most this
        self._most = float(np.sum(0.5001 * laplace + laplace**2 / (2 * self._pivots)))
        self._constant = Fraction(what.strength * slack * (1 + 2.0**-20) + self._most + 2.0**-20)
        self._exponent_at_c = Fraction(0)
        self._exponent_at_c = self.exponent(self._c) - self._constant

    @staticmethod
    def _length(v: Floats) -> float:
        return float(np.linalg.norm(v)) * (1 + 2.0**-40)

    def _minimum(self, tolerance: float) -> Floats:
        """Return nearly the minimiser in the ball. If it is outside, a penalty around the centre brings it in."""
        w, inner = self._pulled(0.0, tolerance), self.what.radius * (1 - 2.0**-20)
        low, high = 0.0, self.what.objective.penalty
        if self._length(w - self._centre) <= inner:
            return w
        while self._length((w := self._pulled(high, tolerance)) - self._centre) > inner:
            low, high = high, 4 * high
        for _ in range(20):
            middle = (low + high) / 2
            found = self._pulled(middle, tolerance)
            if self._length(found - self._centre) > inner:
                low = middle
            else:
                w, high = found, middle
        return w

    def _pulled(self, extra: float, tolerance: float) -> Floats:
        """Return the minimiser of the sum plus extra/2 ||w - centre||^2."""
        objective, linear = self.what.objective, extra * self._centre
        pulled = dataclasses.replace(objective, penalty=objective.penalty + extra)
        enough = max(tolerance, 10 * (pulled.rounding(self._length(linear)) + pulled.finest(pulled.farthest)))
        return minima(SumOverRows(pulled, self._rows, -linear[:, None]), pulled.shape, enough)[:, 0]

    def _steepest_fall(self, at: Floats, gradient: Floats) -> float:
        """Return a bound on -g.u in the ball. If -g points outward, only the distance from c to the edge counts."""
        away = at - self._centre
        distance = float(np.linalg.norm(away))
        outward = away / distance if distance > 0 else np.zeros_like(away)
        pull = max(0.0, -float(gradient @ outward))
        rest = self._length(gradient + pull * outward)
        beyond = max(0.0, self.what.radius * (1 + 2.0**-30) - distance)
        return rest * (self.what.radius + distance) + pull * beyond

    def _second(self, at: Floats) -> Floats:
        """Return the Hessian of the losses, each entry exact to the last limb of a sum."""
        objective, parts = self.what.objective, two_parts(at[:, None])
        line = self._sums._line(*parts)
        # nothing is cut off: an entry of phi'' x x^T is that large at most
        largest = objective.one.smoothness * objective.longest**2 / objective.clip * (1 + 2.0**-20)

        sums = self._sums

        def column(j: int) -> Floats:
            def residuals(chunk: Chunk) -> Iterator[Floats]:
                size, factor, limit = sums.scales(chunk)
                ((_, curvatures),) = sums._derivatives(chunk, line)
                own = curvatures(0.0) * chunk.dense(slice(None))[:, j] * size
                yield np.clip(own * (factor / largest), -limit, limit)

            return sums.pull(residuals)[:, 0] * largest

        second = np.stack([column(j) for j in range(len(at))])
        return (second + second.T) / 2

    def exponent(self, k: Integers) -> Fraction:
        """Return the exponent at a grid point, less that at c, plus the constant of the envelope."""
        what, sums, centre = self.what, self._sums, self._centre[:, None]
        one, w = what.objective.one, (k.astype(np.float64) * what.grid)[:, None]
        lowest = float(one.phi(np.array([what.objective.longest * what.radius]))[0])
        expected = self._expected

        def losses(chunk: Chunk) -> Integers:
            if expected is not None and not np.array_equal(_probed(what), expected):
                raise RuntimeError(
                    "this worker computes losses with other last bits than the process that draws: take workers with "
                    "the same processor and libraries, or mechanism='noise'"
                )
            values = one.phi(chunk.y * sums.scores(chunk, w)[:, 0]) - lowest
            if what.localized:  # less those at the centre
                values += lowest + what.unit * what.top / 2 - one.phi(chunk.y * sums.scores(chunk, centre)[:, 0])
            whole = np.floor(np.nan_to_num(values / what.unit))
            steps = np.clip(whole, 0, what.top).astype(np.int64)
            if chunk.weights is None:
                return np.array([steps.sum()])
            weighed = steps * chunk.weights.astype(np.int64)  # of 37 bits and 21
            return np.array([(weighed >> SHARE_BITS).sum(), (weighed & (ONE - 1)).sum()])

        high, *low = (int(part) for part in self._rows.total(losses))
        of_losses = (high + Fraction(sum(low), ONE)) * Fraction(what.eta) / what.steps
        squares = sum(int(entry) ** 2 for entry in k.tolist())
        of_penalty = Fraction(what.strength) * Fraction(what.penalty) / 2 * Fraction(what.grid) ** 2 * squares
        return of_losses + of_penalty - self._exponent_at_c

    def proposals(self, bits: Bits) -> Iterator[tuple[Integers, Fraction, Fraction]]:
        """Yield grid points in the ball that passed a first coin, the exponent of that coin, and sum |d_j|/t_j."""
        what, p = self.what, self.what.n_parameters
        d = np.stack([discrete_laplace(scale, _BATCH, bits) for scale in self._scales], axis=1)
        u, form = np.zeros_like(d), np.zeros(_BATCH)
        for j in reversed(range(p)):
            mean = np.zeros(_BATCH)
            for later in range(j + 1, p):  # one after the other: a mean may depend on nothing but these numbers
                mean -= u[:, later] * self._mixing[later, j]
            u[:, j] = np.rint(mean).astype(np.int64) + d[:, j]
            form += self._pivots[j] / 2 * np.square(u[:, j] - mean)
        laplace = np.abs(d) @ (1 / np.array(self._scales))
        first = np.maximum(0.0, (form - laplace + self._most) * (1 - 2.0**-30) - 2.0**-30)
        heads = bernoulli_exp(first, lambda i: exactly(Fraction(first[i])), bits)
        points = u + self._c
        inside = np.linalg.norm(points * what.grid - self._centre, axis=1) <= what.radius
        for i in np.flatnonzero(heads & inside):
            exact = sum((Fraction(abs(e), t) for e, t in zip(d[i].tolist(), self._scales, strict=True)), Fraction(0))
            yield points[i], Fraction(first[i]), exact


def _probed(what: SampledWeights) -> Floats:
    """Return the losses at margins all over the range: public numbers by which processors can be told apart."""
    return what.objective.one.phi(np.linspace(-1, 1, _PROBES) * (what.objective.longest * what.radius))
