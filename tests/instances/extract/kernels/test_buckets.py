"""Buffers of collectives: gradients in buckets, chunks of exchanges in chains."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from instances.extract.kernels.buckets import chain_exchanges, fill_buckets, insert_all_reduces
from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.kernels.storages import (
    Effort,
    Kernel,
    StepPhase,
    StorageTable,
    Trace,
    TracedOp,
)
from instances.extract.step_settings import StepSettings
from tests.instances.extract.hand_made import backward_of

BACKWARD, OPTIMIZER = StepPhase.BACKWARD, StepPhase.OPTIMIZER


@given(st.lists(st.integers(0, 30)), st.integers(1, 40), st.booleans())
def test_buckets_keep_the_order_and_are_closed_only_when_full(
    sizes: list[int], capacity: int, until_full: bool
) -> None:
    buckets = fill_buckets(sizes, capacity, until_full=until_full)
    assert [position for bucket in buckets for position in bucket] == list(range(len(sizes)))
    filled = [[sizes[position] for position in bucket] for bucket in buckets]
    for bucket, following in pairwise(filled):
        assert sum(bucket) >= capacity if until_full else sum(bucket) + following[0] > capacity
    for bucket in filled:
        assert sum(bucket[:-1] if until_full else bucket) <= capacity or len(bucket) == 1
        assert not until_full or sum(bucket[:-1]) < capacity


def test_an_all_reduce_follows_the_last_gradient_of_its_bucket() -> None:
    kernels = [*backward_of(2, 0, 1), Kernel("sub", OPTIMIZER, reads=(0, 1, 2))]
    merged, buckets = insert_all_reduces(kernels, [0, 1, 2], [5, 5, 5], 10)
    # In the order in which they are ready, not in that of the parameters.
    assert buckets == [(2, 0), (1,)]
    assert [kernel.op for kernel in merged] == ["mm", "mm", "all_reduce", "mm", "all_reduce", "sub"]
    assert merged[2] == Kernel("all_reduce", BACKWARD, writes=(2, 0))


def test_an_all_reduce_waits_for_the_backward_pass_to_read_a_gradient() -> None:
    late = Kernel("add", BACKWARD, reads=(0,), creates=(2,))
    kernels = [*backward_of(0, 1), late, Kernel("sub", OPTIMIZER, reads=(0, 1))]
    merged, buckets = insert_all_reduces(kernels, [0, 1], [5, 5, 5], 10)
    assert buckets == [(1, 0)]
    assert [kernel.op for kernel in merged] == ["mm", "mm", "add", "all_reduce", "sub"]


def test_gradients_of_one_kernel_keep_the_order_of_the_parameters() -> None:
    kernels = [Kernel("norm_backward", BACKWARD, creates=(2, 1, 0))]
    assert insert_all_reduces(kernels, [0, 1, 2], [1, 1, 1], 10)[1] == [(0, 1, 2)]


FORWARD = StepPhase.FORWARD


def exchange(sent: tuple[int, ...], received: tuple[int, ...]) -> Kernel:
    return Kernel("all_to_all", FORWARD, sent, creates=received)


def table(count: int) -> StorageTable:
    return StorageTable([10 + storage for storage in range(count)], [f"t{s}" for s in range(count)])


def test_sent_chunks_are_a_chain_and_received_ones_another() -> None:
    kernels = [Kernel("dispatch", FORWARD, creates=(0, 1)), exchange((0, 1), (2,))]
    assert chain_exchanges(kernels, table(3), ()) == (kernels, [(0, 1), (2,)])


def test_a_chunk_that_is_sent_on_as_received_is_copied() -> None:
    storages = table(6)
    kernels = [exchange((0, 1), (2, 3)), exchange((3, 2), (4, 5))]
    merged, chains = chain_exchanges(kernels, storages, ())
    assert merged == [
        exchange((0, 1), (2, 3)),
        Kernel("clone", FORWARD, reads=(3,), creates=(6,), effort=Effort(0, 26)),
        Kernel("clone", FORWARD, reads=(2,), creates=(7,), effort=Effort(0, 24)),
        exchange((6, 7), (4, 5)),
    ]
    assert chains == [(0, 1), (2, 3), (6, 7), (4, 5)]
    assert storages.size[6:] == [13, 12]
    assert storages.name[6:] == ["t3 to send", "t2 to send"]


def test_a_gradient_or_a_parameter_is_copied_before_it_is_sent() -> None:
    merged, chains = chain_exchanges([exchange((0, 1), (2,))], table(3), {1})
    copied = Kernel("clone", FORWARD, reads=(1,), creates=(3,), effort=Effort(0, 22))
    assert merged[0] == copied
    assert chains == [(0, 3), (2,)]


CHUNKS = st.integers(0, 20)


@given(st.lists(st.lists(CHUNKS, max_size=4, unique=True), max_size=5), st.sets(CHUNKS))
def test_no_tensor_is_in_two_chains(sent: list[list[int]], taken: set[int]) -> None:
    storages = table(21)
    kernels = [exchange(tuple(chunks), (storages.add(1, "received"),)) for chunks in sent]
    merged, chains = chain_exchanges(kernels, storages, taken)
    members = [storage for chain in chains for storage in chain]
    assert len(members) == len(set(members))
    assert taken.isdisjoint(members)
    # Each chunk arrives as itself or as a copy that is made just before.
    copied = {k.creates[0]: k.reads[0] for k in merged if k.op == "clone"}
    arrived = [k.reads for k in merged if k.op == "all_to_all"]
    assert [[copied.get(s, s) for s in reads] for reads in arrived] == sent


def test_an_exchange_becomes_two_chains_of_the_problem() -> None:
    x, w, left, right, first, second, gradient, new_w = range(8)
    ops = (
        TracedOp("dispatch", "dispatch_rows", FORWARD, (x,), (), (left, right)),
        TracedOp("exchange", "all_to_all", FORWARD, (left, right, w), (), (first, second)),
        TracedOp("mm", "mm", StepPhase.BACKWARD, (first, second), (), (gradient,)),
        TracedOp("sub", "sub", StepPhase.OPTIMIZER, (w, gradient), (), (new_w,)),
    )
    name = ("x", "w", "left", "right", "first", "second", "grad w", "new w")
    trace = Trace(ops, (8,) * 8, name, (x,), frozenset({w}), {new_w: w}, (gradient,), ())
    problem = build_problem(trace, StepSettings(), "exchange", {})
    assert problem.tensor_name is not None
    chains = [[problem.tensor_name[tensor] for tensor in chain] for chain in problem.contiguous]
    # A parameter is no tensor of the step, so what is sent is a copy of it.
    assert chains == [["left", "right", "w to send"], ["first", "second"]]
