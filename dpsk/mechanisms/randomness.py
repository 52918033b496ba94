"""Where random bits come from: the operating system, or a seed that makes the result *not* private."""

from __future__ import annotations

import os
from typing import NoReturn, Protocol

import numpy as np

__all__ = ["Bits", "SeededBits", "SystemBits", "bits_for"]

_BUFFER_BYTES = 1 << 14


class Bits(Protocol):
    """A source of independent fair bits."""

    @property
    def private(self) -> bool:
        """Whether nobody can know these bits. What they touch is private only if this is True."""

    def take(self, n_bytes: int) -> bytes:
        """Return the next ``n_bytes`` bytes; none is ever returned twice."""


def _refuse_copy(self: object, *_: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} cannot be copied or pickled: a copy would repeat the same noise")


class SystemBits:
    """Bits from the operating system's cryptographic generator, fetched in blocks.

    A forked child drops the block it inherited, so parent and child never share noise.
    """

    private = True

    def __init__(self) -> None:
        self._buffer = b""
        self._position = 0
        self._process = os.getpid()

    def take(self, n_bytes: int) -> bytes:
        end = self._position + n_bytes
        if end > len(self._buffer) or self._process != os.getpid():
            self._process = os.getpid()
            self._buffer = os.urandom(max(_BUFFER_BYTES, n_bytes))
            self._position, end = 0, n_bytes
        taken = self._buffer[self._position : end]
        self._position = end
        return taken

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy


class SeededBits:
    """Reproducible bits from an integer seed: for tests and debugging, never for a release."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(seed)

    def take(self, n_bytes: int) -> bytes:
        words = self._generator.random_raw(-(-n_bytes // 8))
        return np.asarray(words, dtype="<u8").tobytes()[:n_bytes]

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy


def bits_for(random_state: int | None) -> Bits:
    """Return the source for scikit-learn's ``random_state``: None is the system, an int is a seed.

    Generators and RandomState instances are refused: whoever holds them can replay the noise, and a fitted
    model would carry their state.
    """
    if random_state is None:
        return SystemBits()
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ValueError(
            f"random_state={random_state!r} must be None (secure noise) or an integer >= 0 (reproducible, not private)"
        )
    return SeededBits(int(random_state))
