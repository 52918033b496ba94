"""Conformance of a mechanism."""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import beta, chisquare, kstwo

from ..mechanisms import Mechanism, SeededBits, Sensitivity
from ..privacy import Cost
from .common import ERROR_PROBABILITY, Array, require


def neighbouring_scores(n: int, sensitivity: Sensitivity) -> Iterator[tuple[Array, Array]]:
    """Yield pairs of integer score vectors that neighbours may produce, the worst known for selection among them."""
    step = int(sensitivity.linf)
    for gap in (0, step, 5 * step):
        base = np.full(n, gap, dtype=np.int64)
        base[0] = 0
        one = np.zeros(n, dtype=np.int64)
        one[0] = step
        yield base, base + one
        yield base, base + (step - one)
        if not sensitivity.monotone:
            yield base, base + step - 2 * one


def neighbouring_sums(n: int, sensitivity: Sensitivity) -> Iterator[tuple[Array, Array]]:
    """Yield a pair of integer vectors that neighbours may produce: one entry moves as far as all norms allow."""
    other = np.zeros(n, dtype=np.int64)
    other[0] = int(min(sensitivity.l1, sensitivity.l2, sensitivity.linf))
    yield np.zeros(n, dtype=np.int64), other


def check_mechanism(
    mechanism: Mechanism,
    *,
    sensitivity: Sensitivity,
    neighbours: list[tuple[Array, Array]] | None = None,
    cdf: Callable[[Array], Array] | None = None,
    probabilities: tuple[Array, Array] | None = None,
    draws: int = 4_000,
    seed: int = 0,
) -> float:
    """Check what a mechanism refuses, how it is distributed and, from samples, that it leaks no more than it costs.

    Returns the largest lower bound on epsilon (at delta = 0) that the samples prove, each with error probability
    ``ERROR_PROBABILITY``.

    Parameters
    ----------
    mechanism : Mechanism
        A frozen dataclass whose first field is its strength (larger means less noise).
    sensitivity : Sensitivity
        What to sample it at.
    neighbours : list of pairs of integer arrays, optional
        Worst-case neighbouring values; without them :func:`neighbouring_scores` or :func:`neighbouring_sums`.
    cdf : callable, optional
        For additive noise, independent in every entry: its distribution function, checked by Kolmogorov-Smirnov.
    probabilities : (scores, probabilities), optional
        For a selection: exact probabilities at these scores, checked by chi-square; one more than there are scores if
        it may choose none.
    draws : int
        Samples per distribution.
    """
    require(isinstance(mechanism.cost, Cost), f"{mechanism!r}.cost must be a Cost")
    _check_refusals(mechanism)
    sampled = _Sampled(sensitivity, draws, SeededBits(seed))
    if cdf is not None:
        _check_distribution(mechanism, lambda variant: sampled.has_cdf(variant, cdf))
    elif probabilities is not None:
        _check_distribution(mechanism, lambda variant: sampled.has_probabilities(variant, *probabilities))
    worst = neighbouring_scores(21, sensitivity) if mechanism.selects else neighbouring_sums(3, sensitivity)
    pairs = [pair for one, other in neighbours or worst for pair in ((one, other), (other, one))]
    return max(0.0, *(_epsilon_lower_bound(mechanism, *pair, sampled) for pair in pairs))


def _check_refusals(mechanism: Mechanism) -> None:
    for bad in (math.inf, math.nan, 0.0, -1.0):
        try:
            mechanism.check(Sensitivity(bad, bad, bad))
        except ValueError:
            continue
        require(False, f"{mechanism!r} accepts a sensitivity of {bad}")


def _check_distribution(mechanism: Mechanism, agrees: Callable[[Mechanism], bool]) -> None:
    """Check that a test of the distribution accepts the mechanism, and refuses it at other strengths."""
    require(agrees(mechanism), f"{mechanism!r} does not have the stated distribution")
    strength = dataclasses.fields(mechanism)[0].name  # type: ignore[arg-type]
    for factor in (2 / 3, 3 / 2):
        changed = {strength: getattr(mechanism, strength) * factor}
        variant = dataclasses.replace(mechanism, **changed)  # type: ignore[type-var]
        weak = f"{mechanism!r}: the distribution test is too weak to tell it from {variant!r}"
        require(not agrees(variant), weak)


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """So many draws at a sensitivity, and tests of their distribution."""

    sensitivity: Sensitivity
    draws: int
    bits: SeededBits

    def __call__(self, mechanism: Mechanism, value: Array) -> Array:
        return np.array([np.ravel(mechanism(value, self.sensitivity, self.bits)) for _ in range(self.draws)])

    def has_cdf(self, mechanism: Mechanism, cdf: Callable[[Array], Array]) -> bool:
        noise = np.asarray(mechanism(np.zeros(self.draws, dtype=np.int64), self.sensitivity, self.bits), dtype=float)
        # at the steps of the sample only: right for continuous noise, on the safe side for noise on a grid
        values, counts = np.unique(noise, return_counts=True)
        distance = np.abs(np.cumsum(counts) / self.draws - cdf(values)).max()
        return bool(kstwo.sf(distance, self.draws) > ERROR_PROBABILITY)

    def has_probabilities(self, mechanism: Mechanism, scores: Array, expected: Array) -> bool:
        counts = np.bincount(self(mechanism, scores)[:, 0], minlength=len(expected))
        rare = expected * self.draws < 5
        observed = np.append(counts[~rare], counts[rare].sum())
        wanted = np.append(expected[~rare], expected[rare].sum()) * self.draws
        keep = wanted > 0
        require(observed[~keep].sum() == 0, "an impossible index was chosen")
        wanted *= self.draws / wanted.sum()
        return bool(chisquare(observed[keep], wanted[keep]).pvalue > ERROR_PROBABILITY)


def _epsilon_lower_bound(mechanism: Mechanism, value: Array, neighbour: Array, sampled: _Sampled) -> float:
    """Sample two neighbours; raise if some event proves the cost too low; return the epsilon proved at delta = 0."""
    samples = [sampled(mechanism, v) for v in (value, neighbour)]
    if not mechanism.selects:  # what matters is the projection on the difference
        direction = (value - neighbour).astype(float).ravel()
        samples = [s @ direction for s in samples]
        cuts = np.quantile(np.concatenate(samples), [0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
        counts = [np.array([(s > c).sum() for c in cuts]) for s in samples]
    else:
        counts = [np.bincount(s[:, 0], minlength=len(value) + 1) for s in samples]  # one more: none of them
    total = len(samples[0])
    level = ERROR_PROBABILITY / 2
    low = beta.ppf(level, counts[0], total - counts[0] + 1)
    high = beta.ppf(1 - level, counts[1] + 1, total - counts[1])
    low = np.where(counts[0] == 0, 0.0, low)
    high = np.where(counts[1] == total, 1.0, high)
    cost = mechanism.cost
    scale = cost.epsilon if math.isfinite(cost.epsilon) else math.sqrt(2 * cost.rho)
    for epsilon in (0.0, scale / 4, scale / 2, scale, 2 * scale):
        excess = float((low - math.exp(epsilon) * high).max())
        require(
            excess <= cost.delta(epsilon),
            f"{mechanism!r} is not as private as {cost!r}: some event has delta >= {excess:.3g} at epsilon = "
            f"{epsilon:.3g} (log-ratio >= {math.log(max(float((low / high).max()), 1e-300)):.3g})",
        )
    return max(0.0, math.log(max(float((low / high).max()), 1e-300)))
