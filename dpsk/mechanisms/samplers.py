"""Exact sampling on the integers from random bits: no floating-point rounding reaches a probability.

One primitive is the base of everything here: a coin that shows heads with probability ``exp(-x)``. It compares 53
uniform bits with the floating-point exponential. If the two are so close that rounding could change the result, more
bits are drawn and rational arithmetic decides. Mironov (2012) shows what goes wrong otherwise. Proofs:
docs/guarantees.md, 4.1 and 4.2.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .randomness import Bits

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

# Brackets of an exponent, given how many binary digits of the comparison are known by now.
Refine: TypeAlias = Callable[[int], tuple[Fraction, Fraction]]

MAX_SCALE = 2**56
"""Largest scale of the noise, in grid units: its tails then still fit into 64-bit integers."""

# Rounding of the exponent (a few units in 2^-53, times x*exp(-x) < 1/2), of exp (at most 4 units), of level and height,
# and the bits of the uniform number not drawn yet together stay below 2^-48; the band is 16 times wider.
_BAND = 2.0**-44


def words(n: int, bits: Bits) -> NDArray[np.uint64]:
    """Return ``n`` uniform 64-bit words."""
    return np.frombuffer(bits.take(8 * n), dtype="<u8")


def bernoulli_exp(
    exponent: Floats,
    refine: Callable[[int], Refine],
    bits: Bits,
    *,
    level: Integers | int = 0,
    height: Floats | float = 1.0,
) -> NDArray[np.bool_]:
    """Flip one coin per entry, heads with probability exactly ``height * exp(-exponent) - level``, cut to [0, 1].

    ``exponent`` holds non-negative floats whose ``exp`` is off by less than 2^-49; ``refine(i)`` returns the exact
    value of entry i as brackets that close as more digits are asked for. It is called only for the undecided.
    ``height`` holds integers from 1 on, ``level`` integers from 0 to height + 1.
    """
    uniform = words(len(exponent), bits) >> np.uint64(11)
    gap = (level + uniform * 2.0**-53) / height - np.exp(-exponent)
    heads = gap < 0
    undecided = np.flatnonzero(np.abs(gap) < _BAND)
    if undecided.size:
        levels, heights = np.broadcast_to(level, heads.shape), np.broadcast_to(height, heads.shape)
        for i in undecided:
            start = int(levels[i]) << 53 | int(uniform[i])
            heads[i] = _decide(start, int(heights[i]), refine(int(i)), bits)
    return heads


def _decide(uniform: int, height: int, refine: Refine, bits: Bits) -> bool:
    """Return whether a real number with uniform digits that starts with these 53 is below height * exp(-exponent)."""
    length = 53
    while True:
        low, high = refine(length)
        if uniform + 1 <= height * (_scaled_exp(high, length) - 1):
            return True
        if uniform >= height * (_scaled_exp(low, length) + 2):
            return False
        uniform = uniform << 64 | int.from_bytes(bits.take(8), "little")
        length += 64


def _scaled_exp(exponent: Fraction, length: int) -> int:
    """Return ``exp(-exponent) * 2**length`` rounded down, off by at most one."""
    with localcontext(Context(prec=length // 3 + 25, traps=[])):
        value = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
        return int(value * 2**length)


def exactly(value: Fraction) -> Refine:
    """Return the brackets of a rational exponent."""
    return lambda _: (value, value)


def uniform_below(bound: int, n: int, bits: Bits) -> Integers:
    """Return ``n`` integers, uniform on 0, ..., bound - 1."""
    if not 1 <= bound <= 2**62:
        raise ValueError(f"bound={bound!r} must lie between 1 and 2**62")
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)

    def propose(m: int) -> Integers:
        draws = (words(m, bits) & mask).astype(np.int64)
        return draws[draws < bound]

    return first_accepted(n, propose, rate=bound / (int(mask) + 1))


def permutation(n: int, bits: Bits) -> Integers:
    """Return a uniform permutation of 0, ..., n - 1: the order of n distinct random words."""
    while True:
        keys = words(n, bits)
        order = np.argsort(keys)
        if np.all(np.diff(keys[order]) > 0):
            return order


def poisson_sample(n: int, rate: float, bits: Bits) -> Integers:
    """Return which of 0, ..., n - 1 are kept, each independently with probability exactly ``rate`` < 1, in order.

    Fair bits remove half of the indices at a time, while each still has a probability of at least ``rate``. A last coin
    brings the probability of the rest down to the rate.
    """
    chance, alive = Fraction(rate), np.full(-(-n // 8), 255, dtype=np.uint8)
    while chance <= Fraction(1, 2) and chance > Fraction(1, 2**10):
        alive &= np.frombuffer(bits.take(len(alive)), dtype=np.uint8)
        chance *= 2
    kept = np.flatnonzero(np.unpackbits(alive, count=n).view(np.bool_))
    return kept if chance == 1 else kept[coins(len(kept), chance, bits)]


def coins(n: int, chance: Fraction, bits: Bits) -> NDArray[np.bool_]:
    """Flip n coins with a probability below 1. Byte i decides coin i; if it does not, further words do."""
    whole, rest = divmod(chance * 256, 1)
    first = np.frombuffer(bits.take(n), dtype=np.uint8)
    heads, undecided = first < whole, np.flatnonzero(first == whole)
    while rest and undecided.size:
        whole, rest = divmod(rest * 2**64, 1)
        draws = words(len(undecided), bits)
        heads[undecided] = draws < int(whole)
        undecided = undecided[draws == int(whole)]
    return heads


def sample_without_replacement(n: int, size: int, bits: Bits) -> Integers:
    """Return ``size`` of 0, ..., n - 1, all sets equally likely, in order."""
    if 2 * size > n:
        return np.sort(permutation(n, bits)[:size])
    found = np.zeros(0, dtype=np.int64)
    while len(found) < size:
        draws = np.concatenate([found, uniform_below(n, size, bits)])
        _, first = np.unique(draws, return_index=True)
        found = draws[np.sort(first)]
    return np.sort(found[:size])


def geometric(n: int, bits: Bits) -> Integers:
    """Return ``n`` integers with P(V >= v) = exp(-v): how often in a row a coin with probability 1/e shows heads."""
    counts = np.zeros(n, dtype=np.int64)
    running = np.arange(n)
    while running.size:
        running = running[bernoulli_exp(np.ones(running.size), lambda _: exactly(Fraction(1)), bits)]
        counts[running] += 1
    return counts


def discrete_laplace(scale: int, n: int, bits: Bits, *, one_sided: bool = False) -> Integers:
    """Return ``n`` integers with P(k) proportional to exp(-|k|/scale); with ``one_sided`` only k >= 0.

    Canonne, Kamath & Steinke (2020), Algorithm 2. Minus zero is drawn again.
    """
    check_scale(scale)

    def propose(m: int) -> Integers:
        u = uniform_below(scale, m, bits)
        u = u[bernoulli_exp(u / scale, lambda i: exactly(Fraction(int(u[i]), scale)), bits)]
        k: Integers = u + scale * geometric(len(u), bits)
        if one_sided:
            return k
        negative = (words(len(k), bits) & np.uint64(1)).astype(bool)
        signed: Integers = np.where(negative, -k, k)
        kept: Integers = signed[~(negative & (k == 0))]
        return kept

    return first_accepted(n, propose, rate=0.6)


def check_scale(scale: int) -> None:
    if not isinstance(scale, int) or not 1 <= scale <= MAX_SCALE:
        raise ValueError(f"a noise scale of {scale!r} grid units must be an integer between 1 and {MAX_SCALE}")


def first_accepted(n: int, propose: Callable[[int], Integers], rate: float, spread: float = 2.0) -> Integers:
    """Return the first ``n`` accepted proposals; about ``rate`` of them are accepted.

    The accepted ones are independent and identically distributed, so cutting the last batch short changes nothing.
    ``spread`` decides how many are proposed beyond the expected number.
    """
    batches: list[Integers] = []
    missing = n
    while missing > 0:
        wanted = missing / rate
        batch = propose(math.ceil(wanted + spread * math.sqrt(wanted)))[:missing]
        batches.append(batch)
        missing -= len(batch)
    return np.concatenate(batches) if batches else np.zeros(0, dtype=np.int64)
