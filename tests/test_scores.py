"""Predictions: what a row gets depends on that row and the released model alone, bit for bit."""

import itertools
import math
import warnings

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import CHECKED
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from dpsk import Chunks, DPAGDLogisticRegression, DPLogisticRegression, DPSecondOrderClassifier
from dpsk.data import ArrayRows, row_scores
from dpsk.estimators.validation import validated

METHODS = ("decision_function", "predict", "predict_proba", "predict_log_proba")


def model_with(coef, intercept, ranges=None, data_norm=None, Estimator=DPLogisticRegression):
    """A fitted model with these weights."""
    model = Estimator()
    model.coef_, model.intercept_ = np.atleast_2d(coef), np.atleast_1d(intercept)
    model.classes_ = np.arange(max(2, len(model.coef_)))
    model.ranges_, model.data_norm_, model.n_features_in_ = ranges, data_norm, model.coef_.shape[1]
    return model


def assert_same_bits(one, other, what=""):
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes(), what


def extreme_rows(d, rng):
    huge = rng.choice([-1.7e308, 1.7e308], d)
    return np.stack([huge, np.abs(huge), np.full(d, 5e-324), np.zeros(d), -np.zeros(d), 2.0**501 * rng.normal(size=d)])


def layouts(X):
    """The same rows in many places: strides, orders, storages."""
    n, d = X.shape
    spread = np.full((2 * n, 3 * d), 7.0)
    spread[::2, ::3] = X
    shifted = np.empty(n * d + 1)[1:].reshape(n, d)
    shifted[:] = X
    sparse = sp.csr_matrix(X)
    unsorted = sparse.copy()
    for i in range(n):  # the entries of each row from right to left
        part = slice(unsorted.indptr[i], unsorted.indptr[i + 1])
        unsorted.indices[part], unsorted.data[part] = unsorted.indices[part][::-1], unsorted.data[part][::-1]
    unsorted.has_sorted_indices = unsorted.has_canonical_format = False
    with_zeros = sp.csr_matrix((X.ravel(), np.tile(np.arange(d), n), np.arange(n + 1) * d), X.shape)
    yield "C", np.ascontiguousarray(X)
    yield "F", np.asfortranarray(X)
    yield "strided", spread[::2, ::3]
    yield "shifted", shifted
    yield "reversed rows", X[::-1].copy()[::-1]
    yield "reversed columns", X[:, ::-1].copy()[:, ::-1]
    yield "CSR", sparse
    yield "CSC", sp.csc_matrix(X)
    yield "COO", sp.coo_matrix(X)
    yield "CSR, unsorted", unsorted
    yield "CSR with zeros", with_zeros


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_a_row_has_the_same_scores_alone_and_in_any_company(seed, tmp_path):
    """300 models in all, 30 a seed: every row alone, in other company, other places and other storages."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        n, d = int(rng.integers(1, 40)), int(rng.choice([1, 2, 3, 5, 8, 17, 100]))
        K = int(rng.choice([1, 3, 8, 11]))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, (n, 1))
        X[rng.random((n, d)) < rng.choice([0, 0.5, 0.9])] = 0
        low = rng.normal(size=d) - 1
        ranges = None if rng.random() < 0.5 else np.array([low, low + rng.exponential(3, d)])
        norm = None if ranges is not None or rng.random() < 0.5 else float(rng.exponential(3))
        coef, intercept = rng.normal(size=(K, d)), rng.normal(size=K) * rng.integers(0, 2)
        if rng.random() < 0.3:  # rows on the boundary, where one bit decides
            coef[:, : d // 2 * 2 : 2], X[:, 1 : d // 2 * 2 : 2] = -coef[:, 1 : d // 2 * 2 : 2], X[:, : d // 2 * 2 : 2]
        model = model_with(coef, intercept, ranges, norm, DPAGDLogisticRegression if norm else DPLogisticRegression)
        for method in METHODS[: 4 if rng.random() < 0.25 else 1]:
            predict = getattr(model, method)
            alone = np.concatenate([predict(x[None]) for x in X])
            assert_same_bits(predict(X), alone, f"{method}: together")
            for name, rows in layouts(X):
                assert_same_bits(predict(rows), alone, f"{method}: {name}")
            company = np.concatenate([extreme_rows(d, rng), X, rng.normal(size=(int(rng.integers(9)), d))])
            order = rng.permutation(len(company))
            place = np.argsort(order)[6 : 6 + n]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert_same_bits(predict(company[order])[place], alone, f"{method}: in company")
                assert_same_bits(predict(sp.csr_matrix(company[order]))[place], alone, f"{method}: in sparse company")


def test_files_chunks_and_dask_give_the_same_bits(tmp_path):
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(3000, 7)), model_with(rng.normal(size=(3, 7)), rng.normal(size=3))
    np.save(tmp_path / "rows.npy", X)
    for method in METHODS:
        predict = getattr(model, method)
        whole = predict(X)
        assert_same_bits(predict(np.load(tmp_path / "rows.npy", mmap_mode="r")), whole)
        assert_same_bits(predict(Chunks(lambda: np.array_split(X, 7))), whole)
        assert_same_bits(np.asarray(predict(dask.array.from_array(X, chunks=(401, 7)))), whole)
        assert_same_bits(predict(X.astype(np.float32)), predict(X.astype(np.float32).astype(np.float64)))


@pytest.mark.parametrize("store", [sp.csr_matrix, sp.coo_array])
def test_a_row_that_is_not_sorted_does_not_change_how_duplicates_of_another_are_added(store):
    rng = np.random.default_rng(0)
    for _ in range(30):
        columns = np.sort(np.r_[np.zeros(20, int), rng.integers(1, 10, 20)])
        values = rng.permutation(np.r_[1.0, 2.0, 3.0, 1e17, -1e17, np.zeros(15), rng.normal(size=20)])
        scores, rows = [], []
        for other in ([1, 2], [2, 1]):
            places = np.r_[np.zeros(40, int), 1, 1], np.r_[columns, other]
            X = sp.coo_matrix((np.r_[values, 1, 1], places), (2, 10))
            if store is sp.csr_matrix:
                X = sp.csr_matrix((X.data, X.col, [0, 40, 42]), (2, 10))
            model = model_with(np.arange(1.0, 11.0), 0.0)
            scores.append(model.decision_function(store(X))[0])
            fitted = ArrayRows(validated(model, store(X), np.arange(2))[0], np.array([-1, 1]))
            rows.append(next(iter(fitted._chunks())).units[0].toarray())
        assert_same_bits(*scores)
        assert_same_bits(*rows, "in a fit")


def test_large_tables_are_cut_into_blocks_without_a_trace():
    """More entries than one block holds, and more columns."""
    rng = np.random.default_rng(0)
    for n, d in ((5000, 30), (20, 70_000)):
        X, coef = rng.normal(size=(n, d)), rng.normal(size=(2, d))
        whole = row_scores(X, coef, np.zeros(2))
        for i in (0, 1, n // 2, n - 1):
            assert_same_bits(row_scores(X[i : i + 1], coef, np.zeros(2)), whole[i : i + 1])
            assert_same_bits(row_scores(sp.csr_matrix(X[i : i + 2]), coef, np.zeros(2)), whole[i : i + 2])


@pytest.mark.parametrize("sparse", [False, True])
def test_the_scores_are_the_sums_that_they_stand_for(sparse):
    """Against exact sums of the rounded products: at most one rounding per addition."""
    rng = np.random.default_rng(1)
    X, coef, intercept = rng.normal(size=(50, 40)), rng.normal(size=(3, 40)), rng.normal(size=3)
    X[rng.random(X.shape) < 0.5] = 0
    low, high = np.full(40, -1.0), np.full(40, 0.5)
    low[:5], high[5:10] = 0.1, -0.2  # zeros are clipped as well
    inside = np.clip(X, low, high)
    given = sp.csr_matrix(X) if sparse else X
    for ranges, norm, rows in ((None, None, X), (np.array([low, high]), None, inside), (None, 2.5, X)):
        scores = row_scores(given, coef, intercept, ranges, norm)
        for (i, x), (k, w) in itertools.product(enumerate(rows), enumerate(coef)):
            factor = 1.0 if norm is None else min(1.0, norm / math.sqrt(math.fsum(x * x)))
            exact = math.fsum([*(x * w * factor), intercept[k]])
            assert abs(scores[i, k] - exact) <= 45 * 2.0**-53 * (np.abs(x * w).sum() + abs(intercept[k]) + 1)


def test_one_huge_entry_flips_no_other_row():
    """Strided rows on the boundary of a model with a norm: a copy, made for one entry, changed the products of all."""
    rng = np.random.default_rng(0)
    d = 9
    X = rng.normal(size=(200, 2 * d))[:, ::2]
    w = rng.normal(size=d)
    model = model_with(w, 0.0, data_norm=1e300, Estimator=DPAGDLogisticRegression)
    X[:, -1] = 0
    for _ in range(3):  # bring every row as near to the boundary as rounding allows
        X[:, 0] -= model.decision_function(X) / w[0]
    twin = np.repeat(X, 2, axis=1)[:, ::2]
    twin[0, -1] = 2.0**501
    assert_same_bits(model.decision_function(X)[1:], model.decision_function(twin)[1:])
    assert_same_bits(model.predict(X)[1:], model.predict(twin)[1:])


def test_a_row_that_is_absent_moves_no_other():
    """BLAS rounds the last n mod 4 rows in another way."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(103, 30)), rng.normal(size=30)
    model = model_with(w, 0.0)
    for _ in range(3):
        X[:, 0] -= model.decision_function(X) / w[0]
    whole = model.decision_function(X)
    for gone in (0, 50, 101, 102):
        assert_same_bits(np.delete(whole, gone), model.decision_function(np.delete(X, gone, axis=0)))


@pytest.mark.slow
@pytest.mark.parametrize("Estimator", CHECKED)
def test_fitted_models_judge_every_row_by_itself(Estimator, cancer):
    X, y = cancer
    model = Estimator(epsilon=4.0, random_state=0).fit(X, y)
    twin = X.copy()
    twin[0] = 1.7e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in METHODS:
            if hasattr(model, method):
                predict = getattr(model, method)
                assert_same_bits(predict(twin)[1:], predict(X)[1:])
                assert_same_bits(predict(X[1:]), predict(X)[1:])


def test_one_vs_rest_probabilities_too(iris):
    X, y = iris
    model = DPSecondOrderClassifier(epsilon=8.0, random_state=0).fit(X, y)
    for method in METHODS:
        if hasattr(model, method):
            alone = np.concatenate([getattr(model, method)(x[None]) for x in X[:20]])
            assert_same_bits(getattr(model, method)(X)[:20], alone)


def test_behind_encoders_and_scalers_too():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "kind": rng.choice(list("xyz"), 300)})
    front = make_column_transformer(
        (make_pipeline(StandardScaler(), MinMaxScaler()), ["a", "b"]),
        (OneHotEncoder(categories=[list("xyz")], handle_unknown="ignore"), ["kind"]),
    )
    model = make_pipeline(front, DPLogisticRegression(epsilon=4.0, random_state=0)).fit(frame, frame["a"] > 0)
    whole = model.predict_proba(frame)
    for i in range(60):
        assert_same_bits(model.predict_proba(frame.iloc[i : i + 1]), whole[i : i + 1])
    frame.loc[0, "kind"], frame.loc[0, "a"] = "unknown", 1e300
    assert_same_bits(model.predict_proba(frame)[1:], whole[1:])


def test_probabilities_are_those_of_scipy():
    from scipy.special import log_softmax, softmax

    rng = np.random.default_rng(0)
    X, model = 10 * rng.normal(size=(50, 4)), model_with(rng.normal(size=(5, 4)), rng.normal(size=5))
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X), softmax(scores, axis=1), rtol=1e-13)
    np.testing.assert_allclose(model.predict_log_proba(X), log_softmax(scores, axis=1), rtol=1e-13)
