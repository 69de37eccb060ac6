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

import json
import logging
import os
import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from instances.extract.models.model_registry import Model
from instances.extract.models.required_packages import require_packages
from instances.extract.models.task_batches import batch_form, field_of, left_out, parts_of
from instances.extract.models.tokens import require_positions
from instances.extract.step_settings import LARGEST, StepSettings
from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.json_file import read_json, refuse
from planners.processes.isolated_process import MOST_ANSWER_BYTES, Ended, call_isolated
from planners.text.byte_units import human_bytes
from planners.text.plain_text import describe_error, shown

if TYPE_CHECKING:
    from torch.nn import Module

SUFFIX = ".json"
# Fields of configurations: the most tokens of a sequence, and the number of layers.
POSITIONS = ("max_position_embeddings", "max_target_positions")
LAYERS = ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
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
            positions, defaults, recomputed = _first_made(network, fields)

    def build(settings: StepSettings) -> tuple[Module, dict[str, Any]]:
        with errors_at(str(path)), transformers_errors():
            config = _config_of(fields)
            if settings.layers != defaults.layers:
                _set_layers(config, settings.layers or 1)
            for part in parts_of(config) if settings.image != defaults.image else ():
                if hasattr(part, "image_size"):
                    part.image_size = settings.image
            if settings.seq is not None:
                require_positions(settings, positions)
            form = batch_form(network, config, training=settings.training)
            return network(config), form.batch(settings)

    without = "".join(f" without {name}" for name in left_out(network))
    source = f"transformers.{network.__name__}({path.name}){without}"
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


def _first_made(network: Any, fields: dict[str, Any]) -> tuple[int, StepSettings, tuple[str, ...]]:
    """Make the model in a process of its own; return its positions, defaults, recomputed layers."""

    def in_the_child() -> bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_PROCESSOR_SECONDS, hard))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        try:
            with transformers_errors():
                return json.dumps(_facts_of(network, _config_of(fields))).encode()
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
    positions, seq, image, layers, recomputed = said
    return positions, StepSettings(1, seq, image=image, layers=layers), tuple(recomputed)


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
    return found


def _config_of(fields: dict[str, Any]) -> Any:
    from transformers import CONFIG_MAPPING

    kind = str(fields.get("model_type"))
    if kind not in CONFIG_MAPPING:
        refuse("model_type", "a kind of model that transformers knows", kind)
    config: Any = CONFIG_MAPPING[kind].from_dict(fields)
    for part in parts_of(config):
        _prepare(part)
    config.use_cache = False  # training keeps no keys and values for later tokens
    return config


def _prepare(config: Any) -> None:
    """Refuse settings that cannot be traced, and leave out the dtype."""
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


def _facts_of(network: Any, config: Any) -> tuple[Any, ...]:
    """Return positions, tokens of a sequence, pixels of an image, layers, and lists of layers.

    The lists are those that transformers recomputes under gradient checkpointing.
    """
    import torch
    from transformers.modeling_layers import GradientCheckpointingLayer

    form = batch_form(network, config, training=True)
    with torch.device("meta"):
        module = network(config)
        positions = _positions(config, module) if "seq" in form.words else LARGEST
        lengths = positions, form.default_seq(positions), form.default_image()
        recomputed = [
            name
            for name, layers in module.named_modules()
            if isinstance(layers, torch.nn.ModuleList)
            and any(isinstance(layer, GradientCheckpointingLayer) for layer in layers)
        ]
        return *lengths, _layers(network, config, module), recomputed


def _layers(network: Any, config: Any, module: Any) -> int | None:
    """Return the layers of a configuration if the stacks of its model have and follow them."""
    layers = getattr(config, LAYERS[0], None)
    if not isinstance(layers, int):
        return None
    other = 2 if layers == 1 else 1
    _set_layers(config, other)
    try:
        stacks, others = (_stack_lengths(one) for one in (module, network(config)))
    except Exception:  # whatever a model says if other fields do not fit
        return None
    changes = {(stacks[name], others[name]) for name in stacks.keys() & others.keys()}
    return layers if {one for one in changes if one[0] != one[1]} == {(layers, other)} else None


def _set_layers(config: Any, layers: int) -> None:
    for name in filter(partial(hasattr, config), LAYERS):
        setattr(config, name, layers)


def _stack_lengths(module: Module) -> dict[str, int]:
    from torch.nn import ModuleList

    return {name: len(one) for name, one in module.named_modules() if isinstance(one, ModuleList)}


def _positions(config: Any, module: Any) -> int:
    """Return the most tokens of a sequence."""
    fields = (field_of(config, name) for name in POSITIONS)
    limits = [one for one in fields if isinstance(one, int) and one > 0] or [LARGEST]
    # A table with a row for padding has its first position behind that row.
    in_tables: list[int] = [
        one.num_embeddings - one.padding_idx - 1
        for name, one in module.named_modules()
        if name.endswith("position_embeddings") and getattr(one, "padding_idx", None) is not None
    ]
    return min([limits[0], *in_tables])
