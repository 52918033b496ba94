"""Private line search on mini-batches: what its settings do, what it computes, how long it takes.

    python -m benchmarks.line_search --data DIR [--repeats 10]    (Figures 1 and 2 of Chen & Lee 2020, on Adult)
    python -m benchmarks.line_search --data DIR --speed           (time of a fit on covtype, in multiples of its floor)
    python -m benchmarks.line_search --report                     (tables and pictures from the CSV files only)

Each repeat is a 5-fold cross-validation with its own shuffle; one line per fold goes to ``line_search.csv``.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk import DPLineSearchClassifier, DPLogisticRegression
from dpsk.data import ArrayRows, RowMap, compact

from .accuracy import ALPHA, RESULTS, cached, fold_of, standard_error
from .speed import median
from .suite import Folds, Table, by_fold, per_repeat

FIELDS = ("parameter", "value", "epsilon", "repeat", "fold", "accuracy", "gradients", "losses", "batches")
DELTA = 1e-8
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SETTINGS = {
    "sufficient": (0.1, 0.25, 0.5, 0.75, 0.9),
    "shrink": (0.5, 0.6, 0.7, 0.8, 0.9),
    "noise": ("laplace", "gaussian"),
    "sampling_rate": RATES,
    "increase": ("never", "always", "angle"),
    "clip_decay": (0.0, 0.02, 0.05, 0.1, 0.2),
    "gains": ("per-unit", "clipped"),
    "search": ("armijo-svt", "exponential"),
    "estimator": ("default",),
}
TITLES = {
    "sufficient": "(a) sufficient decrease (alpha)",
    "shrink": "(b) shrinking of steps (beta)",
    "noise": "(c) noise of the search",
    "sampling_rate": "(d) sampling rate (q)",
    "increase": "(e) growth of prices",
    "clip_decay": "(f) decay of clips (zeta)",
}


def run_fold(folder, parameter, value, epsilon, repeat, fold) -> tuple[str, ...]:
    """Fit Adult with one setting changed, or with the default estimator, which has no line search."""
    X, y = cached("adult", folder)
    train, test = fold_of(X, y, repeat, fold)
    seed = 10 * repeat + fold
    if parameter == "estimator":
        model = DPLogisticRegression(epsilon, DELTA, bounds=(0, 1), random_state=seed)
    else:
        model = DPLineSearchClassifier(epsilon, DELTA, alpha=ALPHA, random_state=seed)
        model.set_params(**{parameter: value})
    with threadpool_limits(1):
        accuracy = model.fit(X[train], y[train]).score(X[test], y[test])
    passes = model.evaluations_
    losses = passes.get("gains", 0.0) + passes.get("losses", 0.0)
    batches = sum(release.count for release in model.privacy_spent_.releases)
    return f"{accuracy:.6f}", f"{passes['gradient']:.4g}", f"{losses:.5g}", str(batches)


TABLE = Table("line_search", FIELDS[:5], FIELDS[5:], run_fold)
read = TABLE.rows


def keys(repeats: int) -> list[tuple]:
    cells = [(p, v, e) for p, values in SETTINGS.items() for v in values for e in (0.05, 0.2)]
    cells += [("sampling_rate", rate, 0.4) for rate in RATES] + [("estimator", "default", 0.4)]
    return [(*cell, repeat, fold) for repeat in range(repeats) for cell in cells for fold in range(5)]


def run(options) -> None:
    TABLE.run(keys(options.repeats), options.data, options.jobs)


def folds_of(measure: str) -> dict[tuple[str, ...], Folds]:
    """Return one column by parameter, value and epsilon."""
    return by_fold(read(), FIELDS[:3], measure)


def summary() -> dict[tuple[str, ...], dict[str, np.ndarray]]:
    """Return the mean over folds of every repeat, of each column, by parameter, value and epsilon."""
    cells: dict[tuple[str, ...], dict[str, np.ndarray]] = {}
    for field in FIELDS[5:]:
        for cell, folds in folds_of(field).items():
            cells.setdefault(cell, {})[field] = per_repeat(folds)
    return cells


def report() -> None:
    cells = summary()
    lines = [
        "# Settings of the private line search",
        "",
        "Made by `python -m benchmarks.line_search --data DIR`: `DPLineSearchClassifier` on Adult, one parameter",
        "changed at a time, means over repeats of 5-fold cross-validation with the standard error; delta = 1e-8.",
        "Gradients and losses are counted in passes over the rows (expected, as batches are random).",
        "",
        "| parameter | value | epsilon | repeats | accuracy, % | batches | gradients | losses |",
        "|---|---|---|---|---|---|---|---|",
    ]
    order = [(p, str(v), e) for p, values in SETTINGS.items() for v in values for e in ("0.05", "0.2", "0.4")]
    for key in (key for key in order if key in cells):
        cell, (parameter, value, epsilon) = cells[key], key
        accuracy = cell["accuracy"]
        lines.append(
            f"| {parameter} | {value} | {epsilon} | {len(accuracy)} | {accuracy.mean():.2f} ± "
            f"{standard_error(accuracy):.2f} | {cell['batches'].mean():.0f} | {cell['gradients'].mean():.1f} | "
            f"{cell['losses'].mean():.0f} |"
        )
    (RESULTS / "line_search.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw_settings(cells)
    draw_evaluations(cells)


def draw_settings(cells) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.5), layout="constrained")
    for axes, (parameter, title) in zip(figure.subplots(2, 3, sharey=True).flat, TITLES.items(), strict=True):
        for epsilon, marker in (("0.2", "^"), ("0.05", "v")):
            found = [(str(v), cells.get((parameter, str(v), epsilon))) for v in SETTINGS[parameter]]
            names = [name for name, cell in found if cell]
            values = [cell["accuracy"] for _, cell in found if cell]
            axes.errorbar(
                names, [v.mean() for v in values], [standard_error(v) for v in values], marker=marker, ls="-" if
                parameter not in ("noise", "increase") else "none", label=f"epsilon = {epsilon}",
            )  # fmt: skip
            default = cells.get(("estimator", "default", epsilon))
            if default:
                style = {"0.2": "--", "0.05": ":"}[epsilon]
                level = default["accuracy"].mean()
                axes.axhline(level, color="black", ls=style, lw=1, label=f"default, epsilon = {epsilon}")
        axes.set_title(title, fontsize=10)
        axes.margins(x=0.15)
        axes.grid(axis="y", alpha=0.3)
    for row in (0, 3):
        figure.axes[row].set_ylabel("accuracy on Adult, %")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(RESULTS / "line_search_settings.png", dpi=110)


def draw_evaluations(cells) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = [(rate, cells[key]) for rate in RATES if (key := ("sampling_rate", str(rate), "0.4")) in cells]
    rates = [rate for rate, _ in found]
    left.plot(rates, [cell["gradients"].mean() for _, cell in found], "o-", label="gradients")
    left.plot(rates, [cell["losses"].mean() for _, cell in found], "s-", label="losses")
    default = cells.get(("estimator", "default", "0.4"))
    if default:
        label = "default (all rows): gradients"
        left.axhline(default["gradients"].mean(), color="black", ls="--", lw=1, label=label)
        right.axhline(default["accuracy"].mean(), color="black", ls="--", lw=1, label="default")
    left.set(xscale="log", yscale="log", xlabel="sampling rate", ylabel="passes over the rows", title="Adult, eps 0.4")
    left.legend()
    accuracies = [cell["accuracy"] for _, cell in found]
    right.errorbar(rates, [a.mean() for a in accuracies], [standard_error(a) for a in accuracies], marker="o")
    right.set(xscale="log", xlabel="sampling rate", ylabel="accuracy, %", title="Adult, eps 0.4")
    right.legend(loc="center right")
    for axes in (left, right):
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.savefig(RESULTS / "line_search_evaluations.png", dpi=110)


def speed(options) -> None:
    """Time fits on covtype beside the bare products and exponentials of what they drew."""
    from .datasets import load

    X, y = load("covtype", options.data)
    n, d = X.shape
    lines = [
        "# Speed of DPLineSearchClassifier on covtype",
        "",
        "Made by `python -m benchmarks.line_search --data DIR --speed`: epsilon = 1, delta = 1e-6, medians over fits,",
        "one BLAS thread. The fit is everything `fit` does: validation, rounding, drawing batches and noise,",
        "accounting. Set-up is its pass over all rows that rounds them (a part of the fit, timed on its own). The bare",
        "floor is what the batches need at least, on a batch of q * n rows in the storage given: two products for a",
        "gradient, two for a search, and one np.exp per row and loss. The ratio is that of the fit less its set-up to",
        "the floor. The floor with collecting adds X[indices] for every batch: rows of a random batch do not lie side",
        "by side. (A fit collects the next batch in a second thread, which takes a second core.)",
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}.",
        "",
        "| rows x columns | given | rate | search | batches | gradients | losses | fit, s | set-up, s | bare floor, s "
        "| ratio | with collecting, s | ratio |",
        "|---" * 13 + "|",
    ]
    print("\n".join(lines))
    with threadpool_limits(1):
        for given, rate, search in (
            ("dense", 0.1, "armijo-svt"),
            ("CSR", 0.1, "armijo-svt"),
            ("dense", 0.1, "exponential"),
            ("dense", 1.0, "armijo-svt"),
        ):
            stored = X if given == "dense" else sp.csr_matrix(X)
            table = np.array([time_one(stored, y, rate, search) for _ in range(3)])
            batches, gradients, losses, seconds, set_up, bare, collecting = np.median(table, axis=0)
            ratios = np.median((table[:, 3:4] - table[:, 4:5]) / table[:, 5:], axis=0)
            lines.append(
                f"| {n:,} x {d} | {given} | {rate:g} | {search} | {batches:.0f} | {gradients:.1f} | {losses:.0f} | "
                f"{seconds:.2f} | {set_up:.2f} | {bare:.2f} | {ratios[0]:.2f} | {collecting:.2f} | {ratios[1]:.2f} |"
            )
            print(lines[-1], flush=True)
    (RESULTS / "speed_line_search.md").write_text("\n".join(lines) + "\n")


def time_one(stored, y, rate: float, search: str) -> tuple[float, ...]:
    """Return batches, passes of gradients and of losses, seconds of a fit, of its set-up, and of its floors."""
    rng = np.random.default_rng(0)
    n, d = stored.shape
    w, indices = rng.normal(size=d), np.flatnonzero(rng.random(n) < rate)
    part = stored[indices]
    r = rng.normal(size=part.shape[0])
    collect = median(lambda: stored[indices], 5) if rate < 1 else 0.0
    product, back, power = (median(f, 5) for f in (lambda: part @ w, lambda: part.T @ r, lambda: np.exp(r)))
    signs = np.where(y == y[0], 1.0, -1.0)
    set_up = median(lambda: ArrayRows(compact(stored), signs, RowMap(row_major=True)), 3)
    start = time.perf_counter()
    model = DPLineSearchClassifier(1.0, 1e-6, sampling_rate=rate, search=search).fit(stored, y)
    seconds = time.perf_counter() - start
    passes, releases = model.evaluations_, model.privacy_spent_.releases
    gradients, losses = passes["gradient"], passes.get("gains", 0.0) + passes.get("losses", 0.0)
    batches = sum(release.count for release in releases)
    searches = sum(release.count for release in releases if "search" in release.label)
    bare = gradients / rate * (product + back) + 2 * searches * product + losses / rate * power
    return batches, gradients, losses, seconds, set_up, bare, bare + batches * collect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the .npz files; without it scikit-learn fetches them")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--speed", action="store_true", help="only time fits on covtype")
    parser.add_argument("--report", action="store_true", help="only rebuild tables and pictures")
    options = parser.parse_args()
    if options.speed:
        speed(options)
        return
    if not options.report:
        run(options)
    report()


if __name__ == "__main__":
    # through the package, so that worker processes can import what they are sent
    from benchmarks.line_search import main as importable_main

    importable_main()
