"""Counts of what a witness sees of fresh fits on two data sets, and what they prove."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..mechanisms.samplers import Floats
from .claims import Claim
from .coins import Coin, Profile
from .released import Released
from .witness import Witness

_OF_THE_MIDDLE, _OF_A_CUT, _OF_A_MARK = 4.0, 1.0, 2.0
"""What share of the error probability a test gets, beside the others."""

_MOST_TOLD = 5


class Tally:
    """Scores and marks of fits, by data set, and which numbers have been the same in all of them."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._scores: tuple[list[Floats], list[Floats]] = ([], [])
        self._marked: tuple[list[list[bool]], list[list[bool]]] = ([], [])
        self._still: tuple[dict[str, Floats], dict[str, Floats]] = ({}, {})

    def add(self, side: int, found: Released) -> None:
        """Count a fit on the first data set (side 0) or on the other one (side 1)."""
        if not self._scores[side]:
            self._still[side].update(found.numbers)
        self._scores[side].append(self._witness.both_scores([found])[0])
        self._marked[side].append([mark.text in found.marks for mark in self._witness.marks])
        for name, values in list(self._still[side].items()):
            if not np.array_equal(found.numbers.get(name, np.empty(0)), values, equal_nan=True):
                del self._still[side][name]

    def counts(self) -> tuple[int, int]:
        """Return how many fits on each data set were counted."""
        return len(self._scores[0]), len(self._scores[1])

    def scores(self, fits: int, plain: bool = False) -> tuple[Floats, Floats]:
        """Return the scores of the first fits on both data sets, or those that are linear in what they released."""
        ones, others = (np.array([pair[int(plain)] for pair in side[:fits]]) for side in self._scores)
        return ones, others

    def coins(self, fits: int, error: float) -> Iterator[tuple[str, Coin]]:
        """Yield each test and what the first fits on both data sets prove, all but with probability ``error``."""
        cuts, marks = self._witness.cuts, self._witness.marks
        shares = np.array([_OF_THE_MIDDLE, *[_OF_A_CUT] * (len(cuts) - 1), *[_OF_A_MARK] * len(marks)])
        errors = (error * shares / shares.sum()).tolist()
        ones, others = self.scores(fits)
        for cut, of_error in zip(cuts, errors, strict=False):
            heads = int((ones > cut).sum()), int((others > cut).sum())
            yield f"score above {cut:.3g}", Coin.seen(heads, (fits, fits), of_error)
        for place, (mark, of_error) in enumerate(zip(marks, errors[len(cuts) :], strict=True)):
            there = [sum(one[place] for one in side[:fits]) for side in self._marked]
            heads = (there[0], there[1]) if mark.on_one else (fits - there[0], fits - there[1])
            yield mark.text, Coin.seen(heads, (fits, fits), of_error)

    def leaks(self, claim: Claim, size: int, fits: int, error: float) -> Iterator[str]:
        """Yield what was the same in all fits on a data set and another thing in all on the other, if that is proof."""
        broken = {name for name, coin in self.coins(fits, error) if claim.refuted_by(coin.delta, size)}
        if not broken:
            return
        every = f"all {fits} fits"
        for place, mark in enumerate(self._witness.marks):
            there = [sum(one[place] for one in side[:fits]) for side in self._marked]
            if mark.text in broken and sorted(there) == [0, fits]:
                yield f"{mark.text}: in {every} on the {'first' if there[0] else 'second'} data set, never on the other"
        ones, others = self._still
        names = [name for name in ones if name in others and not _same(ones[name], others[name])]
        for name in names[:_MOST_TOLD]:
            yield f"{name}: {_shown(ones[name])} in {every} on the first data set, {_shown(others[name])} in all others"


def highest(profiles: list[Profile]) -> Profile:
    """Return the highest of several profiles at each epsilon: they are all below the one of the data sets."""

    def profile(epsilon: Floats) -> Floats:
        found: Floats = np.max([one(epsilon) for one in profiles], axis=0)
        return found

    return profile


def _same(ones: Floats, others: Floats) -> bool:
    return np.array_equal(ones, others, equal_nan=True)


def _shown(values: Floats) -> str:
    few = ", ".join(f"{value:.6g}" for value in values[:3])
    return few if len(values) <= 3 else f"[{few}, ...]"
