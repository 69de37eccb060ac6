"""The step of a model by name: its graph, or a trace on fake tensors or on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.kernels.storages import Trace
from instances.extract.models import Model, find_model
from instances.extract.models.configured_model import is_configuration, transformers_errors
from instances.extract.models.required_packages import package_versions, require_packages
from instances.extract.models.task_batches import describe_batch
from instances.extract.record.ranks.rank import Rank
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import StepSettings, command_option
from instances.traces.allocation_trace import NOTES, AllocationTrace
from planners import Problem
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


def extract(
    name: str, settings: StepSettings, on_stage: Callable[[str], None] = lambda _text: None
) -> Problem:
    """Extract a step of a registered model."""
    model = find_model(name)
    model.require_supported(settings)
    on_stage(f"{name}: importing PyTorch")
    require_packages()
    with transformers_errors() if is_configuration(name) else nullcontext():
        trace = _trace(model, settings, on_stage)
    on_stage(f"{name}: building the problem of {len(trace.ops):,} operations")
    return build_problem(trace, settings, name, _describe(model, settings))


def _trace(model: Model, settings: StepSettings, on_stage: Callable[[str], None]) -> Trace:
    from instances.extract.models.building import build_module
    from instances.extract.record.graph.optimizers import OPTIMIZERS
    from instances.extract.record.graph.training_step import trace_forward_pass, trace_training_step

    if settings.optimizer not in OPTIMIZERS:
        raise InstanceError(
            f"no optimizer is called {settings.optimizer!r}; "
            f"{near_names(settings.optimizer, OPTIMIZERS)}"
        )
    on_stage(f"{model.name}: building and tracing {settings.mode}")
    if not settings.training:
        return trace_forward_pass(lambda: build_module(model, settings))
    return trace_training_step(
        lambda: build_module(model, settings), OPTIMIZERS[settings.optimizer](), settings.clip_norm
    )


def _describe(model: Model, settings: StepSettings) -> dict[str, str | int | float]:
    options = settings.command_line(model.defaults)
    described = {
        "model": model.source,
        "step": f"{_describe_step(settings)}; {settings.precision}",
        "batch": settings.batch,
        "seq": settings.seq,
        "image": settings.image,
        "layers": settings.layers if settings.layers != model.defaults.layers else None,
        "optimizer": settings.optimizer if settings.training else None,
        "clip_norm": settings.clip_norm if settings.training else None,
        "nodes_per_stream": settings.nodes_per_stream,
        "bucket_mb": settings.bucket_mb if settings.training else None,
        "streams": settings.streams if settings.streams != StepSettings.streams else None,
        "parallel": settings.parallel if settings.sharded else None,
        "ranks": settings.ranks
        if settings.sharded or settings.ranks != StepSettings.ranks
        else None,
        "command": f"python -m instances.extract {model.name} {options}",
        **package_versions(),
    }
    return {key: value for key, value in described.items() if value is not None}


def _describe_step(settings: StepSettings) -> str:
    if not settings.training:
        return "forward"
    backward = "backward with recomputation" if settings.checkpointing else "backward"
    communication = "reduce-scatter" if settings.sharded else "all-reduce"
    gather = "all-gather, " if settings.sharded else ""
    return f"{gather}forward, loss, {backward}, {communication}, optimizer"
