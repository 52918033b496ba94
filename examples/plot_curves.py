"""A boundary that is not straight: rings, with `features="fourier"`.

The default classifier is linear, and no straight line tells an inner ring from an outer one. Cosines and sines of
random sums of the columns let the same model follow a circle, within the same epsilon: two hundredths of it tell which
columns can be curved. Boosted trees without privacy are there to compare with. Prints accuracies and what follows from
them, and draws what each model predicts if a file name is given. docs/curves.md says when this helps.
"""

import sys

import numpy as np
from sklearn.datasets import make_circles
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from dpsk import DPLogisticRegression

BOUNDS = (-2, 2)  # public

X, y = make_circles(25_000, noise=0.15, factor=0.5, random_state=0)
train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=5_000, random_state=0)

private = {"epsilon": 1.0, "delta": 1e-6, "bounds": BOUNDS}
models = {
    "linear, epsilon 1": DPLogisticRegression(**private),
    'features="fourier", epsilon 1': DPLogisticRegression(**private, features="fourier"),
    "boosted trees, not private": HistGradientBoostingClassifier(),
}
scores = {name: model.fit(train_X, train_y).score(test_X, test_y) for name, model in models.items()}
for name, score in scores.items():
    print(f"{name}: accuracy {score:.3f}")

linear, curved, trees = scores.values()
waves = models['features="fourier", epsilon 1'].waves_
print(f"{waves.n_columns if waves else 0} columns were added to {X.shape[1]}. A coin has an accuracy of 0.5.")
print(f"The curved model has {(curved - linear) / (trees - linear):.0%} of what trees gain over the straight line.")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    x1, x2 = np.meshgrid(*[np.linspace(*BOUNDS, 200)] * 2)
    grid = np.column_stack([x1.ravel(), x2.ravel()])
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, (name, model) in zip(figure.subplots(1, 3, sharey=True), models.items(), strict=True):
        axes.contourf(x1, x2, model.predict(grid).reshape(x1.shape), levels=1, colors=["#b3cde3", "#fdd0a2"])
        axes.scatter(*test_X[:500].T, c=test_y[:500], s=4, cmap="coolwarm")
        axes.set(title=f"{name}\naccuracy {scores[name]:.2f}", xlabel="first column", aspect="equal")
    figure.axes[0].set_ylabel("second column")
    figure.suptitle(f"Rings, {len(train_X):,} rows: predictions (areas) and 500 test rows (dots)")
    figure.savefig(sys.argv[1])
