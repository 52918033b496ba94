"""One plain description of a fitted model, from which all forms follow that can be taken away.

It holds what the fitted model holds, and nothing is computed from rows. So an exported model is post-processing of what
the fit released: it keeps the guarantee of the fit and costs nothing (docs/guarantees.md, 1.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..calibration import Curve, Temperature
from ..data.features import Features
from ..data.grid import LARGEST_ENTRY
from ..data.waves import Waves
from ..mechanisms.samplers import Floats
from ..networks.signals import SIGNAL_STEP
from ..privacy.report import PrivacySpent
from .hidden_layers import HiddenLayer, Inputs, hidden_of, inputs_of

Calibration: TypeAlias = Curve | Temperature

_LABELS = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "U": "text"}


@dataclass(frozen=True, eq=False)
class Threshold:
    """The second class is predicted where its probability, or the score without one, is at least ``value``."""

    value: float
    privacy: PrivacySpent


@dataclass(frozen=True, eq=False)
class Recalibration:
    """Probabilities follow anew, by ``calibration``: of log-odds or scores plus ``shift``, or of log-probabilities."""

    shift: float
    calibration: Calibration
    privacy: PrivacySpent


Adjustment: TypeAlias = Threshold | Recalibration


@dataclass(frozen=True, eq=False)
class Description:
    """A fitted model as its numbers.

    A row is clipped to [low, high], ``origin`` is taken off, and a row longer than ``data_norm`` is scaled down to it.
    Its scores are the products with ``coef``, plus ``constant``. Of a raw table ``features`` make the row first.

    Parameters
    ----------
    estimator : str
        The name of its class.
    classes : ndarray
        The labels. With two of them a row has one score, and a score above 0 is the second label. With more the first
        of the largest scores wins.
    n_features : int
    names : tuple of str or None
        The names of the columns.
    low, high, origin : ndarray of shape (n_features,)
        Of a raw table: empty, or of a network those of its features.
    data_norm : float or None
    coef : ndarray of shape (n_scores, n_columns)
    constant : ndarray of shape (n_scores,)
    calibration : Curve, Temperature or None
        The map from scores to log-odds.
    probabilities : {"logistic", "softmax", "one-vs-rest"} or None
        How probabilities follow from log-odds. None: there are none before an adjustment.
    features : Features or None
    waves : Waves or None
        Further columns, which follow from the row as it is. Their weights stand at the end of ``coef``.
    privacy : PrivacySpent
    adjustments : tuple of Threshold or Recalibration
        What held-out rows have changed afterwards, in order.
    inputs : Inputs or None
        How a row becomes the signals that a network takes; None where it is no network.
    hidden : tuple of HiddenLayer
        What these signals pass through. ``coef`` then belongs to the signals of the last of these layers.
    """

    estimator: str
    classes: NDArray[Any]
    n_features: int
    names: tuple[str, ...] | None
    low: Floats
    high: Floats
    origin: Floats
    data_norm: float | None
    coef: Floats
    constant: Floats
    calibration: Calibration | None
    probabilities: str | None
    features: Features | None
    waves: Waves | None
    privacy: PrivacySpent
    adjustments: tuple[Adjustment, ...] = ()
    inputs: Inputs | None = None
    hidden: tuple[HiddenLayer, ...] = ()

    def require_no_waves(self, form: str) -> None:
        """Raise ValueError for a model of waves, which a form does not have."""
        if self.waves is not None:
            name = "features" if self.features is None else "interactions"
            other = "with to_json(), " if self.features is None and form != "to_json()" else ""
            raise ValueError(
                f"{self.estimator} was fitted with {name}='fourier', which {form} does not have: take it away {other}"
                f"as a pickle or with skops, or fit it with {name}=None"
            )

    @property
    def label_type(self) -> str:
        """Which of "boolean", "integer", "number" and "text" the labels are; raise ValueError if they are none."""
        kind = self.classes.dtype.kind
        if kind == "O" and all(isinstance(label, str) for label in self.classes):
            return "text"
        if kind not in _LABELS:
            raise ValueError(
                f"classes_ are of type {self.classes.dtype}, which JSON and ONNX do not have: fit with labels that are "
                "text, numbers or booleans"
            )
        return _LABELS[kind]

    @property
    def statements(self) -> Iterator[str]:
        """The privacy statements of the fit, and of what came after it."""
        for spent in (self.privacy, *(step.privacy for step in self.adjustments)):
            yield spent.statement()

    @property
    def statement(self) -> str:
        """All of them in one paragraph."""
        return " ".join(self.statements)


def unwrapped(model: Any) -> Any:
    """Return the model inside of ``FrozenEstimator`` and of a search."""
    while True:
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


def described(model: Any) -> Description:
    """Return the description of a fitted model of this package; raise ValueError for what has none."""
    check_is_fitted(model)
    model = unwrapped(model)
    if hasattr(model, "privacy_spent_") and (hasattr(model, "coef_") or hasattr(model, "network_")):
        return _of_fit(model)
    if hasattr(model, "threshold_") and hasattr(model, "privacy_spent_"):
        return _adjusted(model, Threshold(float(model.threshold_), model.privacy_spent_))
    if hasattr(model, "shift_") and hasattr(model, "privacy_spent_"):
        return _adjusted(model, Recalibration(float(model.shift_), model.calibration_, model.privacy_spent_))
    raise ValueError(
        f"{type(model).__name__} is not described by numbers of dpsk alone, so it has no JSON and no ONNX graph of its "
        "own: take it away with to_sklearn(), or export a pipeline with skl2onnx after dpsk.register_onnx()"
    )


def _adjusted(model: Any, step: Adjustment) -> Description:
    inner = described(model.estimator)
    return replace(inner, adjustments=(*inner.adjustments, step))


def _of_fit(model: Any) -> Description:
    _require_own_predictions(model)
    names, encoder = (getattr(model, name, None) for name in ("feature_names_in_", "encoder_"))
    probabilities = _probabilities(model)
    return Description(
        estimator=type(model).__name__,
        classes=model.classes_,
        n_features=int(model.n_features_in_),
        names=None if names is None else tuple(names),
        data_norm=getattr(model, "data_norm_", None),
        calibration=None if probabilities is None else getattr(model, "calibration_", None),
        probabilities=probabilities,
        features=None if encoder is None else encoder.features,
        waves=getattr(model, "waves_", None),
        privacy=model.privacy_spent_,
        **(_network(model) if hasattr(model, "network_") else _linear(model, raw=encoder is not None)),
    )


def _linear(model: Any, *, raw: bool) -> dict[str, Any]:
    """Return what makes rows into scores under a linear model."""
    constant = np.array(model.intercept_, dtype=np.float64)
    ends = np.zeros((3, 0)) if raw else _ends(getattr(model, "ranges_", None), model.n_features_in_)
    low, high, origin = ends
    constant = constant + np.array([math.fsum(w * origin) for w in model.coef_[:, : len(origin)]])
    return {"low": low, "high": high, "origin": origin, "coef": model.coef_, "constant": constant}


def _network(model: Any) -> dict[str, Any]:
    """Return the same for a network: the products of its last layer are with signals."""
    trained = model.network_
    columns = trained.how.columns
    ranges = None if columns is None else (columns.low, columns.high)
    low, high, origin = _ends(ranges, trained.network.n_inputs)
    last = trained.matrices[-1]
    return {
        "low": low,
        "high": high,
        "origin": origin,
        "inputs": inputs_of(trained.how),
        "hidden": tuple(hidden_of(trained.network, trained.weights)),
        "coef": last[:-1].T * SIGNAL_STEP,
        "constant": last[-1],
    }


def _ends(ranges: Any, n_columns: int) -> Floats:
    """Return what columns are clipped to, and the origin within."""
    low, high = np.array([[-1.0], [1.0]]) * np.full((2, n_columns), LARGEST_ENTRY) if ranges is None else ranges
    return np.array([low, high, np.clip(0.0, low, high)])


def _probabilities(model: Any) -> str | None:
    if not hasattr(model, "predict_proba"):
        return None
    return "logistic" if len(model.classes_) == 2 else str(model.probabilities_of_several)


def _require_own_predictions(model: Any) -> None:
    """Raise ValueError for a class of somebody else that predicts in another way than the numbers say."""
    for name in ("predict", "decision_function", "predict_proba"):
        method = getattr(type(model), name, None)
        if method is not None and method.__module__.split(".")[0] != "dpsk":
            raise ValueError(
                f"{type(model).__name__} has a {name} of its own, which no exported form would follow: leave it to dpsk"
            )
