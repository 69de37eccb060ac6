"""Storages: views, in-place results and updated parameters are one; kernels read and write them."""

from __future__ import annotations

import pytest

from instances.extract.kernels.storages import Kernel, StepPhase, Trace, TracedOp, merge_storages
from planners.errors import InstanceError
from tests.instances.extract.hand_made import tiny_trace

FORWARD, OPTIMIZER = StepPhase.FORWARD, StepPhase.OPTIMIZER


def test_views_run_nothing_and_in_place_results_are_their_argument() -> None:
    kernels = merge_storages(tiny_trace())
    assert [kernel.op for kernel in kernels] == [
        "input", "mul", "exp_", "sum", "mm", "sub", "output",
    ]  # fmt: skip
    assert kernels[2] == Kernel("exp_", FORWARD, writes=(2,))


def test_batch_has_a_source_and_the_loss_a_sink() -> None:
    kernels = merge_storages(tiny_trace())
    assert kernels[0] == Kernel("input", FORWARD, creates=(0,))
    assert kernels[-1] == Kernel("output", OPTIMIZER, reads=(3,))


def test_a_new_parameter_is_written_into_the_old_one() -> None:
    kernels = merge_storages(tiny_trace())
    assert kernels[-2] == Kernel("sub", OPTIMIZER, reads=(4,), writes=(1,))


def test_readers_of_a_new_value_read_the_persistent_storage() -> None:
    trace = tiny_trace()
    norm = TracedOp("norm", "norm", OPTIMIZER, (5,), (), (6,))
    trace = tiny_trace(ops=(*trace.ops, norm), size=(*trace.size, 4), name=(*trace.name, "norm"))
    assert merge_storages(trace)[-2] == Kernel("norm", OPTIMIZER, reads=(1,), creates=(6,))


def test_the_old_value_may_not_be_read_after_the_new_one_is_written() -> None:
    trace = tiny_trace()
    late = TracedOp("late", "neg", OPTIMIZER, (1,), (), (6,))
    trace = tiny_trace(ops=(*trace.ops, late), size=(*trace.size, 8), name=(*trace.name, "neg"))
    with pytest.raises(InstanceError, match=r"operation late: the old value of w is read"):
        merge_storages(trace)


def test_an_operation_may_begin_several_storages_and_repeat_an_argument() -> None:
    norm = TracedOp("norm", "norm", FORWARD, (0, 0), (), (1, 2, 1))
    trace = Trace((norm,), (4, 4, 4), ("x", "a", "b"), (0,), frozenset(), {}, (), (1,))
    assert merge_storages(trace)[1] == Kernel("norm", FORWARD, reads=(0,), creates=(1, 2))
