"""Data that tests of estimators share."""

import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: tests run on all cores already

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

# What may go wrong on other versions of scikit-learn, NumPy, SciPy, pandas and Dask runs on the oldest ones that are
# supported (.ci/run), but for what is thorough, which looks closer with more of the same: the contract of estimators
# and searches (validation, clones, pickles, warnings), how rows are stored and read, how models judge rows, the special
# functions behind conversions, the bits of samplers, and the guides. Of all other files the oldest versions run what is
# not slow. That is enough: what is slow there takes many draws, many fits or many digits to look closer at formulas of
# our own. The functions of these libraries that it calls are called by quick tests, too.
VERSIONS = {
    "test_arrays", "test_class_weight", "test_columns", "test_conversions", "test_copies", "test_cross_validation",
    "test_dask", "test_default", "test_elementwise", "test_estimators", "test_estimators_ledger", "test_evaluation",
    "test_evaluation_rows", "test_exact", "test_export", "test_export_json", "test_export_onnx", "test_export_page",
    "test_export_skops", "test_fits_so_far", "test_float_range", "test_frames", "test_interrupted", "test_judging",
    "test_kinds", "test_ledger_record", "test_mistakes", "test_not_private", "test_out_of_core", "test_persons",
    "test_persons_estimators", "test_pipeline_hiding_places", "test_privacy_cost", "test_private_pipeline",
    "test_private_search", "test_public_facts", "test_randomness", "test_readme", "test_reports", "test_rows",
    "test_sample_weight", "test_sampled", "test_score", "test_scores", "test_search_cost",
    "test_second_order_estimator", "test_steps", "test_store", "test_stored", "test_tabular_classifier", "test_twins",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.path).stem in VERSIONS:
            item.add_marker("versions")


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X / X.max(axis=0), y


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    return np.tile(X / 8, (10, 1)), np.tile(np.array(["setosa", "versicolor", "virginica"])[y], 10)
