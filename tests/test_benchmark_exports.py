"""The benchmark of exported models: forms get the same rows as the model, and a difference would be seen."""

import sys
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pandas")

from benchmarks import table
from benchmarks.experiments import exports
from benchmarks.table import Rows


@pytest.fixture
def few_rows(monkeypatch):
    monkeypatch.setattr(exports, "BLOCK", 300)
    monkeypatch.setattr(exports, "TIMED", 50)
    monkeypatch.setattr(exports, "in_turn", lambda ways, *_: np.ones((1, len([way() for way in ways]))))


def row_of(name, kind):
    return dict(zip(exports.TABLE.measured, exports.measure(None, name, kind), strict=True))


@pytest.mark.parametrize("kind", ["scikit-learn", "ONNX", "JSON"])
@pytest.mark.parametrize("name", ["OutputPerturbationLogisticRegression", "DPTabularClassifier"])
def test_labels_are_counted_on_all_rows_and_one_that_differs_is_seen(few_rows, monkeypatch, name, kind):
    if kind == "ONNX":
        pytest.importorskip("skl2onnx")
        pytest.importorskip("onnxruntime")
    make, _ = exports.FORMS[kind]
    monkeypatch.setitem(exports.FORMS, kind, (make, 2))
    found = row_of(name, kind)
    assert found["rows"] == 600
    assert (found[exports.DIFFER], float(found[exports.APART]) < 1e-12) == (0, True)
    assert float(found["% of the rarest label"]) > 1
    other = copy(exports.fitted(name))
    other.intercept_ = other.intercept_ + 0.5
    monkeypatch.setitem(exports.FORMS, kind, (lambda model: make(other), 1))
    found = row_of(name, kind)
    assert found[exports.DIFFER] > 0
    assert float(found[exports.APART]) > 0.01


def test_probabilities_that_are_no_numbers_are_seen(few_rows, monkeypatch):
    make, _ = exports.FORMS["scikit-learn"]
    form = replace(
        make(exports.fitted("OutputPerturbationLogisticRegression")), sure=lambda X: np.full((len(X), 2), np.nan)
    )
    monkeypatch.setitem(exports.FORMS, "scikit-learn", (lambda model: form, 2))
    assert row_of("OutputPerturbationLogisticRegression", "scikit-learn")[exports.APART] == "nan"


def test_a_raw_table_and_the_inputs_of_a_graph_say_the_same():
    rows = exports.raw(3000, 0)
    for name, inputs in rows.inputs.items():
        column, entries = inputs[:, 0], rows.X[name].tolist()
        assert rows.X[name].isna().any()
        if name in ("age", "pay"):
            np.testing.assert_array_equal(column, entries)
            continue
        names = [
            "" if entry is None or entry != entry else f"{entry:g}" if name == "grade" else entry for entry in entries
        ]
        assert column.tolist() == names


def test_rows_of_numbers_lie_beyond_the_ranges_and_the_norm():
    X = exports.numbers(3000, 0).X
    assert (np.clip(X, *exports.BOUNDS) != X).any(axis=1).mean() > 0.5
    length = np.linalg.norm(X, axis=1)
    assert 0.1 < (length < 12).mean() < 0.9


def test_without_its_library_a_form_is_left_out_and_the_report_says_so(few_rows, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    name = "OutputPerturbationLogisticRegression"
    assert exports.measure(None, name, "ONNX") is None
    values = {kind: {"model": name, "form": kind, **row_of(name, kind)} for kind in ("JSON", "scikit-learn")}
    monkeypatch.setattr(
        table.Table, "rows", lambda _: Rows({k: str(v) for k, v in row.items()} for row in values.values())
    )
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    exports.report()
    text = (tmp_path / "exports.md").read_text()
    assert "ONNX is left out: what it needs was not installed." in text
    assert f"| {name} | scikit-learn | 3,000 |" in text
