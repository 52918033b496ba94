"""The entry: attacks on whole fits of one classifier, and the bound on epsilon that they prove."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..privacy import PrivacySpent
from ..privacy.fits_so_far import as_in_a_new_process
from .audit_result import AuditResult
from .claims import Claim
from .compare_models import compare_models
from .finding import Finding
from .neighbouring import Data, made_data, pairs_of
from .one_run import one_run
from .transcripts import adjacency_of, read_transcripts, spent_by

ATTACKS = ("transcript", "model", "one run")
ADJACENCIES = ("zero-out", "replace", "add-remove")
_COLUMNS = 512  # of made data for one run, where each canary needs a direction of its own
_DEAR = 100.0  # a fit that fits into the time fewer times than this is too dear to be repeated


def audit(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    groups: Any = None,
    claim: Any = None,
    adjacency: str | None = None,
    attacks: Sequence[str] | None = None,
    seconds: float = 60.0,
    confidence: float = 0.999,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> AuditResult:
    """Attack whole fits of a classifier, and return a lower bound on the epsilon that it really has.

    A true promise survives every audit, but for a chance of 1 - ``confidence``. An audit that finds nothing proves
    nothing: it shows only that these attacks do not break the promise.

    There are three attackers. One sees the whole transcript of a fit of dpsk, noisy and un-noised values. One sees
    final models, of many fits on two data sets that differ in one row (or person). One sees a single model, whose
    training data have many rows that were put there by coins.

    The result tells about the rows it was made with, because it is computed from them without noise. Use made or public
    data, or keep the result as secret as the data.

    Parameters
    ----------
    estimator : classifier or callable
        A classifier in the manner of scikit-learn, of this library or another; or ``action(X, y)``, which returns what
        it releases. It is not changed. It has to use fresh randomness: a seed makes all fits one. A ledger is left out:
        the fits of an audit are not released.
    X, y : table and labels, or None
        The data that the worst rows are put into. None: a small made table of numbers.
    groups : array or None
        The person of each row: then two data sets differ in all rows of one person.
    claim : (epsilon, delta), PrivacySpent, Claim or None
        What is promised. None: what ``privacy_spent_`` of a fit says, or the parameters ``epsilon`` and ``delta``.
    adjacency : {"zero-out", "replace", "add-remove"} or None
        Which data sets are neighbours. None: what ``privacy_spent_`` says, or "add-remove" if there is none.
    attacks : sequence of {"transcript", "model", "one run"} or None
        None: transcripts where they can be read and final models; one run instead of these where a fit is dear.
    seconds : float
        About how long the audit may take; it ends a little later where a fit takes long.
    confidence : float
        The probability that a true promise is not refuted, and no bound is too high, over all attacks together.
    n_jobs : int or None
        How many processes fit models at a time.
    verbose : int
        1 prints a line for every finding.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> from dpsk import DPLogisticRegression, audit
    >>> result = audit(DPLogisticRegression(epsilon=1.0, delta=1e-6), attacks=["transcript"], seconds=10)
    >>> result.refuted, bool(0.5 < result.epsilon <= 1.0)
    (False, True)
    """
    begun = time.monotonic()
    _require(seconds, confidence, attacks, adjacency)
    _require_data(X, y, groups)
    target = _Target.of(estimator)
    rows, labels = made_data() if X is None else (X, y)
    result, cost = _first_fit(target, rows, labels, groups)
    spent = spent_by(result)
    promised = _claim(claim, spent, estimator)
    plan = _plan(attacks, ours=isinstance(spent, PrivacySpent), dear=cost * _DEAR > seconds)
    neighbours = adjacency or adjacency_of(result) or _without_report(target, plan)
    each: dict[str, Any] = {"error": (1 - confidence) / len(plan), "seconds": max(0.0, seconds - cost) / len(plan)}
    weights = target.is_estimator and has_fit_parameter(estimator, "sample_weight")
    neighbouring = partial(pairs_of, X, y, groups, adjacency=neighbours, takes_weights=weights)
    findings, notes = list[Finding](), list[str]()
    for attack in plan:
        found: Iterable[Finding | str]
        if attack == "transcript":
            found = read_transcripts(target.fit, neighbouring(many=True), promised, **each)
        elif attack == "model":
            real = [pair for pair in neighbouring() if not pair.leaving]
            found = compare_models(target.fit, real, promised, n_jobs=n_jobs, **each)
        else:
            if X is None:
                rows, labels = made_data(_COLUMNS)
            found = _by_one_run(target, rows, labels, promised, groups=groups, adjacency=neighbours, **each)
        for one in found:
            notes.append(one) if isinstance(one, str) else findings.append(one)
            if verbose:
                _tell(one, promised)
    unit = getattr(spent, "unit", "row" if groups is None else "person")
    data = "made data" if X is None else "the data given"
    took = time.monotonic() - begun
    return AuditResult(
        promised, tuple(findings), confidence, target.name, unit, neighbours, took, data, notes=tuple(notes)
    )


def _by_one_run(target: _Target, X: Any, y: Any, claim: Claim, **how: Any) -> list[Finding | str]:
    try:
        return [one_run(target.fit, X, y, claim, **how)]
    except ValueError as reason:  # no columns of numbers, for instance
        return [f"one run: {reason}"]


def _require(seconds: float, confidence: float, attacks: Sequence[str] | None, adjacency: str | None) -> None:
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ValueError(f"seconds={seconds!r} must be a positive finite number")
    if not (isinstance(confidence, float) and 0.5 <= confidence < 1):
        raise ValueError(f"confidence={confidence!r} must lie in [0.5, 1), for instance 0.999")
    if adjacency is not None and adjacency not in ADJACENCIES:
        raise ValueError(f"adjacency={adjacency!r} must be None or one of {ADJACENCIES}")
    if attacks is not None and (isinstance(attacks, str) or not attacks or not set(attacks) <= set(ATTACKS)):
        raise ValueError(f"attacks={attacks!r} must be None or a list of some of {ATTACKS}")


def _require_data(X: Any, y: Any, groups: Any) -> None:
    if (X is None) != (y is None):
        raise ValueError("X and y have to be given together, or neither of them")
    if groups is not None and X is None:
        raise ValueError("groups say whose rows those of X are: give X and y too")


@dataclass(frozen=True, eq=False)
class _Target:
    """What is attacked, as a function of data."""

    name: str
    fit: Callable[[Data], Any]
    is_estimator: bool

    @classmethod
    def of(cls, estimator: Any) -> _Target:
        if hasattr(estimator, "fit") and not isinstance(estimator, type):
            fresh = _without_ledgers(clone(estimator))
            return cls(type(estimator).__name__, partial(_fit, fresh), True)
        if callable(estimator) and not isinstance(estimator, type):
            name = getattr(estimator, "__name__", type(estimator).__name__)
            return cls("an action" if name == "<lambda>" else name, partial(_act, estimator), False)
        raise TypeError(
            f"estimator is a {type(estimator).__name__}: give a classifier with fit, or a function of (X, y) that "
            "returns what it releases"
        )


def _fit(estimator: Any, data: Data) -> Any:
    return clone(estimator).fit(data.X, data.y, **data.arguments)


def _act(action: Callable[..., Any], data: Data) -> Any:
    return action(data.X, data.y, **data.arguments)


def _without_ledgers(estimator: Any) -> Any:
    """Return an estimator without its ledgers; raise ValueError if it has a seed."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if last == "random_state" and value is not None:
            raise ValueError(
                f"{name}={value!r}: all fits would have the same noise, so nothing can be learned from them. Use "
                f"{name}=None"
            )
        if last == "ledger" and value is not None:
            estimator = estimator.set_params(**{name: None})
    return estimator


def _first_fit(target: _Target, X: Any, y: Any, groups: Any) -> tuple[Any, float]:
    """Return what a first fit releases, and how long it took."""
    begun, persons = time.monotonic(), {} if groups is None else {"groups": np.asarray(groups)}
    with warnings.catch_warnings(), as_in_a_new_process():
        warnings.simplefilter("ignore")
        return target.fit(Data(X, y, persons)), time.monotonic() - begun


def _without_report(target: _Target, plan: Sequence[str]) -> str:
    """Return which data sets are neighbours where no report says it; fits of dpsk do not promise what is usual."""
    if "transcript" in plan:
        raise ValueError(
            f"adjacency=None, and what {target.name} returns has no report that says which data sets are neighbours: "
            'give adjacency="zero-out" or adjacency="replace", as the fits of dpsk inside do'
        )
    return "add-remove"


def _claim(given: Any, spent: Any, estimator: Any) -> Claim:
    """Return the promise: the one given, the one in the report of a fit, or that of the parameters."""
    if isinstance(given, Claim):
        return given
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"claim={given!r} must be (epsilon, delta)")
        return Claim(float(given[0]), float(given[1]))
    if given is not None:
        return Claim.of(given)
    if isinstance(spent, PrivacySpent) and not spent.private:
        raise ValueError("nothing is promised of a fit with a seed or without noise, so there is nothing to audit")
    if spent is not None:
        return Claim.of(spent)
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    if "epsilon" not in parameters:
        raise ValueError(
            f"claim=None, but {type(estimator).__name__} has no report, privacy_spent_, and no parameter epsilon: "
            "say what is promised, claim=(epsilon, delta)"
        )
    return Claim(float(parameters["epsilon"]), float(parameters.get("delta") or 0.0))


def _plan(attacks: Sequence[str] | None, *, ours: bool, dear: bool) -> list[str]:
    if attacks is not None:
        return list(dict.fromkeys(attacks))
    readable = ["transcript"] if ours else []
    return [*readable, "one run" if dear else "model"]


def _tell(found: Finding | str, claim: Claim) -> None:
    if isinstance(found, str):
        text = f"not read: {found}"
    else:
        verdict = "REFUTED" if found.refuted else f"epsilon >= {found.epsilon:.3g} of {claim.epsilon:.3g}"
        text = f"{found.attack}, {found.pair}: {verdict} ({found.fits} fits, {found.seconds:.1f} s)"
    print(f"[audit] {text}", file=sys.stdout)
