"""Models as plain objects of scikit-learn: equal predictions, and no dpsk in them."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from exported_models import FOREIGN, MODELS, TABLES, edges, model_of, random_rows, random_table

LINEAR = [*MODELS, *FOREIGN]


def largest_difference(model, taken, X):
    """Return how many labels differ, and the largest difference of probabilities."""
    assert hasattr(taken, "predict_proba") == hasattr(model, "predict_proba")
    with np.errstate(all="ignore"):  # scikit-learn adds up huge numbers to see whether they are finite
        wrong = int((taken.predict(X) != model.predict(X)).sum())
        if not hasattr(model, "predict_proba"):
            return wrong, 0.0
        return wrong, float(np.abs(taken.predict_proba(X) - model.predict_proba(X)).max())


@pytest.mark.parametrize("name", LINEAR)
def test_the_plain_model_predicts_the_same(name):
    model = model_of(name)
    taken = model.to_sklearn()
    for X in (edges(model), random_rows(20_000)):
        wrong, apart = largest_difference(model, taken, X)
        assert wrong == 0
        assert apart <= 1e-12
    assert taken.classes_.dtype == model.classes_.dtype
    assert taken.classes_.tolist() == model.classes_.tolist()
    assert taken.n_features_in_ == 5
