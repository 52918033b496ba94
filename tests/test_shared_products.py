"""Several wide minima at once: one matrix for all, products that they share, and the same certificate as ever."""

import math
from dataclasses import replace
from unittest import mock

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from test_minimizer import found, minimizer
from test_minimizers import STORES, Solved, exact_gradient, longest_column, normals, prepare

from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.data.weights import ONE, Weights
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import Minimizer, newton
from dpsk.minimizers.regularized import RegularizedSum, SumOverRows

D, K = 70, 3
LOSSES = [OneVsRest(loss, K) for loss in (Logistic(), HuberHinge(), SquaredHinge())]
BINARY = HuberHinge()


def wide(n=90, seed=0, d=D):
    """Entries on the grids, a fifth of them not 0, and classes that some columns tell."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-32, 65, (n, d)) / 64 * (rng.random((n, d)) < 0.2)
    return X, np.argmax(X @ rng.normal(size=(d, K)) + 0.1 * rng.gumbel(size=(n, K)), axis=1)


def kinds():
    X, y = wide()
    rng = np.random.default_rng(1)
    return {
        "plain": (X, y),
        "one class": (X, np.zeros_like(y)),
        "a class without rows": (X, np.minimum(y, 1)),
        "equal rows": (np.repeat(X[:3], 30, axis=0), y),
        "zero": (np.zeros_like(X), y),
        "rank one": (X[:, :1] * np.ones(D), y),
        "nearly collinear": (X[:, :3] @ rng.normal(size=(3, D)) / 8 + 1e-7 * rng.normal(size=X.shape), y),
        "columns of all sizes": (X * 10.0 ** rng.uniform(-8, 3, D), y),
        "rows of all sizes": (X * 10.0 ** rng.uniform(-8, 100, (len(X), 1)), y),
        "separable": (np.eye(K)[y][:, np.arange(D) % K], y),
    }


KINDS = kinds()


@pytest.fixture
def passes(monkeypatch):
    """Count gradients, products, and Hessians of single classes."""
    count = {"gradients": 0, "products": 0, "Hessians": 0}
    of_losses, products, hessians = SumOverRows._of_losses, SumOverRows.products, SumOverRows.hessians

    def counted_losses(self, *at):
        count["gradients"] += 1
        return of_losses(self, *at)

    def counted_products(self, *at):
        multiply = products(self, *at)

        def counted(direction):
            count["products"] += 1
            return multiply(direction)

        return counted

    def counted_hessians(self, w, damping, which=None):
        count["Hessians"] += self._what.shape[1] if which is None else len(which)
        return hessians(self, w, damping, which)

    monkeypatch.setattr(SumOverRows, "_of_losses", counted_losses)
    monkeypatch.setattr(SumOverRows, "products", counted_products)
    monkeypatch.setattr(SumOverRows, "hessians", counted_hessians)
    return count


def own_hessians():
    """Let every objective have its own Hessian, however wide it is."""
    return mock.patch.object(newton, "_COMMON", 10**6)


# ------------------------------------------------------------------------------------------------ the certificate


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [LOSSES[0], OneVsRest(HuberHinge(0.2), K)], ids=repr)
def test_the_true_gradient_is_within_the_tolerance(loss, kind):
    """In 60 digits, for strong penalties and for tiny ones."""
    X, y = KINDS[kind]
    for options in ({}, {"penalty": 1e-3}, {"clip": 1e-9}):
        rows = ArrayRows(X, y, RowMap(n_classes=K))
        what = prepare(loss, rows, **options)
        solved = Solved(what, rows, normals(what))
        lost = math.sqrt(what.objective.shape[0]) * what._unit / 2
        with mpmath.workdps(60):
            assert longest_column(exact_gradient(what, rows, solved.w, solved.b)) + lost <= what.tolerance


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_minima_are_those_that_own_hessians_lead_to(loss, kind):
    """Both are within ``near`` of the minimum, and the grid moves both by half a unit per weight."""
    X, y = KINDS[kind]
    rows = ArrayRows(X, y, RowMap(n_classes=K))
    for penalty in (30.0, 0.1):
        what = minimizer(loss, rows, penalty=penalty)
        together = found(what, rows)
        with own_hessians():
            apart = np.linalg.norm(together - found(what, rows), axis=0).max() * what.unit
        assert apart <= 2 * what.near + what.unit * math.sqrt(rows.n_parameters)


@pytest.mark.parametrize("loss", [Hinge(), OneVsRest(Hinge(), K)], ids=repr)
def test_hinges_use_the_same_matrix_for_all_corners(loss, monkeypatch):
    X, y = wide(60, d=D + 40)
    y = y if loss.n_classes else np.where(y > 0, 1.0, -1.0)
    rows, made = ArrayRows(X, y, RowMap(n_classes=loss.n_classes)), []
    common = newton.Common
    monkeypatch.setattr("dpsk.minimizers.regularized.Common", lambda matrix: made.append(1) or common(matrix))
    what = minimizer(loss, rows, penalty=3.0, clip=1.0)
    together = found(what, rows)
    assert len(made) == 1
    with own_hessians():
        other = found(what, rows)
    apart = np.linalg.norm(together - other, axis=0).max() * what.unit
    assert apart <= 2 * what.near + what.unit * math.sqrt(rows.n_parameters)


@pytest.mark.parametrize("how", ["nan", "zero", "negative", "garbage"])
def test_a_useless_common_matrix_costs_time_and_no_certificate(how, monkeypatch):
    bad = {
        "nan": lambda m: np.full_like(m, np.nan),
        "zero": np.zeros_like,
        "negative": lambda m: -m,
        "garbage": lambda m: np.random.default_rng(0).normal(size=m.shape),
    }[how]
    common = newton.Common
    monkeypatch.setattr("dpsk.minimizers.regularized.Common", lambda matrix: common(bad(matrix)))
    rows = ArrayRows(*wide(), RowMap(n_classes=K))
    what = minimizer(LOSSES[1], rows, penalty=3.0)
    together = found(what, rows)
    monkeypatch.undo()
    apart = np.linalg.norm(together - found(what, rows), axis=0).max() * what.unit
    assert apart <= 2 * what.near + what.unit * math.sqrt(rows.n_parameters)


# ------------------------------------------------------------------------------------------------- what it costs


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_many_classes_cost_no_hessian_for_each(loss, passes):
    """A pass serves all classes, so that ten cost hardly more of them than three."""
    X, y = wide(400)
    counts = []
    for n_classes in (3, 10):
        labels = y if n_classes == 3 else y * 3 + np.arange(len(y)) % 3
        rows = ArrayRows(X, labels, RowMap(n_classes=n_classes))
        passes.update(gradients=0, products=0, Hessians=0)
        found(minimizer(replace(loss, n_classes=n_classes), rows, penalty=4.0), rows)
        assert passes["Hessians"] == 0
        counts.append(passes["gradients"] + passes["products"])
    assert counts[1] <= 1.5 * counts[0] <= 90


def test_few_columns_keep_their_hessians(passes):
    """As public facts tell: columns and classes."""
    for d, n_classes, products in ((20, 3, False), (60, 3, False), (70, 3, True), (70, None, False), (110, None, True)):
        X, y = wide(d=d)
        rows = ArrayRows(X, y if n_classes else np.where(y > 0, 1.0, -1.0), RowMap(n_classes=n_classes))
        passes.update(gradients=0, products=0, Hessians=0)
        found(minimizer(OneVsRest(BINARY, K) if n_classes else BINARY, rows, penalty=4.0), rows)
        assert (passes["products"] > 0) == (passes["Hessians"] == 0) == products


# ---------------------------------------------------------------------------------------------- what is summed


def centred(d):
    rng = np.random.default_rng(5)
    factor, centre = rng.uniform(0.5, 2, d), rng.choice([-0.25, 0.0, 0.5], d)
    return Columns(np.full(d, -1.0), np.full(d, 1.0), factor, centre)


def shortened(rows, longest):
    """Return the rows as the sums take them, computed by themselves."""
    (chunk,) = rows._chunks()
    x = chunk.dense(slice(None)) * chunk.scale[:, None]
    return x * np.minimum(1, longest / np.linalg.norm(x, axis=1))[:, None]


@pytest.mark.parametrize("columns", [False, True], ids=["plain", "centred"])
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_common_matrix_and_its_multiples_are_those_of_the_rows(loss, weighted, columns):
    """Up to the rounding of Hessians: the multiples keep the trace of every class."""
    X, y = wide(300, d=6)
    steps = np.random.default_rng(3).integers(0, ONE + 1, len(y)).astype(np.int32) if weighted else None
    how = RowMap(n_classes=K, columns=centred(6) if columns else None)
    rows = ArrayRows(X, y, how, Weights(steps) if weighted else None)
    what = RegularizedSum(loss, len(y), 7, clip=1.0, longest=1.1, penalty=1.0)
    sums, x = SumOverRows(what, rows), shortened(rows, what.longest)
    counted = steps / ONE if weighted else np.ones(len(y))
    gram, common = (x.T * counted) @ x, sums.common()
    target = np.random.default_rng(4).normal(size=(7, K))
    w = 0.5 * np.random.default_rng(6).normal(size=(7, K))
    damping = np.array([0.0, 0.1, 1.0])
    multiples = sums.curvatures(w, damping)
    labels = np.where(y[:, None] == np.arange(K), 1.0, -1.0)
    margins = labels * (x @ w)
    curved = np.where(
        -what.one.slope(margins) * np.linalg.norm(x, axis=1)[:, None] < what.clip, what.one.curvature(margins), 0.0
    )
    curved = np.maximum(curved, damping * what.curvature)
    sizes = counted * np.square(x).sum(axis=1)
    np.testing.assert_allclose(multiples, sizes @ curved / sizes.sum(), rtol=1e-6)
    solved = common.solve(multiples, 30.0, target)
    for k in range(K):
        expected = np.linalg.solve(multiples[k] * gram + 30.0 * np.eye(7), target[:, k])
        np.testing.assert_allclose(solved[:, k], expected, rtol=1e-2, atol=1e-4)
    assert sums.common() is common
    assert SumOverRows(what, rows).sharing(sums).common() is common


def test_hessians_of_some_classes_are_those_of_all():
    rows = ArrayRows(*wide(d=8), RowMap(n_classes=K))
    sums = SumOverRows(RegularizedSum(LOSSES[0], 90, 9, clip=1.0, longest=1.1, penalty=1.0), rows)
    w, damping = np.random.default_rng(0).normal(size=(9, K)), np.array([0.0, 0.3, 0.1])
    every = sums.hessians(w, damping)
    for which in ([0], [2], [0, 2], [1, 2], [0, 1, 2]):
        assert sums.hessians(w, damping, np.array(which)).tobytes() == every[which].tobytes()


def test_products_of_a_class_do_not_depend_on_the_size_of_others():
    """A class that is nearly solved takes short steps beside long ones of others."""
    rows = ArrayRows(*wide(d=8), RowMap(n_classes=K))
    sums = SumOverRows(RegularizedSum(LOSSES[0], 90, 9, clip=1.0, longest=1.1, penalty=1e-9), rows)
    w, damping = np.random.default_rng(0).normal(size=(9, K)), np.zeros(K)
    step = np.random.default_rng(1).normal(size=(9, K))
    step = np.rint(step * 2.0**6) * 2.0**-6
    multiply, sizes = sums.products(w, damping), np.array([1.0, 2.0**-12, 2.0**-20])
    np.testing.assert_allclose(multiply(step * sizes) / sizes, multiply(step), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True], ids=["no constant", "constant"])
@pytest.mark.parametrize("columns", [False, True], ids=["plain", "centred"])
def test_every_storage_chunking_and_order_gives_the_same_bits(columns, intercept, tmp_path):
    X, y = wide(400)
    X = X + np.random.default_rng(1).normal(size=X.shape) / 16 * (X != 0)
    how = RowMap(K, fit_intercept=intercept, columns=centred(D) if columns else None)
    order = np.random.default_rng(2).permutation(len(y))
    variants = [
        ArrayRows(store(X, tmp_path), y, kept, chunk_rows=chunk_rows)
        for store in STORES.values()
        for kept, chunk_rows in ((how, None), (how, 77), (replace(how, row_major=True), None))
    ]
    variants += [ArrayRows(X[order], y[order], how), ArrayRows(sp.csr_matrix(X[order]), y[order], how)]
    what, perturbed = minimizer(LOSSES[1], variants[0], penalty=4.0), prepare(LOSSES[0], variants[0])
    results = {
        (found(what, rows).tobytes(), perturbed(rows, SeededBits(3)).tobytes(), curvature_bits(what, rows))
        for rows in variants
    }
    assert len(results) == 1


def curvature_bits(what: Minimizer, rows: ArrayRows) -> bytes:
    w = np.random.default_rng(8).normal(size=what.objective.shape)
    return SumOverRows(what.objective, rows).curvatures(w, np.full(K, 0.1)).tobytes()
