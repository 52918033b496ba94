"""True and noisy gradients side by side: Lee & Kifer (2018), Table 1, on Adult.

A true gradient is nobody's to see. It is computed here, in the benchmark, by looking behind the door of public data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from dpsk import DPAGDLogisticRegression, DPLogisticRegression, DPSGDClassifier
from dpsk.data import PrivateData
from dpsk.mechanisms import Gaussian
from dpsk.privacy import GaussianDP
from dpsk.queries import GradientSum

from .accuracy import ALPHA, PAPER, cached
from .suite import RESULTS, Table

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


Seen = list[tuple[float, float, float, float]]


def sums(loss, w, chunk) -> np.ndarray:
    """Return the sums of gradients and of losses over some rows, nothing clipped, in multiples of 2^-30."""
    scores = chunk.scores(w)
    rows = chunk.dense(slice(None)) * chunk.scale[:, None]
    values = np.append(loss.derivative(scores, chunk.y) @ rows, loss.value(scores, chunk.y).sum())
    return np.rint(values * 2.0**30).astype(np.int64)


@contextmanager
def looking_behind_the_door(seen: Seen) -> Iterator[None]:
    """Note of every gradient that is released: its true norm, its norm, that of its noise, and the loss there."""
    measure, release = PrivateData.measure, PrivateData.release
    queries: dict[int, GradientSum] = {}

    def watched_measure(data, query):
        sealed = measure(data, query)
        if isinstance(query, GradientSum):
            queries[id(sealed)] = query
        return sealed

    def watched_release(data, sealed, mechanism):
        released = release(data, sealed, mechanism)
        if isinstance(mechanism, Gaussian) and (query := queries.get(id(sealed))) is not None:
            n, w = data.n_rows, query.w
            *gradient, loss = data._rows.total(functools.partial(sums, query.loss, w)) * 2.0**-30 / n
            noise = sealed.sensitivity.l2 * sealed.unit / mechanism.mu * math.sqrt(w.size) / n
            seen.append((float(np.linalg.norm(gradient)), float(np.linalg.norm(released)) / n, noise, loss))
        return released

    measured = mock.patch.object(PrivateData, "measure", watched_measure)
    released = mock.patch.object(PrivateData, "release", watched_release)
    with measured, released:
        yield


@functools.cache
def trace(folder: Path | None, method: str) -> Seen:
    """Return what was seen of one fit of Adult."""
    X, y = cached("adult", folder)
    seen: Seen = []
    with looking_behind_the_door(seen), threadpool_limits(1):
        METHODS[method]().set_params(random_state=0).fit(X, y)
    return seen


def measure(folder: Path | None, method: str, step: int) -> tuple[str, ...]:
    """Return one line of the table, empty where a run has ended before."""
    seen = trace(folder, method)
    return tuple(f"{x:.5f}" for x in seen[step]) if step < len(seen) else ("", "", "", "")


TABLE = Table("gradients", ("method", "step"), ("true", "noisy", "noise", "loss"), measure)


def keys() -> list[tuple[str, int]]:
    return [(method, step) for method in METHODS for step in STEPS]


def report() -> None:
    rows = TABLE.rows()
    lines = [
        "# True against noisy gradients",
        "",
        "Lee & Kifer (2018), Table 1: norms of the mean gradient on Adult (48,842 rows) as it is and as it was",
        "released, the root of the expected squared norm of the noise, and the loss there, at release `t`. One run",
        "each, seed 0. The true gradient was computed in the benchmark only; no method sees it. `steady noise` is",
        "plain gradient descent (steps of 1.0) with the noise of the paper's table, which costs epsilon =",
        f"{steady().epsilon:.3f} at delta = 1e-8; the others have epsilon = {EPSILON}. A gradient that DP-AGD buys",
        "again counts as a release of its own. The default's norms are those in its own coordinates (standardised",
        "columns, and what is released is clipped), and compare with each other only; its loss compares.",
    ]
    for method in METHODS:
        lines += ["", f"## {method}", "", "| t | true | noisy | noise | loss |", "|---|---|---|---|---|"]
        for row in rows:
            if row["method"] == method and row["true"]:
                lines.append("| " + " | ".join(row[field] for field in TABLE.fields[1:]) + " |")
    (RESULTS / "gradients.md").write_text("\n".join(lines) + "\n")
