"""Private choice: exact probabilities against samples, and exact probabilities of neighbours against the cost.

The oracles are sums and integrals over the noise, not samples. Statistical tests have fixed seeds, fail a correct
mechanism with probability ``ERROR`` and must reject 2/3 and 3/2 of the strength.
"""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare

from dpsk.mechanisms import ArgMin, NoisyMin, PermuteAndFlip, SeededBits, Sensitivity
from dpsk.mechanisms.samplers import discrete_laplace
from dpsk.mechanisms.selection import _Exponents
from dpsk.privacy import BoundedRangeCost, GaussianCost, PureCost
from dpsk.testing import check_mechanism, neighbouring_scores

ERROR = 1e-9
"""Probability that one comparison of a correct mechanism fails."""

ROUNDING = 1e-9
"""Slack for logarithms of probabilities that are sums of floats."""


def linf(bound, monotone):
    return Sensitivity(math.inf, math.inf, bound, monotone)


# ---------------------------------------------------------------------------------------- exact probabilities


def softmax(scores, eta, reach):
    """The exponential mechanism, by definition."""
    gaps = np.array([float(s - min(scores)) for s in scores])
    weights = np.exp(-eta * gaps / reach)
    return weights / weights.sum()


def flips(scores, epsilon, reach):
    """Permute-and-flip, by enumeration of all orders."""
    heads = [math.exp(-epsilon * (s - min(scores)) / reach) for s in scores]
    probabilities = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        alive = 1.0
        for i in order:
            probabilities[i] += alive * heads[i]
            alive *= 1 - heads[i]
    return probabilities / math.factorial(len(scores))


def flips_of_many(scores, epsilon, reach):
    """The same for many scores: entry i comes at a uniform time t, and nobody before it showed heads.

    The integral over t of prod_j (1 - t heads_j), j != i, by Gauss-Legendre, which is exact for this degree.
    """
    heads = np.array([math.exp(-epsilon * (s - min(scores)) / reach) for s in scores])
    nodes, weights = np.polynomial.legendre.leggauss(len(scores))
    times, weights = (nodes + 1) / 2, weights / 2
    return np.array(
        [heads[i] * weights @ np.prod(1 - np.outer(times, np.delete(heads, i)), axis=1) for i in range(len(scores))]
    )


def noisy(scores, epsilon, reach, noise, sign=-1):
    """P(score_i + sign * noise_i is the smallest, the first of equals): a sum over the noise of entry i."""
    scale = math.ceil(reach / epsilon)
    last = 45 * scale + max(scores) - min(scores)
    decay = math.exp(-1 / scale)

    def above(t):
        """P(noise >= t)."""
        if noise == "exponential":
            return decay ** np.maximum(t, 0)
        upper = decay ** np.maximum(t, 1) / (1 + decay)
        return np.where(t >= 1, upper, 1 - decay ** np.maximum(1 - t, 1) / (1 + decay))

    k = np.arange(0 if noise == "exponential" else -last, last + 1)
    mass = above(k) - above(k + 1)
    probabilities = []
    for i, own in enumerate(scores):
        total = mass.copy()
        for j, other in enumerate(scores):
            if j < i:  # must stay strictly above
                total *= 1 - above(other - own + k) if sign < 0 else above(own - other + k + 1)
            elif j > i:
                total *= 1 - above(other - own + k + 1) if sign < 0 else above(own - other + k)
        probabilities.append(total.sum())
    return np.array(probabilities)


def exact_probabilities(mechanism, scores, reach):
    scores = [int(s) for s in scores]
    if isinstance(mechanism, ArgMin):
        return softmax(scores, mechanism.eta, reach)
    if isinstance(mechanism, PermuteAndFlip):
        return (flips if len(scores) <= 6 else flips_of_many)(scores, mechanism.epsilon, reach)
    return noisy(scores, mechanism.epsilon, reach, mechanism.noise)


def strengthened(mechanism, factor):
    name = "eta" if isinstance(mechanism, ArgMin) else "epsilon"
    return replace(mechanism, **{name: getattr(mechanism, name) * factor})


def p_value(counts, probabilities):
    expected = probabilities * counts.sum()
    assert not counts[probabilities == 0].any()
    rare = expected < 10
    counts, expected = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    return chisquare(counts, expected * (counts.sum() / expected.sum())).pvalue if len(counts) > 1 else 1.0


def sample(mechanism, scores, sensitivity, n=2500, seed=0):
    bits = SeededBits(seed)
    scores = np.array(scores, dtype=np.int64)
    return np.bincount([mechanism(scores, sensitivity, bits) for _ in range(n)], minlength=len(scores))


@pytest.mark.parametrize("strength", [0.1, 1.0, 5.0])
def test_the_oracles_agree_with_each_other(strength):
    scores = [3, 0, 1, 7]
    assert flips(scores, strength, 4) == pytest.approx(flips_of_many(scores, strength, 4), abs=1e-13)
    for noise in ("laplace", "exponential"):
        assert noisy(scores, strength, 4, noise).sum() == pytest.approx(1, abs=1e-12)
    assert flips(scores, strength, 4).sum() == pytest.approx(1, abs=1e-13)


# ---------------------------------------------------------------------------- samples have these probabilities

MECHANISMS = [ArgMin(1.5), PermuteAndFlip(1.5), NoisyMin(1.5, "laplace"), NoisyMin(1.5, "exponential")]

LINE = [(7 * i) % 21 + (i - 4) ** 2 // 3 for i in range(21)]  # 21 scores without order, with ties


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    ("scores", "bound"),
    [
        ([0, 2, 1, 5], 3.0),
        ([-4, -9], 4),  # negative, two entries
        ([1, 0], 1.0),  # the smallest scale of the noise
        ([6, 6, 0, 6, 6], 8.0),
        (LINE, 20.0),
    ],
    ids=["four", "negative", "unit", "ties", "line"],
)
def test_choices_have_the_exact_probabilities(mechanism, monotone, scores, bound):
    """With general scores the reach, and with it the noise, is twice the sensitivity."""
    counts = sample(mechanism, scores, linf(bound, monotone))
    assert p_value(counts, exact_probabilities(mechanism, scores, bound if monotone else 2 * bound)) > ERROR


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
def test_other_strengths_are_rejected(mechanism, monotone):
    """2/3 and 3/2 of the strength, and the reach of the other kind of scores."""
    scores, bound = [0, 120, 140, 200, 150], 90.0
    counts = sample(mechanism, scores, linf(bound, monotone), n=8000)
    reach = bound if monotone else 2 * bound
    assert p_value(counts, exact_probabilities(mechanism, scores, reach)) > ERROR
    assert p_value(counts, exact_probabilities(mechanism, scores, 3 * bound - reach)) < ERROR
    for factor in (2 / 3, 3 / 2):
        assert p_value(counts, exact_probabilities(strengthened(mechanism, factor), scores, reach)) < ERROR


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.05, 0.5, 2.0, 8.0])
@pytest.mark.parametrize(
    ("scores", "bound"),
    [
        ([2**45, 0, 2**46, 2**45 + 1], 2.0**45),
        ([2**61, -(2**61), 0], 2.0**60),
        ([0, 2**45, 1], 1.0),  # the second must never be chosen
        ([3 * i for i in range(21)], 11.7),
        (LINE, 0.3),
    ],
    ids=["2^45", "2^61", "impossible", "21", "below one"],
)
def test_argmin_is_the_softmax(eta, scores, bound):
    counts = sample(ArgMin(eta), scores, linf(bound, True))
    assert p_value(counts, softmax(scores, eta, bound)) > ERROR


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ArgMin, PermuteAndFlip])
def test_close_coins_are_exact_in_selection(monkeypatch, kind):
    """Sent to rational arithmetic, every coin keeps its exponent: scores reordered, gaps beyond 2^53."""
    monkeypatch.setattr("dpsk.mechanisms.samplers._BAND", 2.0)
    scores = [2**58 + 2**57, 2**58, 2**58 + 1, 2**58 + 2**56]
    counts = sample(kind(1.0), scores, linf(2.0**57, True), n=2500)
    right = exact_probabilities(kind(1.0), scores, 2**57)
    assert p_value(counts, right) > ERROR
    assert p_value(counts, right[[1, 0, 3, 2]]) < ERROR


def test_the_exact_exponent_keeps_every_digit():
    """What decides a close coin is eta * gap / reach itself, also where gap and reach fit into no float."""
    scores = np.array([2**60 + 3, 2, 2**54 + 5])
    exponents = _Exponents(scores, 0.1, 3.7)
    for i, gap in enumerate([2**60 + 1, 0, 2**54 + 3]):
        exact = gap * Fraction(0.1) / Fraction(3.7)
        assert exponents.exact(i)(53) == (exact, exact)
        assert exponents.floats[i] == pytest.approx(float(exact), rel=2.0**-50)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_equal_scores_are_equally_likely(mechanism):
    """Up to the rule of NoisyMin, which gives equal noisy scores to the lowest index: no matter on a fine grid."""
    counts = sample(mechanism, [5] * 7, linf(2.0**40, True), n=4000)
    assert chisquare(counts).pvalue > ERROR


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_one_score_is_always_chosen(mechanism):
    assert sample(mechanism, [-3], linf(1.0, False), n=50).tolist() == [50]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_order_of_entries_does_not_matter(mechanism):
    """A chosen entry is named by its place in the vector that was given."""
    scores = [900, 900, 0, 900]
    assert sample(mechanism, scores, linf(8.0, True), n=100).tolist() == [0, 0, 100, 0]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_choice_is_an_int_and_leaves_the_scores_alone(mechanism):
    scores = np.array([4, 1, 9])
    assert type(mechanism(scores, linf(2.0, True), SeededBits(0))) is int
    assert scores.tolist() == [4, 1, 9]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("bound", [np.int64(1_000_003), np.uint8(200), np.float32(200)], ids=repr)
def test_numpy_sensitivities_mean_what_python_numbers_mean(mechanism, bound):
    """Fixed-width integers must not wrap around inside exact fractions, or in twice the sensitivity."""
    weak = strengthened(mechanism, 0.1 / 1.5)
    scores = np.arange(21) * int(bound)
    weak.check(linf(bound, False))
    bits, same_bits = SeededBits(1), SeededBits(1)
    chosen = [weak(scores, linf(bound, False), bits) for _ in range(20)]
    assert chosen == [weak(scores, linf(float(bound), False), same_bits) for _ in range(20)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_gaps_beyond_64_bits_do_not_wrap_around(mechanism):
    """Scores that are 64-bit integers may differ by more than one holds: refused, or chosen as they should be."""
    scores, sensitivity = np.array([2**62, -(2**62)]), linf(2.0**40, True)
    bits = SeededBits(2)
    try:
        chosen = {mechanism(scores, sensitivity, bits) for _ in range(50)}
    except ValueError:
        return
    assert chosen == {1}


def test_permute_and_flip_is_exponential_noise():
    """Equal on a fine grid (Ding et al. 2021); on a coarse grid ties make the difference."""
    scores = [0, 700, 1500, 300]
    for epsilon in (0.3, 1.0, 4.0):
        assert noisy(scores, epsilon, 2**10, "exponential") == pytest.approx(flips(scores, epsilon, 2**10), abs=4e-3)
    fine = [2**4 * s for s in scores]
    assert noisy(fine, 1.0, 2**14, "exponential") == pytest.approx(flips(fine, 1.0, 2**14), abs=2e-4)


# -------------------------------------------------------------------------- exact privacy over worst-case pairs

STEP = 2
"""Sensitivity of the integer scores below, in grid units."""


def neighbours(n, monotone, far):
    """Score vectors around every pattern of gaps, and every step one row can cause."""
    steps = (0, STEP) if monotone else (-STEP, 0, STEP)
    for gaps in itertools.product((0, 1, STEP, far), repeat=n):
        if min(gaps) == 0:
            for change in itertools.product(steps, repeat=n):
                yield gaps, tuple(g + c for g, c in zip(gaps, change, strict=True))


def log_probabilities_and_ratios(mechanism, n, monotone):
    """Exact log-probabilities and the log-ratios to them of a neighbour, one row per ordered pair."""
    reach = STEP if monotone else 2 * STEP
    far = math.ceil(10 * STEP / mechanism.cost.epsilon)  # an entry this far behind is chosen rarely
    logs: dict[tuple, np.ndarray] = {}

    def log_p(scores):
        key = tuple(s - min(scores) for s in scores)  # all mechanisms see differences only
        if key not in logs:
            logs[key] = np.log(exact_probabilities(mechanism, key, reach))
        return logs[key]

    one, other = np.array([(log_p(a), log_p(b)) for a, b in neighbours(n, monotone, far)]).transpose(1, 0, 2)
    return np.vstack([one, other]), np.vstack([other - one, one - other])


def log_ratios(mechanism, n, monotone):
    return log_probabilities_and_ratios(mechanism, n, monotone)[1]


STRENGTHS = [0.25, 1.0, 2.0]  # STEP / strength is an integer: no noise is added by rounding the scale up


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("n", [2, 3])
def test_neighbours_are_within_epsilon(mechanism, strength, monotone, n):
    """No pair of neighbours exceeds exp(epsilon), and some pair comes near it."""
    mechanism = strengthened(mechanism, strength / 1.5)
    worst = log_ratios(mechanism, n, monotone).max()
    claimed = mechanism.cost.epsilon
    assert claimed == pytest.approx(strength)
    assert 0.7 * claimed < worst <= claimed + ROUNDING


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_half_the_reach_would_not_be_private(mechanism, monotone):
    """The test above has teeth: at twice the strength some pair exceeds the claim."""
    strong = strengthened(mechanism, 2.0)
    assert log_ratios(strong, 2, monotone).max() > 1.1 * mechanism.cost.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("strength", [0.2, 1.0])
def test_neighbours_of_21_scores_are_within_epsilon(mechanism, monotone, strength):
    mechanism = strengthened(mechanism, strength / 1.5)
    for step in (1, 4):
        reach = step if monotone else 2 * step
        for a, b in neighbouring_scores(21, linf(float(step), monotone)):
            p, q = exact_probabilities(mechanism, a, reach), exact_probabilities(mechanism, b, reach)
            assert np.abs(np.log(p / q)).max() <= mechanism.cost.epsilon + ROUNDING


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("eta", [0.05, 1.0, 4.0])
def test_argmin_has_bounded_range(monotone, eta):
    """The log-ratios of one pair span at most eta, and some pair spans all of it."""
    for n in (2, 3, 4):
        spans = np.ptp(log_ratios(ArgMin(eta), n, monotone), axis=1)
        assert eta * (1 - 1e-9) <= spans.max() <= eta + ROUNDING


ORDERS = np.array([1.001, 1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0, 1000.0])


def divergences(mechanism, n, monotone):
    """Renyi divergences of all ordered pairs of neighbours at all orders, from exact probabilities."""
    log_p, ratios = log_probabilities_and_ratios(mechanism, n, monotone)
    exponents = log_p[:, None] + (1 - ORDERS)[None, :, None] * ratios[:, None]
    return logsumexp(exponents, axis=2) / (ORDERS - 1)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("strength", STRENGTHS)
def test_the_renyi_cost_covers_the_exact_divergence(mechanism, monotone, strength):
    mechanism = strengthened(mechanism, strength / 1.5)
    worst = np.vstack([divergences(mechanism, n, monotone) for n in (2, 3)]).max(axis=0)
    assert (worst <= [mechanism.cost.rdp(order) + ROUNDING for order in ORDERS]).all()
    assert (worst / ORDERS).max() <= mechanism.cost.rho + ROUNDING


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("eta", [0.05, 0.5, 1.0, 4.0])
def test_argmin_costs_an_eighth_of_eta_squared(monotone, eta):
    """For small eta two equal scores nearly attain it."""
    worst = (divergences(ArgMin(eta), 2, monotone) / ORDERS).max()
    assert (0.97 if eta <= 0.5 else 0.7) * eta**2 / 8 < worst <= eta**2 / 8 * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("strength", STRENGTHS)
def test_the_delta_and_the_gaussian_cost_cover_the_exact_divergence(mechanism, monotone, strength):
    """Hockey-stick divergence of all pairs against delta(epsilon) and against that of mu-GDP."""
    mechanism = strengthened(mechanism, strength / 1.5)
    log_p, ratios = log_probabilities_and_ratios(mechanism, 3, monotone)
    p, q = np.exp(log_p), np.exp(log_p + ratios)
    for epsilon in strength * np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1]):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum(axis=1).max()
        assert exact <= mechanism.cost.delta(epsilon) + ROUNDING
        assert exact <= GaussianCost(mechanism.cost.mu).delta(epsilon) + ROUNDING


def test_costs_name_what_the_mechanisms_promise():
    assert ArgMin(0.6).cost == BoundedRangeCost(0.6)
    assert ArgMin(0.6).cost.rho == pytest.approx(0.6**2 / 8)
    assert PermuteAndFlip(0.6).cost == PureCost(0.6)
    assert NoisyMin(0.6).cost == NoisyMin(0.6, "exponential").cost == PureCost(0.6)


def test_permute_and_flip_is_not_bounded_range():
    """Why it pays the price of pure DP: its log-ratios span more than epsilon."""
    assert np.ptp(log_ratios(PermuteAndFlip(1.0), 3, True), axis=1).max() > 1.2


# ------------------------------------------------------------------------------------------- planted mistakes


@dataclass(frozen=True)
class AddedNoise(NoisyMin):
    """Exponential noise with the wrong sign: added to a score that is to be small."""

    def __call__(self, value, sensitivity, bits):
        noise = discrete_laplace(math.ceil(sensitivity.linf / self.epsilon), len(value), bits, one_sided=True)
        return int(np.argmin(value + noise))


@pytest.mark.slow
def test_noise_of_the_wrong_sign_is_not_private():
    """At a claimed 0.1 and 21 scores the exact log-ratio is about 2; subtracted, the same noise keeps 0.1."""
    a, b = [0] * 21, [100] + [0] * 20
    wrong, right = (
        np.abs(np.log(noisy(a, 0.1, 100, "exponential", sign) / noisy(b, 0.1, 100, "exponential", sign))).max()
        for sign in (1, -1)
    )
    assert wrong == pytest.approx(2.0, abs=0.02)
    assert right <= 0.1 + ROUNDING
    counts = sample(AddedNoise(0.1, "exponential"), b, linf(100.0, True))
    assert p_value(counts, noisy(b, 0.1, 100, "exponential", sign=1)) > ERROR  # the oracle describes this mistake


@pytest.mark.slow
def test_check_mechanism_catches_noise_of_the_wrong_sign():
    with pytest.raises(AssertionError, match="is not as private as"):
        check_mechanism(AddedNoise(0.1, "exponential"), sensitivity=linf(1000.0, True))


@dataclass(frozen=True)
class CarelessArgMin(ArgMin):
    def __call__(self, value, sensitivity, bits):
        return super().__call__(value, replace(sensitivity, monotone=True), bits)


@dataclass(frozen=True)
class CarelessFlip(PermuteAndFlip):
    def __call__(self, value, sensitivity, bits):
        return super().__call__(value, replace(sensitivity, monotone=True), bits)


@dataclass(frozen=True)
class CarelessNoisyMin(NoisyMin):
    def __call__(self, value, sensitivity, bits):
        return super().__call__(value, replace(sensitivity, monotone=True), bits)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CarelessArgMin, CarelessFlip, CarelessNoisyMin])
def test_check_mechanism_catches_general_scores_taken_for_monotone(kind):
    sensitivity = linf(1000.0, False)
    pairs = [(a, b) for a, b in neighbouring_scores(21, sensitivity) if (b - a).min() < 0 < (b - a).max()]
    with pytest.raises(AssertionError, match="is not as private as"):
        check_mechanism(kind(1.0), sensitivity=sensitivity, neighbours=pairs, draws=3000)


# ------------------------------------------------------------------------------------------------- contracts


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("bad", [math.inf, math.nan, 0.0, -1.0])
def test_unbounded_or_empty_sensitivities_are_refused(mechanism, bad):
    for refuse in (mechanism.check, lambda s: mechanism(np.zeros(3, dtype=np.int64), s, SeededBits(0))):
        with pytest.raises(ValueError, match=r"linf sensitivity .* needs a query with a positive finite bound"):
            refuse(Sensitivity(1.0, 1.0, bad))


def test_noise_beyond_the_grid_is_refused_before_anything_is_charged():
    """Twice the sensitivity counts for general scores."""
    NoisyMin(1.0).check(linf(2.0**56, True))
    for bound, monotone in ((2.0**57, True), (2.0**56, False)):
        with pytest.raises(ValueError, match=r"needs noise beyond 2\*\*56 grid units"):
            NoisyMin(1.0).check(linf(bound, monotone))


@pytest.mark.parametrize("noise", ["gumbel", "", None, "Laplace"])
def test_other_noise_is_refused(noise):
    with pytest.raises(ValueError, match="must be 'laplace' or 'exponential'"):
        NoisyMin(1.0, noise)
