"""Fits and predictions of data larger than memory: memory-mapped arrays and chunks give the bits of arrays."""

import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import SAMPLED, SHORT
from sklearn.base import clone

from dpsk import (
    Chunks,
    DPAGDLogisticRegression,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    PrivacyLedger,
    PrivateSearchCV,
    private_score,
)

N, D = 10_000, 6
MODELS = {
    "DP-AGD": DPAGDLogisticRegression(splits=5),
    "DP-AGD on batches": DPAGDLogisticRegression(splits=5, batch_size=5000),
    "the default": DPLogisticRegression(epsilon=0.2),
    "the default, precise": DPLogisticRegression(epsilon=20.0, bounds=(-4, 4)),
    "several classes": DPLogisticRegression(epsilon=0.2, bounds=(-4, 4)),
    "no intercept, data_norm": DPAGDLogisticRegression(splits=5, fit_intercept=False, data_norm=1.0),
    **{f"{Model.__name__}": Model(epsilon=0.5, standardize="private", **SHORT[Model]) for Model in SAMPLED},
    "without replacement": SAMPLED[1](sampling="without-replacement", sampling_rate=0.01, steps=30),
    "second order": DPSecondOrderClassifier(),
    "objective perturbation": ObjectivePerturbationClassifier(),
    "output perturbation": OutputPerturbationLogisticRegression(alpha=0.1, solver="katyusha"),
    "tilted": OutputPerturbationLogisticRegression(alpha=0.1, objective="tilted"),
    "adversarial": OutputPerturbationLogisticRegression(alpha=0.1, objective="adversarial"),
    "a draw": OutputPerturbationLogisticRegression(20.0, mechanism="localization"),
}


def example(n=N, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D)).astype(np.float32)
    scores = X @ rng.normal(size=(D, n_classes)) + rng.normal(size=(n, n_classes))
    return X, np.array(["no", "yes", "perhaps"])[scores.argmax(axis=1)]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """The example in a file, in memory, and its labels, by number of classes."""
    found = {}
    for n_classes in (2, 3):
        X, y = example(n_classes=n_classes)
        path = tmp_path_factory.mktemp("rows") / "X.npy"
        np.save(path, X)
        found[n_classes] = np.load(path, mmap_mode="r"), X, y
    return found


def in_chunks(X, y, rows=7001):
    """Chunks of odd lengths and of several kinds."""

    def read():
        for k, a in enumerate(range(0, len(X), rows)):
            part = X[a : a + rows]
            yield (part, part.astype(float), sp.csc_array(part))[k % 3], y[a : a + rows]

    return Chunks(read)


def fit(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # accuracy is not the point here
        return clone(model).set_params(random_state=5).fit(*data)


def same(model, other):
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(model.intercept_, other.intercept_)
    assert np.array_equal(model.classes_, other.classes_)
    assert model.privacy_spent_ == other.privacy_spent_
    assert model.n_features_in_ == other.n_features_in_


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_bits(name, mapped, monkeypatch):
    mmap, X, y = mapped[3 if name == "several classes" else 2]
    model = MODELS[name]
    expected = fit(model, X, y)
    same(expected, fit(model, mmap, y))
    same(expected, fit(model, in_chunks(X, y), None))
    monkeypatch.setattr("dpsk.data.rows._WORTH_THREADS", 1)  # or these few rows would be summed by one thread
    with joblib.parallel_config("threading", n_jobs=2):
        same(expected, fit(model, mmap, y))


@pytest.mark.parametrize("name", ["DP-AGD on batches", "DPSGDClassifier"])
def test_batches_of_chunks_of_which_some_are_mostly_zeros_give_the_same_bits(name):
    X, y = example(6000)
    for a in range(0, 6000, 600):
        X[a : a + 300] *= np.random.default_rng(a).random((300, D)) < 0.1
    model = clone(MODELS[name]).set_params(**({"batch_size": 700} if "batches" in name else {}))
    same(fit(model, X, y), fit(model, in_chunks(X, y, 300)))


def test_a_hinge_without_a_corner_gives_the_same_bits(mapped):
    mmap, X, y = (part[:600] for part in mapped[2])
    model = OutputPerturbationSVC(loss="hinge", alpha=0.1)
    expected = fit(model, X, y)
    with joblib.parallel_config("threading", n_jobs=2):
        same(expected, fit(model, mmap, y))


def test_labels_may_come_apart_from_the_chunks(mapped):
    _, X, y = mapped[2]
    model = DPAGDLogisticRegression(splits=5)
    same(fit(model, X, y), fit(model, Chunks(lambda: np.array_split(X, 3)), y))


def test_chunks_are_read_once_and_need_not_be_the_same_again(mapped):
    """What a second reading would give does not matter."""
    _, X, y = mapped[2]
    readings = []

    def read():
        readings.append(1)
        order = np.arange(N) if len(readings) == 1 else np.random.default_rng(1).permutation(N)[: N // 2]
        yield X[order], y[order]

    same(fit(DPLogisticRegression(), X, y), fit(DPLogisticRegression(), Chunks(read)))
    assert len(readings) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float64, bool])
def test_numbers_of_every_kind_may_be_mapped(dtype, tmp_path):
    numbers = np.random.default_rng(0).random((3000, 4))
    X, y = (numbers * 4 - 0.5).astype(dtype), numbers[:, 0] > numbers[:, 1]
    np.save(tmp_path / "X.npy", X)
    model = DPAGDLogisticRegression(splits=5)
    expected = fit(model, X, y)
    same(expected, fit(model, np.load(tmp_path / "X.npy", mmap_mode="r"), y))
    same(expected, fit(model, Chunks(lambda: [(X, y)])))


def test_columns_of_a_file_may_lie_side_by_side(tmp_path):
    X, y = example(3000)
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    same(fit(DPLogisticRegression(), X, y), fit(DPLogisticRegression(), np.load(tmp_path / "X.npy", mmap_mode="r"), y))


def test_names_of_columns_are_kept(mapped):
    _, X, y = mapped[2]
    names = [f"column {k}" for k in range(D)]
    frames = Chunks(lambda: ((pd.DataFrame(X[a::3], columns=names), y[a::3]) for a in range(3)))
    model = fit(DPLogisticRegression(), frames)
    assert model.feature_names_in_.tolist() == names
    assert model.predict(frames).shape == (N,)
    renamed = Chunks(lambda: [(pd.DataFrame(X, columns=names), y), (pd.DataFrame(X, columns=names[::-1]), y)])
    with pytest.raises(ValueError, match="The feature names should match"):
        DPLogisticRegression().fit(renamed)


# -------------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_are_those_for_arrays(n_classes, mapped):
    mmap, X, y = mapped[n_classes]
    model = fit(DPLogisticRegression(bounds=(-4, 4)), X, y)
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        predict = getattr(model, method)
        for found in (predict(mmap), predict(in_chunks(X, y)), predict(Chunks(lambda: np.array_split(X, 2)))):
            assert found.dtype == predict(X).dtype
            if method == "predict":
                assert np.array_equal(found, predict(X))
            np.testing.assert_allclose(found, predict(X), rtol=1e-12) if method != "predict" else None
    assert model.score(mmap, y) == model.score(X, y)
    same_score = [private_score(model, data, y, epsilon=5.0, random_state=0).accuracy for data in (X, mmap)]
    assert same_score[0] == same_score[1]


# ------------------------------------------------------------------------------------------------------------- errors


def bad_chunks(change):
    """The example in three chunks, the last of them changed."""
    X, y = example(3000)
    parts = [[X[a : a + 1000].astype(float), y[a : a + 1000]] for a in range(0, 3000, 1000)]
    change(parts[2])
    return Chunks(lambda: [tuple(part) for part in parts])


def put(value):
    def change(part):
        part[0][17, 2] = value

    return change


def replace(position, make):
    def change(part):
        part[position] = make(part[position])

    return change


BAD = {
    "NaN": (put(np.nan), "Input X contains NaN"),
    "infinity": (put(-np.inf), "Input X contains infinity"),
    "another width": (replace(0, lambda X: X[:, :4]), "same columns: X has 4 features, but .* is expecting 6"),
    "text": (replace(0, lambda X: np.full(X.shape, "secret")), "X is text"),
    "complex": (replace(0, lambda X: X + 1j), "Complex data not supported"),
    "one dimension": (replace(0, lambda X: X[:, 0]), "Expected 2D array, got 1D array instead"),
    "too few labels": (replace(1, lambda y: y[:-1]), r"inconsistent numbers of samples: \[1000, 999\]"),
    "numbers as labels": (replace(1, lambda y: (y == "yes").astype(int)), "labels are text in some chunks and numbers"),
    "no labels": (replace(1, lambda y: None), "there are no labels"),
    "other labels": (replace(1, lambda y: np.where(y == "yes", "secret", y)), "labels that are not in classes"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_chunks_are_refused_and_nothing_is_spent(name, tmp_path):
    change, message = BAD[name]
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    model = DPLogisticRegression(ledger=ledger, classes=["no", "yes"])
    with pytest.raises(ValueError, match=message) as refused:
        model.fit(bad_chunks(change))
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert ledger.remaining()["epsilon"] == 3.0
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "privacy_spent_")


def test_bad_values_in_a_file_are_refused_and_nothing_is_spent(tmp_path):
    X, y = example(30_000)
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    model = DPLogisticRegression(ledger=ledger)
    for value, labels, message in (
        (np.nan, y, "Input X contains NaN"),
        (0.0, y[:-1], "inconsistent numbers of samples"),
        (0.0, np.ones(len(y)), "one class only"),
        (0.0, np.random.default_rng(0).random(len(y)), "Unknown label type"),
        (0.0, None, "requires y to be passed"),
    ):
        X[-1, -1] = value
        np.save(tmp_path / "X.npy", X)
        with pytest.raises(ValueError, match=message):
            model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), labels)
        assert ledger.remaining()["epsilon"] == 3.0
    np.save(tmp_path / "one.npy", X[:1])
    with pytest.raises(ValueError, match="minimum of 2"):
        model.fit(np.load(tmp_path / "one.npy", mmap_mode="r"), y[:1])


@pytest.mark.parametrize(
    ("chunks", "y", "message"),
    [
        (list, None, "returned no chunks"),
        (lambda: [np.ones((2, 2))], None, "there are no labels"),
        (lambda: [(np.ones((2, 2)), [0, 1])], [0, 1], "labels came both"),
        (lambda: [np.ones((2, 2))] * 2, [0, 1, 1], r"inconsistent numbers of samples: \[4, 3\]"),
        (lambda: [(np.ones((0, 2)), [])], None, "minimum of 2"),
    ],
)
def test_chunks_and_labels_have_to_fit(chunks, y, message):
    with pytest.raises(ValueError, match=message):
        DPLogisticRegression().fit(Chunks(chunks), y)


@pytest.mark.slow
def test_empty_chunks_do_no_harm(mapped):
    _, X, y = mapped[2]
    parts = [(X[:0], y[:0]), (X[:8500], y[:8500]), (X[:0], y[:0]), (X[8500:], y[8500:])]
    model = fit(DPLogisticRegression(), X, y)
    same(model, fit(DPLogisticRegression(), Chunks(lambda: parts)))
    assert np.array_equal(model.predict(Chunks(lambda: parts)), model.predict(X))
    used_up = iter(parts)
    model.predict(Chunks(lambda: used_up))
    with pytest.raises(ValueError, match="returned no rows: it must make them anew"):
        model.predict(Chunks(lambda: used_up))


def test_entries_that_are_stored_in_parts_are_added_up_first():
    """Each part is a float of 32 bits, their sum is not."""
    rng = np.random.default_rng(0)
    n, sign = 1000, rng.choice([-1.0, 1.0], 1000)
    parts, columns = np.outer(sign, [1.0, -(2.0**-30), 0.25, 2.0**-31]).ravel(), np.tile([0, 0, 1, 1], n)
    X, y = sp.csr_matrix((parts, columns, 4 * np.arange(n + 1)), (n, 2)), sign * rng.choice([-1, 1, 1, 1], n)
    model = DPAGDLogisticRegression(splits=5)
    same(fit(model, X, y), fit(model, Chunks(lambda: [(X, y)])))
    assert X.nnz == 4 * n


def test_chunks_take_a_function():
    with pytest.raises(TypeError, match=r"takes a function that returns chunks, not list.*lambda"):
        Chunks([np.ones((2, 2))])
    for wrong, name in ((None, "NoneType"), (np.ones((2, 2)), "ndarray"), (pd.DataFrame([[1.0]]), "DataFrame")):
        with pytest.raises(TypeError, match=f"returned {name}, which is no iterable of chunks: yield them"):
            DPLogisticRegression().fit(Chunks(lambda wrong=wrong: wrong), [0, 1])


def test_what_needs_all_rows_in_memory_says_so(mapped):
    mmap, X, y = mapped[2]
    with pytest.raises(ValueError, match="epsilon=inf fits the exact model in memory"):
        DPLogisticRegression(epsilon=np.inf).fit(in_chunks(X, y))
    with pytest.raises(TypeError, match="rows in chunks, and an array is needed"):
        PrivateSearchCV(DPLogisticRegression(), {"alpha": [1e-3]}).fit(in_chunks(X, y), y)
    exact = DPLogisticRegression(epsilon=np.inf)
    assert np.array_equal(exact.fit(mmap, y).coef_, exact.fit(X, y).coef_)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_spent(mapped, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("", (), {"free": 1000})())
    mmap, _, y = mapped[2]
    model = DPLogisticRegression()
    with pytest.raises(ValueError, match="TMPDIR"):
        model.fit(mmap, y)
    assert not hasattr(model, "privacy_spent_")


# ------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RssAnon is Linux")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """150 MB of rows that would take 300 MB as floats; what is kept per row (labels, scores) is less than 30 MB."""
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((300_000, 128), dtype=np.float32))
    code = f"""
import threading, time
import numpy as np
from dpsk import DPAGDLogisticRegression

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1e3

X = np.load({str(tmp_path / "X.npy")!r}, mmap_mode="r")
y = np.arange(len(X)) % 2
before, most, done = anonymous(), 0.0, False

def watch():
    global most
    while not done:
        most = max(most, anonymous())
        time.sleep(0.005)

thread = threading.Thread(target=watch, daemon=True)
thread.start()
model = DPAGDLogisticRegression(epsilon=0.01, splits=5).fit(X, y)
model.predict_proba(X)
done = True
thread.join()
print(most - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 110  # 45 MB of these are the probabilities and what they are made of
