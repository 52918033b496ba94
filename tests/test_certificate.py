"""What certificates promise: bounds that noise and sampling exceed as rarely as they say."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpsk.mechanisms import SeededBits, Sensitivity, SymmetricGaussian
from dpsk.solvers.certificate import Certificate, failure_of, gaussian_norm, largest_eigenvalue, sampling_error


def within(failures, trials, failure):
    """Whether so many failures are plausible (to 1e-9) if each happens with at most this probability."""
    return binom.sf(failures - 1, trials, failure) > 1e-9


@pytest.mark.parametrize(("n", "failure"), [(1, 0.1), (5, 0.01), (100, 0.1)])
def test_the_norm_of_noise(n, failure):
    norms = np.linalg.norm(np.random.default_rng(0).normal(size=(20_000, n)), axis=1)
    bound = gaussian_norm(3.0, n, failure) / 3
    assert within((norms > bound).sum(), len(norms), failure)
    assert bound < np.quantile(norms, 1 - failure) + 1.6, "not needlessly large"


@pytest.mark.slow
@pytest.mark.parametrize(("p", "blocks", "failure"), [(1, 1, 0.1), (4, 1, 0.1), (30, 1, 0.1), (4, 5, 0.2)])
def test_the_largest_eigenvalue_of_the_mechanism_s_noise(p, blocks, failure):
    zero, bits, times = np.zeros((blocks, p, p), dtype=np.int64), SeededBits(0), 1500
    noise = [SymmetricGaussian(1.0)(zero, Sensitivity(2**20, 2**20, 2**20), bits) for _ in range(times)]
    largest = np.linalg.eigvalsh(np.array(noise))[..., -1].max(axis=1) / 2**20
    bound = largest_eigenvalue(1.0, p, failure, blocks)
    assert within((largest > bound).sum(), times, failure)
    assert bound < 2 * np.quantile(largest, 1 - failure) + 1


@pytest.mark.parametrize("scheme", ["poisson", "without-replacement"])
def test_the_error_of_a_batch(scheme):
    rng, failure = np.random.default_rng(0), 0.1
    x = rng.normal(size=(400, 3)) + 0.5
    x /= np.linalg.norm(x, axis=1)[:, None]
    bound, failures = sampling_error(1.0, 80.0, 0.2, scheme, 4, failure), 0
    errors = []
    for _ in range(1000):
        kept = rng.random(400) < 0.2 if scheme == "poisson" else rng.permutation(400) < 80
        errors.append(np.linalg.norm(x[kept].sum(axis=0) / 80 - x.mean(axis=0)))
    failures = (np.array(errors) > bound).sum()
    assert within(failures, 1000, failure)
    assert bound < 4 * np.quantile(errors, 1 - failure)
    assert sampling_error(1.0, 400.0, 1.0, scheme, 4, failure) == 0.0


@pytest.mark.parametrize(("scheme", "variance", "largest"), [("poisson", 0.8, 1.0), ("without-replacement", 1.0, 2.0)])
def test_it_solves_bernstein_s_inequality(scheme, variance, largest):
    """dimension exp(-t^2/2 / (variance + largest t/3)) is the failure that was asked for."""
    t = 80 * sampling_error(3.0, 80.0, 0.2, scheme, 4, 0.01)
    assert 4 * math.exp(-(t**2) / 2 / (80 * variance * 9 + 3 * largest * t / 3)) == pytest.approx(0.01, rel=1e-9)


def test_one_row_that_is_drawn_or_not_is_covered():
    """Bernstein's bound for one term: it is in the batch with probability 0.01, and then the mean is 1/0.01 too far."""
    assert sampling_error(1.0, 0.01, 0.01, "poisson", 2, 0.005) > 1 / 0.01 - 1


def test_all_failures_of_a_run_add_up_to_one_minus_the_confidence():
    gradients = hessians = math.fsum(failure_of(k, 0.9) for k in range(1, 100_000))
    assert gradients + hessians <= 0.1
    assert gradients + hessians == pytest.approx(0.1, rel=1e-3)


def test_bounds_and_statements():
    reached = Certificate(True, 0.1, 0.3, 0.95, 2.0, 0.08, 0.03, -0.1, 0.5, -0.4)
    assert reached.gradient_bound == pytest.approx(0.11)
    assert reached.eigenvalue_bound == -0.4  # what the loss allows says more than the noisy eigenvalue less its error
    assert Certificate(True, 0.1, 0.3, 0.95, 2.0, 0.08, 0.03, -0.1, 0.2, -9.0).eigenvalue_bound == pytest.approx(-0.3)
    for part in (
        "gradient norm <= 0.1",
        ">= -0.3",
        "at least 0.95",
        "at most 0.11",
        "below -0.4",
        "longer than 2 clipped",
    ):
        assert part in reached.statement()
    ended = Certificate(False, 0.1, 0.3, 0.95)
    assert ended.gradient_bound is ended.eigenvalue_bound is None
    assert "nothing is known" in ended.statement()
