"""Buffers of all-to-all exchanges: chains, and the copies that keep tensors in one chain each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instances.extract.parallel.buckets import chain_exchanges
from instances.extract.parallel.kernel_problem import build_problem
from instances.extract.step_settings import StepSettings
from instances.extract.tracing.storages import Kernel, StepPhase, StorageTable, Trace, TracedOp

FORWARD = StepPhase.FORWARD


def exchange(sent: tuple[int, ...], received: tuple[int, ...]) -> Kernel:
    return Kernel("all_to_all", FORWARD, sent, creates=received)


def table(count: int) -> StorageTable:
    return StorageTable([10 + storage for storage in range(count)], [f"t{s}" for s in range(count)])


def test_what_is_sent_is_a_chain_and_what_is_received_another() -> None:
    kernels = [Kernel("dispatch", FORWARD, creates=(0, 1)), exchange((0, 1), (2,))]
    assert chain_exchanges(kernels, table(3), ()) == (kernels, [(0, 1), (2,)])


def test_a_chunk_that_is_sent_on_as_received_is_copied() -> None:
    storages = table(6)
    kernels = [exchange((0, 1), (2, 3)), exchange((3, 2), (4, 5))]
    merged, chains = chain_exchanges(kernels, storages, ())
    assert merged == [
        exchange((0, 1), (2, 3)),
        Kernel("clone", FORWARD, reads=(3,), creates=(6,)),
        Kernel("clone", FORWARD, reads=(2,), creates=(7,)),
        exchange((6, 7), (4, 5)),
    ]
    assert chains == [(0, 1), (2, 3), (6, 7), (4, 5)]
    assert storages.size[6:] == [13, 12]
    assert storages.name[6:] == ["t3 to send", "t2 to send"]


def test_a_gradient_or_a_parameter_is_copied_before_it_is_sent() -> None:
    merged, chains = chain_exchanges([exchange((0, 1), (2,))], table(3), {1})
    assert merged[0] == Kernel("clone", FORWARD, reads=(1,), creates=(3,))
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
