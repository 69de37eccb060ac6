"""The work of a step's kernels, made by hand."""

from __future__ import annotations

from dataclasses import replace

from instances.extract.kernels.buckets import chain_exchanges
from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.kernels.kernel_work import work_of_kernels
from instances.extract.kernels.sharding import Sharding
from instances.extract.kernels.storages import Effort, Kernel, StepPhase, StorageTable
from instances.extract.step_settings import StepSettings
from planners.model.work import Work
from tests.instances.extract.hand_made import tiny_trace

FORWARD, BACKWARD, OPTIMIZER = StepPhase
ANY = Effort(3, 7)


def traced(op: str, phase: StepPhase, **storages: tuple[int, ...]) -> Kernel:
    return Kernel(op, phase, effort=ANY, **storages)


def work_of(kernels: list[Kernel], persistent: set[int]) -> Work:
    work = work_of_kernels(kernels, [1, 10, 100, 1000], persistent)
    assert work is not None
    return work


def test_a_tiny_step_has_this_work() -> None:
    ops = tuple(replace(op, effort=Effort(i, 10 * i)) for i, op in enumerate(tiny_trace().ops))
    problem = build_problem(tiny_trace(ops=ops), StepSettings(), "tiny", {})
    assert problem.graph is not None
    work = problem.graph.work
    assert work is not None
    #   input, mul, exp_, sum, mm, all_reduce, sub, output
    assert work.flops.tolist() == [0, 0, 2, 3, 4, 0, 5, 0]
    # The batch of 40 is written, the gradient of 8 read and written, the loss of 4 read.
    assert work.moved_bytes.tolist() == [40, 0, 20, 30, 40, 16, 50, 4]
    assert work.phase.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    # sub is the new value of the weight.
    assert work.repeatable.tolist() == [0, 1, 1, 1, 1, 0, 0, 0]
    # exp_ changes h, the all-reduce the gradient; the weight that sub changes is no tensor.
    assert work.written.tolist() == [[2, 1], [5, 3]]


def test_without_traced_calls_the_work_is_unknown() -> None:
    graph = build_problem(tiny_trace(), StepSettings(), "tiny", {}).graph
    assert graph is not None
    assert graph.work is None


def test_readers_of_a_buffer_that_changes_later_are_not_repeatable() -> None:
    buffer, weight = 1, 2
    kernels = [
        traced("sub", FORWARD, reads=(buffer, weight), creates=(0,)),
        traced("lerp_", FORWARD, writes=(buffer,)),
        traced("mul", FORWARD, reads=(buffer, weight), creates=(3,)),
        traced("addcdiv", OPTIMIZER, writes=(buffer, weight)),
    ]
    assert work_of(kernels, {buffer, weight}).repeatable.tolist() == [0, 0, 1, 0]
    # A tensor of the step is made again together with what changes it.
    assert work_of(kernels, {weight}).repeatable.tolist() == [1, 1, 1, 0]


def test_a_traced_exchange_is_not_repeatable_and_the_copy_for_it_is() -> None:
    storages = StorageTable([8, 8], ["w", "received"])
    exchange = traced("all_to_all", FORWARD, reads=(0,), creates=(1,))
    kernels, _ = chain_exchanges([exchange], storages, {0})
    work = work_of_kernels(kernels, storages.size, {0})
    assert work is not None
    assert [kernel.op for kernel in kernels] == ["clone", "all_to_all"]
    assert work.repeatable.tolist() == [1, 0]
    assert work.moved_bytes.tolist() == [16, ANY.moved_bytes]


def test_a_rank_has_its_share_of_the_optimizer_on_what_is_divided() -> None:
    kernel = replace(traced("lerp", OPTIMIZER, writes=(0,)), effort=Effort(80, 800))
    ranks = Sharding(8, 0)
    assert ranks.share_of(kernel, {0}).effort == Effort(10, 100)
    untraced = replace(kernel, effort=None)
    for other in untraced, replace(kernel, phase=BACKWARD), replace(kernel, writes=(1,)):
        assert ranks.share_of(other, {0}) == other


def test_a_sharded_step_updates_shards() -> None:
    weight = 1
    ops = tuple(replace(op, effort=Effort(0, 80)) for op in tiny_trace().ops)
    trace = tiny_trace(ops=ops, parameters=(weight,))
    graph = build_problem(trace, StepSettings(parallel="sharded", ranks=2), "tiny", {}).graph
    assert graph is not None
    assert graph.work is not None
    moved = dict(zip(graph.op, graph.work.moved_bytes.tolist(), strict=True))
    # A weight of 8 bytes is gathered from a shard of 4, and its gradient leaves a shard of 4.
    assert (moved["all_gather"], moved["reduce_scatter"]) == (12, 12)
    assert (moved["mm"], moved["sub"]) == (80, 40)
