"""The page on audits: its first example runs, and what it says of attacks and neighbours is so."""

import re
from pathlib import Path

import pytest

from dpsk.audits.neighbouring import pairs_of
from dpsk.audits.run_audit import ADJACENCIES, ATTACKS

PAGE = (Path(__file__).parents[1] / "docs" / "audit.md").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_first_example_runs(capsys):
    pytest.importorskip("matplotlib").use("Agg")
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    assert "seconds=20" in code
    exec(compile(code.replace("seconds=20", "seconds=3"), "audit.md", "exec"), {})
    assert "An audit can show that a promise is broken" in capsys.readouterr().out


def test_all_attacks_and_attributes_are_there():
    assert tuple(re.findall(r"^\| `\"([a-z ]+)\"` \|", PAGE, re.M)) == ATTACKS
    for adjacency in ("add-remove", "replace"):
        assert adjacency in ADJACENCIES
        assert f'"{adjacency}"' in PAGE


def test_the_rows_that_it_names_are_tried():
    names = " ".join(pair.name for pair in pairs_of(None, None, adjacency="zero-out", takes_weights=True))
    for words in ("huge row", "extreme row that looks like another class", "row of 1e300", "copy of another row"):
        assert words in PAGE.replace("\n", " ")
        assert words in names
