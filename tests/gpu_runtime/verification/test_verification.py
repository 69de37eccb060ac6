"""Right plans pass and wrong plans fail, on random problems, whatever the device."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np
import pytest

from gpu_runtime.verification.corruption import Corruption
from gpu_runtime.verification.devices.device import (
    BrokenWord,
    DeviceOutcome,
    ForeignWords,
    OpenDevice,
)
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.injection import (
    Injection,
    inject,
    unsafe_overlaps,
)
from gpu_runtime.verification.trials.adversarial_delays import plan_adversarial_delays
from gpu_runtime.verification.trials.arena_layout import full_layout
from gpu_runtime.verification.trials.stamp_check_program import make_stamp_check_program
from gpu_runtime.verification.trials.trial import Disturbance, Trial, make_trial
from gpu_runtime.verification.verification import Verification, VerificationRequest, verify
from instances.synthetic import training_graph
from planners import Graph, Plan, Problem, Safety, place
from planners.errors import GaplessError, InstanceError
from planners.testing.random_problems import random_problem
from planners.waits.waiting_streams import without_streams
from tests.definitions import unsafe
from tests.slow import in_parts

PLANS = 200
TRIALS = 12
INJECTED = 3
FEATURES = frozenset({"alignment", "gaps", "zero"})

# Two streams, nothing between them:   0 makes a | 1 reads a
#                                      2         | 3         | 4         | 5 makes b | 6 reads b
APART = Graph(op=["op"] * 7, stream=[0, 0, 1, 1, 1, 1, 1], producer=[0, 5], consumers=[[1], [6]])


def random_plan(seed: int, unit: int) -> tuple[Problem, Plan]:
    """Return a problem with sizes in units of bytes, and a right plan for it."""
    rng = Random(seed)
    safety = rng.choice([Safety.LIFETIMES, Safety.GRAPH, Safety.GRAPH, Safety.GRAPH])
    drawn = random_problem(rng, safety, (2, 14), features=FEATURES)
    lifetimes = (drawn.start, drawn.end) if drawn.graph is None else (None, None)
    problem = Problem(
        drawn.size * unit,
        *lifetimes,
        graph=drawn.graph,
        gaps=drawn.gaps,
        alignment=drawn.alignment,
        name=f"random-{seed}",
    )
    return problem, place(problem, rng.choice(["size", "breadth"]), "first")


def most_injections(problem: Problem, plan: Plan, seed: int) -> list[Injection]:
    """Return a few injections, fewer where the problem has no room for them."""
    for count in range(INJECTED, 0, -1):
        try:
            return inject(problem, plan, count, seed)
        except GaplessError:
            continue
    return []


def require_a_right_judgement(
    device: OpenDevice, seeds: range, unit: int, *, is_compressed: bool = False
) -> None:
    """Fail where an injection goes unseen, or anything else is seen, in any of the plans."""
    injected, unseen = 0, []
    for seed in seeds:
        problem, plan = random_plan(seed, unit)
        request = VerificationRequest(trials=TRIALS, seed=seed, is_compressed=is_compressed)
        untouched = verify(problem, plan.offsets, device, request)
        assert untouched.corruptions == []
        assert untouched.passed
        injections = most_injections(problem, plan, seed)
        request = replace(request, injections=tuple(injections))
        found = verify(problem, plan.offsets, device, request)
        assert found.false_alarms() == []
        unseen += [(seed, it.tensor) for it in injections if not found.caught(it)]
        injected += len(injections)
    assert injected > 1.5 * len(seeds)
    assert unseen == []


@pytest.mark.parametrize("unit", [1, 512])
@in_parts("seeds", range(PLANS), first=20)
def test_all_injections_are_caught_and_nothing_else_is(
    device: OpenDevice, seeds: range, unit: int
) -> None:
    require_a_right_judgement(device, seeds, unit)


@in_parts("seeds", range(PLANS), first=20)
def test_compressed_memory_judges_as_every_byte_does(host_device: OpenDevice, seeds: range) -> None:
    require_a_right_judgement(host_device, seeds, 1, is_compressed=True)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_tensor_that_leaves_its_chain_is_caught(is_compressed: bool) -> None:
    drawn = training_graph(120, streams=4, chains=15)
    problem = Problem(drawn.size // 512 + 1, graph=drawn.graph, contiguous=drawn.contiguous)
    plan = place(problem, "size", "first")
    in_chains = {tensor for chain in problem.contiguous for tensor in chain}
    left = 0
    for seed in range(12):
        injections = inject(problem, plan, 4, seed)
        request = VerificationRequest(
            seed=seed, is_compressed=is_compressed, injections=tuple(injections)
        )
        found = verify(problem, plan.offsets, SimulatedDevice, request)
        assert all(found.caught(injection) for injection in injections)
        assert found.false_alarms() == []
        left += len(in_chains & {injection.tensor for injection in injections})
    assert left > 3


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 15])
@pytest.mark.parametrize("offset", [0, 1, 7])
def test_a_few_bytes_at_any_offset_are_missed(
    host_device: OpenDevice, size: int, offset: int
) -> None:
    """Two tensors in the same bytes, a third beside them on both of whose sides words are shared.

    A byte looks right by chance once in 256 trials, so one of some trials tells.
    """
    problem = Problem([size, size, 3], [0, 1, 0], [3, 4, 5])
    offsets = np.array([offset, offset, offset + size])
    for is_compressed in (False, True):
        request = VerificationRequest(trials=4, seed=size, is_compressed=is_compressed)
        found = verify(problem, offsets, host_device, request)
        assert pairs_of(found) == {(0, 1)}
        assert {it.offset for it in found.corruptions} <= {offset // 8 * 8, offset}


def test_compressed_memory_reports_the_same_corruptions_and_bytes() -> None:
    """Words of eight bytes and offsets at multiples of them, where both count whole words."""
    compared = 0
    for seed in range(60):
        problem, plan = random_plan(seed, 64)
        injections = most_injections(problem, plan, seed)
        aligned = [replace(it, offset=it.offset // 8 * 8) for it in injections]
        full, small = (
            verify(
                problem, plan.offsets, SimulatedDevice,
                VerificationRequest(4, seed, is_compressed, tuple(aligned)),
            )
            for is_compressed in (False, True)
        )  # fmt: skip
        assert small.corruptions == full.corruptions
        assert small.peak == full.peak
        compared += len(full.corruptions)
    assert compared > 100


def test_a_plan_that_ignores_streams_is_caught(device: OpenDevice) -> None:
    problem = six_streams()
    plan = place(without_streams(problem), "size", "first")
    wrong = unsafe_overlaps(problem, plan.offsets)
    found = verify(
        problem, plan.offsets, device, VerificationRequest(trials=20, overlaps=tuple(wrong))
    )
    assert pairs_of(found)
    assert pairs_of(found) <= set(wrong)
    assert found.false_alarms() == []


def test_random_delays_find_unsafe_pairs_unasked() -> None:
    """On the clock, where a seed decides what they find."""
    problem = six_streams()
    plan = place(without_streams(problem), "size", "first")
    found = verify(problem, plan.offsets, SimulatedDevice, VerificationRequest(trials=20))
    assert len(pairs_of(found)) > 20
    assert pairs_of(found) <= set(unsafe_overlaps(problem, plan.offsets))


def six_streams() -> Problem:
    problem = training_graph(80, streams=6, seed=2)
    return Problem(problem.size // 512 % 999 + 1, graph=problem.graph, name="six streams")


def pairs_of(found: Verification) -> set[tuple[int, int]]:
    """Return who was found in whose place, the lower first."""
    return {
        (min(it.victim, it.writer), max(it.victim, it.writer))
        for it in found.corruptions
        if it.writer is not None
    }


def test_one_directed_trial_shows_any_unsafe_pair_and_none_a_safe_one(
    device: OpenDevice,
) -> None:
    """Two tensors lie in the same bytes, all others apart, whatever else the machine does."""
    directed = 0
    for seed in range(40):
        drawn = random_problem(Random(seed), Safety.GRAPH, (2, 10), features=frozenset())
        problem = Problem([64] * drawn.tensor_count, graph=drawn.graph)
        program, wrong = make_stamp_check_program(problem), unsafe(problem)
        apart = np.cumsum(problem.size) - problem.size
        for pair in combinations(range(problem.tensor_count), 2):
            offsets = apart.copy()
            offsets[pair[1]] = offsets[pair[0]]
            delays = plan_adversarial_delays(program, *pair)
            opened = device(program, full_layout(problem, offsets))
            # Without delays of its own the trial is random.
            found = opened.run(make_trial(program, 1, seed, delays))
            opened.close()
            assert {frozenset((it.victim, it.writer)) for it in found.foreign} == (
                {frozenset(pair)} if pair in wrong else set()
            )
            assert pair in wrong or not found.broken
            directed += delays is not None and delays.first is not None
    assert directed > 150


def test_streams_with_nothing_between_them_collide_when_told_to(device: OpenDevice) -> None:
    problem = Problem([4096, 4096], graph=APART)
    offsets = np.zeros(2, dtype=np.int64)
    found = verify(problem, offsets, device, VerificationRequest(trials=2, overlaps=((0, 1),)))
    (first, *_) = found.corruptions
    assert {first.victim, first.writer} == {0, 1}
    assert first.unsafe
    assert first.bytes >= 4096
    assert first.offset == 0


def test_adversarial_delays_show_what_an_undisturbed_run_does_not() -> None:
    problem = Problem([4096, 4096], graph=APART)
    offsets = np.zeros(2, dtype=np.int64)
    request = VerificationRequest(trials=1, overlaps=((0, 1),))
    assert verify(problem, offsets, SimulatedDevice, request).passed
    found = verify(problem, offsets, SimulatedDevice, replace(request, trials=2))
    (collision,) = found.corruptions
    assert collision.disturbances == {Disturbance.DIRECTED}
    assert collision.trials == (1,)
    assert found.directed_trials == 1


class TellingDevice(SimulatedDevice):
    """A device that finds what it was told to."""

    outcome = DeviceOutcome(0.1)

    def run(self, trial: Trial) -> DeviceOutcome:
        return replace(self.outcome, seconds=1.0 + trial.number)


def test_words_that_a_device_had_no_room_for_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem([8], [0], [1])
    right = np.zeros(1, dtype=np.int64)
    assert verify(problem, right, TellingDevice, VerificationRequest(trials=2)).passed
    monkeypatch.setattr(TellingDevice, "outcome", DeviceOutcome(0.1, lost=3))
    found = verify(problem, right, TellingDevice, VerificationRequest(trials=2))
    assert (found.corruptions, found.lost, found.passed) == ([], 6, False)


@pytest.mark.parametrize(
    ("pairs", "directed"),
    [
        ([(0, 1)], [False, True, False, True, False, True]),
        # In the last two trials there are more pairs left than trials.
        ([(0, 1), (0, 2), (1, 2)], [False, True, False, True, True, True]),
        ([(0, 1)] * 6, [False, True, True, True, True, True]),
        ([], [False] * 6),
    ],
)
def test_every_other_trial_is_directed_and_more_where_pairs_are_left(
    monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[int, int]], directed: list[bool]
) -> None:
    graph = Graph(op=["op"] * 3, stream=[0, 1, 2], producer=[0, 1, 2], consumers=[[], [], []])
    made: list[bool] = []

    def run(_device: TellingDevice, trial: Trial) -> DeviceOutcome:
        made.append(trial.is_directed)
        return DeviceOutcome(0.1)

    monkeypatch.setattr(TellingDevice, "run", run)
    request = VerificationRequest(trials=6, overlaps=tuple(pairs))
    found = verify(Problem([8] * 3, graph=graph), np.array([0, 8, 16]), TellingDevice, request)
    assert made == directed
    assert found.directed_trials == sum(directed)


def test_alarms_are_false_where_nothing_that_was_moved_has_part_in_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    #   0 and 1 meet, so do 2 and 3; 4 comes after all others
    problem = Problem([8] * 5, [0, 0, 2, 2, 4], [1, 1, 3, 3, 5])
    foreign = [ForeignWords(*pair, 8, 0) for pair in ((0, 1), (2, 3), (0, 4))]
    broken = [BrokenWord(1, 1, 0, 0xFF)]
    monkeypatch.setattr(TellingDevice, "outcome", DeviceOutcome(0.1, foreign, broken))
    found = verify(problem, np.array([0, 8, 0, 8, 0]), TellingDevice, VerificationRequest(trials=1))
    injection = Injection(0, 1, 8)

    def pairs(alarms: list[Corruption]) -> set[tuple[int, int | None]]:
        return {(it.victim, it.writer) for it in alarms}

    assert pairs(found.false_alarms()) == {(0, 4), (1, None)}
    assert pairs(replace(found, injections=(injection,)).false_alarms()) == {
        (2, 3),
        (0, 4),
        (1, None),
    }
    assert pairs(found.caught(injection)) == {(0, 1)}
    assert found.caught(Injection(4, 0, 0)) == []


def test_the_same_seed_gives_the_same_findings() -> None:
    problem = Problem([64, 64], graph=APART)
    offsets = np.zeros(2, dtype=np.int64)
    first, again, other = (
        verify(
            problem, offsets, SimulatedDevice, VerificationRequest(trials=30, seed=seed)
        ).corruptions
        for seed in (4, 4, 5)
    )
    assert first == again
    assert first != other


def test_refuses_wrong_verifications() -> None:
    pairs = Problem([1, 1], unsafe_pairs=[(0, 1)])
    with pytest.raises(InstanceError, match="lifetimes or a graph are needed"):
        verify(pairs, np.zeros(2, dtype=np.int64), SimulatedDevice, VerificationRequest())
    with pytest.raises(GaplessError, match="trials: at least 1 is needed, found 0"):
        VerificationRequest(trials=0)
    with pytest.raises(GaplessError, match="seed: at least 0 is needed, found -1"):
        VerificationRequest(seed=-1)


@pytest.mark.parametrize("size", [[], [0, 0]])
def test_nothing_to_stamp(device: OpenDevice, size: list[int]) -> None:
    problem = Problem(size, [0] * len(size), [1] * len(size))
    offsets = np.zeros(len(size), dtype=np.int64)
    assert verify(problem, offsets, device, VerificationRequest(trials=3)).passed
