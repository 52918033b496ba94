"""Parameters that say what their values must be: a field of a dataclass carries its check, beside its default.

Each check raises ValueError with the name of the parameter, the value and what it must be. A default of None means that
None is allowed.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from functools import partial as bound
from numbers import Integral, Real
from typing import Any

import numpy as np

Check = Callable[[str, Any], object]

_SHOWN = 5  # words that an error lists


def checked(default: Any, check: Check, *, or_none: bool = False) -> Any:
    """Return a field with this default, whose values have to pass ``check(name, value)``."""
    return field(default=default, metadata={"check": check, "or_none": or_none or default is None})


def number(
    default: float | None, low: float = 0.0, *, below: float = math.inf, open_low: bool = False, or_none: bool = False
) -> Any:
    """Return a field for finite numbers >= low (> low if ``open_low``) and < below."""
    return checked(default, bound(require_number, low=low, below=below, open_low=open_low), or_none=or_none)


def integer(default: int | None, low: int = 1) -> Any:
    """Return a field for integers >= low."""
    return checked(default, bound(require_number, low=low, kind=Integral))


def choice(default: str | None, *choices: str, or_none: bool = False) -> Any:
    """Return a field for one of these words."""
    check = bound(require_choice, choices=choices, or_none=or_none or default is None)
    return checked(default, check, or_none=or_none)


def clip(default: float | None) -> Any:
    """Return a field for bounds whose grid floats can hold."""
    return checked(default, require_clip)


def part(default: float | None, *, whole: bool = True) -> Any:
    """Return a field for numbers in (0, 1], or in (0, 1) unless ``whole``."""
    return checked(default, bound(require_part, whole=whole))


def flag(default: bool) -> Any:
    """Return a field for True or False."""
    return checked(default, require_flag)


def require_fields(instance: Any) -> None:
    """Raise ValueError for the first field of a dataclass whose value does not pass its check."""
    for declared in fields(instance):
        check, value = declared.metadata.get("check"), getattr(instance, declared.name)
        if check is not None and not (value is None and declared.metadata["or_none"]):
            check(declared.name, value)


def require_number(
    name: str, value: Any, low: float, *, below: float = math.inf, kind: Any = Real, open_low: bool = False
) -> None:
    """Raise ValueError unless ``value`` is a finite number of this kind, >= low (> low if ``open_low``) and < below."""
    good = isinstance(value, kind) and not isinstance(value, bool | np.bool_) and math.isfinite(value)
    if good and below < math.inf and not low <= value < below:
        raise ValueError(f"{name}={value!r} must lie in {'(' if open_low else '['}{low:g}, {below:g})")
    if not good or value < low or (open_low and value == low):
        wanted = "an integer" if kind is Integral else "a finite number"
        least = f" {'>' if open_low else '>='} {low:g}" if low > -math.inf else ""
        raise ValueError(f"{name}={value!r} must be {wanted}{least}")


def require_choice(name: str, value: Any, choices: tuple[str, ...], *, or_none: bool = False) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``, or None where that is allowed."""
    if not (or_none and value is None) and (not isinstance(value, str) or value not in choices):
        none = "None or " if or_none else ""
        one_of = "one of " if len(choices) > 1 else ""
        raise ValueError(f"{name}={value!r} must be {none}{one_of}{', '.join(map(repr, choices))}")


def require_name(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is the name of a column."""
    if not isinstance(value, str) or not value:
        given = f" of type {type(value).__name__}" if hasattr(value, "shape") else f"={value!r}"  # arrays may hold ids
        raise ValueError(
            f"{name}{given} must be None or the name of a column, a string. An array of ids is given as groups"
        )


def require_flag(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be True or False")


def require_clip(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a clip whose grid floats can hold."""
    require_number(name, value, 0, open_low=True)
    if not 2.0**-100 <= value <= 2.0**100:
        raise ValueError(f"{name}={value!r} must lie between 2**-100 and 2**100")


def require_part(name: str, value: Any, *, whole: bool = True) -> None:
    """Raise ValueError unless ``value`` is a number in (0, 1], or in (0, 1) unless ``whole``."""
    require_number(name, value, 0, open_low=True)
    if not (value <= 1 if whole else value < 1):
        raise ValueError(f"{name}={value!r} must lie in (0, 1{']' if whole else ')'}")


def require_stable_steps(name: str, step: float, alpha: float) -> None:
    """Raise ValueError if plain steps along the penalty would grow without end."""
    if step * alpha > 2:
        raise ValueError(
            f"{name}={step!r} with alpha={alpha!r}: steps along the penalty would grow without end. Keep "
            f"{name} * alpha at most 2"
        )


def listed(words: Iterable[str]) -> str:
    """Return words one after the other, for an error: the first ones, and how many more there are."""
    words = list(words)
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more
