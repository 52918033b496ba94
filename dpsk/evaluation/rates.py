"""Two classes at a threshold: which cells of the table are hits, and rates with their intervals."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit

from ..mechanisms.samplers import Floats
from ..requirements import require_number
from .counts import consistent, number_right
from .evidence import Estimate, Evidence, Mask, Sample
from .opinions import ABOVE_ZERO
from .release import Released


@dataclass(frozen=True)
class Place:
    """Where a threshold lies among the bins: those from ``above`` on are surely above it, those from ``below`` perhaps.

    ``part`` is how much of the bin in between counts as above.
    """

    above: int
    below: int
    part: float


class Rates:
    """The table of label, predicted label and bin of score, as evidence."""

    def __init__(self, released: Released, sample: Sample, error: float) -> None:
        self.released, self.sample, self.error = released, sample, error
        level, accuracy = released.table, released.accuracy
        n_right = number_right(
            accuracy.counts, accuracy.scale, level.counts, self.predicted == self.label, level.scale, sample.n
        )
        counts = consistent(level.counts, self.predicted == self.label, n_right, sample.n)
        self.evidence = Evidence(level, counts, sample, error)

    @cached_property
    def _places(self) -> tuple[Floats, ...]:
        return tuple(np.indices(self.released.table.counts.shape))

    @property
    def label(self) -> Mask:
        """Which cells hold rows of the positive class."""
        mask: Mask = self._places[0] == 1
        return mask

    @property
    def predicted(self) -> Mask:
        """Which cells hold rows that the model predicts to be positive."""
        cut = np.searchsorted(self.released.edges, ABOVE_ZERO, side="right")
        mask: Mask = self._places[2] >= cut if self.released.asked.joined else self._places[1] == 1
        return mask

    def from_bin(self, k: int) -> Mask:
        """Return which cells lie in the bins from k on."""
        mask: Mask = self._places[2] >= k
        return mask

    @property
    def n_bins(self) -> int:
        return len(self.released.edges) + 1

    def place(self, threshold: float) -> Place:
        """Return where a threshold lies; raise ValueError unless it is a probability, where there are some.

        Infinity is a threshold that no row reaches.
        """
        is_probability = self.released.asked.is_probability
        for end, last in ((0, self.thresholds[0]), (0, -np.inf), (self.n_bins, np.inf)):
            if threshold == last:
                return Place(end, end, 0.0)
        least, below = (0.0, 1.0) if is_probability else (-np.inf, np.inf)
        require_number("threshold", threshold, least, below=below)
        score = float(logit(threshold)) if is_probability else float(threshold)
        edges = self.released.edges
        near = np.flatnonzero(np.abs(edges - score) < 1e-12)
        if len(near):
            return Place(int(near[0]) + 1, int(near[0]) + 1, 0.0)
        k = int(np.searchsorted(edges, score))  # of the bin that the threshold lies in
        low = edges[k - 1] if k > 0 else min(edges[0], score) - 1.0
        high = edges[k] if k < len(edges) else max(edges[-1], score) + 1.0
        return Place(k + 1, k, float((high - score) / (high - low)))

    def flagged(self, threshold: float | None) -> tuple[Mask, Mask, Mask, float]:
        """Return the cells that are surely above a threshold, those perhaps, those in between, and how much of these.

        None: the cells that the model predicts to be positive.
        """
        if threshold is None:
            nothing = np.zeros_like(self.predicted)
            return self.predicted, self.predicted, nothing, 0.0
        place = self.place(threshold)
        above, below = self.from_bin(place.above), self.from_bin(place.below)
        return above, below, below & ~above, place.part

    def count(self, which: Mask, threshold: float | None) -> float:
        """Return the estimate of how many units of some cells are above a threshold."""
        above, _, between, part = self.flagged(threshold)
        return self.evidence.total(which & above) + part * self.evidence.total(which & between)

    def recall(self, threshold: float | None = None, *, error: float | None = None) -> Estimate:
        """Return which part of the positive class is above the threshold."""
        return self._of_class(self.label, threshold, error)

    def fall_out(self, threshold: float | None = None, *, error: float | None = None) -> Estimate:
        """Return which part of the negative class is above the threshold."""
        return self._of_class(~self.label, threshold, error)

    def _of_class(self, which: Mask, threshold: float | None, error: float | None) -> Estimate:
        above, below, _, _ = self.flagged(threshold)
        value = ratio(self.count(which, threshold), self.evidence.total(which))
        return self.evidence.part(value, (which & above, which & ~above), (which & below, which & ~below), error=error)

    def precision(self, threshold: float | None = None) -> Estimate:
        """Return which part of what is above the threshold belongs to the positive class."""
        above, below, _, _ = self.flagged(threshold)
        hits, misses = self.count(self.label, threshold), self.count(~self.label, threshold)
        low, high = (self.label & above, ~self.label & below), (self.label & below, ~self.label & above)
        return self.evidence.part(ratio(hits, hits + misses), low, high)

    def f1(self, threshold: float | None = None) -> Estimate:
        """Return the harmonic mean of precision and recall: 2 q / (1 + q), where q is hits / (hits + all mistakes)."""
        above, below, _, _ = self.flagged(threshold)
        hits, false = self.count(self.label, threshold), self.count(~self.label, threshold)
        low = self.label & above, (~self.label & below) | (self.label & ~above)
        high = self.label & below, (~self.label & above) | (self.label & ~below)
        value = ratio(hits, self.evidence.total(self.label) + false)
        return self.evidence.part(value, low, high, of=lambda q: 2 * q / (1 + q))

    def accuracy_at(self, threshold: float) -> Estimate:
        """Return the part of right predictions at a threshold."""
        above, below, _, _ = self.flagged(threshold)
        hits = self.count(self.label, threshold)
        value = hits + self.evidence.total(~self.label) - self.count(~self.label, threshold)
        low = (self.label & above) | (~self.label & ~below)
        high = (self.label & below) | (~self.label & ~above)
        return self.evidence.part(ratio(value, self.sample.n), (low, ~low), (high, ~high))

    @property
    def thresholds(self) -> Floats:
        """The thresholds at which bin 0, 1, and so on is the first one above, and one that nothing reaches."""
        edges = self.released.edges
        shown = expit(edges) if self.released.asked.is_probability else edges
        lowest = 0.0 if self.released.asked.is_probability else -np.inf
        if self.released.asked.is_probability:  # a probability of 1/2 itself is not above the score 0
            shown = np.where(edges == ABOVE_ZERO, np.nextafter(0.5, 1.0), shown)
        return np.concatenate([[lowest], shown, [np.inf]])

    def cost(self, threshold: float | None, false_positive: float, false_negative: float) -> Estimate:
        """Return the mean cost of mistakes at a threshold."""
        above, below, _, _ = self.flagged(threshold)
        missed = self.evidence.total(self.label) - self.count(self.label, threshold)
        cost = false_positive * self.count(~self.label, threshold) + false_negative * missed
        low = false_positive * (~self.label & above) + false_negative * (self.label & ~below)
        high = false_positive * (~self.label & below) + false_negative * (self.label & ~above)
        return self.evidence.mean(cost / self.sample.n, low, high, max(false_positive, false_negative))

    def cheapest(self, false_positive: float, false_negative: float) -> tuple[float, Estimate]:
        """Return the threshold with the least mean cost, and that cost, whose intervals allow for the choice."""
        shown = self.thresholds
        of_cells = [
            false_positive * (~self.label & self.from_bin(k)) + false_negative * (self.label & ~self.from_bin(k))
            for k in range(len(shown))
        ]
        means = [float((costs * self.evidence.counts).sum()) / self.sample.n for costs in of_cells]
        best, largest = int(np.argmin(means)), max(false_positive, false_negative)
        error = self.error / len(shown)
        cost = self.evidence.mean(means[best], of_cells[best], of_cells[best], largest, error=error)
        return float(shown[best]), cost


def ratio(hits: float, all_of_them: float) -> float:
    """Return hits by all of them; 0 if there is none, as scikit-learn has it."""
    return hits / all_of_them if all_of_them > 0 else 0.0
