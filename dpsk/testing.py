"""Conformance checks for contributors: one call tells whether a new part keeps the promises of the house.

Each check raises AssertionError with a sentence that says what was promised and what happened. Randomness is seeded and
statistical bounds hold with probability at least 1 - ``ERROR_PROBABILITY`` per comparison, so a failure means a bug.

>>> from dpsk.testing import check_loss
>>> from dpsk.losses import Logistic
>>> check_loss(Logistic())
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import beta, chisquare, kstest

from .data import ArrayRows, PrivateData, Query, Rows
from .losses import Hinge, Logistic, Loss, OneVsRest, Softmax
from .mechanisms import Mechanism, SeededBits, Sensitivity
from .penalties import L2
from .privacy import Budget, Cost, Ledger
from .queries import GradientSum, LossesAlong
from .solvers import Solver, run

__all__ = [
    "ERROR_PROBABILITY",
    "check_loss",
    "check_mechanism",
    "check_query",
    "check_rows",
    "check_solver",
    "find_peeks",
    "neighbouring_scores",
]

ERROR_PROBABILITY = 1e-9
"""How often a comparison of a correct mechanism may fail by chance."""

Array: TypeAlias = NDArray[Any]


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _labels(n_classes: int | None, n: int, rng: np.random.Generator) -> Array:
    return rng.choice([-1.0, 1.0], n) if n_classes is None else rng.integers(n_classes, size=n)


def _heavy_tailed(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return rows over thirty orders of magnitude, some sparse, some zero, some with one huge entry."""
    x = rng.standard_t(1, (n, d)) * 10.0 ** rng.uniform(-15, 15, (n, 1))
    x[rng.random((n, d)) < 0.3] = 0
    x[rng.random(n) < 0.05] = 0
    huge = rng.random(n) < 0.1
    x[huge, rng.integers(d, size=huge.sum())] = 1e300
    return x


# ------------------------------------------------------------------------------------------------ losses


def check_loss(loss: Loss, *, n_classes: int | None = None, seed: int = 0) -> None:
    """Check values, derivatives, constants and overflow of a loss.

    ``n_classes`` is None for scores of shape (n,) with labels -1/+1, K for scores (n, K) with labels 0..K-1.
    """
    rng = np.random.default_rng(seed)
    name = repr(loss)
    n = 4000
    columns = () if n_classes is None else (n_classes,)
    y = _labels(n_classes, n, rng)
    scores = rng.normal(size=(n, *columns)) * 10.0 ** rng.uniform(-2, 4, size=(n,) + (1,) * len(columns))
    scores[:: n // 40] = rng.choice([-1e4, 0.0, 1e4], size=scores[:: n // 40].shape)
    value, slope, curvature = loss.value(scores, y), loss.derivative(scores, y), loss.second_derivative(scores, y)

    _require(hash(loss) == hash(dataclasses.replace(loss)), f"{name} must be a frozen dataclass")  # type: ignore[type-var]
    _require(value.shape == (n,), f"{name}.value must return one number per row")
    _require(slope.shape == scores.shape, f"{name}.derivative must have the shape of the scores")
    _require(curvature.shape == (n, *columns, *columns), f"{name}.second_derivative must be (n,) or (n, K, K)")
    for what, array in (("value", value), ("derivative", slope), ("second_derivative", curvature)):
        _require(np.isfinite(array).all(), f"{name}.{what} overflows for scores up to 1e4")
    _require((value >= 0).all(), f"{name}.value must not be negative: clipped sums are monotone only then")

    norm = np.abs(slope) if n_classes is None else np.linalg.norm(slope, axis=1)
    _require(norm.max() <= loss.lipschitz * (1 + 1e-12), f"{name}.lipschitz is {loss.lipschitz}, seen {norm.max()}")
    bend = np.abs(curvature) if n_classes is None else np.abs(np.linalg.eigvalsh(curvature)).max(axis=1)
    _require(bend.max() <= loss.smoothness * (1 + 1e-12), f"{name}.smoothness is {loss.smoothness}, seen {bend.max()}")

    # Differences, at moderate scores, for 95 % of the rows: a loss may have kinks, where they mean nothing.
    scores = rng.normal(size=(n, *columns)) * 2
    direction = rng.normal(size=(n, *columns))
    h = 1e-6
    slope, curvature = loss.derivative(scores, y), loss.second_derivative(scores, y)
    ahead, behind = scores + h * direction, scores - h * direction
    if n_classes is None:
        along, bending = slope * direction, curvature * direction
    else:
        along, bending = (slope * direction).sum(axis=1), np.einsum("ijk,ik->ij", curvature, direction)
    difference = (loss.value(ahead, y) - loss.value(behind, y)) / (2 * h)
    close = np.isclose(difference, along, rtol=1e-4, atol=1e-7)
    _require(close.mean() > 0.95, f"{name}.derivative is not the derivative of its value")
    difference = (loss.derivative(ahead, y) - loss.derivative(behind, y)) / (2 * h)
    close = np.isclose(difference, bending, rtol=1e-4, atol=1e-7)
    _require(close.mean() > 0.95, f"{name}.second_derivative is not the derivative of its derivative")


# ----------------------------------------------------------------------------------------------- queries


def check_query(
    query: Query,
    *,
    n_features: int,
    n_classes: int | None = None,
    fit_intercept: bool = True,
    data_norm: float | None = None,
    trials: int = 100,
    seed: int = 0,
) -> float:
    """Delete and replace heavy-tailed rows and check the promised norms under both adjacencies.

    Returns the largest fraction of the promised l2 sensitivity that was reached: far below 1 means a loose bound.
    """
    rng = np.random.default_rng(seed)
    largest = 0.0

    def total(X: Array, y: Array) -> Array:
        matrix = sp.csr_matrix(X) if rng.random() < 0.5 else X
        rows = ArrayRows(matrix, y, fit_intercept=fit_intercept, data_norm=data_norm)
        result = rows.total(query)
        _require(result.dtype == np.int64, f"{query.label}: a query must return 64-bit integers")
        return result

    for _ in range(trials):
        n = int(rng.integers(2, 20))
        X, y = _heavy_tailed(n, n_features, rng), _labels(n_classes, n, rng)
        X[0] = _heavy_tailed(1, n_features, rng)[0] if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n_features)
        other_X, other_y = X.copy(), y.copy()
        other_X[0] = -X[0] if rng.random() < 0.5 else _heavy_tailed(1, n_features, rng)[0]
        other_y[0] = _labels(n_classes, 1, rng)[0]
        whole = total(X, y)
        changes = {"zero-out": whole - total(X[1:], y[1:]), "replace": whole - total(other_X, other_y)}
        for adjacency, change in changes.items():
            promised = query.sensitivity(adjacency)
            # float norms of exact integers: allow for their own rounding
            norms = {
                "l1": math.fsum(np.abs(change).ravel()),
                "l2": math.sqrt(math.fsum(np.square(change.astype(float)).ravel())),
                "linf": float(np.abs(change).max()),
            }
            for norm, size in norms.items():
                bound = getattr(promised, norm)
                _require(
                    size <= bound * (1 + 1e-13),
                    f"{query.label}: one row moved the sum by {size} in {norm}, promised {bound} ({adjacency})",
                )
            if promised.monotone:
                _require(
                    (change >= 0).all() or (change <= 0).all(),
                    f"{query.label}: promised monotone under {adjacency}, but one row moved entries both ways",
                )
            if math.isfinite(promised.l2):
                largest = max(largest, norms["l2"] / promised.l2)
    return largest


# -------------------------------------------------------------------------------------------- mechanisms


def neighbouring_scores(n: int, sensitivity: Sensitivity) -> Iterator[tuple[Array, Array]]:
    """Yield pairs of integer score vectors that neighbours may produce, the worst known for selection among them."""
    step = int(sensitivity.linf)
    for gap in (0, step, 5 * step):
        base = np.full(n, gap, dtype=np.int64)
        base[0] = 0
        one = np.zeros(n, dtype=np.int64)
        one[0] = step
        yield base, base + one
        yield base, base + (step - one)
        if not sensitivity.monotone:
            yield base, base + step - 2 * one


def check_mechanism(
    mechanism: Mechanism,
    *,
    sensitivity: Sensitivity,
    neighbours: list[tuple[Array, Array]] | None = None,
    cdf: Callable[[Array], Array] | None = None,
    probabilities: tuple[Array, Array] | None = None,
    draws: int = 4_000,
    seed: int = 0,
) -> float:
    """Check what a mechanism refuses, how it is distributed and, from samples, that it costs no less than it says.

    Parameters
    ----------
    mechanism : Mechanism
        A frozen dataclass whose first field is its strength (larger means less noise).
    sensitivity : Sensitivity
        What to sample it at.
    neighbours : list of pairs of integer arrays, optional
        Worst-case neighbouring values; without them :func:`neighbouring_scores` for 21 scores.
    cdf : callable, optional
        For additive noise: its distribution function, checked by Kolmogorov-Smirnov.
    probabilities : (scores, probabilities), optional
        For a selection: exact probabilities at these scores, checked by chi-square.
    draws : int
        Samples per distribution.

    Returns
    -------
    float
        The largest lower bound on epsilon (at delta = 0) that the samples prove, each with error probability
        ``ERROR_PROBABILITY``.
    """
    bits = SeededBits(seed)
    name = repr(mechanism)
    _require(isinstance(mechanism.cost, Cost), f"{name}.cost must be a Cost")
    for bad in (math.inf, math.nan, 0.0, -1.0):
        refused = False
        try:
            mechanism.check(Sensitivity(bad, bad, bad))
        except ValueError:
            refused = True
        _require(refused, f"{name} accepts a sensitivity of {bad}")

    variants = [(mechanism, True)]
    strength = dataclasses.fields(mechanism)[0].name  # type: ignore[arg-type]
    for factor in (2 / 3, 3 / 2):
        changed = {strength: getattr(mechanism, strength) * factor}
        variants.append((dataclasses.replace(mechanism, **changed), False))  # type: ignore[type-var]
    for variant, right in variants:
        agrees = _agrees(variant, sensitivity, cdf, probabilities, draws, bits)
        if agrees is not None and right:
            _require(agrees, f"{name} does not have the stated distribution")
        elif agrees is not None:
            _require(not agrees, f"{name}: the distribution test is too weak to tell it from {variant!r}")

    largest = 0.0
    for value, neighbour in neighbours or list(neighbouring_scores(21, sensitivity)):
        for left, right_value in ((value, neighbour), (neighbour, value)):
            bound = _epsilon_lower_bound(mechanism, left, right_value, sensitivity, draws, bits)
            largest = max(largest, bound)
    return largest


def _sample(mechanism: Mechanism, value: Array, sensitivity: Sensitivity, draws: int, bits: SeededBits) -> Array:
    first = mechanism(value, sensitivity, bits)
    if isinstance(first, int):
        return np.array([mechanism(value, sensitivity, bits) for _ in range(draws)])
    return np.array([mechanism(value, sensitivity, bits) for _ in range(-(-draws // value.size))])


def _agrees(
    mechanism: Mechanism,
    sensitivity: Sensitivity,
    cdf: Callable[[Array], Array] | None,
    probabilities: tuple[Array, Array] | None,
    draws: int,
    bits: SeededBits,
) -> bool | None:
    if cdf is not None:
        noise = mechanism(np.zeros(draws, dtype=np.int64), sensitivity, bits)
        return bool(kstest(np.asarray(noise, dtype=float), cdf).pvalue > ERROR_PROBABILITY)
    if probabilities is not None:
        scores, expected = probabilities
        counts = np.bincount(_sample(mechanism, scores, sensitivity, draws, bits), minlength=len(scores))
        rare = expected * draws < 5
        observed = np.append(counts[~rare], counts[rare].sum())
        wanted = np.append(expected[~rare], expected[rare].sum()) * draws
        keep = wanted > 0
        _require(observed[~keep].sum() == 0, "an impossible index was chosen")
        wanted *= draws / wanted.sum()
        return bool(chisquare(observed[keep], wanted[keep]).pvalue > ERROR_PROBABILITY)
    return None


def _epsilon_lower_bound(
    mechanism: Mechanism, value: Array, neighbour: Array, sensitivity: Sensitivity, draws: int, bits: SeededBits
) -> float:
    """Sample two neighbours; raise if some event proves the cost too low; return the epsilon proved at delta = 0."""
    samples = [_sample(mechanism, v, sensitivity, draws, bits) for v in (value, neighbour)]
    if samples[0].ndim > 1:  # additive: what matters is the projection on the difference
        direction = (value - neighbour).astype(float)
        samples = [s @ direction for s in samples]
        cuts = np.quantile(np.concatenate(samples), [0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
        counts = [np.array([(s > c).sum() for c in cuts]) for s in samples]
    else:
        counts = [np.bincount(s, minlength=len(value)) for s in samples]
    total = len(samples[0])
    level = ERROR_PROBABILITY / 2
    low = beta.ppf(level, counts[0], total - counts[0] + 1)
    high = beta.ppf(1 - level, counts[1] + 1, total - counts[1])
    low = np.where(counts[0] == 0, 0.0, low)
    high = np.where(counts[1] == total, 1.0, high)
    cost = mechanism.cost
    scale = cost.epsilon if math.isfinite(cost.epsilon) else math.sqrt(2 * cost.rho)
    for epsilon in (0.0, scale / 4, scale / 2, scale, 2 * scale):
        excess = float((low - math.exp(epsilon) * high).max())
        _require(
            excess <= cost.delta(epsilon),
            f"{mechanism!r} is not as private as {cost!r}: some event has delta >= {excess:.3g} at epsilon = "
            f"{epsilon:.3g} (log-ratio >= {math.log(max(float((low / high).max()), 1e-300)):.3g})",
        )
    return max(0.0, math.log(max(float((low / high).max()), 1e-300)))


# -------------------------------------------------------------------------------------------------- rows


def check_rows(make_rows: Callable[..., Rows], *, seed: int = 0) -> None:
    """Check that a backend gives the same bits as dense rows, for every query and score shape.

    ``make_rows(X, y, fit_intercept=...)`` gets a dense float64 array and returns the backend under test.
    """
    rng = np.random.default_rng(seed)
    for n, d, data in ((1, 1, "normal"), (300, 7, "heavy"), (2000, 30, "sparse"), (9000, 12, "normal")):
        X = _heavy_tailed(n, d, rng) if data == "heavy" else rng.normal(size=(n, d))
        if data == "sparse":
            X[rng.random((n, d)) < 0.9] = 0
        for n_classes, fit_intercept in ((None, True), (3, False), (None, False), (3, True)):
            y = _labels(n_classes, n, rng)
            losses: list[Loss] = [Logistic(), Hinge()]
            if n_classes is not None:
                losses = [Softmax(n_classes), OneVsRest(Hinge(), n_classes)]
            dense = ArrayRows(X, y, fit_intercept=fit_intercept)
            tested = make_rows(X.copy(), y.copy(), fit_intercept=fit_intercept)
            _require(
                (tested.n_rows, tested.n_features, tested.n_parameters) == (n, d, d + fit_intercept),
                "the backend reports other numbers of rows, features or parameters",
            )
            shape = (d + fit_intercept,) if n_classes is None else (d + fit_intercept, n_classes)
            w = rng.normal(size=shape) / np.sqrt(d)
            for loss in losses:
                line = LossesAlong(loss, w, 0.1 * rng.normal(size=shape), range(5), clip=3.0)
                moved = GradientSum(loss, line.points[3], clip=1.5)
                for query in (GradientSum(loss, w, clip=0.7), line, moved, GradientSum(loss, w + 0.3, clip=2.0)):
                    _require(
                        np.array_equal(dense.total(query), tested.total(query)),
                        f"{query.label} of {loss!r} differs from dense rows ({n} x {d}, {data})",
                    )


# ----------------------------------------------------------------------------------------------- solvers

_MODULES_FOR_SOLVERS = {"__future__", "collections", "dataclasses", "itertools", "math", "numpy", "typing"}
_ROOMS_FOR_SOLVERS = {"data", "losses", "mechanisms", "penalties", "privacy", "queries", "solvers"}
_NAMES_NOT_FOR_SOLVERS = {
    "ArrayRows", "Bits", "Chunk", "Ledger", "Query", "Rows", "SeededBits", "SystemBits", "bits_for",
    "ledger", "private", "randomness", "rows",
    "compile", "delattr", "eval", "exec", "getattr", "globals", "locals", "object", "open", "print", "setattr", "type",
    "vars", "__builtins__", "__import__",
}  # fmt: skip
_ATTRIBUTES_NOT_FOR_SOLVERS = {"charge", "ctypeslib", "lib", "random", "scores", "scores_along", "total", "units"}


def find_peeks(source: str) -> list[str]:
    """Return the places where the source of a solver reaches for rows, budgets, randomness or private parts.

    A solver may use public attributes of what it is given, and import NumPy, a few standard modules and the public
    names of dpsk except those that hold rows, random bits or a ledger. It defines no queries and no mechanisms: these
    see un-noised values and belong to the trusted core.
    """
    peeks: list[str] = []

    def note(node: ast.AST, what: str) -> None:
        peeks.append(f"line {getattr(node, 'lineno', '?')}: {what}")

    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                for alias in node.names:
                    if alias.name not in _MODULES_FOR_SOLVERS:
                        note(node, f"imports {alias.name}")
            case ast.ImportFrom():
                if not _may_import_from(node):
                    note(node, f"imports from {'.' * node.level}{node.module or ''}")
                for alias in node.names:
                    if alias.name in _NAMES_NOT_FOR_SOLVERS | {"random", "*"} or alias.name.startswith("_"):
                        note(node, f"imports {alias.name}")
            case ast.Attribute(attr=name, value=owner, ctx=context):
                own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
                if name.startswith("__") or (name.startswith("_") and not own):
                    note(node, f"reads the private attribute {name}")
                if name in _ATTRIBUTES_NOT_FOR_SOLVERS:
                    note(node, f"reads the attribute {name}")
                if not isinstance(context, ast.Load):
                    note(node, f"sets the attribute {name}")
            case ast.Name(id=name) if name in _NAMES_NOT_FOR_SOLVERS:
                note(node, f"uses {name}")
            case ast.FunctionDef(name="__call__" | "__getattr__" | "__getattribute__"):
                note(node, f"defines {node.name}")
    return peeks


def _may_import_from(node: ast.ImportFrom) -> bool:
    path = (node.module or "").split(".")
    if node.level == 0 and path[0] != "dpsk":
        return path[0] in _MODULES_FOR_SOLVERS and "random" not in path
    if node.level == 1:
        return True  # another solver
    rooms = path[1:] if node.level == 0 else path
    return bool(rooms) and rooms[0] in _ROOMS_FOR_SOLVERS and not any(part.startswith("_") for part in rooms)


def check_solver(
    solver: Solver,
    *,
    loss: Loss | None = None,
    n_classes: int | None = None,
    budget: Callable[[float], Budget] = lambda epsilon: Budget.of(epsilon, 1e-6),
    large_epsilon: float = 1e5,
    tolerance: float = 1e-2,
    seed: int = 0,
) -> None:
    """Check that a solver keeps its budget and its hands off the data, and that it optimises.

    * Its source reaches for nothing but releases (:func:`find_peeks`), and it is a frozen dataclass.
    * At epsilon = 1 it ends, its iterates are finite, and what was charged does not exceed the cap.
    * At ``large_epsilon`` its objective is within ``tolerance`` of the optimum, on data that no clipping touches.
    * Under a seed its result has the same bits on dense, sparse and chunked rows.
    """
    rng = np.random.default_rng(seed)
    name = repr(solver)
    kind = type(solver)
    parameters = getattr(kind, "__dataclass_params__", None)
    _require(parameters is not None and parameters.frozen, f"{name} must be a frozen dataclass")
    peeks = find_peeks(inspect.getsource(inspect.getmodule(kind) or kind))
    _require(not peeks, f"{kind.__name__} reaches for what it must not see: " + "; ".join(peeks))

    loss = loss or (Logistic() if n_classes is None else Softmax(n_classes))
    n, d = 3000, 5
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    if n_classes is None:
        y: Array = np.where(X @ rng.normal(size=d) * 3 + rng.logistic(size=n) > 0, 1.0, -1.0)
        shape: tuple[int, ...] = (d + 1,)
    else:
        y = np.argmax(X @ rng.normal(size=(d, n_classes)) * 3 + rng.gumbel(size=(n, n_classes)), axis=1)
        shape = (d + 1, n_classes)
    penalty = L2(0.01, free_intercept=True)

    def fit(rows: Rows, epsilon: float) -> tuple[Array, PrivateData]:
        data = PrivateData(rows, Ledger(budget(epsilon)), SeededBits(seed))
        iterates: list[Array] = []
        w = run(solver, data, loss, penalty, shape, iterates.append)
        _require(all(np.isfinite(v).all() for v in iterates), f"{name} yielded weights that are not finite")
        _require(w.shape == shape, f"{name} yielded weights of shape {w.shape}, asked for {shape}")
        return w, data

    w, data = fit(ArrayRows(X, y), 1.0)
    report = data.report()
    _require(0 < report.charged <= report.limit, f"{name} charged {report.charged} of a cap of {report.limit}")
    for rows in (ArrayRows(sp.csr_matrix(X), y), ArrayRows(X, y, chunk_rows=777)):
        _require(np.array_equal(w, fit(rows, 1.0)[0]), f"{name} gives other bits on other storage")

    X1 = np.hstack([X, np.ones((n, 1))])

    def objective(flat: Array) -> tuple[float, Array]:
        at = flat.reshape(shape)
        scores = X1 @ at
        gradient = X1.T @ loss.derivative(scores, y) / n + penalty.gradient(at)
        return float(loss.value(scores, y).mean()) + penalty.value(at), gradient.ravel()

    best = minimize(objective, np.zeros(math.prod(shape)), jac=True, method="L-BFGS-B").fun
    reached = objective(fit(ArrayRows(X, y), large_epsilon)[0].ravel())[0]
    _require(
        reached <= best + tolerance, f"{name} reaches {reached:.5f} at epsilon = {large_epsilon:g}, optimum {best:.5f}"
    )
