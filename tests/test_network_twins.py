"""Fits of networks whose data differ in one row: all that can be seen of them is equal, noise aside."""

import numpy as np
import pandas as pd
import pytest
from small_networks import SmallConvolutional, SmallPerceptron

from dpsk import Categories, Number, Text
from dpsk.testing import check_twins

pytestmark = [
    pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning"),
    pytest.mark.filterwarnings("ignore:bounds=None and standardize=None:UserWarning"),
]

FEW = {"epsilon": 0.5, "delta": 1e-5, "steps": 4, "sampling_rate": 0.3}  # of these rows some batches are empty
RAW = {"age": Number(), "job": Categories(["a", "b"]), "note": Text(buckets=8)}


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: SmallPerceptron(solver="line-search", activation="relu", verbose=2, **FEW).fit(X, y),
        lambda X, y: SmallPerceptron(standardize=None, class_weight="balanced", **FEW).fit(X, y),
        lambda X, y: SmallPerceptron(**FEW).fit(X, y, groups=np.arange(len(y)) // 3),
        lambda X, y: SmallConvolutional(standardize=None, bounds=(0, 8), activation="identity", **FEW).fit(X, y),
        lambda X, y: SmallConvolutional(solver="line-search", standardize=None, data_norm=1.0, **FEW).fit(X, y),
    ],
    ids=["search", "as they are", "persons", "images", "images and search"],
)
def test_one_extreme_row_shows_nowhere(fit, iris):
    check_twins(fit, iris[0][::3], iris[1][::3], streams=2)


def test_one_row_of_a_raw_table_shows_nowhere():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 60).astype(float),
            "job": rng.choice(["a", "b", "c"], 60),
            "note": rng.choice(["x y", "z w q"], 60),
        }
    )
    check_twins(
        lambda X, y: SmallPerceptron(columns=RAW, **FEW).fit(X, y), table, rng.choice(["no", "yes"], 60), streams=2
    )
