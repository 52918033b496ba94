"""Private rows in a fitted model: every row is judged by itself, and nothing is shown.

A model may refuse a row: an encoder may not know a category, a classifier may get NaN. Its error or warning would be an
exact fact about this row that nobody paid for. So a refused row counts as a wrong prediction.
"""

import copy
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import preprocessing
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from ..calibration import Curve, Temperature
from ..data import Chunks, is_dask, map_rows, require_table
from ..estimators.blocks import for_travel
from ..estimators.classifier import PrivateClassifier
from ..estimators.grouping import without_ids
from ..estimators.validation import columns_of, require_numbers
from ..pipelines import PrivatePipeline
from ..pipelines.functions import is_ufunc
from ..pipelines.in_front import OF_THE_USER, accepted, n_rows_of, rows_of, silence
from .independent_rows import IndependentRows

_ROW_BY_ROW = (
    preprocessing.Binarizer,
    preprocessing.MaxAbsScaler,
    preprocessing.MinMaxScaler,
    preprocessing.OneHotEncoder,
    preprocessing.OrdinalEncoder,
    preprocessing.RobustScaler,
    SimpleImputer,
    preprocessing.StandardScaler,
)
"""Steps whose ``transform`` works on each entry by itself, so that a row has the same bits in any company."""

_ASKED = ("predict", "decision_function", "predict_proba", "_log_odds", "_says", "transform")
"""What models and steps are asked about private rows."""

_MAPS = (type(None), Curve, Temperature)
"""The calibrations that take each score by itself."""


def labels_of(y: Any) -> NDArray[Any]:
    """Return labels as an array. If NumPy has no common type for them, each label keeps its own type.

    Otherwise one missing value among integers (in a list, pandas or Polars) would turn all of them into floats.
    """
    if is_dask(y):
        y = y.compute()
    if hasattr(y, "to_pylist"):  # of pyarrow, where a missing label decides the type of the array
        y = y.to_pylist()
    if isinstance(getattr(y, "dtype", None), np.dtype) or (hasattr(y, "__array__") and not hasattr(y, "dtype")):
        return np.asarray(y)
    labels = np.empty(len(y), dtype=object)
    for i, label in enumerate(y):
        labels[i] = label
    return labels


def correct(estimator: Any, X: Any, true: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows the estimator gives their true label.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 13.2)
    Entry i is a function of the estimator, of row i and of its label, provided that what the estimator returns for one
    row does not depend on the rows it has seen before. A row that is refused alone is wrong.
    """
    (predicted,), known = answers(estimator, X, len(true), {"predict": None})
    with silence():
        return known & equal(predicted, true)


Questions: TypeAlias = Mapping[str, int | None]
"""Methods of a model, and how many numbers each says of a row; None: it says a label."""

Answers: TypeAlias = tuple[list[NDArray[Any]], NDArray[np.bool_]]
"""An array for each question, with an entry for each row, and which rows the model does not refuse."""


def answers(estimator: Any, X: Any, n: int, questions: Questions) -> Answers:
    """Return what the estimator says of each of ``n`` rows, and which rows it does not refuse.

    A row is refused if any method refuses it. Rows are read once, so all answers about a row are about the same one.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 13.2)
    Entry i is a function of the estimator and of row i, provided that what the estimator returns for one row does not
    depend on the rows it has seen before.
    """
    with silence():
        said, known = _answers(estimator, X, questions)
    if len(known) != n:
        raise ValueError(f"X has {len(known)} rows and y {n} labels: one label per row is needed")
    return said, known


def _answers(estimator: Any, X: Any, questions: Questions) -> Answers:
    """Return the answers, and which rows have them."""
    if is_dask(X):
        require_table(X)
        _require_columns(estimator, columns_of(X))
        if isinstance(estimator, PrivateClassifier):
            estimator = for_travel(estimator)
        of_block = partial(_entries, estimator, questions)
        *said, known = np.asarray(map_rows(of_block, X, len(questions) + 1, np.dtype(object))).T
        return _unpacked(said, questions), known.astype(bool)
    if isinstance(X, Chunks):
        blocks = [_answers(estimator, block, questions) for block, _ in X]
        if not blocks:
            raise ValueError("the function given to Chunks returned no rows: it must make them anew in every call")
        parts, known = zip(*blocks, strict=True)
        said = [[answer for block in blocks for answer in block] for blocks in zip(*parts, strict=True)]
        return _unpacked(said, questions), np.concatenate(known)
    return _in_memory(estimator, X, questions)


def _unpacked(said: Iterable[Any], questions: Questions) -> list[NDArray[Any]]:
    """Return answers as arrays: labels as they are, or a line of numbers for each row, NaN where there is none."""
    return [
        labels_of(list(of_rows)) if width is None else _lines(of_rows, width)
        for of_rows, width in zip(said, questions.values(), strict=True)
    ]


def _lines(of_rows: Iterable[Any], width: int) -> NDArray[Any]:
    nothing = np.full(width, np.nan)
    return np.array([nothing if line is None else line for line in of_rows], dtype=np.float64).reshape(-1, width)


def _in_memory(estimator: Any, X: Any, questions: Questions) -> Answers:
    _require_columns(estimator, X)
    n = n_rows_of(X)
    X = _by_rows(X)
    of_dpsk = isinstance(estimator, PrivateClassifier)  # it writes into nothing, and reads lists number by number
    told = OF_THE_USER if _is_fitted(estimator) else (*OF_THE_USER, NotFittedError)

    def ask(start: int, stop: int) -> list[NDArray[Any]]:
        rows = rows_of(X, slice(start, stop))
        said = []
        for method, width in questions.items():
            given = rows if of_dpsk else copy.deepcopy(rows)  # steps may write into rows
            said.append(_checked(getattr(estimator, method)(given), stop - start, width))
        return said

    # rows of a list decide together what type their numbers have
    together = judges_rows_alone(estimator) and (of_dpsk or hasattr(X, "shape"))
    parts = [(0, n)] if together else [(i, i + 1) for i in range(n)]
    found = [piece for start, stop in parts for piece in accepted(ask, start, stop, told)]
    return _put_together(found, n, questions)


def _checked(said: Any, n: int, width: int | None) -> NDArray[Any]:
    """Return the answers of a method for ``n`` rows as an array; raise ValueError if they are not one for each."""
    answers_of_some: NDArray[Any] = np.asarray(said)
    if width == 1 and answers_of_some.ndim == 1:
        answers_of_some = answers_of_some[:, None]
    if answers_of_some.shape != ((n,) if width is None else (n, width)):
        raise ValueError("one answer per row is needed")
    return answers_of_some if width is None else answers_of_some.astype(np.float64)


def _by_rows(X: Any) -> Any:
    """Return a table that rows are taken from quickly."""
    if sp.issparse(X):
        return rows_of(X, slice(None))
    return np.ascontiguousarray(X) if type(X) is np.ndarray else X


def _put_together(found: list[tuple[int, list[NDArray[Any]]]], n: int, questions: Questions) -> Answers:
    """Return the answers of ``n`` rows, and which rows have them, from those of some rows from a first one on."""
    if len(found) == 1 and len(found[0][1][0]) == n:
        return found[0][1], np.ones(n, dtype=bool)
    said, known = np.empty((len(questions), n), dtype=object), np.zeros(n, dtype=bool)
    for start, answers_of_some in found:
        for k, answers_to_one in enumerate(answers_of_some):
            for row, answer in enumerate(answers_to_one, start):  # one by one: slices of dates would become integers
                said[k, row], known[row] = answer, True
    return _unpacked(said, questions), known


def _is_fitted(estimator: Any) -> bool:
    """Return whether the estimator is fitted, as far as it can be known without rows."""
    if isinstance(estimator, Pipeline):
        return all(_is_fitted(step) for _, step in estimator.steps)
    try:
        if isinstance(estimator, BaseEstimator):
            check_is_fitted(estimator)
    except NotFittedError:
        return False
    except TypeError:  # it has no fit
        pass
    return True


def _require_columns(estimator: Any, X: Any) -> None:
    """Raise ValueError if the table has not the columns that the estimator was fitted on: these are public.

    So are the types of columns: those of a classifier of dpsk have to be numbers, but for one of raw tables.
    """
    while isinstance(estimator, Pipeline) or is_search(estimator):
        estimator = estimator.best_estimator_ if is_search(estimator) else estimator.steps[0][1]
    if isinstance(estimator, PrivateClassifier):
        X = without_ids(X, estimator.group_column)  # as its predictions do
        if estimator.columns is None:
            require_numbers(X)
    if isinstance(estimator, ColumnTransformer):
        _require_its_columns(estimator, X)
    # a ColumnTransformer takes tables that have other columns beside its own, and models of others check for themselves
    checked = isinstance(estimator, BaseEstimator) and not isinstance(estimator, ColumnTransformer)
    if hasattr(X, "shape") and hasattr(estimator, "n_features_in_") and checked:
        validate_data(estimator, X, reset=False, skip_check_array=True)


def is_search(estimator: Any) -> bool:
    """Return whether this is a search that has found a model."""
    return isinstance(estimator, BaseEstimator) and hasattr(estimator, "best_estimator_")


def _require_its_columns(columns: ColumnTransformer, X: Any) -> None:
    """Raise ValueError if a column that is named in one of the transformers is missing."""
    parts = getattr(columns, "transformers_", [])
    named = [name for _, step, names in parts if not _is_word(step, "drop") for name in np.ravel(names)]
    wanted = [str(name) for name in dict.fromkeys(named) if isinstance(name, str)]
    if not wanted or not hasattr(X, "shape"):
        return
    if not hasattr(X, "columns"):
        raise ValueError(f"X has no names of columns, but {wanted} are wanted by name: give a DataFrame")
    missing = [name for name in wanted if name not in set(X.columns)]
    if missing:
        raise ValueError(f"X lacks columns that the estimator was fitted on: {missing}")


def _entries(estimator: Any, questions: Questions, block: Any) -> NDArray[Any]:
    """Return a line of objects for each row of a block: its answers, and whether it has them."""
    entries = np.empty((n_rows_of(block), len(questions) + 1), dtype=object)
    if len(entries):
        with silence():
            said, entries[:, -1] = _answers(estimator, block, questions)
            for k, answers_to_one in enumerate(said):
                entries[:, k] = labels_of(list(answers_to_one))
    return entries


def equal(predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where two labels are equal, pair by pair."""
    kinds = {"number" if labels.dtype.kind in "biuf" else labels.dtype.kind for labels in (predicted, true)}
    if kinds in ({"number"}, {"U"}, {"S"}):
        return np.asarray(predicted == true, dtype=bool)
    return np.fromiter(map(_same, predicted, true), dtype=bool, count=len(true))


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except OF_THE_USER:
        raise
    except BaseException:  # a missing value that is neither equal nor unequal, or whatever a label does
        return False


def judges_rows_alone(estimator: Any) -> bool:
    """Return whether other rows never change the bits of a row. The types of the estimator's parts decide that."""
    if type(estimator) is IndependentRows:  # somebody vouches for it
        return True
    own = getattr(estimator, "__dict__", {})
    if set(_ASKED) & set(own) or type(own.get("calibration_")) not in _MAPS:  # somebody has put them into the object
        return False
    if isinstance(estimator, PrivateClassifier):
        return predicts_as_dpsk(estimator)
    if type(estimator) is preprocessing.FunctionTransformer:
        # a ufunc gives an entry the same bits wherever it stands in an array
        return estimator.func is None or (is_ufunc(estimator.func) and not estimator.kw_args)
    parts = _parts(estimator)
    if parts is not None:
        return all(map(judges_rows_alone, parts))
    return type(estimator) in _ROW_BY_ROW or _is_word(estimator, "passthrough", "drop")


def predicts_as_dpsk(classifier: PrivateClassifier) -> bool:
    """Return whether all methods that predict are those of dpsk: no subclass has put another one in their place."""
    kinds = type(classifier).__mro__
    names = (*_ASKED, "calibration_")
    return all(_of_dpsk(next((kind for kind in kinds if name in vars(kind)), PrivateClassifier)) for name in names)


def _of_dpsk(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _parts(estimator: Any) -> list[Any] | None:
    """Return the parts that a row passes through, None if they are not known."""
    if type(estimator) in (Pipeline, PrivatePipeline):
        return [step for _, step in estimator.steps]
    if hasattr(estimator, "best_estimator_") and _of_dpsk(type(estimator)):
        return [estimator.best_estimator_]
    if type(estimator) is FrozenEstimator or type(estimator).__module__ == "dpsk.evaluation.adjusted":
        return [estimator.estimator]
    if type(estimator) is FeatureUnion:
        return [step for _, step in estimator.transformer_list]
    if type(estimator) is ColumnTransformer:
        return [estimator.remainder, *(step for _, step, _ in estimator.transformers)]
    return None


def _is_word(step: Any, *words: str) -> bool:
    return isinstance(step, str) and step in words
