import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpsk import DPAGDSVC, DPAGDLogisticRegression

ESTIMATORS = [DPAGDLogisticRegression, DPAGDSVC]


@parametrize_with_checks([estimator() for estimator in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
