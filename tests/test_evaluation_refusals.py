"""private_evaluation is paid for before a row is looked at. What cannot be evaluated is refused and costs nothing."""

import numpy as np
import pandas as pd
import pytest
from contract import Untouchable
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpsk import BudgetExhausted, Chunks, DPLogisticRegression, PrivacyLedger, private_evaluation, private_score

rng = np.random.default_rng(0)
X = np.round(rng.uniform(-1, 1, size=(30, 3)), 3)
TWO = (X[:, 0] > 0).astype(int)


def fitted(X, y, **options):
    return DPLogisticRegression(epsilon=20.0, bounds=(-1, 1), random_state=0, **options).fit(X, y)


class Odd(ClassifierMixin, BaseEstimator):
    """A foreign model that refuses what is huge."""

    classes_ = np.arange(2)

    def predict(self, X):
        if (np.abs(X) > 1e5).any():
            raise KeyError("a huge row")
        return (np.asarray(X)[:, 0] > 0).astype(int)

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


# ------------------------------------------------------------------------------------------------------ the ledger


class Curious(Odd):
    """It looks at a ledger before it predicts."""

    def __init__(self, ledger):
        self.ledger, self.found = ledger, []

    def predict(self, X):
        self.found.append([(spend.label, spend.state, dict(spend.reserved)) for spend in self.ledger.history()])
        return super().predict(X)

    def __deepcopy__(self, memo):
        return self


def test_it_is_paid_for_before_the_first_prediction(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=0)
    model = Curious(ledger)
    private_evaluation(model, X, TWO, epsilon=0.7, ledger=ledger)
    assert model.found[0] == [("private_evaluation", "open", {"epsilon": 0.7, "delta": 0.0})]
    (spend,) = ledger.history()
    assert (spend.state, spend.counted) == ("closed", {"epsilon": 0.7, "delta": 0.0})
    private_evaluation(Odd(), 1e6 * np.ones((5, 3)), TWO[:5], epsilon=0.7, ledger=ledger)
    assert ledger.remaining()["epsilon"] == pytest.approx(0.6), "a row that is refused is paid for"
    with pytest.raises(BudgetExhausted, match=r"private_evaluation asks for epsilon 0\.7"):
        private_evaluation(Odd(), Untouchable(), Untouchable(), epsilon=0.7, ledger=ledger)
    assert len(ledger.history()) == 2


def test_a_ledger_of_persons_is_told_who_is_protected(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=0, unit="patient")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(patient=np.arange(30) // 3)
    model = fitted(frame[["a", "b", "c"]], TWO)
    seen = private_evaluation(model, frame, TWO, epsilon=0.5, ledger=ledger, group_column="patient")
    assert seen.unit == "patient"
    with pytest.raises(ValueError, match="patient"):
        private_evaluation(model, frame[["a", "b", "c"]], TWO, epsilon=0.5, ledger=ledger)
    assert ledger.remaining()["epsilon"] == 1.5


@pytest.mark.parametrize("currency", ["rho", "mu**2"])
def test_it_has_an_amount_in_every_currency(currency, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-6, currency=currency)
    private_evaluation(Odd(), X, TWO, epsilon=0.1, ledger=ledger)
    (spend,) = ledger.history()
    assert spend.counted == spend.reserved
    assert 0 < spend.counted[currency] < 0.02


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": float("inf")}, "epsilon=inf"),
        ({"epsilon": 1e-11}, "2\\*\\*56 grid units"),
        ({"epsilon": 5e-10, "accuracy_share": 0.9}, "2\\*\\*56 grid units"),
        ({"confidence": 1.0}, r"confidence=1\.0"),
        ({"confidence": 95}, "confidence=95"),
        ({"accuracy_share": 0}, "accuracy_share=0"),
        ({"accuracy_share": 1.0}, r"accuracy_share=1\.0"),
        ({"accuracy_share": "all"}, "accuracy_share='all'"),
        ({"accuracy_share": float("nan")}, "accuracy_share=nan"),
        ({"adjacency": "add"}, "adjacency='add'"),
        ({"random_state": np.random.default_rng(0)}, "random_state="),
        ({"ledger": 3}, "ledger=3"),
        ({"positive": 7}, r"positive=7 must be one of the labels \[0, 1\]"),
        ({"positive": "1"}, "positive='1' must be one of"),
        ({"positive": [0, 1]}, r"positive=\[0, 1\] must be one of"),
        ({"positive": [0, 1, 2]}, r"positive=\[0, 1, 2\] must be one of"),
        ({"positive": float("nan")}, "positive=nan must be one of"),
        ({"positive": pd.NA}, "positive=<NA> must be one of"),
    ],
)
def test_bad_parameters_are_refused_before_the_rows_are_touched(bad, message):
    with pytest.raises(ValueError, match=message):
        private_evaluation(Odd(), Untouchable(), Untouchable(), **{"epsilon": 1.0, **bad})


def test_what_cannot_be_evaluated_is_refused_and_costs_nothing(tmp_path):
    """All that is refused is public: the model, the columns, the number of rows, the types of labels."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-6)
    rows, y, several = np.tile(X, (4, 1)), np.tile(TWO, 4), np.arange(120) % 3
    model = LogisticRegression().fit(rows, y)
    half = make_pipeline(StandardScaler(), model)
    for thing, given, labels, message in (
        (LinearRegression().fit(rows, y), rows, y, "takes a fitted classifier"),
        (LogisticRegression, rows, y, "takes a fitted classifier"),
        (None, rows, y, "takes a fitted classifier: NoneType cannot predict"),
        (LogisticRegression(), rows, y, "LogisticRegression has no classes_"),
        (DPLogisticRegression(), rows, y, "DPLogisticRegression has no classes_"),
        (make_pipeline(StandardScaler(), LogisticRegression()), rows, y, "Pipeline has no classes_"),
        (half, rows, y, "not fitted"),
        (MultiOutputClassifier(Perceptron()).fit(rows, np.c_[y, y]), rows, y, "at least two classes in classes_"),
        (
            Perceptron().fit(rows, several),
            rows,
            several,
            "Perceptron has 3 classes and no predict_proba: give positive=",
        ),
        (PredictsOnly(), rows, y, "neither predict_proba nor decision_function.*private_score"),
        (model, rows, np.array(["no", "yes"])[y], "are they coded differently"),
        (model, rows[:, :2], y, "X has 2 features, but LogisticRegression is expecting 3"),
        (model, rows[1:], y, r"X has 119 rows and y the shape \(120,\)"),
        (model, rows, y[:, None], "one label per row"),
        (model, rows[:0], y[:0], "at least one row"),
        (model, rows, None, "y is None"),
        (model, Chunks(lambda: [(rows, y)]), None, "y is None"),
        (model, Chunks(lambda: [rows]), y[:-1], "X has 120 rows and y 119 labels"),
        (model, Chunks(list), y, "returned no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            private_evaluation(thing, given, labels, epsilon=0.1, ledger=ledger)
    with pytest.raises(ValueError, match="groups has 3 entries"):
        private_evaluation(model, rows, y, epsilon=0.1, groups=[1, 2, 3])
    assert ledger.remaining() == {"epsilon": 1.0, "delta": 1e-6}
    assert not [spend for spend in ledger.history() if spend.counted["epsilon"]]


class PredictsOnly(ClassifierMixin, BaseEstimator):
    classes_ = np.arange(2)

    def predict(self, X):
        return np.zeros(len(X), int)


def test_a_model_that_knows_no_unit_of_the_rows_is_refused_as_by_a_score():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(patient=np.arange(30) // 2)
    model = fitted(frame, TWO, group_column="patient")
    for release in (private_score, private_evaluation):
        with pytest.raises(ValueError, match="protects each patient with all rows"):
            release(model, frame[["a", "b", "c"]], TWO, epsilon=1.0)
    assert private_evaluation(model, frame, TWO, epsilon=1.0).n_units == 15
    chunks = Chunks(lambda: (frame[k : k + 7] for k in range(0, 30, 7)))
    assert private_evaluation(model, chunks, TWO, epsilon=1.0).n_units == 15
