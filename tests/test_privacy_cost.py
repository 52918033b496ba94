"""privacy_cost: meta-estimators of scikit-learn make the fits that are predicted, and a ledger counts their price.

Each case runs. A ledger counts its entries and sums, and a spy notes the rows of every training set.
"""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
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
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpsk import (
    DPGradientDescentClassifier,
    PrivacyLedger,
    PrivateCalibration,
    PrivateSearchCV,
    PrivateThreshold,
    privacy_cost,
)
from dpsk.privacy.durable.terms import decimal

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
    "grid of both": (
        GridSearchCV(
            VotingClassifier(named(model(), OneVsRestClassifier(model()))), {"m0": ["drop", model()]}, cv=NEUTRAL
        ),
        THREE,
    ),
    "grid of rest": (GridSearchCV(OneVsRestClassifier(model()), {"estimator__steps": [1, 2]}, cv=NEUTRAL), THREE),
    "from RFE": (make_pipeline(SelectFromModel(model()), RFE(model())), TWO),
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


# --------------------------------------------------------------------- what is predicted, and what a ledger counted


@pytest.mark.parametrize("case", EXACT, ids=str)
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


@pytest.mark.parametrize("case", AT_MOST, ids=str)
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
