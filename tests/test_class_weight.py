"""Weights of classes: what is taken, what is refused, and that the objective is the one that was asked for."""

import math
import pickle
import warnings

import numpy as np
import pytest
from contract import LONG, Untouchable, each, each_estimator
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.class_weight import compute_class_weight

from dpsk import (
    DPAGDLogisticRegression,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    PrivacyLedger,
)
from dpsk.data import ArrayTable, Door, RowMap
from dpsk.data.weights import ONE
from dpsk.encodings import Weighting, numeric
from dpsk.encodings.standardization import SCALE_POWER, WEIGHTED_POWER
from dpsk.encodings.weighting import SHARE
from dpsk.mechanisms.randomness import SeededBits
from dpsk.penalties import L2, Bounded, stable_step
from dpsk.privacy import Budget, GaussianDP
from dpsk.privacy.ledger import Ledger
from dpsk.solvers.second_order import SecondOrder
from dpsk.testing import check_twins

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")

SEVERAL = [
    DPLogisticRegression,
    DPAGDLogisticRegression,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
]


def rare(n=4_000, part=0.06, seed=0, d=4):
    """Return columns in [0, 1] and labels, of which about this part is 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    score = 4 * X[:, 0] - 3 * X[:, 1] + rng.logistic(size=n)
    return X, (score > np.quantile(score, 1 - part)).astype(int)


X, Y = rare(400, 0.3)


# ----------------------------------------------------------------------------------------------------- what is taken


@each_estimator
@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("auto", r"class_weight='auto' must be None, \"balanced\", or a dict"),
        (2.0, r"class_weight=2\.0 must be None, \"balanced\", or a dict"),
        ([1.0, 2.0], r"class_weight=\[1\.0, 2\.0\] must be None"),
        ({1: -1}, r"class_weight\[1\]=-1 must be a finite number >= 0"),
        ({1: math.nan}, r"class_weight\[1\]=nan must be a finite number >= 0"),
        ({1: math.inf}, r"class_weight\[1\]=inf must be a finite number >= 0"),
        ({1: True}, r"class_weight\[1\]=True must be a finite number >= 0"),
        ({1: np.True_}, r"class_weight\[1\]=.*True.* must be a finite number >= 0"),
        ({1: "2"}, r"class_weight\[1\]='2' must be a finite number >= 0"),
        ({1: None}, r"class_weight\[1\]=None must be a finite number >= 0"),
        ({1: 5e-324}, r"class_weight\[1\]=5e-324 must lie between"),
    ],
)
def test_bad_weights_are_refused_before_the_data_are_touched(Estimator, class_weight, message):
    with pytest.raises(ValueError, match=message):
        Estimator(class_weight=class_weight).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPSGDClassifier, ObjectivePerturbationClassifier])
@pytest.mark.parametrize(
    ("labels", "class_weight", "message"),
    [
        (Y, {2: 3.0}, "weights for 2, but the classes are 0, 1"),
        (Y, {"1": 3.0}, "weights for '1', but the classes are 0, 1"),
        (np.array(["no", "yes"])[Y], {"Yes": 3.0, "no": 1.0}, "weights for 'Yes', but the classes are 'no', 'yes'"),
        (np.array(["no", "yes"])[Y], {1: 3.0}, "weights for 1, but the classes are 'no', 'yes'"),
        (Y, {"1": 3.0}, "Write labels as they are in y, with the same type"),
        (Y, {0: 0, 1: 0.0}, r"class_weight=\{0: 0, 1: 0\.0\} leaves no class any weight: give one of them"),
        (np.arange(400) % 7, dict.fromkeys(range(9), 1.0), "weights for 7, 8, but the classes are 0, 1, .* and 2 more"),
    ],
)
def test_labels_that_cannot_occur_are_refused_before_anything_is_spent(
    Estimator, labels, class_weight, message, tmp_path
):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    with pytest.raises(ValueError, match=message):
        Estimator(class_weight=class_weight, ledger=ledger).fit(X, labels)
    assert ledger.history() == []


def test_classes_that_are_given_may_have_weights_even_if_none_occurs():
    model = DPLogisticRegression(class_weight={2: 3.0}, classes=[0, 1, 2], random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.class_weight_, [1.0, 1.0, 3.0])


def test_only_a_label_that_is_left_out_may_have_any_weight():
    words = np.array(["no", "yes"])[Y]
    for weights in ({"yes": 0}, {"yes": 0.0, "no": 1}):
        model = DPLogisticRegression(class_weight=weights, random_state=0).fit(X, words)
        np.testing.assert_array_equal(model.class_weight_, [1.0, 0.0])


@each(SEVERAL)
def test_labels_that_are_left_out_have_one(Estimator):
    words = np.array(["no", "yes"])[Y]
    left_out, full = (
        Estimator(class_weight=weights, random_state=0).fit(X, words)
        for weights in ({"yes": 5.0}, {"yes": np.float32(5), "no": 1})
    )
    np.testing.assert_array_equal(left_out.class_weight_, [1.0, 5.0])
    np.testing.assert_array_equal(left_out.coef_, full.coef_)


@each(SEVERAL)
def test_an_empty_dict_and_equal_weights_are_fits_with_every_row_alike(Estimator):
    """They pay for the count, too: whether one is needed must not depend on the values."""
    empty, ones = (Estimator(class_weight=weights, random_state=0).fit(X, Y) for weights in ({}, {0: 1.0, 1: 1.0}))
    np.testing.assert_array_equal(empty.coef_, ones.coef_)
    assert [release.label for release in empty.privacy_spent_.releases].count("class counts") == 1


def test_keys_of_numbers_are_labels_by_value():
    for labels, weights in ((Y.astype(float), {1: 5.0}), (Y.astype(bool), {True: 5.0}), (Y, {np.int64(1): 5.0})):
        model = DPLogisticRegression(class_weight=weights, random_state=0).fit(X, labels)
        np.testing.assert_array_equal(model.class_weight_, [1.0, 5.0])


@each(SEVERAL)
def test_the_attribute_is_there_only_where_weights_were_given(Estimator):
    model = Estimator(class_weight="balanced", random_state=0).fit(X, Y)
    assert model.class_weight_.shape == (2,)
    assert "class_weight_" in Estimator.__doc__
    assert not hasattr(model.set_params(class_weight=None).fit(X, Y), "class_weight_")
    copy = pickle.loads(pickle.dumps(model.set_params(class_weight={1: 2.0}).fit(X, Y)))
    np.testing.assert_array_equal(copy.class_weight_, [1.0, 2.0])


def test_a_count_is_paid_for_and_is_a_small_part_of_the_budget():
    report = DPLogisticRegression(class_weight="balanced", random_state=0).fit(X, Y).privacy_spent_
    (count,) = [release for release in report.releases if release.label == "class counts"]
    assert count.cost == pytest.approx(SHARE * report.limit)
    assert report.charged <= report.limit
    assert (report.epsilon, report.delta) == (1.0, 1e-6)


def test_planned_steps_have_no_room_for_a_count(tmp_path):
    pytest.importorskip("dp_accounting")
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    model = DPSGDClassifier(accountant="pld", steps=5, class_weight="balanced", ledger=ledger)
    with pytest.raises(ValueError, match=r"class_weight and sample_weight need a count.*accountant='rdp'"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"class_weight and sample_weight need a count.*accountant='rdp'"):
        model.set_params(class_weight=None, weight_bound=1.0).fit(X, Y, sample_weight=np.ones(400))
    assert ledger.history() == []
    assert model.set_params(ledger=None).fit(X, Y, groups=np.arange(400) // 2).privacy_spent_.unit == "person"


# -------------------------------------------------------------------------------------------------- the exact model


@pytest.mark.parametrize("Estimator", [DPLogisticRegression, ObjectivePerturbationClassifier])
@pytest.mark.parametrize("class_weight", [{1: 10.0}, {0: 0.2, 1: 0.5}, "balanced"], ids=str)
def test_the_exact_model_is_that_of_scikit_learn(Estimator, class_weight):
    alpha = 1e-2
    model = Estimator(epsilon=math.inf, alpha=alpha, class_weight=class_weight).fit(X, Y)
    best = LogisticRegression(C=1 / (alpha * len(Y)), class_weight=class_weight, tol=1e-10, max_iter=10_000).fit(X, Y)
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-4)
    np.testing.assert_allclose(model.intercept_, best.intercept_, rtol=1e-4)
    expected = compute_class_weight(class_weight, classes=np.array([0, 1]), y=Y)
    np.testing.assert_allclose(model.class_weight_, expected)


@pytest.mark.parametrize("class_weight", [{"b": 10.0, "c": 0.1}, "balanced"], ids=str)
def test_the_exact_model_of_several_classes_is_that_of_scikit_learn(class_weight):
    labels = np.array(["a", "b", "c"])[(X[:, 0] + X[:, 1] > 1.3).astype(int) + (X[:, 2] > 0.8)]
    model = DPLogisticRegression(epsilon=math.inf, alpha=1e-2, class_weight=class_weight).fit(X, labels)
    best = LogisticRegression(C=1 / 4, class_weight=class_weight, tol=1e-10, max_iter=10_000).fit(X, labels)
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-3, atol=1e-5)


# --------------------------------------------------------------------------------------- what alpha means, with noise


def weighed_objective(coef, intercept, X, y, alpha, weights):
    margins = (2 * y - 1) * (X @ np.ravel(coef) + np.ravel(intercept))
    return (weights * np.logaddexp(0, -margins)).mean() + alpha / 2 * np.square(coef).sum()


ALPHA = 3e-3


@pytest.mark.thorough
@pytest.mark.slow
@each(LONG)
@pytest.mark.parametrize("class_weight", [None, {1: 10.0}, {0: 0.01, 1: 0.1}, "balanced"], ids=str)
def test_alpha_means_what_it_does_without_weights(Estimator, class_weight):
    """mean(c l) + alpha/2 ||w||^2: with max c = 10, an alpha that grew by it would miss this by far."""
    data, labels = rare(20_000, 0.06)
    model = Estimator(epsilon=1e4, alpha=ALPHA, class_weight=class_weight, random_state=0).set_params(**LONG[Estimator])
    model.fit(data, labels)
    best = LogisticRegression(C=1 / (ALPHA * len(labels)), class_weight=class_weight, tol=1e-8).fit(data, labels)
    of_rows = compute_class_weight(class_weight, classes=np.array([0, 1]), y=labels)[labels]
    # a calibration moves the intercept to even odds, away from the minimum: the weights are judged with the best one
    reached = minimize_scalar(lambda b: weighed_objective(model.coef_, b, data, labels, ALPHA, of_rows)).fun
    least, start = (
        weighed_objective(*weights, data, labels, ALPHA, of_rows)
        for weights in ((best.coef_, best.intercept_), (np.zeros(4), 0.0))
    )
    assert reached - least < 0.01 * (start - least)
    assert np.linalg.norm(model.coef_) == pytest.approx(np.linalg.norm(best.coef_), rel=0.1)
    if class_weight is not None and of_rows.max() != 1:
        grown = LogisticRegression(C=1 / (ALPHA * of_rows.max() * len(labels)), class_weight=class_weight, tol=1e-8)
        grown.fit(data, labels)
        missed = weighed_objective(grown.coef_, grown.intercept_, data, labels, ALPHA, of_rows)
        assert missed - least > 0.02 * (start - least), "this test would not notice an alpha that grew by max c"


@pytest.mark.parametrize("Estimator", [OutputPerturbationLogisticRegression, OutputPerturbationSVC])
def test_a_class_of_weight_3_is_one_whose_rows_stand_there_thrice_to_output_perturbation(Estimator):
    """But for n, to which alpha refers: it flattens losses, so it is compared with itself."""
    data, labels = rare(20_000, 0.06)
    options = {"epsilon": 1e7, "bounds": (0, 1), "random_state": 0}
    weighted = Estimator(alpha=ALPHA, class_weight={1: 3.0}, **options).fit(data, labels)
    times = np.where(labels == 1, 3, 1)
    repeated = Estimator(alpha=ALPHA * len(labels) / times.sum(), **options).fit(
        data.repeat(times, axis=0), labels.repeat(times)
    )
    plain = Estimator(alpha=ALPHA, **options).fit(data, labels)
    size = np.abs(repeated.coef_).max()
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=0.01 * size)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=0.01 * size)
    assert np.abs(plain.coef_ - repeated.coef_).max() > 0.1 * size


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_weigh_alike_weigh_their_number_whatever_the_noise(seed):
    """Counts of the classes add up to the number of rows, which is public, so that noise has no part in their sum."""
    door = Door(Ledger(Budget(math.inf, 1e-6, GaussianDP(), 1.0)), SeededBits(seed), "zero-out")
    weighed = Weighting(class_weight={0: 3.0, 1: 3.0}).learned(door, ArrayTable(X, Y), RowMap())
    assert weighed.weight == pytest.approx(len(Y), rel=1e-12)


def test_all_rows_weigh_no_more_than_their_number_where_noise_is_all_there_is():
    door = Door(Ledger(Budget(math.inf, 1e-6, GaussianDP(), 1e-6)), SeededBits(0), "zero-out")
    assert Weighting(class_weight={0: 1.0, 1: 1.0}).learned(door, ArrayTable(X, Y), RowMap()).weight == len(Y)


def test_factors_of_all_weights_and_alpha_cancel():
    """The objective is then multiplied as a whole, so its minimum is the same one."""
    models = [
        DPLogisticRegression(class_weight={0: 2.0**k, 1: 2.0 ** (k + 3)}, alpha=2.0 ** (k - 8), random_state=0)
        for k in (-3, 0, 5)
    ]
    for model in models:
        model.fit(X, Y)
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


@each([DPLogisticRegression, DPAGDLogisticRegression, DPSGDClassifier])
def test_small_weights_make_the_penalty_heavy_and_not_the_steps_unstable(Estimator):
    """The sum of losses is 1000 times smaller than usual, so that alpha weighs 1000 times more beside it."""
    model = Estimator(class_weight={0: 1e-3, 1: 1e-3}, alpha=0.1, epsilon=30.0, random_state=0).fit(*rare(3_000))
    assert np.abs(model.coef_).max() < 0.1


@pytest.mark.parametrize("step", [1e-3, 2.0, 1e6])
@pytest.mark.parametrize("penalty", [L2(0.0), L2(1e-4), L2(2.0, free_intercept=True), Bounded(3.0)])
def test_a_stable_step_along_a_penalty_grows_no_weight(step, penalty):
    shorter = stable_step(step, penalty)
    assert shorter == step or step * penalty.smoothness > 2
    w = np.array([0.1, -3.0, 1e3])
    assert (np.abs(w - shorter * penalty.gradient(w)) <= np.abs(w)).all()


def test_a_penalty_is_divided():
    w = np.array([0.3, -2.0, 5.0])
    for penalty in (L2(0.6), L2(0.6, free_intercept=True), Bounded(0.6)):
        third = penalty.divided(3)
        assert type(third) is type(penalty)
        assert third.value(w) == pytest.approx(penalty.value(w) / 3)
        np.testing.assert_allclose(third.gradient(w), penalty.gradient(w) / 3)
        np.testing.assert_allclose(third.curvature(w), penalty.curvature(w) / 3)
        for name in ("smoothness", "concavity", "jerk"):
            assert getattr(third, name) == pytest.approx(getattr(penalty, name) / 3)


# ------------------------------------------------------------------------------------------------------ what it does


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_rare_classes_are_found_as_by_the_balanced_model_without_noise(epsilon):
    data, labels = rare(30_000, 0.06)
    test, truth = rare(30_000, 0.06, seed=1)
    data, test = (MinMaxScaler().fit(data).transform(each) for each in (data, test))
    best = LogisticRegression(class_weight="balanced").fit(data, labels).predict(test)
    plain = DPLogisticRegression(epsilon=epsilon, random_state=0).fit(data, labels).predict(test)
    assert recall_score(truth, plain) < recall_score(truth, best) - 0.3, "these classes are not rare enough"
    for seed in range(3):
        model = DPLogisticRegression(epsilon=epsilon, class_weight="balanced", random_state=seed).fit(data, labels)
        found = model.predict(test)
        assert abs(recall_score(truth, found) - recall_score(truth, best)) < 0.04
        assert balanced_accuracy_score(truth, found) > balanced_accuracy_score(truth, best) - 0.015
        np.testing.assert_allclose(model.class_weight_, [1 / 1.88, 1 / 0.12], rtol=0.1)


def test_balanced_weights_of_several_classes_are_near_those_of_the_rows():
    data, _ = rare(20_000)
    labels = np.array(["a", "b", "c"])[np.digitize(data[:, 0], [0.7, 0.95])]
    model = DPLogisticRegression(epsilon=2.0, class_weight="balanced", random_state=0).fit(data, labels)
    expected = compute_class_weight("balanced", classes=model.classes_, y=labels)
    np.testing.assert_allclose(model.class_weight_, expected, rtol=0.15)
    assert recall_score(labels, model.predict(data), labels=["c"], average="macro") > 0.7


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("solver", ["gradient-descent", "adaptive-gradient"])
@pytest.mark.parametrize("class_weight", [{1: 100.0}, "balanced"], ids=str)
def test_weights_of_classes_show_nothing_of_one_row(solver, class_weight):
    rows, labels = rare(40, 0.4)

    def fit(X, y):
        model = DPLogisticRegression(epsilon=0.5, delta=1e-3, solver=solver, class_weight=class_weight, verbose=2)
        return model.fit(X, y)

    check_twins(fit, np.round(rows, 3), labels)


def test_a_class_that_nobody_has_gets_no_weight_beyond_what_noise_can_tell():
    """Its count is not believed below its noise: 1 / count would be any number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = DPLogisticRegression(classes=[0, 1, 2], class_weight="balanced", random_state=0).fit(*rare(3_000))
    assert np.isfinite(model.coef_).all()
    assert 1 < model.class_weight_[2] < 3_000 / 3


@pytest.mark.parametrize("groups", [None, np.arange(len(Y)) // 3], ids=["rows", "persons"])
def test_columns_are_standardised_by_units_and_not_by_what_rows_weigh(groups, monkeypatch):
    """With fewer than n rows' weight, means over n would be too small: encodings count units, each once."""
    seen, powers = [], []
    for name in ("find_ranges", "column_moments"):
        whole = getattr(numeric, name)

        def spied(data, *args, whole=whole, **options):
            seen.append((data.n_rows, [chunk.weights for chunk in data._rows._chunks()]))
            return whole(data, *args, **options)

        monkeypatch.setattr(numeric, name, spied)
    scaled = numeric.standardised

    def spied_on_powers(*args, power, **options):
        powers.append(power)
        return scaled(*args, power=power, **options)

    monkeypatch.setattr(numeric, "standardised", spied_on_powers)
    given = {"sample_weight": np.full(len(Y), 0.25), "groups": groups}
    DPLogisticRegression(class_weight="balanced", weight_bound=1.0, random_state=0).fit(X, Y, **given)
    assert len(seen) == 2
    assert powers == [WEIGHTED_POWER]
    assert WEIGHTED_POWER < SCALE_POWER
    for n, weights in seen:
        if groups is None:
            assert (n, weights) == (len(Y), [None] * len(weights))
        else:
            assert n == len(np.unique(groups))
            assert sum(part.sum() for part in weights) / ONE == pytest.approx(n, rel=1e-5)


@pytest.mark.parametrize("weights", [{"class_weight": "balanced"}, {"weight_bound": 2.0}])
def test_rows_with_weights_have_the_same_bits_on_dask(weights):
    """Without persons: what a worker sums is in two parts there, too."""
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    rows, w = rng.uniform(size=(300, 3)), rng.gamma(2.0, size=300)
    labels, own = (rows[:, 0] > 0.7).astype(int), w if "weight_bound" in weights else None
    here, there = (
        DPLogisticRegression(random_state=0, **weights).fit(X, y, sample_weight=own)
        for X, y in ((rows, labels), (da.from_array(rows, chunks=(100, 3)), da.from_array(labels, chunks=100)))
    )
    np.testing.assert_array_equal(there.coef_, here.coef_)


def test_a_certificate_is_about_a_mean_over_units(monkeypatch):
    """The weight that was counted may be too small, and constants of a mean over it would be, too."""
    counted, whole = [], SecondOrder.iterates

    def spied(solver, data, objective):
        counted.append((data.n_rows, data.n_units))
        return whole(solver, data, objective)

    monkeypatch.setattr(SecondOrder, "iterates", spied)
    DPSecondOrderClassifier(class_weight={1: 10.0}, random_state=0).fit(X, Y)
    assert counted == [(len(Y), len(Y))]
