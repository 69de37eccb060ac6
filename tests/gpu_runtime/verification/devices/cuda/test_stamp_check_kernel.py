"""The kernel, run on the host, against the simulated device: the same words are wrong."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from gpu_runtime.verification.devices.cuda.work_table import LEAST_CHUNK_BYTES
from gpu_runtime.verification.devices.device import ForeignWords
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.trials.arena_layout import Layout, full_layout
from gpu_runtime.verification.trials.stamp_check_program import (
    StampCheckProgram,
    make_stamp_check_program,
)
from gpu_runtime.verification.trials.stamp_pattern import pattern_bytes
from gpu_runtime.verification.trials.trial import make_trial
from planners import Problem, Safety
from planners.testing.random_problems import random_problem
from tests.gpu_runtime.verification.devices.cuda.host_kernel import HostKernel, host_library

ALONE = StampCheckProgram(stream=(0,), stamps=((0,),), checks=((0,),), awaits=((),))


def one_tensor(offset: int, size: int) -> Layout:
    return Layout(np.array([offset]), np.array([size]), offset + size + 40)


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 15, 16, 17, LEAST_CHUNK_BYTES - 3])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 31, 32, 33, 1000, 2 * LEAST_CHUNK_BYTES + 5])
def test_a_stamp_is_the_pattern_and_nothing_beside_it(offset: int, size: int) -> None:
    kernel = HostKernel(ALONE, one_tensor(offset, size))
    trial = make_trial(ALONE, 0, seed=3)
    kernel.begin(trial)
    kernel.run_node(0)
    stamped = kernel.arena[offset : offset + size]
    np.testing.assert_array_equal(stamped, pattern_bytes(0, offset, size, trial.key))
    assert not kernel.arena[:offset].any()
    assert not kernel.arena[offset + size :].any()
    assert not kernel.findings["wrong"][0]


@pytest.mark.parametrize("place", [0, 5, 100, 4096, LEAST_CHUNK_BYTES, 2 * LEAST_CHUNK_BYTES + 4])
def test_one_wrong_byte_is_seen(place: int) -> None:
    write_and_read = StampCheckProgram((0, 0), ((0,), ()), ((), (0,)), ((), ()))
    kernel = HostKernel(write_and_read, one_tensor(3, 2 * LEAST_CHUNK_BYTES + 5))
    trial = make_trial(write_and_read, 0, seed=3)
    kernel.begin(trial)
    kernel.run_node(0)
    kernel.arena[3 + place] ^= 1
    kernel.run_node(1)
    (broken,) = kernel.outcome().broken
    assert broken.word == (3 + place) // 8
    assert broken.mask >> (3 + place) % 8 & 1


@pytest.mark.parametrize("unit", [1, 3, 8, 9_000])
def test_the_kernel_finds_what_the_simulated_device_finds(unit: int) -> None:
    """One stream, where both run node by node; offsets at random, so that most plans are wrong."""
    wrong = 0
    for seed in range(60):
        rng = Random(seed)
        drawn = random_problem(rng, Safety.LIFETIMES, (1, 9), features=frozenset({"gaps"}))
        problem = Problem(drawn.size * unit, drawn.start, drawn.end, gaps=drawn.gaps)
        reach = max(1, problem.naive_bytes // 2)
        offsets = np.array([rng.randrange(reach) for _ in range(problem.tensor_count)])
        program, layout = make_stamp_check_program(problem), full_layout(problem, offsets)
        kernel, device = HostKernel(program, layout), SimulatedDevice(program, layout)
        for number in range(2):
            trial = make_trial(program, number, seed)
            kernel.begin(trial)
            for node in range(program.node_count):
                kernel.run_node(node)
            ours, expected = kernel.outcome(), device.run(trial)
            assert total(ours.foreign) == total(expected.foreign)
            assert sorted(map(str, ours.broken)) == sorted(map(str, expected.broken))
            assert ours.lost == 0
            wrong += bool(expected.foreign or expected.broken)
        device.close()
    assert wrong > 60


def total(found: list[ForeignWords]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return bytes and first word of each pair."""
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for words in found:
        count, first = pairs.get((words.victim, words.writer), (0, words.first_word))
        pairs[words.victim, words.writer] = (
            count + words.plan_bytes,
            min(first, words.first_word),
        )
    return pairs


def test_more_wrong_words_than_there_is_room_for_are_counted() -> None:
    write_and_read = StampCheckProgram((0, 0), ((0,), ()), ((), (0,)), ((), ()))
    kernel = HostKernel(write_and_read, one_tensor(0, 800))
    kernel.program["broken_capacity"] = 10
    trial = make_trial(write_and_read, 0, seed=3)
    kernel.begin(trial)
    kernel.run_node(0)
    kernel.arena[:800] = 0
    kernel.run_node(1)
    found = kernel.findings[0]
    assert (found["broken"], found["lost"]) == (100, 90)


def test_delays_are_spent_before_stamping_and_between_stamping_and_checking() -> None:
    kernel = HostKernel(ALONE, one_tensor(0, 64))
    trial = make_trial(ALONE, 0, seed=3)
    for before, within in ((0, 0), (5_000, 0), (0, 7_000), (5_000, 7_000)):
        kernel.delays["before_ns"], kernel.delays["within_ns"] = before, within
        kernel.begin(trial)
        earlier = host_library().host_ticks()
        kernel.run_node(0)
        assert before + within <= host_library().host_ticks() - earlier <= before + within + 1_000
