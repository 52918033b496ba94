"""search_cost: what is predicted is what a search then spends, and never less than what a row pays."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpsk import (
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    PrivacyLedger,
    search_cost,
)
from dpsk.privacy import Budget, GaussianDP, conversions
from dpsk.privacy.neighbours import Adjacency

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")

ALPHAS = {"alpha": [1e-4, 1e-3, 1e-2, 1e-1]}


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)


# ------------------------------------------------------------------------------------------------- how many fits


@pytest.mark.parametrize(
    ("cv", "splits", "seen"),
    [
        (None, 5, 5),
        (3, 3, 3),
        (KFold(4), 4, 3),
        (KFold(4, shuffle=True, random_state=0), 4, 3),
        (RepeatedKFold(n_splits=4, n_repeats=3, random_state=0), 12, 9),
        (StratifiedKFold(4), 4, 4),
        (ShuffleSplit(6), 6, 6),
        ([(np.arange(5), np.arange(5, 10))] * 2, 2, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("refit", [True, False])
def test_fits_are_counted_and_those_that_see_a_row(cv, splits, seen, refit):
    cost = search_cost(GridSearchCV(DPLogisticRegression(), ALPHAS, cv=cv, refit=refit))
    assert cost.fits == 4 * splits + refit
    assert cost.fits_on_a_row == 4 * seen + refit
    assert cost.folds_are_public == (seen < splits)
    assert ("takes the fold of each row as public" in cost.statement()) == (seen == splits)


@pytest.mark.parametrize("cv", [KFold(4), KFold(5, shuffle=True), RepeatedKFold(n_splits=3, n_repeats=2)], ids=str)
def test_no_row_is_in_more_training_sets_than_counted(cv):
    """By the splits themselves, which follow from the number of rows."""
    trainings = sum(np.isin(np.arange(23), train) for train, _ in cv.split(np.zeros(23)))
    cost = search_cost(DPLogisticRegression(), cv=cv)
    assert set(trainings) == {cost.fits_on_a_row}


def test_what_a_fold_holds_may_depend_on_labels():
    """Why stratified folds get no discount: without one row, many others are in other folds."""
    y = np.array([0, 1] * 10)
    before, after = (
        [set(train) for train, _ in StratifiedKFold(4).split(np.zeros(20), labels)]
        for labels in (y, np.where(np.arange(20) == 0, 1, y))  # the first row was of the other class
    )
    assert any(len(one ^ other) > 2 for one, other in zip(before, after, strict=True))


def test_a_splitter_that_needs_the_data_may_have_them(cancer):
    with pytest.raises(ValueError, match="X"):
        search_cost(DPLogisticRegression(), cv=LeaveOneOut())
    assert search_cost(DPLogisticRegression(), cancer[0], cv=LeaveOneOut()).fits == 569


# ------------------------------------------------------------------------------------------------- what they cost


def test_the_sum_is_that_of_the_best_theorem():
    fits = 4 * 4 + 1
    descent = DPLogisticRegression(epsilon=0.5, solver="gradient-descent")
    cost = search_cost(GridSearchCV(descent, ALPHAS, cv=KFold(5)))
    mu_squared = fits * Budget.of(0.5, 1e-6, currency=GaussianDP()).limit
    assert cost.delta == pytest.approx(fits * 1e-6)
    assert cost.epsilon == pytest.approx(conversions.gaussian_epsilon(cost.delta, math.sqrt(mu_squared)), rel=1e-9)
    assert cost.composition == "mu**2"
    assert cost.epsilon < 0.5 * fits
    by_rho = search_cost(GridSearchCV(DPAGDLogisticRegression(epsilon=0.5), ALPHAS, cv=KFold(5)), delta=1e-6)
    assert by_rho.composition == "rho"
    assert by_rho.epsilon == pytest.approx(conversions.zcdp_epsilon(1e-6, fits * conversions.zcdp_rho(0.5, 1e-6)))


def test_what_the_number_of_rows_decides_is_not_counted_on(ledger):
    """Many rows turn "auto" into a method that has no mu**2; a ledger does not change that."""
    few, many = ({"n_rows": n, "n_features": 5, "n_classes": 2} for n in (1_000, 10_000_000))
    for model, sizes, composition in (
        (DPLogisticRegression(epsilon=0.5), {}, "basic"),
        (DPLogisticRegression(epsilon=0.5, ledger=ledger), {}, "basic"),
        (DPLogisticRegression(epsilon=0.5), few, "mu**2"),
        (DPLogisticRegression(epsilon=0.5, ledger=ledger), few, "mu**2"),
        (DPLogisticRegression(epsilon=0.5), many, "basic"),
        (DPLogisticRegression(epsilon=0.5, ledger=ledger), many, "basic"),
        (DPLogisticRegression(epsilon=0.5, solver="gradient-descent", ledger=ledger), {}, "mu**2"),
        (DPLogisticRegression(epsilon=0.5, solver="objective-perturbation"), {}, "basic"),
        (DPLogisticRegression(epsilon=0.5, solver="objective-perturbation"), few, "basic"),
        (ObjectivePerturbationClassifier(epsilon=0.5, ledger=ledger), {}, "basic"),
    ):
        assert search_cost(GridSearchCV(model, ALPHAS, cv=KFold(5)), **sizes).composition == composition


def test_training_sets_may_lack_classes():
    """KFold leaves out one class of three where rows are sorted, and with two classes "auto" may have no mu**2."""
    sizes = {"n_rows": 10_000_000, "n_features": 5, "n_classes": 3}
    for classes, composition in ((None, "basic"), ([0, 1, 2], "mu**2")):
        model = DPLogisticRegression(epsilon=0.5, classes=classes)
        assert search_cost(GridSearchCV(model, ALPHAS, cv=KFold(3)), **sizes).composition == composition


def test_steps_of_a_pipeline_may_leave_few_columns():
    """With one column of 400 left "auto" is precise enough for a method that has no mu**2."""
    sizes = {"n_rows": 40_000, "n_features": 400, "n_classes": 2}
    model, candidates = DPLogisticRegression(epsilon=4.0, delta=1e-7), {"dplogisticregression__alpha": [1e-4, 1e-3]}
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert search_cost(GridSearchCV(pipeline, candidates, cv=KFold(5)), delta=1e-5, **sizes).composition == "basic"
    assert search_cost(pipeline, cv=KFold(5), delta=1e-5, **sizes).composition == "basic"
    assert search_cost(model, cv=KFold(5), delta=1e-5, **sizes).composition == "mu**2"


@pytest.mark.slow
def test_sampled_fits_add_up_as_they_are():
    cost = search_cost(GridSearchCV(DPSGDClassifier(epsilon=0.1), {"steps": [50, 100]}, cv=KFold(5)))
    assert (cost.epsilon, cost.delta, cost.composition) == (0.9, 9e-6, "basic")
    nothing = search_cost(GridSearchCV(DPSGDClassifier(epsilon=0.1), {"steps": [50, 100]}, cv=KFold(5)), delta=1e-6)
    assert nothing.epsilon == math.inf
    assert "Nothing is guaranteed for them together (epsilon is infinite)" in nothing.statement()


def test_candidates_with_budgets_of_their_own():
    cost = search_cost(GridSearchCV(DPSGDClassifier(), {"epsilon": [0.1, 0.2, 0.4]}, cv=KFold(3)))
    assert cost.epsilon == 1.8  # twice 0.1 + 0.2 + 0.4, and a refit that may be of the dearest


def test_random_candidates_cost_what_the_dearest_would():
    lists = {"epsilon": [0.1, 0.2, 0.4, 0.3]}
    cost = search_cost(RandomizedSearchCV(DPSGDClassifier(), lists, n_iter=2, cv=KFold(3), refit=False))
    assert (cost.fits, cost.epsilon) == (6, 1.4)
    assert search_cost(RandomizedSearchCV(DPSGDClassifier(), lists, n_iter=9, refit=False)).fits == 20
    drawn = RandomizedSearchCV(DPLogisticRegression(), {"alpha": loguniform(1e-4, 1)}, n_iter=3, random_state=0)
    assert search_cost(drawn).fits == 16
    with pytest.raises(ValueError, match="an integer random_state"):
        search_cost(drawn.set_params(random_state=None))


def test_the_seed_of_a_search_gives_the_candidates_it_will_try(cancer):
    space = {"alpha": loguniform(1e-4, 1), "epsilon": loguniform(0.1, 1)}
    search = RandomizedSearchCV(
        DPGradientDescentClassifier(bounds=(0, 1)), space, n_iter=3, random_state=5, refit=False, cv=KFold(2)
    )
    cost = search_cost(search, delta=1.0 - 1e-9)
    search.fit(*cancer)
    tried = [candidate["epsilon"] for candidate in search.cv_results_["params"]]
    amounts = [Budget.of(epsilon, 1e-6, currency=GaussianDP()).limit for epsilon in tried]
    assert search_cost(search).epsilon == pytest.approx(
        min(sum(tried), conversions.gaussian_epsilon(3e-6, math.sqrt(sum(amounts))))
    )
    assert cost.fits == 6


@pytest.mark.parametrize("parameters", [{"random_state": 0}, {"epsilon": math.inf}])
def test_what_is_not_private_has_no_epsilon(parameters):
    cost = search_cost(GridSearchCV(DPLogisticRegression(**parameters), ALPHAS))
    assert cost.epsilon == math.inf
    assert "Nothing is guaranteed for them together" in cost.statement()


# ---------------------------------------------------------------------------------------------------- the ledger


@pytest.mark.parametrize("wrap", [False, True], ids=["bare", "pipeline"])
def test_a_search_spends_exactly_what_was_predicted(wrap, ledger, cancer):
    estimator, alpha = DPLogisticRegression(epsilon=0.5, bounds=(0, 1), ledger=ledger), "alpha"
    if wrap:
        estimator, alpha = make_pipeline(FunctionTransformer(), estimator), "dplogisticregression__alpha"
    search = GridSearchCV(estimator, {alpha: [1e-4, 1e-3]}, cv=KFold(3, shuffle=True, random_state=0))
    cost = search_cost(search)
    assert cost.enough
    search.fit(*cancer)
    history = ledger.history()
    assert len(history) == cost.fits == 7
    assert sum(spend.counted["epsilon"] for spend in history) == cost.needs["epsilon"] == 3.5
    assert cost.left == {"epsilon": 100.0, "delta": 1e-3}
    assert ledger.remaining()["epsilon"] == 96.5


def test_a_cross_validation_spends_what_was_predicted(ledger, cancer):
    model = DPAGDLogisticRegression(epsilon=0.5)
    cost = search_cost(model, cv=3, ledger=ledger.path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        cross_validate(model.set_params(ledger=ledger), *cancer, cv=3)
    assert len(ledger.history()) == cost.fits == 3
    assert ledger.remaining()["epsilon"] == 100 - cost.needs["epsilon"]


@pytest.mark.parametrize(("limit", "enough"), [(2.0, True), (1.999, False)])
def test_whether_there_is_enough_is_exact(limit, enough, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=limit, delta=1e-3)
    cost = search_cost(GridSearchCV(DPSGDClassifier(epsilon=0.1, ledger=ledger), ALPHAS, refit=False))
    assert cost.enough is enough
    assert ("NOT ENOUGH" in cost.statement()) is not enough


def test_what_the_ledger_refuses_is_refused(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-5, currency="rho")
    for model in (DPSGDClassifier(), DPLogisticRegression(random_state=0), DPLogisticRegression(adjacency="replace")):
        with pytest.raises(ValueError, match=r"has no rho|would not be private|adjacency="):
            search_cost(GridSearchCV(model, {"alpha": [1e-4]}), ledger=ledger)
    search = GridSearchCV(DPLogisticRegression(ledger=ledger), ALPHAS)
    with pytest.raises(ValueError, match="give n_rows, n_features and n_classes, or name a solver"):
        search_cost(search)
    assert search_cost(search, n_rows=1_000, n_features=5, n_classes=2).needs["rho"] > 0
    with pytest.raises(ValueError, match=r"has no rho|depends on the numbers"):
        search_cost(search, n_rows=10_000_000, n_features=5, n_classes=2)
    assert search_cost(search.set_params(estimator__solver="gradient-descent")).needs["rho"] > 0


# ------------------------------------------------------------------------------------------------------- the rest


def test_scores_are_said_to_be_unpaid():
    assert "un-noised facts about the held-out rows that nothing pays for" in str(
        search_cost(GridSearchCV(DPLogisticRegression(), ALPHAS))
    )


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        CalibratedClassifierCV(LogisticRegression()),
        make_pipeline(DPLogisticRegression(), DPLogisticRegression()),
        make_pipeline(FunctionTransformer(), LogisticRegression()),
    ],
    ids=["not private", "no private one inside", "two of them", "none of them"],
)
def test_what_cannot_be_priced_is_refused(estimator):
    with pytest.raises(ValueError, match="what one fit of it costs is not known"):
        search_cost(estimator, cv=3)


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="alpha=-1"):
        search_cost(GridSearchCV(DPLogisticRegression(), {"alpha": [-1]}))
    with pytest.raises(ValueError, match="a search has its own"):
        search_cost(GridSearchCV(DPLogisticRegression(), ALPHAS), cv=3)
    with pytest.raises(ValueError, match="list of splits"):
        search_cost(DPLogisticRegression(), cv=iter([]))


def test_nothing_is_fitted_and_nothing_spent(ledger):
    search = GridSearchCV(DPLogisticRegression(ledger=ledger), ALPHAS)
    search_cost(search)
    assert ledger.history() == []
    assert not hasattr(search, "best_score_")
    assert search.estimator.ledger is ledger


@pytest.mark.parametrize("delta", [-1.0, 2.0, "x"])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(ValueError, match=r"delta=.* must be None or lie in"):
        search_cost(GridSearchCV(DPLogisticRegression(), ALPHAS), delta=delta)


def test_what_may_fit_more_or_promises_two_things_is_refused(ledger, tmp_path):
    class Twice(GridSearchCV):
        pass

    with pytest.raises(ValueError, match="Twice holds a private estimator, and how often it fits it is not known"):
        search_cost(Twice(DPLogisticRegression(), ALPHAS))
    for space in ({"adjacency": ["zero-out", "replace"]}, {"ledger": [None, ledger]}):
        with pytest.raises(ValueError, match="the candidates differ in"):
            search_cost(GridSearchCV(DPLogisticRegression(), space))


def test_a_candidate_that_is_not_private_does_not_make_the_others_free(tmp_path):
    ledger = PrivacyLedger(tmp_path / "mixed.db", epsilon=1.0, delta=1e-3, allow_nonprivate=True)
    search = GridSearchCV(DPLogisticRegression(ledger=ledger), {"random_state": [0, None]}, cv=KFold(3), refit=False)
    cost = search_cost(search)
    assert cost.needs == {"epsilon": 3.0, "delta": 3e-6}
    assert not cost.enough


def test_the_statement_says_what_it_takes_for_granted():
    text = search_cost(GridSearchCV(DPLogisticRegression(adjacency="replace"), ALPHAS)).statement()
    assert "every other step of a pipeline treats each row by itself" in text
    assert "one row is replaced by any other" in text


# ------------------------------------------------------------------------------------------------------------ units


def test_the_unit_is_that_of_the_fits(tmp_path):
    cost = search_cost(GridSearchCV(DPLogisticRegression(group_column="patient"), ALPHAS, cv=3))
    assert cost.unit == "patient"
    for part in (
        "any one patient is seen by",
        Adjacency.ZERO_OUT.words("patient"),
        "numbers of patients and of rows in each",
    ):
        assert part in cost.statement()
    assert search_cost(DPLogisticRegression()).unit == "row"
    assert "patient" not in search_cost(DPLogisticRegression()).statement()


def test_ids_in_an_array_count_where_the_fits_get_them(tmp_path):
    """scikit-learn gives them to the splitter alone, unless the estimator asks for them."""
    ids = np.arange(60) // 3
    given = {"X": np.zeros((60, 1)), "y": np.arange(60) % 2, "groups": ids, "cv": GroupKFold(3)}
    assert search_cost(DPLogisticRegression(), **given).unit == "row"
    ledger = PrivacyLedger(tmp_path / "patients.db", epsilon=100.0, delta=1e-3, unit="patient")
    with config_context(enable_metadata_routing=True):
        assert search_cost(DPLogisticRegression(), **given).unit == "row"
        asking = DPLogisticRegression().set_fit_request(groups=True)
        assert search_cost(asking, **given).unit == "person"
        assert search_cost(asking, cv=3).unit == "row", "no ids, no persons"
        booked = search_cost(asking, ledger=ledger, **given)
        piped = make_pipeline(FunctionTransformer(), asking)
        assert search_cost(piped, **given).unit == "person"
    assert booked.unit == "patient", "the ledger names the persons"
    assert booked.enough
    assert search_cost(asking, **given).unit == "row", "without routing fits get no ids"


def test_folds_give_a_person_no_discount():
    """Rows of one person lie in every fold of KFold; the fold that GroupKFold gives it depends on others."""
    ids = np.tile(np.arange(5), 12)
    seen = [set(ids[train]) for train, _ in KFold(4).split(ids)]
    assert all(persons == set(range(5)) for persons in seen)
    many, few = np.repeat(np.arange(6), [5, 4, 3, 3, 2, 2]), np.repeat(np.arange(6), [1, 4, 3, 3, 2, 2])
    folds = [[set(g[test]) for _, test in GroupKFold(3).split(g, groups=g)] for g in (many, few)]
    alike = [[others - {0} for others in fold] for fold in folds]
    assert sorted(map(sorted, alike[0])) != sorted(map(sorted, alike[1])), "one person moves the others"
    for cv in (KFold(4), RepeatedKFold(n_splits=4, n_repeats=2)):
        cost, rows = (
            search_cost(DPLogisticRegression(group_column="id"), cv=cv),
            search_cost(DPLogisticRegression(), cv=cv),
        )
        assert cost.fits_on_a_row == cost.fits == rows.fits > rows.fits_on_a_row
        assert cost.epsilon > rows.epsilon
        assert cost.folds_are_public
        assert rows.folds_are_public


def test_candidates_of_different_units_do_not_add_up():
    search = GridSearchCV(DPLogisticRegression(), {"group_column": [None, "patient"]})
    with pytest.raises(ValueError, match="differ in the unit of protection"):
        search_cost(search)


def test_a_ledger_of_another_unit_refuses_a_search(tmp_path, ledger):
    patients = PrivacyLedger(tmp_path / "patients.db", epsilon=100.0, delta=1e-3, unit="patient")
    assert search_cost(DPLogisticRegression(group_column="patient"), ledger=patients).unit == "patient"
    with pytest.raises(ValueError, match=r"'row'.*'patient'.*Give the ids"):
        search_cost(DPLogisticRegression(), ledger=patients)
    with pytest.raises(ValueError, match=r"'patient'.*'row'"):
        search_cost(DPLogisticRegression(group_column="patient"), ledger=ledger)


def test_training_sets_may_hold_any_number_of_persons():
    """Half of the rows may be those of one person, so a plan that depends on their number is not counted on."""
    sizes = {"n_rows": 3000, "n_features": 5, "n_classes": 2}
    rows = search_cost(DPLogisticRegression(solver="auto"), cv=5, **sizes)
    persons = search_cost(DPLogisticRegression(solver="auto", group_column="id"), cv=5, **sizes)
    assert persons.composition in ("basic", rows.composition)
    assert persons.epsilon >= rows.epsilon
