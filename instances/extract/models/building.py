"""A registered model as a module that can be traced: precision, mode, recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.nn import Module
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, noop_context_fn
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

from instances.extract.models import Model
from instances.extract.models.adapters import with_lora
from instances.extract.step_settings import StepSettings

aten = torch.ops.aten
# Operators whose results selective recomputation keeps: those that compute most.
KEPT = (
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten.baddbmm.default,
    aten._scaled_dot_product_cudnn_attention.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
)

Build = Callable[[], tuple[Module, dict[str, Any]]]


def build_module(
    model: Model, settings: StepSettings, *, is_computed: bool = False
) -> tuple[Module, dict[str, Any]]:
    """Build a model by its settings, in training or evaluation mode, and its batch.

    A run that computes numbers draws weights, and a recomputed layer draws the same random numbers
    again. A trace needs neither.
    """
    # Set before building, for Module.to(dtype) fails on fake tensors; and some ways to draw
    # weights look at what they drew, which a fake tensor cannot show.
    initialisation = nullcontext() if is_computed else no_init_weights()
    with _default_dtype(getattr(torch, settings.precision)), initialisation:
        module, batch = model.build(settings)
    if isinstance(module, PreTrainedModel) and not is_computed:
        # Left out together with the initialisation.
        module.tie_weights()
    if settings.checkpointing:
        for name in model.recomputed:
            recompute_layers(
                module.get_submodule(name),
                keeps_random_state=is_computed,
                is_selective=bool(settings.selective),
            )
    if settings.lora is not None:
        module = with_lora(module, settings.lora)
    return module.train(settings.training), batch


def recompute_layers(
    layers: Module, *, keeps_random_state: bool = False, is_selective: bool = False
) -> None:
    """Let the backward pass recompute each layer, of which only the inputs are kept.

    If selective, what matrix products and attention return is kept as well. The random state, with
    which a layer draws the same numbers again, is kept on the host.
    """
    for layer in layers.children():
        layer.forward = partial(
            checkpoint,
            layer.forward,
            use_reentrant=False,
            preserve_rng_state=keeps_random_state,
            context_fn=_keeping_products if is_selective else noop_context_fn,
        )


def _keeping_products() -> Any:
    make_contexts: Any = create_selective_checkpoint_contexts  # PyTorch leaves it untyped
    return make_contexts(list(KEPT))


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
