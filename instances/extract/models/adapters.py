"""LoRA by peft: small trained weights beside a model's own, which are frozen."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

from torch.nn import Module

from instances.extract.own.own_function import parse_argument
from planners.errors import InstanceError, MissingDependencyError
from planners.text.plain_text import describe_error

LORA = "--lora"


def with_lora(module: Module, settings: str) -> Module:
    """Return a model with the weights that ``peft.LoraConfig`` of these settings adds.

    Settings are ``r=16,lora_alpha=32``. The weights are of float32, as peft makes them.
    """
    given: dict[str, Any] = dict(parse_argument(LORA, one) for one in settings.split(","))
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
            made: Module = wrap(module, LoraConfig(**given))
    except (TypeError, ValueError) as error:
        raise InstanceError(f"{LORA} {settings}: peft: {describe_error(error)}") from error
    return made
