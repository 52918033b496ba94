"""Private choice of the smallest entry of a vector of integers.

All three mechanisms see integers and decide with exact coins or exact integer noise. Half of the noise is enough if
one row moves all scores in the same direction (``Sensitivity.monotone``: one row leaves sums of non-negative losses).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..privacy.costs import BoundedRangeCost
from .additive import noise_scale
from .mechanism import Mechanism, PureMechanism, Sensitivity
from .randomness import Bits
from .samplers import Floats, Integers, Refine, bernoulli_exp, discrete_laplace, exactly, permutation, uniform_below


def _reach(sensitivity: Sensitivity) -> float:
    """Return how far two scores can move apart between neighbours."""
    return sensitivity.linf if sensitivity.monotone else 2 * sensitivity.linf


class _Exponents:
    """``strength * (score - smallest score) / reach`` for every entry: as floats, and exactly."""

    def __init__(self, scores: Integers, strength: float, reach: float) -> None:
        # differences of 64-bit integers need 64 bits without a sign
        self._gaps = scores.astype(np.int64).view(np.uint64) - np.int64(scores.min()).view(np.uint64)
        self._slope = Fraction(strength) / Fraction(reach)
        # beyond 1e280 every gap but 0 means a probability of 0 to all digits, and no product overflows
        self.floats: Floats = self._gaps.astype(np.float64) * float(min(self._slope, Fraction(1e280)))

    def exact(self, index: int) -> Refine:
        return exactly(int(self._gaps[index]) * self._slope)


@dataclass(frozen=True)
class ArgMin(Mechanism):
    """The exponential mechanism: index i with probability proportional to exp(-eta * score_i / reach).

    ``reach`` is the linf sensitivity for monotone scores and twice that in general.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.6)
    eta-bounded range, hence (eta^2/8)-zCDP (Dong, Durfee & Rogers 2020; Cesar & Rogers 2021) and eta-DP (McSherry &
    Talwar 2007).
    """

    eta: float
    norm = "linf"
    selects = True

    @property
    def cost(self) -> BoundedRangeCost:
        return BoundedRangeCost(self.eta)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int:
        self.check(sensitivity)
        exponents = _Exponents(value, self.eta, _reach(sensitivity))
        # A uniform index, kept with probability exp(-exponent): the smallest score is always kept, so on average
        # at most len(value) proposals are needed.
        while True:
            index = uniform_below(len(value), min(2 * len(value), 1 << 16), bits)
            kept = bernoulli_exp(exponents.floats[index], lambda k: exponents.exact(index[k]), bits)  # noqa: B023
            if kept.any():
                return int(index[kept.argmax()])


@dataclass(frozen=True)
class PermuteAndFlip(PureMechanism):
    """Permute-and-flip: in random order, take the first entry whose coin exp(-epsilon * gap / reach) shows heads.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.7)
    epsilon-DP (McKenna & Sheldon 2020). It is not epsilon-bounded-range, so its zCDP cost is that of pure DP.
    """

    norm = "linf"
    selects = True

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int:
        self.check(sensitivity)
        exponents = _Exponents(value, self.epsilon, _reach(sensitivity))
        order = permutation(len(value), bits)
        heads = bernoulli_exp(exponents.floats[order], lambda k: exponents.exact(order[k]), bits)
        return int(order[heads.argmax()])


@dataclass(frozen=True)
class NoisyMin(PureMechanism):
    """NoisyMax of Lee & Kifer (2018), Algorithm 1, applied to the negative scores.

    ``noise="laplace"`` is the general form, ``noise="exponential"`` the one for monotone scores. Both have scale
    reach/epsilon. Exponential noise is *subtracted* from scores: adding it is not private at this level.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.7)
    epsilon-DP, with ties to the lowest index.
    """

    noise: str = "laplace"
    norm = "linf"
    selects = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in ("laplace", "exponential"):
            raise ValueError(f"noise={self.noise!r} must be 'laplace' or 'exponential'")

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        noise_scale(_reach(sensitivity), self.epsilon)

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int:
        self.check(sensitivity)
        one_sided = self.noise == "exponential"
        noise = discrete_laplace(noise_scale(_reach(sensitivity), self.epsilon), len(value), bits, one_sided=one_sided)
        return int(np.argmin(value - noise))
