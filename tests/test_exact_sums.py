"""Sums of the largest chunks, with rows at the end of every bound, against sums of Python's integers row by row."""

import inspect
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import dpsk.minimizers
import dpsk.queries
from dpsk.data import ArrayRows, Columns, NoisyQuery, RawRows, RowMap, StoredRows
from dpsk.data.arrays import _MAX_ROWS
from dpsk.data.grid import CENTRED_CHUNK_ROWS, CHUNK_ROWS, UNIT_BITS, weights_on_grid
from dpsk.data.private import Statistic
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import (
    AttackedSum,
    Minimizer,
    PerturbedMinima,
    RegularizedSum,
    SampledWeights,
    TiltedSum,
)
from dpsk.minimizers import (
    regularized as objectives,
)
from dpsk.minimizers.sampled_weights import _Draw
from dpsk.queries import (
    ArmijoGains,
    CellCounts,
    ClassCounts,
    GradientSum,
    HessianSum,
    LossesAlong,
    Magnitudes,
    Middles,
    Moments,
    NetworkGains,
    NetworkGradient,
    NetworkLosses,
    Outcomes,
    Positions,
    PositionsOfSome,
    RowNorms,
    Successes,
)


class Counted:
    """Rows of a few kinds: every sum over all of them is compared with what one of each kind adds, in any precision."""

    def __init__(self, rows, kinds):
        self._rows, self._kinds, self.heaviest, self.largest, self._ones = rows, kinds, 0, 0, []
        for kind in np.unique(kinds):
            self._ones.append((self._one(int(np.flatnonzero(kinds == kind)[0])), int((kinds == kind).sum())))

    def again(self):
        """Return the same rows, without what was found of them."""
        return Counted(self._rows, self._kinds)

    def _one(self, i):
        start = 0
        for part in self._rows._parts():
            if i < start + len(part):
                chunk = part.take(np.array([i - start])).load()
                chunk.first = i
                return chunk
            start += len(part)
        raise AssertionError

    def __getattr__(self, name):
        return getattr(self._rows, name)

    def total(self, kernel):
        whole = self._rows.total(kernel)
        each = [(np.asarray(kernel(one)).astype(object), count) for one, count in self._ones]
        exact = sum(one * count for one, count in each)
        assert (whole.astype(object) == exact).all()
        self.heaviest = max(self.heaviest, *(abs(one).max() for one, _ in each))
        self.largest = max(self.largest, abs(exact).max())
        return whole


def tiled(values, n, seed):
    """Return rows and their kinds: all of one kind first, so that partial sums are large, or in a random order."""
    kinds = np.sort(np.arange(n) % len(values))
    kinds = kinds if seed is None else np.random.default_rng(seed).permutation(kinds)
    return np.asarray(values)[kinds], kinds


BOUNDS = np.full(2, -1.0), np.full(2, 1.0)
CENTRED = Columns(*BOUNDS, np.ones(2), np.array([1.0, -1.0]))  # the offset is as large as an entry can be
HALF_CENTRED = Columns(*BOUNDS, np.array([1.0, 2.0**-17]), np.array([1 - 2.0**-17, 0.5]))
ENDS = [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]
SLIGHT = [[1.0, -1.0], [1.0, -1 + 2.0**-15], [1 - 2.0**-16, -1.0]]  # centred nothing or next to nothing is left
STORES = {
    "dense": (lambda X, y, **how: ArrayRows(X, y, RowMap(**how)), CHUNK_ROWS),
    "CSR": (lambda X, y, **how: ArrayRows(sp.csr_matrix(X), y, RowMap(**how)), CHUNK_ROWS),
    "stored": (lambda X, y, **how: StoredRows([X], y, RowMap(**how), on_disk=False), CENTRED_CHUNK_ROWS),
}
DATA = {
    "straight": ([[1.0, 0.0], [1.0, 2.0**-18]], None),
    "ends": (ENDS, None),
    "odd": ([[1 - 2.0**-18, 2.0**-18], [1 - 3 * 2.0**-18, 5 * 2.0**-18]], None),  # to the last bit
    "centred ends": (ENDS, CENTRED),
    "hardly any norm": (SLIGHT, CENTRED),
    "half": (ENDS, HALF_CENTRED),
}


def extreme(data, store, loss, fit_intercept=False, seed=None, n=None, label=None):
    values, columns = DATA[data]
    make, longest = STORES[store]
    X, kinds = tiled(values, n or longest, seed)
    if label is None:  # one sign or class for all: then nothing cancels
        y = np.ones(len(X)) if loss.n_classes is None else np.full(len(X), 1)
    else:
        y = np.asarray(label)[kinds]
    rows = make(X, y, n_classes=loss.n_classes, columns=columns, fit_intercept=fit_intercept)
    return Counted(rows, kinds)


def sums_of(rows, loss, clip):
    """Yield queries of chunks, at weights where slopes are largest and where they are not."""
    shape = (rows.n_parameters,) if loss.n_classes is None else (rows.n_parameters, loss.n_classes)
    rng = np.random.default_rng(0)
    for size in (0.0, 1e3):
        w, step = size * rng.normal(size=shape), rng.normal(size=shape)
        yield GradientSum(loss, w, clip=clip)
        yield LossesAlong(loss, w, step, [0.0, 1.0, -3.0, 64.0], clip=clip)
        yield ArmijoGains(loss, w, step, [1e-9, 1.0, 1e3], clip=clip)
        yield ArmijoGains(loss, w, step, [1e-9, 1.0, 1e3], clip=clip, per_unit=False)
        one = getattr(loss, "loss", loss)
        if not isinstance(loss, Softmax) and math.isfinite(one.smoothness):
            yield HessianSum(loss, w, clip=clip)
    yield RowNorms()


SUMMED = [Logistic(), Hinge(), SquaredHinge(), Sigmoid(), Softmax(3), OneVsRest(HuberHinge(), 3)]


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("data", DATA)
def test_sums_over_the_largest_chunks_are_exact(data, store):
    largest = 0
    for loss, fit_intercept, seed in zip(SUMMED, [False, True] * 3, [None, 1, None, 2, None, 3], strict=True):
        rows = extreme(data, store, loss, fit_intercept, seed)
        # the first leaves room for no bit more, the second for an odd number of steps
        clips = 2.0**-12, 2.0**-12 * (1 - 1.5 * 2.0**-UNIT_BITS)
        for clip in clips if store == "dense" else clips[:1]:
            for query in sums_of(rows, loss, clip):
                with np.errstate(all="ignore"):
                    query.over(rows, SeededBits(0))
        assert rows.heaviest * _MAX_ROWS < 2**63
        largest = max(largest, rows.largest)
    if store == "dense" and data in ("straight", "odd"):
        assert largest > 2**52.9  # so that one more bit would not have been exact


@pytest.mark.parametrize("data", ["straight", "ends", "centred ends", "hardly any norm"])
def test_residuals_at_the_end_of_their_bound_are_summed_exactly(data):
    """As large as 2^UNIT_BITS / norm, as the contract of total says; dense, sparse and stored, all of one sign."""
    for store in STORES:
        for fit_intercept in (False, True):
            rows = extreme(data, store, Logistic(), fit_intercept)
            rows.total(lambda chunk: chunk.total(np.floor(2.0**UNIT_BITS / chunk.norm)))
            rows.total(
                lambda chunk: chunk.total(np.stack([np.full(len(chunk), sign * 2.0**18) for sign in (1, -1)], 1))
            )
            assert rows.heaviest * _MAX_ROWS < 2**63


def minima_of(rows, loss):
    """Yield the objectives that are minimised, with clips and penalties at which residuals are as large as can be."""
    kinds = [RegularizedSum]
    if not isinstance(getattr(loss, "loss", loss), Hinge):
        kinds += [partial(TiltedSum, tilt=tilt) for tilt in (0.01, 30.0)]
        kinds += [partial(AttackedSum, radius=0.1, norm=norm, constant=False) for norm in (2, math.inf)]
    for kind in kinds:
        for clip in (1e3, 2.0**-9):
            yield kind(loss, rows.n_rows, rows.n_parameters, clip=clip, longest=1.5, penalty=rows.n_rows * 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["dense", "CSR"])
@pytest.mark.parametrize("data", ["straight", "centred ends", "hardly any norm"])
def test_passes_of_minima_are_exact_over_the_largest_chunks(data, store):
    """Gradients to the last limb, Hessians, products with these, sums of weights and slopes."""
    for loss in (SquaredHinge(), OneVsRest(HuberHinge(0.2), 2)):
        rows = extreme(data, store, loss, seed=4)
        others = rows.again()  # entries of Hessians are the larger, the fewer rows there are: see below
        for what, size in zip(minima_of(rows, loss), [30.0, 1e-3] * 5, strict=False):
            w, damping = size * np.random.default_rng(0).normal(size=what.shape), np.full(what.shape[1], 0.5)
            with np.errstate(all="ignore"):
                what.over(rows).gradient(w)
                what.over(rows).products(w, damping)(np.ones(what.shape))
                what.over(others).hessians(w, damping)
                what.over(others).common()
                what.over(rows).curvatures(w, damping) if type(what) is RegularizedSum else None
        assert rows.heaviest * _MAX_ROWS < 2**63


@pytest.mark.slow
@pytest.mark.parametrize("data", ["ends", "hardly any norm"])
def test_whole_releases_are_made_of_exact_sums(data):
    """What is released of all rows, duality gaps and exponents included."""
    for loss in (Logistic(), Hinge()):
        rows = extreme(data, "CSR", loss, n=20_000, label=[1.0, -1.0, 1.0], seed=5)
        n, p = rows.n_rows, rows.n_parameters
        minimum = Minimizer(loss, n, p, clip=1e3, longest=1.5, penalty=0.3 * n)
        with np.errstate(all="ignore"):
            minimum.over(rows, SeededBits(0))
            if isinstance(loss, Logistic):
                PerturbedMinima(loss, n, p, 1.0, 1.5, 0.3 * n, 1.0, 0.1)(rows, SeededBits(0))
                draw = SampledWeights(loss, n, p, 1.5, 0.3 * n, 1e4, 3.0, 2.0)
                assert draw.top == 2**36
                around = _Draw(draw, rows)
                for k in (np.zeros(p), np.array([-2.9, 0.0]), np.array([2.0, -2.0])):
                    around.exponent(np.rint(k / draw.grid).astype(np.int64))
                assert draw.top * _MAX_ROWS < 2**63
        assert rows.largest < 2**62


def test_weights_of_hessians_leave_room_for_all_rows():
    """Those of Newton's method have fewer bits where there are more rows; a block has 4,096."""
    for n in (1, 2**12, 2**17 + 1, _MAX_ROWS):
        bits = min(objectives._WEIGHT_BITS, 62 - 2 * objectives._FACTOR_BITS - math.ceil(math.log2(n)))
        assert min(n, 4096) * 2 ** (bits + 2 * objectives._FACTOR_BITS) <= 2**53
        assert n * 2 ** (bits + 2 * objectives._FACTOR_BITS) < 2**63
        assert bits >= 10


def test_moments_and_counts_are_exact():
    within, n = Columns.within(-1.0, 1.0, 2), CHUNK_ROWS
    X, kinds = tiled(ENDS, n, None)
    for make, length in STORES.values():
        rows = Counted(make(X[:length], np.ones(length), columns=within, fit_intercept=False), kinds[:length])
        for clip in (1e-9, 1.0, 1e9):
            Moments(2, clip=clip).over(rows, SeededBits(0))
            Moments(2, clip=clip, one_sign=True).over(rows, SeededBits(0))
        assert rows.heaviest >= 2**34  # a column of ends, and its square
        assert rows.heaviest * _MAX_ROWS < 2**63
    X, kinds = tiled([[0.5, -0.5], [0.5, 1.0], [0.5 + 2.0**-17, 0.25]], n, None)
    for make, length in STORES.values():
        rows = Counted(make(X[:length], np.ones(length), columns=within, fit_intercept=False), kinds[:length])
        for clip in (1e-9, 0.3, 1e9):
            Middles(2, clip=clip).over(rows, SeededBits(0))
        assert rows.heaviest >= 2**33 - 2**20  # a quarter of a column of ends
        assert rows.heaviest * _MAX_ROWS < 2**63
    X, kinds = tiled([[1e300, -1e300], [1.0, 0.0], [1e-300, 1.0]], 20_000, 6)
    for store in (np.asarray, sp.csr_matrix):
        raw = Counted(RawRows(store(X)), kinds)
        for norm in ("l1", "l2"):
            for entries in (0.1, 1.5, 2.0):
                Magnitudes(2, entries, norm=norm).over(raw, SeededBits(0))
                Positions(2, entries, -np.ones(2), np.ones(2), norm=norm).over(raw, SeededBits(0))
            PositionsOfSome(2, np.array([1]), -np.ones(1), np.ones(1), norm=norm).over(raw, SeededBits(0))
        RowNorms().over(raw, SeededBits(0))
        assert raw.heaviest * _MAX_ROWS < 2**63
        one = Counted(RawRows(store(X[:, 1:])), kinds)
        Successes().over(one, SeededBits(0))
        cells = Counted(RawRows(store(np.full((len(X), 1), 3.0))), kinds)
        CellCounts(5, "cells").over(cells, SeededBits(0))
        assert cells.heaviest * _MAX_ROWS < 2**63
        assert one.heaviest * _MAX_ROWS < 2**63


def test_no_query_is_missing_here():
    """One that is added has to be summed at its extremes above."""
    found = {
        kind
        for room in (dpsk.queries, dpsk.minimizers)
        for name in room.__all__
        if inspect.isclass(kind := getattr(room, name)) and issubclass(kind, Statistic | NoisyQuery)
    }
    sums = {type(query) for query in sums_of(extreme("ends", "dense", Logistic(), n=3), Logistic(), 1.0)}
    others = {
        CellCounts,
        ClassCounts,
        Magnitudes,
        Positions,
        PositionsOfSome,
        Middles,
        Moments,
        NetworkGradient,  # in test_network_gradient
        NetworkGains,  # in test_network_gains
        NetworkLosses,
        Outcomes,
        Successes,
        Minimizer,
        PerturbedMinima,
        SampledWeights,
    }
    assert found == sums | others


# ------------------------------------------------------------------------------------------------------- scores


def exact_products(chunk, w):
    """Return (units - offset, constant).w for every row, as fractions."""
    return [[sum(map(Fraction, row * column), Fraction(0)) for column in w.T] for row in as_fractions(chunk)]


def as_fractions(chunk):
    return np.vectorize(Fraction, otypes=[object])(chunk.dense(slice(None)))


@pytest.mark.parametrize("data", DATA)
def test_products_with_weights_are_exact_to_the_last_of_their_bits(data):
    """Weights with an l1 norm just below a power of two, on the finest grid that is kept, and on a common one."""
    rng = np.random.default_rng(7)
    for store in STORES:
        for fit_intercept in (False, True):
            rows = extreme(data, store, Logistic(), fit_intercept, n=9)
            p = rows.n_parameters
            for finer in (2.0**-30, 2.0**-35, 1.0 / 3):
                w = np.rint(rng.dirichlet(np.ones(p)) / finer) * finer if finer < 0.1 else rng.normal(size=p) * 1e30
                w *= rng.choice([-1.0, 1.0], p)
                on_grid, _ = weights_on_grid(w)
                assert finer > 0.1 or np.array_equal(on_grid, w) or np.abs(w).sum() > 1
                for part in rows._parts():
                    chunk = part.load()
                    exact = exact_products(chunk, np.vectorize(Fraction, otypes=[object])(on_grid)[:, None])
                    computed = chunk._product(on_grid)
                    assert [Fraction(c) for c in computed] == [e[0] for e in exact]


def test_columns_reach_no_further_than_they_say():
    """For Newton's method: an entry of a centred row, divided by the reach of its column, is at most 1."""
    rng, nearest = np.random.default_rng(8), 0.0
    for _ in range(300):
        factor = rng.choice([1.0, 0.75, 2.0**-17, 3 * 2.0**-18, 1e-9, rng.random(), 40 * rng.random()], 4)
        centre = rng.choice([0.0, 1.0, -1.0, 0.5, rng.uniform(-1, 1), 0.75 + 2.0**-40], 4)
        columns = Columns(np.full(4, -1.0), np.full(4, 1.0), factor, centre)
        X = rng.choice([-1.0, 1.0, 0.0], (20, 4))
        for store in (np.asarray, sp.csr_matrix):
            rows = ArrayRows(store(X), np.ones(20), RowMap(columns=columns, fit_intercept=False))
            for chunk in rows._chunks():
                size = np.abs(chunk.dense(slice(None)) * chunk.scale[:, None]) / rows.public.column_bounds
                assert size.max() <= 1
                nearest = max(nearest, size.max())
    assert nearest == 1
