"""Exact sampling: every decision is the one that infinitely many bits would give, and distributions are as stated.

Statistical tests draw from fixed seeds and fail a correct sampler with probability ``ERROR``. Each of them also has
to reject noise that is 2/3 or 3/2 as large, so that none passes for lack of power.
"""

import decimal
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binomtest, chi2, chi2_contingency, chisquare, expon, kstest, laplace, norm

from dpsk.mechanisms import SeededBits, staircase
from dpsk.mechanisms import samplers as exact
from dpsk.mechanisms.samplers import (
    MAX_SCALE,
    bernoulli_exp,
    coins,
    discrete_laplace,
    exactly,
    geometric,
    permutation,
    poisson_sample,
    sample_without_replacement,
    uniform_below,
)
from dpsk.mechanisms.staircase import rounded_gaussian

ERROR = 1e-9
"""Probability that one comparison of a correct sampler fails."""

WORD = 2**64


class Scripted:
    """Bits that return these 64-bit words in turn, and fail when they run out."""

    private = False

    def __init__(self, words):
        self._words = iter(words)

    def take(self, n_bytes):
        assert n_bytes % 8 == 0
        return b"".join(next(self._words).to_bytes(8, "little") for _ in range(n_bytes // 8))


def p_value(draws, pmf, reach):
    """Chi-square p-value of integer draws; neighbouring integers are merged to cells of at least 1/200 of the draws."""
    assert np.abs(draws).max() <= reach
    expected = pmf(np.arange(-reach, reach + 1)) * len(draws)
    assert math.isclose(expected.sum(), len(draws), rel_tol=1e-9)
    width = max(20, len(draws) / 200)
    cell = np.minimum(np.cumsum(expected) // width, expected.sum() // width - 1)
    _, cell = np.unique(cell, return_inverse=True)
    counts = np.bincount(cell, np.bincount(draws + reach, minlength=2 * reach + 1))
    expected = np.bincount(cell, expected)
    assert not counts[expected == 0].any()
    counts, expected = counts[expected > 0], expected[expected > 0]
    return chisquare(counts, expected * (len(draws) / expected.sum())).pvalue


def laplace_pmf(scale):
    return lambda k: math.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)


def geometric_pmf(scale):
    return lambda k: np.where(k >= 0, -math.expm1(-1 / scale) * np.exp(-np.maximum(k, 0) / scale), 0.0)


def gaussian_pmf(sigma):
    """P(k - 1/2 < N(0, sigma^2) < k + 1/2), from the lower tail, where differences keep their digits."""

    def pmf(k):
        low, high = -np.abs(k) - 0.5, -np.abs(k) + 0.5
        return ndtr(high / sigma) - ndtr(low / sigma)

    return pmf


SAMPLERS = {
    "laplace": (discrete_laplace, laplace_pmf, 45),
    "one-sided": (lambda s, n, bits: discrete_laplace(s, n, bits, one_sided=True), geometric_pmf, 45),
    "gaussian": (rounded_gaussian, gaussian_pmf, 14),
}
"""Sampler, its exact probabilities at a scale, and how many scales hold all but 1e-19 of them."""


def check_distribution(kind, scale, draws):
    """Assert that the draws have this scale, and that 2/3 or 3/2 of it would not pass."""
    _, pmf, width = SAMPLERS[kind]
    reach = math.ceil(1.5 * width * scale) + 5
    assert p_value(draws, pmf(scale), reach) > ERROR
    assert p_value(draws, pmf(scale * 2 / 3), reach) < ERROR
    assert p_value(draws, pmf(scale * 3 / 2), reach) < ERROR


# ------------------------------------------------------------------------------------------- exact decisions


def exp_minus(x: Fraction):
    return mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)


EXPONENTS = [
    Fraction(0),
    Fraction(1, 2**60),
    Fraction(1, 10**6),
    Fraction(1, 3),
    Fraction(1),
    Fraction(10**17 + 1, 10**17),
    Fraction(7, 2),
    Fraction(2**56 - 1, 2**52),
    Fraction(367, 10),  # exp(-x) is about 2^-53
    Fraction(40),
    Fraction(700),
]


@pytest.mark.parametrize("exponent", EXPONENTS, ids=str)
def test_a_close_coin_is_decided_by_further_bits(exponent):
    """Uniform numbers that share 53, 117 or 181 bits with exp(-x), and their neighbours, fall on the right side."""
    with mpmath.workprec(500):
        p = exp_minus(exponent)
        first = int(mpmath.floor(p * 2**53))
        second = int(mpmath.floor(p * 2**117)) % WORD
        third = int(mpmath.floor(p * 2**181)) % WORD
        seen = set()
        for start, more, rest in itertools.product(
            range(first - 2, first + 3),
            (0, second - 1, second, second + 1, WORD - 1),
            (0, third - 1, third + 1, WORD - 1),
        ):
            if not (0 <= start < 2**53 and 0 <= more < WORD and 0 <= rest < WORD):
                continue
            uniform = mpmath.mpf((start * WORD + more) * WORD + rest) / mpmath.mpf(2) ** 181
            bits = Scripted([start << 11, more, rest, *[0] * 20])
            heads = bernoulli_exp(np.array([float(exponent)]), lambda _: exactly(exponent), bits)
            assert bool(heads[0]) == (uniform < p)
            seen.add(bool(heads[0]))
    assert seen == ({True} if exponent == 0 else {True, False})


@pytest.mark.parametrize(("level", "height"), [(0, 5), (3, 200), (150, 200), (199, 200), (0, 2**70)])
@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(1, 256), Fraction(9, 2)], ids=str)
def test_a_coin_of_a_taller_curve_is_decided_by_further_bits(exponent, level, height):
    """Heads if level + U < height exp(-x), cut to [0, 1]: U that shares 53 or 117 bits, its neighbours, both ends."""
    with mpmath.workprec(600):
        p = min(max(height * exp_minus(exponent) - level, 0), 1)
        first, second = int(mpmath.floor(p * 2**53)), int(mpmath.floor(p * 2**117)) % WORD
        for start, more in itertools.product(
            {0, 2**53 - 1, *range(first - 2, first + 3)}, (0, second - 1, second, second + 1, WORD - 1)
        ):
            if not (0 <= start < 2**53 and 0 <= more < WORD):
                continue
            uniform = mpmath.mpf(start * WORD + more) / mpmath.mpf(2) ** 117
            bits = Scripted([start << 11, more, *[1] * 20])
            (heads,) = bernoulli_exp(
                np.array([float(exponent)]), lambda _: exactly(exponent), bits, level=level, height=float(height)
            )
            assert bool(heads) == (uniform < p)


@pytest.mark.parametrize(("level", "height"), [(0, 1), (150, 200)])
def test_wide_brackets_of_an_exponent_decide_nothing_too_early(level, height):
    """Brackets that close slowly: coins between what both ends say wait for further digits."""
    exponent = Fraction(1, 7)
    with mpmath.workprec(600):
        p = height * exp_minus(exponent) - level
        for width, shift in itertools.product((12, 20), (-(2**22), -(2**15), -3000, -1, 0, 1, 3000, 2**15, 2**22)):
            start = int(mpmath.floor(p * 2**53)) + shift
            for low, high in ((0, 1), (1, 0), (1, 1)):

                def refine(length, low=low, high=high, width=width):
                    return exponent - Fraction(low, 2 ** (length - width)), exponent + Fraction(
                        high, 2 ** (length - width)
                    )

                heads = exact._decide(level * 2**53 + start, height, refine, Scripted([0] * 9))
                assert heads == (start < p * 2**53)


@pytest.mark.parametrize("level_height", [(0, 1), (200, 200), (201, 200), (199, 200)])
def test_levels_and_heights_are_rounded_by_far_less_than_the_band(level_height):
    """(level + U)/height as a float, for the first 53 digits of U, is within 2^-50 of both ends of U."""
    level, height = level_height
    for uniform in (0, 1, 2**52 + 1, 2**53 - 1, *np.random.default_rng(26).integers(2**53, size=200).tolist()):
        value = Fraction(float((level + np.uint64(uniform) * 2.0**-53) / float(height)))
        for end in (uniform, uniform + 1):
            assert abs(value - (level + Fraction(end, 2**53)) / height) < Fraction(1, 2**50)


@pytest.mark.parametrize("exponent", [10**6, 10**30])
def test_a_hopeless_coin_shows_tails(exponent):
    """exp(-x) is zero to thousands of digits; the first 53 bits of the uniform number are zero as well."""
    heads = bernoulli_exp(np.array([float(exponent)]), lambda _: exactly(Fraction(exponent)), Scripted([0, 0, 5]))
    assert not heads[0]


def test_slow_and_fast_decisions_agree_with_high_precision(monkeypatch):
    """The same words give the same coins, whether floats decide or only where rational arithmetic does."""
    rng = np.random.default_rng(0)
    n = 3000
    exponents = [Fraction(int(a), int(b)) for a, b in rng.integers(1, 2**40, size=(n, 2))]
    floats = np.array([float(x) for x in exponents])
    coins = []
    for band in (exact._BAND, 0.25, 2.0):
        monkeypatch.setattr(exact, "_BAND", band)
        coins.append(bernoulli_exp(floats, lambda k: exactly(exponents[k]), SeededBits(1)))
    uniform = np.frombuffer(SeededBits(1).take(8 * n), dtype="<u8") >> np.uint64(11)
    with mpmath.workprec(200):
        right = [mpmath.mpf(int(u)) / 2**53 < exp_minus(x) for u, x in zip(uniform, exponents, strict=True)]
    for heads in coins:
        assert heads.tolist() == right
    assert 0.1 < np.mean(right) < 0.9


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("band", [0.25, 2.0])
@pytest.mark.parametrize(("kind", "scale", "n"), [("laplace", 3, 8000), ("one-sided", 64, 8000), ("gaussian", 3, 6000)])
def test_the_slow_path_alone_has_the_same_distribution(monkeypatch, band, kind, scale, n):
    monkeypatch.setattr(exact, "_BAND", band)
    check_distribution(kind, scale, SAMPLERS[kind][0](scale, n, SeededBits(2)))


def test_the_slow_path_is_what_a_wide_band_tests(monkeypatch):
    """A wide band sends every coin to rational arithmetic, the usual one practically none."""
    calls = []
    decide = exact._decide
    monkeypatch.setattr(exact, "_decide", lambda *args: calls.append(1) or decide(*args))
    rounded_gaussian(64, 5000, SeededBits(3))
    discrete_laplace(64, 5000, SeededBits(3))
    assert not calls
    monkeypatch.setattr(exact, "_BAND", 2.0)
    rounded_gaussian(64, 5000, SeededBits(3))
    assert 100 < len(calls) < 300  # one place of thirty has a coin
    discrete_laplace(64, 100, SeededBits(3))
    assert len(calls) > 500


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1, 3, 320, 2**20 + 1, 2**55 - 1, MAX_SCALE])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_floats_are_off_by_far_less_than_the_band(monkeypatch, kind, scale):
    """Every coin's float exponent is that of its exact brackets: probabilities within 2^-49, band 2^-44.

    The brackets hold all numbers that start with the digits known; both ends must be that close.
    """
    coins = []
    toss = exact.bernoulli_exp

    def record(exponent, refine, bits, **scales):
        coins.extend((exponent[i], refine(i)(53)) for i in range(len(exponent)))
        return toss(exponent, refine, bits, **scales)

    for module in (exact, staircase):
        monkeypatch.setattr(module, "bernoulli_exp", record)
    SAMPLERS[kind][0](scale, 20_000 if kind == "gaussian" else 300, SeededBits(15))
    assert exact._BAND == 2.0**-44
    assert len(coins) > 600
    with mpmath.workprec(200):
        for exponent, brackets in coins:
            assert brackets[0] <= brackets[1]
            assert all(abs(mpmath.mpf(float(np.exp(-exponent))) - exp_minus(end)) < 2.0**-49 for end in brackets)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    exponent=st.one_of(st.fractions(0, 200), st.fractions(0, Fraction(1, 2**40)), st.integers(0, 10**9).map(Fraction)),
    length=st.sampled_from([53, 117, 181, 1013]),
)
def test_scaled_exp_is_off_by_at_most_one(exponent, length):
    with mpmath.workprec(length + 200):
        right = int(mpmath.floor(exp_minus(exponent) * mpmath.mpf(2) ** length))
    assert abs(exact._scaled_exp(exponent, length) - right) <= 1


@pytest.mark.parametrize(
    "settings_of_the_caller",
    [
        {"traps": [decimal.Inexact, decimal.Rounded]},
        {"Emin": -10, "Emax": 10, "traps": []},
        {"rounding": decimal.ROUND_UP},
    ],
    ids=["traps", "exponents", "rounding"],
)
def test_the_decimal_context_of_the_caller_does_not_matter(settings_of_the_caller):
    """An application may have changed its decimal context; coins must neither fail nor change."""
    with mpmath.workprec(400):
        right = int(mpmath.floor(mpmath.exp(-40) * 2**117))
    with decimal.localcontext(decimal.Context(**settings_of_the_caller)):
        assert abs(exact._scaled_exp(Fraction(40), 117) - right) <= 1


# ---------------------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 21, 2**6, 2**10])
def test_uniform_below_is_uniform(bound):
    draws = uniform_below(bound, 100_000, SeededBits(4))
    assert draws.dtype == np.int64
    counts = np.bincount(draws, minlength=bound)
    assert len(counts) == bound
    if bound > 1:
        assert chisquare(counts).pvalue > ERROR


@pytest.mark.parametrize("bound", [2**62, 2**62 - 1, 2**61 + 1, 3 * 2**60, 10**18])
def test_uniform_below_reaches_its_whole_range(bound):
    draws = uniform_below(bound, 50_000, SeededBits(5))
    assert draws.min() >= 0
    assert draws.max() < bound
    assert kstest(draws / bound, "uniform").pvalue > ERROR
    assert kstest(draws / bound * 0.95, "uniform").pvalue < ERROR


@pytest.mark.parametrize("bound", [0, -1, 2**62 + 1])
def test_uniform_below_refuses_other_bounds(bound):
    with pytest.raises(ValueError, match=r"must lie between 1 and 2\*\*62"):
        uniform_below(bound, 3, SeededBits(0))


def test_permutations_are_uniform():
    bits = SeededBits(16)
    orders = np.array([permutation(4, bits) for _ in range(24_000)])
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    counts = np.unique(orders @ 4 ** np.arange(4), return_counts=True)[1]
    assert len(counts) == 24
    assert chisquare(counts).pvalue > ERROR


def test_a_permutation_from_equal_words_is_drawn_again():
    """Ties would favour the order in which the entries came."""
    assert permutation(3, Scripted([5, 9, 5, 7, 8, 6])).tolist() == permutation(3, Scripted([7, 8, 6])).tolist()
    assert permutation(1, SeededBits(0)).tolist() == [0]


def test_geometric():
    """P(V = v) = exp(-v) (1 - 1/e)."""
    draws = geometric(500_000, SeededBits(6))
    assert p_value(draws, geometric_pmf(1), 45) > ERROR
    assert p_value(draws, geometric_pmf(1.02), 45) < ERROR


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1, 3, 64, 320])
@pytest.mark.parametrize("kind", ["laplace", "one-sided"])
def test_discrete_laplace(kind, scale):
    check_distribution(kind, scale, SAMPLERS[kind][0](scale, 500_000, SeededBits(7)))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1, 3, 64, 192, 320])
def test_rounded_gaussian(sigma):
    check_distribution("gaussian", sigma, rounded_gaussian(sigma, 500_000, SeededBits(8)))


def test_the_tests_see_small_errors():
    """1 % of the scale, truncation in place of rounding, or the discrete Gaussian of Canonne et al. at sigma = 1."""
    draws = rounded_gaussian(1, 500_000, SeededBits(8))
    k = np.arange(-21, 22)
    discrete = np.exp(-(k**2) / 2) / np.exp(-(k**2) / 2).sum()
    assert p_value(draws, lambda _: discrete, 21) < ERROR
    assert p_value(draws, gaussian_pmf(1.02), 21) < ERROR
    assert p_value(draws, lambda k: ndtr(k + 1.0) - ndtr(k + 0.0), 21) < ERROR
    assert p_value(discrete_laplace(64, 500_000, SeededBits(7)), laplace_pmf(65), 4500) < ERROR


@pytest.mark.parametrize("scale", [2**20, 2**36, MAX_SCALE])
@pytest.mark.parametrize(
    ("kind", "continuous"), [("laplace", laplace), ("one-sided", expon), ("gaussian", norm)], ids=lambda v: str(v)[:9]
)
def test_large_scales(kind, continuous, scale):
    """On a fine grid the noise is the continuous one (Kolmogorov-Smirnov), and at MAX_SCALE it does not overflow."""
    draws = SAMPLERS[kind][0](scale, 100_000, SeededBits(9))
    assert draws.dtype == np.int64
    assert kstest(draws / scale, continuous.cdf).pvalue > ERROR
    for factor in (2 / 3, 3 / 2):
        assert kstest(draws / scale * factor, continuous.cdf).pvalue < ERROR
    assert np.abs(draws / scale).max() < 40  # e^-40 * 1e5 is below ERROR


@pytest.mark.parametrize("scale", [2**20, MAX_SCALE])
def test_the_last_digits_are_uniform(scale):
    """Noise on a fine grid hides the lowest bits of a value: none of the low five is more often 0 than 1."""
    for kind, (sample, _, _) in SAMPLERS.items():
        low = sample(scale, 100_000, SeededBits(10)) % 32
        assert chisquare(np.bincount(low, minlength=32)).pvalue > ERROR, kind


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1, 3, 64, 2**40])
def test_sign_and_magnitude_are_independent(kind, scale):
    draws = SAMPLERS[kind][0](scale, 200_000, SeededBits(11))
    draws = draws[draws != 0]
    positive, magnitude = draws > 0, np.abs(draws)
    assert abs(positive.mean() - 0.5) < 6.2 * 0.5 / math.sqrt(len(draws))  # error 6e-10
    cells = np.searchsorted(np.unique(np.quantile(magnitude, [0.2, 0.4, 0.6, 0.8], method="nearest")), magnitude)
    table = np.array([np.bincount(cells[positive == sign], minlength=cells.max() + 1) for sign in (False, True)])
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > ERROR


@pytest.mark.parametrize("kind", SAMPLERS)
def test_draws_of_one_call_are_independent(kind):
    """Neighbours within a vector: rank correlation of magnitudes within 6.2 standard deviations (error 6e-10)."""
    n = 200_000
    draws = np.abs(SAMPLERS[kind][0](2**30, n + 1, SeededBits(12))).argsort().argsort()
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 6.2 / math.sqrt(n)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLERS)
def test_one_draw_at_a_time_has_the_same_distribution(kind):
    """Cutting a batch of accepted proposals short favours no value."""
    bits = SeededBits(13)
    check_distribution(kind, 3, np.concatenate([SAMPLERS[kind][0](3, 1, bits) for _ in range(5000)]))


# ------------------------------------------------------------------------------------------------- contracts


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000])
def test_as_many_integers_as_asked_for(kind, n):
    draws = SAMPLERS[kind][0](5, n, SeededBits(14))
    assert draws.shape == (n,)
    assert draws.dtype == np.int64


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("scale", [0, -1, 2.0, 2.5, "3", None, math.inf, MAX_SCALE + 1])
def test_scales_off_the_grid_are_refused(kind, scale):
    with pytest.raises(ValueError, match="must be an integer between 1 and"):
        SAMPLERS[kind][0](scale, 3, SeededBits(0))


# --------------------------------------------------------------------------------------------------- samples of rows


class Chosen:
    """Bits that return these bytes in turn, then the same byte for ever, and record how many were taken each time."""

    private = False

    def __init__(self, first, then=0):
        self._first, self._then, self.taken = bytes(first), then, []

    def take(self, n_bytes):
        self.taken.append(n_bytes)
        taken, self._first = self._first[:n_bytes], self._first[n_bytes:]
        return taken + bytes([self._then]) * (n_bytes - len(taken))


RATES = [0.5, 1 / 256, 255 / 256, 1 / 3, 0.1, 1e-3, 0.999999, math.nextafter(1, 0), 2.0**-60, 3e-40, 5e-324]


def digits(rate):
    """Return the first byte of the binary expansion of a rate and the next two words."""
    rest, found = Fraction(rate), []
    for base in (256, WORD, WORD):
        rest *= base
        found.append(math.floor(rest))
        rest %= 1
    return found


def around(x, base):
    """Return a digit, its neighbours and both ends of its range."""
    return [digit for digit in sorted({0, x - 1, x, x + 1, base - 1}) if 0 <= digit < base]


@pytest.mark.parametrize("rate", RATES)
def test_a_coin_shows_heads_if_a_uniform_number_lies_below_its_chance(rate):
    """Bytes and words that share 8, 72 or 136 bits with the rate, and their neighbours, fall on the right side."""
    byte, one, two = digits(rate)
    seen = set()
    for b, first, second, then in itertools.product(around(byte, 256), around(one, WORD), around(two, WORD), (0, 255)):
        uniform = Fraction((b * WORD + first) * WORD + second, 256 * WORD**2) + Fraction(then, 256**2 * WORD**2)
        bits = Chosen([b, *first.to_bytes(8, "little"), *second.to_bytes(8, "little")], then)
        (heads,) = coins(1, Fraction(rate), bits)
        assert heads == (uniform < Fraction(rate))
        seen.add(bool(heads))
    assert seen == {False, True}


@pytest.mark.parametrize("rate", [0.5, 1 / 3, 0.1, 1e-3, 0.999999])
def test_byte_i_decides_about_coin_i_and_words_about_those_left_open(rate):
    byte, one, _ = digits(rate)
    rng = np.random.default_rng(17)
    first = rng.choice([byte, byte, *range(256)], 2000).astype(np.uint8)
    open_ = np.flatnonzero(first == byte)
    others = [word for word in around(one, WORD) if word != one]
    words = np.array(others, dtype="<u8")[rng.integers(len(others), size=len(open_))]
    bits = Chosen(first.tobytes() + (words.tobytes() if one else b""))
    expected = first < byte
    expected[open_] = words < one
    assert coins(2000, Fraction(rate), bits).tolist() == expected.tolist()
    assert bits.taken == ([2000, 8 * len(open_)] if one else [2000])


@pytest.mark.parametrize(("rate", "rows", "left"), [(0.5, 1, 1), (0.25, 2, 1), (0.1, 3, 0.8), (0.625, 0, 0.625)])
def test_a_row_survives_fair_bits_and_a_last_coin(rate, rows, left):
    """Bit i of each row of bits decides about row i, then byte j about the j-th that is left."""
    fair = np.random.default_rng(18).integers(0, 256, (rows, 125)).astype(np.uint8)
    alive = np.unpackbits(fair, axis=1).all(axis=0)
    last = np.random.default_rng(19).permutation(np.arange(alive.sum()) % 204).astype(np.uint8)  # 204 < 0.8 * 256
    bits = Chosen(fair.tobytes() + (last.tobytes() if left < 1 else b""))
    heads = last < 256 * left
    assert poisson_sample(1000, rate, bits).tolist() == np.flatnonzero(alive)[heads if left < 1 else ...].tolist()
    assert bits.taken[:rows] == [125] * rows
    assert len(bits.taken) == rows + (left < 1)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 1 / 3, 0.1, 1 / 256, 0.9])
@pytest.mark.parametrize("at_once", [True, False])
def test_rows_are_kept_independently(rate, at_once):
    """All patterns of three neighbours, within one long sample or as samples of their own, are as likely as stated."""
    n = 600_000 if at_once else 30_000
    bits = SeededBits(19)
    kept = np.zeros(n, dtype=int)
    if at_once:
        kept[poisson_sample(n, rate, bits)] = 1
    else:
        for a in range(0, n, 3):
            kept[a + poisson_sample(3, rate, bits)] = 1
    patterns = np.bincount(kept.reshape(-1, 3) @ [1, 2, 4], minlength=8)
    sizes = np.array([bin(k).count("1") for k in range(8)])

    def fits(rate):
        expected = rate**sizes * (1 - rate) ** (3 - sizes) * n / 3
        likely = expected > 20
        observed = np.append(patterns[likely], patterns[~likely].sum())
        expected = np.append(expected[likely], max(expected[~likely].sum(), 1e-9))
        keep = (expected > 20) | (observed > 0)
        return chisquare(observed[keep], expected[keep] * observed.sum() / expected[keep].sum()).pvalue > ERROR

    assert fits(rate)
    if at_once and rate > 0.05:
        assert not fits(rate * 0.95)
        assert not fits(rate * 1.05)


@pytest.mark.parametrize("rate", [1e-3, 1 / 3, 0.1, 2.0**-9, 0.999999, 2.0**-60, 1e-300])
def test_as_many_rows_are_kept_as_the_rate_says(rate):
    n = 2_000_000
    kept = poisson_sample(n, rate, SeededBits(20))
    assert binomtest(len(kept), n, rate).pvalue > ERROR
    if 1e-4 < rate < 0.8:
        assert binomtest(len(kept), n, rate * 0.8).pvalue < ERROR
        assert binomtest(len(kept), n, rate * 1.25).pvalue < ERROR


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_samples_are_positions_in_order(n):
    for rate in (0.1, 0.5, 0.99):
        kept = poisson_sample(n, rate, SeededBits(21))
        assert kept.dtype.kind == "i"
        assert (np.diff(kept) > 0).all()
        assert set(kept.tolist()) <= set(range(n))
    for size in {1, n // 3, n // 2, n // 2 + 1, n - 1, n} - {0}:
        drawn = sample_without_replacement(n, size, SeededBits(22))
        assert drawn.dtype.kind == "i"
        assert len(drawn) == size
        assert (np.diff(drawn) > 0).all()
        assert set(drawn.tolist()) <= set(range(n))
    assert sample_without_replacement(n, n, SeededBits(23)).tolist() == list(range(n))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "size"), [(5, 1), (4, 2), (5, 2), (6, 3), (5, 3), (5, 4), (8, 4)])
def test_all_sets_of_rows_are_equally_likely(n, size):
    bits, draws = SeededBits(24), 8000
    sets = [tuple(sample_without_replacement(n, size, bits).tolist()) for _ in range(draws)]
    possible = list(itertools.combinations(range(n), size))
    assert set(sets) <= set(possible)
    counts = [sets.count(chosen) for chosen in possible]
    assert chisquare(counts).pvalue > ERROR


@pytest.mark.parametrize("size", [3, 100, 499, 500, 501, 900])
def test_every_row_is_drawn_equally_often(size):
    """A chi-square of inclusions; they exclude one another, hence the factor (n - 1)/n."""
    n, draws, bits = 1000, 200, SeededBits(25)
    counts = np.zeros(n)
    for _ in range(draws):
        counts[sample_without_replacement(n, size, bits)] += 1
    rate = size / n
    spread = np.square(counts - draws * rate).sum() / (draws * rate * (1 - rate)) * (n - 1) / n
    assert chi2(n - 1).sf(spread) > ERROR
    assert chi2(n - 1).cdf(spread) > ERROR
