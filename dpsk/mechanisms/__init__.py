"""Randomised releases: exact noise and exact choices on the integer grid, each with the price it costs."""

from .additive import Gaussian, Laplace, SymmetricGaussian
from .mechanism import Mechanism, Sensitivity
from .randomness import Bits, SeededBits, SystemBits, bits_for
from .selection import ArgMin, NoisyMin, PermuteAndFlip
from .sparse_vector import AboveThreshold
from .spherical import NormGamma

__all__ = [
    "AboveThreshold", "ArgMin", "Bits", "Gaussian", "Laplace", "Mechanism", "NoisyMin", "NormGamma",
    "PermuteAndFlip", "SeededBits", "Sensitivity", "SymmetricGaussian", "SystemBits", "bits_for",
]  # fmt: skip
