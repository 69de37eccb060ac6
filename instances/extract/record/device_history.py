"""Traces of training on a GPU, from the history that PyTorch's allocator keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from instances.extract.models.building import Build
from instances.extract.record.allocator_history import trace_of_history
from instances.extract.record.requests.module_names import innermost_module, track_modules
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.record.training_loop import TrainingLoop, zero_inputs
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.event_log import MARKER_BYTES
from planners.errors import InstanceError
from planners.model.problem import Scalar
from planners.model.rules import MAX_TENSORS

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
