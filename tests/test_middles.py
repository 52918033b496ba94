"""The sums of what entries lack to being -1, 0 or 1."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from row_changes import fractions

from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.queries import Middles
from dpsk.testing import check_query
from dpsk.testing.common import heavy_tailed

D = 4


def placed(X, sparse=False, **options):
    X = sp.csr_matrix(X) if sparse else np.asarray(X)
    d = X.shape[1]
    return ArrayRows(X, np.ones(X.shape[0]), RowMap(columns=Columns.within(-1, 1, d), fit_intercept=False), **options)


@pytest.mark.parametrize("clip", [1e-9, 0.01, 0.2, 0.4, 1e9])
def test_sensitivity_is_kept(clip):
    reached = check_query(Middles(D, clip=clip), n_features=D, make_rows=lambda X, y: placed(X, sp.issparse(X)))
    assert reached > 0.5


@pytest.mark.parametrize("clip", [0.01, 0.25])
def test_sensitivity_is_reached(clip):
    """A row that leaves, and one that is replaced by one with other columns in the middle."""
    X = np.array([[0.5, 0.0, 0.0, 0.0], [1.0, -1.0, 0.0, 1.0]])
    other = np.array([[0.0, -0.5, 0.0, 0.0], [1.0, -1.0, 0.0, 1.0]])
    query = Middles(D, clip=clip)
    whole, gone, replaced = (placed(rows).total(query) for rows in (X, X[1:], other))
    assert fractions(query, "zero-out", whole - gone)["zero-out", "l2"] > 1 - 1e-3
    assert fractions(query, "replace", whole - replaced)["replace", "l2"] > 1 - 1e-3


def test_entries_of_categories_add_nothing():
    X = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (50, D))
    assert not placed(X).total(Middles(D, clip=1.0)).any()


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_of_entries_on_the_grid_are_exact(sparse):
    X = np.array([[0.5, -0.25], [0.0, 0.125], [-0.75, 0.0], [0.0, 0.0], [1.0, -1.0]])
    query = Middles(2, clip=9.0)
    sums = placed(X, sparse).total(query) * query.unit
    assert sums.tolist() == (np.abs(X) - np.square(X)).sum(axis=0).tolist()


def slow(X, clip):
    """The sums in Python integers, from the promise: truncated entries, truncated squares, a truncated weight."""
    sums = [0] * X.shape[1]
    for row in np.clip(X, -1, 1).tolist():
        sizes = [abs(math.trunc(v * 2**17)) for v in row]
        middles = [e - e * e * 2 // 2**18 for e in sizes]
        norm = math.sqrt(sum(m * m for m in middles)) / 2**17
        weight = min(2**18, math.trunc(clip / norm * (1 - 2**-30) * 2**18)) if norm else 0
        sums = [s + weight * m for s, m in zip(sums, middles, strict=True)]
    return sums


@pytest.mark.parametrize("clip", [0.01, 0.1, 0.3, 3.0])
def test_every_storage_gives_the_sums_of_integer_arithmetic(clip, tmp_path):
    X = heavy_tailed(900, D, np.random.default_rng(1))
    X[::2] = np.random.default_rng(2).uniform(-1, 1, (450, D))
    X[:4] = [[1e-300] * D, [5e-324] * D, [1e300, -1e300, 1, 0], [0] * D]
    np.save(tmp_path / "X.npy", X)
    query, mapped = Middles(D, clip=clip), np.load(tmp_path / "X.npy", mmap_mode="r")
    expected = slow(X, query.clip)
    for rows in (placed(X), placed(X, True), placed(X, chunk_rows=77), placed(np.asfortranarray(X))):
        assert rows.total(query).tolist() == expected
    how = RowMap(columns=Columns.within(-1, 1, D), fit_intercept=False)
    assert ArrayRows(mapped, np.ones(900), how).total(query).tolist() == expected


def test_other_rows_are_refused():
    X, y, columns = sp.csr_matrix(np.eye(2)), np.ones(2), Columns.within(-1, 1, 2)
    for how in (
        RowMap(columns=columns, fit_intercept=True),
        RowMap(columns=columns.standardised(np.ones(2), np.ones(2)), fit_intercept=False),
        RowMap(columns=columns.standardised(np.full(2, 3.0), None), fit_intercept=False),
        RowMap(fit_intercept=False),
    ):
        with pytest.raises(ValueError, match="middles are taken of placed columns"):
            ArrayRows(X, y, how).total(Middles(2, clip=1.0))
    with pytest.raises(ValueError, match="2 columns"):
        placed(np.ones((3, 4))).total(Middles(2, clip=1.0))
    for clip in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match="clip="):
            Middles(3, clip=clip)
