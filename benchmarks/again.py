"""Rows measured once more: does the code as it is give what stands in accuracy.csv, with the same seeds?

    python -m benchmarks.again --data DIR [--sample 6] [--write]

Draws so many rows of every configuration. Where the draws of a method have changed since, its rows differ, by chance
alone: their mean difference stands beside it.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from joblib import Parallel, delayed

from . import accuracy, suite
from .evidence import Gap


def sample(rows: list[dict[str, str]], size: int) -> list[dict[str, str]]:
    """Return up to ``size`` rows of each configuration that have a result, the same ones every time."""
    by_name: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        if row["epsilon"] and row["accuracy"]:
            by_name.setdefault((row["configuration"], row["delta"]), []).append(row)
    draws = random.Random(0)
    return [row for _, found in sorted(by_name.items()) for row in draws.sample(found, min(size, len(found)))]


def measured(folder: Path | None, row: dict[str, str]) -> tuple[str, str]:
    """Return accuracy and objective of a row, measured now."""
    number = (float(row["epsilon"]), float(row["delta"]), int(row["repeat"]), int(row["fold"]))
    return accuracy.run_fold(folder, row["dataset"], row["configuration"], *number)


def compared(rows: list[dict[str, str]], found: list[tuple[str, str]]) -> list[str]:
    """Return the report: which configurations give the same, and by how much the others differ."""
    differing: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for row, (score, objective) in zip(rows, found, strict=True):
        name = row["configuration"] + ("" if float(row["delta"]) else accuracy.PURE)
        counts[name] = counts.get(name, 0) + 1
        if (score, objective) != (row["accuracy"], row["objective"]):
            differing.setdefault(name, []).append(100 * (float(score) - float(row["accuracy"])))
    same = [name for name in counts if name not in differing]
    points = [difference for values in differing.values() for difference in values]
    lines = ["# Rows of accuracy.csv, measured once more", ""]
    lines += ["Made by `python -m benchmarks run again --data DIR --write`.", ""]
    lines.append(f"{sum(counts.values()) - len(points)} of {sum(counts.values())} rows are the same to the last digit.")
    if points:
        lines.append(f"The others differ by {Gap.of(points)} points of accuracy on average (new minus old; 95 %).")
    lines += ["", "| configuration | rows drawn | differ | points on average |", "|---|---|---|---|"]
    lines += [f"| {n} | {counts[n]} | {len(v)} | {Gap.of(v).mean:+.2f} |" for n, v in differing.items()]
    return [*lines, "", f"All the same: {'; '.join(same)}."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the .npz files; without it Adult is fetched")
    parser.add_argument("--sample", type=int, default=6, help="rows of each configuration")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write results/again.md")
    options = parser.parse_args()
    rows = sample(accuracy.read(), options.sample)
    lines = compared(rows, Parallel(n_jobs=options.jobs)(delayed(measured)(options.data, row) for row in rows))
    print("\n".join(lines))
    if options.write:
        (suite.RESULTS / "again.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    from benchmarks.again import main as importable_main

    importable_main()
