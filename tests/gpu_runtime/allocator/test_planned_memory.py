"""The five lines of a user, the places that mismatches come from, and what the report says."""

from __future__ import annotations

import _thread
import inspect
import json
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from random import Random

import pytest

from gpu_runtime import PlannedMemory
from gpu_runtime._core import CountingMemory, PlannedAllocator, SimulatedMemory
from gpu_runtime.allocator.call_counts import DeviceUse
from planners.errors import DeviceError, GaplessError, UnknownPlannerError
from tests.gpu_runtime.allocator.synthetic_training import (
    PAGE_BYTES,
    SETTLED_STEPS,
    Life,
    Program,
    Request,
    Training,
    planned_training,
)

pytestmark = pytest.mark.core

PROGRAM: Program = [Request(1000, 0, Life.WITHIN, 2), Request(3000, 0, Life.WITHIN, 2)]


def line_of_caller() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def places(training: Training) -> list[str]:
    return [mismatch.where for mismatch in training.memory.report().mismatches]


def test_a_mismatch_says_where_it_was_made() -> None:
    training = planned_training(PROGRAM)
    with training.memory.step():
        address, line = training.allocator.allocate(77), line_of_caller()
    here = "test_a_mismatch_says_where_it_was_made"
    assert places(training) == [f"{__file__}:{line} in {here}"]
    training.allocator.free(address)


def test_a_library_is_not_where_a_mismatch_comes_from() -> None:
    training = planned_training(PROGRAM)
    library: dict[str, object] = {"__name__": "torch.nn.modules.linear"}
    exec("def forward(allocate):\n    return allocate(77)", library)
    forward = library["forward"]
    assert callable(forward)
    with training.memory.step():
        forward(training.allocator.allocate)
        line = line_of_caller() - 1
    assert places(training)[0].startswith(f"{__file__}:{line} in ")


def in_a_thread_of_c(call: Callable[..., object], *arguments: int) -> None:
    """Call what is written in C in a thread without a single frame of Python."""
    _thread.start_new_thread(call, arguments)


def test_a_thread_without_python_gets_its_memory_and_no_place() -> None:
    training = planned_training(PROGRAM)
    with training.memory.step():
        in_a_thread_of_c(training.allocator.allocate, 77, 0)
        deadline = time.monotonic() + 60
        while not training.memory.report().mismatches and time.monotonic() < deadline:
            time.sleep(0.001)
        # The listener comes after the count.
        while not places(training)[0] and time.monotonic() < deadline:
            time.sleep(0.001)
    assert places(training) == ["a thread of autograd"]
    assert __file__ not in str(training.memory.report())
    assert training.allocator.figures().requested_bytes == 77


def test_a_reset_forgets_mismatches() -> None:
    training = planned_training(PROGRAM)
    for size in (77, 78):
        with training.memory.step():
            training.allocator.allocate(size)
        (mismatch,) = training.memory.report().mismatches
        assert mismatch.size == size
        assert mismatch.where.startswith(__file__)
        training.memory.reset_peaks()


def test_a_listener_that_fails_costs_no_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))

    def fail(_mismatch: object) -> None:
        raise ZeroDivisionError

    training = planned_training(PROGRAM)
    training.allocator.on_mismatch(fail)
    with training.memory.step():
        address = training.allocator.allocate(77)
    assert told == [ZeroDivisionError]
    training.allocator.free(address)
    assert capsys.readouterr().err == ""
    training.free_all()


def test_an_interrupted_listener_interrupts_the_program_after_the_request() -> None:
    def interrupted(_mismatch: object) -> None:
        raise KeyboardInterrupt

    training = planned_training(PROGRAM)
    training.allocator.on_mismatch(interrupted)
    addresses: list[int] = []
    with pytest.raises(KeyboardInterrupt), training.memory.step():  # noqa: PT012
        # The request is over before Python looks for interrupts.
        addresses.extend(map(training.allocator.allocate, [77]))
        for _ in range(10_000):
            time.sleep(0.001)
    training.allocator.free(addresses.pop())
    training.free_all()


def test_the_report_as_text() -> None:
    training = planned_training(PROGRAM)
    training.step(PROGRAM)
    with training.memory.step():
        first = training.allocator.allocate(1000)
        line = line_of_caller() - 1
        training.allocator.free(training.allocator.allocate(123_456))
        training.allocator.free(training.allocator.allocate(3000))
        training.allocator.free(first)
    report = training.memory.report()
    lines = str(report).splitlines()
    assert lines[0] == "planner    many-objects-size-best: optimal"
    assert lines[1] == "steps      2, 1 of them planned; plans made: 1"
    values = {text[:11].strip(): " ".join(text[11:].split()) for text in lines}
    assert values["requested"] == "124,456 bytes, at its peak"
    assert values["allocated"] == "124,928 bytes, in whole blocks"
    assert values["reserved"] == (
        f"{report.reserved_bytes:,} bytes, efficiency {124_928 / report.reserved_bytes:.2%}"
    )
    assert values["PyTorch"] == f"{report.default_bytes:,} bytes, by default"
    assert values["arena"] == "4,096 bytes"
    assert values["outlives"] == "0 bytes, at most, of one step"
    assert values["bound"] == "4,096 bytes, no plan needs less"
    assert values["requests"] == "3 planned, 0 escaping, 2 after a step left its plan"
    assert (
        f"  step 7: 123,456 bytes on stream 0x0 at {__file__}:{line + 2} in "
        "test_the_report_as_text: request 1 of the plan has 3,000 bytes"
    ) in lines
    assert [line.split() for line in lines[-2:]] == [
        ["kind", "steps", "requests", "peak", "bytes", "as", "planned"],
        ["step", "7", "2", "4,096", "1"],
    ]


def test_each_kind_of_mismatch_is_a_sentence() -> None:
    program = [Request(1000, 16, Life.WITHIN, 1), Request(2000, 16, Life.WITHIN, 2)]
    for unlike, sentence in (
        ([Request(1000, 16, Life.NEXT, 3), program[1]], "1 of the plan, whose place is in use"),
        ([*program, Request(10, 16, Life.BETWEEN)], "the plan ends after 2 requests"),
        ([Request(11, 17, Life.BETWEEN)], "request 0 of the plan is on another stream"),
    ):
        training = planned_training(program)
        training.step(unlike)
        (mismatch,) = training.memory.report().mismatches
        assert str(mismatch).endswith(sentence)


def test_the_report_as_json() -> None:
    training = planned_training(PROGRAM)
    training.step([Request(5, 0, Life.BETWEEN)])
    report = training.memory.report()
    read = json.loads(json.dumps(report.to_json()))
    assert read["planner"] == "many-objects-size-best"
    assert read["mismatch_counts"] == {"size": 1}
    assert read["efficiency"] == report.efficiency
    (mismatch,) = read["mismatches"]
    assert mismatch == {
        "kind": "size", "step": 6, "request": 0, "size": 5, "expected_size": 1000, "stream": 0,
        "where": mismatch["where"],
    }  # fmt: skip
    assert set(read) == {*report.__dataclass_fields__, "efficiency"}


def test_before_anything_is_reserved() -> None:
    report = Training().memory.report()
    assert report.efficiency == 1.0
    assert report.status == "profiling"
    assert "planned   " not in str(report).replace("0 planned", "").replace("them planned", "")


@pytest.mark.parametrize("method", ["report", "reset_peaks"])
def test_nothing_is_told_before_the_installation(method: str) -> None:
    memory = PlannedMemory("naive")
    with pytest.raises(DeviceError, match=r"^planned memory is not installed; call install\(\)"):
        getattr(memory, method)()
    with pytest.raises(DeviceError, match="not installed"), memory.step():
        pass
    with pytest.raises(DeviceError, match="not installed"):
        _ = memory.problems


def test_refuses_wrong_parameters_before_the_installation() -> None:
    with pytest.raises(UnknownPlannerError, match="did you mean 'naive'"):
        PlannedMemory("naiv")
    with pytest.raises(GaplessError, match=r"^arena: 'vmm' or 'cudaMalloc', found 'heap'"):
        PlannedMemory("naive", arena="heap")  # type: ignore[arg-type]
    with pytest.raises(GaplessError, match=r"time limit: .*found -1"):
        PlannedMemory("naive", time_limit=-1)


def test_a_planner_is_named_as_on_the_command_line() -> None:
    training = Training("greedy-size-first:chain_rule=paper")
    training.run(PROGRAM, 3)
    assert training.planned
    assert training.memory.report().planner == "greedy-size-first:chain_rule=paper"
    with pytest.raises(UnknownPlannerError, match="one planner is needed, found 8 by"):
        PlannedMemory("greedy-*")


def test_refuses_a_second_installation() -> None:
    training = Training()
    with pytest.raises(DeviceError, match="installed already"):
        training.memory.install()
    with pytest.raises(DeviceError, match="installed already"):
        training.memory.attach(PlannedAllocator(SimulatedMemory(PAGE_BYTES, 1 << 20)))


@pytest.mark.parametrize("profiled", [0, 1, 2, 3])
def test_a_step_within_a_step(profiled: int) -> None:
    training = Training()
    training.run(PROGRAM, profiled)
    rule = "^step: a step begins within a step; a step ends before the next one begins$"
    with pytest.raises(DeviceError, match=rule), training.memory.step():  # noqa: PT012
        training.allocator.free(training.allocator.allocate(5))
        with training.memory.step():
            pytest.fail("the inner step has begun")
    assert training.memory.report().steps == profiled + 1
    training.run(PROGRAM, 3)
    assert training.planned
    assert training.memory.report().steps == profiled + 4


def test_an_error_in_a_step_is_the_users_own() -> None:
    """Also where PyTorch is not there to have raised it."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from gpu_runtime import PlannedMemory\n"
        "from gpu_runtime._core import PlannedAllocator, SimulatedMemory\n"
        "memory = PlannedMemory('naive')\n"
        "memory.attach(PlannedAllocator(SimulatedMemory(65536, 1 << 20)))\n"
        "for text in ('my own', 'CUDA out of memory. My own'):\n"
        "    try:\n"
        "        with memory.step():\n"
        "            raise RuntimeError(text)\n"
        "    except RuntimeError as error:\n"
        "        assert type(error) is RuntimeError and str(error) == text\n"
        "try:\n"
        "    PlannedMemory('naive').install()\n"
        "except ImportError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
    assert done.stdout == (
        "MissingDependencyError planned memory serves PyTorch, which is not installed: "
        "pip install 'gapless[torch]'\n"
    )


def test_memory_that_is_short_in_a_planned_step() -> None:
    training = planned_training(PROGRAM)
    with pytest.raises(MemoryError):
        training.step([PROGRAM[0], Request(1 << 30, 0, Life.WITHIN, 2), PROGRAM[1]])
    training.allocator.free(training.made[0].address)
    assert training.allocator.figures().requested_bytes == 0
    training.memory.reset_peaks()
    with training.memory.step():
        for request in PROGRAM:
            training.allocator.allocate(request.size, request.stream)
    assert training.memory.report().planned_requests == 2


def test_nothing_of_a_training_stays_when_it_is_gone() -> None:
    training = planned_training(PROGRAM)
    memory = weakref.ref(training.memory)
    del training
    assert memory() is None


def counted_training() -> Training:
    """Return a training whose device calls are counted."""
    training = Training()
    memory = CountingMemory(training.device, is_timed=True)
    training.allocator = PlannedAllocator(memory)
    training.memory = PlannedMemory("many-objects-size-best", _planning="between")
    training.memory.attach(training.allocator, memory)
    return training


def test_device_calls_are_reported_in_all_and_of_the_last_step() -> None:
    training = counted_training()
    training.run(PROGRAM, SETTLED_STEPS)
    device, last_step = training.memory.report().device, training.memory.report().last_step
    assert device is not None
    assert device.calls["map"] >= 1
    assert 0 < device.seconds < 60
    # A planned step asks the device for nothing.
    assert last_step == DeviceUse()
    training.memory.reset_peaks()
    assert training.memory.report().device == DeviceUse()
    training.step([Request(200_000, 0, Life.KEPT)])
    training.step(PROGRAM)
    report, numbers = training.memory.report(), training.memory.statistics()
    assert report.device is not None
    assert (report.device.calls["create_pages"], report.last_step) == (4, DeviceUse())
    assert (numbers["steps"], numbers["plans"]) == (2, 1)
    assert (numbers["all.calls.create_pages"], numbers["last.calls.create_pages"]) == (4, 0)
    assert (numbers["all.host_waits"], numbers["all.moved_bytes"]) == (0, 0)
    lines = {line[:12].strip(): line[12:].split(", ") for line in str(report).splitlines()}
    assert lines["device"][0] == "0 host waits"
    assert "2.0 create_pages" in ", ".join(lines["a step"])
    assert lines["the last"][-1].endswith("ms in calls: none")


def test_moves_and_waits_are_those_of_the_allocator() -> None:
    training, rng = counted_training(), Random(1)
    for _ in range(20):
        training.step([Request(rng.randint(1, 250_000), 0, Life.WITHIN, 60) for _ in range(60)])
    numbers = training.memory.statistics()
    assert numbers["all.moved_bytes"] == training.allocator.figures().moved_bytes
    waits = numbers["all.calls.synchronize"] + numbers["all.calls.await_event"]
    assert numbers["all.host_waits"] == waits


def test_calls_that_nobody_counts_are_not_reported() -> None:
    training = planned_training(PROGRAM)
    report = training.memory.report()
    assert (report.device, report.last_step) == (None, None)
    assert "host waits" not in str(report)
    assert training.memory.statistics() == {"steps": 0, "plans": 1}
