"""Where a perturbed objective is better than noisy gradient descent, and how long each takes beside scikit-learn.

    python -m benchmarks.seat --data DIR [--repeats 2] [--speed] [--write]

Accuracy: 5-fold cross-validation of ``DPLogisticRegression`` with both solvers on the same folds, sorted by precision
(mu * rows / sqrt(weights), what ``solver="auto"`` goes by). Collinear data are made: neighbouring columns correlate by
0.95 or 0.999 and the label depends on all of them. Speed: fits of both, of output perturbation and of
``LogisticRegression()`` (L-BFGS) in turn, one thread; medians of ratios within the run.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from dpsk import DPLogisticRegression, OutputPerturbationLogisticRegression, OutputPerturbationSVC
from dpsk.privacy.conversions import gaussian_mu

from .accuracy import standard_error
from .datasets import load
from .everywhere import BOUNDS

RESULTS = Path(__file__).parent / "results"
SOLVERS = ("gradient-descent", "objective-perturbation")
DELTA = 1e-8
DATA = ("adult", "bank", "ipums_br", "a9a", "ijcnn1", "covtype", "kddcup99", "collinear 0.95", "collinear 0.999")
EPSILONS = (0.05, 0.2, 0.8, 1.6, 4.0, 10.0)
ABOUT_SEAT = """# Where a perturbed objective is better than gradient descent

Made by `python -m benchmarks.seat --data DIR --repeats %d --write`: accuracy of `DPLogisticRegression` with
public bounds and delta = 1e-8 in 5-fold cross-validation, in percent, with both solvers on the same folds; ± is the
standard error of the difference over repeats. Precision is mu * rows / sqrt(weights). Collinear: 200,000 made rows of
20 columns; neighbours correlate by the number given.

"""
ABOUT_SPEED = """# Speed of fits that find a minimum

Made by `python -m benchmarks.seat --data DIR --speed --write`: seconds of processor time, and in brackets how
many times as long as scikit-learn's `LogisticRegression()` (L-BFGS) on the same data; medians of six fits in turn, one
thread. `DPLogisticRegression` at epsilon 1.6 and delta 1e-8 with both solvers; output perturbation
(`OutputPerturbationLogisticRegression`, `OutputPerturbationSVC`) at the same, and at delta 0. All with public
bounds. Private fits include rounding, typical norms, noise and accounting, those of the first and the last column
moments as well.

"""
SPEED = ("adult", "bank", "ipums_br", "a9a", "ijcnn1", "covtype")
TIMED = {
    "perturbed objective": DPLogisticRegression(1.6, DELTA, solver="objective-perturbation"),
    "output perturbation, log_loss": OutputPerturbationLogisticRegression(1.6, DELTA),
    "the same, delta 0": OutputPerturbationLogisticRegression(1.6),
    "huber_hinge": OutputPerturbationSVC(1.6, DELTA),
    "gradient descent": DPLogisticRegression(1.6, DELTA, solver="gradient-descent"),
}


def collinear(correlation: float, n: int = 200_000, d: int = 20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = correlation * X[:, j - 1] + math.sqrt(1 - correlation**2) * X[:, j]
    w = rng.normal(size=d) * 0.7 / math.sqrt(1 - correlation**2)
    y = np.where(X @ w + rng.logistic(size=n) > 0, 1, -1)
    return np.clip(X / 4 + 0.5, 0, 1), y


def data_named(name: str, folder: Path):
    return collinear(float(name.split()[1])) if name.startswith("collinear") else load(name, folder)


def score(name, folder, epsilon, solver, repeat, fold) -> float:
    X, y = data_named(name, folder)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))[fold]
    model = DPLogisticRegression(epsilon, DELTA, bounds=BOUNDS.get(name, (0, 1)), solver=solver)
    model.set_params(random_state=10 * repeat + fold)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return 100 * model.fit(X[train], y[train]).score(X[test], y[test])


def seats(options) -> list[str]:
    """Return a table of accuracies, by precision."""
    rows = []
    for name in options.datasets:
        X, y = data_named(name, options.data)
        cells = [(e, s, r, f) for e in EPSILONS for s in SOLVERS for r in range(options.repeats) for f in range(5)]
        found = Parallel(options.jobs)(delayed(score)(name, options.data, *cell) for cell in cells)
        table = np.array(found).reshape(len(EPSILONS), 2, options.repeats, 5).mean(axis=3)
        for epsilon, (descent, objective) in zip(EPSILONS, table, strict=True):
            precision = gaussian_mu(epsilon, DELTA) * 0.8 * len(y) / math.sqrt(X.shape[1] + 1)
            gain = objective - descent
            rows.append((precision, name, epsilon, descent.mean(), objective.mean(), gain.mean(), standard_error(gain)))
            print(rows[-1], flush=True)
    lines = [
        "| precision | data | epsilon | gradient descent | perturbed objective | difference |",
        "|---|---|---|---|---|---|",
    ]
    for precision, name, epsilon, descent, objective, gain, error in sorted(rows):
        lines.append(
            f"| {precision:,.0f} | {name} | {epsilon:g} | {descent:.2f} | {objective:.2f} | {gain:+.2f} ± {error:.2f} |"
        )
    return lines


def speeds(options) -> list[str]:
    """Return a table of the times of fits."""
    lines = [
        "| data | rows x columns | scikit-learn, s | " + " | ".join(TIMED) + " |",
        "|---" * (3 + len(TIMED)) + "|",
    ]
    for name in SPEED:
        X, y = load(name, options.data)
        models = [
            LogisticRegression(),
            *(model.set_params(bounds=BOUNDS.get(name, (0, 1))) for model in TIMED.values()),
        ]
        times = []
        for _ in range(7):
            times.append([])
            for model in models:
                start = time.process_time()
                clone(model).fit(X, y)
                times[-1].append(time.process_time() - start)
        table = np.array(times[1:])  # the first fits of a process read tables and libraries
        seconds, ratios = np.median(table, axis=0), np.median(table / table[:, :1], axis=0)
        cells = [f"{t:.3f} ({ratio:.2f})" for t, ratio in zip(seconds[1:], ratios[1:], strict=True)]
        lines.append(f"| {name} | {X.shape[0]:,} x {X.shape[1]} | {seconds[0]:.3f} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--speed", action="store_true", help="times instead of accuracies")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results")
    options = parser.parse_args()
    if options.speed:
        with threadpool_limits(1):
            file, about, table = RESULTS / "speed_minima.md", ABOUT_SPEED, speeds(options)
    else:
        file, about, table = RESULTS / "seat.md", ABOUT_SEAT % options.repeats, seats(options)
    print("\n".join(table))
    if options.write:
        file.write_text(about + "\n".join(table) + "\n")


if __name__ == "__main__":
    main()
