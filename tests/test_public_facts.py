"""Warnings and errors of a fit follow from public facts: sizes, types, classes; never from how rows or labels fall."""

import re
import types
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dpsk import Chunks, DPGradientDescentClassifier, DPLogisticRegression
from dpsk.data.arrays import ArrayRows
from dpsk.estimators.validation import validated

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning")
N, CLASSES = 60, 40
X = np.random.default_rng(0).random((N, 3))


def in_chunks(X, y):
    return (Chunks(lambda: [(X[:30], y[:30]), (X[30:], y[30:])]),)


def mapped(X, y):
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, X)
        return np.load(file.name, mmap_mode="r"), y


def on_dask(X, y):
    return da.from_array(X, chunks=(30, -1)), da.from_array(y, chunks=30)


STORAGES = {"in memory": lambda *data: data, "chunks": in_chunks, "mapped": mapped, "Dask": on_dask}
each_storage = pytest.mark.parametrize("storage", STORAGES)


def told(model, *data):
    """Return all that a fit says: its warnings, and its error if there is one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(*data)
        except Exception as error:
            said = [f"{type(error).__name__}: {error}"]
        else:
            said = []
    return said + [f"{warning.category.__name__}: {warning.message}" for warning in caught]


@pytest.mark.slow
@each_storage
@pytest.mark.parametrize("kind", [int, float, str])
def test_with_classes_given_nothing_depends_on_which_labels_occur(storage, kind):
    classes = np.arange(CLASSES).astype(kind)
    labels = [
        classes[np.arange(N) % CLASSES],  # nearly all of them occur
        classes[np.arange(N) % 2],
        np.where(np.arange(N) == 7, classes[-1], classes[0]),
        np.full(N, classes[3]),
    ]
    model = DPLogisticRegression(classes=classes, bounds=(0, 1))
    first, *others = [told(model, *STORAGES[storage](X, y)) for y in labels]
    assert all(other == first for other in others)
    assert all("expect little more than chance" in line for line in first), "which follows from sizes"


@pytest.mark.slow
@each_storage
def test_without_classes_nothing_depends_on_how_often_labels_occur_or_where(storage):
    """Chunks of rows may hold few labels or many."""
    labels = [np.arange(N) % 30, np.r_[np.arange(30), np.zeros(30)].astype(int), np.sort(np.arange(N) % 30)]
    first, *others = [told(DPLogisticRegression(bounds=(0, 1)), *STORAGES[storage](X, y)) for y in labels]
    assert all(other == first for other in others)


@each_storage
def test_classes_need_not_be_whole_numbers(storage):
    classes = [0.5, 1.5]
    said = told(
        DPLogisticRegression(classes=classes, delta=1e-3), *STORAGES[storage](X, np.array(classes)[np.arange(N) % 2])
    )
    assert all("expect little more" in line for line in said)


@each_storage
def test_a_label_that_is_not_among_the_classes_is_told_in_the_same_words_whatever_it_is(storage):
    model, good = DPLogisticRegression(classes=["no", "yes"]), np.array(["no", "yes"])[np.arange(N) % 2]
    found = {told(model, *STORAGES[storage](X, np.where(np.arange(N) == 7, bad, good)))[0] for bad in ("x", "x" * 50)}
    assert found == {"ValueError: y contains labels that are not in classes: list every label that may occur"}
    numbers = DPLogisticRegression(classes=[0, 1])
    assert len({told(numbers, *STORAGES[storage](X, np.full(N, label)))[0] for label in ("x", "x" * 50)}) == 1


@each_storage
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_at_the_end_of_the_range_are_silent(storage, dtype):
    """Their sum overflows, to infinity or to NaN."""
    largest = float(np.finfo(dtype).max)
    model = DPGradientDescentClassifier(steps=3, epsilon=9.0, delta=1e-3, bounds=(0, 1))  # never ends early by chance
    quiet = told(model, *STORAGES[storage](X.astype(dtype), np.arange(N) % 2))
    for signs in ([1, 1], [1, -1], [1, 1, -1, -1]):
        rows = X.astype(dtype)
        rows[: len(signs)] = largest * np.array(signs)[:, None]
        assert told(model, *STORAGES[storage](rows, np.arange(N) % 2)) == quiet
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            validated(model, rows, np.arange(N) % 2)


@pytest.mark.parametrize("free", [10**9, 20_000, 5_000])
def test_room_for_sparse_rows_does_not_depend_on_how_many_entries_they_have(free, monkeypatch):
    """The entries of full rows are 115 kB, and the rest is 15 kB for either."""
    monkeypatch.setattr("shutil.disk_usage", lambda folder: types.SimpleNamespace(free=free))
    full, empty = np.tile(X, (4, 20)), np.zeros((4 * N, 60))
    empty[0, 0] = 1.0
    y = np.arange(4 * N) % 2
    model = DPLogisticRegression(epsilon=9.0, delta=1e-3, bounds=(0, 1))
    told_of = {str(told(model, Chunks(lambda rows=rows: [(sp.csr_array(rows), y)]))) for rows in (full, empty)}
    assert len(told_of) == 1
    assert ("rounded rows need" in told_of.pop()) == (free < 10_000)


@pytest.mark.parametrize("bad", ["nowhere", "in one row", "in all rows"])
def test_whether_text_can_be_read_as_numbers_is_not_tried(bad):
    text = np.full(N, "1.5", object)
    if bad != "nowhere":
        text[slice(7, 8) if bad == "in one row" else slice(None)] = "unknown"
    frame = pd.DataFrame(X, columns=list("abc")).assign(d=text)
    found = told(DPLogisticRegression(), frame, np.arange(N) % 2)
    assert re.match(r"ValueError: X has columns that are no numbers: 'd' \((object|str)\)\. DPTabular", found[0])


def test_memory_that_is_too_small_is_told_without_the_number_of_entries(monkeypatch):
    def fails(*_, **__):
        raise MemoryError("Unable to allocate 9.9 GiB for an array with shape (123456789,)")

    monkeypatch.setattr(ArrayRows, "__init__", fails)
    with pytest.raises(MemoryError, match=r"numpy\.memmap, dpsk\.Chunks or a Dask collection") as refused:
        DPLogisticRegression(bounds=(0, 1)).fit(X, np.arange(N) % 2)
    assert "123456789" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None
