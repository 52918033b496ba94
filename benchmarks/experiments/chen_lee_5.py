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

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression

from .. import pictures
from ..architectures import cifar_network, made_images, network_of, with_margin
from ..experiment import fits, save, write
from ..folds import fitted
from ..inside import (
    SGD,
    ArrayRows,
    Budget,
    Gaussian,
    Ledger,
    LineSearchSGD,
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
    signals_of,
)
from ..paper_price import claimed_epsilon, proved_epsilon
from ..table import Rows, Table, markdown, mean_of, standard_error
from . import images

KINDS = ("MLP", "CNN")
PANELS = tuple((dataset, kind) for kind in KINDS for dataset in images.DATASETS)
SEARCHED, STEPS, ADAM, NOISELESS = "DP-BLSGD", "DP-SGD", "DP-Adam", "Adam, not private"
PRIVATE, METHODS = (SEARCHED, STEPS, ADAM), (SEARCHED, STEPS, ADAM, NOISELESS)
LINEAR = {"default on pixels": "pixels", "default on scattering": "scattering"}
"""The default linear model on fixed features, at the epsilon of all iterations together."""

DELTA, RATE, ALPHA, CLIP = 1e-8, 1 / 200, 1e-3, 3.0
NOISE, NO_NOISE, NO_CLIP = 1.0, 1e-6, 1e3
"""The noise over the clip of methods without a search: an iteration costs as much as such a gradient."""
LONGEST, TRIED = 1.0, 10
"""The longest step of a search, and how many it tries: down to .13."""
SHARE = 0.1
"""The part of the price that is the search's."""
ITERATIONS = 200
POINTS = (5, 10, 15, *range(20, ITERATIONS + 1, 20))
"""After how many iterations accuracy and objective are measured."""
EARLY = (20, 60)
OBJECTIVE_ROWS = 5_000
CLASSES = 10


@dataclass(frozen=True)
class Schedule:
    """Batches, how many, and how much noise there would be without a search: what all methods have in common."""

    rate: float = RATE
    iterations: int = ITERATIONS
    noise: float = NOISE

    def spent(self, iterations: int) -> tuple[int, float]:
        """Return the epsilon of so many iterations, their number fixed before, and the order that promises it."""
        return order_and_epsilon([Gaussian(1 / self.noise).cost], self.rate, iterations, DELTA)

    @property
    def budget(self) -> Budget:
        order, epsilon = self.spent(self.iterations)
        return Budget.of(epsilon, DELTA, currency=RenyiDP(order))

    def solver(self, method: str, length: float = 0.2) -> SGD | LineSearchSGD:
        """Return a method of the paper that spends an even share of the budget on each iteration."""
        clip = CLIP if method in PRIVATE else NO_CLIP
        if method == SEARCHED:
            return self.line_search()
        optimizer, length = ("sgd", length) if method == STEPS else ("adam", 1e-3)
        return SGD(Sampling(self.rate), self.iterations, optimizer, length, clip, average=0.5 / self.iterations)

    def line_search(self) -> LineSearchSGD:
        return LineSearchSGD.of_paper(
            Sampling(self.rate), self.iterations, step_max=LONGEST, candidates=TRIED, search_price=SHARE
        )


class Watched:
    """Accuracy and objective of iterates, measured where nobody else may look, and the time that took."""

    def __init__(self, objective: NetworkObjective, rows: Any, tests: Any) -> None:
        self.objective, self.rows, self.tests = objective, rows, tests
        self.count, self.seconds, self.seen = 0, 0.0, list[tuple[float, float]]()

    def __call__(self, w: np.ndarray) -> bool:
        self.count += 1
        if self.count in POINTS:
            start = time.process_time()
            self.seen.append(self.at(w))
            self.seconds += time.process_time() - start
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
        blocks = (X[a : a + size] for a in range(0, len(X), size))
        return np.concatenate([network.scores(signals_of(rows, np.ones(len(rows))), rounded) for rows in blocks])


@lru_cache(maxsize=1)
def problem(dataset: str, folder: Path | None) -> tuple[ArrayRows, Any, Any]:
    """Return training rows behind no door yet, and those that show the objective and the accuracy, as arrays."""
    X, y = images.images(dataset, folder)
    X, train = 2 * X - 1, images.TRAIN
    return held(X[:train], y[:train]), (X[:OBJECTIVE_ROWS], y[:OBJECTIVE_ROWS]), (X[train:], y[train:])


def held(X: np.ndarray, y: np.ndarray) -> ArrayRows:
    return ArrayRows(X, y, RowMap(n_classes=CLASSES, fit_intercept=False, row_major=True))


def objective_of(network: Network, seed: int) -> NetworkObjective:
    return NetworkObjective(network, Softmax(CLASSES), decay_of(network, ALPHA), seed)


def measure(folder: Path | None, dataset: str, kind: str, method: str, iterations: int, seed: int) -> list[str]:
    """Return what is seen at every point, several numbers in a text, and seconds of processor time per iteration."""
    if method in LINEAR:
        return linear(folder, dataset, method, iterations, seed)
    rows, *seen = problem(dataset, folder)
    objective, plan = objective_of(network_of(dataset, kind), seed), Schedule(iterations=iterations)
    if method == NOISELESS:
        plan = replace(plan, noise=NO_NOISE)
    watched = Watched(objective, *seen)
    with threadpool_limits(1), seen_steps() as chosen:
        start = time.process_time()
        data = PrivateData(rows, Ledger(plan.budget), SeededBits(seed))
        run(plan.solver(method), data, objective, watched)
        seconds = (time.process_time() - start - watched.seconds) / watched.count
    accuracies, objectives = zip(*watched.seen, strict=True)
    between = zip((0, *POINTS), POINTS, strict=False)
    steps = [np.mean(chosen[a:b]) for a, b in between] if method == SEARCHED else []
    epsilons = [plan.spent(iteration)[1] for iteration in POINTS] if method in PRIVATE else []
    return [*map(joined, (accuracies, objectives, epsilons, steps)), f"{seconds:.3f}"]


def linear(folder: Path | None, dataset: str, method: str, iterations: int, seed: int) -> list[str]:
    """Return the accuracy of the default estimator at the epsilon of all iterations, and the seconds of its fit."""
    X, y = images.images(dataset, folder)
    if LINEAR[method] == "scattering":
        X, _ = images.coefficients(dataset, folder)
    _, epsilon = Schedule().spent(iterations)
    model = DPLogisticRegression(epsilon=epsilon, delta=DELTA, random_state=seed)
    model, seconds = fitted(model, np.array(X[: images.TRAIN]), y[: images.TRAIN])
    accuracy = 100 * model.score(X[images.TRAIN :], y[images.TRAIN :])
    return [joined([accuracy]), "", joined([epsilon]), "", f"{seconds:.3f}"]


def joined(numbers: Any) -> str:
    return " ".join(f"{number:.5g}" for number in numbers)


KEY = ("dataset", "network", "method", "iterations", "seed")
TABLE = Table("chen_lee_5", KEY, ("accuracy", "objective", "epsilon", "step", "seconds"), measure)


def measure_cifar(folder: Path | None, method: str, iterations: int) -> list[str]:
    """Return how large the network and a batch are, losses before and after, and seconds of processor time."""
    del folder
    made, y = made_images(CIFAR_ROWS, 0)
    X, plan = with_margin(made), Schedule(CIFAR_RATE, iterations, NO_NOISE)
    objective, rows = objective_of(cifar_network(), 0), held(X, y)
    watched = Watched(objective, (X, y), (X, y))
    with threadpool_limits(1):
        start = time.process_time()
        data = PrivateData(rows, Ledger(plan.budget), SeededBits(0))
        result = run(plan.solver(method, 0.1), data, objective)
        seconds = (time.process_time() - start) / iterations
    before, after = (watched.at(w)[1] for w in (objective.start(), result.w))
    return [
        str(objective.n_weights), f"{CIFAR_ROWS * CIFAR_RATE:g}", f"{before:.4f}", f"{after:.4f}", f"{seconds:.1f}"
    ]  # fmt: skip


CIFAR_ROWS, CIFAR_RATE, CIFAR_ITERATIONS = 200, 0.1, 4
CIFAR = Table(
    "chen_lee_5_cifar",
    ("method", "iterations"),
    ("weights", "rows of a batch", "objective before", "objective after", "s per iteration"),
    measure_cifar,
)


def needs(repeats: int) -> list[tuple[Table, list[tuple]]]:
    """Return the runs of all networks, seed by seed, then one fit of each linear model."""
    runs = [(*panel, m, ITERATIONS, seed) for seed in range(repeats) for panel in PANELS for m in METHODS]
    fits = [(dataset, "linear", m, ITERATIONS, 0) for m in LINEAR for dataset in images.DATASETS]
    return [(CIFAR, [(m, CIFAR_ITERATIONS) for m in (STEPS, SEARCHED)]), (TABLE, [*fits, *runs])]


Runs = Mapping[tuple[str, ...], np.ndarray]


def traces(field: str) -> dict[tuple[str, str, str], Runs]:
    """Return what was measured, by data, network and method, then by seed: one number for each point."""
    found: dict[tuple[str, str, str], dict[tuple[str, ...], np.ndarray]] = {}
    for row in TABLE.rows().where(iterations=ITERATIONS):
        if row[field]:
            runs = found.setdefault((row["dataset"], row["network"], row["method"]), {})
            runs[row["seed"],] = np.array(row[field].split(), dtype=float)
    return found


def note() -> str:
    rows = Rows(row for row in TABLE.rows().where(iterations=ITERATIONS) if row["method"] in METHODS)
    about = f"means over runs of {ITERATIONS} iterations; the paper: 5 runs, and its text does not say how long"
    return f"{about}. {fits(rows, 'method', ('dataset', 'network'))}"


def curve(panel: tuple[str, str], method: str, field: str) -> np.ndarray:
    """Return one line per seed, one column per point."""
    return np.array([*traces(field).get((*panel, method), {}).values()])


def end(panel: tuple[str, str], method: str, field: str) -> str:
    """Return the mean at the last point, with its standard error."""
    found = curve(panel, method, field)
    return mean_of(found[:, -1]) if found.size else ""


def end_lines() -> Iterator[list[object]]:
    """Yield what every method ends with on every network, and the time of an iteration."""
    for panel, method in product(PANELS, METHODS):
        runs = curve(panel, method, "accuracy")
        if runs.size:
            early = [mean_of(runs[:, POINTS.index(point)]) for point in EARLY]
            seconds = np.median(curve(panel, method, "seconds"))
            ends = (end(panel, method, field) for field in ("accuracy", "objective", "step"))
            yield [images.DATASETS[panel[0]], panel[1], method, len(runs), *early, *ends, f"{seconds:.3f}"]


def linear_lines() -> Iterator[list[object]]:
    for dataset, method in product(images.DATASETS, LINEAR):
        found = curve((dataset, "linear"), method, "accuracy")
        if found.size:
            epsilon = curve((dataset, "linear"), method, "epsilon")[0, -1]
            yield [images.DATASETS[dataset], method, f"{epsilon:.2f}", f"{found[0, -1]:.2f}"]


def price_lines() -> Iterator[list[object]]:
    """Yield what the paper's accounting claims for all iterations of DP-BLSGD, and what is proved."""
    plan = Schedule()
    solver, currency = plan.line_search(), plan.budget.currency
    here = solver.sampling.strongest(solver.costs, plan.budget.limit / ITERATIONS, currency)
    for text, mu in (("as in the figure", here), ("as in the paper, at this price", math.sqrt(1 - SHARE) / NOISE)):
        claimed, proved = (f(solver, mu, DELTA) for f in (claimed_epsilon, proved_epsilon))
        yield [text, f"{1 / mu:.3f}", f"{claimed:.3f}", f"{proved:.3f}"]


def report() -> None:
    """Write the tables, and draw the figure."""
    _, epsilon = Schedule().spent(ITERATIONS)
    head = ["data", "network", "method", "runs", *(f"after {point}, %" for point in EARLY), "at the end, %"]
    write(
        "chen_lee_5",
        iterations=ITERATIONS,
        epsilon=epsilon,
        point=POINTS[0],
        first=Schedule().spent(POINTS[0])[1],
        rows=OBJECTIVE_ROWS,
        noise=NOISE,
        longest=LONGEST,
        tried=TRIED,
        ends=markdown([*head, "objective", "last steps", "s per iteration"], end_lines()),
        linear=markdown(["data", "model", "epsilon", "accuracy, %"], linear_lines()),
        prices=markdown(["noises", "noise of gradients, clips", "claimed epsilon", "proved epsilon"], price_lines()),
        cifar=CIFAR.rows().markdown(CIFAR.fields),
        made=CIFAR_ROWS,
        machine=TABLE.machine(),
    )
    draw()


LOOKS = {
    SEARCHED: {"color": "C3", "lw": 1.8, "zorder": 4},
    STEPS: {"color": "C0", "ls": "--"},
    ADAM: {"color": "C2", "ls": "-."},
    NOISELESS: {"color": "0.5", "ls": ":"},
    "default on pixels": {"color": "black", "ls": (0, (6, 3)), "lw": 1},
    "default on scattering": {"color": "black", "lw": 1},
}


def draw() -> None:
    """Draw accuracy, objective, and epsilon with the chosen steps, one column per network."""
    figure = pictures.figure(13, 8)
    rows = figure.subplots(3, len(PANELS), sharex=True)
    for column, panel in enumerate(PANELS):
        top, middle, bottom = rows[:, column]
        for axes, field in ((top, "accuracy"), (middle, "objective")):
            for method in METHODS:
                line(axes, panel, method, field)
        for method in LINEAR:
            found = curve((panel[0], "linear"), method, "accuracy")
            if found.size:
                top.axhline(found[0, -1], label=method, **LOOKS[method])
        line(bottom, panel, SEARCHED, "step")
        other = bottom.twinx()
        line(other, panel, SEARCHED, "epsilon", color="C4", label="epsilon of the private methods", ls="--")
        top.set(title=f"{panel[1]} on {images.DATASETS[panel[0]]}", ylim=(50, 100))
        middle.set(yscale="log", ylim=(0.3, 7))
        pictures.ticks(middle, y=(0.5, 1, 2, 5))
        middle.minorticks_off()
        bottom.set(xlabel="iterations", ylim=(0, 1.05 * LONGEST))
        other.set(ylim=(0, None))
        if not column:
            top.set_ylabel("accuracy, %")
            middle.set_ylabel("objective")
            bottom.set_ylabel("step of DP-BLSGD")
        if column == len(PANELS) - 1:
            other.set_ylabel("epsilon")
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    pictures.legend_below(figure, 4)
    save(figure, "chen_lee_5", 90)


def line(axes, panel: tuple[str, str], method: str, field: str, **look) -> None:
    found = curve(panel, method, field)
    if found.size:
        errors = [np.nan_to_num(standard_error(values)) for values in found.T]
        axes.errorbar(POINTS, found.mean(axis=0), errors, **{"label": method, **LOOKS[method], **look})
