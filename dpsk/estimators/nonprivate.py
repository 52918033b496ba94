"""The exact model, without privacy: what epsilon = inf means."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from ..calibration import Known, Temperature
from ..data import ArrayTable, RowMap, Table
from ..encodings import Weighting
from ..losses import Logistic, Softmax
from ..mechanisms.samplers import Floats
from ..objectives import LinearObjective, Objective
from ..solvers import Diagnostics, Result
from ..solvers.calibrated import (
    FACTORS,
    OF_HINGE,
    curved,
    edges_at,
    natural_of_several,
    shares_of,
    towards,
)

_TOLERANCE = 1e-9


def minimise(
    table: Table, objective: Objective, how: RowMap, weighting: Weighting, *, calibrate: bool = False
) -> tuple[Result, Floats | None]:
    """Return the minimiser of mean(loss) + alpha/2 * ||coef||^2 on rows as they are, and weights of classes.

    An intercept is free. L-BFGS, then Newton's method with conjugate gradients, both in columns scaled to unit root
    mean square, so that units do not matter to the search. Warns if the gradient is not down to 1e-9 in these columns.
    ``calibrate``: scores that are no log-odds get a calibration from exact counts.
    """
    if not isinstance(table, ArrayTable):
        raise ValueError("epsilon=inf fits the exact model in memory: give it an array")
    if not isinstance(objective, LinearObjective):
        raise TypeError(
            f"epsilon=inf fits linear models, and {type(objective).__name__} is none: use a large epsilon, such as 1000"
        )
    X = _matrix(table.given)
    y, loss, alpha, fit_intercept = table.labels, objective.loss, objective.penalty.smoothness, how.fit_intercept
    weights, of_classes = weighting.exact(table, y)
    d, n, weighed = X.shape[1], table.facts.n_rows, _times(weights)
    scale: Floats = np.append(1 / _root_mean_squares(X), [1.0] * fit_intercept)
    columns = () if loss.n_classes is None else (loss.n_classes,)
    shape = (len(scale), *columns)
    scale = scale.reshape(-1, *(1 for _ in columns))
    ridge = alpha * scale * scale * np.ones(shape)
    if fit_intercept:
        ridge[-1] = 0

    def scores(flat: Floats) -> Floats:
        w = scale * flat.reshape(shape)
        z: Floats = np.asarray(X @ w[:d]) + (w[d] if fit_intercept else 0.0)
        return z

    def back(residuals: Floats) -> Floats:
        residuals = weighed(residuals)
        sums = np.asarray(X.T @ residuals)
        if fit_intercept:
            sums = np.concatenate([sums, residuals.sum(axis=0)[None]])
        mean: Floats = scale * sums / n
        return mean

    def value_and_gradient(flat: Floats) -> tuple[float, Floats]:
        at, z = flat.reshape(shape), scores(flat)
        value = float(weighed(loss.value(z, y)).sum() / n + (ridge * at * at).sum() / 2)
        return value, (back(loss.derivative(z, y)) + ridge * at).ravel()

    def curvature(flat: Floats, direction: Floats) -> Floats:
        second, along = loss.second_derivative(scores(flat), y), scores(direction)
        moved = second * along if not columns else np.einsum("ijk,ik->ij", second, along)
        return (back(moved) + ridge * direction.reshape(shape)).ravel()

    options = {"maxiter": 5_000, "maxfun": 10_000, "maxcor": 20, "ftol": 0.0, "gtol": _TOLERANCE}
    found = minimize(value_and_gradient, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options).x
    found, largest = _by_newton(found, lambda flat: value_and_gradient(flat)[1], curvature)
    if not largest <= _TOLERANCE:
        warnings.warn(
            "the exact model did not converge: the classes may be separable, which leaves no finite optimum when alpha "
            f"is 0 (here {alpha:g}). Raise alpha",
            ConvergenceWarning,
            stacklevel=4,
        )
    w = scale * found.reshape(shape)
    if not calibrate or isinstance(loss, Logistic | Softmax):
        return Result(w, Diagnostics()), of_classes
    return _calibrated(w, scores(found), y, weights, objective, how.fit_intercept), of_classes


def _matrix(X: Any) -> Any:
    """Return the rows in double precision."""
    return sp.csr_matrix(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)


def _root_mean_squares(X: Any) -> Floats:
    """Return those of the columns; 1 for a column of zeros."""
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() if sp.issparse(X) else np.einsum("ij,ij->j", X, X)
    found: Floats = np.sqrt(np.where(squares > 0, squares / X.shape[0], 1.0))
    return found


def _calibrated(
    w: Floats, scores: Floats, y: Any, weights: Floats | None, objective: LinearObjective, movable: bool
) -> Result:
    """Return the result with its calibration, from exact counts."""
    weights = np.ones(len(y)) if weights is None else weights
    if objective.loss.n_classes is None:
        edges = edges_at(math.inf)
        within = np.clip(scores, edges[0], edges[-1])
        counts = np.array([np.histogram(within[y == k], edges, weights=weights[y == k])[0] for k in (-1, 1)], float)
        known = Known(0.0, float(weights.sum()), math.inf, len(w), OF_HINGE, not movable)
        w, calibration = curved(w, counts, edges, known)
        return Result(w, Diagnostics({"calibration": calibration}))
    natural = natural_of_several(objective.loss)
    shares = shares_of(np.bincount(y, weights).astype(float), 0.0, float(weights.sum()))
    start, loss = towards(shares, w, fixed=not movable), Softmax(objective.loss.n_classes)
    toward = np.log(shares) if movable else np.zeros(len(shares))
    losses = [weights @ loss.value(toward + factor * natural * (scores - toward / natural), y) for factor in FACTORS]
    factor = natural * float(FACTORS[np.argmin(losses)])
    return Result(w + (1 / factor - 1 / natural) * start, Diagnostics({"calibration": Temperature(factor, shares)}))


def _times(weights: Floats | None) -> Callable[[Floats], Floats]:
    """Return the function that multiplies what rows have by their weights, if there are any."""
    if weights is None:
        return lambda of_rows: of_rows
    return lambda of_rows: of_rows * (weights if of_rows.ndim == 1 else weights[:, None])


def _by_newton(
    found: Floats, gradient_at: Callable[[Floats], Floats], curvature: Callable[[Floats, Floats], Floats]
) -> tuple[Floats, float]:
    """Return a point nearer to the minimum, and the largest entry of its gradient.

    It judges by the gradient: so near the minimum the objective changes by less than its rounding.
    """
    gradient = gradient_at(found)
    for _ in range(20):
        if np.abs(gradient).max() <= _TOLERANCE:
            break
        hessian = LinearOperator((found.size, found.size), matvec=lambda v, at=found: curvature(at, v))
        step = cg(hessian, -gradient, rtol=1e-3, maxiter=500)[0]
        nearer = gradient_at(found + step)
        if not np.abs(nearer).max() < np.abs(gradient).max():
            break
        found, gradient = found + step, nearer
    return found, float(np.abs(gradient).max())
