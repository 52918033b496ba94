"""Weights of rows: their public bound, what is refused, what they mean, and that they show nothing."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from contract import LONG, PURE, SHORT, Untouchable, each, each_estimator, weights_of
from sklearn.linear_model import LogisticRegression

from dpsk import (
    DPAGDLogisticRegression,
    DPLogisticRegression,
    DPSGDClassifier,
    DPTabularClassifier,
    PrivacyLedger,
)
from dpsk.testing import check_twins

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")
rng = np.random.default_rng(0)
N = 400
X = rng.uniform(size=(N, 3))
Y = (X[:, 0] + 0.3 * rng.normal(size=N) > 0.6).astype(int)
S = rng.gamma(2.0, size=N)
CLEAR = {"epsilon": 50.0}  # by default, noise often leaves DPSecondOrderClassifier at weights of 0: it says so
WITHOUT_BOUND = (
    "sample_weight is given without weight_bound, so weights above 1.0 count as 1.0. Give weight_bound, a public "
    "number that is not taken from the data: all weights are cut off there and divided by it. (Ids of persons are "
    "given as groups=...)"
)


def fitted(Estimator, weights, *, data=(X, Y), **options):
    return Estimator(**{"random_state": 0, **SHORT.get(Estimator, {}), **options}).fit(*data, sample_weight=weights)


def require_same(model, other):
    np.testing.assert_array_equal(weights_of(other), weights_of(model))


# --------------------------------------------------------------------------------------------------------- the bound


@each_estimator
def test_a_missing_bound_is_warned_about_once_and_whatever_the_rows(Estimator):
    for weights in (S, S / S.max(), np.ones(N), np.zeros(N), -S, 1e300 * S):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(Estimator, weights, random_state=None)
        # others follow from what was released: that all was noise
        told = [warning for warning in caught if "sample_weight" in str(warning.message)]
        assert [str(warning.message) for warning in told] == [WITHOUT_BOUND]
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "sample_weight")
        warnings.filterwarnings("ignore", "weights of 0 are within the tolerances")
        fitted(Estimator, S, random_state=None, weight_bound=2.0)
        fitted(Estimator, None, random_state=None)
    with pytest.warns(UserWarning, match="without weight_bound"):
        without = fitted(Estimator, S)
    require_same(without, fitted(Estimator, S, weight_bound=1.0))


def test_a_warning_that_is_an_error_costs_nothing(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="without weight_bound"):
            DPLogisticRegression(ledger=ledger).fit(X, Y, sample_weight=S)
    assert ledger.history() == []


@each_estimator
@pytest.mark.parametrize("bound", [0, -1.0, math.nan, math.inf, "1", True, [1.0]])
def test_bad_bounds_are_refused_before_the_data_are_touched(Estimator, bound):
    with pytest.raises((ValueError, TypeError), match=r"weight_bound=.* must be a finite number > 0"):
        Estimator(weight_bound=bound).fit(Untouchable(), Untouchable(), sample_weight=Untouchable())


@each_estimator
def test_weights_beyond_the_bound_count_as_the_bound_and_negative_ones_as_0(Estimator):
    cut = fitted(Estimator, np.minimum(S, 1.5), weight_bound=1.5, **CLEAR)
    require_same(cut, fitted(Estimator, np.where(S > 1.5, 1e308, S), weight_bound=1.5, **CLEAR))
    some = np.where(np.arange(N) % 3 == 0, -1.0, S)
    positive, all_of_them = (fitted(Estimator, s, weight_bound=2.0, **CLEAR) for s in (np.maximum(some, 0), some))
    require_same(positive, all_of_them)
    assert not np.array_equal(weights_of(cut), weights_of(fitted(Estimator, S, weight_bound=3.0, **CLEAR)))


@each_estimator
def test_a_factor_of_weights_and_bound_is_one_of_the_losses(Estimator):
    """mean(s l) + alpha/2 ||w||^2 grows by it as a whole if alpha does: the minimum, and all bits, are the same."""
    alpha = 2.0**-6
    model = fitted(Estimator, S, weight_bound=2.0, alpha=alpha)
    for factor in (0.25, 8.0):
        require_same(model, fitted(Estimator, factor * S, weight_bound=factor * 2.0, alpha=factor * alpha))
    if Estimator not in PURE:  # whose guarantee rests on a penalty
        free, scaled = (fitted(Estimator, f * S, weight_bound=f * 2.0, alpha=0.0) for f in (1.0, 8.0))
        require_same(free, scaled)


@each_estimator
def test_one_number_is_the_weight_of_every_row(Estimator):
    model = fitted(Estimator, 0.5, weight_bound=2.0, **CLEAR)
    assert weights_of(model).any()
    require_same(model, fitted(Estimator, np.full(N, 0.5), weight_bound=2.0, **CLEAR))
    require_same(model, fitted(Estimator, np.float32(0.5), weight_bound=2.0, **CLEAR))


def test_weights_are_read_by_value():
    whole = np.round(S)
    model = fitted(DPLogisticRegression, whole, weight_bound=4.0)
    kinds = [
        whole.astype(np.int8),
        whole.tolist(),
        whole.astype(np.float16),
        pd.Series(whole),
        np.repeat(whole, 2)[::2],
    ]
    for weights in (*kinds, pd.Series(whole.astype(int), dtype="Int64"), pd.Series(whole, index=range(N, 0, -1))):
        before = list(weights)
        require_same(model, fitted(DPLogisticRegression, weights, weight_bound=4.0))
        assert list(weights) == before


@each_estimator
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (S[:-1], "sample_weight has 399 entries, but X has 400 rows: give one per row"),
        (np.append(S, 1.0), "sample_weight has 401 entries"),
        (np.where(np.arange(N) == 7, np.nan, S), "sample_weight contains NaN or infinity.*drop such rows"),
        (np.where(np.arange(N) == 7, np.inf, S), "sample_weight contains NaN or infinity"),
        (math.nan, "sample_weight contains NaN or infinity"),
        (pd.Series([*S[1:], None]), "sample_weight contains NaN or infinity"),
        (np.stack([S, S], axis=1), "sample_weight"),
        (S.astype(str), "sample_weight is of type .*, but numbers are needed: turn it into floats"),
        ("balanced", "sample_weight"),
    ],
)
def test_weights_that_cannot_be_are_refused_and_nothing_is_spent(Estimator, weights, message, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    model = Estimator(weight_bound=2.0, ledger=ledger)
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        model.fit(X, Y, sample_weight=weights)
    assert ledger.history() == []
    assert not hasattr(model, "classes_")
    assert f"{S[7]:.4f}"[:6] not in str(refused.value)


# ------------------------------------------------------------------------------------------------------ what it means


def test_the_exact_model_is_that_of_scikit_learn():
    alpha = 1e-2
    best = LogisticRegression(C=1 / (alpha * N), tol=1e-10, max_iter=10_000)
    for bound, weights in ((None, S), (1.5, np.minimum(S, 1.5))):
        model = DPLogisticRegression(epsilon=math.inf, alpha=alpha, weight_bound=bound).fit(X, Y, sample_weight=S)
        np.testing.assert_allclose(model.coef_, best.fit(X, Y, sample_weight=weights).coef_, rtol=1e-4)
    both = DPLogisticRegression(epsilon=math.inf, alpha=alpha, class_weight="balanced").fit(X, Y, sample_weight=S)
    of_classes = S.sum() / (2 * np.bincount(Y, S))
    np.testing.assert_allclose(both.class_weight_, of_classes)
    np.testing.assert_allclose(both.coef_, best.fit(X, Y, sample_weight=S * of_classes[Y]).coef_, rtol=1e-4)


def test_a_row_twice_is_a_weight_of_2_but_for_the_number_of_rows():
    """The reason for the exception among the checks of scikit-learn: n is public, and alpha refers to the mean over n.

    With the same n in both they are the same model. A removed row and one of weight 0 are so as well.
    """
    counts = np.random.default_rng(1).integers(0, 4, N)
    repeated = X.repeat(counts, axis=0), Y.repeat(counts)
    alpha = 1e-2
    weighted = DPLogisticRegression(epsilon=math.inf, alpha=alpha).fit(X, Y, sample_weight=counts)
    as_it_is = DPLogisticRegression(epsilon=math.inf, alpha=alpha).fit(*repeated)
    same_n = DPLogisticRegression(epsilon=math.inf, alpha=alpha * N / counts.sum()).fit(*repeated)
    np.testing.assert_allclose(weighted.coef_, same_n.coef_, rtol=1e-5)
    assert np.abs(weighted.coef_ - as_it_is.coef_).max() > 0.05 * np.abs(as_it_is.coef_).max()


ALPHA = 3e-3


@pytest.mark.thorough
@pytest.mark.slow
@each(LONG)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_alpha_means_what_it_does_without_weights(Estimator, class_weight):
    """At a large epsilon: mean(s l) + alpha/2 ||w||^2, where s is cut at 5. An alpha that grew by 5 would miss it."""
    n, bound = 20_000, 5.0
    data = rng.uniform(size=(n, 3))
    labels = (3 * data[:, 0] - 2 * data[:, 1] + rng.logistic(size=n) > 1.5).astype(int)
    weights = np.exp(2 * data[:, 2]) * rng.uniform(size=n)
    cut = np.minimum(weights, bound)
    options = {"epsilon": 1e4, "alpha": ALPHA, "class_weight": class_weight, "weight_bound": bound, **LONG[Estimator]}
    model = fitted(Estimator, weights, data=(data, labels), **options)
    if class_weight is not None:
        cut = cut * (cut.sum() / (2 * np.bincount(labels, cut)))[labels]

    def objective(coef, intercept):
        margins = (2 * labels - 1) * (data @ np.ravel(coef) + np.ravel(intercept))
        return (cut * np.logaddexp(0, -margins)).mean() + ALPHA / 2 * np.square(coef).sum()

    def best(alpha):
        return LogisticRegression(C=1 / (alpha * n), tol=1e-8).fit(data, labels, sample_weight=cut)

    right, wrong = best(ALPHA), best(bound * ALPHA)
    reached, least, missed = (objective(m.coef_, m.intercept_) for m in (model, right, wrong))
    assert reached - least < 0.25 * (missed - least)
    np.testing.assert_allclose(model.coef_, right.coef_, atol=0.05 * np.abs(right.coef_).max())


@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPAGDLogisticRegression, DPTabularClassifier])
def test_rows_of_weight_0_are_not_seen(Estimator):
    """Half of the rows have the other label: a fit that saw them would learn nothing."""
    data = np.random.default_rng(2).uniform(size=(6_000, 3))
    truth, wrong = (data[:, 0] > 0.5).astype(int), np.arange(6_000) % 2
    model = fitted(Estimator, 1.0 - wrong, data=(data, truth ^ wrong), epsilon=3.0, weight_bound=1.0)
    assert model.score(data, truth) > 0.85


# --------------------------------------------------------------------------------------------------- what it may show


@each_estimator
def test_rows_without_any_weight_are_fitted_like_others(Estimator):
    """scikit-learn asks for an error. It would tell that the row whose weight makes the difference has none."""
    one = np.zeros(N)
    one[17] = 2.0
    shown = []
    for weights in (np.zeros(N), one):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fitted(Estimator, weights, weight_bound=2.0, epsilon=2.0)
        texts = [text for text in map(str, (warning.message for warning in caught)) if "tolerances" not in text]
        shown.append((texts, {k: type(v) for k, v in vars(model).items()}))  # where a run ends, releases tell
        assert np.isfinite(weights_of(model)).all()
    assert shown[0] == shown[1]


@pytest.mark.parametrize("weight", [5e-324, 1e-310])
def test_a_weight_that_underflows_is_no_error(weight):
    """NumPy may be told to raise where a number becomes too small: that would tell of one row."""
    weights = np.append(S[1:], weight)
    with np.errstate(all="raise"):
        fitted(DPLogisticRegression, weights, weight_bound=5.0)
        fitted(DPLogisticRegression, weights, weight_bound=5.0, class_weight="balanced")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "Estimator", [DPLogisticRegression, DPAGDLogisticRegression, DPSGDClassifier, DPTabularClassifier]
)
@pytest.mark.parametrize("bound", [None, 2.0])
@pytest.mark.filterwarnings("ignore:sample_weight is given without:UserWarning")
def test_weights_show_nothing_of_one_row(Estimator, bound):
    """The last column holds the weights: rows with huge, tiny, negative and no weight are among the extreme ones."""
    table = np.random.default_rng(0).uniform(size=(40, 4)).round(3)
    labels = (table[:, 0] > 0.5).astype(int)

    def fit(rows, y):
        ledger = PrivacyLedger("budget.db", epsilon=20.0, delta=1e-2)
        options = {"epsilon": 0.5, "delta": 1e-3, "ledger": ledger, "verbose": 2, "class_weight": "balanced"}
        model = Estimator(weight_bound=bound, **options, **SHORT.get(Estimator, {}))
        model.fit(rows[:, :3], y, sample_weight=rows[:, 3])
        return {name: value for name, value in vars(model).items() if name != "ledger"}

    check_twins(fit, table, labels)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_statement_says_what_weights_rest_on():
    def fitted_to(**given):
        return DPLogisticRegression(weight_bound=1.0).fit(X, Y, **given).privacy_spent_

    rows = fitted_to(sample_weight=np.ones(N))
    assert "Rows had weights. The guarantee holds if each weight depends on that row alone." in rows.statement()
    assert rows.weighted
    assert rows.to_dict()["weighted"]
    persons = fitted_to(sample_weight=np.ones(N), groups=np.arange(N) // 2)
    assert "if each weight depends on the person's own rows alone." in persons.statement()
    assert "weight" not in fitted_to().statement()
