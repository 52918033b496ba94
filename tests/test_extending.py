"""The guide to additions works as it is printed."""

import re
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parent.parent / "docs" / "extending.md"


def blocks():
    """Return the pieces of code in the guide, with the name of the file that each shall be, if it has one."""
    pieces = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
    named = [(re.match(r"# (\w+\.py)\n", piece), piece) for piece in pieces]
    return [(match.group(1), piece[match.end() :]) if match else (None, piece) for match, piece in named]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:epsilon=:UserWarning")  # a fit on 40 rows is noise
def test_every_example_runs(tmp_path, monkeypatch):
    """In order, as a reader would: files first, then what uses them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    files = {name: piece for name, piece in blocks() if name}
    for name in files:
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    namespace = {"__name__": "guide"}
    for name, piece in blocks():
        if name:
            (tmp_path / name).write_text(piece)
        else:
            exec(compile(piece, "extending.md", "exec"), namespace)
    assert namespace["reached"] > 0.99
    assert 0 < namespace["lower_bound"] <= 0.5
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("name", ["noisy_descent.py", "noisy_descent_classifier.py"])
def test_the_tests_use_the_examples_as_they_are_printed(name):
    (piece,) = [piece for found, piece in blocks() if found == name]
    assert piece == (Path(__file__).parent / name).read_text()


def test_a_complete_estimator_has_forty_lines_at_most():
    (piece,) = [piece for name, piece in blocks() if name == "noisy_descent_classifier.py"]
    assert len(piece.splitlines()) <= 40
