"""Audits by one run: many canaries in one data set, each with a coin of its own, which an attacker guesses.

For estimators that are too dear to fit hundreds of times. After Steinke, Nasr & Jagielski (2023).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.samplers import Floats
from ..privacy.conversions import gaussian_epsilon, gaussian_mu
from ..privacy.currencies import GaussianDP, PureDP
from .canaries import Canaries
from .claims import Claim
from .finding import Finding
from .guesses import Guesses, together
from .joint_guesses import Joint
from .neighbouring import Data

SHARES = (1.0, 0.6, 0.3, 0.1, 0.03)
"""Which shares of the coins are guessed: those about which the model says most. Fixed before any fit."""
_LEAST_GUESSES, _LEAST_CANARIES = 10, 20
_SURE = 1e9  # scores beyond count as that


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
    rng: np.random.Generator | None = None,
) -> Finding:
    """Return the epsilon that one fit proves, or a few, each with coins of its own.

    Parameters
    ----------
    fit : callable
        ``fit(data)`` fits on rows, labels and arguments with fresh noise, and returns a model.
    X, y : table and labels
        They tell what columns and labels look like. No row of X is fitted; other columns than numbers are copied.
    claim : Claim
        What the fit promises for so many rows.
    groups : array-like of shape (n_samples,), or None
        Whose row it is. Canaries are then persons with as many rows as the largest one, up to 10.
    adjacency : {"zero-out", "add-remove", "replace"}
        The kind of neighbours of the claim. A coin replaces a unit by another one: that is one step under "replace",
        and two under the others, where one unit leaves and another one comes.
    error : float
        The probability that the epsilon is too high.
    seconds : float
        How long the runs may take. One run is made in any case.
    n_canaries : int or None
        None: as many as there are columns, but at least 100 and at most 2,000.
    runs : int
        The largest number of fits. If it is more than 1, one more fit tells how many of them there is time for.
    rng : numpy.random.Generator or None
        The source of coins and canaries.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.8 and 17.9)
    The epsilon is too high with probability at most ``error``, over the coins and the noise of the fits.
    """
    m = int(np.clip(np.shape(X)[1], 100, 2000)) if n_canaries is None else n_canaries
    _require(adjacency, runs, m)
    started, timed = time.monotonic(), runs > 1
    rng = np.random.default_rng() if rng is None else rng
    canaries = Canaries.like(X, y, groups, m, rng)
    if timed:
        runs = _affordable(fit, canaries, runs, seconds, rng)
    seen = [_run(fit, canaries, rng) for _ in range(runs)]
    size = 1 if adjacency == "replace" else 2
    pair = f"{m} {'rows' if groups is None else 'persons'}, each with one of two labels"
    found = _finding(claim, size, seen, error, pair)
    return replace(found, fits=runs + timed, seconds=time.monotonic() - started)


def _finding(claim: Claim, size: int, seen: list[Run], error: float, pair: str) -> Finding:
    proved, refuted, best = _proved(claim, size, seen, error)
    return Finding(
        attack="one run",
        pair=pair,
        epsilon=proved,
        refuted=refuted,
        fits=len(seen),
        seconds=0.0,
        seen=f"{best.right} of {best.made} guesses about {best.coins} coins were right",
        estimate=_estimate(seen, claim.delta, size),
        premise="" if len(seen) == 1 else "the noise of one fit does not depend on that of another",
    )


def _require(adjacency: str, runs: int, m: int) -> None:
    if adjacency not in ("zero-out", "add-remove", "replace"):
        raise ValueError(f"adjacency={adjacency!r} must be 'zero-out', 'add-remove' or 'replace'")
    if runs < 1:
        raise ValueError(f"runs={runs!r} must be at least 1")
    if m < _LEAST_CANARIES:
        raise ValueError(f"n_canaries={m!r} must be at least {_LEAST_CANARIES}: fewer coins prove nothing")


def _proved(claim: Claim, size: int, seen: list[Run], error: float) -> tuple[float, bool, Guesses]:
    """Return the epsilon that runs prove, whether the claim is false, and the guesses that tell most."""
    m, runs = len(seen[0].coins), len(seen)
    sizes = sorted({max(_LEAST_GUESSES, round(share * m)) for share in SHARES})
    guesses = [Guesses(sum(run.right(made) for run in seen), made * runs, m * runs) for made in sizes]
    error /= len(guesses)
    profiles = [one.profile(error) for one in guesses]
    profile = together(profiles)
    like = claim  # tells which guesses say most; other currencies take longer to ask
    if claim.delta > 0:
        like = Claim(claim.epsilon, claim.delta, GaussianDP(), gaussian_mu(claim.epsilon, claim.delta) ** 2)
    alone = [like.least_epsilon(each, size) for each in profiles]
    best = max(range(len(guesses)), key=lambda i: (alone[i], -guesses[i].probability(0.0)))
    joint = Joint(guesses[best], error)
    proved = claim.least_epsilon(profile, size, joint.allows)
    if not isinstance(claim.currency, PureDP | None) and joint.add():
        proved = claim.least_epsilon(profile, size, joint.allows)
    return proved, claim.refuted_by(profile, size, joint.allows), guesses[best]


def _estimate(seen: list[Run], delta: float, size: int) -> float | None:
    """Return the epsilon of a Gaussian mechanism that moves the mean of the scores as far as it was seen to move."""
    pooled = [(run.scores - run.scores.mean()) / (run.scores.std() or 1.0) for run in seen]
    scores, coins = np.concatenate(pooled), np.concatenate([run.coins for run in seen])
    heads, tails = scores[coins], scores[~coins]
    if delta == 0 or min(len(heads), len(tails)) < 2:
        return None
    spread = math.sqrt((heads.var(ddof=1) + tails.var(ddof=1)) / 2)
    mu = (heads.mean() - tails.mean()) / spread / size if spread > 0 else 0.0
    return gaussian_epsilon(delta, mu) if mu > 0 else 0.0


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
    return Run(coins, _scores(model, canaries)[: canaries.n])


def _scores(model: Any, canaries: Canaries) -> Floats:
    """Return how much more the model expects the label for heads of each canary than that for tails."""
    classes = list(model.classes_ if hasattr(model, "classes_") else canaries.labels)
    tails, heads = (classes.index(label) for label in canaries.labels)
    for name in ("decision_function", "predict_log_proba", "predict_proba"):
        if hasattr(model, name):
            with np.errstate(divide="ignore"):  # logarithms of 0
                told = np.clip(np.asarray(getattr(model, name)(canaries.rows), dtype=np.float64), -_SURE, _SURE)
            return told if told.ndim == 1 else told[:, heads] - told[:, tails]
    if not hasattr(model, "predict"):
        raise TypeError(
            f"{type(model).__name__} has no predict: this attacker looks at predictions, so fit a classifier"
        )
    said = np.asarray(model.predict(canaries.rows))
    scores: Floats = (said == canaries.labels[1]).astype(np.float64) - (said == canaries.labels[0])
    return scores
