"""Units, sequences and what they cost, against slow and obvious readings of the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np
import pytest

from planners import Graph, InstanceError, InvalidPlanError, Problem, bounds_of
from planners.model.work import Work
from planners.recompute import RepeatableStep, repeated_problem
from planners.recompute.check_sequence import checked_sequence, require_placed
from planners.recompute.repeatable_step import Choice
from tests.planners.recompute.every_schedule import (
    UNIT_RATES,
    every_sequence,
    live_bytes,
    mixed_step,
    seconds_of_graph,
    small_step,
)


def random_choice(step: RepeatableStep, seed: int) -> Choice:
    rng = Random(seed)
    units = [unit for unit in np.flatnonzero(step.is_repeatable).tolist() if rng.random() < 0.5]
    tensors = [t for t in np.flatnonzero(step.is_sendable).tolist() if rng.random() < 0.4]
    return step.choice(units, tensors)


def step_of(
    consumers: list[list[int]],
    phase: list[int],
    written: list[tuple[int, int]] = (),
    contiguous: Sequence[tuple[int, ...]] = (),
    pinned: Mapping[int, int] | None = None,
    **work: object,
) -> RepeatableStep:
    """Return a step whose node n makes tensor n of 8 bytes."""
    nodes = len(phase)
    columns = {"repeatable": [1] * nodes, **work}
    graph = Graph(
        op=["op"] * nodes, stream=[0] * nodes, producer=range(nodes), consumers=consumers,
        work=Work(
            flops=[1] * nodes, moved_bytes=[0] * nodes, phase=phase, written=written, **columns
        ),
    )  # fmt: skip
    problem = Problem([8] * nodes, graph=graph, contiguous=contiguous, pinned=pinned)
    return RepeatableStep(problem, UNIT_RATES, may_send=True)


def test_a_node_that_changes_a_tensor_runs_again_with_its_maker() -> None:
    # Node 1 changes tensor 0 in place, and node 2 reads it behind that.
    step = step_of([[1, 2, 4], [4], [3], [4], []], [0, 0, 0, 1, 1], [(1, 0)])
    assert step.unit_of_node.tolist() == [0, 0, 1, 2, 3]
    assert step.late_sequence(step.choice([0])).tolist() == [0, 1, 2, 3, 0, 1, 4]


def test_a_node_that_read_a_tensor_before_its_change_may_not_run_again() -> None:
    # Node 1 reads tensor 0, which node 2 changes.
    step = step_of([[1, 2], [4], [4], [4], []], [0, 0, 0, 1, 1], [(2, 0)])
    assert step.is_repeatable.tolist() == [True, False, False, False]


def test_nodes_of_a_chain_run_again_together_and_make_a_chain() -> None:
    # Node 4 reads tensors 0 and 2, which lie one behind the other.
    step = step_of([[1, 4], [2], [4], [4], []], [0, 0, 0, 0, 1], contiguous=[(0, 2)])
    assert step.unit_of_node.tolist() == [0, 1, 0, 2, 3]
    assert step.is_sendable.tolist() == [False, False, False, True, False]
    sequence = step.late_sequence(step.choice([0]))
    assert sequence.tolist() == [0, 1, 2, 3, 0, 2, 4]
    problem = repeated_problem(step, sequence)
    assert problem.contiguous == ((0, 2), (5, 6))
    offsets = np.array([0, 40, 8, 48, 56, 16, 24])
    require_placed(step, sequence, offsets)
    offsets[6] = 32
    with pytest.raises(
        InvalidPlanError, match=r"6: tensor 2 must be at 24, the end of tensor 0 .* at 32"
    ):
        require_placed(step, sequence, offsets)


def test_a_pinned_tensor_is_neither_made_again_nor_sent_away() -> None:
    step = step_of([[2], [2], []], [0, 0, 1], pinned={0: 64})
    assert step.is_repeatable.tolist() == [False, True, False]
    assert step.is_sendable.tolist() == [False, True, False]
    with pytest.raises(InvalidPlanError, match="tensor 0 must be at 64, its pin, found at 8"):
        require_placed(step, np.arange(3), np.array([8, 0, 16]))


@pytest.mark.parametrize("may_send", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_a_unit_runs_again_after_all_its_nodes(seed: int, may_send: bool) -> None:
    # Where the passes are interleaved, a late node may change what an earlier node made.
    step = mixed_step(seed, may_send=may_send)
    for attempt in range(10):
        sequence = step.late_sequence(random_choice(step, attempt))
        checked_sequence(step, sequence)
        assert step.core.cost(sequence, 0)[1] == live_bytes(step, sequence.tolist())
        again = step.late_sequence(step.choice_of(sequence))
        assert again.tolist() == sequence.tolist()


def test_tensors_that_the_optimizer_reads_are_not_repeatable() -> None:
    step = step_of([[1, 3], [2], [3], []], [0, 0, 1, 2])
    assert step.is_repeatable.tolist() == [False, True, False, False]


def test_a_node_that_is_not_repeatable_stays() -> None:
    step = step_of([[2], [2], []], [0, 0, 1], repeatable=[0, 1, 1])
    assert step.is_repeatable.tolist() == [False, True, False]


@pytest.mark.parametrize("may_send", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_a_sequence_costs_what_the_rules_say(seed: int, may_send: bool) -> None:
    step = small_step(seed, layers=1 + seed % 9, operations=1 + seed % 3, may_send=may_send)
    sequence = step.late_sequence(random_choice(step, seed))
    checked_sequence(step, sequence)
    seconds, peak, excess = step.core.cost(sequence, 0)
    assert peak == live_bytes(step, sequence.tolist())
    problem = repeated_problem(step, sequence)
    lifetime, *_ = bounds_of(problem)
    assert peak <= lifetime.bytes if may_send else peak == lifetime.bytes
    total = seconds_of_graph(step, problem, sequence.tolist())
    assert seconds == pytest.approx(total - step.seconds, rel=1e-9, abs=1e-6)
    assert not excess or peak


@pytest.mark.parametrize("seed", range(30))
def test_nothing_runs_again_before_a_late_node_needs_it(seed: int) -> None:
    step = small_step(seed, layers=6, operations=2)
    choice = random_choice(step, seed)
    sequence = step.late_sequence(choice).tolist()
    seen: set[int] = set()
    for place, node in enumerate(sequence):
        if node in seen:
            assert choice.repeated[step.unit_of_node[node]]
            # The node behind it, or one that runs again with it, reads what it makes.
            unit = step.unit_of_node[node]
            made = np.flatnonzero(step.unit_of_tensor == unit)
            readers = {int(r) for tensor in made for r in step.graph.consumers_of(tensor)}
            assert readers & set(sequence[place + 1 :])
        seen.add(node)


def test_a_tensor_is_away_between_its_sending_and_its_fetch() -> None:
    step = small_step(3, layers=8, operations=2, may_send=True)
    tensor = int(np.flatnonzero(step.is_sendable)[0])
    sequence = step.late_sequence(step.choice((), [tensor])).tolist()
    nodes, tensors = step.graph.node_count, step.graph.tensor_count
    send, fetch = sequence.index(nodes + tensor), sequence.index(nodes + tensors + tensor)
    used = [int(step.graph.producer[tensor]), *step.graph.consumers_of(tensor).tolist()]
    assert not {entry for entry in sequence[send:fetch] if entry < nodes} & set(used)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s[:-1], "first runs are needed"),
        (lambda s: [s[1], s[0], *s[2:]], "is needed, found"),
        (lambda s: [*s, 0], "may not run again"),
        (lambda s: [*s, 1, 1], "a third time"),
        (lambda s: [*s, 99], "below"),
    ],
)
def test_a_wrong_sequence_is_refused(change: Callable[[list[int]], list[int]], said: str) -> None:
    step = step_of([[2], [3], [3], []], [0, 0, 1, 1], repeatable=[0, 1, 1, 1])
    with pytest.raises(InvalidPlanError, match=said):
        checked_sequence(step, np.array(change([0, 1, 2, 3]), dtype=np.int32))


def without(sequence: list[int], entry: int) -> list[int]:
    return [other for other in sequence if other != entry]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s, copies: without(s, copies[1]), "both sent away and fetched"),
        (lambda s, copies: [dict(zip(copies, copies[::-1], strict=True)).get(e, e) for e in s],
         "is used while it is away"),
        (lambda s, copies: [copies[0], *without(s, copies[0])], "is used while it is away"),
        (lambda s, copies: [*s, copies[0]], "a second copy"),
    ],
)  # fmt: skip
def test_a_wrong_copy_is_refused(
    change: Callable[[list[int], tuple[int, int]], list[int]], said: str
) -> None:
    step = small_step(3, layers=8, operations=2, may_send=True)
    tensor = int(np.flatnonzero(step.is_sendable)[0])
    sequence = step.late_sequence(step.choice((), [tensor])).tolist()
    send = step.graph.node_count + tensor
    wrong = change(sequence, (send, send + step.graph.tensor_count))
    with pytest.raises(InvalidPlanError, match=said):
        checked_sequence(step, np.array(wrong, dtype=np.int32))


def test_every_sequence_of_a_tiny_step_is_right() -> None:
    step = small_step(0, layers=2)
    for sequence in every_sequence(step):
        checked_sequence(step, np.array(sequence, dtype=np.int32))
        assert step.core.cost(np.array(sequence, np.int32), 0)[1] == live_bytes(step, sequence)


def test_a_step_needs_a_graph_that_knows_its_work() -> None:
    with pytest.raises(InstanceError, match="a graph is needed"):
        RepeatableStep(Problem([1], [0], [1]), UNIT_RATES)
    graph = Graph(op=["a"], stream=[0], producer=[0], consumers=[[]])
    with pytest.raises(InstanceError, match=r"field graph\.work is needed"):
        RepeatableStep(Problem([1], graph=graph), UNIT_RATES)
