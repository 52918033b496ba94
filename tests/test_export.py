"""What exported models hold: what was released, what is public, and nothing else."""

import json
import pickle
from contextlib import suppress

import numpy as np
import pytest
from exported_models import fitted, frame, model_of, rows
from noisy_descent_classifier import NoisyDescentClassifier

from dpsk import (
    DPLogisticRegression,
    DPMLPClassifier,
    DPTabularClassifier,
    OutputPerturbationLogisticRegression,
    PrivacyLedger,
    PrivateSearchCV,
    PrivateThreshold,
)
from dpsk.calibration import Temperature

SEED = 918273645


def forms(model):
    """Yield all forms as bytes, without ONNX where it is not installed."""
    yield model.to_json().encode()
    yield pickle.dumps(model.to_sklearn())
    with suppress(ImportError):
        yield model.to_onnx().SerializeToString()


def released(model):
    """Return a model with the fitted attributes alone: no parameter of the one that was fitted."""
    bare = type(model)(model.estimator) if hasattr(model, "estimator") else type(model)()
    vars(bare).update({name: value for name, value in vars(model).items() if name.endswith("_") and name[0] != "_"})
    return bare


def test_no_form_holds_a_seed_a_path_or_a_parameter(tmp_path):
    """The numbers of a form follow from fitted attributes, which a fit has released."""
    ledger = PrivacyLedger(tmp_path / "secret-place.db", epsilon=90.0, delta=1e-3, allow_nonprivate=True)
    given = {"epsilon": 5.0, "ledger": ledger, "random_state": SEED}
    model = fitted(DPLogisticRegression(**given, bounds=(-70.5, 410.25), standardize=None))
    table = DPTabularClassifier(**given).fit(*frame()[:2])
    trained = fitted(DPMLPClassifier(**given, hidden_layer_sizes=(4,), steps=5, initial_seed=SEED + 1))
    for one in (model, table, trained, PrivateThreshold(model, ledger=ledger, random_state=SEED).fit(*rows())):
        for form, again in zip(forms(one), forms(released(one)), strict=True):
            for seed in (SEED, SEED + 1):
                assert str(seed).encode() not in form
                assert seed.to_bytes(4, "little") not in form
            assert b"secret-place" not in form
            assert form == again


def test_no_form_changes_the_model():
    model = fitted(DPLogisticRegression(epsilon=5.0, random_state=0))
    before = pickle.dumps(model)
    list(forms(model))
    assert pickle.dumps(model) == before


def test_a_search_gives_its_best_model_with_the_guarantee_of_the_search():
    search = model_of("search")
    assert search.to_json() == search.best_estimator_.to_json()
    assert json.loads(search.to_json())["statement"] == search.privacy_spent_.statement()


def test_what_has_changed_a_model_afterwards_says_what_it_cost():
    model = model_of("threshold of calibration")
    document = json.loads(model.to_json())
    assert document["privacy"] == json.loads(json.dumps(model.estimator.estimator.privacy_spent_.to_dict()))
    first, second = document["adjustments"]
    assert first["privacy"]["epsilon"] == model.estimator.privacy_spent_.epsilon
    assert second["statement"] == model.privacy_spent_.statement()


@pytest.mark.parametrize("name", ["exact", "DPLogisticRegression"])
def test_a_model_that_is_not_private_says_so(name):
    document = json.loads(model_of(name).to_json())
    assert document["private"] is False
    assert document["statement"].startswith("NOT PRIVATE")


def test_labels_that_json_does_not_have_are_refused():
    model = fitted(DPLogisticRegression(epsilon=5.0, random_state=0))
    model.classes_ = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    with pytest.raises(ValueError, match=r"datetime64.*fit with labels"):
        model.to_json()
    pytest.importorskip("skl2onnx")
    with pytest.raises(ValueError, match=r"datetime64.*fit with labels"):
        model.to_onnx()


def test_a_class_that_predicts_in_its_own_way_is_refused():
    class Contrary(DPLogisticRegression):
        def predict(self, X):
            return self.classes_[::-1][(super().decision_function(X) > 0).astype(int)]

    model = fitted(Contrary(epsilon=5.0, random_state=0))
    for call in ("to_json", "to_sklearn"):
        with pytest.raises(ValueError, match="Contrary has a predict of its own"):
            getattr(model, call)()


def test_a_calibration_of_one_vs_rest_has_no_plain_form():
    model = fitted(OutputPerturbationLogisticRegression(epsilon=5.0, random_state=0), 3)
    model.calibration_ = Temperature(0.5, np.full(3, 1 / 3))
    assert json.loads(model.to_json())["calibration"]["factor"] == 0.5
    with pytest.raises(ValueError, match=r"OutputPerturbationLogisticRegression has a calibration.*to_json\(\)"):
        model.to_sklearn()


def test_an_estimator_from_outside_of_the_package_has_all_forms():
    model = fitted(NoisyDescentClassifier(epsilon=5.0, random_state=0))
    X, _ = rows()
    assert (model.to_sklearn().predict(X) == model.predict(X)).all()
    assert json.loads(model.to_json())["estimator"] == "NoisyDescentClassifier"


def test_a_search_without_a_result_has_no_form():
    for call in ("to_json", "to_sklearn"):
        with pytest.raises(ValueError, match="not fitted"):
            getattr(PrivateSearchCV(DPLogisticRegression(), {"alpha": [1e-3]}), call)()


@pytest.mark.parametrize("name", ["calibration that moves", "calibration of scores that moves"])
def test_some_models_have_a_shift(name):
    """Or the tests of forms would not see whether it is there."""
    assert abs(model_of(name).shift_) > 0.1
