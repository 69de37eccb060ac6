"""LoRA by peft: small trained weights beside a model's own, which are frozen."""

from __future__ import annotations

import re
import warnings
from typing import Any
from unittest import mock

from torch.nn import Module

from instances.extract.models.four_bit_linear import pack_linear_layers
from instances.extract.own.own_function import parse_argument
from instances.extract.step_settings import LORA_BITS
from planners.errors import InstanceError, MissingDependencyError
from planners.text.plain_text import describe_error

LORA = "--lora"
# A comma that is not within brackets.
_BETWEEN = re.compile(r",(?![^\[]*\])")


def with_lora(module: Module, settings: str) -> Module:
    """Return a model with the weights that ``peft.LoraConfig`` of these settings adds.

    Settings are ``r=16,target_modules=[q_proj,v_proj]``. The weights are of float32, as peft makes
    them. With ``bits=4`` the model's own have 4 bits, as in QLoRA.
    """
    given: dict[str, Any] = dict(parse_argument(LORA, one) for one in _BETWEEN.split(settings))
    bits = given.pop(LORA_BITS, None)
    if bits not in (None, 4):
        raise InstanceError(
            f"{LORA} {settings}: {LORA_BITS}: 4 or nothing is needed, found {bits!r}"
        )
    if bits:
        pack_linear_layers(module, _output_of(module))
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingDependencyError(f"{LORA} needs peft ({error})", "programs") from None
    # peft makes new weights in float32, converts them to the dtype of the model's and back. The
    # conversions change nothing then, and fail on fake tensors.
    stays = mock.patch.object(Module, "to", lambda module, *_, **__: module)
    wrap: Any = get_peft_model  # typed for models of transformers only
    try:
        with stays, warnings.catch_warnings():
            # peft asks transformers by a name that the latter deprecates.
            warnings.simplefilter("ignore", FutureWarning)
            read = {name: _listed(LoraConfig, name, value) for name, value in given.items()}
            made: Module = wrap(module, LoraConfig(**read))
    except (TypeError, ValueError) as error:
        raise InstanceError(f"{LORA} {settings}: peft: {describe_error(error)}") from error
    return made


def _output_of(module: Module) -> Module | None:
    """Return the layer that trainers leave as it is."""
    of_model = getattr(module, "get_output_embeddings", None)
    found: Module | None = None if of_model is None else of_model()
    return found


def _listed(configuration: Any, name: str, value: Any) -> Any:
    """Return the parts of a list, or of one name where peft takes names: a text is a pattern."""
    if not isinstance(value, str):
        return value
    field = configuration.__dataclass_fields__.get(name)
    takes_names = field is not None and "list[str]" in str(field.type)
    is_list = value.startswith("[") and value.endswith("]")
    if not is_list and not (takes_names and re.fullmatch(r"[\w.]+", value)):
        return value
    parts = [one.strip(" '\"") for one in value.strip("[]").split(",")]
    return [int(one) if one.isdecimal() else one for one in parts]
