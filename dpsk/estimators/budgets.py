"""Budgets of estimators: parameters that change how one is stated, and the budget they stand for."""

import math
from typing import Any

from ..data import Facts, Unknown
from ..privacy import Budget, Currency, ObjectiveDP, conversions
from ..privacy.currencies import needs_delta
from ..privacy.neighbours import Adjacency
from ..requirements import require_number
from ..solvers.objective_perturbation import LARGEST_LOG_DETERMINANT, PRECISE
from .numeric_classifier import NumericClassifier

# Of epsilon, for determinants: where noise matters, and where it hardly does
DETERMINANT_SHARE, LARGEST_SHARE = 0.15, 0.5


class WithExactModel(NumericClassifier):
    """Base of classifiers that fit the exact model where epsilon is infinite.

    Parameters
    ----------
    epsilon, delta : float
        The privacy guarantee of the fit. Choose delta well below 1/n_samples. ``epsilon=inf`` fits the exact model
        instead, without noise, standardisation or bounds, and says that it is not private.
    """


class WithRho(NumericClassifier):
    """Base of classifiers whose budget may be stated as rho.

    Parameters
    ----------
    rho : float or None
        The budget as zero-concentrated differential privacy. If given it is used and ``epsilon`` is ignored; the
        epsilon reported is what rho guarantees at ``delta``.
    """

    rho: float | None = None


def is_exact(estimator: Any) -> bool:
    """Return whether epsilon asks for the exact model."""
    exact = isinstance(estimator, WithExactModel) and getattr(estimator, "rho", None) is None
    if not exact or estimator.epsilon != math.inf:
        return False
    require_number("delta", estimator.delta, 0)
    return True


def budget_of(estimator: Any, currency: Currency, *, conversion: str = "exact") -> Budget | None:
    """Return the cap of a fit, kept in this currency or as rho; None where the exact model is asked for."""
    if is_exact(estimator):
        return None
    if getattr(estimator, "rho", None) is not None:
        return Budget.from_rho(estimator.rho, estimator.delta)
    return Budget.of(estimator.epsilon, estimator.delta, currency=currency, conversion=conversion)


def public_precision(estimator: Any, facts: Facts | Unknown) -> float:
    """Return how many typical gradients outweigh the noise of a class's weights, if the budget bought a single one."""
    mu = conversions.gaussian_mu(float(estimator.epsilon), float(estimator.delta))
    n_weights = facts.n_features + bool(estimator.fit_intercept)
    return mu / Adjacency(estimator.adjacency).parts * facts.n_rows / math.sqrt(n_weights)


def objective_budget(estimator: Any, facts: Facts | Unknown, share: float | None = None) -> Budget | None:
    """Return the budget of a fit that ends in perturbed minima, one per class where there are more than two.

    ``share`` is the part of epsilon for determinants; None: more where noise hardly matters.
    """
    if is_exact(estimator):
        return None
    epsilon, delta = float(estimator.epsilon), float(estimator.delta)
    Budget.of(estimator.epsilon, estimator.delta)  # or its error
    needs_delta(ObjectiveDP.name, epsilon, estimator.delta)  # before the facts of the data are asked for
    n_minima = 1 if facts.n_classes == 2 else facts.n_classes
    if share is None:
        precision = public_precision(estimator, facts) if delta > 0 else 0.0
        share = min(max(1.0, precision / PRECISE) * DETERMINANT_SHARE, LARGEST_SHARE)
        share = min(share, LARGEST_LOG_DETERMINANT * n_minima / epsilon)
    replaced = Adjacency(estimator.adjacency) is Adjacency.REPLACE
    currency = ObjectiveDP.plan(epsilon, delta, share * epsilon, n_minima, replaced=replaced)
    return Budget.of(epsilon, delta, currency=currency)
