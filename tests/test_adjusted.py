"""Thresholds and probabilities that were set in private, on rows that the model had not seen."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from dpsk import (
    Chunks,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    NotPrivateWarning,
    PrivacyLedger,
    PrivateCalibration,
    PrivateThreshold,
    private_evaluation,
    private_score,
)
from dpsk.model_selection.judging import judges_rows_alone

N = 6000


def rows(seed=0, base=0.1):
    """Return rows of which a tenth is of the positive class, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.random(N) < base
    X = rng.normal(size=(N, 3))
    X[:, 0] += 1.5 * y
    return X, y.astype(int)


X, y = rows()
MODEL = DPLogisticRegression(epsilon=4.0, bounds=(-4, 6), random_state=0).fit(X, y)
HELD_X, HELD_Y = rows(1)
FRESH_X, FRESH_Y = rows(2)


def cost(predicted, y, false_negative):
    return ((predicted == 1) & (y == 0)).mean() + false_negative * ((predicted == 0) & (y == 1)).mean()


@pytest.mark.parametrize("false_negative", [1.0, 5.0, 20.0])
def test_the_threshold_costs_little_more_than_the_best(false_negative):
    adjusted = PrivateThreshold(MODEL, epsilon=1.0, false_negative=false_negative, random_state=0)
    adjusted.fit(HELD_X, HELD_Y)
    probability = MODEL.predict_proba(FRESH_X)[:, 1]
    best = min(cost(probability >= t, FRESH_Y, false_negative) for t in np.linspace(0, 1, 101))
    found = cost(adjusted.predict(FRESH_X), FRESH_Y, false_negative)
    assert found <= 1.1 * best
    if false_negative > 1:
        assert found < 0.8 * cost(MODEL.predict(FRESH_X), FRESH_Y, false_negative)
    low, high = adjusted.cost_.interval
    assert low <= found <= high


def test_rows_at_the_threshold_and_above_are_of_the_second_class():
    adjusted = PrivateThreshold(MODEL, epsilon=1.0, false_negative=5.0, random_state=0).fit(HELD_X, HELD_Y)
    assert 0 < adjusted.threshold_ < 0.5
    expected = (MODEL.predict_proba(X)[:, 1] >= adjusted.threshold_).astype(int)
    np.testing.assert_array_equal(adjusted.predict(X), expected)


@pytest.mark.parametrize(("costs", "dear"), [({"false_positive": 1e3}, 1), ({"false_negative": 1e3}, 0)])
def test_a_mistake_that_costs_far_more_is_not_made(costs, dear):
    adjusted = PrivateThreshold(MODEL, epsilon=100.0, random_state=0, **costs).fit(HELD_X, HELD_Y)
    assert not ((adjusted.predict(HELD_X) == dear) & (dear != HELD_Y)).any()


def test_a_useless_model_of_a_rare_class_is_cut_where_nothing_is_found():
    useless = LinearSVC().fit(X[:, 1:], y)
    adjusted = PrivateThreshold(useless, epsilon=2.0, random_state=0).fit(HELD_X[:, 1:], HELD_Y)
    assert adjusted.predict(FRESH_X[:, 1:]).mean() < 0.01


def test_scores_that_are_no_probabilities_are_cut_as_they_are():
    model = LinearSVC().fit(X, y)
    adjusted = PrivateThreshold(model, epsilon=4.0, false_negative=5.0, random_state=0).fit(HELD_X, HELD_Y)
    np.testing.assert_array_equal(adjusted.predict(X), model.decision_function(X) >= adjusted.threshold_)
    assert cost(adjusted.predict(FRESH_X), FRESH_Y, 5.0) < 0.8 * cost(model.predict(FRESH_X), FRESH_Y, 5.0)


def test_it_costs_epsilon_of_the_ledger_of_the_held_out_rows(tmp_path):
    ledger = PrivacyLedger(tmp_path / "held.db", epsilon=1.0, delta=0)
    adjusted = PrivateThreshold(MODEL, epsilon=0.75, ledger=ledger).fit(HELD_X, HELD_Y)
    assert (adjusted.privacy_spent_.epsilon, adjusted.privacy_spent_.delta) == (0.75, 0)
    assert adjusted.privacy_spent_.private
    assert ledger.remaining()["epsilon"] == 0.25
    assert [spend.label for spend in ledger.history()] == ["PrivateThreshold"]
    with pytest.raises(ValueError, match="is left"):
        clone(PrivateThreshold(FrozenEstimator(MODEL), epsilon=0.75, ledger=ledger)).fit(HELD_X, HELD_Y)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: PrivateThreshold(DPLogisticRegression()), NotFittedError, "not fitted"),
        (lambda: clone(PrivateThreshold(MODEL)), NotFittedError, "not fitted"),
        (lambda: PrivateThreshold(LogisticRegression().fit(X, y + (X[:, 0] > 1))), ValueError, "two classes"),
        (lambda: PrivateThreshold(MODEL, false_positive=0), ValueError, "false_positive=0 must be"),
        (lambda: PrivateThreshold(MODEL, false_negative=np.nan), ValueError, "false_negative=nan must be"),
        (lambda: PrivateThreshold(MODEL, epsilon=0), ValueError, "epsilon=0 must be"),
    ],
)
def test_what_no_rows_could_mend_is_refused_before_it_is_paid(make, error, message, tmp_path):
    ledger = PrivacyLedger(tmp_path / "held.db", epsilon=1.0, delta=0)
    with pytest.raises(error, match=message):
        make().set_params(ledger=ledger).fit(HELD_X, HELD_Y)
    assert ledger.remaining()["epsilon"] == 1.0


def test_it_can_be_kept_copied_and_scored():
    adjusted = PrivateThreshold(FrozenEstimator(MODEL), epsilon=1.0, random_state=0).fit(HELD_X, HELD_Y)
    again = pickle.loads(pickle.dumps(adjusted))
    np.testing.assert_array_equal(again.predict(X), adjusted.predict(X))
    assert adjusted.n_features_in_ == 3
    json.dumps(adjusted.privacy_spent_.to_dict())
    same = clone(adjusted).fit(HELD_X, HELD_Y)
    assert same.threshold_ == adjusted.threshold_
    assert judges_rows_alone(adjusted)
    assert not judges_rows_alone(PrivateThreshold(LogisticRegression()))
    score = private_score(adjusted, FRESH_X, FRESH_Y, epsilon=1e3, random_state=0)
    assert score.accuracy == pytest.approx((adjusted.predict(FRESH_X) == FRESH_Y).mean(), abs=1e-3)


def test_large_data_are_predicted_block_by_block():
    adjusted = PrivateThreshold(MODEL, epsilon=1.0, random_state=0).fit(HELD_X, HELD_Y)
    chunks = Chunks(lambda: ((X[part], y[part]) for part in np.array_split(np.arange(N), 3)))
    np.testing.assert_array_equal(adjusted.predict(chunks), adjusted.predict(X))
    in_chunks = PrivateThreshold(MODEL, epsilon=1.0, random_state=0).fit(
        Chunks(lambda: ((HELD_X[part], None) for part in np.array_split(np.arange(N), 3))), HELD_Y
    )
    assert in_chunks.threshold_ == adjusted.threshold_


def test_persons_are_protected_where_ids_are_given():
    adjusted = PrivateThreshold(MODEL, epsilon=1.0, random_state=0).fit(HELD_X, HELD_Y, groups=np.arange(N) // 3)
    assert adjusted.privacy_spent_.unit == "person"


def test_it_is_the_best_threshold_of_an_evaluation():
    evaluation = private_evaluation(MODEL, HELD_X, HELD_Y, epsilon=1.0, accuracy_share=0.05, random_state=0)
    adjusted = PrivateThreshold(MODEL, epsilon=1.0, false_negative=5.0, random_state=0).fit(HELD_X, HELD_Y)
    best = evaluation.best_threshold(false_negative=5.0)
    assert (best.threshold, best.cost) == (adjusted.threshold_, adjusted.cost_)


def test_rows_that_say_nothing_are_predicted_as_they_were_counted():
    """A score of 0 is a probability of 1/2, and no prediction of the second class."""
    empty = np.arange(N) % 3 == 0
    held, labels = np.where(empty[:, None], 0.0, HELD_X - 1.0), np.where(empty, 0, HELD_X[:, 0] > 1)
    model = DPLogisticRegression(epsilon=8.0, fit_intercept=False, bounds=(-4, 4), random_state=0).fit(held, labels)
    adjusted = PrivateThreshold(model, epsilon=8.0, random_state=0).fit(held, labels)
    assert adjusted.threshold_ == pytest.approx(0.5)  # or this says nothing
    low, high = adjusted.cost_.interval_on_rows
    assert low <= (adjusted.predict(held) != labels).mean() <= high
    assert (adjusted.predict(held[empty]) == 0).all()


@pytest.mark.parametrize("Adjusted", [PrivateThreshold, PrivateCalibration])
def test_the_report_does_not_say_that_the_model_was_trained_in_private(Adjusted):
    adjusted = Adjusted(LogisticRegression().fit(X, y), epsilon=1.0).fit(HELD_X, HELD_Y)
    said = adjusted.privacy_spent_.statement()
    assert "trained" not in said
    assert said.startswith("A model was judged on held-out rows with pure 1-differential privacy (delta = 0)")
    assert "Nothing is promised about the rows that the model was fitted on" in said
    assert adjusted.privacy_spent_.to_dict()["held_out"]
    assert not MODEL.privacy_spent_.held_out
    for judged in (private_score(MODEL, X, y, epsilon=1.0), private_evaluation(MODEL, X, y, epsilon=1.0)):
        assert "trained" not in judged.privacy_spent.statement()


@pytest.mark.parametrize("steps", [None, 20])
def test_a_frozen_model_is_asked_as_the_model_itself(steps):
    """Its parameter ``steps`` makes it no pipeline."""
    model = DPGradientDescentClassifier(epsilon=4.0, steps=steps, bounds=(-4, 6), random_state=0).fit(X, y)
    plain, frozen = (
        PrivateThreshold(asked, epsilon=1.0, false_negative=5.0, random_state=0).fit(HELD_X, HELD_Y)
        for asked in (model, FrozenEstimator(model))
    )
    assert (plain.threshold_, plain.cost_) == (frozen.threshold_, frozen.cost_)


class Overconfident(DPGradientDescentClassifier):
    """A model whose log-odds are twice too large."""

    def decision_function(self, X):
        return 2 * super().decision_function(X)


OVERCONFIDENT = Overconfident(epsilon=4.0, bounds=(-4, 6), calibrate=False, random_state=0).fit(X, y)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_probabilities_are_set_right(epsilon):
    calibrated = PrivateCalibration(OVERCONFIDENT, epsilon=epsilon, random_state=0).fit(HELD_X, HELD_Y)
    before, after = (log_loss(FRESH_Y, model.predict_proba(FRESH_X)[:, 1]) for model in (OVERCONFIDENT, calibrated))
    right = log_loss(FRESH_Y, LogisticRegression().fit(X, y).predict_proba(FRESH_X)[:, 1])
    assert before > 1.1 * right
    assert after < (1.15 if epsilon < 1 else 1.05) * right


@pytest.mark.parametrize("model", [OVERCONFIDENT, LinearSVC().fit(X, y)], ids=["dpsk", "scores"])
def test_the_likeliest_class_is_predicted_and_scores_keep_their_order(model):
    calibrated = PrivateCalibration(model, epsilon=2.0, random_state=0).fit(HELD_X, HELD_Y)
    sure, score = calibrated.predict_proba(X), model.decision_function(X)
    np.testing.assert_array_equal(calibrated.predict(X), sure.argmax(axis=1))
    np.testing.assert_allclose(sure.sum(axis=1), 1)
    assert (np.diff(sure[np.argsort(score), 1]) >= 0).all()
    np.testing.assert_allclose(np.exp(calibrated.predict_log_proba(X)), sure, rtol=1e-9)


def test_scores_of_any_size_become_probabilities_no_worse_than_the_base_rate():
    model = LinearSVC().fit(X, y)
    for size in (1e-3, 1.0, 1e3):
        model.coef_, model.intercept_ = model.coef_ * size, model.intercept_ * size
        calibrated = PrivateCalibration(model, epsilon=2.0, random_state=0).fit(HELD_X, HELD_Y)
        constant = log_loss(FRESH_Y, np.full(N, FRESH_Y.mean()))
        assert log_loss(FRESH_Y, calibrated.predict_proba(FRESH_X)[:, 1]) < 0.8 * constant


def test_several_classes_have_one_power():
    three, held_three, fresh_three = (
        labels + (rows_[:, 1] > 0.5) for rows_, labels in ((X, y), (HELD_X, HELD_Y), (FRESH_X, FRESH_Y))
    )
    model = Overconfident(epsilon=4.0, bounds=(-4, 6), calibrate=False, random_state=0).fit(X, three)
    calibrated = PrivateCalibration(model, epsilon=2.0, random_state=0).fit(HELD_X, held_three)
    assert 0.35 < calibrated.calibration_.factor < 0.8
    assert log_loss(fresh_three, calibrated.predict_proba(FRESH_X)) < log_loss(
        fresh_three, model.predict_proba(FRESH_X)
    )
    np.testing.assert_array_equal(calibrated.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="needs a model with predict_proba"):
        PrivateCalibration(LinearSVC().fit(X, three)).fit(HELD_X, held_three)


def test_a_calibrated_model_can_be_evaluated_kept_and_paid_for(tmp_path):
    ledger = PrivacyLedger(tmp_path / "held.db", epsilon=1.0, delta=0)
    calibrated = PrivateCalibration(MODEL, epsilon=0.75, ledger=ledger).fit(HELD_X, HELD_Y)
    assert ledger.remaining()["epsilon"] == 0.25
    again = pickle.loads(pickle.dumps(calibrated))
    np.testing.assert_array_equal(again.predict_proba(X), calibrated.predict_proba(X))
    assert judges_rows_alone(calibrated)
    assert private_evaluation(calibrated, FRESH_X, FRESH_Y, epsilon=1.0).ece.value < 0.05
    assert (
        private_evaluation(PrivateThreshold(MODEL).fit(HELD_X, HELD_Y), FRESH_X, FRESH_Y, epsilon=1.0).auc.value > 0.7
    )


def test_a_seed_is_told_where_fit_was_called():
    with pytest.warns(NotPrivateWarning) as warned:
        PrivateThreshold(MODEL, random_state=0).fit(HELD_X, HELD_Y)
    assert warned[0].filename == __file__


def test_costs_are_given_by_name():
    with pytest.raises(TypeError, match="positional"):
        PrivateThreshold(MODEL, 0.1)


def test_what_was_not_adjusted_says_so():
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(PrivateThreshold(MODEL), method)(X)


def test_huge_scores_become_probabilities():
    model = LinearSVC().fit(X, y)
    model.coef_, model.intercept_ = model.coef_ * 1e7, model.intercept_ * 1e7
    calibrated = PrivateCalibration(model, epsilon=10.0, random_state=0).fit(HELD_X, HELD_Y)
    constant = log_loss(FRESH_Y, np.full(N, FRESH_Y.mean()))
    assert log_loss(FRESH_Y, calibrated.predict_proba(FRESH_X)[:, 1]) < 0.85 * constant
