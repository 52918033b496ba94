"""Networks by private line search beside DP-SGD and DP-Adam, against iterations: Figure 5 of Chen & Lee (2020).

As in the paper: pixels in [-1, 1], L2 .001, delta 1e-8, batches of a 200th of the rows, C_grad = C_obj = 3, alpha .001,
beta .8, a Gaussian search that takes the shortest step if none passes, steps of .2 for DP-SGD, Adam's own constants,
one price per iteration for the three private methods, of which the search gets a tenth. Not in the text, and chosen
here: the price, which is that of noise as large as the clip; the number of iterations; the longest step and how many
are tried; kernels and activations (``benchmarks/architectures.py``).

The price is one that is proved: a search pays for every step that it may try, together with the gradient of its batch.
The report says what the paper's price would have claimed.

Accuracy is that on the official test images. The objective is the mean loss of the first training images, and the
penalty. Both are measured outside of the guarantee, of iterates as they are, not of averages. The last table runs the
paper's network for CIFAR-10 on made images of that shape, for a few steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

from .. import pictures
from ..architectures import cifar_network, made_images, network_of, with_margin
from ..experiment import save, write
from ..folds import fitted
from ..inside import (
    SGD,
    ArrayRows,
    Budget,
    Gaussian,
    Ledger,
    LineSearch,
    Network,
    NetworkObjective,
    PrivateData,
    RenyiDP,
    RowMap,
    Sampling,
    SeededBits,
    Softmax,
    decay_of,
    order_and_epsilon,
    run,
    seen_steps,
    shares_of_search,
    signals_of,
)
from ..table import Rows, Table, markdown, standard_error
from . import images

KINDS = ("MLP", "CNN")
PANELS = tuple((dataset, kind) for kind in KINDS for dataset in images.DATASETS)
SEARCHED, STEPS, ADAM, NOISELESS = "DP-BLSGD", "DP-SGD", "DP-Adam", "Adam, not private"
PRIVATE, METHODS = (SEARCHED, STEPS, ADAM), (SEARCHED, STEPS, ADAM, NOISELESS)
LINEAR = {"default on pixels": "pixels", "default on scattering": "scattering"}
"""The default linear model on fixed features, at the epsilon of all iterations together."""

DELTA, RATE, ALPHA, CLIP = 1e-8, 1 / 200, 1e-3, 3.0
NOISE = 1.0
"""Of the methods without a search, over the clip: an iteration costs as much as such a gradient."""
LONGEST, TRIED = 1.0, 10
"""The longest step of a search, and how many it tries: down to .13."""
SHARE = 0.1
"""The part of the price that is the search's."""
ITERATIONS = 200
POINTS = (5, 10, 15, *range(20, ITERATIONS + 1, 20))
"""After how many iterations accuracy and objective are measured."""
OBJECTIVE_ROWS = 5_000
CLASSES = 10


def noisy_steps(method: str) -> SGD:
    """Return DP-SGD or DP-Adam of the paper, with as little noise as the budget allows."""
    adam, clip = method != STEPS, CLIP if method in PRIVATE else 1e3  # which clips nothing
    return SGD(Sampling(RATE), ITERATIONS, "adam" if adam else "sgd", 1e-3 if adam else 0.2, clip, 1 / ITERATIONS)


def line_search(order: float) -> LineSearch:
    """Return DP-BLSGD in the paper's variant for networks: an even share of the budget for each iteration."""
    mu, epsilon = shares_of_search(NOISE, SHARE, TRIED, order)
    return LineSearch(
        Sampling(RATE), noise="gaussian", gains="clipped", splits=ITERATIONS, search_share=epsilon / mu,
        gradient_clip=CLIP, loss_clip=CLIP, step_max=LONGEST, shrink=0.8, candidates=TRIED, sufficient=1e-3,
        increase="never", fallback=True,
    )  # fmt: skip


def budget_of(method: str) -> tuple[Budget, float]:
    """Return the budget of a run, and the Renyi order that it is kept at."""
    order, epsilon = order_and_epsilon(Gaussian(1 / NOISE).cost, RATE, ITERATIONS, DELTA)
    if method == NOISELESS:
        order, epsilon = 2, 1e12
    return Budget.of(epsilon, DELTA, currency=RenyiDP(order)), order


class Watched:
    """Accuracy and objective of iterates, measured where nobody else may look."""

    def __init__(self, objective: NetworkObjective, X: np.ndarray, y: np.ndarray) -> None:
        self.objective, self.count, self.seen = objective, 0, list[tuple[float, float]]()
        self.rows, self.tests = (X[:OBJECTIVE_ROWS], y[:OBJECTIVE_ROWS]), (X[images.TRAIN :], y[images.TRAIN :])

    def __call__(self, w: np.ndarray) -> bool:
        self.count += 1
        if self.count in POINTS:
            self.seen.append(self.at(w))
        return self.count == ITERATIONS

    def at(self, w: np.ndarray) -> tuple[float, float]:
        """Return the accuracy on test images, in percent, and the objective on training images."""
        (X, y), (test_X, test_y) = self.rows, self.tests
        losses = self.objective.loss.value(self.scores(X, w), y)
        accuracy = 100 * float(np.mean(self.scores(test_X, w).argmax(axis=1) == test_y))
        return accuracy, float(losses.mean()) + self.objective.penalty.value(w)

    def scores(self, X: np.ndarray, w: np.ndarray) -> np.ndarray:
        network = self.objective.network
        size, rounded = network.block_rows, network.on_grid(w)
        blocks = (signals_of(X[a : a + size]) for a in range(0, len(X), size))
        shaped = (block.reshape(len(block), *network.layers[0].inputs) for block in blocks)
        return np.concatenate([network.scores(block, rounded) for block in shaped])


@lru_cache(maxsize=1)
def problem(dataset: str, folder: Path | None) -> tuple[ArrayRows, np.ndarray, np.ndarray]:
    """Return the training rows behind no door yet, and all images with pixels in [-1, 1], and their labels."""
    X, y = images.images(dataset, folder)
    X = 2 * X - 1
    how = RowMap(n_classes=CLASSES, fit_intercept=False, row_major=True)
    return ArrayRows(X[: images.TRAIN], y[: images.TRAIN], how), X, y


def objective_of(network: Network, seed: int) -> NetworkObjective:
    return NetworkObjective(network, Softmax(CLASSES), decay_of(network, ALPHA), seed)


def measure(folder: Path | None, dataset: str, kind: str, method: str, iterations: int, seed: int) -> list[str]:
    """Return what is seen at every point, as texts of several numbers, and seconds of processor time per iteration."""
    if method in LINEAR:
        return linear(folder, dataset, method, iterations, seed)
    rows, X, y = problem(dataset, folder)
    objective, (budget, order) = objective_of(network_of(dataset, kind), seed), budget_of(method)
    solver: Any = line_search(order) if method == SEARCHED else noisy_steps(method)
    watched, watching = Watched(objective, X, y), 0.0

    def watch(w: np.ndarray) -> bool:
        nonlocal watching
        start = time.process_time()
        ended = watched(w)
        watching += time.process_time() - start
        return ended

    with threadpool_limits(1), seen_steps() as chosen:
        start = time.process_time()
        run(solver, PrivateData(rows, Ledger(budget), SeededBits(seed)), objective, watch)
        seconds = (time.process_time() - start - watching) / watched.count
    parts = zip((0, *POINTS), POINTS, strict=False)
    steps = [float(np.mean(chosen[a:b])) for a, b in parts] if method == SEARCHED else []
    accuracies, objectives = zip(*watched.seen, strict=True)
    epsilons = [spent(iteration) for iteration in POINTS] if method in PRIVATE else []
    return [*map(joined, (accuracies, objectives, epsilons, steps)), f"{seconds:.3f}"]


def linear(folder: Path | None, dataset: str, method: str, iterations: int, seed: int) -> list[str]:
    """Return the same of the default estimator, at its end."""
    X, y = images.images(dataset, folder)
    if LINEAR[method] == "scattering":
        X, _ = images.coefficients(dataset, folder)
    model = DPLogisticRegression(epsilon=spent(iterations), delta=DELTA, random_state=seed)
    model, seconds = fitted(model, np.array(X[: images.TRAIN]), y[: images.TRAIN])
    accuracy = 100 * model.score(X[images.TRAIN :], y[images.TRAIN :])
    return [joined([accuracy]), "", joined([spent(iterations)]), "", f"{seconds:.3f}"]


def spent(iterations: int) -> float:
    """Return the epsilon of so many iterations, had their number been fixed before."""
    return order_and_epsilon(Gaussian(1 / NOISE).cost, RATE, iterations, DELTA)[1]


def joined(numbers: Any) -> str:
    return " ".join(f"{number:.5g}" for number in numbers)
