"""How long fits of ``DPLineSearchClassifier`` take on covtype, beside the bare products of what they drew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dpsk import DPLineSearchClassifier

from ..experiment import write
from ..folds import cached
from ..inside import ArrayRows, Compact, RowMap
from ..table import Table
from ..timing import median, seconds

CASES = (
    ("dense", 0.1, "armijo-svt"),
    ("CSR", 0.1, "armijo-svt"),
    ("dense", 0.1, "exponential"),
    ("dense", 1.0, "armijo-svt"),
)
FITS = 3


def one(stored, y, rate: float, search: str) -> tuple[float, ...]:
    """Return batches, passes of gradients and of losses, seconds of a fit, of its set-up, and of its floors."""
    rng = np.random.default_rng(0)
    n, d = stored.shape
    w, indices = rng.normal(size=d), np.flatnonzero(rng.random(n) < rate)
    part = stored[indices]
    r = rng.normal(size=part.shape[0])
    collect = median(lambda: stored[indices], 5) if rate < 1 else 0.0
    product, back, power = (median(f, 5) for f in (lambda: part @ w, lambda: part.T @ r, lambda: np.exp(r)))
    signs = np.where(y == y[0], 1.0, -1.0)
    set_up = median(lambda: ArrayRows(Compact.of(stored), signs, RowMap(row_major=True)), 3)
    model = DPLineSearchClassifier(1.0, 1e-6, sampling_rate=rate, search=search)
    took = seconds(lambda: model.fit(stored, y))
    passes, releases = model.evaluations_, model.privacy_spent_.releases
    gradients, losses = passes["gradient"], passes.get("gains", 0.0) + passes.get("losses", 0.0)
    batches = sum(release.count for release in releases)
    searches = sum(release.count for release in releases if "search" in release.label)
    bare = gradients / rate * (product + back) + 2 * searches * product + losses / rate * power
    return batches, gradients, losses, took, set_up, bare, bare + batches * collect


def measure(folder: Path | None, given: str, rate: float, search: str) -> list[str]:
    X, y = cached("covtype", folder)
    stored = X if given == "dense" else sp.csr_matrix(X)
    with threadpool_limits(1):
        table = np.array([one(stored, y, rate, search) for _ in range(FITS)])
    ratios = np.median((table[:, 3:4] - table[:, 4:5]) / table[:, 5:], axis=0)
    batches, gradients, losses, *times, bare, collecting = np.median(table, axis=0)
    return [
        f"{X.shape[0]:,} x {X.shape[1]}", f"{batches:.0f}", f"{gradients:.1f}", f"{losses:.0f}",
        *(f"{t:.2f}" for t in (*times, bare, ratios[0], collecting, ratios[1])),
    ]  # fmt: skip


FIELDS = ("batches", "gradients", "losses", "fit, s", "set-up, s", "bare floor, s", "ratio", "with collecting, s")
TIMES = (*FIELDS, "ratio with collecting")
TABLE = Table("speed_line_search", ("given", "rate", "search"), ("rows x columns", *TIMES), measure)


def report() -> None:
    rows = TABLE.rows()
    for row in rows:
        row["rate"] = f"{float(row['rate']):g}"
    table = rows.markdown(["rows x columns", "given", "rate", "search", *TIMES])
    write("speed_line_search", table=table, machine=TABLE.machine())


def keys(repeats: None):
    return CASES
