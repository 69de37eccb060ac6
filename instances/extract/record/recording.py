"""Trace a model by name, on fake tensors or on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from instances.extract.models import find_model
from instances.extract.models.configured_model import is_configuration, transformers_errors
from instances.extract.models.required_packages import package_versions, require_packages
from instances.extract.models.task_batches import describe_batch
from instances.extract.record.ranks.rank import Rank
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import command_option
from instances.traces.allocation_trace import NOTES, AllocationTrace
from planners.errors import InstanceError, near_names
from planners.model.problem import Scalar

if TYPE_CHECKING:
    from torch.nn import Module

DEVICES = ("fake", "cuda")
# The settings of a step that a trace takes as well.
SHAPE = ("batch", "seq", "image", "layers", "checkpointing", "selective", "lora")


def record(
    name: str,
    settings: TraceSettings,
    device: str = "fake",
    on_stage: Callable[[str], None] = lambda _text: None,
    rank: Rank | None = None,
    **options: int | bool | str,
) -> AllocationTrace:
    """Trace the training of a registered model; `device` is one of :data:`DEVICES`.

    Options are those in :data:`SHAPE`, of a microbatch; those left out are the model's defaults.
    With a rank, the trace is that of one process of several, on fake tensors.
    """
    model = find_model(name)
    if device not in DEVICES:
        raise InstanceError(f"no device is called {device!r}; {near_names(device, DEVICES)}")
    shape = model.settings(**options, precision=settings.weights_precision)
    on_stage(f"{name}: importing PyTorch")
    require_packages()
    on_stage(f"{name}: tracing {settings.steps} steps")
    from instances.extract.models.building import build_module
    from instances.extract.record.device_history import trace_on_device
    from instances.extract.record.fake_trace import trace_on_fake_tensors

    trace = trace_on_device
    if device == "fake":
        trace = partial(trace_on_fake_tensors, rank=rank)
    found = {option: getattr(shape, option) for option in SHAPE}
    given: dict[str, Scalar] = {
        **{option: value for option, value in found.items() if value is not None},
        **asdict(settings),
        "device": device,
    }
    words = " ".join(command_option(option, value) for option, value in given.items())
    origin: dict[str, Scalar] = {
        "model": model.source,
        **given,
        "command": f"python -m instances.extract trace {model.name} {words}",
        **package_versions(),
    }
    if not is_configuration(name):
        return trace(lambda: build_module(model, shape), settings, model.name, origin)

    def build() -> tuple[Module, dict[str, Any]]:
        module, batch = build_module(model, shape)
        origin[NOTES] = f"{model.source} gets {describe_batch(batch)}"
        return module, batch

    with transformers_errors(settings.precision):
        return trace(build, settings, model.name, origin)
