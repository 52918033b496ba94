"""What is known of one step: a rule for its class, the promise of its class, or nothing."""

from typing import Any

from sklearn.base import ClassifierMixin, ClusterMixin, OutlierMixin, RegressorMixin

from . import other_steps, sklearn_steps
from .containers import CONTAINERS, HANDS_ON_OBJECTS, makes_frames, private_rule
from .verdicts import SAFE, VOUCH, Finding, Rule, Verdict, public_name

PROMISE = "__dpsk_row_by_row__"
"""The method by which a class promises that its steps treat each row by themselves."""

RULES: dict[str, Rule] = {
    **sklearn_steps.RULES,
    **other_steps.RULES,
    **{name: rule for name, (rule, _) in CONTAINERS.items()},
    "dpsk.estimators.tabular_encoder.TabularEncoder": lambda step: Finding(
        "private", "holds releases, and learns nothing"
    ),
}

_INSTEAD_OF_MODELS = {
    "LogisticRegression": "DPLogisticRegression",
    "LogisticRegressionCV": "DPLogisticRegression",
    "RidgeClassifier": "DPLogisticRegression",
    "LinearSVC": "DPLinearSVC",
    "SGDClassifier": "DPSGDClassifier",
}


def verdict_of(step: Any, name: str = "") -> Verdict:
    """Return what is known of one step. Of a container it says nothing about the parts: ``check_pipeline`` does.

    Parameters
    ----------
    step : transformer, classifier, "passthrough", "drop" or None
    name : str
        How the verdict calls it; the name of its class by default.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from dpsk.pipelines import verdict_of
    >>> verdict_of(OneHotEncoder()).why
    'keeps the list of categories: one that only a single row has is in it'
    >>> verdict_of(OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")).verdict
    'public settings'
    """
    kind = step if isinstance(step, str) else "passthrough" if step is None else type(step).__name__
    found = _finding(step)
    return Verdict(name or kind, kind, found.verdict, found.why, found.instead)


def _finding(step: Any) -> Finding:
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return Finding("stateless", "drops columns" if step == "drop" else "hands rows on as they are")
    own = sorted(name for name in getattr(step, "__dict__", {}) if callable(getattr(type(step), name, None)))
    if own:
        return Finding(
            "unknown", f"the object has its own {own[0]} in place of that of its class", f"delete it, or {VOUCH}"
        )
    if getattr(step, "_skl_callbacks", None):
        return Finding("unknown", "has callbacks, which see the rows", "the step without callbacks")
    name = public_name(type(step))
    if name in RULES:
        return _by_rule(name, step)
    if name.startswith("dpsk.estimators.") and isinstance(step, ClassifierMixin):
        return private_rule(step)
    if PROMISE in vars(type(step)):
        return _promised(step)
    if name.startswith("sklearn.") and isinstance(step, ClassifierMixin | RegressorMixin | ClusterMixin | OutlierMixin):
        instead = _INSTEAD_OF_MODELS.get(type(step).__name__, "one of dpsk's classifiers")
        return Finding("learns", "fits exact rows without noise", instead)
    return Finding("unknown", f"nothing is known of {type(step).__module__}.{type(step).__qualname__}", VOUCH)


def _by_rule(name: str, step: Any) -> Finding:
    """Return what the rule says. Parameters may be anything, also what the class refuses as soon as it is fitted."""
    try:
        found = RULES[name](step)
        if found.verdict in SAFE and makes_frames(step) and name in HANDS_ON_OBJECTS and HANDS_ON_OBJECTS[name](step):
            return _TYPES_FROM_ENTRIES
        return found
    except (AttributeError, TypeError, ValueError):
        return Finding(
            "unknown", "has parameters that its class does not take", f"parameters that it takes, or {VOUCH}"
        )


_TYPES_FROM_ENTRIES = Finding(
    "mixes rows",
    "puts objects into a frame, where all entries of a column decide its type",
    "set_output(transform='default')",
)


def _promised(step: Any) -> Finding:
    """Return what a class promises of its own objects. Subclasses promise for themselves: they may learn."""
    if getattr(step, PROMISE)() is True:
        return Finding("vouched for", f"its class promises it ({PROMISE})")
    return Finding("unknown", f"its class does not promise it for these parameters ({PROMISE})", VOUCH)
