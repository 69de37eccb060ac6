"""Trace a registered model by name, on fake tensors or on a GPU."""

from __future__ import annotations

from importlib.metadata import version

from instances.extract.eager.settings import TraceSettings
from instances.extract.extraction import require_packages
from instances.extract.models import find_model
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError, near_names
from planners.problem import Scalar

DEVICES = ("fake", "cuda")


def record(
    name: str,
    settings: TraceSettings,
    device: str = "fake",
    **options: int | bool,
) -> AllocationTrace:
    """Trace the training of a registered model.

    Parameters
    ----------
    name
        Name of the model, ``"bert-base"``.
    settings
        The loop.
    device
        ``"fake"``, without a GPU, or ``"cuda"``, from PyTorch's own history.
    options
        ``batch``, ``seq``, ``image``, ``layers`` and ``checkpointing`` of a microbatch's
        :class:`instances.extract.settings.StepSettings`, where not the model's own.

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
    model = find_model(name)
    if device not in DEVICES:
        raise InstanceError(f"no device is called {device!r}; {near_names(device, DEVICES)}")
    shape = model.settings(**options, precision=settings.weights_precision)
    require_packages("torch", "transformers")
    from instances.extract.building import build_module
    from instances.extract.eager.device_history import trace_on_device
    from instances.extract.eager.fake_trace import trace_on_fake_tensors

    trace = trace_on_fake_tensors if device == "fake" else trace_on_device
    origin: dict[str, Scalar] = {
        "model": model.source,
        **{option: value for option, value in options.items() if value is not None},
        "steps": settings.steps,
        "microbatches": settings.microbatches,
        "precision": settings.precision,
        "optimizer": settings.optimizer,
        "device": device,
        **{package: version(package).split("+")[0] for package in ("torch", "transformers")},
    }
    return trace(lambda: build_module(model, shape), settings, name, origin)
