"""One run of a private search: parameters drawn, a fit on some rows, a private score on the others."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from ..data import Facts
from ..data.persons import Persons, keys_of
from ..encodings import Weighting
from ..estimators.classifier import PrivateClassifier
from ..estimators.opening import facts_of
from ..estimators.plan import budget_of_plan, plan_of, with_parameters_of
from ..mechanisms import Bits, bits_for
from ..mechanisms.randomness import generator_for
from ..mechanisms.samplers import Integers, uniform_below
from ..pipelines import PrivatePipeline
from ..pipelines.in_front import rows_of, settled, transformed
from ..privacy import Budget
from ..privacy.allowance import Allowance
from ..privacy.repetition import BestOf
from ..privacy.units import ROW
from .private_step import private_step
from .score import released_successes
from .voters import Voters

_SET_BY_THE_SEARCH = ("epsilon", "delta", "rho", "ledger", "random_state", "verbose", "adjacency")
_PROBES = 50


SMALLEST = Facts(n_rows=1, n_features=1, n_classes=2)
"""What budgets of runs are planned for before the data are seen: facts that leave a plan the least to choose."""


def smallest(unit: str) -> Facts:
    """Return these facts for a unit of protection."""
    return replace(SMALLEST, unit=unit, weighted=unit != ROW)


@dataclass(frozen=True)
class Space:
    """The space of parameters. A draw takes one of these dicts, then each parameter by itself, with replacement."""

    parts: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, given: Any, estimator: Any) -> Space:
        """Return the space that ``param_distributions`` stands for; raise ValueError if it is none."""
        parts = [given] if isinstance(given, Mapping) else given
        if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, Mapping) for part in parts):
            raise ValueError(
                f"param_distributions={given!r} must be a dict of lists or distributions, or a list of such"
            )
        prefix = ""
        while isinstance(estimator, Pipeline):
            name, estimator = estimator.steps[-1]
            prefix += f"{name}__"
        for name, values in (item for part in parts for item in part.items()):
            if not isinstance(name, str):
                raise ValueError(f"param_distributions cannot hold {name!r}: its keys are names of parameters")
            if name.removeprefix(prefix) in _SET_BY_THE_SEARCH:
                raise ValueError(
                    f"param_distributions cannot hold {name!r}: the search sets it for all runs. Give epsilon, delta, "
                    "ledger and random_state to PrivateSearchCV"
                )
            if not _has_draws(values):
                raise ValueError(
                    f"param_distributions[{name!r}]={values!r} must be a list that is not empty, or a distribution "
                    "with a method rvs and its parameters, such as scipy.stats.loguniform(1e-4, 1e-1)"
                )
        return cls(tuple(dict(sorted(part.items())) for part in parts))

    def draw(self, bits: Bits) -> dict[str, Any]:
        """Return parameters, independent of all that were drawn before.

        A distribution is copied for each draw. Otherwise the draws of a distribution that remembers them would not be
        independent, and the object that the caller and the fitted search hold would reveal their number.
        """
        generator = generator_for(bits)

        def one_of(values: Any) -> Any:
            if hasattr(values, "rvs"):
                return copy.deepcopy(values).rvs(random_state=generator)
            return values[int(uniform_below(len(values), 1, bits)[0])]

        return {name: one_of(values) for name, values in one_of(self.parts).items()}

    def probes(self) -> list[dict[str, Any]]:
        """Return all settings, or some of them if there are too many, to find mistakes before the data are touched."""
        if not any(hasattr(values, "rvs") for part in self.parts for values in part.values()):
            grid = ParameterGrid(list(self.parts))
            if len(grid) <= _PROBES:
                return list(grid)
        bits = bits_for(0)  # the same ones always: nothing secret depends on them
        return [self.draw(bits) for _ in range(_PROBES)]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. The guarantee of the run covers everything in it."""

    score: int
    accuracy: float
    parameters: dict[str, Any]
    model: Any


@dataclass(frozen=True)
class Run:
    """Everything that the runs of one search have in common, all of it public.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 11.4)
    A run keeps the bounds of ``search``, whatever parameters it has: an allowance covers its fit, another one its score
    (:class:`~dpsk.privacy.allowance.Allowance`), or it ends without an outcome, which is the worst outcome.
    """

    estimator: Any
    search: BestOf
    start: tuple[float, float]
    """Epsilon and delta of a fit if they are covered; otherwise a smaller epsilon is."""
    adjacency: str
    private: bool
    unit: str = ROW
    seed: int = 0
    """Of the steps in front of the model, which is no secret: their draws must not tell how many runs there were."""

    def model(self, parameters: dict[str, Any]) -> tuple[Any, PrivateClassifier]:
        """Return an unfitted model that shows nothing while it is fitted, and its private step, without ids in X."""
        model = clone(self.estimator).set_params(**clone(parameters, safe=False))
        last = private_step(model)
        if isinstance(model, PrivatePipeline):
            model.in_front().require()
        require_free(last, self.adjacency)
        column = private_step(self.estimator).group_column
        if last.group_column != column:
            raise ValueError(
                f"group_column={last.group_column!r} of a candidate is not {column!r}, that of the estimator: all runs "
                "protect the same persons"
            )
        if column is not None and model is not last:
            raise ValueError(
                f"group_column={column!r} of a step behind others cannot be combined with a search, which takes ids "
                "out before any step sees the table: leave group_column at None, give the ids to fit as groups, and "
                "leave them out of X"
            )
        if model is not last and last.columns is not None:
            raise ValueError(
                f"a search takes {type(last).__name__} alone, not as the end of a pipeline: what becomes of a row that "
                "a step in front refuses is known for numbers only"
            )
        for part in [model, *model.get_params().values()]:
            _silence(part)
        return model, last.set_params(group_column=None)  # the search takes the ids out

    def calibrated(self, last: PrivateClassifier, *facts: Facts) -> None:
        """Set the largest epsilon that the search covers, and the delta that belongs to it."""
        epsilon, delta = self.start

        def budgets_of(epsilon: float) -> list[Budget]:
            return [budget_with(last, known, epsilon, delta) for known in facts]

        last.set_params(epsilon=self.search.strongest(budgets_of, epsilon), delta=delta)

    def facts(self, last: PrivateClassifier, shown: Any, n_classes: int, persons: Persons | None) -> Facts:
        """Return what a fit would know of these rows beforehand; no entry is read."""
        facts = facts_of(last, shown, n_classes)
        if persons is None:
            return facts
        most = facts.n_rows - persons.n + 1
        return replace(facts, n_rows=persons.n, unit=self.unit, weighted=True, most_rows=most)

    def check(self, parameters: dict[str, Any]) -> None:
        """Raise ValueError if a fit with these parameters could not be run, as far as that is known without data."""
        _, last = self.model(parameters)
        budget_with(last, smallest(self.unit), *self.start)

    def require(self, space: Space, facts: Facts, classes: Any) -> None:
        """Raise ValueError if some parameters cannot be fitted to these classes, or for persons.

        ``facts`` are those of the units that a run is fitted on. Not every solver is proved for persons. Without this
        check a run would end without a model, and be paid for.
        """
        epsilon, delta = self.start
        for parameters in space.probes():
            last = self.model(parameters)[1].set_params(epsilon=epsilon, delta=delta)
            with_parameters_of(last, Weighting).require_labels(classes)
            if self.unit != ROW:
                plan_of(last, facts)

    def score_epsilon(self) -> float:
        """Return the largest pure epsilon of a score that is covered."""
        return self.search.strongest(lambda epsilon: [Budget.of(epsilon, 0.0)], self.start[0])

    def __call__(self, *task: Any) -> Outcome | None:
        """Return the outcome, None if there is none. Nothing is printed, warned about, raised or recorded."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._outcome(*task)
        except Exception:
            return None

    def _outcome(
        self,
        parameters: dict[str, Any],
        seeds: tuple[int | None, int | None],
        X: Any,
        y: Any,
        classes: Any,
        shares: tuple[Integers, Integers],
        persons: Persons | None = None,
    ) -> Outcome:
        """Draw nothing but noise: parameters and seeds come from outside, ``shares`` are rows to fit and to score.

        Ids were taken out of ``X``. The fit and the score get the numbers of ``persons`` instead.
        """
        model, last = self.model(parameters)
        train, held_out = shares
        known, column = last.classes, private_step(self.estimator).group_column
        last.set_params(classes=classes, ledger=self._allowance(), random_state=seeds[0])
        shown = fit_in_front(model, rows_of(X, train), y[train], self.seed)
        fitted, voting = (None if persons is None else persons.codes[rows] for rows in shares)
        there = None if fitted is None else Persons.of(keys_of(fitted))
        self.calibrated(last, smallest(self.unit), self.facts(last, shown, len(classes), there))
        last.fit(shown, y[train], **({} if fitted is None else {"groups": fitted}))
        counted, _ = released_successes(
            model,
            rows_of(X, held_out),
            y[held_out],
            Budget.of(self.score_epsilon(), 0.0),
            Voters(groups=voting),
            adjacency=self.adjacency,
            ledger=self._allowance(),
            bits=bits_for(seeds[1]),
        )
        last.set_params(classes=known, group_column=column, ledger=None, random_state=None)
        return Outcome(counted.noisy, counted.accuracy, parameters, model)

    def _allowance(self) -> Allowance:
        return Allowance(self.search, adjacency=self.adjacency, private=self.private, unit=self.unit)


def budget_with(last: PrivateClassifier, facts: Facts, epsilon: float, delta: float) -> Budget:
    """Set epsilon and delta; return the budget of a fit on data with these facts, which is finite in a search."""
    budget = budget_of_plan(last.set_params(epsilon=epsilon, delta=delta), facts)
    if budget is None:
        raise ValueError("a search needs a finite epsilon")
    return budget


def require_free(last: PrivateClassifier, adjacency: str) -> None:
    """Raise ValueError unless the search can set what it has to, and the neighbours are those of the search."""
    if last.adjacency != adjacency:
        raise ValueError(f"adjacency={last.adjacency!r} of a candidate is not {adjacency!r}, that of the estimator")
    for name, remedy in (("rho", "give epsilon and delta"), ("ledger", "give it"), ("random_state", "give it")):
        value = getattr(last, name, None)
        if value is not None:
            raise ValueError(f"{name}={value!r} of the estimator must be None: {remedy} to the search")
    if getattr(last, "accountant", None) == "pld":
        raise ValueError("accountant='pld' of the estimator takes too long to plan for a search: use 'rdp'")


def fit_in_front(model: Any, X: Any, y: Any, seed: int) -> Any:
    """Fit the steps before the private one, and return what it will see. Steps draw the same in all runs."""
    while isinstance(model, Pipeline):
        front = model[:-1]
        if front.steps:
            with settled(front, seed):
                X = transformed(front.fit_transform, X, y)
            model.steps[:-1] = front.steps
        model = model.steps[-1][1]
    return X if hasattr(X, "shape") else np.asarray(X)


def _has_draws(values: Any) -> bool:
    """Return whether this is a list that is not empty, or a distribution with its parameters (if it has any)."""
    if not hasattr(values, "rvs"):
        return isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes) and len(values) > 0
    try:
        copy.deepcopy(values).rvs(random_state=generator_for(bits_for(0)))
    except TypeError:
        return False
    return True


def _silence(part: Any) -> None:
    """Switch off what would show that a fit begins (messages, callbacks, files), and a choice that uses all rows."""
    if not hasattr(part, "get_params") or isinstance(part, type):
        return
    vars(part).pop("_skl_callbacks", None)
    shown = getattr(part, "verbose", None)
    if isinstance(shown, bool | int):
        part.verbose = type(shown)(0)
    if isinstance(part, Pipeline):
        part.memory = None
    if isinstance(part, ColumnTransformer):  # by default the share of zeros in all rows decides
        part.sparse_threshold = float(part.sparse_threshold > 0)
