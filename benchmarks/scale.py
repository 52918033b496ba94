"""How much memory and time fits take on rows in a file, and whether time is linear in the number of rows.

    python -m benchmarks run scale --folder DIR [--write]

Makes 5,000,000 x 120 numbers of 4 bytes in DIR (2.4 GB, deleted at the end unless ``--keep``), and fits DP-AGD,
``DPLogisticRegression`` by gradient descent and as it comes to the first 10^5, 5*10^5, ... of them, each in a process
of its own with one BLAS thread. Rounded rows go to the folder for temporary files (TMPDIR), another 2.4 GB.

The floor is what nobody can avoid, on the same blocks of rows: for every gradient a cast to float64, X @ w and X.T @ r;
for every Hessian of a perturbed objective a cast and (X.T * h) @ X. DP-AGD needs two passes, and hence two casts, for a
gradient: the direction of a step is known when all rows are summed, and the step when all rows were looked at along it;
and one float64 ``np.exp`` over candidates x rows for every choice of a step. The ratio to a floor with one cast is
given too. Floors are measured in the same process before and after the fit; they and the fit are processor time,
because other processes ran beside them, and time by the clock stands beside it. Memory is resident anonymous memory
(RssAnon of /proc/self/status), looked at every 10 ms; pages of files are not part of it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from dpsk import DPAGDLogisticRegression, DPLogisticRegression
from dpsk.data.stored import blocks_of
from dpsk.minimizers.regularized import SumOverRows
from dpsk.solvers.adaptive_gradient import AdaptiveGradient

RESULTS = Path(__file__).parent / "results"
ROWS, COLUMNS = 5_000_000, 120
SIZES = (100_000, 500_000, 2_000_000, ROWS)
CANDIDATES = AdaptiveGradient().candidates
GRADIENT = "gradient of the floor, s"
MODELS = {
    "DP-AGD": DPAGDLogisticRegression(epsilon=1.0, delta=1e-8),
    "default, by gradient descent": DPLogisticRegression(epsilon=1.0, delta=1e-8, solver="gradient-descent"),
    "default": DPLogisticRegression(epsilon=1.0, delta=1e-8),
}

CAPTION = """\
Made by `python -m benchmarks run scale --folder DIR --write`: float32 in [0, 1), 120 columns, memory-mapped,
epsilon = 1, delta = 1e-8, one thread, each fit in its own process. The default is gradient descent on fewer rows and a
perturbed objective on many. The floor is, on the same blocks, a cast to float64, X @ w and X.T @ r for every gradient
(two casts for DP-AGD, which needs two passes for each; the ratio to a floor with one cast is given too), one
exponential over 20 x rows for every choice, a cast and (X.T * h) @ X for every Hessian, measured before and after the
fit. The fit is everything `fit` does: validation, ranges, moments, rounding, noise and accounting included. Both are
processor time, because the machine was shared; wall is time by the clock. Memory is resident anonymous memory."""


def make(folder: Path, n: int) -> None:
    """Write n rows of numbers in [0, 1), and labels that a logistic model gives them."""
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

    def gradient(rows):
        block = X[rows].astype(np.float64)
        return block @ w, block.T @ r[rows]

    def hessian(rows):
        block = X[rows].astype(np.float64)
        return (block.T * r[rows]) @ block

    bare = {
        "gradient": gradient,
        "two passes": lambda rows: (X[rows].astype(np.float64) @ w, X[rows].astype(np.float64).T @ r[rows]),
        "losses": lambda rows: np.exp(scores[:, : rows.stop - rows.start]),
        "Hessian": hessian,
    }
    seconds = {}
    for kind, of_block in bare.items():
        times = []
        for _ in range(1 if kind == "Hessian" else max(2, 4_000_000 // len(X))):
            start = time.process_time()
            for rows in blocks_of(X):
                of_block(rows)
            times.append(time.process_time() - start)
        seconds[kind] = float(np.median(times))
    return seconds


def count_passes(counts: dict[str, int]) -> None:
    """Count the passes of perturbed objectives, of which a model says nothing."""
    of_losses, hessians = SumOverRows._of_losses, SumOverRows.hessians

    def counted_losses(self, *at):
        counts["gradient"] += 1
        return of_losses(self, *at)

    def counted_hessians(self, *at):
        counts["Hessian"] += 1
        return hessians(self, *at)

    SumOverRows._of_losses, SumOverRows.hessians = counted_losses, counted_hessians


def one(folder: Path, name: str, n: int) -> dict[str, object]:
    """Return the figures of one fit to the first n rows."""
    X, y = np.load(folder / "X.npy", mmap_mode="r")[:n], np.load(folder / "y.npy", mmap_mode="r")[:n]
    plain = np.asarray(X)
    counts = {"gradient": 0, "losses": 0, "Hessian": 0}
    before = floor(plain)
    count_passes(counts)
    idle, watch = anonymous(), Watch()
    watch.start()
    start, wall = time.process_time(), time.perf_counter()
    model = MODELS[name].fit(X, y)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    most = watch.stop()
    after = floor(plain)
    for release in model.privacy_spent_.releases:
        if release.label in counts:
            counts[release.label] += release.count
    each = {kind: (before[kind] + after[kind]) / 2 for kind in before}
    one_cast = sum(counts[kind] * each[kind] for kind in counts)
    bare = one_cast + counts["gradient"] * (each["two passes"] - each["gradient"]) * (name == "DP-AGD")
    return {
        "model": name,
        "rows": n,
        "gradients": counts["gradient"],
        "choices": counts["losses"],
        "Hessians": counts["Hessian"],
        "wall, s": round(wall, 2),
        "fit, s": round(seconds, 2),
        "floor, s": round(bare, 2),
        "ratio": round(seconds / bare, 3),
        "one cast": round(seconds / one_cast, 3),
        GRADIENT: round(each["gradient"], 4),
        "before, MB": round(idle),
        "at most, MB": round(most),
        "accuracy": round(float(model.score(X[:50_000], y[:50_000])), 4),
    }


def measure(folder: Path, name: str, n: int) -> dict[str, object]:
    """Return the same, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--folder", str(folder), "--one", name, str(n)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def table(rows: list[dict[str, str]]) -> str:
    lines = [
        "# Rows in a file: time and memory",
        "",
        CAPTION,
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}.",
        "",
        "| model | rows | gradients | choices | Hessians | wall, s | fit, s | floor, s | ratio | with one cast | "
        "us a row | ns a row, for a gradient of the floor | before the fit, MB | at most, MB | accuracy |",
        "|" + 15 * "---|",
    ]
    for row in rows:
        n = int(row["rows"])
        per_row, per_gradient = f"{1e6 * float(row['fit, s']) / n:.1f}", f"{1e9 * float(row[GRADIENT]) / n:.0f}"
        counts = [row[kind] if int(row[kind]) else "" for kind in ("gradients", "choices", "Hessians")]
        cells = [
            row["model"],
            f"{n:,}",
            *counts,
            row["wall, s"],
            row["fit, s"],
            row["floor, s"],
            row["ratio"],
            row["one cast"],
            per_row,
            per_gradient,
        ]
        lines.append(f"| {' | '.join([*cells, row['before, MB'], row['at most, MB'], row['accuracy']])} |")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, str]]) -> None:
    """Draw the time of a fit over that of its bare products, and memory, against rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    time_axes, ratio_axes, memory_axes = figure.subplots(1, 3)
    for name in MODELS:
        mine = [row for row in rows if row["model"] == name]
        n = [int(row["rows"]) for row in mine]
        for axes, column in ((time_axes, "fit, s"), (ratio_axes, "ratio"), (memory_axes, "at most, MB")):
            axes.plot(n, [float(row[column]) for row in mine], "o-", label=name)
    for row in (row for row in rows if row["model"] == "DP-AGD"):
        time_axes.plot(int(row["rows"]), float(row["floor, s"]), "k_", markersize=14)
    n = np.array(SIZES)
    time_axes.plot(n, 2e-5 * n, "k:", label="20 microseconds a row")
    time_axes.plot([], [], "k_", markersize=14, label="floor of DP-AGD")
    time_axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="fit, processor seconds")
    ratio_axes.axhline(1.75, color="k", linestyle=":", label="1.75, for DP-AGD")
    ratio_axes.axhline(2.5, color="k", linestyle="--", label="2.5, for the default")
    ratio_axes.set(xscale="log", xlabel="rows", ylabel="fit / floor", ylim=(0, 3))
    memory_axes.axhline(1500, color="k", linestyle=":", label="1.5 GB")
    memory_axes.axhline(2400, color="k", linestyle="--", label="5,000,000 rows as they are")
    memory_axes.set(xscale="log", xlabel="rows", ylabel="anonymous memory at most, MB", ylim=(0, 2600))
    time_axes.legend(fontsize=7, loc="upper left")
    ratio_axes.legend(fontsize=7, loc="lower left")
    memory_axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(0, 0.35))
    figure.savefig(RESULTS / "scale.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the rows are made")
    parser.add_argument("--write", action="store_true", help="store table and picture in benchmarks/results")
    parser.add_argument("--keep", action="store_true", help="leave the rows in the folder")
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--draw", action="store_true", help="make table and picture of scale.csv again")
    options = parser.parse_args()
    stored = RESULTS / "scale.csv"
    if options.one:
        print(json.dumps(one(options.folder, options.one[0], int(options.one[1]))))
        return
    if not options.draw:
        if not (options.folder / "X.npy").exists():
            make(options.folder, max(options.rows))
        found = []
        for name in options.models:
            for n in options.rows:
                found.append(measure(options.folder, name, n))
                print(found[-1], flush=True)
        if not options.keep:
            for file in ("X.npy", "y.npy"):
                (options.folder / file).unlink()
        if not options.write:
            return
        kept = []
        if stored.exists():
            with stored.open() as file:
                kept = list(csv.DictReader(file))
        new = {(row["model"], str(row["rows"])) for row in found}
        kept = [row for row in kept if (row["model"], row["rows"]) not in new] + found
        kept.sort(key=lambda row: (list(MODELS).index(row["model"]), int(row["rows"])))
        with stored.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
    with stored.open() as file:
        rows = list(csv.DictReader(file))
    (RESULTS / "scale.md").write_text(table(rows))
    draw(rows)


if __name__ == "__main__":
    main()
