"""Random Fourier features of fits: which columns, how many, from which seed, and what a fit with them promises."""

import json
import pickle
import warnings

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import BY_FACTS, ESTIMATORS, SHORT, TABULAR
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_estimators import failures_to_expect
from test_export_json import compare
from test_standardization import Watched, placed, raw

import dpsk
from dpsk import (
    Categories,
    Chunks,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPTabularClassifier,
    EffectsDisplay,
    Number,
    PrivateSearchCV,
)
from dpsk.data import Columns, Waves
from dpsk.data.features import FeatureMoments
from dpsk.encodings import LinearEncoding, fourier
from dpsk.encodings.fourier import beside, phases_of, public_normals, with_waves
from dpsk.encodings.standardization import ColumnMoments
from dpsk.encodings.tabular import SCALE_POWER
from dpsk.estimators import validation
from dpsk.estimators.effects import wave_moments
from dpsk.privacy.conversions import gaussian_mu

NUMERIC = [Estimator for Estimator in ESTIMATORS if Estimator not in TABULAR]
PINNED = {0: [328222, -94012, 22358, 163744], 1: [-117790, -65552, 56462, -210570]}
NONE, VARIANCE = np.zeros(0, dtype=np.int64), np.arange(1.0, 10.0)
PINNED_COLUMNS = [[3], [4, 2], [0, 1, 6], [3], [0, 2], [4, 8, 7]]
PINNED_FREQUENCIES = [1000221576682, 851652694597, 36687824371]
QUIET = pytest.mark.filterwarnings("ignore::UserWarning")
pytestmark = QUIET


def set_pairs(monkeypatch, n):
    """Replace the rule: so many pairs, whatever there are of rows, and as large as can be."""
    monkeypatch.setattr(fourier.Schedule, "n_pairs", n)
    monkeypatch.setattr(fourier.Schedule, "part", fourier.PART)


@pytest.fixture
def few(monkeypatch):
    """A rule that always gives six pairs: small fits have waves, and are fast."""
    set_pairs(monkeypatch, 6)


def rings(n=600, seed=0):
    """Rows of two curved columns, a flag and a constant; the class is whether a row lies outside of a ring."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n), np.zeros(n)])
    return X, (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int)


def model(Estimator=DPLogisticRegression, **parameters):
    given = {"epsilon": 8.0, "random_state": 0, "standardize": "private", "features": "fourier"}
    return Estimator(**{**SHORT.get(Estimator, {}), **given, **parameters})


def test_public_frequencies_never_change():
    for seed, pinned in PINNED.items():
        assert (public_normals(seed, 4) * 2**17).tolist() == pinned
    at, made = phases_of(0, np.arange(5), np.arange(5, 9), VARIANCE, 12)
    assert at.tolist() == list(range(9))
    for k, columns in enumerate(PINNED_COLUMNS):
        assert np.flatnonzero(made[:, k]).tolist() == sorted(columns)
    assert [int(x * 2**40) for x in made[made != 0][:3]] == PINNED_FREQUENCIES


@pytest.mark.parametrize("n_columns", [1, 2, 3, 7, 60, 1000])
@pytest.mark.parametrize("n_pairs", [1, 6, 100])
def test_phases_are_of_few_columns_and_each_column_is_dealt_as_often(n_columns, n_pairs):
    made = np.zeros((n_columns, n_pairs))
    at, radians = phases_of(1, np.arange(n_columns), NONE, np.ones(n_columns), n_pairs)
    made[at] = radians
    assert (made != 0).sum(axis=0).tolist() == [min(1 + k % 3, n_columns) for k in range(n_pairs)]
    if n_columns != 2:  # of two, a phase of two takes what the others leave
        times = (made != 0).sum(axis=1)
        assert times.max() - times.min() <= 1
    lengths = np.sort(np.log2(np.linalg.norm(made, axis=0) / fourier.SLOWEST))
    layers = np.arange(n_pairs) / n_pairs * fourier.OCTAVES
    # within an octave a length is 1 + t where a logarithm would be 2^t, at most .086 apart
    assert (lengths > layers - 1e-9).all()
    assert (lengths < layers + fourier.OCTAVES / n_pairs + 0.087).all()


def test_public_frequencies_are_about_normal():
    normals = public_normals(3, 100_000)
    assert np.array_equal(normals * 2**17, np.rint(normals * 2**17))
    # five deviations of the mean and of the mean square: a chance of 1e-6, but the seed is fixed
    assert abs(normals.mean()) < 5 / np.sqrt(1e5)
    assert abs(np.square(normals).mean() - 1) < 5 * np.sqrt(2 / 1e5)
    assert abs((np.abs(normals) > 1.959964).mean() - 0.05) < 0.005
    assert np.abs(normals).max() <= 6


def test_further_columns_of_a_phase_are_others_by_a_coin():
    variance = np.array([0.1, 0.1, 0.05, 0.15, 1e-9])
    at, made = phases_of(2, np.array([0, 1]), np.array([2, 3, 4]), variance, 3000)
    used = np.zeros((5, 3000), dtype=bool)
    used[at] = made != 0
    assert used.sum(axis=0).tolist() == [1, 2, 3] * 1000
    assert used[:2].any(axis=0).all()
    assert not used[4].any()
    pairs = used[:, 1::3]
    # 1,000 coins: five deviations are 79
    assert abs(pairs[2:].any(axis=0).sum() - 500) < 79
    # of about 500, three quarters are of the larger variance: five deviations are 49
    assert abs(pairs[3].sum() - 0.75 * pairs[2:].any(axis=0).sum()) < 49
    at, made = phases_of(2, np.array([1]), np.array([0, 2]), np.ones(3), 9, fewest=2)
    assert (made != 0).sum(axis=0).tolist() == [2, 3, 2, 3, 2, 3, 2, 3, 2]


@pytest.mark.parametrize("Estimator", NUMERIC)
def test_every_linear_estimator_has_them(Estimator, few):
    X, y = rings()
    fitted = model(Estimator).fit(X, y)
    assert fitted.waves_.n_pairs == 6
    assert fitted.coef_.shape == (1, 4 + 12)
    assert fitted.ranges_.shape == (2, 4)
    assert fitted.n_features_in_ == 4
    assert fitted.decision_function(X).shape == (600,)
    again = model(Estimator).fit(X, y)
    assert np.array_equal(again.coef_, fitted.coef_)
    taken = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(taken.decision_function(X), fitted.decision_function(X))
    assert clone(fitted).get_params()["features"] == "fourier"


def test_curves_are_followed(monkeypatch):
    set_pairs(monkeypatch, 60)
    X, y = rings(4000)
    (train, labels), (test, truth) = (X[:3000], y[:3000]), (X[3000:], y[3000:])
    straight = model(features=None).fit(train, labels).score(test, truth)
    curved = model().fit(train, labels).score(test, truth)
    assert straight < 0.7
    assert curved > 0.9


@pytest.mark.parametrize("intercept", [True, False])
def test_several_classes_weights_persons_and_fits_without_an_intercept(intercept, few):
    X, y = rings()
    y = y + (X[:, 0] > 1)
    groups = np.arange(600) // 3
    for parameters, given in (
        ({}, {}),
        ({"class_weight": "balanced"}, {}),
        ({"weight_bound": 1.0}, {"sample_weight": np.linspace(0, 1, 600)}),
        ({}, {"groups": groups}),
    ):
        fitted = model(DPGradientDescentClassifier, fit_intercept=intercept, **parameters).fit(X, y, **given)
        assert fitted.coef_.shape == (3, 16)
        assert fitted.predict_proba(X).shape == (600, 3)
        assert np.isfinite(fitted.coef_).all()


def test_every_storage_gives_the_same_bits(few, tmp_path):
    X, y = rings()
    X = X.astype(np.float32).astype(np.float64)
    np.save(tmp_path / "X.npy", X)
    expected = model().fit(X, y)
    scores = expected.decision_function(X)
    given = [
        (np.asfortranarray(X), y),
        (X.astype(np.float32), y),
        (sp.csr_matrix(X), y),
        (np.load(tmp_path / "X.npy", mmap_mode="r"), y),
        (Chunks(lambda: [(X[:7], y[:7]), (X[7:250], y[7:250]), (X[250:], y[250:])]),),
        (dask.array.from_array(X, chunks=(250, 4)), dask.array.from_array(y, chunks=250)),
    ]
    for data in given:
        fitted = model().fit(*data)
        assert np.array_equal(fitted.coef_, expected.coef_)
        assert np.array_equal(fitted.intercept_, expected.intercept_)
        assert np.array_equal(fitted.waves_.turns, expected.waves_.turns)
        assert np.array_equal(np.asarray(fitted.decision_function(data[0])), scores)
    for rows in (X[::-1].copy()[::-1], sp.csc_matrix(X)):
        assert np.array_equal(expected.decision_function(rows), scores)
    alone = np.concatenate([expected.decision_function(x[None]) for x in X[:50]])
    assert np.array_equal(alone, scores[:50])


def test_only_columns_with_values_between_are_curved(monkeypatch):
    set_pairs(monkeypatch, 24)
    X, y = rings()
    X = np.column_stack([X, 7 * np.random.default_rng(1).random(600) + 1000, -np.random.default_rng(2).random(600)])
    waves = model(epsilon=30.0).fit(X, y).waves_
    alone = waves.at[np.flatnonzero((waves.turns[:, ::3] != 0).any(axis=1))]
    assert set(alone) == {0, 1, 4, 5}
    assert {0, 1, 4, 5} <= set(waves.at) <= {0, 1, 2, 3, 4, 5}
    assert model(epsilon=30.0).fit(X[:, 2:4], y).waves_ is None


CODINGS = [(0, 1), (0, 3), (5, 6), (-1, 2), (-0.3, 0.4)]


@pytest.mark.parametrize("bounds", [None, (-3.0, 8.0)], ids=["found", "far"])
@pytest.mark.parametrize("coding", CODINGS, ids=str)
def test_columns_of_two_values_are_not_curved_whatever_these_are(few, coding, bounds):
    X, y = rings(4000)
    flags = np.random.default_rng(1).integers(0, 2, (4000, 8))
    X = np.column_stack([X[:, :2], np.array(coding)[flags]])
    waves = model(epsilon=30.0, bounds=bounds).fit(X, y).waves_
    alone = waves.at[np.flatnonzero((waves.turns[:, ::3] != 0).any(axis=1))]
    assert set(alone) == {0, 1}


def test_columns_of_three_values_and_rare_numbers_are_curved(monkeypatch):
    set_pairs(monkeypatch, 24)
    rng, (X, y) = np.random.default_rng(1), rings(4000)
    rare = np.where(rng.random(4000) < 0.1, rng.uniform(size=4000), 0.0)
    X = np.column_stack([rng.integers(1, 4, 4000), rare, rng.integers(0, 2, (4000, 3)), X[:, 0]])
    waves = model(epsilon=30.0).fit(X, y).waves_
    alone = waves.at[np.flatnonzero((waves.turns[:, ::3] != 0).any(axis=1))]
    assert set(alone) == {0, 1, 5}


def test_with_few_rows_the_fit_is_the_one_without():
    X, y = rings()
    plain = model(features=None).fit(X, y)
    with pytest.warns(UserWarning, match="features='fourier' added nothing"):
        tried = model().fit(X, y)
    assert plain.waves_ is tried.waves_ is None
    assert np.array_equal(plain.coef_, tried.coef_)
    assert np.array_equal(plain.intercept_, tried.intercept_)
    assert plain.privacy_spent_.releases == tried.privacy_spent_.releases


def test_a_fit_tells_where_nothing_was_added(few):
    X, y = rings()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*added nothing")
        assert model().fit(X, y).waves_ is not None
        model(features=None).fit(X, y)
    with pytest.warns(UserWarning, match="added nothing"):
        model().fit(X[:, 2:], y)
    frame, labels = table(500)
    with pytest.warns(UserWarning, match="interactions='fourier' added nothing"):
        tabular().fit(frame[frame.columns[:1]], labels)


def test_they_cost_two_small_releases(few):
    X, y = rings()
    bounds = (-4.0, 4.0)
    plain, curved = (model(features=features, bounds=bounds).fit(X, y) for features in (None, "fourier"))
    assert curved.waves_ is not None
    paid = {release.label: release for release in curved.privacy_spent_.releases}
    assert set(paid) == {release.label for release in plain.privacy_spent_.releases} | {"middles", "values"}
    limit = curved.privacy_spent_.limit
    assert paid["middles"].cost <= fourier.MIDDLE_SHARE * limit * (1 + 1e-9)
    assert paid["values"].cost <= fourier.VALUES_SHARE * limit * (1 + 1e-9)
    assert curved.privacy_spent_.charged <= limit


def test_seeds(few):
    """The public seed decides the frequencies, and ``random_state`` does not, beyond the noise of the spreads."""
    X, y = rings()
    X = X[:, :2]
    one, same, other = (model(features_seed=seed).fit(X, y).waves_ for seed in (0, 0, 1))
    assert np.array_equal(one.turns, same.turns)
    assert not np.isclose(one.turns, other.turns)[one.turns != 0].any()
    moved = model(random_state=1).fit(X, y).waves_
    assert one.at.tolist() == moved.at.tolist() == [0, 1]
    normals = [waves.turns / np.abs(waves.turns).sum(axis=1, keepdims=True) for waves in (one, moved)]
    np.testing.assert_allclose(*normals, rtol=0, atol=1e-6)  # each column has its own spread, and the rest is the same
    assert not np.array_equal(one.turns, moved.turns)


def test_the_map_is_that_of_the_released_moments():
    columns = Columns.within(np.array([0.0, -1.0, 0.0]), np.array([1.0, 3.0, 1.0]), 3)
    mean, variance = np.array([0.3, 0.1, 0.5]), np.array([0.04, 0.09, 0.25])
    phases = phases_of(0, np.array([0, 1]), NONE, variance, 50)
    made, waves = beside(columns, mean, variance, phases, 0.3)
    assert made.centre is waves.columns.centre is None
    standard = columns.standardised(np.array([2.0, 3.0, 1.0]), mean)
    made, waves = beside(standard, mean, variance, phases, 0.3)
    assert waves.at.tolist() == [0, 1]
    assert waves.columns.centre.tolist() == [0.3, 0.1]
    assert waves.columns.high.tolist() == [1, 3]
    assert made.low.tolist() == [0, -1, 0] + [-1] * 100
    assert made.factor[:3].tolist() == [2, 3, 1]
    # what the cosines of normal rows with these moments are on average, by simulation
    rng = np.random.default_rng(0)
    placed = np.array([0.3, 0.1]) + rng.normal(size=(200_000, 2)) * np.sqrt(variance[:2])
    angles = 2 * np.pi * (placed - waves.columns.centre) @ waves.turns
    # a mean of 200,000 numbers in [-1, 1] is off by more than 6 / sqrt(200,000) with a chance below 1e-7 each
    np.testing.assert_allclose(made.centre[3:53], np.cos(angles).mean(axis=0), rtol=0, atol=6 / np.sqrt(2e5))
    assert made.centre[53:].tolist() == [0.0] * 50
    spreads = waves.turns * 2 * np.pi * np.sqrt(variance[:2])[:, None]
    np.testing.assert_allclose(spreads, phases[1], rtol=0, atol=1e-6)
    factor = made.factor[3]
    assert (made.factor[3:] == factor).all()
    linear = np.array([2.0, 3.0, 1.0]) ** 2 @ variance
    assert factor**2 * 50 == pytest.approx(0.3 * linear)


def test_the_map_is_a_function_of_what_was_released(few):
    """Other rows with the same releases have the same map, and nothing else is asked of them."""
    mean, variance = np.array([0.0, 0.2, 0.5]), np.array([0.1, 0.2, 0.25])
    moments, made = ColumnMoments(mean, variance, noise=1e-3), []
    for X in (np.zeros((50, 3)), np.random.default_rng(0).uniform(-1, 1, (50, 3))):
        columns = Columns.within(-1.0, 1.0, 3)
        watched = Watched(placed(X, columns), replies=[np.array([5.0, 6.0, 0.0])])
        spread = np.tile(np.linspace(0.0, 2.0, 64), (2, 1))
        of_entries = Watched(raw(X), replies=[spread])
        made.append(with_waves(of_entries, watched, columns.standardised(np.ones(3), mean), moments, 3, None))
        assert [sealed.label for sealed, _, _ in watched.released] == ["middles"]
        assert [(sealed.label, sealed.shape) for sealed, _, _ in of_entries.released] == [("values", (2, 64))]
    (one, waves), (other, others) = made
    assert waves.at.tolist() == others.at.tolist()
    assert {np.flatnonzero(waves.turns[:, k])[0] for k in (0, 3)} == {0, 1}
    assert np.array_equal(waves.turns, others.turns)
    for name in ("low", "high", "factor", "centre"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
        assert np.array_equal(getattr(waves.columns, name), getattr(others.columns, name))


def test_more_columns_than_pairs_have_none(few):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    assert model(epsilon=100.0).fit(X, X[:, 0] > 0).waves_ is None
    assert model(epsilon=100.0).fit(X[:, :6], X[:, 0] > 0).waves_.at.tolist() == list(range(6))


def test_the_rule_counts_rows_budget_neighbours_and_classes():
    X, columns = np.zeros((4000, 1)), Columns.within(-1.0, 1.0, 1)

    def rule(n=4000, epsilon=8.0, n_scores=None, adjacency="zero-out"):
        return fourier.Schedule.of(placed(X[:n], columns, epsilon, adjacency=adjacency), n_scores)

    assert rule().n_pairs == fourier.PAIRS
    assert rule(n=3999).n_pairs == rule(n=3999, epsilon=1000.0).n_pairs == 0
    assert rule(epsilon=2.0).n_pairs == rule(n_scores=10).n_pairs == 0
    assert rule(adjacency="replace", epsilon=5.0).n_pairs == 0
    assert fourier.PAIRS < rule(epsilon=60.0).n_pairs <= rule(epsilon=1000.0).n_pairs == fourier.MOST_PAIRS
    assert rule(epsilon=1000.0).part == fourier.PART
    assert rule().part == pytest.approx(fourier.PART * (rule().precision / fourier.PART_PRECISION) ** 3)
    assert rule(epsilon=5.0).part < rule().part < fourier.PART
    # mu = 1.5 at epsilon 8 and delta 1e-6, as exact conversions say
    assert rule().precision == pytest.approx(4000 * gaussian_mu(8.0, 1e-6))
    assert rule(n_scores=4).precision == pytest.approx(rule(adjacency="replace").precision) == rule().precision / 2


def test_few_rows_have_none_and_many_have_some():
    """The rule reads public facts: rows, budget, neighbours."""
    X, y = rings()
    assert model(epsilon=0.1).fit(X, y).waves_ is None
    assert model(epsilon=1000.0).fit(*rings(4_000)).waves_ is not None


@pytest.mark.parametrize("features", ["Fourier", "hats", 3, True])
def test_other_features_are_refused(features):
    with pytest.raises(ValueError, match=rf"features={features!r} must be"):
        model(features=features).fit(*rings(60))


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_other_seeds_are_refused(seed):
    with pytest.raises(ValueError, match=r"features_seed=.* must be an integer >= 0"):
        model(features_seed=seed).fit(*rings(60))


@pytest.mark.parametrize("Estimator", NUMERIC)
def test_they_need_moments(Estimator):
    with pytest.raises(ValueError, match=r"features='fourier' needs standardize='private'"):
        Estimator(standardize=None, features="fourier", **SHORT.get(Estimator, {})).fit(*rings(60))
    with pytest.raises(ValueError, match=r"features='fourier' needs standardize='private'"):
        LinearEncoding(features="fourier")


def test_the_exact_model_has_none():
    with pytest.raises(ValueError, match=r"features='fourier' with epsilon=inf"):
        model(epsilon=np.inf).fit(*rings(60))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_plain_python_scores_as_the_model_does(n_classes, intercept, few):
    X, y = rings()
    X = np.column_stack([X, 1000 + 7 * X[:, 0], -np.abs(X[:, 1])])
    fitted = model(fit_intercept=intercept).fit(X, y + (n_classes - 2) * (X[:, 0] > 1))
    assert fitted.waves_ is not None
    document = json.loads(fitted.to_json())
    X[0], X[1], X[2] = 1e300, -1e300, 0
    compare(fitted, document, X[:200], X[:200].tolist())


def test_exported_forms_without_them_say_so(few):
    fitted, plain = model().fit(*rings()), model(features=None).fit(*rings())
    for method in ("to_onnx", "to_sklearn"):
        with pytest.raises(ValueError, match=r"features='fourier', which .* does not have"):
            getattr(fitted, method)()
    assert json.loads(plain.to_json())["waves"] is None


def test_files_of_skops_hold_them(few):
    skops = pytest.importorskip("skops.io")
    X, y = rings()
    fitted = model().fit(X, y)
    assert set(skops.get_untrusted_types(data=skops.dumps(fitted))) <= set(dpsk.TRUSTED_TYPES)
    back = skops.loads(skops.dumps(fitted), trusted=dpsk.TRUSTED_TYPES)
    assert np.array_equal(back.predict_proba(X), fitted.predict_proba(X))


def test_in_searches_and_pipelines(few):
    X, y = rings()
    search = PrivateSearchCV(model(random_state=None), {"features": [None, "fourier"]}, epsilon=20.0, random_state=0)
    assert search.fit(X, y).predict(X).shape == (600,)
    piped = make_pipeline(FunctionTransformer(), model())
    dpsk.check_pipeline(piped)
    assert piped.fit(X, y).predict(X).shape == (600,)


def test_twins(few):
    X, y = rings(300)
    dpsk.check_twins(lambda X, y: model(epsilon=0.5, random_state=None).fit(X, y), X, y)


def test_predictions_of_dask_and_chunks(few):
    X, y = rings()
    fitted = model().fit(X, y)
    sure = fitted.predict_proba(X)
    assert np.array_equal(np.asarray(fitted.predict_proba(dask.array.from_array(X, chunks=(170, 4)))), sure)
    assert np.array_equal(fitted.predict_proba(Chunks(lambda: np.array_split(X, 5))), sure)
    twin = X.copy()
    twin[0] = 1.7e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(fitted.predict_proba(twin)[1:], sure[1:])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sample_weight is given without weight_bound:UserWarning")
@parametrize_with_checks(
    [DPLogisticRegression(features="fourier"), DPTabularClassifier(interactions="fourier")],
    expected_failed_checks=failures_to_expect,
)
def test_scikit_learn_checks(estimator, check, few):
    check(estimator)


@pytest.mark.slow
def test_audits_find_no_more_than_is_promised(few):
    X, y = rings(200)
    for parameters in ({}, {"adjacency": "replace"}):
        found = dpsk.audit(model(epsilon=1.0, random_state=None, **parameters), X, y, seconds=8)
        assert found.epsilon <= 1.0


def test_a_file_that_would_not_hold_them_is_refused_before_anything_is_paid(tmp_path, monkeypatch):
    X, y = rings()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    asked = []
    monkeypatch.setattr(validation, "require_room", asked.append)
    model(features=None).fit(mapped, y)
    model().fit(mapped, y)
    assert asked[1] - asked[0] == 600 * 8 * fourier.MOST_PAIRS


def test_budgets_that_depend_on_facts_know_nothing_of_waves(few):
    assert DPLogisticRegression in BY_FACTS
    X, y = rings()
    for solver in ("objective-perturbation", "adaptive-gradient", "gradient-descent"):
        fitted = model(solver=solver).fit(X, y)
        assert fitted.waves_.n_pairs == 6
        assert fitted.privacy_spent_.epsilon == 8.0


# ------------------------------------------------------------------------------------------ interactions of raw tables


def table(n=3000, seed=0):
    """A raw table whose class hangs on two quantities together, on a category, and on nothing else."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n).round(3),
            "b": rng.normal(size=n).round(3) + 40,
            "job": rng.choice(["cook", "nurse", "clerk"], n),
            "c": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(3)),
        }
    )
    together = frame["a"] * (frame["b"] - 40) + 0.5 * (frame["job"] == "cook")
    return frame, (together > 0.2).to_numpy()


def tabular(**parameters):
    return DPTabularClassifier(**{"epsilon": 8.0, "random_state": 0, "interactions": "fourier", **parameters})


@pytest.fixture
def sixty(monkeypatch):
    """Sixty pairs for raw tables, whatever there are of rows."""
    set_pairs(monkeypatch, 60)


def test_interactions_of_quantities_are_followed(sixty):
    frame, y = table(6000)
    (train, labels), (test, truth) = (frame[:4000], y[:4000]), (frame[4000:], y[4000:])
    straight, together = tabular(interactions=None).fit(train, labels), tabular().fit(train, labels)
    assert straight.waves_ is None
    assert together.waves_.n_pairs == 60
    assert together.coef_.shape[1] == together.encoder_.features.n_features + 120
    assert together.score(test, truth) > straight.score(test, truth) + 0.1
    names = np.array(together.encoder_.get_feature_names_out())[together.waves_.at]
    assert names.tolist() == ["a", "b", "c"]
    assert ((together.waves_.turns != 0).sum(axis=0) >= 2).all()
    assert together.privacy_spent_.releases[:3] == straight.privacy_spent_.releases[:3]


def test_a_raw_row_has_the_same_scores_in_any_company_and_storage(sixty):
    frame, y = table()
    fitted = tabular().fit(frame, y)
    whole = fitted.predict_proba(frame)
    alone = np.concatenate([fitted.predict_proba(frame.iloc[i : i + 1]) for i in range(30)])
    assert np.array_equal(whole[:30], alone)
    kinds = {"a": Number(), "b": Number(), "c": Number(), "job": Categories(["cook", "nurse", "clerk"])}
    expected = tabular(columns=kinds).fit(frame, y)
    whole = expected.predict_proba(frame)
    chunked = Chunks(lambda: [(frame[:700], y[:700]), (frame[700:], y[700:])])
    remote = dask.dataframe.from_pandas(frame, npartitions=3), dask.dataframe.from_pandas(pd.Series(y), npartitions=3)
    for data in ((chunked,), remote):
        again = tabular(columns=kinds).fit(*data)
        assert again.waves_ is not None
        assert np.array_equal(again.coef_, expected.coef_)
        assert np.array_equal(np.asarray(again.predict_proba(data[0])), whole)


def test_the_effects_leave_interactions_out(sixty):
    frame, y = table()
    fitted = tabular().fit(frame, y)
    effects = fitted.effects_
    assert list(effects) == ["a", "b", "job", "c"]
    features = fitted.encoder_.transform(frame)
    n = features.shape[1]
    added = fitted.waves_.of(features) @ fitted.coef_[0, n:]
    rest = fitted.decision_function(frame) - added
    mean = fitted.encoder_.features.moments.mean
    # the constant has the mean of the interactions; what they add beside it has about the mean 0
    middle = wave_moments(fitted.waves_, fitted.encoder_.features.moments)[0] @ fitted.coef_[0, n:]
    np.testing.assert_allclose(rest + middle, effects.constant + (features - mean) @ fitted.coef_[0, :n], atol=1e-9)
    assert all(np.isfinite(effect.bars_noise).all() for effect in effects.values())


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_constant_of_effects_is_the_mean_score_with_interactions_too(n_classes, intercept, sixty):
    """Columns are normal and independent here, as the moments of waves suppose. The rest is noise in released means."""
    frame, y = table(4000)
    y = y + (n_classes - 2) * (frame["a"] > 1).to_numpy()
    fitted = tabular(epsilon=100.0, fit_intercept=intercept).fit(frame, y)
    scores, effects = fitted.decision_function(frame), fitted.effects_
    n = fitted.encoder_.features.n_features
    added = fitted.waves_.of(fitted.encoder_.transform(frame)) @ fitted.coef_[:, n:].T
    left_out = np.abs(fitted.waves_.of(np.zeros((1, n))) @ fitted.coef_[:, n:].T).max()
    off = np.abs(scores.mean(axis=0) - effects.constant).max()
    assert off < 0.1 * scores.std(axis=0).max() < 0.5 * left_out, (off, scores.std(axis=0), left_out)
    assert effects.interactions == pytest.approx(np.sqrt(added.var(axis=0).mean()), rel=0.15)


def test_moments_of_waves_are_those_of_normal_columns():
    """Against a simulation: means of 200,000 numbers in [-1, 1] are off by 6 / sqrt(200,000) with chances below 1e-8.

    There are 8 means and 64 products of them, so all are within it but for a chance of 1e-6, and the seed is fixed.
    """
    rng, n = np.random.default_rng(0), 200_000
    mean, deviation = np.array([0.1, -0.2, 0.05]), np.array([0.1, 0.2, 0.15])
    turns = rng.normal(size=(2, 4))
    for centre in (None, mean[[0, 2]]):
        waves = Waves(np.array([0, 2]), Columns.within(-1.0, 1.0, 2).standardised(np.ones(2), centre), turns)
        moments = FeatureMoments(mean, (), deviation**-SCALE_POWER, centred=centre is not None)
        found = waves.of(rng.normal(mean, deviation, size=(n, 3)))
        means, covariances = wave_moments(waves, moments)
        np.testing.assert_allclose(found.mean(axis=0), means, rtol=0, atol=6 / np.sqrt(n))
        products = covariances + np.multiply.outer(means, means)
        np.testing.assert_allclose(found.T @ found / n, products, rtol=0, atol=6 / np.sqrt(n))


def test_effects_and_pictures_say_that_there_are_interactions(sixty):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    frame, y = table()
    together, straight = (tabular(interactions=kind).fit(frame, y) for kind in ("fourier", None))
    assert straight.effects_.interactions is None
    assert "interactions" not in repr(straight.effects_)
    assert f"and interactions, which are not shown: {together.effects_.interactions:.2g})" in repr(together.effects_)
    titles = [
        [place.get_title() for place in EffectsDisplay.from_estimator(fitted).axes_] for fitted in (together, straight)
    ]
    pyplot.close("all")
    assert titles[0] == [f"{e.name}\nwithout interactions" for e in together.effects_.by_importance()]
    assert titles[1] == [e.name for e in straight.effects_.by_importance()]


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_underflow_raise_nothing(sparse, few):
    """Whether one does is nobody's business, also where warnings of NumPy are errors."""
    X, y = rings()
    fitted = model().fit(X, y)
    rows = X[:20].copy()
    expected = fitted.decision_function(rows)
    rows[0] = 5e-324
    rows = sp.csr_matrix(rows) if sparse else rows
    with np.errstate(all="raise"):
        assert np.array_equal(fitted.decision_function(rows)[1:], expected[1:])


def test_errors_name_the_parameter_as_it_is_called_there():
    with pytest.raises(TypeError, match="DPTabularClassifier: features is called interactions here"):
        DPTabularClassifier(features="fourier")
    with pytest.raises(TypeError, match="DPLogisticRegression: interactions is called features here"):
        DPLogisticRegression(interactions="fourier")
    with pytest.raises(ValueError, match=r"features='hats' must be None or 'fourier'$"):
        model(features="hats").fit(*rings(60))


def test_without_rows_or_quantities_there_are_no_interactions(monkeypatch):
    frame, y = table()
    plain, tried = (tabular(interactions=kind, epsilon=2.0).fit(frame, y) for kind in (None, "fourier"))
    assert tried.waves_ is None
    assert np.array_equal(plain.coef_, tried.coef_)
    set_pairs(monkeypatch, 60)
    frame = frame[["a", "job"]]
    plain, tried = tabular(interactions=None).fit(frame, y), tabular().fit(frame, y)
    assert tried.waves_ is None
    assert np.array_equal(plain.coef_, tried.coef_)


def test_exported_forms_have_no_interactions(sixty):
    fitted = tabular().fit(*table())
    for method in ("to_json", "to_onnx", "to_sklearn"):
        with pytest.raises(ValueError, match=r"interactions='fourier', which .* does not have"):
            getattr(fitted, method)()
    taken = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(taken.predict_proba(table()[0]), fitted.predict_proba(table()[0]))


@pytest.mark.parametrize("given", ["Fourier", "products", 2])
def test_other_interactions_are_refused(given):
    with pytest.raises(ValueError, match=rf"interactions={given!r} must be"):
        tabular(interactions=given).fit(*table(200))
