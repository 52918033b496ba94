"""Methods for raw tables, from the frame on: what each is told as public, and what becomes of missing entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

import dpsk

from .frames import Facts

__all__ = [
    "EBM",
    "LINEAR",
    "NOT_PRIVATE",
    "OURS",
    "SETTINGS",
    "VERSION",
    "dp_ebm",
    "known_to",
    "method",
    "require_interpret",
]

VERSION = "0.7.8"
"""The version of interpret that was measured; it is no dependency of this project."""

MISSING = "missing"


class Setting(NamedTuple):
    """Parameters of DP-EBM."""

    max_rounds: int
    learning_rate: float
    max_bins: int
    bin_budget_frac: float
    max_leaves: int

    @property
    def name(self) -> str:
        return f"DP-EBM {'/'.join(map(str, self))}"


OURS, LINEAR, EBM = "DPTabularClassifier", "DPLogisticRegression", "DP-EBM"
LOGISTIC, BOOSTED = "not private, logistic regression", "not private, boosted trees"
NOT_PRIVATE = (LOGISTIC, BOOSTED)
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(20, 0.1, 16, 0.2, 3),
        Setting(50, 0.1, 8, 0.1, 3),
        Setting(50, 0.05, 16, 0.1, 3),
        Setting(100, 0.1, 16, 0.1, 3),
        Setting(100, 0.2, 16, 0.1, 3),
        Setting(100, 0.2, 32, 0.1, 3),
        Setting(100, 0.5, 32, 0.1, 3),
        Setting(300, 0.1, 32, 0.1, 3),
        Setting(300, 0.2, 32, 0.1, 3),
        Setting(100, 0.2, 32, 0.1, 10),
        Setting(300, 0.1, 64, 0.3, 5),
        Setting(200, 0.2, 128, 0.3, 10),
    )
}
"""What DP-EBM is tuned over: rounds, learning rate, bins, share of the budget for bins, leaves."""


class NotInstalled(SystemExit):
    """Something that only this benchmark needs is not installed."""


def require_interpret() -> Any:
    """Return the class of DP-EBM; exit with a sentence if interpret is not installed."""
    try:
        from interpret.privacy import DPExplainableBoostingClassifier
    except ImportError as error:
        remedy = f"`pip install interpret=={VERSION}`, or choose other rows by --only method=NAME"
        raise NotInstalled(f"DP-EBM needs interpret, which is not installed: {remedy}") from error
    return DPExplainableBoostingClassifier


def method(name: str, facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Return an unfitted model that takes the frame; without noise epsilon, delta and seed do not count."""
    if name == OURS:
        return dpsk.DPTabularClassifier(epsilon=epsilon, delta=delta, random_state=seed)
    if name == LINEAR:
        linear = dpsk.DPLogisticRegression(epsilon=epsilon, delta=delta, random_state=seed)
        return make_pipeline(*_one_hot(facts, "passthrough"), linear)
    if name == EBM or name in SETTINGS:
        known = known_to(facts)._asdict() if name in SETTINGS else {}
        setting = SETTINGS[name]._asdict() if name in SETTINGS else {}
        return dp_ebm(facts, epsilon, delta, seed, **setting, **known)
    if name == LOGISTIC:
        return make_pipeline(*_one_hot(facts, StandardScaler()), LogisticRegression(max_iter=1000))
    if name == BOOSTED:
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        encoded = make_column_transformer((encoder, list(facts.categories)), remainder="passthrough")
        return make_pipeline(encoded, HistGradientBoostingClassifier(random_state=seed))
    raise ValueError(f"unknown method {name!r}")


def dp_ebm(facts: Facts, epsilon: float, delta: float, seed: int, **parameters: Any) -> Any:
    """Return DP-EBM in one thread, after missing entries were replaced by constants: it refuses them."""
    ebm = require_interpret()(epsilon=epsilon, delta=delta, random_state=seed, n_jobs=1, **parameters)
    below = {name: low - _step(low, high) for name, (low, high) in facts.bounds.items()}
    return make_pipeline(FunctionTransformer(filled, kw_args={"facts": facts, "numbers": below}), ebm)


class Known(NamedTuple):
    """What DP-EBM does not have to look up in the rows."""

    feature_types: list[str]
    privacy_bounds: dict[str, tuple[float, float]]


def known_to(facts: Facts) -> Known:
    """Return types and ranges, with room for the constants that stand for missing numbers."""
    bounds = {
        name: (low - _step(low, high) if name in facts.gaps else low, high)
        for name, (low, high) in facts.bounds.items()
    }
    return Known(["continuous" if name in bounds else "nominal" for name in facts.columns], bounds)


def _step(low: float, high: float) -> float:
    """Return how far below the range the constant lies that stands for a missing number: it has bins of its own."""
    return (high - low or 1.0) / 20


def filled(frame: pd.DataFrame, facts: Facts, numbers: dict[str, float]) -> pd.DataFrame:
    """Return the frame with a constant for missing numbers, and a category for missing categories."""
    return frame.fillna({**numbers, **dict.fromkeys(facts.categories, MISSING)})


def with_indicators(frame: pd.DataFrame, facts: Facts) -> pd.DataFrame:
    """Return the frame filled, missing numbers by 0, and a column for each number that says where it was missing."""
    gaps = [name for name in facts.bounds if name in facts.gaps]
    missing = frame[gaps].isna().astype(float).add_prefix(f"{MISSING} ")
    return pd.concat([filled(frame, facts, dict.fromkeys(facts.bounds, 0.0)), missing], axis=1)


def _one_hot(facts: Facts, numbers: Any) -> tuple[Any, Any]:
    """Return the steps that turn a frame into numbers: a column per value of a list, numbers by their own step."""
    lists = [[*values, *([MISSING] if name in facts.gaps else [])] for name, values in facts.categories.items()]
    encoded = make_column_transformer(
        (numbers, list(facts.bounds)),
        (OneHotEncoder(categories=lists, handle_unknown="ignore"), list(facts.categories)),
        remainder="passthrough",
    )
    return FunctionTransformer(with_indicators, kw_args={"facts": facts}), encoded
