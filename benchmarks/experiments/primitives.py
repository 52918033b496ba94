"""What each primitive of the core costs, as a ratio to the bare operation under it.

Each primitive and its floor are timed in turn in one run on synthetic data of Adult's size (48,842 x 108), dense and
12 % full, with one BLAS thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from ..experiment import write
from ..inside import (
    ZCDP,
    ArgMin,
    ArrayRows,
    Budget,
    Gaussian,
    GaussianCost,
    GradientSum,
    Laplace,
    Ledger,
    Logistic,
    LossesAlong,
    NoisyMin,
    NormGamma,
    PermuteAndFlip,
    PrivateData,
    RowMap,
    Sensitivity,
    Softmax,
    SystemBits,
)
from ..table import Table, markdown
from ..timing import in_turn

ROWS, COLUMNS, CANDIDATES = 48_842, 108, 20
Case = tuple[str, str, Callable[[], object], Callable[[], object], int]
"""Primitive, floor, what is timed, what it is compared with, repeats."""


def of_rows(name: str, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Iterator[Case]:
    """Yield the cases that pass over these rows."""
    w, step, r = rng.normal(size=COLUMNS + 1), 0.01 * rng.normal(size=COLUMNS + 1), rng.normal(size=ROWS)
    stored = np.asfortranarray(X) if name == "dense" else sp.csr_matrix(X)
    scores = rng.normal(size=(CANDIDATES, ROWS))
    rows, gradient, state = ArrayRows(X, y), GradientSum(Logistic(), w, clip=3.0), {"w": w}

    def line(at):
        return LossesAlong(Logistic(), at, step, range(CANDIDATES + 1), clip=3.0)

    def iteration():
        along = line(state["w"])
        rows.total(along)
        state["w"] = along.points[rng.integers(2)]
        rows.total(GradientSum(Logistic(), state["w"], clip=3.0))

    yield (
        f"GradientSum, {name}", "X @ w and X.T @ r",
        lambda: rows.total(gradient), lambda: (stored @ w[:-1], stored.T @ r), 30,
    )  # fmt: skip
    yield (
        f"LossesAlong 20 steps, {name}", "X @ w and one np.exp over 20 x rows",
        lambda: rows.total(line(w)), lambda: (stored @ w[:-1], np.exp(scores)), 30,
    )  # fmt: skip
    yield (
        f"line and gradient in turn, {name}", "X @ w, X.T @ r and one np.exp over 20 x rows",
        iteration, lambda: (stored @ w[:-1], stored.T @ r, np.exp(scores)), 30,
    )  # fmt: skip
    yield f"ArrayRows (once a fit), {name}", "X.copy()", lambda: ArrayRows(X, y), lambda: X.copy(), 5


def of_classes(X: np.ndarray, rng: np.random.Generator) -> Iterator[Case]:
    rows, stored = ArrayRows(X, rng.integers(5, size=ROWS), RowMap(n_classes=5)), np.asfortranarray(X)
    W, R = rng.normal(size=(COLUMNS + 1, 5)), rng.normal(size=(ROWS, 5))
    yield (
        "GradientSum, softmax of 5, dense", "X @ W and X.T @ R",
        lambda: rows.total(GradientSum(Softmax(5), W, clip=3.0)), lambda: (stored @ W[:-1], stored.T @ R), 10,
    )  # fmt: skip


def of_mechanisms() -> Iterator[Case]:
    """Yield the cases that draw."""
    bits, generator = SystemBits(), np.random.default_rng(0)
    zeros, unit = np.zeros(COLUMNS + 1, dtype=np.int64), Sensitivity(2.0**36, 2.0**36, 2.0**36)
    for mechanism in (Gaussian(0.1), Laplace(0.1), NormGamma(0.1)):
        yield (
            f"{mechanism!r}, 109 entries", "Generator.normal(size=109)",
            lambda m=mechanism: m(zeros, unit, bits), lambda: generator.normal(size=COLUMNS + 1), 200,
        )  # fmt: skip
    choice = np.arange(CANDIDATES + 1, dtype=np.int64) * 1000
    for mechanism in (ArgMin(0.1), PermuteAndFlip(0.1), NoisyMin(0.1), NoisyMin(0.1, "exponential")):
        yield (
            f"{mechanism!r}, 21 scores", "np.argmin",
            lambda m=mechanism: m(choice, Sensitivity(3e4, 3e4, 12288.0, True), bits), lambda: np.argmin(choice), 200,
        )  # fmt: skip


def of_accounting(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Iterator[Case]:
    """Yield the cases that pay."""
    ledger, generator = Ledger(Budget.of(1e6, 1e-6)), np.random.default_rng(0)
    one = "math on one float"
    yield "Ledger.charge", one, lambda: ledger.charge(GaussianCost(1e-3), "x"), lambda: 0.5 + 0.5, 200
    yield "Gaussian.priced", one, lambda: Gaussian.priced(1e-5, ZCDP()), lambda: 0.5 + 0.5, 200
    yield "Budget.of (once a fit)", one, lambda: Budget.of(1.0, 1e-6), lambda: 0.5 + 0.5, 20
    data = PrivateData(ArrayRows(X[:100], y[:100]), ledger, SystemBits())
    sealed = data.measure(GradientSum(Logistic(), rng.normal(size=COLUMNS + 1), clip=3.0))
    yield (
        "release of 109 entries, all included", "Generator.normal(size=109)",
        lambda: data.release(sealed, Gaussian(1e-3)), lambda: generator.normal(size=COLUMNS + 1), 200,
    )  # fmt: skip


@cache
def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    full = rng.random((ROWS, COLUMNS))
    sparse, y = full * (rng.random((ROWS, COLUMNS)) < 0.12), rng.choice([-1.0, 1.0], ROWS)
    found = [case for name, X in (("dense", full), ("12 % full", sparse)) for case in of_rows(name, X, y, rng)]
    found += [*of_classes(full, rng), *of_mechanisms(), *of_accounting(full, y, rng)]
    return {case[0]: case for case in found}


def measure(folder: Path | None, primitive: str) -> list[str]:
    _, floor, tested, bare, repeats = cases()[primitive]
    with threadpool_limits(1):
        mine, least = np.median(in_turn([tested, bare], repeats), axis=0)
    return [f"{mine * 1e6:,.1f}", floor, f"{least * 1e6:,.1f}", f"{mine / least:.2f}"]


TABLE = Table("primitives", ("primitive",), ("microseconds", "floor", "of the floor", "ratio"), measure)


def report() -> None:
    header = ("primitive", "microseconds", "floor", "microseconds", "ratio")
    table = markdown(header, (row.values() for row in TABLE.rows()))
    write("primitives", table=table, machine=TABLE.machine(), rows=ROWS, columns=COLUMNS)


def keys(repeats: None) -> list[tuple]:
    return [(primitive,) for primitive in cases()]
