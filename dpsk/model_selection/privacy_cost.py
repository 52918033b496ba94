"""What any fit, search or cross-validation will cost, before it runs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..data import is_dask
from ..privacy.durable.store import as_ledger
from ..privacy.durable.terms import CURRENCIES, Amount, Terms, amount_in, epsilon_of, float_above
from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up
from ..privacy.units import ROW, several
from .fit_sums import Fits, OneFit
from .fits_of import Known, Notes, fits_of, holds_private
from .fits_of_searches import FUNCTIONS, SEARCHES, cross_validation


@dataclass(frozen=True)
class PrivacyCost:
    """The guarantee of all fits of a call together, and the budget that they need.

    Parameters
    ----------
    fits : int
        How many private models are fitted, at most. A fit that is refused, for rows of one class alone, costs nothing.
    fits_on_a_row : int
        How many of them see any one row, or any row of one person, at most.
    epsilon, delta : float
        The guarantee of all fits together for one unit; inf where no theorem gives one, or a fit is not private.
    composition : str
        By which theorem: "basic", "rho" or "mu**2".
    needs, left : dict or None
        What the fits reserve in the ledger, and what it has left. A ledger counts every fit for every row.
    enough : bool or None
        Whether all fits go through.
    folds_are_public : bool
        Whether the folds follow from the number of rows alone. Stratified folds look at the labels; the guarantee then
        takes the fold of each row as public.
    adjacency : {"zero-out", "replace"}
        Which data sets are neighbours.
    unit : str
        What is protected: "row", or the persons whose rows are protected together.
    leaks : tuple of str
        What the call publishes beside the private fits, and nothing pays for: a sentence for each.
    exact : bool
        Whether ``fits`` is their number; otherwise there may be fewer.
    """

    fits: int
    fits_on_a_row: int
    epsilon: float
    delta: float
    composition: str
    needs: dict[str, float] | None
    left: dict[str, float] | None
    enough: bool | None
    folds_are_public: bool
    adjacency: str
    unit: str = ROW
    leaks: tuple[str, ...] = ()
    exact: bool = True

    def statement(self) -> str:
        """Return the cost in words, and what the cost does not include."""
        fits = f"{self.fits} fit{'s' * (self.fits != 1)}"
        most = "" if self.exact else "At most "
        said = [f"{most}{fits}; any one {self.unit} is seen by {self.fits_on_a_row} of them."]
        if self.epsilon == math.inf:
            said.append(
                "Nothing is guaranteed for them together (epsilon is infinite): a fit is not private, or delta = "
                f"{self.delta:g} is too small."
            )
        else:
            said.append(
                f"Their models together are ({round_up(self.epsilon, 4)}, {round_up(self.delta, 3)})-differentially "
                f"private ({self.composition} composition), provided that every other step of a pipeline treats each "
                f"row by itself; two data sets are neighbours when "
                f"{Adjacency(self.adjacency).words(self.unit)}."
            )
        if self.unit != ROW:
            said.append(f"The numbers of {several(self.unit)} and of rows in each training set count as public.")
        if not self.folds_are_public:
            said.append(
                "That takes the fold of each row as public, although these folds may depend on labels or ids: KFold "
                "has folds that do not."
            )
        if self.enough is not None:
            needs, left = (_words(amount) for amount in (self.needs, self.left))
            enough = "enough" if self.enough else "NOT ENOUGH"
            said.append(f"The ledger has {left} left and they reserve {needs}: {enough}.")
        return " ".join([*said, *self.leaks])

    def __str__(self) -> str:
        return self.statement()


def privacy_cost(
    what: Any,
    /,
    *args: Any,
    delta: float | None = None,
    ledger: Any = None,
    n_rows: int | None = None,
    n_features: int | None = None,
    n_classes: int | None = None,
    n_outputs: int | None = None,
    **kwargs: Any,
) -> PrivacyCost:
    """Return what a fit, a search or a cross-validation costs; nothing is fitted.

    Put it in front of a call: ``privacy_cost(cross_validate, model, X, y, cv=5)``. Of X and y only the shape and the
    set of labels are looked at. docs/costs.md lists what meta-estimators cost, and what they leak.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 12.8 and 12.10; docs/guarantees.md, 16.3 to 16.5)
    Epsilon and delta cover all models together, not what ``leaks`` names. They come from sums of epsilon and delta, of
    rho (Bun & Steinke 2016) or of mu**2 (Dong, Roth & Su 2022). With k folds of ``KFold`` or ``RepeatedKFold`` k - 1
    of k fits count for a row; otherwise, and for persons, all fits count.

    Parameters
    ----------
    what : estimator, search or function
        One of dpsk's estimators, or a meta-estimator of scikit-learn around some, nested in any way: what one ``fit``
        costs, or with ``cv`` a cross-validation. Or a function, such as ``cross_validate`` or ``learning_curve``.
    *args, **kwargs
        The arguments of the function. For an estimator ``X``, ``y``, ``groups`` and ``cv``, all of them optional. With
        groups the unit is the person if fits get them too (``set_fit_request(groups=True)`` and metadata routing).
    delta : float or None
        The delta of the guarantee. None: the sum of the deltas of the fits that see one row.
    ledger : PrivacyLedger, path or None
        The ledger to ask. None: the one of the estimators, if they have one.
    n_rows, n_features, n_classes, n_outputs : int or None
        Public facts about all of the data, if X and y are not given. Numbers of fits may depend on them, and so may the
        rho or mu**2 of a fit (``solver="auto"``, objective perturbation). For persons n_rows is their number.

    Examples
    --------
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from dpsk import DPLogisticRegression, privacy_cost
    >>> privacy_cost(OneVsRestClassifier(DPLogisticRegression()), n_classes=3).fits
    3
    """
    given: Any = delta
    if given is not None and not (isinstance(given, int | float) and 0 <= given < 1):
        raise ValueError(f"delta={delta!r} must be None or lie in [0, 1)")
    call, notes = _call(what, args, kwargs), Notes()
    fits = _fits(what, call, _known(call, n_rows, n_features, n_classes, n_outputs), notes)
    return _cost(fits, notes, delta, ledger)


def _fits(what: Any, call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    if not holds_private(call["estimator"]):
        name = getattr(call["estimator"], "__name__", type(call["estimator"]).__name__)
        raise ValueError(f"{name} has no private estimator inside: what one fit of it costs is not known")
    if inspect.isfunction(what):
        return FUNCTIONS[what](call, known, notes)
    if call["cv"] is not None:
        return cross_validation(call, known, notes)
    return fits_of(what, known, notes)


def _arguments(estimator: Any, X: Any = None, y: Any = None, groups: Any = None, *, cv: Any = None) -> None:
    """Have the parameters of :func:`privacy_cost` for an estimator."""


def _call(what: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name; X and y may be missing."""
    if inspect.isfunction(what) and what not in FUNCTIONS:
        names = ", ".join(sorted(function.__name__ for function in FUNCTIONS))
        raise ValueError(f"which fits {what.__name__} makes is not known. Known are {names}, and estimators")
    if type(what) in SEARCHES and kwargs.get("cv") is not None:
        raise ValueError(
            "cv is for an estimator: a search has its own. A cross-validation of a search is "
            "privacy_cost(cross_validate, search, cv=...)"
        )
    if inspect.isfunction(what):
        bound = inspect.signature(what).bind_partial(*args, **kwargs)
    else:
        bound = inspect.signature(_arguments).bind(what, *args, **kwargs)
    bound.apply_defaults()
    call = {"X": None, "y": None} | bound.arguments
    missing = [name for name in bound.signature.parameters if name not in call]
    if missing:
        raise ValueError(f"privacy_cost({what.__name__}, ...) needs {', '.join(missing)}")
    call["groups"] = (call.get("params") or {}).get("groups") if call["groups"] is None else call["groups"]
    return call


def _known(
    call: Mapping[str, Any], n_rows: int | None, n_features: int | None, n_classes: int | None, n_outputs: int | None
) -> Known:
    """Return the public facts of a call: those that are told, and otherwise those that X and y show."""
    X, y, groups = (call[name] for name in ("X", "y", "groups"))
    shown_rows, shown_columns = _shape(X)
    shown_classes, shown_outputs = _labels(y)
    rows, columns, classes, outputs = (
        shown if told is None else told
        for told, shown in (
            (n_rows, shown_rows), (n_features, shown_columns), (n_classes, shown_classes), (n_outputs, shown_outputs)
        )
    )  # fmt: skip
    least = 2 if classes is not None and (outputs or 1) > 1 else classes  # an output may have fewer than others
    return Known(
        rows=None if rows is None else (rows, rows),
        columns=None if columns is None else (columns, columns),
        classes=None if classes is None or least is None else (least, classes),
        outputs=outputs,
        data=(X, y, groups),
        table=X,
    )


def _shape(X: Any) -> tuple[int | None, int | None]:
    """Return the numbers of rows and columns, as far as they show."""
    shape = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    whole = [int(n) if isinstance(n, int | np.integer) else None for n in (*shape, None, None)]
    return whole[0], whole[1]


def _labels(y: Any) -> tuple[int | None, int | None]:
    """Return the numbers of different labels and of outputs, as far as they show."""
    if y is None or is_dask(y):
        return None, None
    if hasattr(y, "toarray"):
        return 2, int(y.shape[1])
    y = np.asarray(y)
    return len(set(y.ravel().tolist())), int(y.shape[1]) if y.ndim == 2 else 1


def _cost(fits: Fits, notes: Notes, delta: float | None, ledger: Any) -> PrivacyCost:
    leaves = list(fits.leaves())
    for name, values in (
        ("adjacency", [fit.adjacency for fit in leaves]),
        ("ledger", [fit.model.ledger for fit in leaves]),
        ("the unit of protection", [fit.unit for fit in leaves]),
    ):
        if any(value != values[0] for value in values):
            raise ValueError(
                f"the members or the candidates differ in {name}, so their costs do not add up to one guarantee"
            )
    unit, adjacency = (leaves[0].unit, leaves[0].adjacency) if leaves else (ROW, Adjacency.ZERO_OUT.value)
    epsilon, at_delta, composition = _guarantee(fits, leaves, notes, delta, spared=unit == ROW)
    needs, left, enough = None, None, None
    durable = as_ledger(leaves[0].model.ledger if ledger is None and leaves else ledger)
    if durable is not None:
        terms, remaining = durable.terms(), durable.left()
        reserved, unit = _reserved(fits, leaves, terms), terms.unit
        needs, left, enough = terms.as_dict(reserved), terms.as_dict(remaining), reserved.fits_into(remaining)
    fits_in_all, fits_on_a_row = (int(fits.total(_one, spared=s and unit == ROW)) for s in (False, True))
    return PrivacyCost(
        fits=fits_in_all,
        fits_on_a_row=fits_on_a_row,
        epsilon=epsilon,
        delta=at_delta,
        composition=composition,
        needs=needs,
        left=left,
        enough=enough,
        folds_are_public=notes.folds_are_public,
        adjacency=adjacency,
        unit=unit,
        leaks=tuple(notes.leaks),
        exact=notes.exact,
    )


def _one(fit: OneFit) -> Fraction:
    return Fraction(1)


def _looked_up(leaves: Sequence[OneFit], amounts: Sequence[Fraction]) -> Callable[[OneFit], Fraction]:
    """Return a function from a fit to its amount."""
    by_identity = {id(fit): amount for fit, amount in zip(leaves, amounts, strict=True)}
    return lambda fit: by_identity[id(fit)]


def _guarantee(
    fits: Fits, leaves: Sequence[OneFit], notes: Notes, delta: float | None, *, spared: bool
) -> tuple[float, float, str]:
    """Return epsilon, delta and the name of the theorem for all fits that see one unit."""
    if not notes.bounded or not all(fit.private for fit in leaves):
        return math.inf, 1.0 if delta is None else delta, "basic"
    stated = [[fit.stated(name) for fit in leaves] for name in ("epsilon", "delta")]
    summed, deltas = (float_above(fits.total(_looked_up(leaves, side), spared=spared)) for side in stated)
    delta = deltas if delta is None else delta
    basic = summed if deltas <= delta else math.inf
    epsilon, name = min([(basic, "basic"), *_by_currency(fits, leaves, delta, spared=spared)])
    return epsilon, delta, name


def _by_currency(fits: Fits, leaves: Sequence[OneFit], delta: float, *, spared: bool) -> Iterator[tuple[float, str]]:
    """Yield the epsilon that follows from sums in each currency in which all budgets have an amount."""
    for name, currency in CURRENCIES.items():
        if currency is None or delta == 0:
            continue
        amounts = [None if fit.budget is None else amount_in(fit.budget, currency) for fit in leaves]
        exact = [amount for amount in amounts if amount is not None]
        if leaves and len(exact) == len(leaves):
            sides = [[Fraction(part) for part in side] for side in zip(*exact, strict=True)]
            main, failure = (float_above(fits.total(_looked_up(leaves, side), spared=spared)) for side in sides)
            yield epsilon_of(currency, main, failure, delta), name


def _reserved(fits: Fits, leaves: Sequence[OneFit], terms: Terms) -> Amount:
    """Return what a ledger with these terms sets aside for all fits; raise ValueError if it refuses one."""
    prices = [fit.price(terms) for fit in leaves]
    main, delta = ([getattr(price, part) for price in prices] for part in ("main", "delta"))
    return Amount(fits.total(_looked_up(leaves, main)), fits.total(_looked_up(leaves, delta)))


def _words(amount: dict[str, float] | None) -> str:
    return " and ".join(f"{name} {value:.6g}" for name, value in (amount or {}).items())
