"""The page on training under a plan; its workers and its pairs are stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from multiprocessing import active_children
from threading import Barrier

import pytest

from evaluation.benchmarks import __main__ as command_line
from evaluation.benchmarks.measuring import allocation_pairs
from evaluation.benchmarks.measuring.allocation_pairs import (
    PairCase,
    Turn,
    pair_rows,
    turns_in_a_process,
    turns_in_this_process,
)
from evaluation.benchmarks.measuring.checks_at_once import ChecksAtOnce
from evaluation.benchmarks.pages import training_page
from evaluation.benchmarks.pages.training_page import CASES
from evaluation.benchmarks.pages.worded_page import WordedPage
from gpu_runtime.training.allocator_comparison import AllocatorComparison, compare_allocators
from gpu_runtime.training.run_specification import JUDGED, Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import Failure, WorkerResult
from instances.extract.models import find_model
from planners.errors import DeviceError, GaplessError
from tests.evaluation.benchmarks.pages.test_verification_page import rows_of
from tests.gpu_runtime.training.worker_results import CHECK, TIME, planned_check, planned_time

MICROSECONDS = {Allocator.DEFAULT: 2.0, Allocator.EXPANDABLE: 3.0, Allocator.PLANNED: 1.0}


def stand_in(specification: RunSpecification) -> WorkerResult:
    if specification.label == "time expandable":
        return Failure("out of memory: much")
    if specification.allocator is Allocator.PLANNED:
        return planned_check() if specification.purpose is Purpose.CHECK else planned_time()
    return CHECK if specification.purpose is Purpose.CHECK else TIME


class Turns:
    """Three turns, of which the core runs the first ten times slower for all alike."""

    def __init__(self) -> None:
        self.order: list[tuple[str, float]] = []

    @contextmanager
    def __call__(self, case: PairCase) -> Iterator[Turn]:
        middle = MICROSECONDS[case.allocator] * 1e-6
        seconds = iter([middle * 10, middle, middle * 0.5])

        def turn() -> float:
            self.order.append((case.name, taken := next(seconds)))
            return taken

        yield turn


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(allocation_pairs, "TURNS", 3)
    return Turns()


def test_a_table_a_model_and_one_of_pairs(monkeypatch: pytest.MonkeyPatch, turns: Turns) -> None:
    monkeypatch.setattr(training_page, "require_sound", lambda _: None)
    specifications: list[RunSpecification] = []

    def remembering(specification: RunSpecification) -> WorkerResult:
        specifications.append(specification)
        return stand_in(specification)

    text = training_page.training_page(
        "command", 40, ["bert-base", "gpt2-medium", "pairs"], remembering, turns
    ).render()
    assert {specification.timed_steps for specification in specifications} == {40}
    assert "## bert-base\n\n`python -m gpu_runtime.train bert-base --batch 32 --seq 512`" in text
    assert "--batch 8 --seq 1024 --checkpointing --microbatches 4`" in text
    assert text.count("torch 2.11.0; device NVIDIA H200") == 1
    assert text.count("- bit-identical: 4 losses, ") == 2
    assert text.count("- time expandable: out of memory: much") == 2
    rows = rows_of(text)
    assert rows["**planned**"][3] == "99.976%"
    assert rows["default"][3] == "80.000%"
    assert rows["C++: planned, inside a step"] == ["0.500", "1.000", "10.000", "0.500x"]


def test_a_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_page, "require_sound", lambda _: None)
    text = training_page.training_page("command", 40, ["resnet-50"], stand_in).render()
    assert "## resnet-50" in text
    assert "## bert-base" not in text
    assert "## Pairs" not in text
    assert "torch 2.11.0" in text


def test_a_part_that_does_not_exist_is_one_line(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.sched_getaffinity(0)
    assert main("training", "--only", "bert-bse") == 2
    assert "error: --only: no part is called 'bert-bse'; did you mean 'bert-base'" in (
        capsys.readouterr().err
    )
    os.sched_setaffinity(0, before)


def test_pairs_are_compared_with_native_ones_of_the_same_turn(turns: Turns) -> None:
    rows = pair_rows(turns)
    assert [name for name, _ in turns.order[:9]] == [*(row[0] for row in rows), rows[0][0]]
    assert len(turns.order) == 3 * 8 * allocation_pairs.ROUNDS
    assert [row[0] for row in rows] == [
        "C++: native", "C++: native, expandable segments", "C++: planned, inside a step",
        "C++: planned, outside of steps", "Python: native", "Python: native, expandable segments",
        "Python: planned, inside a step", "Python: planned, outside of steps",
    ]  # fmt: skip
    assert [row[4] for row in rows] == 2 * ["1.000x", "1.500x", "0.500x", "0.500x"]


def test_a_loop_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation_pairs, "TURNS", 1)
    seconds = {"C++": 1e-7, "Python": 2e-6}
    rows = pair_rows(lambda case: nullcontext(lambda: seconds[case.loop]))
    assert {row[4] for row in rows} == {"1.000x"}
    assert [row[2] for row in rows[::4]] == ["0.100", "2.000"]


@pytest.mark.parametrize("specification", CASES, ids=lambda specification: specification.model)
def test_every_case_is_one_that_its_model_has(specification: RunSpecification) -> None:
    find_model(specification.model).settings(
        **specification.shape, precision=specification.settings.weights_precision
    )
    assert specification.settings.steps >= 5


@pytest.mark.torch
def test_turns_are_warmed_up_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training import allocator_probe
    from tests.gpu_runtime.training.worker_results import PLAN

    for served in (20, 19):
        plan = replace(PLAN, planned_requests=served)
        monkeypatch.setattr(allocator_probe.HostProbe, "plan", lambda _, plan=plan: plan)
        for case in allocation_pairs.CASES:
            refused = case.in_step and served == 19
            with (
                pytest.raises(GaplessError, match="was to serve 20 requests, and served 19")
                if refused
                else nullcontext(),
                turns_in_this_process(case, "cpu", pairs=5) as turn,
            ):
                assert all(0 < turn() < 1 for _ in range(4))


@pytest.mark.torch
def test_processes_take_turns() -> None:
    with ExitStack() as stack:
        turns = [
            stack.enter_context(turns_in_a_process(case, "cpu"))
            for case in allocation_pairs.CASES[:2]
        ]
        assert all(0 < turn() < 1 for turn in turns * 2)


@pytest.mark.torch
def test_a_process_that_dies_between_turns_is_told() -> None:
    with (
        pytest.raises(GaplessError, match=r"C\+\+: native: the process that measures pairs died"),
        turns_in_a_process(allocation_pairs.CASES[0], "cpu") as turn,
    ):
        turn_of_the_dead(turn)


def turn_of_the_dead(turn: Turn) -> None:
    (child,) = active_children()
    child.kill()
    child.join()
    turn()


@pytest.mark.torch
def test_what_goes_wrong_in_a_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with (
        pytest.raises(DeviceError, match="PyTorch finds no CUDA device"),
        turns_in_a_process(allocation_pairs.CASES[0]),
    ):
        pass


@pytest.mark.gpu
def test_the_plan_serves_every_pair() -> None:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(turns_in_a_process(case)) for case in allocation_pairs.CASES
        ]
        assert all(turn() > 0 for turn in processes)


def test_checks_side_by_side_are_the_same_jobs() -> None:
    together = Barrier(3)
    specifications: list[str] = []

    def waiting(specification: RunSpecification) -> WorkerResult:
        if specification.purpose is Purpose.CHECK:
            together.wait(30)
        specifications.append(specification.to_json())
        return stand_in(specification)

    alone: list[str] = []

    def remembering(specification: RunSpecification) -> WorkerResult:
        alone.append(specification.to_json())
        return stand_in(specification)

    side_by_side, one_by_one = AllocatorComparison(), AllocatorComparison()
    compare_allocators(CASES[0], JUDGED, side_by_side, lambda *_: None, ChecksAtOnce(waiting))
    compare_allocators(CASES[0], JUDGED, one_by_one, lambda *_: None, remembering)
    assert sorted(specifications) == sorted(alone)
    assert side_by_side.checks == one_by_one.checks


def test_an_error_of_a_check_is_raised_where_its_answer_is_asked_for() -> None:
    def refusing(specification: RunSpecification) -> WorkerResult:
        if specification.allocator is Allocator.EXPANDABLE:
            raise OSError("no more processes")
        return stand_in(specification)

    checks = ChecksAtOnce(refusing)
    assert checks(CASES[0]) == CHECK
    with pytest.raises(OSError, match="no more processes"):
        checks(replace(CASES[0], allocator=Allocator.EXPANDABLE))


def test_ctrl_c_does_not_wait_for_checks() -> None:
    """Children that never answer: a parent that waits for them ends by the time limit alone."""
    code = (
        "import _thread, threading\n"
        "from evaluation.benchmarks.measuring.checks_at_once import ChecksAtOnce\n"
        "from evaluation.benchmarks.pages.training_page import CASES\n"
        "together = threading.Barrier(3, _thread.interrupt_main)\n"
        "def never(specification):\n"
        "    together.wait()\n"
        "    threading.Event().wait()\n"
        "ChecksAtOnce(never)(CASES[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


# Of the page that stands in for the one that takes a GPU.
PLACES = ("processes", "tensors", "file-bytes", "reading-ms", "reading-worst")


def test_the_page_says_how_it_was_made(
    main: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, bool]] = []

    def page(command: str, *_: object, checks_at_once: bool) -> WordedPage:
        made.append((command, checks_at_once))
        return WordedPage("responsiveness", command, dict.fromkeys(PLACES, ""))

    monkeypatch.setattr(command_line, "training_page", page)
    before = os.sched_getaffinity(0)
    assert main("training", "--only", "pairs", "--checks-at-once") == 0
    assert main("training") == 0
    os.sched_setaffinity(0, before)
    begin = "python -m evaluation.benchmarks training --timed-steps 30"
    assert made == [(f"{begin} --only pairs --checks-at-once", True), (begin, False)]
