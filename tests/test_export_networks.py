"""Exported networks: their scores are those of the model, bit for bit, wherever they are computed."""

import copy
import json
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from exported_models import convolutional, images, model_of, network, network_of_table, noted, random_rows, rows
from test_export_json import scorer

import dpsk
from dpsk import Categories, DPMLPClassifier, PrivatePipeline, Text
from dpsk.export import hidden_layers, plain_networks
from dpsk.export.description import described
from dpsk.networks import MaxPooling, Network

ACTIVATIONS = ["relu", "tanh", "hard-tanh", "identity"]
WAYS = {
    **{activation: {"activation": activation} for activation in ACTIVATIONS},
    "bounds": {"bounds": ([0, 10, -1, -3, 100], [2, 30, 1, 0, 500]), "standardize": None},
    "rows with grids of their own": {"standardize": None},
    "one layer": {"hidden_layer_sizes": (3,)},
    "persons": {"class_weight": "balanced", "adjacency": "replace"},
}


def scores_in_python(model, X, raw=False):
    """Return the scores that the plain Python of the documentation computes."""
    scores_of, document = scorer("scores_of", raw=raw), json.loads(model.to_json())
    return np.array([scores_of(document, row) for row in X])


def scores_of_graph(model, X):
    onnxruntime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    made = model.to_onnx()
    (last,) = [node for node in made.graph.node if node.op_type == "Softmax"]
    made.graph.output.append(onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.DOUBLE, None))
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X})[-1]


def require_equal_scores(model, X, few=150):
    """Compare bits: a tanh is the only function here that libraries may round in their own way."""
    scores, taken = model.decision_function(X), model.to_sklearn()
    assert np.array_equal(taken.decision_function(X), scores)
    assert np.array_equal(taken.decision_function(X[:1]), scores[:1])
    assert np.array_equal(scores_of_graph(model, X), scores)
    assert np.array_equal(scores_in_python(model, X[:few].tolist()), scores[:few])
    assert b"dpsk" not in pickle.dumps(taken)


@pytest.mark.parametrize("way", WAYS)
def test_scores_are_equal_bit_for_bit(way):
    X = random_rows(5_000)
    model = network(3, **{"hidden_layer_sizes": (8, 5), **WAYS[way]})
    if way == "rows with grids of their own":
        X = X * 2.0 ** np.random.default_rng(1).integers(-40, 400, (len(X), 1))
        X[:5] = 0.0
    require_equal_scores(model, X)


@pytest.mark.parametrize(
    "parameters", [{}, {"pool_size": 1, "activation": "tanh"}, {"hidden_layer_sizes": ()}], ids=str
)
def test_scores_of_convolutional_networks_are_equal_bit_for_bit(parameters):
    require_equal_scores(convolutional(**parameters), images()[0])


@pytest.mark.parametrize("data_norm", [3.0, 300.0])
def test_with_a_norm_scores_are_equal_within_a_step_of_the_row(data_norm):
    """Rows on the way to the norm are rounded in their own order: an entry may be another step of 2^-18 of its row."""
    model, X = network(3, standardize=None, data_norm=data_norm), random_rows(5_000)
    scores = model.decision_function(X)
    first, *others = (np.abs(coef).sum(axis=0).max() for coef in model.coefs_)
    # a step more or less of each entry, and of each signal behind it
    allowed = (2.0 * data_norm * 2.0**-17 * first + 2.0**-16 * first) * np.prod(others) + 2.0**-15 * np.prod(others)
    assert np.abs(model.to_sklearn().decision_function(X) - scores).max() < allowed
    assert np.abs(scores_in_python(model, X[:200].tolist()) - scores[:200]).max() < allowed
    assert (model.to_sklearn().predict(X) != model.predict(X)).mean() < 1e-3


def test_dates_words_and_hashes_of_a_network_are_read_by_json():
    kinds = {"grade": Categories([1, 2, 3, 9]), "note": Text(buckets=16), "town": Categories(buckets=4)}
    X, y = noted()
    model = DPMLPClassifier(hidden_layer_sizes=(4,), epsilon=8.0, random_state=0, steps=5, columns=kinds).fit(X, y)
    X = X.iloc[:100]
    entries = X.assign(day=[str(day) for day in X["day"]]).astype(object).values.tolist()
    assert np.array_equal(scores_in_python(model, entries, raw=True)[:, 0], model.decision_function(X))
    with pytest.raises(ValueError, match=r"'day' \(date\), 'note' \(text\), 'town' \(hashed categories\).*to_json"):
        model.to_sklearn()


def test_a_network_is_told_from_a_linear_model():
    document = json.loads(model_of("network").to_json())
    assert (document["version"], len(document["hidden"])) == (2, 2)
    assert document["inputs"]["one"] == 2.0**16
    document = json.loads(model_of("DPLogisticRegression").to_json())
    assert (document["version"], document["inputs"], document["hidden"]) == (1, None, [])


def test_numbers_of_a_description_are_those_of_the_model():
    model = model_of("network of three")
    of = described(model)
    for layer, coef, intercept in zip(of.hidden[1:], model.coefs_[1:], model.intercepts_[1:], strict=False):
        assert np.array_equal(layer.weights, coef)
        assert np.array_equal(layer.bias, intercept * 2.0**16)
    assert np.array_equal(of.coef * 2.0**16, model.coefs_[-1].T)
    assert np.array_equal(of.constant, model.intercepts_[-1])


def test_a_network_says_what_it_keeps():
    model = model_of("network")
    document = json.loads(model.to_json())
    assert document["statement"] == model.privacy_spent_.statement()
    assert document["private"] is False
    assert document["statement"].startswith("NOT PRIVATE")
    pytest.importorskip("skl2onnx")
    (said,) = [entry.value for entry in model.to_onnx().metadata_props if entry.key == "privacy"]
    assert said == model.privacy_spent_.statement()


def test_no_form_and_no_prediction_changes_a_network():
    model = network(3)
    before = pickle.dumps(model)
    model.predict_proba(rows()[0])
    model.to_json()
    model.to_sklearn()
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_of_networks_score_alike(copied):
    for model, X in ((network(3), random_rows(500)), (convolutional(), images()[0])):
        assert np.array_equal(copied(model).decision_function(X), model.decision_function(X))
        assert copied(model).to_json() == model.to_json()


def test_a_pipeline_that_ends_in_a_network_is_converted():
    pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = rows(n_classes=3)
    dpsk.register_onnx()
    model = DPMLPClassifier(hidden_layer_sizes=(4,), epsilon=8.0, random_state=0, steps=5)
    pipeline = PrivatePipeline([("model", model)]).fit(X, y)
    made = pipeline.to_onnx(X[:1])
    label, sure = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"X": X})
    assert (label == pipeline.predict(X)).all()
    np.testing.assert_allclose(sure, pipeline.predict_proba(X), rtol=0, atol=1e-12)
    assert (pipeline.to_sklearn().predict(X) == pipeline.predict(X)).all()


def test_a_convolution_that_is_far_too_large_for_scikit_learn_is_refused(monkeypatch):
    monkeypatch.setattr(plain_networks, "_MOST_PRODUCTS", 100)
    with pytest.raises(
        ValueError, match=r"DPConvolutionalClassifier has a convolution of .* use to_onnx\(\) or to_json"
    ):
        convolutional().to_sklearn()
    assert convolutional().to_json()


def test_a_layer_that_no_form_has_is_refused():
    @dataclass(frozen=True)
    class Mine(MaxPooling):
        """A layer of somebody else."""

    one = convolutional().network_.network
    layers = tuple(Mine(layer.inputs, layer.size) if isinstance(layer, MaxPooling) else layer for layer in one.layers)
    with pytest.raises(ValueError, match="a layer of the kind Mine, which exported forms do not have"):
        list(hidden_layers.hidden_of(Network(layers, one.activation), convolutional().network_.weights))


def test_a_network_of_a_raw_table_has_inputs_of_its_columns():
    model = network_of_table()
    assert json.loads(model.to_json())["fields"][0]["linear"] == 0
    pytest.importorskip("skl2onnx")
    assert {one.name for one in model.to_onnx().graph.input} == {"age", "pay", "job", "grade", "flag"}
