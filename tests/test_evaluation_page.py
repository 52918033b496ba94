"""The code of docs/evaluation.md runs, and the numbers of noise in its table are those of a release."""

import re
from pathlib import Path

import numpy as np
import pytest

from dpsk import private_evaluation
from dpsk.evaluation import BinaryEvaluation, MulticlassEvaluation

PAGE = Path(__file__).parents[1] / "docs" / "evaluation.md"


@pytest.fixture(scope="module")
def namespace(tmp_path_factory):
    """Return what the code of the page leaves, run from the first block to the last."""
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + rng.logistic(size=4000) > 1.5, "ill", "healthy")
    names = {"X_train": X[:2000], "y_train": y[:2000], "X_test": X[2000:], "y_test": y[2000:]}
    names["patient_ids"] = np.arange(2000) // 4
    ledger = str(tmp_path_factory.mktemp("page") / "screening.db")
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(compile(code.replace("screening.db", ledger), PAGE.name, "exec"), names)
    return names


@pytest.mark.slow
def test_the_code_of_the_page_runs(namespace):
    assert namespace["evaluation"].n_units == 500
    assert namespace["best"].cost.interval[0] >= 0
    assert not namespace["ledger"].on("held-out").remaining()["epsilon"]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.6, 0.3, 0.1])
def test_the_table_of_noise_is_that_of_a_release(namespace, share):
    evaluation = private_evaluation(
        namespace["model"], namespace["X_test"], namespace["y_test"], epsilon=1.0, accuracy_share=share
    )
    row = f"| {f'{share:g}'[1:]} | {evaluation.released.accuracy.scale:.2f} | {evaluation.released.table.scale:.2f} |"
    assert row in PAGE.read_text()


@pytest.mark.parametrize(("column", "kind"), [(0, BinaryEvaluation), (1, MulticlassEvaluation)])
def test_the_table_of_methods_lists_all_and_no_others(column, kind):
    (table,) = re.findall(r"\| two classes, or one.*?\n\n", PAGE.read_text(), re.S)
    cells = [line.strip("|").split("|")[column] for line in table.strip().splitlines()[2:]]
    listed = set(re.findall(r"`(\w+)", " ".join(cells)))
    told_elsewhere = {
        "confidence", "labels", "n_rows", "n_units", "positive", "privacy_spent", "released", "statement", "to_dict",
        "unit",
    }  # fmt: skip
    there = {name for name in [*dir(kind), "confidence", "privacy_spent", "released"] if not name.startswith("_")}
    assert listed == there - told_elsewhere


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
