"""Control arcs: what orders kernels that share a storage and no tensor."""

from __future__ import annotations

from instances.extract.kernels.storages import Kernel, StepPhase, find_control_arcs
from tests.instances.extract.hand_made import backward_of

FORWARD, BACKWARD, OPTIMIZER = StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.OPTIMIZER


def test_the_optimizer_waits_for_the_all_reduce() -> None:
    kernels = [
        *backward_of(0),
        Kernel("all_reduce", BACKWARD, writes=(0,)),
        Kernel("norm", OPTIMIZER, reads=(0,), creates=(1,)),
        Kernel("mul", OPTIMIZER, reads=(0,), creates=(2,)),
    ]
    assert find_control_arcs(kernels) == [(1, 2), (1, 3)]


def test_a_parameter_is_overwritten_after_its_readers_and_read_after_that() -> None:
    weight = 9
    kernels = [
        Kernel("addmm", FORWARD, reads=(weight,), creates=(0,)),
        Kernel("mm", BACKWARD, reads=(weight,), creates=(1,)),
        Kernel("addcdiv", OPTIMIZER, reads=(0,), writes=(weight,)),
        Kernel("norm", OPTIMIZER, reads=(weight,), creates=(2,)),
        Kernel("clamp_", OPTIMIZER, writes=(weight,)),
    ]
    # 0 -> 2 is there as the arc of tensor 0 already.
    assert find_control_arcs(kernels) == [(1, 2), (2, 3), (2, 4), (3, 4)]


def test_an_in_place_write_waits_for_earlier_readers_of_the_tensor() -> None:
    kernels = [
        Kernel("mm", FORWARD, creates=(0,)),
        Kernel("sum", FORWARD, reads=(0,), creates=(1,)),
        Kernel("relu_", FORWARD, writes=(0,)),
    ]
    assert find_control_arcs(kernels) == [(1, 2)]


def test_a_kernel_waits_for_those_who_have_read_what_it_comes_after() -> None:
    kernels = [
        Kernel("all_gather", FORWARD, creates=(0,)),
        Kernel("mm", FORWARD, reads=(0,), creates=(1,)),
        Kernel("mm", FORWARD, reads=(0,), creates=(2,)),
        Kernel("all_gather", FORWARD, creates=(3,), after=(0, 1)),
        Kernel("mm", FORWARD, reads=(0,), creates=(4,)),
    ]
    # The third reader comes later; nobody has read storage 1 yet.
    assert find_control_arcs(kernels) == [(1, 3), (2, 3)]
