"""What one row adds, in integers and fractions: never more than is promised, whatever was rounded on the way."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Columns, RawRows, RowMap, StoredRows
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.mechanisms import SeededBits
from dpsk.minimizers import AttackedSum, RegularizedSum
from dpsk.queries import (
    ArmijoGains,
    GradientSum,
    HessianSum,
    LossesAlong,
    Magnitudes,
    Moments,
    Positions,
    RowNorms,
    Successes,
)
from dpsk.queries.moments import second_sums
from dpsk.testing.common import heavy_tailed

exactly = np.vectorize(Fraction, otypes=[object])
BOUNDS = np.full(3, -2.0), np.full(3, 5.0)
COLUMNS = {
    "none": None,
    "placed": Columns(*BOUNDS, np.array([1.0, 1 / 3, 2.0**-17])),
    "centred": Columns(*BOUNDS, np.array([0.7, 5.0, 0.3]), np.array([1.0, -1 / 3, 0.9])),
}
STORES = {
    "dense": lambda X, y, **how: ArrayRows(X, y, RowMap(**how)),
    "CSR": lambda X, y, **how: ArrayRows(sp.csr_matrix(X), y, RowMap(**how)),
    "stored": lambda X, y, **how: StoredRows([X], y, RowMap(**how), on_disk=False),
}
each_store = pytest.mark.parametrize("store", STORES)
each_columns = pytest.mark.parametrize("columns", COLUMNS)


def provoking(n, d, rng):
    """Return rows over thirty orders of magnitude, and rows that lie beside powers of two and the ends of bounds."""
    X = heavy_tailed(n, d, rng)
    ends = rng.choice([1.0, -1.0, 2.0, 5.0, -2.0, 2.0**-18, 2.0**300], (n // 2, d)) * (
        1 + rng.integers(-1, 2) * 2.0**-52
    )
    X[: n // 2] = ends * (rng.random((n // 2, d)) < 0.8)
    return X


def chunks_of(store, X, y, **how):
    return [part.load() for part in STORES[store](X, y, **how)._parts()]


@each_columns
@each_store
def test_norms_of_rows_are_never_rounded_down(store, columns):
    rng = np.random.default_rng(0)
    for fit_intercept in (False, True):
        X, y = provoking(60, 3, rng), np.ones(60)
        for chunk in chunks_of(store, X, y, columns=COLUMNS[columns], fit_intercept=fit_intercept):
            squares = (exactly(chunk.dense(slice(None))) ** 2).sum(axis=1)
            assert all(square <= Fraction(norm) ** 2 for square, norm in zip(squares, chunk.norm, strict=True))
            assert np.array_equal(chunk.norms / chunk.scale, chunk.norm)  # a power of two


@each_store
def test_no_row_is_longer_than_its_bound(store):
    """The l2 norm of what is left of a row, in fractions; and hardly shorter where it was too long."""
    rng = np.random.default_rng(1)
    for bound in (1.0, 3.7, 1e-9, 2.0**200, math.nextafter(2.0, 0)):
        X = np.clip(provoking(60, 3, rng), -1e200, 1e200) * rng.choice([bound, 1.0])
        for fit_intercept in (False, True):
            for chunk in chunks_of(store, X, np.ones(60), data_norm=bound, fit_intercept=fit_intercept):
                squares = (exactly(chunk.dense(slice(None))[:, :3]) ** 2).sum(axis=1) * exactly(chunk.scale) ** 2
                assert max(squares) <= Fraction(bound) ** 2
                assert fit_intercept or float(max(squares)) ** 0.5 > bound * (1 - 1e-4)


def changes(query, store, X, y, other_X, other_y, **how):
    """Yield what each row adds, and how far replacing it by another one moves the sum."""

    def alone(X, y, i):
        with np.errstate(all="ignore"):
            made = RawRows(X[[i]]) if how.get("raw") else STORES[store](X[[i]], y[[i]], **how)
            return query.over(made, SeededBits(0)).astype(object).ravel()

    for i in range(len(X)):
        own = alone(X, y, i)
        yield "zero-out", own
        yield "replace", own - alone(other_X, other_y, i)


def check(query, *data, **how):
    """Compare every change with every promise, exactly; return the largest part of the l2 norm that was reached."""
    largest = 0.0
    for adjacency, change in changes(query, *data, **how):
        promised = query.sensitivity(adjacency)
        assert sum(map(abs, change)) <= promised.l1
        assert sum(change**2) <= Fraction(promised.l2) ** 2
        assert max(map(abs, change)) <= promised.linf
        assert not promised.monotone or min(change) >= 0
        largest = max(largest, math.sqrt(sum(change**2)) / promised.l2)
    return largest


LOSSES = [Logistic(), Hinge(), SquaredHinge(), Sigmoid(), Softmax(3), OneVsRest(HuberHinge(), 3)]


@pytest.mark.slow
@each_columns
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_row_adds_more_than_is_promised(loss, columns):
    """Clips that are powers of two and such that are not, weights from 0 to where slopes and losses are largest."""
    rng, largest = np.random.default_rng(2), 0.0
    for trial, store in enumerate(STORES):
        how = {"columns": COLUMNS[columns], "n_classes": loss.n_classes, "fit_intercept": bool(trial % 2)}
        X, other_X = provoking(8, 3, rng), provoking(8, 3, rng)
        some = [-1.0, 1.0] if loss.n_classes is None else range(3)
        y, other_y = rng.choice(some, (2, 8))
        p = 3 + how["fit_intercept"]
        shape = (p,) if loss.n_classes is None else (p, 3)
        for clip in (1.0, rng.random(), 10392 / 2**14):
            w, step = rng.normal(size=(2, *shape)) * 10.0 ** rng.uniform(-3, 6)
            queries = [
                GradientSum(loss, w, clip=clip),
                LossesAlong(loss, w, step, np.arange(38.0), clip=clip),
                ArmijoGains(loss, w, step, np.linspace(1e-9, 1e3, 38), clip=clip),
                ArmijoGains(loss, w, step, np.linspace(1e-9, 1e3, 38), clip=clip, per_unit=False),
                RowNorms(),
            ]
            if not isinstance(loss, Softmax) and math.isfinite(loss.smoothness):
                queries.append(HessianSum(loss, w, clip=clip))
            for query in queries:
                largest = max(largest, check(query, store, X, y, other_X, other_y, **how))
    assert largest > 0.99


@pytest.mark.parametrize("make", [LossesAlong, partial(ArmijoGains, per_unit=False)], ids=["losses", "gains"])
def test_a_promise_is_not_below_what_a_row_reaches_by_the_last_digit(make):
    """A root and a product round twice: for 38 points and this clip, by more than to the next float."""
    loss, rows = SquaredHinge(), ArrayRows(np.ones((1, 1)), np.ones(1), RowMap(fit_intercept=False))
    for count in range(1, 65):
        for steps in (10392, 2**14, 9999, 16383):
            w, direction = np.full(1, -1e3), np.full(1, -1e9)
            query = make(loss, w, direction, np.arange(1.0, count + 1), clip=steps / 2**14)
            change = query.over(rows, SeededBits(0)).astype(object)
            assert sum(change**2) <= Fraction(query.sensitivity("zero-out").l2) ** 2
            if make is LossesAlong:
                assert (change == steps).all()


@pytest.mark.slow
def test_moments_and_counts_add_no_more_than_is_promised():
    rng, largest = np.random.default_rng(3), dict.fromkeys(("moments", "magnitudes", "positions", "successes"), 0.0)
    within = Columns.within(-2.0, 5.0, 3)
    for store in STORES:
        X, other_X, y = provoking(30, 3, rng), provoking(30, 3, rng), np.ones(30)
        for size in (1e-9, 0.4, 1.0, rng.random(), 1.9, 1e9):
            queries = [Moments(3, clip=size)]
            for norm in ("l1", "l2"):
                queries += [Magnitudes(3, size, norm=norm), Positions(3, size, *BOUNDS, norm=norm)]
            for query in queries:
                how = {"columns": within, "fit_intercept": False} if isinstance(query, Moments) else {"raw": True}
                reached = check(query, store, X, y, other_X, y, **how)
                largest[query.label] = max(largest[query.label], reached)
        largest["successes"] = check(Successes(), store, X[:, :1], y, other_X[:, :1], y, raw=True)
    assert min(largest.values()) > 0.9


@each_store
def test_second_halves_of_moments_are_rounded_by_less_than_a_step(store):
    """Entry by entry, in fractions, from squares that were rounded toward zero; and norms are not rounded down."""
    X, step = np.clip(provoking(60, 3, np.random.default_rng(4)), -1e3, 1e3), Fraction(1, 2**18)
    query = Moments(3, clip=1.0, one_sign=[True, False, True])
    for chunk in chunks_of(store, X, np.ones(60), columns=COLUMNS["placed"], fit_intercept=False):
        seconds, lengths = second_sums(chunk.units, query.one_sign, query.scale)
        units = exactly(chunk.dense(slice(None)))
        found = exactly(seconds.toarray() if chunk.sparse else seconds)
        exact = 2 * units**2
        exact[:, ::2] = abs(units)[:, ::2] - exact[:, ::2]
        errors = exact - found
        errors[:, ::2] *= -1
        assert all(0 <= error < step for error in errors.ravel())
        norms = zip((found**2).sum(axis=1), lengths, strict=True)
        assert all(square <= Fraction(norm) ** 2 for square, norm in norms)


@each_columns
@each_store
def test_gradients_of_rows_of_minima_are_no_longer_than_the_clip(store, columns):
    """Residual times norm, in fractions, and a shortened row is no longer than it may be; also under attack."""
    rng, largest = np.random.default_rng(5), 0.0
    kinds = [RegularizedSum] + [partial(AttackedSum, radius=0.3, norm=norm, constant=True) for norm in (2, math.inf)]
    for loss in (Logistic(), SquaredHinge()):
        X, y = provoking(40, 3, rng), rng.choice([-1.0, 1.0], 40)
        rows = STORES[store](X, y, columns=COLUMNS[columns])
        for kind in kinds:
            for clip, longest in ((0.3, 1.7), (1.0, 1.0), (1e-9, rng.random()), (1e9, 2.0**90)):
                what = kind(loss, 40, 4, clip=clip, longest=longest, penalty=1.0)
                over, w = what.over(rows), rng.normal(size=(4, 1)) * 10.0 ** rng.uniform(-3, 9)
                line, radius = over._line(w, 0 * w), Fraction(getattr(what, "radius", 0.0))
                attack = radius * Fraction(getattr(what, "length", 0.0)) * (1 - Fraction(1, 2**50))
                with np.errstate(all="ignore"):
                    for part in rows._parts():
                        chunk = part.load()
                        sizes = exactly(over.scales(chunk)[0])
                        norms2 = (exactly(chunk.dense(slice(None))) ** 2).sum(axis=1)
                        ((residuals, _),) = over._derivatives(chunk, line)
                        for size, norm2, residual in zip(sizes, norms2, exactly(residuals), strict=True):
                            assert size**2 * norm2 <= Fraction(what.longest) ** 2
                            slope = abs(residual) * Fraction(over._spacing) / size  # of the loss, cut
                            length = slope * (root_below(size**2 * norm2) + attack)
                            assert length <= Fraction(what.clip)
                            largest = max(largest, float(length / Fraction(what.clip)))
    assert largest > 0.9


def root_below(square):
    """Return a fraction at most the root of this one, by less than 2^-60 of it."""
    shift = 4**80 * 4 ** max(0, square.denominator.bit_length())
    return Fraction(math.isqrt(square.numerator * shift // square.denominator), math.isqrt(shift))
