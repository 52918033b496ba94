"""The same random bits again: private code, whose bits cannot be seeded, run twice with equal noise."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import shake_256
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ..mechanisms import randomness


class _Stream:
    """Bits that are computed from a name. Each thread has its own, in the order in which threads first ask for bits."""

    def __init__(self, name: int) -> None:
        self._name, self._threads, self._lock, self._here = name, 0, threading.Lock(), threading.local()

    def urandom(self, n_bytes: int) -> bytes:
        here = self._here
        if not hasattr(here, "thread"):
            with self._lock:
                here.thread, here.block = self._threads, 0
                self._threads += 1
        here.block += 1
        return shake_256(f"{self._name} {here.thread} {here.block}".encode()).digest(n_bytes)


_stream_of_context: ContextVar[_Stream | None] = ContextVar("stream", default=None)


@contextmanager
def replayed(name: int) -> Iterator[None]:
    """Compute all random bits in this process from a number, inside of a context. Code that uses bits does not notice.

    A seed would not do: a fit with ``random_state`` behaves otherwise (it warns, and ledgers refuse it). What is drawn
    meanwhile is not private, in other threads too, so nothing of it may be released. NumPy's global generator, which
    splits of scikit-learn draw from, follows as well.
    """
    stream = _Stream(name)

    def urandom(n_bytes: int) -> bytes:
        # a thread that an earlier stream has left behind goes on with that one
        return (_stream_of_context.get() or stream).urandom(n_bytes)

    stream.urandom(0)  # this thread is the first
    module, token = cast(Any, randomness), _stream_of_context.set(stream)
    state, system = np.random.get_state(), module.os  # noqa: NPY002 - it is the global one that matters
    np.random.seed(name)  # noqa: NPY002
    module.os = SimpleNamespace(urandom=urandom)
    randomness.count_fork()  # nobody uses up what was fetched before
    try:
        yield
    finally:
        module.os = system
        randomness.count_fork()
        _stream_of_context.reset(token)
        np.random.set_state(state)  # noqa: NPY002
