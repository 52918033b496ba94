"""Accuracy against epsilon: estimators x data sets x epsilon x repeats, resumable.

    python -m benchmarks.accuracy --data DIR [--datasets adult bank ipums_br] [--repeats 10] [--configurations ...]
    python -m benchmarks.accuracy --report          (tables and pictures from the CSV only)

Each repeat is a 5-fold cross-validation with its own shuffle; all configurations see the same folds (paired). One
line per fold goes to ``benchmarks/results/accuracy.csv`` as soon as it is known; what is there is not run again.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from dpsk import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
)
from dpsk.privacy import BudgetExhausted

from .datasets import NAMES, load
from .solvers.composed_sgd import SGDMA, SGDAdv
from .solvers.gradient_output import OutputGradientDescent, PermutedGradientDescent, RandomizedSensitivity
from .solvers.objective_perturbation import ApproximateMinima, GaussianObjective, PureObjective
from .solvers.privgene import PrivGeneClassifier
from .suite import RESULTS, Folds, Table, by_fold, per_repeat

FIELDS = ("dataset", "configuration", "epsilon", "delta", "repeat", "fold", "accuracy", "objective")
EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
ALPHA = 1e-3

PAPER = {"conversion": "paper", "first_noise": None}
# Chen & Lee (2020) with sound prices: what they leave open (steps tried) is ours
BLSGD_PAPER = {
    "splits": 50, "first_price": "paper", "search_share": 1.0, "gradient_clip": 3.0, "loss_clip": 1.0,
    "gains": "clipped",
}  # fmt: skip
STANDARDISED = {"bounds": (0, 1), "standardize": "private"}
# numbers of steps and their length were chosen on one fold of Adult, without privacy, as the papers' own
ADV, MA = {"steps": 50, "learning_rate": 3.0}, {"steps": 2000, "learning_rate": 1.0}
CONFIGURATIONS = {
    "default": DPLogisticRegression(bounds=(0, 1)),
    "default, no bounds": DPLogisticRegression(),
    "DP-AGD standardised": DPLogisticRegression(bounds=(0, 1), solver="adaptive-gradient"),
    "default SVM": DPLinearSVC(bounds=(0, 1)),
    "DP-AGD": DPAGDLogisticRegression(alpha=ALPHA),
    "DP-AGD paper + laplace": DPAGDLogisticRegression(alpha=ALPHA, selection="laplace", **PAPER),
    "DP-AGD paper's prices": DPAGDLogisticRegression(alpha=ALPHA, first_noise=None),
    "DP-AGD SVM": DPAGDSVC(alpha=ALPHA),
    "DP-AGD SVM paper + laplace": DPAGDSVC(alpha=ALPHA, selection="laplace", **PAPER),
    "line search": DPLineSearchClassifier(alpha=ALPHA),
    "line search AC": DPLineSearchClassifier(alpha=ALPHA, clip_decay=0.05),
    "line search all rows": DPLineSearchClassifier(alpha=ALPHA, sampling_rate=1.0),
    "line search exponential": DPLineSearchClassifier(alpha=ALPHA, search="exponential"),
    "line search paper": DPLineSearchClassifier(alpha=ALPHA, **BLSGD_PAPER),
    "line search standardised": DPLineSearchClassifier(standardize="private", bounds=(0, 1), step_max=1.0),
    "DP-SGD": DPSGDClassifier(),
    "DP-Adam": DPSGDClassifier(optimizer="adam"),
    "line search SVM": DPLineSearchClassifier(alpha=ALPHA, loss="hinge"),
    "line search SVM AC": DPLineSearchClassifier(alpha=ALPHA, loss="hinge", clip_decay=0.05),
    "line search SVM all rows": DPLineSearchClassifier(alpha=ALPHA, loss="hinge", sampling_rate=1.0),
    "line search SVM Huber": DPLineSearchClassifier(alpha=ALPHA, loss="huber_hinge"),
    "line search SVM paper": DPLineSearchClassifier(alpha=ALPHA, loss="hinge", **BLSGD_PAPER),
    "DP-SGD SVM": DPSGDClassifier(loss="hinge"),
    "DP-Adam SVM": DPSGDClassifier(loss="hinge", optimizer="adam"),
    "objective perturbation": ObjectivePerturbationClassifier(bounds=(0, 1)),
    "objective perturbation SVM": ObjectivePerturbationClassifier(bounds=(0, 1), loss="huber_hinge"),
    "objective perturbation, no clip": ObjectivePerturbationClassifier(bounds=(0, 1), gradient_clip=1e6),
    "objective perturbation 2011": PureObjective(),
    "objective perturbation 2012": GaussianObjective(),
    "AMP": ApproximateMinima(),
    "objective perturbation 2011 SVM": PureObjective(loss="huber_hinge"),
    "objective perturbation 2012 SVM": GaussianObjective(loss="huber_hinge"),
    "AMP SVM": ApproximateMinima(loss="huber_hinge"),
    "PrivGene": PrivGeneClassifier(),
    "PrivGene SVM": PrivGeneClassifier(loss="hinge"),
    "SGD-Adv": SGDAdv(**ADV),
    "SGD-Adv SVM": SGDAdv(loss="hinge", **ADV),
    "SGD-MA": SGDMA(**MA),
    "SGD-MA SVM": SGDMA(loss="hinge", **MA),
    "SGD-MA, all moments": SGDMA(**MA, all_moments=True),
    "SGD-MA SVM, all moments": SGDMA(loss="hinge", **MA, all_moments=True),
    "output perturbation": OutputPerturbationLogisticRegression(**STANDARDISED),
    "output perturbation, paper's noise": OutputPerturbationLogisticRegression(**STANDARDISED, noise="paper"),
    "output perturbation SVM": OutputPerturbationSVC(**STANDARDISED),
    "output perturbation, rows within 1": OutputPerturbationLogisticRegression(),
    "output perturbation 2017, GD": OutputGradientDescent(),
    "output perturbation 2017, permuted SGD": PermutedGradientDescent(),
    "output perturbation 2019, RSGD": RandomizedSensitivity(),
    "output perturbation 2017, GD SVM": OutputGradientDescent(loss="huber_hinge"),
    "output perturbation 2017, permuted SGD SVM": PermutedGradientDescent(loss="huber_hinge"),
    "output perturbation 2019, RSGD SVM": RandomizedSensitivity(loss="huber_hinge"),
}
PURE = ", delta = 0"
"""What is added to the name of a configuration in rows that were run with ``--delta 0``."""
BASELINES = {  # without noise, and without any guarantee: the majority is an exact fact of the data, too
    "not private": LogisticRegression(C=1.0, max_iter=2000),
    "not private SVM": LinearSVC(C=1.0, max_iter=20_000),
    "majority": DummyClassifier(),
    # the minimisers of the objective that is recorded; C is set for the number of rows
    "not private, alpha 1e-3": LogisticRegression(max_iter=2000),
    "not private SVM, alpha 1e-3": LinearSVC(loss="hinge", intercept_scaling=30, max_iter=200_000),
}


@functools.lru_cache(maxsize=2)
def cached(name: str, folder: Path | None):
    return load(name, folder)


def fold_of(X, y, repeat: int, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and test rows of one fold; every configuration sees the same."""
    return list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))[fold]


def fitted(model, configuration, epsilon, delta, repeat, fold, X, y):
    """Return one of the models below, fitted, and the seconds of processor time that took."""
    model = clone(model)
    if configuration in BASELINES:
        if configuration.endswith("alpha 1e-3"):
            model.set_params(C=1 / (ALPHA * len(y)))
    else:  # seeded, so that anybody gets these numbers; a fit for release would not be
        model.set_params(epsilon=epsilon, delta=delta, random_state=10 * repeat + fold)
    start = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - start


def objective_of(model, configuration, X, y) -> float:
    """Return the objective of alpha = 1e-3 with the loss that the name of the configuration says."""
    margin = y * model.decision_function(X)
    loss = np.maximum(1 - margin, 0) if "SVM" in configuration else np.logaddexp(0, -margin)
    return float(loss.mean() + ALPHA / 2 * np.square(model.coef_).sum())


def run_fold(folder, name, configuration, epsilon, delta, repeat, fold) -> tuple[str, str]:
    """Fit one configuration on one fold; return accuracy and objective, empty where the budget buys nothing."""
    X, y = cached(name, folder)
    train, test = fold_of(X, y, repeat, fold)
    with threadpool_limits(1):
        kind = BASELINES.get(configuration) or CONFIGURATIONS[configuration]
        try:
            model, _ = fitted(kind, configuration, epsilon, delta, repeat, fold, X[train], y[train])
        except BudgetExhausted:
            return "", ""
        accuracy, objective = model.score(X[test], y[test]), ""
        if hasattr(model, "decision_function"):
            objective = f"{objective_of(model, configuration, X[train], y[train]):.6f}"
    return f"{accuracy:.6f}", objective


TABLE = Table("accuracy", FIELDS[:6], FIELDS[6:], run_fold)
read = TABLE.rows


def keys(options) -> Iterable[tuple]:
    """Yield what the options ask for."""
    for name in options.datasets:
        for repeat in range(options.repeats):
            for configuration in (*options.baselines, *options.configurations):
                epsilons = ("",) if configuration in BASELINES else options.epsilons
                for epsilon in epsilons:
                    for fold in range(5):
                        yield name, configuration, epsilon, "" if epsilon == "" else options.delta, repeat, fold


def run(options) -> None:
    TABLE.run(keys(options), options.data, options.jobs)


def folds_of(rows, measure="accuracy") -> dict[tuple[str, ...], Folds]:
    """Return what was measured by data set, configuration and epsilon; configurations run with delta = 0 say so."""
    named = (
        row | {"configuration": row["configuration"] + (PURE if row["delta"] and not float(row["delta"]) else "")}
        for row in rows
    )
    return by_fold(named, ("dataset", "configuration", "epsilon"), measure)


def means(rows, measure="accuracy") -> dict[tuple[str, ...], np.ndarray]:
    """Return the same as means over the folds of each repeat."""
    return {cell: per_repeat(folds) for cell, folds in folds_of(rows, measure).items()}


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def cell(values: np.ndarray) -> str:
    """Return the mean, with its standard error if there is one."""
    return f"{values.mean():.2f}" + (f" ± {standard_error(values):.2f}" if len(values) > 1 else "")


def report() -> None:
    """Write the table and the pictures."""
    rows = read()
    cells = means(rows)
    datasets = sorted({key[0] for key in cells})
    epsilons = sorted({key[2] for key in cells if key[2]}, key=float)
    order = [name + pure for pure in ("", PURE) for name in CONFIGURATIONS] + list(BASELINES)
    lines = [
        "# Accuracy against epsilon",
        "",
        "Made by `python -m benchmarks run accuracy --data DIR` (`README.md` has the repeats): means over repeats of",
        "5-fold cross-validation, in percent, with the standard error of the mean over repeats. delta = 1e-8. All",
        "configurations see the same folds. `not private` and `majority` have no noise and promise nothing. `default`",
        "and `default SVM` are `DPLogisticRegression` and `DPLinearSVC` with `bounds=(0, 1)` and nothing else set;",
        "`DP-AGD standardised` is the former with",
        '`solver="adaptive-gradient"`, which `solver="auto"` does not choose because of this table. `DP-AGD` is',
        "`DPAGDLogisticRegression` as it is, `DP-AGD paper + laplace` the algorithm as published (noisy minimum with",
        "Laplace noise, closed conversion, its first prices), `DP-AGD paper's prices` ours with the paper's first",
        "prices (`first_noise=None`); these have alpha = 1e-3, the non-private models C = 1 unless said. `line search`",
        "is `DPLineSearchClassifier` (AC: `clip_decay=0.05`; all rows: `sampling_rate=1.0`; standardised: with bounds,",
        '`standardize="private"` and `step_max=1.0`), `line search paper` the algorithm as published with sound',
        "prices (see the source), the others alpha = 1e-3; `DP-SGD` and `DP-Adam` are `DPSGDClassifier`. SVM: hinge.",
        "`objective perturbation` is `ObjectivePerturbationClassifier` with `bounds=(0, 1)` (no clip: with",
        "`gradient_clip=1e6`; SVM: Huber hinge). `output perturbation` is `OutputPerturbationLogisticRegression` with",
        '`bounds=(0, 1)` and `standardize="private"` (SVM: `OutputPerturbationSVC`; paper\'s noise: `noise="paper"`),',
        "`rows within 1` the same with nothing set; rows with `delta = 0` were made with `--delta 0`. Not",
        "standardised: `PrivGene` (Zhang and others 2013), `SGD-Adv` (Bassily and others 2014), `SGD-MA` (Abadi and",
        "others 2016; empty where 32 moments promise nothing; all moments: beyond the 32nd). On rows scaled to unit",
        "norm and not tuned (SVM: Huber hinge): `objective perturbation 2011` (Chaudhuri, Monteleoni & Sarwate; pure",
        "epsilon), `2012` (Kifer, Smith & Thakurta), `AMP` (Iyengar and others 2019), `output perturbation 2017, GD`",
        "(Zhang, Zheng, Mou & Wang), `2017, permuted SGD` (Wu and others), `2019, RSGD` (Chen, Lee & Kifer).",
        "Neighbours differ in a row that leaves; `2011`, `AMP`, `2017` and `2019` are for replaced rows, which takes",
        "up to twice the noise.",
    ]
    for name in datasets:
        lines += ["", f"## {name}", "", f"| configuration | repeats | {' | '.join(epsilons)} |"]
        lines.append("|---" * (2 + len(epsilons)) + "|")
        for configuration in order:
            constant = cells.get((name, configuration, ""))
            found = [cells.get((name, configuration, epsilon), constant) for epsilon in epsilons]
            if any(f is not None for f in found):
                text = ["" if f is None else cell(f) for f in found]
                repeats = max(len(f) for f in found if f is not None)
                lines.append(f"| {configuration} | {repeats} | {' | '.join(text)} |")
    lines += ["", "## DP-AGD, ours against as published: paired, average of the cells with epsilon <= 0.2", ""]
    lines += [
        "| data set | estimator | mean difference | standard error | in standard errors |",
        "|---|---|---|---|---|",
    ]
    for name in datasets:
        for ours, theirs in (("DP-AGD", "DP-AGD paper + laplace"), ("DP-AGD SVM", "DP-AGD SVM paper + laplace")):
            both = [e for e in epsilons if (name, ours, e) in cells and (name, theirs, e) in cells]
            small = [e for e in both if float(e) <= 0.2]
            if not small:
                continue
            per_repeat = np.mean([cells[name, ours, e] - cells[name, theirs, e] for e in small], axis=0)
            error = standard_error(per_repeat)
            lines.append(
                f"| {name} | {ours} | {per_repeat.mean():+.2f} | {error:.2f} | {per_repeat.mean() / error:.1f} |"
            )
    (RESULTS / "accuracy.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    for name in datasets:
        draw(name, cells, epsilons)


def draw(name, cells, epsilons) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, svm in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        for configuration in CONFIGURATIONS:
            found = [cells.get((name, configuration, epsilon)) for epsilon in epsilons]
            # benchmarks/pictures.py has these
            elsewhere = configuration.startswith(
                ("line search", "DP-SGD", "DP-Adam", "objective perturbation 201", "AMP", "output", "PrivGene", "SGD-")
            )
            if elsewhere or ("SVM" in configuration) != svm or any(f is None for f in found):
                continue
            average, errors = [f.mean() for f in found], [np.nan_to_num(standard_error(f)) for f in found]
            axes.errorbar([float(e) for e in epsilons], average, errors, marker="o", ms=4, label=configuration)
        for configuration, style in (("not private SVM" if svm else "not private", "--"), ("majority", ":")):
            constant = cells.get((name, configuration, ""))
            if constant is not None:
                axes.axhline(constant.mean(), color="black", linestyle=style, linewidth=1, label=configuration)
        kind = "linear SVM" if svm else "logistic regression"
        axes.set(xscale="log", xlabel="epsilon (delta = 1e-8)", title=f"{name}: {kind}")
        axes.set_xticks([float(e) for e in epsilons], epsilons)
        axes.minorticks_off()
        axes.legend(fontsize=8)
    figure.axes[0].set_ylabel("accuracy, %")
    figure.savefig(RESULTS / f"accuracy_{name}.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the .npz files; without it scikit-learn fetches them")
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=["adult", "bank", "ipums_br"])
    parser.add_argument("--configurations", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS))
    parser.add_argument("--baselines", nargs="*", choices=list(BASELINES), default=list(BASELINES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--delta", type=float, default=1e-8)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only rebuild tables and pictures")
    options = parser.parse_args()
    if not options.report:
        run(options)
    report()


if __name__ == "__main__":
    # through the package, so that worker processes can import what they are sent
    from benchmarks.accuracy import main as importable_main

    importable_main()
