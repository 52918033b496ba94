"""Exported models beside the models that they come from: labels, probabilities, time, and the size of the file.

Every form is written to bytes and read back before it predicts. Random rows have values beyond the ranges of the model;
raw tables have missing entries and categories that the fit did not see, too. JSON is scored by the functions of
docs/export.md. A form and the model are timed in turn, in processor time and one thread; the best of several repeats
counts. Drawn of ONNX are left out where skl2onnx or onnxruntime is not installed.
"""

from __future__ import annotations

import json
import pickle
import platform
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from dpsk import (
    Categories,
    DPLinearSVC,
    DPLogisticRegression,
    DPTabularClassifier,
    OutputPerturbationLogisticRegression,
    PrivateCalibration,
    PrivateThreshold,
)

from ..experiment import write
from ..table import Rows, Table, markdown
from ..timing import in_turn

FITTED, BLOCK, TIMED = 5_000, 100_000, 20_000
CENTRES = np.repeat([0.0, 5.0], [15, 5])
"""The means of the columns: 0 lies beyond the bounds of the last ones."""
BOUNDS = CENTRES - 3, CENTRES + 3
JOBS = np.array(["nurse", "cook", "clerk", None, "diver"], dtype=object)
TOWNS = np.array([*(f"town {k}" for k in range(12)), None, "town 99"], dtype=object)
GRADES = np.array([1.0, 2.0, 3.0, np.nan, 4.0, 9.0])
KINDS = {"grade": Categories([1, 2, 3, 9])}
PAGE = Path(__file__).parents[2] / "docs" / "export.md"


@dataclass(frozen=True)
class Drawn:
    """The same rows as a model takes them and, column by column, as a graph does."""

    X: Any
    inputs: dict[str, np.ndarray]

    def entries(self) -> list[list[object]]:
        return np.asarray(self.X, dtype=object if isinstance(self.X, pd.DataFrame) else None).tolist()


@dataclass(frozen=True)
class Form:
    """A model that was taken away: ``take`` prepares rows, ``labels`` and ``sure`` predict them."""

    file: bytes
    by: str
    take: Callable[[Drawn], Any]
    labels: Callable[[Any], Sequence[object]]
    sure: Callable[[Any], Any]


def numbers(n: int, seed: int) -> Drawn:
    """Return rows of which most have entries far from where the fit had them."""
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.3, 1.0, 3.0, 30.0, 1e6], size=(n, 1))
    X = np.where(rng.random((n, 20)) < 0.05, 0.0, rng.normal(size=(n, 20)) * spread + CENTRES)
    return Drawn(X, {"X": X})


def raw(n: int, seed: int) -> Drawn:
    """Return a raw table with numbers beyond all ends, categories that are new, and missing entries."""
    rng = np.random.default_rng(seed)
    age, pay = rng.normal(45, 60, n), rng.choice([0.0, np.nan, 1e-300, -5.0, 1e300, np.inf, 3000.0, 8123.25], n)
    age[rng.random(n) < 0.2] = np.nan
    return table_of(age, pay, *(rng.integers(0, len(values), n) for values in (JOBS, TOWNS, GRADES)))


def table_of(age, pay, job, town, grade) -> Drawn:
    """Return a table of numbers, and of categories by the places of their values."""
    columns = {"age": age, "pay": pay, "job": pd.Series(JOBS[job], dtype=object)}
    X = pd.DataFrame(columns | {"town": pd.Series(TOWNS[town], dtype=object), "grade": GRADES[grade]})
    grades = np.array(["" if np.isnan(value) else str(int(value)) for value in GRADES], dtype=object)
    texts = {"job": JOBS, "town": TOWNS, "grade": grades}
    names = {name: np.array([value or "" for value in values], dtype=object) for name, values in texts.items()}
    inputs = {"age": age, "pay": pay, "job": names["job"][job], "town": names["town"][town]}
    return Drawn(X, {name: column[:, None] for name, column in (inputs | {"grade": names["grade"][grade]}).items()})


def of_numbers(model: Any, n_classes: int, seed: int = 0, more: float = 0.0) -> Any:
    """Fit a model to rows of numbers; ``more`` makes the later labels likelier."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(FITTED, 20)) + CENTRES
    score = X[:, 0] - X[:, 1] + X[:, 15] - 5 + more + rng.logistic(size=FITTED)
    return model.fit(X, np.array(["a", "b", "c"])[np.digitize(score, [0.0] if n_classes == 2 else [-1.0, 1.0])])


def of_a_table(model: Any, n_classes: int) -> Any:
    """Fit a model to a raw table of numbers and categories."""
    rng = np.random.default_rng(0)
    age = np.where(rng.random(FITTED) < 0.1, np.nan, rng.integers(0, 90, FITTED))
    pay = np.where(rng.random(FITTED) < 0.4, 0.0, rng.lognormal(8, 1, FITTED))
    places = [rng.integers(0, known, FITTED) for known in (4, 13, 4)]
    score = np.nan_to_num(age, nan=60.0) / 30 + (pay > 0) - 1.5 * (places[0] == 1) + rng.normal(size=FITTED)
    return model.fit(table_of(age, pay, *places).X, np.digitize(score, [2.0] if n_classes == 2 else [1.2, 2.5]))


def adjusted(Adjustment: type) -> Callable[[Any, int], Any]:
    """Return a way to fit a model, and to adjust it to rows that have other labels more often."""
    return lambda model, n_classes: of_numbers(
        Adjustment(of_numbers(model, n_classes), epsilon=4.0, random_state=1), n_classes, seed=1, more=1.5
    )


MODELS = {
    "DPLogisticRegression": (DPLogisticRegression(), 2, of_numbers, numbers),
    "DPLogisticRegression, 3 classes": (DPLogisticRegression(), 3, of_numbers, numbers),
    "DPLogisticRegression, bounds": (DPLogisticRegression(bounds=BOUNDS), 2, of_numbers, numbers),
    "DPLogisticRegression, data_norm": (
        DPLogisticRegression(standardize=None, data_norm=12.0), 2, of_numbers, numbers
    ),
    "DPLinearSVC": (DPLinearSVC(), 2, of_numbers, numbers),
    "OutputPerturbationLogisticRegression": (OutputPerturbationLogisticRegression(), 2, of_numbers, numbers),
    "OutputPerturbationLogisticRegression, 3 classes": (
        OutputPerturbationLogisticRegression(), 3, of_numbers, numbers
    ),
    "DPTabularClassifier": (DPTabularClassifier(columns=KINDS), 2, of_a_table, raw),
    "DPTabularClassifier, 3 classes": (DPTabularClassifier(columns=KINDS), 3, of_a_table, raw),
    "PrivateThreshold": (DPLogisticRegression(), 2, adjusted(PrivateThreshold), numbers),
    "PrivateCalibration": (DPLogisticRegression(), 2, adjusted(PrivateCalibration), numbers),
}  # fmt: skip


@lru_cache(maxsize=1)
def fitted(name: str) -> Any:
    model, n_classes, fit, _ = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # precision is no matter here
        return fit(clone(model).set_params(epsilon=4.0, random_state=0), n_classes)


def in_scikit_learn(model: Any) -> Form:
    file = pickle.dumps(model.to_sklearn())
    plain = pickle.loads(file)
    return Form(file, f"scikit-learn {sklearn.__version__}", lambda rows: rows.X, plain.predict, plain.predict_proba)


def in_onnx(model: Any) -> Form | None:
    try:
        import onnxruntime
        import skl2onnx
    except ImportError:
        return None
    file, options = model.to_onnx().SerializeToString(), onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    asked = [one.name for one in session.get_inputs()]
    run = partial(session.run, None)
    by = f"skl2onnx {skl2onnx.__version__} and onnxruntime {onnxruntime.__version__}"
    return Form(
        file,
        by,
        lambda rows: {name: rows.inputs[name] for name in asked},
        lambda inputs: run(inputs)[0],
        lambda inputs: run(inputs)[1],
    )


def in_json(model: Any) -> Form:
    text = model.to_json()
    document, namespace = json.loads(text), {}
    blocks = [code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "def scores_of" in code]
    for code in blocks if document["fields"] else blocks[:1]:
        exec(code, namespace)
    predicted = partial(namespace["predicted"], document)
    return Form(
        text.encode(),
        f"Python {platform.python_version()}",
        Drawn.entries,
        lambda rows: [predicted(row)[0] for row in rows],
        lambda rows: [predicted(row)[1] for row in rows],
    )


FORMS = {"scikit-learn": (in_scikit_learn, 10), "ONNX": (in_onnx, 10), "JSON": (in_json, 1)}
"""How a form is made, and on how many blocks of rows it is compared."""


def microseconds(model: Any, form: Form, rows: Drawn, repeats: int) -> np.ndarray:
    """Return the time per row of ``predict_proba`` of the model, and of the form."""
    ways = partial(model.predict_proba, rows.X), partial(form.sure, form.take(rows))
    return in_turn(ways, repeats, time.process_time).min(axis=0) * 1e6 / len(rows.X)


def measure(folder: Path | None, name: str, kind: str) -> list[object] | None:
    (make, blocks), draw, model = FORMS[kind], MODELS[name][-1], fitted(name)
    if (form := make(model)) is None:
        return None
    differ, apart, counts = 0, 0.0, np.zeros(len(model.classes_), dtype=int)
    with threadpool_limits(1), np.errstate(all="ignore"):
        for seed in range(blocks):
            rows = draw(BLOCK, seed)
            given, labels = form.take(rows), model.predict(rows.X)
            differ += int((np.asarray(form.labels(given)) != labels).sum())
            counts += (labels[:, None] == model.classes_).sum(axis=0)
            differences = np.abs(np.asarray(form.sure(given)) - model.predict_proba(rows.X))
            apart = np.maximum(apart, differences.max())  # NaN stays
        own, its = microseconds(model, form, draw(TIMED, blocks), 7)
        own_alone, its_alone = microseconds(model, form, draw(1, blocks), 300)
    times = f"{own:.3f}", f"{its:.3f}", f"{its / own:.2f}", f"{own_alone:.0f}", f"{its_alone:.0f}"
    compared = counts.sum(), f"{100 * counts.min() / counts.sum():.1f}", differ, f"{apart:.1e}"
    return [*compared, *times, f"{its_alone / own_alone:.2f}", len(form.file), form.by]


DIFFER, APART = "labels that differ", "largest difference of probabilities"
COMPARED = "rows", "% of the rarest label", DIFFER, APART
TIMES = "us per row, dpsk", "us per row", "ratio", "us of one row, dpsk", "us of one row", "ratio of one row"
TABLE = Table("exports", ("model", "form"), (*COMPARED, *TIMES, "bytes", "by"), measure)


def keys(repeats: None) -> list[tuple[str, str]]:
    return list(product(MODELS, FORMS))


def report() -> None:
    rows = TABLE.rows()
    places = {key: place for place, key in enumerate(keys(None))}
    ordered = Rows(sorted(rows, key=lambda row: places[row["model"], row["form"]]))
    equal = [[row["model"], row["form"], f"{int(row['rows']):,}", *(row[f] for f in COMPARED[1:])] for row in ordered]
    times = [[row["model"], row["form"], *(row[f] for f in TIMES), f"{int(row['bytes']):,}"] for row in ordered]
    write(
        "exports",
        equal=markdown(["model", "form", *COMPARED], equal),
        times=markdown(["model", "form", *TIMES, "bytes"], times),
        differ=int(ordered.numbers(DIFFER).sum()),
        all=f"{int(ordered.numbers('rows').sum()):,}",
        apart=ordered.numbers(APART).max(),
        by=", ".join(by for (by,) in ordered.by("by")),
        missing="".join(
            f" {form} is left out: what it needs was not installed." for form in FORMS if not ordered.where(form=form)
        ),
        fitted=f"{FITTED:,}",
        timed=f"{TIMED:,}",
        machine=TABLE.machine(),
    )
