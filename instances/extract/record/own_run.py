"""The graph of a step that was run: the kernels of its last iteration and the storages they use.

Note: a graph from a run
------------------------
Rationale. A registered model is traced as a function, with an optimizer written as one. A loop of
a user's is no function: it updates in place, adds up gradients and calls any optimizer.

Approach. The eager run is recorded operator by operator, and a block of its trace is a storage of
the graph. A block that is alive both before and after the last step is persistent. A block that is
alive before and not after comes with the batch, such as gradients that a step drops first. A block
that is alive after and not before is returned. Within the step a block lives from its first
operator to its last, not until Python drops it.

Limits. One stream computes, as in the run; nothing communicates. Kernels whose results nobody
uses are in the graph, because eager programs run them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass_type

from instances.extract.kernels.call_effort import effort_of_call, written_arguments
from instances.extract.kernels.storages import Effort, StepPhase, Trace, TracedOp
from instances.extract.own.one_step import Step, TrainingStep, is_step
from instances.extract.own.own_function import EndOfTrace, OwnFunction, user_code
from instances.extract.own.trainers import is_trainer, short_trainings, train
from instances.extract.record.fake_trace import origin_of_run, recorded_on_fake_tensors
from instances.extract.record.own_loop import OwnLoop, no_group
from instances.extract.record.ranks.parallel_model import parallel_step
from instances.extract.record.ranks.rank import Rank
from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.request_recorder import AllocatorRequest, RequestRecorder
from instances.traces.allocation_trace import (
    NO_MODULE,
    AllocationTrace,
    Phase,
    iteration_window,
    persistent_requests,
)
from planners.errors import InstanceError
from planners.model.problem import Scalar


@dataclass
class RanOperator:
    """An operator that ran on the device, and the blocks it touched."""

    name: str
    # Events that were recorded until then.
    event_count: int
    inputs: list[AllocatorRequest]
    # The inputs that it wrote in place.
    mutated: list[AllocatorRequest]
    # The blocks that it allocated: its results and workspaces.
    outputs: list[AllocatorRequest]
    # None if it read tensors of the host: the batch is on the way to the device.
    effort: Effort | None


class OperatorMode(AllocationMode):
    """Records allocations and operators, on fake tensors."""

    def __init__(self, recorder: RequestRecorder) -> None:
        super().__init__(recorder)
        self.operators: list[RanOperator] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and record it."""
        if not self.recording or any(map(is_traceable_wrapper_subclass_type, types)):
            return super().__torch_dispatch__(func, types, args, kwargs)
        written = written_arguments(func._schema, args, kwargs or {})
        inputs, mutated = self._blocks_of((args, kwargs)), self._blocks_of(written)
        known = len(self.recorder.requests)
        results = super().__torch_dispatch__(func, types, args, kwargs)
        name, events = func.overloadpacket.__name__, self.recorder.event_count
        outputs = self.recorder.requests[known:]
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        reads_host = any(one.dim() and not self.is_on_gpu(one) for one in tensors)
        effort = None if reads_host else effort_of_call(func, args, kwargs or {}, results)
        self.operators.append(RanOperator(name, events, inputs, mutated, outputs, effort))
        return results

    def _added_into(self, summand: AllocatorRequest) -> None:
        operator = self.operators[-1]
        operator.outputs.remove(self.recorder.requests[-1])
        operator.mutated.append(summand)
        super()._added_into(summand)

    def _blocks_of(self, values: Any) -> list[AllocatorRequest]:
        leaves: Iterable[Any] = pytree.tree_leaves(values)
        found = (self.block_of(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        return [request for request in found if request is not None]


@dataclass(frozen=True)
class OwnRun:
    """The record of some steps."""

    trace: AllocationTrace
    # In the order of the trace.
    requests: list[AllocatorRequest]
    # The operators of the last step; none if the run recorded no operators.
    operators: list[RanOperator]


def run_own_steps(
    function: OwnFunction,
    steps: int,
    origin: Mapping[str, Scalar],
    rank: Rank | None = None,
    make_mode: Callable[[RequestRecorder], AllocationMode] = AllocationMode,
) -> OwnRun:
    """Run a user's function and some steps that it returns, without a GPU and its memory.

    What the function puts on the GPU is there. A function that puts nothing there and returns a
    step is taken as one on the GPU: what it makes and keeps goes there before the first step,
    except the inputs of a ``TrainingStep``.
    """
    with ExitStack() as stack:
        mode = stack.enter_context(recorded_on_fake_tensors(make_mode, rank))
        stack.enter_context(no_group() if rank is None else nullcontext())
        operators = mode.operators if isinstance(mode, OperatorMode) else []
        fake: Any = detect_fake_mode()
        loop = OwnLoop(
            mode, fake, steps, evaluates=not isinstance(mode, OperatorMode), on_step=operators.clear
        )
        made = _made(function, loop, steps)
        held: object = (made, loop)
        if loop.updates or (loop.has_begun and not is_step(made)):
            if not mode.is_placed:
                raise InstanceError(
                    f"{function.where} puts nothing on the GPU: move the model and its batches "
                    f'there by .to("cuda")'
                )
            loop.finish()
        else:
            held = _run_step(function, function.require_step(made), loop, rank)
        origin = origin_of_run(origin, [*mode.notes, *loop.notes], rank)
        trace = mode.recorder.trace(function.label, origin)
        run = OwnRun(trace, mode.recorder.requests, operators)
        # Until here, so that weights and state outlive the trace.
        del made, held
        return run


def _made(function: OwnFunction, loop: OwnLoop, steps: int) -> Any:
    """Return the result of a user's function, or the error that ended it while it trained.

    An exception keeps the variables of the program alive, and with them its weights.
    """
    source = function.path.read_text(errors="replace")
    with short_trainings(source, steps), loop.watched():
        try:
            made = function.make()
            if is_trainer(made):
                with user_code(function.path, function.line):
                    train(made)
            return made
        except EndOfTrace as end:
            return end
        except InstanceError as error:
            # Code behind the training may look for a file that was not written.
            if not (loop.is_done or (loop.has_begun and isinstance(error.__cause__, SystemExit))):
                raise
            print(f"after {steps} steps the program ended: {error}", file=sys.stderr)
            return error


def _run_step(function: OwnFunction, step: Step, loop: OwnLoop, rank: Rank | None) -> Step:
    """Run a step that a function has made, and return the step that ran."""
    mode, loop.finds_steps, loop.all_on_gpu = loop.mode, False, not loop.mode.is_placed
    on_host = list(step.host_tensors()) if isinstance(step, TrainingStep) else []
    with mode.not_recorded() if loop.all_on_gpu else nullcontext():
        if rank is not None and rank.parallel:
            with user_code(function.path, function.line):
                step = parallel_step(step, rank.parallel, function.where)
    if loop.all_on_gpu:
        mode.default_on_gpu = True
        mode.adopt_all(but=on_host)
    # Passes of the function itself are none of a step.
    mode.recorder.forget_phases()
    loop.current = None
    with loop.watched():
        while not loop.is_done:
            loop.begin_step()
            function.run(step)
            loop.finish()
    return step


def step_graph(run: OwnRun) -> Trace:
    """Return the operators of the last step; every block of the trace is a storage."""
    trace = run.trace
    begin, end = iteration_window(trace, -1)
    number = {id(request): index for index, request in enumerate(run.requests)}
    names = [""] * len(number)
    ops: list[TracedOp] = []
    read: set[int] = set()
    for index, operator in enumerate(run.operators):
        inputs, mutated, outputs = (
            tuple(number[id(request)] for request in requests)
            for requests in (operator.inputs, operator.mutated, operator.outputs)
        )
        read.update(inputs)
        name = f"{operator.name}_{index}"
        # Before the operator there was at least the mark at which its phase began.
        mark = int(np.searchsorted(trace.mark_event, operator.event_count)) - 1
        phase = StepPhase[Phase(int(trace.mark_phase[mark])).name]
        ops.append(TracedOp(name, operator.name, phase, inputs, mutated, outputs, operator.effort))
        for place, storage in enumerate(outputs):
            module = int(trace.alloc_module[storage])
            within = "" if module == NO_MODULE else f"{trace.module_names[module]}."
            names[storage] = f"{within}{name}{f'.{place}' if place else ''}"
    persistent = persistent_requests(trace, -1)
    given = np.flatnonzero((trace.alloc < begin) & (trace.freed > begin) & ~persistent)
    returned = np.flatnonzero((trace.alloc >= begin) & (trace.freed >= end))
    batch = tuple(storage for storage in given.tolist() if storage in read)
    for storage in batch:
        names[storage] = f"given_{storage}"
    return Trace(
        ops=tuple(ops),
        size=tuple(trace.size.tolist()),
        name=tuple(names),
        batch=batch,
        persistent=frozenset(np.flatnonzero(persistent).tolist()),
        updates={},
        gradients=(),
        returned=tuple(returned.tolist()),
    )
