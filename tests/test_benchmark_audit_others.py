"""The benchmark of audits of other libraries: verdicts follow from what a library does, not from its name."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pandas")

from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks import table
from benchmarks.experiments import audit_others
from benchmarks.experiments.audit_others import Case, Known
from benchmarks.table import Rows


class Means(ClassifierMixin, BaseEstimator):
    """A private mean of clipped numbers, with or without the largest entry beside it."""

    def __init__(self, epsilon=1.0, honest=True):
        self.epsilon, self.honest = epsilon, honest

    def fit(self, X, y):
        rng = np.random.default_rng()
        self.classes_ = np.unique(y)
        self.sums_ = np.clip(X, -1, 1).sum(axis=0) + rng.laplace(scale=2 * X.shape[1] / self.epsilon, size=X.shape[1])
        if not self.honest:
            self.largest_ = float(np.abs(X).max())
        return self


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setitem(sys.modules, "somebodys", SimpleNamespace(Means=Means))
    monkeypatch.setitem(audit_others.PACKAGES, "somebodys", "somebodys")
    monkeypatch.setitem(audit_others.DISTRIBUTIONS, "somebodys", ("no such distribution",))
    monkeypatch.setattr(audit_others, "SECONDS", 4.0)
    seen = {"largest": Known(audit_others.lone_row, lambda model: getattr(model, "largest_", 0.0), 1.0)}
    cases = [
        Case("somebodys", "Means", "honest", known=seen),
        Case("somebodys", "Means", "leaks", {"honest": False}, known=seen),
    ]
    monkeypatch.setattr(audit_others, "CASES", cases)


def row_of(key):
    fields = audit_others.KEY + audit_others.MEASURED
    return dict(zip(fields, map(str, [*key, *audit_others.measure(None, *key)]), strict=True))


@pytest.mark.parametrize("attack", ["twins", "models", "largest"])
def test_what_leaks_is_broken_and_what_does_not_stands(library, attack):
    # wrong with probability 1e-3 for the honest one, which is the error of an audit
    verdicts = {name: row_of(("somebodys", "Means", name, attack))["refuted"] for name in ("honest", "leaks")}
    assert verdicts == {"honest": "False", "leaks": "True"}


def test_a_library_that_is_missing_is_left_out_and_the_report_says_so(library, monkeypatch, tmp_path):
    rows = [row_of(("somebodys", "Means", name, "twins")) for name in ("honest", "leaks")]
    monkeypatch.setitem(sys.modules, "somebodys", None)
    assert audit_others.measure(None, "somebodys", "Means", "honest", "twins") is None
    monkeypatch.setattr(table.Table, "rows", lambda _: Rows(rows))
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    audit_others.report()
    text = (tmp_path / "audit_others.md").read_text()
    assert "diffprivlib is left out: it was not installed" in text
    assert "interpret is left out" in text
    assert "somebodys from its sources" in text


def test_every_case_has_a_name_of_its_own_and_runs_where_its_library_is_installed():
    keys = audit_others.keys(None)
    assert len(set(keys)) == len(keys)
    for case in audit_others.CASES:
        model = case.made()
        if case.library == "dpsk":
            assert model.epsilon == audit_others.EPSILON


def test_pairs_differ_in_one_row():
    for case in audit_others.CASES:
        for known in case.known.values():
            pair = known.pair()
            X, other = np.asarray(pair.one.X), np.asarray(pair.other.X)
            moved = (other != X).any(axis=1) | (pair.one.y != pair.other.y)
            assert X.shape == other.shape
            assert moved.sum() == 1


def test_a_line_says_what_was_promised_and_found():
    row = {"estimator": "Means", "configuration": "honest", "epsilon promised": "1.0", "delta promised": "1e-05"}
    row |= {"attack": "twins", "refuted": "True", "epsilon proved": "", "fits": "3", "seconds": "0.1", "seen": "all"}
    assert audit_others.line(row)[2:6] == ["1.0, 1e-05", "twins", "**broken**", "-"]
    assert audit_others.line(row | {"delta promised": "0.0", "refuted": "False"})[2:5] == ["1.0", "twins", "stands"]
