"""The models that can be extracted: a registry, and one file a family that fills it, and files."""

# Importing a family registers its models.
from instances.extract.models import image_models as image_models
from instances.extract.models import language_models as language_models
from instances.extract.models.model_registry import MODELS as MODELS
from instances.extract.models.model_registry import Model as Model
from instances.extract.models.model_registry import register as register
from instances.extract.models.named_model import find_model as find_model

__all__ = ["MODELS", "Model", "find_model", "register"]
