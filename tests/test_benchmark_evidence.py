"""Verdicts of the benchmark suite: chance confirms and denies no more often than stated."""

import itertools
import subprocess
import sys
from unittest import mock
from urllib.error import URLError

import numpy as np
import pytest
from scipy.stats import ttest_1samp

pytest.importorskip("pandas")

from benchmarks import datasets
from benchmarks.__main__ import main
from benchmarks.evidence import (
    Gap,
    NotMeasured,
    Verdict,
    at_least,
    averaged,
    differences,
    everywhere,
    somewhere,
    variance,
)
from benchmarks.experiments import ALL, EXPERIMENTS, accuracy, output_risk
from benchmarks.table import Rows, Table, keyed

YES, NO, OPEN = Verdict.CONFIRMED, Verdict.DENIED, Verdict.UNDECIDED


def noise(rng, repeats=4, folds=5, mean=0.0):
    return {(str(r), str(f)): mean + rng.normal() for r in range(repeats) for f in range(folds)}


def test_a_gap_is_the_paired_interval_of_student():
    rng = np.random.default_rng(0)
    first, second = noise(rng), noise(rng, repeats=3)  # the fourth repeat has no partner
    gap = Gap.between(first, second)
    differences = [first[fold] - second[fold] for fold in second]
    low, high = ttest_1samp(differences, 0).confidence_interval(0.95)
    assert gap.count == 15
    assert (gap.mean - gap.half_width(), gap.mean + gap.half_width()) == pytest.approx((low, high))
    # ten intervals that hold together with 95 % hold by themselves with 99.5 %
    low, high = ttest_1samp(differences, 0).confidence_interval(0.995)
    assert gap.half_width(10) == pytest.approx((high - low) / 2)
    assert (gap - 1.5).mean == pytest.approx(gap.mean - 1.5)
    assert (-gap).mean == -gap.mean
    assert str(Gap(1.234, 0.5, 20)) == "+1.23 ± 1.05"


def test_one_run_decides_nothing_and_none_is_an_error():
    assert everywhere([Gap.of([5.0])]) is OPEN
    assert str(Gap.of([5.0])) == "+5.00 (one run)"
    with pytest.raises(NotMeasured, match="nothing was measured"):
        Gap.between({("0", "0"): 1.0}, {("1", "0"): 1.0})
    for nothing in (everywhere, somewhere, averaged):
        with pytest.raises(NotMeasured, match="nothing to"):
            nothing([])


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 18])
def test_chance_seldom_denies_and_seldom_confirms(cells):
    """Nothing differs: some denial has at most 2.5 %, so 400 tries have more than 25 with probability below 1e-4."""
    rng = np.random.default_rng(1)
    found = [everywhere(Gap.of(noise(rng).values()) for _ in range(cells)) for _ in range(400)]
    assert found.count(NO) <= 25
    assert found.count(YES) <= (25 if cells == 1 else 0)
    anywhere = [somewhere(Gap.of(noise(rng).values()) for _ in range(cells)) for _ in range(400)]
    assert anywhere.count(YES) <= 25
    assert anywhere.count(NO) <= (25 if cells == 1 else 0)


def test_a_difference_beyond_chance_decides():
    clear, slight = Gap(1.0, 0.1, 20), Gap(0.05, 0.1, 20)
    assert everywhere([clear, clear]) is YES
    assert everywhere([clear, slight]) is OPEN
    assert everywhere([clear, slight, -clear]) is NO
    assert somewhere([slight, clear]) is YES
    assert somewhere([slight, -clear]) is OPEN
    assert somewhere([-clear, -clear]) is NO


@pytest.mark.parametrize("verdicts", list(itertools.product((YES, NO, OPEN), repeat=3)))
def test_so_many_statements_hold_if_they_do_whatever_the_open_ones_are(verdicts):
    for count in (1, 2, 3):
        ways = itertools.product(*((YES, NO) if verdict is OPEN else (verdict,) for verdict in verdicts))
        possible = {way.count(YES) >= count for way in ways}
        expected = OPEN if len(possible) == 2 else Verdict.of(possible.pop())
        assert at_least(count, verdicts) is expected


def test_all_differences_are_looked_at():
    rng = np.random.default_rng(3)
    values = {"low": noise(rng, mean=-9), "middle": noise(rng), "high": noise(rng, mean=9)}
    gaps = differences(values)
    assert sorted(round(gap.mean / 9) for gap in gaps) == [-2, -1, -1, 1, 1, 2]


@pytest.mark.slow
def test_the_best_of_many_equals_is_not_called_better():
    """Six equal values: 400 tries have more than 25 of 2.5 % with probability below 1e-4."""
    rng = np.random.default_rng(2)
    found = [somewhere(differences({str(v): noise(rng) for v in range(6)})) for _ in range(400)]
    assert found.count(YES) <= 25


def test_a_variance_has_no_part_from_chance():
    """Means -1, 0, 1: variance 1. Of 400 tries the mean is within .1 with an error of .03, and 95 % cover it."""
    rng = np.random.default_rng(4)
    found = [variance({str(m): noise(rng, repeats=8, mean=m) for m in (-1, 0, 1)}) for _ in range(400)]
    assert np.mean([gap.mean for gap in found]) == pytest.approx(1, abs=0.1)
    covered = sum(abs(gap.mean - 1) < gap.half_width() for gap in found)
    assert 360 <= covered <= 396
    none = [variance({str(m): noise(rng, repeats=8) for m in range(3)}).mean for _ in range(400)]
    assert np.mean(none) == pytest.approx(0, abs=0.02)
    with pytest.raises(NotMeasured):
        variance({"a": noise(rng, repeats=2), "b": noise(rng, repeats=2)})


@pytest.mark.slow
def test_many_statements_are_right_together():
    """Eighteen cells where nothing differs: some verdict is wrong in at most 5 % of tries."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(400):
        cells = [everywhere([Gap.of(noise(rng).values())], among=18) for _ in range(18)]
        wrong += any(verdict is not OPEN for verdict in cells)
    assert wrong <= 40  # above with probability below 1e-4


def test_an_average_over_cells_keeps_to_the_folds_of_all():
    assert averaged([{("0", "0"): 1.0, ("0", "1"): 2.0}, {("0", "1"): 4.0}]) == {("0", "1"): 3.0}


SNAPSHOTS = {"again", "primitives"}
"""What is measured as a whole: one has no rows here, the other builds its data before it can name its rows."""


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [one for one in ALL if one.name not in SNAPSHOTS], ids=lambda one: one.name)
def test_printed_commands_find_everything_measured(experiment):
    """What the index names was run as it says, and running it again only draws."""
    for table, keys in experiment.needs(experiment.repeats):
        assert keys
        assert table.missing(keys) == []


@pytest.mark.parametrize("name", ["lowy-bounds", "beyond", "search", "gao-wright", "scale", "storages", "tuning"])
def test_a_table_has_every_planned_cell_and_no_other(name):
    """A row that is not planned any more would be in the report."""
    planned = {}
    experiments = [EXPERIMENTS[name], *([EXPERIMENTS["tuning_output"]] if name == "tuning" else [])]
    for table, keys in (pair for one in experiments for pair in one.needs(one.repeats)):
        planned.setdefault(table, set()).update(keyed(keys))
    for table, keys in planned.items():
        assert table.rows().by(*table.key).keys() == keys


def test_a_table_of_bounds_without_a_cell_is_not_complete(monkeypatch):
    rows = output_risk.TABLE.rows()
    monkeypatch.setattr(Table, "rows", lambda self: Rows(rows[1:]))
    assert output_risk.TABLE.missing(output_risk.keys()) == [next(iter(output_risk.keys()))]


def test_every_configuration_was_run_as_often_as_the_index_says():
    repeats = {}
    for row in accuracy.TABLE.rows():
        cell = row["configuration"], row["delta"], row["dataset"], row["epsilon"]
        repeats.setdefault(cell, set()).add((row["repeat"], row["fold"]))
    for (name, delta, *_), folds in repeats.items():
        assert len(folds) >= 5 * accuracy.repeats_of(name, float(delta or 1))
    once = ("not private, alpha 1e-3", "not private SVM, alpha 1e-3")
    few = {cell: len(folds) for cell, folds in repeats.items() if cell[0] not in once and len(folds) < 20}
    assert few == {}
    assert all(len(folds) >= 30 for (name, *_), folds in repeats.items() if name.startswith("default"))
    assert all(
        len(folds) >= 50 for (name, *_), folds in repeats.items() if name.startswith("DP-AGD") and "stand" not in name
    )


def test_a_run_that_is_stopped_or_finds_no_rows_says_so(monkeypatch, capsys, tmp_path):
    arguments = ["run", "lee-kifer-1", "--data", str(tmp_path)]
    monkeypatch.setattr(Table, "run", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit, match="the same command goes on"):
        main(arguments)
    monkeypatch.undo()
    with pytest.raises(datasets.DataNotFound, match=r"has no adult_onehot.npz: put it there, or leave --data out"):
        datasets.load("adult", tmp_path)
    with pytest.raises(datasets.DataNotFound, match=r"has no bank.npz: put it there$"):
        datasets.load("bank", tmp_path)
    with pytest.raises(datasets.DataNotFound, match="'bank' has no fetcher here"):
        datasets.load("bank", None)
    monkeypatch.setattr(datasets, "fetch_covtype", mock.Mock(side_effect=URLError("no network")))
    with pytest.raises(datasets.DataNotFound, match=r"could not be fetched .*no network.*give it by --data"):
        datasets.load("covtype", None)
    monkeypatch.setattr(Table, "run", mock.Mock(side_effect=datasets.DataNotFound("no rows")))
    with pytest.raises(SystemExit):
        main(arguments)
    assert "no rows" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_line_helps(capsys):
    main(["run", "--help"])
    assert "lee-kifer-1" in capsys.readouterr().out
    for arguments in (["run"], ["run", "no-such-figure"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "lee-kifer-1" in capsys.readouterr().err
    for arguments, about in ((["--jobs", "0"], "--jobs 0"), (["--repeats", "0"], "--repeats 0")):
        with pytest.raises(SystemExit):
            main(["run", "lee-kifer-1", *arguments])
        assert about in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "run", "lee-kifer-1", "--help"], capture_output=True, text=True, check=True
    )
    assert "--only" in done.stdout
    assert f"{EXPERIMENTS['lee-kifer-1'].repeats}" in done.stdout
