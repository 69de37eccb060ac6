"""The models that can be extracted: a registry, and one file a family that fills it."""

# Importing a family registers its models.
from instances.extract.models import bert as bert
from instances.extract.models import causal_lm as causal_lm
from instances.extract.models import classifiers as classifiers
from instances.extract.models import detectors as detectors
from instances.extract.models import faces as faces
from instances.extract.models import mobilenet_v2_quant as mobilenet_v2_quant
from instances.extract.models import pangu as pangu
from instances.extract.models import qwen2_moe as qwen2_moe
from instances.extract.models import transformer as transformer
from instances.extract.models.model_registry import MODELS as MODELS
from instances.extract.models.model_registry import Model as Model
from instances.extract.models.model_registry import find_model as find_model
from instances.extract.models.model_registry import register as register

__all__ = ["MODELS", "Model", "find_model", "register"]
