"""How long it takes to spend from a durable ledger.

    python -m benchmarks.ledger [--directory DIR] [--write]

A spend sets the budget of a fit aside, on disk, before the fit begins; settling records its end. Both wait for the disk
several times: the table has the time of one such wait (an fsync of one page), taken in turn with the spends, because
it decides everything. The crowd is 8 processes with 50 fits each, all at once.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dpsk import PrivacyLedger
from dpsk.privacy import Budget, GaussianCost

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SPENDS = 400


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spends(ledger: PrivacyLedger, scratch: Path) -> dict[str, np.ndarray]:
    """Return the seconds of each step of many fits that do nothing else, and of a bare wait for the disk."""
    budget, page = Budget.of(1e-3, 1e-9), os.urandom(4096)
    times: dict[str, list[float]] = {"spend": [], "settle": [], "read what is left": [], "one fsync": []}
    with open(scratch, "wb", buffering=0) as file:

        def write_page() -> None:
            os.pwrite(file.fileno(), page, 0)
            os.fsync(file.fileno())

        for _ in range(SPENDS):
            times["one fsync"].append(seconds(write_page))
            fit = ledger.fit(budget, label="fit", adjacency="zero-out", private=True)
            start = time.perf_counter()
            filtered = fit.__enter__()
            times["spend"].append(time.perf_counter() - start)
            filtered.charge(GaussianCost(1e-6), "draw")
            times["settle"].append(seconds(lambda fit=fit: fit.__exit__(None, None, None)))
            times["read what is left"].append(seconds(ledger.remaining))
    return {name: np.array(values) for name, values in times.items()}


def crowd(path: Path) -> float:
    """Return the seconds that 8 processes with 50 fits each take."""
    PrivacyLedger(path, epsilon=100.0, delta=1e-2)
    driver = ROOT / "tests" / "ledger_driver.py"
    command = [sys.executable, "-W", "ignore", str(driver), "crowd", str(path), "8", "50"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if len(PrivacyLedger(path).history()) != 400 or PrivacyLedger(path).remaining()["epsilon"] != 60.0:
        raise SystemExit("the crowd lost a fit")
    return float(printed.split("seconds ")[1].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, help="where the ledgers are made (default: a temporary directory)")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results/ledger.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        ledger = PrivacyLedger(Path(directory) / "budget.db", epsilon=1e3, delta=1e-2)
        times = spends(ledger, Path(directory) / "scratch")
        together = crowd(Path(directory) / "crowd.db")
    lines = [
        "# Time of a durable ledger",
        "",
        "Made by `python -m benchmarks.ledger --write`: milliseconds of 400 fits that do nothing else, one after the",
        "other, in a ledger file on disk. A spend has to be below 5 ms. Spending and settling wait for the disk about",
        "five times each; `one fsync` is one such wait, measured in turn with them.",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}.",
        "",
        "| step | median, ms | 95 %, ms |",
        "|---|---|---|",
    ]
    for name, values in times.items():
        lines.append(f"| {name} | {1e3 * np.median(values):.2f} | {1e3 * np.quantile(values, 0.95):.2f} |")
    lines += ["", f"8 processes with 50 fits each, all at once: {together:.1f} s, {1e3 * together / 400:.1f} ms a fit."]
    print("\n".join(lines))
    if options.write:
        (RESULTS / "ledger.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
