"""One search over 20 settings, in three ways.

GridSearchCV spends epsilon = 1 in every fit, and compares scores that nobody pays for. The second way divides
epsilon = 1 among 20 fits and 20 scores. PrivateSearchCV tries a secret number of settings, 20 on average, and shows
only the best. Prints the cost and the accuracy of each, and those of the default without a search; draws them if a
file name is given.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid, train_test_split

from dpsk import DPGradientDescentClassifier, DPLogisticRegression, PrivacyLedger, private_score, search_cost
from dpsk.budget_command import epsilon_of_each
from dpsk.model_selection import PrivateSearchCV, TruncatedNegativeBinomial

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 20)) * np.geomspace(1, 100, 20)
y = (X / np.geomspace(1, 100, 20)) @ rng.normal(size=20) + rng.logistic(size=12_000) > 0
train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0)
model = DPGradientDescentClassifier(steps=50)
grid = {"gradient_clip": [0.1, 0.3, 1.0, 3.0, 10.0], "alpha": [1e-4, 1e-2], "average": [0.1, 0.5]}
reached = {}

search = GridSearchCV(model.set_params(epsilon=1.0), grid, cv=KFold(3)).fit(train_X, train_y)
reached["GridSearchCV"] = (search_cost(search).epsilon, search.score(test_X, test_y))

budget = {"epsilon": 1.0, "delta": 1e-6, "currency": "mu**2", "disjoint": ["fits", "scores"]}
ledger = PrivacyLedger(Path(tempfile.mkdtemp()) / "search.db", **budget)
fit_X, held_X, fit_y, held_y = train_test_split(train_X, train_y, test_size=0.2, random_state=0)
each, _ = epsilon_of_each("mu**2", 1.0, 1e-6, 20)
best = (-1.0, None)
for parameters in ParameterGrid(grid):
    candidate = clone(model).set_params(**parameters, epsilon=each, ledger=ledger.on("fits")).fit(fit_X, fit_y)
    score = private_score(candidate, held_X, held_y, epsilon=0.04, ledger=ledger.on("scores"))
    best = max(best, (score.accuracy, candidate), key=lambda pair: pair[0])
reached[f"every fit paid, {each:.2f} each"] = (1.0, best[1].score(test_X, test_y))

private = PrivateSearchCV(model, grid, epsilon=1.0, n_iter_distribution=TruncatedNegativeBinomial(eta=1, gamma=0.05))
run = private.run_budget()
each = run.currency.epsilon(run.limit, 1e-6)
reached[f"PrivateSearchCV, {each:.2f} each"] = (1.0, private.fit(train_X, train_y).score(test_X, test_y))
reached["no search"] = (1.0, DPLogisticRegression(epsilon=1.0).fit(train_X, train_y).score(test_X, test_y))
for name, (epsilon, accuracy) in reached.items():
    print(f"{name:32} epsilon in all {epsilon:5.2f}, accuracy {accuracy:.3f}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    axes = (figure := Figure(layout="constrained")).subplots()
    for marker, (name, point) in zip("sov*", reached.items(), strict=True):
        axes.plot(*point, marker, markersize=10, label=name)
    axes.set(xlim=(0, 7), xlabel="epsilon in all (of GridSearchCV: without its scores)", ylabel="accuracy on test rows")
    axes.legend()
    figure.savefig(sys.argv[1])
