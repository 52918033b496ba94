"""Pilot fits: which pair of data sets an attacker can tell apart best, and how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from scipy.special import ndtr

from .claims import Claim
from .coins import Coin
from .neighbouring import Pair
from .released import Released
from .repeated_fits import RepeatedFits
from .witness import Witness

_ROUNDS = ((0.4, 16, 4), (0.7, 48, 2), (1.0, 200, 1))
"""At which share of the time a round ends, how many fits on each data set a pair has then, and how many pairs stay."""

_SHARE = 0.3
"""Of the time that is left after the first fit."""

_FEWEST = 4
_MOST_BROKEN = 2


@dataclass(eq=False)
class Pilot:
    """Rounds of pilot fits: after each, the pairs that tell most stay for the next one."""

    fits: RepeatedFits
    pairs: Sequence[Pair]
    until: float
    looked: dict[int, tuple[list[Released], list[Released]]] = field(default_factory=dict)
    witnesses: dict[int, Witness] = field(default_factory=dict)

    def run(self, claim: Claim) -> list[tuple[Pair, Witness]]:
        """Return the pair that tells most with its witness, and up to two others that seem to break the promise."""
        self._look(0, 1, math.inf)
        self._look(0, 1, self.until)  # the first fit of a process takes longer than others
        began = self.fits.passed
        room = _SHARE * max(0.0, self.until - began)
        affordable = int(room / (2 * _FEWEST * max(self.fits.each, 1e-9)))
        kept = list(range(max(1, min(len(self.pairs), affordable))))
        for share, most, stay in _ROUNDS:
            self._round(kept, began + share * room, began + room, most)
            kept = sorted(kept, key=self._worth, reverse=True)[:stay]
        others = [place for place in self.witnesses if place != kept[0] and self._seems_broken(place, claim)]
        chosen = kept[:1] + sorted(others, key=self._worth, reverse=True)[:_MOST_BROKEN]
        return [(self.pairs[place], self.witnesses[place]) for place in chosen]

    def _round(self, kept: Sequence[int], end: float, last: float, most: int) -> None:
        for turn, place in enumerate(kept):
            self._look(place, _FEWEST - self._done(place), last)
            room = max(0.0, end - self.fits.passed) / (len(kept) - turn)
            self._look(place, most - self._done(place), self.fits.passed + room)
            if self._done(place):
                self.witnesses[place] = Witness.learned(*self.looked[place])

    def _look(self, place: int, number: int, deadline: float) -> None:
        looked = self.looked.setdefault(place, ([], []))
        self.fits.more(self.pairs[place], lambda side, found: looked[side].append(found), number, deadline)

    def _done(self, place: int) -> int:
        return min(map(len, self.looked.get(place, ((), ()))))

    def _worth(self, place: int) -> float:
        return self.witnesses[place].separation / self.pairs[place].size if place in self.witnesses else -math.inf

    def _seems_broken(self, place: int, claim: Claim) -> bool:
        seen, chance = self.witnesses[place].separation, 8 / math.sqrt(self._done(place))
        least = max(0.0, min(seen / 2, seen - chance))  # what the best of few fits and many scores shows is too much
        coin = Coin(float(ndtr(least / 2)), float(ndtr(-least / 2)))
        return claim.refuted_by(coin.delta, self.pairs[place].size)
