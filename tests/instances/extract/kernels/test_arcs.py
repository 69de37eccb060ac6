"""Control arcs: what orders kernels that share a storage and no tensor."""

from __future__ import annotations

import pytest

from instances.extract.kernels.storages import Kernel, StepPhase, find_control_arcs
from tests.instances.extract.hand_made import backward_of

FORWARD, BACKWARD, OPTIMIZER = StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.OPTIMIZER
WEIGHT = 9
STEPS: dict[str, tuple[list[Kernel], list[tuple[int, int]]]] = {
    "the optimizer waits for the all-reduce": ([
        *backward_of(0),
        Kernel("all_reduce", BACKWARD, writes=(0,)),
        Kernel("norm", OPTIMIZER, reads=(0,), creates=(1,)),
        Kernel("mul", OPTIMIZER, reads=(0,), creates=(2,)),
    ], [(1, 2), (1, 3)]),
    # 0 -> 2 is there as the arc of tensor 0 already.
    "a parameter is overwritten after its readers, and read after that": ([
        Kernel("addmm", FORWARD, reads=(WEIGHT,), creates=(0,)),
        Kernel("mm", BACKWARD, reads=(WEIGHT,), creates=(1,)),
        Kernel("addcdiv", OPTIMIZER, reads=(0,), writes=(WEIGHT,)),
        Kernel("norm", OPTIMIZER, reads=(WEIGHT,), creates=(2,)),
        Kernel("clamp_", OPTIMIZER, writes=(WEIGHT,)),
    ], [(1, 2), (2, 3), (2, 4), (3, 4)]),
    "a write in place waits for earlier readers": ([
        Kernel("mm", FORWARD, creates=(0,)),
        Kernel("sum", FORWARD, reads=(0,), creates=(1,)),
        Kernel("relu_", FORWARD, writes=(0,)),
    ], [(1, 2)]),
    # The third reader comes later; nobody has read storage 1 yet.
    "a kernel waits for earlier readers of what it comes after": ([
        Kernel("all_gather", FORWARD, creates=(0,)),
        Kernel("mm", FORWARD, reads=(0,), creates=(1,)),
        Kernel("mm", FORWARD, reads=(0,), creates=(2,)),
        Kernel("all_gather", FORWARD, creates=(3,), after=(0, 1)),
        Kernel("mm", FORWARD, reads=(0,), creates=(4,)),
    ], [(1, 3), (2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_kernels_are_in_order(step: str) -> None:
    kernels, arcs = STEPS[step]
    assert find_control_arcs(kernels) == arcs
