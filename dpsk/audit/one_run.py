"""Audits by one run: many canaries in one data set, each with a coin of its own, which an attacker guesses.

For estimators that are too dear to fit hundreds of times. After Steinke, Nasr & Jagielski (2023).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats
from ..privacy.currencies import PureDP
from .canaries import Canaries
from .claims import Claim
from .finding import Finding
from .guesses import Guesses, together
from .joint_guesses import Joint
from .neighbouring import Data

SHARES = (1.0, 0.6, 0.3, 0.1, 0.03)
"""Which shares of the coins are guessed: those about which the model says most. Fixed before any fit."""
_LEAST_GUESSES = 10
_PROGRAMS = 4


@dataclass(frozen=True, eq=False)
class Run:
    """One fit on canaries: what its coins were, and what the model says of them."""

    coins: NDArray[np.bool_]
    scores: Floats

    def right(self, made: int) -> int:
        """Return how many guesses are right: heads for the highest scores, tails for the lowest."""
        order = np.argsort(self.scores, kind="stable")
        low, high = order[: made // 2], order[len(order) - (made - made // 2) :]
        return int(self.coins[high].sum() + (~self.coins[low]).sum())


def one_run(
    fit: Callable[[Data], Any],
    X: Any,
    y: Any,
    claim: Claim,
    *,
    groups: Any = None,
    adjacency: str = "zero-out",
    error: float = 1e-3,
    seconds: float = 60.0,
    n_canaries: int | None = None,
    runs: int = 1,
    reach: float = 1.0,
    rng: np.random.Generator | None = None,
) -> Finding:
    """Return the epsilon that one fit proves, or a few, each with coins of its own.

    Parameters
    ----------
    fit : callable
        ``fit(data)`` fits on rows, labels and arguments, and returns a model. Its noise must be drawn afresh each time.
    X, y : table and labels
        The data beside the canaries.
    claim : Claim
        What the fit promises.
    groups : array-like of shape (n_samples,), or None
        Whose row it is. Canaries are then persons with as many rows as the largest one, up to 10.
    adjacency : {"zero-out", "replace"}
        The kind of neighbours of the claim. A coin replaces a unit by another one: that is one step under "replace",
        and two under "zero-out", where one unit leaves and another one comes.
    error : float
        The probability that the epsilon is too high.
    seconds : float
        How long the runs may take. One run is made in any case.
    n_canaries : int or None
        None: as many as there are columns, but at least 100 and at most 2,000.
    runs : int
        The largest number of fits. Where it is more than 1, another fit, whose model is not looked at, tells how many
        of them there is time for.
    reach : float
        How far out canaries lie: 1 is at the ends of the columns of X.
    rng : numpy.random.Generator or None
        The source of coins and canaries. None: a new one from the operating system.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.8 and 17.9)
    The epsilon is too high with probability at most ``error``, over the coins and the noise of the fits.
    """
    if adjacency not in ("zero-out", "replace"):
        raise ValueError(f"adjacency={adjacency!r} must be 'zero-out' or 'replace'")
    if runs < 1:
        raise ValueError(f"runs={runs!r} must be at least 1")
    started = time.monotonic()
    rng = np.random.default_rng() if rng is None else rng
    columns = np.shape(X)[1]
    m = int(np.clip(columns, 100, 2000)) if n_canaries is None else n_canaries
    if m < _LEAST_GUESSES:
        raise ValueError(f"n_canaries={m!r} must be at least {_LEAST_GUESSES}: fewer coins prove nothing")
    canaries = Canaries.like(X, y, groups, m, rng, reach=reach)
    if runs > 1:
        runs = _affordable(fit, canaries, runs, seconds, rng)
    seen = [_run(fit, canaries, rng) for _ in range(runs)]
    sizes = sorted({max(_LEAST_GUESSES, round(share * m)) for share in SHARES})
    guesses = [Guesses(sum(run.right(made) for run in seen), made * runs, m * runs) for made in sizes]
    size = 2 if adjacency == "zero-out" else 1
    proved, refuted, best = _proved(claim, size, guesses, error / len(guesses))
    return Finding(
        attack="one run",
        pair=f"{m} {'rows' if groups is None else 'persons'}, each with one of two labels",
        epsilon=proved,
        refuted=refuted,
        fits=runs + (runs > 1),
        seconds=time.monotonic() - started,
        seen=f"{best.right} of {best.made} guesses about {best.coins} coins were right",
        premise="" if runs == 1 else "the noise of one fit does not depend on that of another",
    )


def _proved(claim: Claim, size: int, guesses: list[Guesses], error: float) -> tuple[float, bool, Guesses]:
    """Return the epsilon that sets of guesses prove, whether the claim is false, and the set that tells most."""
    profiles = [one.profile(error) for one in guesses]
    profile = together(profiles)
    alone = [claim.least_epsilon(each, size) for each in profiles]
    best = max(range(len(guesses)), key=lambda i: (alone[i], -guesses[i].probability(0.0)))
    joint = Joint(guesses[best], error)
    proved = claim.least_epsilon(profile, size, joint.allows)
    for _ in range(0 if isinstance(claim.currency, PureDP | None) else _PROGRAMS):
        before = proved
        if not joint.add():
            break
        proved = claim.least_epsilon(profile, size, joint.allows)
        if proved <= 1.005 * before:
            break
    bare = Claim(claim.epsilon, claim.delta)  # at one Renyi order, nothing spent is an epsilon above 0
    return max(proved, bare.least_epsilon(profile, size)), claim.refuted_by(profile, size, joint.allows), guesses[best]


def _affordable(
    fit: Callable[[Data], Any], canaries: Canaries, runs: int, seconds: float, rng: np.random.Generator
) -> int:
    """Return how many runs there is time for, from the time of a fit with coins that are thrown away."""
    started = time.monotonic()
    _run(fit, canaries, rng)
    taken = max(time.monotonic() - started, 1e-6)
    return max(1, min(runs, int((seconds - taken) / taken)))


def _run(fit: Callable[[Data], Any], canaries: Canaries, rng: np.random.Generator) -> Run:
    coins = rng.random(canaries.n) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows are hopeless for an honest fit
        model = fit(canaries.data(coins))
    return Run(coins, _scores(model, canaries))


def _scores(model: Any, canaries: Canaries) -> Floats:
    """Return how much more the model expects the label for heads of each canary than that for tails."""
    classes = list(model.classes_ if hasattr(model, "classes_") else canaries.labels)
    tails, heads = (classes.index(label) for label in canaries.labels)
    for name in ("decision_function", "predict_log_proba", "predict_proba"):
        if hasattr(model, name):
            told = np.asarray(getattr(model, name)(canaries.rows), dtype=np.float64)
            return told if told.ndim == 1 else told[:, heads] - told[:, tails]
    said = np.asarray(model.predict(canaries.rows))
    scores: Floats = (said == canaries.labels[1]).astype(np.float64) - (said == canaries.labels[0])
    return scores
