"""Work beside the program: its outcome is taken when it is there, and it ends with the program."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from gpu_runtime.allocator.planning_thread import PlanningThread


def test_an_outcome_is_taken_once() -> None:
    thread: PlanningThread[int] = PlanningThread()
    go_on = threading.Event()

    def work() -> int:
        go_on.wait(60)
        return 5

    assert thread.take() is None
    thread.start(work)
    assert thread.take() is None
    assert thread.is_busy
    go_on.set()
    assert thread.take(wait=True) == 5
    assert not thread.is_busy
    assert thread.take() is None


def test_an_outcome_can_be_waited_for_and_left() -> None:
    thread: PlanningThread[int] = PlanningThread()
    thread.wait()
    go_on = threading.Event()
    thread.start(lambda: 5 if go_on.wait(60) else 6)
    threading.Timer(0.1, go_on.set).start()
    thread.wait()
    assert thread.is_busy
    assert thread.take() == 5


def test_an_error_is_raised_again_by_take() -> None:
    thread: PlanningThread[int] = PlanningThread()
    thread.start(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        thread.take(wait=True)
    thread.start(lambda: 7)
    assert thread.take(wait=True) == 7


def test_work_is_interrupted() -> None:
    thread: PlanningThread[None] = PlanningThread()

    def work() -> None:
        while True:
            time.sleep(0.001)

    thread.start(work)
    thread.stop()
    with pytest.raises(KeyboardInterrupt):
        thread.take()


@pytest.mark.core
def test_a_program_ends_while_it_is_planned() -> None:
    """The search takes minutes; the interpreter goes at once, and in order."""
    program = (
        "import numpy as np, threading\n"
        "from gpu_runtime.allocator.planning_thread import PlanningThread\n"
        "from planners import Problem, registry\n"
        "from planners.model.budget import Budget\n"
        "from planners.judged_run import run\n"
        "from planners.greedy import place as greedy\n"
        "begun, place_blocks = threading.Event(), greedy.place_blocks\n"
        "def place(*given, **options):\n"
        "    begun.set()\n"
        "    return place_blocks(*given, **options)\n"
        "greedy.place_blocks = place\n"
        "rng = np.random.default_rng(1)\n"
        "start = rng.integers(0, 400, 600)\n"
        "size, end = rng.integers(1, 1 << 20, 600), start + rng.integers(1, 90, 600)\n"
        "problem = Problem(size, start, end)\n"
        "thread = PlanningThread()\n"
        "thread.start(lambda: run(problem, 'auto', Budget(time_limit_seconds=300)))\n"
        "begun.wait()\n"
        "print('over', thread.is_busy)\n"
    )
    assert ended(program) == (0, "over True\n", "")


def test_a_program_ends_while_its_planner_is_imported() -> None:
    """A module that is imported runs code by ``exec``."""
    program = (
        "import threading, time\n"
        "from gpu_runtime.allocator.planning_thread import PlanningThread\n"
        "thread, begun = PlanningThread(), threading.Event()\n"
        "thread.start(lambda: exec('begun.set()\\nwhile True: time.sleep(0.001)'))\n"
        "begun.wait()\n"
    )
    assert ended(program) == (0, "", "")


def ended(program: str) -> tuple[int, str, str]:
    """Return the exit status of a program, and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr
