"""Checks of parameters: each names the parameter, the value and what it must be."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np


def require_number(name: str, value: object, low: float, *, kind: Any = Real, open_low: bool = False) -> None:
    """Raise ValueError unless ``value`` is a finite number of this kind, >= low (> low if ``open_low``)."""
    number: Any = value
    good = isinstance(number, kind) and not isinstance(number, bool | np.bool_) and math.isfinite(number)
    if not good or number < low or (open_low and number == low):
        wanted = "an integer" if kind is Integral else "a finite number"
        raise ValueError(f"{name}={value!r} must be {wanted} {'>' if open_low else '>='} {low:g}")


def require_choice(name: str, value: object, choices: tuple[str, ...], *, or_none: bool = False) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if value is None and or_none:
        return
    if not isinstance(value, str) or value not in choices:
        none = "None or " if or_none else ""
        raise ValueError(f"{name}={value!r} must be {none}one of {', '.join(map(repr, choices))}")


def require_flag(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be True or False")


def require_clip(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is a clip whose grid floats can hold."""
    require_number(name, value, 0, open_low=True)
    number: Any = value
    if not 2.0**-100 <= number <= 2.0**100:
        raise ValueError(f"{name}={value!r} must lie between 2**-100 and 2**100")


def require_part(name: str, value: object, *, whole: bool = True) -> None:
    """Raise ValueError unless ``value`` is a number in (0, 1], or in (0, 1) unless ``whole``."""
    require_number(name, value, 0, open_low=True)
    number: Any = value
    if not (number <= 1 if whole else number < 1):
        raise ValueError(f"{name}={value!r} must lie in (0, 1{']' if whole else ')'}")


def require_stable_steps(name: str, step: float, alpha: float) -> None:
    """Raise ValueError if plain steps along the penalty would grow without end."""
    if step * alpha > 2:
        raise ValueError(
            f"{name}={step!r} with alpha={alpha!r}: steps along the penalty would grow without end. Keep "
            f"{name} * alpha at most 2"
        )
