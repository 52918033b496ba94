"""Random batches: while one is in use, a thread collects the next."""

from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread

from ..mechanisms.randomness import Bits, bits_beside
from ..mechanisms.samplers import poisson_sample, sample_without_replacement
from .rows import Rows


class Batches:
    """Random batches of some rows. When a batch is asked for, a thread begins to collect the next one of its kind.

    A batch may be drawn before it is paid for: random bits alone decide which rows it holds, nothing is computed on
    it, and a batch that nobody asks for is forgotten. Each thread has its own bits, so a seed draws the same batches at
    any speed. Only one thread runs at a time.
    """

    def __init__(self, rows: Rows, bits: Bits) -> None:
        self._rows, self._bits = rows, bits_beside(bits)
        self._coming: dict[float | int, Future[Rows]] = {}  # one at most

    def poisson(self, rate: float) -> Rows:
        """Return a fresh batch that holds each row with this probability."""
        return self._draw(float(rate))

    def without_replacement(self, size: int) -> Rows:
        """Return a fresh batch of so many rows."""
        return self._draw(int(size))

    def _draw(self, of: float | int) -> Rows:
        if of in self._coming:
            batch = self._coming.pop(of).result()
        else:
            for other in self._coming.values():
                other.exception()  # wait for it, and forget it
            self._coming.clear()
            batch = self._collect(of)
        coming = self._coming[of] = Future[Rows]()
        # in the context of whoever asks, which may say on what cluster the rows are
        Thread(target=copy_context().run, args=(self._fulfil, coming, of)).start()
        return batch

    def _fulfil(self, coming: Future[Rows], of: float | int) -> None:
        try:
            coming.set_result(self._collect(of))
        except BaseException as error:  # for whoever asks for this batch
            coming.set_exception(error)

    def _collect(self, of: float | int) -> Rows:
        n = self._rows.n_rows
        if isinstance(of, float):
            return self._rows.subset(poisson_sample(n, of, self._bits))
        return self._rows.subset(sample_without_replacement(n, of, self._bits))
