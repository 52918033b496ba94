"""MNIST and Fashion-MNIST: the default estimator, untuned, on pixels and on scattering coefficients.

The transform of ``examples/scattering.py`` has one set of parameters for both data sets and learns nothing from rows.
Coefficients are computed once per data set and kept in the folder for temporary files while the process lives. Models
are fitted to the first 60,000 images and judged by the other 10,000.

The second table fits one model to coefficients in memory, and to pixels in a file through a private pipeline that makes
the coefficients block by block. Both models must be the same to the last bit: the run ends with an error otherwise.
"""

from __future__ import annotations

import atexit
import hashlib
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dpsk import Chunks, DPLogisticRegression, make_pipeline
from examples.scattering import Scattering

from ..datasets import load
from ..experiment import write
from ..folds import fitted
from ..table import Rows, Table, markdown, mean_of
from .scale import Watch, anonymous

DATASETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
FEATURES = ("pixels", "scattering")
DELTAS = {1.0: 1e-6, 3.0: 1e-5}  # the second is that of the published figures
TRAIN = 60_000
PARTS = 1_000  # images whose coefficients are made at a time

PUBLISHED = (  # model, features, epsilon, delta, MNIST, Fashion-MNIST
    ("Papernot et al. (2021), tuned", "learned by a network", "below 3", "1e-05", (98.1, 86.1)),
    ("Tramèr & Boneh (2021), tuned", "scattering", "3", "1e-05", (98.7, 89.7)),
)


@lru_cache(maxsize=2)
def images(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Return all images with pixels in [0, 1], and their labels."""
    X, y = load(name, folder)
    return X.astype(np.float32), y


@cache
def kept() -> Path:
    """Return a folder that is there while this process lives."""
    folder = tempfile.mkdtemp(prefix="images-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def coefficients(name: str, folder: Path | None) -> tuple[np.ndarray, float]:
    """Return the scattering coefficients of all images, in a file, and the seconds of processor time they took."""
    X, _ = images(name, folder)
    step = Scattering().fit(X[:1])
    width, path = step.transform(X[:1]).shape[1], kept() / f"{name}.npy"
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(X), width))
    with threadpool_limits(1):
        start = time.process_time()
        for rows in parts(len(X)):
            features[rows] = step.transform(X[rows])
        return np.load(path, mmap_mode="r"), time.process_time() - start


def parts(n: int) -> Iterator[slice]:
    return (slice(a, min(a + PARTS, n)) for a in range(0, n, PARTS))


def measure(folder: Path | None, name: str, features: str, epsilon: float, seed: int) -> list[str]:
    """Return the accuracy on the official test rows, the number of columns, and seconds of processor time."""
    X, y = images(name, folder)
    took = 0.0
    if features == "scattering":
        X, took = coefficients(name, folder)
    train, labels = np.array(X[:TRAIN]), y[:TRAIN]  # in memory
    model, fit = fitted(DPLogisticRegression(epsilon=epsilon, delta=DELTAS[epsilon], random_state=seed), train, labels)
    return [f"{model.score(X[TRAIN:], y[TRAIN:]):.4f}", str(X.shape[1]), f"{took:.1f}", f"{fit:.1f}"]


TABLE = Table(
    "images", ("dataset", "features", "epsilon", "seed"), ("accuracy", "columns", "transform, s", "fit, s"), measure
)


def streamed(X: np.ndarray, y: np.ndarray) -> Chunks:
    return Chunks(lambda: ((X[rows], y[rows]) for rows in parts(len(X))))


def one(folder: Path | None, name: str, way: str) -> list[object]:
    """Return processor seconds of transform and fit, the most memory that they took beside the pixels, and the bits."""
    X, y = images(name, folder)
    X, y = X[:TRAIN], y[:TRAIN]
    model = DPLogisticRegression(epsilon=1.0, delta=DELTAS[1.0], random_state=0)
    with threadpool_limits(1):
        before, watch = anonymous(), Watch()
        watch.start()
        start = time.process_time()
        if way == "in memory":
            model.fit(Scattering().fit_transform(X), y)
        else:
            model = make_pipeline(Scattering(), model).fit(streamed(X, y))[-1]
        took = time.process_time() - start
        return [round(took, 1), round(watch.stop() - before), hashlib.sha256(model.coef_.tobytes()).hexdigest()[:16]]


def measure_way(folder: Path | None, name: str, way: str) -> list[object]:
    """Return the same, from a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return pool.apply(one, (folder, name, way))


WAYS, BITS = ("in memory", "in chunks"), "digest of coef_"
MEMORY = Table("images_memory", ("dataset", "way"), ("transform and fit, s", "memory, MB", BITS), measure_way)


def needs(repeats: int) -> list[tuple[Table, list[tuple]]]:
    fits = [(n, f, e, seed) for seed in range(repeats) for n in DATASETS for f in FEATURES for e in DELTAS]
    return [(TABLE, fits), (MEMORY, [("fashion_mnist", way) for way in WAYS])]


def report() -> None:
    """Write the table of accuracies beside published ones, and that of times and memory."""
    rows = TABLE.rows()
    lines = [[*about, "", *(f"{value:.1f}" for value in figures)] for *about, figures in PUBLISHED]
    for features in FEATURES:
        for epsilon, delta in DELTAS.items():
            some = rows.where(features=features, epsilon=epsilon)
            found = [100 * some.where(dataset=name).numbers("accuracy") for name in DATASETS]
            seeds = min(map(len, found))
            if seeds:
                known = ["default, untuned", features, f"{epsilon:g}", f"{delta:g}", seeds]
                lines.append([*known, *(mean_of(values[:seeds]) for values in found)])
    table = markdown(["model", "features", "epsilon", "delta", "seeds", *DATASETS.values()], lines)
    times = markdown(["data", "features", "columns", "epsilon", "transform of 70,000, s", "fit, s"], time_lines(rows))
    memory = MEMORY.rows()
    if len({row[BITS] for row in memory}) > 1:
        raise SystemExit("coefficients in memory and in chunks gave different models")
    fields = [field for field in MEMORY.fields if field != BITS]
    write("images", table=table, times=times, memory=memory.markdown(fields), machine=TABLE.machine())


def time_lines(rows: Rows) -> Iterator[list[str]]:
    for (name, features, epsilon), some in rows.by("dataset", "features", "epsilon").items():
        transform, fit = (np.median(some.numbers(field)) for field in ("transform, s", "fit, s"))
        shown = f"{transform:.0f}" if transform else ""
        yield [DATASETS[name], features, some[0]["columns"], f"{float(epsilon):g}", shown, f"{fit:.0f}"]
