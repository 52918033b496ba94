"""The attack on final models: whoever sees fitted models alone tells two data sets apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from .claims import Claim
from .coins import Profile
from .composed import gaussian_profile
from .finding import Finding
from .gaussian_shape import least_distance, looks_gaussian
from .neighbouring import Pair
from .pilot import Pilot
from .repeated_fits import Fit, RepeatedFits
from .tally import Tally, highest
from .witness import Witness

Progress: TypeAlias = Callable[[float, str], object]
"""It is told which share of the time has passed, and what is being done."""

_FULL, _LATE = 0.93, 1.08
"""Fits are planned for this share of the time, and the last bound is from before that one."""

_LOOKS = ((1 / 16, 0.05), (1 / 4, 0.1), (0.45, 0.1), (0.67, 0.15), (1.0, 0.3), (1.5, 0.3))
"""After which shares of the planned fits there are bounds, and which shares of the error probability they get."""

_FEWEST, _FEW = 12, 20
_COUNTING = 2e-4
"""Seconds to count a fit."""


def compare_models(
    fit: Fit,
    pairs: Sequence[Pair],
    claim: Claim,
    *,
    seconds: float,
    error: float,
    n_jobs: int | None,
    progress: Progress | None = None,
) -> list[Finding]:
    """Fit on both data sets of pairs, and prove from the released models how much epsilon the fit has at least.

    Pilot fits on all pairs show which pair tells most, and where to look. Fresh fits on that pair are then counted: how
    often is the score of a model above a cut, and how often is a mark there? The first finding is the one for the pair
    that told most. Others follow if several pairs seemed to break the promise, until one has.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.6 and 17.7)
    If each fit draws its own randomness, then with probability 1 - ``error`` no true claim is refuted, and no
    ``epsilon`` is larger than that of a true claim of this kind. ``estimate`` has a further premise: scores are
    Gaussian with one variance. Then it is too large with probability at most ``error`` as well.

    Parameters
    ----------
    fit : callable
        ``fit(data)`` fits once, with fresh randomness, and returns what is released. Exceptions are results.
    pairs : list of Pair
        Which data sets to compare, the most telling ones first.
    claim : Claim
        What is promised.
    seconds : float
        How long it may take: at most 1.2 times that, and one more fit.
    error : float
        With which probability the findings together may say too much.
    n_jobs : int or None
        How many processes, as in joblib; None for this one.
    progress : callable or None
        ``progress(share, text)`` is told which share of the time has passed, and what is being done.
    """
    if not pairs:
        raise ValueError("pairs is empty: give at least one pair of data sets")
    if not (seconds > 0 and 0 < error < 1):
        raise ValueError(f"seconds={seconds!r} has to be positive, and error={error!r} between 0 and 1")
    tell = None if progress is None else lambda passed, text: progress(min(passed / seconds, 1.0), text)
    fits = RepeatedFits(fit, n_jobs, progress=tell)
    chosen = Pilot(fits, pairs, seconds).run(claim)
    pilots, findings = fits.fits, list[Finding]()
    for place, (pair, witness) in enumerate(chosen):
        room = max(0.0, seconds - fits.passed) / (len(chosen) - place)
        count = _Count(fits, pair, witness, claim, error / len(chosen), pilots)
        findings.append(count.finding(room))
        if findings[-1].refuted:
            break
    return findings


@dataclass(eq=False)
class _Count:
    """Fresh fits on one pair, and what they prove."""

    fits: RepeatedFits
    pair: Pair
    witness: Witness
    claim: Claim
    error: float
    pilots: int

    def finding(self, room: float) -> Finding:
        """Fit for so many seconds."""
        tally = Tally(self.witness)
        profiles, leaks, done, last, refuted = list[Profile](), tuple[str, ...](), 0, self.error, False
        end = self.fits.passed + room * _LATE
        for number, error in self._looks(room):
            in_vain = done and self.fits.passed + 2 * (number - done) * self.fits.each > end
            if in_vain or not self.fits.more(self.pair, tally.add, number - done, end):
                break
            done, last = number, error
            profiles += [coin.delta for _, coin in tally.coins(number, error)]
            if refuted := self.claim.refuted_by(highest(profiles), self.pair.size):
                leaks = tuple(tally.leaks(self.claim, self.pair.size, number, error))
                break
        epsilon = self.claim.least_epsilon(highest(profiles), self.pair.size) if profiles else 0.0
        return Finding(
            attack="model",
            pair=self.pair.name,
            epsilon=epsilon,
            refuted=refuted,
            fits=self.fits.fits,
            seconds=self.fits.passed,
            seen=self._seen(done),
            estimate=self._estimate(tally, done, last),
            leaks=leaks,
        )

    def _looks(self, room: float) -> list[tuple[int, float]]:
        """Return how many fits on each data set there are at each look, fixed before the first, and its error."""
        planned = max(1, int(_FULL * room / (2 * (self.fits.each + _COUNTING))))
        looks = [(max(1, int(share * planned)), of_error * self.error) for share, of_error in _LOOKS]
        enough = [one for one in looks if one[0] >= _FEWEST] or [(planned, 0.0)]
        first = enough[0][0], self.error - sum(error for _, error in enough[1:])
        return [first, *enough[1:]]

    def _estimate(self, tally: Tally, fits: int, error: float) -> float | None:
        """Return the larger estimate of two scores, where they look Gaussian."""
        found = []
        for plain in (True, False):
            ones, others = tally.scores(fits, plain)
            if looks_gaussian(ones, others):
                profile = partial(gaussian_profile, least_distance(ones, others, error / 2))
                found.append(self.claim.least_epsilon(profile, self.pair.size))
        return max(found, default=None)

    def _seen(self, fits: int) -> str:
        seen = (
            f"Fitted models alone: their attributes, predictions, warnings and exceptions. {self.pilots} pilot fits "
            f"showed where to look, and {2 * fits} fresh fits were counted."
        )
        if 2 * fits < _FEW:
            seen += f" One fit takes about {self.fits.each:.2g} seconds, so there was time for few: give more seconds."
        return seen
