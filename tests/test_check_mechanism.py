"""The conformance check passes every public mechanism and catches planted mistakes.

Its own seeds are fixed and it fails a correct mechanism with probability 1e-9 per comparison.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import laplace, norm

from dpsk.mechanisms import ArgMin, Gaussian, Laplace, NoisyMin, NormGamma, PermuteAndFlip, Sensitivity
from dpsk.privacy import BoundedRangeCost, GaussianCost, PureCost
from dpsk.testing import check_mechanism, neighbouring_scores

STEP = 2**20

ADDITIVE = [Gaussian(0.8), Laplace(0.8), NormGamma(0.8)]
SELECTIONS = [ArgMin(1.0), PermuteAndFlip(1.0), NoisyMin(1.0, "laplace"), NoisyMin(1.0, "exponential")]

VECTOR = Sensitivity(float(STEP), float(STEP), float(STEP))
"""A sensitivity that the pair below uses up in every norm."""

PAIR = [(np.zeros(1, dtype=np.int64), np.array([STEP]))]


def scores_of(monotone):
    return Sensitivity(math.inf, math.inf, float(STEP), monotone)


def softmax(scores, eta, reach):
    weights = np.exp(-eta * (scores - scores.min()) / reach)
    return weights / weights.sum()


SCORES = np.array([0, 2, 1, 5, 9]) * STEP

# ------------------------------------------------------------------------------------------- sound mechanisms


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_additive_mechanisms_pass(mechanism):
    """The bound that the samples prove is positive; below epsilon where epsilon is finite."""
    proved = check_mechanism(mechanism, sensitivity=VECTOR, neighbours=PAIR, draws=4000)
    assert 0.1 < proved < mechanism.cost.epsilon


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_additive_mechanisms_pass_on_vectors(mechanism):
    pair = (np.array([5, -7, 0, 9]) * STEP, np.array([5, -7, 1, 9]) * STEP)
    assert 0.0 < check_mechanism(mechanism, sensitivity=VECTOR, neighbours=[pair], draws=8000) < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_additive_mechanisms_pass_on_weights_of_several_classes(mechanism):
    """A value of shape (p, K), like the gradient of a softmax."""
    value = np.zeros((2, 2), dtype=np.int64)
    neighbour = np.array([[0, 0], [STEP, 0]])
    assert 0.0 < check_mechanism(mechanism, sensitivity=VECTOR, neighbours=[(value, neighbour)], draws=2000) < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_additive_mechanisms_pass_without_neighbours(mechanism):
    """The default pairs must be neighbours under the sensitivity that was given: no false alarm."""
    assert check_mechanism(mechanism, sensitivity=VECTOR, draws=1500) < math.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "cdf"),
    [(Gaussian(0.5), norm(scale=2 * STEP).cdf), (Laplace(0.5), laplace(scale=2 * STEP).cdf)],
    ids=["Gaussian", "Laplace"],
)
def test_the_distribution_of_additive_noise_is_checked(mechanism, cdf):
    check_mechanism(mechanism, sensitivity=VECTOR, neighbours=PAIR, cdf=cdf, draws=2000)
    with pytest.raises(AssertionError, match="does not have the stated distribution"):
        check_mechanism(
            mechanism, sensitivity=VECTOR, neighbours=PAIR, cdf=lambda x: cdf(np.asarray(x) * 1.4), draws=2000
        )


@pytest.mark.slow
def test_noise_of_a_few_grid_units_has_its_own_distribution():
    """A correct mechanism on a coarse grid passes with its exact, stepped distribution function."""

    def cdf(k):
        """P(noise <= k) for discrete Laplace noise of scale 4."""
        upper = np.exp(-(np.abs(k) + (np.asarray(k) >= 0)) / 4) / (1 + math.exp(-1 / 4))
        return np.where(np.asarray(k) >= 0, 1 - upper, upper)

    coarse = Sensitivity(2.0, 2.0, 2.0)
    pair = [(np.zeros(8, dtype=np.int64), np.array([0, 2, 0, 0, 0, 0, 0, 0]))]
    assert check_mechanism(Laplace(0.5), sensitivity=coarse, neighbours=pair, cdf=cdf, draws=5000) <= 0.5


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SELECTIONS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
def test_selections_pass(mechanism, monotone):
    assert 0.0 <= check_mechanism(mechanism, sensitivity=scores_of(monotone), draws=200) < mechanism.cost.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SELECTIONS, ids=repr)
def test_the_proved_epsilon_of_a_selection_is_positive(mechanism):
    pair = (np.array([0, 0]), np.array([0, STEP]))
    proved = check_mechanism(mechanism, sensitivity=scores_of(True), neighbours=[pair], draws=2000)
    assert 0.1 < proved < mechanism.cost.epsilon


@pytest.mark.slow
def test_the_distribution_of_a_selection_is_checked():
    sensitivity, few = scores_of(True), [(SCORES, SCORES + STEP)]
    right = softmax(SCORES, 1.0, STEP)
    check_mechanism(ArgMin(1.0), sensitivity=sensitivity, neighbours=few, probabilities=(SCORES, right), draws=3000)
    for wrong in (softmax(SCORES, 1.4, STEP), np.full(5, 0.2), right[::-1]):
        with pytest.raises(AssertionError, match="does not have the stated distribution"):
            check_mechanism(
                ArgMin(1.0), sensitivity=sensitivity, neighbours=few, probabilities=(SCORES, wrong), draws=3000
            )


def test_a_distribution_test_without_power_is_reported():
    """Equal scores look the same at every strength, and ten draws prove nothing."""
    sensitivity, few = scores_of(True), [(SCORES, SCORES + STEP)]
    equal = (np.zeros(5, dtype=np.int64), np.full(5, 0.2))
    for probabilities, draws in ((equal, 2000), ((SCORES, softmax(SCORES, 1.0, STEP)), 10)):
        with pytest.raises(AssertionError, match="distribution test is too weak"):
            check_mechanism(
                ArgMin(1.0), sensitivity=sensitivity, neighbours=few, probabilities=probabilities, draws=draws
            )


@pytest.mark.parametrize("monotone", [True, False])
def test_default_neighbours_keep_the_promised_sensitivity(monotone):
    pairs = list(neighbouring_scores(21, scores_of(monotone)))
    assert len(pairs) >= 6
    for a, b in pairs:
        change = b - a
        assert a.dtype == b.dtype == np.int64
        assert np.abs(change).max() == STEP
        if monotone:
            assert (change >= 0).all() or (change <= 0).all()
    assert monotone or any((b - a).min() < 0 < (b - a).max() for a, b in pairs)


@pytest.mark.slow
def test_a_seed_makes_the_check_reproducible():
    first, again, other = (
        check_mechanism(Laplace(0.8), sensitivity=VECTOR, neighbours=PAIR, draws=1000, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


# ------------------------------------------------------------------------------------------- planted mistakes


@dataclass(frozen=True)
class HalfGaussian(Gaussian):
    """Half the noise."""

    def __call__(self, value, sensitivity, bits):
        return Gaussian(2 * self.mu)(value, sensitivity, bits)


@dataclass(frozen=True)
class HalfLaplace(Laplace):
    def __call__(self, value, sensitivity, bits):
        return Laplace(2 * self.epsilon)(value, sensitivity, bits)


@dataclass(frozen=True)
class HalfNormGamma(NormGamma):
    def __call__(self, value, sensitivity, bits):
        return NormGamma(2 * self.epsilon)(value, sensitivity, bits)


@dataclass(frozen=True)
class CheapGaussian(Gaussian):
    """A claimed cost of half the true one."""

    @property
    def cost(self):
        return GaussianCost(self.mu / 2)


@dataclass(frozen=True)
class CheapLaplace(Laplace):
    @property
    def cost(self):
        return PureCost(self.epsilon / 2)


@dataclass(frozen=True)
class NoNoise(Gaussian):
    def __call__(self, value, sensitivity, bits):
        return value.copy()


@dataclass(frozen=True)
class OneSidedNoise(Laplace):
    """Noise that is never negative: neighbours are told apart for sure."""

    def __call__(self, value, sensitivity, bits):
        return value + np.abs(super().__call__(np.zeros_like(value), sensitivity, bits))


MISTAKES = [
    HalfGaussian(1.0),
    HalfLaplace(1.0),
    HalfNormGamma(1.0),
    CheapGaussian(2.0),
    CheapLaplace(2.0),
    NoNoise(1.0),
    OneSidedNoise(1.0),
]


@pytest.mark.parametrize(
    "mechanism", [MISTAKES[0], *(pytest.param(each, marks=pytest.mark.slow) for each in MISTAKES[1:])], ids=repr
)
def test_too_little_additive_noise_is_caught(mechanism):
    with pytest.raises(AssertionError, match="is not as private as"):
        check_mechanism(mechanism, sensitivity=VECTOR, neighbours=PAIR, draws=3000)


@pytest.mark.parametrize("mechanism", [HalfGaussian(0.5), HalfLaplace(0.5)], ids=repr)
def test_too_little_additive_noise_has_another_distribution(mechanism):
    cdf = (norm if isinstance(mechanism, Gaussian) else laplace)(scale=2 * STEP).cdf
    with pytest.raises(AssertionError, match="does not have the stated distribution"):
        check_mechanism(mechanism, sensitivity=VECTOR, neighbours=PAIR, cdf=cdf, draws=2000)


@dataclass(frozen=True)
class LaplaceForGaussian(Gaussian):
    """Noise of the right variance from another family."""

    def __call__(self, value, sensitivity, bits):
        return Laplace(self.mu * math.sqrt(2))(value, sensitivity, bits)


def test_noise_of_another_family_is_caught():
    with pytest.raises(AssertionError, match="does not have the stated distribution"):
        check_mechanism(
            LaplaceForGaussian(0.5), sensitivity=VECTOR, neighbours=PAIR, cdf=norm(scale=2 * STEP).cdf, draws=6000
        )


@dataclass(frozen=True)
class HalfArgMin(ArgMin):
    def __call__(self, value, sensitivity, bits):
        return ArgMin(2 * self.eta)(value, sensitivity, bits)


@dataclass(frozen=True)
class HalfFlip(PermuteAndFlip):
    def __call__(self, value, sensitivity, bits):
        return PermuteAndFlip(2 * self.epsilon)(value, sensitivity, bits)


@dataclass(frozen=True)
class HalfNoisyMin(NoisyMin):
    def __call__(self, value, sensitivity, bits):
        return NoisyMin(2 * self.epsilon, self.noise)(value, sensitivity, bits)


@dataclass(frozen=True)
class CheapArgMin(ArgMin):
    @property
    def cost(self):
        return BoundedRangeCost(self.eta / 2)


@dataclass(frozen=True)
class PlainArgMin(ArgMin):
    """The smallest score, without noise."""

    def __call__(self, value, sensitivity, bits):
        return int(np.argmin(value))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [HalfArgMin(1.5), HalfFlip(1.0), HalfNoisyMin(1.0, "exponential"), CheapArgMin(2.5), PlainArgMin(1.0)],
    ids=repr,
)
def test_too_little_noise_in_a_selection_is_caught(mechanism):
    with pytest.raises(AssertionError, match="is not as private as"):
        check_mechanism(mechanism, sensitivity=scores_of(True), draws=2000)


@dataclass(frozen=True)
class NumpyArgMin(ArgMin):
    """Twice the strength, and answers that are NumPy integers."""

    def __call__(self, value, sensitivity, bits):
        return np.int64(ArgMin(2 * self.eta)(value, sensitivity, bits))


@pytest.mark.slow
def test_a_numpy_integer_is_an_index_as_well():
    """As many draws as were asked for, hence the same verdict."""
    with pytest.raises(AssertionError, match="is not as private as"):
        check_mechanism(NumpyArgMin(1.5), sensitivity=scores_of(True), draws=3000)


@dataclass(frozen=True)
class Uniform(ArgMin):
    """Perfectly private, and not what was promised."""

    def __call__(self, value, sensitivity, bits):
        return int.from_bytes(bits.take(8), "little") % len(value)


def test_a_useless_choice_is_caught_by_its_distribution():
    sensitivity, few = scores_of(True), [(SCORES, SCORES + STEP)]
    assert check_mechanism(Uniform(1.0), sensitivity=sensitivity, neighbours=few, draws=1000) == 0.0
    with pytest.raises(AssertionError, match="does not have the stated distribution"):
        check_mechanism(
            Uniform(1.0),
            sensitivity=sensitivity,
            neighbours=few,
            probabilities=(SCORES, softmax(SCORES, 1.0, STEP)),
            draws=1000,
        )


@dataclass(frozen=True)
class Careless(Gaussian):
    """Accepts one kind of sensitivity that it cannot serve."""

    accepts: float = math.inf

    def check(self, sensitivity):
        if sensitivity.l2 != self.accepts and not (math.isnan(sensitivity.l2) and math.isnan(self.accepts)):
            super().check(sensitivity)


@pytest.mark.parametrize("bad", [math.inf, math.nan, 0.0, -1.0])
def test_a_mechanism_that_accepts_what_it_cannot_serve_is_caught(bad):
    with pytest.raises(AssertionError, match=f"accepts a sensitivity of {bad}"):
        check_mechanism(Careless(1.0, bad), sensitivity=VECTOR, neighbours=PAIR, draws=10)


@dataclass(frozen=True)
class Free(Gaussian):
    @property
    def cost(self):
        return 0.1


def test_a_cost_must_be_a_cost():
    with pytest.raises(AssertionError, match="must be a Cost"):
        check_mechanism(Free(1.0), sensitivity=VECTOR, neighbours=PAIR, draws=10)
