"""Somebody moves the rows a little, so that the model is wrong. One model was trained for that, another was not.

One column tells the classes apart, with some error; it cannot be moved far enough to hide them. Nine other columns
together tell the classes apart nearly perfectly, but their values are small. A model for the mean loss relies on the
nine, and fails if every entry may move by 0.1. A model with ``objective="adversarial"`` relies on the first column.
Both have epsilon = 1 and delta = 1e-6. Prints the accuracy on rows as they are, and on rows moved in the worst way;
draws it over the radius if a file name is given.
"""

import sys

import numpy as np

from dpsk import OutputPerturbationLogisticRegression

rng = np.random.default_rng(0)


def rows(n):
    y = rng.choice([-1, 1], n)
    robust = 0.4 * y + 0.3 * rng.normal(size=n)
    return np.column_stack([robust, 0.06 * y[:, None] + 0.03 * rng.normal(size=(n, 9))]), y


def moved_against(model, X, y, radius):
    """Return rows moved in every entry by up to ``radius``, to where the model is wrong if it can be."""
    return X - radius * y[:, None] * np.sign(model.coef_)


X, y = rows(20_000)
test_X, test_y = rows(20_000)
radii, accuracies = [0.04, 0.06, 0.08, 0.1, 0.12], {}
for objective in ("erm", "adversarial"):
    for radius in radii:
        attack = {"objective": objective, "attack_radius": radius, "attack_norm": np.inf}
        model = OutputPerturbationLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=2.0, **attack).fit(X, y)
        attacked = model.score(moved_against(model, test_X, test_y, radius), test_y)
        accuracies.setdefault(objective, []).append((attacked, model.score(test_X, test_y)))
    attacked, clean = accuracies[objective][3]
    print(f"{objective:12} accuracy {clean:.3f}, where entries are moved by 0.1: {attacked:.3f}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    axes = (figure := Figure(layout="constrained")).subplots()
    for (objective, pairs), color in zip(accuracies.items(), ("C0", "C3"), strict=True):
        axes.plot(radii, [attacked for attacked, _ in pairs], "o-", color=color, label=f"{objective}, moved")
        axes.plot(radii, [clean for _, clean in pairs], "o:", color=color, label=f"{objective}, not moved")
    axes.set(xlabel="how far every entry is moved", ylabel="accuracy")
    axes.legend()
    figure.savefig(sys.argv[1])
