"""The mistakes that are made first: each error names the column or parameter and a way out, and quotes no value."""

import re
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from dpsk import (
    DPAGDSVC,
    Chunks,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    DPTabularClassifier,
    OutputPerturbationSVC,
    PrivacyLedger,
    PrivateSearchCV,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:epsilon=.* expect little more than chance:UserWarning"),
    pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning"),
]
N = 60
SECRET = "a very private value"
X = np.random.default_rng(0).random((N, 3))
Y = np.arange(N) % 2
FRAME = pd.DataFrame(X, columns=["age", "income", "height"])
WORDS = r"\((object|str|string)\)"  # Dask makes one of the other, and so does pandas 3
ENCODE = r"DPTabularClassifier.*OneHotEncoder\(categories="
DATES, TEXT = "DPTabularClassifier.*days since a fixed one", r"DPTabularClassifier.*X\.astype\("


def but(value, at=(7, 1)):
    changed = X.copy().astype(object if isinstance(value, str) else float)
    changed[at] = value
    return changed


def nullable(kind, value):
    return FRAME.assign(flag=pd.array([value, None] * (N // 2), dtype=kind))


COLUMNS = {
    "a name twice": (FRAME.set_axis(["age", "income", "age"], axis=1), ["'age'", "rename or drop"]),
    "dates": (FRAME.assign(born=pd.Timestamp("1971-03-04")), [r"'born' \(datetime64", DATES]),
    "dates with a zone": (FRAME.assign(born=pd.Timestamp("1971-03-04", tz="UTC")), [r"'born' \(datetime64", DATES]),
    "durations": (FRAME.assign(stay=pd.Timedelta("3 days")), [r"'stay' \(timedelta64", DATES]),
    "periods": (FRAME.assign(born=pd.Period("1971-03")), [r"'born' \(period", DATES]),
    "objects": (FRAME.assign(city=pd.Series([SECRET] * N, dtype=object)), ["'city' " + WORDS, ENCODE, TEXT]),
    "text": (FRAME.assign(city=pd.Series([SECRET] * N, dtype="string")), ["'city' " + WORDS, ENCODE, TEXT]),
    "categories": (FRAME.assign(city=pd.Categorical([SECRET] * N)), [r"'city' \(category\)", ENCODE]),
    "numbers as text": (FRAME.assign(age=["1971"] * N), ["'age' " + WORDS, TEXT]),
    "two kinds": (FRAME.assign(born=pd.Timestamp("1971-03-04"), city=SECRET), ["'born'", "'city'", DATES, ENCODE]),
    "many": (pd.DataFrame([[SECRET] * 8] * N, columns=list("abcdefgh")), ["'a'", "'e'", "and 3 more"]),
}
TABLES = {
    "NaN": (but(np.nan), ["X contains NaN", "drop such rows", "constant"]),
    "infinity": (but(np.inf), ["X contains infinity", "drop such rows"]),
    "NA among flags": (nullable("boolean", True), ["X contains NaN", "drop such rows"]),
    "NA among integers": (nullable("Int64", 1971), ["X contains NaN", "drop such rows"]),
    "text among numbers": (but(SECRET), ["X contains text", ENCODE]),
    "one dimension": (X[:, 0], ["X", "2D array, got 1D", "Reshape"]),
    "a column": (FRAME["age"], ["X", "2-dimensional", "DataFrame"]),
    "three dimensions": (X[None], ["X", "dim 3"]),
    "a file name": (SECRET, ["X contains text"]),
    "complex numbers": (X + 1j, ["X", "Complex data not supported", "real and imaginary"]),
    "text alone": (np.full((N, 2), SECRET), ["X is text", ENCODE]),
    "dates alone": (np.full((N, 2), np.datetime64("1971-03-04")), [r"X is datetime64\[D\]", DATES]),
    "fields": (np.zeros(N, [("age", float)]), ["X is a structured array", "fields into columns"]),
    "ragged": ([[1, 2], [1]] * (N // 2), ["X", "different lengths", "same number of columns"]),
    "a sparse line": (sp.coo_array(X[:, 0]), ["X", "2D"]),
    "names of two types": (FRAME.set_axis(["age", "income", 3], axis=1), ["string names", "astype"]),
    "no columns": (X[:, :0], ["X", r"0 feature\(s\)"]),
    "one row": (X[:1], ["X", "minimum of 2"]),
}
LABELS = {
    "two columns": (np.column_stack([Y, Y]), {}, ["y should be a 1d array"]),
    "too few": (Y[:-3], {}, ["X and y", r"\[60, 57\]", "one label per row"]),
    "none": (None, {}, ["requires y"]),
    "a regression target": (X[:, 0], {}, ["y", "continuous", "classes"]),
    "one class": (Y * 0, {}, ["2 classes", "list them all in classes"]),
    "NaN": (np.where(Y, np.nan, 0), {}, ["y contains NaN", "[Dd]rop"]),
    "None among text": (np.where(Y, None, SECRET), {}, ["y contains NaN or None", "drop"]),
    "NA among text": (pd.array([SECRET, None] * (N // 2), dtype="string"), {}, ["y contains NaN or None", "drop"]),
    "NaT": (np.where(Y, np.datetime64("1971"), np.datetime64("NaT")), {}, ["y contains NaT", "drop"]),
    "two types": (np.array([1971, SECRET] * (N // 2), object), {}, ["y", "one type", "astype"]),
    "bytes": (np.where(Y, b"a", SECRET.encode()), {}, ["y is bytes", "decode"]),
    "complex numbers": (Y + 1j, {}, ["y", "Complex"]),
    "sparse": (sp.csr_array(Y[:, None]), {}, ["y", "toarray"]),
    "not in classes": (np.where(Y, "no", SECRET), {"classes": ["no", "yes"]}, ["y", "classes", "list every label"]),
    "classes of another type": (Y, {"classes": ["no", "yes"]}, ["y holds numbers", r"classes=\['no', 'yes'\]"]),
}
BOUNDS = "a pair \\(low, high\\)"
PARAMETERS = {
    **{f"epsilon={value!r}": ({"epsilon": value}, ["positive finite"]) for value in ("1", None, -1, 0, np.nan, True)},
    "epsilon=[1.0, 2.0]": ({"epsilon": [1.0, 2.0]}, ["positive finite"]),
    "delta=1": ({"delta": 1}, [r"\[0, 1\)", "below 1/"]),
    "delta=2.0": ({"delta": 2.0}, [r"\[0, 1\)", "below 1/"]),
    "delta=None": ({"delta": None}, [r"\[0, 1\)", "below 1/"]),
    "bounds=[(0, 1), (0, 1), (0, 1)]": (
        {"bounds": [(0, 1)] * 3},
        [BOUNDS, "one number per column", r"write bounds=\(\[0, 0, 0\], \[1, 1, 1\]\)"],
    ),
    "bounds={}": ({"bounds": {}}, ["name every column"]),
    "bounds['age']=(5, 1)": ({"bounds": {"age": (5, 1)}}, [r"pair \(low, high\)", "low < high"]),
    "bounds['age']='old'": ({"bounds": {"age": "old"}}, [r"pair \(low, high\)"]),
    "bounds names columns": ({"bounds": {"age": (0, 1)}}, ["have no names", "DataFrame", r"\(lows, highs\)"]),
    "bounds=1": ({"bounds": 1}, [BOUNDS]),
    "bounds are given for 2 columns": ({"bounds": ([0, 0], [1, 1])}, ["X has 3"]),
    "alpha=-1": ({"alpha": -1}, [">= 0"]),
    "classes=2": ({"classes": 2}, ["list all labels"]),
    "classes=[0]": ({"classes": [0]}, ["two or more"]),
    "classes=[0, 'a']": ({"classes": [0, "a"]}, ["all text or all numbers"]),
    "classes=[0, None]": ({"classes": [0, None]}, ["all text or all numbers"]),
    "classes=[0.0, nan]": ({"classes": [0.0, np.nan]}, ["all text or all numbers"]),
    "classes=[[0, 1]]": ({"classes": [[0, 1]]}, ["list all labels"]),
    "random_state=Generator(PCG64)": ({"random_state": np.random.default_rng(0)}, ["None", "integer", "not private"]),
    "random_state=RandomState(MT19937)": ({"random_state": np.random.RandomState(0)}, ["None", "integer"]),
    "fit_intercept='yes'": ({"fit_intercept": "yes"}, ["True or False"]),
    "standardize=True": ({"standardize": True}, ["'private'"]),
    "ledger=3": ({"ledger": 3}, ["PrivacyLedger", "path"]),
}


def require_useful(refused, wanted):
    text = str(refused.value)
    for pattern in wanted:
        assert re.search(pattern, text), f"{pattern!r} is not in: {text}"
    for value in (SECRET, "1971", "withheld"):
        assert value not in text
    shown, seen = refused.value, []
    while shown is not None:  # nor is it in what is printed above
        seen.append(str(shown))
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    assert SECRET not in "".join(seen)


def refused_fit(*data, error=(ValueError, TypeError), model=None):
    with pytest.raises(error) as refused:
        (DPLogisticRegression() if model is None else model).fit(*data)
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_cannot_be_fitted_are_named_wherever_they_are(name, tmp_path):
    frame, wanted = COLUMNS[name]
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)
    model = DPLogisticRegression(ledger=ledger)
    require_useful(refused_fit(frame, Y, model=model), wanted)
    require_useful(refused_fit(Chunks(lambda: [(frame[:30], Y[:30]), (frame[30:], Y[30:])]), model=model), wanted)
    require_useful(refused_fit(Chunks(lambda: [frame]), Y, model=model), wanted)
    assert ledger.remaining()["epsilon"] == 3.0
    fitted = DPLogisticRegression(delta=1e-3, epsilon=50.0).fit(X, Y)
    with pytest.raises(ValueError, match="X has") as refused:
        fitted.predict(frame)
    require_useful(refused, wanted)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("a name twice", "periods")])
def test_columns_of_dask_are_named_too(name):
    frame, wanted = COLUMNS[name]
    rows = dd.from_pandas(frame.assign(label=Y), npartitions=2)
    require_useful(refused_fit(rows.drop(columns="label"), rows["label"]), wanted)


def test_columns_of_polars_are_named_too():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"age": X[:, 0], "flag": Y == 1, "city": polars.Series([SECRET] * N, dtype=polars.Enum([SECRET]))}
    )
    require_useful(refused_fit(frame, Y), [r"'city' \(Enum\)", ENCODE])
    DPLogisticRegression().fit(frame.drop("city"), Y)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_tables_that_cannot_be_fitted(name):
    table, wanted = TABLES[name]
    require_useful(refused_fit(table, Y), wanted)
    if name not in ("names of two types", "no columns", "one row"):  # which predictions do not mind, or name otherwise
        fitted = DPLogisticRegression(delta=1e-3, epsilon=50.0).fit(X, Y)
        with pytest.raises((ValueError, TypeError)) as refused:
            fitted.predict(table)
        require_useful(refused, wanted)


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_cannot_be_fitted(name):
    labels, parameters, wanted = LABELS[name]
    require_useful(refused_fit(X, labels, model=DPLogisticRegression(**parameters)), wanted)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_that_make_no_sense(name):
    parameters, wanted = PARAMETERS[name]
    require_useful(refused_fit(X, Y, model=DPLogisticRegression(**parameters)), [re.escape(name), *wanted])


@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPAGDSVC, DPSGDClassifier, OutputPerturbationSVC])
def test_arguments_that_scikit_learn_s_models_take(Estimator):
    """The name of a private base class is nobody's business."""
    for name, wanted in (
        ("sample_weight", "Its parameters are epsilon, delta, .*weight_bound"),
        ("C", r"alpha, which is 1 / \(C \* n_samples\)"),
        ("penalty", "Its parameters are epsilon, delta, .*alpha"),
    ):
        with pytest.raises(TypeError, match=f"^{Estimator.__name__}: .*{name}.*{wanted}"):
            Estimator(**{name: "balanced"})
        with pytest.raises(ValueError, match=f"Invalid parameter '{name}' for estimator {Estimator.__name__}"):
            Estimator().set_params(**{name: "balanced"})
    with pytest.raises(
        TypeError, match=rf"^{Estimator.__name__}: too many positional arguments\. .*all but the first two"
    ):
        Estimator(1.0, 1e-6, 1e-4)
    for name in ("class_weight", "group_column"):  # parameters
        with pytest.raises(TypeError, match=f"unexpected arguments: {name}. It takes X, y, sample_weight and groups"):
            Estimator().fit(X, Y, **{name: Y})


def test_columns_that_are_other_ones_in_predict():
    fitted = DPLogisticRegression(delta=1e-3, epsilon=50.0).fit(FRAME, Y)
    for table, wanted in (
        (FRAME[["income", "age", "height"]], ["feature names", "same order"]),
        (FRAME.rename(columns={"age": "years"}), ["feature names", "years", "age"]),
        (X[:, :2], ["X has 2 features", "expecting 3"]),
    ):
        with pytest.raises(ValueError, match="feature") as refused:
            fitted.predict(table)
        require_useful(refused, wanted)


def test_a_collection_of_dask_where_dask_is_missing(monkeypatch):
    rows, labels = da.from_array(X, chunks=30), da.from_array(Y, chunks=30)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r'X is a Dask collection.*pip install "dpsk\[dask\]"'):
        DPLogisticRegression().fit(rows, labels)


def test_a_pair_for_each_of_two_columns_is_not_taken_for_lows_and_highs():
    X, y = np.random.default_rng(0).uniform(size=(50, 2)), np.arange(50) % 2
    with pytest.raises(ValueError, match="It is read as"):
        DPLogisticRegression(bounds=[(0, 1), (0, 5)]).fit(X, y)
    with pytest.raises(ValueError, match=r"write bounds=\(\[0, 0\], \[1, 5\]\), or name them"):
        DPLogisticRegression(bounds=[(0, 1), (0, 5)]).fit(X, y)
    DPLogisticRegression(epsilon=100.0, bounds=[(0, 0), (1, 5)]).fit(X, y)


def test_a_pair_per_column_is_shown_turned_round():
    pairs = [(0, k) for k in range(1, 20)]
    with pytest.raises(ValueError, match=r"write bounds=\(\[0, 0, 0, 0, 0, \.\.\.\], \[1, 2, 3, 4, 5, \.\.\.\]\)"):
        DPLogisticRegression(bounds=pairs).fit(X, Y)
    with pytest.raises(ValueError, match=r"not taken from the data$"):
        DPLogisticRegression(bounds=[("a", 1)] * 3).fit(X, Y)


def test_bounds_by_name_are_those_of_every_column_of_a_frame():
    bounds = {"height": (-1, 3), "age": (0, 2), "income": (0.25, 1)}
    named = DPLogisticRegression(epsilon=100.0, bounds=bounds, random_state=0)
    expected = clone(named).set_params(bounds=([0, 0.25, -1], [2, 1, 3])).fit(FRAME, Y)
    chunks = Chunks(lambda: [(FRAME[:30], Y[:30]), (FRAME[30:], Y[30:])])
    on_dask = dd.from_pandas(FRAME, npartitions=2), dd.from_pandas(pd.Series(Y), npartitions=2)
    for data in ((FRAME, Y), (chunks,), on_dask):
        fitted = clone(named).fit(*data)
        assert np.array_equal(fitted.coef_, expected.coef_)
        assert np.array_equal(fitted.ranges_, [[0, 0.25, -1], [2, 1, 3]])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"age": (0, 2), "income": (0, 1)}, "bounds has no bounds for 'height'. Name every column"),
        (
            dict.fromkeys(["age", "income", "height", "size"], (0, 1)),
            "bounds names columns that X does not have: 'size'",
        ),
        (dict.fromkeys(["Age", "income", "height"], (0, 1)), "no bounds for 'age' and names columns .* 'Age'. Name"),
    ],
)
def test_bounds_by_name_that_are_not_those_of_the_columns(bounds, message):
    refused = refused_fit(FRAME, Y, model=DPLogisticRegression(bounds=bounds))
    assert re.search(message, str(refused.value))


def test_bad_bounds_by_name_are_refused_before_the_data_are_touched():
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError

    with pytest.raises(ValueError, match=r"bounds\['age'\]=\(0, nan\)"):
        DPLogisticRegression(bounds={"age": (0, np.nan)}).fit(Untouchable(), Y)


def test_a_search_knows_bounds_by_name():
    model = DPGradientDescentClassifier(bounds=dict.fromkeys(FRAME, (0, 1)))
    search = PrivateSearchCV(model, {"alpha": [1e-3, 1e-2]}, epsilon=200.0, random_state=0).fit(FRAME, Y)
    assert np.array_equal(search.best_estimator_.ranges_, [[0] * 3, [1] * 3])


@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPTabularClassifier])
@pytest.mark.parametrize("given", [{}, {"group_column": "age"}])
def test_a_frame_that_was_not_computed(Estimator, given):
    lazy = pytest.importorskip("polars").from_pandas(FRAME).lazy()
    with pytest.raises(TypeError, match=r"LazyFrame, which is no DataFrame in memory: call collect\(\)"):
        Estimator(**given).fit(lazy, Y)
