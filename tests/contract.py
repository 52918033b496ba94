"""Which estimators keep the contract, and what its tests share."""

import pytest

from dpsk import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
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
BY_FACTS = [DPLogisticRegression, DPLinearSVC, *PERTURBING]  # their budget depends on public facts of the data
ESTIMATORS = [*ADAPTIVE, *STANDARDISING, *SAMPLED, *ONCE, *SECOND_ORDER]
each_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)
each_iterative = pytest.mark.parametrize("Estimator", [e for e in ESTIMATORS if e not in ONCE])
each_with_rho = pytest.mark.parametrize("Estimator", [*ADAPTIVE, *STANDARDISING])
each_sampled = pytest.mark.parametrize("Estimator", SAMPLED)
each_standardising = pytest.mark.parametrize("Estimator", STANDARDISING)


class Untouchable:
    """Data that may not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(f"the data were touched: {name}")

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were touched")

    def __len__(self):
        raise AssertionError("the data were touched")
