"""Fits on both data sets of a pair, again and again, and what each of them released."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ..pipelines.in_front import rows_of
from ..privacy.fits_so_far import as_in_a_new_process
from .neighbouring import Data, Pair
from .released import Released, released

Fit: TypeAlias = Callable[[Data], Any]
"""A fit with fresh randomness, on the data that it is given; it returns what is released."""

_BATCH = 0.3
"""Seconds between two looks at the clock."""


def look(fit: Fit, data: Data, probes: Any) -> Released:
    """Fit once; return what it released, also if it raised an exception."""
    printed, raised, thing = io.StringIO(), None, None
    with (
        warnings.catch_warnings(record=True) as warned,
        redirect_stdout(printed),
        redirect_stderr(printed),
        as_in_a_new_process(),
        np.errstate(all="warn"),
    ):
        warnings.simplefilter("always")
        try:
            thing = fit(data)
        except Exception as error:
            raised = error
    told = {f"warning {place} ({one.category.__qualname__})": str(one.message) for place, one in enumerate(warned)}
    if printed.getvalue():
        told["printed"] = printed.getvalue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return released(thing, probes, error=raised, told=told)


def _look_often(fit: Fit, pair: Pair, sides: Sequence[int]) -> list[Released]:
    probes = _probes(pair)
    return [look(fit, (pair.one, pair.other)[side], probes) for side in sides]


def _probes(pair: Pair) -> Any:
    if pair.probes is not None:
        return pair.probes
    try:
        return rows_of(pair.one.X, slice(0, 4))
    except Exception:  # a source that gives its rows in another way
        return None


@dataclass(eq=False)
class RepeatedFits:
    """Fits on both data sets of a pair in turn, in one process or several, until a deadline.

    ``each`` is how many seconds pass for a fit, lately.
    """

    fit: Fit
    n_jobs: int | None
    fits: int = 0
    each: float = 0.0
    progress: Callable[[float, str], object] | None = None
    start: float = field(default_factory=time.perf_counter)
    _batch: int = 1
    _largest: int = 0

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def more(self, pair: Pair, take: Callable[[int, Released], None], number: int, deadline: float) -> bool:
        """Fit so often on each data set; return False if the deadline (in seconds) came before."""
        left = [0, 1] * number
        while left:
            if self.passed >= deadline:
                return False
            if self.progress:
                self.progress(self.passed, pair.name)
            workers = effective_n_jobs(self.n_jobs)
            room = (deadline - self.passed) / self.each if self.each else 1.0
            many = max(workers, int(min(self._batch, room)))
            sides, left = left[:many], left[many:]
            began = self.passed
            for side, found in zip(sides, self._run(pair, sides, workers), strict=True):
                take(side, found)
            self._timed(len(sides), self.passed - began)
        return True

    def _timed(self, fits: int, seconds: float) -> None:
        """Learn from a batch how long fits take, and how many there should be in the next one."""
        latest = seconds / fits
        if fits > self._largest:  # to start a batch takes time, too, and the first ones load modules
            self.each = latest
        elif fits > self._largest / 2:
            self.each = 0.7 * self.each + 0.3 * latest
        self.fits, self._largest = self.fits + fits, max(fits, self._largest)
        if fits >= self._batch:
            self._batch = max(1, int(fits * min(4.0, _BATCH / max(seconds, 1e-9))))

    def _run(self, pair: Pair, sides: list[int], workers: int) -> list[Released]:
        if workers == 1:
            return _look_often(self.fit, pair, sides)
        size = -(-len(sides) // workers)
        parts = [sides[start : start + size] for start in range(0, len(sides), size)]
        # max_nbytes=None: a fit gets arrays as they are, and none that are mapped from a file
        done = Parallel(self.n_jobs, max_nbytes=None)(delayed(_look_often)(self.fit, pair, part) for part in parts)
        return [found for some in done for found in some]
