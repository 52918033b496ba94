"""A fit that is not private says so aloud, whoever called it; the ensemble of docs/threat-model.md is private."""

import re
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from contract import ESTIMATORS, each_estimator
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpsk
from dpsk import (
    DPLogisticRegression,
    DPSGDClassifier,
    NotPrivateWarning,
    PrivacyLedger,
    PrivateSearchCV,
)
from dpsk.estimators.budgets import WithExactModel

GUIDE = Path(__file__).parents[1] / "docs" / "threat-model.md"
FEW_ROWS = "ignore:epsilon=.* expect little more than chance:UserWarning"
pytestmark = [pytest.mark.filterwarnings("always::dpsk.NotPrivateWarning"), pytest.mark.filterwarnings(FEW_ROWS)]


def warned(fit):
    """Return the warnings of a fit that say that it is not private."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [warning for warning in caught if warning.category is NotPrivateWarning]


@each_estimator
def test_a_fit_with_a_seed_warns_where_it_was_called(Estimator, cancer):
    (warning,) = warned(lambda: Estimator(random_state=1_234_567).fit(*cancer))
    assert warning.filename == __file__
    text = str(warning.message)
    for said in ("NOT private", "random_state", "None", "BaggingClassifier"):
        assert said in text
    assert "1234567" not in text, "a log of it would give the seed away"
    assert not warned(lambda: Estimator().fit(*cancer))


@pytest.mark.parametrize("Estimator", [e for e in ESTIMATORS if issubclass(e, WithExactModel)])
def test_a_fit_without_noise_warns(Estimator, cancer):
    (warning,) = warned(lambda: Estimator(epsilon=np.inf).fit(*cancer))
    assert warning.filename == __file__
    assert "epsilon=inf adds no noise" in str(warning.message)
    assert "random_state" not in str(warning.message)
    (warning,) = warned(lambda: Estimator(epsilon=np.inf, random_state=0).fit(*cancer))
    assert "epsilon=inf" in str(warning.message)
    assert "random_state" in str(warning.message)


def test_an_exact_model_that_only_the_facts_tell_warns_too(cancer):
    class Late(DPLogisticRegression):
        def _plan(self, facts):
            assert facts.n_rows
            return super()._plan(facts)

    for seed in (None, 0):
        model = Late(epsilon=np.inf, random_state=seed)
        caught = warned(lambda model=model: model.fit(*cancer))
        assert any("epsilon=inf adds no noise" in str(warning.message) for warning in caught)
        assert {warning.filename for warning in caught} == {__file__}
        assert not model.privacy_spent_.private


def test_a_warning_that_is_an_error_stops_the_fit_before_the_data_and_the_ledger(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-5, allow_nonprivate=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotPrivateWarning)
        with pytest.raises(NotPrivateWarning):
            DPLogisticRegression(random_state=0, ledger=ledger).fit(None, None)
    assert ledger.history() == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_members_of_a_bagging_classifier_are_seeded_and_say_so(jobs, cancer):
    bag = BaggingClassifier(DPLogisticRegression(), n_estimators=2, n_jobs=jobs)
    with joblib.parallel_backend("threading"):
        assert len(warned(lambda: bag.fit(*cancer))) == 2
    assert not any(member.privacy_spent_.private for member in bag.estimators_)


def test_other_meta_estimators_leave_members_alone(cancer):
    pipeline = make_pipeline(FunctionTransformer(), DPLogisticRegression())
    grid = GridSearchCV(DPLogisticRegression(), {"alpha": [1e-3, 1e-2]}, cv=2)
    assert not warned(lambda: pipeline.fit(*cancer))
    assert not warned(lambda: grid.fit(*cancer))
    assert len(warned(lambda: grid.set_params(estimator__random_state=0).fit(*cancer))) == 5


@pytest.mark.slow
def test_a_search_with_a_seed_warns_once(cancer):
    model = DPSGDClassifier(steps=5)
    seeded = PrivateSearchCV(model, {"alpha": [1e-3]}, epsilon=9.0, random_state=0)
    (warning,) = warned(lambda: seeded.fit(*cancer))
    assert warning.filename == __file__
    assert not warned(lambda: seeded.set_params(random_state=None).fit(*cancer))


def test_benchmarks_are_silent_in_one_place():
    import benchmarks

    assert "NotPrivateWarning" in Path(benchmarks.__file__).read_text()
    sources = [*Path(benchmarks.__file__).parent.rglob("*.py"), *Path(dpsk.__file__).parent.rglob("*.py")]
    silent = [path.name for path in sources if re.search(r"ignore.*NotPrivateWarning", path.read_text())]
    assert silent == ["__init__.py"]


def test_the_ensemble_of_the_guide_is_private_and_costs_a_row_one_fit(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text().split("## Ensembles")[1], re.S)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    assert not warned(lambda: exec(compile(example, str(GUIDE), "exec"), namespace))
    assert "(2, 1e-05)-differential privacy" in capsys.readouterr().out
    vote, X, y = namespace["vote"], namespace["X"], namespace["y"]
    spent = [frozen.estimator.privacy_spent_ for frozen in vote.estimators_]
    assert all(report.private and report.epsilon == 2.0 for report in spent)
    assert all(namespace["ledger"].on(part).remaining()["epsilon"] == 0 for part in namespace["parts"])
    # the majority has 0.501; 40 such ensembles had 0.874 with a standard deviation of 0.005
    assert vote.score(X, y) > 0.8


def test_what_the_guide_says_of_seven_copies(cancer):
    said = float(
        re.search(r"`privacy_spent_.epsilon_for_group\(7\)`: ([\d.]+) where epsilon is 1", GUIDE.read_text())[1]
    )
    found = DPLogisticRegression(epsilon=1.0).fit(*cancer).privacy_spent_.epsilon_for_group(7)
    assert abs(found - said) < 0.05


class Member(DPLogisticRegression):
    """A private model whose seed nobody can set."""

    def __init__(self, epsilon=1.0, bounds=None):
        super().__init__(epsilon, bounds=bounds)


def test_members_without_a_parameter_for_a_seed_stay_private(cancer):
    bag = BaggingClassifier(Member(bounds=(0, 1)), n_estimators=3, bootstrap=False, max_samples=0.5)
    assert not warned(lambda: bag.fit(*cancer))
    assert all(member.privacy_spent_.private for member in bag.estimators_)
