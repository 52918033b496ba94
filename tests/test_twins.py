"""Nothing but noisy numbers tells apart two data sets that differ in one row; and the checker that says so sees leaks.

Every estimator and wrapper is fitted under a ledger, with messages, on data with an ordinary row and with an extreme
one in its place. Then one leak is planted in each channel.
"""

import logging
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from contract import PURE, SHORT, each_estimator, weights_of
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dpsk import (
    Chunks,
    DPAGDLogisticRegression,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLogisticRegression,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    PrivacyLedger,
    PrivateSearchCV,
    private_score,
)
from dpsk.mechanisms import SystemBits
from dpsk.model_selection import TruncatedNegativeBinomial
from dpsk.privacy import Budget
from dpsk.privacy.costs import PureCost
from dpsk.testing import check_company, check_twins, extreme_rows
from dpsk.testing.replay import replayed

rng = np.random.default_rng(0)
X = np.round(rng.uniform(size=(30, 3)), 3)
TWO, THREE = (X[:, 0] > 0.5).astype(int), np.array(["low", "middle", "high"])[(3 * X[:, 1]).astype(int)]


def fit_of(Estimator, stored=lambda X: X, **options) -> Callable:
    """Return a fit that shows all there is to see."""
    options = {"epsilon": 0.5, **({} if Estimator in PURE else {"delta": 1e-3}), **SHORT.get(Estimator, {}), **options}

    def fit(X, y):
        ledger = PrivacyLedger("budget.db", epsilon=20.0, delta=1e-2)
        return Estimator(ledger=ledger, verbose=2, **options).fit(stored(X), y)

    return fit


def fitted(fit, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rows
        return fit(X, y)


def some_of(X, y, *names):
    """Return some of the extreme rows, for what takes long."""
    extreme = extreme_rows(X, y)
    return {name: extreme[name] for name in names or ("a huge row of both signs", "a tiny row", "another label")}


def sparse():
    rows = sp.random(30, 6, 0.3, format="csr", random_state=1, dtype=np.float64)
    return rows, THREE


# ------------------------------------------------------------------------------------------------------ estimators


@pytest.mark.slow
@each_estimator
def test_a_fit_to_dense_rows_tells_nothing_of_an_extreme_one(Estimator):
    check_twins(fit_of(Estimator), X, TWO, rows=extreme_rows(X, TWO), streams=2)


@pytest.mark.slow
@each_estimator
def test_nor_one_to_sparse_rows_with_a_dense_one_or_a_label_that_was_not_seen(Estimator):
    rows, labels = sparse()
    extreme = some_of(rows, labels, "a huge row of both signs", "a row of zeros")
    extreme |= {"a new label": (None, "none of them")}
    check_twins(fit_of(Estimator, classes=[*np.unique(labels), "none of them"]), rows, labels, rows=extreme, streams=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("Estimator", "storage"),
    [
        (DPLogisticRegression, "memory-mapped"),
        (DPSGDClassifier, "memory-mapped"),
        (DPLogisticRegression, "chunks"),
        (DPAGDLogisticRegression, "sparse chunks"),
        (DPLogisticRegression, "single precision"),
    ],
)
def test_nor_does_any_storage(Estimator, storage, tmp_path):
    def stored(X):
        if storage == "memory-mapped":
            np.save(tmp_path / "rows.npy", X)
            return np.load(tmp_path / "rows.npy", mmap_mode="r")
        return X

    def in_chunks(X, y):
        kind = sp.csr_matrix if storage == "sparse chunks" else np.asarray
        return Chunks(lambda: ((kind(X[k : k + 8]), y[k : k + 8]) for k in range(0, len(y), 8)))

    single = X.astype(np.float32) if storage == "single precision" else X
    fit = fit_of(Estimator, stored)
    if "chunks" in storage:
        fit = lambda X, y: fit_of(Estimator, lambda X: in_chunks(X, y))(X, None)  # noqa: E731
    check_twins(fit, single, TWO, rows=some_of(single, TWO), streams=2)


@pytest.mark.slow
def test_nor_do_rows_on_dask():
    da = pytest.importorskip("dask.array")

    def fit(X, y):
        return DPLogisticRegression(epsilon=0.5, delta=1e-3).fit(da.from_array(X, (8, 3)), da.from_array(y, 8))

    check_twins(fit, X, TWO, rows=some_of(X, TWO), streams=2)


OPTIONS = [
    (DPLogisticRegression, {"bounds": (0, 1)}),
    (DPLinearSVC, {"solver": "objective-perturbation", "bounds": (0, 1)}),
    (DPGradientDescentClassifier, {"standardize": "private", "bounds": (0, 1)}),
    (DPAGDLogisticRegression, {"data_norm": 1.0}),
    (DPAGDLogisticRegression, {"standardize": "private"}),
    (OutputPerturbationLogisticRegression, {"objective": "tilted"}),
    (OutputPerturbationLogisticRegression, {"objective": "adversarial"}),
    (OutputPerturbationSVC, {"delta": 1e-3}),
    (DPSecondOrderClassifier, {"standardize": "private", "bounds": (0, 1)}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("Estimator", "options"), OPTIONS)
def test_nor_do_settings_that_treat_rows_otherwise(Estimator, options):
    check_twins(fit_of(Estimator, **options), X, TWO, rows=some_of(X, TWO), streams=2)


@pytest.mark.slow
@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPAGDLogisticRegression])
def test_a_label_among_many_is_not_warned_about(Estimator):
    """scikit-learn warns where labels are more than half as many as rows, which one row decides."""
    labels = np.arange(30) % 15
    fit = fit_of(Estimator, classes=range(16))
    check_twins(fit, X, labels, rows={"a sixteenth label": (None, 15)}, streams=2)


@pytest.mark.parametrize("free", [0, 2352, 2360, 2380, 10**9])
def test_what_room_is_missing_does_not_depend_on_how_many_entries_are_stored(free, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    rows, labels = sparse()
    fit = fit_of(OutputPerturbationLogisticRegression, lambda X: Chunks(lambda: [X]))

    def refusal(X, y):
        try:
            fit(X, y)
        except ValueError as error:
            return error

    check_twins(refusal, rows, labels, rows={"a dense row": (np.ones(6), None)}, streams=2)


# -------------------------------------------------------------------------------------------------------- wrappers


COLOURS = ["blue", "green", "red"]
FRAME = pd.DataFrame({"size": 100 * X[:, 0], "colour": np.array(COLOURS, dtype=object)[(3 * X[:, 1]).astype(int)]})
TABLES = pytest.mark.parametrize("table", [FRAME, FRAME.to_numpy()], ids=["frame", "array"])


def to_unit(column):
    return np.clip(np.asarray(column, dtype=float), 0, 100) / 100


def pipeline(last, *, unknown="ignore"):
    """Return a pipeline with public settings, on columns by position."""
    encoder = OneHotEncoder(categories=[COLOURS], handle_unknown=unknown)
    return make_pipeline(make_column_transformer((encoder, [1]), (FunctionTransformer(to_unit), [0])), last)


@pytest.mark.slow
@TABLES
def test_a_pipeline_with_public_settings_tells_nothing(table):
    def fit(X, y):
        ledger = PrivacyLedger("budget.db", epsilon=2.0, delta=1e-2)
        return pipeline(DPLogisticRegression(epsilon=0.5, delta=1e-3, bounds=(0, 1), ledger=ledger)).fit(X, y)

    names = ("a huge row", "a row of zeros", "an unknown category", "another label")
    check_twins(fit, table, TWO, rows=some_of(table, TWO, *names))


@pytest.mark.slow
def test_a_grid_search_tells_nothing_but_its_scores():
    """Its scores are not private. They move with the fits that they are of."""

    def fit(X, y):
        ledger = PrivacyLedger("budget.db", epsilon=20.0, delta=1e-1)
        model = DPLogisticRegression(epsilon=0.5, delta=1e-3, ledger=ledger)
        space = {"alpha": [1e-3, 1e-1]}
        search = GridSearchCV(model, space, cv=KFold(3), error_score="raise", return_train_score=True).fit(X, y)
        del search.cv_results_, search.best_score_  # the latter may be of five rows, and stay where it is
        return search

    check_twins(fit, X, TWO, rows=some_of(X, TWO), streams=2)


@pytest.mark.slow
@pytest.mark.parametrize("table", [X, FRAME], ids=["array", "pipeline"])
def test_a_private_search_tells_nothing(table):
    def search(X, y):
        model = DPLogisticRegression(bounds=(0, 1))
        return PrivateSearchCV(
            model if table is not FRAME else pipeline(model),
            {"alpha": [1e-3, 1e-1]} if table is not FRAME else {"dplogisticregression__alpha": [1e-3, 1e-1]},
            epsilon=1.0,
            delta=1e-3,
            n_iter_distribution=TruncatedNegativeBinomial(gamma=0.3),
            ledger=PrivacyLedger("budget.db", epsilon=2.0, delta=1e-2),
        ).fit(X, y)

    check_twins(search, table, TWO, rows=some_of(table, TWO, "a huge row", "another label"), streams=2)


# ---------------------------------------------------------------------------------------------------------- scores


def scoring(model):
    return lambda X, y: private_score(
        model, X, y, epsilon=0.5, ledger=PrivacyLedger("budget.db", epsilon=2.0, delta=1e-6)
    )


def no_number(table):
    """Return rows that no fit takes, and labels that no model knows."""
    entries = [np.nan, np.inf, -np.inf]
    return {
        f"a row of {entry}": (
            ["red" if isinstance(old, str) else entry for old in extreme_rows(table)["a tiny row"][0]],
            None,
        )
        for entry in entries
    } | {"a label that no model knows": (None, 77)}


@pytest.mark.slow
@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPAGDLogisticRegression, OutputPerturbationSVC])
def test_a_private_score_counts_a_row_that_the_model_refuses_as_wrong(Estimator):
    model = fitted(Estimator(epsilon=0.5).fit, X, TWO)
    check_twins(scoring(model), X, TWO, rows=extreme_rows(X, TWO) | no_number(X), streams=2)


@pytest.mark.slow
@TABLES
@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_and_one_that_a_step_refuses(table, unknown):
    model = fitted(pipeline(DPLogisticRegression(epsilon=0.5, bounds=(0, 1)), unknown=unknown).fit, table, TWO)
    rows = some_of(table, TWO, "a huge row", "an unknown category") | no_number(table)
    check_twins(scoring(model), table[:15], TWO[:15], rows=rows, streams=2)


@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
def test_and_one_that_a_model_without_privacy_refuses(rows):
    model = LogisticRegression().fit(X, TWO)
    check_twins(scoring(model), rows, TWO, rows=some_of(rows, TWO) | no_number(rows), streams=2)


def test_one_label_that_is_known_among_others_is_not_told():
    model = fitted(DPLogisticRegression(epsilon=0.5, bounds=(0, 1)).fit, X, TWO)
    check_twins(scoring(model), X, np.full(len(X), 5), rows={"a label that is known": (None, 1)})


@pytest.mark.parametrize("row", [[np.nan] * 3, [np.inf] * 3, [1.7e308] * 3])
def test_the_price_of_a_score_is_kept_whatever_a_row_holds(row, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-6)
    model = fitted(DPLogisticRegression(epsilon=0.5, bounds=(0, 1)).fit, X, TWO)
    score = private_score(model, np.vstack([X, row]), np.append(TWO, 1), epsilon=50.0, ledger=None)
    right = round(30 * model.score(X, TWO))
    assert round(31 * score.accuracy) in ((right, right + 1) if np.isfinite(row).all() else (right,))
    private_score(model, np.vstack([X, row]), np.append(TWO, 1), epsilon=0.5, ledger=ledger)
    assert [(spend.state, spend.counted["epsilon"]) for spend in ledger.history()] == [("closed", 0.5)]


# ----------------------------------------------------------------------------------------------------- planted leaks


class Released:
    """What an honest fit releases, and whatever else is planted."""

    def __init__(self, X, y, epsilon=0.5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            ledger = PrivacyLedger("budget.db", epsilon=2.0, delta=1e-6)
            model = OutputPerturbationLogisticRegression(epsilon=epsilon, ledger=ledger).fit(X, y)
        self.coef_, self.privacy_spent_, self.ledger = model.coef_, model.privacy_spent_, ledger
        self.text_ = f"{np.abs(self.coef_).max():.3f} is the largest weight"


def huge(X) -> int:
    return int((np.abs(X).max(axis=1) > 1e100).sum())


def planted(leak):
    def fit(X, y):
        released = Released(X, y)
        leak(released, X, y)
        return released

    return fit


def in_the_end(X, leak):
    if huge(X):
        leak()


def refused_with_a_refund(released, X, y):
    with (
        suppress(OverflowError),
        released.ledger.fit(Budget.of(0.1, 0.0), label="x", adjacency="zero-out", private=True) as own,
    ):
        if huge(X):
            raise OverflowError
        own.charge(PureCost(0.1), "x")


def another_amount(released, X, y):
    epsilon = 0.1 * (1 + huge(X))
    released.ledger.reserve(Budget.of(epsilon, 0.0), label="x", adjacency="zero-out", private=True)


def raises(error):
    raise error


def caught_and_raised(released, X, y):
    if released.coef_[0, 0] < 0:  # noise decides, but what hangs on the error does not
        try:
            raise OverflowError(f"{huge(X)} rows are large")
        except OverflowError:
            raise ValueError("no model") from None


class Kept:
    """Hides what it holds from whoever looks at its attributes."""

    __slots__ = ("_rows",)

    def __init__(self, rows):
        self._rows = rows

    def __reduce__(self):
        return Kept, (self._rows,)


def function_that_has(X, *, default):
    high = float(X.max())
    if default:
        return lambda row=high: row

    def function():
        pass

    function.high = high
    return function


class Odd(Kept):
    """Of another class, and nothing else."""


LEAKS = {
    "a warning": (lambda r, X, y: in_the_end(X, lambda: warnings.warn("large", UserWarning, stacklevel=1)), "warnings"),
    "an exception": (
        lambda r, X, y: in_the_end(X, lambda: raises(OverflowError("large"))),
        "exception: .*OverflowError",
    ),
    "the cause of an exception": (caught_and_raised, "exception: .*OverflowError: 1 rows"),
    "a refund": (refused_with_a_refund, r"files budget.db.*state.*returned"),
    "an amount in the ledger": (another_amount, r"files budget.db.*whatever the noise"),
    "a dtype": (lambda r, X, y: vars(r).update(coef_=r.coef_.astype("f4" if huge(X) else "f8")), r"coef_.*float32"),
    "an attribute": (lambda r, X, y: in_the_end(X, lambda: vars(r).update(large_=None)), r"large_.* now"),
    "an attribute that is gone": (lambda r, X, y: in_the_end(X, lambda: vars(r).pop("coef_")), r"coef_.* no longer"),
    "a key": (lambda r, X, y: vars(r).update(info_={"large": 1} if huge(X) else {}), r"info_: \[\] became .*large"),
    "a shape": (lambda r, X, y: vars(r).update(kept_=np.random.rand(3 + huge(X))), r"kept_.*\(4,\)"),  # noqa: NPY002
    "a length": (lambda r, X, y: vars(r).update(kept_=[0.5] * (3 + huge(X))), r"kept_.*4"),
    "nothing for a number": (lambda r, X, y: vars(r).update(n_=None if huge(X) else r.coef_[0, 0]), r"n_.*None"),
    "a type": (lambda r, X, y: vars(r).update(n_=np.int64(1) if huge(X) else 1), r"n_.*int64"),
    "a count": (lambda r, X, y: vars(r).update(n_large_=huge(X)), r"n_large_: 0 became 1, whatever the noise"),
    "a sum without noise": (lambda r, X, y: vars(r).update(high_=X.max()), r"high_.*whatever the noise"),
    "a count in a text": (lambda r, X, y: vars(r).update(report_=f"{huge(X)} large rows"), r"report_.*whatever"),
    "a word in a text": (lambda r, X, y: vars(r).update(report_=f"all small: {not huge(X)}"), r"report_.*False"),
    "a line": (lambda r, X, y: in_the_end(X, lambda: print("a large row")), "printed lines.*a large row"),
    "a line on stderr": (
        lambda r, X, y: in_the_end(X, lambda: print("large", file=sys.stderr)),
        "printed lines.*large",
    ),
    "a number in a line": (lambda r, X, y: print(f"iterate 1 of {huge(X)}"), "printed lines.*whatever the noise"),
    "a file": (lambda r, X, y: in_the_end(X, Path("large.txt").touch), r"files : .*large.txt"),
    "what stands in a file": (
        lambda r, X, y: Path("report.txt").write_text(f"{X.max()}"),
        r"files report.txt.*whatever",
    ),
    "a temporary file": (lambda r, X, y: in_the_end(X, lambda: temporary()), r"files : .*temporary"),
    "rows in a pickle": (lambda r, X, y: vars(r).update(kept_=Kept(X[:0].sum() + np.abs(X).max())), r"kept_.*whatever"),
    "rows in a closure": (lambda r, X, y: vars(r).update(f_=lambda: X), r"f_.*whatever the noise"),
    "an entry of an array that has noise": (
        lambda r, X, y: vars(r).update(means_=np.r_[r.coef_.ravel(), X.max()]),
        r"means_: entry 3 of an array, and 0 more",
    ),
    "a number beside one that has noise": (
        lambda r, X, y: vars(r).update(report_=f"{r.coef_[0, 0]} and {X.max()}"),
        r"report_\[1\].*whatever",
    ),
    "a number in a line, too": (lambda r, X, y: print(r.coef_[0, 0], X.max()), r"printed lines.*\[1\].*whatever"),
    "a number in a file, too": (
        lambda r, X, y: Path("report.txt").write_text(f"{r.coef_[0, 0]} {X.max()}"),
        r"report.txt.*\[1\].*whatever",
    ),
    "a message of a logger": (
        lambda r, X, y: logging.getLogger("dpsk").info("the largest is %s", X.max()),
        "printed lines.*the largest is",
    ),
    "a default in a function": (lambda r, X, y: vars(r).update(f_=function_that_has(X, default=True)), r"f_.*whatever"),
    "what a function has": (lambda r, X, y: vars(r).update(f_=function_that_has(X, default=False)), r"f_.*high.*what"),
    "a class in a pickle": (lambda r, X, y: vars(r).update(kept_=(Odd if huge(X) else Kept)(1)), r"kept_.*Odd"),
}


def temporary():
    import tempfile

    with tempfile.NamedTemporaryFile(delete=False):
        pass


@pytest.mark.slow
def test_the_honest_fit_is_not_taken_for_a_leak():
    check_twins(planted(lambda released, X, y: None), X, TWO)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_found(name):
    leak, said = LEAKS[name]
    with pytest.raises(
        AssertionError, match=rf"(?s)with a (huge row|row beyond all others) in place of row \d, .*{said}"
    ):
        check_twins(planted(leak), X, TWO, streams=2)


def test_a_swallowed_exception_that_leaves_no_trace_but_more_budget_is_found():
    def fit(X, y):
        ledger = PrivacyLedger("budget.db", epsilon=2.0, delta=1e-6)
        try:
            if huge(X):
                raise OverflowError
            return OutputPerturbationLogisticRegression(epsilon=0.5, ledger=ledger).fit(X, y).coef_
        except OverflowError:
            return np.random.rand(1, 3)  # noqa: NPY002

    with pytest.raises(AssertionError, match=r"files budget.db: 1 items became 0"):
        check_twins(fit, X, TWO, streams=2)


def test_noise_that_decides_whether_there_is_a_number_is_not_taken_for_a_leak():
    def fit(X, y):
        coin = (SystemBits().take(1)[0] + huge(X)) % 2
        return {"step": 1.5 if coin else None} | ({"last": 1} if coin else {})

    check_twins(fit, X, TWO, streams=6)


def test_noise_that_leads_to_another_number_of_steps_is_not_taken_for_a_leak():
    def fit(X, y):
        coins = np.frombuffer(SystemBits().take(64), np.uint8) + (huge(X) > 0)
        steps = int(coins[0] % 7)
        print(*(f"step {k}: {coin}" for k, coin in enumerate(coins[: steps + 1])), sep="\n")
        return {"n_iter_": steps, "path_": list(coins[: steps + 1]), "all_": coins[: steps + 1]}

    check_twins(fit, X, TWO)


class Predicts:
    """A model whose methods treat each row by itself; more than that is planted."""

    def __init__(self, leak=None):
        self.leak = leak

    def decision_function(self, X):
        return (np.clip(X, -1, 1) * [1.0, 2.0, 4.0]).sum(axis=1) if self.leak is None else self.leak(X)


COMPANY = {
    "centres rows": lambda X: X[:, 0] - X[:, 0].max(),
    "scales rows": lambda X: X[:, 0] / max(1.0, np.abs(X).max()),
    "knows the place": lambda X: X[:, 0] + np.arange(len(X)),
    "knows the number": lambda X: X[:, 0] + len(X),
    "warns": lambda X: (in_the_end(X, lambda: warnings.warn("large", stacklevel=1)), X[:, 0])[1],
    "raises": lambda X: (in_the_end(X, lambda: raises(OverflowError())), X[:, 0])[1],
    "prints": lambda X: (in_the_end(X, lambda: print("large")), X[:, 0])[1],
}


def test_a_model_that_treats_each_row_by_itself_is_accepted():
    check_company(Predicts().decision_function, X)
    check_twins(lambda X, y: Predicts(), X, TWO)


@pytest.mark.parametrize("leak", COMPANY)
def test_predictions_of_other_rows_that_move_are_found(leak):
    with pytest.raises(AssertionError, match="decision_function: "):
        check_twins(lambda X, y: Predicts(COMPANY[leak]), X, TWO)


# ------------------------------------------------------------------------------------------------------- the replay


def test_bits_are_replayed_for_a_while_and_what_was_fetched_meanwhile_is_never_used_again():
    bits, kept = SystemBits(), SystemBits()
    before = bits.take(8)
    taken = {}
    for stream in (1, 1, 2):
        with replayed(stream):
            taken.setdefault(stream, []).append((bits.take(8), SystemBits().take(8), kept.take(8)))
    assert taken[1][0] == taken[1][1] != taken[2][0]
    with replayed(1):
        bits.take(8), SystemBits().take(8)
        left = kept.take(16)[8:]
    assert kept.take(8) not in (left, b"")
    assert before != bits.take(8)
    assert SystemBits().take(8) != SystemBits().take(8)


@each_estimator
def test_a_private_fit_is_the_same_under_the_same_stream(Estimator):
    """Bits of threads included, without which no comparison would be one."""

    def weights(stream):
        model = Estimator(epsilon=0.5, **SHORT.get(Estimator, {}))
        with replayed(stream), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pickle.dumps(weights_of(model.fit(X, TWO)))

    assert weights(1) == weights(1) != weights(2)


def test_an_action_that_shows_nothing_is_refused():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    with pytest.raises(AssertionError, match="return what it releases"):
        check_twins(lambda X, y: None, X, y)
