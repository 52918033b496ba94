"""When to use a network, and when not: two boundaries, three private models, more and more rows.

Every weight of a private network carries noise. So a network needs many rows, and it pays only where simpler models
cannot draw the boundary. The first classes are told apart by a sum of columns: nothing is more accurate than a linear
model. The second are clusters in ten columns at once: a network learns them, and cosines of a few columns at a time
(``features="fourier"``) hardly do. Nothing is tuned, and all private fits have the same epsilon. Prints accuracies and
what follows from them, and draws them if a file name is given. docs/networks.md says more about when to use a network.
"""

import sys
import warnings

from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from dpsk import DPLogisticRegression, DPMLPClassifier

ROWS = [2_500, 10_000, 40_000]
warnings.filterwarnings("ignore", "features='fourier' added nothing")  # where rows are few
private = {"epsilon": 1.0, "delta": 1e-6}
models = {
    "linear": DPLogisticRegression(**private),
    "fourier": DPLogisticRegression(**private, features="fourier"),
    "network": DPMLPClassifier(**private),
    "trees, not private": HistGradientBoostingClassifier(),
}
shape = {"n_samples": 45_000, "n_features": 20, "n_informative": 10, "random_state": 0}
X, sums = make_regression(**shape, noise=100.0)
data = {
    "a straight boundary": (X, sums > 0),
    "clusters in ten columns": make_classification(**shape, n_clusters_per_class=8, class_sep=1.5),
}

accuracy = {name: {kind: [] for kind in models} for name in data}
for name, (X, y) in data.items():
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=5_000, random_state=0)
    for kind, model in models.items():
        for n in ROWS:
            accuracy[name][kind].append(100 * model.fit(train_X[:n], train_y[:n]).score(test_X, test_y))
        print(f"{name}, {kind}: " + ", ".join(f"{score:.1f}" for score in accuracy[name][kind]))
    last = {kind: found[-1] for kind, found in accuracy[name].items() if "private" not in kind}
    gain = last["network"] - max(last["linear"], last["fourier"])
    told = "use it" if gain > 2 else "the model with fewer weights is enough"
    print(f"With {ROWS[-1]:,} rows the network is {gain:+.1f} points from the better of the others: {told}.\n")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2, sharey=True), data, strict=True):
        for (kind, found), style in zip(accuracy[name].items(), ("-o", "-s", "-D", ":"), strict=True):
            axes.plot(ROWS, found, style, label=kind)
        axes.set(title=name, xscale="log", xlabel="training rows")
        axes.set_xticks(ROWS, [f"{n:,}" for n in ROWS])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("accuracy on 5,000 other rows, %")
    figure.axes[0].legend(loc="lower right")
    figure.suptitle("Epsilon 1: a network needs many rows, and a boundary that simpler models cannot draw")
    figure.savefig(sys.argv[1])
