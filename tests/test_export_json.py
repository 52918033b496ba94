"""Models as JSON, scored by the plain Python of the documentation."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from exported_models import MODELS, TABLES, edges, model_of, noted, random_rows, random_table, tabular_of_all

PAGE = (Path(__file__).parents[1] / "docs" / "export.md").read_text()


def scorer(name="predicted", *, raw=False):
    """Return a function of the documentation."""
    blocks = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "def scores_of" in code]
    namespace = {}
    for code in blocks[: 1 + raw]:
        exec(compile(code, "export.md", "exec"), namespace)
    return namespace[name]


def compare(model, document, X, entries, raw=False):
    predict = scorer(raw=raw)
    found = [predict(document, row) for row in entries]
    assert [label for label, _ in found] == model.predict(X).tolist()
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose([sure for _, sure in found], model.predict_proba(X), rtol=0, atol=1e-12)
    else:
        assert all(sure is None for _, sure in found)


@pytest.mark.parametrize("name", MODELS)
def test_plain_python_scores_as_the_model_does(name):
    model = model_of(name)
    document = json.loads(model.to_json())
    X = np.vstack([edges(model), random_rows(1000)])
    compare(model, document, X, X.tolist())


@pytest.mark.parametrize("name", TABLES)
def test_plain_python_scores_raw_tables(name):
    model = model_of(name)
    X = random_table(1000)
    compare(model, json.loads(model.to_json(indent=1)), X, X.astype(object).values.tolist(), raw=True)


@pytest.mark.slow
def test_plain_python_reads_dates_words_and_hashes():
    model, (X, _) = tabular_of_all(), noted()
    X = X.iloc[:800]
    entries = X.assign(day=[str(day) for day in X["day"]]).astype(object).values.tolist()
    entries[0][5:7] = ["not a date", "_late_ LATE tired"]
    X = X.astype(object)
    X.iloc[0, 5:7] = ["not a date", "_late_ LATE tired"]
    compare(model, json.loads(model.to_json()), X, entries, raw=True)
