"""PrivateSearchCV: scikit-learn's contract, what every run pays, and that nobody learns how many there were."""

import pickle
import time
import traceback
import warnings
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import CHECKED, PURE, SHORT, Untouchable
from scipy.stats import chi2, kstest, loguniform, randint
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_estimators import walk

from dpsk import (
    DPAGDSVC,
    BudgetExhausted,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    PrivacyLedger,
    PrivateSearchCV,
    private_score,
)
from dpsk.mechanisms import SeededBits, bits_for
from dpsk.model_selection import NothingSelected, Poisson, TruncatedNegativeBinomial, runs, search
from dpsk.model_selection.runs import Run, Space
from dpsk.privacy import ZCDP, Budget, GaussianCost, GaussianDP, Ledger, PrivacySpent, PureDP, allowance, conversions
from dpsk.privacy.allowance import Allowance
from dpsk.privacy.repetition import BestOf, Within

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")

SPACE = {"alpha": [1e-4, 1e-3, 1e-2]}
STEP = FunctionTransformer()
TEN_RUNS = TruncatedNegativeBinomial(1.0, 0.1)
TWO_RUNS = TruncatedNegativeBinomial(1.0, 0.5)


def searching(estimator=None, space=SPACE, **parameters):
    parameters = {"n_iter_distribution": TEN_RUNS, **parameters}
    return PrivateSearchCV(DPLogisticRegression() if estimator is None else estimator, space, **parameters)


def refused_rows_become_zeros(search):
    """What a step in front cannot take is not told, so a check that asks for an error about one entry does not hold."""
    checks = ("check_dtype_object",) if isinstance(search.estimator, Pipeline) else ()
    return dict.fromkeys(checks, "a row that does not become numbers becomes zeros")


@pytest.mark.slow
@parametrize_with_checks(
    [
        searching(n_iter_distribution=TWO_RUNS),
        searching(
            make_pipeline(STEP, DPLogisticRegression()),
            {"dplogisticregression__alpha": [1e-4, 1e-2]},
            n_iter_distribution=TWO_RUNS,
        ),
    ],
    expected_failed_checks=refused_rows_become_zeros,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------------------------- it searches


def test_it_finds_what_is_better(cancer):
    model = searching(space={"alpha": [1e-3, 1e4]}, epsilon=8.0, random_state=0).fit(*cancer)
    assert model.best_params_ == {"alpha": 1e-3}
    assert model.best_estimator_.alpha == 1e-3
    assert model.score(*cancer) > 0.9
    assert 0.8 < model.best_score_ <= 1


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("Estimator", CHECKED)
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_every_estimator_can_be_searched_over(Estimator, data, request):
    X, y = request.getfixturevalue(data)
    made = Estimator(**SHORT.get(Estimator, {}))
    model = searching(made, epsilon=20.0, n_iter_distribution=TWO_RUNS, random_state=1).fit(X, y)
    assert set(model.best_params_) == {"alpha"}
    assert model.score(X, y) > 0.5 or Estimator in PURE  # penalties as small as these need more rows there
    # a perturbed objective keeps half of epsilon for determinants where data are easy, which is known with the data
    assert 0.6 * model.run_budget().epsilon < model.best_estimator_.epsilon <= model.run_budget().epsilon
    assert model.privacy_spent_.epsilon == 20.0
    assert "NOT PRIVATE" in model.privacy_spent_.statement()


@pytest.mark.slow
def test_a_perturbed_objective_is_calibrated_for_the_rows_it_will_see(cancer):
    """Its plan depends on public facts; a run would fail if the search had covered another one."""
    model = searching(ObjectivePerturbationClassifier(), epsilon=30.0, n_iter_distribution=Poisson(4.0), random_state=0)
    assert model.fit(*cancer).score(*cancer) > 0.9


@pytest.mark.slow
def test_candidates_may_differ_in_kind(cancer):
    pipeline = Pipeline([("scale", STEP), ("model", DPLogisticRegression())])
    space = {"model": [DPLogisticRegression(), DPAGDSVC(), DPSGDClassifier(steps=20)], "scale": ["passthrough", STEP]}
    given = pickle.dumps(space)
    seen = {
        type(searching(pipeline, space, epsilon=9.0, random_state=seed).fit(*cancer).best_params_["model"])
        for seed in range(4)
    }
    assert len(seen) > 1
    assert pickle.dumps(space) == given, "the models of the caller stay as they are"


@pytest.mark.slow
def test_a_table_with_names_and_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 300), "kind": rng.choice(["a", "b", "c"], 300)})
    y = pd.Series(np.where((frame["age"] > 50) ^ (frame["kind"] == "b"), "yes", "no"))
    encoder = make_column_transformer(
        (OneHotEncoder(categories=[["a", "b", "c"]]), ["kind"]),
        (FunctionTransformer(lambda age: age / 90, feature_names_out="one-to-one"), ["age"]),
    )
    pipeline = make_pipeline(encoder, DPLogisticRegression())
    model = searching(pipeline, {"dplogisticregression__alpha": [1e-4, 1e-2]}, epsilon=8.0).fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "kind"]
    assert model.n_features_in_ == 2
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(frame.head())) <= {"no", "yes"}
    assert model.predict_proba(frame).shape == (300, 2)


@pytest.mark.slow
def test_it_works_as_a_step_and_under_cross_validation(cancer):
    model = make_pipeline(FunctionTransformer(np.sqrt), searching(epsilon=8.0, random_state=0))
    result = cross_validate(model, *cancer, cv=3, return_estimator=True)
    assert min(result["test_score"]) > 0.8
    assert all(fitted[-1].privacy_spent_.epsilon == 8.0 for fitted in result["estimator"])


@pytest.mark.slow
@pytest.mark.parametrize("storage", [sp.csr_matrix, sp.coo_array, np.asfortranarray, np.ndarray.tolist])
def test_storage_does_not_matter(storage, cancer):
    X, y = cancer
    one, other = (searching(random_state=4).fit(rows, y) for rows in (X, storage(X)))
    np.testing.assert_array_equal(one.best_estimator_.coef_, other.best_estimator_.coef_)


@pytest.mark.slow
def test_a_pure_search_says_what_it_is_and_protects_groups(cancer):
    model = searching(OutputPerturbationLogisticRegression(), {"alpha": [0.1]}, epsilon=8.0, delta=0.0).fit(*cancer)
    text = model.privacy_spent_.statement()
    assert "pure 8-differential privacy (delta = 0) (as the best of a secret number of fits" in text
    assert "epsilon is 16 for 2 rows and 80 for 10" in text
    assert model.privacy_spent_.epsilon_for_group(3) == 24.0
    with pytest.raises(ValueError, match="gives no statement for groups"):
        searching(epsilon=8.0).fit(*cancer).privacy_spent_.epsilon_for_group(3)


@pytest.mark.slow
def test_replaced_rows(cancer):
    model = searching(DPLogisticRegression(adjacency="replace"), epsilon=8.0).fit(*cancer)
    assert model.privacy_spent_.adjacency == "replace"
    assert "one row is replaced" in model.privacy_spent_.statement()


@pytest.mark.slow
def test_methods_are_those_of_the_best_model(cancer):
    X, y = cancer
    model = searching(epsilon=4.0).fit(X, y)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(model, name)(X), getattr(model.best_estimator_, name)(X))
    assert not hasattr(searching(DPAGDSVC()), "predict_proba")
    assert hasattr(searching(), "predict_proba")
    assert private_score(model, X, y, epsilon=1.0).n_rows == len(y)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.privacy_spent_ == model.privacy_spent_
    copy = clone(model)
    assert not hasattr(copy, "best_estimator_")
    assert not hasattr(copy, "n_features_in_")
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_nested_parameters():
    model = searching()
    assert model.get_params()["estimator__alpha"] == 1e-4
    assert model.set_params(estimator__adjacency="replace").estimator.adjacency == "replace"


# ------------------------------------------------------------------------------------------------ reproducibility


@pytest.mark.slow
def test_a_seed_fixes_everything_however_many_run_at_a_time(cancer):
    space = {"alpha": loguniform(1e-5, 1e-1), "standardize": ["private", None]}
    models = [searching(space=space, random_state=7, n_jobs=jobs).fit(*cancer) for jobs in (None, 1, 2)]
    for model in models[1:]:
        assert model.best_params_ == models[0].best_params_
        assert model.best_score_ == models[0].best_score_
        np.testing.assert_array_equal(model.best_estimator_.coef_, models[0].best_estimator_.coef_)
    assert not models[0].privacy_spent_.private
    assert not models[0].best_estimator_.privacy_spent_.private


@pytest.mark.slow
def test_without_a_seed_searches_differ_and_are_private(cancer):
    one, other = (searching(n_jobs=2).fit(*cancer) for _ in range(2))
    assert not np.array_equal(one.best_estimator_.coef_, other.best_estimator_.coef_)
    assert one.privacy_spent_.private
    assert "NOT PRIVATE" not in one.privacy_spent_.statement()


@pytest.mark.slow
def test_every_run_has_noise_of_its_own(cancer, monkeypatch):
    """With and without a seed; a repeated seed would give the same model twice."""
    for seed in (None, 0):
        models = []
        original = Run._outcome

        def spying(self, *args, models=models, original=original):
            models.append(original(self, *args))
            return models[-1]

        monkeypatch.setattr(Run, "_outcome", spying)
        monkeypatch.setattr(search, "repetitions", lambda *_: 8)
        searching(space={"alpha": [1e-3]}, random_state=seed).fit(*cancer)
        monkeypatch.undo()
        assert len({outcome.model.coef_.tobytes() for outcome in models}) == 8


# ----------------------------------------------------------------------------------------------- what a run pays


@pytest.fixture
def books(monkeypatch):
    """Every ledger that a run charged."""
    opened = []

    class Recorded(Ledger):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            opened.append(self)

    monkeypatch.setattr(allowance, "Ledger", Recorded)
    return opened


@pytest.mark.parametrize("law", [TEN_RUNS, Poisson(10.0)], ids=repr)
def test_every_run_pays_for_its_fit_and_for_its_score(law, books, cancer, monkeypatch):
    monkeypatch.setattr(search, "repetitions", lambda *_: 5)
    model = searching(epsilon=3.0, n_iter_distribution=law).fit(*cancer)
    assert len(books) == 10, "five fits and five scores"
    for fit, score in zip(books[::2], books[1::2], strict=True):
        assert fit.budget.currency == GaussianDP()
        assert score.budget.currency == PureDP()
        assert [release.label for release in score.releases] == ["successes"]
        assert score.charged == score.budget.limit
        assert 0.5 * fit.budget.limit < fit.charged <= fit.budget.limit
        assert model.privacy_spent_.currency.covers(fit.budget, score.budget)
        assert fit.budget.epsilon < 3.0
    # nor could they have had more: a hundredth more of mu**2, or of epsilon, is not covered
    covers = model.privacy_spent_.currency.covers
    more = 1.01 * fit.budget.limit
    assert not covers(Budget(GaussianDP().epsilon(more, 1e-6), 1e-6, GaussianDP(), more))
    assert not covers(Budget.of(1.01 * score.budget.epsilon, 0.0))


@pytest.mark.slow
def test_scores_have_the_noise_that_they_pay_for(cancer):
    """Kolmogorov-Smirnov at error probability 1e-6; a score without noise, or with half of it, fails."""
    model = searching(DPGradientDescentClassifier(steps=2, standardize=None), {}, epsilon=1.0, random_state=0)
    run, *_ = model._planned()
    epsilon = run.score_epsilon()
    X, y = cancer
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    shares = np.arange(600), np.arange(600, len(y))
    noise = []
    for seed in range(400):
        outcome = run({}, (0, seed), X, y, np.array([0, 1]), shares)
        noise.append(outcome.score / 2**20 - (outcome.model.predict(X[600:]) == y[600:]).sum())
        assert outcome.accuracy == np.clip(outcome.score / 2**20 / (len(y) - 600), 0, 1), "shown with its noise only"
    noise = np.array(noise)
    assert kstest(noise * epsilon, "laplace").pvalue > 1e-6
    assert kstest(2 * noise * epsilon, "laplace").pvalue < 1e-6
    assert kstest(0 * noise, "laplace").pvalue < 1e-6


def test_the_base_budget_is_what_the_theorem_asks_for():
    """By the closed form for equal currencies, without the code that plans."""
    model = searching(epsilon=1.0, delta=1e-6, n_iter_distribution=TruncatedNegativeBinomial(1.0, 0.1))
    budget = model.run_budget()
    mu = np.sqrt(budget.limit)
    far, near = conversions.gaussian_epsilon(1e-6 / 10, mu), 0.0
    while conversions.gaussian_delta(near, mu) > 0.1 / 0.9 * np.expm1(near):
        near += 1e-5
    assert far + 2 * near == pytest.approx(1.0, abs=1e-4)


@pytest.mark.slow
def test_shares_are_disjoint_and_do_not_look_at_the_data(cancer, monkeypatch):
    seen = []
    original = Run.__call__

    def spying(self, parameters, seeds, X, y, classes, shares, persons=None):
        seen.append(shares)
        return original(self, parameters, seeds, X, y, classes, shares, persons)

    monkeypatch.setattr(Run, "__call__", spying)
    X, y = cancer
    searching(random_state=3, validation_fraction=0.25).fit(X, y)
    once = seen.pop()
    seen.clear()
    searching(random_state=3, validation_fraction=0.25).fit(1 - X[::-1], 1 - y)
    for one, other in zip(once, seen[0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.sort(np.concatenate(once)), np.arange(len(y)))
    assert len(once[1]) == round(0.25 * len(y))
    seen.clear()
    searching(validation_fraction=0.25).fit(X, y)
    assert not np.array_equal(seen[0][1], once[1]), "drawn anew without a seed"


def test_fits_and_scores_see_the_rows_of_their_share_only(monkeypatch):
    """What makes one bound enough for both; every row is in one of them."""
    rows = {"fit": [], "score": []}

    class Witness(DPLogisticRegression):
        def fit(self, X, y=None, **unsupported):
            rows["fit"].append(set(X[:, 0].tolist()))
            return super().fit(X, y, **unsupported)

        def predict(self, X):
            rows["score"].append(X[:, 0].tolist())
            return super().predict(X)

    monkeypatch.setattr(search, "repetitions", lambda *_: 4)
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[:, 0] = np.arange(300)
    model = searching(Witness(), epsilon=20.0, validation_fraction=0.3)
    model.fit(X, X[:, 1] > 0)
    scored = {x for (x,) in rows["score"]}  # one at a time: this predict is not known to judge each row by itself
    assert len(rows["fit"]) == 4
    assert len(rows["score"]) == 4 * 90
    assert all(one == rows["fit"][0] for one in rows["fit"])
    assert len(scored) == 90
    assert rows["fit"][0].isdisjoint(scored)
    assert rows["fit"][0] | scored == set(range(300))


@pytest.mark.slow
def test_the_label_set_is_that_of_all_rows():
    """A class that only few rows have may be missing from a share; whether it is would depend on the data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] > 0).astype(int)
    y[7] = 2  # in half of the searches it is not among the rows of the fit
    for seed in range(6):
        model = searching(epsilon=9.0, n_iter_distribution=TWO_RUNS, validation_fraction=0.5, random_state=seed)
        assert model.fit(X, y).classes_.tolist() == [0, 1, 2]
        assert model.best_estimator_.classes is None


def test_an_allowance_lets_one_covered_budget_through():
    covering = BestOf(TEN_RUNS, (Within(1.0, 1e-6), Within(0.2, 1e-2)))
    small, large = (Budget.of(e, 1e-6, currency=ZCDP()) for e in (0.3, 2.0))
    what = {"label": "a fit", "adjacency": "zero-out", "private": True}

    def allowed():
        return Allowance(covering, adjacency="zero-out", private=True)

    once = allowed()
    with once.fit(small, **what) as ledger:
        assert ledger.budget == small
    with pytest.raises(RuntimeError, match="closed"):
        ledger.charge(GaussianCost(1e-3), "later")
    with pytest.raises(ValueError, match="one fit and one score"), once.fit(small, **what):
        pass
    with pytest.raises(ValueError, match="more than the search allows"), allowed().fit(large, **what):
        pass
    for other in ({"adjacency": "replace"}, {"private": False}):
        with pytest.raises(ValueError, match="another promise"), allowed().fit(small, **what | other):
            pass
    with pytest.raises(ValueError, match="another promise"), allowed().fit(None, **what):
        pass


def test_the_same_promise_in_another_currency_has_to_be_covered_too():
    concentrated, gaussian = (Budget.of(0.3, 1e-6, currency=currency) for currency in (ZCDP(), GaussianDP()))
    what = {"label": "a fit", "adjacency": "zero-out", "private": True}
    for searched, planned in product((concentrated, gaussian), repeat=2):
        near = Within(0.05, searched.currency.delta(searched.limit, 0.05))
        allowance = Allowance(BestOf(TEN_RUNS, (Within(1.0, 1e-6), near)), adjacency="zero-out", private=True)
        if planned is gaussian or searched is concentrated:  # the same promise in mu**2 has the better profile
            with allowance.fit(planned, **what) as ledger:
                assert ledger.budget == planned
            continue
        with pytest.raises(ValueError, match="the budget of this run, in rho, is more than the search allows"):
            allowance.fit(planned, **what).__enter__()
        with allowance.fit(gaussian, **what) as ledger:  # what was refused has used nothing up
            assert ledger.charged == 0


def test_an_allowance_cannot_be_copied():
    covering = BestOf(TEN_RUNS, (Within(1.0, 1e-6), Within(0.2, 1e-2)))
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(Allowance(covering, adjacency="zero-out", private=True))


# ------------------------------------------------------------------------------------------- the number of runs

PUBLIC = {"best_estimator_", "best_params_", "best_score_", "privacy_spent_"}


def hints_at(model, number):
    """What a fitted search holds that may tell how many runs there were."""
    found = set(vars(model)) - set(model.get_params(deep=False)) - PUBLIC
    for thing in walk(model):
        if isinstance(thing, int | float) and not isinstance(thing, bool) and thing == number:
            found.add(f"the number {thing}")
        if isinstance(thing, list | tuple | dict | np.ndarray) and np.shape(thing)[:1] == (number,):
            found.add(f"{type(thing).__name__} of that many")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [0, 2])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_nothing_tells_how_many_runs_there_were(verbose, n_jobs, cancer, tmp_path, monkeypatch, capfd, recwarn):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=5.0, delta=1e-5)
    monkeypatch.setattr(search, "repetitions", lambda *_: 23)
    warnings.simplefilter("always")  # each of these fits has too few rows for its epsilon
    pipeline = Pipeline([("same", STEP), ("model", DPLogisticRegression(verbose=verbose))], verbose=verbose > 0)
    space = {"model__alpha": [1e-3, 1e-2]}
    model = searching(pipeline, space, epsilon=0.2, ledger=ledger, n_jobs=n_jobs).fit(*cancer)
    assert hints_at(pickle.loads(pickle.dumps(model)), 23) == set()
    assert capfd.readouterr() == ("", "")
    assert len(recwarn) == 1, "one warning for the search, and none for its runs"
    assert [spend.label for spend in ledger.history()] == ["PrivateSearchCV"]
    assert len(model.privacy_spent_.releases) == 1
    # the checker is not blind
    model.n_runs_, model.history = 23, list(range(23))
    assert len(hints_at(model, 23)) >= 3


@pytest.mark.slow
def test_runs_in_threads_do_not_warn_either(cancer, monkeypatch, recwarn):
    """Filters belong to all threads: a run that ends takes back those of one that has not ended."""

    def dawdling(*_):
        time.sleep(np.random.default_rng().uniform(0, 0.02))
        warnings.warn("one more run", UserWarning, stacklevel=2)

    monkeypatch.setattr(search, "repetitions", lambda *_: 4)
    monkeypatch.setattr(Run, "_outcome", dawdling)
    warnings.simplefilter("always")
    for _ in range(15):
        with joblib.parallel_config("threading"), pytest.raises(NothingSelected):
            searching(epsilon=30.0, n_jobs=4).fit(*cancer)
    assert len(recwarn) == 0


class Deck:
    """A grid that is drawn from without replacement."""

    def __init__(self, values):
        self.left = list(values)

    def rvs(self, random_state):
        return self.left.pop(int(random_state.integers(len(self.left))))


def test_a_distribution_that_remembers_its_draws_does_not_count_them(cancer):
    deck = Deck([1e-4, 1e-3])
    model = searching(space={"alpha": deck}).fit(*cancer)
    assert model.param_distributions["alpha"] is deck
    assert len(deck.left) == 2
    space, bits = Space.of({"alpha": deck}, DPLogisticRegression()), SeededBits(0)
    repeated = sum(len({space.draw(bits)["alpha"] for _ in range(2)}) == 1 for _ in range(100))
    assert 20 < repeated < 80  # 50 +- 5 of independent draws: six standard deviations


def test_callbacks_and_caches_are_left_out(cancer, tmp_path):
    class Counting(BaseEstimator, TransformerMixin):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X

    model = DPLogisticRegression()
    model._skl_callbacks = ["anything: a fit would call it"]
    pipeline = make_pipeline(Counting(), model, memory=str(tmp_path / "cache"))
    fitted = searching(pipeline, {"dplogisticregression__alpha": [1e-3]}).fit(*cancer)
    assert not list(tmp_path.iterdir())
    assert not hasattr(fitted.best_estimator_[-1], "_skl_callbacks")
    assert pipeline.memory is not None


def test_the_model_does_not_claim_what_a_run_promised(cancer):
    """The best of several is not as private as one fit."""
    model = searching(epsilon=2.0).fit(*cancer)
    assert model.best_estimator_.privacy_spent_ == model.privacy_spent_
    assert model.best_estimator_.epsilon < 2.0
    text = model.best_estimator_.privacy_spent_.statement()
    assert "(2, 1e-06)-differential privacy (as the best of a secret number of fits" in text
    assert "every parameter of the search" in text
    reports = [thing for thing in walk(model) if isinstance(thing, PrivacySpent)]
    assert {report.epsilon for report in reports} == {2.0}
    assert model.best_estimator_.ledger is model.best_estimator_.random_state is None


# ----------------------------------------------------------------------------------------------------- failures


class Fragile(DPLogisticRegression):
    """Fails as a fit might, with a message that quotes data."""

    def _learn(self, X, *rest):
        if self.alpha > 1:
            raise BudgetExhausted(f"the first value was {X[0, 0]}")
        return super()._learn(X, *rest)


@pytest.mark.slow
def test_a_run_that_fails_is_the_worst_outcome_and_stops_nothing(cancer, monkeypatch):
    monkeypatch.setattr(search, "repetitions", lambda *_: 12)
    for seed in range(3):
        model = searching(Fragile(), {"alpha": [1e-3, 10.0]}, random_state=seed).fit(*cancer)
        assert model.best_params_ == {"alpha": 1e-3}


@pytest.mark.parametrize("why", ["failures", "no runs"])
def test_a_search_may_come_to_nothing_and_is_paid_for(why, cancer, tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.5, delta=1e-5)
    if why == "no runs":
        monkeypatch.setattr(search, "repetitions", lambda *_: 0)
    else:
        monkeypatch.setattr(runs.Run, "_outcome", lambda *_: 1 / 0)
    model = searching(n_iter_distribution=Poisson(3.0), ledger=ledger)
    model.best_score_ = "of an earlier fit"
    with pytest.raises(NothingSelected, match="which of the two is not told") as caught:
        model.fit(*cancer)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert model.privacy_spent_.epsilon == 1.0
    assert ledger.remaining()["epsilon"] == 0.5
    assert not hasattr(model, "best_score_")
    with pytest.raises(NotFittedError):
        model.predict(cancer[0])


@pytest.mark.thorough
@pytest.mark.slow
def test_poisson_comes_to_nothing_as_often_as_it_should(cancer):
    """exp(-0.5) = 0.61 of 60 searches; beyond 16 and 54 with a probability below 1e-6."""
    X, y = cancer[0][:40], cancer[1][:40]
    nothing = 0
    for seed in range(60):
        try:
            searching(n_iter_distribution=Poisson(0.5), random_state=seed, epsilon=20.0).fit(X, y)
        except NothingSelected:
            nothing += 1
    assert 17 <= nothing <= 53


@pytest.mark.parametrize("what", ["nan", "text", "one class", "two rows"])
def test_bad_data_are_refused_before_anything_is_paid(what, cancer, tmp_path):
    X, y = cancer[0].copy(), cancer[1]
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.5, delta=1e-5)
    if what == "nan":
        X[3, 4] = np.nan
    elif what == "text":
        X = X.astype(object)
        X[3, 4] = "secret"
    elif what == "one class":
        y = np.ones(len(y))
    else:
        X, y = X[[0, 100]], np.array([0, 1])
    with pytest.raises(ValueError, match=r"NaN|numbers are needed|2 classes|at least 3 rows") as caught:
        searching(ledger=ledger).fit(X, y)
    assert "secret" not in str(caught.value)
    assert ledger.remaining()["epsilon"] == 1.5
    assert [spend.state for spend in ledger.history()] == ["returned"]


def test_a_step_that_cannot_take_the_rows_says_so(cancer):
    class Picky(FunctionTransformer):
        def transform(self, X):
            raise ValueError("no such rows")

    with pytest.raises(ValueError, match="refuse every row") as caught:
        searching(make_pipeline(Picky(), DPLogisticRegression()), {}).fit(*cancer)
    assert "no such rows" not in "".join(traceback.format_exception(caught.value)), "it may quote values"


@pytest.mark.thorough
@pytest.mark.slow
def test_doubts_are_told_once(cancer):
    with pytest.warns(UserWarning, match=r"delta=0\.01 is larger than 1/n") as caught:
        searching(delta=0.01, epsilon=9.0).fit(*cancer)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        searching(DPSGDClassifier(steps=5), epsilon=30.0, n_iter_distribution=TWO_RUNS).fit(*cancer)


# ------------------------------------------------------------------------------------------------------- ledgers


@pytest.mark.slow
def test_a_ledger_has_the_whole_search_set_aside(cancer, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.5, delta=1e-5)
    searching(ledger=ledger).fit(*cancer)
    searching(ledger=ledger.path, epsilon=1.5).fit(*cancer)
    assert ledger.remaining()["epsilon"] == 0
    with pytest.raises(BudgetExhausted, match="Nothing was drawn"):
        searching(ledger=ledger).fit(Untouchable(), Untouchable())
    assert "2 fits" in repr(ledger)


@pytest.mark.parametrize("currency", ["rho", "mu**2"])
def test_a_ledger_in_another_currency_says_which_to_use(currency, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.5, delta=1e-5, currency=currency)
    with pytest.raises(ValueError, match="use a ledger with currency='basic'"):
        searching(ledger=ledger).fit(Untouchable(), Untouchable())


def test_a_ledger_refuses_what_it_must(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.5, delta=1e-5)
    with pytest.raises(ValueError, match="private"):
        searching(ledger=ledger, random_state=0).fit(Untouchable(), Untouchable())
    with pytest.raises(ValueError, match="adjacency"):
        searching(DPLogisticRegression(adjacency="replace"), ledger=ledger).fit(Untouchable(), Untouchable())


# ---------------------------------------------------------------------------------------------------- parameters

BAD = {
    "not ours": ({"estimator": LogisticRegression()}, "neither one of dpsk's classifiers"),
    "not last": ({"estimator": make_pipeline(DPLogisticRegression(), LogisticRegression())}, "neither one of dpsk's"),
    "a search": ({"estimator": searching()}, "PrivateSearchCV is neither .* costs its own epsilon and delta"),
    "nothing": ({"estimator": None}, "NoneType is neither one of dpsk's classifiers"),
    "a class": ({"estimator": DPLogisticRegression}, "the class DPLogisticRegression is neither"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs=0 must be None or an integer"),
    "n_jobs, a fraction": ({"n_jobs": 0.5}, r"n_jobs=0\.5 must be None or an integer"),
    "key": ({"param_distributions": {3: [1.0]}}, "cannot hold 3: its keys are names"),
    "distribution without parameters": ({"param_distributions": {"alpha": loguniform}}, "a method rvs and its"),
    "epsilon": ({"epsilon": 0.0}, r"epsilon=0\.0"),
    "epsilon infinite": ({"epsilon": np.inf}, "epsilon=inf"),
    "delta": ({"delta": 0.0}, "delta=0"),
    "delta text": ({"delta": "small"}, "delta='small'"),
    "law": ({"n_iter_distribution": 10}, "n_iter_distribution=10 must be None, a TruncatedNegativeBinomial"),
    "validation_fraction": ({"validation_fraction": 1.0}, r"validation_fraction=1\.0 must lie in \(0, 1\)"),
    "random_state": ({"random_state": np.random.RandomState(0)}, "random_state="),
    "space": ({"param_distributions": 3}, "param_distributions=3 must be a dict"),
    "empty list of spaces": ({"param_distributions": []}, r"param_distributions=\[\] must be a dict"),
    "no values": ({"param_distributions": {"alpha": []}}, "must be a list that is not empty"),
    "a number": ({"param_distributions": {"alpha": 1.0}}, "must be a list that is not empty"),
    "text": ({"param_distributions": {"loss": "hinge"}}, "must be a list that is not empty"),
    "no such parameter": ({"param_distributions": {"C": [1.0]}}, "Invalid parameter 'C'"),
    "bad value": ({"param_distributions": {"alpha": [1e-3, -1.0]}}, r"alpha=-1\.0"),
    "bad value of a distribution": ({"param_distributions": {"alpha": randint(-3, 2)}}, "alpha=-"),
    "searched epsilon": ({"param_distributions": {"epsilon": [1.0, 2.0]}}, "cannot hold 'epsilon'"),
    "searched seed": ({"param_distributions": {"random_state": [1]}}, "cannot hold 'random_state'"),
    "searched epsilon in a pipeline": (
        {
            "estimator": make_pipeline(STEP, DPLogisticRegression()),
            "param_distributions": {"dplogisticregression__epsilon": [1.0]},
        },
        "cannot hold 'dplogisticregression__epsilon'",
    ),
    "seeded estimator": ({"estimator": DPLogisticRegression(random_state=0)}, "random_state=0 of the estimator must"),
    "estimator with rho": ({"estimator": DPLogisticRegression(rho=0.1)}, r"rho=0\.1 of the estimator must be None"),
    "estimator with a ledger": ({"estimator": DPLogisticRegression(ledger="x")}, "ledger='x' of the estimator must"),
    "bad estimator": ({"estimator": DPLogisticRegression(alpha=-2.0)}, r"alpha=-2\.0"),
    "pld": ({"estimator": DPSGDClassifier(accountant="pld")}, "accountant='pld' of the estimator takes too long"),
    "mixed adjacency": (
        {
            "estimator": Pipeline([("model", DPLogisticRegression())]),
            "param_distributions": {"model": [DPLogisticRegression(adjacency="replace")]},
        },
        "adjacency='replace' of a candidate",
    ),
    "another last step": (
        {
            "estimator": Pipeline([("model", DPLogisticRegression())]),
            "param_distributions": {"model": [LogisticRegression()]},
        },
        "neither one of dpsk's",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_refused_before_the_data_are_touched(case):
    parameters, message = BAD[case]
    model = searching().set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(Untouchable(), Untouchable())


def test_sample_weights_are_refused_with_a_reason(cancer):
    with pytest.raises(TypeError, match=r"sample_weight cannot be given to a search.*class_weight"):
        searching().fit(*cancer, sample_weight=np.ones(569))


def test_a_random_state_of_another_step_may_be_searched(cancer):
    class Shuffled(FunctionTransformer):
        def __init__(self, random_state=None):
            super().__init__()
            self.random_state = random_state

    pipeline = make_pipeline(Shuffled(), DPLogisticRegression())
    searching(pipeline, {"shuffled__random_state": [0, 1]}, epsilon=8.0).fit(*cancer)


def test_upstream_steps_are_fitted_on_the_share_of_fits(cancer):
    """What they learn is their own affair, but it is not learned from the rows held out for scores."""
    X, y = cancer
    X = X + 0.0
    X[:, 0] = np.arange(len(y))
    model = searching(
        make_pipeline(MinMaxScaler(), DPLogisticRegression()), {}, validation_fraction=0.5, random_state=5
    )
    with pytest.warns(UserWarning, match=r"minmaxscaler \(MinMaxScaler\) learns"):
        fitted = model.fit(X, y)
    assert fitted.best_estimator_[0].n_samples_seen_ == len(y) - round(0.5 * len(y))


# ------------------------------------------------------------------------------------------------ drawing parameters


def test_parameters_are_drawn_independently_with_replacement():
    """Chi-square at error probability 1e-6 over pairs of successive draws: all pairs occur, equal ones included."""
    space, bits = Space.of({"alpha": [1e-4, 1e-3, 1e-2]}, DPLogisticRegression()), SeededBits(1)
    draws = [space.draw(bits)["alpha"] for _ in range(1801)]
    pairs = {}
    for pair in zip(draws[:-1:2], draws[1::2], strict=True):
        pairs[pair] = pairs.get(pair, 0) + 1
    assert len(pairs) == 9
    assert sum((count - 100) ** 2 / 100 for count in pairs.values()) < chi2.isf(1e-6, 8)


@pytest.mark.slow
def test_distributions_and_several_spaces():
    space = Space.of(
        [{"alpha": loguniform(1e-4, 1e-1)}, {"alpha": [5.0], "steps": randint(10, 20)}], DPGradientDescentClassifier()
    )
    draws = [space.draw(bits_for(seed)) for seed in range(400)]
    second = [draw for draw in draws if "steps" in draw]
    assert 130 < len(second) < 270  # 200 +- 10: seven standard deviations
    assert all(draw["alpha"] == 5.0 and 10 <= draw["steps"] < 20 for draw in second)
    alphas = [draw["alpha"] for draw in draws if "steps" not in draw]
    assert kstest(alphas, loguniform(1e-4, 1e-1).cdf).pvalue > 1e-6
    assert len(set(alphas)) == len(alphas)
    assert space.draw(bits_for(3)) == space.draw(bits_for(3))


def test_twenty_runs_are_the_default():
    assert PrivateSearchCV(DPLogisticRegression(), SPACE)._law() == TruncatedNegativeBinomial(1.0, 0.05)
    assert PrivateSearchCV(DPLogisticRegression(), SPACE).run_budget().delta == pytest.approx(1e-6 / 20)


@pytest.mark.slow
def test_run_budget_is_what_runs_get(cancer):
    model = searching(epsilon=2.0)
    budget = model.run_budget()
    assert budget.epsilon < 2.0
    assert budget.delta == pytest.approx(1e-7)
    fitted = model.fit(*cancer)
    assert (fitted.best_estimator_.epsilon, fitted.best_estimator_.delta) == (budget.epsilon, budget.delta)


def test_a_step_that_is_known_to_learn_is_a_doubt():
    """The search pays for its last step only. Steps that nobody knows are left to whoever wrote them."""
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), DPLogisticRegression())
    search = PrivateSearchCV(pipeline, {"dplogisticregression__alpha": [1e-3, 1e-2]}, epsilon=4.0)
    with pytest.warns(UserWarning, match=r"standardscaler \(StandardScaler\) keeps the exact mean"):
        search.fit(X, y)
