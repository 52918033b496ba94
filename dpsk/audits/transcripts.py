"""The attacker who sees a whole transcript: every release of a fit, and what was released before noise.

A fit runs on one data set, and under the same random bits on the other, where every mechanism is given the values of
the first run. Then all noisy values agree. Whatever still differs at the end is an un-noised fact. The values that met
noise tell how far the two data sets lie apart, in standard deviations.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from ..mechanisms.samplers import Floats
from ..mechanisms.sparse_vector import OpenSearch
from ..model_selection.cross_validation import PrivateCrossValidation
from ..pipelines.in_front import rows_of
from ..privacy import PrivacySpent
from ..privacy.repetition import BestOf
from ..testing.observe import Seen, differences, observed
from ..testing.twins import METHODS
from .claims import Claim
from .coins import Coin
from .composed import Composed, grouped
from .finding import Finding
from .neighbouring import Data, Pair
from .noise_law import (
    Laws,
    coin_of,
    in_deviations,
    is_gaussian,
    largest_scale,
    noise_of,
    related_noises,
    repeated_numbers,
)
from .recording import Shown, Tape, Use, recorded

Fit = Callable[[Data], Any]

PREMISE = (
    "that Gaussian noise is Gaussian, of which the scale and the shape were tested, and that other runs differ in each "
    "release at least as much as those that were looked at"
)
_ROUNDING = 1 + 1e-9


class Unreadable(ValueError):
    """A fit whose releases cannot be read one by one."""


@dataclass(frozen=True, eq=False)
class Twin:
    """The records of one fit on two data sets, under one stream of bits.

    ``inside`` are those of the same fit where all batches hold the unit in which the data sets differ.
    """

    one: Tape
    other: Tape
    inside: tuple[Tape, Tape] | None
    leaks: tuple[str, ...]


def spent_by(result: Any) -> Any:
    """Return the report of what a fit, a score or a search has spent; None if it has none.

    A cross-validation tells what its fits and its score cost together: its own report is that of the score alone.
    """
    if isinstance(result, PrivateCrossValidation):
        return result.cost
    for name in ("privacy_spent_", "privacy_spent"):
        if hasattr(result, name):
            return getattr(result, name)
    steps = getattr(result, "steps", None)
    return spent_by(steps[-1][1]) if steps else None


def adjacency_of(result: Any) -> str | None:
    """Return which neighbours the first report in a result is for, also in a list or dict; None if there is none."""
    if isinstance(result, list | tuple | dict):
        inside = map(adjacency_of, result.values() if isinstance(result, dict) else result)
        return next((found for found in inside if found), None)
    spent = result.privacy_spent if isinstance(result, PrivateCrossValidation) else spent_by(result)
    found: str | None = getattr(spent, "adjacency", None)
    return found


def read_transcripts(
    fit: Fit, pairs: Sequence[Pair], claim: Claim, *, error: float, seconds: float, streams: int = 3
) -> Iterator[Finding | str]:
    """Yield what the transcripts of some fits tell about each pair of data sets, or in words why they cannot be read.

    At least one pair is read, however long it takes. Where noise is not Gaussian, coins get better with time: half of
    it is for the pair that told most.
    """
    laws, begun, unread, best = Laws(error / 4), time.monotonic(), dict[str, int](), None
    first = int(np.random.default_rng().integers(2**31))  # other bits in each audit
    for k, pair in enumerate(pairs):
        now = time.monotonic()
        left = begun + seconds * (0.5 if best is None or best[0].tosses else 1.0) - now
        if best is not None and left < 0:
            unread["there was no time left"] = len(pairs) - k
            break
        share = max(0.0, left) / (len(pairs) - k)
        try:
            twins = _twins(fit, pair, range(first + k * streams, first + (k + 1) * streams), now + share / 2)
        except Unreadable as reason:
            unread[str(reason)] = unread.get(str(reason), 0) + 1
            continue
        judge = _Judge(twins, pair, claim, laws, error / 2 / len(pairs), now)
        found = judge.finding(now + share)
        yield found
        if best is None or found.epsilon > best[1]:
            best = judge, found.epsilon
    if best is not None and best[0].tosses and time.monotonic() < begun + seconds:
        yield replace(best[0], error=error / 4, begun=time.monotonic()).finding(begun + seconds)
    for why, count in unread.items():
        yield f"{count} of {len(pairs)} pairs: {why}"


def _twins(fit: Fit, pair: Pair, streams: Sequence[int], until: float) -> list[Twin]:
    """Return the records of a pair under as many streams as there is time for, and at least two."""
    twins = list[Twin]()
    for stream in streams:
        if len(twins) < 2 or time.monotonic() < until:
            twins.append(_twin(fit, pair, stream, again=not twins))
    return twins


def _run(
    fit: Fit,
    data: Data,
    stream: int,
    earlier: Tape | None = None,
    *,
    always: int | None = None,
    leaving: Sequence[int] = (),
) -> tuple[Tape, Seen, Any]:
    with recorded(Tape(earlier), always, leaving, len(data.y)) as tape:
        seen, result = observed(partial(fit, data), stream)
    return tape, seen, result


def _twin(fit: Fit, pair: Pair, stream: int, *, again: bool) -> Twin:
    one, seen, result = _run(fit, pair.one, stream)
    if _raised(seen) and not pair.leaving:  # perhaps because of the row in question: then the other one does not
        pair = replace(pair, one=pair.other, other=pair.one)
        one, seen, result = _run(fit, pair.one, stream)
    _require_readable(one, seen, result, pair)
    other, seen_other, result_other = _run(fit, pair.other, stream, one, leaving=pair.leaving)
    if one.elsewhere or other.elsewhere:
        raise Unreadable("releases were made in several threads, so their order is left to chance")
    if other.in_parts:
        raise Unreadable("a row is left out of sums over all rows, not of sums over parts of them")
    leaks = list(_leaks(one, other, seen, seen_other, pair)) or list(_predicted(result, result_other, pair))
    if again or leaks:
        _require_same_again(fit, pair, stream, one, seen)
    leaks += _unreported(one, result)
    inside = None
    if any(use.sampling for use in one.released):
        unit = _only_weight(pair, one)
        with_unit, without = (_run(fit, data, stream, one, always=unit)[0] for data in (pair.one, pair.other))
        inside = with_unit, without
    return Twin(one, other, inside, tuple(dict.fromkeys(leaks)))


def _raised(seen: Seen) -> str:
    """Return the exception that ended a run; empty if there was none."""
    kind = seen.parts["exception"].kind
    return "" if kind == "none" else kind


def _require_readable(one: Tape, seen: Seen, result: Any, pair: Pair) -> None:
    """Raise Unreadable if a first run does not show all values that meet noise."""
    if raised := _raised(seen):
        raise Unreadable(f"the fit raises on ordinary data already, so there is nothing to audit: {raised}")
    if not one.released and not one.opaque:
        raise Unreadable("the fit makes no release through dpsk")
    if one.opaque:
        raise Unreadable(f"the release {one.opaque!r} has its noise inside of a computation: no value meets it")
    if isinstance(getattr(spent_by(result), "currency", None), BestOf):
        raise Unreadable("the best of several runs is released, and a transcript holds all of them")
    if pair.leaving and any(use.sampling for use in one.released):
        raise Unreadable("a row is left out of sums over all rows, not of random batches")


def _require_same_again(fit: Fit, pair: Pair, stream: int, one: Tape, seen: Seen) -> None:
    """Raise Unreadable if the same rows and bits lead to something else: what differs may then not come from rows."""
    tape, seen_again, _ = _run(fit, pair.one, stream, one)
    values = [[use.value for use in some.released] for some in (one, tape)]
    same = not tape.parted and len(values[0]) == len(values[1])
    if not same or not all(map(np.array_equal, *values)) or any(differences("", [seen], [seen_again])):
        raise Unreadable(
            "a second fit on the same rows with the same bits did something else, so a difference would not have to "
            "come from rows: a fit may draw from dpsk and from NumPy's global generator, in one process and one thread"
        )


def _leaks(one: Tape, other: Tape, seen: Seen, seen_other: Seen, pair: Pair) -> Iterator[str]:
    if other.parted and one.discovers:
        raise Unreadable("values were discovered that only one of the data sets has, so releases do not correspond")
    if other.parted:
        yield f"after the same noisy values the two fits part ways: {other.parted}"
        return
    if len(one.released) != len(other.released):
        yield f"one fit makes {len(one.released)} releases and the other {len(other.released)}, after the same ones"
        return
    if not other.repeats_noise():
        raise Unreadable("after the same noisy values the two fits draw other random bits, so nothing corresponds")
    for difference in differences("", [seen], [seen_other]):
        yield f"although all noisy values are the same, {difference}"
    for use, twin in zip(one.released, other.released, strict=True):
        yield from _moved_too_far(use, twin, pair.size)


def _predicted(one: Any, other: Any, pair: Pair) -> Iterator[str]:
    """Yield in words which predictions of two models for the same rows differ: they follow from what was released."""
    rows = rows_of(pair.one.X, slice(0, 5)) if pair.probes is None else pair.probes
    for name in METHODS:
        if hasattr(one, name) and hasattr(other, name):
            shown = [observed(partial(getattr(model, name), rows), 0)[0] for model in (one, other)]
            if any(differences("", shown[:1], shown[1:])):
                yield f"although all noisy values are the same, {name} has other results for the same rows"


def _moved_too_far(use: Use, twin: Use, size: int) -> Iterator[str]:
    """Yield in words that a unit has moved a value further than the query promises, if it has."""
    moved = np.abs(np.ravel(use.value.astype(object) - twin.value.astype(object)).astype(np.float64))
    norms = {"l1": moved.sum(), "l2": math.sqrt((moved * moved).sum()), "linf": moved.max(initial=0.0)}
    name = use.mechanism.norm
    promised = getattr(use.sensitivity, name)
    if norms[name] > size * promised * _ROUNDING:
        units = "one unit" if size == 1 else f"{size} units"
        yield f"{units} moved {use.label!r} by {norms[name] / promised:.3g} times its {name} sensitivity"


def _unreported(tape: Tape, result: Any) -> Iterator[str]:
    """Yield the releases that the report of a fit does not list as often as they were made."""
    spent = spent_by(result)
    if isinstance(spent, PrivacySpent):
        listed = Counter[str]()
        for release in spent.releases:
            listed[release.label] += release.count
        for label in sorted({*listed, *tape.bought}):
            if listed[label] != tape.bought[label]:
                yield f"{label!r} was released {tape.bought[label]} times, and the report lists {listed[label]}"


def _only_weight(pair: Pair, tape: Tape) -> int:
    """Return the row whose weight alone differs, for batches of which each holds a row or not."""
    if any(use.sampling and use.sampling.scheme != "poisson" for use in tape.released):
        raise Unreadable("no lower bound is known here for batches without replacement")
    weights = [data.arguments.get("sample_weight") for data in (pair.one, pair.other)]
    if any(given is None for given in weights) or "groups" in pair.one.arguments:
        raise Unreadable("random batches are read where the weight of one row is 1 or 0, and nothing else differs")
    return int(np.flatnonzero(np.asarray(weights[0]) != np.asarray(weights[1]))[0])


@dataclass(frozen=True, eq=False)
class _Judge:
    """Says what the records of some fits on a pair prove, but with probability ``error``."""

    twins: Sequence[Twin]
    pair: Pair
    claim: Claim
    laws: Laws
    error: float
    begun: float

    @cached_property
    def tosses(self) -> bool:
        """Whether there are releases whose noise is not Gaussian."""
        return any(not is_gaussian(use.mechanism) for use in self.twins[0].one.released)

    @property
    def shown(self) -> Iterator[str]:
        """What showed without noise, in words."""
        for twin in self.twins:
            yield from twin.leaks
            for shown in twin.one.shown:
                yield from _shown_too_often(shown)

    def finding(self, until: float) -> Finding:
        """Return the finding; noise that is not Gaussian is drawn anew until then."""
        twins, pair, error = self.twins, self.pair, self.error
        scales, of_noise = _scales([twin.one for twin in twins], self.laws, error / 2)
        leaks = list(dict.fromkeys([*self.shown, *of_noise]))
        whole = [twin for twin in twins if not twin.other.parted and len(twin.one.released) == len(twin.other.released)]
        epsilon, refuted = 0.0, bool(leaks)
        if whole:
            least = min((_moves(twin, scales) for twin in whole), key=lambda one: one.size)
            coins = _coins(least.twin, error=error / 2, until=until)
            composed = Composed(least.mu, coins, grouped(least.batches))
            epsilon = self.claim.least_epsilon(composed.delta, pair.size)
            above = epsilon > self.claim.epsilon * (1 + 1e-6)
            refuted = refuted or above or self.claim.refuted_by(composed.delta, pair.size)
        n_releases = sum(len(twin.one.released) for twin in twins)
        return Finding(
            attack="transcript",
            pair=pair.name,
            epsilon=epsilon,
            refuted=refuted,
            fits=sum(2 if twin.inside is None else 4 for twin in twins),
            seconds=time.monotonic() - self.begun,
            seen=f"{n_releases} releases in {len(twins)} transcripts, before and after noise",
            premise=PREMISE,
            leaks=tuple(leaks),
        )


@dataclass(frozen=True, eq=False)
class _Moves:
    """How far the data sets lie apart in one transcript: in standard deviations in all, and batch by batch."""

    twin: Twin
    mu: float
    batches: list[tuple[float, float]]

    @property
    def size(self) -> float:
        return self.mu**2 + sum((mu * rate) ** 2 for mu, rate in self.batches)


def _moves(twin: Twin, scales: dict[str, float]) -> _Moves:
    square, turns = 0.0, dict[int, tuple[float, float]]()
    ones, others = (twin.one, twin.other) if twin.inside is None else twin.inside
    for use, other in zip(ones.released, others.released, strict=True):
        if not is_gaussian(use.mechanism):
            continue
        away = in_deviations(use, _difference(use, other)) / scales[use.label]
        moved = float(away @ away)
        if use.sampling is None:
            square += moved
        else:
            turns[use.turn] = turns.get(use.turn, (0.0, 0.0))[0] + moved, use.sampling.rate
    return _Moves(twin, math.sqrt(square), [(math.sqrt(moved), rate) for moved, rate in turns.values()])


def _difference(use: Use, other: Use) -> Floats:
    difference: Floats = (use.value.astype(object) - other.value.astype(object)).astype(np.float64)
    return difference


def _scales(tapes: Sequence[Tape], laws: Laws, error: float) -> tuple[dict[str, float], list[str]]:
    """Return bounds above the true scale of each kind of Gaussian noise, by what it should be; and what is wrong."""
    uses = dict[str, list[Use]]()
    for tape in tapes:
        for use in tape.released:
            if is_gaussian(use.mechanism):
                uses.setdefault(use.label, []).append(use)
    scales, wrong = dict[str, float](), list[str]()
    each = error / (2 * max(1, len(uses)))
    for label, some in uses.items():
        drawn, normal = laws.of(some[-1])
        scales[label] = min(drawn, largest_scale(np.concatenate([noise_of(use) for use in some]), each))
        if not normal:
            wrong.append(f"the noise of {label!r} is not Gaussian")
    noises = [
        (f"{use.label!r} (release {at + 1} of fit {k + 1})", noise_of(use))
        for k, tape in enumerate(tapes)
        for at, use in enumerate([use for use in tape.released if is_gaussian(use.mechanism)][:12])
    ]
    whole = [
        (f"fit {k + 1}", np.concatenate([noise_of(use) for use in tape.released if is_gaussian(use.mechanism)]))
        for k, tape in enumerate(tapes)
        if any(is_gaussian(use.mechanism) for use in tape.released)
    ]
    repeated = repeated_numbers([use for tape in tapes for use in tape.released], error / 8)
    related = [*related_noises(noises, error / 4), *related_noises(whole, error / 16)]
    return scales, [*wrong, *repeated, *related, *_too_large_batches(tapes, error / 16)]


def _too_large_batches(tapes: Sequence[Tape], error: float) -> list[str]:
    """Return in words which batches hold units more often than promised.

    Batches of one rate hold a binomial number of units together. True rates are named with probability at most
    ``error``.
    """
    units, held = Counter[float](), Counter[float]()
    for rate, n, size in (batch for tape in tapes for batch in tape.batches):
        units[rate] += n
        held[rate] += size
    return [
        f"random batches hold {held[rate] / units[rate]:.3g} of all units, where {rate:.3g} is promised"
        for rate in units
        if binom.sf(held[rate] - 1, units[rate], rate) < error / len(units)
    ]


def _coins(twin: Twin, *, error: float, until: float) -> list[Coin]:
    """Return a coin for each release whose noise is not Gaussian, outside of batches."""
    zipped = zip(twin.one.released, twin.other.released, strict=True)
    loose = [(use, other) for use, other in zipped if not is_gaussian(use.mechanism) and use.sampling is None]
    parts = list[tuple[list[Use], list[Use]]]()
    for _, together in groupby(enumerate(loose), key=lambda one: _search(one[1][0], one[0])):
        some = [pair for _, pair in together]
        if any(not np.array_equal(use.value, other.value) for use, other in some):
            parts.append(([use for use, _ in some], [other for _, other in some]))
    parts.sort(key=lambda some: -max(map(_reach, *some)))  # as many as there is time for, the most telling ones first
    coins = list[Coin]()
    for k, both in enumerate(parts):
        left = until - time.monotonic()
        if k and left <= 0:
            break
        coins.append(coin_of(*both, error=error / len(parts), seconds=left / (len(parts) - k)))
    return coins


def _reach(use: Use, other: Use) -> float:
    """Return how far a value has moved, in parts of its sensitivity."""
    return float(np.abs(_difference(use, other)).max(initial=0.0) / use.sensitivity.linf)


def _search(use: Use, at: int) -> int:
    """Return what the parts of one search have in common."""
    return id(use.mechanism) if isinstance(use.mechanism, OpenSearch) else at


def _shown_too_often(shown: Shown) -> Iterator[str]:
    """Yield in words that values of one unit alone show more often than the discovery promises, if they do."""
    chance = float(norm.sf((shown.threshold - shown.one) / shown.sigma))
    chance = -math.expm1(shown.discovery.columns * math.log1p(-min(chance, 1 - 1e-16)))
    if chance > shown.discovery.failure * _ROUNDING:
        yield (
            f"a value that one unit alone has shows with a probability of {chance:.2g}, where at most "
            f"{shown.discovery.failure:.2g} is promised"
        )
