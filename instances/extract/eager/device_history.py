"""Traces of training on a GPU, from the history that PyTorch's allocator keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from instances.extract.eager.fake_trace import Build
from instances.extract.eager.module_names import innermost_module, track_modules
from instances.extract.eager.settings import TraceSettings
from instances.extract.eager.training_loop import TrainingLoop
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase
from instances.traces.event_log import EVENT_KINDS, MARKER_BYTES, EventLog, trace_of_events
from planners.errors import InstanceError
from planners.problem import MAX_TENSORS, Scalar

_MARKER_OF = {phase: size for size, phase in MARKER_BYTES.items()}


def trace_on_device(
    build: Build, settings: TraceSettings, name: str, origin: Mapping[str, Scalar]
) -> AllocationTrace:
    """Trace a training loop that runs on the current CUDA device.

    Parameters
    ----------
    build
        Returns a module in training mode and a batch, on the host.
    settings
        The loop.
    name, origin
        Provenance.

    Returns
    -------
    AllocationTrace
        From the copy of the parameters to the device on. Modules are known where PyTorch can
        attach words to its history (2.9 and later).

    Raises
    ------
    InstanceError
        There is no CUDA device.
    """
    if not torch.cuda.is_available():
        raise InstanceError("device cuda: PyTorch finds no CUDA device; --device fake needs none")
    module, batch = build()
    memory = torch.cuda.memory
    # Without stacks, which would take kilobytes an event.
    memory._record_memory_history("all", context=None, max_entries=MAX_TENSORS, clear_history=True)
    try:
        with _modules_in_history():
            optimizer = TrainingLoop(module.to("cuda"), batch, settings, "cuda", _mark).run()
        torch.cuda.synchronize()
        history = memory._snapshot()["device_traces"][torch.cuda.current_device()]
        # Until here, so that weights and state outlive the trace.
        del module, optimizer
    finally:
        memory._record_memory_history(None)
    described = {**origin, "gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return trace_of_history(history, name, described)


def trace_of_history(
    history: Sequence[Mapping[str, Any]], name: str, origin: Mapping[str, Scalar]
) -> AllocationTrace:
    """Return the requests that a history of the allocator tells of.

    Parameters
    ----------
    history
        Entries of one device in ``torch.cuda.memory._snapshot()["device_traces"]``: ``action``,
        ``addr``, ``size`` in bytes, ``stream``, and perhaps ``user_metadata``, the module.
        Actions that are none of the allocator's, such as ``snapshot``, are left out.
    name, origin
        Provenance.

    Returns
    -------
    AllocationTrace
        Phases begin at allocations of odd sizes, see :mod:`instances.traces.event_log`.

    Raises
    ------
    InstanceError
        A block is allocated where one is, or freed twice.
    """
    entries = [entry for entry in history if entry["action"] in EVENT_KINDS]
    modules = [entry.get("user_metadata", "") for entry in entries]
    module_names = [module for module in dict.fromkeys(modules) if module]
    index = {"": NO_MODULE, **{module: number for number, module in enumerate(module_names)}}

    def column(field: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([entry[field] for entry in entries], dtype=np.int64)

    log = EventLog(
        kind=np.array([EVENT_KINDS.index(entry["action"]) for entry in entries], dtype=np.int64),
        address=column("addr"),
        size=column("size"),
        stream=column("stream"),
        module=np.array([index[module] for module in modules], dtype=np.int64),
    )
    return trace_of_events(log, module_names=module_names, name=name, origin=origin)


def _mark(phase: Phase) -> None:
    torch.empty(_MARKER_OF[phase], dtype=torch.uint8, device="cuda")


@contextmanager
def _modules_in_history() -> Iterator[None]:
    """Within this context the history says in which module an event happened, where it can.

    A dispatch mode would know the module too, but with one active autograd does not add in place.
    """
    say = getattr(torch.cuda.memory, "_set_memory_metadata", None)
    if say is None:
        yield
        return
    with track_modules() as tracker:

        def entered(module: Any, *_: Any) -> None:
            say(tracker.get_known_fqn(module) or "")

        def left(module: Any, *_: Any) -> None:
            # The tracker forgets the module only after this hook.
            say(innermost_module(tracker, leaving=tracker.get_known_fqn(module)))

        tracker.register_user_hooks(entered, left, entered, left)
        yield
    say("")
