"""Parameters as plain values for a report: no rows, no seeds, no addresses in memory, no paths."""

import inspect
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..privacy import PrivacyLedger

_HIDDEN = "given, and not shown"


def parameters_of(model: Any) -> dict[str, Any]:
    """Return the parameters of an estimator by name, and the names of those that have their defaults."""
    given = model.get_params(deep=False) if callable(getattr(model, "get_params", None)) else {}
    usual = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    values = {name: _parameter(name, value) for name, value in given.items()}
    defaults = [name for name, value in given.items() if name in usual and _same(value, usual[name])]
    return {"values": values, "defaults": defaults}


def _same(value: Any, default: Any) -> bool:
    """Whether a parameter has its default: the same object, or an equal number or text."""
    return value is default or (isinstance(value, bool | int | float | str) and value == default)


def _parameter(name: str, value: Any) -> Any:
    """Return a parameter. The value of a seed would undo the noise, and the path of a ledger tells of a machine."""
    if value is not None and name == "random_state":
        return _HIDDEN
    if value is not None and name == "ledger":
        return file_name(value)
    return plain(value)


def file_name(ledger: Any) -> str:
    """Return the name of the file of a ledger, without its folders."""
    path = ledger.path if isinstance(ledger, PrivacyLedger) else ledger
    return os.path.basename(os.fspath(path)) if isinstance(path, str | os.PathLike) else type(ledger).__name__


def plain(value: Any) -> Any:
    """Return a value as JSON has it; of objects that might hold anything, the name of their type."""
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _parameter(str(name), one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    return _in_words(value)


def _in_words(value: Any) -> str:
    if isinstance(value, type) or inspect.isroutine(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    if hasattr(value, "dist") and hasattr(value, "args"):  # a distribution of SciPy with its parameters
        given = [*map(plain, value.args), *(f"{name}={plain(one)}" for name, one in value.kwds.items())]
        return f"{value.dist.name}({', '.join(map(str, given))})"
    if type(value).__module__.startswith("dpsk.") and not hasattr(value, "get_params"):
        return repr(value)
    return type(value).__name__


def label(value: Any) -> bool | int | float | str:
    """Return a class label as JSON has it."""
    value = value.item() if isinstance(value, np.generic) else value
    finite = isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if finite else str(value)
