"""Private rows in the steps before a model: every row is treated by itself, and nothing is shown.

A step may refuse a row: an encoder may not know a category, a logarithm may get a negative number. Its error or warning
would be an exact fact about this row that nobody paid for. So a refused row becomes an empty one, in silence.
"""

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..data.sparse import one_per_place
from ..estimators.validation import require_numbers
from ..mechanisms import bits_for

OF_THE_USER: tuple[type[BaseException], ...] = (KeyboardInterrupt, GeneratorExit)

NO_ROW_IS_ACCEPTED = (
    "the steps in front of the private estimator refuse every row, or make no finite numbers of it: a column is "
    "missing or is text, or a step fails. To see why, run pipeline[:-1].fit_transform(rows) on a few rows that you "
    "invent"
)

Step: TypeAlias = Callable[[Any, Any], Any]
"""Makes of rows and their labels the rows that the next one sees."""


class _Silence:
    """Filters of warnings belong to all threads: the first to be silent sets them, and the last takes that back."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.__exit__(None, None, None)


_silence = _Silence()


@contextmanager
def silence() -> Iterator[None]:
    """Show no warning: a warning that a row causes is a fact about this row."""
    with _silence, np.errstate(all="ignore"):
        yield


def lot() -> int:
    """Return a random number that steps in front may use as a seed: nothing is secret about what they draw."""
    return int.from_bytes(bits_for(None).take(4), "little")


@contextmanager
def settled(front: Any, seed: int) -> Iterator[None]:
    """Let steps draw the same however often they are fitted, and work in this process.

    Otherwise the state of a generator would tell how many fits it took to find the rows that are refused. And other
    processes, which joblib may be told to use, would show their warnings. Steps side by side draw different numbers.
    """
    given = front.get_params()
    random = sorted(
        name for name in given if name.rpartition("__")[2] == "random_state" and not _is_integer(given[name])
    )
    jobs = [name for name in given if name.rpartition("__")[2] == "n_jobs"]
    front.set_params(
        **{name: _seed_from(given[name], (seed + place) % 2**32) for place, name in enumerate(random)},
        **dict.fromkeys(jobs, 1),
    )
    try:
        yield
    finally:
        front.set_params(**{name: given[name] for name in (*random, *jobs)})


def _seed_from(generator: Any, otherwise: int) -> int:
    """Return the next number of a copy of a generator; ``otherwise`` where there is none."""
    return int(copy.deepcopy(generator).randint(2**31)) if hasattr(generator, "randint") else otherwise


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


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


def accepted(
    work: Callable[[int, int], Any], start: int, stop: int, told: tuple[type[BaseException], ...] = OF_THE_USER
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
            yield from accepted(work, start, middle, told)
            yield from accepted(work, middle, stop, told)
    else:
        yield start, done


def transformed(step: Step, X: Any, y: Any, *, numbers: bool = True, like: Any = None) -> Any:
    """Return rows after the steps in front of a private model. A row that they refuse becomes an empty one.

    ``numbers`` says that the model takes finite numbers: then an empty row is one of zeros, and a row of which the
    steps make no finite numbers is refused. Otherwise its entries are missing (False and 0 in columns without a missing
    value). ``like`` is the result for other rows of the same table, which tells how an empty row looks where all of
    these are refused. ``step`` may be called many times. Its last call has as many rows as X: an accepted one stands in
    the place of each that is refused.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 11.4)
    For steps that treat each row by itself, what becomes of a row is a function of this row. Public are: some row is
    accepted, and refused rows hold no NaN or infinity.
    """
    n = n_rows_of(X)
    _require_types_without_gaps(X)

    def work(start: int, stop: int) -> tuple[int, Any]:
        # a step may refuse a table for having one row, so a single row is there twice
        some = slice(start, stop) if stop - start > 1 else [start, start]
        made = _made(step, copy.deepcopy(rows_of(X, some)), _labels(y, some), numbers=numbers)
        return stop, rows_of(made, slice(0, stop - start))

    with silence():
        found = list(accepted(work, 0, n))
        if found:
            (_require_real if numbers else _require_known)(found[0][1][1])
        if found and found[0][1][0] - found[0][0] == n:
            return _as_known(found[0][1][1]) if numbers else found[0][1][1]
        kept = np.array([row for start, (stop, _) in found for row in range(start, stop)], dtype=np.intp)
        empty = np.ones(n, dtype=bool)
        empty[kept] = False
        if not found and like is None:
            raise EveryRowRefused(NO_ROW_IS_ACCEPTED)
        if numbers and _has_gaps(rows_of(X, np.flatnonzero(empty))):
            raise ValueError(
                "Input X contains NaN or infinity that no step in front of the estimator fills. Drop such rows, or "
                "fill them with a constant that is not taken from the data"
            )
        if found:
            # products of matrices may be rounded in another way where rows are fewer, so another row fills each gap
            place = np.where(empty, kept[0], np.arange(n))
            made = step(rows_of(X, place), _labels(y, place))
        else:
            made = rows_of(like, np.zeros(n, dtype=np.intp))
        if numbers:
            require_numbers(made)  # as if no row had been refused
        return _emptied(made, empty, numbers=numbers)


def _require_types_without_gaps(X: Any) -> None:
    """Raise ValueError for tables in which one missing entry gives a column of whole numbers another type."""
    if hasattr(X, "iloc") or not hasattr(X, "schema"):
        return
    types = X.schema.items() if hasattr(X.schema, "items") else [(field.name, field.type) for field in X.schema]
    for name, kind in types:
        if str(kind).lower().startswith(("int", "uint", "bool")):
            raise ValueError(
                f"the column {name!r} is {kind}, and steps would get another type where an entry is missing: cast "
                "whole numbers and truth values to Float64, or give a pandas DataFrame"
            )


def _as_known(made: Any) -> Any:
    """Return a table of numbers as it would be if a row of it had been refused: tables of Polars lose their names."""
    if sp.issparse(made) or hasattr(made, "iloc") or isinstance(made, np.ndarray):
        return made
    require_numbers(made)
    return np.asarray(made, dtype=np.float64)


def _require_real(made: Any) -> None:
    """Raise ValueError for complex numbers. Their type is public, and a table with a refused row would lose it."""
    if np.asarray(made.data if sp.issparse(made) else made).dtype.kind == "c":
        raise ValueError("X: Complex data not supported; give real and imaginary parts as columns of their own")


def _require_known(made: Any) -> None:
    """Raise ValueError for tables of which nobody knows here how an empty row looks. Their type is public."""
    if not hasattr(made, "iloc") and not isinstance(made, np.ndarray):
        raise ValueError(
            f"the steps in front return a table of {type(made).__module__.partition('.')[0]}: a model of raw tables "
            "behind other steps takes pandas DataFrames and arrays. Give the steps a pandas DataFrame, or the model "
            "the table as it is"
        )


def _labels(y: Any, chosen: Any) -> Any:
    return None if y is None else rows_of(y, chosen)


def _made(step: Step, X: Any, y: Any, *, numbers: bool) -> Any:
    """Return what a step makes of rows; raise ValueError unless it is a row for each, of finite numbers if asked."""
    made = step(X, y)
    if n_rows_of(made) != n_rows_of(X):
        raise ValueError("a step in front of the estimator must return as many rows as it gets")
    if numbers and not np.isfinite(made.data if sp.issparse(made) else np.asarray(made, dtype=np.float64)).all():
        raise ValueError("a model takes finite numbers only")
    return made


class EveryRowRefused(ValueError):
    """No row was accepted, so nobody knows how one looks behind the steps."""


def _has_gaps(X: Any) -> bool:
    """Return whether some of the numbers of a table are NaN or infinite."""
    if sp.issparse(X):
        return not np.isfinite(X.data).all()
    columns = [X.iloc[:, k] for k in range(X.shape[1])] if hasattr(X, "iloc") else [np.asarray(X)]
    numbers = [column for column in columns if getattr(column.dtype, "kind", "O") == "f"]
    return not all(np.isfinite(np.asarray(column, dtype=np.float64)).all() for column in numbers)


def _emptied(made: Any, empty: NDArray[np.bool_], *, numbers: bool) -> Any:
    """Return a table with empty rows in some places, as the same kind of table."""
    if sp.issparse(made):
        made = made.tocsr()
        lengths = np.diff(made.indptr)
        held, ends = np.repeat(~empty, lengths), np.r_[0, np.cumsum(np.where(empty, 0, lengths))]
        return sp.csr_matrix((made.data[held], made.indices[held], ends), made.shape)
    if not numbers and hasattr(made, "iloc"):
        rows = made.copy()
        for k in range(rows.shape[1]):
            column = rows.iloc[:, k]
            nothing = {"i": 0, "u": 0, "b": False}.get(getattr(column.dtype, "kind", "O"))
            rows.isetitem(k, column.mask(empty) if nothing is None else column.mask(empty, nothing))
        return rows
    if not numbers:
        rows = np.array(made)
        rows[empty] = {"f": np.nan, "O": None, "U": ""}.get(rows.dtype.kind, 0)
        return rows
    full = np.array(made, dtype=np.float64)
    full[empty] = 0.0
    return type(made)(full, columns=made.columns) if hasattr(made, "iloc") else full
