"""A private pipeline over numbers and categories. No step learns from the rows.

The category lists come from the code book. An encoder that finds its own categories would publish rare ones. Numbers
need no scaling. Two curves show how much public bounds of the numbers help. Prints accuracy against epsilon, and draws
it if a file name is given.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dpsk import DPLogisticRegression

NUMBERS = {"age": (18, 100), "income": (0, 200_000)}
CATEGORIES = {"region": ["north", "south", "east", "west"], "smoker": ["no", "yes"]}

rng = np.random.default_rng(0)
n = 4_000
people = pd.DataFrame(
    {
        "age": rng.integers(18, 100, n),
        "income": rng.lognormal(10.3, 0.6, n).round(-2),
        "region": rng.choice(CATEGORIES["region"], n),
        "smoker": rng.choice(CATEGORIES["smoker"], n, p=[0.8, 0.2]),
    }
)
risk = 0.06 * (people["age"] - 60) - 4e-5 * (people["income"] - 30_000) + 1.5 * (people["smoker"] == "yes")
ill = np.where(risk + rng.logistic(size=n) > 0.5, "ill", "healthy")
train_X, test_X, train_y, test_y = train_test_split(people, ill, random_state=0)

encoder = OneHotEncoder(categories=list(CATEGORIES.values()), handle_unknown="ignore")
prepare = ColumnTransformer([("numbers", "passthrough", list(NUMBERS)), ("categories", encoder, list(CATEGORIES))])
low, high = np.array([*NUMBERS.values(), *[(0, 1)] * sum(map(len, CATEGORIES.values()))]).T
epsilons = (0.1, 0.3, 1.0, 3.0)
scores = {"ranges found privately": [], "public bounds": []}
for epsilon in epsilons:
    for name, bounds in zip(scores, (None, (low, high)), strict=True):
        model = make_pipeline(prepare, DPLogisticRegression(epsilon=epsilon, bounds=bounds, classes=["healthy", "ill"]))
        scores[name].append(model.fit(train_X, train_y).score(test_X, test_y))
        print(f"epsilon {epsilon:4}, {name}: accuracy {scores[name][-1]:.3f}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for name, line in scores.items():
        axes.semilogx(epsilons, line, "o-", label=name)
    axes.set(xlabel="epsilon", ylabel="accuracy on test rows")
    axes.legend()
    figure.savefig(sys.argv[1])
