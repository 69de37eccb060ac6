"""Where a program is, from the numbers that its hooks tell."""

from __future__ import annotations

import pytest

from gpu_runtime._core import (
    CountingMemory,
    ModuleVisits,
    ServingOnlineAllocator,
    SimulatedMemory,
    Stweaver,
)

# A net, its blocks 1 and 2, and the layer 3 within block 2.
NET, FIRST, SECOND, LAYER = range(4)
WIDTH = 10


class Program:
    """Modules whose columns are their numbers and one, and the visits of requests."""

    def __init__(self) -> None:
        counted = CountingMemory(SimulatedMemory(2 << 20, 1 << 30))
        self.allocator = Stweaver(counted)
        self.serving = ServingOnlineAllocator(self.allocator, counted)
        self.allocator.record_below(self.serving, True)
        self.visits = ModuleVisits(self.serving)
        self.visits.renumber(WIDTH, [])
        for number, around in enumerate((-1, NET, NET, SECOND)):
            assert self.visits.add(around, number + 1) == number
        self.visits.begin_phase(0)

    @property
    def module(self) -> int:
        """The module of a request that comes now."""
        self.serving.allocate(512)
        visit = int(self.allocator.record_below(self.serving, True)[4][0])
        phase, column = divmod(visit, WIDTH)
        assert phase == 1
        return column - 1


def test_the_end_of_a_forward_pass_goes_back_to_its_caller() -> None:
    its = Program()
    assert its.module == -1
    its.visits.begin_forward(NET)
    its.visits.begin_forward(LAYER)
    assert its.module == LAYER
    assert its.visits.depth == 2
    its.visits.end_forward()
    assert its.module == NET
    its.visits.end_forward()
    its.visits.end_forward()
    assert its.module == -1


def test_a_backward_pass_goes_from_gradient_to_gradient() -> None:
    its = Program()
    its.visits.begin_backward(NET)
    its.visits.begin_backward(SECOND)
    its.visits.begin_backward(LAYER)
    # A second gradient of the block's output comes while the layer runs.
    its.visits.begin_backward(SECOND)
    assert its.module == LAYER
    its.visits.end_backward(LAYER)
    assert its.module == SECOND
    # One gradient begins a block and ends the one behind it, in either order.
    its.visits.begin_backward(FIRST)
    its.visits.end_backward(SECOND)
    assert its.module == FIRST
    its.visits.end_backward(FIRST)
    assert its.module == NET
    its.visits.end_backward(FIRST)
    assert its.module == NET
    its.visits.leave_all()
    assert its.module == -1


def test_the_end_goes_back_to_what_has_begun() -> None:
    its = Program()
    its.visits.begin_backward(LAYER)
    its.visits.end_backward(LAYER)
    assert its.module == -1
    # The net called the layer, so the net is the module around it.
    its.visits.begin_forward(NET)
    its.visits.begin_forward(LAYER)
    its.visits.end_forward()
    its.visits.end_forward()
    its.visits.begin_backward(SECOND)
    its.visits.begin_backward(NET)
    its.visits.begin_backward(LAYER)
    its.visits.end_backward(LAYER)
    assert its.module == NET


def test_recomputation_goes_back_to_the_backward_pass_around_it() -> None:
    its = Program()
    its.visits.begin_backward(SECOND)
    its.visits.begin_forward(FIRST)
    its.visits.end_forward()
    assert its.module == SECOND


def test_modules_of_one_column_are_not_told_apart() -> None:
    its = Program()
    its.visits.renumber(WIDTH, [0, 0, 3, 3])
    its.visits.begin_forward(LAYER)
    assert its.module == SECOND
    its.visits.enter(0, NET)
    assert its.module == -1


def test_refuses_wrong_arguments() -> None:
    visits = Program().visits
    with pytest.raises(IndexError, match="module: a number from -1 to 3 is needed, found 4"):
        visits.begin_forward(4)
    for refused in (visits.begin_backward, visits.end_backward):
        with pytest.raises(IndexError, match="found -2"):
            refused(-2)
    with pytest.raises(IndexError, match="found 9"):
        visits.add(9, 0)
    with pytest.raises(IndexError, match="found 4"):
        visits.enter(0, 4)
    with pytest.raises(ValueError, match="columns: 4 are needed, one a module, found 1"):
        visits.renumber(WIDTH, [0])
    # Numbers whose visit would have more than 63 bits.
    for name, enters in (
        ("phase", lambda: visits.begin_phase(2**63 - 1)),
        ("phase", lambda: visits.enter(-2, 0)),
        ("width", lambda: visits.renumber(2**32, [0, 1, 2, 3])),
        ("column", lambda: visits.renumber(WIDTH, [0, 1, 2, -1])),
        ("column", lambda: visits.add(-1, 2**31)),
    ):
        with pytest.raises(
            IndexError, match=f"{name}: a number from -?\\d to 2147483646 is needed"
        ):
            enters()
    # None is around all, and neither begins nor ends.
    visits.end_backward(-1)
    assert visits.depth == 0
