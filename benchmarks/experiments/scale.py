"""How much memory and time fits take on rows in a file, and whether time is linear in the number of rows.

Every cell makes its rows anew, in ``--folder`` or the folder for temporary files: 5,000,000 x 120 numbers of 4 bytes
are 2.4 GB, and rounded rows go to the folder for temporary files (TMPDIR), as many again. Each fit is made in a process
of its own with one BLAS thread.

The floor is what nobody can avoid, on the same blocks of rows: for every gradient a cast to float64, X @ w and X.T @ r;
for every Hessian of a perturbed objective a cast and (X.T * h) @ X. DP-AGD needs two passes, and hence two casts, for a
gradient: the direction of a step is known when all rows are summed, and the step when all rows were looked at along it;
and one float64 ``np.exp`` over candidates x rows for every choice of a step. Floors are measured in the same process
before and after the fit; they and the fit are processor time. Memory is resident anonymous memory (RssAnon of
/proc/self/status), looked at every 10 ms; pages of files are not part of it.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dpsk import DPAGDLogisticRegression, DPLogisticRegression

from .. import pictures
from ..experiment import save, write
from ..inside import CANDIDATES, blocks_of, counted_passes
from ..table import Rows, Table, markdown
from ..timing import seconds

SIZES, COLUMNS = (100_000, 500_000, 2_000_000, 5_000_000), 120
MODELS = {
    "DP-AGD": DPAGDLogisticRegression(epsilon=1.0, delta=1e-8),
    "default, by gradient descent": DPLogisticRegression(epsilon=1.0, delta=1e-8, solver="gradient-descent"),
    "default": DPLogisticRegression(epsilon=1.0, delta=1e-8),
}
PASSES = {"gradients": "gradient", "choices": "losses", "Hessians": "Hessian"}
GRADIENT = "gradient of the floor, s"
TIMES = ("wall, s", "fit, s", "floor, s", "ratio", "one cast", GRADIENT)
LINES = {  # of the picture: column, label of the axis, and what is aimed at
    "fit, s": "fit, processor seconds",
    "ratio": "fit / floor",
    "at most, MB": "anonymous memory at most, MB",
}


def make(folder: Path, n: int) -> None:
    """Write n rows of numbers in [0, 1) to a file, and labels that a logistic model gives them."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=COLUMNS).astype(np.float32)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(n, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.int8, shape=(n,))
    for a in range(0, n, 100_000):
        rows = slice(a, min(a + 100_000, n))
        X[rows] = rng.random((rows.stop - a, COLUMNS), dtype=np.float32)
        y[rows] = (X[rows] - 0.5) @ w + rng.logistic(size=rows.stop - a) > 0
    X.flush()
    y.flush()


def anonymous() -> float:
    """Return the resident anonymous memory of this process in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1e3


class Watch(threading.Thread):
    """The most anonymous memory seen since it was started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self._end = anonymous(), threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.01):
            self.most = max(self.most, anonymous())

    def stop(self) -> float:
        self._end.set()
        self.join()
        return self.most


def floor(X: np.ndarray) -> dict[str, float]:
    """Return the seconds of one gradient, of one in two passes, of one choice, and of one Hessian."""
    rng = np.random.default_rng(0)
    w, r, scores = rng.normal(size=COLUMNS), rng.normal(size=len(X)), rng.normal(size=(CANDIDATES, 8192))

    def cast(rows):
        return X[rows].astype(np.float64)

    def gradient(rows):
        block = cast(rows)
        return block @ w, block.T @ r[rows]

    def hessian(rows):
        block = cast(rows)
        return (block.T * r[rows]) @ block

    bare = {
        "gradient": gradient,
        "two passes": lambda rows: (cast(rows) @ w, cast(rows).T @ r[rows]),
        "losses": lambda rows: np.exp(scores[:, : rows.stop - rows.start]),
        "Hessian": hessian,
    }
    found = {}
    for kind, of_block in bare.items():
        repeats = 1 if kind == "Hessian" else max(2, 4_000_000 // len(X))
        work = lambda of_block=of_block: [of_block(rows) for rows in blocks_of(X)] and None  # noqa: E731
        found[kind] = float(np.median([seconds(work, time.process_time) for _ in range(repeats)]))
    return found


def one(folder: Path, name: str) -> list[object]:
    """Return the figures of one fit to the rows in the file."""
    X, y = (np.load(folder / f"{what}.npy", mmap_mode="r") for what in "Xy")
    with threadpool_limits(1):
        before = floor(np.asarray(X))
        idle, watch = anonymous(), Watch()
        watch.start()
        with counted_passes() as counts:
            start, wall = time.process_time(), time.perf_counter()
            model = MODELS[name].fit(X, y)
            took, wall = time.process_time() - start, time.perf_counter() - wall
        most = watch.stop()
        after = floor(np.asarray(X))
    for release in model.privacy_spent_.releases:
        if release.label in counts:
            counts[release.label] += release.count
    each = {kind: (before[kind] + after[kind]) / 2 for kind in before}
    each["product"] = each["gradient"]  # with a Hessian: X @ direction and X.T @ residuals
    one_cast = sum(counts[kind] * each[kind] for kind in counts)
    bare = one_cast + counts["gradient"] * (each["two passes"] - each["gradient"]) * (name == "DP-AGD")
    times = (round(wall, 2), round(took, 2), round(bare, 2), round(took / bare, 3), round(took / one_cast, 3))
    accuracy = round(float(model.score(X[:50_000], y[:50_000])), 4)
    passes = (counts[kind] for kind in PASSES.values())
    return [*passes, *times, round(each["gradient"], 4), round(idle), round(most), accuracy]


def measure(folder: Path | None, name: str, n: int) -> list[object]:
    """Return the same for n rows, made and measured in a process each."""
    pool = multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1)
    with tempfile.TemporaryDirectory(dir=folder) as made, pool:
        pool.apply(make, (Path(made), n))
        return pool.apply(one, (Path(made), name))


TABLE = Table("scale", ("model", "rows"), (*PASSES, *TIMES, "before, MB", "at most, MB", "accuracy"), measure)


def table(rows: Rows) -> str:
    lines = []
    for row in rows:
        n = int(row["rows"])
        counts = [row[kind] if int(row[kind]) else "" for kind in PASSES]
        per_row, per_gradient = f"{1e6 * float(row['fit, s']) / n:.1f}", f"{1e9 * float(row[GRADIENT]) / n:.0f}"
        cells = [row["model"], f"{n:,}", *counts, *(row[field] for field in TIMES[:-1]), per_row, per_gradient]
        lines.append([*cells, row["before, MB"], row["at most, MB"], row["accuracy"]])
    per = ("us a row", "ns a row, for a gradient of the floor", "before the fit, MB", "at most, MB", "accuracy")
    return markdown(["model", "rows", *PASSES, *TIMES[:4], "with one cast", *per], lines)


def report() -> None:
    """Write the table, and draw the time of a fit over that of its bare products, and memory, against rows."""
    rows = Rows(row for name in MODELS for row in sorted(TABLE.rows().where(model=name), key=lambda r: int(r["rows"])))
    write("scale", machine=TABLE.machine(), table=table(rows))
    figure = pictures.figure(11, 4)
    grid = figure.subplots(1, 3)
    time_axes, ratio_axes, memory_axes = grid
    for name in MODELS:
        mine = rows.where(model=name)
        for axes, column in zip(grid, LINES, strict=True):
            axes.plot(mine.numbers("rows"), mine.numbers(column), "o-", label=name)
    for row in rows.where(model="DP-AGD"):
        time_axes.plot(int(row["rows"]), float(row["floor, s"]), "k_", markersize=14)
    time_axes.plot(SIZES, 2e-5 * np.array(SIZES), "k:", label="20 microseconds a row")
    time_axes.plot([], [], "k_", markersize=14, label="floor of DP-AGD")
    time_axes.set(yscale="log")
    ratio_axes.axhline(1.75, color="k", linestyle=":", label="1.75, for DP-AGD")
    ratio_axes.axhline(2.5, color="k", linestyle="--", label="2.5, for the default")
    ratio_axes.set(ylim=(0, 3))
    memory_axes.axhline(1500, color="k", linestyle=":", label="1.5 GB")
    memory_axes.axhline(2400, color="k", linestyle="--", label="5,000,000 rows as they are")
    memory_axes.set(ylim=(0, 2600))
    for axes, label in zip(grid, LINES.values(), strict=True):
        axes.set(xscale="log", xlabel="rows", ylabel=label)
    time_axes.legend(fontsize=7, loc="upper left")
    ratio_axes.legend(fontsize=7, loc="lower left")
    memory_axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(0, 0.35))
    save(figure, "scale", 110)


def keys(repeats: None) -> list[tuple]:
    return [(name, n) for name in MODELS for n in SIZES]
