"""``python -m dpsk demo`` fits data of scikit-learn; ``python -m dpsk budget`` plans, makes and reads ledgers."""

import argparse
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from . import budget_command as budget
from .estimators import DPLogisticRegression
from .privacy import LedgerError

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
REPEATS = 5


def private(epsilon: float) -> DPLogisticRegression:
    """Return the private classifier. Pixel values are 0..16 by definition: public bounds."""
    return DPLogisticRegression(epsilon=epsilon, delta=1e-5, bounds=(0, 16))


def demo(picture: Path | None) -> None:
    """Print accuracy against epsilon beside a non-private model and the majority, and one privacy statement."""
    X, digit = load_digits(return_X_y=True)
    y = np.where(digit >= 5, "high", "low")
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0, stratify=y)
    exact = LogisticRegression(C=0.1, max_iter=5000).fit(train_X, train_y).score(test_X, test_y)
    majority = max(np.mean(test_y == label) for label in np.unique(test_y))
    print(f"Handwritten digits, 0-4 against 5-9: {len(train_y)} training rows, {X.shape[1]} columns, delta = 1e-5.")
    print(f"Mean accuracy of {REPEATS} private fits on {len(test_y)} test rows:\n")
    means = []
    for epsilon in EPSILONS:
        scores = [private(epsilon).fit(train_X, train_y).score(test_X, test_y) for _ in range(REPEATS)]
        means.append(float(np.mean(scores)))
        show_accuracy(f"epsilon {epsilon:5.2f}", means[-1])
    show_accuracy("not private", exact)
    show_accuracy("majority class", majority)
    print("\nThe privacy statement of one model, model.privacy_spent_.statement():\n")
    print(private(1.0).fit(train_X, train_y).privacy_spent_.statement())
    if picture is not None:
        draw(picture, means, exact, majority)


def show_accuracy(name: str, accuracy: float) -> None:
    """Print an accuracy with a bar of its length."""
    print(f"  {name:14}  {accuracy:6.1%}  {'#' * round(60 * accuracy)}")


def draw(picture: Path, means: list[float], exact: float, majority: float) -> None:
    """Save accuracy against epsilon as a picture, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print('\n(No picture: matplotlib is not installed; pip install ".[plot]".)')
        return
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(EPSILONS, means, marker="o", label="DPLogisticRegression")
    axes.axhline(exact, color="black", linestyle="--", label="not private")
    axes.axhline(majority, color="grey", linestyle=":", label="majority class")
    axes.set(xscale="log", xlabel="epsilon", ylabel="accuracy on test rows", title="Digits 0-4 against 5-9")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.legend()
    figure.savefig(picture, dpi=120)
    print(f"\nPicture: {picture}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m dpsk", description="Differentially private classifiers.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("demo", help="accuracy against epsilon on data that need no network")
    command.add_argument("--picture", type=Path, default=Path("dpsk-demo.png"), help="where to save the picture")
    budget.add_arguments(commands.add_parser("budget", help="how far a budget goes; a new ledger; what a ledger says"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("default")
    if options.command == "demo":
        logger = logging.getLogger("dpsk")
        level = logger.level
        logger.setLevel(logging.ERROR)  # these rows are public, so fits need no ledger
        try:
            demo(options.picture)
        finally:
            logger.setLevel(level)
        return 0
    try:
        print(budget.run(options))
    except (ValueError, LedgerError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
