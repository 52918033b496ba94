"""What a private search costs beside paying for every fit, and what it reaches beside an untuned default."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.stats import loguniform
from sklearn.model_selection import train_test_split

from dpsk import (
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    PrivateSearchCV,
    private_score,
)

from ..experiment import write
from ..folds import fitted, fold_of, seed_of
from ..inside import (
    ZCDP,
    BestOf,
    Budget,
    GaussianDP,
    Law,
    Poisson,
    Space,
    TruncatedNegativeBinomial,
    bits_for,
    conversions,
)
from ..table import Table, markdown, standard_error

EPSILON, DELTA = 1.0, 1e-6
TASKS = ("adult", "bank", "adult 5,000 rows", "bank 5,000 rows")
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
TEN = TruncatedNegativeBinomial(1.0, 0.1)
SEARCHES: dict[str, tuple[object, Law]] = {
    "search, descent": (DESCENT, TEN),
    "search, descent, 20 runs": (DESCENT, TruncatedNegativeBinomial(1.0, 0.05)),
    "search, descent, logarithmic": (DESCENT, TruncatedNegativeBinomial(0.0, 0.02)),
    "search, descent, Poisson": (DESCENT, Poisson(10.0)),
    "search, DP-AGD": (ADAPTIVE, TEN),
    "search, default's alpha": (DEFAULT, TEN),
    "search, DP-SGD": (SGD, TEN),
}
UNTUNED = {"default": DEFAULT, "untuned DP-AGD": ADAPTIVE, "untuned DP-SGD": SGD}
COMPOSED = {"paid one by one, descent": DESCENT, "paid one by one, DP-AGD": ADAPTIVE}
FREE = {"not paid, descent": DESCENT, "not paid, DP-AGD": ADAPTIVE, "not paid, DP-SGD": SGD}
LAWS = (
    TruncatedNegativeBinomial(0.0, 0.1),
    TruncatedNegativeBinomial(0.0, 0.02),
    TEN,
    TruncatedNegativeBinomial(1.0, 0.05),
    TruncatedNegativeBinomial(1.0, 0.02),
    Poisson(10.0),
    Poisson(20.0),
)


# ------------------------------------------------------------------------------------------------------- costs


def published_epsilon(law: Law, mu: float, delta: float) -> float:
    """Return epsilon of the best of K Gaussian runs by the bound of Papernot & Steinke (2022), as in dp-accounting."""
    from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

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


def costs() -> str:
    """Return what runs of (1, 1e-6) add up to."""
    gaussian, concentrated = (Budget.of(EPSILON, DELTA, currency=currency()) for currency in (GaussianDP, ZCDP))
    lines = []
    for law in LAWS:
        k = round(law.mean)
        lines.append([
            law, f"{law.mean:.1f}", f"**{searched_epsilon(law, concentrated, DELTA):.2f}**",
            f"{published_epsilon(law, (2 * concentrated.limit) ** 0.5, DELTA):.2f}",
            f"{conversions.zcdp_epsilon(DELTA, k * concentrated.limit):.2f}",
            f"**{searched_epsilon(law, gaussian, DELTA):.2f}**",
            f"{conversions.gaussian_epsilon(DELTA, gaussian.limit**0.5 * k**0.5):.2f}",
            f"{k * EPSILON:.0f}, {k * DELTA:.0e}",
        ])  # fmt: skip
    so_many = "so many one by one"
    header = ("rho: this search", "bound of 2022", so_many, "mu²: this search", so_many, "sums of (epsilon, delta)")
    return markdown(["number of runs", "mean", *header], lines)


def allowed() -> str:
    """Return what a run may have where the total is (1, 1e-6)."""
    mu, lines = Budget.of(EPSILON, DELTA, currency=GaussianDP()).limit ** 0.5, []
    for law in LAWS:
        each = conversions.gaussian_epsilon(DELTA, mu / round(law.mean) ** 0.5)
        lines.append([law, f"{law.mean:.1f}", f"**{run_epsilon(law, EPSILON, DELTA):.3f}**", f"{each:.3f}"])
    return markdown(["number of runs", "mean", "this search", "so many paid one by one, mu²"], lines)


# ---------------------------------------------------------------------------------------------------- accuracy


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
        known = {**space.draw(bits), "epsilon": epsilon, "delta": DELTA, "random_state": 100 * seed + i}
        model, _ = fitted(estimator, train_X, train_y, **known)
        score = model.score(held_X, held_y)
        if parts > 1:
            score = private_score(model, held_X, held_y, epsilon=pure, random_state=100 * seed + i).accuracy
        best = max(best, (score, model), key=lambda pair: pair[0])
    return best[1]


def measure(folder: Path | None, task: str, configuration: str, repeat: int, fold: int) -> tuple[str]:
    rows, seed = fold_of(task, folder, repeat, fold), seed_of(repeat, fold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if configuration in UNTUNED:
            known = {"epsilon": EPSILON, "delta": DELTA, "random_state": seed}
            model, _ = fitted(UNTUNED[configuration], rows.X, rows.y, **known)
        elif configuration in SEARCHES:
            estimator, law = SEARCHES[configuration]
            search = PrivateSearchCV(estimator, SPACES[type(estimator)], EPSILON, DELTA, n_iter_distribution=law)
            model, _ = fitted(search, rows.X, rows.y, random_state=seed)
        elif configuration in COMPOSED:
            model = best_of(COMPOSED[configuration], rows.X, rows.y, seed, parts=CANDIDATES)
        else:
            model = best_of(FREE[configuration], rows.X, rows.y, seed, parts=1)
        return (f"{model.score(rows.test_X, rows.test_y):.6f}",)


TABLE = Table("search", ("task", "configuration", "repeat", "fold"), ("accuracy",), measure)
CONFIGURATIONS = (*UNTUNED, *SEARCHES, *COMPOSED, *FREE)


def keys(repeats: int) -> Iterable[tuple]:
    cells = [(task, configuration) for task in TASKS for configuration in CONFIGURATIONS]
    return ((*cell, repeat, fold) for repeat in range(repeats) for cell in cells for fold in range(5))


def report() -> None:
    folds, lines = TABLE.folds(("task", "configuration"), "accuracy"), []
    for configuration in CONFIGURATIONS:
        cells = []
        for task in TASKS:
            own, default = folds.get((task, configuration), {}), folds.get((task, "default"), {})
            text = f"{np.mean(list(own.values())):.2f}" if own else ""
            gaps = np.array([own[fold] - default[fold] for fold in own if fold in default])
            if configuration != "default" and len(gaps) > 1:
                text += f" ({gaps.mean():+.2f} ± {standard_error(gaps):.2f})"
            cells.append(text)
        lines.append([configuration, *cells])
    known = {"epsilon": EPSILON, "delta": DELTA, "repeats": len(TABLE.rows().by("repeat"))}
    write("search", costs=costs(), allowed=allowed(), table=markdown(["", *TASKS], lines), **known)
