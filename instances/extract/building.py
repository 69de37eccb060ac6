"""A registered model as a module that can be traced: precision, mode, recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

from instances.extract.models import Model
from instances.extract.settings import StepSettings

Build = Callable[[], tuple[Module, dict[str, Tensor]]]


def build_module(model: Model, settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build a model as the settings want it.

    Parameters
    ----------
    model
        What to build.
    settings
        That the model supports.

    Returns
    -------
    module : torch.nn.Module
        In training mode, or for inference in evaluation mode.
    batch : dict of torch.Tensor
        Keyword arguments of the module.
    """
    # Set before building, for Module.to(dtype) fails on fake tensors; and some ways to draw
    # weights look at what they drew, which a fake tensor cannot show.
    with _default_dtype(getattr(torch, settings.precision)), no_init_weights():
        module, batch = model.build(settings)
    if isinstance(module, PreTrainedModel):
        # Left out together with the initialisation.
        module.tie_weights()
    if settings.checkpointing:
        for name in model.recomputed:
            recompute_layers(module.get_submodule(name))
    return module.train(settings.training), batch


def recompute_layers(layers: Module) -> None:
    """Let the backward pass recompute each layer, of which only the inputs are kept.

    Parameters
    ----------
    layers
        Module whose children are the layers, in place.
    """
    for layer in layers.children():
        # The random state would be kept on the host; a trace draws no numbers.
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False
        )


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
