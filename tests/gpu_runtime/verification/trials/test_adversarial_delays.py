"""Every unsafe pair can be made to collide, and no safe one."""

from __future__ import annotations

from random import Random

from gpu_runtime.verification.devices.simulated_device import execution_order
from gpu_runtime.verification.trials.adversarial_delays import (
    AdversarialDelays,
    DelayQueue,
    plan_adversarial_delays,
)
from gpu_runtime.verification.trials.stamp_check_program import (
    StampCheckProgram,
    make_stamp_check_program,
)
from gpu_runtime.verification.trials.trial import Trial, make_trial
from planners import Safety
from planners.testing.random_problems import random_problem
from tests.definitions import descendants, unsafe


def collide(program: StampCheckProgram, trial: Trial, a: int, b: int) -> bool:
    """Return whether a trial stamps one of two tensors over the other before that is checked."""
    holder, lost = None, set[int]()
    for node, ends in execution_order(program, trial):
        for tensor in program.checks[node] if ends else ():
            if tensor in lost:
                return True
        for tensor in () if ends else program.stamps[node]:
            if tensor in (a, b):
                lost = {holder} - {None, tensor} if holder is not None else set()
                holder = tensor
    return False


def test_a_directed_trial_brings_every_unsafe_pair_and_no_safe_one_to_collide() -> None:
    directed = 0
    for seed in range(150):
        problem = random_problem(Random(seed), Safety.GRAPH, (2, 10), features=frozenset())
        program, wrong = make_stamp_check_program(problem), unsafe(problem)
        for a in range(problem.tensor_count):
            for b in range(a):
                delays = plan_adversarial_delays(program, a, b)
                assert (delays is not None) == ((b, a) in wrong)
                if delays is not None:
                    assert collide(program, make_trial(program, 0, seed, delays), a, b)
                    directed += delays.first is not None
    assert directed > 500


def test_random_trials_keep_the_order_that_the_arcs_give() -> None:
    for seed in range(60):
        problem = random_problem(Random(seed), Safety.GRAPH, (0, 10))
        assert problem.graph is not None
        program, after = make_stamp_check_program(problem), descendants(problem.graph)
        for number in range(4):
            order = list(execution_order(program, make_trial(program, number, seed)))
            at = {moment: index for index, moment in enumerate(order)}
            assert len(order) == len(at) == 2 * program.node_count
            for node in range(program.node_count):
                assert at[node, False] < at[node, True]
                assert all(at[node, True] < at[later, False] for later in after[node])


def test_random_trials_bring_about_orders_that_an_undisturbed_one_does_not() -> None:
    """Ten streams of one node: any of them may come first, and any last."""
    program = StampCheckProgram(tuple(range(10)), ((),) * 10, ((),) * 10, ((),) * 10)
    ends = [
        [node for node, at_end in execution_order(program, make_trial(program, n, 0)) if at_end]
        for n in range(100)
    ]
    assert {order[0] for order in ends} == set(range(10))
    assert {order[-1] for order in ends} == set(range(10))


def test_a_queue_gives_each_pair_its_turn_until_it_is_seen() -> None:
    apart = StampCheckProgram((0, 1, 2), ((0,), (1,), (2,)), ((0,), (1,), (2,)), ((), (), ()))
    queue = DelayQueue(apart, [(0, 1), (0, 2), (1, 2)])
    seen: set[tuple[int, int]] = set()

    def next_first() -> int | None:
        delays = queue.next(lambda a, b: (a, b) in seen)
        return None if delays is None else delays.first

    assert [next_first() for _ in range(4)] == [1, 2, 2, 1]
    seen |= {(0, 2), (1, 2)}
    assert [next_first() for _ in range(2)] == [1, 1]
    seen.add((0, 1))
    assert next_first() is None
    assert len(queue) == 0


def test_on_one_stream_there_is_nothing_to_delay() -> None:
    alone = StampCheckProgram((0, 0, 0), ((0,), (1,), ()), ((), (1,), (0,)), ((), (), ()))
    assert plan_adversarial_delays(alone, 0, 1) is not None
    assert DelayQueue(alone, [(0, 1)]).next(lambda _a, _b: False) is None


def test_a_collision_in_any_order_needs_no_delay() -> None:
    #   stream 0   makes 0 and 1
    #   stream 1                    makes 2, reads 0 and 1
    both = StampCheckProgram((0, 1), ((0, 1), (2,)), ((), (0, 1, 2)), ((), (0,)))
    for pair in ((0, 1), (0, 2)):
        assert plan_adversarial_delays(both, *pair) == AdversarialDelays(None, None, within=False)
        assert DelayQueue(both, [pair]).next(lambda _a, _b: False) is None
