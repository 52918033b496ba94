"""Models as ONNX: equal predictions in another runtime."""

import numpy as np
import pytest
from exported_models import MODELS, TABLES, base_of, edges, model_of, random_rows, random_table

onnxruntime = pytest.importorskip("onnxruntime")


def run(made, inputs):
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def difference(model, made, X, inputs=None):
    """Return how many labels differ, and the largest difference of probabilities."""
    label, sure = run(made, {"X": X} if inputs is None else inputs)
    wrong = int((label != model.predict(X)).sum())
    if hasattr(model, "predict_proba"):
        return wrong, float(np.abs(sure - model.predict_proba(X)).max())
    scores = model.decision_function(X)
    np.testing.assert_allclose(sure.reshape(scores.shape), scores, rtol=1e-9, atol=1e-9)
    return wrong, 0.0


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_predicts_the_same(name):
    model = model_of(name)
    made = model.to_onnx()
    for X in (edges(model)[:-40], random_rows(20_000)):  # without the rows on the border
        wrong, apart = difference(model, made, X)
        assert wrong == 0
        assert apart <= 1e-12
