"""Audits of other libraries' private estimators, beside those of dpsk: what they promise, and what attacks find.

Attacks: "twins" is ``dpsk.testing.check_twins``, which compares all that a fit shows on data sets that differ in one
row. "models" is ``dpsk.audit``, which sees final models of many fits on neighbours that it makes. All others are the
same attacker on one pair of data sets that was made by hand, where it looks at one number, or at everything.
Rows of a library that is not installed are left out, and the report says so.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from dpsk import Categories, audit, check_twins

from ..experiment import write
from ..inside import Claim, Data, Pair, compare_models, extreme_rows, made_data
from ..table import Row, Rows, Table, markdown

EPSILON, DELTA, CONFIDENCE, SECONDS, STREAMS = 1.0, 1e-5, 0.999, 20.0, 12
TWINS, MODELS = "twins", "models"
OWN, LONGEST = "Bern", 180
MODERATE = ("a row beyond all others", "a row of zeros", "a row twice", "an unknown category", "another label")
"""Rows of 1e308 tell libraries apart that warn of an overflow; these rows are for what fits do with ordinary ones."""

PACKAGES = {"diffprivlib": "diffprivlib.models", "interpret": "interpret.privacy", "dpsk": "dpsk"}
DISTRIBUTIONS = {"diffprivlib": ("diffprivlib",), "interpret": ("interpret-core", "interpret"), "dpsk": ("dpsk",)}


def years() -> tuple[np.ndarray, np.ndarray]:
    """Return 100 rows of one column: numbers far from zero, compared with their range."""
    rng = np.random.default_rng(0)
    return rng.integers(1990, 2021, size=(100, 1)).astype(float), np.arange(100) % 2


def towns() -> tuple[pd.DataFrame, np.ndarray]:
    """Return 100 rows of one column of text with two values."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({"town": np.array(["Ulm", "Rom"], dtype=object)[rng.integers(0, 2, 100)]}), np.arange(100) % 2


@dataclass(frozen=True)
class Known:
    """A pair of data sets that was made by hand, and what the attacker looks at of a model."""

    pair: Callable[[], Pair]
    view: Callable[[Any], Any]
    seconds: float = SECONDS


def all_of(model: Any) -> Any:
    return model


def other_town() -> Pair:
    X, y = towns()
    other = X.copy()
    other.iloc[0, 0] = OWN
    # of size 2, so that the verdict holds if rows are added or removed too
    return Pair(f"one row: the town {OWN}, which no other row has, or that of others", Data(other, y), Data(X, y), 2)


def other_class() -> Pair:
    X, y = years()
    other = y.copy()
    other[0] = 1 - y[0]
    return Pair("one row: class 0 or class 1", Data(X, y), Data(X, other), 2)


def mean_inside(model: Any) -> dict[str, float]:
    """Return whether class 0 seems to have 50 rows, and its mean lies inside of the bounds."""
    return {"mean inside": float(model.class_count_[0] == 50 and 1990 < model.theta_[0, 0] < 2020)}


def long_row() -> Pair:
    zeros, y = np.zeros((10, 1)), np.arange(10) % 2
    other = zeros.copy()
    other[-1] = 1000.0
    return Pair("one row: 1000 or 0, among rows of 0", Data(other, y), Data(zeros, y))


def small_weight(model: Any) -> dict[str, float]:
    return {"small weight": float(abs(model.coef_[0, 0]) < 0.005)}


def two_rows() -> Pair:
    one, other = np.array([[-1.0], [0.0]]), np.array([[-1.0], [1.0]])
    return Pair("one of two rows: 0 or 1, beside -1", Data(one, np.array([0, 1])), Data(other, np.array([0, 1])))


def central_intercept(model: Any) -> dict[str, float]:
    weight = abs(model.coef_[0, 0])
    return {"central intercept": float(weight > 5 and abs(model.intercept_[0]) < 0.4 * weight)}


def lone_row() -> Pair:
    zeros, y = np.zeros((24, 2)), np.arange(24) % 2
    other = zeros.copy()
    other[0] = 0.7
    return Pair("one row: (0.7, 0.7) or (0, 0), among rows of (0, 0)", Data(other, y), Data(zeros, y))


def iterations(model: Any) -> dict[str, float]:
    return {"n_iter_": float(model.n_iter_[0])}


def weights(model: Any) -> dict[str, Any]:
    return {"coef_": model.coef_}


TOWN = {"category": Known(other_town, all_of)}
INTERCEPT = {"intercept": Known(two_rows, central_intercept, 100.0)}
PARTS = {"n_iter_": Known(lone_row, iterations), "coef_": Known(lone_row, weights)}


@dataclass(frozen=True)
class Case:
    """An estimator with its public parameters, data for it, the delta that it promises, and the attacks."""

    library: str
    estimator: str
    configuration: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: Callable[[], tuple[Any, np.ndarray]] = made_data
    delta: float = 0.0
    attacks: tuple[str, ...] = (TWINS, MODELS)
    known: Mapping[str, Known] = field(default_factory=dict)

    def made(self) -> Any | None:
        """Return the estimator, or None if the library is not installed."""
        try:
            Estimator = getattr(import_module(PACKAGES[self.library]), self.estimator)
        except ImportError:
            return None
        with_delta = {"delta": self.delta} if self.delta else {}
        return Estimator(epsilon=EPSILON, **with_delta, **self.parameters)

    @property
    def claim(self) -> Claim:
        return Claim(EPSILON, self.delta)


NORM, RANGE = {"data_norm": 1.0}, {"bounds": (-1.0, 1.0)}
NUMBERS = {"feature_types": ["continuous"] * 2, "privacy_bounds": np.array([[-1.0, 1.0]] * 2)}
LOGISTIC, BAYES = ("diffprivlib", "LogisticRegression"), ("diffprivlib", "GaussianNB")
SCALER = "diffprivlib", "StandardScaler"
EBM = "interpret", "DPExplainableBoostingClassifier"
QUICK = {"n_jobs": 1, "max_rounds": 3}
"""Fewer rounds have less noise each: the promise is the same."""

CASES = [
    Case(*LOGISTIC, "default: data_norm=None"),
    Case(*LOGISTIC, "data_norm=1", NORM, known=INTERCEPT),
    Case(*LOGISTIC, "data_norm=1, fit_intercept=False", NORM | {"fit_intercept": False}, known=PARTS),
    Case(
        *LOGISTIC, "data_norm=1000, fit_intercept=False", {"data_norm": 1000.0, "fit_intercept": False},
        known={"weight": Known(long_row, small_weight)},
    ),
    Case(*BAYES, "default: bounds=None", attacks=(TWINS,)),  # a fit on a row of 1e300 never ends
    Case(*BAYES, "bounds=(-1, 1)", RANGE),
    Case(
        *BAYES, "bounds=(1990, 2020), a column of years", {"bounds": (1990.0, 2020.0)}, years,
        known={"mean": Known(other_class, mean_inside)},
    ),
    Case(*SCALER, "default: bounds=None", attacks=(TWINS,)),
    Case(*SCALER, "bounds=(-1, 1)", RANGE),
    Case(*EBM, "default: no privacy_bounds", QUICK, delta=DELTA),
    Case(*EBM, "feature_types and privacy_bounds", QUICK | NUMBERS, delta=DELTA),
    Case(*EBM, "'nominal'", QUICK | {"feature_types": ["nominal"]}, towns, DELTA, (TWINS,), TOWN),
    Case(*EBM, "all categories listed", QUICK | {"feature_types": [["Ulm", "Rom", OWN]]}, towns, DELTA, (), TOWN),
    Case("dpsk", "DPLogisticRegression", "default", delta=DELTA),
    Case("dpsk", "DPLogisticRegression", "data_norm=1", {"standardize": None, **NORM}, delta=DELTA),
    Case("dpsk", "DPTabularClassifier", "default, numbers", delta=DELTA),
    Case("dpsk", "DPTabularClassifier", "default, categories", {}, towns, DELTA, known=TOWN),
    Case(
        "dpsk", "DPTabularClassifier", "all categories listed", {"columns": {"town": Categories(["Ulm", "Rom", OWN])}},
        towns, DELTA, (TWINS,), TOWN,
    ),
]  # fmt: skip


def twins(case: Case, estimator: Any) -> tuple[str, str, bool, int]:
    """Return what differs exactly, no bound on epsilon, whether anything did, and how many fits that took."""
    X, y = case.data()
    extreme, fits = extreme_rows(X, y), []

    def fit(X: Any, y: Any) -> Any:
        fits.append(1)
        return clone(estimator).fit(X, y)

    rows = {name: extreme[name] for name in MODERATE if name in extreme}
    allowed = {} if case.library == "dpsk" else {"rounding": 1e-9, "methods": ("decision_function", "predict")}
    try:
        check_twins(fit, X, y, rows=rows, streams=STREAMS, **allowed)
    except AssertionError as found:
        return short(str(found)), "", True, len(fits)
    return "nothing but noise differs", "", False, len(fits)


def models(case: Case, estimator: Any) -> tuple[str, str, bool, int]:
    """Return which pair told most and what was equal in all fits, the bound, whether it refutes, and the fits."""
    X, y = case.data()
    own = {} if case.library == "dpsk" else {"claim": case.claim, "adjacency": "replace"}
    found = audit(estimator, X, y, attacks=["model"], seconds=SECONDS, confidence=CONFIDENCE, **own)
    best = found.strongest
    return told(best.pair, best.leaks), f"{found.epsilon:.3f}", found.refuted, found.fits


def known_pair(known: Known, case: Case, estimator: Any) -> tuple[str, str, bool, int]:
    """Return the same for two data sets that were made by hand."""

    def fit(data: Data) -> Any:
        return known.view(clone(estimator).fit(data.X, data.y))

    pair = known.pair()
    found = compare_models(fit, [pair], case.claim, seconds=known.seconds, error=1 - CONFIDENCE, n_jobs=None)
    best = max(found, key=lambda one: one.epsilon)
    return told(pair.name, best.leaks), f"{best.epsilon:.3f}", best.refuted, best.fits


ATTACKS = {TWINS: twins, MODELS: models}


def told(pair: str, leaks: tuple[str, ...]) -> str:
    return short(f"{pair}. {leaks[0]}" if leaks else pair)


def short(text: str) -> str:
    text = " ".join(text.replace("|", "/").split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def measure(folder: Path | None, library: str, name: str, configuration: str, attack: str) -> list[object] | None:
    wanted = library, name, configuration
    case = next(one for one in CASES if (one.library, one.estimator, one.configuration) == wanted)
    estimator = case.made()
    if estimator is None:
        return None
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rows, and those of other libraries
        attacked = ATTACKS[attack] if attack in ATTACKS else partial(known_pair, case.known[attack])
        seen, epsilon, refuted, fits = attacked(case, estimator)
    seconds = time.perf_counter() - start
    return [release_of(library), EPSILON, case.delta, seen, epsilon, refuted, fits, f"{seconds:.1f}"]


def release_of(library: str) -> str:
    """Return the version of an installed library, which may have several distributions."""
    for name in DISTRIBUTIONS[library]:
        try:
            return version(name)
        except ImportError:
            continue
    return "from its sources"


KEY = "library", "estimator", "configuration", "attack"
MEASURED = "version", "epsilon promised", "delta promised", "seen", "epsilon proved", "refuted", "fits", "seconds"
TABLE = Table("audit_others", KEY, MEASURED, measure)


def keys(repeats: None) -> list[tuple[str, ...]]:
    return [
        (one.library, one.estimator, one.configuration, attack)
        for one in CASES
        for attack in (*one.attacks, *one.known)
    ]


def line(row: Row) -> list[str]:
    promise = row["epsilon promised"] + (f", {row['delta promised']}" if float(row["delta promised"]) else "")
    verdict = {"True": "**broken**", "False": "stands"}[row["refuted"]]
    return [row["estimator"], row["configuration"], promise, row["attack"], verdict, row["epsilon proved"] or "-",
            row["fits"], row["seconds"], row["seen"]]  # fmt: skip


def report() -> None:
    places = {key: place for place, key in enumerate(keys(None))}
    rows = Rows(sorted(TABLE.rows(), key=lambda row: places[tuple(row[name] for name in KEY)]))
    header = ["estimator", "configuration", "promise", "attack", "verdict", "epsilon proved", "fits", "seconds", "seen"]
    versions = {library: found.by("version") for (library,), found in rows.by("library").items()}
    ours = rows.where(library="dpsk")
    write(
        "audit_others",
        diffprivlib=markdown(header, map(line, rows.where(library="diffprivlib"))),
        interpret=markdown(header, map(line, rows.where(library="interpret"))),
        dpsk=markdown(header, map(line, ours)),
        versions=", ".join(f"{library} {name}" for library, names in versions.items() for (name,) in names),
        missing="".join(
            f" {library} is left out: it was not installed, or not for this scikit-learn."
            for library in PACKAGES if library not in versions
        ),
        broken=len(ours.where(refuted=True)),
        of=len(ours),
        confidence=f"{100 * CONFIDENCE:g}",
        seconds=f"{SECONDS:g}",
        streams=STREAMS,
        machine=TABLE.machine(),
    )  # fmt: skip
