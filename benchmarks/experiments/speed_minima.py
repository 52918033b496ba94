"""How long fits that find a minimum take beside scikit-learn's ``LogisticRegression()`` (L-BFGS), in turn."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression, OutputPerturbationLogisticRegression, OutputPerturbationSVC

from ..datasets import bounds_of
from ..experiment import write
from ..folds import cached
from ..table import Table
from ..timing import in_turn

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


TABLE = Table("speed_minima", ("data",), ("rows x columns", "scikit-learn, s", *MODELS), measure)


def keys(repeats: None) -> list[tuple]:
    return [(data,) for data in DATA]


def report() -> None:
    write("speed_minima", table=TABLE.rows().markdown())
