"""What other people's estimators say of the memory of a training, in bytes.

Note: each as it is used
------------------------
Rationale. Formulas count weights, gradients and states, and some of them activations. Each was made
for its own framework, and is asked here about trainings in plain PyTorch.

Approach. ``accelerate`` is its command ``estimate-memory``, whose function is called, at the
precision of the weights. ``deepspeed-zero2`` is ``estimate_zero2_model_states_mem_needs`` without
offload on one GPU: 4 bytes a parameter, and 16 shared among the GPUs. ``activations`` is the
formula of Korthikanti et al. 2022 (arXiv 2205.05198, table 2) that Megatron-LM's
``theoretical_memory_usage`` follows: 18 bytes a parameter and 34 s b h a layer, without the scores
of attention, which fused attention does not keep; a layer that is recomputed keeps 2 s b h.
``torch-mem-tracker`` is ``torch.distributed._tools.mem_tracker.MemTracker``, two steps on fake
tensors, as PyTorch's own tests use it.

Limits. All but the tracker take a model by its size. The tracker traces on the host, whose kernels
of attention differ from those of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from gpu_runtime.training.training_run import RegisteredModel
from instances.extract.models import find_model
from instances.extract.models.building import build_module
from instances.extract.record.training_loop import TrainingLoop, zero_inputs
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError


def estimate(name: str, training: RegisteredModel) -> int:
    """Ask the estimator of a name about the training of a model."""
    model = find_model(training.name)
    precision = training.settings.weights_precision
    settings = model.settings(**training.shape, precision=precision)
    with FakeTensorMode():
        module, batch = build_module(model, settings)
        return ESTIMATORS[name](training, settings, module, batch)


def _accelerate(_: RegisteredModel, settings: StepSettings, module: Any, __: Any) -> int:
    from accelerate.commands.estimate import estimate_training_usage

    size = sum(its.numel() * its.element_size() for its in module.parameters())
    return int(max(estimate_training_usage(size, settings.precision).values()))


def _deepspeed(_: RegisteredModel, __: StepSettings, module: Any, ___: Any) -> int:
    return 20 * sum(its.numel() for its in module.parameters())


def _activations(
    training: RegisteredModel, settings: StepSettings, module: Any, batch: dict[str, Any]
) -> int:
    config = getattr(module, "config", None)
    layers, width = (getattr(config, its, None) for its in ("num_hidden_layers", "hidden_size"))
    if settings.seq is None or not isinstance(layers, int) or not isinstance(width, int):
        raise InstanceError("the formula is one of layers of a decoder or an encoder of text")
    kept = (2 if settings.checkpointing else 34) * settings.batch * settings.seq * width * layers
    return 18 * sum(its.numel() for its in module.parameters()) + kept


def _mem_tracker(
    training: RegisteredModel, _: StepSettings, module: Any, batch: dict[str, Any]
) -> int:
    loop = TrainingLoop(
        module, lambda: zero_inputs(batch, module, "cpu"), training.settings, "cpu", lambda _: None
    )
    optimizer = loop.make_optimizer()
    tracker = MemTracker()
    tracker.track_external(module, optimizer)
    with tracker:
        for _step in range(2):
            loop.run_iteration(optimizer)
            tracker.reset_mod_stats()
    peak: int = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    return peak


ESTIMATORS: MappingProxyType[str, Callable[..., int]] = MappingProxyType(
    {
        "accelerate": _accelerate,
        "deepspeed-zero2": _deepspeed,
        "activations": _activations,
        "torch-mem-tracker": _mem_tracker,
    }
)
