"""Pipelines in front of private classifiers: which steps learn from rows, and pipelines that refuse them."""

from .check import PipelineCheck, Verdict, check_pipeline
from .private_pipeline import PrivatePipeline, make_pipeline

__all__ = ["PipelineCheck", "PrivatePipeline", "Verdict", "check_pipeline", "make_pipeline"]
