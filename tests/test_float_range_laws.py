"""Laws of the number of runs, mechanisms and plans over the whole range of their parameters.

Either the claim is on the safe side of a computation with many digits, or a ValueError names parameter, value and
remedy.
"""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpsk.mechanisms import (
    AboveThreshold,
    ArgMin,
    Gaussian,
    Laplace,
    NoisyMin,
    NormGamma,
    PermuteAndFlip,
    SeededBits,
    Sensitivity,
    SymmetricGaussian,
    repetitions,
)
from dpsk.mechanisms.additive import noise_scale
from dpsk.mechanisms.selection import _Exponents
from dpsk.privacy import Budget, GaussianDP, PureDP, Sampling, conversions
from dpsk.privacy.repetition import BestOf, Poisson, TruncatedNegativeBinomial, Within

mp = mpmath.MPContext()
mp.dps = 60

TINY = [5e-324, 1e-323, 2.2250738585072014e-308, 1e-300, 1e-160, 1e-17, 1e-8, 1e-4]
ETAS = [
    *TINY,
    *(-x for x in TINY),
    0.0,
    0.5,
    1 - 2.0**-53,
    1.0,
    1 + 2.0**-52,
    2.5,
    100.0,
    -0.5,
    -1 + 2.0**-52,
    -1 + 2.0**-53,
]
EXTREME = [TruncatedNegativeBinomial(e, g) for e in (5e-324, -1 + 2.0**-53, 100.0) for g in (1e-4, 0.999)]
GAMMAS = [1e-4, math.nextafter(1e-4, 1), 0.05, 0.5, math.nextafter(0.999, 0), 0.999]
FLOATS = [*TINY, 0.1, 1 - 2.0**-53, 1.0, 3.7, 100.0, 1e4, 1e16, 1e100, 1e160, 1e300, math.nextafter(math.inf, 0)]


def attempt(call):
    """Return what a call returns, and the message of the ValueError that it raises."""
    try:
        return call(), None
    except ValueError as error:
        return None, str(error)


# ---------------------------------------------------------------------- the truncated negative binomial distribution


def generating(law, s):
    """E s^K: ((1 - (1 - gamma) s)^-eta - 1)/(gamma^-eta - 1), and its limit at eta = 0."""
    eta, gamma, s = mp.mpf(law.eta), mp.mpf(law.gamma), mp.mpf(s)
    if eta == 0:
        return mp.log(1 - (1 - gamma) * s) / mp.log(gamma)
    return mp.expm1(-eta * mp.log(1 - (1 - gamma) * s)) / mp.expm1(-eta * mp.log(gamma))


def mean_of(law):
    eta, gamma = mp.mpf(law.eta), mp.mpf(law.gamma)
    if eta == 0:
        return (1 - gamma) / gamma / -mp.log(gamma)
    return (1 - gamma) / gamma * eta / -mp.expm1(eta * mp.log(gamma))


@pytest.mark.slow
@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_mean_and_the_claim_on_all_floats(eta, gamma):
    """Runs of which one outcome gives a row away, and beats all others: delta is 1 - E (1 - d)^K."""
    law = TruncatedNegativeBinomial(eta, gamma)
    with mp.workdps(400):
        assert abs(law.mean / mean_of(law) - 1) < 1e-14
        for lost in (1e-300, 1e-6, 1e-3):
            near = Within(10.0, lost)
            truth = 1 - generating(law, 1 - mp.mpf(lost))
            claim = law.delta((Within(0.0, lost), near), 0.0 + (1 + eta) * 10.0 + 1e-9)
            assert claim >= truth
            assert law.delta((Within(0.0, lost), near), law.pure((Within(0.0, lost), near))) <= 1.001 * lost * law.mean
        # pure runs: the best of two outcomes
        for e in (1e-300, 1e-8, 0.3, 5.0):
            pure = law.pure((Within(e, 0.0), Within(e, 0.0)))
            assert mp.mpf(pure) >= (2 + mp.mpf(eta)) * mp.mpf(e)
            assert pure <= (2 + mp.mpf(eta)) * mp.mpf(e) * (1 + mp.mpf(2) ** -51)
            no = 1 / (1 + mp.exp(mp.mpf(e)))  # the worse outcome wins if all runs have it
            assert mp.log(generating(law, 1 - no) / generating(law, no)) <= pure
            leak = law._leak(e)
            assert leak <= mp.mpf(gamma) / (1 - mp.mpf(gamma)) * mp.expm1(mp.mpf(e))


def test_a_subnormal_eta_does_not_understate_delta():
    """As reported: the mean came out a quarter too small, and delta with it."""
    subnormal, zero = TruncatedNegativeBinomial(5e-324, 0.05), TruncatedNegativeBinomial(0.0, 0.05)
    assert subnormal.mean == zero.mean
    bounds = Within(0.5, 1e-6), Within(0.1, 1e-6)
    assert subnormal.delta(bounds, 0.7) == zero.delta(bounds, 0.7) >= 1e-6 * mean_of(zero)


@pytest.mark.parametrize(
    ("eta", "gamma", "name"),
    [(-1.0, 0.1, "eta"), (math.nextafter(100, 101), 0.1, "eta"), (-1e308, 0.1, "eta"), (1e308, 0.1, "eta")]
    + [
        (1.0, g, "gamma") for g in (5e-324, math.nextafter(1e-4, 0), math.nextafter(0.999, 1), 1 - 2.0**-53, 1.0, 1e308)
    ],
)
def test_laws_out_of_range_are_refused_by_name(eta, gamma, name):
    with pytest.raises(ValueError, match=rf"{name}=.* must lie in .*: "):
        TruncatedNegativeBinomial(eta, gamma)


# ----------------------------------------------------------------------------------------------------- what is drawn


def chance_of(monkeypatch, draw, *answers):
    """The chance that the coins of a draw show these answers, one after the other, and what it then returns."""
    chances, left = [], list(answers)

    def heads(chance, bits):
        answer = left.pop(0)
        if chance >= 1:
            assert answer
        chances.append(min(chance, Fraction(1)) if answer else 1 - chance)
        return answer

    monkeypatch.setattr(repetitions, "_heads", heads)
    result = draw()
    assert not left
    return math.prod(chances, start=Fraction(1)), result


@pytest.mark.parametrize("eta", [x for x in ETAS if x <= 1])
@pytest.mark.parametrize("gamma", [1e-4, 0.3, 0.999])
def test_the_law_that_is_drawn_is_the_one_that_is_priced(monkeypatch, eta, gamma):
    """The chances of K = 1, ..., 6 in one attempt, as exact fractions, are in the proportions of the law."""
    law = TruncatedNegativeBinomial(eta, gamma)
    weight, more = Fraction(1), 1 - Fraction(gamma)
    for k in range(1, 7):
        answers = [True, True] * (k - 1) + [False]
        chance, drawn = chance_of(monkeypatch, lambda: repetitions.repetitions(law, None), *answers)
        assert drawn == k
        assert chance == Fraction(gamma) * weight
        weight *= more * (k + Fraction(eta)) / (k + 1)


@pytest.mark.parametrize("eta", [1 + 2.0**-52, 1.5, 3.0])
@pytest.mark.parametrize("gamma", [1e-4, 0.999])
def test_parts_of_a_law_that_are_added_up(monkeypatch, eta, gamma):
    """Of each part, whose eta add up: P(k) is proportional to more^k C(k + eta - 1, k), from 0 on."""
    more = 1 - Fraction(gamma)
    for part in {Fraction(1), Fraction(eta) - math.floor(eta)} - {0}:
        weight = Fraction(1)
        for k in range(6):
            answers = [True, True] * k + [False]
            draw = lambda part=part: repetitions._thinned_geometric(more, part, 0, None)  # noqa: E731
            assert chance_of(monkeypatch, draw, *answers) == (Fraction(gamma) * weight, k)
            weight *= more * (k + part) / (k + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "law", [*EXTREME[:4], TruncatedNegativeBinomial(100.0, 0.5), Poisson(5e-324), Poisson(1e3)], ids=repr
)
def test_extreme_laws_can_be_drawn(law):
    bits = SeededBits(0)
    draws = [repetitions.repetitions(law, bits) for _ in range(3)]
    assert max(draws) < 100 * law.mean + 100
    assert min(draws) >= isinstance(law, TruncatedNegativeBinomial)


# ---------------------------------------------------------------------------------------------------------- Poisson


def hockey(p, q, epsilon):
    return mp.fsum(max(mp.zero, x - mp.exp(epsilon) * y) for x, y in zip(p, q, strict=True))


@pytest.mark.parametrize("mean", [5e-324, 1e-300, 1e-8, 0.3, 10.0, 1e4])
def test_poisson_on_all_floats(mean):
    """Randomised response with a rare outcome that gives a row away; exactly, with 60 digits."""
    law = Poisson(mean)
    for e, lost in itertools.product([1e-12, 1e-6, 0.02, 0.5, 5.0], [0.0, 1e-200, 1e-9, 1e-3]):
        e_, d = mp.mpf(e), mp.mpf(lost)
        yes, no = 1 / (1 + mp.exp(-e_)), 1 / (1 + mp.exp(e_))
        p, q = [no * (1 - d), yes * (1 - d), d], [yes * (1 - d), no * (1 - d), mp.zero]
        q[0] += d
        at = [0.0, e / 4, e / 2, e, 2 * e, 40 * e]
        profile = tuple(Within(u, float(max(hockey(p, q, u), hockey(q, p, u)) * (1 + mp.mpf(2) ** -50))) for u in at)
        for order in (range(3), (2, 1, 0), (1, 0, 2)):
            best = []
            for law_of_run in (p, q):
                below, masses = mp.zero, {}
                for outcome in order:
                    upto = below + law_of_run[outcome]
                    masses[outcome] = mp.exp(mean * (upto - 1)) * -mp.expm1(-mean * law_of_run[outcome])
                    below = upto
                best.append([masses[k] for k in range(3)])
            for epsilon in (e / 2, e, 2.0 * e, 1.0, 30.0):
                assert law.delta(profile, epsilon) >= hockey(*best, epsilon), (e, lost, epsilon)


def test_poisson_refuses_means_that_are_too_large():
    for mean in (0.0, -1.0, math.nextafter(1e4, 1e5), 1e308):
        with pytest.raises(ValueError, match=r"mean=.* must lie in"):
            Poisson(mean)


@pytest.mark.slow
@pytest.mark.parametrize("law", [*EXTREME, Poisson(1e-8), Poisson(1e4)], ids=repr)
def test_searches_are_planned_within_their_promise_or_refused(law):
    for epsilon, delta in itertools.product([1e-100, 1e-30, 1e-3, 1.0, 300.0, 1e9], [1e-200, 1e-6]):

        def planned(promise=(epsilon, delta)):
            return BestOf.budget(law, *promise, lambda e, d: Budget.of(e, d, currency=GaussianDP()))

        budget, refusal = attempt(planned)
        if refusal:
            assert "epsilon=" in refusal or "delta=" in refusal
            continue
        assert law.delta(budget.currency.bounds, epsilon) <= delta


# ------------------------------------------------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("strength", FLOATS)
@pytest.mark.parametrize("size", [5e-324, 1e-300, 0.3, 1.0, 3.0, 2.0**40, 1e300])
def test_noise_is_never_too_small_and_draws_are_silent(strength, size):
    """Warnings are errors in this suite; values at both ends of the integers, so that gaps are as large as can be."""
    sensitivity = Sensitivity(size, size, size)
    value, bits = np.array([-(2**62), 0, 2**62]), SeededBits(0)
    scale, refusal = attempt(lambda: noise_scale(size, strength))
    if refusal:
        assert f"strength {strength!r} at sensitivity {size!r}" in refusal
    else:
        assert Fraction(scale) * Fraction(strength) >= Fraction(size)
        assert scale == 1 or Fraction(scale - 1) * Fraction(strength) < Fraction(size)
    for build, options in KINDS:

        def draw(build=build, options=options):
            mechanism = build(strength, **options)
            mechanism.check(sensitivity, value.shape)
            return mechanism(value, sensitivity, bits)

        refusal = attempt(draw)[1] or "spend more"
        shared = f"epsilon={strength!r} is too small to be shared by two noises: use at least"
        assert "spend more" in refusal or (build is AboveThreshold and shared in refusal)
    matrix = np.eye(2, dtype=np.int64)
    assert "spend more" in (attempt(lambda: SymmetricGaussian(strength)(matrix, sensitivity, bits))[1] or "spend more")


KINDS = [
    *((kind, {}) for kind in (Gaussian, Laplace, NoisyMin, ArgMin, PermuteAndFlip, AboveThreshold, NormGamma)),
    (NoisyMin, {"noise": "exponential"}),
    (AboveThreshold, {"noise": "gaussian"}),
]


@pytest.mark.parametrize("strength", FLOATS)
@pytest.mark.parametrize("reach", [5e-324, 1e-300, 0.3, 1.0, 2.0**40, 1e300])
def test_coins_of_selections_are_told_nearly_the_right_exponent(strength, reach):
    """A coin takes a float whose exponential is off by less than 2^-49, and the exact number."""
    gaps = np.array([0, 1, 2, 3, 1000, 2**53 + 1, 2**62], dtype=np.int64)
    exponents = _Exponents(gaps, strength, reach)
    for k, gap in enumerate(gaps):
        exact = int(gap) * Fraction(strength) / Fraction(reach)
        assert exponents.exact(k)(53) == (exact, exact)
        small = mp.mpf(exact.numerator) / mp.mpf(exact.denominator)
        assert (
            abs(mp.exp(-mp.mpf(float(exponents.floats[k]))) - mp.exp(-min(small, mp.mpf(10) ** 9))) < mp.mpf(2) ** -49
        )


@pytest.mark.parametrize("bad", [0.0, -0.0, -5e-324, 1 + 2.0**-52, 1e308, math.inf, math.nan])
def test_rates_outside_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=r"rate=.* must lie in"):
        Sampling(bad)


# ---------------------------------------------------------------------------------------- the lemmas of the theorems


@pytest.mark.slow
def test_the_lemma_of_bounded_range():
    """A^2 + 2 phi A/z falls to 1/4, so that phi/(Phi(z) Phi(-z)) grows."""
    before, h = None, mp.zero
    with mp.workdps(400):
        for z in [mp.mpf(10) ** -30, *(mp.mpf(k) / 20 for k in range(1, 700))]:
            part = mp.erf(z / mp.sqrt(2)) / 2
            at = part**2 + 2 * mp.npdf(z) * part / z
            assert mp.mpf(1) / 4 < at < (before or 1)
            grown = mp.npdf(z) / (mp.mpf(1) / 4 - part**2)
            assert grown > h
            before, h = at, grown


def test_the_lemma_of_pure_rho():
    """log cosh(x sqrt(v)) is concave in v: its slope tanh(y)/y falls."""
    before = mp.mpf(1)
    for y in [mp.mpf(10) ** (mp.mpf(k) / 20) for k in range(-200, 200)]:
        assert mp.tanh(y) / y < before
        before = mp.tanh(y) / y


def test_a_pure_budget_says_exactly_what_was_asked_for():
    for epsilon in FLOATS:
        assert PureDP().limit(epsilon, 0.0) == PureDP().epsilon(epsilon, 0.0) == epsilon
        assert conversions.pure_delta(epsilon, epsilon) == 0
