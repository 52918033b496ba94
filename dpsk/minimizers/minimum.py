"""Minimisers: noise is added to them, or is inside of the objective. A sure bound covers the error of the solver."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..data.grid import power_of_two_above
from ..data.private import NoisyQuery, Statistic
from ..data.rows import Rows
from ..losses import Loss
from ..mechanisms.additive import noise_scale
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers
from ..mechanisms.staircase import rounded_gaussian
from ..privacy.neighbours import Adjacency
from ..privacy.perturbation import PerturbedMinimaCost
from .descent import METHODS, minima
from .hinge import hinge_minima, smallest_gap
from .newton import newton
from .regularized import RegularizedSum, SumOverRows, margin_loss, two_parts

_NEAR = 0.005  # how far from the minimum a solver may stop, in units of how far one row can move it
_NEAR_HINGE = 0.05  # the same where a duality gap has to tell
_ROUGHLY = 0.05  # the part of the largest gradient that easier problems are solved to
_NOISE_BITS = 40  # b is that much finer than its standard deviation
_LOOSE = 0.1  # the noise of the release, in units of 1/sqrt(smoothness)


class Minimizer(Statistic):
    """The minimiser of ``sum_i omega_i f_i(w) + penalty/2 ||w||^2`` (:class:`RegularizedSum`), on a grid.

    The loss is smooth or a hinge, or one-vs-rest of such: one minimiser per class. The penalty is that of the sum, not
    of the mean. ``method``, one of :data:`~dpsk.minimizers.descent.METHODS`, comes near the minimum; it does not matter
    to privacy. ``kind`` makes the objective: :class:`RegularizedSum`, or another one with a proof of how far one row
    moves its minimiser. ``n_rows`` is the number of units: of rows, or of persons.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 8.1 to 8.5)
    One unit moves each minimiser by at most ``moved`` (Chaudhuri, Monteleoni & Sarwate 2011). The point returned is
    within ``near`` of the minimiser, surely, whatever the solver does: a gradient or a duality gap certifies it. The
    sensitivity covers both, the rounding to the grid, and all classes together.
    """

    label = "minimum"
    weighed = True

    def __init__(
        self,
        loss: Loss,
        n_rows: int,
        n_parameters: int,
        *,
        clip: float,
        longest: float,
        penalty: float,
        method: str = "newton",
        kind: Callable[..., RegularizedSum] = RegularizedSum,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method={method!r} must be one of {', '.join(map(repr, METHODS))}")
        what = kind(loss, n_rows, n_parameters, clip=clip, longest=longest, penalty=penalty)
        steepest = float(abs(what.one.slope(np.array([-what.extent * what.farthest]))[0])) * (1 + 2.0**-40)
        self.objective = what = dataclasses.replace(what, clip=min(what.clip, what.extent * steepest))
        self.method, penalty = method, what.penalty
        self.moved = what.moved("zero-out")
        self._smooth = math.isfinite(what.smoothness)
        if self._smooth:
            finest = what.finest(what.farthest)
            self._tolerance = max(_NEAR * self.moved * penalty, 10 * (what.rounding() + finest))
            if not self._tolerance <= what.largest_error:
                raise ValueError(
                    f"penalty={penalty!r} is so small that rounding hides the minimum: choose a larger alpha, or "
                    "smaller bounds on rows and gradients"
                )
            self.near = self._tolerance / penalty
        else:
            self._gap = max((_NEAR_HINGE * self.moved) ** 2 * penalty / 2, smallest_gap(what))
            self.near = math.sqrt(2 * self._gap / penalty) * (1 + 2.0**-40)
        farthest = what.n_rows * what.clip / penalty + self.near
        self.unit = max(power_of_two_above(self.moved) * 2.0**-24, power_of_two_above(farthest) * 2.0**-60)

    def sensitivity(self, adjacency: str) -> Sensitivity:
        p, k = self.objective.shape
        apart = (self.objective.moved(adjacency) + 2 * self.near) / self.unit + math.sqrt(p)
        l2 = math.sqrt(k) * apart * (1 + 2.0**-40)
        return Sensitivity(l1=math.sqrt(p * k) * l2 * (1 + 2.0**-40), l2=l2, linf=l2)

    def over(self, rows: Rows, bits: Bits) -> Integers:
        what = self.objective
        what.check(rows)
        if self._smooth:
            enough = (self._tolerance - what.rounding()) * (1 - 2.0**-20)  # norms are rounded as well
            sums = what.over(rows, bits)
            w = minima(sums, what.shape, enough, self.method, self._start(sums, rows))
        else:
            w = hinge_minima(what, rows, self._gap, self.method, bits)
        first, second = two_parts(w)
        steps: Integers = np.rint((first + second) / self.unit).astype(np.int64)  # where the last gradient was computed
        return steps if what.n_classes is not None else steps[:, 0]

    def _start(self, sums: SumOverRows, rows: Rows) -> Floats:
        """Return where Newton's method starts: at its solutions of easier problems, if there are any."""
        what = self.objective
        w = np.zeros(what.shape)
        for easier in what.easier() if self.method == "newton" else ():
            w = newton(easier.over(rows).sharing(sums), w, _ROUGHLY * what.n_rows * what.clip)
        return w


class PerturbedMinima(NoisyQuery):
    """The minimiser of ``sum_i omega_i f_i(w) + penalty/2 ||w||^2 + b.w`` with Gaussian b, released with some noise.

    The sum is that of :class:`RegularizedSum`: noise is scaled to the clip, and curvature to the rows. Rows may have
    weights, but each has to be a unit of its own: all rows of a person change a determinant by more than one row may.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 9.1 to 9.5)
    That of :class:`~dpsk.privacy.PerturbedMinimaCost`, for smooth convex margin losses that fall and one-vs-rest of
    these. The point released is surely within tolerance/penalty of the minimiser, whatever the solver did, and noise
    covers twice that distance. The tolerance is fixed beforehand; it covers the rounding of sums and of b.
    """

    label = "minimum"
    weighed = True

    def __init__(
        self,
        loss: Loss,
        n_rows: int,
        n_parameters: int,
        clip: float,
        longest: float,
        penalty: float,
        strength: float,
        shift: float,
        adjacency: str = "zero-out",
    ) -> None:
        require_perturbable(loss)
        self.objective = what = RegularizedSum(loss, n_rows, n_parameters, clip, longest, penalty)
        self.clip, self.longest, self.penalty, (p, k) = what.clip, what.longest, what.penalty, what.shape
        self.adjacency, neighbours = adjacency, Adjacency(adjacency)
        log_determinant = k * math.log1p(what.beta / self.penalty) * (1 + 2.0**-40)
        self._cost = PerturbedMinimaCost(strength, shift, log_determinant, k, neighbours is Adjacency.REPLACE)
        # b, in integers
        change, each = self.clip * neighbours.parts, self._cost.strength / math.sqrt(k)
        self._unit = power_of_two_above(change / each) * 2.0**-_NOISE_BITS
        self._sigma = noise_scale(change / self._unit, each)
        # what is known of every gradient, and of the minimum, before the rows are seen
        largest_b = self._sigma * self._unit * (math.sqrt(p) + 40)  # exceeded with probability e^-800
        self._error = what.rounding(largest_b) + math.sqrt(p) * self._unit / 2
        finest = what.finest(2 * largest_b / self.penalty + math.sqrt(2 * what.at_zero / self.penalty))
        wanted = _LOOSE / math.sqrt(what.smoothness) * self.penalty * self._cost.shift / (2 * math.sqrt(k))
        self.tolerance = max(wanted, 10 * (self._error + finest))
        # the release, in integers: rounding moves two points apart by at most 1 per coordinate
        away = 2 * self.tolerance / self.penalty * (1 + 2.0**-40)
        farthest = (what.n_rows * self.clip + largest_b) / self.penalty
        self._grid = max(power_of_two_above(away) * 2.0**-20, power_of_two_above(farthest) * 2.0**-60)
        self._cover = noise_scale(math.sqrt(k) * (away / self._grid + math.sqrt(p)), self._cost.shift)
        self._priced = True

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "_priced"):
            raise dataclasses.FrozenInstanceError(f"{name} of what was priced cannot change")
        super().__setattr__(name, value)

    @property
    def cost(self) -> PerturbedMinimaCost:
        return self._cost

    def check(self, rows: Rows) -> None:
        if rows.public.by_person:
            raise ValueError("objective perturbation is proved where one row is protected, not a person with all rows")
        self.objective.check(rows)

    def __call__(self, rows: Rows, bits: Bits) -> Floats:
        shape = self.objective.shape
        drawn = rounded_gaussian(self._sigma, math.prod(shape), bits)
        objectives = SumOverRows(self.objective, rows, drawn.reshape(shape).astype(np.float64) * self._unit)
        enough = (self.tolerance - self._error) * (1 - 2.0**-20)  # norms are rounded as well
        first, second = two_parts(minima(objectives, shape, enough))
        w = first + second  # where the last gradient was computed
        noise = rounded_gaussian(self._cover, w.size, bits).reshape(w.shape)
        steps: Integers = np.rint(w / self._grid).astype(np.int64) + noise
        released: Floats = steps.astype(np.float64) * self._grid
        return released if self.objective.n_classes is not None else released[:, 0]


def require_perturbable(loss: Loss) -> None:
    """Raise ValueError unless the loss has a theorem."""
    try:
        smooth = math.isfinite(margin_loss(loss)[0].smoothness)
    except ValueError:
        smooth = False
    if not smooth:
        raise ValueError(
            "objective perturbation is proved for smooth convex margin losses that fall and one-vs-rest of these, not "
            f"for {loss!r}: a row of the softmax changes a determinant by more than one factor"
        )
