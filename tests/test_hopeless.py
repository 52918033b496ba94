"""A warning where a fit is hopeless: from public facts alone, before anything is paid, and not where fits are fine."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from contract import NETWORKS
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from dpsk import (
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    PrivacyLedger,
    PrivateSearchCV,
)
from dpsk.data import Facts
from dpsk.estimators import plan_of
from dpsk.estimators.plan import doubts, hopeful_product, strength_of

WIDE, MANY = Facts(3_000, 5_000, 2), Facts(15_000, 300, 120)
DIGITS, CANCER, ADULT = Facts(1_437, 64, 10), Facts(455, 30, 2), Facts(39_000, 108, 2)
EACH = (
    DPLogisticRegression,
    DPLinearSVC,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPSGDClassifier,
    DPSecondOrderClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    *NETWORKS,
)


def told(model, facts):
    """Return what is said about fits on data with these facts."""
    return [text for text in doubts(plan_of(model, facts), facts, adjacency=model.adjacency) if "delta=" not in text]


def needed(model, facts):
    """Return how many rows a fit needs by the rule."""
    plan = plan_of(model, facts)
    return hopeful_product(plan, facts, model.adjacency) / strength_of(plan.budget)


def said(model, *data):
    """Return the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model.fit(*data)
    return [str(one.message) for one in caught if "little more than chance" in str(one.message)]


@pytest.mark.parametrize("facts", [WIDE, MANY], ids=["wide", "many classes"])
@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPLinearSVC, DPSGDClassifier])
def test_wide_data_and_many_classes_are_warned_about(Estimator, facts):
    (text,) = told(Estimator(epsilon=1.0, delta=1e-6), facts)
    wanted = f"{facts.n_rows} rows, {facts.n_features} columns and {facts.n_classes} classes"
    assert text.startswith(f"epsilon=1 with {wanted}: ")
    assert "expect little more than chance" in text
    assert ("fewer columns or classes" in text) == (facts is MANY)


@pytest.mark.parametrize(
    ("epsilon", "facts"),
    [(1.0, DIGITS), (1.0, CANCER), (4.0, CANCER), (0.1, ADULT), (0.05, ADULT), (1.0, Facts(56_000, 784, 10))],
)
def test_what_works_is_silent(epsilon, facts):
    for model in (DPLogisticRegression(epsilon, 1e-8), DPLinearSVC(epsilon, 1e-8)):
        assert told(model, facts) == []


@pytest.mark.parametrize("load", [load_digits, load_breast_cancer])
def test_a_real_fit_that_works_is_silent(load):
    X, y = load(return_X_y=True)
    assert said(DPLogisticRegression(1.0 if load is load_digits else 4.0, random_state=0), X, y) == []


@pytest.mark.parametrize("Estimator", EACH)
def test_every_estimator_says_it_before_it_pays(Estimator, tmp_path):
    """The warning is an error here, and nothing is spent."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(60, 20)), rng.integers(2, size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(UserWarning, match=r"60 rows, 20 columns and 2 classes: .*expect little more than chance"):
            Estimator(epsilon=0.1, ledger=ledger).fit(X, y)
    assert ledger.history() == []


@pytest.mark.parametrize("Estimator", EACH)
@pytest.mark.parametrize("facts", [Facts(500, 30, 2), replace(MANY, n_rows=2_000)], ids=["two", "many"])
def test_the_remedies_are_enough(Estimator, facts):
    """With the rows or the epsilon that are named, a little more for the digits that are not shown, fits are silent."""
    model = Estimator(epsilon=0.02)
    (text,) = told(model, facts)
    rows = int(text.split("fit more than ")[1].split(" rows")[0])
    epsilon = float(text.split("Raise epsilon beyond ")[1].split(",")[0])
    assert told(model, replace(facts, n_rows=int(0.98 * rows))) != []
    assert told(model, replace(facts, n_rows=rows + 1)) == []
    assert told(Estimator(epsilon=1.06 * epsilon), facts) == []
    assert told(Estimator(epsilon=0.9 * epsilon), facts) != []


def test_the_rule_grows_with_everything_that_makes_fits_harder():
    shapes = {"little": Facts(1_000, 100, 2), "wide": Facts(1_000, 10_000, 2), "many": Facts(1_000, 100, 100)}
    at = {name: needed(DPLogisticRegression(1.0), facts) for name, facts in shapes.items()}
    assert at["wide"] > 15 * at["little"], "more than the root of the columns"
    assert at["many"] > 15 * at["little"], "more than the root of the classes"
    replaced = needed(DPLogisticRegression(1.0, adjacency="replace"), Facts(1_000, 100, 2))
    assert replaced == 2 * at["little"], "a row that is replaced counts twice"


def test_the_warning_does_not_depend_on_entries():
    rng = np.random.default_rng(0)
    texts = set()
    for X, y in [
        (rng.uniform(size=(80, 40)), np.arange(80) % 2),
        (np.zeros((80, 40)), np.arange(80) < 1),
        (1e9 * rng.normal(size=(80, 40)), np.arange(80) < 79),
    ]:
        texts.add(tuple(said(DPLogisticRegression(0.1, classes=[0, 1]), X, y.astype(int))))
    assert len(texts) == 1
    assert len(next(iter(texts))) == 1


def test_pipelines_say_it_once():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(80, 40)), rng.integers(2, size=80)
    assert len(said(make_pipeline(Normalizer(), DPLogisticRegression(0.1)), X, y)) == 1


@pytest.mark.slow
def test_searches_say_it_once():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(80, 40)), rng.integers(2, size=80)
    search = PrivateSearchCV(DPLogisticRegression(), {"alpha": [1e-4, 1e-2]}, epsilon=0.5, random_state=0)
    assert len(said(search, X, y)) == 1


def test_raw_tables_count_their_fields():
    frame = pd.DataFrame({"age": np.arange(60) % 50, "job": ["cook", "nurse", None] * 20})
    (text,) = said(DPTabularClassifier(0.1), frame, np.arange(60) % 2)
    assert text.startswith("epsilon=0.1 with 60 rows, 2 fields and 2 classes: ")
