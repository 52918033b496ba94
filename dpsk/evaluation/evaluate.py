"""One release from held-out rows, and all metrics of a classifier from it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ..data import Door
from ..mechanisms import bits_for
from ..model_selection.score import labels_to_score, require_possible
from ..model_selection.voters import Voters
from ..privacy import Budget
from ..privacy.durable.store import set_aside
from ..privacy.report import warn_not_private
from ..privacy.units import ROW
from .opinions import Asked, opinions
from .release import Released, Releases, release, require_shares
from .results import PrivateEvaluation
from .several_classes import MulticlassEvaluation
from .two_classes import BinaryEvaluation


def private_evaluation(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    positive: Any = None,
    accuracy_share: float = 0.6,
    confidence: float = 0.95,
    groups: Any = None,
    group_column: str | None = None,
    adjacency: str = "zero-out",
    ledger: Any = None,
    random_state: int | None = None,
) -> PrivateEvaluation:
    """Return all usual metrics of a fitted classifier on held-out private rows, from one release that is paid for.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 13.2 and 13.5)
    epsilon-differential privacy (delta = 0) for rows, or with ids for persons, of whom each counts once. Rows are
    counted by label, prediction and score, with discrete Laplace noise; everything else follows from these counts. A
    row that the estimator refuses is predicted wrongly; no error, warning or refund tells of it.

    Parameters
    ----------
    estimator : fitted classifier
        With ``predict_proba`` or ``decision_function``.
    X, y, epsilon, confidence, groups, group_column, adjacency, ledger, random_state
        As for :func:`~dpsk.private_score`, but that the noise is twice as large with ``adjacency="replace"``.
    positive : label or None, default=None
        The class that is set against all others. None: the second of two; of several classes, all are judged together.
    accuracy_share : float, default=0.6
        The part of epsilon for the count of right predictions. A smaller one makes all other numbers more precise.

    Returns
    -------
    BinaryEvaluation or MulticlassEvaluation

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression, private_evaluation
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DPLogisticRegression(epsilon=4.0).fit(X[:400], y[:400])
    >>> evaluation = private_evaluation(model, X[400:], y[400:], epsilon=1.0)
    >>> evaluation.privacy_spent.epsilon
    1.0
    """
    shown: Any = {"positive": positive, "accuracy_share": accuracy_share, "confidence": confidence}
    units: Any = {"groups": groups, "group_column": group_column, "adjacency": adjacency}
    paid: Any = {"epsilon": epsilon, "ledger": ledger, "random_state": random_state}
    told = {"epsilon": epsilon, **shown, "group_column": group_column, "adjacency": adjacency}
    told |= {"random_state": random_state}
    return evaluated("private_evaluation", estimator, X, y, **shown, **units, **paid, told=told)


def evaluated(
    caller: str,
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    accuracy_share: float,
    groups: Any,
    group_column: str | None,
    adjacency: str,
    ledger: Any,
    random_state: int | None,
    told: Mapping[str, Any],
    positive: Any = None,
    confidence: float = 0.95,
) -> PrivateEvaluation:
    """Return the evaluation that somebody asks for: ``caller`` is named in errors and in the ledger.

    The ledger records ``told``, the arguments or parameters of the caller, with the type of the model.
    """
    require_possible(caller, estimator, confidence, adjacency)
    asked, budget, bits = Asked.of(estimator, positive, caller), Budget.of(epsilon, 0.0), bits_for(random_state)
    require_shares(budget, accuracy_share, adjacency)
    warn_not_private(noisy=True, seeded=not bits.private, stacklevel=3)
    voters = Voters.of(estimator, X, groups, group_column)
    promise: Any = {"adjacency": adjacency, "private": bits.private, "unit": voters.unit}
    told = {**told, "estimator": type(estimator)}
    with set_aside(ledger, budget, label=caller, **promise, asked=told) as reserved:
        door = Door(reserved, bits, adjacency)
        true = labels_to_score(caller, estimator, X, y)
        released = _released(door, estimator, X, true, voters, asked, accuracy_share)
    kind = MulticlassEvaluation if asked.positive is None else BinaryEvaluation
    counts: Any = {"n_rows": released.n_rows, "n_units": None if voters.unit == ROW else released.n_units}
    return kind(released, confidence, replace(door.report(), held_out=True, **counts))


def _released(
    door: Door, estimator: Any, X: Any, true: NDArray[Any], voters: Voters, asked: Asked, accuracy_share: float
) -> Released:
    """Judge the rows, and buy all levels with the budget of the door."""
    shown, persons_of = voters.apart(X)
    seen = opinions(estimator, shown, true, asked)
    buy = Releases(door, persons_of(len(true)), len(true))
    return release(buy, seen, asked, accuracy_share)
