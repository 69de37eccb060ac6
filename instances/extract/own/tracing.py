"""Run steps of a user's on fake tensors: their eager trace, and the operators of the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instances.extract.eager.fake_trace import recorded_on_fake_tensors
from instances.extract.eager.request_recorder import AllocatorRequest
from instances.extract.own.gpu_names import cuda_named_cpu
from instances.extract.own.one_step import TrainingStep
from instances.extract.own.operator_mode import OperatorMode, RanOperator
from instances.extract.own.own_function import OwnFunction
from instances.extract.own.step_phases import StepPhases
from instances.traces.allocation_trace import AllocationTrace
from planners.model.problem import Scalar


@dataclass(frozen=True)
class OwnRun:
    """What was recorded of some steps."""

    trace: AllocationTrace
    # In the order of the trace.
    requests: list[AllocatorRequest]
    # Those of the last step.
    operators: list[RanOperator]


def run_own_steps(function: OwnFunction, steps: int, origin: Mapping[str, Scalar]) -> OwnRun:
    """Run a user's function and some steps of what it makes, without a GPU and its memory.

    What the function makes and keeps is on the GPU before the first step, but for what a
    ``TrainingStep`` is fed.
    """
    with recorded_on_fake_tensors(OperatorMode) as mode, cuda_named_cpu():
        with mode.not_recorded():
            step = function.make()
        mode.adopt_all(but=step.host_tensors() if isinstance(step, TrainingStep) else ())
        phases = StepPhases(mode)
        with phases.told():
            for _ in range(steps):
                mode.operators.clear()
                with phases.step():
                    function.run(step)
        trace = mode.recorder.trace(function.label, origin)
        run = OwnRun(trace, mode.recorder.requests, mode.operators)
        # Until here, so that weights and state outlive the trace.
        del step
        return run
