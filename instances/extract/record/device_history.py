"""Traces of training on a GPU, from the history that PyTorch's allocator keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from instances.extract.record.requests.module_names import innermost_module, track_modules
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.record.training_loop import TrainingLoop, zero_inputs
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase
from instances.traces.event_log import (
    COMMON_POOL,
    EVENT_KINDS,
    MARKER_BYTES,
    EventLog,
    trace_of_events,
)
from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem import Scalar
from planners.model.rules import MAX_TENSORS

if TYPE_CHECKING:
    from instances.extract.models.building import Build

_MARKER_OF = {phase: size for size, phase in MARKER_BYTES.items()}


def trace_on_device(
    build: Build, settings: TraceSettings, name: str, origin: Mapping[str, Scalar]
) -> AllocationTrace:
    """Trace a training loop on the current CUDA device, beginning with the copy of the parameters.

    The program builds its model on the host. Modules are known from PyTorch 2.9 on, which can
    attach words to its history.
    """
    if not torch.cuda.is_available():
        raise InstanceError("device cuda: PyTorch finds no CUDA device; --device fake needs none")
    module, batch = build()
    memory = torch.cuda.memory
    # Without stacks, which would take kilobytes an event.
    memory._record_memory_history("all", context=None, max_entries=MAX_TENSORS, clear_history=True)
    try:
        with _modules_in_history():
            inputs = partial(zero_inputs, batch, module.to("cuda"), "cuda")
            optimizer = TrainingLoop(module, inputs, settings, "cuda", _mark).run()
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
    """Return the requests in the history of one device's allocator.

    It is one of ``torch.cuda.memory._snapshot()["device_traces"]``; a module is its
    ``user_metadata``. Phases begin at allocations of odd sizes, see
    :mod:`instances.traces.event_log`.
    """
    entries = [entry for entry in history if entry["action"] in EVENT_KINDS]
    modules = [entry.get("user_metadata", "") for entry in entries]
    module_names = [module for module in dict.fromkeys(modules) if module]
    pools = [entry.get("pool_id", COMMON_POOL) for entry in entries]
    pool_number = {pool: number for number, pool in enumerate(dict.fromkeys([COMMON_POOL, *pools]))}
    index = {"": NO_MODULE, **{module: number for number, module in enumerate(module_names)}}

    def column(field: str) -> IntColumn:
        return np.array([entry[field] for entry in entries], dtype=np.int64)

    log = EventLog(
        kind=np.array([EVENT_KINDS.index(entry["action"]) for entry in entries], dtype=np.int64),
        address=column("addr"),
        size=column("size"),
        stream=column("stream"),
        module=np.array([index[module] for module in modules], dtype=np.int64),
        pool=np.array([pool_number[pool] for pool in pools], dtype=np.int64),
    )
    return trace_of_events(log, module_names=module_names, name=name, origin=origin)


def _mark(phase: Phase) -> None:
    torch.empty(_MARKER_OF[phase], dtype=torch.uint8, device="cuda")


@contextmanager
def _modules_in_history() -> Iterator[None]:
    """Let the history say in which module an event happened, within this context, if it can.

    A dispatch mode would know the module too, but with one active autograd does not add in place.
    """
    say = getattr(torch.cuda.memory, "_set_memory_metadata", None)
    if say is None:
        yield
        return
    with track_modules() as tracker:
        # A backward pass may outlive its module, of which the tracker then passes none.
        def name_of(module: Any) -> str | None:
            name: str | None = None if module is None else tracker.get_known_fqn(module)
            return name

        def entered(module: Any, *_: Any) -> None:
            say(name_of(module) or innermost_module(tracker))

        def left(module: Any, *_: Any) -> None:
            # The tracker forgets the module only after this hook.
            say(innermost_module(tracker, leaving=name_of(module)))

        tracker.register_user_hooks(entered, left, entered, left)
        yield
    say("")
