"""How flat the optimum of a default rule is: one constant changed at a time, on data of several kinds and sizes.

    python -m benchmarks.tuning --data DIR [--rule output] [--repeats 2]

The defaults of ``DPLogisticRegression`` and of output perturbation are functions of public facts with a few constants
in them. This shows what each constant is worth where there is much noise and where there is little: accuracy less that
of the default, in percentage points. Writes ``benchmarks/results/tuning.md`` or ``tuning_output.md``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from dpsk import DPGradientDescentClassifier, OutputPerturbationLogisticRegression
from dpsk.encodings import standardization
from dpsk.solvers import gradient_descent, output_perturbation

from .datasets import load

RESULTS = Path(__file__).parent / "results"
# name, rows used (None: all), epsilon, delta
TASKS = (
    ("adult", None, 0.05, 1e-8),
    ("adult", None, 0.4, 1e-8),
    ("adult", None, 1.6, 1e-8),
    ("adult", 5000, 1.0, 1e-6),
    ("ipums_br", None, 0.05, 1e-8),
    ("ipums_br", None, 0.4, 1e-8),
    ("bank", None, 0.1, 1e-8),
    ("bank", 5000, 1.0, 1e-6),
    ("cancer", None, 1.0, 1e-5),
    ("digits", None, 2.0, 1e-5),
    ("digits", None, 8.0, 1e-5),
)
OF_DESCENT: dict[str, dict[str, object]] = {
    "default": {},
    "clip / 2": {"CLIP": 0.09, "SMALLEST": 0.05, "LARGEST": 0.5},
    "clip * 2": {"CLIP": 0.36, "SMALLEST": 0.2, "LARGEST": 2.0},
    "steps / 2": {"STEPS": 50, "FEWEST": 15, "MOST": 150},
    "steps * 2": {"STEPS": 200, "FEWEST": 60, "MOST": 600},
    "step size / 2": {"REACH": 10.0, "PACE": 2.5},
    "step size * 2": {"REACH": 40.0, "PACE": 10.0},
    "momentum 0": {"momentum": 0.0},
    "momentum 0.95": {"momentum": 0.95},
    "average of the last tenth": {"average": 0.1},
    "power of the deviation 0": {"SCALE_POWER": 0.0},
    "power of the deviation 0.5": {"SCALE_POWER": 0.5},
    "power of the deviation 1": {"SCALE_POWER": 1.0},
    "moments for a third": {"MOMENT_SHARE": 0.033},
    "moments for three times as much": {"MOMENT_SHARE": 0.3},
    "not standardised": {"standardize": None},
}
OF_OUTPUT: dict[str, dict[str, object]] = {
    "default": {},
    "clip / 2": {"CLIP": 0.3},
    "clip 1": {"CLIP": 1.0},
    "loss not flattened": {"gradient_clip": 1e9},
    "reach / 2": {"REACH": 25.0},
    "reach * 2": {"REACH": 100.0},
    "reach * 4": {"REACH": 200.0},
    "target population": {"target": "population"},
    "standardised": {"standardize": "private"},
    "delta 0": {"delta": 0.0},
    "delta 0, clip / 2": {"delta": 0.0, "CLIP": 0.3},
    "delta 0, clip 1": {"delta": 0.0, "CLIP": 1.0},
    "delta 0, reach / 2": {"delta": 0.0, "REACH": 25.0},
    "delta 0, reach * 2": {"delta": 0.0, "REACH": 100.0},
    "delta 0, standardised": {"delta": 0.0, "standardize": "private"},
}


@dataclass(frozen=True)
class Rule:
    """A default rule: whose, what is changed, and the names of the table."""

    estimator: type
    modules: tuple[ModuleType, ...]
    variants: dict[str, dict[str, object]]
    title: str
    file: str


RULES = {
    "descent": Rule(
        DPGradientDescentClassifier,
        (gradient_descent, standardization),
        OF_DESCENT,
        "The constants of the default rule",
        "tuning.md",
    ),
    "output": Rule(
        OutputPerturbationLogisticRegression,
        (output_perturbation,),
        OF_OUTPUT,
        "The constants of output perturbation",
        "tuning_output.md",
    ),
}


def title(name: str, rows: int | None, epsilon: float, delta: float) -> str:
    return f"{name}{'' if rows is None else f' {rows:,} rows'}, {epsilon:g}"


def task_data(name: str, rows: int | None, folder: Path):
    if name == "cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return X / X.max(axis=0), y
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, y
    X, y = load(name, folder)
    if rows is not None:
        chosen = np.random.default_rng(0).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    return X, y


def accuracy(rule: Rule, task, variant: str, folder: Path, repeat: int) -> float:
    name, rows, epsilon, delta = task
    X, y = task_data(name, rows, folder)
    changed = rule.variants[variant]
    constants = {key: value for key, value in changed.items() if key.isupper()}
    parameters = {"delta": delta} | {key: value for key, value in changed.items() if not key.isupper()}
    scores = []
    with threadpool_limits(1):
        patches = [
            mock.patch.object(module, key, value)
            for key, value in constants.items()
            for module in rule.modules
            if hasattr(module, key)
        ]
        for patch in patches:
            patch.start()
        for fold, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y)):
            model = rule.estimator(epsilon, bounds=(0, 1), random_state=10 * repeat + fold, **parameters)
            scores.append(100 * model.fit(X[train], y[train]).score(X[test], y[test]))
        for patch in patches:
            patch.stop()
    return float(np.mean(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rule", choices=list(RULES), default="descent")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    rule = RULES[options.rule]
    keys = [(task, variant, repeat) for variant in rule.variants for task in TASKS for repeat in range(options.repeats)]
    values = Parallel(options.jobs)(delayed(accuracy)(rule, t, v, options.data, r) for t, v, r in keys)
    table = np.reshape(values, (len(rule.variants), len(TASKS), options.repeats)).mean(axis=2)
    chosen = "" if options.rule == "descent" else f" --rule {options.rule}"
    lines = [
        f"# {rule.title}",
        "",
        f"Made by `python -m benchmarks.tuning --data DIR{chosen} --repeats {options.repeats}`: 5-fold",
        "cross-validation, bounds (0, 1). The first line is accuracy in percent; the others change one constant and",
        "show the difference in points.",
        "",
        "| variant | " + " | ".join(title(*task) for task in TASKS) + " | mean |",
        "|---" * (len(TASKS) + 2) + "|",
    ]
    for variant, values in zip(rule.variants, table, strict=True):
        shown = values if variant == "default" else values - table[0]
        form = "{:.2f}" if variant == "default" else "{:+.2f}"
        lines.append(f"| {variant} | " + " | ".join(map(form.format, [*shown, shown.mean()])) + " |")
    (RESULTS / rule.file).write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    # through the package, so that worker processes can import what they are sent
    from benchmarks.tuning import main as importable_main

    importable_main()
