"""How long fits that find a minimum take beside scikit-learn's ``LogisticRegression()`` (L-BFGS), in turn."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpsk import (
    DPLogisticRegression,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
)

from ..datasets import bounds_of
from ..experiment import write
from ..folds import cached
from ..inside import counted_passes, newton, with_constants
from ..table import Table
from ..timing import in_turn, seconds

EPSILON, DELTA, ROUNDS = 1.6, 1e-8, 6
DATA = ("adult", "bank", "ipums_br", "a9a", "ijcnn1", "covtype")
MODELS = {
    "perturbed objective": DPLogisticRegression(EPSILON, DELTA, solver="objective-perturbation"),
    "output perturbation, log_loss": OutputPerturbationLogisticRegression(EPSILON, DELTA),
    "the same, delta 0": OutputPerturbationLogisticRegression(EPSILON),
    "huber_hinge": OutputPerturbationSVC(EPSILON, DELTA),
    "gradient descent": DPLogisticRegression(EPSILON, DELTA, solver="gradient-descent"),
}


def measure(folder: Path | None, data: str) -> list[str]:
    X, y = cached(data, folder)
    private = [clone(model).set_params(bounds=bounds_of(data)) for model in MODELS.values()]
    works = [lambda model=model: clone(model).fit(X, y) for model in (LogisticRegression(), *private)]
    with threadpool_limits(1):
        times = in_turn(works, ROUNDS, time.process_time)
    seconds, ratios = np.median(times, axis=0), np.median(times / times[:, :1], axis=0)
    cells = (f"{t:.3f} ({ratio:.2f})" for t, ratio in zip(seconds[1:], ratios[1:], strict=True))
    return [f"{X.shape[0]:,} x {X.shape[1]}", f"{seconds[0]:.3f}", *cells]


IMAGES = ("mnist",)
PLANTED = tuple((20_000, d, k) for d, k in ((20, 10), (50, 10), (100, 10), (200, 3), (200, 10), (200, 30), (800, 10)))
CLASSES = (*IMAGES, *(f"planted, {n:,} x {d}, {k} classes" for n, d, k in PLANTED))
WITH_CLASSES = {
    "huber_hinge": OutputPerturbationSVC(1.0, 1e-5),
    "the same, delta 0": OutputPerturbationSVC(1.0),
    "log_loss": OutputPerturbationLogisticRegression(1.0, 1e-5),
    "perturbed objective": ObjectivePerturbationClassifier(1.0, 1e-5),
}


def with_classes(folder: Path | None, data: str) -> tuple[np.ndarray, np.ndarray]:
    """Return 60,000 images, or planted rows."""
    if data in IMAGES:
        X, y = cached(data, folder)
        return X[:60_000], y[:60_000]
    return planted(*PLANTED[CLASSES.index(data) - len(IMAGES)])


def planted(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of length 1 with noisy labels, whose columns differ in size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.sqrt(1 + np.arange(d) / 5)
    X /= np.linalg.norm(X, axis=1)[:, None]
    scores = X @ rng.normal(size=(d, k))
    return X, np.argmax(scores + 0.3 * scores.std() * rng.gumbel(size=scores.shape), axis=1)


def measure_classes(folder: Path | None, data: str) -> list[str]:
    """Return seconds of one fit of each model, and the passes of the first."""
    X, y = with_classes(folder, data)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # L-BFGS stops after 100 iterations, and noise in many columns is large
        took = [
            seconds(lambda model=model: clone(model).fit(X, y), time.process_time)
            for model in (LogisticRegression(), *WITH_CLASSES.values())
        ]
        with counted_passes() as passes:
            clone(WITH_CLASSES["huber_hinge"]).fit(X, y)
    counts = (str(passes[kind]) for kind in ("gradient", "product", "Hessian"))
    return [f"{X.shape[0]:,} x {X.shape[1]}", str(len(np.unique(y))), *(f"{t:.2f}" for t in took), *counts]


def measure_ways(folder: Path | None, n_classes: int, columns: int) -> list[str]:
    """Return for each model the seconds with a Hessian for each class, and the ratio of products to these."""
    X, y = planted(10_000, columns, n_classes)
    cells = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in WAYS_OF:
            fits = [
                lambda model=WITH_CLASSES[name], least=least: _fit_from(least, clone(model), X, y)
                for least in (X.shape[1] + 2, 0)  # columns from which products are used
            ]
            times = in_turn(fits, 3, time.process_time)
            cells += [f"{np.median(times[:, 0]):.3f}", f"{np.median(times[:, 1] / times[:, 0]):.2f}"]
    return cells


def _fit_from(least: int, model, X, y) -> None:
    with with_constants([newton], {"_COMMON": least, "_COMMON_ALONE": 0}):
        model.fit(X, y)


TABLE = Table("speed_minima", ("data",), ("rows x columns", "scikit-learn, s", *MODELS), measure)
PASSES = ("gradients", "products", "Hessians")
OF_CLASSES = Table(
    "speed_minima_classes",
    ("data",),
    ("rows x columns", "classes", "scikit-learn, s", *WITH_CLASSES, *PASSES),
    measure_classes,
)

WAYS_OF = tuple(name for name in WITH_CLASSES if name != "the same, delta 0")
WAYS = Table(
    "speed_minima_ways",
    ("classes", "columns"),
    tuple(column for name in WAYS_OF for column in (f"{name}, s", f"{name}, ratio")),
    measure_ways,
)
SHAPES = tuple(
    (k, d) for k, widths in ((2, (50, 100, 200, 400)), (3, (50, 100, 200)), (10, (25, 50, 100, 200))) for d in widths
)


def needs(repeats: None) -> list[tuple[Table, list[tuple]]]:
    return [(TABLE, [(data,) for data in DATA]), (OF_CLASSES, [(data,) for data in CLASSES]), (WAYS, list(SHAPES))]


def report() -> None:
    tables = {"table": TABLE, "classes": OF_CLASSES, "ways": WAYS}
    write("speed_minima", **{name: table.rows().markdown() for name, table in tables.items()})
