"""What an entry tells beside its price: the public parameters of the fit, who made it, and why."""

from __future__ import annotations

import getpass
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

LONGEST = 500
"""How many characters a note and a name may have."""

LONGEST_VALUE = 200
"""How many characters of a parameter are recorded."""

MOST_ENTRIES = 20
"""How many entries of a list or an array are recorded; of longer ones the first of them."""

_MOST_VALUES = 500
_MOST_CHARACTERS = 20_000
_DEEPEST = 8
_LEFT_OUT = frozenset({"ledger", "verbose"})
_SEED = re.compile(r"random_state=[^,)]*")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Remarks:
    """What one entry tells beside its price; ``parameters`` is a JSON object."""

    parameters: str
    who: str
    note: str

    @classmethod
    def of(cls, asked: Any, who: str | None, note: str | None) -> Remarks:
        """Return what is recorded for an estimator, or for the arguments of a call. Nothing in it raises.

        Formal guarantee: it is a function of ``asked`` before the fit, of the names given, and of the login name
        (docs/guarantees.md, 12.11).
        """
        return cls(parameters_of(asked), login() if who is None else who, note or "")


def checked_remark(name: str, value: Any) -> str | None:
    """Return a note or a name; raise ValueError if it is no text that can be shown."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name}={value!r} must be a text, or None")
    if len(value) > LONGEST:
        raise ValueError(f"{name} has {len(value)} characters, but at most {LONGEST} are recorded: shorten it")
    if not all(character.isprintable() or character in "\n\t" for character in value):
        raise ValueError(f"{name}={value!r} has characters that cannot be shown: leave them out")
    return str(value)


def login() -> str:
    """Return the login name, "" where there is none."""
    try:
        name = getpass.getuser()
    except Exception:  # of several kinds on systems without a table of users
        return ""
    return "".join(character for character in name if character.isprintable())[:LONGEST]


def parameters_of(asked: Any) -> str:
    """Return the parameters of an estimator, or the arguments in a dict, as a JSON object. It never raises."""
    try:
        shown = _Reader().parameters(asked)
        text = json.dumps(shown, allow_nan=False)
    except Exception:  # whatever objects do that stand in parameters, the fit goes on
        return "{}"
    if len(text) <= _MOST_CHARACTERS:
        return text
    shortened = {name: _cut(json.dumps(value)) for name, value in list(shown.items())[:MOST_ENTRIES]}
    return json.dumps(shortened)


class _Reader:
    """Turns parameters into what JSON holds: short, without seeds, and of limited number."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def parameters(self, asked: Any) -> dict[str, Any]:
        given = asked if isinstance(asked, Mapping) else {} if asked is None else asked.get_params(deep=False)
        return self._entries(given.items(), 0)

    def _entries(self, given: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        shown = dict[str, Any]()
        for key, value in given:
            name = str(key)
            if name == "random_state":
                shown[name] = None if value is None else "given"  # a record of the seed would reveal the noise
            elif name not in _LEFT_OUT and len(shown) < _MOST_VALUES:
                shown[_cut(name)] = self.value(value, depth)
        return shown

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return "..."
        try:
            return self._value(value, depth)
        except Exception:  # an object that cannot even be shown
            return f"<{type(value).__name__}>"

    def _value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float | np.number | np.bool_):
            return _number(value)
        if isinstance(value, str | type):
            return _cut(value if isinstance(value, str) else value.__name__)
        if isinstance(value, np.ndarray):
            return self._array(value, depth)
        if isinstance(value, Mapping):
            return self._entries(value.items(), depth + 1)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, depth)
        if callable(getattr(value, "get_params", None)):
            parameters = self._entries(value.get_params(deep=False).items(), depth + 1)
            return {"type": type(value).__name__, "parameters": parameters}
        if hasattr(value, "shape"):
            return {"type": type(value).__name__, "shape": [int(length) for length in value.shape]}
        return _cut(_ADDRESS.sub("", _SEED.sub("random_state=...", repr(value))))

    def _list(self, values: Any, depth: int) -> Any:
        ordered = values if isinstance(values, list | tuple) else sorted(values, key=repr)
        shown = [self.value(value, depth + 1) for value in ordered[:MOST_ENTRIES]]
        return shown if len(values) <= MOST_ENTRIES else {"length": len(values), "first": shown}

    def _array(self, array: Any, depth: int) -> Any:
        if array.size <= MOST_ENTRIES:
            return self.value(array.tolist(), depth)
        first = [self.value(entry, depth + 1) for entry in array.ravel()[:MOST_ENTRIES].tolist()]
        return {"shape": list(array.shape), "dtype": str(array.dtype), "first": first}


def _number(value: Any) -> Any:
    """Return a number, or None, as JSON knows it; as a text what it does not know."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, int | np.integer) and abs(int(value)) < 2**63:
        return int(value)
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return float(value)
    return _cut(repr(value.item() if isinstance(value, np.number) else value))


def _cut(text: str) -> str:
    shown = str(text)
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[: LONGEST_VALUE - 3]}..."
