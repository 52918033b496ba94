"""The page on exported models: its examples run, and its tables say what is so."""

import json
import re
from pathlib import Path

import pytest
from exported_models import model_of

PAGE = (Path(__file__).parents[1] / "docs" / "export.md").read_text()


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch, capsys):
    for name in ("onnxruntime", "skl2onnx", "skops"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 9
    for code in blocks:
        exec(compile(code, "export.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert printed.startswith("['clip', ")
    assert "differential privacy" in printed


def test_the_keys_of_the_page_are_those_of_the_format():
    named = set(re.findall(r"^\| (`.*?) \|", PAGE[PAGE.index("The keys are") : PAGE.index("`constant` is not")], re.M))
    named = {key for keys in named for key in re.findall(r"`(\w+)`", keys)}
    assert named == set(json.loads(model_of("threshold").to_json()))
