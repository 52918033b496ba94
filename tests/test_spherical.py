"""Norm-Gamma noise: its density falls with the Euclidean norm alone, at the stated rate.

Statistical tests have fixed seeds, fail correct noise with probability ``ERROR`` and must reject 2/3 and 3/2 of the
scale.
"""

import dataclasses
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import beta, gamma, kstest, laplace

from dpsk.mechanisms import NormGamma, SeededBits, Sensitivity, spherical
from dpsk.privacy import BudgetExhausted, PureCost

ERROR = 1e-9
"""Probability that one comparison of correct noise fails."""


def l2(bound):
    return Sensitivity(math.inf, bound, math.inf)


def draw(d, n=20_000, epsilon=0.5, bound=2.0**24, seed=0):
    """Return n vectors of noise in units of its scale, l2/epsilon."""
    bits, value = SeededBits(seed), np.zeros(d, dtype=np.int64)
    return np.array([NormGamma(epsilon)(value, l2(bound), bits) for _ in range(n)]) * (epsilon / bound)


def check_distribution(sample, cdf):
    assert kstest(sample, cdf).pvalue > ERROR
    for factor in (2 / 3, 3 / 2):
        assert kstest(sample * factor, cdf).pvalue < ERROR


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 5, 30])
@pytest.mark.parametrize(("epsilon", "bound"), [(0.5, 2.0**20), (2.0, 2.0**30)])
def test_the_norm_is_gamma_distributed(d, epsilon, bound):
    """Shape d and scale l2/epsilon."""
    check_distribution(np.linalg.norm(draw(d, 4000, epsilon, bound), axis=1), gamma(d).cdf)


@pytest.mark.slow
def test_one_dimension_is_laplace():
    check_distribution(draw(1)[:, 0], laplace.cdf)


@pytest.mark.slow
def test_the_marginal_in_three_dimensions():
    """The density exp(-||z||)/(8 pi), integrated over two coordinates: (1 + |t|) exp(-|t|)/4."""

    def cdf(t):
        upper = (2 + np.abs(t)) * np.exp(-np.abs(t)) / 4
        return np.where(t > 0, 1 - upper, upper)

    noise = draw(3)
    for axis in range(3):
        check_distribution(noise[:, axis], cdf)
    check_distribution(noise @ np.array([2.0, -1.0, 2.0]) / 3, cdf)  # and along any other direction


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 10])
def test_the_direction_is_uniform(d):
    """Each squared coordinate is Beta distributed, each sign a fair coin, and so in a rotated frame."""
    n = 10_000
    noise = draw(d, n)
    direction = noise / np.linalg.norm(noise, axis=1)[:, None]
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
    for frame in (direction, direction @ rotation):
        for axis in range(d):
            assert kstest(frame[:, axis] ** 2, beta(0.5, (d - 1) / 2).cdf).pvalue > ERROR
            assert abs((frame[:, axis] > 0).mean() - 0.5) < 6.2 * 0.5 / math.sqrt(n)  # error 6e-10
    # coordinates have mean 0 and are uncorrelated: within 6.2 standard deviations
    assert np.abs(direction.mean(axis=0)).max() < 6.2 / math.sqrt(n * d)
    correlation = (direction.T @ direction / n * d)[~np.eye(d, dtype=bool)]
    assert np.abs(correlation).max() < 6.2 / math.sqrt(n)


def test_a_direction_that_is_not_uniform_is_seen():
    """The test above has teeth: normalised uniform vectors point at the corners of the cube."""
    corners = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 3))
    corners /= np.linalg.norm(corners, axis=1)[:, None]
    assert kstest(corners[:, 0] ** 2, beta(0.5, 1).cdf).pvalue < ERROR


@pytest.mark.slow
def test_norm_and_direction_are_independent():
    """Rank correlation of the norm with each coordinate of the direction and with its size."""
    noise = draw(3)
    norm = np.linalg.norm(noise, axis=1)
    rank = norm.argsort().argsort()
    for axis in range(3):
        for part in (noise[:, axis] / norm, np.abs(noise[:, axis]) / norm):
            assert abs(np.corrcoef(rank, part.argsort().argsort())[0, 1]) < 6.2 / math.sqrt(len(norm))  # error 6e-10


def test_the_noise_is_added_to_the_value():
    value = np.array([[3, -8], [2**40, 0], [1, 1]])
    noise = NormGamma(0.5)(np.zeros((3, 2), dtype=np.int64), l2(4.0), SeededBits(1))
    noisy = NormGamma(0.5)(value, l2(4.0), SeededBits(1))
    assert noisy.shape == (3, 2)
    assert noisy.dtype == np.int64  # on the grid: no digits below it that would tell the value
    assert np.array_equal(noisy, value + noise)
    assert value.tolist() == [[3, -8], [2**40, 0], [1, 1]]


def test_a_seed_reproduces_the_noise():
    first, second, other = (draw(4, 10, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.isclose(first, other).any()


class Given:
    """These words first, then those of a seed."""

    private = False

    def __init__(self, *given):
        self._given, self._then = list(given), SeededBits(0)

    def take(self, n_bytes):
        taken = [self._given.pop(0).to_bytes(8, "little") for _ in range(min(len(self._given), n_bytes // 8))]
        return b"".join(taken) + self._then.take(n_bytes - 8 * len(taken))


@pytest.mark.parametrize("word", [0, 1, 2**12, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_extreme_bits_give_finite_noise(word, d):
    """Uniform numbers nearest to 0, to 1/2 and to 1: what they do not decide, further bits do."""
    noise = NormGamma(1.0)(np.zeros(d, dtype=np.int64), l2(2.0**30), Given(*[word] * 2 * (d + 1)))
    assert (0 if word == 2**64 - 1 else 1) <= np.abs(noise).max() < 500 * 2**30


@pytest.mark.parametrize("zeros", [60, 100, 1000])  # at 60 the length is 42 scales
def test_no_tail_is_cut_off(zeros):
    """A uniform number that begins with so many zeros: the length is -log of it, and 37 scales are no limit."""
    blocks, rest = divmod(zeros - 52, 64)  # 52 in the first word
    given = [w for _ in range(blocks + 1) for w in (1 << 62, 1 << 63, 0)] + [0, 0, 2 ** (63 - rest)]
    noise = NormGamma(1.0)(np.zeros(1, dtype=np.int64), l2(2.0**30), Given(*given))
    assert abs(int(noise[0])) == pytest.approx((zeros + 1) * math.log(2) * 2**30, rel=0.03)
    assert abs(int(noise[0])) > 37 * 2**30


def enclosed(known, digits, size):
    """The noise of scale 1, by mpmath, for the uniform numbers (known + 1/2)/2^digits."""
    with mpmath.workprec(digits + 60):
        u = [(mpmath.mpf(int(k)) + 0.5) / mpmath.mpf(2) ** digits for k in known]
        pairs = -(-size // 2)
        radius = [mpmath.sqrt(-mpmath.log(x)) for x in u[pairs : 2 * pairs]]
        angle = [2 * mpmath.pi * x for x in u[:pairs]]
        normal = [f(t) * r for f in (mpmath.cos, mpmath.sin) for r, t in zip(radius, angle, strict=True)][:size]
        length = -mpmath.fsum(map(mpmath.log, u[2 * pairs :])) / mpmath.sqrt(mpmath.fsum(x * x for x in normal))
        return [x * length for x in normal]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_intervals_hold_the_noise_of_every_continuation(size):
    """Both kinds: floats from 52 digits, decimals from 116; extreme digits among them."""
    rng, n, closest = np.random.default_rng(size), 2 * size + size % 2, 0.0
    for trial in range(60):
        known = rng.integers(0, 2**52, size=n)
        known[rng.integers(n)] = rng.choice([0, 1, 2, 2**50, 2**51, 2**52 - 1, int(known[0])])
        with np.errstate(all="ignore"):
            noise, error = spherical._noise(known.astype(np.float64), size, 1.0, spherical._FLOATS)
        ends = [(1, 2**64 - 1)[k] for k in rng.integers(2, size=n)] if trial % 2 else rng.integers(2**62, size=n)
        longer = np.array([int(k) << 64 | int(e) for k, e in zip(known, ends, strict=True)], dtype=object)
        exact = enclosed(longer, 116, size)
        if error[0] < 1:
            off = [abs(float(x - mpmath.mpf(float(z)))) / e for x, z, e in zip(exact, noise, error, strict=True)]
            assert max(off) <= 1
            closest = max(closest, *off)
            assert error.max() < 1e-6 or known.min() < 2**30
        with localcontext(Context(prec=63)):
            finer, smaller = spherical._noise(longer, size, Decimal(1), spherical._decimals(116))
        for x, z, e in zip(exact, finer, smaller, strict=True):
            with mpmath.workprec(300):
                assert abs(x - mpmath.mpf(str(z))) <= mpmath.mpf(str(e))
    assert closest > 0.05, "an error of a twentieth of what is allowed for would be noticed"


@pytest.mark.parametrize("bound", [2.0**2, 2.0**24, 3.0 * 2**50])
def test_further_digits_decide_the_same_cells(bound):
    """Where floats decide, decimals agree; where they are made not to, the first digits stay."""
    scale, value = 2 * bound, np.array([5, -(2**40), 0])
    cell = 1 << max(0, math.frexp(scale)[1] - 10)
    for seed in range(50):
        noisy = NormGamma(0.5)(value, l2(bound), SeededBits(seed))
        known = (spherical.words(7, SeededBits(seed)) >> np.uint64(12)).astype(object)
        assert noisy.tolist() == spherical._decided(value, known, scale, cell, SeededBits(1)).tolist()
        assert (noisy % cell == 0).all()


def test_floats_that_straddle_two_cells_are_not_believed(monkeypatch):
    """With errors made a million million times larger every draw asks for more digits, and gets the same cells."""
    asked, decided = [], spherical._decided
    monkeypatch.setattr(spherical, "_decided", lambda *of: asked.append(1) or decided(*of))

    def draws():
        return [NormGamma(0.5)(np.zeros(3, dtype=np.int64), l2(2.0**20), SeededBits(k)).tolist() for k in range(20)]

    plain = draws()
    assert not asked
    monkeypatch.setattr(spherical, "_FLOATS", dataclasses.replace(spherical._FLOATS, rounding=2.0**-6))
    assert plain == draws()
    assert len(asked) == 20


@pytest.mark.parametrize("bound", [1e-300, 3.0, 2.0**40 + 0.25, 39997780938943179, 2**55 + 3])
@pytest.mark.parametrize("epsilon", [1.1, 1.7, 2.0, 2.3784026951764714])
def test_the_scale_is_never_less_than_the_quotient(monkeypatch, bound, epsilon):
    """Nor is it more than the next float, also where a sensitivity is a whole number that no float holds."""
    used, noise = [], spherical._noise
    monkeypatch.setattr(spherical, "_noise", lambda *of: used.append(of[2]) or noise(*of))
    NormGamma(epsilon)(np.zeros(1, dtype=np.int64), l2(bound), SeededBits(0))
    quotient = Fraction(bound) / Fraction(epsilon)
    assert math.nextafter(used[0], 0) < quotient <= used[0]


def test_noise_that_is_far_below_the_grid_changes_nothing():
    """A cell lies around its multiple of the grid: it does not begin there."""
    value = np.array([-3, 0, 2**40])
    for seed in range(20):
        assert NormGamma(1.0)(value, l2(1e-6), SeededBits(seed)).tolist() == value.tolist()


@pytest.mark.parametrize("bad", [math.inf, math.nan, 0.0, -1.0])
def test_unbounded_or_empty_sensitivities_are_refused(bad):
    sensitivity = Sensitivity(1.0, bad, 1.0)
    for refuse in (NormGamma(1.0).check, lambda s: NormGamma(1.0)(np.zeros(3, dtype=np.int64), s, SeededBits(0))):
        with pytest.raises(ValueError, match=r"l2 sensitivity .* needs a query with a positive finite bound"):
            refuse(sensitivity)


def test_noise_in_many_dimensions_that_does_not_fit_is_refused():
    """Norms grow with the number of entries: what still fits for one of them may not for a hundred."""
    for refused, shape in ((False, (1,)), (False, (4, 2)), (True, (100,)), (True, (50, 2))):
        mechanism, sensitivity = NormGamma(1.0), l2(2.0**52)
        if refused:
            with pytest.raises(BudgetExhausted, match="a larger epsilon"):
                mechanism.check(sensitivity, shape)
        else:
            mechanism.check(sensitivity, shape)


def test_the_cost_names_what_the_mechanism_promises():
    assert NormGamma(0.3).cost == PureCost(0.3)
