"""Random bits: never repeated, never shared between copies, and reproducible only where a seed asks for it."""

import copy
import os
import pickle
import sys
import threading

import numpy as np
import pytest

from dpsk.mechanisms import SeededBits, SystemBits, bits_for
from dpsk.mechanisms.randomness import bits_beside

WINDOW = 8
"""Two equal runs of this many fair bytes among 2^19 runs: probability below 1e-8."""


def windows(data: bytes) -> set[bytes]:
    """Return all runs of ``WINDOW`` bytes, at every offset."""
    return {data[i : i + WINDOW] for i in range(len(data) - WINDOW + 1)}


@pytest.mark.parametrize("make", [SystemBits, lambda: SeededBits(5)], ids=["system", "seeded"])
def test_no_byte_is_returned_twice(make):
    """Small, odd, block-sized and larger requests in turn: what they return has no repetition."""
    sizes = [*range(40), *[3] * 50, *[1] * 50, 5000, 16_384, 16_385, 1, 8191, 8192, 8193, 100_000, 7, 16_383, 16]
    bits = make()
    taken = b"".join(bits.take(n) for n in sizes)
    assert len(taken) == sum(sizes)
    assert len(windows(taken)) == len(taken) - WINDOW + 1


@pytest.mark.parametrize("make", [SystemBits, lambda: SeededBits(5)], ids=["system", "seeded"])
@pytest.mark.parametrize("n_bytes", [0, 1, 7, 8, 9, 16_384, 16_385, 1_000_003])
def test_the_number_of_bytes_is_the_one_asked_for(make, n_bytes):
    bits = make()
    taken = bits.take(n_bytes)
    assert isinstance(taken, bytes)
    assert len(taken) == n_bytes
    assert len(bits.take(n_bytes)) == n_bytes


@pytest.mark.parametrize("make", [SystemBits, lambda: SeededBits(5)], ids=["system", "seeded"])
def test_bits_are_fair(make):
    """Each of the 64 bits of a word is set half of the time: within 7 standard deviations (error 64 * 3e-12)."""
    n = 100_000
    words = np.frombuffer(make().take(8 * n), dtype="<u8")
    set_bits = np.array([int(((words >> np.uint64(b)) & np.uint64(1)).sum()) for b in range(64)])
    assert np.abs(set_bits - n / 2).max() < 7 * np.sqrt(n / 4)


def test_two_system_sources_differ():
    assert not windows(SystemBits().take(4096)) & windows(SystemBits().take(4096))


def test_only_system_bits_are_private():
    assert SystemBits().private is True
    assert SeededBits(0).private is False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python >= 3.12, because of BLAS threads
@pytest.mark.parametrize("before", [0, 24])
def test_a_forked_child_shares_no_noise_with_its_parent(before):
    """The child drops the block it inherited: neither what the parent took nor what it takes next comes out of it."""
    bits = SystemBits()
    earlier = bits.take(before)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, bits.take(4096))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    ours = bits.take(4096)
    assert len(theirs) == 4096
    assert not windows(theirs) & windows(earlier + ours)


def test_threads_share_no_noise():
    """One source used by two threads still returns no byte twice, and as many bytes as were asked for."""
    bits = SystemBits()
    taken: list[list[bytes]] = [[], []]

    def take_often(into: list[bytes]) -> None:
        for _ in range(50_000):
            into.append(bits.take(16))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=take_often, args=(into,)) for into in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    pieces = taken[0] + taken[1]
    assert {len(piece) for piece in pieces} == {16}
    assert len(set(pieces)) == len(pieces)


def test_a_seed_reproduces_the_bits():
    sizes = [0, 1, 9, 8, 100_000, 3]
    first, second, other = SeededBits(7), SeededBits(7), SeededBits(8)
    assert [first.take(n) for n in sizes] == [second.take(n) for n in sizes]
    assert not windows(SeededBits(7).take(4096)) & windows(other.take(4096))


@pytest.mark.parametrize("bits", [SystemBits(), SeededBits(3)], ids=["system", "seeded"])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, *[lambda bits, p=p: pickle.dumps(bits, p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]],
)
def test_copies_and_pickles_are_refused(bits, duplicate):
    bits.take(8)
    with pytest.raises(TypeError, match=f"{type(bits).__name__} cannot be copied or pickled"):
        duplicate(bits)


def test_a_copy_of_something_that_holds_bits_is_refused():
    """A deep copy of a fitted object would repeat noise as well."""
    holder = {"bits": SystemBits()}
    with pytest.raises(TypeError, match="SystemBits cannot be copied"):
        copy.deepcopy(holder)


def test_no_random_state_means_system_bits():
    assert isinstance(bits_for(None), SystemBits)


@pytest.mark.parametrize("seed", [0, 5, 2**31, 2**100, np.int64(5), np.uint8(5)])
def test_an_integer_is_a_seed(seed):
    bits = bits_for(seed)
    assert isinstance(bits, SeededBits)
    assert bits.take(64) == SeededBits(int(seed)).take(64)


@pytest.mark.parametrize(
    "random_state",
    [True, False, np.True_, -1, np.int64(-1), 1.0, "1", np.random.default_rng(0), np.random.RandomState(0), np.random],
    ids=lambda value: repr(value).split(" at ")[0],
)
def test_everything_else_is_refused(random_state):
    with pytest.raises(ValueError, match=r"random_state=.* must be None \(secure noise\) or an integer >= 0"):
        bits_for(random_state)


def test_bits_for_another_thread_are_as_secret_as_those_beside_them():
    system = SystemBits()
    assert bits_beside(system) is system  # each thread has a block of its own


def test_seeded_bits_for_another_thread_are_a_stream_of_their_own():
    first, second = SeededBits(3), SeededBits(3)
    beside, again = bits_beside(first), bits_beside(second)
    assert not beside.private
    drawn = beside.take(64)
    assert drawn == again.take(64)
    assert drawn not in (first.take(64), SeededBits(3).take(64))
