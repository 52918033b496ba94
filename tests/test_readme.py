"""The README's first example does what it says."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpsk.encodings.fourier import Schedule
from dpsk.privacy import Budget, GaussianDP

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_readme_begins_with_a_raw_table(capsys, tmp_path, monkeypatch):
    text = README.read_text()
    example = re.search(r"```python\n(.*?)```", text, re.S)[1]
    assert text[: text.index(example)].count("\n") < 15
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, 5000)
    ward = rng.choice(["surgery", "cardiology", None], 5000)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, 5000), unit="D")
    returned = (age > 60) & (ward != "surgery")
    pd.DataFrame({"age": age, "ward": ward, "day": day, "returned": returned}).to_csv(tmp_path / "visits.csv")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[0]) > 0.9  # without privacy 0.97 or so
    assert "(1, 1e-06)-differential privacy" in printed[1]
    assert "categories to be discovered: ward; date: day" in printed[1]


@pytest.mark.slow
def test_the_first_example_of_numbers_runs_and_scores_about_what_it_says(capsys, tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    _, example, report, steps, ledger, judged, away, audited, persons, past_memory, search = blocks
    namespace = {}
    exec(compile(example, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    claimed = float(re.search(r"about (0\.\d+)", example)[1])
    # one unseeded fit: its score has a standard deviation of about 0.015
    assert abs(float(printed.splitlines()[0]) - claimed) < 0.12
    assert "(2, 1e-05)-differential privacy" in printed
    exec(compile(report, "README.md", "exec"), namespace)
    assert namespace["spent"].private
    exec(compile(steps, "README.md", "exec"), namespace)
    assert "(1, 1e-06)-differential privacy" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    exec(compile(ledger, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == re.search(r"remaining\(\)\)  # (.*)", ledger)[1]
    exec(compile(judged, "README.md", "exec"), namespace)
    assert "positive class True" in capsys.readouterr().out
    exec(compile(away, "README.md", "exec"), namespace)
    assert "dpsk" not in type(namespace["plain"]).__module__
    exec(compile(audited, "README.md", "exec"), namespace)
    assert not namespace["result"].refuted
    assert "An audit can show that a promise is broken" in capsys.readouterr().out
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((6000, 3)), columns=["a", "b", "c"]).assign(label=rng.random(6000) < 0.5)
    ids, missed = np.arange(6000) // 3, frame["label"]
    visits = frame.drop(columns="label").assign(patient=ids)
    known = {"X": visits[["a", "b"]], "y": missed, "patient_ids": ids, "visits": visits, "missed": missed}
    exec(compile(persons, "README.md", "exec"), known)
    assert known["model"].privacy_spent_.unit == re.search(r"unit  # (\w+)", persons)[1]
    assert known["model"].feature_names_in_.tolist() == ["a", "b", "c"]
    np.save("rows.npy", frame.drop(columns="label").to_numpy())
    np.save("labels.npy", frame["label"].to_numpy())
    (tmp_path / "rows").mkdir()
    for k in range(2):
        frame[k::2].to_parquet(f"rows/part.{k}.parquet")
    exec(compile(past_memory, "README.md", "exec"), namespace)
    assert namespace["model"].feature_names_in_.tolist() == ["a", "b", "c"]
    exec(compile(search, "README.md", "exec"), namespace)
    assert namespace["search"].privacy_spent_.epsilon == 2.0


def test_both_commands_are_there():
    text = README.read_text()
    assert "pip install . && python -m dpsk demo" in text
    assert 'pip install ".[test]" && python -m pytest' in text


@pytest.mark.slow
def test_the_mechanism_of_the_extension_guide_passes_its_check():
    guide = (README.parent / "docs" / "extending.md").read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", guide, re.S) if "MyLaplace" in code]
    namespace = {"__name__": "guide"}
    exec(compile(example, "extending.md", "exec"), namespace)
    assert 0 < namespace["lower_bound"] <= 0.5


@pytest.mark.slow
def test_the_page_on_curves_runs_and_scores_about_what_it_says(capsys):
    page = (README.parent / "docs" / "curves.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    drawn, seen, raw, away = blocks
    namespace = {}
    for code in (drawn, seen, raw, away):
        told = pytest.warns(UserWarning, match="added nothing") if code is seen else contextlib.nullcontext()
        with told:
            exec(compile(code, "curves.md", "exec"), namespace)
    first, waves, none, *others = capsys.readouterr().out.splitlines()
    straight, curved = map(float, re.search(r"about (0\.\d+) and (0\.\d+)", drawn).groups())
    # unseeded fits: over ten of them curved scores had a standard deviation of 0.002
    assert abs(float(first.split()[1]) - curved) < 0.05
    assert float(first.split()[0]) < straight + 0.1
    assert [waves, none] == re.findall(r"waves_\)  # (.*)", seen)
    claimed = map(float, re.search(r"about (0\.\d+), then (0\.\d+)", raw).groups())
    for score, claim in zip(map(float, others), claimed, strict=True):
        assert abs(score - claim) < 0.05
    assert '"turns"' in namespace["text"]


@pytest.mark.slow
def test_the_page_on_networks_runs_and_scores_about_what_it_says(capsys):
    page = (README.parent / "docs" / "networks.md").read_text()
    first, steps, images, raw = re.findall(r"```python\n(.*?)```", page, re.S)
    namespace = {}
    for code in (first, steps, images, raw):
        exec(compile(code, "networks.md", "exec"), namespace)
    scores, said, taken, layers, of_images, of_table = capsys.readouterr().out.splitlines()
    claimed = re.search(r"about (0\.\d+), (0\.\d+) and (0\.\d+)", first).groups()
    found = [*map(float, scores.strip("[]").split(", ")), float(of_table)]
    # unseeded fits: over five of them all scores had a standard deviation below 0.006
    for score, claim in zip(found, [*claimed, re.search(r"about (0\.\d+)", raw)[1]], strict=True):
        assert abs(score - float(claim)) < 0.04
    assert "(1, 1e-06)-differential privacy" in said
    assert taken == f"{namespace['network'].n_iter_} {namespace['network'].evaluations_}"
    assert layers.startswith("TrainedNetwork(8x8x1 -> Convolution 6x6x8")
    # over ten unseeded fits it had a standard deviation below 0.015
    assert abs(float(of_images) - float(re.search(r"about (0\.\d+)", images)[1])) < 0.08


def test_the_page_on_curves_says_from_how_many_rows_on_there_are_some():
    page = (README.parent / "docs" / "curves.md").read_text()
    epsilons, rows = re.search(r"\| epsilon \|(.*)\|\n\|[-|]+\n\| rows \|(.*)\|\n", page).groups()
    for epsilon, n in zip(epsilons.split("|"), rows.replace(",", "").split("|"), strict=True):
        mu = Budget.of(float(epsilon.split()[0]), 1e-6, currency=GaussianDP()).limit ** 0.5
        for n_rows, some in ((int(n), True), (int(n) - 100, False)):
            assert (Schedule(mu * n_rows, n_rows).n_pairs > 0) == some
