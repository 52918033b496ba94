"""Private rows in a fitted model or in a step of a pipeline: every row is treated by itself, and nothing is shown.

A model may refuse a row: an encoder may not know a category, a classifier may get NaN. Its error or warning would be an
exact fact about this row that nobody paid for. So a refused row counts as a wrong prediction, or as a row of zeros.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

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

from ..data import Chunks, is_dask, map_rows, require_table
from ..data.sparse import one_per_place
from ..estimators.blocks import for_travel
from ..estimators.classifier import PrivateClassifier
from ..estimators.grouping import without_ids
from ..estimators.validation import columns_of, require_numbers

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

_OF_THE_USER: tuple[type[BaseException], ...] = (KeyboardInterrupt, GeneratorExit)


@contextmanager
def silence() -> Iterator[None]:
    """Show no warning: a warning that a row causes is a fact about this row."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table in memory."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def rows_of(X: Any, chosen: Any) -> Any:
    """Return some rows of an array, a sparse matrix, a DataFrame or a list; ``chosen`` is a slice, or indices."""
    if hasattr(X, "iloc"):
        return X.iloc[chosen]
    if hasattr(X, "column_names") and not isinstance(chosen, slice):  # a table of pyarrow
        return X.take(chosen)
    if hasattr(X, "tocsr"):
        return one_per_place(X)[chosen] if X.format == "coo" else X.tocsr()[chosen]
    return X[chosen]


def labels_of(y: Any) -> NDArray[Any]:
    """Return labels as an array. If NumPy has no common type for them, each label keeps its own type.

    Otherwise one missing value among integers (in a list, pandas or Polars) would turn all of them into floats.
    """
    if is_dask(y):
        y = y.compute()
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
    predicted, known = answers(estimator, X, "predict", len(true))
    with silence():
        return known & equal(predicted, true)


def answers(
    estimator: Any, X: Any, method: str, n: int, width: int | None = None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return what a method of the estimator says of each of ``n`` rows, and which rows it does not refuse.

    It predicts a label, or says so many numbers of a row (``width``).

    Formal guarantee
    ----------------
    (docs/guarantees.md, 13.2)
    Entry i is a function of the estimator and of row i, provided that what the estimator returns for one row does not
    depend on the rows it has seen before.
    """
    with silence():
        said, known = _answers(estimator, X, method, width)
    if len(said) != n:
        raise ValueError(f"X has {len(said)} rows and y {n} labels: one label per row is needed")
    return said, known


def _answers(estimator: Any, X: Any, method: str, width: int | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the answers, and which rows have one."""
    if is_dask(X):
        require_table(X)
        _require_columns(estimator, columns_of(X))
        if isinstance(estimator, PrivateClassifier):
            estimator = for_travel(estimator)
        pairs = np.asarray(map_rows(partial(_pairs, estimator, method, width), X, 2, np.dtype(object)))
        return _unpacked(list(pairs[:, 0]), width), pairs[:, 1].astype(bool)
    if isinstance(X, Chunks):
        blocks = [_answers(estimator, block, method, width) for block, _ in X]
        if not blocks:
            raise ValueError("the function given to Chunks returned no rows: it must make them anew in every call")
        said, known = zip(*blocks, strict=True)
        return _unpacked([answer for block in said for answer in block], width), np.concatenate(known)
    return _in_memory(estimator, X, method, width)


def _unpacked(said: list[Any], width: int | None) -> NDArray[Any]:
    """Return answers as an array: labels as they are, or a line of numbers for each row, NaN where there is none."""
    if width is None:
        return labels_of(said)
    nothing = np.full(width, np.nan)
    return np.array([nothing if answer is None else answer for answer in said], dtype=np.float64).reshape(-1, width)


def _in_memory(estimator: Any, X: Any, method: str, width: int | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    _require_columns(estimator, X)
    n = n_rows_of(X)
    X = _by_rows(X)
    of_dpsk = isinstance(estimator, PrivateClassifier)  # it writes into nothing, and reads lists number by number
    told = _OF_THE_USER if _is_fitted(estimator) else (*_OF_THE_USER, NotFittedError)

    def ask(start: int, stop: int) -> NDArray[Any]:
        rows = rows_of(X, slice(start, stop))
        rows = rows if of_dpsk else copy.deepcopy(rows)  # steps may write into rows
        said = np.asarray(getattr(estimator, method)(rows))
        if width == 1 and said.ndim == 1:
            said = said[:, None]
        if said.shape != ((stop - start,) if width is None else (stop - start, width)):
            raise ValueError("one answer per row is needed")
        return said if width is None else said.astype(np.float64)

    # rows of a list decide together what type their numbers have
    together = judges_rows_alone(estimator) and (of_dpsk or hasattr(X, "shape"))
    parts = [(0, n)] if together else [(i, i + 1) for i in range(n)]
    found = [piece for start, stop in parts for piece in _accepted(ask, start, stop, told)]
    return _put_together(found, n, width)


def _by_rows(X: Any) -> Any:
    """Return a table that rows are taken from quickly."""
    if sp.issparse(X):
        return rows_of(X, slice(None))
    return np.ascontiguousarray(X) if type(X) is np.ndarray else X


def _put_together(
    found: list[tuple[int, NDArray[Any]]], n: int, width: int | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the answers of ``n`` rows, and which rows have one, from those of some rows from a first one on."""
    if len(found) == 1 and len(found[0][1]) == n:
        return found[0][1], np.ones(n, dtype=bool)
    said, known = np.empty(n, dtype=object), np.zeros(n, dtype=bool)
    for start, answers_of_some in found:
        for row, answer in enumerate(answers_of_some, start):  # one by one: slices of dates would become integers
            said[row], known[row] = answer, True
    return (said if width is None else _unpacked(list(said), width)), known


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


def _pairs(estimator: Any, method: str, width: int | None, block: Any) -> NDArray[Any]:
    pairs = np.empty((n_rows_of(block), 2), dtype=object)
    if len(pairs):
        with silence():
            said, known = _answers(estimator, block, method, width)
            pairs[:, 0], pairs[:, 1] = labels_of(list(said)), known
    return pairs


def _accepted(
    work: Callable[[int, int], Any], start: int, stop: int, told: tuple[type[BaseException], ...] = _OF_THE_USER
) -> Iterator[tuple[int, Any]]:
    """Yield the result of ``work`` for rows ``start`` to ``stop``; if they are refused, the results for their halves.

    Every exception refuses the rows, except those in ``told``: interrupts by the user, and errors about the model.
    """
    if stop <= start:
        return
    try:
        done = work(start, stop)
    except told:
        raise
    except BaseException:  # a step may end the process, or be written in a language whose errors are no Exception
        if stop - start > 1:
            middle = (start + stop) // 2
            yield from _accepted(work, start, middle, told)
            yield from _accepted(work, middle, stop, told)
    else:
        yield start, done


def equal(predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where two labels are equal, pair by pair."""
    kinds = {"number" if labels.dtype.kind in "biuf" else labels.dtype.kind for labels in (predicted, true)}
    if kinds in ({"number"}, {"U"}, {"S"}):
        return np.asarray(predicted == true, dtype=bool)
    return np.fromiter(map(_same, predicted, true), dtype=bool, count=len(true))


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a missing value that is neither equal nor unequal
        return False


def judges_rows_alone(estimator: Any) -> bool:
    """Return whether other rows never change the bits of a row. The types of the estimator's parts decide that."""
    if isinstance(estimator, PrivateClassifier):
        kind = type(estimator)
        own = PrivateClassifier.predict, PrivateClassifier.decision_function
        return (kind.predict, kind.decision_function) == own
    if type(estimator) is preprocessing.FunctionTransformer:
        # a ufunc gives an entry the same bits wherever it stands in an array
        func = estimator.func
        of_entries = isinstance(func, np.ufunc) and func.nin == 1 and func.signature is None
        return func is None or (of_entries and not estimator.kw_args)
    parts = _parts(estimator)
    if parts is not None:
        return all(map(judges_rows_alone, parts))
    return type(estimator) in _ROW_BY_ROW or _is_word(estimator, "passthrough", "drop")


def _parts(estimator: Any) -> list[Any] | None:
    """Return the parts that a row passes through, None if they are not known."""
    if isinstance(estimator, Pipeline):
        return [step for _, step in estimator.steps]
    if hasattr(estimator, "best_estimator_") and type(estimator).__module__.startswith("dpsk."):
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


def transformed(fit_transform: Callable[[Any, Any], Any], X: Any, y: Any) -> Any:
    """Return the training rows after the steps in front of a private model. A row that they refuse becomes zeros.

    So does a row that they do not turn into finite numbers. ``fit_transform`` may be called many times. Its last call
    has all rows that are not refused.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 11.4)
    For steps that treat each row by itself, what becomes of a row is a function of this row. Public are: some row is
    accepted, and refused rows hold no NaN or infinity.
    """
    n = n_rows_of(X)

    def work(start: int, stop: int) -> tuple[int, Any]:
        some = slice(start, stop)
        made = fit_transform(copy.deepcopy(rows_of(X, some)), rows_of(y, some))
        if n_rows_of(made) != stop - start:
            raise ValueError("a step in front of the estimator must return as many rows as it gets")
        if not np.isfinite(made.data if sp.issparse(made) else np.asarray(made, dtype=np.float64)).all():
            raise ValueError("a model takes finite numbers only")
        return stop, made

    with silence():
        found = list(_accepted(work, 0, n))
        kept = np.array([row for start, (stop, _) in found for row in range(start, stop)], dtype=np.intp)
        if _has_gaps(rows_of(X, np.delete(np.arange(n), kept))):
            raise ValueError(
                "Input X contains NaN or infinity that no step in front of the estimator fills. Drop such rows, or "
                "fill them with a constant that is not taken from the data"
            )
        if not found:
            raise ValueError(
                "the steps in front of the private estimator refuse every row, or make no finite numbers of it. Fit "
                "them to a few rows of your own making to see why"
            )
        if found[0][1][0] - found[0][0] == n:
            return found[0][1][1]
        made = fit_transform(rows_of(X, kept), rows_of(y, kept))
        require_numbers(made)  # as if no row had been refused
        return _among_zeros(made, kept, n)


def _has_gaps(X: Any) -> bool:
    """Return whether some of the numbers of a table are NaN or infinite."""
    if sp.issparse(X):
        return not np.isfinite(X.data).all()
    columns = [X.iloc[:, k] for k in range(X.shape[1])] if hasattr(X, "iloc") else [np.asarray(X)]
    numbers = [column for column in columns if getattr(column.dtype, "kind", "O") == "f"]
    return not all(np.isfinite(np.asarray(column, dtype=np.float64)).all() for column in numbers)


def _among_zeros(made: Any, kept: NDArray[np.intp], n: int) -> Any:
    """Return ``n`` rows: those made at their positions, zeros at the others."""
    if sp.issparse(made):
        made, counts = made.tocsr(), np.zeros(n, dtype=np.intp)
        counts[kept] = np.diff(made.indptr)
        return sp.csr_matrix((made.data, made.indices, np.r_[0, np.cumsum(counts)]), (n, made.shape[1]))
    full = np.zeros((n, *np.shape(made)[1:]))
    full[kept] = made
    return type(made)(full, columns=made.columns) if hasattr(made, "iloc") else full
