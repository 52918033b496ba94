"""A fit on record: every value that meets noise, and the same fit again on other rows with the same noisy values.

A recording looks behind the door, so it is for audits only: what it holds is not private.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np

from ..data import ahead
from ..data.private import Batch, NoisyQuery, PrivateData, Sealed, SealedRows
from ..data.rows import ChunkRows
from ..mechanisms import Mechanism, Sensitivity
from ..mechanisms.samplers import Integers
from ..mechanisms.sparse_vector import OpenSearch
from ..privacy.amplification import Sampling
from ..privacy.discovery import Discovery
from ..queries.looks import Tally


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a mechanism: the integers that it saw, and what it made of them.

    ``sampling`` and ``turn`` are those of the batch, where the value is a sum over one.
    """

    label: str
    mechanism: Mechanism
    value: Integers
    sensitivity: Sensitivity
    noisy: Any
    sampling: Sampling | None = None
    turn: int = 0


@dataclass(frozen=True, eq=False)
class Shown:
    """The threshold of a discovery: a value that one unit alone has counts ``one`` step of the noise's grid."""

    discovery: Discovery
    one: int
    sigma: float
    threshold: int


@dataclass(eq=False)
class Tape:
    """All uses of mechanisms in one run, in order.

    With an ``earlier`` tape every mechanism gets the value of that tape instead of its own, which is noted. Under the
    same random bits all noisy values are then the same, so the two runs can differ in un-noised facts only.
    """

    earlier: Tape | None = None
    released: list[Use] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    bought: Counter[str] = field(default_factory=Counter)
    """How often something was released by its label: what a report should list."""
    opaque: str | None = None
    """The label of a release whose noise is inside a computation, so that no value meets it."""
    discovers: bool = False
    """Whether names were looked for that are not public, so that the numbers of values may differ."""
    batches: list[tuple[float, int, int]] = field(default_factory=list)
    """Of each Poisson batch the rate that was asked for, the number of all units, and how many of them it holds."""
    in_parts: bool = False
    """Whether there were sums over other rows than all, so that a place does not say which row is meant."""
    parted: str | None = None
    """Where this run asked for something else than the earlier one, in words."""
    _label: str = "release"
    _sampling: Sampling | None = None
    _turn: int = 0
    _inside: bool = False
    _thread: int = field(default_factory=get_ident)
    elsewhere: bool = False
    """Whether another thread has used a mechanism, so that the order of releases is left to chance."""

    def use(
        self, call: Callable[..., Any], mechanism: Mechanism, value: Any, sensitivity: Sensitivity, bits: Any
    ) -> Any:
        """Use a mechanism, on the earlier value if there is one."""
        self.elsewhere |= get_ident() != self._thread
        if self._inside:  # a mechanism that uses another one
            return call(mechanism, value, sensitivity, bits)
        value = np.array(value)
        given = self._earlier_value(mechanism, value, sensitivity)
        self._inside = True
        try:
            noisy = call(mechanism, given, sensitivity, bits)
        finally:
            self._inside = False
        self.released.append(
            Use(self._label, mechanism, value, sensitivity, _copied(noisy), self._sampling, self._turn)
        )
        return noisy

    def _earlier_value(self, mechanism: Mechanism, value: Integers, sensitivity: Sensitivity) -> Integers:
        at = len(self.released)
        if self.earlier is None or self.parted:
            return value
        if at >= len(self.earlier.released):
            self.parted = f"it releases a further {self._label!r} after {at} releases"
            return value
        then = self.earlier.released[at]
        asked = (self._label, value.shape, sensitivity, _kind(mechanism), self._sampling)
        before = (then.label, then.value.shape, then.sensitivity, _kind(then.mechanism), then.sampling)
        if asked != before:
            what = next(f"{one!r} became {two!r}" for one, two in zip(before, asked, strict=True) if one != two)
            self.parted = f"release {at + 1}, {then.label!r}: {what}"
            return value
        return then.value

    def repeats_noise(self) -> bool:
        """Return whether the noisy values are those of the earlier tape, as they are under the same random bits."""
        if self.earlier is None or self.parted or len(self.released) != len(self.earlier.released):
            return False
        return all(
            np.array_equal(one.noisy, two.noisy) for one, two in zip(self.released, self.earlier.released, strict=True)
        )


def _copied(noisy: Any) -> Any:
    return noisy.copy() if isinstance(noisy, np.ndarray) else noisy


def _kind(mechanism: Mechanism) -> Any:
    """Return what two mechanisms of one kind and strength have in common; an open search is an object of its own."""
    return ("search", mechanism.cost) if isinstance(mechanism, OpenSearch) else mechanism


@contextmanager
def recorded(tape: Tape, always: int | None = None, leaving: Sequence[int] = (), n_rows: int = 0) -> Iterator[Tape]:
    """Record all releases in this process, inside of a context.

    ``always`` is a unit that every Poisson batch holds then. The rows at the places ``leaving``, those of one unit, are
    left out of every sum over all ``n_rows`` rows, as a unit is that leaves. Their number stays as it is.
    """
    with ExitStack() as stack:
        for family in _families(Mechanism):
            stack.enter_context(patch.object(family, "__call__", _recording(tape, vars(family)["__call__"])))
        for owner, name, wrapper in (
            (SealedRows, "release", _release),
            (SealedRows, "open", _open),
            (PrivateData, "draw", _draw),
            (PrivateData, "subsample", _subsample),
            (Discovery, "threshold", _threshold),
        ):
            stack.enter_context(patch.object(owner, name, wrapper(tape, getattr(owner, name))))
        sample = vars(ahead)["poisson_sample"]
        drawn = _counted(tape, sample) if always is None else _with_unit(sample, always)
        stack.enter_context(patch.object(ahead, "poisson_sample", drawn))
        if leaving:
            stack.enter_context(patch.object(ChunkRows, "total", _without(tape, ChunkRows.total, leaving, n_rows)))
        yield tape


def _families(kind: type) -> Iterator[type]:
    """Yield the mechanisms that say how they are drawn."""
    for family in {kind, *kind.__subclasses__()}:
        if family is not kind:
            yield from _families(family)
        elif "__call__" in vars(family) and not getattr(vars(family)["__call__"], "__isabstractmethod__", False):
            yield family


def _recording(tape: Tape, call: Callable[..., Any]) -> Callable[..., Any]:
    def used(mechanism: Mechanism, value: Any, sensitivity: Sensitivity, bits: Any) -> Any:
        return tape.use(call, mechanism, value, sensitivity, bits)

    return used


def _release(tape: Tape, release: Callable[..., Any]) -> Callable[..., Any]:
    def released(self: SealedRows, sealed: Sealed, mechanism: Mechanism) -> Any:
        tape._label = getattr(sealed, "label", "release")
        in_batch = isinstance(self, Batch)
        if not in_batch:
            tape._sampling = None
        noisy = release(self, sealed, mechanism)
        if not in_batch and not isinstance(mechanism, OpenSearch):
            tape.bought[tape._label] += 1
        return noisy

    return released


def _open(tape: Tape, open_search: Callable[..., Any]) -> Callable[..., Any]:
    def opened(self: SealedRows, mechanism: Any, label: str) -> Any:
        search = open_search(self, mechanism, label)
        if not isinstance(self, Batch):
            tape.bought[label] += 1
        return search

    return opened


def _draw(tape: Tape, draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(self: PrivateData, query: NoisyQuery) -> Any:
        tape._label, tape._sampling, before = query.label, None, len(tape.released)
        tape.discovers = tape.discovers or getattr(query, "discovery", None) is not None
        result = draw(self, query)
        tape.bought[query.label] += 1
        if len(tape.released) == before:
            tape.opaque = query.label
        return result

    return drawn


def _subsample(tape: Tape, subsample: Callable[..., Any]) -> Callable[..., Any]:
    def sampled(self: PrivateData, sampling: Sampling, mechanisms: Any, label: str) -> Any:
        batch = subsample(self, sampling, mechanisms, label)
        tape.bought[label] += 1
        tape._sampling, tape._turn = (sampling if sampling.rate < 1 else None), tape._turn + 1
        return batch

    return sampled


def _threshold(tape: Tape, threshold: Callable[..., int]) -> Callable[..., int]:
    def found(self: Discovery, one: int, sigma: float) -> int:
        result = threshold(self, one, sigma)
        tape.shown.append(Shown(self, one, sigma, result))
        return result

    return found


def _without(tape: Tape, total: Callable[..., Any], places: Sequence[int], n_rows: int) -> Callable[..., Any]:
    """Return the sum over rows without those at some places; sums of integers are exact, so a difference is too.

    A part of the rows has another row at such a place, or the same one at another place: the tape tells of parts.
    """
    left = WeakKeyDictionary[ChunkRows, ChunkRows]()

    def summed(self: ChunkRows, kernel: Any) -> Any:
        whole = total(self, kernel)
        if self in left.values():
            return whole
        if self not in left:
            tape.in_parts = tape.in_parts or sum(len(part) for part in self._parts()) != n_rows
            left[self] = self.rows_at(np.asarray(places), 1)
        part = total(left[self], kernel)
        return _difference_of_tallies(whole, part) if isinstance(whole, Tally) else whole - part

    return summed


def _difference_of_tallies(whole: Tally, part: Tally) -> Tally:
    negative = Tally(
        {at: -counts for at, counts in part.counts.items()},
        {at: {name: -count for name, count in named.items()} for at, named in part.named.items()},
    )
    return whole + negative


def _counted(tape: Tape, sample: Callable[..., Integers]) -> Callable[..., Integers]:
    def counted(n: int, rate: float, bits: Any) -> Integers:
        batch = sample(n, rate, bits)
        tape.batches.append((rate, n, len(batch)))
        return batch

    return counted


def _with_unit(sample: Callable[..., Integers], unit: int) -> Callable[..., Integers]:
    def kept(n: int, rate: float, bits: Any) -> Integers:
        return np.union1d(sample(n, rate, bits), [unit])

    return kept
