"""Extraction of instances from PyTorch models: a registry of models, or your own function."""

from instances.extract.own.one_step import TrainingStep as TrainingStep

__all__ = ["TrainingStep"]
