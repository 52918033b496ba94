"""Rows that are rounded once and kept small, in files or in memory."""

import errno
import os
import pickle
import shutil
import tempfile
import time
import weakref
from itertools import pairwise
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Chunk, Columns, RawRows, RowMap, StoredRows
from dpsk.data.grid import CENTRED_CHUNK_ROWS, UNIT_BITS
from dpsk.data.rows import ChunkRows
from dpsk.data.stored import Scratch, blocks_of, require_room
from dpsk.data.tables import StoredTable
from dpsk.losses import Logistic
from dpsk.queries import GradientSum, LossesAlong, Magnitudes
from dpsk.testing import check_rows


def in_pieces(X):
    """The same rows as blocks of several kinds and lengths."""
    k = len(X) // 3
    return [X[:k], sp.csr_matrix(X[k : k + 1]), np.asfortranarray(X[k + 1 :])] if k else [X]


@pytest.mark.parametrize(("on_disk", "threads"), [(True, 1), (True, 2), (False, 1)])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning:scipy")
def test_stored_rows_give_the_same_bits(on_disk, threads):
    with joblib.parallel_config("threading", n_jobs=threads):
        check_rows(lambda X, y, how: StoredRows(in_pieces(X), y, how, on_disk=on_disk))


def example(n=20_000, d=8, density=1.0):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < density), rng.choice([-1.0, 1.0], n)


def columns(d, centred):
    rng = np.random.default_rng(1)
    placed = Columns.within(-1, 1, d)
    return placed.standardised(rng.uniform(0.3, 30, d), rng.uniform(-1, 1, d) if centred else None)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("on_disk", [True, False])
def test_random_parts_of_dense_and_sparse_blocks_give_the_same_bits(on_disk, centred):
    """Whether a block is kept sparse depends on how many of its entries are zero, and sparse rows are centred later."""
    d = 6
    (sparse, _), (dense, _) = example(3000, d, density=0.1), example(3000, d)
    X, y = np.concatenate([sparse, dense]), example(6000, d)[1]
    cuts = [0, 2000, *range(2100, 6001, 100)]  # a long one first, to which others are joined
    how = RowMap(columns=columns(d, centred))
    blocks = [X[a:b] for a, b in pairwise(cuts)]
    plain, stored = ArrayRows(X, y, how), StoredRows(blocks, y, how, on_disk=on_disk)
    assert {part.sparse for part in stored._parts()} == {True, False}
    query = GradientSum(Logistic(), np.random.default_rng(2).normal(size=d + 1), clip=0.7)
    chosen = np.random.default_rng(3).permutation(6000)[:2000]
    few = np.arange(0, 2000, 3)
    whole = stored.subset(chosen)
    assert np.array_equal(whole.total(query), plain.subset(chosen).total(query))
    assert np.array_equal(whole.subset(few).total(query), plain.subset(chosen).subset(few).total(query))
    bound = query.sensitivity("zero-out").l2
    for left_out in range(0, 2000, 100):
        moved = whole.total(query) - stored.subset(np.delete(np.sort(chosen), left_out)).total(query)
        assert np.linalg.norm(moved.astype(float)) <= bound


def test_long_dense_chunks_do_not_make_long_sparse_ones():
    """Before the centre is subtracted, sums of more than 8,192 rows may round."""
    d, n = 3, 24_000
    X, y = example(n, d, density=0.1)
    how = RowMap(columns=columns(d, True))
    dense = ArrayRows(example(20_000, d)[0], np.ones(20_000), how)
    (long,) = dense._chunks()
    few = [chunk for a in range(0, n, 1000) for chunk in ArrayRows(X[a : a + 1000], y[a : a + 1000], how)._chunks()]
    assert not long.sparse
    assert all(chunk.sparse for chunk in few)
    mixed = ChunkRows(lambda: [long, *few], how.of_shape(20_000 + n, d))
    taken = mixed.rows_at(np.arange(20_000 + n), 20_000 + n)
    assert {chunk.sparse for chunk in taken._chunks()} == {True, False}
    assert max(len(chunk) for chunk in taken._chunks() if chunk.sparse) <= CENTRED_CHUNK_ROWS
    assert max(len(chunk) for chunk in taken._chunks()) == 20_000


def test_dense_and_sparse_rows_are_not_joined():
    X, y = example(100)
    chunks = [next(iter(ArrayRows(store(X), y)._chunks())) for store in (np.asarray, sp.csr_matrix)]
    for parts in (chunks, chunks[::-1]):
        with pytest.raises(ValueError, match="cannot be joined"):
            Chunk.joined(parts)


@pytest.mark.parametrize("density", [0.1, 1.0])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("on_disk", [True, False])
def test_mapped_columns_and_random_parts_give_the_same_bits(on_disk, row_major, centred, density):
    X, y = example(density=density)
    rng = np.random.default_rng(2)
    how = RowMap(columns=columns(8, centred), row_major=row_major)
    plain, stored = ArrayRows(X, y, how), StoredRows([X[:9000], X[9000:]], y, how, on_disk=on_disk)
    for name in ("n_rows", "n_features", "n_parameters", "norm_range", "n_classes"):
        assert getattr(stored.public, name) == getattr(plain.public, name)
    assert np.array_equal(stored.public.column_bounds, plain.public.column_bounds)
    w = rng.normal(size=9)
    line = LossesAlong(Logistic(), w, 0.1 * w, range(4), clip=3.0)
    queries = [GradientSum(Logistic(), w, clip=0.7), line, GradientSum(Logistic(), line.points[2], clip=1.0)]
    chosen = rng.permutation(len(y))[:3000]
    few = rng.permutation(3000)[:500]
    for one, other in (
        (plain, stored),
        (plain.subset(chosen), stored.subset(chosen)),
        (plain.subset(chosen).subset(few), stored.subset(chosen).subset(few)),
        (plain.subset(chosen[:0]), stored.subset(chosen[:0])),
    ):
        for query in queries:
            assert np.array_equal(one.total(query), other.total(query))


def test_units_have_fewer_digits_than_single_precision():
    """The worst there is: every unit and every unit less its centre is an integer of at most 2^18 steps."""
    assert np.finfo(np.float32).nmant + 1 >= UNIT_BITS + 1
    rng = np.random.default_rng(3)
    X = rng.standard_t(1, (500, 5)) * 10.0 ** rng.uniform(-200, 200, (500, 1))
    for options in ({}, {"columns": columns(5, True)}, {"columns": columns(5, False)}, {"data_norm": 1.0}):
        for store in (np.asarray, sp.csr_matrix):
            (chunk,) = ArrayRows(store(X), np.ones(500), RowMap(**options))._chunks()
            units = chunk.units.toarray() if sp.issparse(chunk.units) else chunk.units
            assert np.array_equal(units.astype(np.float32), units)


def test_scores_are_remembered_from_one_pass_to_the_next():
    X, y = example()
    rows = StoredRows([X], y, on_disk=True)
    line = LossesAlong(Logistic(), np.zeros(9), np.full(9, 0.01), range(21), clip=3.0)
    for kept in (rows, rows.subset(np.arange(0, 20_000, 3))):
        kept.total(line)
        for chunk in kept._chunks():
            assert chunk.memory.recall(GradientSum(Logistic(), line.points[7], clip=1.0).w) is not None


def test_chunks_know_where_they_stand():
    X, y = example()
    rows = StoredRows([X[:9000], X[9000:]], y, on_disk=True)
    starts = [chunk.first for chunk in rows._chunks()]
    assert starts == np.cumsum([0, *(len(chunk) for chunk in rows._chunks())])[:-1].tolist()
    assert {chunk.first for chunk in rows.subset(np.arange(9500))._chunks()} == {-1}
    assert max(len(chunk) for chunk in rows._chunks()) <= CENTRED_CHUNK_ROWS


@pytest.mark.parametrize("d", [1, 120, 3000, 10**6])
def test_blocks_are_small_and_cover_all_rows(d):
    X = np.broadcast_to(np.zeros(1), (20_001, d))
    blocks = list(blocks_of(X))
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == 20_001
    rows = max(block.stop - block.start for block in blocks)
    assert rows * d <= 2**20 or rows == 1024


def test_a_pass_on_threads_keeps_numpys_error_settings():
    seen = set()

    def kernel(chunk):
        seen.add(tuple(np.geterr().items()))
        return np.zeros(1, dtype=np.int64)

    X, y = example(200_000)
    with joblib.parallel_config("threading", n_jobs=2), np.errstate(all="ignore", over="print"):
        StoredRows([X], y, on_disk=True).total(kernel)
        assert seen == {tuple(np.geterr().items())}


def test_several_threads_are_really_used():
    import threading

    both = threading.Barrier(2, timeout=20)

    def kernel(chunk):
        if chunk.first == 0 or chunk.first == CENTRED_CHUNK_ROWS:
            both.wait()  # passes only if two threads meet here
        return np.zeros(1, dtype=np.int64)

    X, y = example(200_000)
    with joblib.parallel_config("threading", n_jobs=2):
        StoredRows([X], y, on_disk=True).total(kernel)


@pytest.mark.parametrize("jobs", [2, 3])
def test_threads_add_every_chunk_once(jobs, monkeypatch):
    """On a few rows, which would not be worth threads."""
    monkeypatch.setattr("dpsk.data.rows._WORTH_THREADS", 1)
    X, y = example(50_000)
    w = np.random.default_rng(1).normal(size=9)
    line = LossesAlong(Logistic(), w, 0.1 * w, range(4), clip=3.0)
    chosen = np.arange(0, 50_000, 3)
    for make in (
        lambda: ArrayRows(X, y, chunk_rows=1000),
        lambda: StoredRows([X[:9_999], X[9_999:]], y, on_disk=True),
        lambda: StoredRows([X], y, on_disk=False).subset(chosen),
    ):
        expected, rows = make(), make()
        with joblib.parallel_config("threading", n_jobs=jobs):
            for query in (GradientSum(Logistic(), w, clip=0.7), line, GradientSum(Logistic(), line.points[2], clip=1)):
                with joblib.parallel_config("threading", n_jobs=1):
                    once = expected.total(query)
                assert np.array_equal(rows.total(query), once)
    with joblib.parallel_config("threading", n_jobs=jobs):
        counted = RawRows(X).total(Magnitudes(8, 8.0))
    assert np.array_equal(counted, RawRows(X).total(Magnitudes(8, 8.0)))


def test_threads_do_not_run_ahead_of_the_disk(monkeypatch):
    """Else what is rounded and not yet written would fill the memory that files are to save."""
    alive, most, write = weakref.WeakSet(), 0, Scratch.write

    class Watched(ArrayRows):
        def __init__(self, *arrays, **options):
            super().__init__(*arrays, **options)
            alive.add(self)

    def slowly(self, array):
        nonlocal most
        most = max(most, len(alive))
        time.sleep(0.002)
        write(self, array)

    monkeypatch.setattr("dpsk.data.stored.ArrayRows", Watched)
    monkeypatch.setattr(Scratch, "write", slowly)
    X, y = example(200_000)
    with joblib.parallel_config("threading", n_jobs=2):
        StoredRows([X], y, on_disk=True)
    assert most <= 8 < 200_000 / CENTRED_CHUNK_ROWS


def test_raw_rows_of_blocks_are_those_of_one_array():
    X, _ = example(10_000, density=0.5)
    query = Magnitudes(8, 8.0)
    expected = RawRows(X).total(query)
    assert np.array_equal(RawRows(X[:100], sp.csr_matrix(X[100:6000]), X[6000:]).total(query), expected)


# -------------------------------------------------------------------------------------------------------- the scratch


def test_what_was_written_is_read():
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=(7, 3)),
        np.asfortranarray(rng.normal(size=(5, 4)).astype(np.float32)),
        np.zeros((0, 3)),
        np.arange(11, dtype=np.int32)[::2],
        np.zeros(0, dtype=np.int32),
        rng.normal(size=(4, 6))[:, ::2],
    ]
    with Scratch() as scratch:
        for array in arrays:
            scratch.write(array)
        found = scratch.read()
    for written, read in zip(arrays, found, strict=True):
        assert written.dtype == read.dtype
        assert not read.flags.writeable or not read.size
        np.testing.assert_array_equal(written, read)
    with Scratch() as empty:
        empty.write(np.zeros((0, 2)))
        assert [array.shape for array in empty.read()] == [(0, 2)]


@pytest.mark.skipif(os.name != "posix", reason="names of open files are gone on POSIX only")
def test_the_file_has_no_name_and_is_gone_with_its_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, y = example(1000)
    rows = StoredRows([X], y, on_disk=True)
    assert list(tmp_path.iterdir()) == []
    assert rows.total(GradientSum(Logistic(), np.zeros(9), clip=1.0)).any()


def test_files_that_take_less_at_a_time_get_all(monkeypatch):
    make = tempfile.TemporaryFile

    class Slow:
        def __init__(self, **options):
            self.file = make(**options)

        def write(self, data):
            return self.file.write(data[:1000])

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(tempfile, "TemporaryFile", Slow)
    array = np.random.default_rng(0).normal(size=(300, 7))
    with Scratch() as scratch:
        scratch.write(array)
        assert np.array_equal(scratch.read()[0], array)


def test_a_full_disk_is_an_error_with_a_remedy(monkeypatch):
    class Full:
        def tell(self):
            return 0

        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    with pytest.raises(OSError, match=r"No space left.*TMPDIR"):
        Scratch().write(np.ones(3))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1e9))
    require_room(1e9)
    with pytest.raises(ValueError, match=r"need about 2.0 GB in .* but only 1.0 GB are free. Set .*TMPDIR"):
        require_room(2e9)


def test_stored_rows_in_memory_can_travel():
    import cloudpickle

    X, y = example(3000)
    rows = StoredRows([X], y, on_disk=False)
    query = GradientSum(Logistic(), np.ones(9), clip=1.0)
    assert np.array_equal(pickle.loads(cloudpickle.dumps(rows)).total(query), rows.total(query))


def test_numbers_of_rows_are_those_that_sums_have_room_for():
    many = np.broadcast_to(np.ones(1, dtype=np.int8), 2**26 + 1)
    for y in (many[:0], many):
        with pytest.raises(ValueError, match=f"X has {len(y)} rows; between 1 and 67108864"):
            StoredRows([np.zeros((0, 2))], y, on_disk=True)
    block = np.broadcast_to(np.zeros(1, dtype=np.float32), (2**26 + 1, 2))
    with pytest.raises(ValueError, match="67108865 rows"):
        StoredTable([block], many)


def test_a_line_travels_as_two_points():
    line = LossesAlong(Logistic(), np.random.default_rng(0).normal(size=500), np.full(500, 0.1), range(21), clip=3.0)
    sent = pickle.dumps(line)
    assert len(sent) < 2.2 * 8 * 500
    assert np.array_equal(pickle.loads(sent).points, line.points)
    for multiples in (range(3), [0.0, 0.3]):
        line = LossesAlong(Logistic(), np.ones(2), np.full(2, 0.1), multiples, clip=3.0)._line
        assert pickle.loads(pickle.dumps(line)).exact == line.exact == (multiples == range(3))
