"""Fitted models of every kind, and rows at all their edges, for the tests of exported forms."""

import warnings
from functools import lru_cache

import numpy as np
import pandas as pd
from contract import ESTIMATORS, SHORT, TABULAR
from sklearn.svm import LinearSVC

from dpsk import (
    Categories,
    DPConvolutionalClassifier,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPTabularClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    PrivateCalibration,
    PrivateSearchCV,
    PrivateThreshold,
    Text,
)
from dpsk.estimators.network_classifier import NetworkClassifier

N_COLUMNS = 5
BOUNDS = [0, 10, -1, -3, 100], [2, 30, 1, 0, 500]
HINGE = {"loss": "huber_hinge", "calibrate": False}
LABELS = {2: np.array(["no", "yes"]), 3: np.array([10, 20, 30])}


@lru_cache
def rows(n=600, n_classes=2):
    """Return rows of which some columns do not hold 0, and labels."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, N_COLUMNS)) * [1, 3, 0.1, 1, 50] + [0, 20, 0, -1, 300]
    scores = np.column_stack([X[:, 0] + (X[:, 1] - 20) / 3, X[:, 3] + 1, X[:, 2] * 10])[:, : max(1, n_classes - 1)]
    return X, LABELS[n_classes][(scores > 0.2).sum(axis=1) if n_classes > 2 else (scores[:, 0] > 0).astype(int)]


def fitted(model, n_classes=2):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*rows(n_classes=n_classes))


def network(n_classes=2, **parameters):
    """Return a small network; its fit takes a tenth of a second."""
    given = {"hidden_layer_sizes": (8, 5), "epsilon": 8.0, "random_state": 0, "steps": 20}
    return fitted(DPMLPClassifier(**{**given, **parameters}), n_classes)


@lru_cache
def images(n=400):
    """Return small images of two channels, 7 x 8 pixels, some of them beyond the bounds (0, 1), and labels."""
    rng = np.random.default_rng(7)
    X = rng.normal(0.5, 0.4, size=(n, 7, 8, 2))
    brighter = X[:, :3].mean(axis=(1, 2, 3)) > X[:, 3:].mean(axis=(1, 2, 3))
    return X.reshape(n, -1), brighter.astype(int) + (X[:, 0, 0, 0] > 0.5)


@lru_cache
def convolutional(**parameters):
    """Return a small network for images: two convolutions, pooling that drops a column, and a dense layer."""
    given = {"image_shape": (7, 8, 2), "channels": (3, 4), "kernel_size": 2, "hidden_layer_sizes": (5,), "steps": 10}
    given |= {"epsilon": 8.0, "random_state": 0, "bounds": (0, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DPConvolutionalClassifier(**{**given, **parameters}).fit(*images())


def moved(name):
    """Return a calibration to labels of which there are more than the model thinks: its ``shift_`` is not 0."""
    X, _ = rows(4000)
    model = PrivateCalibration(BINARY[name](), epsilon=40.0, random_state=0)
    return model.fit(X, LABELS[2][(X[:, 0] + (X[:, 1] - 20) / 3 > -1.5).astype(int)])


BINARY = {
    **{
        Estimator.__name__: lambda Estimator=Estimator: fitted(
            Estimator(epsilon=5.0, random_state=0, **SHORT.get(Estimator, {}))
        )
        for Estimator in ESTIMATORS
        if Estimator not in TABULAR and not issubclass(Estimator, NetworkClassifier)
    },
    "bounds": lambda: fitted(
        DPLogisticRegression(epsilon=5.0, random_state=0, standardize=None, bounds=BOUNDS)
    ),
    "without ranges": lambda: fitted(DPLogisticRegression(epsilon=5.0, random_state=0, standardize=None)),
    "without intercept": lambda: fitted(DPLogisticRegression(epsilon=5.0, random_state=0, fit_intercept=False)),
    "exact": lambda: fitted(DPLogisticRegression(epsilon=np.inf)),
    "exact svc": lambda: fitted(DPLinearSVC(epsilon=np.inf)),
    "network": network,
    "network with tanh": lambda: network(activation="tanh"),
    "hinge": lambda: fitted(DPGradientDescentClassifier(epsilon=5.0, random_state=0, **HINGE)),
    "seldom": lambda: fitted(DPLinearSVC(epsilon=0.05, random_state=3)),
    "search": lambda: fitted(
        PrivateSearchCV(DPGradientDescentClassifier(), {"alpha": [1e-3, 1e-2]}, epsilon=5.0, random_state=0)
    ),
    "threshold": lambda: fitted(PrivateThreshold(BINARY["DPLogisticRegression"](), random_state=0, false_positive=4.0)),
    "threshold of scores": lambda: fitted(PrivateThreshold(BINARY["hinge"](), random_state=0, false_positive=4.0)),
    "calibration": lambda: fitted(PrivateCalibration(BINARY["DPLogisticRegression"](), random_state=0)),
    "calibration of scores": lambda: fitted(PrivateCalibration(BINARY["hinge"](), random_state=0)),
    "calibration that moves": lambda: moved("DPLogisticRegression"),
    "calibration of scores that moves": lambda: moved("hinge"),
    "threshold of network": lambda: fitted(PrivateThreshold(BINARY["network"](), random_state=0, false_positive=4.0)),
    "calibration of network": lambda: fitted(PrivateCalibration(BINARY["network"](), random_state=0)),
    "threshold of calibration": lambda: fitted(PrivateThreshold(BINARY["calibration"](), random_state=1)),
}  # fmt: skip
SEVERAL = {
    **{
        f"{Estimator.__name__} of three": lambda Estimator=Estimator: fitted(
            Estimator(epsilon=5.0, random_state=0, **SHORT.get(Estimator, {})), 3
        )
        for Estimator in ESTIMATORS
        if Estimator not in TABULAR and not issubclass(Estimator, NetworkClassifier)
    },
    "network of three": lambda: network(3),
    "network without ranges of three": lambda: network(3, standardize=None),
    "calibration of network of three": lambda: fitted(PrivateCalibration(network(3), random_state=0), 3),
    "without intercept of three": lambda: fitted(DPLinearSVC(epsilon=5.0, random_state=0, fit_intercept=False), 3),
    "exact of three": lambda: fitted(DPLogisticRegression(epsilon=np.inf), 3),
    "exact one-vs-rest": lambda: fitted(ObjectivePerturbationClassifier(epsilon=np.inf), 3),
    "one-vs-rest without intercept": lambda: fitted(
        OutputPerturbationLogisticRegression(epsilon=5.0, random_state=0, fit_intercept=False), 3
    ),
    "calibration of three": lambda: fitted(
        PrivateCalibration(SEVERAL["DPLogisticRegression of three"](), random_state=0), 3
    ),
}
MODELS = {**BINARY, **SEVERAL}
FOREIGN = {
    "calibration of another model": lambda: fitted(PrivateCalibration(LinearSVC().fit(*rows(n=300)), random_state=0)),
    "threshold of another model": lambda: fitted(PrivateThreshold(LinearSVC().fit(*rows(n=300)), random_state=0)),
}


@lru_cache
def model_of(name):
    return {**MODELS, **FOREIGN, **TABLES}[name]()


def base_of(model):
    """Return the model with weights."""
    while not hasattr(model, "coef_") and not hasattr(model, "coefs_"):
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.estimator
    return model


def edges(model):
    """Return rows at the ends of ranges and beyond them, of zeros, of huge numbers, and of scores near 0."""
    base = base_of(model)
    low, high = (
        getattr(base, "ranges_", None) if getattr(base, "ranges_", None) is not None else ([-1.0] * 5, [1.0] * 5)
    )
    low, high = np.array(low), np.array(high)
    some = rows()[0][:40]
    border = some
    if hasattr(base, "coef_"):  # the point of the border nearest to a row, in the first score, where nothing clips
        w = base.coef_[0]
        border = some - np.outer((some @ w + base.intercept_[0]) / (w @ w), w)
    huge = [np.full(5, size) for size in (1e6, -1e6, 1e200, -1e200, 1.7e308, -1.7e308)]
    mixed = [np.where(np.arange(5) % 2 == k, 1.7e308, -1.7e308) for k in (0, 1)]
    return np.vstack(
        [
            low, high, np.nextafter(low, -np.inf), np.nextafter(high, np.inf), 2 * low - high, 2 * high - low,
            np.zeros((1, 5)), -np.zeros((1, 5)), np.eye(5) * 1e-300, *huge, *mixed,
            np.clip(0.0, low, high), some, border,
        ]
    )  # fmt: skip


def random_rows(n, seed=0):
    """Return rows of which some are far out."""
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.3, 1.0, 3.0, 30.0], size=(n, 1))
    return rng.normal(size=(n, N_COLUMNS)) * [1, 3, 0.1, 1, 50] * spread + [0, 20, 0, -1, 300]


@lru_cache
def frame(n=3000):
    """Return a raw table of numbers and categories, and labels of two and of three classes."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 90, n).astype(float)
    pay = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(8, 1, n))
    job = rng.choice(np.array(["nurse", "cook", "clerk", None], dtype=object), n, p=[0.4, 0.3, 0.2, 0.1])
    age[rng.random(n) < 0.1] = np.nan
    grade = rng.integers(1, 4, n)
    flag = rng.random(n) < 0.5
    objects = pd.Series(job, dtype=object)  # in which None stays None
    table = pd.DataFrame({"age": age, "pay": pay, "job": objects, "grade": grade, "flag": flag})
    score = np.nan_to_num(age, nan=60.0) / 30 + (pay > 0) - (table["job"] == "cook") * 1.5 + rng.normal(size=n)
    return table, (score > 2).to_numpy(), np.digitize(score, [1.2, 2.5])


KINDS = {"grade": Categories([1, 2, 3, 9])}


def tabular(which=1, columns=KINDS, **parameters):
    data = frame()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DPTabularClassifier(epsilon=8.0, random_state=0, columns=columns, **parameters).fit(data[0], data[which])


def noted(n=3000):
    """Return a raw table with dates, words and hashed categories, too."""
    rng = np.random.default_rng(6)
    table, y, _ = frame()
    day = pd.Timestamp("2019-06-01") + pd.to_timedelta(rng.integers(0, 10**8, n), unit="s")
    note = rng.choice(np.array(["came late", "Late again, and Tired", "nothing", "", None], dtype=object), n)
    town = rng.choice(np.array(["Ulm", "Bonn", "Kiel", None], dtype=object), n)
    return table.assign(day=day.astype("datetime64[us]"), note=note, town=town), y | (note == "came late")


def tabular_of_all():
    table, y = noted()
    kinds = {**KINDS, "note": Text(buckets=16), "town": Categories(buckets=4)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DPTabularClassifier(epsilon=8.0, random_state=0, columns=kinds).fit(table, y)


def network_of_table(which=1):
    data = frame()
    given = {"hidden_layer_sizes": (8,), "epsilon": 8.0, "random_state": 0, "steps": 10, "columns": KINDS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DPMLPClassifier(**given).fit(data[0], data[which])


TABLES = {
    "network of a table": network_of_table,
    "network of a table of three": lambda: network_of_table(2),
    "table": tabular,
    "table of three": lambda: tabular(2),
    "coarse table": lambda: tabular(columns={**KINDS, "age": None}, alpha=1e-2),
}


def random_table(n, seed=0):
    """Return a raw table with numbers beyond all ends, values that are new, and missing entries."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 60, n)
    age[rng.random(n) < 0.2] = np.nan
    age[rng.random(n) < 0.1] = 0.0
    pay = rng.choice([0.0, np.nan, 1e-300, -5.0, 1e300, 2e308, 3000.0, 8123.25], n)
    job = rng.choice(np.array(["nurse", "cook", "clerk", "other", "", None, np.nan], dtype=object), n)
    grade = rng.choice(np.array([1.0, 2.0, 3.0, 4.0, 9.0, np.nan]), n)
    flag = rng.choice(np.array([True, False, None], dtype=object), n)
    objects = pd.Series(job, dtype=object)
    return pd.DataFrame({"age": age, "pay": pay, "job": objects, "grade": grade, "flag": flag})
