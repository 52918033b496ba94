"""Waves: each row alone, with the same bits everywhere, and sums of gradients that stay bounded."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Columns, RowMap, StoredRows, row_scores
from dpsk.data.grid import UNIT_BITS, WEIGHT_BITS
from dpsk.data.waves import MOST_PAIRS, TABLE_BITS, Waves, cosines
from dpsk.losses import Logistic
from dpsk.queries import GradientSum
from dpsk.testing import check_query

PARTS = 2**TABLE_BITS


def exact_pi(bits=200):
    """Machin's formula, in integers of 2^-bits."""

    def arctan_of_one_by(q):
        term = total = (1 << bits + 20) // q
        for k in itertools.count(1):
            term //= q * q
            if not term:
                break
            total += (-1) ** k * (term // (2 * k + 1))
        return total

    return Fraction(16 * arctan_of_one_by(5) - 4 * arctan_of_one_by(239), 1 << bits + 20)


def exact_cosines(bits=120):
    """cos(2 pi k / PARTS) for k of an eighth of a turn and sines as well, by Taylor's series in rationals."""
    pi, found = exact_pi(), {}
    for k in range(PARTS // 8 + 1):
        x = Fraction(round(2 * pi * k / PARTS * 2**bits), 2**bits)
        for name, term, first in (("cos", Fraction(1), 1), ("sin", x, 2)):
            total, n = term, first
            while abs(term) > Fraction(1, 2**100):
                term = Fraction(round(-term * x * x / (n * (n + 1)) * 2**bits), 2**bits)
                total, n = total + term, n + 2
            found[name, k] = total
    return found


def test_every_cosine_is_the_nearest_number_of_the_grid_and_no_other_is_near():
    """So libraries whose cosines are off by less than 2^-40 agree; those of today are off by 2^-52."""
    assert abs(exact_pi() - Fraction(math.pi)) < Fraction(1, 2**50)
    exact, table, least = exact_cosines(), cosines(), Fraction(1)
    eighth = PARTS // 8
    for k in range(PARTS):
        quarter, rest = divmod(k, 2 * eighth)
        first, second = (
            (exact["cos", rest], exact["sin", rest])
            if rest <= eighth
            else (
                exact["sin", 2 * eighth - rest],
                exact["cos", 2 * eighth - rest],
            )
        )
        value = (first, -second, -first, second)[quarter] * 2**UNIT_BITS
        assert table[k] * 2.0**UNIT_BITS == round(value)
        least = min(least, abs(value - math.floor(value) - Fraction(1, 2)))
    assert least > Fraction(2**UNIT_BITS, 2**40)
    assert np.array_equal(table[1:], table[:0:-1])
    assert not np.signbit(table[table == 0]).any()
    assert not table.flags.writeable


def example(d=5, n_pairs=7, n=60, of=(0, 2, 4), seed=0, strength=1.0):
    """Rows, and waves of some of their columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 3
    X[rng.random(X.shape) < 0.3] = 0
    low, high = -rng.uniform(1, 4, len(of)), rng.uniform(1, 4, len(of))
    columns = Columns(low, high, np.ones(len(of)), rng.uniform(-0.5, 0.5, len(of)))
    return X, Waves(np.array(of), columns, strength * rng.normal(size=(len(of), n_pairs)))


def beside(X, waves, seed=0):
    """The map of rows with these waves onto a grid."""
    rng = np.random.default_rng(seed)
    d, k = X.shape[1], waves.n_columns
    low, high = np.r_[np.full(d, -2.5), -np.ones(k)], np.r_[np.full(d, 3.0), np.ones(k)]
    return RowMap(columns=Columns(low, high, rng.uniform(0.3, 5, d + k), rng.uniform(-0.3, 0.3, d + k)), waves=waves)


def by_integers(X, waves):
    """The waves of rows, by Python's integers and rationals."""
    placed, table = waves.columns.place(np.array(X[:, waves.at])), cosines()
    centre = [round(float(c) * 2**UNIT_BITS) for c in np.clip(waves.columns.centre, -1, 1)]
    turns = [[Fraction(float(t)) for t in row] for row in waves.turns]
    found = np.empty((len(X), waves.n_columns))
    for i, row in enumerate(placed):
        steps = [round(Fraction(float(x)) * 2**UNIT_BITS) - c for x, c in zip(row, centre, strict=True)]
        for k in range(waves.n_pairs):
            phase = sum(step * turn[k] for step, turn in zip(steps, turns, strict=True))
            entry = round(phase * PARTS / 2**UNIT_BITS)
            found[i, k] = table[entry % PARTS]
            found[i, waves.n_pairs + k] = table[(entry - PARTS // 4) % PARTS]
    return found


@pytest.mark.parametrize("strength", [1e-6, 1.0, 1e3, 1e8])
def test_waves_are_those_of_exact_arithmetic(strength):
    X, waves = example(strength=strength)
    X[0], X[1] = 1e300, -1e300
    waves.columns.centre[:] = [-1.0, 1.0, 7.0]  # as far away as can be, and clipped
    assert np.array_equal(waves.of(X), by_integers(X, waves))


def test_products_of_frequencies_are_exact_in_every_order():
    """3.2 for phases: entries less their centre have at most 2^19 steps, frequencies 2^31 in l1."""
    for seed in range(20):
        _, waves = example(of=range(50), d=50, seed=seed, strength=10.0 ** (seed - 13))
        size = np.abs(waves.turns).sum(axis=0).max()
        spacing = 2.0 ** (math.ceil(math.log2(size)) - WEIGHT_BITS)
        steps = waves.turns / spacing
        assert np.array_equal(steps, np.rint(steps))
        assert np.abs(steps).sum(axis=0).max() * 2 ** (UNIT_BITS + 1) <= 2**53
        assert np.array_equal(Waves(waves.at, waves.columns, waves.turns).turns, waves.turns)


def test_waves_are_cosines_and_sines_of_what_the_frequencies_say():
    X, waves = example()
    phases = 2 * np.pi * (waves.columns.place(X[:, waves.at]) - waves.columns.centre) @ waves.turns
    size = np.abs(waves.turns).sum(axis=0)
    error = 2 * np.pi * (2.0**-TABLE_BITS / 2 + size * 2.0**-UNIT_BITS) + 2.0**-UNIT_BITS
    found = waves.of(X)
    assert (np.abs(found - np.hstack([np.cos(phases), np.sin(phases)])) <= np.tile(error, 2)).all()
    assert np.abs(found).max() <= 1
    assert waves.n_columns == 14
    assert repr(waves) == "<cosines and sines of 7 phases of 3 columns>"


def storages(X, folder):
    np.save(folder / "rows.npy", X)
    yield "C", np.ascontiguousarray(X)
    yield "F", np.asfortranarray(X)
    yield "strided", np.repeat(X, 2, axis=1)[:, ::2]
    yield "CSR", sp.csr_matrix(X)
    yield "mapped", np.load(folder / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize("d", [5, 40], ids=["dense", "sparse"])
def test_every_storage_gives_the_same_bits(d, tmp_path):
    """Sparse rows become dense beside many waves, and stay sparse beside few; then the offset is subtracted later."""
    X, waves = example(d, n=3000)
    X = X.astype(np.float32).astype(np.float64)
    y, how = np.random.default_rng(1).choice([-1.0, 1.0], len(X)), beside(X, waves)
    w = np.random.default_rng(2).normal(size=d + waves.n_columns + 1)
    query, order = GradientSum(Logistic(), w, clip=1.0), np.random.default_rng(3).permutation(len(X))
    expected = ArrayRows(X, y, how).total(query)
    assert expected.any()
    for name, rows in storages(X, tmp_path):
        made = ArrayRows(rows, y, how)
        assert made.n_features == d + waves.n_columns
        assert np.array_equal(made.total(query), expected), name
        assert np.array_equal(ArrayRows(rows, y, how, chunk_rows=77).total(query), expected), name
        assert np.array_equal(ArrayRows(rows[order], y[order], how).total(query), expected), name
        stored = StoredRows([rows[:700], rows[700:]], y, how, on_disk=name == "CSR")
        assert stored.public.n_features == made.public.n_features
        assert np.array_equal(stored.total(query), expected), name
    assert np.array_equal(ArrayRows(X.astype(np.float32), y, how).total(query), expected)
    assert np.array_equal(ArrayRows(sp.csr_matrix(X.astype(np.float32)), y, how).total(query), expected)
    dense = next(iter(ArrayRows(sp.csr_matrix(X), y, how)._chunks()))
    assert dense.sparse == (d == 40)


def test_a_row_has_the_same_scores_alone_and_in_any_company():
    for d in (5, 40):
        X, waves = example(d, n=300)
        rng = np.random.default_rng(4)
        coef, intercept = rng.normal(size=(3, d + waves.n_columns)), rng.normal(size=3)
        ranges = np.array([np.full(d, -2.0), np.full(d, 2.5)])
        for ends in (None, ranges):
            whole = row_scores(X, coef, intercept, ends, waves=waves)
            alone = np.concatenate([row_scores(x[None], coef, intercept, ends, waves=waves) for x in X])
            assert np.array_equal(whole, alone)
            company = np.concatenate([np.full((7, d), 1e308), X, rng.normal(size=(4000, d))])
            for rows in (company, np.asfortranarray(company), sp.csr_matrix(company), sp.coo_matrix(company)):
                found = row_scores(rows, coef, intercept, ends, waves=waves)
                assert np.array_equal(found[7:307], whole)
            inside = X if ends is None else np.clip(X, *ends)
            np.testing.assert_allclose(whole, np.hstack([inside, waves.of(X)]) @ coef.T + intercept, atol=1e-12)


def test_scores_of_a_fit_are_those_of_predictions():
    """The weights on the grid, taken back to the user's units, give the rows the scores that the fit saw."""
    X, waves = example(n=200)
    how = beside(X, waves)
    w = np.random.default_rng(5).normal(size=5 + waves.n_columns + 1)
    w = np.rint(w * 2.0**20) * 2.0**-20
    seen = np.concatenate([chunk.scores(w) for chunk in ArrayRows(X, np.ones(200), how)._chunks()])
    coef, intercept = how.in_user_units(w)
    found = row_scores(X, coef, intercept, how.ranges, waves=waves)[:, 0]
    assert how.ranges.shape == (2, 5)
    # units are truncated: by less than a step each
    steps = np.abs(w[:-1]).sum() * how.grid.scale * 2.0**-UNIT_BITS
    np.testing.assert_allclose(found, seen, rtol=0, atol=2 * steps + 1e-12)


@pytest.mark.parametrize("clip", [0.7, 3.0, 1e6])
def test_sensitivity_of_gradients_of_rows_with_waves(clip):
    X, waves = example()
    how = beside(X, waves)
    w = np.random.default_rng(6).normal(size=5 + waves.n_columns + 1)
    reached = check_query(
        GradientSum(Logistic(), w, clip=clip), n_features=5, trials=40, make_rows=lambda X, y: ArrayRows(X, y, how)
    )
    assert reached > 0.9 or clip > 3


def test_norms_are_never_too_short():
    X, waves = example(n=100)
    how = beside(X, waves)
    for rows in (X, sp.csr_matrix(X)):
        for chunk in ArrayRows(rows, np.ones(100), how)._chunks():
            dense = chunk.dense(slice(None))
            assert dense.shape == (100, 5 + waves.n_columns + 1)
            for row, norm in zip(dense, chunk.norm, strict=True):
                assert sum(Fraction(float(x)) ** 2 for x in row) <= Fraction(float(norm)) ** 2
            assert np.abs(dense).max() <= 1
    shape = how.of_shape(100, 5)
    assert shape.n_parameters == 20
    assert (np.abs(dense[:, :-1]).max(axis=0) * how.grid.scale <= shape.column_bounds[:-1]).all()
    assert (chunk.norms <= shape.norm_range[1]).all()


def test_what_is_no_map_is_refused():
    columns = Columns.within(-1.0, 1.0, 2)
    with pytest.raises(ValueError, match="one entry of at"):
        Waves(np.arange(3), columns, np.ones((2, 4)))
    with pytest.raises(ValueError, match="one entry of at"):
        Waves(np.arange(2), columns, np.ones(2))
    with pytest.raises(ValueError, match="Waves of 0 phases"):
        Waves(np.arange(2), columns, np.ones((2, 0)))
    with pytest.raises(ValueError, match="Waves of 16385 phases"):
        Waves(np.arange(2), columns, np.ones((2, MOST_PAIRS + 1)))
    for turns in (np.inf, np.nan, 2.0**30):
        with pytest.raises(ValueError, match="turns of Waves must be finite, and those of a phase at most"):
            Waves(np.arange(2), columns, np.full((2, 1), turns))
    with pytest.raises(ValueError, match="waves need columns"):
        RowMap(waves=Waves(np.arange(2), columns, np.ones((2, 1))))
