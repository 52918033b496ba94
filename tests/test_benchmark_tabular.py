"""The benchmark of raw tables: frames are what the files hold, rows are what their keys say, comparisons are right."""

import gzip
import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ttest_1samp
from sklearn.base import BaseEstimator, ClassifierMixin

pytest.importorskip("pandas")

import pandas as pd

import dpsk
from benchmarks import raw_methods
from benchmarks.datasets import DataNotFound
from benchmarks.experiments import tabular, tabular_discovery
from benchmarks.frames import facts_of, load_frame
from benchmarks.raw_methods import BOOSTED, EBM, LINEAR, LOGISTIC, OURS, SETTINGS, filled, known_to, method
from benchmarks.table import Rows

ADULT = """age,workclass,education_num,income,split
39,Private,13,<=50K,train
50,?,9,>50K,train
28,State-gov,,<=50K,test
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "adult_raw.csv.gz").write_bytes(gzip.compress(ADULT.encode()))
    return tmp_path


def people(n=400):
    """Return a table with gaps in every column, and labels that depend on all of them."""
    rng = np.random.default_rng(0)
    town = rng.choice(["Aachen", "Berlin", "Coburg"], n)
    frame = pd.DataFrame({"age": rng.integers(18, 80, n), "town": town, "debt": rng.exponential(1000, n)})
    score = (frame["age"] - 49) / 15 + 2 * (town == "Berlin") - frame["debt"] / 1000
    y = np.where(score + rng.logistic(size=n) > 0, 1, -1)
    return frame.mask(rng.random(frame.shape) < 0.1), y


# ------------------------------------------------------------------------------------------------------- frames


def test_a_question_mark_is_a_missing_entry_and_labels_are_no_column(folder):
    frame, y = load_frame("adult", folder)
    assert list(frame) == ["age", "workclass", "education_num"]
    assert frame.isna().sum().to_dict() == {"age": 0, "workclass": 1, "education_num": 1}
    assert (y == [-1, 1, -1]).all()
    facts = facts_of(frame)
    assert facts.columns == ("age", "workclass", "education_num")
    assert facts.bounds == {"age": (28, 50), "education_num": (9, 13)}
    assert facts.categories == {"workclass": ["Private", "State-gov"]}
    assert facts.gaps == {"workclass", "education_num"}


def test_a_column_without_entries_has_facts():
    facts = facts_of(pd.DataFrame({"empty": [np.nan, np.nan], "none": pd.Series([None, None], dtype="str")}))
    assert facts.bounds == {"empty": (0.0, 1.0)}
    assert facts.categories == {"none": []}


def test_indicators_are_put_together_again(tmp_path):
    rng = np.random.default_rng(0)
    names = ["f0", "f1=icmp", "f1=tcp", "f2=ftp", "f2=http", "f5"]
    protocol, service, n = rng.integers(2, size=60), rng.integers(3, size=60), 60
    X = np.zeros((n, 6), np.float32)
    X[:, 0], X[:, 5] = rng.random(n), rng.random(n)
    X[np.arange(n), 1 + protocol] = 1
    X[service < 2, 3 + service[service < 2]] = 1  # the third service has no column
    sp.save_npz(tmp_path / "kddcup99_10pct_X.npz", sp.csr_matrix(X))
    y = rng.choice([-1, 1], n).astype(np.int8)
    np.savez(tmp_path / "kddcup99_10pct_y.npz", y=y, feature_names=np.array(names))
    frame, labels = load_frame("kddcup99", tmp_path)
    order = np.random.default_rng(0).permutation(n)
    assert list(frame) == ["f0", "f5", "f1", "f2"]
    assert (labels == y[order]).all()
    assert (frame["f0"] == X[order, 0]).all()
    assert (frame["f1"] == np.array(["icmp", "tcp"])[protocol[order]]).all()
    assert (frame["f2"].isna() == (service[order] == 2)).all()
    known = service[order] < 2
    assert (frame["f2"][known] == np.array(["ftp", "http"])[service[order][known]]).all()


def test_entries_are_missing_at_random_the_same_ones_every_time(folder, tmp_path):
    X = np.random.default_rng(1).random((5_000, 4)).astype(np.float32)
    np.savez(tmp_path / "bank.npz", X=X, y=np.where(X[:, 0] > 0.5, 1, -1).astype(np.int8))
    whole, y = load_frame("bank", tmp_path)
    frame, same_y = load_frame("bank, 20 % missing", tmp_path)
    again, _ = load_frame("bank, 20 % missing", tmp_path)
    pd.testing.assert_frame_equal(frame, again)
    assert (y == same_y).all()
    share = frame.isna().to_numpy().mean(axis=0)
    assert np.abs(share - 0.2).max() < 5 * np.sqrt(0.16 / 5_000)
    assert (frame.fillna(whole) == whole).all(axis=None)


def test_what_is_not_there_is_named(folder):
    with pytest.raises(ValueError, match="unknown table 'adults': choose from adult, bank"):
        load_frame("adults", folder)
    with pytest.raises(DataNotFound, match=r"has no loans_raw\.csv\.gz: put it there"):
        load_frame("loans", folder)
    with pytest.raises(DataNotFound, match="give it by --data"):
        load_frame("adult", None)


# ------------------------------------------------------------------------------------------------------ methods


def test_missing_entries_become_constants_below_the_range_and_a_category():
    frame, _ = people()
    facts = facts_of(frame)
    known = known_to(facts)
    assert known.feature_types == ["continuous", "nominal", "continuous"]
    numbers = {name: known.privacy_bounds[name][0] for name in facts.bounds}
    complete = filled(frame, facts, numbers)
    assert not complete.isna().any(axis=None)
    for name, (low, high) in facts.bounds.items():
        constant = complete[name][frame[name].isna()].unique()
        assert constant == [pytest.approx(low - (high - low) / 20)]
        assert known.privacy_bounds[name] == (constant[0], high)
    assert (complete["town"][frame["town"].isna()] == "missing").all()
    whole = facts_of(frame.dropna())
    assert known_to(whole).privacy_bounds == whole.bounds


@pytest.mark.parametrize("name", [LINEAR, LOGISTIC, BOOSTED])
def test_methods_take_a_frame_with_gaps_and_with_values_they_never_saw(name):
    frame, y = people(2_000)
    facts = facts_of(frame)
    model = method(name, facts, 8.0, 1e-6, 0).fit(frame[:1_500], y[:1_500])
    strange = frame[1_500:].assign(town="Atlantis")
    assert model.score(frame[1_500:], y[1_500:]) > 0.6
    assert np.isfinite(model.predict_proba(strange)).all()
    if name != BOOSTED:  # age, debt, three towns, no town, no age, no debt
        assert model[:-1].transform(frame).shape[1] == 8
    if name == LINEAR:
        assert (model[-1].epsilon, model[-1].delta, model[-1].random_state) == (8.0, 1e-6, 0)


def test_without_interpret_one_sentence_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "interpret", None)
    monkeypatch.setitem(sys.modules, "interpret.privacy", None)
    facts = facts_of(people()[0])
    for name in (EBM, *SETTINGS):
        with pytest.raises(SystemExit, match=r"interpret==0.7.8`, or choose other rows by --only method=NAME"):
            method(name, facts, 1.0, 1e-6, 0)


class Fake(ClassifierMixin, BaseEstimator):
    """Stands for DP-EBM: remembers parameters and rows."""

    def __init__(self, feature_types=None, privacy_bounds=None, max_rounds=300, learning_rate=0.01, max_bins=32,
                 bin_budget_frac=0.1, max_leaves=3, n_jobs=-2, epsilon=1.0, delta=1e-5, random_state=None):  # fmt: skip
        for name, value in list(locals().items()):
            if name != "self":
                setattr(self, name, value)

    def fit(self, X, y):
        self.classes_, self.seen = np.unique(y), X
        self.bins_ = [[{"Aachen": 1} if j % 2 else np.array([0.5])] for j in range(X.shape[1])]
        fits.append(self)
        return self

    def predict_proba(self, X):
        self.tested = X
        return np.tile([0.25, 0.75], (len(X), 1))


fits: list[Fake] = []


def test_dp_ebm_gets_public_facts_where_it_is_tuned_and_none_at_its_defaults(monkeypatch):
    monkeypatch.setattr(raw_methods, "require_interpret", lambda: Fake)
    frame, _ = people()
    facts = facts_of(frame)
    plain = method(EBM, facts, 0.5, 1e-6, 7)[-1].get_params()
    changed = {name for name, value in Fake().get_params().items() if plain[name] != value}
    assert changed == {"epsilon", "delta", "random_state", "n_jobs"}
    assert (plain["epsilon"], plain["delta"], plain["random_state"], plain["n_jobs"]) == (0.5, 1e-6, 7, 1)
    for name, setting in SETTINGS.items():
        tuned = method(name, facts, 0.5, 1e-6, 7)[-1]
        assert (tuned.max_rounds, tuned.learning_rate, tuned.max_bins) == setting[:3]
        assert (tuned.bin_budget_frac, tuned.max_leaves) == setting[3:]
        assert (tuned.feature_types, tuned.privacy_bounds) == tuple(known_to(facts))


# ----------------------------------------------------------------------------------------------------- a measure


def test_a_row_is_what_its_key_says(monkeypatch):
    frame, y = people(100)
    monkeypatch.setattr(raw_methods, "require_interpret", lambda: Fake)
    monkeypatch.setattr(tabular, "raw", lambda name, folder: (frame, y, facts_of(frame)))
    tested = {}
    for name, repeat, fold in itertools.product([EBM, "DP-EBM 100/0.5/32/0.1/3"], (0, 3), (0, 4)):
        fits.clear()
        accuracy, auc, loss, _ = tabular.measure(None, "people", name, 0.5, repeat, fold)
        (model,) = fits
        assert (model.epsilon, model.delta, model.random_state) == (0.5, 1e-6, 10 * repeat + fold)
        rows, held = set(model.seen.index), set(model.tested.index)
        assert rows | held == set(range(100))
        assert (len(held), rows & held) == (20, set())
        positive = (y[sorted(held)] > 0).mean()
        assert (accuracy, auc) == (f"{positive:.6f}", "0.500000")
        assert float(loss) == pytest.approx(-positive * np.log(0.75) - (1 - positive) * np.log(0.25), abs=1e-6)
        assert tested.setdefault((repeat, fold), held) == held  # the same folds for all
    assert len({frozenset(held) for held in tested.values()}) == 4


def test_a_sure_mistake_costs_the_logarithm_of_1e15():
    found = tabular.scores(np.array([True, True, False, False]), np.array([1.0, 0.0, 0.0, 0.6]))
    assert found == ["0.500000", "0.625000", f"{(-np.log(1e-15) - np.log(0.4)) / 4:.6f}"]


# ------------------------------------------------------------------------------------------------------- report


def row(name, epsilon, repeat, fold, accuracy, auc=0.9, loss=0.3, seconds=1.0):
    values = ("adult", name, epsilon, repeat, fold, accuracy, auc, loss, seconds)
    return dict(zip(tabular.TABLE.fields, map(str, values), strict=True))


def world(ours):
    """Return rows in which setting i has accuracy .7 + i/100, AUC .9 - i/100 and log-loss .3 + i/100, with chance."""
    rng = np.random.default_rng(0)
    rows = []
    for epsilon, repeat, fold in itertools.product(tabular.EPSILONS, range(2), range(5)):
        luck = 0.03 * rng.normal()  # of the fold, the same for all methods
        for i, name in enumerate(SETTINGS):
            values = (0.7 + i / 100 + luck, 0.9 - i / 100, 0.3 + i / 100, 1 + i)
            rows.append(row(name, epsilon, repeat, fold, *values))
        for name, accuracy in ((EBM, 0.75), (LINEAR, 0.8), *([(OURS, ours)] if ours else [])):
            rows.append(row(name, epsilon, repeat, fold, accuracy + luck + 1e-4 * rng.normal(), 0.95, 0.2, 9))
    return Rows([*rows, row(LOGISTIC, "", 0, 0, 0.85), row(BOOSTED, "", 0, 0, 0.87, seconds=3)])


def found_in(rows):
    return {name: rows.folds(("table", "method", "epsilon"), name) for name in tabular.MEASURES}


def test_tuned_is_the_best_setting_for_each_measure_on_common_folds():
    rows = world(None)
    found, (first, *_, last) = found_in(rows), SETTINGS
    best = {name: tabular.tuned(found, "adult", 0.5, name)[0] for name in tabular.MEASURES}
    assert (best["accuracy"], best["AUC"], best["log-loss"]) == (last, first, first)
    seconds = tabular.folds_of(found, "adult", tabular.TUNED, 0.5, "seconds")
    assert set(seconds.values()) == {float(len(SETTINGS))}  # of the setting with the highest accuracy
    lucky = row(first, 0.5, 2, 0, 1.0)  # folds that the others do not have yet
    rows.extend(lucky | {"fold": str(fold)} for fold in range(500))
    assert tabular.tuned(found_in(rows), "adult", 0.5, "accuracy")[0] == last
    without = Rows(one for one in rows if one["method"] != last)
    assert tabular.tuned(found_in(without), "adult", 0.5, "accuracy") == ("", {})


def test_differences_are_paired_by_fold():
    rows = world(0.83)
    gap = tabular.gaps(found_in(rows), tabular.TUNED, "accuracy")["adult", 0.5]
    ours, theirs = (
        [100 * float(one["accuracy"]) for one in rows if (one["method"], one["epsilon"]) == (name, "0.5")]
        for name in (OURS, list(SETTINGS)[-1])
    )
    low, high = ttest_1samp(np.subtract(ours, theirs), 0).confidence_interval(0.95)
    assert (gap.mean - gap.half_width(), gap.mean + gap.half_width()) == pytest.approx((low, high))
    assert gap.half_width() < 0.05 < np.std(ours)  # what all methods share is gone
    table = tabular.differences(found_in(rows), tabular.TUNED)
    assert f"{gap.mean:+.2f} ± {gap.half_width():.2f}" in table
    assert table.count("| adult |") == len(tabular.MEASURES)


def test_cells_that_miss_the_aim_are_named():
    higher, least, study, beside = tabular.aims(found_in(world(0.8645))).splitlines()
    assert higher.startswith("- 6 of 6 cells")  # the best setting has .81, the linear one .80
    assert least.startswith("- 3 of 3 accuracies")
    assert "of 4 accuracies on adult and bank" in study
    assert beside.endswith(
        "points to not private, logistic regression; 3.0 times the seconds of not private, boosted trees."
    )
    higher, least, *_ = tabular.aims(found_in(world(0.79))).splitlines()
    assert higher.startswith("- 3 of 6 cells")
    assert higher.endswith("Not: adult, 0.5, accuracy; adult, 1.0, accuracy; adult, 4.0, accuracy.")
    assert least.startswith("- 1 of 3 accuracies at epsilon 0.1 are at most 0.5 points below")
    assert least.endswith(f"Not: adult, 0.1, {tabular.TUNED}; adult, 0.1, {LINEAR}.")
    nothing = found_in(world(None))
    assert tabular.aims(nothing) == tabular.differences(nothing, LINEAR) == "DPTabularClassifier was not measured yet."


def test_a_study_is_reached_within_its_margin():
    assert tabular.counted({("a", 1.0): 0.1, ("b", 1.0): -0.1}, "cells") == "1 of 2 cells. Not: b, 1.0."
    for accuracy, count in ((0.8631, 1), (0.8629, 0)):
        rows = [*world(None), row(OURS, 1.0, 0, 0, accuracy), row(OURS, 0.1, 0, 0, 0.5)]
        study = tabular.aims(found_in(Rows(rows))).splitlines()[2]
        assert study.startswith(f"- {count} of 2 accuracies"), study


def test_a_table_has_means_and_errors_over_seeds_and_gaps_where_nothing_was_measured():
    rows = world(None)
    lines = tabular.scores_of(found_in(rows), "adult").splitlines()
    assert len(lines) == 2 + 6 * len(tabular.MEASURES)
    assert f"| accuracy | {OURS} |  |  |  |  |  |" in lines
    assert f"| accuracy | {LOGISTIC} |  |  |  |  | 85.00 |" in lines
    chosen = [one for one in rows if (one["method"], one["epsilon"]) == (LINEAR, "0.1")]
    seeds = [100 * np.mean([float(one["accuracy"]) for one in chosen if one["repeat"] == str(r)]) for r in range(2)]
    shown = f"{np.mean(seeds):.2f} ± {np.std(seeds, ddof=1) / np.sqrt(2):.2f}"
    (line,) = (line for line in lines if line.startswith(f"| accuracy | {LINEAR} |"))
    assert line.split(" | ")[2] == shown


# ---------------------------------------------------------------------------------------------------- discovery


class Finds(ClassifierMixin, BaseEstimator):
    """Stands for our estimator: a value of one row appears for every fourth seed, the country for every eighth."""

    def __init__(self, epsilon=1.0, delta=1e-6, random_state=None):
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    def fit(self, X, y):
        found = [f"{name}={tabular_discovery.OWN}" for name, every in (("workclass", 4), ("native_country", 8))
                 if self.random_state % every == 0]  # fmt: skip
        assert (X == tabular_discovery.OWN).sum(axis=None) == 2
        self.encoder_ = SimpleNamespace(get_feature_names_out=lambda: ["age", "workclass=Private", *found])
        discovery = SimpleNamespace(failure=self.delta / 10)
        self.privacy_spent_ = SimpleNamespace(currency=SimpleNamespace(discovery=discovery))
        return self


def test_values_of_one_row_are_counted_in_both_models(monkeypatch):
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "workclass": ["Private"] * 3, "native_country": ["Peru"] * 3})
    monkeypatch.setattr(tabular_discovery, "load_frame", lambda name, folder: (frame.copy(), np.array([1, -1, 1])))
    monkeypatch.setattr(dpsk, "DPTabularClassifier", Finds, raising=False)
    assert tabular_discovery.measure(None, OURS, 3, 1.0, 0.1, 80) == [20, 10, pytest.approx(0.01)]
    own = [[np.array([0.5])], [{"Private": 1, tabular_discovery.OWN: 2}], [{"Peru": 1}]]
    fake = type("Fake", (Fake,), {"fit": lambda self, X, y: setattr(self, "bins_", own) or self})
    monkeypatch.setattr(raw_methods, "require_interpret", lambda: fake)
    assert tabular_discovery.measure(None, EBM, 3, 1.0, 1e-6, 5) == [5, 0, 1e-6]


def test_a_broken_promise_has_no_chance_and_a_kept_one_has():
    fields = (*tabular_discovery.TABLE.key, "any", "country", "promised")
    broken = dict(zip(fields, ("DP-EBM", "500", "8.0", "1e-06", "200", "36", "9", "1e-06"), strict=True))
    kept = broken | {"fits": "10000", "any": "100", "promised": "0.01"}
    assert tabular_discovery.line(broken)[-1] == "below 1e-100"
    assert 0 < float(tabular_discovery.line(broken | {"any": "1"})[-1]) < 3e-4  # 200 times 1e-6
    assert 0.4 < float(tabular_discovery.line(kept)[-1]) < 0.6
    assert tabular_discovery.line(kept)[-3] == "1.00%"
