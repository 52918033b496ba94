"""Private line search on mini-batches: what its settings do, what it computes, how long it takes.

    python -m benchmarks.line_search --data DIR [--repeats 5]     (Figures 1 and 2 of Chen & Lee 2020, on Adult)
    python -m benchmarks.line_search --data DIR --speed           (time of a fit on covtype, in multiples of its floor)
    python -m benchmarks.line_search --report                     (tables and pictures from the CSV files only)

Figures 3 and 4 (accuracy and objective against epsilon) are drawn from ``accuracy.csv``, which ``benchmarks.accuracy``
makes. Each repeat is a 5-fold cross-validation with its own shuffle; one line per fold goes to ``line_search.csv``.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from dpsk import DPLineSearchClassifier

from .accuracy import ALPHA, BASELINES, RESULTS, cached, means, standard_error
from .accuracy import read as read_accuracy
from .speed import median

CSV = RESULTS / "line_search.csv"
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
}
TITLES = {
    "sufficient": "(a) sufficient decrease (alpha)",
    "shrink": "(b) shrinking of steps (beta)",
    "noise": "(c) noise of the search",
    "sampling_rate": "(d) sampling rate (q)",
    "increase": "(e) growth of prices",
    "clip_decay": "(f) decay of clips (zeta)",
}
LINES = {
    "": ("line search", "line search AC", "line search all rows", "line search paper", "line search standardised",
         "DP-AGD paper + laplace", "DP-SGD", "DP-Adam", "default"),
    " SVM": ("line search SVM", "line search SVM AC", "line search SVM all rows", "line search SVM paper",
             "DP-AGD SVM paper + laplace", "DP-SGD SVM", "DP-Adam SVM", "default SVM"),
}  # fmt: skip


def run_fold(folder, parameter, value, epsilon, repeat, fold) -> dict[str, str]:
    """Fit Adult with one setting changed."""
    X, y = cached("adult", folder)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))[fold]
    model = DPLineSearchClassifier(epsilon, DELTA, alpha=ALPHA, random_state=10 * repeat + fold)
    model.set_params(**{parameter: value})
    with threadpool_limits(1):
        accuracy = model.fit(X[train], y[train]).score(X[test], y[test])
    passes = model.evaluations_
    losses = passes.get("gains", 0.0) + passes.get("losses", 0.0)
    batches = sum(release.count for release in model.privacy_spent_.releases)
    values = (parameter, value, epsilon, repeat, fold, f"{accuracy:.6f}", f"{passes['gradient']:.4g}")
    return dict(zip(FIELDS, map(str, (*values, f"{losses:.5g}", batches)), strict=True))


def read() -> list[dict[str, str]]:
    if not CSV.exists():
        return []
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def run(options) -> None:
    done = {tuple(row[field] for field in FIELDS[:5]) for row in read()}
    cells = [(p, v, e) for p, values in SETTINGS.items() for v in values for e in (0.05, 0.2)]
    cells += [("sampling_rate", rate, 0.4) for rate in RATES]
    jobs = [(*cell, repeat, fold) for repeat in range(options.repeats) for cell in cells for fold in range(5)]
    jobs = [job for job in jobs if tuple(map(str, job)) not in done]
    print(f"{len(jobs)} folds to run", flush=True)
    new = not CSV.exists()
    with CSV.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        pool = Parallel(n_jobs=options.jobs, return_as="generator_unordered", batch_size=4)
        for row in pool(delayed(run_fold)(options.data, *job) for job in jobs):
            writer.writerow(row)


def summary() -> dict[tuple[str, str, str], dict[str, np.ndarray]]:
    """Return the mean over folds of every repeat, of each column, by parameter, value and epsilon."""
    cells: dict[tuple[str, str, str], dict[str, list[list[float]]]] = {}
    for row in read():
        cell = cells.setdefault((row["parameter"], row["value"], row["epsilon"]), {})
        cell.setdefault(row["repeat"], []).append([float(row[field]) for field in FIELDS[5:]])
    result = {}
    for key, repeats in cells.items():
        table = np.array([np.mean(folds, axis=0) for folds in repeats.values()])
        result[key] = dict(zip(FIELDS[5:], table.T, strict=True))
    return result


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
        accuracy = 100 * cell["accuracy"]
        lines.append(
            f"| {parameter} | {value} | {epsilon} | {len(accuracy)} | {accuracy.mean():.2f} ± "
            f"{standard_error(accuracy):.2f} | {cell['batches'].mean():.0f} | {cell['gradients'].mean():.1f} | "
            f"{cell['losses'].mean():.0f} |"
        )
    (RESULTS / "line_search.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw_settings(cells)
    draw_evaluations(cells)
    rows = [row for row in read_accuracy() if any(row["configuration"] in names for names in BACKGROUND)]
    for dataset in sorted({row["dataset"] for row in rows if row["configuration"] == "line search"}):
        draw_against_epsilon(dataset, [row for row in rows if row["dataset"] == dataset])


BACKGROUND = (*LINES.values(), tuple(BASELINES))


def draw_settings(cells) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.5), layout="constrained")
    for axes, (parameter, title) in zip(figure.subplots(2, 3, sharey=True).flat, TITLES.items(), strict=True):
        for epsilon, marker in (("0.2", "^"), ("0.05", "v")):
            found = [(str(v), cells.get((parameter, str(v), epsilon))) for v in SETTINGS[parameter]]
            names = [name for name, cell in found if cell]
            values = [100 * cell["accuracy"] for _, cell in found if cell]
            axes.errorbar(
                names, [v.mean() for v in values], [standard_error(v) for v in values], marker=marker, ls="-" if
                parameter not in ("noise", "increase") else "none", label=f"epsilon = {epsilon}",
            )  # fmt: skip
        axes.set_title(title, fontsize=10)
        axes.margins(x=0.15)
        axes.grid(axis="y", alpha=0.3)
    for row in (0, 3):
        figure.axes[row].set_ylabel("accuracy on Adult, %")
    figure.axes[0].legend()
    figure.savefig(RESULTS / "line_search_settings.png", dpi=110)


def draw_evaluations(cells) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = [(rate, cells[key]) for rate in RATES if (key := ("sampling_rate", str(rate), "0.4")) in cells]
    rates = [rate for rate, _ in found]
    left.plot(rates, [cell["gradients"].mean() for _, cell in found], "o-", label="gradients")
    left.plot(rates, [cell["losses"].mean() for _, cell in found], "s-", label="losses")
    left.set(xscale="log", yscale="log", xlabel="sampling rate", ylabel="passes over the rows", title="Adult, eps 0.4")
    left.legend()
    accuracies = [100 * cell["accuracy"] for _, cell in found]
    right.errorbar(rates, [a.mean() for a in accuracies], [standard_error(a) for a in accuracies], marker="o")
    right.set(xscale="log", xlabel="sampling rate", ylabel="accuracy, %", title="Adult, eps 0.4")
    for axes in (left, right):
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.savefig(RESULTS / "line_search_evaluations.png", dpi=110)


def draw_against_epsilon(dataset, rows) -> None:
    """Draw accuracy and objective against epsilon, for logistic regression and the linear SVM."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8.5), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True)
    columns = {"accuracy": means(rows), "objective": means([row for row in rows if row["objective"]], "objective")}
    p = columns["accuracy"][dataset, "majority", ""].mean() / 100
    constant = {"": -p * np.log(p) - (1 - p) * np.log(1 - p), " SVM": 2 * min(p, 1 - p)}  # objectives of the best one
    colors = {name: f"C{index}" for index, name in enumerate(LINES[""])}
    for (measure, cells), row in zip(columns.items(), grid, strict=True):
        epsilons = sorted({float(key[2]) for key in cells if key[2]})
        for axes, (kind, names) in zip(row, LINES.items(), strict=True):
            for name in names:
                found = [(e, cells[key]) for e in epsilons if (key := (dataset, name, str(e))) in cells]
                if found:
                    values, label = [value.mean() for _, value in found], name.replace(" SVM", "")
                    style = "o-" if name.startswith("line search") else "s--"
                    axes.plot([e for e, _ in found], values, style, ms=4, color=colors[label], label=label)
            if measure == "accuracy":
                levels = {"not private": cells[dataset, f"not private{kind}", ""].mean(), "majority": 100 * p}
            else:
                best = cells[dataset, f"not private{kind}, alpha 1e-3", ""].mean()
                levels = {"its minimum": best, "best constant": constant[kind]}
                axes.set_ylim(best - 0.02, best + 1.6 * (constant[kind] - best))
                axes.set_xlabel("epsilon (delta = 1e-8)")
            for (name, level), style in zip(levels.items(), ("--", ":"), strict=True):
                axes.axhline(level, color="black", linestyle=style, lw=1, label=name)
            axes.set(xscale="log", title=f"{dataset}: {'linear SVM (hinge)' if kind else 'logistic regression'}")
            axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7)
        row[0].set_ylabel("accuracy, %" if measure == "accuracy" else "mean loss + alpha/2 |w|², alpha = 1e-3")
    figure.savefig(RESULTS / f"line_search_{dataset}.png", dpi=100)


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
        "accounting. The bare floor is what its batches need at least, on a batch of q * n rows in the storage given:",
        "two products for a gradient, two for a search, one np.exp per row and loss, and one pass X @ w over all rows.",
        "The floor with collecting adds X[indices] for every batch: rows of a random batch do not lie side by side.",
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}.",
        "",
        "| rows x columns | given | rate | search | batches | gradients | losses | fit, s | bare floor, s | ratio | "
        "with collecting, s | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
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
            batches, gradients, losses, seconds, bare, collecting = np.median(table, axis=0)
            lines.append(
                f"| {n:,} x {d} | {given} | {rate:g} | {search} | {batches:.0f} | {gradients:.1f} | {losses:.0f} | "
                f"{seconds:.2f} | {bare:.2f} | {np.median(table[:, 3] / table[:, 4]):.2f} | {collecting:.2f} | "
                f"{np.median(table[:, 3] / table[:, 5]):.2f} |"
            )
            print(lines[-1], flush=True)
    (RESULTS / "speed_line_search.md").write_text("\n".join(lines) + "\n")


def time_one(stored, y, rate: float, search: str) -> tuple[float, ...]:
    """Return batches, passes of gradients and of losses, seconds of a fit, and of its floors."""
    rng = np.random.default_rng(0)
    n, d = stored.shape
    w, indices = rng.normal(size=d), np.flatnonzero(rng.random(n) < rate)
    part = stored[indices]
    r = rng.normal(size=part.shape[0])
    collect = median(lambda: stored[indices], 5) if rate < 1 else 0.0
    product, back, power = (median(f, 5) for f in (lambda: part @ w, lambda: part.T @ r, lambda: np.exp(r)))
    start = time.perf_counter()
    model = DPLineSearchClassifier(1.0, 1e-6, sampling_rate=rate, search=search).fit(stored, y)
    seconds = time.perf_counter() - start
    passes, releases = model.evaluations_, model.privacy_spent_.releases
    gradients, losses = passes["gradient"], passes.get("gains", 0.0) + passes.get("losses", 0.0)
    batches = sum(release.count for release in releases)
    searches = sum(release.count for release in releases if "search" in release.label)
    bare = gradients / rate * (product + back) + 2 * searches * product + losses / rate * power
    bare += median(lambda: stored @ w, 3)
    return batches, gradients, losses, seconds, bare, bare + batches * collect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the .npz files; without it scikit-learn fetches them")
    parser.add_argument("--repeats", type=int, default=5)
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
