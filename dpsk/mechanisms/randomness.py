"""The sources of random bits: the operating system, or a seed, which makes the result *not* private."""

import os
import threading
from typing import NoReturn, Protocol

import numpy as np

_BUFFER_BYTES = 1 << 14


class Bits(Protocol):
    """A source of independent fair bits."""

    @property
    def private(self) -> bool:
        """Whether nobody can know these bits. Noise from them is private only if this is True."""

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


def count_fork() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=count_fork)


class SystemBits:
    """Bits from the operating system's cryptographic generator, fetched in blocks; many bytes are fetched directly.

    No byte is given out twice: each thread has its own block, and a forked child drops the block it inherited.
    """

    private = True

    def __init__(self) -> None:
        self._block = _Block()

    def take(self, n_bytes: int) -> bytes:
        if n_bytes > _BUFFER_BYTES // 4:
            return os.urandom(n_bytes)
        block = self._block
        end = block.position + n_bytes
        if end > len(block.buffer) or block.generation != _generation:
            block.buffer = os.urandom(_BUFFER_BYTES)
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
    """Return the source for scikit-learn's ``random_state``: None is the operating system, an int is a seed.

    Generators and RandomState instances are refused: whoever holds one can compute the noise again, and a fitted
    model would carry its state.
    """
    if random_state is None:
        return SystemBits()
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ValueError(
            f"random_state={random_state!r} must be None (secure noise) or an integer >= 0 (reproducible, not private)"
        )
    return SeededBits(int(random_state))


def bits_beside(bits: Bits) -> Bits:
    """Return a source for another thread. The speed of one thread does not change what the other draws."""
    return bits if bits.private else SeededBits(int.from_bytes(bits.take(16), "little"))


def generator_for(bits: Bits) -> np.random.Generator:
    """Return a new NumPy generator with a key of 128 bits from this source.

    Use it for draws that are no noise and need not be exact, such as hyper-parameters from a distribution of SciPy. Its
    floats are as exact as NumPy's. Its draws reveal nothing about other bits of the source.
    """
    return np.random.Generator(np.random.Philox(key=int.from_bytes(bits.take(16), "little")))
