"""One budget for a whole project: fits, a search, a score and a later session. What exceeds it is refused.

The ledger is a file. Every fit reserves its budget there before it sees a row, in whichever process it runs. If too
little is left, the fit is refused. Draws what is left after each step if a file name is given.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

from dpsk import BudgetExhausted, DPLogisticRegression, PrivacyLedger, private_score, search_cost

rng = np.random.default_rng(0)
X = rng.normal(size=(6_000, 5))
y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.logistic(size=6_000) > 0
train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0)
path = Path(tempfile.mkdtemp()) / "patients.db"

# training and held-out rows are different people: each has the whole budget to itself
ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, currency="mu**2", disjoint=["training", "held-out"])
train, held_out = ledger.on("training"), ledger.on("held-out")
left = {"new": train.remaining()["mu**2"]}

model = DPLogisticRegression(epsilon=0.5, ledger=train).fit(train_X, train_y)
left["a fit"] = train.remaining()["mu**2"]

search = GridSearchCV(DPLogisticRegression(epsilon=0.2, ledger=train), {"alpha": [1e-4, 1e-2]}, cv=KFold(4))
n_rows, n_features = train_X.shape  # public; the default chooses its algorithm by them
print(search_cost(search, n_rows=n_rows, n_features=n_features, n_classes=2), "\n")
search.fit(train_X, train_y)
left["a search"] = train.remaining()["mu**2"]

print(private_score(search, test_X, test_y, epsilon=0.2, ledger=held_out).statement(), "\n")

later = PrivacyLedger(path).on("training")  # tomorrow, in another notebook
try:
    DPLogisticRegression(epsilon=3.0, ledger=later).fit(train_X, train_y)
except BudgetExhausted as refused:
    print(refused, "\n")
left["a refused fit"] = later.remaining()["mu**2"]
print(later.statement())

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    axes.bar(list(left), list(left.values()))
    axes.set(ylabel="mu² left of the training data")
    figure.savefig(sys.argv[1])
