"""Which fits scikit-learn's searches and functions of model selection make: read off their code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, log
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401, for the two imports below
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)

from .fit_sums import All, Fits, SomeOf, Times
from .fits_of import Known, Notes, Reader, fits_of, folds_of, reads
from .fits_of_ensembles import SCORES

SEARCHES = (GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV, HalvingRandomSearchCV)

# -------------------------------------------------------------------------------------------------- searches


def _candidates(space: Any, n_iter: int | None, seed: Any, search: str) -> tuple[list[dict[str, Any]], int]:
    """Return the candidates that a search may try, and how many of them it will; ``n_iter`` is None for a grid."""
    if n_iter is None:
        grid = list(ParameterGrid(space))
        return grid, len(grid)
    spaces = space if isinstance(space, list) else [space]
    if not any(hasattr(values, "rvs") for one in spaces for values in one.values()):
        grid = list(ParameterGrid(space))
        return grid, min(n_iter, len(grid))
    if isinstance(seed, int):  # decides which candidates are tried, and nothing about the noise
        drawn = list(ParameterSampler(space, n_iter, random_state=seed))
        return drawn, len(drawn)
    raise ValueError(
        f"which candidates a {search} draws from distributions is not known beforehand: give the search (not "
        "the estimator) an integer random_state, or lists instead of distributions"
    )


def _each(
    estimator: Any, candidates: list[dict[str, Any]], known: Known, notes: Notes, extra: Mapping[str, Any]
) -> Iterator[Fits]:
    """Yield the fits of every candidate, as a search makes it."""
    for candidate in candidates:
        made = clone(estimator).set_params(**clone({**candidate, **extra}, safe=False))
        yield fits_of(made, known, notes)


def _one_count(parts: list[Fits], notes: Notes) -> list[Fits]:
    """Return the fits of candidates; if their numbers differ, it is not known how many there will be."""
    notes.exact &= len({part.total(lambda fit: Fraction(1)) for part in parts}) <= 1
    return parts


@reads(GridSearchCV, RandomizedSearchCV)
def _search(search: Any, known: Known, notes: Notes) -> Fits:
    notes.leak(SCORES.format(type(search).__name__))
    if isinstance(search, GridSearchCV):
        candidates, tried = _candidates(search.param_grid, None, None, "GridSearchCV")
    else:
        space, seed = search.param_distributions, search.random_state
        candidates, tried = _candidates(space, search.n_iter, seed, "RandomizedSearchCV")
    folds = folds_of(search.cv, known, notes, classifier=is_classifier(search.estimator))
    on_folds = _one_count(list(_each(search.estimator, candidates, folds.known, notes, {})), notes)
    parts = [folds.of(SomeOf(on_folds, tried))]
    if search.refit:
        parts.append(SomeOf(list(_each(search.estimator, candidates, known, notes, {})), 1))
    return All(parts)


@reads(HalvingGridSearchCV, HalvingRandomSearchCV)
def _halving(search: Any, known: Known, notes: Notes) -> Fits:
    notes.leak(SCORES.format(type(search).__name__))
    folds = folds_of(search.cv, known, notes, classifier=is_classifier(search.estimator))
    least, most = _resources(search, known, notes, folds.splits)
    if isinstance(search, HalvingGridSearchCV):
        candidates, tried = _candidates(search.param_grid, None, None, "HalvingGridSearchCV")
    else:
        asked = most // least if search.n_candidates == "exhaust" else search.n_candidates
        candidates, tried = _candidates(search.param_distributions, asked, search.random_state, "HalvingRandomSearchCV")
    parts, of_rows = list[Fits](), search.resource == "n_samples"
    extra, on_folds = dict[str, Any](), folds.known.few_rows() if of_rows else folds.known
    for left, resources in _rounds(search, tried, least, most):
        extra = {} if of_rows else {search.resource: resources}
        each = _one_count(list(_each(search.estimator, candidates, on_folds, notes, extra)), notes)
        parts.append(folds.of(SomeOf(each, left)))
    if search.refit:
        parts.append(SomeOf(list(_each(search.estimator, candidates, known, notes, extra)), 1))
    return All(parts)


def _resources(search: Any, known: Known, notes: Notes, splits: int) -> tuple[int, int]:
    """Return the least and the most of its resource that a halving search gives to a candidate."""
    name, least, most = type(search).__name__, search.min_resources, search.max_resources
    if isinstance(least, str):  # "smallest" or "exhaust"
        least = 1
        if search.resource == "n_samples":
            least = 2 * splits
            if is_classifier(search.estimator):
                classes = known.need("classes", name, "the number of classes")
                notes.exact &= classes[0] == classes[1]
                least *= classes[0]
    if isinstance(most, str):  # "auto"
        rows = known.need("rows", name, "the number of rows")
        notes.exact &= rows[0] == rows[1]
        most = rows[1]
    if least > most:
        raise ValueError(f"{name} starts with {least} of {search.resource!r}, which is more than the {most} there are")
    return int(least), int(most)


def _rounds(search: Any, tried: int, least: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield how many candidates a halving search tries, and with how much of its resource, round by round."""
    factor = search.factor
    required = 1 + floor(log(tried, factor))  # until fewer than ``factor`` are left
    if search.min_resources == "exhaust":
        least = max(least, most // factor ** (required - 1))
    possible = 1 + floor(log(most // least, factor))
    for done in range(required if search.aggressive_elimination else min(possible, required)):
        power = max(0, done - required + possible) if search.aggressive_elimination else done
        yield tried, min(int(factor**power * least), most)
        tried = ceil(tried / factor)


# -------------------------------------------------------------------------------------------------- functions

FUNCTIONS = dict[Callable[..., Any], Reader]()
"""What is known of functions: from their arguments to the fits that they make."""


def _of_function(*functions: Callable[..., Any]) -> Callable[[Reader], Reader]:
    def declare(reader: Reader) -> Reader:
        FUNCTIONS.update(dict.fromkeys(functions, reader))
        return reader

    return declare


@_of_function(cross_validate, cross_val_score)
def cross_validation(call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    """Return the fits of a cross-validation."""
    notes.leak(SCORES.format("a cross-validation"))
    return _on_folds(call, known, notes)


@_of_function(cross_val_predict)
def _predictions(call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    notes.leak(
        "Every prediction of cross_val_predict tells something about its own row: it is as secret as the row, and so "
        "are scores that are computed from predictions and labels."
    )
    return _on_folds(call, known, notes)


def _on_folds(call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    estimator = call["estimator"]
    folds = folds_of(call["cv"], known, notes, classifier=is_classifier(estimator))
    return folds.of(fits_of(estimator, folds.known, notes))


@_of_function(learning_curve)
def _learning_curve(call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    if call["exploit_incremental_learning"]:
        raise ValueError("exploit_incremental_learning=True needs partial_fit, which no private estimator has")
    notes.leak(SCORES.format("learning_curve"))
    estimator, sizes = call["estimator"], np.unique(np.asarray(call["train_sizes"]))
    folds = folds_of(call["cv"], known, notes, classifier=is_classifier(estimator))
    if np.issubdtype(sizes.dtype, np.floating):  # sizes that are equal in rows are fitted once
        fewest = 0 if folds.known.rows is None else folds.known.rows[0]
        notes.exact &= bool(np.all(np.diff(sizes) * fewest > 1))
    fit = fits_of(estimator, folds.known.few_rows(), notes)
    return folds.of(Times(fit, len(sizes)))


@_of_function(validation_curve)
def _validation_curve(call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    notes.leak(SCORES.format("validation_curve"))
    estimator = call["estimator"]
    folds = folds_of(call["cv"], known, notes, classifier=is_classifier(estimator))
    tried = [{call["param_name"]: value} for value in call["param_range"]]
    return folds.of(All(list(_each(estimator, tried, folds.known, notes, {}))))


@_of_function(permutation_test_score)
def _permutations(call: Mapping[str, Any], known: Known, notes: Notes) -> Fits:
    notes.leak(SCORES.format("permutation_test_score"))
    notes.no_bound(
        "permutation_test_score gives the label of a row to another row. A row is then a part of two training rows, "
        "and no bound for one row holds."
    )
    return Times(_on_folds(call, replace(known, apart=False), notes), 1 + call["n_permutations"])
