"""``ledger=`` on every estimator: what a fit sets aside, what it gives back, and who shares it."""

import inspect
import math
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from contract import (
    ADAPTIVE,
    BY_FACTS,
    CHECKED,
    PERTURBING,
    SAMPLED,
    SHORT,
    STANDARDISING,
    TABULAR,
    Untouchable,
    each_estimator,
    weights_of,
)
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpsk
from dpsk import BudgetExhausted, DPAGDLogisticRegression, DPLinearSVC, DPLogisticRegression, LedgerError, PrivacyLedger
from dpsk.data import ArrayTable, Facts, PrivateData, Unknown, UnknownFact
from dpsk.data.private import SealedRows
from dpsk.estimators.plan import budget_of_plan
from dpsk.estimators.progress import Progress
from dpsk.privacy import Budget, GaussianCost
from dpsk.privacy.durable import ledger_file

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5)


@pytest.fixture
def draws(monkeypatch):
    """The labels of all that was paid for, in this process."""
    paid, pay = [], PrivateData._pay

    def counted(self, cost, label):
        turn = pay(self, cost, label)
        paid.append(label)
        return turn

    monkeypatch.setattr(PrivateData, "_pay", counted)
    return paid


@each_estimator
def test_a_fit_is_recorded_once_with_its_whole_guarantee(Estimator, ledger, cancer):
    model = Estimator(epsilon=0.5, ledger=ledger, **SHORT.get(Estimator, {})).fit(*cancer)
    (spend,) = ledger.history()
    assert (spend.label, spend.state, spend.private) == (Estimator.__name__, "closed", True)
    assert (
        (spend.epsilon, spend.delta) == (model.privacy_spent_.epsilon, model.privacy_spent_.delta) == (0.5, model.delta)
    )
    assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6 if model.delta else 1e-5}


@each_estimator
def test_the_budget_is_set_aside_before_anything_is_computed_for_release(Estimator, ledger, cancer, monkeypatch):
    """Data are checked before, so that refused ones leave no trace; sums and draws come after."""
    checked, seen = [], []

    def left():
        return PrivacyLedger(ledger.path).remaining()["epsilon"]

    def watch(kind, name):
        work = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda self, *args, **kw: (seen.append(left()), work(self, *args, **kw))[1])

    for name in ("__init__", "measure", "release", "open"):
        watch(SealedRows, name)
    for name in ("_pay", "draw", "subsample", "batch"):
        watch(PrivateData, name)
    for name in ("rows", "raw"):
        watch(ArrayTable, name)

    class Watched:
        def __array__(self, *args, **kwargs):
            checked.append(left())
            return np.asarray(cancer[0], *args, **kwargs)

        def __len__(self):
            return len(cancer[0])

        shape = cancer[0].shape

    Estimator(epsilon=0.5, ledger=ledger).fit(Watched(), cancer[1])
    assert checked
    assert set(checked) == {2.0}
    assert seen
    assert set(seen) == {1.5}


def data_for(Estimator, data):
    """Data that a refused fit may see: none where the budget does not depend on their numbers of rows and classes."""
    return data if Estimator in BY_FACTS else (Untouchable(), Untouchable())


@each_estimator
def test_whose_budget_is_known_before_the_data_are_seen(Estimator):
    if Estimator in BY_FACTS:
        with pytest.raises(UnknownFact):
            budget_of_plan(Estimator(), Unknown())
    else:
        assert budget_of_plan(Estimator(), Unknown()) == budget_of_plan(Estimator(), Facts(500, 4, 3))


def test_no_fact_is_known_before_the_data_are_seen():
    for name in [*vars(Facts(500, 4, 3)), *(name for name, of in vars(Facts).items() if isinstance(of, property))]:
        with pytest.raises(UnknownFact):
            getattr(Unknown(), name)


@each_estimator
def test_a_ledger_without_any_room_refuses_before_the_data_are_touched(Estimator, ledger, draws):
    with ledger.fit(Budget.of(2.0, 1e-6), label="all", adjacency="zero-out", private=True) as filtered:
        filtered.charge(GaussianCost(1e-3), "all")
    before = ledger.history()
    with pytest.raises(BudgetExhausted, match=r"left in PrivacyLedger"):
        Estimator(epsilon=0.5, ledger=ledger).fit(Untouchable(), Untouchable())
    assert draws == []
    assert ledger.history() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("Estimator", "given_as"),
    [(DPLogisticRegression, "string"), (DPLogisticRegression, "path"), *((each, "object") for each in CHECKED)],
)
def test_overspending_is_refused_before_anything_is_drawn(Estimator, given_as, ledger, draws, cancer):
    given = {"object": ledger, "string": ledger.path, "path": Path(ledger.path)}[given_as]
    model = Estimator(epsilon=1.5, ledger=given, **SHORT.get(Estimator, {})).fit(*cancer)
    coefficients, before = weights_of(model), ledger.history()
    del draws[:]
    with pytest.raises(BudgetExhausted, match=r"asks for epsilon 1\.5 .* epsilon 0\.5 .* left") as caught:
        model.fit(*data_for(Estimator, cancer))
    assert ledger.path in str(caught.value)
    assert draws == []
    assert ledger.history() == before
    np.testing.assert_array_equal(weights_of(model), coefficients, err_msg="the model that was paid for is lost")
    assert model.privacy_spent_.epsilon == 1.5


@each_estimator
def test_bad_parameters_and_bad_data_spend_nothing(Estimator, ledger, draws, cancer):
    X, y = cancer[0].copy(), cancer[1]
    X[3, 2] = np.nan
    tabular = Estimator in TABULAR
    for model, rows, labels in (
        (Estimator(alpha=-1, ledger=ledger), *cancer),
        (Estimator(epsilon=-1, ledger=ledger), *cancer),
        (Estimator(ledger=ledger), X + (1j if tabular else 0), y),
        (Estimator(ledger=ledger), cancer[0], np.ones(len(y))),
        (Estimator(ledger=ledger, classes=["a", "b"]), *cancer),
        (Estimator(ledger=ledger, **({"columns": {"no": None}} if tabular else {"bounds": ([0, 0], [1, 1])})), *cancer),
    ):
        with pytest.raises(ValueError, match=r"."):
            model.fit(rows, labels)
    assert draws == []
    assert ledger.remaining() == {"epsilon": 2.0, "delta": 1e-5}
    assert ledger.history() == [], "what is refused before it begins leaves no trace"


@each_estimator
def test_an_error_after_the_first_draw_keeps_what_was_set_aside(Estimator, ledger, draws, cancer, monkeypatch):
    model = Estimator(epsilon=0.5, ledger=ledger)

    def observe(w):
        raise ZeroDivisionError

    monkeypatch.setattr(Progress, "observer", lambda *_: observe)
    with pytest.raises(ZeroDivisionError):
        model.fit(*cancer)
    assert draws
    assert ledger.remaining() == {"epsilon": 1.5, "delta": 9e-6 if model.delta else 1e-5}
    assert ledger.history()[0].state == "closed"


@pytest.mark.parametrize("Estimator", ADAPTIVE)
def test_a_fit_in_the_currency_of_the_ledger_settles_for_what_it_charged(Estimator, tmp_path, cancer, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "rho.db", epsilon=2.0, delta=1e-5, currency="rho")
    model = Estimator(epsilon=0.5, ledger=ledger)
    monkeypatch.setattr(Progress, "observer", lambda *_: lambda w: True)  # stop at the first iterate
    model.fit(*cancer)
    (spend,) = ledger.history()
    assert spend.reserved == {"rho": model.privacy_spent_.limit}
    assert spend.counted == {"rho": model.privacy_spent_.charged}
    assert spend.counted["rho"] < spend.reserved["rho"]


@pytest.mark.parametrize("Estimator", STANDARDISING)
def test_descent_settles_under_mu_squared_and_not_under_rho(Estimator, tmp_path, cancer, monkeypatch):
    counted = {}
    monkeypatch.setattr(Progress, "observer", lambda *_: lambda w: True)
    for currency in ("mu**2", "rho"):
        ledger = PrivacyLedger(tmp_path / f"{currency[:2]}.db", epsilon=2.0, delta=1e-5, currency=currency)
        model = Estimator(epsilon=0.5, ledger=ledger)
        model.fit(*cancer)
        counted[currency] = ledger.history()[0].counted[currency]
        spent = model.privacy_spent_
    assert counted["mu**2"] == pytest.approx(spent.charged, rel=0.2)
    assert counted["mu**2"] < 0.5 * spent.limit
    assert counted["rho"] == spent.limit / 2


@pytest.mark.parametrize("Estimator", [*SAMPLED, *PERTURBING])
@pytest.mark.parametrize("currency", ["rho", "mu**2"])
def test_what_has_no_amount_is_refused_where_they_have_no_amount(Estimator, currency, tmp_path, draws, cancer):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5, currency=currency)
    with pytest.raises(ValueError, match=r"has no .*use a ledger with currency='basic'"):
        Estimator(ledger=ledger).fit(*data_for(Estimator, cancer))
    assert draws == []
    assert ledger.history() == []


# ---------------------------------------------------------------------------------------------- who shares it


def test_what_the_data_decide_does_not_change_what_was_set_aside(tmp_path, iris):
    """Several classes need another plan than two, many rows would choose another solver: the promise is the same."""
    ledger = PrivacyLedger(tmp_path / "basic.db", epsilon=50.0, delta=1e-5)
    model = dpsk.ObjectivePerturbationClassifier(epsilon=20.0, ledger=ledger).fit(*iris)
    assert model.privacy_spent_.currency.n_minima == 3
    assert ledger.remaining() == {"epsilon": 30.0, "delta": 9e-6}
    rows = np.random.default_rng(0).uniform(size=(10_000, 2))
    labels = rows[:, 0] > rows[:, 1]
    for given in (None, ledger):
        many = DPLogisticRegression(epsilon=20.0, bounds=(0, 1), ledger=given).fit(rows, labels)
        assert type(many.privacy_spent_.currency).__name__ == "ObjectiveDP"
    assert ledger.remaining() == {"epsilon": 10.0, "delta": 8e-6}
    few = DPLogisticRegression(epsilon=1.0, bounds=(0, 1), ledger=ledger).fit(rows[:300], labels[:300])
    assert type(few.privacy_spent_.currency).__name__ == "GaussianDP"
    assert ledger.remaining() == {"epsilon": 9.0, "delta": 7e-6}


@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPLinearSVC])
@pytest.mark.parametrize("currency", ["rho", "mu**2"])
def test_a_ledger_changes_no_algorithm_it_refuses_what_it_cannot_count(Estimator, currency, tmp_path, draws):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=50.0, delta=1e-5, currency=currency)
    rows = np.random.default_rng(0).uniform(size=(10_000, 2))
    labels = rows[:, 0] > rows[:, 1]
    with pytest.raises(ValueError, match=r"has no .*use a ledger with currency='basic'"):
        Estimator(epsilon=20.0, bounds=(0, 1), ledger=ledger).fit(rows, labels)
    assert draws == []
    assert ledger.history() == []
    named = Estimator(epsilon=20.0, bounds=(0, 1), ledger=ledger, solver="gradient-descent").fit(rows, labels)
    assert named.privacy_spent_.currency.name == "mu**2"
    assert len(ledger.history()) == 1


@pytest.mark.slow
@each_estimator
def test_clones_and_pickles_share_the_ledger(Estimator, ledger, cancer):
    model = Estimator(epsilon=0.5, ledger=ledger)
    assert clone(model).ledger is ledger
    assert clone(clone(model)).get_params()["ledger"] is ledger
    for count, copy in enumerate((model, clone(model), pickle.loads(pickle.dumps(model))), 1):
        copy.fit(*cancer)
        assert ledger.remaining()["epsilon"] == 2.0 - 0.5 * count
    with pytest.raises(BudgetExhausted):
        clone(model).set_params(epsilon=0.6).fit(*cancer)


@each_estimator
def test_a_fitted_model_holds_the_path_and_the_name_of_the_ledger_and_nothing_else(Estimator, ledger, cancer):
    model = Estimator(epsilon=0.5, ledger=ledger).fit(*cancer)
    known = {"_path": ledger.path, "_datasets": (), "_timeout": 60.0, "_identity": ledger.identity}
    assert vars(model.ledger) == {**known, "_note": None, "_who": None, "_strayed": False}
    loaded = pickle.loads(pickle.dumps(model))
    os.unlink(ledger.path)
    np.testing.assert_array_equal(loaded.predict(cancer[0]), model.predict(cancer[0]))
    assert "missing" in repr(loaded)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_grid_search_cannot_spend_more_than_there_is(n_jobs, ledger, cancer, tmp_path):
    """16 fits of epsilon 1 under 2. scikit-learn turns errors into scores of nan: look at the ledger, not at them."""
    search = GridSearchCV(
        DPLogisticRegression(epsilon=1.0, delta=1e-6, bounds=(0, 1), ledger=ledger),
        {"alpha": [1e-4, 1e-3, 1e-2, 1e-1]},
        cv=4,
        n_jobs=n_jobs,
        refit=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message="One or more of the test scores are non-finite")
        search.fit(*cancer)
    scores = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(4)])
    assert scores.shape == (4, 4)
    assert np.isfinite(scores).sum() == 2
    assert [(spend.number, spend.state, spend.epsilon) for spend in ledger.history()] == [
        (1, "closed", 1.0),
        (2, "closed", 1.0),
    ]
    assert ledger.remaining() == {"epsilon": 0.0, "delta": 8e-6}
    ledger.statement()


def test_a_refused_fit_of_a_search_draws_nothing(ledger, draws, cancer):
    search = GridSearchCV(DPLogisticRegression(bounds=(0, 1), ledger=ledger.path), {"alpha": [1e-4, 1e-3]}, cv=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message="One or more of the test scores are non-finite")
        with pytest.raises(BudgetExhausted):  # of the refit, whose error scikit-learn lets through
            search.fit(*cancer)
    one = DPLogisticRegression(bounds=(0, 1)).fit(*cancer).privacy_spent_
    assert len(ledger.history()) == 2
    assert draws.count("gradient") <= 3 * sum(r.count for r in one.releases if r.label == "gradient")


@pytest.mark.slow
def test_a_pipeline_and_a_cross_validation_share_it(ledger, cancer):
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), DPAGDLogisticRegression(epsilon=0.5, ledger=ledger))
    cross_validate(pipeline, *cancer, cv=3, n_jobs=2)
    assert ledger.remaining()["epsilon"] == 0.5


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.slow
@each_estimator
def test_a_seeded_fit_is_refused_or_recorded_as_not_private(Estimator, ledger, tmp_path, cancer):
    with pytest.raises(ValueError, match="would not be private"):
        Estimator(ledger=ledger, random_state=0).fit(Untouchable(), Untouchable())
    assert ledger.history() == []
    lenient = PrivacyLedger(tmp_path / "lenient.db", epsilon=2.0, delta=1e-5, allow_nonprivate=True)
    for seed in (0, None):
        Estimator(epsilon=1.5, ledger=lenient, random_state=seed).fit(*cancer)
    assert [spend.private for spend in lenient.history()] == [False, True]
    assert lenient.remaining()["epsilon"] == 0.5
    assert lenient.statement().startswith("NOT PRIVATE: 1 fit")


@pytest.mark.parametrize("Estimator", STANDARDISING)
def test_an_exact_fit_is_refused_or_recorded_as_not_private(Estimator, ledger, tmp_path, cancer):
    with pytest.raises(ValueError, match="would not be private"):
        Estimator(epsilon=math.inf, ledger=ledger).fit(Untouchable(), Untouchable())
    assert ledger.history() == []
    lenient = PrivacyLedger(tmp_path / "lenient.db", epsilon=2.0, delta=1e-5, allow_nonprivate=True)
    Estimator(epsilon=math.inf, alpha=0.1, ledger=lenient).fit(*cancer)
    (spend,) = lenient.history()
    assert (spend.private, spend.epsilon, spend.state) == (False, math.inf, "closed")
    assert lenient.remaining() == {"epsilon": 2.0, "delta": 1e-5}


@each_estimator
def test_another_adjacency_is_refused(Estimator, ledger):
    options = {"sampling": "without-replacement"} if Estimator in SAMPLED else {}
    with pytest.raises(ValueError, match=r"adjacency='replace'.*'zero-out'"):
        Estimator(ledger=ledger, adjacency="replace", **options).fit(Untouchable(), Untouchable())
    assert ledger.history() == []


@each_estimator
@pytest.mark.parametrize("bad", [1.0, True, {"path": "x"}])
def test_what_is_no_ledger_is_refused(Estimator, bad):
    with pytest.raises(ValueError, match=r"ledger=.* must be None, a PrivacyLedger, or the path"):
        Estimator(ledger=bad).fit(Untouchable(), Untouchable())


@each_estimator
def test_a_missing_ledger_is_named_and_not_created(Estimator, tmp_path):
    path = tmp_path / "no.db"
    with pytest.raises(LedgerError, match=r"no ledger at .*Create it once"):
        Estimator(ledger=path).fit(Untouchable(), Untouchable())
    assert not path.exists()


@each_estimator
def test_a_ledger_that_cannot_be_written_draws_nothing(Estimator, ledger, draws, monkeypatch, cancer):
    connect = ledger_file._connect

    def read_only(path, mode, timeout):
        return connect(path, "ro", timeout)

    monkeypatch.setattr(ledger_file, "_connect", read_only)
    with pytest.raises(LedgerError, match="read-only"):
        Estimator(ledger=ledger).fit(*cancer)
    assert draws == []
    monkeypatch.undo()
    assert ledger.history() == []


def test_every_estimator_has_the_parameter_in_the_same_place():
    for Estimator in CHECKED:
        names = list(Estimator().get_params(deep=False))
        assert "ledger" in names
        order = list(inspect.signature(Estimator).parameters)
        assert order[order.index("ledger") + 1] == "random_state"
    assert {"PrivacyLedger", "LedgerError", "BudgetExhausted"} <= set(dpsk.__all__)


@each_estimator
def test_parameters_that_change_during_a_fit_do_not_change_what_was_set_aside(Estimator, tmp_path, cancer):
    """Whoever has the estimator in another thread may set anything at any time."""
    if Estimator in SAMPLED:
        pytest.skip("replaced rows need another sampling")
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5, adjacency="replace")
    model = Estimator(epsilon=0.5, adjacency="replace", ledger=ledger)

    class Changes:
        def __array__(self, *args, **kwargs):
            model.set_params(adjacency="zero-out", ledger=None, epsilon=math.inf)
            return np.asarray(cancer[0], *args, **kwargs)

        def __len__(self):
            return len(cancer[0])

        shape = cancer[0].shape

    spent = model.fit(Changes(), cancer[1]).privacy_spent_
    assert (spent.adjacency, spent.epsilon, spent.private) == ("replace", 0.5, True)
    assert 0 < spent.charged <= spent.limit
    assert ledger.remaining()["epsilon"] == 1.5
