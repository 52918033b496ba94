"""Exact draws of the number of runs, from the distributions of :mod:`dpsk.privacy.repetition`."""

import math
from fractions import Fraction

from ..privacy.repetition import Law, Poisson, TruncatedNegativeBinomial
from .randomness import Bits
from .samplers import coins


def repetitions(law: Law, bits: Bits) -> int:
    """Return one draw of the number of runs, with exactly the probabilities of the law.

    The probabilities are rational up to a common factor, so coins draw it. It is secret: only the runs may depend on
    it.
    """
    if isinstance(law, Poisson):
        # a sum of Poisson numbers with means of at most 1/2, which are what rejection below is quick for
        parts = max(1, math.ceil(2 * law.mean))
        return sum(_small_poisson(Fraction(law.mean) / parts, bits) for _ in range(parts))
    if not isinstance(law, TruncatedNegativeBinomial):
        raise TypeError(f"{law!r} must be a TruncatedNegativeBinomial or a Poisson: the cost of others is not known")
    eta, more = Fraction(law.eta), 1 - Fraction(law.gamma)
    if eta <= 1:
        return 1 + _thinned_geometric(more, eta, 1, bits)
    # independent negative binomial numbers add up, and so do their eta; 0 is drawn again
    whole = math.floor(eta)
    while True:
        k = sum(_thinned_geometric(more, Fraction(1), 0, bits) for _ in range(whole))
        if eta > whole:
            k += _thinned_geometric(more, eta - whole, 0, bits)
        if k:
            return k


def _thinned_geometric(more: Fraction, eta: Fraction, first: int, bits: Bits) -> int:
    """Return k >= 0 with P(k) proportional to more^k * prod (l + eta)/(l + 1) over the k integers l from ``first`` on.

    It is a geometric number that grows with probability ``more``. Each step must survive a coin, or all begins anew.
    """
    while True:
        k = 0
        while _heads(more, bits):
            if not _heads((first + k + eta) / (first + k + 1), bits):
                break
            k += 1
        else:
            return k


def _small_poisson(mean: Fraction, bits: Bits) -> int:
    """Return a Poisson number with a mean of at most 1/2, in the same way: mean^k/k! = 2^-k * prod 2 mean/l."""
    while True:
        k = 0
        while _heads(Fraction(1, 2), bits):
            k += 1
            if not _heads(2 * mean / k, bits):
                break
        else:
            return k


def _heads(chance: Fraction, bits: Bits) -> bool:
    return chance >= 1 or bool(coins(1, chance, bits)[0])
