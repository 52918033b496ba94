"""A pipeline that ends in a private classifier, and whose other steps learn nothing from rows."""

from collections.abc import Collection
from typing import Any, Self

from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as make_plain_pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..data import Chunks, is_dask
from ..estimators.classifier import PrivateClassifier
from ..export.onnx_models import onnx_of_pipeline
from ..export.plain_models import plain
from ..privacy import PrivacyLedger, PrivacySpent
from ..privacy.durable import as_ledger
from .check import PipelineCheck, check_pipeline
from .in_front import lot, settled
from .storages import seen_in_fit, seen_in_prediction


def _last_has(method: str) -> Any:
    """Return a condition: the last step has this method."""

    def check(self: Any) -> bool:
        getattr(self.steps[-1][1], method)
        return True

    return check


class PrivatePipeline(Pipeline):  # type: ignore[misc]
    """A scikit-learn Pipeline that ends in a classifier of dpsk and cannot leak by accident.

    ``fit`` asks of each step in front whether it learns from rows (:func:`~dpsk.check_pipeline`), and refuses one that
    does, or that nobody knows, before it touches data. The error names the private way.

    Rows pass through the steps in silence. A row that a step refuses becomes an empty one, because an error or a
    warning would be a fact about this row: zeros, or missing entries in front of
    :class:`~dpsk.DPTabularClassifier`. Predictions raise such errors as scikit-learn's pipelines do.

    Formal guarantees
    -----------------
    (docs/guarantees.md, 16.2)
    The pipeline as a whole keeps the guarantee of its last step, ``privacy_spent_``, for the rows or persons that it
    was fitted on. For steps in ``public`` this rests on your word.

    Parameters
    ----------
    steps : list of (name, estimator)
        As for scikit-learn's Pipeline. The last one is a classifier of dpsk, a PrivateSearchCV, a PrivateThreshold or a
        PrivateCalibration.
    public : list of names, default=()
        Steps that you vouch for: what their ``fit`` keeps is no secret, and they treat every row by itself. Steps in a
        ColumnTransformer or a FeatureUnion have names such as ``"columns > text"``.

    Attributes
    ----------
    privacy_spent_ : PrivacySpent
        The guarantee of the fit.
    classes_, n_features_in_, feature_names_in_
        As those of scikit-learn's Pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from dpsk import DPLogisticRegression, PrivatePipeline
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> steps = [("log", FunctionTransformer(np.log1p)), ("model", DPLogisticRegression(epsilon=4.0))]
    >>> PrivatePipeline(steps).fit(X, y).privacy_spent_.epsilon
    4.0
    """

    memory = None
    transform_input = None
    verbose = False

    def __init__(self, steps: Any, *, public: Collection[str] = ()) -> None:
        self.steps = steps
        self.public = public

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **params: Any) -> Self:
        """Fit the private classifier behind the other steps.

        Parameters
        ----------
        X, y : array-like, DataFrame, sparse matrix, memory-mapped array, Chunks or Dask collection
            Training rows and their labels, as the classifier takes them. Steps see chunks one after the other.
        sample_weight, groups : array-like or None
            For the classifier: weights of rows, and whose row it is.
        **params
            ``<last step>__sample_weight`` and the like, as scikit-learn spells it. Other steps get nothing.

        Returns
        -------
        self
            The fitted pipeline.
        """
        self.steps = list(self.steps)
        self._validate_steps()
        name, last = self.steps[-1]
        _require_names(self.steps)
        model = private_model(last)
        self.in_front().require()
        given = {"sample_weight": sample_weight, "groups": groups} | _for_last(name, params)
        given = {key: value for key, value in given.items() if value is not None}
        if len(self.steps) == 1:
            last.fit(X, y, **given)
            return self
        _require_suitable(model, last, X)
        front = clone(self[:-1])
        with settled(front, lot()):
            seen = seen_in_fit(front, X, y, numbers=model.columns is None)
            _require_types(model, seen)
            last.fit(seen, y, **given)
        self.steps[:-1] = front.steps
        return self

    def check(self) -> PipelineCheck:
        """Return what is known of each step: :func:`~dpsk.check_pipeline` of this pipeline."""
        return check_pipeline(self, public=self.public)

    def in_front(self) -> PipelineCheck:
        """Return what is known of the steps in front, those inside of a search at the end included.

        The last step says of itself whether it is private.
        """
        name, last = self.steps[-1]
        searched = f"{name} > estimator > "  # steps of a pipeline inside of a search
        shown = [
            one
            for one in self.check().verdicts
            if one.name.partition(" > ")[0] != name
            or (
                hasattr(last, "param_distributions")
                and (one.name.startswith(searched) or (one.name == name and one.verdict == "unknown"))
            )
        ]
        return PipelineCheck(tuple(shown))

    def __getitem__(self, ind: Any) -> Any:
        """Return one step, or a part of the pipeline: a private one if it has the last step."""
        if not isinstance(ind, slice):
            return super().__getitem__(ind)
        if ind.step not in (1, None):
            raise ValueError("steps of a pipeline can be taken one after the other only: leave out the step of a slice")
        part = self.steps[ind]
        return PrivatePipeline(part, public=self.public) if part[-1:] == self.steps[-1:] else Pipeline(part)

    @property
    def privacy_spent_(self) -> PrivacySpent:
        """The guarantee of the fit."""
        spent: PrivacySpent = self.steps[-1][1].privacy_spent_
        return spent

    @property
    def ledger(self) -> PrivacyLedger | None:
        """The ledger of the last step, which is that of the pipeline."""
        return as_ledger(self.steps[-1][1].ledger)

    def statement(self) -> str:
        """Return a paragraph for a report: the guarantee, and what is known of the steps in front."""
        text, front = self.privacy_spent_.statement(), [name for name, _ in self.steps[:-1]]
        if not front:
            return text
        vouched = [found.name for found in self.in_front().verdicts if found.verdict == "vouched for"]
        text += (
            f" The steps in front of the model ({', '.join(front)}) learn nothing from rows and treat each by itself."
        )
        return text + (f" For {', '.join(vouched)} that was vouched for, not checked." if vouched else "")

    def to_sklearn(self) -> Pipeline:
        """Return a plain pipeline of scikit-learn that predicts the same: it works where dpsk is not installed."""
        made: Pipeline = plain(self)
        return made

    def to_onnx(self, X: Any, **options: Any) -> Any:
        """Return the pipeline as a model of ONNX, if skl2onnx knows its other steps.

        Parameters
        ----------
        X : array-like
            A row or more, made up if you like: the names and types of its columns become those of the inputs.
        **options
            Those of ``skl2onnx.to_onnx``.
        """
        return onnx_of_pipeline(self, X, **options)

    def _seen(self, X: Any) -> Any:
        check_is_fitted(self)
        last = self.steps[-1][1]
        return X if len(self.steps) == 1 else seen_in_prediction(self[:-1], X, last.n_features_in_)

    def predict(self, X: Any) -> Any:
        """Return the predicted class labels."""
        return self.steps[-1][1].predict(self._seen(X))

    @available_if(_last_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class."""
        return self.steps[-1][1].predict_proba(self._seen(X))

    @available_if(_last_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of the probability of each class."""
        return self.steps[-1][1].predict_log_proba(self._seen(X))

    @available_if(_last_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the scores."""
        return self.steps[-1][1].decision_function(self._seen(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on these rows: an exact fact about them. :func:`~dpsk.private_score` pays for one."""
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = get_tags(self.steps[-1][1]).non_deterministic
        return tags


def make_pipeline(*steps: Any, public: Collection[Any] = ()) -> PrivatePipeline:
    """Return a :class:`~dpsk.PrivatePipeline` of these steps, which get their names from their types.

    Parameters
    ----------
    *steps : estimators
        The last one is a classifier of dpsk or a search over one.
    public : list of names or steps, default=()
        Steps that you vouch for, see :class:`~dpsk.PrivatePipeline`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import FunctionTransformer, StandardScaler
    >>> from dpsk import DPLogisticRegression, make_pipeline
    >>> make_pipeline(FunctionTransformer(np.log1p), DPLogisticRegression()).check().safe
    True
    >>> make_pipeline(StandardScaler(), DPLogisticRegression()).check().safe
    False
    """
    named = make_plain_pipeline(*steps).steps
    names = {id(step): name for name, step in named}
    return PrivatePipeline(named, public=[names.get(id(step), step) for step in public])


def private_model(last: Any) -> PrivateClassifier:
    """Return the classifier of dpsk at the end of a pipeline, or inside of dpsk's own search or adjustment there.

    Raises ValueError for any other last step: nothing pays for what it learns, or nobody adds up its fits.
    """
    model = last
    if hasattr(last, "budget_of_fit"):  # dpsk's own search or adjustment
        while not isinstance(model, PrivateClassifier) and hasattr(model, "estimator"):
            model = model.estimator
        while isinstance(model, Pipeline):
            model = model.steps[-1][1]
    if not isinstance(model, PrivateClassifier):
        raise ValueError(
            "the last step of a PrivatePipeline is a classifier of dpsk, PrivateSearchCV, PrivateThreshold or "
            f"PrivateCalibration, and {type(last).__name__} is none of these. Give a pipeline its steps one by one; "
            "end with DPLogisticRegression, or with DPTabularClassifier for text and numbers as they are; put "
            "meta-estimators around the PrivatePipeline"
        )
    return model


def _require_suitable(model: PrivateClassifier, last: Any, X: Any) -> None:
    """Raise ValueError for ids that no step may see, and for tables of which nobody knows what an empty row is."""
    for column in (model.group_column, getattr(last, "group_column", None)):
        if column is not None:
            raise ValueError(
                f"group_column={column!r} of a step behind others would be seen by those: leave it at None, leave the "
                "column out of X, and give the ids to fit as groups"
            )
    if not (is_dask(X) or isinstance(X, Chunks) or hasattr(X, "shape")):
        raise ValueError(
            f"X is a {type(X).__name__}, whose columns have no types, so all rows together would decide them: give the "
            "pipeline a DataFrame or an array; for texts or dicts one of objects, np.array(X, dtype=object)"
        )


def _require_names(steps: Any) -> None:
    """Raise ValueError for names that look like the path of a step in a step."""
    for name, _ in steps:
        if ">" in name:
            raise ValueError(
                f"the name {name!r} of a step holds '>', which stands between the names of a path: rename it"
            )


def _require_types(model: PrivateClassifier, seen: Any) -> None:
    """Raise ValueError for an array of objects in front of a model of raw tables whose columns nobody has declared."""
    if getattr(getattr(seen, "dtype", None), "kind", "") == "O" and isinstance(model.columns, str):
        raise ValueError(
            "the steps in front return an array of objects, whose columns have no types, so all of them would be read "
            "as categories. Declare them by position, columns={0: Number(0, 20), 1: Categories()}, or give "
            f"{type(model).__name__} the table as it is"
        )


def _for_last(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return what is for the last step; raise TypeError for anything else."""
    others = [key for key in params if not key.startswith(f"{name}__")]
    if others:
        raise TypeError(
            f"fit got unexpected arguments: {', '.join(sorted(others))}. It takes X, y, sample_weight, groups and what "
            f"begins with {name}__; steps in front get rows only"
        )
    return {key.removeprefix(f"{name}__"): value for key, value in params.items()}
