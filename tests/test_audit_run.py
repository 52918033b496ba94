"""The entry of audits: what it takes, refuses, tries and returns. Each honest audit is wrong with probability 1e-3."""

import hashlib
import pickle
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import FunctionTransformer

import dpsk.audits.run_audit as entry
from dpsk import (
    AuditDisplay,
    AuditResult,
    DPLogisticRegression,
    DPTabularClassifier,
    PrivacyLedger,
    audit,
    make_pipeline,
    private_cross_validate,
    private_score,
)
from dpsk.audits import Claim

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few rows: a fit says that it is hopeless


def default(**parameters):
    return DPLogisticRegression(1.0, 1e-6, **parameters)


class Means(ClassifierMixin, BaseEstimator):
    """A classifier of another library: means of classes with Laplace noise, for rows in [-1, 1]."""

    def __init__(self, epsilon=4.0, part=1.0):
        self.epsilon, self.part = epsilon, part

    def fit(self, X, y):
        X = np.clip(X, -1, 1)
        self.classes_ = np.unique(y)
        scale = self.part * 2 * X.shape[1] / self.epsilon
        sums = np.array([X[y == label].sum(axis=0) for label in self.classes_])
        self.sums_ = sums + np.random.default_rng().laplace(scale=scale, size=sums.shape)
        return self

    def predict(self, X):
        return self.classes_[(X @ (self.sums_[1] - self.sums_[0]) > 0).astype(int)]


@pytest.mark.slow
def test_honest_fits_are_not_refuted():
    result = audit(default(), seconds=6)
    assert isinstance(result, AuditResult)
    assert not result.refuted
    assert {one.attack for one in result.findings} == {"transcript", "model"}
    assert 0.8 < result.epsilon <= 1.0
    assert pickle.loads(pickle.dumps(result)).statement() == result.statement()
    assert isinstance(result.plot(), AuditDisplay)
    result.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", [1.0, 0.2])
def test_other_libraries_are_audited_by_their_parameters(part):
    result = audit(Means(part=part), adjacency="replace", seconds=6)
    assert (result.claim.epsilon, result.claim.delta) == (4.0, 0.0)
    assert {one.attack for one in result.findings} == {"model"}
    assert result.refuted == (part < 1)
    assert result.epsilon > 0.5


def test_unknown_neighbours_count_as_two_changes(monkeypatch):
    pairs = []
    monkeypatch.setattr(entry, "compare_models", lambda _, found, *__, **___: pairs.extend(found) or [])
    result = audit(Means(), seconds=1.0)
    assert result.adjacency == "replace or add-remove"
    assert "it counts as two changes" in result.statement()
    assert {pair.size for pair in pairs} == {2}


@pytest.mark.slow
def test_scores_are_audited_as_actions():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = DPLogisticRegression(20.0, 1e-6, bounds=(-1, 1)).fit(X, y)
    result = audit(lambda X, y: private_score(model, X, y, epsilon=1.0), X, y, attacks=["transcript"], seconds=5)
    assert not result.refuted
    assert 0.3 < result.epsilon <= 1.0
    assert result.claim.delta == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frame", "pipeline", "persons"])
def test_tables_pipelines_and_persons(kind):
    n = 60
    y = np.arange(n) % 2
    numbers = np.column_stack([np.linspace(-1, 1, n), y])
    if kind == "frame":
        frame = pd.DataFrame({"age": np.arange(n) + 20.0, "job": np.where(np.arange(n) % 3, "nurse", "cook")})
        result = audit(DPTabularClassifier(1.0, 1e-6), frame, y, attacks=["transcript"], seconds=5)
    elif kind == "pipeline":
        model = make_pipeline(FunctionTransformer(np.tanh), default())
        result = audit(model, numbers, y, attacks=["transcript"], seconds=4)
    else:
        groups = np.repeat(np.arange(n // 3), 3)
        result = audit(default(), numbers, y, groups=groups, attacks=["transcript"], seconds=4)
        assert result.unit == "person"
    assert not result.refuted
    assert 0.5 < result.epsilon <= 1.0


def test_attacks_share_the_error(monkeypatch):
    shares = []

    def attack(*_, error, seconds, **__):
        shares.append((error, seconds))
        return []

    for name in ("read_transcripts", "compare_models"):
        monkeypatch.setattr(entry, name, attack)
    result = audit(default(), seconds=50.0, confidence=0.99)
    assert [error for error, _ in shares] == [pytest.approx(0.005)] * 2
    first, second = (seconds for _, seconds in shares)
    assert first <= 25
    assert 25 < second <= 50  # what the first attack did not use
    assert (result.findings, result.epsilon, result.strongest) == ((), 0.0, None)


def test_a_fit_that_is_dear_is_audited_by_one_run(monkeypatch):
    monkeypatch.setattr(entry, "read_transcripts", lambda *_, **__: [])
    called = []
    monkeypatch.setattr(entry, "one_run", lambda *_, **__: called.append(1) or "nothing")
    audit(default(), seconds=1e-3)
    assert called == [1]


def test_no_ledger_is_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(entry, "compare_models", lambda *_, **__: [])
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5)
    model = default(ledger=ledger)
    result = audit(model, seconds=2.0)
    assert not result.refuted
    assert not ledger.history()
    assert model.ledger is ledger


X, Y = np.zeros((10, 2)), np.arange(10) % 2
REFUSED = {
    "seconds": ({"seconds": 0}, "seconds=0"),
    "infinite": ({"seconds": float("inf")}, "seconds=inf"),
    "confidence": ({"confidence": 1.0}, "confidence=1.0"),
    "percent": ({"confidence": 99.9}, "confidence=99.9"),
    "attack": ({"attacks": ["all"]}, "attacks="),
    "no attack": ({"attacks": []}, "attacks="),
    "text": ({"attacks": "model"}, "attacks='model'"),
    "adjacency": ({"adjacency": "unbounded"}, "adjacency='unbounded'"),
    "labels": ({"X": X}, "X and y"),
    "persons": ({"groups": np.arange(10)}, "give X and y too"),
    "claim": ({"claim": (1.0,)}, r"must be epsilon, \(epsilon, delta\)"),
    "text as claim": ({"claim": "1"}, r"must be epsilon, \(epsilon, delta\)"),
    "yes": ({"claim": True}, r"must be epsilon, \(epsilon, delta\)"),
    "true seconds": ({"seconds": True}, "seconds=True"),
    "processes": ({"n_jobs": 0}, "n_jobs=0"),
    "no promise": ({"claim": (0.0, 0.0)}, "no promise"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_audited_is_refused(name):
    arguments, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        audit(default(), **arguments)


def test_estimators_without_a_promise_are_refused():
    with pytest.raises(ValueError, match="random_state=0: all fits would have the same noise"):
        audit(default(random_state=0))
    with pytest.raises(ValueError, match=r"nothing is promised|no promise"):
        audit(DPLogisticRegression(np.inf))
    with pytest.raises(ValueError, match=r"claim=\(epsilon, delta\)"):
        audit(lambda X, y: 1.0)
    with pytest.raises(TypeError, match="give a classifier with fit"):
        audit(3)
    with pytest.raises(TypeError, match=r"DPLogisticRegression is a class: give an instance"):
        audit(DPLogisticRegression)
    with pytest.raises(ValueError, match=r"groups=X\['patient'\]"):
        audit(default(group_column="patient"))


def test_claims_may_be_given():
    result = audit(default(), claim=(2.0, 1e-5), attacks=["transcript"], seconds=1.0)
    assert result.claim == Claim(2.0, 1e-5) or (result.claim.epsilon, result.claim.delta) == (2.0, 1e-5)
    assert not result.refuted
    wrong = audit(default(), claim=(0.2, 1e-6), attacks=["transcript"], seconds=2.0)
    assert wrong.refuted
    with pytest.raises(AssertionError, match="REFUTED"):
        wrong.check()


class Counting(BaseEstimator):
    """Releases the sum of something with Laplace noise of a quarter of the scale that it needs."""

    def __init__(self, of=0, epsilon=1.0):
        self.of, self.epsilon = of, epsilon

    def fit(self, X, y):
        counted = (np.asarray(y) == np.unique(y)[self.of]).sum()
        self.count_ = counted + np.random.default_rng().laplace(scale=0.25 / self.epsilon)
        return self


def test_rows_of_either_label_leave():
    pairs = entry.pairs_of(None, None, adjacency="add-remove", takes_weights=False)
    gone = [set(Counter(pair.one.y.tolist()) - Counter(pair.other.y.tolist())) for pair in pairs if pair.size == 1]
    assert {0} in gone
    assert {1} in gone


def test_a_row_of_highest_entries_is_replaced_by_one_of_lowest():
    given = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    ends = given.max(axis=0), given.min(axis=0)
    pairs = entry.pairs_of(given, np.arange(20) % 2, adjacency="replace", takes_weights=False)
    assert any(
        all((end == data.X).all(axis=1).any() for data, end in zip((pair.one, pair.other), ends, strict=True))
        for pair in pairs
    )


@pytest.mark.slow
@pytest.mark.parametrize("of", [0, 1])
def test_a_row_of_either_label_is_added_and_removed(of):
    assert audit(Counting(of), adjacency="add-remove", seconds=15).refuted


class HighSums(Means):
    """Noise of a quarter of the scale for sums of columns in [0, 1], which only rows with high entries show."""

    def fit(self, X, y):
        total = np.clip(X, 0, 1).sum()
        self.total_ = total + np.random.default_rng().laplace(scale=0.25 * X.shape[1] / self.epsilon)
        self.classes_ = np.unique(y)
        return self

    predict = None


@pytest.mark.slow
def test_rows_whose_entries_are_all_high_or_low_are_tried():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (40, 4))
    y = (X @ [1, -1, 1, -1] > 0).astype(int)
    assert audit(HighSums(1.0), X, y, adjacency="replace", seconds=15).refuted


@pytest.mark.parametrize("kind", ["object", "category", "column"])
def test_labels_of_any_type_are_taken(kind):
    labels = pd.Series(np.where(Y, "yes", "no"), dtype="category" if kind == "category" else object)
    y = labels.to_frame() if kind == "column" else labels
    pairs = entry.pairs_of(X, y, adjacency="replace", takes_weights=False)
    assert all(set(pair.one.y) == {"yes", "no"} for pair in pairs)


class Stamped(DPLogisticRegression):
    """Shows a number that no stream of bits decides: no leak, and nothing that can be replayed."""

    def fit(self, X, y, sample_weight=None, groups=None):
        super().fit(X, y, sample_weight=sample_weight, groups=groups)
        self.stamp_ = np.random.default_rng().normal()
        return self


def test_randomness_of_its_own_is_no_leak():
    result = audit(Stamped(1.0, 1e-6), attacks=["transcript"], seconds=2.0)
    assert not result.refuted
    assert "a second fit on the same rows" in result.notes[0]


def test_what_releases_nothing_through_dpsk_is_not_read():
    result = audit(Means(), attacks=["transcript"], seconds=1.0)
    assert not result.refuted
    assert result.findings == ()


def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3))
    return X, (X[:, 0] > 0).astype(int)


def projected(X, y):
    """Randomness of its own, which a replay does not know."""
    return default(bounds=(-1, 1)).fit(X @ np.random.default_rng().normal(size=(3, 3)), y)


def timed(X, y):
    return default(bounds=(-1, 1)).fit(X, y), time.time()


def in_threads(X, y):
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda _: default(bounds=(-1, 1)).fit(X, y), range(2)))


@pytest.mark.slow
@pytest.mark.parametrize("action", [projected, timed, in_threads])
def test_randomness_from_elsewhere_is_no_evidence(action):
    result = audit(
        action, *rows(), claim=(2.0, 2e-6), adjacency="zero-out", attacks=["transcript"], seconds=4, confidence=0.999
    )
    assert not result.refuted
    assert result.notes
    if action is in_threads:
        assert result.findings == ()
        assert any("in several threads" in note for note in result.notes)
    if action is timed:  # a random projection of zeros and one row that is clipped may be the same by chance
        assert result.findings == ()
        assert any("with the same bits did something else" in note for note in result.notes)


def halves(X, y):
    """Two fits on rows of their own promise together what one does."""
    return [default(classes=[0, 1]).fit(X[part::2], y[part::2]) for part in (0, 1)]


@pytest.mark.slow
def test_a_row_leaves_one_part_of_the_rows_only():
    result = audit(halves, *rows(), claim=(1.0, 1e-6), attacks=["transcript"], seconds=6)
    assert result.adjacency == "zero-out"  # from the reports inside
    assert not result.refuted
    assert any("sums over parts" in note for note in result.notes)


def cross_validated(X, y):
    return private_cross_validate(default(), X, y, epsilon=1.0, cv=3)


@pytest.mark.slow
def test_a_cross_validation_promises_what_all_of_it_costs():
    result = audit(cross_validated, *rows(), attacks=["transcript"], seconds=6)
    assert (result.claim.epsilon, result.adjacency) == (3.0, "zero-out")
    assert 0 < result.epsilon <= 3.0
    assert not result.refuted


class Centred(DPLogisticRegression):
    """A fit that keeps means without noise."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight=sample_weight)
        self._means = np.asarray(X).mean(axis=0)
        return self


class Fingerprinted(DPLogisticRegression):
    """A fit that tells a hash of its rows."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight=sample_weight)
        self.rows_ = hashlib.md5(np.ascontiguousarray(X).tobytes(), usedforsecurity=False).hexdigest()
        return self


@pytest.mark.slow
@pytest.mark.parametrize("leaky", [Centred, Fingerprinted])
def test_facts_without_noise_are_found_in_little_time(leaky):
    """A hash looks like a random name with probability 1/64: the rows are made without randomness, so it does not."""
    assert audit(leaky(1.0, 1e-6), attacks=["transcript"], seconds=10).refuted
