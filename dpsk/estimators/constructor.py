"""Errors of constructors and of ``fit`` that name a remedy for what scikit-learn's models take and these do not."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, Self

_AGAIN = (
    "each call would be another fit on private rows, and cost another epsilon. A ledger keeps count of fits "
    "(ledger=...), and Chunks stream rows that do not fit into memory to one fit"
)
_STEPS = "how many steps there are follows from the budget, which each step takes a part of"

_NOT_TAKEN = {
    "C": "C is not supported: give alpha, which is 1 / (C * n_samples)",
    "warm_start": f"warm_start is not supported: {_AGAIN}",
    "max_iter": f"max_iter is not supported: {_STEPS}. Some estimators take steps or splits",
    "n_iter": f"n_iter is not supported: {_STEPS}. Some estimators take steps or splits",
    "tol": f"tol is not supported: whether a step is small is a fact about the rows, and {_STEPS}",
    "early_stopping": f"early_stopping is not supported: a score of held-out rows has its price, and {_STEPS}",
    "validation_fraction": "validation_fraction is not supported: no rows are held out to stop early. Leave it out",
    "n_iter_no_change": f"n_iter_no_change is not supported: {_STEPS}",
    "shuffle": "shuffle is not supported: rows need no order, and batches are drawn anew in each step. Leave it out",
    "momentum": "momentum is not supported. Leave it out; networks take solver='adam', which keeps a mean of gradients",
    "penalty": "penalty is not supported: it is the l2 penalty, of strength alpha; DPSecondOrderClassifier has another",
    "l1_ratio": "l1_ratio is not supported: there is the l2 penalty alone, whose strength is alpha",
    "dual": "dual is not supported: all solvers work on the primal problem. Leave it out",
    "multi_class": "multi_class is not supported: the loss decides. Leave it out",
    "n_jobs": "n_jobs is not supported: write with joblib.parallel_config('threading', n_jobs=...) around fit",
}
"""What people try, with the reason and the remedy. An estimator that has a parameter of that name takes it."""

_CALLED = {
    "features": "interactions",
    "interactions": "features",
    "learning_rate_init": "learning_rate",
    "batch_size": "sampling_rate",
}
"""Names of a parameter in other estimators. One that has the second name but not the first says so."""


class NoSecondFit:
    """The place of ``partial_fit``, which there is not: ``hasattr`` says so, and the error says why."""

    def __get__(self, model: Any, kind: Any = None) -> NoReturn:
        name = (type(model) if kind is None else kind).__name__
        raise AttributeError(f"{name} has no partial_fit: {_AGAIN}")


class InOwnWords:
    """What estimators and searches say to what they do not take."""

    partial_fit = NoSecondFit()

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; raise ValueError, with the reason, for those of scikit-learn that are not taken."""
        taken = self.get_params(deep=False)  # type: ignore[attr-defined]
        wrong = next((item for item in _NOT_TAKEN.items() if item[0] in parameters and item[0] not in taken), None)
        if wrong is not None:
            raise ValueError(f"Invalid parameter {wrong[0]!r} for estimator {type(self).__name__}: {wrong[1]}")
        changed: Self = super().set_params(**parameters)  # type: ignore[misc]
        return changed


def in_own_words(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor name the class that was asked for, and a remedy, when it does not take an argument."""
    signature = inspect.signature(init)
    shown = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]

    placed = [parameter for parameter in shown if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    first = {2: "two", 4: "four"}.get(len(placed) - 1, str(len(placed) - 1))

    @wraps(init)
    def __init__(self: Any, *args: Any, **parameters: Any) -> None:
        try:
            signature.bind(self, *args, **parameters)
        except TypeError as error:
            unknown = [name for name in parameters if name not in signature.parameters]
            here = {name: _CALLED.get(name) for name in unknown}
            named = [f"{name} is called {own} here" for name, own in here.items() if own in signature.parameters]
            wrong = next(
                (text for name, text in _NOT_TAKEN.items() if name in unknown), named[0] if named else f"{error}"
            )
        else:
            return init(self, *args, **parameters)
        known = ", ".join(list(signature.parameters)[1:])
        raise TypeError(
            f"{type(self).__name__}: {wrong}. Its parameters are {known}; all but the first {first} by name"
        )

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
