"""A pass over rows in memory does not copy them: time then grows with the rows, not with the square of a chunk."""

import itertools
import tracemalloc

import numpy as np
import pytest

from dpsk import DPAGDLogisticRegression, DPLogisticRegression, DPSGDClassifier
from dpsk.data import ArrayRows, ArrayTable, Columns, RowMap
from dpsk.data.arrays import blocks_of
from dpsk.data.grid import CHUNK_ROWS
from dpsk.losses import Logistic, Softmax
from dpsk.minimizers.regularized import RegularizedSum
from dpsk.networks import Network
from dpsk.queries import ArmijoGains, GradientSum, HessianSum, LossesAlong, Moments, NetworkGradient, RowNorms

N, D = 2**15, 64
X = np.random.default_rng(0).normal(size=(N, D))
Y = np.where(X[:, 0] > 0, 1, -1)


def placed(**options):
    how = RowMap(columns=Columns.within(-4, 4, D), fit_intercept=False, **options)
    return ArrayRows(X, Y, how, chunk_rows=CHUNK_ROWS)


def bytes_taken(work):
    """Return by how much memory grew at most while this worked."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


W = np.random.default_rng(1).normal(size=D)
NETWORK = Network.dense(D, [30], 1)
QUERIES = {
    "moments": Moments(D, clip=3.0),
    "row norms": RowNorms(),
    "gradient": GradientSum(Logistic(), W, clip=1.0),
    "network": NetworkGradient(NETWORK, Logistic(), NETWORK.start(0), clip=1.0),
    "losses": LossesAlong(Logistic(), W, W, range(3), clip=1.0),
    "gains": ArmijoGains(Logistic(), W, W, [0.5, 1.0], clip=1.0),
    "Hessian": HessianSum(Logistic(), W, clip=1.0),
}


@pytest.mark.parametrize("row_major", [False, True], ids=["columns first", "rows first"])
@pytest.mark.parametrize("name", QUERIES)
def test_no_query_copies_its_chunk(name, row_major):
    rows = placed(row_major=row_major)
    (chunk,) = rows._chunks()
    rows.total(QUERIES[name])  # what is kept for the next time is there now
    assert bytes_taken(lambda: rows.total(QUERIES[name])) < chunk.units.nbytes / 2


@pytest.mark.parametrize("row_major", [False, True], ids=["columns first", "rows first"])
def test_a_minimum_copies_no_chunk(row_major):
    rows = placed(row_major=row_major)
    (chunk,) = rows._chunks()
    over = RegularizedSum(Logistic(), N, D, clip=1.0, longest=8.0, penalty=1.0).over(rows)
    over.gradient(np.ones((D, 1)) / D)
    for work in (
        lambda: over.gradient(W[:, None]),
        lambda: over.hessians(W[:, None], np.ones(1)),
        lambda: over.products(W[:, None], np.ones(1))(W[:, None]),
    ):
        assert bytes_taken(work) < chunk.units.nbytes / 2


@pytest.mark.parametrize("row_major", [False, True], ids=["columns first", "rows first"])
def test_drawing_a_few_rows_copies_a_few(row_major):
    rows = placed(row_major=row_major)
    (chunk,) = rows._chunks()
    few = np.arange(7, N, 300)
    rows.subset(few)  # what is known of each row is kept from now on
    assert bytes_taken(lambda: rows.subset(few)) < 10 * chunk.units[few].nbytes < chunk.units.nbytes / 10


@pytest.mark.parametrize("row_major", [False, True], ids=["columns first", "rows first"])
def test_a_part_is_a_view_of_the_same_rows_as_are_taken(row_major):
    for rows in (placed(row_major=row_major), ArrayRows(X, Y, RowMap(row_major=row_major))):
        chunk = next(iter(rows._chunks()))
        part, taken = chunk.part(slice(100, 900)), chunk.take(np.arange(100, 900))
        assert np.shares_memory(part.units, chunk.units)
        assert not np.shares_memory(taken.units, chunk.units)
        for fact in ("units", "scale", "norm", "y", "constant"):
            assert np.array_equal(getattr(part, fact), getattr(taken, fact)), fact
        assert part.first == taken.first == -1


@pytest.mark.parametrize("row_major", [False, True], ids=["columns first", "rows first"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_parts_of_a_chunk_add_up_to_the_same_bits(name, row_major):
    (chunk,) = placed(row_major=row_major)._chunks()
    cuts = [0, 1, 2, 70, 1000, 1000 + 8192, N]
    parts = [QUERIES[name](chunk.part(slice(a, b))) for a, b in itertools.pairwise(cuts)]
    assert np.array_equal(sum(parts), QUERIES[name](chunk))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "classes"), [(3, None), (200, None), (1500, None), (200, 3)])
def test_chunks_in_memory_are_short(d, classes):
    """So that a chunk, and what is computed of its rows, is still in cache when it is needed again.

    They are as short as those in files, and longer only where rows have few columns.
    """
    n = 10_000
    x, y = np.ones((n, d)), np.ones(n, dtype=int)
    lengths = [len(chunk) for chunk in ArrayRows(x, y, RowMap(n_classes=classes))._chunks()]
    if d == 3:
        assert lengths == [n]
    else:
        assert lengths == [rows.stop - rows.start for rows in blocks_of(x)]
        assert max(lengths) <= 8192
    assert max(lengths) * d <= 2**21
    loss = Logistic() if classes is None else Softmax(classes)
    query = GradientSum(loss, np.full((d + 1, *([] if classes is None else [classes])), 1e-3), clip=1.0)
    whole = ArrayRows(x, y, RowMap(n_classes=classes), chunk_rows=n)
    assert np.array_equal(ArrayRows(x, y, RowMap(n_classes=classes)).total(query), whole.total(query))


@pytest.mark.parametrize(
    ("model", "row_major"),
    [
        (DPAGDLogisticRegression(epsilon=1e3, bounds=(-4, 4), batch_size=500, random_state=0), True),
        (DPAGDLogisticRegression(epsilon=1e3, bounds=(-4, 4), random_state=0), False),
        (DPSGDClassifier(epsilon=1e3, bounds=(-4, 4), steps=2, random_state=0), True),
        (DPLogisticRegression(epsilon=1e3, bounds=(-4, 4), random_state=0), False),
    ],
)
def test_rows_lie_side_by_side_where_a_fit_draws_batches_of_them(model, row_major, monkeypatch):
    made, rows_of = [], ArrayTable.rows

    def rows(self, *arguments, **options):
        made.append(rows_of(self, *arguments, **options))
        return made[-1]

    monkeypatch.setattr(ArrayTable, "rows", rows)
    model.fit(X[:2000], Y[:2000])
    assert next(made[-1]._chunks()).units.flags.c_contiguous == row_major
