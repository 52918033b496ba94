"""The benchmark over shapes shows a cost that is quadratic in the rows. Nothing is timed here: entries are counted."""

import numpy as np
import pytest

from benchmarks.experiments import shapes
from benchmarks.table import Rows
from benchmarks.timing import growth
from dpsk.data.arrays import ArrayRows
from dpsk.data.columns import Columns
from dpsk.data.row_map import RowMap
from dpsk.data.rows import Chunk
from dpsk.queries import Moments

SIZES = (2_048, 4_096, 8_192, 16_384)
D = 64
ROW = {"rows": "1000", "columns": "5", "storage": shapes.C, "classes": "2", "steps": "100"}


def entries_touched(n: int, monkeypatch, *, copied: bool) -> int:
    """Return how many entries the blocks of one pass over a chunk touch; of all rows each time, if they are copied."""
    counted = []
    part = Chunk.part

    def counting(self, rows):
        block = part(self, rows)
        counted.append(self.units.size if copied else block.units.size)
        return block

    x = np.random.default_rng(0).random((n, D))
    rows = ArrayRows(x, np.ones(n), RowMap(fit_intercept=False, columns=Columns.within(-1, 1, D)), chunk_rows=n)
    with monkeypatch.context() as patched:
        patched.setattr(Chunk, "part", counting)
        rows.total(Moments(D, clip=1.0))
    return sum(counted)


def test_the_slope_of_a_power_is_its_exponent():
    for exponent in (0.5, 1.0, 2.0):
        assert growth(SIZES, [3e-6 * n**exponent for n in SIZES]) == pytest.approx((exponent, exponent))


def test_a_pass_that_copies_all_rows_for_each_block_is_seen(monkeypatch):
    linear, quadratic = (
        growth(SIZES, [entries_touched(n, monkeypatch, copied=copied) for n in SIZES]) for copied in (False, True)
    )
    assert linear == pytest.approx((1, 1))
    assert quadratic == pytest.approx((2, 2))


def test_a_small_quadratic_part_is_seen_where_rows_are_most():
    """Half of the time at 500,000 rows, a hundredth at 10,000: over all sizes it hardly shows."""
    sizes = [10_000, 100_000, 500_000]
    overall, steepest = growth(sizes, [n + n * n / 500_000 for n in sizes])
    assert overall < 1.2 < 1.3 < steepest


def test_the_report_tells_slopes_of_the_time_per_step_and_ratios():
    measured = [("1000", "100", "1"), ("10000", "200", "20"), ("100000", "200", "2000")]
    rows = Rows(
        {**ROW, "rows": n, "steps": steps, "fit, s": fit, "scikit-learn, s": "", "products, s": steps}
        for n, steps, fit in measured
    )
    (line,) = shapes.slopes(rows).splitlines()[2:]
    assert line == f"| rows | 1,000 to 100,000 | columns 5, storage {shapes.C}, classes 2 | 1.50 | 2.00 | 0.00 | 0.00 |"
    assert "| 1,000 x 5 | rows first | 2 | 100 | 1 | left out | 100 |  | 0.0 |" in shapes.table(rows)
    both = Rows([*rows, {**rows[0], "storage": shapes.MAPPED, "fit, s": "2"}])
    assert shapes.in_memory(both).splitlines()[2:] == ["| 1,000 x 5 | 2 | 0.50 |"]


@pytest.mark.parametrize("storage", [shapes.C, shapes.F, shapes.SINGLE, shapes.MAPPED, shapes.CSR, shapes.TEXT])
def test_every_storage_can_be_measured(storage, tmp_path):
    shape = shapes.Shape(300, 40, storage, 3)
    x, y = shape.make(tmp_path)
    assert x.shape == (300, 40)
    assert isinstance(x, np.memmap) == (storage == shapes.MAPPED)
    assert np.bincount(y).tolist() == [100, 100, 100]
    measured = shapes.measure(tmp_path, 300, 40, storage, 2)
    assert len(measured) == len(shapes.MEASURED)
    assert 30 <= measured[0] <= 300
    assert list(tmp_path.glob("tmp*")) == []


def test_scikit_learn_is_left_out_where_it_takes_too_long(monkeypatch):
    x, y = np.random.default_rng(0).random((50, 3)), np.arange(50) % 2
    monkeypatch.setattr(shapes, "processor", lambda work: 2.0)
    assert shapes.logistic(x, y) is None
    monkeypatch.setattr(shapes, "processor", lambda work: 1.0)
    assert shapes.logistic(x, y) == 1.0
