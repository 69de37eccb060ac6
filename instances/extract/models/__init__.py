"""The models that can be extracted: a registry, and one file a family that fills it."""

# Importing a family registers its models.
from instances.extract.models import bert as bert
from instances.extract.models.registry import MODELS as MODELS
from instances.extract.models.registry import Model as Model

__all__ = ["MODELS", "Model"]
