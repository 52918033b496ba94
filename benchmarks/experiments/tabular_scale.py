"""How much time and memory ``DPTabularClassifier`` takes on raw tables, and whether both are linear in the rows.

The table is made: six numbers with gaps, six columns of 3 to 28 categories, a date, and an id that is different in
every row. ``HistGradientBoostingClassifier`` behind ``OrdinalEncoder`` does without the date and the id. Each cell is
measured in a process of its own, in one thread. Chunks of 100,000 rows are made while they are read; the time that
takes is subtracted. Memory is resident anonymous memory (RssAnon of /proc/self/status), looked at every 10 ms.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import threadpool_limits

from dpsk import Categories, Chunks, Date, DPTabularClassifier, Number

from ..experiment import write
from ..frames import load_frame
from ..table import Rows, Table, markdown
from .scale import Watch, anonymous

OURS, IN_CHUNKS, TREES = "DPTabularClassifier", "DPTabularClassifier on Chunks", "boosted trees"
MADE, ADULT, CHUNK = "made", "adult", 100_000
SIZES = (100_000, 500_000, 5_000_000)
NUMBERS, CATEGORIES = [f"x{k}" for k in range(6)], [f"c{k}" for k in range(6)]
COLUMNS = {
    **dict.fromkeys(NUMBERS, Number()),
    **dict.fromkeys(CATEGORIES, Categories()),
    "day": Date(),
    "id": Categories(),
}


def chunk(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return some rows and their labels."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(CHUNK, 6))
    gaps = rng.random((CHUNK, 6)) < 0.1
    frame = pd.DataFrame(np.where(gaps, np.nan, numbers * 10.0 ** np.arange(6)), columns=NUMBERS)
    for k, name in enumerate(CATEGORIES):
        values = np.array([f"value {j}" for j in range(3 + 5 * k)], dtype=object)
        frame[name] = values[rng.integers(0, len(values), CHUNK)]
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, CHUNK), unit="D")
    frame["id"] = [f"row {seed}-{i}" for i in range(CHUNK)]
    y = numbers[:, 0] + numbers[:, 1] ** 2 + (frame["c3"] == "value 1") + rng.logistic(size=CHUNK) > 1
    return frame, y.to_numpy()


def chunks(n: int) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    return (chunk(seed) for seed in range(n // CHUNK))


def one(folder: Path | None, name: str, data: str, n: int) -> list[object]:
    """Return seconds and memory of one fit."""
    model, beside, X, y = DPTabularClassifier(epsilon=1.0, delta=1e-8), 0.0, None, None
    if name == IN_CHUNKS:
        model.columns = COLUMNS
        start = time.process_time()
        for _ in chunks(n):
            pass
        X, beside = Chunks(lambda: chunks(n)), time.process_time() - start
    elif data == ADULT:
        X, y = load_frame(ADULT, folder)
    else:
        frames, labels = zip(*chunks(n), strict=True)
        X, y = pd.concat(frames, ignore_index=True), np.concatenate(labels)
    if name == TREES:
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        model = make_pipeline(encoder, HistGradientBoostingClassifier())
        X = X.drop(columns=["day", "id"], errors="ignore")
    with threadpool_limits(1):
        before, watch = anonymous(), Watch()
        watch.start()
        start, wall = time.process_time(), time.perf_counter()
        model.fit(X, y)
        took, wall = time.process_time() - start - beside, time.perf_counter() - wall
    return [round(took, 2), round(wall, 2), round(before), round(watch.stop())]


def measure(folder: Path | None, name: str, data: str, n: int) -> list[object]:
    """Return the same, from a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return pool.apply(one, (folder, name, data, n))


TABLE = Table("tabular_scale", ("model", "data", "rows"), ("seconds", "wall, s", "before, MB", "at most, MB"), measure)


def keys(repeats: None) -> list[tuple]:
    made = [(name, MADE, n) for name in (OURS, IN_CHUNKS, TREES) for n in SIZES if name != TREES or n < 5_000_000]
    return [(name, ADULT, 48_842) for name in (OURS, TREES)] + made


def table(rows: Rows) -> str:
    trees = {(row["data"], row["rows"]): float(row["seconds"]) for row in rows.where(model=TREES)}
    lines = []
    for row in rows:
        n, took = int(row["rows"]), float(row["seconds"])
        beside = trees.get((row["data"], row["rows"]))
        ratio = f"{took / beside:.2f}" if beside else ""
        memory = [row["before, MB"], row["at most, MB"]]
        lines.append([row["model"], row["data"], f"{n:,}", row["seconds"], f"{1e6 * took / n:.1f}", ratio, *memory])
    head = ("model", "data", "rows", "seconds", "us a row", "of boosted trees", "before the fit, MB", "at most, MB")
    return markdown(head, lines)


def report() -> None:
    write("tabular_scale", machine=TABLE.machine(), table=table(TABLE.rows()))
