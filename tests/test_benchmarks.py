"""The benchmark suite on small data: runs resume, the report builds, and the baselines keep what they promise."""

import math
import shutil
import subprocess
import sys
import warnings
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, PrivateData
from dpsk.losses import Hinge, Logistic
from dpsk.mechanisms import SeededBits
from dpsk.penalties import L2
from dpsk.privacy import Budget, BudgetExhausted, GaussianCost, Ledger, Sampling, conversions
from dpsk.solvers import run
from dpsk.testing import check_query

pytest.importorskip("pandas")

from benchmarks import figures, settings, suite
from benchmarks.accuracy import CONFIGURATIONS, means
from benchmarks.solvers.composed_sgd import SGDMA, AdvancedComposition, AllMoments, MomentsAccountant, SGDAdv
from benchmarks.solvers.gradient_output import (
    OutputGradientDescent,
    PermutedGradientDescent,
    RandomizedSensitivity,
)
from benchmarks.solvers.objective_perturbation import ApproximateMinima, GaussianObjective, PureObjective
from benchmarks.solvers.privgene import LossesAmong, PrivGene, PrivGeneClassifier
from benchmarks.solvers.unit_rows import LOSSES
from benchmarks.suite import Table

ROOT = Path(__file__).parents[1]
BASELINES = {
    "PrivGene": PrivGeneClassifier(random_state=0),
    "PrivGene, two parents": PrivGeneClassifier(parents=2, random_state=0),
    "SGD-Adv": SGDAdv(steps=20, random_state=0),
    "SGD-MA": SGDMA(steps=20, random_state=0),
    "SGD-MA, all moments": SGDMA(steps=20, all_moments=True, random_state=0),
}


def small_problem(n=2000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.where(X @ np.linspace(-2, 2, d) + 0.3 * rng.normal(size=n) > 0, 1, -1)


# ------------------------------------------------------------------------------------------------ the suite


def squares(folder, name, value):
    """Measure something, and leave a trace of having done so."""
    with (folder / "calls.txt").open("a") as file:
        file.write(f"{name}\n")
    return value**2, ""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "RESULTS", tmp_path / "results")
    return tmp_path


def test_a_table_measures_what_is_missing_once(results):
    table = Table("squares", ("name", "value"), ("square", "nothing"), squares)
    assert table.run([("a", 2), ("b", 0.5), ("a", 2)], results, jobs=1) == 2
    assert table.run([("b", 0.5), ("c", 3)], results, jobs=1) == 1
    assert (results / "calls.txt").read_text().split() == ["a", "b", "c"]
    assert [row["square"] for row in table.rows()] == ["4", "0.25", "9"]
    assert (results / "results" / "squares.csv").read_text().splitlines()[0] == "name,value,square,nothing"
    assert "numpy" in (results / "results" / "machines.json").read_text()


def test_a_table_keeps_what_was_measured_before_it_was_stopped(results):
    def until_c(folder, name, value):
        if name == "c":
            raise KeyboardInterrupt
        return value, ""

    table = Table("stopped", ("name", "value"), ("same", "nothing"), until_c)
    with pytest.raises(KeyboardInterrupt):
        table.run([("a", 1), ("b", 2), ("c", 3)], results, jobs=1)
    assert [row["name"] for row in table.rows()] == ["a", "b"]
    assert table.missing([("a", 1), ("b", 2), ("c", 3)]) == [("c", 3)]


def test_a_table_that_was_stopped_before_its_first_row_has_its_header(results):
    def stop(folder, name):
        raise KeyboardInterrupt

    table = Table("empty", ("name",), ("same",), stop)
    with pytest.raises(KeyboardInterrupt):
        table.run([("a",)], results, jobs=1)
    assert table.path.read_text() == "name,same\n"
    table.path.write_text("")
    with pytest.raises(KeyboardInterrupt):
        table.run([("a",)], results, jobs=1)
    assert table.path.read_text() == "name,same\n"


def test_a_configuration_runs_on_small_data_and_resumes(results):
    rng = np.random.default_rng(0)
    X = rng.random((300, 6)).astype(np.float32)
    np.savez(results / "adult_onehot.npz", X=X, y=np.where(X[:, 0] > 0.5, 1, -1).astype(np.int8))
    keys = [("ours", "gamma", 0.1, 1.6, 0, 0), ("SGD-MA", "steps", 50, 1.6, 0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # 240 rows are few
        assert settings.TABLE.run(keys, results, jobs=1) == 2
    assert settings.TABLE.run(keys, results, jobs=1) == 0
    assert all(0 <= float(row["accuracy"]) <= 1 for row in settings.TABLE.rows())


def test_every_figure_can_be_run_and_needs_the_default():
    options = Namespace(repeats=1, data=None, jobs=1)
    for figure in figures.FIGURES.values():
        if figure.name in ("gao-wright", "lowy-bounds"):  # these begin with runs of their own
            continue
        for table, keys in figure.measurements(options):
            keys = list(keys)
            assert keys, figure.name
            assert all(len(key) == len(table.key) for key in keys)
    assert set(figures.pictures.METHODS) >= set(figures.pictures.LEE_KIFER) | set(figures.pictures.CHEN_LEE)
    for names in (figures.pictures.LEE_KIFER, figures.pictures.CHEN_LEE):
        assert names[0] == "default"


def test_cells_without_a_result_do_not_count():
    row = {"dataset": "d", "configuration": "c", "epsilon": "1", "delta": "1e-8", "repeat": "0"}
    cells = means([row | {"fold": "0", "accuracy": "0.5"}, row | {"fold": "1", "accuracy": ""}])
    assert cells == {("d", "c", "1"): np.array([50.0])}


def test_the_report_builds_from_the_results_and_is_what_is_committed(tmp_path):
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    texts = ("README.md", "claims.md", "summary.md", "kddcup99.md", "gradients.md")
    for made in (tmp_path / "benchmarks" / "results").iterdir():
        if made.suffix == ".png" or made.name in texts:
            made.unlink()
    command = [sys.executable, "-m", "benchmarks", "report"]
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in texts:
        made, committed = (root / "benchmarks" / "results" / name for root in (tmp_path, ROOT))
        assert made.read_text() == committed.read_text(), f"{name}: run python -m benchmarks report"
    for figure in figures.FIGURES.values():
        for file in figure.files:
            assert (tmp_path / "benchmarks" / "results" / file).stat().st_size > 500
    claims = (tmp_path / "benchmarks" / "results" / "claims.md").read_text()
    assert "not measured yet" not in claims


# --------------------------------------------------------------------------------------------- the baselines


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_baselines_learn_and_spend_within_their_budget(name, loss):
    X, y = small_problem()
    model = BASELINES[name].__class__(**(BASELINES[name].get_params() | {"loss": loss, "epsilon": 8.0}))
    model.fit(X, y)
    spent = model.privacy_spent_
    assert spent.charged <= spent.limit
    assert (spent.epsilon, spent.delta) == (8.0, 1e-6)
    assert spent.charged > 0.99 * spent.limit
    assert model.score(X, y) > 0.75
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=["logistic", "hinge"])
@pytest.mark.parametrize("clip", [0.25, 3.0])
def test_one_row_moves_the_scores_of_candidates_by_no_more_than_promised(loss, clip):
    points = PrivGene().children(np.array([0.3, -1.0, 0.5, 2.0]), np.array([-0.1, 1.0, 0.0, 0.4]), 0.5)
    reached = check_query(LossesAmong(loss, points, clip=clip), n_features=3, trials=200)
    assert reached > 0.1  # and the bound is not far away


def test_what_is_subtracted_does_not_change_the_order_of_candidates():
    X, y = small_problem(500)
    points = PrivGene().children(np.zeros(5), np.zeros(5), 0.5)
    query = LossesAmong(Logistic(), points, clip=64.0)  # clips nothing
    sums = query.over(ArrayRows(X, y.astype(float)), SeededBits(0)) * query.unit
    margins = y[:, None] * (np.column_stack([X, np.ones(len(X))]) @ points.T)
    expected = np.logaddexp(0, -margins)
    expected = (expected - expected.min(axis=1, keepdims=True)).sum(axis=0)
    # features are rounded to 18 bits, scores of rows down to multiples of the unit
    np.testing.assert_allclose(sums, expected, atol=500 * (query.unit + 1e-4))
    assert sums.argmin() == expected.argmin()


def test_scores_of_candidates_are_the_same_for_every_order_and_storage():
    X, y = small_problem(9000, 6)
    X[X < 0.4] = 0
    query = LossesAmong(Logistic(), PrivGene().children(np.full(7, 0.3), np.full(7, -0.7), 0.475), clip=2.0)
    order = np.random.default_rng(1).permutation(len(X))
    y = y.astype(float)
    sums = [query.over(rows, SeededBits(0)) for rows in (ArrayRows(X, y), ArrayRows(sp.csr_matrix(X), y))]
    sums.append(query.over(ArrayRows(X[order], y[order]), SeededBits(0)))
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])


def test_privgene_pays_for_every_choice_and_is_pure_without_a_delta():
    X, y = small_problem(800)
    for delta in (0.0, 1e-6):
        ledger = Ledger(Budget.of(4.0, delta))
        data = PrivateData(ArrayRows(X, y.astype(float)), ledger, SeededBits(0))
        run(PrivGene(pace=400, parents=2), data, Logistic(), L2(1e-3), (5,))
        (release,) = ledger.releases
        assert release.count == 2 * round(800 * 4.0 / 400)
        assert ledger.charged <= ledger.budget.limit
        assert ledger.budget.currency.name == ("rho" if delta else "epsilon")


@pytest.mark.parametrize("currency", [AdvancedComposition, MomentsAccountant, AllMoments])
def test_a_plan_of_equal_steps_keeps_its_promise_and_no_more_steps_fit(currency):
    plan = currency.plan(0.02, 100, 1.0, 1e-6)
    assert plan.delta(100, 1.0) <= 1e-6 < currency(plan.rate, plan.noise_multiplier / 1.01).delta(100, 1.0)
    assert 100 <= plan.limit(1.0, 1e-6) < 105
    assert plan.epsilon(100, 1e-6) == pytest.approx(1.0, rel=1e-2)
    assert plan.price(GaussianCost(1 / plan.noise_multiplier)) == math.inf  # one on all rows is not what was planned
    ledger = Ledger(Budget(1.0, 1e-6, plan, 100.0))
    ledger.charge(Sampling(plan.rate).cost([GaussianCost(1 / plan.noise_multiplier)]), "batch", 100)
    with pytest.raises(BudgetExhausted):
        ledger.charge(Sampling(plan.rate).cost([GaussianCost(1 / plan.noise_multiplier)]), "batch")


def test_older_accounting_is_never_below_the_true_privacy_loss():
    """Against the loss distribution of the sampled Gaussian, composed by another library."""
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rate, noise, steps = 0.05, 2.0, 200
    true = losses.from_gaussian_mechanism(noise, sampling_prob=rate).self_compose(steps)
    for epsilon in (0.5, 1.0, 3.0):
        exact = true.get_delta_for_epsilon(epsilon)
        for currency in (AdvancedComposition, MomentsAccountant, AllMoments):
            # discretised losses are rounded up: allow for that
            assert currency(rate, noise).delta(steps, epsilon) >= exact * (1 - 1e-2)


def test_the_moments_accountant_has_its_floor():
    assert MomentsAccountant(0.005, 1e4).epsilon(1, 1e-8) == pytest.approx(math.log(1e8) / 32, rel=1e-3)
    with pytest.raises(BudgetExhausted, match="raise epsilon"):
        MomentsAccountant.plan(0.005, 1, 0.5, 1e-8)
    assert AllMoments.plan(0.005, 1, 0.5, 1e-8).delta(1, 0.5) <= 1e-8


def test_advanced_composition_is_the_published_formula():
    """On all rows with one step: b = a, and the theorem's terms by hand at the best a of the grid."""
    noise, steps, epsilon = 40.0, 10, 1.0

    def by_hand(a):
        left = epsilon - steps * a * math.expm1(a)
        slack = math.exp(-((left / a) ** 2) / (2 * steps)) if left > 0 else 1.0
        return steps * conversions.gaussian_delta(a, 1 / noise) + slack

    best = min(by_hand(float(a)) for a in np.geomspace(1e-4, 20, 200))
    assert AdvancedComposition(1.0, noise).delta(steps, epsilon) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [OutputGradientDescent, PermutedGradientDescent, RandomizedSensitivity])
def test_a_replaced_row_moves_an_iterate_by_no_more_than_its_noise_is_for(kind, loss):
    rng = np.random.default_rng(0)
    model = kind(alpha=0.1)
    model.passes, reached = 3, 0.0
    for _ in range(100):
        size, n_batches, p = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        batches = rng.normal(size=(n_batches, size, p))
        batches /= np.linalg.norm(batches, axis=2, keepdims=True)
        at, _ = model.descend(batches, LOSSES[loss])
        for j in range(n_batches):
            other = batches.copy()
            # across the gradient's own row, or anything
            other[j, 0] = -other[j, 0] if rng.random() < 0.5 else np.eye(p)[0]
            there, moved = model.descend(other, LOSSES[loss])
            reached = max(reached, np.linalg.norm(there - at) / moved[j])
    # near 0 the slope of the logistic loss is half its bound, and opposite rows pull back
    assert (0.9 if loss == "huber_hinge" else 0.35) < reached <= 1 + 1e-12


class _OneNoise:
    """Stands for a generator: shows the scale of what is drawn."""

    def normal(self, size):
        return np.ones(size)

    def gamma(self, shape, scale):
        return scale


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("kind", [PureObjective, GaussianObjective, ApproximateMinima])
def test_perturbed_objectives_keep_their_promise_in_one_dimension(kind, epsilon, loss):
    """The density of the minimum is that of b there times a derivative; compared on a grid, noise on it left out."""
    delta = 1e-3
    phi = LOSSES[loss]
    closest = math.inf
    for rows in ([1.0], [1.0, -1.0, 1.0]):
        leaves = kind is GaussianObjective
        others = [rows[1:]] if leaves else [[-rows[0], *rows[1:]], [0.0, *rows[1:]]]
        b, penalty, _ = kind(epsilon, delta)._noise(len(rows), 1, phi.smoothness, _OneNoise())
        scale = abs(float(b[0]))
        w = np.linspace(-60, 60, 400_001) * scale / penalty

        def log_density(rows, w=w, scale=scale, penalty=penalty):
            force = sum((x * phi.slope(x * w) for x in rows), penalty * w) / scale
            change = sum((x * x * phi.curvature(x * w) for x in rows), np.full_like(w, penalty)) / scale
            log_b = -np.abs(force) - math.log(2) if kind is PureObjective else -(force**2) / 2 - math.log(2 * np.pi) / 2
            return log_b + np.log(change)

        here = log_density(rows)
        assert np.exp(here).sum() * (w[1] - w[0]) == pytest.approx(1, abs=1e-3)
        for other in others:
            there = log_density(other)
            for one, two in ((here, there), (there, here)):
                if kind is PureObjective:
                    closest = min(closest, epsilon - (one - two).max())
                else:
                    excess = np.maximum(np.exp(one) - np.exp(epsilon + two), 0).sum() * (w[1] - w[0])
                    closest = min(closest, delta - excess)
    assert closest >= -1e-9


def test_baselines_of_the_paper_are_among_the_configurations():
    assert {"PrivGene", "SGD-Adv", "SGD-MA", "DP-Adam", "PrivGene SVM", "SGD-Adv SVM", "SGD-MA SVM"} <= set(
        CONFIGURATIONS
    )
