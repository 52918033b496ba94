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
from .neighbouring import ADD_REMOVE, EITHER, REPLACE, ZERO_OUT, Data, Pair, made_data, pairs_of
from .one_run import one_run
from .transcripts import adjacency_of, read_transcripts, spent_by

ATTACKS = ("transcript", "model", "one run")
ADJACENCIES = (ZERO_OUT, REPLACE, ADD_REMOVE, EITHER)
_COLUMNS = 512  # of made data for one run, where each canary needs a direction of its own
_LONGEST = 200  # characters of the name of an estimator
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
    final models, of many fits on two data sets that differ in one row (or person). One sees a single model, which was
    fitted to rows (or persons) with labels that coins have chosen.

    The result tells about the rows it was made with, because it is computed from them without noise. Use made or public
    data, or keep the result as secret as the data.

    While transcripts are read, the bits of this process are not secret: they come from a stream that is run twice. Fit
    nothing that you will release in another thread meanwhile.

    Parameters
    ----------
    estimator : classifier or callable
        A classifier in the manner of scikit-learn, of this library or another; or ``action(X, y)``, which returns what
        it releases. It is not changed. It has to use fresh randomness: a seed makes all fits one. A ledger is left out:
        the fits of an audit are not released.
    X, y : table and labels, or None
        The data that the worst rows are put into. None: a small made table of numbers, which suits
        all but networks for images: give these some.
    groups : array or None
        The person of each row: then two data sets differ in all rows of one person, and ``fit`` gets ``groups=groups``.
    claim : epsilon, (epsilon, delta), PrivacySpent, Claim or None
        What is promised. None: what ``privacy_spent_`` of a fit says, or the parameters ``epsilon`` and ``delta``.
    adjacency : {"zero-out", "replace", "add-remove", "replace or add-remove"} or None
        Which data sets are neighbours. None: what ``privacy_spent_`` says. If it says nothing, "replace or add-remove":
        rows are replaced, which counts as two changes, and is true for both. Name the right one: then more is found.
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
    _require_processes(n_jobs)
    _require_data(X, y, groups)
    target = _Target.of(estimator)
    given = None if claim is None else _given(claim)
    rows, labels = made_data() if X is None else (X, y)
    result, cost = _first_fit(target, rows, labels, groups)
    spent = spent_by(result)
    promised = given or _claim(spent, estimator)
    neighbours = adjacency or adjacency_of(result) or EITHER
    plan = _plan(attacks, ours=isinstance(spent, PrivacySpent), dear=cost * _DEAR > seconds)
    weights = target.is_estimator and has_fit_parameter(estimator, "sample_weight")
    attacker = _Attacker(target, promised, neighbours, X, y, groups, weights, n_jobs, verbose)
    findings, notes = list[Finding](), list[str]()
    for left in range(len(plan), 0, -1):
        seconds_left = max(0.0, begun + seconds - time.monotonic()) / left
        for one in attacker.tries(plan[-left], error=(1 - confidence) / len(plan), seconds=seconds_left):
            notes.append(one) if isinstance(one, str) else findings.append(one)
            if verbose:
                _tell(one, promised)
    unit = getattr(spent, "unit", "row" if groups is None else "person")
    data = "made data" if X is None else "the data given"
    took = time.monotonic() - begun
    return AuditResult(
        promised, tuple(findings), confidence, target.name, unit, neighbours, took, data, notes=tuple(notes)
    )


@dataclass(frozen=True, eq=False)
class _Attacker:
    """Makes attacks of each kind on one target."""

    target: _Target
    claim: Claim
    adjacency: str
    X: Any
    y: Any
    groups: Any
    takes_weights: bool
    n_jobs: int | None
    verbose: int

    def tries(self, attack: str, **how: Any) -> Iterable[Finding | str]:
        """Return what an attack finds, or in words why it could not be made; ``how`` has its error and its time."""
        if attack == "transcript":
            return read_transcripts(self.target.fit, self._pairs(many=True), self.claim, **how)
        if attack == "model":
            real, progress = [pair for pair in self._pairs() if not pair.leaving], _progress(self.verbose)
            return compare_models(self.target.fit, real, self.claim, n_jobs=self.n_jobs, progress=progress, **how)
        X, y = made_data(_COLUMNS) if self.X is None else (self.X, self.y)
        two = ZERO_OUT if self.adjacency == EITHER else self.adjacency  # a coin replaces a unit: two changes
        try:
            return [one_run(self.target.fit, X, y, self.claim, groups=self.groups, adjacency=two, **how)]
        except ValueError as reason:  # no columns of numbers, for instance
            return [f"one run: {reason}"]

    def _pairs(self, *, many: bool = False) -> list[Pair]:
        how: dict[str, Any] = {"adjacency": self.adjacency, "takes_weights": self.takes_weights, "many": many}
        return pairs_of(self.X, self.y, self.groups, **how)


def _require(seconds: float, confidence: float, attacks: Sequence[str] | None, adjacency: str | None) -> None:
    if isinstance(seconds, bool) or not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ValueError(f"seconds={seconds!r} must be a positive finite number")
    if not (isinstance(confidence, float) and 0.5 <= confidence < 1):
        raise ValueError(f"confidence={confidence!r} must lie in [0.5, 1), for instance 0.999")
    if adjacency is not None and adjacency not in ADJACENCIES:
        raise ValueError(f"adjacency={adjacency!r} must be None or one of {ADJACENCIES}")
    if attacks is not None and (isinstance(attacks, str) or not attacks or not set(attacks) <= set(ATTACKS)):
        raise ValueError(f"attacks={attacks!r} must be None or a list of some of {ATTACKS}")


def _require_processes(n_jobs: int | None) -> None:
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be None or a whole number other than 0; -1 means all cores")


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
            fresh = _ready(clone(estimator))
            return cls(" ".join(repr(fresh).split())[:_LONGEST], partial(_fit, fresh), True)
        if callable(estimator) and not isinstance(estimator, type):
            name = getattr(estimator, "__name__", type(estimator).__name__)
            return cls("a function" if name == "<lambda>" else name, partial(_act, estimator), False)
        if isinstance(estimator, type):
            raise TypeError(f"{estimator.__name__} is a class: give an instance, {estimator.__name__}(...)")
        raise TypeError(
            f"estimator is a {type(estimator).__name__}: give a classifier with fit, or a function of (X, y) that "
            "returns what it releases"
        )


def _fit(estimator: Any, data: Data) -> Any:
    with as_in_a_new_process():
        return clone(estimator).fit(data.X, data.y, **data.arguments)


def _act(action: Callable[..., Any], data: Data) -> Any:
    with as_in_a_new_process():
        return action(data.X, data.y, **data.arguments)


def _ready(estimator: Any) -> Any:
    """Return an estimator without its ledgers; raise ValueError if it has a seed, or finds persons by itself."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if last == "random_state" and value is not None:
            raise ValueError(
                f"{name}={value!r}: all fits would have the same noise, so nothing can be learned from them. Use "
                f"{name}=None"
            )
        if last == "group_column" and value is not None:
            raise ValueError(
                f"{name}={value!r}: an audit changes all rows of a person, so it has to know whose they are. Use "
                f"{name}=None and groups=X[{value!r}], without this column in X"
            )
        if last == "ledger" and value is not None:
            estimator = estimator.set_params(**{name: None})
    return estimator


def _first_fit(target: _Target, X: Any, y: Any, groups: Any) -> tuple[Any, float]:
    """Return what a first fit releases, and how long it took."""
    begun, persons = time.monotonic(), {} if groups is None else {"groups": np.asarray(groups)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return target.fit(Data(X, y, persons)), time.monotonic() - begun


def _given(claim: Any) -> Claim:
    """Return the promise that was given."""
    if isinstance(claim, Claim):
        return claim
    if hasattr(claim, "epsilon"):
        return Claim.of(claim)
    number = isinstance(claim, int | float | np.number) and not isinstance(claim, bool)
    pair = [claim, 0.0] if number else claim
    if not (isinstance(pair, list | tuple | np.ndarray) and len(pair) == 2):
        raise ValueError(f"claim={claim!r} must be epsilon, (epsilon, delta) or the report of a fit")
    return Claim(float(pair[0]), float(pair[1]))


def _claim(spent: Any, estimator: Any) -> Claim:
    """Return the promise in the report of a fit, or that of the parameters."""
    if isinstance(spent, PrivacySpent) and not spent.private:
        raise ValueError("nothing is promised of a fit with a seed or without noise, so there is nothing to audit")
    if spent is not None:
        return Claim.of(spent)
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    if "epsilon" not in parameters:
        what = type(estimator).__name__ if hasattr(estimator, "fit") else "what the function returns"
        raise ValueError(
            f"claim=None, but {what} has no report, privacy_spent_, and no parameter epsilon: say what is promised, "
            "claim=(epsilon, delta)"
        )
    return Claim(float(parameters["epsilon"]), float(parameters.get("delta") or 0.0))


def _plan(attacks: Sequence[str] | None, *, ours: bool, dear: bool) -> list[str]:
    if attacks is not None:
        return list(dict.fromkeys(attacks))
    readable = ["transcript"] if ours else []
    return [*readable, "one run" if dear else "model"]


def _progress(verbose: int) -> Callable[[float, str], None] | None:
    """Return what tells how far the attack on models is, every tenth of its time; None where nobody listens."""
    told = [0.0]

    def tell(share: float, text: str) -> None:
        if share >= told[0]:
            told[0] = share + 0.1
            print(f"[audit] model: {share:.0%} of the time, {text}", file=sys.stdout)

    return tell if verbose else None


def _tell(found: Finding | str, claim: Claim) -> None:
    if isinstance(found, str):
        text = f"not read: {found}"
    else:
        verdict = "REFUTED" if found.refuted else f"epsilon >= {found.epsilon:.3g} of {claim.epsilon:.3g}"
        text = f"{found.attack}, {found.pair}: {verdict} ({found.fits} fits, {found.seconds:.1f} s)"
    print(f"[audit] {text}", file=sys.stdout)
