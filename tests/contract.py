"""Which estimators keep the contract, and what its tests share."""

import numpy as np
import pytest
from noisy_descent_classifier import NoisyDescentClassifier
from small_networks import SmallConvolutional, SmallPerceptron

from dpsk import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPConvolutionalClassifier,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
)

ADAPTIVE = [DPAGDLogisticRegression, DPAGDSVC]
STANDARDISING = [DPLogisticRegression, DPLinearSVC, DPGradientDescentClassifier]
SAMPLED = [DPLineSearchClassifier, DPSGDClassifier]
PERTURBING = [ObjectivePerturbationClassifier]
PURE = [OutputPerturbationLogisticRegression, OutputPerturbationSVC]
ONCE = [*PERTURBING, *PURE]
SECOND_ORDER = [DPSecondOrderClassifier]
TABULAR = [DPTabularClassifier]  # they have no bounds, and take what is missing
NETWORKS = [SmallPerceptron, SmallConvolutional]  # those of the package, with few units and steps
BY_FACTS = [
    DPLogisticRegression,
    DPLinearSVC,
    *PERTURBING,
    *TABULAR,
    *NETWORKS,
]  # their budget depends on public facts of the data
ESTIMATORS = [*ADAPTIVE, *STANDARDISING, *SAMPLED, *ONCE, *SECOND_ORDER, *TABULAR]
PACKAGED = [*ESTIMATORS, DPMLPClassifier, DPConvolutionalClassifier]
CHECKED = [*ESTIMATORS, *NETWORKS]
OUTSIDE = [NoisyDescentClassifier]  # an estimator that is not in the package keeps the whole contract
OF_PERSONS = [Estimator for Estimator in [*CHECKED, *OUTSIDE] if Estimator not in PERTURBING]
"""Estimators that protect persons: all that are proved for them."""
SHORT = {
    DPLineSearchClassifier: {"splits": 10},
    DPSGDClassifier: {"steps": 20},
    **{Estimator: {"steps": 5} for Estimator in NETWORKS},
}
"""Parameters of a fit in which little is learned: what its many batches cost in time is the same thing over again."""
LONG = {
    DPLogisticRegression: {"standardize": None, "solver": "gradient-descent"},
    DPGradientDescentClassifier: {"standardize": None},
    NoisyDescentClassifier: {"steps": 1_500, "gradient_clip": 3.0},
    DPSGDClassifier: {"steps": 2_000, "gradient_clip": 3.0},
}
"""Parameters of a fit in which as much is learned as can be, where noise hardly matters."""


def each(estimators):
    """Return the parametrisation of a test over these; a fit on hundreds of batches takes ten times as long as any."""
    marked = [
        pytest.param(Estimator, marks=pytest.mark.slow) if Estimator in SAMPLED else Estimator
        for Estimator in estimators
    ]
    return pytest.mark.parametrize("Estimator", marked)


each_estimator = each([*CHECKED, *OUTSIDE])
each_iterative = each([Estimator for Estimator in [*CHECKED, *OUTSIDE] if Estimator not in ONCE])
each_numeric = each([Estimator for Estimator in [*CHECKED, *OUTSIDE] if Estimator not in TABULAR])
each_linear = each([Estimator for Estimator in [*ESTIMATORS, *OUTSIDE] if Estimator not in TABULAR])
each_of_persons = each(OF_PERSONS)
each_with_rho = each([*ADAPTIVE, *STANDARDISING])
each_sampled = pytest.mark.parametrize("Estimator", SAMPLED)
each_standardising = each(STANDARDISING)


def weights_of(model):
    """Return all weights that a fit has released, in one array."""
    if hasattr(model, "coefs_"):
        return np.concatenate([part.ravel() for part in (*model.coefs_, *model.intercepts_)])
    return np.concatenate([model.coef_.ravel(), model.intercept_])


class Untouchable:
    """Data that may not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(f"the data were touched: {name}")

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were touched")

    def __len__(self):
        raise AssertionError("the data were touched")
