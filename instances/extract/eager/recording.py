"""Trace a registered model by name, on fake tensors or on a GPU."""

from __future__ import annotations

from importlib.metadata import version

from instances.extract.eager.settings import TraceSettings
from instances.extract.extraction import require_packages
from instances.extract.models import MODELS
from instances.extract.settings import StepSettings
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError, near_names
from planners.problem import Scalar

DEVICES = ("fake", "cuda")


def record(
    name: str, shape: StepSettings, settings: TraceSettings, device: str = "fake"
) -> AllocationTrace:
    """Trace the training of a registered model.

    Parameters
    ----------
    name
        Name of the model, ``"bert-base"``.
    shape
        Batch and sequence length of a microbatch.
    settings
        The loop.
    device
        ``"fake"``, without a GPU, or ``"cuda"``, from PyTorch's own history.

    Returns
    -------
    AllocationTrace
        With phases and modules.

    Raises
    ------
    InstanceError
        The model or the device is unknown, a setting does not suit the model, or its memory
        depends on its data and the device is fake.
    MissingDependencyError
        PyTorch or transformers is not installed.
    """
    if name not in MODELS:
        raise InstanceError(f"no model is called {name!r}; {near_names(name, MODELS)}")
    if device not in DEVICES:
        raise InstanceError(f"no device is called {device!r}; {near_names(device, DEVICES)}")
    require_packages("torch", "transformers")
    from instances.extract.eager.device_history import trace_on_device
    from instances.extract.eager.fake_trace import trace_on_fake_tensors

    model = MODELS[name]
    trace = trace_on_fake_tensors if device == "fake" else trace_on_device
    origin: dict[str, Scalar] = {
        "model": model.source,
        "batch": shape.batch,
        "seq": shape.seq,
        "steps": settings.steps,
        "microbatches": settings.microbatches,
        "checkpointing": settings.checkpointing,
        "precision": settings.precision,
        "optimizer": settings.optimizer,
        "device": device,
        **{package: version(package).split("+")[0] for package in ("torch", "transformers")},
    }
    return trace(lambda: model.build(shape), settings, name, origin)
