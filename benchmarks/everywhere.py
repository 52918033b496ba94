"""The default estimator on every data set with 20,000 rows or more, and on raw columns, beside non-private models.

    python -m benchmarks.everywhere --data DIR [--datasets ...] [--repeats 1]

epsilon = 1, delta = 1e-6, 5-fold cross-validation, nothing tuned. Lines go to ``benchmarks/results/everywhere.csv`` as
they are known; what is there is not run again. ``everywhere.md`` is rebuilt from it.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from dpsk import DPLinearSVC, DPLogisticRegression

from .datasets import load, raw_adult

RESULTS = Path(__file__).parent / "results"
CSV = RESULTS / "everywhere.csv"
FIELDS = ("dataset", "model", "repeat", "fold", "accuracy")
OFFICIAL = {"mnist, official split": "mnist", "fashion_mnist, official split": "fashion_mnist"}  # 60,000 + 10,000 rows
DATASETS = ("adult", "a9a", "bank", "ipums_br", "ijcnn1", "covtype", "kddcup99", "mnist", "fashion_mnist", *OFFICIAL)
BOUNDS = {"ijcnn1": (-1.33, 1.33)}  # all others are scaled to [0, 1]
HOSTILE = ("raw", "raw + constant", "raw + 1e12", "raw + 1e300 in one row")
MODELS = ("not private, C=1", "not private, C=0.01", "default", "default, no bounds", "default SVM")


def make(model: str, bounds, seed: int):
    """Return an unfitted model by name. Private ones are seeded, so that anybody gets these numbers."""
    if model.startswith("not private"):
        return LogisticRegression(C=float(model.split("=")[1]), max_iter=200)
    if model == "default SVM":
        return DPLinearSVC(bounds=bounds, random_state=seed)
    return DPLogisticRegression(bounds=bounds if model == "default" else None, random_state=seed)


def data(name: str, folder: Path):
    if name not in HOSTILE:
        return load(OFFICIAL.get(name, name), folder)
    X, y = raw_adult(folder)
    if name == "raw + constant":
        X = np.hstack([X, np.full((len(y), 1), 7.0)])
    elif name == "raw + 1e12":
        X = np.hstack([X, 1e12 + 1e11 * np.random.default_rng(0).normal(size=(len(y), 1))])
    elif name == "raw + 1e300 in one row":
        X[17, 0] = 1e300
    return X, y


def folds(name: str, model: str) -> int:
    """Return 5 folds; on an official split 3 fits, or 1 of a model without noise."""
    if name not in OFFICIAL:
        return 5
    return 1 if model.startswith("not private") else 3


def run_fold(name: str, folder: Path, model: str, repeat: int, fold: int) -> tuple[object, ...]:
    X, y = data(name, folder)
    if name in OFFICIAL:  # the fold is then a seed
        train, test = np.arange(60_000), np.arange(60_000, 70_000)
    else:
        train, test = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))[fold]
    with threadpool_limits(1):
        fitted = make(model, BOUNDS.get(name, (0, 1)), 10 * repeat + fold).fit(X[train], y[train])
        accuracy = fitted.score(X[test], y[test])
    return name, model, repeat, fold, f"{accuracy:.6f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the data files")
    parser.add_argument("--datasets", nargs="+", default=[*DATASETS, *HOSTILE])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    rows = list(csv.reader(CSV.open(newline="")))[1:] if CSV.exists() else []
    done = {tuple(row[:4]) for row in rows}
    jobs = [
        (name, options.data, model, repeat, fold)
        for name in options.datasets
        for model in options.models
        if name not in HOSTILE or model == "default, no bounds"
        for repeat in range(options.repeats)
        for fold in range(folds(name, model))
        if (name, model, str(repeat), str(fold)) not in done
    ]
    print(f"{len(jobs)} folds to run", flush=True)
    with CSV.open("a", newline="") as file:
        writer = csv.writer(file)
        if not rows:
            writer.writerow(FIELDS)
        for row in Parallel(options.jobs, return_as="generator_unordered")(delayed(run_fold)(*job) for job in jobs):
            writer.writerow(row)
            file.flush()
    report()


def report() -> None:
    """Write the table of mean accuracies and of the distance to the better non-private model."""
    cells: dict[tuple[str, str], list[float]] = {}
    with CSV.open(newline="") as file:
        for row in csv.DictReader(file):
            cells.setdefault((row["dataset"], row["model"]), []).append(100 * float(row["accuracy"]))
    lines = [
        "# The default estimators everywhere",
        "",
        "Made by `python -m benchmarks.everywhere --data DIR`: epsilon = 1, delta = 1e-6, 5-fold cross-validation,",
        "mean accuracy in percent over all folds. Nothing is tuned; `bounds` are the ranges the files are scaled to.",
        "covtype is class 1 against 2; official splits have 3 private fits. The last column is the better of the two",
        "non-private models less `default`.",
        "",
        "| data | folds | " + " | ".join(MODELS) + " | distance |",
        "|---" * (len(MODELS) + 3) + "|",
    ]
    for name in [n for n in DATASETS if all((n, model) in cells for model in MODELS)]:
        means = [np.mean(cells[name, model]) for model in MODELS]
        distance = max(means[:2]) - means[2]
        numbers = " | ".join(f"{mean:.2f}" for mean in means)
        lines.append(f"| {name} | {len(cells[name, 'default'])} | {numbers} | {distance:+.2f} |")
    lines += ["", "## Raw columns", ""]
    lines += ["Adult with its numbers as they are and no bounds; with a column or a row that would break a scale.", ""]
    lines += ["| data | folds | default, no bounds |", "|---|---|---|"]
    for name in [n for n in ("adult", *HOSTILE) if (n, "default, no bounds") in cells]:
        found = cells[name, "default, no bounds"]
        label = "adult, scaled to [0, 1]" if name == "adult" else name
        lines.append(f"| {label} | {len(found)} | {np.mean(found):.2f} |")
    (RESULTS / "everywhere.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    # through the package, so that worker processes can import what they are sent
    from benchmarks.everywhere import main as importable_main

    importable_main()
