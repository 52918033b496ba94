"""The forms in which fitted models can be taken away, as methods."""

from collections.abc import Iterator
from inspect import isabstract
from typing import Any

from ..export.description import described
from ..export.json_form import json_of
from ..export.onnx_models import onnx_of, register, require_skl2onnx
from ..export.plain_models import plain


class Exported:
    """Methods of fitted models that return them in other forms: docs/export.md tells which is for what.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 1.3)
    All forms follow from the fitted model alone, so they keep the guarantee of the fit and cost nothing.
    """

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the fitted model as JSON, which any language can read and score with.

        It holds the numbers of the model and the privacy statement. Floats keep all of their digits.

        Parameters
        ----------
        indent : int or None
            As for ``json.dumps``.
        """
        return json_of(described(self), indent=indent)

    def to_sklearn(self) -> Any:
        """Return a plain scikit-learn object that predicts the same: it works where dpsk is not installed.

        It is a pipeline of clipping and a linear classifier, with the hidden layers of a network or a calibration in
        between where there are any; with a calibration ``decision_function`` returns the calibrated log-odds.
        Probabilities are equal to 1e-12. It takes rows in memory, no sparse matrix, and no column of ids.
        """
        return plain(self)

    def to_onnx(self, **options: Any) -> Any:
        """Return the fitted model as a model of ONNX, with the privacy statement in its metadata.

        It takes one matrix ``X`` of doubles, and returns ``label`` and ``probabilities``, or ``scores`` where the model
        has no probabilities. A model of raw tables takes one input for each column, of shape (n, 1): doubles, in which
        NaN is missing, or text for categories, in which an empty one is missing. Needs ``pip install "dpsk[onnx]"``.

        Parameters
        ----------
        **options
            Those of ``skl2onnx.to_onnx``, such as ``target_opset``.
        """
        return onnx_of(self, **options)


def register_onnx() -> None:
    """Tell skl2onnx about the classifiers of dpsk, so that it converts pipelines that end in one.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> import dpsk
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(FunctionTransformer(), dpsk.DPLogisticRegression(epsilon=4.0)).fit(X, y)
    >>> import skl2onnx  # doctest: +SKIP
    >>> dpsk.register_onnx()  # doctest: +SKIP
    >>> skl2onnx.to_onnx(model, X[:1])  # doctest: +SKIP
    """
    require_skl2onnx()
    register([kind for kind in _below(Exported) if not isabstract(kind)])


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
