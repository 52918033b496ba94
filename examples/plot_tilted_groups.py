"""A model for the mean loss gives up a small group. A tilted objective does not.

A twentieth of the rows needs another direction to be separated than the rest. All models have the same penalty,
epsilon = 1 and delta = 0. A tilt gives more weight to the largest losses: the larger the tilt, the smaller the worst
loss of the two groups. This has a price: one row can weigh more as well, and the noise has to cover that. With a tilt
of 2, or with fewer rows, the noise would hide both groups. Prints loss and accuracy on fresh rows; draws them if a file
name is given.
"""

import sys

import numpy as np

from dpsk import OutputPerturbationLogisticRegression

rng = np.random.default_rng(0)


def rows(n):
    small, y = rng.random(n) < 0.05, rng.choice([-1, 1], n)
    X = y[:, None] * np.where(small[:, None], [0.0, 0.6], [0.6, -0.2])
    return X + np.where(small[:, None], 0.1, [0.2, 0.1]) * rng.normal(size=(n, 2)), y, small


X, y, _ = rows(200_000)
test_X, test_y, small = rows(50_000)
tilts = [None, 0.1, 0.3, 0.6, 1.0]
losses = []
for tilt in tilts:
    settings = {} if tilt is None else {"objective": "tilted", "tilt": tilt}
    model = OutputPerturbationLogisticRegression(epsilon=1.0, alpha=0.01, **settings).fit(X, y)
    margin = test_y * model.decision_function(test_X)
    losses.append([np.logaddexp(0, -margin[group]).mean() for group in (small, ~small)])
    accuracies = [(margin[group] > 0).mean() for group in (small, ~small)]
    name = "mean of losses" if tilt is None else f"tilt {tilt:g}"
    print(f"{name:15} small group: loss {losses[-1][0]:.3f}, accuracy {accuracies[0]:.3f};", end=" ")
    print(f"large group: loss {losses[-1][1]:.3f}, accuracy {accuracies[1]:.3f}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    axes = (figure := Figure(layout="constrained")).subplots()
    axes.plot(range(len(tilts)), losses, marker="o", label=["small group", "large group"])
    axes.set_xticks(range(len(tilts)), ["mean", *map(str, tilts[1:])])
    axes.set(xlabel="tilt", ylabel="logistic loss on fresh rows")
    axes.legend()
    figure.savefig(sys.argv[1])
