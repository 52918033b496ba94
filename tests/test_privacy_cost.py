"""privacy_cost: meta-estimators of scikit-learn make the fits that are predicted, and a ledger counts their price.

Each case runs. A ledger counts its entries and sums, and a spy notes the rows of every training set.
"""

import math
import re
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    train_test_split,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.semi_supervised import SelfTrainingClassifier

from dpsk import (
    DPGradientDescentClassifier,
    DPLogisticRegression,
    PrivacyLedger,
    PrivateCalibration,
    PrivateSearchCV,
    PrivateThreshold,
    privacy_cost,
    search_cost,
)
from dpsk.model_selection import PrivacyCost, SearchCost, fits_of_searches
from dpsk.model_selection.fits_of import READERS
from dpsk.privacy.durable.terms import decimal
from dpsk.testing import check_twins

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

N_ROWS, N_COLUMNS = 120, 4
RNG = np.random.default_rng(0)
X = RNG.random((N_ROWS, N_COLUMNS))
TWO, THREE, FOUR = (np.arange(N_ROWS) % k for k in (2, 3, 4))
HALF_KNOWN = np.where(np.arange(N_ROWS) % 4 < 2, TWO, -1)
OUTPUTS = np.stack([TWO, THREE > 0, FOUR > 1], axis=1).astype(int)
UNEVEN = RNG.permutation(np.repeat([0, 1, 2, 3], [50, 40, 20, 10]))
WITH_ID = np.column_stack([X, np.arange(N_ROWS)])  # the last column tells the row


def model(**parameters):
    return DPGradientDescentClassifier(**({"epsilon": 0.5, "bounds": (0, 1), "steps": 1} | parameters))


def frozen(y=TWO):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FrozenEstimator(model().fit(X, y))


def named(*models):
    return [(f"m{k}", one) for k, one in enumerate(models)]


def piped(*steps):
    return make_pipeline(FunctionTransformer(), *steps)


ALPHAS = {"alpha": [1e-4, 1e-3]}
NEUTRAL = KFold(3, shuffle=True, random_state=0)  # every class is in every training set

EXACT = {
    "one": (model(), TWO),
    "pipeline": (piped(model()), TWO),
    "rest of 2": (OneVsRestClassifier(model()), TWO),
    "rest of 3": (OneVsRestClassifier(model()), THREE),
    "rest of 4, piped": (OneVsRestClassifier(piped(model())), FOUR),
    "one of 2": (OneVsOneClassifier(model()), TWO),
    "one of 3": (OneVsOneClassifier(model()), THREE),
    "one of 4": (OneVsOneClassifier(model()), FOUR),
    "outputs": (MultiOutputClassifier(model()), OUTPUTS),
    "outputs of voting": (MultiOutputClassifier(VotingClassifier(named(model(), model()))), OUTPUTS),
    "chain": (ClassifierChain(model()), OUTPUTS),
    "random chain": (ClassifierChain(model(), order="random", random_state=0), OUTPUTS),
    "chain, cv": (ClassifierChain(model(), cv=3), OUTPUTS),
    "chain, KFold": (ClassifierChain(model(), cv=KFold(4)), OUTPUTS),
    "chain of one, cv": (ClassifierChain(model(), cv=3), OUTPUTS[:, :2]),
    "voting": (VotingClassifier(named(model(), model(epsilon=0.25), piped(model()))), THREE),
    "voting, soft, dropped": (VotingClassifier([*named(model(), model()), ("no", "drop")]), TWO),
    "voting with others": (VotingClassifier(named(model(), RandomForestClassifier(3))), TWO),
    "stacking": (StackingClassifier(named(model(), model(epsilon=0.25))), TWO),
    "stacking, private": (StackingClassifier(named(model(), model()), model(epsilon=0.125), cv=3), THREE),
    "stacking, dropped": (StackingClassifier([*named(model()), ("no", "drop")], cv=KFold(4), passthrough=True), TWO),
    "stacking, prefit": (StackingClassifier(named(frozen()), model(), cv="prefit"), TWO),
    "stacking, frozen": (StackingClassifier(named(frozen(), model()), cv=3), TWO),
    "calibrated": (CalibratedClassifierCV(model()), TWO),
    "calibrated, cv": (CalibratedClassifierCV(model(), cv=KFold(4), method="isotonic"), TWO),
    "calibrated at once": (CalibratedClassifierCV(model(), cv=3, ensemble=False), TWO),
    "calibrated, auto": (CalibratedClassifierCV(model(), cv=3, ensemble="auto"), TWO),
    "calibrated, frozen": (CalibratedClassifierCV(frozen(), cv=3, ensemble="auto"), TWO),
    "tuned": (TunedThresholdClassifierCV(model()), TWO),
    "tuned, KFold": (TunedThresholdClassifierCV(model(), cv=KFold(3)), TWO),
    "tuned, a part": (TunedThresholdClassifierCV(model(), cv=0.3), TWO),
    "tuned, a part, kept": (TunedThresholdClassifierCV(model(), cv=0.3, refit=False, random_state=0), TWO),
    "tuned, one split": (TunedThresholdClassifierCV(model(), cv=StratifiedShuffleSplit(1), refit=False), TWO),
    "tuned, frozen": (TunedThresholdClassifierCV(frozen(), cv=0.5), TWO),
    "fixed": (FixedThresholdClassifier(model(), threshold=0.3), TWO),
    "fixed, rest": (FixedThresholdClassifier(piped(model()), threshold=0.3), TWO),
    "RFE": (RFE(model()), TWO),
    "RFE to 1": (RFE(model(), n_features_to_select=1), TWO),
    "RFE, in threes": (RFE(model(), n_features_to_select=1, step=3), TWO),
    "RFE, halves": (RFE(model(), n_features_to_select=0.25, step=0.5), TWO),
    "RFE of all": (RFE(model(), n_features_to_select=4), TWO),
    "RFE of too many": (RFE(model(), n_features_to_select=9), TWO),
    "RFECV of all": (RFECV(model(), min_features_to_select=4, cv=3), TWO),
    "from model": (SelectFromModel(model()), TWO),
    "from model, prefit": (SelectFromModel(frozen(), prefit=True), TWO),
    "forward": (SequentialFeatureSelector(model(), cv=3), TWO),
    "forward 1": (SequentialFeatureSelector(model(), n_features_to_select=1, cv=KFold(2)), TWO),
    "forward, part": (SequentialFeatureSelector(model(), n_features_to_select=0.75, cv=2), TWO),
    "backward": (SequentialFeatureSelector(model(), direction="backward", n_features_to_select=1, cv=2), TWO),
    "backward, auto": (SequentialFeatureSelector(model(), direction="backward", cv=2), TWO),
    "selected": (make_pipeline(SelectFromModel(model(epsilon=0.25)), model()), TWO),
    "a step left out": (Pipeline([("no", "passthrough"), ("none", None), ("last", model())]), TWO),
    "union": (make_pipeline(FeatureUnion([("a", SelectFromModel(model())), ("b", "passthrough")]), model()), TWO),
    "grid": (GridSearchCV(model(), ALPHAS, cv=3), TWO),
    "grid, KFold": (GridSearchCV(model(), ALPHAS, cv=KFold(4), refit=False), TWO),
    "random": (RandomizedSearchCV(model(), {"alpha": [1e-4, 1e-3, 1e-2]}, n_iter=2, cv=2), TWO),
    "halving": (HalvingGridSearchCV(model(), {"alpha": [1e-4, 1e-3, 1e-2, 1e-1]}, factor=2, cv=2), TWO),
    "halving, three classes": (HalvingGridSearchCV(model(), {"alpha": list(np.geomspace(1e-4, 1, 9))}, cv=2), THREE),
    "halving, smallest": (
        HalvingGridSearchCV(model(), {"alpha": list(np.geomspace(1e-4, 1, 7))}, min_resources="smallest", cv=2), TWO
    ),
    "halving, aggressive": (
        HalvingGridSearchCV(
            model(), {"alpha": list(np.geomspace(1e-4, 1, 9))}, min_resources=50, aggressive_elimination=True, cv=2
        ),
        TWO,
    ),
    "halving, 2 of 3 rounds": (
        HalvingGridSearchCV(model(), {"alpha": list(np.geomspace(1e-4, 1, 9))}, min_resources=30, cv=2), TWO
    ),
    "halving by steps": (
        HalvingGridSearchCV(
            model(), {"alpha": [1e-4, 1e-3, 1e-2]}, resource="steps", max_resources=6, min_resources=1, cv=KFold(2)
        ),
        TWO,
    ),
    "halving by epsilon": (
        HalvingGridSearchCV(
            model(), {"alpha": [1e-4, 1e-3, 1e-2]}, resource="epsilon", max_resources=4, factor=2, cv=2, refit=True
        ),
        TWO,
    ),
    "halving by epsilon, aggressive": (
        HalvingGridSearchCV(
            model(), {"alpha": list(np.geomspace(1e-4, 1, 9))}, resource="epsilon", max_resources=4, min_resources=2,
            aggressive_elimination=True, cv=2,
        ),
        TWO,
    ),
    "random halving": (HalvingRandomSearchCV(model(), {"alpha": [1e-4, 1e-3, 1e-2]}, cv=2, random_state=0), TWO),
    "random halving, many": (
        HalvingRandomSearchCV(model(), {"alpha": list(np.geomspace(1e-4, 1, 50))}, cv=2, refit=False), TWO
    ),
    "random halving, 5": (
        HalvingRandomSearchCV(
            model(), {"alpha": list(np.geomspace(1e-4, 1, 50))}, n_candidates=5, min_resources="exhaust", cv=2
        ),
        TWO,
    ),
    "private search": (PrivateSearchCV(model(), {"alpha": [1e-4, 1e-2]}, epsilon=2.0), TWO),
    "voting of searches": (VotingClassifier(named(model(), PrivateSearchCV(model(), ALPHAS, epsilon=1.0))), TWO),
    "private threshold": (PrivateThreshold(frozen(), epsilon=0.75), TWO),
    "private calibration": (PrivateCalibration(frozen(), epsilon=0.75), TWO),
    "rest of grid": (OneVsRestClassifier(GridSearchCV(model(), ALPHAS, cv=2)), THREE),
    "voting of RFE": (VotingClassifier(named(make_pipeline(RFE(model()), model()))), TWO),
    "grid of outputs": (GridSearchCV(MultiOutputClassifier(model()), {"estimator__steps": [1, 2]}, cv=3), OUTPUTS),
    "grid of two models": (GridSearchCV(piped(model()), {"dpgradientdescentclassifier": [model()]}, cv=2), TWO),
    "nested deeply": (
        GridSearchCV(
            VotingClassifier(named(CalibratedClassifierCV(piped(model()), cv=KFold(2)), model(epsilon=0.25))),
            {"voting": ["hard", "soft"]}, cv=KFold(2), refit=True,
        ),
        TWO,
    ),
}  # fmt: skip

REACHED = {"calibrated, three", "grid of stacking of rest", "grid of rest"}
for case in EXACT:
    if isinstance(EXACT[case][0], HalvingGridSearchCV | HalvingRandomSearchCV):
        EXACT[case][0].set_params(random_state=0)  # a draw of rows of one class has no fit

AT_MOST = {
    "calibrated, three": (CalibratedClassifierCV(OneVsRestClassifier(model()), cv=NEUTRAL), THREE),
    "grid of stacking of rest": (
        GridSearchCV(
            StackingClassifier(named(OneVsRestClassifier(model()), model()), model(), cv=NEUTRAL),
            {"passthrough": [True, False]}, cv=NEUTRAL,
        ),
        THREE,
    ),
    "output code": (OutputCodeClassifier(model(), code_size=2, random_state=0), FOUR),
    "output code of 3": (OutputCodeClassifier(model(), code_size=1.5, random_state=1), THREE),
    "rest of labels": (OneVsRestClassifier(model()), OUTPUTS),
    "RFECV": (RFECV(model(), cv=3), TWO),
    "RFECV, in threes": (RFECV(model(), cv=KFold(2), step=3, min_features_to_select=2), TWO),
    "RFECV, a part": (RFECV(model(), cv=2, step=0.6), TWO),
    "forward, auto": (SequentialFeatureSelector(model(), tol=1e-3, cv=2), TWO),
    "backward, tolerance": (SequentialFeatureSelector(model(), tol=-1.0, direction="backward", cv=2), TWO),
    "columns": (make_pipeline(ColumnTransformer([("a", SelectFromModel(model()), [0, 1])]), model()), TWO),
    "other columns": (
        make_pipeline(
            ColumnTransformer([("a", SelectFromModel(model()), [0, 1])], remainder=SelectFromModel(model())), model()
        ),
        TWO,
    ),
    "grid of both": (
        GridSearchCV(
            VotingClassifier(named(model(), OneVsRestClassifier(model()))), {"m0": ["drop", model()]}, cv=NEUTRAL
        ),
        THREE,
    ),
    "grid of rest": (GridSearchCV(OneVsRestClassifier(model()), {"estimator__steps": [1, 2]}, cv=NEUTRAL), THREE),
    "from RFE": (make_pipeline(SelectFromModel(model(), threshold=-np.inf), RFE(model())), TWO),
}  # fmt: skip

SEEDED = {
    "bagging": (BaggingClassifier(model(), n_estimators=3, random_state=0), TWO),
    "bagging, parts": (BaggingClassifier(piped(model()), 2, max_samples=0.5, bootstrap=False, random_state=0), TWO),
    "bagging, columns": (BaggingClassifier(model(), 4, max_features=0.5, bootstrap_features=True), TWO),
    "bagging of voting": (BaggingClassifier(VotingClassifier(named(model(), model())), 2), TWO),
}

FUNCTIONS = {
    "validate": (cross_validate, {"cv": 3}, TWO),
    "score": (cross_val_score, {"cv": KFold(4)}, TWO),
    "default": (cross_val_score, {}, TWO),
    "predict": (cross_val_predict, {"cv": KFold(3)}, TWO),
    "predict, probabilities": (cross_val_predict, {"cv": 3, "method": "predict_proba"}, THREE),
    "repeated": (cross_validate, {"cv": RepeatedKFold(n_splits=2, n_repeats=2, random_state=0)}, TWO),
    "shuffled": (cross_validate, {"cv": ShuffleSplit(3)}, TWO),
    "learning": (learning_curve, {"cv": KFold(3), "train_sizes": [20, 30, 40]}, TWO),
    "learning, parts": (learning_curve, {"cv": KFold(2), "train_sizes": [0.5, 1.0], "shuffle": True}, TWO),
    "learning, default": (learning_curve, {"cv": 3}, TWO),
    "learning, twice": (learning_curve, {"cv": 2, "train_sizes": [20, 20]}, TWO),
    "validation": (validation_curve, {"cv": KFold(3), "param_name": "alpha", "param_range": [1e-4, 1e-3]}, TWO),
    "validation, epsilon": (
        validation_curve, {"cv": 2, "param_name": "epsilon", "param_range": [0.1, 0.2, 0.4]}, TWO
    ),
    "permutations": (permutation_test_score, {"cv": 2, "n_permutations": 3}, TWO),
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.db", epsilon=1e4, delta=0.5)


def with_ledger(estimator, ledger, **more):
    """Return a copy whose private estimators all have this ledger."""
    names = [name for name in estimator.get_params() if name == "ledger" or name.endswith("__ledger")]
    made = clone(estimator).set_params(**dict.fromkeys(names, ledger), **more)
    for search in [made, *made.get_params().values()]:
        if isinstance(search, PrivateSearchCV):
            search.estimator.set_params(ledger=None)  # the search has one
    if isinstance(made, GridSearchCV):
        for values in made.param_grid.values():
            for value in values:
                if hasattr(value, "ledger"):
                    value.set_params(ledger=ledger)
    return made


def run(estimator, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y, **more)


def counted(ledger):
    """Return how many fits a ledger has, and the exact sums of what was reserved."""
    history = ledger.history()
    return len(history), [
        sum((decimal(s.reserved[name]) for s in history), Fraction(0)) for name in ("epsilon", "delta")
    ]


def needed(cost):
    return [decimal(cost.needs[name]) for name in ("epsilon", "delta")]


def some_slow(cases):
    """Return the cases, those of many fits marked as slow."""

    def many(case):
        return "halving" in case or "grid of" in case or case in ("private search", "voting of searches", "forward")

    return [pytest.param(case, marks=[pytest.mark.slow] if many(case) else []) for case in cases]


# --------------------------------------------------------------------- what is predicted, and what a ledger counted


@pytest.mark.parametrize("case", some_slow(EXACT))
def test_a_ledger_counts_exactly_what_was_predicted(case, ledger):
    estimator, y = EXACT[case]
    estimator = with_ledger(estimator, ledger)
    cost = privacy_cost(estimator, X, y, ledger=ledger)
    assert ledger.history() == []
    run(estimator, y)
    entries, sums = counted(ledger)
    assert cost.exact
    assert entries == cost.fits
    assert sums == needed(cost)
    assert cost.enough
    assert cost.fits_on_a_row <= cost.fits


@pytest.mark.parametrize("case", some_slow(AT_MOST))
def test_a_ledger_counts_at_most_what_was_predicted(case, ledger):
    estimator, y = AT_MOST[case]
    estimator = with_ledger(estimator, ledger)
    cost = privacy_cost(estimator, X, y, ledger=ledger)
    run(estimator, y)
    entries, sums = counted(ledger)
    assert not cost.exact
    assert "At most" in cost.statement()
    assert 0 < entries <= cost.fits
    assert case not in REACHED or entries == cost.fits
    assert all(spent <= need for spent, need in zip(sums, needed(cost), strict=True))


@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_functions_make_the_fits_that_were_predicted(case, ledger):
    function, arguments, y = FUNCTIONS[case]
    estimator = model(ledger=ledger)
    cost = privacy_cost(function, estimator, X, y, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(estimator, X, y, **arguments)
    entries, sums = counted(ledger)
    assert cost.exact
    assert (entries, sums) == (cost.fits, needed(cost))


# ------------------------------------------------------------------------------------------- what one row pays for

SEEN = []
PLACE = {value: row for row, value in enumerate(X[:, 0])}


class Spy(DPGradientDescentClassifier):
    """Notes which rows of X every fit sees, by their first number."""

    def fit(self, X, y=None, sample_weight=None, groups=None):
        there = np.ones(len(X), bool) if sample_weight is None else np.asarray(sample_weight) > 0
        SEEN.append([PLACE[value] for value in np.asarray(X)[there, 0]])
        return super().fit(X, y, sample_weight, groups)


def spy(**parameters):
    return Spy(**({"epsilon": 0.5, "bounds": (0, 1), "steps": 1} | parameters))


SPIED = {
    "one of 4": (OneVsOneClassifier(spy()), UNEVEN, 3),
    "one of 3": (OneVsOneClassifier(spy()), THREE, 2),
    "folds of one of 4": (CalibratedClassifierCV(OneVsOneClassifier(spy()), cv=KFold(2, shuffle=True)), UNEVEN, None),
    "grid": (GridSearchCV(spy(), ALPHAS, cv=KFold(4)), TWO, 2 * 3 + 1),
    "repeated": (GridSearchCV(spy(), ALPHAS, cv=RepeatedKFold(n_splits=3, n_repeats=2), refit=False), TWO, 8),
    "stacking": (StackingClassifier(named(spy(), spy()), LogisticRegression(), cv=KFold(5)), TWO, 10),
    "chain": (ClassifierChain(spy(), cv=KFold(3)), OUTPUTS, 3 + 2 * 2),
    "calibrated": (CalibratedClassifierCV(spy(), cv=KFold(3), ensemble=False), TWO, 3),
    "tuned": (TunedThresholdClassifierCV(spy(), cv=KFold(3)), TWO, 3),
    "tuned, stratified": (TunedThresholdClassifierCV(spy(), cv=3), TWO, None),
    "nested": (GridSearchCV(CalibratedClassifierCV(spy(), cv=KFold(3)), {"cv": [KFold(3)]}, cv=KFold(2)), TWO, 2 + 2),
    "halving": (HalvingGridSearchCV(spy(), {"alpha": [1e-4, 1e-3, 1e-2]}, cv=KFold(2), random_state=0), TWO, 5),
    "one of grid": (OneVsOneClassifier(GridSearchCV(spy(), ALPHAS, cv=KFold(2))), THREE, None),
    "voting": (VotingClassifier(named(spy(), spy())), TWO, 2),
    "rest": (OneVsRestClassifier(spy()), THREE, 3),
}


def trainings():
    """Return in how many training sets each row was; no row may be there twice."""
    assert all(len(rows) == len(set(rows)) for rows in SEEN)
    return np.bincount([row for rows in SEEN for row in rows], minlength=N_ROWS)


@pytest.mark.parametrize("case", SPIED, ids=str)
def test_no_row_is_in_more_training_sets_than_it_pays_for(case):
    estimator, y, expected = SPIED[case]
    SEEN.clear()
    run(clone(estimator), y)
    cost = privacy_cost(estimator, X, y)
    assert len(SEEN) == cost.fits or not cost.exact
    assert trainings().max() <= cost.fits_on_a_row
    if expected is not None:
        assert cost.fits_on_a_row == expected
        assert trainings().max() == expected


@pytest.mark.parametrize("case", [name for name in FUNCTIONS if name not in ("validation, epsilon", "permutations")])
def test_no_row_is_in_more_training_sets_of_a_function_than_it_pays_for(case):
    function, arguments, y = FUNCTIONS[case]
    SEEN.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(spy(), X, y, **arguments)
    cost = privacy_cost(function, spy(), X, y, **arguments)
    assert trainings().max() <= cost.fits_on_a_row <= cost.fits == len(SEEN)
    if isinstance(arguments.get("cv"), KFold):
        assert trainings().max() <= cost.fits_on_a_row < cost.fits


def test_one_versus_one_reserves_all_pairs_and_a_row_pays_for_those_of_its_class():
    cost = privacy_cost(OneVsOneClassifier(model(epsilon=0.1)), n_classes=5, delta=1 - 1e-9)
    assert (cost.fits, cost.fits_on_a_row) == (10, 4)
    dear = privacy_cost(OneVsOneClassifier(DPLogisticRegression(epsilon=0.1)), n_classes=5)
    assert dear.composition == "basic"
    assert (dear.epsilon, dear.delta) == (0.4, 4e-6)


def test_a_person_may_be_in_every_pair():
    cost = privacy_cost(OneVsOneClassifier(model(group_column="id")), n_classes=5)
    assert (cost.fits, cost.fits_on_a_row, cost.unit) == (10, 10, "id")


def test_the_sum_over_members_is_that_of_the_best_theorem():
    one = privacy_cost(model(epsilon=0.5), n_rows=N_ROWS, n_features=4, n_classes=2)
    assert (one.fits, one.epsilon, one.delta) == (1, pytest.approx(0.5), 1e-6)
    four = privacy_cost(VotingClassifier(named(*[model(epsilon=0.5)] * 4)), X, TWO)
    assert four.composition == "mu**2"
    assert 0.5 < four.epsilon < 2.0
    pure = privacy_cost(VotingClassifier(named(*[model(epsilon=0.5)] * 4)), X, TWO, delta=1e-12)
    assert pure.epsilon > four.epsilon


def test_what_x_and_y_show_is_what_may_be_told():
    sizes = {"n_rows": N_ROWS, "n_features": N_COLUMNS, "n_classes": 3}
    made = OneVsRestClassifier(DPLogisticRegression(epsilon=0.5))
    assert privacy_cost(made, X, THREE) == privacy_cost(made, **sizes)
    assert privacy_cost(made, X, THREE).composition == "mu**2"
    assert privacy_cost(made, n_classes=3).composition == "basic"
    assert privacy_cost(made, X.tolist(), THREE.tolist()) == privacy_cost(made, **sizes)
    outputs = MultiOutputClassifier(model())
    assert privacy_cost(outputs, X, OUTPUTS) == privacy_cost(outputs, X, n_classes=2, n_outputs=3)


def test_an_earlier_name():
    assert SearchCost is PrivacyCost
    assert search_cost(model(), cv=3) == privacy_cost(cross_validate, model(), cv=3) == privacy_cost(model(), cv=3)
    assert search_cost(model()) == privacy_cost(cross_validate, model())
    assert search_cost(OneVsRestClassifier(model()), X, THREE).fits == 15
    assert search_cost(cross_val_score, model(), cv=2).fits == 2
    search = PrivateSearchCV(model(), ALPHAS, epsilon=2.0)
    assert search_cost(search).fits == privacy_cost(search).fits == 1
    assert search_cost(search).epsilon == 2.0


# ---------------------------------------------------------------------------------------------- what is not private


@pytest.mark.parametrize("case", SEEDED, ids=str)
def test_members_with_seeds_are_not_private(case, tmp_path):
    estimator, y = SEEDED[case]
    strict = PrivacyLedger(tmp_path / "strict.db", epsilon=1e4, delta=0.5)
    lax = PrivacyLedger(tmp_path / "lax.db", epsilon=1e4, delta=0.5, allow_nonprivate=True)
    cost = privacy_cost(with_ledger(estimator, lax), X, y)
    assert cost.epsilon == math.inf
    assert "gives every member a random_state" in cost.statement()
    run(with_ledger(estimator, lax), y)
    history = lax.history()
    assert (len(history), cost.needs) == (cost.fits, {"epsilon": 0.0, "delta": 0.0})
    assert not any(spend.private for spend in history)
    with pytest.raises(ValueError, match="would not be private"):
        privacy_cost(with_ledger(estimator, strict), X, y)


def test_boosting_is_not_private(tmp_path):
    lax = PrivacyLedger(tmp_path / "lax.db", epsilon=1e4, delta=0.5, allow_nonprivate=True)
    rows = np.column_stack([TWO, X[:, 1:]]) * 0.9
    boosted = AdaBoostClassifier(model(epsilon=50.0, steps=20, ledger=lax), n_estimators=4, random_state=0)
    cost = privacy_cost(boosted, rows, TWO)
    boosted.fit(rows, TWO)
    assert 0 < len(lax.history()) <= cost.fits == 4
    assert not cost.exact
    assert cost.epsilon == math.inf
    assert not any(spend.private for spend in lax.history())
    assert any("depend on un-noised mistakes on all the others" in leak for leak in cost.leaks)


@pytest.mark.parametrize("rounds", [1, 3, None])
def test_self_training_is_bounded_in_fits_but_not_private(rounds, ledger):
    trained = SelfTrainingClassifier(
        DPLogisticRegression(bounds=(0, 1), ledger=ledger), max_iter=rounds, threshold=0.51
    )
    cost = privacy_cost(trained, X, HALF_KNOWN)
    run(trained, HALF_KNOWN)
    assert 0 < len(ledger.history()) <= cost.fits == (N_ROWS if rounds is None else rounds + 1)
    assert cost.epsilon == math.inf
    assert any("whether and when the row is fitted" in leak for leak in cost.leaks)


def test_a_row_that_is_not_labelled_decides_how_many_are_fitted():
    """Why self-training has no bound: training sets that differ by a row that joins, without noise."""
    sizes = []
    for moved in (0.0, 1.0):
        rows = np.where(np.arange(N_ROWS)[:, None] == 3, moved, X)
        certain = FrozenEstimator(LogisticRegression(C=1e6).fit(np.array([[0.2], [0.8]]).repeat(4, 1), [0, 1]))
        trained = SelfTrainingClassifier(certain, threshold=0.99, max_iter=1)
        run_on = np.where(np.arange(N_ROWS) == 3, -1, TWO)
        trained.fit(np.where(np.arange(N_ROWS)[:, None] == 3, 0.5 + 0.5 * moved, rows), run_on)
        sizes.append(int((trained.labeled_iter_ >= 0).sum()))
    assert sizes == [N_ROWS - 1, N_ROWS]


def test_permuted_labels_put_a_row_into_two_training_rows():
    """Why there is no bound: the fits of neighbours differ in two rows, and a ledger knows of one."""
    pairs = []
    for label in (0, 1):
        y = np.where(np.arange(N_ROWS) == 5, label, TWO)
        rows = X.copy()
        rows[5] = label
        noted = []

        class Noting(DPGradientDescentClassifier):
            def fit(self, X, y=None, sample_weight=None, groups=None, noted=noted):
                noted.append(np.column_stack([X, y]))
                return super().fit(X, y, sample_weight, groups)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            permutation_test_score(
                Noting(bounds=(0, 1), steps=1), rows, y, cv=[(np.arange(N_ROWS), np.arange(9))], n_permutations=20
            )
        pairs.append(noted)
    changed = [int((one != other).any(axis=1).sum()) for one, other in zip(*pairs, strict=True)]
    assert changed[0] == 1
    assert max(changed) == 2
    cost = privacy_cost(permutation_test_score, model(), X, TWO, cv=KFold(2))
    assert cost.epsilon == math.inf
    assert cost.fits == cost.fits_on_a_row == 202


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (
            StackingClassifier(named(model())),
            "final estimator of StackingClassifier, LogisticRegression, is not private",
        ),
        (StackingClassifier(named(frozen()), cv="prefit"), "is not private: its weights are un-noised"),
        (CalibratedClassifierCV(model()), "calibration of CalibratedClassifierCV is not included"),
        (TunedThresholdClassifierCV(model()), "threshold of TunedThresholdClassifierCV, and its scores"),
        (GridSearchCV(model(), ALPHAS), "scores of GridSearchCV"),
        (HalvingGridSearchCV(model(), ALPHAS), "scores of HalvingGridSearchCV"),
        (RFECV(model()), "scores of RFECV"),
        (SequentialFeatureSelector(model()), "scores of SequentialFeatureSelector"),
        (
            VotingClassifier(named(model(), RandomForestClassifier())),
            "RandomForestClassifier is fitted without privacy",
        ),
        (OneVsOneClassifier(model()), "the number of rows of each class, count as public"),
        (BaggingClassifier(model()), "with replacement"),
        (make_pipeline(FunctionTransformer(), model(), memory="x"), "keeps transformed rows on disk"),
        (SelectFromModel(model(), max_features=len), "is a function of X"),
        (VotingClassifier(named(model(), GridSearchCV(model(), ALPHAS))), "scores of GridSearchCV"),
    ],
    ids=str,
)
def test_what_leaks_beside_the_fits_is_named(estimator, said):
    cost = privacy_cost(estimator, X, THREE)
    assert any(said in leak for leak in cost.leaks)
    assert said in cost.statement()
    assert all(leak.endswith(".") for leak in cost.leaks)


@pytest.mark.parametrize(
    "estimator",
    [
        model(), piped(model()), OneVsRestClassifier(model()), VotingClassifier(named(model(), model())),
        FixedThresholdClassifier(model()), RFE(model()), SelectFromModel(model()), ClassifierChain(model()),
        MultiOutputClassifier(model()), StackingClassifier(named(model()), model()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)  # fmt: skip
def test_where_nothing_leaks_nothing_is_named(estimator):
    assert privacy_cost(estimator, X, THREE, n_outputs=2).leaks == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [RFE(model()), SelectFromModel(model()), VotingClassifier(named(model(), model())), OneVsRestClassifier(model()),
     FixedThresholdClassifier(model())],
    ids=lambda estimator: type(estimator).__name__,
)  # fmt: skip
def test_what_follows_from_released_weights_shows_no_row(estimator):
    """The fitted attributes of neighbours differ by noise alone."""
    check_twins(lambda rows, labels: clone(estimator).fit(rows, labels), X, TWO)


# ------------------------------------------------------------------------------------------------- what is refused


class Unheard(MetaEstimatorMixin, BaseEstimator):
    def __init__(self, estimator):
        self.estimator = estimator


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: privacy_cost(Unheard(model())), "Unheard holds a private estimator.*Known are.*StackingClassifier"),
        (lambda: privacy_cost(VotingClassifier(named(Unheard(model()))), X, TWO), "Unheard holds"),
        (lambda: privacy_cost(Unheard([("a", {"b": model()})])), "Unheard holds"),
        (lambda: privacy_cost(Unheard(LogisticRegression())), "Unheard has no private estimator inside"),
        (lambda: privacy_cost(cross_validate, LogisticRegression(), cv=3), "no private estimator inside"),
        (lambda: privacy_cost(OneVsRestClassifier(model())), "number of classes: give n_classes, or y"),
        (lambda: privacy_cost(MultiOutputClassifier(model())), "columns of y: give n_outputs, or y"),
        (lambda: privacy_cost(RFE(model())), "number of columns: give n_features, or X"),
        (lambda: privacy_cost(HalvingGridSearchCV(model(), ALPHAS), n_classes=2), "number of rows: give n_rows, or X"),
        (
            lambda: privacy_cost(HalvingGridSearchCV(model(), ALPHAS), n_classes=2, n_rows=9),
            "more than the 9 there are",
        ),
        (lambda: privacy_cost(train_test_split, model()), "which fits train_test_split makes is not known"),
        (lambda: privacy_cost(len, model()), "no private estimator inside"),
        (lambda: privacy_cost(validation_curve, model()), "needs param_name, param_range"),
        (lambda: privacy_cost(learning_curve, model(), exploit_incremental_learning=True), "needs partial_fit"),
        (lambda: privacy_cost(GridSearchCV(model(), ALPHAS), cv=3), "a search has its own.*cross_validate, search"),
        (lambda: privacy_cost(DPLogisticRegression), "the class DPLogisticRegression"),
        (lambda: privacy_cost(VotingClassifier(named(model(), model(adjacency="replace")))), "differ in adjacency"),
        (lambda: privacy_cost(VotingClassifier(named(model(), model(group_column="a")))), "differ in the unit"),
        (lambda: privacy_cost(make_pipeline(model(), model())), "step 'dpgradientdescentclassifier-1'.*no transform"),
        (
            lambda: privacy_cost(
                HalvingRandomSearchCV(model(), {"alpha": uniform()}, n_candidates=3), n_rows=90, n_classes=2
            ),
            "integer random_state",
        ),
    ],
)
def test_what_is_not_known_is_an_error_that_says_what_is(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()


def test_ledgers_that_differ_do_not_add_up(tmp_path, ledger):
    other = PrivacyLedger(tmp_path / "other.db", epsilon=1.0, delta=1e-3)
    with pytest.raises(ValueError, match="differ in ledger"):
        privacy_cost(VotingClassifier(named(model(ledger=ledger), model(ledger=other))))


def test_whether_there_is_enough_is_exact_for_nested_estimators(tmp_path):
    nested = GridSearchCV(OneVsRestClassifier(model(epsilon=0.1)), {"estimator__steps": [1, 2]}, cv=KFold(2))
    for limit, enough in ((1.5, True), (1.4999, False)):  # 3 * (2 * 2 + 1) fits
        ledger = PrivacyLedger(tmp_path / f"{enough}.db", epsilon=limit, delta=1e-3)
        assert privacy_cost(nested, X, THREE, ledger=ledger).enough is enough


def test_a_private_search_goes_into_a_ledger_of_basic_sums_alone(tmp_path):
    search = PrivateSearchCV(model(), ALPHAS, epsilon=2.0)
    ledger = PrivacyLedger(tmp_path / "rho.db", epsilon=10.0, delta=1e-3, currency="rho")
    with pytest.raises(ValueError, match="has no rho"):
        privacy_cost(search, ledger=ledger)
    assert privacy_cost(cross_validate, search, X, TWO, cv=KFold(4)).epsilon == 6.0


def test_the_folds_of_a_part_are_counted_in_it():
    outer, inner = KFold(3), KFold(4)
    cost = privacy_cost(cross_validate, GridSearchCV(model(), ALPHAS, cv=inner), X, TWO, cv=outer)
    assert cost.fits == 3 * (2 * 4 + 1)
    assert cost.fits_on_a_row == 2 * (2 * 3 + 1)
    assert cost.folds_are_public
    cost = privacy_cost(cross_validate, GridSearchCV(model(), ALPHAS, cv=3), X, TWO, cv=outer)
    assert not cost.folds_are_public
    alone = privacy_cost(cross_validate, GridSearchCV(model(), ALPHAS, cv=LeaveOneOut()), X, TWO, cv=outer)
    assert (alone.fits, alone.exact) == (3 * (2 * N_ROWS + 1), False)


def test_ids_reach_the_fits_of_a_function_by_routing():
    ids = np.arange(N_ROWS) // 2
    with config_context(enable_metadata_routing=True):
        asking = model().set_fit_request(groups=True)
        assert privacy_cost(cross_validate, asking, X, TWO, cv=3, params={"groups": ids}).unit == "person"
        assert privacy_cost(cross_validate, model(), X, TWO, cv=3, params={"groups": ids}).unit == "row"


# ---------------------------------------------------------------------------------------------------- the document

COSTS = Path(__file__).parents[1] / "docs" / "costs.md"


def test_the_document_names_every_class_and_function_that_is_known():
    text = COSTS.read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    for known in (*READERS, *fits_of_searches.FUNCTIONS):
        assert any(f"`{known.__name__}`" in line for line in table), f"{known.__name__} is not in the table"


@pytest.mark.slow
def test_the_examples_of_the_document_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {}
    for block in re.findall(r"```python\n(.*?)```", COSTS.read_text(), re.S):
        exec(compile(block, "costs.md", "exec"), space)
        printed = capsys.readouterr().out.splitlines()
        assert printed == re.findall(r"print\(.*\)  # (.*)", block)
