"""The benchmark suite on small data: runs resume, rows are what their keys say, and the report builds."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

pytest.importorskip("pandas")

from benchmarks import experiment, experiments, folds, methods, table
from benchmarks.__main__ import main
from benchmarks.experiments import ALL, accuracy, again, kddcup99, settings, summary
from benchmarks.experiments.accuracy import means
from benchmarks.table import Rows, Table, per_repeat

ROOT = Path(__file__).parents[1]


def squares(folder, name, value):
    """Measure something, and leave a trace of having done so."""
    with (folder / "calls.txt").open("a") as file:
        file.write(f"{name}\n")
    return value**2, ""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results")
    return tmp_path


def test_a_table_measures_what_is_missing_once(results):
    table = Table("squares", ("name", "value"), ("square", "nothing"), squares)
    assert table.run([("a", 2), ("b", 0.5), ("a", 2)], results, jobs=1) == 2
    assert table.run([("b", 0.5), ("c", 3)], results, jobs=1) == 1
    assert (results / "calls.txt").read_text().split() == ["a", "b", "c"]
    assert [row["square"] for row in table.rows()] == ["4", "0.25", "9"]
    assert (results / "results" / "squares.csv").read_text().splitlines()[0] == "name,value,square,nothing"
    assert "numpy" in (results / "results" / "machines.json").read_text()


def test_a_cell_with_another_number_of_repeats_is_replaced(results):
    table = Table(
        "squares", ("name", "repeats", "value"), ("square", "nothing"), lambda folder, *key: (key[2] ** 2, "")
    )
    table.run([("a", 2, 3), ("b", 2, 3)], results, jobs=1)
    assert table.run([("a", 5, 3), ("a", 5, 4)], results, jobs=1) == 2
    assert [(row["name"], row["repeats"], row["value"]) for row in table.rows()] == [
        ("b", "2", "3"), ("a", "5", "3"), ("a", "5", "4")
    ]  # fmt: skip
    assert table.path.read_bytes().count(b"\r\n") == 4


def test_a_table_keeps_what_was_measured_before_it_was_stopped(results):
    def until_c(folder, name, value):
        if name == "c":
            raise KeyboardInterrupt
        return value, ""

    table = Table("stopped", ("name", "value"), ("same", "nothing"), until_c)
    with pytest.raises(KeyboardInterrupt):
        table.run([("a", 1), ("b", 2), ("c", 3)], results, jobs=1)
    assert [row["name"] for row in table.rows()] == ["a", "b"]
    assert table.missing([("a", 1), ("b", 2), ("c", 3)]) == [("c", 3)]


def test_a_table_that_was_stopped_before_its_first_row_has_its_header(results):
    def stop(folder, name):
        raise KeyboardInterrupt

    table = Table("empty", ("name",), ("same",), stop)
    with pytest.raises(KeyboardInterrupt):
        table.run([("a",)], results, jobs=1)
    assert table.path.read_text() == "name,same\n"
    table.path.write_text("")
    with pytest.raises(KeyboardInterrupt):
        table.run([("a",)], results, jobs=1)
    assert table.path.read_text() == "name,same\n"


def test_a_configuration_runs_on_small_data_and_resumes(results):
    rng = np.random.default_rng(0)
    X = rng.random((300, 6)).astype(np.float32)
    np.savez(results / "adult_onehot.npz", X=X, y=np.where(X[:, 0] > 0.5, 1, -1).astype(np.int8))
    keys = [("ours", "gamma", 0.1, 1.6, 0, 0), ("SGD-MA", "steps", 50, 1.6, 0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # 240 rows are few
        assert settings.TABLE.run(keys, results, jobs=1) == 2
    assert settings.TABLE.run(keys, results, jobs=1) == 0
    assert all(0 <= float(row["accuracy"]) <= 1 for row in settings.TABLE.rows())


def test_every_experiment_can_be_run_and_the_papers_have_the_default():
    for one in ALL:
        if one.name == "primitives":  # builds its data before it can name its rows
            continue
        for rows, keys in one.needs(1):
            assert keys, one.name
            assert all(len(key) == len(rows.key) for key in keys)
    assert set(methods.METHODS) >= set(methods.LEE_KIFER) | set(methods.CHEN_LEE)
    for names in (methods.LEE_KIFER, methods.CHEN_LEE):
        assert names[0] == "default"


def test_a_template_has_a_place_for_every_number_and_a_number_for_every_place(results, monkeypatch):
    monkeypatch.setattr(experiment, "TEMPLATES", results)
    (results / "results").mkdir()
    (results / "some.md").write_text("mean {mean:.1f}, of {rows[few]}\n")
    experiment.write("some", mean=2.04, rows={"few": 3})
    assert (results / "results" / "some.md").read_text() == "mean 2.0, of 3\n"
    for wrong in ({"mean": 1.0}, {"mean": 1.0, "rows": {"few": 1}, "more": 2}):
        with pytest.raises(ValueError, match=r"some.md has places for \['mean', 'rows'\]"):
            experiment.write("some", **wrong)


VERDICTS = r"\b(better|worse|faster|slower|never|always|beats?|pays|wins?|outperforms?|ahead|behind)\b"


@pytest.mark.parametrize("template", sorted(experiment.TEMPLATES.glob("*.md")), ids=lambda path: path.stem)
def test_no_conclusion_stands_in_a_template_unless_it_is_computed_or_dated(template):
    """The numbers beside a sentence are recomputed, so a sentence that judges them must be, too."""
    for paragraph in template.read_text().split("\n\n"):
        text = re.sub(r"\s+", " ", paragraph.partition("Remark")[0])
        judging = [s for s in re.split(r"(?<=[.:]) ", text) if re.search(VERDICTS, s) and "{" not in s]
        earlier = template.read_text().partition(paragraph)[0].rsplit("\n\n", 2)
        dated = paragraph.startswith("- ") and any(part.startswith("Remarks of 20") for part in earlier)
        assert dated or judging == [], judging


def test_the_inside_of_dpsk_is_imported_in_one_place():
    for path in (ROOT / "benchmarks").rglob("*.py"):
        if path.name != "inside.py":
            assert not re.search(r"^\s*(from|import) dpsk\.", path.read_text(), re.M), path


def test_rows_are_chosen_and_may_be_measured_anew(results, monkeypatch, capsys):
    squared = Table("squares", ("name", "value"), ("square", "nothing"), squares)
    monkeypatch.setattr(experiments.accuracy, "TABLE", squared)
    monkeypatch.setattr(experiments.accuracy, "keys", lambda repeats: [("a", 2), ("b, c", 3)])
    monkeypatch.setattr(experiments.accuracy, "report", lambda: None)
    command = ["run", "accuracy", "--folder", str(results), "--jobs", "1"]
    main([*command, "--only", "name=b, c"])
    assert [row["name"] for row in squared.rows()] == ["b, c"]
    main(command)
    main([*command, "--only", "name=b, c", "--anew"])
    assert (results / "calls.txt").read_text().split("\n")[:-1] == ["b, c", "a", "b, c"]
    assert [row["name"] for row in squared.rows()] == ["a", "b, c"]
    for wrong, about in (("noname=1", "must be FIELD=VALUE with a field of name, value"), ("name=z", "leaves nothing")):
        with pytest.raises(SystemExit):
            main([*command, "--only", wrong])
        assert about in capsys.readouterr().err


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers what it was given; rows are known by their first column."""

    def __init__(self, epsilon=None, delta=None, random_state=None, gamma=None):
        self.epsilon, self.delta, self.random_state, self.gamma = epsilon, delta, random_state, gamma

    def fit(self, X, y):
        self.classes_, self.coef_ = np.unique(y), np.array([[2.0, 1.0]])
        self.seen = set(X[:, 0])
        fits.append(self)
        return self

    def decision_function(self, X):
        return X[:, 1]

    def score(self, X, y):
        self.scored = set(X[:, 0])
        return len(self.scored) / 100


fits: list[Spy] = []


def test_a_row_is_what_its_key_says(monkeypatch):
    X = np.column_stack([np.arange(100), np.linspace(-3, 3, 100)])
    y = np.where(np.arange(100) % 3, 1, -1)
    monkeypatch.setattr(folds, "cached", lambda name, folder: (X, y))
    for models in (accuracy.CONFIGURATIONS, settings.VARIANTS, kddcup99.MODELS):
        monkeypatch.setitem(models, "spy", Spy())
        monkeypatch.setitem(models, "spy SVM", Spy())
    fits.clear()
    margin = y * X[:, 1]
    losses = {"spy": np.log1p(np.exp(-margin)), "spy SVM": np.maximum(1 - margin, 0)}
    tested = {}
    for repeat, fold in ((0, 0), (0, 4), (3, 4)):
        for name in losses:
            found = accuracy.measure(None, "adult", name, 0.4, 1e-7, repeat, fold)
            spy = fits[-1]
            assert (spy.epsilon, spy.delta, spy.random_state) == (0.4, 1e-7, 10 * repeat + fold)
            assert spy.seen | spy.scored == set(range(100))
            assert not spy.seen & spy.scored
            assert len(spy.scored) == 20
            objective = losses[name][sorted(map(int, spy.seen))].mean() + 1e-3 / 2 * 5
            assert found == ("0.200000", f"{objective:.6f}")
            tested[repeat, fold] = frozenset(spy.scored)
    assert len(set(tested.values())) == 3
    settings.measure(None, "spy", "gamma", 0.3, 1.6, 3, 4)
    assert (fits[-1].gamma, fits[-1].epsilon, fits[-1].delta, fits[-1].random_state) == (0.3, 1.6, 1e-8, 34)
    assert frozenset(fits[-1].scored) == tested[3, 4]
    score, objective, _ = kddcup99.measure(None, "spy", 0.2, 4)
    assert (fits[-1].epsilon, fits[-1].delta, fits[-1].random_state) == (0.2, 1e-12, 4)
    assert frozenset(fits[-1].scored) == tested[0, 4]
    assert (score, float(objective) > 0) == ("0.200000", True)


def test_cells_keep_folds_apart_and_repeats_are_their_means():
    rows = [
        {"method": m, "repeat": str(r), "fold": str(f), "accuracy": str(0.1 * r + 0.01 * f)}
        for m in "ab"
        for r in (10, 9)
        for f in range(5)
    ]
    cells = Rows([*rows, rows[0] | {"fold": "9", "accuracy": ""}]).folds(("method",), "accuracy")
    assert cells.keys() == {("a",), ("b",)}
    assert cells["a",]["10", "3"] == pytest.approx(103)
    assert len(cells["b",]) == 10
    assert per_repeat(cells["b",]) == pytest.approx([92, 102])
    rows = Rows([{"method": "a", "seed": "1", "seconds": "2.5"}])
    seconds = rows.folds(("method",), "seconds", over=("seed",))
    assert seconds == {("a",): {("1",): 2.5}}


def test_the_epsilon_that_is_needed_is_read_off_the_line(monkeypatch):
    missed = {"late": [3.0, 2.0, 0.5], "never": [3.0, 0.5, 1.5], "always": [0.9, 0.2, 0.3], "": []}
    monkeypatch.setattr(summary, "excess", lambda dataset, name: ([0.05, 0.1, 0.2][: len(missed[name])], missed[name]))
    found = {name: summary.needed("adult", name) for name in missed}
    # within a point at two thirds of the way from .1 to .2, in the logarithm
    assert found == {"late": f"{0.1 * 2 ** (2 / 3):.2g}", "never": "> 0.2", "always": "<= 0.05", "": ""}


def test_pure_rows_are_no_rows_of_the_same_name():
    row = {"dataset": "d", "configuration": "c", "epsilon": "1", "repeat": "0", "fold": "0", "accuracy": "0.5"}
    cells = means(Rows([row | {"delta": "1e-8"}, row | {"delta": "0.0", "accuracy": "0.1"}]))
    assert cells == {("d", "c", "1"): np.array([50.0]), ("d", "c" + accuracy.PURE, "1"): np.array([10.0])}


def test_cells_without_a_result_do_not_count():
    row = {"dataset": "d", "configuration": "c", "epsilon": "1", "delta": "1e-8", "repeat": "0"}
    cells = means(Rows([row | {"fold": "0", "accuracy": "0.5"}, row | {"fold": "1", "accuracy": ""}]))
    assert cells == {("d", "c", "1"): np.array([50.0])}


def test_rows_measured_again_are_compared_one_by_one(monkeypatch):
    row = {"dataset": "adult", "epsilon": "0.1", "fold": "2", "objective": "0.4"}
    rows = [
        row | {"configuration": name, "delta": delta, "repeat": str(r), "accuracy": f"{0.8 + 0.001 * r:.3f}"}
        for name, delta in (("a", "1e-08"), ("a", "0.0"), ("b", "1e-08"))
        for r in range(9)
    ]
    more = row | {"configuration": "none", "delta": "", "repeat": "0", "accuracy": ""}
    chosen = again.sample(Rows([*rows, more]), 4)
    assert chosen == again.sample(Rows(rows), 4)
    assert [r["configuration"] for r in chosen] == ["a"] * 8 + ["b"] * 4
    assert len({tuple(r.items()) for r in chosen}) == 12
    asked = []

    def measure(folder, *key):
        asked.append(key)
        return (f"{0.81 + 0.001 * key[4]:.3f}" if key[1] == "b" else f"{0.8 + 0.001 * key[4]:.3f}"), "0.4"

    monkeypatch.setattr(accuracy, "measure", measure)
    measured = [again.measure(None, *(r[field] for field in accuracy.KEY)) for r in chosen]
    found = Rows(dict(zip(("accuracy", "objective"), values, strict=True)) for values in measured)
    said = again.compared(chosen, found)
    assert asked[0] == ("adult", "a", 0.1, 0.0, int(chosen[0]["repeat"]), 2)
    assert (said["same"], said["all"]) == (8, 12)
    assert "The others differ by +1.00 ± 0.00 points" in said["others"]
    assert "| b | 4 | 4 | +1.00 |" in said["table"]
    assert said["names"] == f"a{methods.PURE}; a"
    moved = again.compared(chosen[:1], [{"accuracy": chosen[0]["accuracy"], "objective": "0.5"}])  # in that alone
    assert (moved["same"], moved["all"]) == (0, 1)


def test_the_report_builds_from_the_results_and_is_what_is_committed(tmp_path):
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    results = tmp_path / "benchmarks" / "results"
    for made in results.iterdir():
        if made.suffix in (".png", ".md") and made.name != "again.md":
            made.unlink()
    command = [sys.executable, "-m", "benchmarks", "report"]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts = [*(file for one in ALL for file in one.made()), "README.md", "claims.md"]
    for name in (name for name in texts if name.endswith(".md") and name != "again.md"):
        committed = (ROOT / "benchmarks" / "results" / name).read_text()
        assert (results / name).read_text() == committed, f"{name}: run python -m benchmarks report"
    for file in (file for one in ALL for file in one.made()):
        assert (results / file).stat().st_size > 200
    assert "not measured yet" not in (results / "claims.md").read_text()
