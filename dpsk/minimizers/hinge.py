"""The minimum of a hinge. A duality gap bounds the distance to it (docs/guarantees.md, 8.6)."""

import math
from collections.abc import Callable

import numpy as np

from ..data.rows import Chunk, Rows
from ..data.weights import ONE
from ..losses import HuberHinge
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers
from .descent import near
from .regularized import ROUNDING, RegularizedSum, SumOverRows, two_parts

_CORNERS = 2.0 * 0.25 ** np.arange(6)  # rounded corners that stand in for the kink
# Those that are moved: the narrower, the further each of them gets, and the harder it is for Newton's method
_CORRECTED = _CORNERS[-1] * np.maximum(0.5 ** np.arange(50), 2.0**-12)
_GAP_BITS = 30  # the gaps of rows are rounded up to this part of what they may sum up to
_HIDDEN = 2.0**-48  # what a dozen roundings hide of a row's gap, in units of its steepness and 1 + |margin|
_PATIENCE = 10  # steps of the dual between two looks at the gap


def smallest_gap(what: RegularizedSum) -> float:
    """Return the gap below which rounding may hide where the minimum is."""
    margins = what.n_rows * (1 + what.longest * what.farthest) * _HIDDEN
    error = _rounding(what) + what.penalty * what.n_parameters * what.farthest * 2.0**-50
    return 10 * (margins + error**2 / (2 * what.penalty))


def _rounding(what: RegularizedSum) -> float:
    """Return a bound on the error of v, and of penalty * w beside it: each a is rounded once, then added up."""
    return ROUNDING * what.n_rows * what.clip + what.summing()


def hinge_minima(what: RegularizedSum, rows: Rows, gap: float, method: str, bits: Bits) -> Floats:
    """Return points whose objectives are surely within ``gap`` of the minima. The hinges are flattened at the clip.

    A number a per row, from 0 to how steep its hinge is, proves a gap (docs/guarantees.md, 8.6). The slopes of a hinge
    with a rounded corner are such numbers, and only rows in the corner add to the gap. So narrower and narrower corners
    make it smaller. If many rows stay in the corner, for instance equal rows, the corner of each row is moved instead,
    so that it has the last slope at the kink (the proximal method of Rockafellar 1976 on the dual, with longer and
    longer steps). If that is not enough either, ascent of the dual goes on from there. Where rows have weights these
    multiply the hinge and its number alike.
    """
    dual, w, enough = _Dual(what, rows, gap), np.zeros(what.shape), math.sqrt(what.penalty * gap) / 4
    for count, h in enumerate(_CORNERS):
        corner = HuberHinge(h)
        rounded = SumOverRows(what.smoothed(corner), rows, bits=bits).sharing(dual.sums)
        w = near(rounded, w, enough, "newton" if count else method)
        a = np.minimum(-corner.slope(dual.margins(w)), dual.steepest)
        if dual.reached(w, a):
            return w
    for h in _CORRECTED:
        moved = _Moved(what, rows, h, a, dual.labels).sharing(dual.sums)
        w = near(moved, w, enough, "newton")
        a = np.minimum(-moved.corner.slope(dual.margins(w) + moved.by), dual.steepest)
        if dual.reached(w, a):
            return w
    return _ascend(dual, a)


class _Moved(SumOverRows):
    """Hinges whose corners are rounded and moved by row and problem: at margin 1 the slope is -a."""

    def __init__(self, what: RegularizedSum, rows: Rows, h: float, a: Floats, labels: Floats) -> None:
        self.corner, self.by, self._signs = HuberHinge(h), h - 2 * h * a, labels
        super().__init__(what.smoothed(self.corner), rows)

    def _moved(self, chunk: Chunk, scores: Floats) -> Floats:
        at = _positions(chunk)
        return scores + self._signs[at] * self.by[at]


class _Dual:
    """One number a per row and problem, before weights, and the gap that they prove."""

    def __init__(self, what: RegularizedSum, rows: Rows, gap: float) -> None:
        if not rows.shared:
            raise ValueError("the minimum of a hinge is found in one process, with a number for every row at hand")
        self.what, self._gap, self._rows = what, gap, rows
        n = int(rows.total(lambda chunk: np.array([len(chunk)]))[0])  # a person may have many
        self.sums, self.steepest = SumOverRows(what, rows), np.zeros((n, what.shape[1]))
        self.labels, self._counted = np.zeros_like(self.steepest), np.ones((n, 1))

        def facts(chunk: Chunk, at: slice) -> None:
            _, factor, limit = self.sums.scales(chunk)
            self.steepest[at] = np.minimum(1.0, limit / factor)[:, None]
            self.labels[at] = np.stack(list(self.sums.labels(chunk)), axis=1)
            if chunk.weights is not None:
                self._counted[at, 0] = chunk.weights / ONE

        self._visit(facts)

    def _visit(self, look: Callable[[Chunk, slice], None]) -> None:
        def kernel(chunk: Chunk) -> Integers:
            look(chunk, _positions(chunk))
            return np.zeros(1, dtype=np.int64)

        self._rows.total(kernel)

    def margins(self, w: Floats) -> Floats:
        """Return the margins of the shortened rows."""
        scores = np.zeros_like(self.steepest)

        def look(chunk: Chunk, at: slice) -> None:
            scores[at] = self.sums.scores(chunk, w)

        self._visit(look)
        return scores * self.labels

    def pulled(self, a: Floats) -> Floats:
        """Return v, the sum of a times labels times rows times weights."""

        def residuals(chunk: Chunk) -> list[Floats]:
            at, (_, factor, limit) = _positions(chunk), self.sums.scales(chunk)
            pairs = zip(a[at].T, self.labels[at].T, strict=True)
            return [np.minimum(a_k * factor, limit) * labels for a_k, labels in pairs]

        return self.sums.pull(residuals)

    def reached(self, w: Floats, a: Floats) -> bool:
        """Return whether every objective is surely within the gap; what rounding may hide is added."""
        what, margins, unit = self.what, self.margins(w), self._gap * 2.0**-_GAP_BITS
        each = (self.steepest - a) * np.maximum(0, 1 - margins) + a * np.maximum(0, margins - 1)
        each += _HIDDEN * self.steepest * (1 + np.abs(margins))
        each *= self._counted
        # sums of integers, so that no order of the rows decides
        whole = np.ceil(np.fmin(each / unit, 2.0 ** (_GAP_BITS + 1))).astype(np.int64).sum(axis=0) * unit
        at = sum(two_parts(w))  # where the margins were computed
        off = np.linalg.norm(what.penalty * at - self.pulled(a), axis=0)
        off = off * (1 + (what.n_parameters + 16) * ROUNDING) + _rounding(what)  # norms are rounded as well
        return bool((off**2 / (2 * what.penalty) + whole <= self._gap).all())


def _positions(chunk: Chunk) -> slice:
    """Return where the rows of a chunk stand among all rows."""
    if chunk.first < 0:
        raise ValueError("the minimum of a hinge is found over all rows, not over some of them")
    return slice(chunk.first, chunk.first + len(chunk))


def _ascend(dual: _Dual, a: Floats) -> Floats:
    """Return points within the gap by accelerated ascent of the dual, from ``a`` on (Nesterov 2005; Tseng 2008).

    The gap between the average of the primal points and the dual is at most 2 L n/(t + 1)^2 after t steps, where
    L = n longest^2/penalty bounds the curvature of the dual: the number of steps is bounded. Squares of numbers a, and
    curvature, count as much as their rows.
    """
    what = dual.what
    curvature, t = what.n_rows * what.longest**2 / what.penalty, 0
    z, w = a, dual.pulled(a) / what.penalty
    while t % _PATIENCE or not dual.reached(w, a):
        theta = 2 / (t + 2)
        ahead = (1 - theta) * a + theta * z
        at = dual.pulled(ahead) / what.penalty
        z = np.clip(z + (1 - dual.margins(at)) / (theta * curvature), 0, dual.steepest)
        a = np.minimum((1 - theta) * a + theta * z, dual.steepest)  # rounding must not lead out of the box
        w, t = (1 - theta) * w + theta * at, t + 1
    return w
