"""What is known, from releases alone, about a point that noisy derivatives seem to make a second-order solution.

Errors of noisy derivatives have public bounds: noise has a known variance, batches are drawn in a known way, rounding
is bounded. So a noisy gradient and a noisy smallest eigenvalue bound the true ones with a stated confidence, and cost
nothing beyond what was paid for them.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """What a fit says about the point it returns.

    ``reached``: the noisy gradient is at most ``eps_g`` long and the noisy Hessian has no eigenvalue below ``-eps_h``.
    Then, with probability at least ``confidence`` over noise and batches, the true gradient at this point is at most
    ``gradient_bound`` long and the true Hessian has no eigenvalue below ``eigenvalue_bound``. If not ``reached`` the
    budget ended first (or a callback stopped the fit) and nothing is known; these are None then.

    "True" is the objective that the fit descends on: the mean loss over the rows plus the penalty, where gradients and
    Hessians of rows longer than ``longest`` (with the constant column; in the units that are fitted) are clipped. With
    ``data_norm`` no row is longer, so it is the objective itself. The rows are those that are summed: entries are
    kept to 18 binary digits below the largest of their row, or of all rows where columns have a public range.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 6.10)
    *Privacy.* All fields are computed from releases and public facts.

    *Confidence.* The bounds on the errors of the k-th gradient and of the k-th Hessian fail with probability at most
    ``(1 - confidence) * 3 / (pi k)^2`` each, which adds up to 1 - confidence over any number of them. So with that
    confidence all bounds of the run hold together, and with them those at the point where it stopped, however it was
    chosen.
    """

    reached: bool
    eps_g: float | None
    eps_h: float | None
    confidence: float
    longest: float | None = None
    gradient_norm: float | None = None
    gradient_error: float | None = None
    eigenvalue: float | None = None
    eigenvalue_error: float | None = None
    smallest_possible: float | None = None

    @property
    def gradient_bound(self) -> float | None:
        """The norm that the true gradient does not exceed."""
        if self.gradient_norm is None or self.gradient_error is None:
            return None
        return self.gradient_norm + self.gradient_error

    @property
    def eigenvalue_bound(self) -> float | None:
        """What no eigenvalue of the true Hessian is below: from the noisy one, or from the loss and the penalty alone
        (``smallest_possible``), which says more where these are nearly convex.
        """
        if self.eigenvalue is None or self.eigenvalue_error is None or self.smallest_possible is None:
            return None
        return max(self.eigenvalue - self.eigenvalue_error, self.smallest_possible)

    def statement(self) -> str:
        """Return this as a paragraph."""
        if not self.reached or self.eps_g is None or self.eps_h is None:
            return "The fit ended before the tolerances were reached: nothing is known of the point."
        return (
            f"The tolerances were reached (gradient norm <= {self.eps_g:.3g}, eigenvalues >= {-self.eps_h:.3g}): the "
            f"noisy gradient has norm {self.gradient_norm:.3g}, the smallest eigenvalue of the noisy Hessian is "
            f"{self.eigenvalue:.3g}. With probability at least {self.confidence:g} the true gradient norm is at most "
            f"{self.gradient_bound:.3g} and no eigenvalue of the true Hessian is below {self.eigenvalue_bound:.3g}. "
            "True are those of the mean loss over the rows plus the penalty, in the units that are fitted, with the "
            f"derivatives of rows longer than {self.longest:.3g} clipped."
        )


def failure_of(count: int, confidence: float) -> float:
    """Return how likely the bound on the error of the count-th gradient, or Hessian, may fail."""
    return (1 - confidence) * 3 / (math.pi * count) ** 2


def gaussian_norm(sigma: float, n_entries: int, failure: float) -> float:
    """Return what the norm of N(0, sigma^2) noise in so many entries exceeds with at most this probability.

    The norm has a mean of at most sigma sqrt(n) and is sigma-Lipschitz in independent standard normal numbers.
    """
    return sigma * (math.sqrt(n_entries) + math.sqrt(2 * math.log(1 / failure)))


def largest_eigenvalue(sigma: float, dimension: int, failure: float, n_blocks: int = 1) -> float:
    """Return what the largest eigenvalue of symmetric Gaussian noise exceeds with at most this probability.

    The noise E is that of :class:`~dpsk.mechanisms.SymmetricGaussian`, variance sigma^2 on the diagonal, half of it
    elsewhere. u.Eu is a Gaussian process on the sphere whose increments have variance sigma^2 ||uu^T - vv^T||^2 <=
    2 sigma^2 ||u - v||^2, those of sqrt(2) sigma g.u, so its largest value has a mean of at most sigma sqrt(2 p)
    (Sudakov & Fernique), and it is sigma-Lipschitz. Several blocks share the probability.
    """
    return sigma * (math.sqrt(2 * dimension) + math.sqrt(2 * math.log(n_blocks / failure)))


def sampling_error(largest: float, n_rows: float, rate: float, scheme: str, dimension: int, failure: float) -> float:
    """Return what the mean over a random batch differs by from the mean over all rows, in spectral norm.

    ``largest`` bounds the norm of one row's part, ``n_rows`` is the expected size of a batch. The bound is the matrix
    Bernstein inequality (Tropp 2012), for a gradient that of its Hermitian dilation (``dimension`` is one more), for
    either side of an eigenvalue. Poisson sampling adds (b_i - rate) x_i: terms of at most ``largest``, a variance of at
    most n rate (1 - rate) largest^2. It also holds without replacement (Gross & Nesme 2010), with terms x_i less their
    mean, at most twice ``largest``, and a variance of at most n rate largest^2.
    """
    if rate == 1:
        return 0.0
    poisson = scheme == "poisson"
    variance = n_rows * largest**2 * ((1 - rate) if poisson else 1.0)
    log = math.log(dimension / failure)
    linear = log * largest * (1 if poisson else 2) / 3
    return (linear + math.sqrt(linear**2 + 2 * log * variance)) / n_rows
