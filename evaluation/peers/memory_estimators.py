"""Estimates of the memory of a training by other people's tools, in bytes.

Note: each as it is used
------------------------
Rationale. Formulas count weights, gradients and states, and some of them activations.

Approach. ``accelerate`` is the function of its command ``estimate-memory``. ``deepspeed-zero2`` is
``estimate_zero2_model_states_mem_needs`` on one GPU without offload, 4 + 16 bytes a parameter.
``activations`` is the formula of arXiv 2205.05198, table 2, which Megatron-LM follows: 18 bytes a
parameter, and 34 s b h a layer or 2 s b h if it is recomputed, without the scores, which fused
attention does not keep. ``torch-mem-tracker`` is PyTorch's own ``MemTracker``, two steps on fake
tensors.

Limits. The tracker traces on the host, whose kernels of attention differ from those of a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate.commands.estimate import estimate_training_usage
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from gpu_runtime.training.training_run import RegisteredModel
from instances.extract.models import find_model
from instances.extract.models.building import build_module
from instances.extract.record.training_loop import TrainingLoop, zero_inputs
from planners.errors import InstanceError


def estimate(name: str, training: RegisteredModel) -> int:
    """Ask the estimator of a name about the training of a model."""
    model, precision = find_model(training.name), training.settings.weights_precision
    settings = model.settings(**training.shape, precision=precision)
    with FakeTensorMode():
        module, batch = build_module(model, settings)
        if name == "torch-mem-tracker":
            return _tracked(training, module, batch)
    weights = list(module.parameters())
    if name == "accelerate":
        size = sum(its.numel() * its.element_size() for its in weights)
        return int(max(estimate_training_usage(size, precision).values()))
    parameters = sum(its.numel() for its in weights)
    if name == "deepspeed-zero2":
        return int(20 * parameters)
    config: Any = getattr(module, "config", None)
    layers, width = (getattr(config, its, None) for its in ("num_hidden_layers", "hidden_size"))
    if "input_ids" not in batch or not isinstance(layers, int) or not isinstance(width, int):
        raise InstanceError("the formula is one of layers of a decoder or an encoder of text")
    kept = 2 if settings.checkpointing else 34
    return int(18 * parameters + kept * batch["input_ids"].numel() * width * layers)


def _tracked(training: RegisteredModel, module: Any, batch: dict[str, Any]) -> int:
    loop = TrainingLoop(
        module, lambda: zero_inputs(batch, module, "cpu"), training.settings, "cpu", lambda _: None
    )
    optimizer, tracker = loop.make_optimizer(), MemTracker()
    tracker.track_external(module, optimizer)
    with tracker:
        for _ in range(2):
            loop.run_iteration(optimizer)
            tracker.reset_mod_stats()
    peak: int = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    return peak
