"""Files of skops: every model comes back as it was, and the list of trusted classes is complete and no longer."""

import numpy as np
import pytest
from exported_models import (
    MODELS,
    TABLES,
    convolutional,
    fitted,
    frame,
    images,
    model_of,
    random_rows,
    random_table,
    rows,
    tabular,
    tabular_of_all,
)

from dpsk import (
    TRUSTED_TYPES,
    Categories,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    IndependentRows,
    PrivacyLedger,
    PrivatePipeline,
    PrivateSearchCV,
    PrivateThreshold,
)
from dpsk.model_selection import Poisson

skops = pytest.importorskip("skops.io")
pytestmark = pytest.mark.slow

PERSONS = np.arange(600) // 2
KEPT = {"epsilon": 1.0, "random_state": 0}
OTHERS = {
    "rho": lambda: DPLogisticRegression(rho=0.1, random_state=0).fit(*rows()),
    "persons": lambda: DPLogisticRegression(**KEPT).fit(*rows(), groups=PERSONS),
    "second order of persons": lambda: DPSecondOrderClassifier(**KEPT).fit(*rows(), groups=PERSONS),
    "loss distributions": lambda: DPSGDClassifier(**KEPT, steps=20, accountant="pld").fit(*rows()),
    "balanced": lambda: DPLogisticRegression(**KEPT, class_weight="balanced").fit(*rows()),
    "curved": lambda: DPLogisticRegression(epsilon=100.0, random_state=0, features="fourier").fit(*rows(4_000)),
    "Poisson": lambda: fitted(
        PrivateSearchCV(
            DPGradientDescentClassifier(), {"alpha": [1e-3]}, random_state=0, n_iter_distribution=Poisson(20)
        )
    ),
}
OTHER_TABLES = {
    "persons in a table": lambda: DPTabularClassifier(epsilon=8.0, random_state=0).fit(
        *frame()[:2], groups=np.arange(3000) // 2
    ),
    "pure": lambda: tabular(columns={"grade": None, "job": Categories(["cook"])}, delta=0),
}


def round_trip(model):
    return skops.loads(skops.dumps(model), trusted=TRUSTED_TYPES)


def made(name):
    return {**OTHERS, **OTHER_TABLES}[name]() if name in OTHERS or name in OTHER_TABLES else model_of(name)


def require_the_same(model, X):
    back = round_trip(model)
    assert (back.predict(X) == model.predict(X)).all()
    if hasattr(model, "predict_proba"):
        assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.privacy_spent_ == model.privacy_spent_
    assert back.privacy_spent_.statement() == model.privacy_spent_.statement()
    assert back.to_json() == model.to_json()


@pytest.mark.parametrize("name", [*MODELS, *OTHERS])
def test_a_model_comes_back_as_it_was(name):
    require_the_same(made(name), random_rows(200))


@pytest.mark.parametrize("name", [*TABLES, *OTHER_TABLES])
def test_a_model_of_raw_tables_comes_back_as_it_was(name):
    model = made(name)
    require_the_same(model, random_table(200))
    if hasattr(model, "effects_"):
        assert list(round_trip(model).effects_) == list(model.effects_)


def test_a_convolutional_network_comes_back_as_it_was():
    for solver in ("adam", "line-search"):
        require_the_same(convolutional(solver=solver), images()[0])


def test_a_model_comes_back_with_its_ledger(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    model = DPLogisticRegression(epsilon=1.0, ledger=ledger).fit(*rows())
    for one in (model, PrivateThreshold(model, ledger=ledger).fit(*rows())):
        require_the_same_ledger(one, ledger)


def require_the_same_ledger(model, ledger):
    back = round_trip(model)
    assert back.ledger == ledger
    assert back.privacy_spent_ == model.privacy_spent_
    before = ledger.remaining()
    DPLogisticRegression(epsilon=0.5, ledger=back.ledger).fit(*rows())
    assert ledger.remaining() != before


def test_the_list_holds_what_files_need_and_nothing_else(tmp_path):
    """A missing class makes a file unreadable; one too many would be trusted for nothing."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    steps = [DPLogisticRegression(ledger=ledger), IndependentRows(model_of("exact")), tabular_of_all()]
    steps += [convolutional(), convolutional(solver="line-search")]
    steps.append(PrivatePipeline([("model", DPLogisticRegression())]))
    needed = set()
    for model in [*map(made, [*MODELS, *TABLES, *OTHERS, *OTHER_TABLES]), *steps]:
        needed |= set(skops.get_untrusted_types(data=skops.dumps(model)))
    assert needed == set(TRUSTED_TYPES)
    assert len(TRUSTED_TYPES) == len(needed)
