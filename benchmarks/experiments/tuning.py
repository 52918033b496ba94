"""How flat the optimum of a default rule is: one constant changed at a time, on data of several kinds and sizes.

The defaults of ``DPLogisticRegression`` and of output perturbation are functions of public facts with a few constants
in them. This shows what each constant is worth where there is much noise and where there is little.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from dpsk import DPGradientDescentClassifier, OutputPerturbationLogisticRegression

from ..experiment import write
from ..folds import fitted, fold_of, seed_of
from ..inside import gradient_descent, output_perturbation, precision, standardization, with_constants
from ..table import Table

# data, epsilon, delta
TASKS = (
    ("adult", 0.05, 1e-8),
    ("adult", 0.4, 1e-8),
    ("adult", 1.6, 1e-8),
    ("adult 5,000 rows", 1.0, 1e-6),
    ("ipums_br", 0.05, 1e-8),
    ("ipums_br", 0.4, 1e-8),
    ("bank", 0.1, 1e-8),
    ("bank 5,000 rows", 1.0, 1e-6),
    ("cancer", 1.0, 1e-5),
    ("digits", 2.0, 1e-5),
    ("digits", 8.0, 1e-5),
)
RULES = {
    "tuning": (DPGradientDescentClassifier, (gradient_descent, precision, standardization)),
    "tuning_output": (OutputPerturbationLogisticRegression, (output_perturbation,)),
}
# constants are in capitals, parameters of the estimator are not
VARIANTS: dict[str, dict[str, dict[str, object]]] = {
    "tuning": {
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
    },
    "tuning_output": {
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
    },
}


@cache
def accuracies(folder: Path | None, rule: str, variant: str, repeats: int) -> np.ndarray:
    """Return the mean accuracy of every task, in percent."""
    (estimator, modules), changed = RULES[rule], VARIANTS[rule][variant]
    constants = {key: value for key, value in changed.items() if key.isupper()}
    scores = []
    with with_constants(modules, constants):
        for dataset, epsilon, delta in TASKS:
            known = {"delta": delta} | {key: value for key, value in changed.items() if not key.isupper()}
            for repeat in range(repeats):
                for fold in range(5):
                    rows = fold_of(dataset, folder, repeat, fold)
                    model = estimator(epsilon, bounds=(0, 1), random_state=seed_of(repeat, fold), **known)
                    scores.append(100 * fitted(model, rows.X, rows.y)[0].score(rows.test_X, rows.test_y))
    return np.reshape(scores, (len(TASKS), repeats * 5)).mean(axis=1)


def measure(folder: Path | None, rule: str, variant: str, repeats: int) -> list[str]:
    """Return accuracies of the default, and those of another variant less those of the default."""
    shown, sign = accuracies(folder, rule, variant, repeats), ""
    if variant != "default":
        shown, sign = shown - accuracies(folder, rule, "default", repeats), "+"
    return [f"{value:{sign}.2f}" for value in (*shown, shown.mean())]


FIELDS = (*(f"{dataset}, {epsilon:g}" for dataset, epsilon, _ in TASKS), "mean")
TABLE = Table("tuning", ("rule", "variant", "repeats"), FIELDS, measure)


def report(rule: str) -> None:
    rows = TABLE.rows().where(rule=rule)
    write(rule, table=rows.markdown(["variant", *FIELDS]), repeats=rows[0]["repeats"])


def keys(rule: str, repeats: int) -> list[tuple]:
    return [(rule, variant, repeats) for variant in VARIANTS[rule]]
