"""A private pipeline over numbers and categories, without a step that learns from the rows.

Ranges and category lists come from the code book, not from the data: that is what keeps the steps before the
classifier from leaking. Prints accuracy against epsilon, and draws it if matplotlib is installed.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dpsk import DPAGDLogisticRegression

RANGES = {"age": (18, 100), "visits": (0, 50)}
CATEGORIES = {"region": ["north", "south", "east", "west"], "smoker": ["no", "yes"]}


def to_unit_range(frame):
    low, high = np.array([RANGES[column] for column in frame.columns], dtype=float).T
    return np.clip((frame.to_numpy(float) - low) / (high - low), 0, 1)


rng = np.random.default_rng(0)
n = 20_000
people = pd.DataFrame(
    {
        "age": rng.integers(18, 100, n),
        "visits": rng.poisson(4, n),
        "region": rng.choice(CATEGORIES["region"], n),
        "smoker": rng.choice(CATEGORIES["smoker"], n, p=[0.8, 0.2]),
    }
)
risk = 0.06 * (people["age"] - 60) + 0.3 * (people["visits"] - 4) + 1.5 * (people["smoker"] == "yes")
ill = np.where(risk + rng.logistic(size=n) > 0.5, "ill", "healthy")
train_X, test_X, train_y, test_y = train_test_split(people, ill, random_state=0)

prepare = ColumnTransformer(
    [
        ("numbers", FunctionTransformer(to_unit_range), list(RANGES)),
        ("categories", OneHotEncoder(categories=list(CATEGORIES.values()), handle_unknown="ignore"), list(CATEGORIES)),
    ]
)
epsilons = (0.05, 0.1, 0.3, 1.0)
scores = []
for epsilon in epsilons:
    model = make_pipeline(prepare, DPAGDLogisticRegression(epsilon=epsilon, classes=["healthy", "ill"]))
    scores.append(model.fit(train_X, train_y).score(test_X, test_y))
    print(f"epsilon {epsilon:4}: accuracy {scores[-1]:.3f}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    figure.subplots().semilogx(epsilons, scores, "o-")
    figure.savefig(sys.argv[1])
