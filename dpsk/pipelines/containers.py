"""What is known of steps that hold other steps: pipelines, unions, searches, and what fits copies of a model."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from sklearn import get_config
from sklearn.compose import make_column_selector

from .other_steps import are_names
from .sklearn_steps import ALWAYS_DENSE
from .verdicts import Finding, Need, Rule, Treats, is_, learns, public_name

Parts: TypeAlias = Callable[[Any], Iterator[tuple[str, Any]]]
"""Yields the name and the step of each part of a container, as its parameters name them."""


def _steps(container: Any) -> Iterator[tuple[str, Any]]:
    yield from container.steps


def _union(container: Any) -> Iterator[tuple[str, Any]]:
    yield from container.transformer_list


def _columns(container: Any) -> Iterator[tuple[str, Any]]:
    for name, step, _ in container.transformers:
        yield name, step
    if not _is_word(container.remainder, "drop", "passthrough"):
        yield "remainder", container.remainder


def _held(parameter: str) -> Parts:
    return lambda container: iter([(parameter, getattr(container, parameter))])


def _several(container: Any) -> Iterator[tuple[str, Any]]:
    yield from container.estimators


_MEMORY = Need(
    "memory",
    is_(None),
    "writes what steps make of the rows to disk, without noise",
    "memory=None: the steps are cheap, and what they write stays there",
)
_QUIET = Need(
    "verbose",
    is_(None, False, 0),
    "prints a line in every fit, so their number shows how many rows were refused",
    "verbose=False",
    "mixes rows",
)
_NAMES = Need(
    "verbose_feature_names_out",
    lambda value: not callable(value),
    "calls verbose_feature_names_out in every fit, so it may count how many rows were refused",
    "a word as verbose_feature_names_out",
    "unknown",
)
_HANDS_ON = "hands rows to its parts"


def _column_rule(step: Any) -> Finding:
    """Return what is known of a ColumnTransformer itself: how it chooses columns, and how it stores its output."""
    for _, _, columns in step.transformers:
        if callable(columns) and type(columns) is not make_column_selector:
            return Finding(
                "unknown",
                "chooses columns by a function, which may look at their values",
                "names of columns, or make_column_selector",
            )
    parts = [part for _, part, _ in step.transformers] + [step.remainder]
    if step.sparse_threshold != 0 and not all(_is_word(part, "drop") or always_dense(part) for part in parts):
        return Finding(
            "mixes rows",
            "counts the zeros of all rows to decide whether its output is sparse",
            "sparse_threshold=0",
        )
    return _COLUMNS(step)


_COLUMNS = Treats(
    (_QUIET, _NAMES),
    ("transformers", "remainder", "sparse_threshold", "n_jobs", "transformer_weights", "force_int_remainder_cols"),
    _HANDS_ON,
)


def always_dense(step: Any) -> bool:
    """Return whether a step gives a dense table whatever it gets."""
    name = public_name(type(step))
    if name == "sklearn.pipeline.Pipeline":
        return bool(step.steps) and always_dense(step.steps[-1][1])
    return name in ALWAYS_DENSE and bool(ALWAYS_DENSE[name](step))


def _frozen_rule(step: Any) -> Finding:
    if _holds_releases(step.estimator):
        return Finding("stateless", _HANDS_ON)
    return Finding(
        "unknown",
        "keeps what its step has learned before, from rows that are not seen here",
        "if those rows were public, say so: public=[name of the step]",
    )


_COPIES = "fits several copies, each for the whole budget, and tells nowhere what they cost together"
_ITSELF = "dpsk's classifiers take several classes themselves; or a ledger, which counts all copies"
_SEEDS = "gives its copies seeds, so whoever knows the seeds computes their noise"
_SEARCH = "chooses by exact scores of the rows, and shows them"

CONTAINERS: dict[str, tuple[Rule, Parts]] = {
    "sklearn.pipeline.Pipeline": (Treats((_MEMORY, _QUIET), ("steps",), _HANDS_ON), _steps),
    "dpsk.pipelines.private_pipeline.PrivatePipeline": (lambda step: Finding("stateless", _HANDS_ON), _steps),
    "sklearn.pipeline.FeatureUnion": (
        Treats(
            (_QUIET, _NAMES),
            ("transformer_list", "n_jobs", "transformer_weights"),
            _HANDS_ON,
        ),
        _union,
    ),
    "sklearn.compose.ColumnTransformer": (_column_rule, _columns),
    "skrub.ApplyToCols": (
        Treats(
            (
                Need(
                    "cols",
                    are_names,
                    "chooses columns by a rule that may look at their values",
                    "cols=[...]",
                    "unknown",
                ),
                Need(
                    "allow_reject",
                    is_(False),
                    "leaves columns alone that its step refuses",
                    "allow_reject=False",
                    "mixes rows",
                ),
                Need(
                    "transformer",
                    lambda step: public_name(type(step)) not in {"sklearn.impute.SimpleImputer", *CONTAINERS},
                    "may put objects into a frame, where all entries of a column decide its type",
                    "a ColumnTransformer with the same step",
                    "mixes rows",
                ),
            ),
            ("keep_original", "rename_columns", "n_jobs"),
            _HANDS_ON,
        ),
        _held("transformer"),
    ),
    "sklearn.frozen.FrozenEstimator": (_frozen_rule, _held("estimator")),
    "sklearn.model_selection.FixedThresholdClassifier": (
        Treats(
            free=("estimator", "threshold", "pos_label", "response_method"), why="cuts scores at a public threshold"
        ),
        _held("estimator"),
    ),
    **{
        f"sklearn.model_selection.{name}": (learns(_SEARCH, "PrivateSearchCV"), _held("estimator"))
        for name in ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
    },
    "sklearn.model_selection.TunedThresholdClassifierCV": (
        learns("learns a threshold from exact scores of the rows", "PrivateThreshold"),
        _held("estimator"),
    ),
    "sklearn.calibration.CalibratedClassifierCV": (
        learns("learns its map from exact scores of the rows", "PrivateCalibration"),
        _held("estimator"),
    ),
    **{
        name: (learns(_COPIES, _ITSELF, "unknown"), _held("estimator"))
        for name in (
            "sklearn.multiclass.OneVsRestClassifier",
            "sklearn.multiclass.OneVsOneClassifier",
            "sklearn.multioutput.MultiOutputClassifier",
            "sklearn.multioutput.ClassifierChain",
        )
    },
    "sklearn.multiclass.OutputCodeClassifier": (learns(_SEEDS, _ITSELF), _held("estimator")),
    "sklearn.ensemble.BaggingClassifier": (
        learns(_SEEDS, "one private classifier with the whole budget"),
        _held("estimator"),
    ),
    "sklearn.ensemble.AdaBoostClassifier": (
        learns("weighs each row by what the model says of others", "one private classifier with the whole budget"),
        _held("estimator"),
    ),
    "sklearn.ensemble.VotingClassifier": (learns(_COPIES, "a ledger, which counts all members", "unknown"), _several),
    "sklearn.ensemble.StackingClassifier": (
        learns("fits its members several times, and learns from what they say of the rows", "one private classifier"),
        _several,
    ),
    "dpsk.model_selection.search.PrivateSearchCV": (lambda step: private_rule(step), _held("estimator")),
    "dpsk.evaluation.adjusted.PrivateThreshold": (lambda step: private_rule(step), _held("estimator")),
    "dpsk.evaluation.adjusted.PrivateCalibration": (lambda step: private_rule(step), _held("estimator")),
    "dpsk.model_selection.independent_rows.IndependentRows": (_frozen_rule, _held("estimator")),
}
"""The rule for the container itself, and its parts."""


def _some_pass(parts: Parts) -> Callable[[Any], bool]:
    return lambda step: (
        any(part is None or _is_word(part, "passthrough") for _, part in parts(step))
        or _is_word(getattr(step, "remainder", ""), "passthrough")
    )


HANDS_ON_OBJECTS: dict[str, Callable[[Any], bool]] = {
    "sklearn.impute.SimpleImputer": lambda step: True,
    "sklearn.preprocessing.FunctionTransformer": lambda step: not isinstance(step.func, np.ufunc),
    "sklearn.pipeline.FeatureUnion": _some_pass(_union),
    "sklearn.compose.ColumnTransformer": _some_pass(_columns),
}
"""The safe steps that may return an array of objects, if the condition holds.

pandas and Polars give a column made of such an array the type that all of its entries have, such as text or date.
"""


def makes_frames(step: Any) -> bool:
    """Return whether ``set_output`` or the configuration of scikit-learn lets a step return frames."""
    own = getattr(step, "_sklearn_output_config", {}).get("transform")
    return bool((own or get_config()["transform_output"]) != "default")


def private_rule(step: Any) -> Finding:
    """Return what is known of what buys its noise: a classifier, a search or an adjusted classifier of dpsk."""
    if getattr(step, "random_state", None) is not None:
        return Finding("learns", "whoever knows random_state computes its noise", "random_state=None")
    if getattr(step, "epsilon", None) == float("inf"):
        return Finding("learns", "epsilon=inf adds no noise", "a finite epsilon")
    return Finding("private", "releases what was paid for, and nothing else")


def parts_of(step: Any) -> list[tuple[str, Any]] | None:
    """Return the names and steps of the parts of a container, None for a step that has none."""
    known = CONTAINERS.get(public_name(type(step)))
    if known is None or (known[0] is _frozen_rule and not _holds_releases(step.estimator)):
        return None
    return list(known[1](step))


def _holds_releases(frozen: Any) -> bool:
    """Return whether what is frozen is of dpsk: its own verdict tells then what it holds."""
    return public_name(type(frozen)).startswith("dpsk.")


def _is_word(step: Any, *words: str) -> bool:
    return isinstance(step, str) and step in words
