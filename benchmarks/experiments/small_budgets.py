"""Small budgets and few rows: the default beside its earlier rule, and beside itself without a taper, on equal folds.

``small_budgets_before.csv`` has what the default reached before moments were shrunk and prices tapered: of columns x
and x^2 were released, means below three deviations of noise counted as 0, and all gradients cost the same. That code is
no longer here, so these rows are read and not measured again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dpsk import DPGradientDescentClassifier, DPLogisticRegression

from ..experiment import write
from ..folds import fitted, fold_of, seed_of
from ..table import RESULTS, Rows, Table, keyed, markdown, read, standard_error

FEW = [f"{name} {rows} rows" for name in ("adult", "bank", "ipums_br") for rows in ("2,000", "5,000")]
# data set, bounds, epsilon, delta, repeats
TASKS = (
    *(("ipums_br", "0, 1", epsilon, 1e-8, 10) for epsilon in (0.01, 0.02)),
    *((name, "0, 1", epsilon, 1e-6, 5) for name in FEW for epsilon in (0.1, 0.3)),
    *(("cancer", "0, 1", epsilon, 1e-5, 15) for epsilon in (0.5, 1.0, 2.0)),
    *(("digits", "0, 1", epsilon, 1e-6, 5) for epsilon in (0.5, 1.0, 2.0)),
    *((name, "0, 1", epsilon, 1e-8, 5) for epsilon in (0.4, 0.1, 0.05, 1.6) for name in ("adult", "bank", "ipums_br")),
    *(("ipums_br", "none", epsilon, 1e-8, 10) for epsilon in (0.01, 0.02)),
    *((name, "none", epsilon, 1e-6, 10) for name in FEW for epsilon in (0.1, 0.3)),
    *(("cancer", "none", epsilon, 1e-5, 15) for epsilon in (0.5, 1.0, 2.0)),
    *(("digits", "none", epsilon, 1e-6, 10) for epsilon in (0.5, 1.0, 2.0)),
    ("raw", "none", 0.1, 1e-8, 5),
)
RULES = {"default": DPLogisticRegression(), "without a taper": DPGradientDescentClassifier(taper=0.0)}
CELL = ("dataset", "bounds", "epsilon", "delta")


def measure(folder: Path | None, rule: str, dataset: str, bounds: str, epsilon: float, delta: float, repeat, fold):
    """Return the accuracy in one fold."""
    rows = fold_of(dataset, folder, repeat, fold)
    public = None if bounds == "none" else (0, 1)
    known = {"epsilon": epsilon, "delta": delta, "bounds": public, "random_state": seed_of(repeat, fold)}
    return (f"{fitted(RULES[rule], rows.X, rows.y, **known)[0].score(rows.test_X, rows.test_y):.6f}",)


TABLE = Table("small_budgets", ("rule", *CELL, "repeat", "fold"), ("accuracy",), measure)
BEFORE = RESULTS / "small_budgets_before.csv"


def keys(repeats: int | None) -> Iterable[tuple]:
    """Yield everything, as often as it is declared or as is asked for; without a taper where it should matter most."""
    for *cell, declared in TASKS:
        for repeat in range(min(declared, repeats or declared)):
            for rule in RULES if cell[2] <= 0.02 and cell[1] != "none" else ["default"]:
                yield from ((rule, *cell, repeat, fold) for fold in range(5))


def gains(rows: Rows, before: Rows) -> dict[tuple[str, ...], tuple[float, float, int]]:
    """Return the mean gain in points by cell and rule, its standard error, and the number of fits."""
    old, found = before.folds(CELL, "accuracy"), {}
    for (rule, *cell), folds in rows.folds(("rule", *CELL), "accuracy").items():
        paired = [value - old[tuple(cell)][at] for at, value in folds.items() if at in old.get(tuple(cell), {})]
        if paired:
            found[(*cell, rule)] = float(np.mean(paired)), standard_error(np.array(paired)), len(paired)
    return found


def report() -> None:
    before = read(BEFORE)
    old, found, lines = before.folds(CELL, "accuracy"), gains(TABLE.rows(), before), []
    for task in TASKS:
        cell = tuple(map(str, task[:4]))
        shown = [found.get((*cell, rule)) for rule in RULES]
        if shown[0] is not None:
            texts = ["" if one is None else f"{one[0]:+.2f} ± {one[1]:.2f}" for one in shown]
            lines.append([*cell, shown[0][2], f"{np.mean(list(old[cell].values())):.2f}", *texts])
    averages = {}
    for name, bounds in (("few", "0, 1"), ("none", "none")):
        cells = keyed(task[:4] for task in TASKS if task[0] in FEW and task[1] == bounds)
        few = [found[*cell, "default"] for cell in cells]
        mean, error = np.mean([one[0] for one in few]), np.sqrt(np.sum([one[1] ** 2 for one in few])) / len(few)
        averages[name] = f"{mean:+.2f} ± {error:.2f}"
    header = ("data set", "bounds", "epsilon", "delta", "fits", "before, %", *RULES)
    write("small_budgets", table=markdown(header, lines), **averages, cells=len(few))
