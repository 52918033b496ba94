"""Additive noise on the integer grid: the right scale, the right distribution, and a cost that is never too low."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import chisquare, kstest, norm
from scipy.stats import laplace as continuous_laplace

from dpsk.mechanisms import ArgMin, Gaussian, Laplace, NoisyMin, NormGamma, PermuteAndFlip, SeededBits, Sensitivity
from dpsk.mechanisms.additive import noise_scale
from dpsk.mechanisms.samplers import MAX_SCALE
from dpsk.privacy import ZCDP, GaussianCost, GaussianDP, PureCost, PureDP, RenyiDP

ERROR = 1e-9
"""Probability that one comparison of a correct mechanism fails."""

ROUNDING = 1e-13
"""Slack for sums of a few hundred floats, all at most 1."""


def rounded_gaussian_pmf(k, sigma):
    """P(k - 1/2 < N(0, sigma^2) < k + 1/2), from the lower tail, where differences keep their digits."""
    return ndtr((0.5 - np.abs(k)) / sigma) - ndtr((-0.5 - np.abs(k)) / sigma)


def only(norm_name, value):
    """A sensitivity of which only one norm is bounded."""
    return Sensitivity(**{"l1": math.inf, "l2": math.inf, "linf": math.inf, norm_name: value})


ADDITIVE = [(Gaussian, "l2"), (Laplace, "l1")]


# ------------------------------------------------------------------------------------------------ noise scale


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    sensitivity=st.one_of(st.integers(1, 2**55), st.floats(1e-3, 2.0**50)),
    strength=st.one_of(st.floats(0.9, 1e6), st.integers(1, 100)),
)
def test_the_scale_is_the_smallest_integer_that_suffices(sensitivity, strength):
    scale = noise_scale(sensitivity, strength)
    assert isinstance(scale, int)
    needed = Fraction(sensitivity) / Fraction(strength)
    assert scale - 1 < needed <= scale


@pytest.mark.parametrize(
    ("sensitivity", "strength", "scale"),
    [
        (1, 1 / 3, 4),  # the float 1/3 is below 1/3, so 3 would be too little noise
        (3, 0.3, 11),  # float division says 10.0 while the float 0.3 is below 0.3
        (1, 0.1, 10),  # the float 0.1 is above 0.1
        (2**53 + 1, 1, 2**53 + 1),  # not a float
        (1e-300, 1e300, 1),
        (MAX_SCALE, 1.0, MAX_SCALE),
    ],
)
def test_the_scale_is_exact_where_float_division_is_not(sensitivity, strength, scale):
    assert noise_scale(sensitivity, strength) == scale


@pytest.mark.parametrize(
    ("sensitivity", "strength"),
    [
        (np.int64(2**40), 0.1),
        (np.int64(1_000_003), 0.1),
        (np.uint8(200), 0.5),
        (np.float32(7.5), 0.1),
        (7.1, np.int64(3)),
        (8.0, np.float32(0.5)),
    ],
    ids=repr,
)
def test_numpy_numbers_mean_what_python_numbers_mean(sensitivity, strength):
    """Fixed-width integers must not wrap around inside the exact division: that would be too little noise."""
    scale = noise_scale(sensitivity, strength)
    assert scale == noise_scale(
        sensitivity.item() if isinstance(sensitivity, np.generic) else sensitivity, float(strength)
    )
    assert isinstance(scale, int)


@pytest.mark.parametrize(("kind", "norm_name"), ADDITIVE)
def test_noise_beyond_the_grid_is_refused_before_anything_is_charged(kind, norm_name):
    kind(1.0).check(only(norm_name, float(MAX_SCALE)))
    for mechanism, bound in ((kind(1.0), float(MAX_SCALE + 16)), (kind(1e-20), 1.0), (kind(1e-300), 1e300)):
        with pytest.raises(ValueError, match=r"needs noise beyond 2\*\*56 grid units"):
            mechanism.check(only(norm_name, bound))


@pytest.mark.parametrize(("kind", "norm_name"), ADDITIVE)
@pytest.mark.parametrize("bad", [math.inf, math.nan, 0, 0.0, -1.0, -math.inf])
def test_unbounded_or_empty_sensitivities_are_refused(kind, norm_name, bad):
    sensitivity = dataclasses.replace(Sensitivity(5.0, 5.0, 5.0), **{norm_name: bad})
    for refuse in (kind(1.0).check, lambda s: kind(1.0)(np.zeros(3, dtype=np.int64), s, SeededBits(0))):
        with pytest.raises(ValueError, match=f"{norm_name} sensitivity .* needs a query with a positive finite bound"):
            refuse(sensitivity)


@pytest.mark.parametrize(("kind", "norm_name"), ADDITIVE)
def test_only_the_norm_that_is_used_must_be_bounded(kind, norm_name):
    kind(1.0).check(only(norm_name, 5.0))


# --------------------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize("kind", [Gaussian, Laplace])
@pytest.mark.parametrize("shape", [(1,), (7,), (4, 3), (0,)])
def test_shape_and_type_are_those_of_the_value(kind, shape):
    value = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    before = value.copy()
    release = kind(0.5)(value, Sensitivity(9.0, 9.0, 9.0), SeededBits(0))
    assert release.shape == shape
    assert release.dtype == np.int64
    assert np.array_equal(value, before)


@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_the_noise_does_not_depend_on_the_value(kind):
    """Under one seed, two values differ by their difference: shape (p, K), huge and negative entries included."""
    value = np.array([[0, -5, 2**61], [7, -(2**61), 1]])
    sensitivity = Sensitivity(9.0, 9.0, 9.0)
    noise = kind(0.5)(np.zeros((2, 3), dtype=np.int64), sensitivity, SeededBits(1))
    assert np.array_equal(kind(0.5)(value, sensitivity, SeededBits(1)) - value, noise)
    assert len(np.unique(noise)) > 3


@pytest.mark.parametrize(
    ("kind", "strength", "bound", "cdf"),
    [
        (Gaussian, 0.25, 2.0**20, norm(scale=2.0**22).cdf),
        (Laplace, 0.25, 2.0**20, continuous_laplace(scale=2.0**22).cdf),
    ],
)
def test_noise_on_a_fine_grid(kind, strength, bound, cdf):
    value = np.zeros((500, 100), dtype=np.int64)
    noise = kind(strength)(value, only("l2" if kind is Gaussian else "l1", bound), SeededBits(2)).ravel()
    assert kstest(noise, cdf).pvalue > ERROR
    for factor in (2 / 3, 3 / 2):
        assert kstest(noise * factor, cdf).pvalue < ERROR


@pytest.mark.parametrize(("strength", "bound", "scale"), [(1.0, 1.0, 1), (0.4, 1.0, 3), (1.0, 2.5, 3)])
@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_noise_on_a_coarse_grid(kind, strength, bound, scale):
    noise = kind(strength)(np.zeros(200_000, dtype=np.int64), Sensitivity(bound, bound, bound), SeededBits(3))
    k = np.arange(-2 * scale, 2 * scale + 1)
    counts = np.array([*(noise == k[:, None]).sum(axis=1), 0])
    counts[-1] = len(noise) - counts.sum()

    def p_value(s):
        inner = rounded_gaussian_pmf(k, s) if kind is Gaussian else math.tanh(0.5 / s) * np.exp(-np.abs(k) / s)
        return chisquare(counts, np.array([*inner, 1 - inner.sum()]) * len(noise)).pvalue

    assert p_value(scale) > ERROR
    assert p_value(scale * 2 / 3) < ERROR
    assert p_value(scale * 3 / 2) < ERROR


# ----------------------------------------------------------------------------------------------------- costs

EPSILONS = [0.0, 0.01, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("mu", "bound"),
    [(1.0, 1.0), (4.0, 1.0), (0.4, 1.0), (2.0, 5.0), (1.0, 2.5), (1 / 3, 1.0), (0.5, 32.0), (3.0, 64.0), (0.1, 30.0)],
)
def test_the_gaussian_cost_covers_the_exact_divergence(mu, bound):
    """The hockey-stick divergence of the rounded noise at its true scale, for all steps up to the sensitivity."""
    mechanism = Gaussian(mu)
    sigma = noise_scale(bound, mu)
    k = np.arange(-14 * sigma, 14 * sigma + math.floor(bound) + 1)
    p = rounded_gaussian_pmf(k, sigma)
    for step in range(1, math.floor(bound) + 1):
        q = rounded_gaussian_pmf(k - step, sigma)
        for epsilon in EPSILONS:
            for left, right in ((p, q), (q, p)):
                exact = np.maximum(left - math.exp(epsilon) * right, 0).sum()
                assert exact <= mechanism.cost.delta(epsilon) + ROUNDING


def test_the_gaussian_cost_is_tight_on_a_fine_grid():
    """At sigma = 640 the cost is what the noise needs: the true divergence is within 1e-5 of it."""
    mechanism, bound = Gaussian(0.5), 320
    sigma = noise_scale(bound, mechanism.mu)
    assert sigma == 640
    k = np.arange(-14 * sigma, 14 * sigma + bound + 1)
    p, q = rounded_gaussian_pmf(k, sigma), rounded_gaussian_pmf(k - bound, sigma)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        claimed = mechanism.cost.delta(epsilon)
        assert claimed * (1 - 1e-5) <= exact <= claimed + ROUNDING


def test_the_gaussian_cost_covers_steps_in_two_coordinates():
    """A neighbour that moves two entries by 3 and 4: l2 sensitivity 5, exact divergence of the product."""
    mechanism = Gaussian(1.0)
    k = np.arange(-70, 75)
    sigma = noise_scale(5.0, mechanism.mu)
    p = np.outer(rounded_gaussian_pmf(k, sigma), rounded_gaussian_pmf(k, sigma))
    q = np.outer(rounded_gaussian_pmf(k - 3, sigma), rounded_gaussian_pmf(k - 4, sigma))
    for epsilon in EPSILONS:
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert 0.9 * mechanism.cost.delta(epsilon) - ROUNDING <= exact <= mechanism.cost.delta(epsilon) + ROUNDING


@pytest.mark.parametrize(
    ("epsilon", "bound"), [(1.0, 1), (0.5, 1), (0.3, 1), (1 / 3, 1), (0.25, 16), (2.0, 5), (0.125, 1024)]
)
def test_the_laplace_ratio_is_at_most_exp_epsilon(epsilon, bound):
    """Exact ratios of probabilities at distance ``bound``; attained wherever bound/epsilon is an integer."""
    scale = noise_scale(bound, epsilon)
    k = np.arange(-20 * scale, 20 * scale + 1)
    log_ratios = (np.abs(k - bound) - np.abs(k)) / scale
    assert np.abs(log_ratios).max() <= Laplace(epsilon).cost.epsilon
    if Fraction(bound) / Fraction(epsilon) == scale:
        assert np.abs(log_ratios).max() == epsilon


def test_costs_name_what_the_mechanism_promises():
    assert Gaussian(0.7).cost == GaussianCost(0.7)
    assert Laplace(0.7).cost == PureCost(0.7)


# --------------------------------------------------------------------------------------- prices and strengths

BUILDERS = [Gaussian, Laplace, ArgMin, PermuteAndFlip, NoisyMin, NormGamma]


CURRENCIES = [ZCDP(), GaussianDP(), RenyiDP(1.5), RenyiDP(32.0), PureDP()]
PURCHASES = [
    (kind, currency)
    for kind in BUILDERS
    for currency in CURRENCIES
    if kind is not Gaussian or currency != PureDP()  # Gaussian noise has no finite epsilon
]


@pytest.mark.parametrize(("kind", "currency"), PURCHASES, ids=repr)
@pytest.mark.parametrize("price", [1e-9, 1e-4, 0.03, 1.0, 7.3, 40.0])
def test_priced_spends_the_price_and_never_more(kind, currency, price):
    paid = currency.price(kind.priced(price, currency).cost)
    assert price * (1 - 1e-9) <= paid <= price


def test_gaussian_noise_cannot_be_bought_with_pure_epsilon():
    with pytest.raises(ValueError, match="price"):
        Gaussian.priced(1.0, PureDP())


@pytest.mark.parametrize("price", [0.0, -1.0, math.inf, math.nan])
def test_priced_refuses_other_prices(price):
    with pytest.raises(ValueError, match="must be a positive finite number"):
        Laplace.priced(price, ZCDP())


def test_priced_passes_options_on():
    assert NoisyMin.priced(0.5, PureDP(), noise="exponential").noise == "exponential"


def true_price(epsilon, currency):
    """What an epsilon-DP release costs at most (randomised response), to 60 digits."""
    e = mpmath.mpf(epsilon)
    if isinstance(currency, GaussianDP):
        return 8 * mpmath.erfinv(mpmath.tanh(e / 2)) ** 2
    if isinstance(currency, RenyiDP):
        a = mpmath.mpf(currency.order)
        return mpmath.log((mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e))) / (a - 1)
    return e * mpmath.tanh(e / 2)


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), RenyiDP(8.0)], ids=repr)
@pytest.mark.parametrize("price", [1e-36, 1e-30, 1e-24, 1e-12, 1e-3, 1.0, 20.0])
def test_even_tiny_prices_are_not_exceeded(currency, price):
    """The true price of what was bought, in high precision, not the one the library computes for it."""
    with mpmath.workdps(100):
        paid = true_price(Laplace.priced(price, currency).epsilon, currency)
        assert price * (1 - 1e-9) <= paid <= price * (1 + 1e-9)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("bad", [0, 0.0, -1.0, math.inf, math.nan, "1", None, 1j])
def test_strengths_are_positive_finite_numbers(kind, bad):
    with pytest.raises(ValueError, match="must be a positive finite number"):
        kind(bad)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("number", [np.float64(0.5), np.float32(0.5), np.int64(2), 2], ids=repr)
def test_a_strength_that_is_accepted_can_be_used(kind, number):
    """What the constructor accepts, check and the release accept too, with the same result as a Python float."""
    value, sensitivity = np.arange(5), Sensitivity(8.0, 8.0, 8.0)
    kind(number).check(sensitivity)
    released = kind(number)(value, sensitivity, SeededBits(4))
    assert np.array_equal(released, kind(float(number))(value, sensitivity, SeededBits(4)))


@pytest.mark.parametrize("kind", BUILDERS)
def test_mechanisms_are_frozen_values(kind):
    assert kind(0.5) == kind(0.5)
    assert hash(kind(0.5)) == hash(kind(0.5))
    name = dataclasses.fields(kind)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(0.5), name, 1.0)
