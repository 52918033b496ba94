"""What the benchmark of evaluations takes for true: exact numbers on rows, and those of a simulated population."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)

from benchmarks.simulated import APART, Truth, TruthOfSeveral, drawn, population


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("scores", ["calibrated", "ties", "foreign"])
def test_exact_numbers_are_those_of_scikit_learn(scores, persons):
    rows = drawn(scores, 700, 0.2, persons, np.random.default_rng(0))
    truth, weight = Truth(rows), {"sample_weight": rows.weight}
    p = 1 / (1 + np.exp(-np.clip(rows.score, -8, 8)))
    assert truth.total == pytest.approx(700)
    assert truth.auc == pytest.approx(roc_auc_score(rows.true, rows.score, **weight))
    assert truth.average_precision == pytest.approx(average_precision_score(rows.true, rows.score, **weight))
    assert truth.log_loss == pytest.approx(log_loss(rows.true, p, **weight))
    assert truth.brier == pytest.approx(brier_score_loss(rows.true, 1 / (1 + np.exp(-rows.score)), **weight))
    for edge, guess in ((None, rows.predicted), (-0.5, rows.score >= -0.5)):
        found = truth.at(edge)
        for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
            assert found[name] == pytest.approx(score(rows.true, guess, **weight))
        np.testing.assert_allclose(truth.matrix(edge), confusion_matrix(rows.true, guess, **weight))


def test_errors_of_calibration_are_those_of_bins_one_by_one():
    rows, edges = drawn("overconfident", 500, 0.3, True, np.random.default_rng(0)), np.array([-2.0, 0.1, 3.0])
    truth, total, observed = Truth(rows), 0.0, []
    for low, high in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
        there = (rows.score >= low) & (rows.score < high)
        weight = rows.weight[there]
        total += abs(float(weight @ (rows.true[there] - 1 / (1 + np.exp(-rows.score[there])))))
        observed.append(float(weight @ rows.true[there] / weight.sum()))
    assert truth.ece(edges) == pytest.approx(total / 500)
    np.testing.assert_allclose(truth.observed(edges), observed)


def test_numbers_of_several_classes_are_those_of_scikit_learn():
    rows = drawn("calibrated of 4", 600, 0.2, False, np.random.default_rng(0))
    truth = TruthOfSeveral(rows, 4)
    np.testing.assert_allclose(truth.matrix, confusion_matrix(rows.true, rows.predicted))
    assert truth.accuracy == pytest.approx((rows.true == rows.predicted).mean())
    for name, k, value in truth.rates():
        score = {"recall": recall_score, "precision": precision_score, "f1": f1_score}[name]
        assert value == pytest.approx(score(rows.true, rows.predicted, labels=[k], average=None)[0])


@pytest.mark.slow
def test_the_population_has_the_area_that_is_known_in_closed_form():
    """Three million rows: the standard error of the area is below .0003."""
    whole = population("calibrated", 0.05, False)
    assert whole.auc == pytest.approx(norm.cdf(np.sqrt(APART / 2)), abs=1.5e-3)
    assert whole.size[1] / whole.total == pytest.approx(0.05, abs=1e-3)
    assert whole.ece(np.linspace(-5, 2, 12)) < 2e-3
