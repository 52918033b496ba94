"""How often a category that one row alone has can be read off a released model.

Rows of Adult, of which the first one has a value of its own in each of the eight columns of categories. Without this
row no model has these values. So any of them may appear with probability delta at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

from ..experiment import write
from ..folds import fitted
from ..frames import facts_of, load_frame
from ..raw_methods import EBM, OURS, VERSION, dp_ebm, known_to, method
from ..table import Row, Table, markdown

OWN, COUNTRY = "nobody else", "native_country"
CASES = (  # method, rows, epsilon, delta, fits
    (EBM, 39_000, 0.1, 1e-6, 200),
    (EBM, 2_000, 1.0, 1e-6, 200),
    (EBM, 500, 8.0, 1e-6, 200),
    (OURS, 500, 8.0, 1e-6, 10_000),
    (OURS, 500, 8.0, 0.1, 10_000),
    (OURS, 2_000, 1.0, 0.1, 10_000),
)
"""Where delta is 0.1 the values appear often enough to be counted."""


def planted(folder: Path | None, rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return so many rows of Adult and their labels; the first row has values of its own."""
    frame, y = load_frame("adult", folder)
    chosen = np.random.default_rng(0).permutation(len(y))[:rows]
    frame = frame.iloc[chosen].reset_index(drop=True)
    frame.loc[0, list(facts_of(frame).categories)] = OWN
    return frame, y[chosen]


def names_in_ebm(frame: pd.DataFrame, y: np.ndarray, epsilon: float, delta: float, fits: int) -> Iterator[set[str]]:
    """Yield the columns of which a model has the value of the first row; everything else is public."""
    facts = facts_of(frame)
    for seed in range(fits):
        model, _ = fitted(dp_ebm(facts, epsilon, delta, seed, **known_to(facts)._asdict()), frame, y)
        bins = zip(facts.columns, model[-1].bins_, strict=True)
        yield {name for name, levels in bins if isinstance(levels[0], dict) and OWN in levels[0]}


def names_in_ours(frame: pd.DataFrame, y: np.ndarray, epsilon: float, delta: float, fits: int) -> Iterator[set[str]]:
    """Yield the columns of which a model has the value of the first row."""
    for seed in range(fits):
        model, _ = fitted(method(OURS, facts_of(frame), epsilon, delta, seed), frame, y)
        names = [name for name in model.encoder_.get_feature_names_out() if OWN in name]
        yield {column for column in frame.columns if any(name.startswith(column) for name in names)}


def measure(folder: Path | None, name: str, rows: int, epsilon: float, delta: float, fits: int) -> list[object]:
    """Return in how many fits any value of the first row appeared, and its country, and what was promised."""
    frame, y = planted(folder, rows)
    found = list((names_in_ebm if name == EBM else names_in_ours)(frame, y, epsilon, delta, fits))
    any_value, country = sum(map(bool, found)), sum(COUNTRY in names for names in found)
    return [any_value, country, promised(name, frame, y, epsilon, delta)]


def promised(name: str, frame: pd.DataFrame, y: np.ndarray, epsilon: float, delta: float) -> float:
    """Return the probability that any of the values appears: delta, or the part of it that the report names."""
    if name == EBM:
        return delta
    model, _ = fitted(method(name, facts_of(frame), epsilon, delta, 0), frame, y)
    return float(model.privacy_spent_.currency.discovery.failure)


TABLE = Table(
    "tabular_discovery", ("method", "rows", "epsilon", "delta", "fits"), ("any", "country", "promised"), measure
)


def keys(repeats: None) -> list[tuple]:
    return list(CASES)


def report() -> None:
    header = ("with its country", "with any of its values", "share", "promised at most", "chance of as many")
    table = markdown([*TABLE.key, *header], map(line, TABLE.rows()))
    write("tabular_discovery", table=table, version=VERSION, machine=TABLE.machine())


def line(row: Row) -> list[str]:
    """Return what is shown of a row, with the probability of so many fits if the promise is just kept."""
    seen, fits, share = int(row["any"]), int(row["fits"]), float(row["promised"])
    chance = float(binom.sf(seen - 1, fits, share))
    about = [row[field] for field in (*TABLE.key, "country", "any")]
    return [*about, f"{seen / fits:.2%}", f"{share:.3g}", f"{chance:.2g}" if chance > 1e-100 else "below 1e-100"]
