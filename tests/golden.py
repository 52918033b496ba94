"""Golden bits: what seeded fits gave when they were recorded, in ``golden.json``.

    python tests/golden.py check [TEXT]    fit all whose name contains TEXT, and print what differs
    python tests/golden.py record          fit all, and write the file
    python tests/golden.py words           write the texts of warnings and the labels of releases, if all else agrees

Only names that ``dpsk`` exports are used, so the record outlives any change inside. The data are built from integers
and are the same everywhere.

*One record for all storages.* Rows dense by row or by column, in single precision, sparse, in a file, in chunks and in
Dask give the same bits, and so does a fit with a ledger. All of them are compared with one record, written only if they
agree.

*What is compared.* Where the versions and the elementary functions are those of the file (``platform_of``), everything:
all bits of weights, ranges, scores and prices. Elsewhere numbers may differ in their last digits: ``exp`` and ``log``
depend on the processor, eigenvalues on BLAS, orders of Renyi divergence on SciPy. Numbers are then compared to
``TOLERANCE`` and digests of bits are left out; labels, counts and warnings are compared everywhere. A last digit turns
a decision inside a fit (a rounding to the grid, a step of a search) with a probability far below 1e-6.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

import dpsk
from dpsk import Categories, Chunks, Number, PrivacyLedger, PrivateSearchCV, Text, private_score
from dpsk.model_selection import Poisson, TruncatedNegativeBinomial

FILE = Path(__file__).with_suffix(".json")
SEED = 7
N, D = 400, 5
DENSE = ("dense C", "dense F", "float32", "memmap", "Chunks", "Dask")
STORAGES = (*DENSE, "CSR")
LOSSES: dict[str, tuple[str | None, ...]] = {
    "DPAGDLogisticRegression": (None,),
    "DPAGDSVC": (None,),
    "DPLogisticRegression": (None,),
    "DPLinearSVC": (None,),
    "DPGradientDescentClassifier": ("log_loss", "huber_hinge"),
    "DPLineSearchClassifier": ("log_loss", "hinge", "huber_hinge"),
    "DPSGDClassifier": ("log_loss", "hinge", "huber_hinge"),
    "DPSecondOrderClassifier": ("log_loss", "sigmoid"),
    "ObjectivePerturbationClassifier": ("log_loss", "huber_hinge"),
    "OutputPerturbationLogisticRegression": (None,),
    "OutputPerturbationSVC": ("huber_hinge", "squared_hinge", "hinge"),
    "DPTabularClassifier": (None,),
    "DPMLPClassifier": (None,),
    "DPConvolutionalClassifier": (None,),
}
"""All estimators, and the values of their parameter ``loss``."""

SHORT: dict[str, dict[str, Any]] = {
    "DPAGDLogisticRegression": {"splits": 8},
    "DPAGDSVC": {"splits": 8},
    "DPGradientDescentClassifier": {"steps": 15},
    "DPLineSearchClassifier": {"splits": 20},
    "DPSGDClassifier": {"steps": 15},
    "DPSecondOrderClassifier": {"epsilon": 12.0},
    "OutputPerturbationLogisticRegression": {"alpha": 0.05},
    "OutputPerturbationSVC": {"alpha": 0.05},
    "DPMLPClassifier": {"hidden_layer_sizes": (4,), "steps": 6},
    "DPConvolutionalClassifier": {
        "image_shape": (1, D), "channels": (2,), "kernel_size": 1, "pool_size": 1, "hidden_layer_sizes": (4,),
        "steps": 6,
    },
}  # fmt: skip
"""Parameters that keep fits short."""

COLUMNS: tuple[dict[str, Any], ...] = (
    {"standardize": None},
    {"standardize": None, "bounds": (-1, 1)},
    {"standardize": "private", "bounds": (-1, 1)},
    {"standardize": "private"},
    {"standardize": None, "data_norm": 0.75},
)


RAW = {"DPTabularClassifier": {"columns": {j: Number() for j in range(D)}}}
"""Estimators of raw tables, which have none of the parameters in ``COLUMNS``, and what chunks have to be told."""


NETWORKS = ("DPMLPClassifier", "DPConvolutionalClassifier")
"""Estimators whose layers have biases of their own."""


def small(bits: np.random.Philox, n: int, m: int) -> Any:
    """Return an (n, m) array of multiples of 1/64 in [-1, 1], the same everywhere."""
    words = bits.random_raw(n * m) >> np.uint64(40)
    return (words % np.uint64(129)).astype(np.int64).reshape(n, m) / 64.0 - 1.0


def example(n_classes: int) -> tuple[Any, Any]:
    """Return rows and labels. Sums are exact, so they are the same everywhere. Half of the last column is zero."""
    bits = np.random.Philox(n_classes)
    X, noise, weights = small(bits, N, D), small(bits, N, n_classes), small(bits, D, n_classes)
    X[:, -1] *= small(bits, N, 1)[:, 0] > 0
    return X, (sum(X[:, [j]] * weights[j] for j in range(D)) + noise / 4).argmax(axis=1)


def stored(X: Any, y: Any, storage: str, folder: str) -> tuple[Any, ...]:
    """Return what ``fit`` is given."""
    if storage == "dense F":
        return np.asfortranarray(X), y
    if storage == "float32":
        return X.astype(np.float32), y
    if storage == "CSR":
        return sp.csr_array(X), y
    if storage == "memmap":
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".npy", delete=False) as file:
            np.save(file, X)
        return np.load(file.name, mmap_mode="r"), y
    if storage == "Chunks":
        return (Chunks(lambda: [(X[:7], y[:7]), (X[7:250], y[7:250]), (X[250:], y[250:])]),)
    if storage == "Dask":
        import dask.array as da

        return da.from_array(X, chunks=(150, 2)), da.from_array(y, chunks=150)
    return X, y


@dataclass(frozen=True)
class Case:
    """One seeded fit; or a search around it, or a score of its model."""

    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    n_classes: int = 2
    storage: str = "dense C"
    ledger: bool = False
    search: dict[str, Any] | None = None
    score: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.name}, {self.storage}{', ledger' if self.ledger else ''}"

    @property
    def pld(self) -> bool:
        """Whether dp-accounting is needed."""
        return self.parameters.get("accountant") == "pld"

    @property
    def name(self) -> str:
        """What the record calls it. Storages, and a ledger, are not named: they change no bit."""
        text = f"{self.estimator}({_listed(self.parameters)}), {self.n_classes} classes"
        if self.search is not None:
            text = f"PrivateSearchCV({text}, {_listed(self.search)})"
        if self.score is not None:
            text = f"private_score({text}, {_listed(self.score)})"
        return text

    def takes(self, storage: str) -> bool:
        """Return whether this is fitted on such a storage."""
        return storage != "Dask" or self.estimator != "OutputPerturbationSVC" or self.parameters["loss"] != "hinge"

    def run(self, folder: str) -> dict[str, Any]:
        """Fit with a seed and return what came out, as plain values."""
        X, y = example(self.n_classes)
        given: dict[str, Any] = {"random_state": SEED}
        if self.ledger:
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".db") as file:
                path = file.name
            given["ledger"] = PrivacyLedger(path, epsilon=1.0, delta=1e-5, allow_nonprivate=True)
        model: Any = getattr(dpsk, self.estimator)(**self.parameters)
        result: dict[str, Any] = {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if self.search is not None:
                model = PrivateSearchCV(model, **self.search, **given).fit(X, y)
                result = {"chosen": repr(model.best_params_), "best_score": model.best_score_}
                model = model.best_estimator_
            else:
                try:
                    model.set_params(**given).fit(*stored(X, y, self.storage, folder))
                except dpsk.BudgetExhausted:
                    result = {"exhausted": True}
            if self.score is not None:
                score = private_score(model, X, y, random_state=SEED, **self.score)
                result = {"accuracy": score.accuracy, "intervals": [*score.interval, *score.interval_on_rows]}
        result |= measured(model, X)
        return result | {"warnings": sorted(f"{w.category.__name__}: {w.message}" for w in caught)}


def _listed(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


SPENT = ("epsilon", "delta", "rho", "limit", "charged", "currency", "adjacency", "private", "complete")
CERTIFICATE = ("reached", "eps_g", "eps_h", "confidence", "longest", "gradient_norm", "gradient_error", "eigenvalue")
CERTIFICATE = (*CERTIFICATE, "eigenvalue_error", "gradient_bound", "eigenvalue_bound")
BITS = ("weights", "ranges", "scores", "prices")
"""Digests of bits: compared on the platform of the record."""

WORDS = ("warnings", "releases")
"""What holds texts that people read; ``words`` writes these anew."""

TOLERANCE = 1e-6
"""How far numbers may be apart, relative to their size, on another platform than that of the record."""


def measured(model: Any, X: Any) -> dict[str, Any]:
    """Return what is compared of a fitted model, or of one whose fit ended without weights."""
    spent = model.privacy_spent_.to_dict()
    found: dict[str, Any] = {
        "spent": [spent[name] for name in SPENT],
        "releases": [f"{release.count} {release.label}" for release in model.privacy_spent_.releases],
        "prices": digest(*(release.cost for release in model.privacy_spent_.releases)),
    }
    if hasattr(model, "classes_"):
        network = hasattr(model, "coefs_")
        weights, biases = (model.coefs_, model.intercepts_) if network else ([model.coef_], [model.intercept_])
        found |= {
            "weights": digest(*weights, *biases),
            "first": [*weights[0].ravel()[:2].tolist(), biases[0].tolist()[0]],
            "ranges": None if getattr(model, "ranges_", None) is None else digest(model.ranges_),
            "data_norm": getattr(model, "data_norm_", None),
            "scores": digest(model.decision_function(X[:20])),
            "evaluations": model.evaluations_,
        }
    if hasattr(model, "certificate_"):
        found["certificate"] = [getattr(model.certificate_, name) for name in CERTIFICATE]
    return found


def digest(*parts: Any) -> str:
    """Return a short digest of the bits of arrays, or of plain values."""
    sha = hashlib.sha256()
    for part in parts:
        array = isinstance(part, np.ndarray)
        sha.update(f"{part.shape}{part.dtype}".encode() + part.tobytes() if array else repr(part).encode())
    return sha.hexdigest()[:12]


def kinds(**values: Any) -> list[dict[str, Any]]:
    """Return a dict for each value of each parameter, all by themselves."""
    return [{name: value} for name, choices in values.items() for value in choices]


ADAPTIVE = [
    *kinds(selection=["laplace", "permute-and-flip"], conversion=["paper"], batch_size=[100], rho=[0.05]),
    *kinds(step_max=[0.5], adjacency=["replace"], epsilon=[0.2, 20.0], alpha=[0.0, 0.1], splits=[25.5]),
    *kinds(gradient_clip=[0.5], loss_clip=[1.0], standardize=["private"], delta=[0.01]),
    {"batch_size": 50, "adjacency": "replace", "standardize": "private"},
    {"selection": "laplace", "conversion": "paper", "first_noise": None},
    {"epsilon": 20.0, "first_noise": None},
    {"epsilon": 20.0, "first_noise": 0.02},
    {"epsilon": 0.1, "gamma": 0.5, "splits": 30},
    {"epsilon": 0.1, "gamma": 0.1, "splits": 30},
    {"batch_size": 1000},
]
PRECISE = 1e5  # the epsilon at which so few rows are enough for "auto" to perturb the objective
DEFAULT = [
    *kinds(solver=["gradient-descent", "adaptive-gradient", "objective-perturbation"], adjacency=["replace"]),
    *kinds(rho=[0.05, 2.0], epsilon=[0.2, 50.0, PRECISE, float("inf")], alpha=[0.0, 0.05], delta=[1e-9]),
    {"solver": "objective-perturbation", "adjacency": "replace", "bounds": (-1, 1)},
    {"solver": "adaptive-gradient", "rho": 0.05, "standardize": None},
    {"epsilon": PRECISE, "adjacency": "replace"},
    {"epsilon": PRECISE, "solver": "gradient-descent"},
    {"classes": [0, 1, 2, 5]},
    {"bounds": ([-1, -1, -1, -0.5, 0], [1, 1, 0.5, 1, 1]), "standardize": None},
    {"standardize": None, "epsilon": 8.0},
]
DESCENT = [
    *kinds(steps=[None, 3], momentum=[0.0], step_size=[0.5], gradient_clip=[0.3], average=[1.0], rho=[0.05]),
    *kinds(adjacency=["replace"], epsilon=[0.2, 30.0, float("inf")], alpha=[0.0, 0.1]),
    {"standardize": None, "epsilon": 8.0},
]
LINE_SEARCH = [
    *kinds(search=["exponential"], noise=["gaussian"], gains=["clipped"], first_price=["paper"], fallback=[True]),
    *kinds(sampling_rate=[1.0, 0.5], sampling=["without-replacement"], adapt_every=[2], sufficient=[0.1]),
    *kinds(search_share=[0.2], candidates=[4], shrink=[0.5], step_max=[1.0], gradient_clip=[0.5], epsilon=[20.0]),
    *({"epsilon": 0.3, "clip_decay": 0.05, "increase": name} for name in ("angle", "always", "never", "merge")),
    {"epsilon": 0.3, "clip_decay": 0.0, "increase": "always", "increase_by": 1.0},
    {"adapt_every": 2, "growth": 1.0},
    {"gains": "clipped", "loss_clip": 0.5},
    {"sampling_rate": 1.0, "search": "exponential"},
    {"sampling_rate": 1.0, "increase": "angle", "clip_decay": 0.05, "epsilon": 0.1},
    {"sampling_rate": 1.0, "gains": "clipped", "noise": "gaussian", "first_price": "paper", "increase": "always"},
    {"sampling_rate": 1.0, "adjacency": "replace", "standardize": "private"},
    {"sampling_rate": 1.0, "candidates": 1, "step_max": 1e9, "splits": 100},
    {"sampling": "without-replacement", "adjacency": "replace", "sampling_rate": 0.05},
    {"search": "exponential", "loss_clip": 0.5, "fallback": True, "clip_decay": 0.1},
]
SGD = [
    *kinds(sampling=["without-replacement"], sampling_rate=[1.0, 0.01, 0.5], optimizer=["adam"], accountant=["pld"]),
    *kinds(learning_rate=[0.5], gradient_clip=[0.3], average=[1.0], steps=[40], epsilon=[0.2, 20.0], alpha=[0.5]),
    {"optimizer": "adam", "sampling_rate": 1.0, "adjacency": "replace"},
    {"sampling": "without-replacement", "adjacency": "replace", "sampling_rate": 0.05, "standardize": "private"},
    {"optimizer": "adam", "accountant": "pld", "data_norm": 1.0},
    {"accountant": "pld", "sampling_rate": 1.0},
]
SECOND_ORDER = [
    *kinds(method=["opt", "opt-ls", "opt-b", "2opt", "2opt-b"], penalty=["l2"], alpha=[0.1], confidence=[0.99]),
    *kinds(eps_g=[0.1, 0.3, 50.0], eps_h=[0.5], search_share=[0.6], first_phase=[0.5], hessian_share=[0.5]),
    *kinds(epsilon=[1.0, 40.0], adjacency=["replace"]),
    {"standardize": None, "data_norm": 2.0, "eps_g": 0.1},
    {"standardize": None, "data_norm": 2.0, "method": "opt-ls", "penalty": "l2"},
    {"method": "opt-b", "sampling": "without-replacement", "sampling_rate": 0.05, "adjacency": "replace"},
    {"method": "2opt-b", "sampling_rate": 0.5, "eps_g": 0.2},
]
OBJECTIVE = [
    *kinds(gradient_clip=[0.5], determinant_share=[0.05, 0.4], adjacency=["replace"], alpha=[0.0, 0.1]),
    *kinds(epsilon=[0.2, 100.0, float("inf")], delta=[1e-9]),
    {"standardize": None, "epsilon": 8.0},
]
OUTPUT = [
    *kinds(solver=["agd", "subgradient", "katyusha", "stochastic-subgradient"], delta=[1e-6], alpha=["auto", 1.0]),
    *kinds(target=["population"], radius=[2.0], gradient_clip=[0.3], adjacency=["replace"], epsilon=[0.2, 20.0]),
    *kinds(epsilon=[float("inf")]),
    {"alpha": "auto", "target": "population", "radius": 5.0},
    {"delta": 1e-6, "noise": "paper"},
    {"delta": 1e-6, "standardize": "private", "alpha": "auto"},
    {"data_norm": None},
    {"data_norm": None, "epsilon": 8.0},
]
OTHER_OBJECTIVES = [
    {"objective": "tilted"},
    {"objective": "tilted", "tilt": 3.0, "alpha": "auto", "delta": 1e-6},
    {"objective": "tilted", "tilt": 30.0, "solver": "agd"},
    {"objective": "tilted", "data_norm": None},
    {"objective": "adversarial"},
    {"objective": "adversarial", "attack_norm": float("inf"), "attack_radius": 0.05},
    {"objective": "adversarial", "alpha": "auto", "delta": 1e-6, "fit_intercept": False},
]
DRAWS = [
    {"mechanism": mechanism, "epsilon": epsilon, **more}
    for mechanism, epsilon in (("exponential", 4.0), ("localization", 20.0))
    for more in ({}, {"alpha": "auto"}, {"alpha": "auto", "radius": 1.0}, {"fit_intercept": False})
]
TABULAR = [
    *kinds(epsilon=[0.2, 20.0, 1e4], adjacency=["replace"], alpha=[0.0, 0.1], delta=[1e-9], fit_intercept=[False]),
    {"columns": {0: Number(-1, 1), 1: Number(-1, 0.5), 2: None}, "epsilon": 8.0},
    {"columns": {3: Categories([0, 1]), 4: Categories()}, "epsilon": 20.0},
    {"columns": {3: Categories(buckets=4), 4: Categories()}, "epsilon": 20.0, "adjacency": "replace"},
    {"columns": {j: Categories() for j in range(5)}, "epsilon": 50.0},
    {"columns": {2: Text(8)}, "classes": [0, 1, 2, 5]},
    {"columns": {3: Categories([0, 1]), 4: Text(8)}, "delta": 0.0},
    {"delta": 0.0, "epsilon": 20.0, "adjacency": "replace"},
]
NETWORK = [
    *kinds(activation=["relu", "hard-tanh", "identity"], solver=["sgd", "line-search"], sampling_rate=[0.3, 0.05]),
    *kinds(learning_rate=[0.1], gradient_clip=[0.3], average=[1.0], initial_seed=[5], alpha=[0.0, 0.1]),
    *kinds(adjacency=["replace"], epsilon=[0.2, 20.0], delta=[1e-9], class_weight=["balanced"]),
    {"solver": "line-search", "sampling_rate": 0.3, "standardize": None, "bounds": (-1, 1)},
    {"sampling": "without-replacement", "sampling_rate": 0.05, "adjacency": "replace"},
    {"solver": "sgd", "accountant": "pld", "standardize": None, "sampling_rate": 0.3},
]
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "DPAGDLogisticRegression": ADAPTIVE,
    "DPAGDSVC": ADAPTIVE[::2],
    "DPLogisticRegression": DEFAULT,
    "DPLinearSVC": [*DEFAULT[::2], {"epsilon": PRECISE}],
    "DPGradientDescentClassifier": DESCENT,
    "DPLineSearchClassifier": LINE_SEARCH,
    "DPSGDClassifier": SGD,
    "DPSecondOrderClassifier": SECOND_ORDER,
    "ObjectivePerturbationClassifier": OBJECTIVE,
    "OutputPerturbationLogisticRegression": [*OUTPUT, *OTHER_OBJECTIVES, *DRAWS],
    "OutputPerturbationSVC": [*OUTPUT[::2], *OTHER_OBJECTIVES[::2]],
    "DPTabularClassifier": TABULAR,
    "DPMLPClassifier": [
        *NETWORK,
        *kinds(hidden_layer_sizes=[(4, 3), (8,)]),
        {"columns": {3: Categories([0, 1]), 4: Text(8)}, "sampling_rate": 0.5},
        {"columns": {3: Categories(), 2: None}, "epsilon": 20.0, "solver": "line-search"},
        {"columns": "auto", "adjacency": "replace"},
    ],
    "DPConvolutionalClassifier": NETWORK[::2],
}


def cases() -> list[Case]:
    """Return all fits, each once, that can be made with what is installed."""
    once = {str(case): case for case in _cases()}
    without = {name for name, module in (("Dask", "dask"), ("pld", "dp_accounting")) if find_spec(module) is None}
    return [c for c in once.values() if not (c.storage in without or (c.pld and "pld" in without))]


def part(estimator: str) -> list[Case]:
    """Return some fits of an estimator: every storage once, two and three classes in turn, and with a ledger."""
    mine = [case for case in cases() if case.estimator == estimator and case.search is None is case.score]
    chosen = [next(c for c in mine if c.storage == s and c.n_classes == 2 + i % 2) for i, s in enumerate(STORAGES)]
    return [*chosen, next(c for c in mine if c.ledger)]


def _cases() -> Iterator[Case]:
    for estimator, losses in LOSSES.items():
        short, network = SHORT.get(estimator, {}), estimator in NETWORKS
        for base in [short if loss is None else {"loss": loss, **short} for loss in losses]:
            for n_classes, columns in ((2, {"standardize": "private"}), (3, {"standardize": None})):
                usual = Case(estimator, {**base, **RAW.get(estimator, columns)}, n_classes)
                if base.get("loss") == "hinge" and estimator == "OutputPerturbationSVC":
                    usual = replace(usual, parameters={**base, "standardize": None})
                yield from (replace(usual, storage=storage) for storage in STORAGES if usual.takes(storage))
                yield replace(usual, ledger=True)
            for columns in () if estimator in RAW else COLUMNS:
                yield Case(estimator, {**base, **columns})
                yield Case(estimator, {**base, **columns, **({} if network else {"fit_intercept": False})}, 3)
        yield from (Case(estimator, {**short, **variant}) for variant in VARIANTS[estimator])
    for estimator in ("DPLogisticRegression", "DPLinearSVC"):
        yield Case(estimator, {"epsilon": PRECISE}, ledger=True)
    for number, (estimator, space) in enumerate(SPACES.items()):
        law = Poisson(4.0) if number % 2 else TruncatedNegativeBinomial(1.0, 0.3)
        search = {"param_distributions": space, "epsilon": 8.0, "n_iter_distribution": law}
        yield Case(estimator, SHORT.get(estimator, {}), 2 + number % 2, search=search)
        yield Case(estimator, SHORT.get(estimator, {}), 3 - number % 2, score={"epsilon": 0.5})


SPACES: dict[str, dict[str, Any]] = {
    "DPLogisticRegression": {"alpha": [1e-4, 1e-2, 1.0]},
    "DPGradientDescentClassifier": {"alpha": [1e-4, 1e-2], "loss": ["log_loss", "huber_hinge"]},
    "DPSGDClassifier": {"gradient_clip": [0.3, 1.0], "learning_rate": [0.5, 2.0]},
    "DPAGDLogisticRegression": {"alpha": [1e-4, 1e-2]},
    "ObjectivePerturbationClassifier": {"alpha": [1e-4, 1e-2], "loss": ["log_loss", "huber_hinge"]},
    "OutputPerturbationLogisticRegression": {"alpha": [0.01, 0.1, 1.0], "gradient_clip": [None, 0.3]},
}
"""What is searched among."""


def platform_of() -> dict[str, str]:
    """Return what bits depend on: versions, and what elementary functions and BLAS give."""
    x = example(2)[0].ravel() * 7.3 + 0.01
    square = np.outer(x[:50], x[50:100]) + np.diag(x[100:150])
    found = [function(np.abs(x)) for function in (np.exp, np.log, np.log1p, np.expm1, np.sqrt)]
    plain = [[f(abs(v)) for v in x[:200].tolist()] for f in (math.exp, math.log, math.log1p, math.expm1, math.erfc)]
    algebra = [np.linalg.eigvalsh(square + square.T), square @ square, scipy.linalg.solve(square, x[:50])]
    return {
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "functions": digest(*found, *plain),
        "algebra": digest(*algebra),
    }


def accounting() -> str | None:
    """Return the version of dp-accounting, on which accountant="pld" depends; None where it is not installed."""
    try:
        return version("dp-accounting")
    except PackageNotFoundError:
        return None


def differences(record: Any, found: Any, *, bits: bool) -> list[str]:
    """Return the names of what differs between a record and a result."""
    names = sorted(record.keys() | found.keys())
    return [n for n in names if (bits or n not in BITS) and not _agree(record.get(n), found.get(n), bits)]


def _agree(a: Any, b: Any, bits: bool) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_agree(a[name], b[name], bits) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_agree(x, y, bits) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float) and not bits:
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
    return bool(a == b)


def results(chosen: list[Case]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yield these cases with what came out, as JSON keeps it."""
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            yield case, json.loads(json.dumps(case.run(folder)))


@dataclass(frozen=True)
class Record:
    """What ``golden.json`` holds."""

    platform: dict[str, str]
    accounting: str | None
    fits: dict[str, Any]

    @classmethod
    def read(cls) -> Record:
        held = json.loads(FILE.read_text(encoding="utf-8"))
        for fit in held["fits"].values():
            fit["warnings"] = [held["warnings"][number] for number in fit["warnings"]]
        return cls(held["platform"], held["dp-accounting"], held["fits"])

    @classmethod
    def of(cls, chosen: list[Case]) -> Record:
        """Fit these. Raises ValueError where storages, or a ledger, change anything."""
        record = cls(platform_of(), accounting(), {})
        for case, found in results(chosen):
            if wrong := differences(record.fits.setdefault(case.name, found), found, bits=True):
                raise ValueError(f"{case}: {wrong} differ from what another storage gives")
        return record

    def write(self) -> None:
        """Write one line for each fit."""
        texts = sorted({text for fit in self.fits.values() for text in fit["warnings"]})
        fits = {name: fit | {"warnings": [texts.index(t) for t in fit["warnings"]]} for name, fit in self.fits.items()}
        head = {"platform": self.platform, "dp-accounting": self.accounting, "warnings": texts}
        lines = [f"{json.dumps(name)}: {json.dumps(fit)}" for name, fit in sorted(fits.items())]
        body = json.dumps(head, indent=1)[:-2] + ',\n "fits": {\n' + ",\n".join(lines) + "\n}}\n"
        FILE.write_text(body, encoding="utf-8")

    def compare(self, chosen: list[Case]) -> list[str]:
        """Fit these and return a sentence for each that differs."""
        bits, told = platform_of() == self.platform, []
        for case, found in results([c for c in chosen if not c.pld or accounting() == self.accounting]):
            record = self.fits.get(case.name, {})
            wrong = differences(record, found, bits=bits)
            pairs = [f"{name} was {record.get(name)!r} and is {found.get(name)!r}" for name in wrong]
            told += [f"{case}: {'; '.join(pairs)}"] if pairs else []
        return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("check", "record", "words"))
    parser.add_argument("text", nargs="?", default="")
    given = parser.parse_args()
    chosen = [case for case in cases() if given.text in str(case)]
    if given.task == "check":
        told = Record.read().compare(chosen)
        print(*told, f"{len(told)} of {len(chosen)} fits differ", sep="\n")
        sys.exit(bool(told))
    if given.text:
        parser.error(f"{given.task} is for all fits")
    new = Record.of(chosen)
    if given.task == "words":
        old = Record.read().fits
        for name, fit in new.fits.items():
            if wrong := [n for n in differences(old[name], fit, bits=True) if n not in WORDS]:
                sys.exit(f"{name}: {', '.join(wrong)} differ, not words alone")
    new.write()
    print(f"{len(chosen)} fits, {len(new.fits)} records, {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
