"""private_evaluation and rows that no model expects: each moves its own cells only, and nobody sees it but in noise.

Opinions of the other rows keep their bits. Twins differ in noisy numbers only. Refused calls spend nothing.
"""

import logging
import pickle
import warnings

import dask.array
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import SVC

from dpsk import (
    BudgetExhausted,
    Chunks,
    DPLinearSVC,
    DPLogisticRegression,
    DPTabularClassifier,
    PrivacyLedger,
    PrivateThreshold,
    private_evaluation,
)
from dpsk.evaluation.opinions import LARGEST, Asked, opinions
from dpsk.model_selection.judging import correct, judges_rows_alone, labels_of
from dpsk.testing import check_company, check_twins, extreme_rows

rng = np.random.default_rng(0)
X = np.round(rng.uniform(-1, 1, size=(30, 3)), 3)
TWO = (X[:, 0] > 0).astype(int)
THREE = np.array(["high", "low", "middle"])[np.searchsorted([-0.4, 0.3], X[:, 1])]
MODES = ("raises", "ends", "exits", "warns", "NaN", "infinite", "wrong shape", "strings", "nothing", "huge", "no sum")
MODES += ("masked", "complex", "a refused score", "an unknown class", "unfitted")


class Ends(BaseException):
    """An error of a library in another language: it is no Exception."""


class Odd(ClassifierMixin, BaseEstimator):
    """A foreign model with whims where an entry is huge."""

    def __init__(self, mode, n_classes=2, method="predict_proba"):
        self.mode, self.n_classes, self.method = mode, n_classes, method
        self.classes_ = np.arange(n_classes)

    def __getattr__(self, name):
        if name in ("predict_proba", "decision_function") and name == vars(self).get("method"):
            return self._sure
        raise AttributeError(name)

    def _usual(self, X):
        X = np.asarray(X, dtype=float)
        odds = np.exp(2 * np.clip(X[:, [0, 1, 2]], -1, 1)[:, : self.n_classes])
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X):
        if (np.abs(X) > 1e5).any():
            self._whim()
            if self.mode == "an unknown class":
                return np.array(["none of these"] * len(X), dtype=object)
            if self.mode in ("nothing", "strings"):
                return {"nothing": None, "strings": np.array(["1"] * len(X))}[self.mode]
        return self._usual(X).argmax(axis=1)

    def _sure(self, X):
        usual = self._usual(X)
        usual = usual if self.method == "predict_proba" or self.n_classes > 2 else usual[:, 1] - usual[:, 0]
        if not (np.abs(X) > 1e5).any():
            return usual
        self._whim()
        if self.mode == "a refused score":
            raise KeyError("no score")
        strange = {
            "NaN": usual * np.nan,
            "infinite": usual * np.inf,
            "wrong shape": usual[..., None],
            "strings": usual.astype(str),
            "nothing": None,
            "huge": usual * 1e300,
            "no sum": usual - 7.0,
            "masked": np.ma.masked_array(usual, mask=True),
            "complex": usual * (1 + 1j),
        }
        return strange.get(self.mode, usual)

    def _whim(self):
        if self.mode == "warns":
            warnings.warn("a strange row", UserWarning, stacklevel=2)
        errors = {
            "raises": KeyError("row 7"),
            "ends": Ends(),
            "exits": SystemExit(1),
            "unfitted": BudgetExhausted("nothing left"),
        }
        if self.mode in errors:
            raise errors[self.mode]


def evaluating(model, *, ledger="row", **options):
    """Return an action that releases an evaluation: all numbers of a result follow from what it returns."""

    def evaluate(X, y):
        account = PrivacyLedger("budget.db", epsilon=2.0, delta=1e-6, unit=ledger)
        seen = private_evaluation(model, X, y, epsilon=0.5, ledger=account, **options)
        return seen.released, seen.privacy_spent

    return evaluate


def fitted(Estimator, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rows
        return Estimator(epsilon=20.0, random_state=0, **options).fit(X, y)


def no_number(X):
    """Return rows that no fit takes, and labels that no model knows."""
    rows = {f"a row of {entry}": ([entry] * X.shape[1], None) for entry in (np.nan, np.inf, -np.inf, -0.0)}
    return rows | {"a label that no model knows": (None, 77), "a label that is no number": (None, 0.5)}


def of_text(rows):
    """Return the rows where labels are text: numbers among them are refused by their type."""
    kept = {name: row for name, row in rows.items() if not name.startswith("a label")}
    return kept | {"a label that no model knows": (None, "nowhere")}


def bits_of(seen, rows=slice(None)):
    parts = seen.true, seen.predicted, seen.score, seen.of_true
    return [np.ascontiguousarray(part[rows]).tobytes() for part in parts]


def require_others_unmoved(model, X, y, positive=None, place=5, rows=None):
    """Check that a row of any values changes the opinions of no other row; return those about it."""
    asked, found = Asked.of(model, positive), {}
    usual = opinions(model, X, labels_of(y), asked)
    others = np.delete(np.arange(len(y)), place)
    alone = [opinions(model, X[k : k + 1], labels_of(y[k : k + 1]), asked) for k in range(len(y))]
    assert bits_of(usual) == [b"".join(parts) for parts in zip(*map(bits_of, alone), strict=True)]
    for name, (row, label) in (extreme_rows(X) | no_number(X) if rows is None else rows).items():
        twin, labels = X.copy(), np.array(y, dtype=object)
        if row is not None:
            twin[place] = row
        if label is not None:
            labels[place] = label
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            seen = opinions(model, twin, labels, asked)
        assert bits_of(seen, others) == bits_of(usual, others), name
        itself = opinions(model, twin[place : place + 1], labels[place : place + 1], asked)
        assert bits_of(seen, [place]) == bits_of(itself), name
        assert np.isin(seen.true, range(max(2, len(asked.classes)))).all()
        assert np.isin(seen.predicted, range(max(2, len(asked.classes)))).all()
        assert not np.isnan(seen.score).any()
        found[name] = seen.right[place], seen.score[place]
    return found


# ---------------------------------------------------------------------------------------------------- other rows


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("positive", [None, 0])
def test_no_whim_of_a_foreign_model_moves_another_row(mode, positive):
    huge = {"a huge entry": ([0.1, 1e6, 0.2], None), "an unknown label": (None, "unknown"), "none": (None, pd.NA)}
    for n_classes, method in ((2, "predict_proba"), (2, "decision_function"), (3, "predict_proba")):
        model = Odd(mode, n_classes, method)
        found = require_others_unmoved(model, X, TWO, positive, rows=huge)
        assert not found["an unknown label"][0], "it is predicted wrongly"
        if mode not in ("warns", "huge", "no sum", "masked", "complex"):
            assert not found["a huge entry"][0], "a row that is refused is predicted wrongly"


@pytest.mark.parametrize("positive", [None, 1])
@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPLinearSVC])
def test_no_value_moves_another_row_of_a_model_of_dpsk(Estimator, labels, positive):
    if positive is None and (Estimator is DPLinearSVC and labels is THREE):
        positive = 1
    model = fitted(Estimator, X, labels, bounds=(-1, 1))
    given = None if positive is None else model.classes_[positive]
    found = require_others_unmoved(model, X, labels, given)
    for name in ("a row of nan", "a row of inf", "a label that no model knows"):
        assert not found[name][0], name
        assert abs(found[name][1]) >= LARGEST, "the model counts as sure of it"


def test_nor_of_a_pipeline_or_a_model_of_tables():
    colours = pd.Series(np.array(["blue", "red", "green"], dtype=object)[np.arange(30) % 3], dtype=object)
    frame = pd.DataFrame({"size": X[:, 0], "colour": colours})
    encoder = make_column_transformer((OneHotEncoder(categories=[["blue", "green", "red"]]), ["colour"]))
    model = make_pipeline(encoder, DPLogisticRegression(epsilon=20.0, bounds=(0, 1), random_state=0)).fit(frame, TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = DPTabularClassifier(epsilon=20.0, random_state=0).fit(frame, TWO)
    for fitted_model in (model, raw):
        asked = Asked.of(fitted_model, None)
        usual = opinions(fitted_model, frame, TWO, asked)
        for value in ("violet", None, 7, float("nan"), ("a", "tuple")):
            twin = frame.copy()
            twin.at[4, "colour"] = value
            others = np.delete(np.arange(30), 4)
            assert bits_of(opinions(fitted_model, twin, TWO, asked), others) == bits_of(usual, others)


def test_probabilities_have_the_same_bits_in_any_company():
    for labels in (TWO, THREE):
        model = fitted(DPLogisticRegression, X, labels, bounds=(-1, 1))
        check_company(model.predict_proba, X, rows=extreme_rows(X))
    rows = np.random.default_rng(1).normal(size=(1003, 3))
    whole = model.predict_proba(rows)
    for k in (0, 1, 501, 1002):
        assert model.predict_proba(rows[k : k + 1]).tobytes() == whole[k].tobytes()


class Answered:
    """A label that compares as it likes."""

    def __init__(self, says):
        self.says = says

    def __eq__(self, other):
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says

    __hash__ = None


@pytest.mark.parametrize("says", [True, None, "yes", np.array([1, 0]), ValueError(), SystemExit(), Ends()], ids=repr)
def test_labels_that_compare_as_they_like_are_their_own_business(says):
    model = fitted(DPLogisticRegression, X, THREE, bounds=(-1, 1))
    labels = THREE.astype(object)
    usual = opinions(model, X, labels, Asked.of(model, None))
    labels[5] = Answered(says)
    others = np.delete(np.arange(30), 5)
    assert bits_of(opinions(model, X, labels, Asked.of(model, None)), others) == bits_of(usual, others)
    assert (correct(model, X, labels)[others] == (model.predict(X) == THREE)[others]).all()


def test_a_missing_label_of_arrow_does_not_change_the_type_of_the_others():
    for values in ([2**53 + 1, 2**53, 1], [True, False, True], ["a", "b", "a"]):
        for stored in (pa.array, lambda values: pa.chunked_array([values[:1], values[1:]])):
            whole, missing = labels_of(stored(values)), labels_of(stored([*values[:2], None]))
            assert whole.dtype == missing.dtype
            assert whole[:2].tolist() == missing[:2].tolist() == values[:2]


# -------------------------------------------------------------------------------- who is asked for all rows at once


def test_a_model_whose_probabilities_are_of_somebody_else_is_asked_row_by_row():
    class Centred(DPLogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X - np.mean(X, axis=0))

    class Inner(DPLogisticRegression):
        def _log_odds(self, X):
            return super()._log_odds(X - np.mean(X, axis=0))

    class Led(Pipeline):
        def predict_proba(self, X):
            return super().predict_proba(X - np.mean(X, axis=0))

    class Harmless(DPLogisticRegression):
        """It has another plan, but predicts as its parent."""

        def _plan(self, facts):
            return super()._plan(facts)

    patched = fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1))
    assert judges_rows_alone(patched)
    assert judges_rows_alone(Harmless())
    whole = patched.predict_proba
    patched.predict_proba = lambda X: whole(X - np.mean(X, axis=0))
    trimmed = make_pipeline(FunctionTransformer(), fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1)))
    trimmed[0].transform = lambda X: X - np.mean(X, axis=0)
    front = [("first", FunctionTransformer()), ("last", fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1)))]
    of_others = [fitted(Model, X, TWO, bounds=(-1, 1)) for Model in (Centred, Inner)]
    recalibrated = fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1))
    recalibrated.calibration_ = lambda scores: scores - np.mean(scores)
    for model in (*of_others, Led(front), patched, trimmed, recalibrated):
        assert not judges_rows_alone(model)
        require_others_unmoved(model, X, TWO)


# ---------------------------------------------------------------------------------------------------------- twins


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "positive"), [(TWO, None), (TWO, 0), (THREE, None), (THREE, "low")])
def test_twins_differ_in_noise_only(labels, positive):
    model = fitted(DPLogisticRegression, X, labels, bounds=(-1, 1))
    rows = extreme_rows(X, labels) | no_number(X)
    rows = of_text(rows) if labels is THREE else rows
    check_twins(evaluating(model, positive=positive), X, labels, rows=rows, streams=2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_twins_of_a_foreign_model_differ_in_noise_only(mode):
    for n_classes in (2, 3):
        rows = {"a huge entry": ([0.1, 1e6, 0.2], None), "an unknown label": (None, 9)}
        check_twins(evaluating(Odd(mode, n_classes)), X, TWO, rows=rows, streams=2)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["sparse", "chunks", "dask", "frame", "list", "masked"])
def test_twins_in_any_storage_differ_in_noise_only(storage):
    model = fitted(DPLogisticRegression, X, THREE, bounds=(-1, 1))
    stored = {
        "sparse": sp.csr_matrix,
        "chunks": lambda X: Chunks(lambda: np.array_split(X, 4)),
        "dask": lambda X: dask.array.from_array(X, (8, 3)),
        "frame": pd.DataFrame,
        "list": lambda X: X.tolist(),
        "masked": lambda X: np.ma.masked_invalid(X),
    }[storage]
    rows = of_text(extreme_rows(X, THREE) | no_number(X))
    action = evaluating(model)
    check_twins(lambda X, y: action(stored(X), y), X, THREE, rows=rows, streams=2)


@pytest.mark.slow
def test_twins_of_persons_differ_in_noise_only():
    model = fitted(DPLogisticRegression, X, THREE, bounds=(-1, 1))
    rows = of_text(no_number(X) | extreme_rows(X, THREE))
    for positive in (None, "low"):
        action = evaluating(model, ledger="person", groups=np.arange(30) // 4, positive=positive)
        check_twins(action, X, THREE, rows=rows, streams=2)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
def test_nor_does_anything_of_the_whole_result_tell(labels):
    """With its summary, statement and dict; a look at each number takes long."""
    model = fitted(DPLogisticRegression, X, labels, bounds=(-1, 1))

    def evaluate(X, y):
        seen = private_evaluation(model, X, y, epsilon=0.5)
        return seen.to_dict(), seen.statement(), repr(seen)

    rows = {"a row of nan": no_number(X)["a row of nan"], "a huge row": extreme_rows(X)["a huge row"]}
    check_twins(evaluate, X, labels, rows=rows, streams=3)


# ------------------------------------------------------------------------------------------------ what else is seen


def test_rows_are_read_once():
    """So what is said about a row by two methods is said about the same row, also where a source changes its order."""
    readings = []

    def read():
        readings.append(1)
        yield from np.array_split(X, 3)

    private_evaluation(fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1)), Chunks(read), TWO, epsilon=1.0)
    assert len(readings) == 1


def test_nothing_is_said_while_it_runs(caplog, capsys):
    model = fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1))
    rows = X.copy()
    rows[3] = np.nan
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings():
        warnings.simplefilter("error")
        private_evaluation(model, rows, TWO, epsilon=1.0)
        private_evaluation(SVC().fit(X, TWO), rows, TWO, epsilon=1.0)
    assert (caplog.text, *capsys.readouterr()) == ("", "", "")
    assert pickle.dumps(model)


@pytest.mark.slow
def test_a_threshold_that_was_found_tells_of_a_row_in_noise_only():
    model = fitted(DPLogisticRegression, X, TWO, bounds=(-1, 1))

    def find(X, y):
        found = PrivateThreshold(model, epsilon=0.5).fit(X, y)
        return found.threshold_, found.cost_, found.privacy_spent_, found.classes_

    check_twins(find, X, TWO, rows=extreme_rows(X, TWO) | no_number(X), streams=2)
