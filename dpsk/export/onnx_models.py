"""Fitted models as ONNX, through skl2onnx: alone, and as the last step of pipelines."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..data import Number
from .description import Description, described, unwrapped
from .field_terms import require_readable
from .onnx_graph import predictions, scores
from .onnx_nodes import Graph

_TYPES = {
    "boolean": ("BooleanTensorType", np.bool_),
    "integer": ("Int64TensorType", np.int64),
    "number": ("DoubleTensorType", np.float64),
    "text": ("StringTensorType", np.str_),
}


def require_skl2onnx() -> Any:
    """Return the module skl2onnx; raise ImportError if it is not there."""
    try:
        return import_module("skl2onnx")
    except ImportError:
        raise ImportError('ONNX needs skl2onnx: pip install "dpsk[onnx]"') from None


def onnx_of(model: Any, **options: Any) -> Any:
    """Return a fitted model as a model of ONNX; ``options`` are those of ``skl2onnx.to_onnx``."""
    skl2onnx = require_skl2onnx()
    check_is_fitted(model)
    model = unwrapped(model)
    if isinstance(model, Pipeline):
        raise ValueError(
            "the model is a pipeline, whose inputs skl2onnx has to know: call dpsk.register_onnx(), and then "
            "skl2onnx.to_onnx(pipeline, X[:1])"
        )
    of = described(model)
    of.require_no_waves("to_onnx()")
    register([type(model)])
    outputs = [("label", None), ("probabilities" if _has_probabilities(of) else "scores", None)]
    settings = {"initial_types": _inputs(of), "final_types": outputs, "options": {id(model): {"zipmap": False}}}
    return _with_statement(skl2onnx.to_onnx(model, **{**settings, **options}), of)


def onnx_of_pipeline(pipeline: Pipeline, X: Any, **options: Any) -> Any:
    """Return a fitted pipeline as a model of ONNX whose inputs are like X."""
    skl2onnx = require_skl2onnx()
    check_is_fitted(pipeline)
    last = unwrapped(pipeline.steps[-1][1])
    of = described(last)
    register([type(last)])
    plain = Pipeline([*pipeline.steps[:-1], (pipeline.steps[-1][0], last)])
    return _with_statement(skl2onnx.to_onnx(plain, X, **{"options": {id(last): {"zipmap": False}}, **options}), of)


def _with_statement(made: Any, of: Description) -> Any:
    entry = made.metadata_props.add()
    entry.key, entry.value = "privacy", of.statement
    made.doc_string = f"{of.estimator} of dpsk. {of.statement}"
    return made


def register(kinds: list[type]) -> None:
    """Tell skl2onnx how models of these classes are converted."""
    skl2onnx = require_skl2onnx()
    for kind in kinds:
        skl2onnx.update_registered_converter(
            kind,
            f"Dpsk{kind.__name__}",
            _set_shapes,
            _convert,
            options={"zipmap": [True, False, "columns"], "output_class_labels": [False, True], "nocl": [True, False]},
        )


def _has_probabilities(of: Description) -> bool:
    return of.probabilities is not None or any(hasattr(step, "calibration") for step in of.adjustments)


def _inputs(of: Description) -> list[tuple[str, Any]]:
    """Return the names and types of the inputs: one matrix, or the columns of a raw table."""
    types = import_module("skl2onnx.common.data_types")
    if of.features is None:
        return [("X", types.DoubleTensorType([None, of.n_features]))]
    schema = of.features.schema
    require_readable(schema, "to_onnx", "ONNX")
    columns = zip(schema.names, schema.kinds, strict=True)
    return [
        (name, (types.DoubleTensorType if isinstance(kind, Number) else types.StringTensorType)([None, 1]))
        for name, kind in columns
        if kind is not None
    ]


def _set_shapes(operator: Any) -> None:
    types, of = import_module("skl2onnx.common.data_types"), described(operator.raw_operator)
    n_rows = operator.inputs[0].get_first_dimension()
    width = len(of.classes) if _has_probabilities(of) or len(of.classes) > 2 else 1
    operator.outputs[0].set_type(getattr(types, _TYPES[of.label_type][0])([n_rows]))
    in_single = isinstance(operator.inputs[0].type, types.FloatTensorType)
    number = types.FloatTensorType if in_single else types.DoubleTensorType
    operator.outputs[1].set_type(number([n_rows, width]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a model to a graph."""
    of, graph = described(operator.raw_operator), Graph(scope, container)
    of.require_no_waves("ONNX")
    found = scores(graph, of, [one.full_name for one in operator.inputs])
    label, sure = predictions(graph, of, found)
    graph.add("Gather", of.classes.astype(_TYPES[of.label_type][1]), label, output=operator.outputs[0].full_name)
    precision = operator.outputs[1].type.to_onnx_type().tensor_type.elem_type
    graph.add("Cast", sure, output=operator.outputs[1].full_name, to=precision)
