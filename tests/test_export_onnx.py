"""Models as ONNX: equal predictions in another runtime."""

import json
import sys

import numpy as np
import pytest
from exported_models import MODELS, TABLES, edges, frame, model_of, random_rows, random_table, rows, tabular_of_all
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder

import dpsk
from dpsk import DPLinearSVC, DPLogisticRegression, DPTabularClassifier, PrivateSearchCV, PrivateThreshold

onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")
StringTensorType = skl2onnx.common.data_types.StringTensorType


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


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_labels_are_equal_on_a_million_rows(name):
    model = model_of(name)
    made = model.to_onnx()
    for seed in range(10):
        wrong, apart = difference(model, made, random_rows(100_000, seed))
        assert wrong == 0
        assert apart <= 1e-12


def columns_of(X):
    """Return the inputs of the graph for a raw table: doubles, and names of categories."""
    names = {True: "1", False: "0", None: ""}
    found = {}
    for column in X:
        if column in ("age", "pay"):
            found[column] = X[[column]].to_numpy(np.float64)
        else:
            entries = X[column].astype(object).where(X[column].notna(), "")
            texts = [
                names.get(one, one) if isinstance(one, bool) else str(int(one)) if isinstance(one, float) else str(one)
                for one in entries
            ]
            found[column] = np.array(texts, dtype=object)[:, None]
    return found


@pytest.mark.parametrize("name", TABLES)
def test_raw_tables_have_an_input_for_each_column(name):
    model = model_of(name)
    X = random_table(20_000)
    X = X[(X["job"] != "").to_numpy()]  # to the graph it is missing
    inputs = columns_of(X)
    made = model.to_onnx()
    inputs = {one.name: inputs[one.name] for one in made.graph.input}
    wrong, apart = difference(model, made, X, inputs)
    assert wrong == 0
    assert apart <= 1e-12


def test_names_that_a_graph_cannot_have_are_changed_and_columns_keep_their_order():
    table, y, _ = frame()
    table = table[["pay", "age"]].rename(columns={"pay": "pay (in year 1)"})
    model = DPTabularClassifier(epsilon=8.0, random_state=0).fit(table, y)
    made = model.to_onnx()
    names = [one.name for one in made.graph.input]
    assert names[1] == "age"
    X = random_table(500)[["pay", "age"]].set_axis(table.columns, axis=1)
    inputs = {name: X.iloc[:, [k]].to_numpy() for k, name in enumerate(names)}
    assert difference(model, made, X, inputs)[0] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("name", TABLES)
def test_labels_of_raw_tables_are_equal_on_a_million_rows(name):
    model = model_of(name)
    made = model.to_onnx()
    for seed in range(10):
        X = random_table(100_000, seed)
        X = X[(X["job"] != "").to_numpy()]
        inputs = columns_of(X)
        wrong, apart = difference(model, made, X, {one.name: inputs[one.name] for one in made.graph.input})
        assert wrong == 0
        assert apart <= 1e-12


def test_columns_that_a_graph_cannot_read_are_named():
    with pytest.raises(ValueError, match=r"to_onnx\(\) cannot take away these columns.*'day' \(date\)"):
        tabular_of_all().to_onnx()


@pytest.mark.parametrize(
    "labels", [["a", "b"], [0, 1], [2.0, 7.0], [False, True], np.array(["x", "yy"], dtype=object)], ids=str
)
def test_labels_keep_their_type(labels):
    X, y = rows()
    model = DPLinearSVC(epsilon=5.0, random_state=0).fit(X, np.asarray(labels)[(y == "yes").astype(int)])
    label, _ = run(model.to_onnx(), {"X": X})
    assert label.tolist() == model.predict(X).tolist()
    assert [type(one) for one in label.tolist()] == [type(one) for one in model.predict(X).tolist()]


@pytest.mark.parametrize("opset", [13, 15, 18, 21])
@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPLogisticRegression of three", "OutputPerturbationSVC"])
def test_versions_of_the_operators(name, opset):
    model = model_of(name)
    made = model.to_onnx(target_opset=opset)
    assert {one.version for one in made.opset_import if one.domain == ""} == {opset}
    assert difference(model, made, random_rows(500))[0] == 0


def pipeline_of_categories():
    """Return a pipeline with public categories in front of one of our models, and its rows."""
    rng = np.random.default_rng(0)
    X = rng.choice(np.array(["a", "b", "c"], dtype=object), size=(500, 2))
    y = (X[:, 0] == "a") ^ (rng.random(500) < 0.1)
    encoder = OneHotEncoder(categories=[["a", "b", "c"]] * 2, sparse_output=False, handle_unknown="ignore")
    pipeline = make_pipeline(encoder, DPLogisticRegression(epsilon=5.0, random_state=0)).fit(X, y.astype(int))
    return pipeline, rng.choice(np.array(["a", "b", "c", "new"], dtype=object), size=(500, 2))


@pytest.mark.parametrize("zipmap", [False, True])
def test_pipelines_are_converted_by_skl2onnx(zipmap):
    dpsk.register_onnx()
    pipeline, X = pipeline_of_categories()
    inputs = [("X", StringTensorType([None, 2]))]
    made = skl2onnx.to_onnx(pipeline, initial_types=inputs, options={"zipmap": zipmap})
    label, sure = run(made, {"X": X})
    assert (label == pipeline.predict(X)).all()
    if zipmap:
        sure = np.array([[row[0], row[1]] for row in sure])
    np.testing.assert_allclose(sure, pipeline.predict_proba(X), rtol=0, atol=1e-6)  # in single precision


def test_a_pipeline_of_numbers_is_exact_in_doubles():
    dpsk.register_onnx()
    X, y = rows()
    pipeline = make_pipeline(FunctionTransformer(), DPLogisticRegression(epsilon=5.0, random_state=0)).fit(X, y)
    made = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False})
    wrong, apart = difference(pipeline, made, random_rows(5000))
    assert (wrong, apart <= 1e-12) == (0, True)


@pytest.mark.slow
def test_what_has_no_graph_of_its_own_says_what_to_do():
    X, y = rows()
    pipeline = make_pipeline(MinMaxScaler(), DPLogisticRegression(epsilon=5.0, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match=r"Pipeline is not described.*register_onnx"):
        PrivateThreshold(pipeline, random_state=0).fit(X, y).to_onnx()
    free = make_pipeline(FunctionTransformer(), DPLogisticRegression())
    search = PrivateSearchCV(free, {"dplogisticregression__alpha": [1e-3, 1e-2]}, epsilon=5.0, random_state=0)
    with pytest.raises(ValueError, match=r"skl2onnx.to_onnx\(pipeline, X\[:1\]\)"):
        search.fit(X, y).to_onnx()
    for call in ("to_json", "to_onnx"):
        with pytest.raises(ValueError, match=r"LinearSVC is not described.*to_sklearn\(\)"):
            getattr(model_of("calibration of another model"), call)()


@pytest.mark.parametrize("name", ["DPLogisticRegression", "exact", "threshold"])
def test_the_graph_carries_the_privacy_statement(name):
    model = model_of(name)
    made = model.to_onnx()
    (said,) = [entry.value for entry in made.metadata_props if entry.key == "privacy"]
    assert "NOT PRIVATE" in said
    assert said in made.doc_string
    document = json.loads(model.to_json())
    assert document["private"] is False
    assert document["statement"] == said
    assert model.privacy_spent_.statement() in said


def test_a_private_model_says_what_it_keeps():
    model = DPLogisticRegression(epsilon=5.0).fit(*rows())
    (said,) = [entry.value for entry in model.to_onnx().metadata_props if entry.key == "privacy"]
    assert said == model.privacy_spent_.statement()
    assert json.loads(model.to_json())["private"] is True


def test_without_skl2onnx_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    for call in (model_of("DPLogisticRegression").to_onnx, dpsk.register_onnx):
        with pytest.raises(ImportError, match=r'pip install "dpsk\[onnx\]"'):
            call()
