"""Errors of constructors and of ``fit`` that name a remedy for what scikit-learn's models take and these do not."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

_NOT_TAKEN = {
    "C": "C is not supported: give alpha, which is 1 / (C * n_samples)",
}


def in_own_words(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor name the class that was asked for, and a remedy, when it does not take an argument."""
    signature = inspect.signature(init)
    shown = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]

    @wraps(init)
    def __init__(self: Any, *args: Any, **parameters: Any) -> None:
        try:
            signature.bind(self, *args, **parameters)
        except TypeError as error:
            wrong = next((text for name, text in _NOT_TAKEN.items() if name in parameters), f"{error}")
        else:
            return init(self, *args, **parameters)
        known = ", ".join(list(signature.parameters)[1:])
        raise TypeError(f"{type(self).__name__}: {wrong}. Its parameters are {known}; all but the first two by name")

    __init__.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return __init__


def refuse_unsupported(given: dict[str, Any]) -> None:
    """Raise what a fit says to anything besides X and y that is not None."""
    given = {name: value for name, value in given.items() if value is not None}
    for name, remedy in _NOT_TAKEN.items():
        if name in given:
            raise TypeError(remedy)
    if given:
        names = ", ".join(sorted(given))
        raise TypeError(f"fit got unexpected arguments: {names}. It takes X, y, sample_weight and groups")
