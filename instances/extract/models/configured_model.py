"""A model of transformers by its configuration file: the class it names, without weights."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances.extract.models.image_models import image_batch
from instances.extract.models.model_registry import Model
from instances.extract.models.required_packages import require_packages
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import LARGEST, StepSettings
from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.json_file import read_json, refuse
from planners.text.plain_text import describe_error, shown

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SUFFIX = ".json"
# Tokens in a sequence and pixels of an image if nobody says how many; guesses.
SEQ = 2048
IMAGE = 224
# Heads whose label is one class for each sequence, and not one for each token.
ONE_LABEL = "ForSequenceClassification"
# transformers would take a dtype from here, but the precision is a setting of the step.
DTYPE_FIELDS = ("dtype", "torch_dtype")


def is_configuration(name: str) -> bool:
    return name.endswith(SUFFIX)


@cache
def configured_model(path: Path) -> Model:
    """Return the model that a ``config.json`` of transformers describes."""
    with errors_at(str(path)):
        fields = _without_dtypes(read_json(path))
        if not isinstance(fields, dict):
            refuse("file", "an object", fields)
        if "quantization_config" in fields:
            raise InstanceError(
                "field quantization_config: quantised weights cannot be trained; leave the field "
                "out, and the weights have the precision of the step"
            )
        require_packages()
        with transformers_errors():
            network = _network_of(fields)
            config = _config_of(fields)
            recomputed = _recomputed(network, config)
    defaults = _defaults(network, config)

    def build(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
        with errors_at(str(path)), transformers_errors():
            config = _config_of(fields)
            if settings.layers != defaults.layers:
                config.num_hidden_layers = settings.layers
            if settings.image is not None and hasattr(config, "image_size"):
                config.image_size = settings.image
            if settings.seq is not None:
                require_positions(settings, _positions(config))
            return network(config), _batch_of(network, settings)

    source = f"transformers.{network.__name__}({path.name})"
    return Model(path.name, source, build, defaults, recomputed)


@contextmanager
def transformers_errors(precision: str | None = None) -> Iterator[None]:
    """Say in one line what transformers or PyTorch finds wrong in a configuration.

    Some kernels, such as those of a mixture of experts, take one precision alone.
    """
    try:
        yield
    except GaplessError:
        raise
    except Exception as error:
        how = "" if precision is None else f" with --precision {precision}"
        raise InstanceError(f"the model cannot be traced{how}: {describe_error(error)}") from error


def _without_dtypes(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_dtypes(one) for key, one in value.items() if key not in DTYPE_FIELDS}


def _network_of(fields: dict[str, Any]) -> Any:
    """Return the class that the file names, else the language model of its kind."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = str(fields.get("model_type"))
    named = fields.get("architectures") or [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)]
    name = named[0] if isinstance(named, list) else named
    found = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise InstanceError(
            f"field architectures: a model of transformers {transformers.__version__} is needed, "
            f"such as LlamaForCausalLM, found {shown(name)}; for another one write a function"
        )
    network: Any = found
    if "labels" not in inspect.signature(network.forward).parameters:
        raise InstanceError(
            f"field architectures: a model that computes a loss from labels is needed, such as "
            f"LlamaForCausalLM, found {name}"
        )
    return network


def _config_of(fields: dict[str, Any]) -> Any:
    from transformers import CONFIG_MAPPING

    kind = str(fields.get("model_type"))
    if kind not in CONFIG_MAPPING:
        refuse("model_type", "a kind of model that transformers knows", kind)
    config: Any = CONFIG_MAPPING[kind].from_dict(fields)
    config.use_cache = False  # training keeps no keys and values for later tokens
    return config


def _recomputed(network: Any, config: Any) -> tuple[str, ...]:
    """Return the lists of layers that transformers recomputes under gradient checkpointing."""
    import torch
    from transformers.modeling_layers import GradientCheckpointingLayer

    with torch.device("meta"):
        module = network(config)
    return tuple(
        name
        for name, layers in module.named_modules()
        if isinstance(layers, torch.nn.ModuleList)
        and any(isinstance(layer, GradientCheckpointingLayer) for layer in layers)
    )


def _defaults(network: Any, config: Any) -> StepSettings:
    layers = getattr(config, "num_hidden_layers", None)
    layers = layers if isinstance(layers, int) else None
    if network.main_input_name == "pixel_values":
        image = getattr(config, "image_size", IMAGE)
        return StepSettings(1, None, image=image if type(image) is int else IMAGE, layers=layers)
    return StepSettings(1, min(SEQ, _positions(config)), layers=layers)


def _positions(config: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None)
    return positions if isinstance(positions, int) else LARGEST


def _batch_of(network: Any, settings: StepSettings) -> dict[str, Tensor]:
    if settings.image is not None:
        return image_batch(settings)
    batch = token_batch(settings, network.main_input_name)
    if settings.training and ONE_LABEL in network.__name__:
        batch["labels"] = batch["labels"][:, 0]
    return batch
