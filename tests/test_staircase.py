"""Gaussian noise from a staircase: the table, every comparison and every rounding against exact arithmetic.

Statistical tests draw from fixed seeds and fail a correct sampler with probability ``ERROR``.
"""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2_contingency, kstest

from dpsk.mechanisms import SeededBits, samplers, staircase
from dpsk.mechanisms.samplers import MAX_SCALE, bernoulli_exp, exactly, first_accepted, geometric, uniform_below
from dpsk.mechanisms.staircase import HEIGHT, PER_UNIT, PLACES, STEPS, places, rounded_gaussian

ERROR = 1e-9
"""Probability that one comparison of a correct sampler fails."""

WORD = 2**64
DIGITS = 2**49
"""Numbers of digits that one word gives to a point within its step."""

UNIT = 2**55
"""Points are integers in units of 1/UNIT standard deviations."""

SIGMAS = [1, 2, 3, 7, 255, 2**20, 2**40, MAX_SCALE]


class Constant:
    """Bits that are the same word for ever."""

    private = False

    def __init__(self, word):
        self._word, self.taken = word, 0

    def take(self, n_bytes):
        assert n_bytes % 8 == 0
        self.taken += n_bytes
        return self._word.to_bytes(8, "little") * (n_bytes // 8)


def by_rejection(sigma, n, bits):
    """Return the same noise by another construction, of Karney (2016): the reference of the tests.

    The magnitude in units of sigma is j + x with a geometric j and a uniform x = (i + f)/sigma on [0, 1), kept with
    probability exp(-((j-1)^2 + x(2j + x))/2). The coin knows f to 53 digits only, off by 2^-53 at most.
    """

    def propose(m):
        j, i, raw = geometric(m, bits), uniform_below(sigma, m, bits), samplers.words(m, bits)
        fraction = raw >> np.uint64(11)
        x = (i + fraction * 2.0**-53) / sigma

        def exponent(k):
            at = (int(i[k]) + Fraction(int(fraction[k]), 2**53)) / sigma
            return exactly(((int(j[k]) - 1) ** 2 + at * (2 * int(j[k]) + at)) / 2)

        kept = bernoulli_exp(((j - 1) ** 2 + x * (2 * j + x)) / 2, exponent, bits)
        magnitude = sigma * j + i + (fraction >= np.uint64(2**52))
        return np.where(raw & np.uint64(1), -magnitude, magnitude)[kept]

    return first_accepted(n, propose, rate=0.48)


def curve(x):
    """Return the curve at a rational number, to the precision that is set."""
    return HEIGHT * mpmath.exp(-((mpmath.mpf(x.numerator) / x.denominator) ** 2) / 2)


# ------------------------------------------------------------------------------------------------------ the table


def test_no_step_is_above_or_below_the_curve_where_it_must_not_be():
    """Each height is the integer that exact arithmetic finds, with a margin that no error of a float reaches."""
    below, above = staircase.heights()
    with mpmath.workprec(300):
        for c in range(STEPS):
            highest, lowest = curve(Fraction(c, PER_UNIT)), curve(Fraction(c + 1, PER_UNIT))
            assert below[c] <= lowest < highest <= above[c]
            assert below[c] == max(0, mpmath.floor(lowest))
            assert above[c] == (mpmath.ceil(highest) if c else HEIGHT + 1)
            for value in (highest, lowest)[c == 0 :]:
                assert abs(value - mpmath.nint(value)) > 2**-20  # so the margin of 2^-30 changes no height
            assert lowest - below[c] > 2**-31 or below[c] == 0
            assert above[c] - highest > 2**-31


def test_every_level_of_a_step_has_one_place_for_each_sign():
    """So the places are the staircase: all levels below its height once, and those below the curve come first."""
    below, above = staircase.heights()
    step, level, n_sure = places()
    assert len(step) == len(level) == PLACES
    used = level <= HEIGHT
    assert (level[~used] == HEIGHT + 1).all()
    assert not used[:n_sure][~used[:n_sure]].size
    assert step[-2:].tolist() == [STEPS, -STEPS - 1]
    assert level[-2:].tolist() == [0, 0]
    found = sorted(zip(step[used][:-2].tolist(), level[used][:-2].tolist(), strict=True))
    assert found == sorted((s, e) for c in range(STEPS) for e in range(above[c]) for s in (c, -c - 1))
    sure = sorted(zip(step[:n_sure].tolist(), level[:n_sure].tolist(), strict=True))
    assert sure == sorted((s, e) for c in range(STEPS) for e in range(below[c]) for s in (c, -c - 1))
    assert n_sure / PLACES > 0.96


def test_the_tail_is_covered():
    """In each part of the tail, the place is as high as the curve at least. Both fall, the curve faster."""
    with mpmath.workprec(3000):
        for g in range(200):
            start = Fraction(STEPS, PER_UNIT) + g
            share = mpmath.mpf(1) / (PER_UNIT * 2 ** (g + 1))
            assert curve(start) <= share
            assert curve(start + 1) / curve(start) < Fraction(1, 2)


def area(a, b, level):
    """Return the area between a level and the next, over [a, b], that lies below the curve."""

    def integral(left, right):
        if left >= right:
            return mpmath.mpf(0)
        root = mpmath.sqrt(mpmath.mpf(2))
        bell = HEIGHT * mpmath.sqrt(mpmath.pi / 2) * (mpmath.erf(right / root) - mpmath.erf(left / root))
        return bell - level * (right - left)

    def where(height):
        """Return where the curve falls to this height."""
        return mpmath.sqrt(2 * mpmath.log(mpmath.mpf(HEIGHT) / height)) if height <= HEIGHT else mpmath.mpf(0)

    full, empty = where(level + 1), where(level) if level else mpmath.inf
    return max(mpmath.mpf(0), min(b, full) - a) + integral(max(a, full), min(b, empty))


def accepted(a, b):
    """Return the accepted area over [a, b], a >= 0, of all places of the positive sign, each by its own comparison."""
    step, level, n_sure = places()
    total = mpmath.mpf(0)
    for c in range(int(mpmath.floor(a * PER_UNIT)), min(STEPS, int(mpmath.ceil(b * PER_UNIT)))):
        left, right = max(a, mpmath.mpf(c) / PER_UNIT), min(b, mpmath.mpf(c + 1) / PER_UNIT)
        total += (right - left) * np.count_nonzero(step[:n_sure] == c)
        total += sum(area(left, right, int(e)) for e in level[n_sure:-2][step[n_sure:-2] == c])
    first = mpmath.mpf(STEPS) / PER_UNIT
    for g in range(40):
        left, right = max(a, first + g), min(b, first + g + 1)
        share = mpmath.mpf(1) / (PER_UNIT * 2 ** (g + 1))
        if left < right:
            assert curve(Fraction(STEPS, PER_UNIT) + g) <= share
            root = mpmath.sqrt(mpmath.mpf(2))
            total += HEIGHT * mpmath.sqrt(mpmath.pi / 2) * (mpmath.erf(right / root) - mpmath.erf(left / root))
    return total


@pytest.mark.parametrize("sigma", [1, 2, 3, 4, 5])
def test_the_places_add_up_to_the_probabilities_of_every_integer(sigma):
    """The areas of all places, added up integer by integer, are the normal distribution, beyond 30 digits."""
    with mpmath.workprec(300):
        edges = [mpmath.mpf(0), *((k + mpmath.mpf(1) / 2) / sigma for k in range(12 * sigma)), mpmath.mpf(20)]
        found = [accepted(a, b) for a, b in itertools.pairwise(edges)]
        total = sum(found)
        for (a, b), value in zip(itertools.pairwise(edges), found, strict=True):
            assert abs(value / total - 2 * (mpmath.ncdf(b) - mpmath.ncdf(a))) < mpmath.mpf(10) ** -30
        accepts = 2 * total * PER_UNIT / PLACES
        assert abs(accepts - staircase._ACCEPTED) < 1e-3


# -------------------------------------------------------------------------------------------------- the decisions


def drawn(monkeypatch, raw, coin, sigma):
    """Return the integers that these words lead to; all words of coins and all further digits are ``coin``."""
    with monkeypatch.context() as patch:
        patch.setattr(staircase, "words", lambda n, bits: raw if n == len(raw) else samplers.words(n, bits))
        return staircase._propose(sigma, len(raw), Constant(coin))


@pytest.mark.parametrize("coin", [1, WORD // 3, WORD - 2], ids=["low", "middle", "high"])
@pytest.mark.parametrize("digits", [0, DIGITS // 5, DIGITS - 1])
def test_every_place_keeps_what_is_below_the_curve(monkeypatch, coin, digits):
    """Each place with the same digits: a point is kept if and only if it is below the curve, and rounded rightly."""
    sigma = 2**30 + 1
    step, level, n_sure = (part if np.isscalar(part) else part.tolist() for part in places())
    raw = (np.arange(PLACES - 2, dtype=np.uint64) << np.uint64(49)) + np.uint64(digits)
    found = drawn(monkeypatch, raw, coin, sigma).tolist()
    wanted = []
    with mpmath.workprec(200):
        more = mpmath.mpf(coin) / (WORD - 1)  # all further words
        height = ((coin >> 11) + more) / 2**53  # of the point within its level
        heights = {}
        for place in range(PLACES - 2):
            x = (step[place] * DIGITS + digits + more) / UNIT
            bell = heights.setdefault(step[place], HEIGHT * mpmath.exp(-x * x / 2))
            if level[place] + height < bell:
                wanted.append(int(mpmath.floor(sigma * x + mpmath.mpf(1) / 2)))
            else:
                assert place >= n_sure
    assert found == wanted
    assert n_sure < len(found) < PLACES - 150 if coin > 1 else len(found) > n_sure


@pytest.mark.parametrize("sigma", [3, 2**40])
@pytest.mark.parametrize("coin", [1, WORD // 3, WORD - 2**20])
def test_places_without_a_coin_would_win_it(monkeypatch, sigma, coin):
    """If every place has to be tested, by rational arithmetic, the same words lead to the same integers."""
    raw = samplers.words(400, SeededBits(1))
    fast = drawn(monkeypatch, raw, coin, sigma)
    monkeypatch.setattr(staircase, "_FIRST_TESTED", np.uint64(0))
    monkeypatch.setattr(samplers, "_BAND", 2.0)
    assert drawn(monkeypatch, raw, coin, sigma).tolist() == fast.tolist()
    assert len(fast) > 380


@pytest.mark.parametrize("sigma", [1, 7, 2**40, MAX_SCALE])
def test_rational_arithmetic_decides_as_floats_do(monkeypatch, sigma):
    """The same bits give the same noise, whether floats decide a coin or rational arithmetic does."""
    fast = rounded_gaussian(sigma, 20_000, SeededBits(2))
    calls = []
    decide = samplers._decide
    monkeypatch.setattr(samplers, "_decide", lambda *args: calls.append(1) or decide(*args))
    assert rounded_gaussian(sigma, 20_000, SeededBits(2)).tolist() == fast.tolist()
    assert not calls
    monkeypatch.setattr(samplers, "_BAND", 2.0)
    assert rounded_gaussian(sigma, 20_000, SeededBits(2)).tolist() == fast.tolist()
    assert len(calls) > 500


def test_a_close_coin_reads_on_in_both_numbers():
    """The digits of the point and those of the coin are extended at once, and the point is rounded with its own.

    All further words are equal, so that the oracle need not know which number reads which word.
    """
    rng, seen, sigma = np.random.default_rng(3), set(), MAX_SCALE
    step, level, n_sure = places()
    with mpmath.workprec(500):
        for place, digits, word, shift in itertools.product(
            rng.integers(n_sure, PLACES - 150, size=12),
            (0, DIGITS - 1, int(rng.integers(DIGITS))),
            (0, WORD - 1, int(rng.integers(2**63))),
            (-2, -1, 0, 1, 2),
        ):
            known, more = int(step[place]) * DIGITS + digits, mpmath.mpf(word) / (WORD - 1)
            x = (known + more) / UNIT
            share = HEIGHT * mpmath.exp(-x * x / 2) - int(level[place])
            start = int(mpmath.floor(share * 2**53)) + shift
            if not 0 <= start < 2**53:
                continue
            coin = (start + more) / 2**53
            if abs(coin - share) < mpmath.mpf(2) ** -400:
                continue
            first = [start << 11]

            class Script(Constant):
                def take(self, n_bytes, first=first):
                    return first.pop().to_bytes(8, "little") if first else super().take(n_bytes)

            points = {}
            _, kept = staircase._below_the_curve(np.array([known]), np.array([place]), points, Script(word))
            assert bool(kept[0]) == (coin < share)
            assert points[0].nearest(sigma) == mpmath.floor(sigma * x + mpmath.mpf(1) / 2)
            seen.add(bool(kept[0]))
    assert seen == {True, False}


@pytest.mark.parametrize("ours", [0, WORD // 3, WORD - 2], ids=["low", "middle", "high"])
def test_a_product_has_the_digits_that_its_coin_has_read(ours):
    """The coin reads a word for itself, then one for the point. Words that come later change no digit of the point."""
    rng, sigma, seen = np.random.default_rng(14), MAX_SCALE, 0
    step, level, n_sure = places()
    for place in rng.integers(n_sure, PLACES - 150, size=40).tolist():
        digits = int(rng.integers(DIGITS))
        known = int(step[place]) * DIGITS + digits
        x = (known + Fraction(ours, WORD)) / UNIT
        with mpmath.workprec(300):
            start = int(mpmath.floor((curve(x) - int(level[place])) * 2**53))
        if not 1000 < start < 2**53 - 1000:
            continue
        script = [place << 49 | digits, start << 11, 0, ours, *[WORD // 7] * 10]

        class Script:
            def take(self, n_bytes, script=script):
                assert n_bytes % 8 == 0
                return b"".join(script.pop(0).to_bytes(8, "little") for _ in range(n_bytes // 8))

        found = staircase._propose(sigma, 1, Script())
        if found.size:
            first, last = (sigma * (x + Fraction(end, UNIT * WORD)) + Fraction(1, 2) for end in (0, 1))
            assert math.floor(first) <= found[0] <= math.floor(last)
            assert last - first < Fraction(1, 2**60)
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("sigma", [1, 2, 3, 255, 2**27, 2**28 - 1, 2**28, 2**40 + 7, 2**45, 2**55 + 1, MAX_SCALE])
def test_products_are_rounded_as_all_digits_would_be(monkeypatch, sigma):
    """Points at and beside the places where rounding changes, with further digits that decide, and any others."""
    rng = np.random.default_rng([4, sigma])
    x = rng.integers(-STEPS * DIGITS, STEPS * DIGITS, size=300).tolist()
    near = []
    for k in rng.integers(-4 * sigma, 4 * sigma + 1, size=60).tolist():
        edge = Fraction((2 * k + 1) * UNIT, 2 * sigma)
        near.append((math.floor(edge), int(edge % 1 * 2**32), int(edge * 2**32 % 1 * WORD)))
    read_on = []
    nearest = staircase._Point.nearest
    monkeypatch.setattr(staircase._Point, "nearest", lambda self, s: read_on.append(1) or nearest(self, s))
    cases = [(value, word) for value in x for word in (0, WORD - 2, int(rng.integers(2**63)))]
    cases += [(start + d, word) for start, _, _ in near for d in (-1, 0, 1) for word in (0, 2**63, WORD - 2)]
    cases += [(start, ((first + d) % 2**32 << 32 | rest >> 32) ^ 1) for start, first, rest in near for d in (-1, 0, 1)]
    for value, word in cases:
        more = Fraction(word >> 32, 2**32) + Fraction(word, 2**32 * (WORD - 1))
        (found,) = staircase._nearest(sigma, np.array([value]), Constant(word))
        assert found == math.floor(sigma * (value + more) / UNIT + Fraction(1, 2)), (value, word)
    assert len(read_on) > 20 or sigma == 1


@pytest.mark.parametrize("sigma", [3, 2**20, 2**45])
def test_few_products_need_further_digits(sigma):
    """As many as the theorem says: a share of about sigma/2^55 + 2^-28, of fewer than 2^17 draws."""
    bits = Constant(WORD // 7)
    x = np.random.default_rng(5).integers(-4 * UNIT, 4 * UNIT, size=2**17)
    staircase._nearest(sigma, x, bits)
    assert bits.taken / 8 <= 8 + 3 * len(x) * sigma / UNIT  # 8 are exceeded with probability 1e-13 if 2^-11 is expected


# ------------------------------------------------------------------------------------------------------- the law


def same_law(one, other):
    """Return the p-value of a two-sample chi-square over at most 200 cells of about equal counts."""
    both = np.concatenate([one, other])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 201)[1:-1], method="nearest"))
    counts = [np.bincount(np.searchsorted(edges, part), minlength=len(edges) + 1) for part in (one, other)]
    table = np.array(counts)[:, np.sum(counts, axis=0) >= 20]
    return chi2_contingency(table).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_law_is_that_of_another_construction(sigma):
    """Two-sample chi-square, error 1e-9; with 3 % more spread it would not pass."""
    n = 300_000
    one, other = rounded_gaussian(sigma, n, SeededBits(6)), by_rejection(sigma, n, SeededBits(7))
    assert same_law(one, other) > ERROR
    assert same_law(one, np.rint(by_rejection(2**40, n, SeededBits(8)) * (1.03 * sigma / 2**40))) < ERROR


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1, 3, 2**40])
def test_the_slow_path_alone_has_the_same_law(monkeypatch, sigma):
    """Every place is tested, by rational arithmetic, and every product reads on: two-sample chi-square, error 1e-9."""
    usual = rounded_gaussian(sigma, 300_000, SeededBits(9))
    monkeypatch.setattr(staircase, "_FIRST_TESTED", np.uint64(0))
    monkeypatch.setattr(samplers, "_BAND", 2.0)

    def read_on(sigma, x, bits):
        low = sigma * x.astype(object) + UNIT // 2
        return ((low // UNIT) + staircase._carry(sigma, x, (low % UNIT).astype(np.int64), bits)).astype(np.int64)

    monkeypatch.setattr(staircase, "_nearest", read_on)
    slow = rounded_gaussian(sigma, 8000, SeededBits(10))
    assert same_law(usual, slow) > ERROR
    assert same_law(np.rint(1.5 * usual), slow) < ERROR


@pytest.mark.parametrize("sign", [0, 1])
def test_the_tail_has_the_law_of_the_tail(monkeypatch, sign):
    """Points of the last places alone: kept, they follow the normal law beyond the steps (Kolmogorov-Smirnov)."""
    sigma, bits, digits = 2**40, SeededBits(11), SeededBits(12)
    n = 30_000

    def in_the_tail(m, source):
        return (samplers.words(m, digits) >> np.uint64(15)) + (np.uint64(PLACES - 2 + sign) << np.uint64(49))

    monkeypatch.setattr(staircase, "words", in_the_tail)
    draws = staircase._propose(sigma, n, bits) / sigma * (1, -1)[sign]
    first = STEPS / PER_UNIT
    assert draws.min() >= first
    assert kstest(draws, lambda x: 1 - ndtr(-x) / ndtr(-first)).pvalue > ERROR
    assert kstest(draws * 1.02, lambda x: 1 - ndtr(-x) / ndtr(-first)).pvalue < ERROR
    kept = HEIGHT * PER_UNIT * math.sqrt(2 * math.pi) * ndtr(-first)
    assert abs(len(draws) / n - kept) < 6.2 * math.sqrt(kept * (1 - kept) / n)  # error 6e-10
    beyond = ndtr(-first - 1) / ndtr(-first)
    assert abs(np.mean(draws > first + 1) - beyond) < 6.2 * math.sqrt(beyond / len(draws)) + 6 / len(draws)


@pytest.mark.parametrize("zeros", [0, 1, 57, 58, 59, 122])
def test_parts_of_the_tail_follow_fair_bits(zeros):
    """Part g is entered after g zeros, of 58 bits of the first word and of whole words after that."""
    words = [(1 << zeros << 6) | 5] if zeros < 58 else [5, 1 << (zeros - 58)] if zeros < 122 else [5, 0, 1]

    class Script:
        def take(self, n_bytes):
            return words.pop(0).to_bytes(8, "little")

    x = STEPS * DIGITS + 12345
    found, height = staircase._in_the_tail(x, Script())
    assert found == (STEPS + PER_UNIT * zeros) * DIGITS + 12345 * PER_UNIT + 5
    assert height == HEIGHT * PER_UNIT * 2 ** (zeros + 1)
    assert not words


# ------------------------------------------------------------------------------------------------- contracts


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 8192, 8193, 20_000])
def test_a_seed_gives_the_same_noise_again(n):
    one, other = (rounded_gaussian(2**40, n, SeededBits(13)) for _ in range(2))
    assert one.shape == (n,)
    assert one.dtype == np.int64
    assert one.tolist() == other.tolist()


def test_the_table_cannot_be_changed():
    for table in (staircase._LEVEL, staircase._TO_POINT):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0
