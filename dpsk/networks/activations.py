"""Activations: elementwise functions of the sums of hidden layers, whose values are rounded to signals."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..elementwise import exp
from ..mechanisms.samplers import Floats
from .signals import ONE, REACH, SIGNAL_STEP, glorot, he, round_signals


class Activation(ABC):
    """A function of one number, and its derivative as a function of the signal that it gives."""

    def spread(self, fan_in: int, fan_out: int) -> float:
        """Return the standard deviation of initial weights in front of it (Glorot & Bengio 2010)."""
        return glorot(fan_in, fan_out)

    @abstractmethod
    def activate(self, steps: Floats) -> Floats:
        """Turn finite numbers in steps of signals into signals, in place."""

    @abstractmethod
    def multiply(self, slopes: Floats, signals: Floats) -> None:
        """Multiply slopes by the derivatives where the function gave these signals, in place."""


@dataclass(frozen=True)
class Identity(Activation):
    """x, within the reach of signals."""

    bound = REACH

    def activate(self, steps: Floats) -> Floats:
        np.clip(steps, -self.bound, self.bound, out=steps)
        return np.rint(steps, out=steps)

    def multiply(self, slopes: Floats, signals: Floats) -> None:
        slopes *= np.abs(signals) < self.bound


@dataclass(frozen=True)
class HardTanh(Identity):
    """x, clipped to [-1, 1]."""

    bound = ONE


@dataclass(frozen=True)
class Ramp(Activation):
    """max(x, 0), within the reach of signals."""

    def spread(self, fan_in: int, fan_out: int) -> float:
        """Return that of He, Zhang, Ren & Sun (2015)."""
        del fan_out
        return he(fan_in)

    def activate(self, steps: Floats) -> Floats:
        np.clip(steps, 0, REACH, out=steps)
        return np.rint(steps, out=steps)

    def multiply(self, slopes: Floats, signals: Floats) -> None:
        slopes *= np.clip(signals, 0, 1)  # signals are integers, so this is 0 or 1; np.minimum takes twice as long
        if signals.max(initial=0.0) >= REACH:
            slopes *= signals < REACH


@dataclass(frozen=True)
class Tanh(Activation):
    """The hyperbolic tangent, 1 - 2 / (1 + exp(2x))."""

    def activate(self, steps: Floats) -> Floats:
        np.clip(steps, -REACH, REACH, out=steps)
        steps *= 2 * SIGNAL_STEP
        np.divide(-2 * ONE, exp(steps) + 1, out=steps)
        steps += ONE
        return round_signals(steps)

    def multiply(self, slopes: Floats, signals: Floats) -> None:
        slopes *= 1 - np.square(signals * SIGNAL_STEP)


ACTIVATIONS: dict[str, Activation] = {
    "relu": Ramp(),
    "tanh": Tanh(),
    "hard-tanh": HardTanh(),
    "identity": Identity(),
}
