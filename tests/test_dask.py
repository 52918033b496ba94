"""Dask: the bits of arrays in memory, on threads, on two processes, and when one of them is killed during the fit."""

import os
import pickle
import signal
import subprocess
import sys
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from dpsk import (
    DPAGDLogisticRegression,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    PrivacyLedger,
    PrivateSearchCV,
)
from dpsk.data import ArrayRows, DaskTable, RowMap
from dpsk.data.dask import DaskRows
from dpsk.estimators.validation import checked
from dpsk.losses import Logistic
from dpsk.minimizers import hinge
from dpsk.minimizers.regularized import RegularizedSum, SumOverRows
from dpsk.queries import GradientSum
from dpsk.testing import check_rows

N, D = 3_000, 5
MODELS = {
    "DP-AGD": DPAGDLogisticRegression(splits=4),
    "the default": DPLogisticRegression(epsilon=0.3),
    "the default, precise": DPLogisticRegression(epsilon=50.0, bounds=(-4, 4)),
    "DP-SGD": DPSGDClassifier(steps=15, standardize="private"),
    "DP-SGD without replacement": DPSGDClassifier(steps=15, sampling="without-replacement", sampling_rate=0.01),
    "DP-AGD on batches": DPAGDLogisticRegression(splits=4, batch_size=1000),
    "objective perturbation": ObjectivePerturbationClassifier(bounds=(-4, 4)),
    "output perturbation": OutputPerturbationLogisticRegression(alpha=0.1, solver="katyusha"),
    "tilted": OutputPerturbationLogisticRegression(alpha=0.1, objective="tilted"),
    "adversarial": OutputPerturbationLogisticRegression(alpha=0.1, objective="adversarial"),
    "a draw": OutputPerturbationLogisticRegression(20.0, mechanism="localization"),
    "several classes": DPLogisticRegression(epsilon=0.5, bounds=(-4, 4)),
}
ON_CLUSTER = ("DP-AGD", "the default", "DP-SGD", "objective perturbation", "tilted", "adversarial", "a draw")


def example(n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    scores = X @ rng.normal(size=(D, n_classes)) + rng.normal(size=(N, n_classes))
    return X, np.array(["no", "yes", "perhaps"])[scores.argmax(axis=1)]


def on_dask(X, y, chunks=(900, 2)):
    return da.from_array(X, chunks=chunks), da.from_array(y, chunks=chunks[0])


def fit(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # accuracy is not the point here
        return clone(model).set_params(random_state=5).fit(*data)


def same(model, other):
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(model.intercept_, other.intercept_)
    assert np.array_equal(model.classes_, other.classes_)
    assert model.privacy_spent_ == other.privacy_spent_


@pytest.fixture(autouse=True)
def without_a_cluster(request):
    """Dask's threads, unless a test asks for the cluster."""
    if "cluster" in request.fixturenames:
        yield
    else:
        with dask.config.set(scheduler="threads"):
            yield


# ------------------------------------------------------------------------------------------------------ Dask's threads


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning:scipy")
def test_dask_rows_give_the_same_bits():
    def make(X, y, how):
        chunks = max(1, len(X) // 3)
        classes = (-1, 1) if how.n_classes is None else range(how.n_classes)
        table = DaskTable(da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=chunks), unchecked, classes)
        return table.rows(how)

    with dask.config.set(scheduler="sync"):
        check_rows(make)


def unchecked(X, y):
    return X, y


LABELS = ["no", "yes"]


def signs(y):
    return np.where(y == "yes", 1.0, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("n_blocks", [1, 2, 15, 16, 17, 33, 257, 300])
def test_every_block_is_added_once(n_blocks):
    """However many branches the tree has: 16 blocks have one, 256 have 17."""
    X, y = example()
    X, y = X[:n_blocks], y[:n_blocks]
    rows = DaskTable(*on_dask(X, y, chunks=(1, -1)), unchecked, LABELS).rows(RowMap())
    query = GradientSum(Logistic(), np.full(D + 1, 0.3), clip=1.0)
    assert np.array_equal(rows.total(query), ArrayRows(X, signs(y)).total(query))
    every_other = np.arange(0, n_blocks, 2)
    assert np.array_equal(rows.subset(every_other).total(query), rows.total(query)) == (n_blocks == 1)
    assert np.array_equal(
        rows.subset(every_other).total(query), ArrayRows(X[every_other], signs(y[every_other])).total(query)
    )


def test_a_batch_without_rows_has_the_sum_zero():
    """As Poisson sampling may draw it: an error would tell so."""
    query = GradientSum(Logistic(), np.full(D + 1, 0.3), clip=1.0)
    found = dask_rows().subset(np.zeros(0, dtype=np.int64)).total(query)
    assert found.dtype == np.int64
    assert found.shape == (D + 1,)
    assert not found.any()


def test_nothing_warns_of_overflow_where_rows_are():
    """numpy's settings are each thread's own, and whether some row overflows is private."""
    seen = []

    def kernel(chunk):
        seen.append(set(np.geterr().values()))
        return np.zeros(1, dtype=np.int64)

    with np.errstate(all="warn"):
        dask_rows().total(kernel)
    assert seen == [{"ignore"}] * 4


def test_more_rows_than_sums_have_room_for_are_refused_over_all_blocks():
    many = 2**25 + 1

    def check(X, y):
        return np.broadcast_to(np.zeros(1), (many, 2)), np.array([0, 1])

    with pytest.raises(ValueError, match=f"X has {2 * many} rows; between 1 and 67108864"):
        DaskTable(da.zeros((2, 2), chunks=(1, -1)), da.zeros(2, chunks=1), check)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_bits_on_threads(name):
    X, y = example(3 if name == "several classes" else 2)
    expected, found = fit(MODELS[name], X, y), fit(MODELS[name], *on_dask(X, y))
    same(expected, found)
    assert found.n_features_in_ == D


@pytest.mark.slow
def test_blocks_may_be_sparse_or_empty_or_of_unknown_and_unequal_length():
    X, y = example()
    model = DPLogisticRegression(bounds=(-4, 4))
    expected = fit(model, X, y)
    cut, labels = on_dask(X, y, chunks=((1, 0, 1999, 1000), -1))[0], da.from_array(y, chunks=700)
    same(expected, fit(model, cut, labels))  # labels are cut like rows where both are known
    same(expected, fit(model, cut, y))
    sparse = cut.map_blocks(sp.csr_matrix)
    same(expected, fit(model, sparse, labels))
    keep = da.from_array(np.arange(N) >= 0, chunks=1000)
    rows, kept = da.from_array(X, chunks=(1000, -1))[keep], da.from_array(y, chunks=1000)[keep]
    assert np.isnan(rows.chunks[0]).all()
    same(expected, fit(model, rows, kept))


def frames(X, y):
    frame = pd.DataFrame(X, columns=[f"column {k}" for k in range(D)]).assign(label=y)
    whole = dd.from_pandas(frame, npartitions=3)
    return frame, whole.drop(columns="label"), whole["label"]


@pytest.mark.slow
def test_data_frames_keep_their_names():
    X, y = example()
    frame, rows, labels = frames(X, y)
    model = fit(DPLogisticRegression(bounds=(-4, 4)), rows, labels)
    same(fit(DPLogisticRegression(bounds=(-4, 4)), frame.drop(columns="label"), frame["label"]), model)
    assert model.feature_names_in_[1] == "column 1"
    predicted = model.predict(rows)
    assert isinstance(predicted, da.Array)
    assert np.array_equal(predicted.compute(), model.predict(frame.drop(columns="label")))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(rows[rows.columns[::-1]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_are_dask_arrays_and_computed_when_asked_for(n_classes):
    X, y = example(n_classes)
    model = fit(DPLogisticRegression(bounds=(-4, 4)), X, y)
    rows, _ = on_dask(X, y)
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        expected, found = getattr(model, method)(X), getattr(model, method)(rows)
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert found.chunks[0] == rows.chunks[0]
        if method == "predict":
            assert np.array_equal(found.compute(), expected)
        else:
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
    assert model.score(rows, y) == model.score(X, y)
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.predict(rows[:, :3])


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_of_blocks_without_rows_are_empty(n_classes):
    """As a filter leaves them."""
    frame, rows, _ = frames(*example(n_classes))
    later = f"index >= {N // 2}"
    rows, few = rows.query(later), frame.query(later).drop(columns="label")
    model = fit(DPLogisticRegression(bounds=(-4, 4)), rows, dd.from_pandas(frame, npartitions=3).query(later)["label"])
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        expected, found = getattr(model, method)(few), getattr(model, method)(rows).compute()
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(model.predict(rows).compute(), model.predict(few))
    with pytest.raises(ValueError, match=r"collection \(Delayed"):
        model.predict(dask.delayed(few))


def test_what_travels_to_predict_has_no_ledger(tmp_path, monkeypatch):
    X, y = on_dask(*example())
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    model, sent = fit(DPLogisticRegression(bounds=(-4, 4)), X, y).set_params(ledger=ledger), []
    monkeypatch.setattr("dpsk.estimators.blocks.map_rows", lambda function, *_: sent.append(function.args[0]))
    model.predict(X)
    assert sent[0].ledger is None
    assert model.ledger is not None


def test_svm_has_no_probabilities_on_dask_either():
    X, y = example()
    model = fit(DPSGDClassifier(loss="hinge", steps=5), *on_dask(X, y))
    assert not hasattr(model, "predict_proba")


# ------------------------------------------------------------------------------------------------------- bad input


def in_last_block(value):
    X, y = example()
    X[-1, -1] = value
    return on_dask(X, y)


def unknown(x):
    return x[da.ones(x.shape[0], chunks=x.chunks[0], dtype=bool)]


def mismatched():
    X, y = on_dask(*example())
    return unknown(X), unknown(y.rechunk(((900, 901, 899, 300),)))


def more_blocks():
    X, y = on_dask(*example())
    return unknown(X), unknown(y.rechunk(250))


def text():
    X, y = example()
    return on_dask(np.full(X.shape, "secret"), y)


def objects():
    _, rows, labels = frames(*example())
    return rows.assign(city="secret"), labels


def of_other_widths():
    X, y = example()
    blocks = [da.from_delayed(dask.delayed(part), (1500, D), float) for part in (X[:1500], X[1500:, :-1])]
    return da.concatenate(blocks), da.from_array(y, chunks=1500)


BAD = {
    "blocks of other widths": (of_other_widths, r"different numbers of columns: \[4, 5\]"),
    "NaN": (lambda: in_last_block(np.nan), r"Input X contains NaN(.|\n)*in block 3 of 4"),
    "infinity": (lambda: in_last_block(np.inf), "Input X contains infinity"),
    "text": (text, "X is text"),
    "text in a frame": (objects, r"X has columns that are no numbers: 'city' \(str(ing)?\)"),
    "blocks that do not fit": (mismatched, r"inconsistent numbers of samples: \[900, 901\].*in block 1 of 4"),
    "more blocks than of labels": (more_blocks, "X has 4 blocks and y 12.*compute_chunk_sizes"),
    "too few labels": (lambda: on_dask(example()[0], example()[1][:-1]), "inconsistent numbers of samples"),
    "labels in memory": (lambda: (unknown(on_dask(*example())[0]), example()[1]), "y must be a Dask array or Series"),
    "labels with two dimensions": (lambda: (on_dask(*example())[0],) * 2, "with one dimension"),
    "continuous labels": (lambda: (on_dask(*example())[0], da.random.random(N, chunks=900)), "y holds numbers"),
    "no labels": (lambda: (on_dask(*example())[0], None), "requires y to be passed"),
    "labels not in classes": (lambda: on_dask(*example(3)), "labels that are not in classes"),
    "one dimension": (lambda: (on_dask(*example())[1],) * 2, r"Dask collection \(Array\), but no Dask array or"),
    "a delayed object": (lambda: (dask.delayed(example()[0]), on_dask(*example())[1]), r"collection \(Delayed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_nothing_is_spent(name, tmp_path):
    make, message = BAD[name]
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    model = DPLogisticRegression(ledger=ledger, classes=["no", "yes"])
    with pytest.raises(ValueError, match=message) as refused:
        model.fit(*make())
    assert "secret" not in str(refused.value)
    assert ledger.remaining()["epsilon"] == 3.0
    assert not hasattr(model, "privacy_spent_")


def test_what_needs_all_rows_in_one_process_says_so():
    rows, labels = on_dask(*example())
    for model, message in (
        (OutputPerturbationSVC(loss="hinge"), "loss='hinge' needs all rows in one process"),
        (DPLogisticRegression(epsilon=np.inf), "epsilon=inf fits the exact model in memory"),
        (
            PrivateSearchCV(DPLogisticRegression(), {"alpha": [1e-3]}),
            "X is a Dask collection, but rows in memory are needed",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(rows, labels)


def test_sizes_are_checked_before_anything_is_spent(tmp_path):
    rows, labels = on_dask(*example())
    np.save(tmp_path / "X.npy", example()[0])
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    few, wide = DPSGDClassifier(sampling_rate=1e-5, ledger=ledger), DPSecondOrderClassifier(ledger=ledger)
    for X, y in ((rows, labels), (mapped, example()[1])):
        with pytest.raises(ValueError, match="sampling_rate=1e-05 of 3000 rows leaves batches empty"):
            few.fit(X, y)
    with pytest.raises(ValueError, match="X has 3000 columns, and a Hessian the square of that"):
        wide.fit(da.zeros((10, 3000), chunks=(5, -1)), da.arange(10, chunks=5) % 2)
    assert ledger.remaining()["epsilon"] == 3.0


def dask_rows():
    return DaskTable(*on_dask(*example()), checked, LABELS).rows(RowMap())


def test_hinge_minima_refuse_rows_elsewhere():
    """The last resort, should an estimator forget to say so."""
    rows = dask_rows()
    what = RegularizedSum(Logistic(), N, D + 1, 1.0, 1.0, 10.0)
    with pytest.raises(ValueError, match="in one process"):
        hinge.hinge_minima(what, rows, 1.0, "newton", None)


def test_a_source_that_changes_its_rows_is_refused():
    calls = []

    def block(k):
        calls.append(k)
        return np.ones((100 if len(calls) == 1 else 99, 2))

    X = da.from_delayed(dask.delayed(block)(0), (np.nan, 2), dtype=float)
    y = unknown(da.from_array(np.arange(100) % 2, chunks=100))
    with pytest.raises(ValueError, match=r"had the shape \(100, 2\) and now has \(99, 2\)|inconsistent numbers"):
        DPAGDLogisticRegression(epsilon=10.0).fit(X, y)


def test_a_source_that_changes_its_rows_and_labels_is_refused():
    """Labels as well: their number alone would not give the change away."""
    readings = []

    def length():
        readings.append(1)
        return 100 if len(readings) <= 2 else 99  # both are read once to be checked

    X = da.from_delayed(dask.delayed(lambda: np.ones((length(), 2)))(), (np.nan, 2), dtype=float)
    y = da.from_delayed(dask.delayed(lambda: np.arange(length()) % 2)(), (np.nan,), dtype=int)
    with (
        dask.config.set(scheduler="sync"),
        pytest.raises(ValueError, match=r"had the shape \(100, 2\) and now has \(99, 2\): its source must give the"),
    ):
        DPAGDLogisticRegression(epsilon=10.0).fit(X, y)


def test_neither_rows_nor_random_bits_travel_with_a_kernel():
    import cloudpickle

    class Refusing:
        def __reduce_ex__(self, protocol):
            raise AssertionError("this must not travel")

    rows = Refusing()
    rows.public, rows.n_rows = RowMap().of_shape(N, D), N
    kernels = []
    rows.total = lambda kernel: kernels.append(kernel) or np.zeros((D + 1, 1, 3))
    sums = SumOverRows(RegularizedSum(Logistic(), N, D + 1, 1.0, 1.0, 10.0), rows, bits=Refusing())
    sums.gradient(np.ones((D + 1, 1)))
    assert len(cloudpickle.dumps(kernels[0])) < 10_000


@pytest.mark.slow
def test_dask_is_not_imported_without_need():
    code = """
import sys
sys.modules["dask"] = sys.modules["distributed"] = None  # whoever imports them gets an ImportError
import numpy as np
from dpsk import DPAGDLogisticRegression
X = np.random.default_rng(0).random((500, 2))
DPAGDLogisticRegression(epsilon=5.0).fit(X, X[:, 0] > X[:, 1]).predict(X)
print("fitted")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == "fitted\n", run.stderr


# ------------------------------------------------------------------------------------------------------ two processes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A client of two worker processes, which are started again when they die."""
    from distributed import Client, LocalCluster

    folder = str(tmp_path_factory.mktemp("workers"))
    with (
        dask.config.set({"distributed.admin.system-monitor.gil.enabled": False}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", local_directory=folder
        ) as workers,
        Client(workers) as client,
    ):
        yield client


def processes(client):
    return list(client.run(os.getpid).values())


def replace_the_dead(client):
    """Nannies start dead workers again, but not always soon."""
    client.cluster.scale(len(client.cluster.worker_spec) + 1)
    client.wait_for_workers(2, timeout=60)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_CLUSTER)
def test_the_same_seed_gives_the_same_bits_on_two_processes(name, cluster):
    X, y = example()
    same(fit(MODELS[name], X, y), fit(MODELS[name], *on_dask(X, y)))
    assert len(set(processes(cluster)) - {os.getpid()}) == 2


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", ["DP-AGD", "the default", "DP-SGD"])
def test_a_worker_killed_during_the_fit_changes_nothing(name, cluster, monkeypatch):
    X, y = example()
    expected = fit(MODELS[name], X, y)
    total, passes, killed = DaskRows.total, [], []

    def killing(self, kernel):
        passes.append(1)
        if len(passes) == 5:
            killed.append(processes(cluster)[0])
            os.kill(killed[0], signal.SIGKILL)
        return total(self, kernel)

    monkeypatch.setattr(DaskRows, "total", killing)
    same(expected, fit(MODELS[name], *on_dask(X, y)))
    assert len(passes) > 5
    replace_the_dead(cluster)
    assert killed[0] not in processes(cluster)


class Deadly:
    """A kernel that kills the process it runs in, once."""

    def __init__(self, query, marker):
        self.query, self.marker = query, marker

    def __call__(self, chunk):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return self.query(chunk)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")


@pytest.mark.thorough
@pytest.mark.slow
def test_a_worker_killed_during_a_sum_changes_nothing(cluster, tmp_path):
    query = GradientSum(Logistic(), np.full(D + 1, 0.3), clip=1.0)
    rows = dask_rows()
    expected = rows.total(query)
    deadly = cloudpickled_by_value(Deadly)(query, str(tmp_path / "killed"))
    assert np.array_equal(rows.total(deadly), expected)
    assert (tmp_path / "killed").exists()
    replace_the_dead(cluster)


def cloudpickled_by_value(cls):
    """Workers cannot import this module."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[cls.__module__])
    return cls


@pytest.mark.thorough
@pytest.mark.slow
def test_rows_and_scores_stay_where_they_are(cluster):
    """What comes back from a pass is a sum; the blocks are on workers, and their scores are remembered there."""
    from distributed import futures_of

    rows = dask_rows()
    query = GradientSum(Logistic(), np.full(D + 1, 0.3), clip=1.0)
    rows.total(query)
    held = cluster.who_has(futures_of(rows._parts))
    assert len(held) == len(rows._parts)
    assert all(held.values())
    remembered = dask.compute(*(dask.delayed(remembers, traverse=False)(part, query.w) for part in rows._parts))
    assert all(remembered)
    assert len(pickle.dumps(query)) < 1000 + 8 * query.w.size


def remembers(rows, w):
    return all(chunk.memory.recall(w) is not None for chunk in rows._chunks())


@pytest.mark.slow
def test_bad_input_on_a_cluster_is_refused_and_nothing_is_spent(cluster, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    for name in ("NaN", "blocks that do not fit", "text"):
        make, message = BAD[name]
        with pytest.raises(ValueError, match=message):
            DPLogisticRegression(ledger=ledger).fit(*make())
    assert ledger.remaining()["epsilon"] == 3.0


@pytest.mark.thorough
@pytest.mark.slow
def test_predictions_of_a_cluster_are_those_of_arrays(cluster):
    X, y = example()
    model = fit(DPLogisticRegression(bounds=(-4, 4)), X, y)
    assert np.array_equal(model.predict(on_dask(X, y)[0]).compute(), model.predict(X))
