"""Cross-validation that is paid for: k fits, and one noisy count over all rows, each judged by a model without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..data import Chunks, Facts, Unknown, UnknownFact, is_dask
from ..data.persons import Persons
from ..estimators.classifier import PrivateClassifier
from ..estimators.plan import plan_of
from ..mechanisms import Bits, bits_for
from ..pipelines import PrivatePipeline
from ..privacy import Budget, PrivacyLedger, PrivacySpent
from ..privacy.durable.store import as_ledger
from ..privacy.durable.terms import NOTHING
from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up, warn_not_private
from ..privacy.units import ROW, several, unit_of
from ..requirements import require_name
from .fold_data import FoldData, opened
from .judging import correct
from .private_step import private_step
from .score import released_votes, require_noise, require_possible
from .together import CrossValidationCost, cost_of, prices, require_room_for_all
from .voters import Voters

_CALLER = "private_cross_validate"


@dataclass(frozen=True)
class PrivateCrossValidation:
    """The result of a cross-validation that is paid for.

    Parameters
    ----------
    accuracy : float
        The noisy part of rows that are predicted right by the model which was fitted without them, in [0, 1]. Where
        persons are protected, each person counts once, with the part of its rows that is right.
    interval : pair of floats
        Where the mean accuracy of these k models on the *population* lies, if the rows (or persons) are an independent
        random sample of it. A model is weighted by the part of the rows that it judged. This is an approximation: it
        takes the right predictions of different models as independent, and holds less often where models are weak
        (docs/guarantees.md, 16.7; measured in docs/tuning.md).
    interval_on_rows : pair of floats
        Where the exact part of right predictions on *these rows* (or persons) lies: it allows for the noise only, and
        holds whatever the models are.
    confidence : float
        How often each interval holds what it is for; nearly so for the population.
    n_rows, n_units : int
        The numbers of rows and of units, rows or persons. They are public.
    models : tuple of fitted estimators
        The k models. They are paid for, and may be used.
    privacy_spent : PrivacySpent
        The guarantee of the score alone. Those of the models are in their ``privacy_spent_``.
    cost : CrossValidationCost
        What all of it guarantees together for each row, or person.
    """

    accuracy: float
    interval: tuple[float, float]
    interval_on_rows: tuple[float, float]
    confidence: float
    n_rows: int
    n_units: int
    models: tuple[Any, ...]
    privacy_spent: PrivacySpent
    cost: CrossValidationCost

    @property
    def unit(self) -> str:
        """What is protected: "row", or a person with all rows."""
        return self.privacy_spent.unit

    def statement(self) -> str:
        """Return a paragraph for a report."""
        cost, unit, units = self.cost, self.unit, several(self.unit)
        if cost.epsilon == math.inf:
            return (
                "NOT PRIVATE: a fit had no noise, or noise from a known seed (random_state), or the score had. Whoever "
                "knows the seed can subtract the noise."
            )
        (low, high), confidence = self.interval, math.floor(1e6 * self.confidence) / 1e6
        held = f"{self.n_rows} rows" + ("" if unit == ROW else f" of {self.n_units} {units}")
        return (
            f"{cost.fits} models were fitted, and each of {held} was judged by the one model that was fitted without "
            f"this {unit}. {cost.fits_on_a_row} of the models saw any one {unit}. These models and the accuracy "
            f"{self.accuracy:.3f} together were released with ({round_up(cost.epsilon, 4)}, "
            f"{round_up(cost.delta, 3)})-differential privacy for each of these {units} ({cost.composition} "
            f"composition): neighbours differ in that {Adjacency(self.privacy_spent.adjacency).words(unit)}. "
            f"{self._public()}If the {units} are a random sample, the mean accuracy of the models on their population "
            f"lies between {math.floor(1e3 * low) / 1e3:.3f} and {math.ceil(1e3 * high) / 1e3:.3f} with approximately "
            f"{confidence:g} confidence, noise and sampling considered. Other releases from these {units} add to it."
        )

    def _public(self) -> str:
        if self.unit == ROW:
            return ""
        return (
            f"The fold of each {self.unit}, which follows from a key and from its id, and the numbers of "
            f"{several(self.unit)} and of rows in each fold count as public. "
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain Python values, ready for JSON (what is infinite becomes None): no models."""
        plain = {known.name: getattr(self, known.name) for known in fields(self)}
        plain["models"] = [type(private_step(model)).__name__ for model in self.models]
        plain["interval"], plain["interval_on_rows"] = list(self.interval), list(self.interval_on_rows)
        cost = {known.name: getattr(self.cost, known.name) for known in fields(self.cost)}
        plain["cost"] = {name: None if value == math.inf else value for name, value in cost.items()}
        return plain | {"privacy_spent": self.privacy_spent.to_dict()}


def private_cross_validate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    cv: int = 5,
    groups: Any = None,
    group_column: str | None = None,
    confidence: float = 0.95,
    ledger: Any = None,
    random_state: int | None = None,
) -> PrivateCrossValidation:
    """Return k models, each fitted without one fold of the rows, and their accuracy on what they were fitted without.

    Each fit costs the budget of the model, and ``epsilon`` pays for one count over all rows. With the same seed the
    numbers are the same on arrays, DataFrames, ``numpy.memmap``, :class:`~dpsk.Chunks` and Dask collections.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 16.6 and 16.7)
    A row, or a person with all rows, is missing from one training set. So k - 1 fits and the score count for it:
    ``cost``. Folds are dealt by lot; no value has a say. A row that a model refuses is wrong, in silence.

    Parameters
    ----------
    model : classifier of dpsk, or a PrivatePipeline
        Its clones are fitted. A pipeline takes rows in memory, in files or in chunks, but not on Dask.
    X, y : as ``fit`` takes them
        The set of all labels is public, and each fit is told it. Chunks and Dask give the same rows every time.
    epsilon : float
        The price of the score. Its noise has a standard deviation of about 1.4/epsilon rows, or persons.
    cv : int, default=5
        The number k of folds.
    groups, group_column : array-like and str, or None
        Whose row it is: ids, or the column that holds them, which becomes the ``group_column`` of the models.
    confidence : float, default=0.95
        How often the intervals hold.
    ledger : PrivacyLedger, path or None, default=None
        The ledger of all fits and the score; None: that of the model. It is asked for all together before the first.
    random_state : int or None, default=None
        None: secure randomness. An int makes folds, fits and score reproducible and NOT private.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression, private_cross_validate
    >>> found = private_cross_validate(DPLogisticRegression(2.0), *load_breast_cancer(return_X_y=True), epsilon=0.5)
    >>> found.cost.fits, found.cost.fits_on_a_row
    (5, 4)
    """
    run = _Run.of(model, X, groups, epsilon, cv, group_column, ledger, bits_for(random_state))
    require_possible(_CALLER, run.model, confidence, run.last.adjacency)
    run.require_room([Unknown()] * run.n_folds)
    warn_not_private(noisy=True, seeded=not run.bits.private, stacklevel=2)
    return run.result(run.opened(X, y, groups), confidence)


@dataclass(frozen=True, eq=False)
class _Run:
    """What was asked for, checked as far as that is possible without the data. ``last`` is the private step."""

    model: Any
    last: PrivateClassifier
    n_folds: int
    budget: Budget
    unit: str
    ledger: PrivacyLedger | None
    bits: Bits

    @classmethod
    def of(cls, model: Any, X: Any, groups: Any, epsilon: float, cv: Any, column: Any, ledger: Any, bits: Bits) -> _Run:
        n_folds, (asked, last) = _n_folds(cv), _asked(model, column, ledger)
        budget, unit = Budget.of(epsilon, 0.0), unit_of(last.group_column, grouped=groups is not None)
        require_noise(budget, last.adjacency)
        _require_storage(asked, last, X, groups)
        with suppress(UnknownFact):
            plan_of(last, Unknown())  # or its error
        return cls(asked, last, n_folds, budget, unit, as_ledger(last.ledger), bits)

    @property
    def piped(self) -> bool:
        """Whether other steps stand in front of the private one."""
        return self.model is not self.last

    def require_room(self, facts: Sequence[Facts | Unknown]) -> bool:
        """Ask the ledger for fits on data with these facts, and the score; return whether they tell what to ask for."""
        if self.ledger is None:
            return True
        last, terms, adjacency, seeded = self.last, self.ledger.terms(), self.last.adjacency, not self.bits.private
        exact = math.isinf(float(last.epsilon)) and getattr(last, "rho", None) is None
        private = not seeded and last.random_state is None and not exact
        terms.require_fit(type(last).__name__, adjacency, private, self.unit)
        self.ledger.require_room(self.budget, label=_CALLER, adjacency=adjacency, private=not seeded, unit=self.unit)
        fits = prices(last, facts, terms) if private else [NOTHING] * self.n_folds
        if fits:
            require_room_for_all(self.ledger, fits, NOTHING if seeded else terms.price(self.budget))
        return bool(fits)

    def opened(self, X: Any, y: Any, groups: Any) -> FoldData:
        """Return the data, checked; raise for all that the fits and the ledger would refuse, as far as facts tell."""
        data = opened(self.last, X, y, groups, n_folds=self.n_folds, bits=self.bits, piped=self.piped)
        facts: Sequence[Facts | Unknown] = data.training_facts() or [Unknown()] * self.n_folds
        if not self.piped:
            told = clone(self.last).set_params(classes=data.classes)
            for known in facts:
                plan_of(told, known)  # or its error
        if not self.require_room(facts):
            raise ValueError(
                f"what a fit of this pipeline costs in {self.ledger!r} depends on what its steps make of the columns: "
                "name a solver, or use a ledger with currency='basic'"
            )
        return data

    def result(self, data: FoldData, confidence: float) -> PrivateCrossValidation:
        """Fit all models, and pay for their score."""
        models = [self.fitted(data, fold) for fold in range(self.n_folds)]
        promise: Any = {"label": _CALLER, "adjacency": self.last.adjacency, "unit": self.unit, "ledger": self.ledger}
        promise["asked"] = {"estimator": type(self.model), "epsilon": self.budget.epsilon, "cv": self.n_folds}
        counted, spent = released_votes(lambda: _judged(models, data), self.budget, bits=self.bits, **promise)
        score = counted.score(confidence, spent)
        cost = cost_of([private_step(model).privacy_spent_ for model in models], spent, self.ledger)
        released = score.accuracy, score.interval, score.interval_on_rows, confidence, score.n_rows, score.n_units
        return PrivateCrossValidation(*released, tuple(models), spent, cost)

    def fitted(self, data: FoldData, fold: int) -> Any:
        """Return a model that was fitted without a fold. It is told all classes: a fold may hold all rows of one."""
        model = clone(self.model)
        last = private_step(model).set_params(classes=data.classes)
        if not self.bits.private:
            last.set_params(random_state=int.from_bytes(self.bits.take(8), "little"))
        X, y, codes = data.share(fold, held=False)
        given = {} if codes is None else {f"{_prefix(model)}groups": codes}
        with config_context(enable_metadata_routing=False):
            model.fit(X, y, **given)
        last.set_params(classes=self.last.classes, random_state=self.last.random_state)
        return model


def _n_folds(cv: Any) -> int:
    """Return the number of folds; raise ValueError for anything else that scikit-learn calls cv."""
    if type(cv) is not bool and isinstance(cv, int | np.integer) and 2 <= cv <= 1000:
        return int(cv)
    if isinstance(cv, Number | str) or cv is None:
        raise ValueError(f"cv={cv!r} must be an integer between 2 and 1000, the number of folds")
    given = type(cv).__name__
    raise ValueError(
        f"cv is a {given}, but it must be the number of folds, such as 5. Rows are dealt to folds by lot, each with no "
        "regard to values: where folds follow from labels, sizes of groups or given lists, other rows would decide in "
        "which fold a row is, and it could be in every training set"
    )


def _asked(model: Any, group_column: Any, ledger: Any) -> tuple[Any, PrivateClassifier]:
    """Return a clone of the model that has the column of ids and the ledger, and its private step."""
    private_step(model)  # or its error
    asked = clone(model)
    last = private_step(asked)
    for name, value in (("group_column", group_column), ("ledger", ledger)):
        own = getattr(last, name)
        if value is not None and own not in (None, value):
            raise ValueError(
                f"{name}={value!r} is not that of the model, {own!r}: leave one of them out. All fits and the score "
                "are about the same rows"
            )
    if group_column is not None:
        require_name("group_column", group_column)
        last.set_params(group_column=group_column)
    return asked, last if ledger is None else last.set_params(ledger=ledger)


def _require_storage(asked: Any, last: PrivateClassifier, X: Any, groups: Any) -> None:
    """Raise ValueError for what no values could mend."""
    if groups is not None and last.group_column is not None:
        raise ValueError(f"group_column={last.group_column!r} and groups cannot be combined: leave one of them out")
    out_of_memory = isinstance(X, Chunks) or is_dask(X)
    if isinstance(asked, PrivatePipeline):
        asked.in_front().require()
        if is_dask(X):
            raise ValueError("X is a Dask collection, and the model a pipeline: give Chunks, or the classifier alone")
    elif asked is not last:
        raise ValueError(
            f"steps of a {type(asked).__name__} may learn from rows, and their errors tell of rows: give a pipeline of "
            "dpsk.make_pipeline, which refuses that"
        )
    if out_of_memory and math.isinf(float(last.epsilon)):
        raise ValueError("epsilon=inf fits the exact model in memory: give it an array")


def _prefix(model: Any) -> str:
    """Return what stands before a parameter of ``fit`` of the last step."""
    prefix = ""
    while isinstance(model, Pipeline):
        name, model = model.steps[-1]
        prefix += f"{name}__"
    return prefix


def _judged(models: Sequence[Any], data: FoldData) -> tuple[NDArray[np.bool_], Persons | None]:
    """Return which rows the model without them gives their label, and whose rows they are."""
    right = np.zeros(len(data.labels), dtype=np.bool_)
    for fold, model in enumerate(models):
        rows = data.held_out(fold)
        if len(rows):
            X, _, codes = data.share(fold, held=True)
            shown, _ = Voters.of(model, X, codes, None).apart(X)
            right[rows] = correct(model, shown, data.labels[rows])
    return right, data.persons
