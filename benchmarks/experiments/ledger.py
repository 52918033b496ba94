"""How long it takes to spend from a durable ledger.

A spend sets the budget of a fit aside, on disk, before the fit begins; settling records its end. Both wait for the disk
several times: the table has the time of one such wait (an fsync of one page), taken in turn with the spends, because
it decides everything. The crowd is 8 processes with 50 fits each, all at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpsk import PrivacyLedger

from ..experiment import write
from ..inside import Budget, GaussianCost
from ..table import Rows, Table
from ..timing import seconds

DRIVER = Path(__file__).parents[2] / "tests" / "ledger_driver.py"
SPENDS, PROCESSES, EACH, AIM = 400, 8, 50, 5.0
STEPS, CROWD = ("spend", "settle", "read what is left", "one fsync"), "crowd"


@lru_cache(maxsize=1)
def spends(folder: Path | None) -> dict[str, list[float]]:
    """Return the seconds of each step of many fits that do nothing else, and of a bare wait for the disk."""
    budget, page = Budget.of(1e-3, 1e-9), os.urandom(4096)
    times: dict[str, list[float]] = {step: [] for step in STEPS}
    with tempfile.TemporaryDirectory(dir=folder) as made, open(Path(made) / "scratch", "wb", buffering=0) as file:
        ledger = PrivacyLedger(Path(made) / "budget.db", epsilon=1e3, delta=1e-2)

        def write_page() -> None:
            os.pwrite(file.fileno(), page, 0)
            os.fsync(file.fileno())

        for _ in range(SPENDS):
            times["one fsync"].append(seconds(write_page))
            fit = ledger.fit(budget, label="fit", adjacency="zero-out", private=True)
            filtered = []
            times["spend"].append(seconds(lambda fit=fit, filtered=filtered: filtered.append(fit.__enter__())))
            filtered[0].charge(GaussianCost(1e-6), "draw")
            times["settle"].append(seconds(lambda fit=fit: fit.__exit__(None, None, None)))
            times["read what is left"].append(seconds(ledger.remaining))
    return times


def crowd(folder: Path | None) -> float:
    """Return the seconds that 8 processes with 50 fits each take."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = Path(made) / "crowd.db"
        PrivacyLedger(path, epsilon=100.0, delta=1e-2)
        command = [sys.executable, "-W", "ignore", str(DRIVER), "crowd", str(path), str(PROCESSES), str(EACH)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        ledger = PrivacyLedger(path)
        if len(ledger.history()) != PROCESSES * EACH or ledger.remaining()["epsilon"] != 60.0:
            raise SystemExit("the crowd lost a fit")
    return float(printed.split("seconds ")[1].split()[0])


def measure(folder: Path | None, step: str) -> list[str]:
    """Return median and 95 % of one step in ms; of the crowd seconds and ms a fit."""
    if step == CROWD:
        together = crowd(folder)
        return ["", "", f"{together:.1f}", f"{1e3 * together / (PROCESSES * EACH):.1f}"]
    values = spends(folder)[step]
    return [f"{1e3 * np.median(values):.2f}", f"{1e3 * np.quantile(values, 0.95):.2f}", "", ""]


TABLE = Table("ledger", ("step",), ("median, ms", "95 %, ms", "all, s", "a fit, ms"), measure)


def report() -> None:
    rows = TABLE.rows()
    (together,) = rows.where(step=CROWD)
    steps = Rows(row for row in rows if row["step"] != CROWD)
    table = steps.markdown(["step", "median, ms", "95 %, ms"])
    spend = float(steps.where(step="spend")[0]["median, ms"])
    known = {"machine": TABLE.machine(), "spends": SPENDS, "aim": AIM}
    write("ledger", table=table, crowd=together, verdict="it is" if spend < AIM else "it is not", **known)


def keys(repeats: None) -> list[tuple]:
    return [(step,) for step in (*STEPS, CROWD)]
