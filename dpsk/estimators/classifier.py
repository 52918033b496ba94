"""The one ``fit``: it carries out a plan behind the door of the trusted core, and keeps what was released."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import CALLER_OF_FIT, CallbackSupportMixin, with_callbacks
from ..data import Door, Facts, RowMap, Table, Unknown, UnknownFact
from ..data.labels import as_classes
from ..encodings.weighting import require_class_weight
from ..mechanisms import bits_for
from ..mechanisms.samplers import Floats
from ..privacy.durable import require_room, set_aside, without_path
from ..privacy.fits_so_far import count_fit
from ..privacy.ledger import Ledger, Recorded
from ..privacy.neighbours import Adjacency
from ..privacy.report import PrivacySpent, warn_not_private
from ..privacy.units import unit_of
from ..requirements import checked, clip, number, require_name, require_number
from ..solvers import run
from ..solvers.calibrated import Calibrated
from .blocks import by_blocks
from .constructor import InOwnWords, in_own_words, refuse_unsupported
from .documentation import documented
from .exported import Exported
from .fitted_scores import scores_of
from .nonprivate import minimise
from .opening import open_table, rows_for
from .plan import Plan, doubts, plan_of
from .progress import Progress


def _require_verbose(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        require_number(name, value, 0, kind=Integral)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(InOwnWords, Exported, CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all private classifiers.

    A subclass declares its parameters as fields, which become keyword arguments of the constructor and carry their
    checks (:mod:`dpsk.requirements`), and gives ``_plan(facts)``. A fitted model holds what was released (weights: the
    objective of the plan says under which names), public facts (``classes_``, ``n_features_in_``) and the frozen report
    ``privacy_spent_``: no rows, sums, norms, counts, random state or live ledger.

    Parameters
    ----------
    epsilon, delta : float
        The privacy guarantee of the fit. Choose delta well below 1/n_samples.
    alpha : float
        Strength of the L2 penalty on the mean loss: the objective is mean(loss) + alpha/2 * ||coef||^2, in the units
        that are fitted, so ``alpha = 1 / (C * n_samples)`` in terms of scikit-learn's C.
    classes : array-like or None
        All labels that may occur. None: the labels seen, which are then treated as public.
    group_column : str or None
        The name of a column that tells whose row it is. A person is then protected with all rows, however many they
        are, and counts as one row; the column is no feature. ``fit`` takes ``groups`` instead. None: each row is
        protected by itself. See docs/persons.md.
    class_weight : dict, "balanced" or None
        What rows count by their label; a label that a dict leaves out has 1. "balanced" gives all classes the same
        weight together. A small part of the budget pays for a count of the classes, also with a dict.
    weight_bound : float or None
        The public bound of ``sample_weight``: larger weights count as this one. It must not be taken from the data.
        None: 1.0, with a warning where there are such weights.
    adjacency : {"zero-out", "replace"}
        Which data sets are neighbours: they differ by one row that leaves every sum, or by one row that is replaced.
        With ids they differ by all rows of one person. Replacement needs about twice the noise.
    ledger : PrivacyLedger, path or None
        One budget for everything that is done with the same data (:class:`~dpsk.PrivacyLedger`), or the path of its
        file. The fit sets its whole budget aside there before it computes anything for release, or raises
        :class:`~dpsk.BudgetExhausted` and draws nothing. Clones and worker processes share it.
    random_state : int or None
        None: secure noise from the operating system. An int makes the fit reproducible and NOT private.
    verbose : int
        1 prints progress at every tenth of the budget, 2 at every iterate. Only released values are shown.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    evaluations_ : dict
        How many gradients ("gradient"), Hessians ("Hessian"), losses (in searches: "losses", "gains") and scores that
        were counted ("outcomes") were computed, in passes over the rows: 500 gradients of batches of a tenth are 50. It
        is the number expected, and tells nothing about how many rows a random batch held. Empty for objective and
        output perturbation, whose problem is solved without noise.
    privacy_spent_ : PrivacySpent
        The guarantee (fixed before the fit) and the releases that were made under it. ``privacy_spent_.statement()`` is
        a paragraph for a report. A fit that ends in an error after a release leaves only this attribute.
    class_weight_ : ndarray of shape (n_classes,)
        The weights of classes; "balanced" ones follow from a noisy count. Only where ``class_weight`` is given.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), if X had string column names
    """

    epsilon: float = field(default=1.0, kw_only=False)
    delta: float = field(default=1e-6, kw_only=False)
    alpha: float = number(1e-4)
    classes: Any = checked(None, lambda name, value: as_classes(value))
    group_column: str | None = checked(None, require_name)
    class_weight: Any = checked(None, require_class_weight)
    weight_bound: float | None = clip(None)
    adjacency: str = checked("zero-out", lambda name, value: Adjacency(value))
    ledger: Any = None
    random_state: int | None = checked(None, lambda name, value: bits_for(value))
    verbose: int = checked(0, _require_verbose)

    columns: ClassVar[Any] = None
    """What is said about the columns of a raw table; None for estimators of tables of numbers."""

    _described_by: ClassVar[tuple[type, ...]] = ()
    """Solvers whose docstrings describe parameters of this class."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        hidden = [known.name for known in fields(cls) if known.name.startswith("_")]
        if hidden:
            raise TypeError(
                f"{cls.__name__}.{hidden[0]} would become a parameter: annotate it as a ClassVar, or not at all"
            )
        cls.__init__ = in_own_words(cls.__init__)  # type: ignore[method-assign]
        cls._written, cls.__doc__ = cls.__doc__, documented(cls)

    _written: ClassVar[str | None]

    @abstractmethod
    def _plan(self, facts: Facts | Unknown) -> Plan:
        """Return what a fit on data with these facts does; raise ValueError for a bad parameter.

        It is asked once before the data are seen, to refuse what no data could mend, and once with their facts. It
        reads a fact only where the algorithm or the budget depends on it.
        """

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **unsupported: Any) -> Self:
        """Fit the model within its privacy budget.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Training data; numbers have to be finite, but for :class:`~dpsk.DPTabularClassifier`, which takes columns of
            any type with missing entries. Larger than memory: a ``numpy.memmap``, :class:`~dpsk.Chunks`, or a Dask
            array or DataFrame.
        y : array-like of shape (n_samples,)
            Class labels; a Dask array or Series beside one of Dask; None for chunks that hold their labels. Their set
            is treated as public; pass ``classes`` to fix it beforehand.
        sample_weight : array-like of shape (n_samples,), or None
            What each row counts, from 0 (what is negative counts as 0) to ``weight_bound``. Weights are private, like
            rows. A weight must depend on the rows of its own person only: weights from boosting, from fitted
            propensities or from counts of classes depend on other rows, and void the guarantee.
        groups : array-like of shape (n_samples,), or None
            Whose row it is: equal entries are one person, and so are all missing ones. See ``group_column``, which is
            safer on Dask: ``groups`` need a source that gives the same rows in the same order every time.
        **unsupported
            Anything else is refused with a reason unless it is None.

        Returns
        -------
        self
            The fitted estimator.
        """
        refuse_unsupported(unsupported)
        # what is set aside is what is fitted, whatever anybody does to the parameters meanwhile
        asked = copy.copy(self)
        bits, adjacency, ledger = bits_for(asked.random_state), asked.adjacency, asked.ledger
        early = asked._early_plan()
        exact = early is not None and early.budget is None
        unit = unit_of(asked.group_column, grouped=groups is not None)
        promise: Any = {
            "label": type(self).__name__,
            "adjacency": adjacency,
            "private": bits.private and not exact,
            "unit": unit,
        }
        require_room(ledger, None if early is None else early.budget, **promise)
        warn_not_private(noisy=not exact, seeded=not bits.private, stacklevel=CALLER_OF_FIT)
        try:
            with accounted(self) as account:
                table = open_table(self, X, y, asked, sample_weight, groups, in_memory=exact)
                plan = plan_of(asked, table.facts)
                plan.weighting.require(table, plan.budget)
                if plan.budget is None and not exact:  # the facts had to be known to tell that it is the exact model
                    warn_not_private(noisy=False, seeded=False, stacklevel=CALLER_OF_FIT)
                self._warn(
                    (*doubts(plan, table.facts, adjacency=adjacency), *(() if exact else plan.weighting.doubts(table)))
                )
                table_of: Any = {"columns": table.facts.n_features, "names": table.facts.names, "unit": unit}
                count_fit(ledger, plan.budget, adjacency=adjacency, private=promise["private"], **table_of)
                with set_aside(ledger, plan.budget, **promise, asked=asked) as reserved:
                    account.door = Door(reserved, bits, adjacency) if isinstance(reserved, Ledger) else None
                    self._carry_out(plan, table, account.door or reserved, asked)
            return self
        except MemoryError:
            pass  # its message tells the sizes of arrays, which may be numbers of entries; so it is not attached below
        raise MemoryError("X does not fit into memory: a numpy.memmap, dpsk.Chunks or a Dask collection needs less")

    def _early_plan(self) -> Plan | None:
        """Return the plan as far as it is known before the data are seen; refuse what no data could mend."""
        try:
            return plan_of(self, Unknown())
        except UnknownFact:
            return None

    def _carry_out(self, plan: Plan, table: Table, door: Door | Recorded, asked: Self) -> None:
        """Learn the encoding, run the solver, and set the fitted attributes."""
        facts, progress = table.facts, Progress(self, table.classes)
        if isinstance(door, Recorded):
            how, evaluations = RowMap(fit_intercept=bool(plan.encoding.fit_intercept)), dict[str, float]()
            objective = plan.objective.on(facts.n_features + how.fit_intercept, facts.n_classes)
            calibrate = isinstance(plan.solver, Calibrated)
            result, of_classes = minimise(table, objective, how, plan.weighting, calibrate=calibrate)
            report = PrivacySpent.nothing_promised(asked.delta, asked.adjacency, facts.unit, door)
            report = replace(report, **table.sizes)
        else:
            how = _suitable(plan.encoding.learned(door, table), plan, table.facts)
            if not plan.objective.linear:
                how = replace(how, fit_intercept=False)  # its layers have biases
            left_out = plan.encoding.left_out(how)
            self._warn(() if left_out is None else (left_out,), deeper=1)
            weighed = plan.weighting.learned(door, table, how)
            if plan.solver.certifies:
                weighed = weighed.over(facts.n_rows)
            how, of_classes = weighed.how, weighed.of_classes
            data = door.open(table.rows(how), weight=weighed.weight)
            objective = plan.objective.on(data.n_parameters, facts.n_classes).of_weighed(weighed.multiple)
            result = run(plan.solver, data, objective, progress.observer(data, objective, how))
            columns = () if facts.schema is None else facts.schema.words
            given = table.sample_weight is not None
            report = replace(door.report(), columns=columns, weighted=given, **table.sizes)
            evaluations = data.evaluations
        self._warn(result.diagnostics.doubts, deeper=1)
        fitted = progress.attributes(objective, result.w, how)
        shown = {f"{name}_": value for name, value in result.diagnostics.attributes.items()}
        if of_classes is not None:
            shown["class_weight_"] = of_classes
        if not objective.linear:
            shown["solver_"] = plan.solver  # rules have chosen some of its numbers
        for name, value in {**shown, **fitted, "privacy_spent_": report, "evaluations_": evaluations}.items():
            setattr(self, name, value)
        progress.end(fitted)

    def _warn(self, doubts: Iterable[str], *, deeper: int = 0) -> None:
        for doubt in doubts:
            warnings.warn(doubt, UserWarning, stacklevel=CALLER_OF_FIT + 1 + deeper)

    @by_blocks
    def decision_function(self, X: Any) -> Floats:
        """Return the scores: shape (n_samples,) for two classes, (n_samples, n_classes) for more.

        Values beyond their range count as its end, and rows longer than ``data_norm_`` as shorter ones, as they did in
        ``fit``. The score of a row depends on that row and the model alone, bit for bit: not on other rows,
        their number, or how they are stored.
        """
        check_is_fitted(self)
        scores = np.concatenate([scores_of(self, rows) for rows in rows_for(self, X)])
        return scores.ravel() if scores.shape[1] == 1 else scores

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the predicted class labels."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: without an absolute path, and after a fit without callbacks.

        Callbacks may hold anything.
        """
        state = without_path(super().__getstate__())
        if "privacy_spent_" in state:
            state = {name: value for name, value in state.items() if "callback" not in name}
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")  # a report alone is what a fit leaves that came to nothing

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        raw = self.columns is not None
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = raw
        # noise is drawn anew in every fit, and a small data set at epsilon = 1 deserves a poor score
        tags.non_deterministic = self.random_state is None
        tags.classifier_tags.poor_score = True
        return tags


def _suitable(how: Any, plan: Plan, facts: Facts) -> RowMap:
    """Return what an encoding learned; raise if it is no map of these rows."""
    name = type(plan.encoding).__name__
    if not isinstance(how, RowMap):
        raise TypeError(f"{name}.learned returned {type(how).__name__}: it must return a RowMap")
    wanted = (facts.n_features if how.features is None else how.features.n_features) + how.n_added
    n_columns = wanted if how.columns is None else len(how.columns.low)
    if how.n_classes != facts.n_scores or n_columns != wanted:
        raise ValueError(
            f"{name}.learned returned a RowMap of n_classes={how.n_classes} and {n_columns} columns, but the data have "
            f"table.facts.n_scores={facts.n_scores} and {wanted} columns"
        )
    return how


@dataclass
class Account:
    """What a fit has paid with, if it came to that."""

    door: Door | None = None


@contextmanager
def accounted(model: Any) -> Iterator[Account]:
    """Forget the earlier fit of a model, and account for one that ends in an error in here.

    One that had released something leaves its report and nothing else. One that had not leaves the model as it was.
    """
    account, earlier = Account(), _fitted(model)
    _replace_fitted(model, {})
    try:
        yield account
    except BaseException:  # an interruption, too: what was released stays released
        report = None if account.door is None else account.door.report(complete=False)
        spent = report is not None and report.charged > 0
        _replace_fitted(model, {"privacy_spent_": report} if spent else earlier)
        raise


def _fitted(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}


def _replace_fitted(model: Any, attributes: dict[str, Any]) -> None:
    for name in _fitted(model):
        delattr(model, name)
    vars(model).update(attributes)
