"""Twins: two data sets that differ in one row, under the same random bits. Only noisy numbers may differ."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..pipelines.in_front import rows_of
from .common import require
from .observe import Seen, differences, observed, shows, without_numbers

Row: TypeAlias = tuple[Any, Any]
"""The values of a row and its label; None for what stays as it was."""

METHODS = ("decision_function", "predict", "predict_proba", "predict_log_proba")
"""Methods that predict, of which the results for other rows are compared."""

_UNKNOWN = "a category that nobody knows"


def check_twins(
    action: Callable[[Any, Any], Any],
    X: Any,
    y: Any,
    *,
    rows: Mapping[str, Row] | None = None,
    streams: int = 3,
    methods: Sequence[str] = METHODS,
    rounding: float = 0.0,
) -> None:
    """Check that only noisy numbers differ between two data sets that differ in one row.

    ``action(X, y)`` does what is private (a fit, a score, a search) and returns what it releases. It runs in an empty
    working folder, on the data as they are and with an extreme row in the place of one, for each of ``rows``
    (:func:`extreme_rows` by default). The same ``streams`` of bits replace those of the operating system. So the result
    is never private: release nothing of it, and fit nothing private in other threads meanwhile. It runs once more
    before, unseen, because the first run of a process may load a library and say so.

    Estimators of other libraries are checked in the same way. They draw bits of their own, so their noise differs from
    run to run on equal data too. Noise is told by that.

    Compared exactly, under every stream:

    * exceptions and those that hang on them: type and text;
    * warnings: category, text, number, order, and the file they are attributed to;
    * of the result, through attributes, properties, dicts, lists, tuples, functions and what a pickle would hold:
      types, dtypes, numbers of dimensions, names of attributes, and texts without their numbers;
    * the classes that its pickle names;
    * lines that were printed, or logged at any level, without their numbers;
    * names of files left behind, in the working folder and in the one for temporary files;
    * rows of ledgers in the working folder: labels, states, and who they are on;
    * texts that only the extreme row has: none may appear under any stream.

    These may still follow from what was released (a warning that a fit found nothing, say). Choose an epsilon at which
    one row hardly moves a release, such as 0.5.

    Compared in kind: numbers, each for itself, also in arrays, texts, ledgers and files; shapes of arrays, lengths of
    lists, keys of dicts; how often a line is printed; whether there is a number or None. Noise may move all of these. A
    value that is the same under every stream, and another one on the twin under every stream, is a fact about the row.
    Whole numbers that noise hardly moves can look like that by chance; ``streams=6`` tells.

    Not seen: what is written past Python's streams (``os.write``, other processes), attributes of classes and modules,
    settings of the process (warning filters, environment), the order in which an array lies in memory. A category that
    appears by chance is seen if it appeared in these few runs.

    If the result predicts, :func:`check_company` is done with its ``methods``, up to ``rounding``. Estimators that
    predict with BLAS need ``rounding=1e-9``. With ``methods=()`` the fit alone is checked. An AssertionError names the
    row, the channel and what differs.
    """
    if not callable(action):
        raise TypeError(
            f"action is a {type(action).__name__}: give a function of (X, y) that fits and returns, such as "
            "lambda X, y: model.fit(X, y)"
        )
    X, y = _as_table(X), _as_table(y)
    require(streams >= 2, "streams must be at least 2: noise is told by its moving from one to the next")
    observed(partial(action, X, y), 0)
    seen, results = zip(*(observed(partial(action, X, y), stream) for stream in range(streams)), strict=True)
    raised = [one.parts["exception"].kind for one in seen]
    compared = any(one.parts[channel].parts for one in seen for channel in ("printed lines", "files "))
    told = compared or any(result is not None for result in results)
    require(told or "none" not in raised, "the action returns, prints and leaves nothing: return what it releases")
    require("none" in raised, f"the action raises on ordinary data already, so nothing was compared: {raised[0]}")
    for name, place, *twin in _twins(X, y, rows):
        others = [observed(partial(action, *twin), stream)[0] for stream in range(streams)]
        when = f"with {name} in place of row {place}"
        _refuse(when, list(seen), others)
        text = _told(X, twin[0], place, list(seen), others)
        require(text is None, f"{when}, one row is told apart. The result has a text of this row: {text!r}")
    for method in methods:
        if hasattr(results[0], method):
            check_company(getattr(results[0], method), X, rows=rows, rounding=rounding)


def check_company(
    method: Callable[[Any], Any], X: Any, *, rows: Mapping[str, Row] | None = None, rounding: float = 0.0
) -> None:
    """Check that what a method of one fitted model returns for a row depends on that row alone.

    ``method(X)`` returns an entry or a row for each row of X. Those of the other rows must have the same bits when an
    extreme row stands among them, when it is absent, when each of them stands alone, and when their order is reversed;
    warnings, exceptions and printed lines must be the same. With ``rounding`` numbers may lie apart by this share of
    the largest one: BLAS adds up the entries of a row in an order that depends on where it stands.
    """
    X = _as_table(X)
    alone, expected = observed(lambda: method(X), 0)
    name = getattr(method, "__name__", "the method")
    raised = alone.parts["exception"].kind
    require(raised == "none", f"{name} raises on ordinary data already, so nothing was compared: {raised}")
    expected, quiet = np.asarray(expected), _channels(alone)
    n = X.shape[0]
    backwards = rows_of(X, slice(None, None, -1))

    def require_same(rows: Any, kept: Any, what: str) -> None:
        shown, found = observed(lambda: method(rows), 0)
        _refuse(f"{name}: {what}", [quiet], [_channels(shown)])
        apart = _apart(np.asarray(found)[kept[1]], expected[kept[0]])
        told = f"{apart:.1e} of the largest number apart, where rounding={rounding!r} is allowed"
        require(apart <= rounding, f"{name}: {what}, another row has another result: {told}")

    require_same(backwards, (slice(None), slice(None, None, -1)), "in reversed order")
    for k in sorted({0, n // 2, n - 1}):
        require_same(rows_of(X, slice(k, k + 1)), (slice(k, k + 1), slice(None)), f"for row {k} alone")
    for label, place, twin, _ in _twins(X, None, rows):
        others = np.delete(np.arange(n), place)
        require_same(twin, (others, others), f"with {label} in place of row {place}")
        require_same(rows_of(X, others), (others, slice(None)), f"without row {place}")


def extreme_rows(X: Any, y: Any = None) -> dict[str, Row]:
    """Return rows such as ordinary data do not hold: beyond all others, huge, tiny, empty, a copy, of another kind.

    Add those that your action must bear too: ``extreme_rows(X, y) | {"a new label": (None, "of all classes")}``. A row
    of None stays as it is, a label of None too.
    """
    template = _values(X, 0)
    kinds: dict[str, Callable[[int], float]] = {
        "a huge row": lambda k: 1.7e308,
        "a huge row of both signs": lambda k: -1.7e308 if k % 2 else 1.7e308,
        "one huge entry": lambda k: 0.0 if k else -1.7e308,
        "a tiny row": lambda k: 5e-324,
        "a subnormal row of both signs": lambda k: -2.2e-310 if k % 2 else 2.2e-310,
        "a row of zeros": lambda k: 0.0,
    }
    rows: dict[str, Row] = {"a row beyond all others": (_beyond(X), None)}
    rows |= {
        name: ([_number_like(old, value(k)) for k, old in enumerate(template)], None) for name, value in kinds.items()
    }
    rows["a row twice"] = (_values(X, X.shape[0] // 2), None)
    if any(isinstance(old, str) for old in template):
        rows["an unknown category"] = ([_UNKNOWN if isinstance(old, str) else old for old in template], None)
    if y is not None:
        rows["another label"] = (None, _Other())
    return rows


class _Other:
    """The label of another row."""


def _beyond(X: Any) -> list[Any]:
    """Return a row whose numbers are ten times as large as all others, but do not overflow."""
    row = _values(X, 0)
    for j, old in enumerate(row):
        sizes = [abs(float(entry)) for entry in _column(X, j) if isinstance(entry, int | float)]
        largest = max((size for size in sizes if math.isfinite(size)), default=0.0)
        row[j] = _number_like(old, 10 * (largest + 1) * (-1) ** j)
    return row


def _column(X: Any, j: int) -> list[Any]:
    column = X[:, [j]].toarray() if sp.issparse(X) else X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
    return list(np.asarray(column).ravel().tolist())


def _told(X: Any, twin: Any, place: int, plain: list[Seen], twins: list[Seen]) -> str | None:
    """Return a text that the row alone has, and that shows on the twin, but never without this row."""
    texts = {j: without_numbers(value) for j, value in enumerate(_values(twin, place)) if isinstance(value, str)}
    others = {without_numbers(entry) for j in texts for entry in _column(X, j) if isinstance(entry, str)}
    own = [text for text in texts.values() if text not in others and any(map(str.isalpha, text))]
    new = [text for text in own if not any(shows(seen, text) for seen in plain)]
    return next((text for text in new if any(shows(seen, text) for seen in twins)), None)


def _apart(found: Any, expected: Any) -> float:
    """Return how far apart results lie, as a share of the largest number; infinity where they are not numbers."""
    if found.dtype == expected.dtype and found.tobytes() == expected.tobytes():
        return 0.0
    if found.shape != expected.shape or not all(np.issubdtype(some.dtype, np.number) for some in (found, expected)):
        return np.inf
    equal = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        apart = float(np.abs(np.where(equal, 0, found) - np.where(equal, 0, expected)).max(initial=0.0))
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(finite.max(initial=0.0))
    return apart / largest if largest else np.inf if apart else 0.0


def _number_like(old: Any, value: float) -> Any:
    """Return ``value`` as a column takes it: whole numbers have an end, text stays."""
    if isinstance(old, bool | np.bool_ | str) or not isinstance(old, int | float | np.number):
        return old
    if isinstance(old, np.integer):
        whole = np.iinfo(old.dtype)
        return old.dtype.type(min(max(value, whole.min), whole.max) if abs(value) >= 1 else 0)
    if isinstance(old, np.floating) and old.dtype.itemsize < 8:
        ends = np.finfo(old.dtype)
        return old.dtype.type(min(max(value, float(ends.min)), float(ends.max)))
    return value


def _twins(X: Any, y: Any, rows: Mapping[str, Row] | None) -> Iterator[tuple[str, int, Any, Any]]:
    """Yield the name of each extreme row, where it stands, and the data with it in that place."""
    if rows is not None:
        _require_rows(rows, X.shape[1])
    n, labels = X.shape[0], None if y is None else np.asarray(y)
    free = np.arange(n)
    if labels is not None:  # the set of labels is public: it stays
        free = np.flatnonzero([np.count_nonzero(labels == label) > 1 for label in labels])
        require(len(free), "every label occurs once only, so no row can be another one")
    for count, (name, (row, label)) in enumerate((extreme_rows(X, y) if rows is None else rows).items()):
        place = int(free[count * len(free) // 8 % len(free)])
        twin_X = X if row is None else _with_row(X, place, row)
        if labels is None or label is None:
            yield name, place, twin_X, y
            continue
        if isinstance(label, _Other):
            label = labels[np.flatnonzero(labels != labels[place])[0]]
        both = np.result_type(labels.dtype, np.asarray(label).dtype) if labels.dtype != object else labels.dtype
        twin_y = labels.astype(both)
        twin_y[place] = label
        yield name, place, twin_X, twin_y


def _as_table(given: Any) -> Any:
    """Return what was given, or an array of a list."""
    return np.asarray(given) if isinstance(given, list | tuple) else given


def _require_rows(rows: Mapping[str, Row], n_columns: int) -> None:
    for name, row in rows.items():
        pair = isinstance(row, tuple) and len(row) == 2
        values = row[0] if pair else ()
        if not pair or (values is not None and np.size(values) != n_columns):
            raise ValueError(
                f"rows={{{name!r}: {row!r}}}: each must be a tuple (values of the row or None, label or None), with "
                f"{n_columns} values"
            )


def _values(X: Any, k: int) -> list[Any]:
    if sp.issparse(X):
        return list(X.tocsr()[k].toarray().ravel())
    return [X.iloc[k, j] for j in range(X.shape[1])] if hasattr(X, "iloc") else list(X[k])


def _with_row(X: Any, place: int, row: Any) -> Any:
    """Return the data with another row in one place, stored as before."""
    if sp.issparse(X):
        X = X.tocsr()
        return sp.vstack([X[:place], sp.csr_matrix(np.asarray(row, X.dtype)[None, :]), X[place + 1 :]], "csr")
    X = X.copy()
    if hasattr(X, "iloc"):
        for j, value in enumerate(row):
            X.iloc[place, j] = value
    else:
        X[place] = row
    return X


def _channels(seen: Seen) -> Seen:
    """Return what a method shows beside its result."""
    return Seen("run", parts={name: part for name, part in seen.parts.items() if name not in ("result ", "pickle ")})


def _refuse(when: str, plain: list[Seen], twins: list[Seen]) -> None:
    found = list(differences("", plain, twins))
    require(not found, f"{when}, one row is told apart. " + "; ".join(found[:5]))
