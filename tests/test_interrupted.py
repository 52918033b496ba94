"""A fit that ends before it should leaves no model, says so, and says what was spent; nothing else is left of it."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from contract import SHORT, each_estimator
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpsk import BudgetExhausted, DPLogisticRegression, DPSGDClassifier, PrivacyLedger, PrivateSearchCV
from dpsk.data import PrivateData
from dpsk.estimators.progress import Progress
from dpsk.model_selection import NothingSelected, Poisson, search

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")


def fitted_names(model):
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


def interrupt(monkeypatch, at):
    """Let the observer of iterates, or the end of the fit, raise what Ctrl-C raises."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    if at == "an iterate":
        monkeypatch.setattr(Progress, "observer", lambda *_: interrupted)
    else:
        monkeypatch.setattr(Progress, "attributes", interrupted)


def require_nothing_but_a_report(model, X, *, epsilon):
    assert fitted_names(model) == {"privacy_spent_"}
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    for ask in (lambda: model.predict(X), lambda: model.score(X, np.zeros(len(X)))):
        with pytest.raises(NotFittedError):
            ask()
    spent = model.privacy_spent_
    assert (spent.complete, spent.epsilon) == (False, epsilon)
    assert 0 < spent.charged <= spent.limit
    assert spent.releases
    assert "no model came of it" in repr(spent)
    assert json.loads(json.dumps(spent.to_dict()))["complete"] is False
    statement = spent.statement()
    assert statement.startswith("NO MODEL: this ")
    assert f"({epsilon:g}, " in statement or f"pure {epsilon:g}-" in statement
    assert "was trained" not in statement
    again = pickle.loads(pickle.dumps(model))
    assert again.privacy_spent_ == spent
    assert fitted_names(again) == {"privacy_spent_"}
    assert not fitted_names(clone(model))


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize("at", ["an iterate", "the end"])
def test_an_interrupted_fit_leaves_a_report_and_no_model(Estimator, at, cancer, monkeypatch):
    X = pd.DataFrame(cancer[0], columns=[f"c{j}" for j in range(30)])
    model = Estimator(epsilon=3.0, **SHORT.get(Estimator, {})).fit(X, cancer[1])
    assert model.privacy_spent_.complete
    with monkeypatch.context() as patch:
        interrupt(patch, at)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, cancer[1])
    require_nothing_but_a_report(model, X, epsilon=3.0)
    check_is_fitted(model.fit(X, cancer[1]))
    assert model.privacy_spent_.complete
    assert "complete=False" not in repr(model)
    assert "no model" not in repr(model.privacy_spent_)


def test_an_error_half_way_is_no_different(cancer, monkeypatch):
    calls, release = [], PrivateData.release

    def fails(*args):
        calls.append(1)
        if len(calls) > 5:
            raise OSError("the disk is full")
        return release(*args)

    monkeypatch.setattr(PrivateData, "release", fails)
    model = DPLogisticRegression(epsilon=3.0)
    with pytest.raises(OSError, match="disk"):
        model.fit(*cancer)
    require_nothing_but_a_report(model, cancer[0], epsilon=3.0)
    assert sum(release.count for release in model.privacy_spent_.releases) >= 5


class Raises:
    """A callback of scikit-learn that gives up."""

    def __init__(self, after):
        self.left = after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.left -= 1
        if not self.left:
            raise RuntimeError("enough")


@pytest.mark.parametrize("after", [1, 3])
def test_a_callback_that_raises_leaves_no_model(after, cancer):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    model = DPLogisticRegression(epsilon=3.0).set_callbacks(Raises(after))
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(*cancer)
    require_nothing_but_a_report(model, cancer[0], epsilon=3.0)
    assert b"Raises" not in pickle.dumps(model)


def test_a_seeded_fit_that_is_interrupted_was_not_private(cancer, monkeypatch):
    interrupt(monkeypatch, "an iterate")
    model = DPLogisticRegression(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*cancer)
    statement = model.privacy_spent_.statement()
    assert statement.startswith("NO MODEL")
    assert "NOT PRIVATE" in statement


def test_where_nothing_was_released_the_model_is_as_it_was(cancer, tmp_path, monkeypatch):
    X, y = cancer
    nothing = DPLogisticRegression()
    with pytest.raises(ValueError, match="NaN"):
        nothing.fit(np.full(X.shape, np.nan), y)
    assert not fitted_names(nothing)
    model = DPLogisticRegression().fit(X, y)
    earlier = {name: vars(model)[name] for name in fitted_names(model)}

    def require_the_earlier_fit():
        assert fitted_names(model) == set(earlier)
        assert all(vars(model)[name] is value for name, value in earlier.items())
        assert model.privacy_spent_.complete
        model.predict(X)

    for rows, labels in ((np.full(X.shape, np.nan), y), (np.full((9, 2), np.inf), y[:9]), (X[:, :3], np.ones(len(y)))):
        with pytest.raises(ValueError, match=r"NaN|infinity|one class"):
            model.fit(rows, labels)
        require_the_earlier_fit()
    for change, error in (({"alpha": -1.0}, ValueError), ({"ledger": tmp_path / "budget.db"}, BudgetExhausted)):
        PrivacyLedger(tmp_path / "budget.db", epsilon=0.1, delta=1e-5)
        with pytest.raises(error):
            model.set_params(**change).fit(X, y)
        require_the_earlier_fit()
        model.set_params(alpha=1e-4)
    ledger = PrivacyLedger(tmp_path / "large.db", epsilon=9.0, delta=1e-5)
    with monkeypatch.context() as patch:
        patch.setattr(PrivateData, "_pay", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
        with pytest.raises(OSError, match="disk"):
            model.set_params(ledger=ledger).fit(X[:, :3], y)
    require_the_earlier_fit()
    assert ledger.remaining() == {"epsilon": 9.0, "delta": 1e-5}
    assert [spend.state for spend in ledger.history()] == ["returned"]


def test_an_exact_fit_that_is_interrupted_leaves_nothing(cancer, monkeypatch):
    interrupt(monkeypatch, "the end")
    model = DPLogisticRegression(epsilon=np.inf)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*cancer)
    assert not fitted_names(model)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "came to nothing"])
def test_a_search_without_a_model_says_so(how, cancer, tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=20.0, delta=1e-5)
    model = PrivateSearchCV(
        DPSGDClassifier(steps=5), {"alpha": [1e-3]}, 9.0, n_iter_distribution=Poisson(3.0), ledger=ledger
    )

    def ends(*_):
        if how == "interrupted":
            raise KeyboardInterrupt

    monkeypatch.setattr(search.PrivateSearchCV, "_best", ends)
    with pytest.raises(KeyboardInterrupt if how == "interrupted" else NothingSelected):
        model.fit(*cancer)
    require_nothing_but_a_report(model, cancer[0], epsilon=9.0)
    assert "this search came to nothing, or was interrupted" in model.privacy_spent_.statement()
    assert ledger.remaining()["epsilon"] == 11.0
    assert not hasattr(model, "n_features_in_")
