"""A plan that needs waits: right with them, spoilt without, in the API and on the command line."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpu_runtime.verification.devices.device_kinds import DeviceKind, open_device
from gpu_runtime.verification.injection import unsafe_overlaps, without_waits
from gpu_runtime.verification.trials.stamp_check_program import make_stamp_check_program
from gpu_runtime.verification.verification import VerificationRequest, verify
from gpu_runtime.verify_command import app
from instances.synthetic import training_graph
from planners import Budget
from planners.compare.__main__ import app as compare
from planners.files.problem_file import write_problem
from planners.model.problem import Problem
from planners.waits.waits_frontier import WaitsFrontier, WaitsPoint


@cache
def point() -> WaitsPoint:
    """Return the plan of a graph whose peak two waits lower, with the waits."""
    frontier = WaitsFrontier(graph(), Budget(5.0))
    *_, last = frontier.points((0, 12))
    assert last.waits
    assert last.peak < frontier.streams.heaviest
    return last


def graph() -> Problem:
    problem = training_graph(40, streams=4, seed=3)
    return Problem(problem.size // 512 % 99 + 1, graph=problem.graph, name="four streams")


@pytest.mark.parametrize(
    "kind",
    [DeviceKind.SIMULATED, DeviceKind.CPU, pytest.param(DeviceKind.CUDA, marks=pytest.mark.gpu)],
)
def test_a_plan_holds_with_its_waits_and_is_spoilt_without(kind: DeviceKind) -> None:
    found = point()
    assert found.result.plan is not None
    offsets = found.result.plan.offsets
    request = VerificationRequest(trials=12)
    assert verify(found.problem, offsets, open_device(kind), request).passed
    fewer = without_waits(found.problem, len(found.waits))
    unsafe = unsafe_overlaps(fewer, offsets)
    assert unsafe
    request = VerificationRequest(trials=12, overlaps=tuple(unsafe))
    spoilt = verify(fewer, offsets, open_device(kind), request)
    assert spoilt.corruptions
    assert spoilt.false_alarms() == []
    assert all(corruption.unsafe for corruption in spoilt.corruptions)


def test_each_wait_is_an_event() -> None:
    found = point()
    program = make_stamp_check_program(found.problem)
    for u, v in found.waits:
        # A later node of the same stream brings the wait too.
        assert any(program.stream[node] == program.stream[u] >= 0 and node >= u
                   for node in program.awaits[v])  # fmt: skip
    fewer = make_stamp_check_program(without_waits(found.problem, len(found.waits)))
    assert sum(map(len, fewer.awaits)) < sum(map(len, program.awaits))


def test_the_command_line_writes_and_verifies_a_plan_with_its_waits(tmp_path: Path) -> None:
    file, plan = tmp_path / "four.json", tmp_path / "plan.json"
    write_problem(graph(), file)
    written = CliRunner().invoke(
        compare, [str(file), "--waits", "12", "--save-plan", str(plan), "--time-limit", "5"]
    )
    assert written.exit_code == 0, written.output
    verifying = [str(tmp_path / "plan.instance.json"), "--plan", str(plan), "--trials", "12"]
    count = written.output.count(" waits for ")
    assert CliRunner().invoke(app, verifying).exit_code == 0
    spoilt = CliRunner().invoke(app, [*verifying, "--without-waits", str(count)])
    assert spoilt.exit_code == 1, spoilt.output
    refused = CliRunner().invoke(app, [*verifying, "--without-waits", "9999"])
    assert refused.exit_code == 2
    assert "control arcs of four streams" in refused.output
