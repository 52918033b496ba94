"""The one ``fit``: it builds the trusted core, runs a solver behind its door, and keeps nothing but what was
released."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, NoReturn, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import CALLER_OF_FIT, CallbackSupportMixin, callback_context, with_callbacks
from ..data import ArrayTable, Chunks, Columns, PrivateData, Rows, Table, is_dask, row_scores
from ..data.tables import Coding
from ..encodings.standardization import find_ranges, standardise
from ..losses import Loss
from ..mechanisms import bits_for
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats
from ..penalties import L2, Penalty
from ..privacy import ZCDP, Budget, Ledger, conversions
from ..privacy.currencies import Currency
from ..privacy.durable.store import set_aside
from ..privacy.report import NEIGHBOURS, PrivacySpent, warn_not_private
from ..solvers import Solver, run
from .blocks import by_blocks
from .nonprivate import minimise
from .parameters import NOT_TAKEN, as_bounds, as_classes, in_own_words, require_choice, require_number
from .validation import dask_table, is_mapped, stored_table, validated, validated_rows

__all__ = ["Facts", "PrivateClassifier", "accounted", "doubts", "encode", "refuse_fit_parameters"]


@dataclass(frozen=True)
class Facts:
    """What is public about the data of a fit: weights are counted per class."""

    n_rows: int
    n_weights: int
    n_classes: int


class PrivateClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all private linear classifiers.

    Subclasses give ``_loss(n_classes)``, ``_solver()`` and ``_check_parameters()``; their constructors have the
    parameters read here. A fitted model holds what was released (``coef_``, ``intercept_``), public facts
    (``classes_``, ``n_features_in_``) and the frozen report ``privacy_spent_``: no rows, sums, norms, counts,
    random state or live ledger.
    """

    epsilon: float
    delta: float
    rho: float | None = None
    alpha: float
    fit_intercept: bool
    data_norm: float | None
    bounds: Any
    standardize: str | None
    classes: Any
    adjacency: str
    ledger: Any = None
    random_state: int | None
    verbose: int

    _currency: Currency = ZCDP()
    """What the budget is kept in."""
    _row_major = False
    """Whether rows are kept side by side, for batches of them."""
    _exact_at_infinity = False
    """Whether epsilon = inf asks for the exact model rather than being an error."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = in_own_words(cls.__init__)  # type: ignore[method-assign]

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """Return the loss for this many classes: scores (n,) for two, (n, K) for more."""

    @abstractmethod
    def _solver(self) -> Solver:
        """Return the solver with this estimator's parameters."""

    def _penalty(self) -> Penalty:
        """Return the penalty on the mean loss."""
        return L2(self._strength(), free_intercept=bool(self.fit_intercept))

    def _returned(self, known: Any) -> None:
        """Take what the solver returned about its last iterate, if it did."""

    def _budget(self, facts: Facts | None = None) -> Budget:
        """Return the cap of the fit. Before the data are seen facts are None; they may change the currency only."""
        del facts
        if self.rho is not None:
            return Budget.from_rho(self.rho, self.delta)
        return Budget.of(self.epsilon, self.delta, currency=self._currency)

    def _may_change_currency(self) -> bool:
        """Return whether the number of rows may decide what the budget is kept in."""
        return False

    def _is_exact(self) -> bool:
        return self._exact_at_infinity and self.rho is None and self.epsilon == math.inf

    def _row_bound(self) -> float | None:
        """Return the public norm that rows are scaled down to as they are, None for no bound."""
        return self.data_norm

    def _strength(self) -> float:
        """Return alpha as a number, where it is one."""
        return float(self.alpha)

    def _check_parameters(self) -> None:
        """Raise ValueError for a bad parameter, before any data are touched."""
        self._check_strength()
        require_choice("adjacency", self.adjacency, tuple(NEIGHBOURS))
        if not isinstance(self.verbose, bool):
            require_number("verbose", self.verbose, 0, kind=Integral)
        if self.data_norm is not None:
            require_number("data_norm", self.data_norm, 0, open_low=True)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise ValueError(f"fit_intercept={self.fit_intercept!r} must be True or False")
        if self.standardize is not None:
            require_choice("standardize", self.standardize, ("private",), or_none=True)
        if self.bounds is not None:
            as_bounds(self.bounds)
        if self.classes is not None:
            as_classes(self.classes)
        if self._row_bound() is not None and (self.bounds is not None or self.standardize is not None):
            raise ValueError(
                f"data_norm={self.data_norm!r} cannot be combined with bounds or standardize='private': it bounds rows "
                "as they are, the others change columns first. Leave data_norm out, or bounds and standardize"
            )

    def _check_strength(self) -> None:
        require_number("alpha", self.alpha, 0)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> Self:
        """Fit the model within its privacy budget.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Training data, finite. Larger than memory: a ``numpy.memmap``, :class:`~dpsk.Chunks`, or a Dask array or
            DataFrame.
        y : array-like of shape (n_samples,)
            Class labels; a Dask array or Series beside one of Dask; None for chunks that hold their labels. Their set
            is treated as public; pass ``classes`` to fix it beforehand.
        **unsupported
            Anything else, ``sample_weight`` included, is refused with a reason unless it is None.

        Returns
        -------
        self
            The fitted estimator.
        """
        unsupported = {name: value for name, value in unsupported.items() if value is not None}
        if unsupported:
            refuse_fit_parameters(unsupported)
        self._check_parameters()
        if self._is_exact():
            require_number("delta", self.delta, 0)
        budget = None if self._is_exact() else self._budget()
        bits = bits_for(self.random_state)
        # what is set aside is what is fitted, whatever anybody does to the parameters meanwhile
        label, private, adjacency = type(self).__name__, bits.private, self.adjacency
        warn_not_private(noisy=budget is not None, seeded=not private, stacklevel=CALLER_OF_FIT)
        try:
            with (
                set_aside(self.ledger, budget, label=label, adjacency=adjacency, private=private) as ledger,
                accounted(self, ledger, adjacency=adjacency, private=private),
            ):
                self._fit(X, y, ledger, bits, adjacency)
            return self
        except MemoryError:
            pass  # its message tells the sizes of arrays, which may be numbers of entries
        raise MemoryError("X does not fit into memory: a numpy.memmap, dpsk.Chunks or a Dask collection needs less")

    def _fit(self, X: Any, y: Any, ledger: Ledger | None, bits: Bits, adjacency: str) -> None:
        """Fit within the budget of ``ledger``, or without any privacy where it is None."""
        table = self._table(X, y)
        (n_rows, n_features), classes = table.shape, known_classes(table.seen(), self.classes)
        n_classes, coding = None if len(classes) == 2 else len(classes), partial(as_labels, classes)
        if ledger is not None:
            facts = Facts(n_rows, n_features + bool(self.fit_intercept), len(classes))
            ledger.replan(self._budget(facts))
            for doubt in doubts(ledger.budget, n_rows, facts.n_weights * (n_classes or 1)):
                warnings.warn(doubt, UserWarning, stacklevel=CALLER_OF_FIT + 1)
        context = callback_context(self)
        if context is not None:
            context.call_on_fit_task_begin(estimator=self)
        if ledger is None:
            columns: Columns | None = None
            given = cast(ArrayTable, table)  # _table sees to that
            w = minimise(given.X, coding(given.y), self._loss(len(classes)), self._strength(), bool(self.fit_intercept))
            spent = PrivacySpent.nothing_promised(self._currency, delta=float(self.delta), adjacency=adjacency)
            self.evaluations_ = dict[str, float]()
        else:
            w, columns = self._learn(table, coding, n_classes, ledger, bits, classes, context, adjacency)
            spent = PrivacySpent.of(ledger, adjacency=adjacency, private=bits.private)
        fitted = self._attributes(w, columns, classes)
        self.privacy_spent_ = spent
        for name, value in fitted.items():
            setattr(self, name, value)
        if context is not None:
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes=lambda: fitted)

    def _learn(
        self,
        table: Table,
        coding: Coding,
        n_classes: int | None,
        ledger: Ledger,
        bits: Bits,
        classes: Any,
        context: Any,
        adjacency: str,
    ) -> tuple[Floats, Columns | None]:
        """Return the weights that the solver finds behind the door, and the map of the columns they are for.

        The map of the columns is fixed first: by public bounds, by releases, or not at all.
        """
        intercept, shape = bool(self.fit_intercept), () if n_classes is None else (n_classes,)

        def door(rows: Rows) -> PrivateData:
            return PrivateData(rows, ledger, bits, adjacency=adjacency)

        columns: Columns | None = None
        if self.bounds is not None:
            columns = _columns_within(as_bounds(self.bounds), table.shape[1], through_zero=not intercept)
        if self.standardize is not None:
            if columns is None:
                columns = find_ranges(door(table.raw()), through_zero=not intercept)
            placed = door(table.rows(coding, n_classes=n_classes, columns=columns, fit_intercept=False))
            columns = standardise(placed, columns, centred=intercept)
            del placed  # before the next ones are made
        rows = table.rows(
            coding,
            n_classes=n_classes,
            fit_intercept=intercept,
            data_norm=self._row_bound(),
            columns=columns,
            row_major=self._row_major,
        )
        data = door(rows)
        observe = self._observer(data, lambda w: self._attributes(w, columns, classes), context)
        loss, weights = self._loss(len(classes)), (data.n_parameters, *shape)
        w = run(self._solver(), data, loss, self._penalty(), weights, observe, self._returned)
        self.evaluations_ = data.evaluations
        return w, columns

    def _table(self, X: Any, y: Any) -> Table:
        """Return the data, checked, wherever they are."""
        if is_dask(X) or isinstance(X, Chunks):
            if self._is_exact():
                raise ValueError("epsilon=inf fits the exact model in memory: give it an array")
            if is_dask(X):
                self._check_remote()
            table: Table = dask_table(self, X, y) if is_dask(X) else stored_table(self, X, y)
        elif is_mapped(X) and not self._is_exact():
            table = stored_table(self, X, y)
        else:
            return ArrayTable(*self._validated(X, y))
        self._check_size(*table.shape)
        return table

    def _check_remote(self) -> None:
        """Raise ValueError if rows have to be in this process."""

    def _check_size(self, n_rows: int, n_features: int) -> None:
        """Raise ValueError if there are too few rows or too many columns."""

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return X and y as scikit-learn checks them; an error does not quote their values."""
        if is_dask(X):
            raise ValueError("X is a Dask collection, but rows in memory are needed here: give an array")
        X, y = validated(self, X, y)
        self._check_size(*X.shape)
        return X, y

    def _attributes(self, w: Floats, columns: Columns | None, classes: Any) -> dict[str, Any]:
        """Return the fitted attributes that weights of shape (p,) or (p, K) stand for, in the user's units."""
        ranges = None
        if columns is not None:
            w, ranges = columns.in_user_units(w, bool(self.fit_intercept)), np.array([columns.low, columns.high])
        rows = w.reshape(len(w), -1).T
        coef, intercept = (rows[:, :-1], rows[:, -1]) if self.fit_intercept else (rows, np.zeros(len(rows)))
        fitted = {"classes_": classes, "coef_": coef.copy(), "intercept_": intercept.copy(), "ranges_": ranges}
        return fitted | {"data_norm_": None if self._is_exact() else self._row_bound()}

    def _observer(
        self, data: PrivateData, attributes: Callable[[Floats], dict[str, Any]], context: Any
    ) -> Callable[[Floats], bool]:
        """Return what is called with every iterate: progress and callbacks see released values only, never X or y."""
        count, shown = 0, -1

        def observe(w: Floats) -> bool:
            nonlocal count, shown
            count += 1
            tenths = int(10 * (1 - data.remaining / data.budget.limit))
            if self.verbose and (tenths > shown or self.verbose > 1):
                shown = tenths
                used = 100 * (1 - data.remaining / data.budget.limit)
                print(f"[{type(self).__name__}] iterate {count}: {used:.0f}% of the budget used")
            if context is None:
                return False
            task = context.subcontext(task_name="iterate")
            task.call_on_fit_task_begin(estimator=self)
            return bool(task.call_on_fit_task_end(estimator=self, reconstruction_attributes=lambda: attributes(w)))

        return observe

    @by_blocks
    def decision_function(self, X: Any) -> Floats:
        """Return the scores: shape (n_samples,) for two classes, (n_samples, n_classes) for more.

        Values beyond ``ranges_`` count as the end of the range, and rows longer than ``data_norm_`` as shorter ones, as
        they did in ``fit``. The score of a row depends on that row and the model alone, bit for bit: not on other rows,
        their number, or how they are stored.
        """
        check_is_fitted(self, "coef_")
        X = validated_rows(self, X)
        scores = row_scores(X, self.coef_, self.intercept_, self.ranges_, self.data_norm_)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the predicted class labels."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: callbacks, which may hold anything, stay behind once a fit has ended."""
        state: dict[str, Any] = super().__getstate__()
        if "privacy_spent_" in state:
            state = {name: value for name, value in state.items() if "callback" not in name}
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # a report alone is what a fit leaves that came to nothing

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # noise is drawn anew in every fit, and a small data set at epsilon = 1 deserves a poor score
        tags.non_deterministic = self.random_state is None
        tags.classifier_tags.poor_score = True
        return tags


@contextmanager
def accounted(model: Any, ledger: Ledger | None, *, adjacency: str, private: bool) -> Iterator[None]:
    """Forget the earlier fit of a model, and of one that ends in an error in here all but what it spent."""
    _forget(model)
    try:
        yield
    except BaseException:  # an interruption, too: what was released stays released
        _forget(model)
        if ledger is not None and ledger.charged > 0:
            model.privacy_spent_ = PrivacySpent.of(ledger, adjacency=adjacency, private=private, complete=False)
        raise


def _forget(model: Any) -> None:
    for name in [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]:
        delattr(model, name)


_HOPELESS = 8.0  # typical gradients that all rows together must be worth, in units of the noise


def doubts(budget: Budget, n: int, weights: int, *, delta: float | None = None) -> Iterator[str]:
    """Yield what makes a fit questionable, as far as public facts tell; ``delta`` is that of what it is a part of."""
    delta = budget.delta if delta is None else delta
    if delta > 1 / n:
        yield (
            f"delta={delta:g} is larger than 1/n = {1 / n:.2g}: a mechanism that publishes a random "
            "row would satisfy it. Choose delta well below 1/n"
        )
    if budget.delta == 0:  # the norm of pure noise grows with the number of weights, not with its root
        noise = weights / budget.epsilon
    else:
        rho = budget.currency.rho(budget.limit)
        if rho is None:  # sampled batches: about as noisy as all rows would be for the same promise
            rho = conversions.zcdp_rho(budget.epsilon, budget.delta)
        noise = math.sqrt(weights / (2 * rho))
    if n < _HOPELESS * noise:
        pure = ", or spend a delta, whose noise grows with their root only" if budget.delta == 0 else ""
        yield (
            f"epsilon={budget.epsilon:.3g} with {n} rows and {weights} weights: the noise is nearly as large as the "
            "sum of all gradients, so expect little more than chance. Raise epsilon, add rows, or use fewer "
            "columns or classes"
            f"{pure}"
        )


def encode(y: Any, classes: Any) -> tuple[Any, Any]:
    """Return the public set of classes, and the position of each label in it."""
    classes = known_classes(np.unique(y), classes)
    return classes, np.searchsorted(classes, y)


def known_classes(seen: Any, classes: Any) -> Any:
    """Return the public set of classes, sorted: those given, or those seen."""
    if classes is not None:
        classes = as_classes(classes)
        if (seen.dtype.kind in "OUT") != (classes.dtype.kind in "OUT"):
            kind = "text" if seen.dtype.kind in "OUT" else "numbers"
            raise ValueError(f"y holds {kind}, but classes={classes.tolist()!r}: give both text, or both numbers")
        if not np.isin(seen, classes).all():
            raise ValueError("y contains labels that are not in classes: list every label that may occur")
        return classes
    classes = seen
    if classes.dtype.kind == "f" and (classes != np.trunc(classes)).any():
        raise ValueError(
            "Unknown label type: continuous. y holds numbers that are not whole, as a regression target does; if they "
            "are labels, list them all in classes"
        )
    if len(classes) < 2:
        raise ValueError(
            "the data have one class only, but a classifier needs samples of at least 2 classes; "
            "if others may occur, list them all in classes"
        )
    return classes


def as_labels(classes: Any, y: Any) -> Any:
    """Return labels as losses take them: -1 and 1 for two classes, otherwise the position of each in ``classes``."""
    codes = np.searchsorted(classes, y)
    return 2.0 * codes - 1 if len(classes) == 2 else codes


def _columns_within(bounds: tuple[Floats, Floats], n_features: int, *, through_zero: bool) -> Columns:
    """Return the map of columns with public bounds; without an intercept, 0 has to stay where it is."""
    low, high = bounds
    if low.ndim == 1 and len(low) != n_features:
        raise ValueError(f"bounds are given for {len(low)} columns, but X has {n_features}")
    if through_zero:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    return Columns.within(low, high, n_features)


def refuse_fit_parameters(unsupported: dict[str, Any]) -> NoReturn:
    """Raise what a fit says to anything besides X and y."""
    names = ", ".join(sorted(unsupported))
    for name, remedy in NOT_TAKEN.items():
        if name in unsupported:
            raise (ValueError if name == "sample_weight" else TypeError)(remedy)
    raise TypeError(f"fit got unexpected arguments: {names}. It takes X and y, and nothing else")
