"""What a private search costs beside paying for every fit, and what it reaches beside an untuned default.

    python -m benchmarks.search --costs                         (prints the table of costs, seconds)
    python -m benchmarks.search --data DIR [--repeats 2]        (accuracy; resumable)
    python -m benchmarks.search --report                        (writes search.md from the CSV)

Each repeat is a 5-fold cross-validation with its own shuffle; all configurations see the same folds.
"""

from __future__ import annotations

import argparse
import csv
import functools
import warnings
from pathlib import Path

import numpy as np
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from joblib import Parallel, delayed
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split
from threadpoolctl import threadpool_limits

from dpsk import (
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    PrivateSearchCV,
    private_score,
)
from dpsk.mechanisms import bits_for
from dpsk.model_selection import Poisson, TruncatedNegativeBinomial
from dpsk.model_selection.runs import Space
from dpsk.privacy import ZCDP, Budget, GaussianDP, conversions
from dpsk.privacy.repetition import BestOf, Law

from .datasets import load

RESULTS = Path(__file__).parent / "results"
CSV = RESULTS / "search.csv"
FIELDS = ("task", "configuration", "repeat", "fold", "accuracy")
EPSILON, DELTA = 1.0, 1e-6
TASKS = {"adult": None, "bank": None, "adult 5,000 rows": 5000, "bank 5,000 rows": 5000}
CANDIDATES = 10

DEFAULT = DPLogisticRegression(bounds=(0, 1))
DESCENT = DPGradientDescentClassifier(bounds=(0, 1))
ADAPTIVE = DPAGDLogisticRegression()
SGD = DPSGDClassifier()
SPACES = {
    DPLogisticRegression: {"alpha": loguniform(1e-6, 1e-2)},
    DPGradientDescentClassifier: {
        "loss": ["log_loss", "huber_hinge"],
        "alpha": loguniform(1e-6, 1e-2),
        "steps": [30, 60, 120, 240],
        "momentum": [0.0, 0.8, 0.9, 0.95],
        "gradient_clip": [None, 0.1, 0.3, 1.0],
    },
    DPAGDLogisticRegression: {
        "alpha": loguniform(1e-6, 1e-2),
        "splits": [15, 30, 60, 120],
        "gradient_clip": [0.3, 1.0, 3.0],
        "step_max": [1.0, 2.0, 5.0],
        "standardize": [None, "private"],
    },
    DPSGDClassifier: {
        "alpha": loguniform(1e-6, 1e-2),
        "steps": [100, 300, 1000],
        "learning_rate": loguniform(0.3, 30.0),
        "gradient_clip": [0.1, 0.3, 1.0, 3.0],
        "optimizer": ["sgd", "adam"],
    },
}
SEARCHES: dict[str, tuple[object, Law]] = {
    "search, descent": (DESCENT, TruncatedNegativeBinomial(1.0, 0.1)),
    "search, descent, 20 runs": (DESCENT, TruncatedNegativeBinomial(1.0, 0.05)),
    "search, descent, logarithmic": (DESCENT, TruncatedNegativeBinomial(0.0, 0.02)),
    "search, descent, Poisson": (DESCENT, Poisson(10.0)),
    "search, DP-AGD": (ADAPTIVE, TruncatedNegativeBinomial(1.0, 0.1)),
    "search, default's alpha": (DEFAULT, TruncatedNegativeBinomial(1.0, 0.1)),
    "search, DP-SGD": (SGD, TruncatedNegativeBinomial(1.0, 0.1)),
}
UNTUNED = {
    "default": DEFAULT,
    "untuned DP-AGD": ADAPTIVE,
    "untuned DP-SGD": SGD,
}
COMPOSED = {"paid one by one, descent": DESCENT, "paid one by one, DP-AGD": ADAPTIVE}
FREE = {"not paid, descent": DESCENT, "not paid, DP-AGD": ADAPTIVE, "not paid, DP-SGD": SGD}
CONFIGURATIONS = (*UNTUNED, *SEARCHES, *COMPOSED, *FREE)


# ------------------------------------------------------------------------------------------------------- costs


def published_epsilon(law: Law, mu: float, delta: float) -> float:
    """Return epsilon of the best of K Gaussian runs by the bound of Papernot & Steinke (2022), as in dp-accounting."""
    orders = [1 + x / 10 for x in range(1, 1000)] + list(range(101, 2000, 5))
    shape = np.inf if isinstance(law, Poisson) else law.eta
    event = RepeatAndSelectDpEvent(GaussianDpEvent(1 / mu), law.mean, shape)
    return float(RdpAccountant(orders).compose(event).get_epsilon(delta))


def searched_epsilon(law: Law, base: Budget, delta: float) -> float:
    """Return the smallest epsilon at ``delta`` of a search whose runs may have the whole of this budget."""

    def enough(epsilon: float) -> bool:
        budget = BestOf.budget(law, epsilon, delta, lambda e, d: Budget.of(e, d, currency=base.currency))
        return budget.currency.covers(base)

    low, high = base.epsilon, 100 * base.epsilon
    while high > low * 1.0005:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def run_epsilon(law: Law, epsilon: float, delta: float) -> float:
    """Return the epsilon at ``delta`` that a Gaussian run may have in a search with this promise."""
    budget = BestOf.budget(law, epsilon, delta, lambda e, d: Budget.of(e, d, currency=GaussianDP()))
    return budget.currency.strongest(lambda e: [Budget.of(e, delta, currency=GaussianDP())], epsilon)


def costs() -> list[str]:
    """Return two tables: what runs of (1, 1e-6) add up to, and what a run may have where the total is (1, 1e-6)."""
    laws = [
        TruncatedNegativeBinomial(0.0, 0.1),
        TruncatedNegativeBinomial(0.0, 0.02),
        TruncatedNegativeBinomial(1.0, 0.1),
        TruncatedNegativeBinomial(1.0, 0.05),
        TruncatedNegativeBinomial(1.0, 0.02),
        Poisson(10.0),
        Poisson(20.0),
    ]
    gaussian = Budget.of(EPSILON, DELTA, currency=GaussianDP())
    concentrated = Budget.of(EPSILON, DELTA, currency=ZCDP())
    mu, rho = gaussian.limit**0.5, concentrated.limit
    lines = [
        f"Runs of ({EPSILON:g}, {DELTA:g}), budget in rho or in mu². Epsilon of everything at delta = {DELTA:g}:",
        "",
        "| number of runs | mean | rho: this search | bound of 2022 | so many one by one | mu²: this search "
        "| so many one by one | sums of (epsilon, delta) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for law in laws:
        k = round(law.mean)
        lines.append(
            f"| {law} | {law.mean:.1f} | **{searched_epsilon(law, concentrated, DELTA):.2f}** "
            f"| {published_epsilon(law, (2 * rho) ** 0.5, DELTA):.2f} | {conversions.zcdp_epsilon(DELTA, k * rho):.2f} "
            f"| **{searched_epsilon(law, gaussian, DELTA):.2f}** "
            f"| {conversions.gaussian_epsilon(DELTA, mu * k**0.5):.2f} | {k * EPSILON:.0f}, {k * DELTA:.0e} |"
        )
    lines += [
        "",
        f"What a run may have, as epsilon at delta = {DELTA:g}, where everything together is ({EPSILON:g}, {DELTA:g}):",
        "",
        "| number of runs | mean | this search | so many paid one by one, mu² |",
        "|---|---|---|---|",
    ]
    for law in laws:
        k = round(law.mean)
        each = conversions.gaussian_epsilon(DELTA, mu / k**0.5)
        lines.append(f"| {law} | {law.mean:.1f} | **{run_epsilon(law, EPSILON, DELTA):.3f}** | {each:.3f} |")
    return lines


# ---------------------------------------------------------------------------------------------------- accuracy


@functools.lru_cache(maxsize=2)
def task_data(task: str, folder: Path):
    X, y = load(task.split()[0], folder)
    rows = TASKS[task]
    if rows is not None:
        chosen = np.random.default_rng(0).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    return X, y


def best_of(estimator, X, y, seed: int, *, parts: int):
    """Return the best of ten fits, by their accuracy on a fifth of the rows.

    ``parts`` = 10: all of it is paid, each fit and each score with a tenth of the budget in the currency of the
    estimator. ``parts`` = 1: each fit has the whole budget and scores have no noise; together they break it.
    """
    space = Space.of(SPACES[type(estimator)], estimator)
    bits = bits_for(seed)
    train_X, held_X, train_y, held_y = train_test_split(X, y, test_size=0.2, random_state=seed)
    currency = ZCDP() if isinstance(estimator, DPAGDLogisticRegression) else GaussianDP()
    epsilon = currency.epsilon(currency.limit(EPSILON, DELTA) / parts, DELTA)
    pure = conversions.largest_within(
        conversions.pure_rho if isinstance(currency, ZCDP) else lambda e: conversions.pure_mu(e) ** 2,
        currency.limit(EPSILON, DELTA) / parts,
    )
    best = (-1.0, None)
    for i in range(CANDIDATES):
        model = clone(estimator).set_params(**space.draw(bits), epsilon=epsilon, delta=DELTA)
        model.set_params(random_state=100 * seed + i).fit(train_X, train_y)
        score = model.score(held_X, held_y)
        if parts > 1:
            score = private_score(model, held_X, held_y, epsilon=pure, random_state=100 * seed + i).accuracy
        best = max(best, (score, model), key=lambda pair: pair[0])
    return best[1]


def run_fold(task: str, folder: Path, configuration: str, repeat: int, fold: int) -> dict[str, object]:
    X, y = task_data(task, folder)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))[fold]
    seed = 10 * repeat + fold  # so that anybody gets these numbers; a fit for release would not be seeded
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if configuration in UNTUNED:
            model = clone(UNTUNED[configuration]).set_params(epsilon=EPSILON, delta=DELTA, random_state=seed)
            model.fit(X[train], y[train])
        elif configuration in SEARCHES:
            estimator, law = SEARCHES[configuration]
            model = PrivateSearchCV(
                estimator, SPACES[type(estimator)], EPSILON, DELTA, n_iter_distribution=law, random_state=seed
            ).fit(X[train], y[train])
        elif configuration in COMPOSED:
            model = best_of(COMPOSED[configuration], X[train], y[train], seed, parts=CANDIDATES)
        else:
            model = best_of(FREE[configuration], X[train], y[train], seed, parts=1)
        accuracy = model.score(X[test], y[test])
    return dict(zip(FIELDS, (task, configuration, repeat, fold, f"{accuracy:.6f}"), strict=True))


def read() -> list[dict[str, str]]:
    if not CSV.exists():
        return []
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def run(options: argparse.Namespace) -> None:
    done = {tuple(row[field] for field in FIELDS[:4]) for row in read()}
    jobs = [
        (task, options.data, configuration, repeat, fold)
        for repeat in range(options.repeats)
        for task in TASKS
        for configuration in CONFIGURATIONS
        for fold in range(5)
        if (task, configuration, str(repeat), str(fold)) not in done
    ]
    print(f"{len(jobs)} folds to run", flush=True)
    new = not CSV.exists()
    with CSV.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        for row in Parallel(n_jobs=options.jobs, return_as="generator")(delayed(run_fold)(*job) for job in jobs):
            writer.writerow(row)
            file.flush()


def report() -> None:
    """Write search.md."""
    rows = read()
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        cell = found.setdefault((row["task"], row["configuration"]), {})
        cell.setdefault(row["repeat"] + " " + row["fold"], []).append(100 * float(row["accuracy"]))
    tasks = [task for task in TASKS if any(row["task"] == task for row in rows)]
    lines = [
        "# A private search beside paying for every fit, and beside no search",
        "",
        "## What it costs",
        "",
        "Made by `python -m benchmarks.search --costs`. The Renyi bound is that of Papernot & Steinke (2022) as",
        "dp-accounting computes it; ours goes by the privacy profile (Koskela, Redberg & Wang 2024; proof in",
        "`dpsk/privacy/repetition.py`).",
        "",
        *costs(),
        "",
        "## What it reaches",
        "",
        f"Made by `python -m benchmarks.search --data DIR --repeats {1 + max(int(row['repeat']) for row in rows)}`: "
        f"epsilon = {EPSILON:g} and delta = {DELTA:g} in all,",
        "accuracy in percent on the test folds of 5-fold cross-validation, and below it the difference to `default`",
        "(`DPLogisticRegression(bounds=(0, 1))`, no search, all rows) with its standard error over the same folds.",
        "Searches draw from the spaces in `benchmarks/search.py`, 10 runs on average where nothing is said, and hold",
        "out a fifth of the rows. `paid one by one`: ten fits and ten scores, each with a tenth of the budget.",
        "`not paid`: ten fits with the whole budget *each* and scores without noise, which is not private at",
        "epsilon 1: what tuning would be worth if it cost nothing.",
        "",
        "| | " + " | ".join(tasks) + " |",
        "|---|" + "---|" * len(tasks),
    ]
    for configuration in CONFIGURATIONS:
        cells = []
        for task in tasks:
            own, default = found.get((task, configuration)), found.get((task, "default"))
            if not own or not default:
                cells.append("")
                continue
            values = np.array([np.mean(own[key]) for key in own])
            text = f"{values.mean():.2f}"
            both = [key for key in own if key in default]
            if configuration != "default" and len(both) > 1:
                gaps = np.array([np.mean(own[key]) - np.mean(default[key]) for key in both])
                text += f" ({gaps.mean():+.2f} ± {gaps.std(ddof=1) / len(gaps) ** 0.5:.2f})"
            cells.append(text)
        lines.append(f"| {configuration} | " + " | ".join(cells) + " |")
    (RESULTS / "search.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.costs:
        print("\n".join(costs()))
        return
    if not options.report:
        run(options)
    report()


if __name__ == "__main__":
    main()
