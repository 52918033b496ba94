"""A plan is refused where its parts do not fit together, before anything is paid; maps without a bound are, too."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from noisy_descent import NoisyDescent
from noisy_descent_classifier import NoisyDescentClassifier

from dpsk import DPLogisticRegression, PrivacyLedger
from dpsk.data import ArrayTable, Columns, Facts, RowMap, Unknown, UnknownFact
from dpsk.encodings import Encoding, LinearEncoding, Weighting
from dpsk.estimators import plan_of
from dpsk.estimators.plan import budget_of_plan
from dpsk.losses import Logistic
from dpsk.model_selection.runs import SMALLEST
from dpsk.privacy import Budget, GaussianDP
from dpsk.privacy.allowance import Allowance
from dpsk.requirements import part
from dpsk.solvers import Solver

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=:UserWarning")
FACTS = Facts(60, 3, 2)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.uniform(size=(60, 3)), rng.integers(2, size=60)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)


def planned(change):
    """Return an estimator whose plan is changed."""

    class Changed(NoisyDescentClassifier):
        def _plan(self, facts):
            return change(super()._plan(facts))

    return Changed(steps=3)


@dataclass(frozen=True, eq=False)
class Learning(Encoding):
    """An encoding that returns what it was given."""

    result: object = None
    fit_intercept: bool = True
    share: float = part(0.1, whole=False)

    def learned(self, door, table):
        return self.result


def test_the_plan_of_an_estimator_is_a_value():
    plan = plan_of(NoisyDescentClassifier(steps=3), FACTS)
    assert plan.solver == NoisyDescent(steps=3)
    assert plan.budget == Budget.of(1.0, 1e-6, currency=GaussianDP())
    assert plan_of(NoisyDescentClassifier(steps=3), Unknown()).solver == plan.solver


@pytest.mark.parametrize("facts", [FACTS, Unknown()])
def test_the_weighting_of_a_plan_follows_from_the_parameters(facts):
    model = planned(lambda plan: replace(plan, weighting=Weighting()))  # whatever a plan says
    weighting = plan_of(model.set_params(class_weight={0: 2.0}, weight_bound=3.0), facts).weighting
    assert (weighting.class_weight, weighting.weight_bound) == ({0: 2.0}, 3.0)


@pytest.mark.parametrize("given", [{"class_weight": "most"}, {"class_weight": {0: -1}}, {"weight_bound": 0.0}])
def test_fields_of_a_weighting_are_checked(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        Weighting(**given)


@pytest.mark.parametrize("name", ["n_rows", "n_features", "n_classes", "remote", "unit", "weighted"])
def test_an_unknown_fact_is_an_error_and_not_a_number(name):
    with pytest.raises(UnknownFact, match="not known yet"):
        getattr(Unknown(), name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: None, r"Changed\._plan returned NoneType: it must return a dpsk\.estimators\.Plan"),
        (lambda plan: (plan,), r"Changed\._plan returned tuple"),
        (
            lambda plan: replace(plan, solver=NoisyDescent),
            "solver .* must be .*Solver, not the class NoisyDescent",
        ),
        (lambda plan: replace(plan, objective=Logistic()), r"objective of a plan must be .*Model, not Logistic\(\)"),
        (lambda plan: replace(plan, budget=1.0), "budget of a plan must be .*Budget"),
        (lambda plan: replace(plan, encoding=None), "encoding of a plan must be .*Encoding, not None"),
    ],
)
def test_parts_of_a_wrong_kind_are_named(change, message, data, ledger):
    with pytest.raises(TypeError, match=message):
        planned(change).set_params(ledger=ledger).fit(*data)
    assert ledger.history() == []


@pytest.mark.parametrize("budget", [None, Budget.of(1.5, 1e-6, currency=GaussianDP())])
def test_a_plan_cannot_promise_less_than_its_parameters(budget, data, ledger):
    with pytest.raises(ValueError, match=r"_plan returned a budget of epsilon (inf|1\.5), but epsilon=1"):
        planned(lambda plan: replace(plan, budget=budget)).set_params(ledger=ledger).fit(*data)
    assert ledger.history() == []


@pytest.mark.parametrize("given", [{"bounds": (0, 1)}, {"standardize": "private"}, {"data_norm": 2.0}])
def test_a_parameter_that_the_encoding_ignores_is_refused(given, data):
    model = planned(lambda plan: replace(plan, encoding=Learning(RowMap())))
    with pytest.raises(ValueError, match=r"has no effect in Changed: Learning has no such field"):
        model.set_params(**given).fit(*data)


@pytest.mark.parametrize("share", [0, 1, 2, -1, "a"])
def test_fields_of_an_encoding_are_checked(share):
    with pytest.raises(ValueError, match="share="):
        Learning(share=share)


def test_the_usual_encoding_still_looks_at_several_fields():
    with pytest.raises(ValueError, match="cannot be combined"):
        LinearEncoding(data_norm=1.0, standardize="private")


@pytest.mark.parametrize(
    ("learned", "error", "message"),
    [
        (None, TypeError, r"Learning\.learned returned NoneType: it must return a RowMap"),
        (Columns.within(0, 1, 3), TypeError, r"Learning\.learned returned Columns"),
        (RowMap(3), ValueError, r"RowMap of n_classes=3 and 3 columns, but the data have table\.facts\.n_scores=None"),
        (RowMap(columns=Columns.within(0, 1, 5)), ValueError, "5 columns, but the data have .* 3 columns"),
    ],
)
def test_what_an_encoding_returns_is_checked(learned, error, message, data):
    with pytest.raises(error, match=message):
        planned(lambda plan: replace(plan, encoding=Learning(learned))).fit(*data)


@pytest.mark.parametrize(
    ("yielded", "message"),
    [
        (np.zeros(3), r"Yields yielded weights of shape \(3,\), but the objective needs \(4,\)"),
        (np.full(4, np.nan), "finite"),
    ],
)
def test_weights_are_those_that_the_objective_needs(yielded, message, data):
    @dataclass(frozen=True)
    class Yields(Solver):
        def iterates(self, rows, objective):
            yield yielded

    with pytest.raises(ValueError, match=message):
        planned(lambda plan: replace(plan, solver=Yields())).fit(*data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"high": [1, math.nan, 1]}, "high=nan of column 1 must be a finite number"),
        ({"low": [-math.inf, 0, 0]}, "low=-inf of column 0"),
        ({"low": [0, 0, 2]}, "low of Columns must not be above high"),
        ({"factor": [1, 0, 1]}, r"factor=0\.0 of column 1 must lie between"),
        ({"factor": [1, 1, -1]}, r"factor=-1\.0 of column 2"),
        ({"factor": [1, 1, math.inf]}, "factor=inf of column 2"),
        ({"centre": [0, math.nan, 0]}, "centre=nan of column 1"),
        ({"centre": [0, 0]}, "centre of Columns must be an array with one number per column"),
        ({"factor": [1, 1]}, "factor of Columns must be an array"),
    ],
)
def test_columns_without_a_proved_bound_are_refused(changes, message):
    """A bound that is not a number let one row move a sum by 2^28 times what was promised."""
    usual = {"low": [0, 0, 0], "high": [1, 1, 1], "factor": [1, 1, 1], "centre": None}
    given = {name: value if value is None else np.array(value, float) for name, value in (usual | changes).items()}
    with pytest.raises(ValueError, match=message):
        Columns(**given)


def test_within_a_search_auto_is_what_the_search_has_planned():
    """Budgets of runs are planned before the data are seen; outside of a search so many rows change the algorithm."""
    many = Facts(1_000_000, 3, 2)
    alone, run = (
        DPLogisticRegression(),
        DPLogisticRegression(ledger=Allowance(None, adjacency="zero-out", private=True)),
    )
    assert plan_of(alone, many).budget.currency.name != GaussianDP.name
    assert plan_of(run, many).budget == budget_of_plan(run, SMALLEST)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_bounds_hold_0_where_there_is_no_intercept(fit_intercept, data):
    """Without one, a column that cannot be 0 would be shifted."""
    how = LinearEncoding(fit_intercept=fit_intercept, bounds=(2, 5)).learned(None, ArrayTable(*data))
    np.testing.assert_array_equal(how.ranges, [[2.0 if fit_intercept else 0.0] * 3, [5.0] * 3])


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2, 3), np.float32(0.1), 10**17 + 1])
def test_an_epsilon_of_another_type_promises_what_its_float_does(epsilon):
    """A budget is kept in floats, and the nearest one may lie above the number given."""
    assert plan_of(NoisyDescentClassifier(epsilon=epsilon, steps=3), FACTS).budget.epsilon == float(epsilon)


def test_a_solver_that_returns_something_else_is_named(data):
    @dataclass(frozen=True)
    class Returns(Solver):
        def iterates(self, rows, objective):
            yield objective.start()
            return True

    with pytest.raises(TypeError, match="Returns returned bool: a solver returns Diagnostics, or nothing"):
        planned(lambda plan: replace(plan, solver=Returns())).fit(*data)


def test_a_parameter_with_an_underscore_is_refused():
    with pytest.raises(TypeError, match=r"Odd\._hidden would become a parameter"):

        class Odd(NoisyDescentClassifier):
            _hidden: int = 1


def test_every_parameter_is_described_with_its_default():
    text = NoisyDescentClassifier.__doc__
    assert "steps : int, default=100\n    Number of gradients." in text
    assert "not described" not in text
    assert (
        text.index("epsilon, delta : float, default=1.0 and 1e-06") < text.index("steps : int") < text.index("bounds :")
    )
