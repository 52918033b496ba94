"""The notice about fits without a ledger: when it comes, what it adds up, and what it does not depend on."""

import logging
import os
import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest

from dpsk import DPGradientDescentClassifier, PrivacyLedger, PrivateSearchCV
from dpsk.privacy import Budget, fits_so_far
from dpsk.privacy.fits_so_far import as_in_a_new_process, count_fit
from dpsk.testing import check_twins

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 3)), np.arange(60) % 2
TABLE = {"columns": 3, "names": None, "unit": "row", "adjacency": "zero-out", "private": True}


@pytest.fixture(autouse=True)
def new_process():
    with as_in_a_new_process():
        yield


@pytest.fixture
def notices(caplog):
    caplog.set_level(logging.WARNING, logger="dpsk")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "dpsk"]


def model(**parameters):
    return DPGradientDescentClassifier(**({"bounds": (0, 1), "steps": 1} | parameters))


def test_the_second_fit_tells_the_sum_and_then_every_doubling(notices):
    said = []
    for fit in range(1, 10):
        model(epsilon=0.1).fit(X, Y)
        said += [fit] * (len(notices()) - len(said))
    assert said == [2, 4, 8]
    assert notices()[2].startswith("dpsk: 8 fits of this process were on tables with 3 columns and without a ledger.")
    assert "about the same rows, their guarantees add up to epsilon 0.8, delta 8e-06." in notices()[2]


def test_the_message_names_the_way_to_switch_it_off(notices):
    for _ in range(2):
        model().fit(X, Y)
    (said,) = notices()
    off = said[said.index("logging.") : said.index(" switches")]
    before = logging.getLogger("dpsk").level
    try:
        exec(off, {"logging": logging})
        for _ in range(2):
            model().fit(X, Y)
    finally:
        logging.getLogger("dpsk").setLevel(before)
    assert len(notices()) == 1


def test_it_is_no_warning_and_no_error(notices):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            count_fit(None, Budget.of(1.0, 0.0), **TABLE)
    assert len(notices()) == 1


def test_tables_with_other_columns_or_another_unit_are_counted_apart(notices):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for rows in (X, X[:, :2], frame, frame.rename(columns={"c": "d"})):
        model().fit(rows, Y)
    model(group_column="id").fit(frame.assign(id=range(60)), Y)
    model(adjacency="replace").fit(X, Y)
    assert notices() == []
    model().fit(frame.iloc[:30], Y[:30])  # a fold has fewer rows
    assert len(notices()) == 1
    assert "tables with these 3 columns" in notices()[0]


def test_the_unit_is_named(notices):
    ids = np.arange(60) // 2
    for _ in range(2):
        model().fit(X, Y, groups=ids)
    assert "about the same persons" in notices()[0]


def test_what_is_in_a_ledger_or_not_private_does_not_count(notices, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3, currency="basic")
    for _ in range(2):
        model(ledger=ledger).fit(X, Y)
        model(random_state=0).fit(X, Y)
        model(epsilon=np.inf).fit(X, Y)
    PrivateSearchCV(model(), {"alpha": [1e-4, 1e-2]}, epsilon=2.0).fit(X, Y)
    assert notices() == []


def test_a_refused_fit_does_not_count(notices):
    for _ in range(2):
        with pytest.raises(ValueError, match="class"):
            model().fit(X, np.zeros(60))
    model().fit(X, Y)
    assert notices() == []


def test_values_of_rows_never_matter(notices):
    for scale in (1.0, 1e6):
        model().fit(X * scale, Y)
    assert len(notices()) == 1


@pytest.mark.slow
def test_twins_see_the_same_notices():
    def fits(rows, labels):
        return [model().fit(rows, labels).coef_ for _ in range(2)]

    count_fit(None, Budget.of(1.0, 0.0), **TABLE)  # the process has a history
    check_twins(fits, X, Y)


def test_an_observed_action_leaves_the_history_as_it_was(notices):
    model().fit(X, Y)
    with as_in_a_new_process():
        model().fit(X, Y)
    assert notices() == []
    model().fit(X, Y)
    assert len(notices()) == 1


def test_few_kinds_of_tables_are_remembered():
    for columns in range(1000):
        count_fit(None, Budget.of(1.0, 0.0), **(TABLE | {"columns": columns, "names": ("a" * 1000,)}))
    kept = fits_so_far._so_far._sums
    assert len(kept) == 256
    assert {kind[0] for kind in kept} == set(range(744, 1000)), "the oldest are forgotten"
    assert len(pickle.dumps(kept)) < 256 * 300


def test_threads_count_together(notices):
    def count():
        for _ in range(256):
            count_fit(None, Budget.of(1.0, 0.0), **TABLE)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(said.split()[1]) for said in notices()) == [2**k for k in range(1, 12)]


def test_a_pickle_carries_no_count(notices):
    fitted = model().fit(X, Y)
    assert b"fits_so_far" not in pickle.dumps(fitted)
    pickle.loads(pickle.dumps(fitted)).fit(X, Y)
    assert len(notices()) == 1, "the process counts, whatever is pickled"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_begins_anew_even_if_the_lock_was_held(notices):
    count_fit(None, Budget.of(1.0, 0.0), **TABLE)
    with fits_so_far._so_far._lock:
        child = os.fork()
        if child == 0:
            count_fit(None, Budget.of(1.0, 0.0), **TABLE)
            os._exit(len(notices()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
