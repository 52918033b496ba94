"""Data that tests of estimators share."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: tests run on all cores already

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X / X.max(axis=0), y


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    return np.tile(X / 8, (10, 1)), np.tile(np.array(["setosa", "versicolor", "virginica"])[y], 10)
