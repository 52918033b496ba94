"""Where random bits come from: the operating system, or a seed that makes the result *not* private."""

from __future__ import annotations

import os
import threading
from typing import NoReturn, Protocol

import numpy as np

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


class _Block(threading.local):
    """What one thread has fetched and not used yet."""

    buffer = b""
    position = 0
    generation = -1


_generation = 0  # how many forks lie between this process and the first


def _count_fork() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class SystemBits:
    """Bits from the operating system's cryptographic generator, fetched in blocks.

    Each thread has a block of its own, and a forked child drops the one it inherited: no byte is given out twice.
    """

    private = True

    def __init__(self) -> None:
        self._block = _Block()

    def take(self, n_bytes: int) -> bytes:
        block = self._block
        end = block.position + n_bytes
        if end > len(block.buffer) or block.generation != _generation:
            block.buffer = os.urandom(max(_BUFFER_BYTES, n_bytes))
            block.position, block.generation, end = 0, _generation, n_bytes
        taken = block.buffer[block.position : end]
        block.position = end
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


def bits_beside(bits: Bits) -> Bits:
    """Return a source for another thread: what each of the two draws does not depend on how fast the other is."""
    return bits if bits.private else SeededBits(int.from_bytes(bits.take(16), "little"))


def generator_for(bits: Bits) -> np.random.Generator:
    """Return a new NumPy generator with a key of 128 bits from this source.

    For draws that need not be exact and are no noise, such as hyper-parameters from a distribution of SciPy: its floats
    are only as good as NumPy's. What it drew tells nothing about other bits of the source.
    """
    return np.random.Generator(np.random.Philox(key=int.from_bytes(bits.take(16), "little")))
