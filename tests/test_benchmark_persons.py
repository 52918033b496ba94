"""Benchmarks of persons and rare classes: data are what they say, the naive way is as private as it claims."""

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("pandas")

import pandas as pd

from benchmarks import visits
from benchmarks.experiments import persons, rare_classes
from benchmarks.table import Rows
from benchmarks.visits import Kind, Visits, intraclass_correlation, made


def source(n=2_000):
    """Return rows, labels and who is near: column 0 is the age, 1 the sex, the others belong to a visit."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 50, n) / 50, rng.integers(0, 2, n), rng.random((n, 2))])
    y = np.where(X[:, 0] + X[:, 2] + rng.logistic(size=n) / 4 > 1, 1.0, -1.0)
    return X, y, np.column_stack([5 * X[:, 0], 10 * X[:, 1]])


KIND = Kind((0, 1), {0: 5.0, 1: 10.0}, 50.0)


def test_visits_keep_what_belongs_to_the_person():
    X, y, near = source()
    found = made(X, y, near, KIND, np.random.default_rng(1))
    sizes = np.bincount(found.persons)
    assert (len(sizes), sizes.min(), sizes.max()) == (2_000, 1, 50)
    assert np.median(sizes) == 3
    first = np.searchsorted(found.persons, np.arange(2_000))
    assert (found.X[first] == X).all()
    assert (found.y[first] == y).all()
    assert (found.X[:, 1] == X[found.persons, 1]).all()
    assert np.abs(found.X[:, 0] - X[found.persons, 0]).max() <= 2 / 50 + 1e-12
    rows = {tuple(row): label for row, label in zip(X[:, 2:], y, strict=True)}
    assert all(rows[tuple(row)] == label for row, label in zip(found.X[:, 2:], found.y, strict=True))  # of one visit
    totals = np.bincount(found.persons, weights=found.weights)
    np.testing.assert_allclose(totals, 1)


def test_similar_persons_are_near_and_labels_are_more_alike_than_columns_explain():
    X, y, near = source()
    found = made(X, y, near, KIND, np.random.default_rng(1))
    donors = {tuple(row): i for i, row in enumerate(X[:, 2:])}
    donor = np.array([donors[tuple(row)] for row in found.X[:, 2:]])
    assert (X[donor, 1] == X[found.persons, 1]).all()
    assert np.abs(X[donor, 0] - X[found.persons, 0]).mean() < 0.05  # of strangers: .33
    far = Kind((0, 1), {}, 50.0)
    stranger = made(X, y, np.zeros_like(near), far, np.random.default_rng(1))
    alike = intraclass_correlation(found.y, found.persons)
    assert 0.4 < intraclass_correlation(stranger.y, stranger.persons) < alike < 0.9


def test_visits_of_a_frame_are_those_of_its_numbers():
    X, y, near = source(200)
    frame = pd.DataFrame({"age": (50 * X[:, 0]).astype(int), "sex": X[:, 1], "dose": X[:, 2]})
    kind = Kind(("age", "sex"), {}, 1.0)
    found = made(frame, y, near, kind, np.random.default_rng(1))
    numbers = made(X, y, near, KIND, np.random.default_rng(1))
    assert (found.persons == numbers.persons).all()
    assert (found.X["dose"].to_numpy() == numbers.X[:, 2]).all()
    assert (found.X["sex"].to_numpy() == X[found.persons, 1]).all()
    assert np.abs(found.X["age"] - frame["age"].to_numpy()[found.persons]).max() == 2


def test_no_person_is_on_both_sides(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((1_000, 32)).astype(np.float32)
    X[:, 18] = np.arange(1_000) / 1_000  # belongs to a visit and tells the row of the file
    np.savez(tmp_path / "bank.npz", X=X, y=np.where(X[:, 20] > 0.5, 1, -1).astype(np.int8))
    train, test = visits.split_of("bank", tmp_path, 3)
    assert not set(train.X[:, 18]) & set(test.X[:, 18])
    assert (len(np.unique(train.persons)), len(np.unique(test.persons))) == (800, 200)
    other, _ = visits.split_of("bank", tmp_path, 4)
    assert set(other.X[:, 18]) != set(train.X[:, 18])


def test_one_row_of_each_person_is_drawn_evenly():
    rows = Visits(np.arange(6.0)[:, None], np.arange(6), np.array([0, 0, 0, 1, 2, 2]))
    drawn = [rows.one_each(seed) for seed in range(3_000)]
    assert all((one.persons == [0, 1, 2]).all() for one in drawn)
    counts = np.bincount(np.concatenate([one.y for one in drawn]), minlength=6)
    assert counts[3] == 3_000
    np.testing.assert_allclose(counts[[0, 1, 2, 4, 5]], [1_000, 1_000, 1_000, 1_500, 1_500], atol=150)
    assert (drawn[0].X[:, 0] == drawn[0].y).all()


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_intraclass_correlation_is_the_share_between_persons(share):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4_000), rng.integers(1, 20, 4_000))
    values = np.sqrt(share) * rng.normal(size=4_000)[codes] + np.sqrt(1 - share) * rng.normal(size=len(codes))
    assert intraclass_correlation(values, codes) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("epsilon", persons.EPSILONS)
def test_50_rows_together_have_the_epsilon_of_a_person(epsilon):
    """A Gaussian mechanism has delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""

    def delta(mu, at):
        return norm.cdf(mu / 2 - at / mu) - np.exp(at) * norm.cdf(-mu / 2 - at / mu)

    of_row = persons.row_epsilon(epsilon)
    low, high = 1e-6, 10.0
    for _ in range(200):  # the mu at which a row has this epsilon
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle, of_row) < 1e-6 else (low, middle)
    assert delta(50 * low, epsilon) == pytest.approx(1e-6, rel=1e-3)


def rows_of(losses):
    """Return rows in which the model without noise has .9 in all measures, and the others what they lose."""
    rows = []
    for repeat in range(3):
        for data in ("adult", "bank"):
            values = [(persons.NO_NOISE, "", 0.0)]
            values += [(m, e, losses[m]) for m in persons.PRIVATE for e in persons.EPSILONS]
            for method, epsilon, lost in values:
                score = 0.9 - lost - 0.001 * repeat
                rows.append((data, method, epsilon, repeat, *[score] * 4, "1", "2"))
    return Rows(dict(zip(persons.TABLE.fields, map(str, row), strict=True)) for row in rows)


def test_cells_in_which_a_person_costs_too_much_are_named(monkeypatch):
    for own, kept in ((0.009, 24), (0.011, 0)):
        losses = {persons.PERSONS: own, persons.GROUPS: 0.03, persons.ONE: 0.01, persons.ROWS: 0.0}
        known = rows_of(losses)
        monkeypatch.setattr(type(persons.TABLE), "rows", lambda self, known=known: known)
        found = persons.everything()
        gap = persons.loss(found, "AUC", "adult", persons.PERSONS, 1.0)
        assert (gap.mean, gap.count) == (pytest.approx(100 * own), 3)
        text = persons.aims(found)
        assert text.startswith(f"In {kept} of 24 cells")
        assert ("adult, epsilon 0.5, accuracy, persons (by 0.10 ± 0.00 points)" in text) == (kept == 0)
        assert "| AUC, rows | for rows, 50 together | +3.00 ± 0.00 |" in persons.losses(found, "bank")


# --------------------------------------------------------------------------------------------------- rare classes


def test_a_table_has_its_share_of_positives(tmp_path):
    X = np.random.default_rng(0).random((20_000, 32)).astype(np.float32)
    X[:, 0] = np.arange(20_000)
    np.savez(tmp_path / "bank.npz", X=X, y=np.where(np.arange(20_000) % 4 == 0, 1, -1).astype(np.int8))
    for share in rare_classes.SHARES:
        rows = rare_classes.split_of("bank", tmp_path, share, 0)
        for y in (rows.y, rows.test_y):
            assert (y > 0).mean() == pytest.approx(share / 100, abs=0.001)
        ids = np.concatenate([rows.X[:, 0], rows.test_X[:, 0]]).astype(int)
        assert len(set(ids)) == len(ids)
        assert len(ids) == pytest.approx(15_000 * 100 / (100 - share), abs=1)  # all negatives stay
        assert (np.where(ids % 4 == 0, 1, -1) == np.concatenate([rows.y, rows.test_y])).all()


def test_tables_that_lose_too_much_are_named(monkeypatch):
    rows = []
    for repeat in range(3):
        for share, lost in ((2, 1.6), (5, 1.4)):
            scores = ((rare_classes.NO_NOISE, "", 0.8), (rare_classes.BALANCED, 1.0, 0.8 - lost / 100))
            for method, epsilon, score in scores:
                rows.append(("bank", share, method, epsilon, repeat, 30_000, 600, *[score + 0.01 * repeat] * 3, "1"))
    known = Rows(dict(zip(rare_classes.TABLE.fields, map(str, row), strict=True)) for row in rows)
    monkeypatch.setattr(type(rare_classes.TABLE), "rows", lambda self: known)
    found = rare_classes.everything()
    assert (
        rare_classes.aims(found) == "1 of 2 tables lose at most 1.5 points at epsilon 1. Not: bank, 2 % (1.60 ± 0.00)."
    )
    assert "| bank | 2 | 30000 | 600 |  | +1.60 ± 0.00 |  |" in rare_classes.lost(found)
    assert "| balanced accuracy | 2 | balanced |  | 79.40 ± 0.58 |  |" in rare_classes.table_of(found, "bank")
