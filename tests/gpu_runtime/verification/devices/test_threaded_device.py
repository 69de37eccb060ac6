"""One thread a stream: in order by the arcs and nothing more, and ended by errors and Ctrl-C."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

from gpu_runtime.verification.devices.host_arena import HostArena
from gpu_runtime.verification.devices.scheduler import StreamScheduler
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.devices.threaded_device import SHORTEST_LAP_SECONDS, ThreadedDevice
from gpu_runtime.verification.trials.adversarial_delays import AdversarialDelays
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import (
    StampCheckProgram,
    make_stamp_check_program,
)
from gpu_runtime.verification.trials.trial import Trial, make_trial
from gpu_runtime.verification.verification import VerificationRequest, verify
from planners import Graph, Problem, Safety
from planners.errors import DeviceError
from planners.testing.random_problems import random_problem
from tests.definitions import descendants

# Long enough for any machine; over only where something is wrong.
FOREVER_SECONDS = 100

# Stream 0 and stream 1, nothing between them, a node and a tensor each.
APART = StampCheckProgram((0, 1), ((0,), (1,)), ((0,), (1,)), ((), ()))
# Stream 0 makes, stream 1 reads.
AFTER = StampCheckProgram((0, 1), ((0,), ()), ((), (0,)), ((), (0,)))

Call = tuple[str, int]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def side_by_side(count: int, size: int = 64) -> Layout:
    return Layout(np.arange(count) * size, np.full(count, size), count * size)


def run_once(program: StampCheckProgram, trial: Trial) -> None:
    """Run a trial in which no tensor lies on another."""
    device = ThreadedDevice(program, side_by_side(program.node_count))
    try:
        outcome = device.run(trial)
    finally:
        device.close()
    assert not outcome.foreign
    assert not outcome.broken


def around(
    monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[int], None],
    after: Callable[[int], None] = lambda _tensor: None,
) -> None:  # fmt: skip
    """Do something with the tensor before and after each stamp or check, on its thread."""
    work = getattr(HostArena, name)

    def observed(arena: HostArena, tensor: int, *arguments: Any) -> None:
        before(tensor)
        work(arena, tensor, *arguments)
        after(tensor)

    monkeypatch.setattr(HostArena, name, observed)


def one_tensor_a_node(seed: int) -> tuple[StampCheckProgram, list[set[int]]]:
    """Return nodes with the arcs of a random graph, and who follows each by its paths."""
    problem = random_problem(Random(seed), Safety.GRAPH, (1, 9), features=frozenset())
    assert problem.graph is not None
    program = make_stamp_check_program(problem)
    own = tuple((node,) for node in range(program.node_count))
    return replace(program, stamps=own, checks=own), descendants(problem.graph)


def test_unordered_nodes_run_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any two nodes without a path between them wait for each other in the middle of their work."""
    met = 0
    for seed in range(12):
        program, after = one_tensor_a_node(seed)
        for pair in combinations(range(program.node_count), 2):
            if pair[1] in after[pair[0]] or pair[0] in after[pair[1]]:
                continue
            for name in ("stamp", "check"):
                meeting = threading.Barrier(2, timeout=FOREVER_SECONDS)
                with monkeypatch.context() as patched:
                    around(patched, name, lambda it, a=pair, m=meeting: it in a and m.wait())
                    run_once(program, make_trial(program, 0, seed))
                met += 1
    assert met > 40


def test_one_stamps_while_another_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(2, timeout=FOREVER_SECONDS)
    around(monkeypatch, "stamp", lambda tensor: tensor == 0 and meeting.wait())
    around(monkeypatch, "check", lambda tensor: tensor == 1 and meeting.wait())
    run_once(APART, make_trial(APART, 0, 0))


def note(moments: list[Call], what: str, tensor: int) -> None:
    moments.append((what, tensor))


def test_arcs_order_nodes_under_delays_and_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        program, after = one_tensor_a_node(seed)
        nodes = range(program.node_count)
        rng = Random(seed)
        held = (
            AdversarialDelays(*rng.sample(nodes, 2), within=rng.random() < 0.5)
            if len(nodes) > 1
            else None
        )
        for number, delays in ((0, None), (1, None), (2, None), (3, held)):
            moments: list[Call] = []
            with monkeypatch.context() as patched:
                log = partial(note, moments)
                around(patched, "stamp", partial(log, "begin"))
                around(patched, "check", lambda _tensor: None, partial(log, "end"))
                run_once(program, make_trial(program, number, seed, delays))
            at = {moment: index for index, moment in enumerate(moments)}
            assert len(moments) == len(at) == 2 * len(nodes)
            for node in nodes:
                assert at["begin", node] < at["end", node]
                assert all(at["end", node] < at["begin", later] for later in after[node])


def test_on_one_stream_it_finds_what_the_clock_finds() -> None:
    """Offsets at random, so that most plans are wrong."""
    wrong = 0
    for seed in range(60):
        rng = Random(seed)
        drawn = random_problem(rng, Safety.LIFETIMES, (1, 9), features=frozenset({"gaps"}))
        problem = Problem(drawn.size * 9, drawn.start, drawn.end, gaps=drawn.gaps)
        reach = max(1, problem.naive_bytes // 2)
        offsets = np.array([rng.randrange(reach) for _ in range(problem.tensor_count)])
        threads, clock = (
            verify(problem, offsets, device, VerificationRequest(trials=2, seed=seed))
            for device in (ThreadedDevice, SimulatedDevice)
        )
        assert threads.corruptions == clock.corruptions
        wrong += not clock.passed
    assert wrong > 30


def test_delays_are_slept_in_laps_where_the_trial_says(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, float]] = []
    alone = StampCheckProgram((0,), ((0,),), ((0,),), ((),))
    around(monkeypatch, "stamp", lambda _tensor: calls.append(("stamp", 0)))
    around(monkeypatch, "check", lambda _tensor: calls.append(("check", 0)))
    monkeypatch.setattr(
        StreamScheduler, "rest", lambda _order, _node, seconds: calls.append(("rest", seconds))
    )
    device = ThreadedDevice(alone, side_by_side(1))
    lap = max(device.run(make_trial(alone, 0, 0)).seconds, SHORTEST_LAP_SECONDS)
    calls.clear()
    trial = replace(make_trial(alone, 1, 0), before=np.array([0.25]), within=np.array([3.0]))
    device.run(trial)
    device.close()
    assert calls == [
        ("rest", 0.25 * lap), ("stamp", 0), ("rest", 3.0 * lap), ("check", 0),
    ]  # fmt: skip


class BrokenMemoryError(Exception):
    pass


@pytest.mark.parametrize("name", ["stamp", "check"])
def test_an_error_ends_all_threads_and_is_raised_as_it_is(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """One stream fails, another waits for it, and a third sleeps for longer than any test."""
    program = StampCheckProgram(
        (0, 1, 2), ((0,), (), (1,)), ((0,), (0,), (1,)), ((), (0,), ())
    )  # fmt: skip
    error = BrokenMemoryError("the third bank")

    def fail(tensor: int) -> None:
        if tensor == 0:
            raise error

    around(monkeypatch, name, fail)
    device = ThreadedDevice(program, side_by_side(2))
    trial = replace(make_trial(program, 1, 0), before=np.array([0.0, 0.0, 1e9]), within=np.zeros(3))
    with pytest.raises(BrokenMemoryError) as raised:
        device.run(trial)
    assert raised.value is error
    device.close()


def interrupt_main_thread() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


def test_ctrl_c_ends_all_threads_and_keeps_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the third trial, of a node that then has nobody to wait for it."""
    graph = Graph(op=["op"] * 3, stream=[0, 0, 1], producer=[0, 0, 2], consumers=[[1], [1], [2]])
    problem = Problem([8, 8, 8], graph=graph)
    made = []

    def interrupt(tensor: int) -> None:
        made.append(tensor)
        if made.count(2) == 3 and tensor == 2:
            interrupt_main_thread()

    around(monkeypatch, "stamp", interrupt)
    found = verify(problem, np.array([0, 0, 8]), ThreadedDevice, VerificationRequest(trials=500))
    assert found.interrupted
    assert not found.passed
    assert found.trials in (2, 3)
    assert {(it.victim, it.writer) for it in found.corruptions} == {(0, 1)}


# The second as where it comes right before the main thread waits.
@pytest.mark.parametrize("interrupt", [interrupt_main_thread, _thread.interrupt_main])
def test_ctrl_c_wakes_threads_that_sleep(
    monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], None]
) -> None:
    around(monkeypatch, "stamp", lambda tensor: tensor == 0 and interrupt())
    device = ThreadedDevice(APART, side_by_side(2))
    trial = replace(make_trial(APART, 1, 0), before=np.zeros(2), within=np.full(2, 1e9))
    assert device.run(trial).interrupted
    device.close()


def test_without_enough_threads_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "stream 1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    device = ThreadedDevice(AFTER, side_by_side(2))
    with pytest.raises(DeviceError, match=r"none for stream 2 of 2: can't start .*simulated"):
        device.run(make_trial(AFTER, 0, 0))
    device.close()


@pytest.mark.parametrize("stream", [(), (0,)])
def test_programs_without_work(stream: tuple[int, ...]) -> None:
    nothing = ((),) * len(stream)
    program = StampCheckProgram(stream, nothing, nothing, nothing)
    for number in range(3):
        run_once(program, make_trial(program, number, 0))
