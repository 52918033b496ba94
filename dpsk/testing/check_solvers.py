"""Conformance of a solver."""

import ast
import inspect
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from ..data import ArrayRows, PrivateData, RowMap, Rows
from ..losses import Logistic, Loss, Softmax
from ..mechanisms import SeededBits
from ..objectives import LinearObjective, Model, Objective
from ..penalties import L2
from ..privacy import Budget, Ledger
from ..solvers import Solver, api, run
from .common import Array, require

_MODULES_FOR_SOLVERS = {
    "__future__",
    "collections",
    "collections.abc",
    "contextlib",
    "dataclasses",
    "itertools",
    "math",
    "numbers",
    "numpy",
    "scipy.sparse.linalg",
    "typing",
}
_NAMES_OUTSIDE = {
    "Any", "ArpackError", "Callable", "ClassVar", "Generator", "Integral", "Iterable", "Iterator", "Literal",
    "Protocol", "Sequence", "annotations", "dataclass", "eigsh", "field", "replace", "suppress",
}  # fmt: skip
_BASES = {"ABC", "Protocol", "SampledSolver", "Solver"}
_NAMES_FORBIDDEN = {
    "compile", "delattr", "eval", "exec", "getattr", "globals", "locals", "make_dataclass", "object", "open", "print",
    "setattr", "type", "vars",
}  # fmt: skip
_ATTRIBUTES_FORBIDDEN = {
    "_bits", "_contents", "_ledger", "_owner", "_rows", "_shift", "charge", "compact", "ctypeslib", "format",
    "format_map", "fromfile", "given", "labels", "lib", "load", "matrix", "memmap", "operator", "random", "save",
    "scores", "scores_along", "setflags", "tofile", "total", "units",
}  # fmt: skip


def find_peeks(source: str) -> list[str]:
    """Return the places where the source of a solver reaches for rows, budgets, randomness or private parts.

    A solver may import NumPy, a few standard modules and what :mod:`dpsk.solvers.api` lists, and use public attributes
    of what it is given. It defines no losses, queries or mechanisms, on its own or by inheritance: these see un-noised
    values and belong to the trusted core. This finds mistakes, not attacks: Python has no walls.
    """
    nodes = ast.walk(ast.parse(source))
    return [f"line {getattr(node, 'lineno', '?')}: {what}" for node in nodes for what in _peeks_of(node)]


def _peeks_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (f"imports {alias.name}" for alias in node.names if alias.name not in _MODULES_FOR_SOLVERS)
        case ast.ImportFrom():
            yield from _peeks_of_import(node)
        case ast.ClassDef(name=name, bases=bases):
            known = [isinstance(base, ast.Name) and base.id in _BASES for base in bases]
            yield from [f"class {name} inherits"] * known.count(False)
        case ast.FunctionDef(name=name) if name.startswith("__") and name not in ("__init__", "__post_init__"):
            yield f"defines {name}"
        case ast.Attribute():
            yield from _peeks_of_attribute(node)
        case ast.MatchClass(kwd_attrs=names):
            yield from (f"matches the attribute {name}" for name in names if name.startswith("_"))
        case ast.Name(id=name) if name in _NAMES_FORBIDDEN or (name.startswith("__") and name != "__all__"):
            yield f"uses {name}"


def _peeks_of_import(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    inside = node.level > 0 or module.split(".")[0] == "dpsk"
    if not inside and module not in _MODULES_FOR_SOLVERS:
        yield f"imports from {module}"
    allowed = api.__all__ if inside else _NAMES_OUTSIDE
    yield from (f"imports {alias.name}" for alias in node.names if alias.name not in allowed)


def _peeks_of_attribute(node: ast.Attribute) -> Iterator[str]:
    name, own = node.attr, isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    hidden = name.startswith("__") or (name.startswith("_") and not own)
    if name in _ATTRIBUTES_FORBIDDEN or (hidden and name != "__post_init__"):
        yield f"uses the attribute {name}"
    if not isinstance(node.ctx, ast.Load):
        yield f"sets the attribute {name}"


def check_solver(
    solver: Solver,
    *,
    loss: Loss | None = None,
    n_classes: int | None = None,
    model: Model | None = None,
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

    ``model`` is what is fitted instead of a linear model, for instance a :class:`~dpsk.objectives.NetworkModel`. The
    optimum that it is compared with is still that of the linear model.
    """
    name, kind = repr(solver), type(solver)
    parameters = getattr(kind, "__dataclass_params__", None)
    require(parameters is not None and parameters.frozen, f"{name} must be a frozen dataclass")
    peeks = find_peeks(inspect.getsource(inspect.getmodule(kind) or kind))
    require(not peeks, f"{kind.__name__} reaches for what it must not see: " + "; ".join(peeks))

    loss = loss or (Logistic() if n_classes is None else Softmax(n_classes))
    X, y = _example(3000, 5, n_classes, np.random.default_rng(seed))
    shape: tuple[int, ...] = (6,) if n_classes is None else (6, n_classes)
    how, linear = RowMap(n_classes), LinearObjective(loss, L2(0.01, free_intercept=True), shape)
    objective: Objective = linear
    if model is not None:
        how, objective = RowMap(n_classes, fit_intercept=False), model.on(5, n_classes or 2)
        shape = objective.shape

    def fit(rows: Rows, epsilon: float) -> tuple[Array, PrivateData]:
        data = PrivateData(rows, Ledger(budget(epsilon)), SeededBits(seed))
        iterates: list[Array] = []
        w = run(solver, data, objective, iterates.append).w
        require(all(np.isfinite(v).all() for v in iterates), f"{name} yielded weights that are not finite")
        require(w.shape == shape, f"{name} yielded weights of shape {w.shape}, asked for {shape}")
        return w, data

    w, data = fit(ArrayRows(X, y, how), 1.0)
    report = data.report()
    require(0 < report.charged <= report.limit, f"{name} charged {report.charged} of a cap of {report.limit}")
    storages = (ArrayRows(sp.csr_matrix(X), y, how), ArrayRows(X, y, how, chunk_rows=777))
    for rows in storages:
        require(np.array_equal(w, fit(rows, 1.0)[0]), f"{name} gives other bits on other storage")

    best = minimize(_value, np.zeros(linear.n_weights), (X, y, linear), jac=True, method="L-BFGS-B").fun
    rows = ArrayRows(X, y, how)
    w, _ = fit(rows, large_epsilon)
    reached = _value(w, X, y, linear)[0] if model is None else _value_on(rows, w, objective)
    require(
        reached <= best + tolerance, f"{name} reaches {reached:.5f} at epsilon = {large_epsilon:g}, optimum {best:.5f}"
    )


def _value(flat: Array, X: Array, y: Array, objective: LinearObjective) -> tuple[float, Array]:
    """Return an objective without any clipping, and its gradient."""
    w, X1 = flat.reshape(objective.shape), np.hstack([X, np.ones((len(X), 1))])
    scores, loss, penalty = X1 @ w, objective.loss, objective.penalty
    gradient = X1.T @ loss.derivative(scores, y) / len(y) + penalty.gradient(w)
    return float(loss.value(scores, y).mean()) + penalty.value(w), gradient.ravel()


def _value_on(rows: Rows, w: Array, objective: Objective) -> float:
    """Return an objective whose losses are hardly clipped."""
    query = objective.losses_along(w, np.zeros_like(w), [0.0], clip=2.0**10)
    return float(rows.total(query)[0] * query.unit / rows.n_rows) + objective.penalty.value(w)


def _example(n: int, d: int, n_classes: int | None, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return rows of norm 1 at most, and labels that a linear model can guess."""
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    if n_classes is None:
        return X, np.where(X @ rng.normal(size=d) * 3 + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, np.argmax(X @ rng.normal(size=(d, n_classes)) * 3 + rng.gumbel(size=(n, n_classes)), axis=1)
