"""Fitted models in forms that work without dpsk: JSON, plain scikit-learn, ONNX; and what skops has to trust."""

from .description import Description, described
from .json_form import json_of
from .trusted import TRUSTED_TYPES

__all__ = ["TRUSTED_TYPES", "Description", "described", "json_of"]
