"""True and noisy gradients side by side: Lee & Kifer (2018), Table 1, on Adult."""

from __future__ import annotations

import functools
import math
from pathlib import Path

from dpsk import DPAGDLogisticRegression, DPLogisticRegression, DPSGDClassifier

from ..experiment import write
from ..folds import cached, fitted
from ..inside import GaussianDP, seen_gradients
from ..methods import ALPHA, PAPER
from ..table import Table, markdown

EPSILON, DELTA, STEPS = 0.1, 1e-8, (*range(11), 20, 50, 100, 200)
NOISE = 0.50119
"""The root of the expected squared norm of the noise in the paper's table."""


def steady() -> DPSGDClassifier:
    """Return plain gradient descent on all rows with the paper's noise, at whatever epsilon that costs."""
    n, p, steps = 48_842, 109, 11
    mu = 3.0 * math.sqrt(p) / (NOISE * n)
    epsilon = GaussianDP().epsilon(steps * mu**2 * (1 + 1e-6), DELTA)
    settings = {"sampling_rate": 1.0, "steps": steps, "gradient_clip": 3.0, "average": 1 / steps}
    return DPSGDClassifier(epsilon, DELTA, learning_rate=1.0, alpha=ALPHA, **settings)


METHODS = {
    "steady noise": steady,
    "DP-AGD paper + laplace": lambda: DPAGDLogisticRegression(
        EPSILON, DELTA, alpha=ALPHA, selection="laplace", **PAPER
    ),
    "DP-AGD": lambda: DPAGDLogisticRegression(EPSILON, DELTA, alpha=ALPHA),
    "default": lambda: DPLogisticRegression(EPSILON, DELTA, bounds=(0, 1)),
}


@functools.cache
def trace(folder: Path | None, method: str) -> list[tuple[float, ...]]:
    """Return what was seen of one fit of Adult."""
    with seen_gradients() as seen:
        fitted(METHODS[method](), *cached("adult", folder), random_state=0)
    return seen


def measure(folder: Path | None, method: str, step: int) -> tuple[str, ...]:
    """Return one line of the table, empty where a run has ended before."""
    seen = trace(folder, method)
    return tuple(f"{x:.5f}" for x in seen[step]) if step < len(seen) else ("", "", "", "")


TABLE = Table("gradients", ("method", "step"), ("true", "noisy", "noise", "loss"), measure)


def note() -> str:
    return "one run, as in the paper"


def report() -> None:
    parts = []
    for method in METHODS:
        rows = sorted(TABLE.rows().where(method=method), key=lambda row: int(row["step"]))
        lines = ([row[field] for field in TABLE.fields[1:]] for row in rows if row["true"])
        parts.append(f"## {method}\n\n{markdown(('t', *TABLE.measured), lines)}")
    write("gradients", epsilon=steady().epsilon, of_others=EPSILON, tables="\n\n".join(parts))


def keys(repeats: None) -> list[tuple[str, int]]:
    return [(method, step) for method in METHODS for step in STEPS]
