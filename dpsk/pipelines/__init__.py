"""Pipelines of transformers in front of a private classifier: what their steps learn, and what may stand there."""

from .check import PipelineCheck, check_pipeline
from .private_pipeline import PrivatePipeline, make_pipeline
from .steps import verdict_of
from .verdicts import Verdict

__all__ = ["PipelineCheck", "PrivatePipeline", "Verdict", "check_pipeline", "make_pipeline", "verdict_of"]
