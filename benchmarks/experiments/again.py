"""Rows measured once more: does the code as it is give what stands in accuracy.csv, with the same seeds?

Six rows of every configuration are drawn, the same ones every time. Where the draws of a method have changed since, its
rows differ, by chance alone: their mean difference stands beside it.
"""

from __future__ import annotations

import random
from pathlib import Path

from ..evidence import Gap
from ..experiment import write
from ..methods import PURE
from ..table import Rows, Table, markdown
from . import accuracy

SIZE = 6


def sample(rows: Rows, size: int) -> Rows:
    """Return up to ``size`` rows of each configuration that have a result."""
    by_name = Rows(row for row in rows if row["epsilon"] and row["accuracy"]).by("configuration", "delta")
    draws = random.Random(0)
    return Rows(row for _, found in sorted(by_name.items()) for row in draws.sample(found, min(size, len(found))))


def measure(folder: Path | None, dataset, configuration, epsilon, delta, repeat, fold) -> tuple[str, str]:
    """Return accuracy and objective of a row, measured now."""
    return accuracy.measure(folder, dataset, configuration, float(epsilon), float(delta), int(repeat), int(fold))


TABLE = Table("again", accuracy.KEY, ("accuracy", "objective"), measure)


def keys(repeats: None) -> list[tuple[str, ...]]:
    return list(sample(accuracy.TABLE.rows(), SIZE).by(*accuracy.KEY))


def report() -> None:
    """Write the report if rows were measured again."""
    found = TABLE.rows().by(*TABLE.key)
    known = accuracy.TABLE.rows().by(*TABLE.key)
    if not found:
        print("again.csv has no rows, so again.md stays as it is")
    else:
        write("again", **compared(Rows(known[key][0] for key in found), Rows(rows[0] for rows in found.values())))


def compared(rows: Rows, found: Rows) -> dict[str, object]:
    """Return which configurations give the same, and by how much the others differ."""
    differing: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for row, new in zip(rows, found, strict=True):
        name = row["configuration"] + ("" if float(row["delta"]) else PURE)
        counts[name] = counts.get(name, 0) + 1
        if (new["accuracy"], new["objective"]) != (row["accuracy"], row["objective"]):
            differing.setdefault(name, []).append(100 * (float(new["accuracy"]) - float(row["accuracy"])))
    points = [difference for values in differing.values() for difference in values]
    lines = [[name, counts[name], len(values), f"{Gap.of(values).mean:+.2f}"] for name, values in differing.items()]
    others = f"The others differ by {Gap.of(points)} points of accuracy on average (new minus old; 95 %)."
    return {
        "same": sum(counts.values()) - len(points),
        "all": sum(counts.values()),
        "others": others if points else "",
        "table": markdown(["configuration", "rows drawn", "differ", "points on average"], lines),
        "names": "; ".join(name for name in counts if name not in differing),
    }
