"""Networks as they come: ``DPMLPClassifier`` and ``DPConvolutionalClassifier``, nothing tuned, beside linear models.

Images are those of ``images.py``, with the official test images and delta = 1e-5; the lines of the linear model are
its rows. Tables are those of ``curved.py``: the same folds, ranges and delta, so that its rows stand beside these.

The last table fits with so large an epsilon that noise does not matter, and compares how well a network learns its own
rows with scikit-learn's ``MLPClassifier`` of the same layers, batches and passes.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from dpsk import DPConvolutionalClassifier, DPMLPClassifier

from ..datasets import bounds_of
from ..evidence import Gap
from ..experiment import write
from ..folds import cached, fitted, fold_of, seed_of
from ..table import Folds, Rows, Table, markdown, mean_of
from . import curved, images

MLP, CNN, STANDARDISED = "DPMLPClassifier", "DPConvolutionalClassifier", "DPMLPClassifier, standardised"
DELTA, EPSILONS = 1e-5, (1.0, 3.0)
OF_IMAGES = dict.fromkeys(images.DATASETS, (CNN, MLP, STANDARDISED))
SHAPE = (28, 28, 1)
AIMS = {  # accuracy in percent that is aimed at, by data, model and epsilon
    ("mnist", MLP, 1.0): 92.5,
    ("mnist", MLP, 3.0): 94.5,
    ("mnist", CNN, 1.0): 94.5,
    ("mnist", CNN, 3.0): 96.5,
    ("fashion_mnist", CNN, 1.0): 79.0,
    ("fashion_mnist", CNN, 3.0): 83.0,
}
LINEAR = "linear, the default"


def image_model(model: str, epsilon: float, seed: int) -> Any:
    """Return what a user writes who knows that pixels lie in [0, 1], and but for one model need no standardisation."""
    about: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "bounds": (0, 1), "random_state": seed}
    if model == CNN:
        return DPConvolutionalClassifier(image_shape=SHAPE, **about)
    return DPMLPClassifier(standardize=None if model == MLP else "private", **about)


def measure_images(folder: Path | None, dataset: str, model: str, epsilon: float, seed: int) -> list[str]:
    """Return the accuracy on the official test images, the number of steps, and seconds of processor time."""
    X, y = images.images(dataset, folder)
    train = images.TRAIN
    fit, seconds = fitted(image_model(model, epsilon, seed), X[:train], y[:train])
    return [f"{fit.score(X[train:], y[train:]):.4f}", str(fit.n_iter_), f"{seconds:.1f}"]


IMAGES = Table(
    "networks_images", ("dataset", "model", "epsilon", "seed"), ("accuracy", "steps", "fit, s"), measure_images
)

FOLDS = {"adult": 5, "bank": 5, "digits": 5, "ijcnn1": 3, "covtype": 2}
"""How many of five folds are run, whatever the number of repeats: fewer of the sets with many rows."""
OF_TABLES = {"covtype": (1.0,)}


def measure_tables(folder: Path | None, dataset: str, epsilon: float, repeat: int, fold: int) -> list[str]:
    """Return the accuracy on one fold, the number of steps, and the processor time of the fit."""
    rows = fold_of(dataset, folder, repeat, fold)
    model = DPMLPClassifier(epsilon=epsilon, delta=curved.DELTA, bounds=bounds_of(dataset))
    fit, seconds = fitted(model, rows.X, rows.y, random_state=seed_of(repeat, fold))
    return [f"{fit.score(rows.test_X, rows.test_y):.6f}", str(fit.n_iter_), f"{seconds:.1f}"]


TABLES = Table(
    "networks_tables", ("dataset", "epsilon", "repeat", "fold"), ("accuracy", "steps", "fit, s"), measure_tables
)

PLENTY = 1e6
"""An epsilon that leaves no noise to speak of."""
PASSES, BATCH, SIZES = {"digits": 200, "adult": 20}, 200, (100,)
SCIKIT = "MLPClassifier of scikit-learn"
MAY_DIFFER = 1.0
"""By how many points the training accuracy without noise may be below that of scikit-learn."""


def measure_learning(folder: Path | None, dataset: str, model: str, seed: int) -> list[str]:
    """Return the accuracy on the rows that a network was fitted to, and the processor time of the fit."""
    X, y = cached(dataset, folder)
    passes, rate = PASSES[dataset], min(1.0, BATCH / len(y))
    if model == SCIKIT:
        unfitted: Any = MLPClassifier(SIZES, batch_size=BATCH, max_iter=passes, random_state=seed)
    else:
        unfitted = DPMLPClassifier(
            epsilon=PLENTY, delta=curved.DELTA, bounds=bounds_of(dataset), hidden_layer_sizes=SIZES, activation="relu",
            sampling_rate=rate, steps=math.ceil(passes / rate), learning_rate=1e-3, gradient_clip=10.0,
            random_state=seed,
        )  # fmt: skip
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        fit = unfitted.fit(X, y)
        seconds = time.process_time() - start
    return [f"{fit.score(X, y):.6f}", f"{seconds:.1f}"]


LEARNING = Table("networks_learning", ("dataset", "model", "seed"), ("accuracy", "fit, s"), measure_learning)


def needs(repeats: int) -> list[tuple[Table, list[tuple]]]:
    cells = [(d, model, e) for d, models in OF_IMAGES.items() for model in models for e in EPSILONS]
    fits = [(*cell, seed) for seed in range(repeats) for cell in cells]
    folds = [
        (dataset, epsilon, 0, fold)
        for dataset, count in FOLDS.items()
        for fold, epsilon in product(range(count), OF_TABLES.get(dataset, EPSILONS))
    ]
    learning = [(d, model, seed) for d in PASSES for seed in range(repeats) for model in (SCIKIT, MLP)]
    return [(IMAGES, fits), (TABLES, folds), (LEARNING, learning)]


def percent(rows: Rows) -> np.ndarray:
    return 100 * rows.numbers("accuracy")


def aims(rows: Rows) -> str:
    """Return what is reached of what was aimed at."""
    lines = []
    for (dataset, model, epsilon), aim in AIMS.items():
        found = percent(rows.where(dataset=dataset, model=model, epsilon=epsilon))
        if found.size:
            cell = [images.DATASETS[dataset], model, f"{epsilon:g}", f"{aim:.1f}", mean_of(found), len(found)]
            lines.append([*cell, "yes" if found.mean() >= aim else "no"])
    return markdown(["data", "model", "epsilon", "aim", "reached", "seeds", "aim met"], lines)


def image_lines(rows: Rows) -> Iterator[list[object]]:
    """Yield accuracies by model and epsilon, and those of the linear model on pixels and on scattering coefficients."""
    for model, epsilon in product((STANDARDISED, MLP, CNN), EPSILONS):
        found = [rows.where(dataset=name, model=model, epsilon=epsilon) for name in images.DATASETS]
        if any(found):
            cells = (mean_of(percent(some)) if some else "" for some in found)
            seeds = min(len(some) for some in found if some)
            yield [model, "pixels", f"{epsilon:g}", f"{DELTA:g}", seeds, *cells]
    known = images.TABLE.rows()
    for features, epsilon in product(images.FEATURES, EPSILONS):
        found = [known.where(dataset=name, features=features, epsilon=epsilon) for name in images.DATASETS]
        if all(found):
            about = [LINEAR, features, f"{epsilon:g}", f"{images.DELTAS[epsilon]:g}", min(map(len, found))]
            yield [*about, *(mean_of(percent(some)) for some in found)]


def times(rows: Rows) -> str:
    """Return how long fits take, and how many steps they make."""
    lines = []
    for (dataset, model, epsilon), some in rows.by("dataset", "model", "epsilon").items():
        steps, seconds = (np.median(some.numbers(field)) for field in ("steps", "fit, s"))
        lines.append([images.DATASETS[dataset], model, f"{float(epsilon):g}", f"{steps:.0f}", f"{seconds:.0f}"])
    return markdown(["data", "model", "epsilon", "steps", "fit, s"], lines)


def gap_of(network: Folds, linear: Folds) -> str:
    """Return by how many points a network is above a linear model on the folds of both, with the standard error."""
    if not set(network) & set(linear):
        return ""
    gap = Gap.between(network, linear)
    return f"{gap.mean:+.2f}" + (f" ± {gap.error:.2f}" if gap.count > 1 else "")


def table_lines() -> Iterator[list[object]]:
    """Yield accuracies on tables beside those of linear models on the same folds."""
    cells, known = TABLES.folds(("dataset", "epsilon"), "accuracy"), curved.TABLE.folds(CELL, "accuracy")
    for (dataset, epsilon), network in cells.items():
        linear, waves = (known.get((dataset, model, epsilon), {}) for model in (curved.LINEAR, curved.CURVED))
        means = [mean_on(network, folds) for folds in (network, linear, waves)]
        rows = TABLES.rows().where(dataset=dataset, epsilon=epsilon)
        steps, seconds = (np.median(rows.numbers(field)) for field in ("steps", "fit, s"))
        gaps = gap_of(network, linear), gap_of(network, waves)
        yield [dataset, f"{float(epsilon):g}", len(network), *means, *gaps, f"{steps:.0f}", f"{seconds:.0f}"]


CELL = ("dataset", "model", "epsilon")


def mean_on(chosen: Iterable[tuple[str, ...]], folds: Folds) -> str:
    """Return the mean on these folds."""
    values = [folds[fold] for fold in chosen if fold in folds]
    return f"{np.mean(values):.2f}" if values else ""


def learning_lines() -> Iterator[list[object]]:
    cells = LEARNING.folds(("dataset", "model"), "accuracy", over=("seed",))
    for dataset in PASSES:
        network, theirs = (cells.get((dataset, model), {}) for model in (MLP, SCIKIT))
        if set(network) & set(theirs):
            gap = Gap.between(network, theirs)
            means = (mean_on(gap_folds(network, theirs), folds) for folds in (network, theirs))
            met = "yes" if gap.mean >= -MAY_DIFFER else "no"
            yield [dataset, PASSES[dataset], gap.count, *means, gap_of(network, theirs), met]


def gap_folds(first: Folds, second: Folds) -> list[tuple[str, ...]]:
    return [fold for fold in first if fold in second]


def report() -> None:
    """Write the tables of images, of tables and of learning without noise."""
    rows = IMAGES.rows()
    known = ["model", "features", "epsilon", "delta", "seeds", *images.DATASETS.values()]
    head = ["data", "epsilon", "folds", MLP, "linear", "fourier", "over linear", "over fourier", "steps", "fit, s"]
    fits = ["data", "passes", "seeds", MLP, SCIKIT, "difference", f"within {MAY_DIFFER:g} point"]
    write(
        "networks",
        aims=aims(rows),
        images=markdown(known, image_lines(rows)),
        times=times(rows),
        tables=markdown(head, table_lines()),
        learning=markdown(fits, learning_lines()),
        delta=curved.DELTA,
        plenty=PLENTY,
        batch=BATCH,
        machine=IMAGES.machine(),
    )
