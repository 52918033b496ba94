"""Random batches, drawn while the one before is in use."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from ..mechanisms.exact import poisson_sample, sample_without_replacement
from ..mechanisms.randomness import Bits, bits_beside
from .rows import Rows

__all__ = ["Batches"]


class Batches:
    """Random batches of some rows: when one is asked for, a thread begins to collect the next of the same kind.

    Bits alone decide which rows a batch holds, so it can be drawn before it is paid for: nothing is computed on it, and
    one that nobody asks for is forgotten. The thread has bits of its own, so that a seed draws the same batches however
    fast it is.
    """

    def __init__(self, rows: Rows, bits: Bits) -> None:
        self._rows, self._bits = rows, bits_beside(bits)
        self._thread = ThreadPoolExecutor(1)  # which ends with this object
        self._coming: tuple[float | int, Future[Rows]] | None = None

    def draw(self, of: float | int) -> Rows:
        """Return a fresh batch: each row with the probability ``of``, a float, or so many rows if it is an int."""
        coming = self._coming
        if coming is None or type(coming[0]) is not type(of) or coming[0] != of:
            coming = of, self._thread.submit(self._collect, of)
        batch = coming[1].result()
        self._coming = of, self._thread.submit(self._collect, of)
        return batch

    def _collect(self, of: float | int) -> Rows:
        n = self._rows.n_rows
        chosen = (
            poisson_sample(n, of, self._bits)
            if isinstance(of, float)
            else sample_without_replacement(n, of, self._bits)
        )
        return self._rows.subset(chosen)
