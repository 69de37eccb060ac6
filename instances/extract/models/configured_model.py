"""A model of transformers by its configuration file: the class it names, without weights.

Note: a first model in a process of its own
-------------------------------------------
Rationale. A configuration is an untrusted file of some hundred bytes. Any number in it may be a
number of labels, of layers or of steps of a loop, and some fields make transformers download
something, or ask on the terminal whether to run the code of a stranger.

Approach. The configuration and the model, on the device meta, are made in a child process first.
Its time and its memory are bounded, it has no terminal, and as in all work of transformers here,
Python finds no address of a network. If a file passes, its model is made again for each trace.

Limits. The steps of a trace are not bounded: a model of many layers passes and is traced for long.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from instances.extract.models.image_models import image_batch
from instances.extract.models.model_registry import Model
from instances.extract.models.required_packages import require_packages
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import LARGEST, StepSettings
from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.json_file import read_json, refuse
from planners.processes.isolated_process import MOST_ANSWER_BYTES, Ended, call_isolated
from planners.text.byte_units import human_bytes
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
NO_NETWORK = "a configuration may not make transformers download anything"
# Limits of the process that first makes a model. A mixture of 671 billion parameters takes 0.1 s
# and 5 MB, and a Llama of 2,000 layers 3 s and 80 MB.
MOST_PROCESSOR_SECONDS = 10
MOST_SECONDS = 120.0
MOST_BYTES = 1 << 30


def is_configuration(name: str) -> bool:
    return name.endswith(SUFFIX)


@cache
def configured_model(path: Path) -> Model:
    """Return the model that a ``config.json`` of transformers describes."""
    with errors_at(str(path)):
        fields = read_json(path)
        if not isinstance(fields, dict):
            refuse("file", "an object", fields)
        require_packages()
        with transformers_errors():
            network = _network_of(fields)
            defaults, recomputed = _first_made(network, fields)

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

    They log nothing beside that line, and Python finds no address of a network. Some kernels, such
    as those of a mixture of experts, take one precision alone.
    """
    disabled = logging.root.manager.disable
    logging.disable()
    try:
        refuses = mock.patch("socket.getaddrinfo", side_effect=OSError(NO_NETWORK))
        with warnings.catch_warnings(), refuses:
            warnings.simplefilter("ignore")
            yield
    except GaplessError:
        raise
    except Exception as error:
        how = "" if precision is None else f" with --precision {precision}"
        raise InstanceError(f"the model cannot be traced{how}: {describe_error(error)}") from error
    finally:
        logging.disable(disabled)


def _first_made(network: Any, fields: dict[str, Any]) -> tuple[StepSettings, tuple[str, ...]]:
    """Make the model in a process of its own; return its defaults and its recomputed layers."""

    def in_the_child() -> bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_PROCESSOR_SECONDS, hard))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        try:
            with transformers_errors():
                config = _config_of(fields)
                seq, image, layers = _default_shape(network, config)
                return json.dumps([seq, image, layers, _recomputed(network, config)]).encode()
        except InstanceError as error:
            # Code of C may lose the error of a refused allocation; Python says SystemError then.
            too_large = isinstance(error.__cause__, (MemoryError, SystemError))
            return json.dumps(None if too_large else str(error)).encode()

    sent = call_isolated(
        in_the_child, seconds=MOST_SECONDS, memory_bytes=MOST_BYTES, most_bytes=MOST_ANSWER_BYTES
    )
    said = None if isinstance(sent, Ended) else json.loads(sent)
    if isinstance(said, str):
        raise InstanceError(said)
    if said is None:
        took = sent.how if isinstance(sent, Ended) else "took more memory"
        raise InstanceError(
            f"smaller numbers are needed: without weights, a model is made within "
            f"{MOST_PROCESSOR_SECONDS} s of processor time and {human_bytes(MOST_BYTES)}, but "
            f"the process that made this one {took}"
        )
    seq, image, layers, recomputed = said
    return StepSettings(1, seq, image=image, layers=layers), tuple(recomputed)


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
    _prepare(config)
    config.use_cache = False  # training keeps no keys and values for later tokens
    return config


def _prepare(config: Any) -> None:
    """Refuse what is not traced, in all parts of a configuration, and leave out their dtypes."""
    from transformers import PreTrainedConfig

    # transformers would take the dtype from here, but the precision is a setting of the step.
    config.dtype = None
    if getattr(config, "quantization_config", None) is not None:
        raise InstanceError(
            "field quantization_config: quantised weights cannot be trained; leave the field "
            "out, and the weights have the precision of the step"
        )
    for field in ("attn_implementation", "experts_implementation"):
        name = getattr(config, f"_{field}", None)
        if "/" in str(name):
            refuse(field, "code of transformers, such as 'sdpa', and no repository of a hub", name)
    for part in vars(config).values():
        if isinstance(part, PreTrainedConfig):
            _prepare(part)


def _recomputed(network: Any, config: Any) -> list[str]:
    """Return the lists of layers that transformers recomputes under gradient checkpointing."""
    import torch
    from transformers.modeling_layers import GradientCheckpointingLayer

    with torch.device("meta"):
        module = network(config)
    return [
        name
        for name, layers in module.named_modules()
        if isinstance(layers, torch.nn.ModuleList)
        and any(isinstance(layer, GradientCheckpointingLayer) for layer in layers)
    ]


def _default_shape(network: Any, config: Any) -> tuple[int | None, int | None, int | None]:
    """Return the tokens of a sequence, the pixels of an image and the layers, as far as it has."""
    layers = getattr(config, "num_hidden_layers", None)
    layers = layers if isinstance(layers, int) else None
    if network.main_input_name == "pixel_values":
        image = getattr(config, "image_size", IMAGE)
        return None, image if type(image) is int else IMAGE, layers
    return min(SEQ, _positions(config)), None, layers


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
