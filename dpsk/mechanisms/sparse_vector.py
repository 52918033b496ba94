"""Above-threshold: the first of several noisy values that reaches a noisy zero.

The price is paid when the search is opened, whichever value fires. Values are given all at once, as one sealed vector,
or a few at a time to an :class:`OpenSearch`.
"""

import threading
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ..privacy.costs import Cost, GaussianThresholdCost, LaplaceThresholdCost, positive_integer
from .additive import noise_scale
from .mechanism import Mechanism, Sensitivity
from .randomness import Bits
from .samplers import Integers, discrete_laplace
from .staircase import rounded_gaussian

_SQRT2 = 1.4142135623730951


@dataclass(frozen=True)
class AboveThreshold(Mechanism):
    """The index of the first entry whose noisy value is at least a noisy 0; ``length`` if there is none.

    Shift the values by public numbers to compare them with other thresholds. Half of ``epsilon`` goes to the threshold,
    a quarter to each side of the values, as Chen & Lee (2020) split it; at most ``length`` values are looked at.

    ``noise="laplace"``: scales 2 * linf/epsilon on the threshold, 4 * linf/epsilon on the values.
    ``noise="gaussian"``: standard deviations sqrt(3/2)/sqrt(rho) and sqrt(3)/sqrt(rho) times linf, with rho =
    epsilon^2/2: the sigma_1 and sigma_2 of the paper for the same strength. Their price is not rho; see the cost.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 4.8 to 4.10)
    Laplace: epsilon-DP (Dwork & Roth 2014; Chen & Lee 2020, Theorem 1). Gaussian: mu-GDP, with a mu that grows with
    ``length``; a single value gets one noise of both variances. Renyi curves:
    :class:`~dpsk.privacy.LaplaceThresholdCost` and :class:`~dpsk.privacy.GaussianThresholdCost`.
    """

    epsilon: float
    length: int = 15
    noise: str = "laplace"
    norm = "linf"
    selects = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in ("laplace", "gaussian"):
            raise ValueError(f"noise={self.noise!r} must be 'laplace' or 'gaussian'")
        object.__setattr__(self, "length", positive_integer("length", self.length))
        if not min(self._strengths) > 0:
            raise ValueError(f"epsilon={self.epsilon!r} is too small to be shared by two noises: use at least 1e-300")

    @property
    def _strengths(self) -> tuple[float, float]:
        """The sensitivity over the scale of the threshold's noise, and of each value's."""
        if self.noise == "laplace":
            return self.epsilon / 2, self.epsilon / 4
        root = self.epsilon / _SQRT2  # of rho
        return root * (2 / 3) ** 0.5, root / 3**0.5

    @property
    def cost(self) -> Cost:
        family = LaplaceThresholdCost if self.noise == "laplace" else GaussianThresholdCost
        return family(*self._strengths, self.length)

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        super().check(sensitivity, shape)
        if shape is not None and shape[0] > self.length:
            raise ValueError(f"length={self.length!r}: this mechanism was bought for fewer than {shape[0]} values")
        noise_scale(sensitivity.linf, min(self._strengths))

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int:
        self.check(sensitivity, value.shape)
        index = OpenSearch(self)(value, sensitivity, bits)
        return index if index < len(value) else self.length

    def noisy(self, threshold: Integers | None, value: Integers, linf: float, bits: Bits) -> tuple[Integers, Integers]:
        """Return the noisy threshold (the one given, if any) and the noisy values."""
        if self.noise == "gaussian" and self.length == 1:
            return np.zeros(1, np.int64), value + rounded_gaussian(noise_scale(linf, self.cost.mu), len(value), bits)
        draw = discrete_laplace if self.noise == "laplace" else rounded_gaussian
        of_threshold, of_value = (noise_scale(linf, strength) for strength in self._strengths)
        if threshold is None:
            threshold = draw(of_threshold, 1, bits)
        return threshold, value + draw(of_value, len(value), bits)


class OpenSearch(Mechanism):
    """An :class:`AboveThreshold` that was paid for and gets a few values at a time, until one fires.

    :meth:`dpsk.data.PrivateData.open` makes one. Each release returns the index of the first given value that fires, or
    the number of given values if none does. So values after the first that fires need not be computed.

    Formal guarantee: that of the mechanism, whose values may be chosen adaptively (docs/guarantees.md, 4.8 to 4.10).
    """

    norm = "linf"
    selects = True

    def __init__(self, mechanism: AboveThreshold) -> None:
        self._mechanism, self._left = mechanism, mechanism.length
        self._threshold: Integers | None = None
        self._linf: float | None = None
        self._lock = threading.Lock()

    @property
    def mechanism(self) -> AboveThreshold:
        """What was paid for."""
        return self._mechanism

    @property
    def cost(self) -> Cost:
        return self._mechanism.cost

    def check(self, sensitivity: Sensitivity, shape: tuple[int, ...] | None = None) -> None:
        self._mechanism.check(sensitivity, shape)
        if self._linf not in (None, sensitivity.linf):
            raise ValueError("the values of a search must have one sensitivity, that for which its threshold was drawn")
        if shape is not None and shape[0] > self._left:
            raise ValueError(f"this search has {self._left} of {self._mechanism.length} values left, not {shape[0]}")

    def __call__(self, value: Integers, sensitivity: Sensitivity, bits: Bits) -> int:
        with self._lock:
            self.check(sensitivity, value.shape)
            self._linf = sensitivity.linf
            self._threshold, noisy = self._mechanism.noisy(self._threshold, value, sensitivity.linf, bits)
            fires = noisy >= self._threshold
            self._left = 0 if fires.any() else self._left - len(value)
            return int(fires.argmax()) if fires.any() else len(value)

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError("an open search cannot be copied or pickled: a copy would be a second search")

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy
