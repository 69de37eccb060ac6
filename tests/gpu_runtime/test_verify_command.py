"""``gapless replay verify`` in this process: options, output, exit codes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import runpy
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver
from typer.testing import Result as CommandResult

from gpu_runtime.verification.devices.cuda.context import open_context
from gpu_runtime.verification.devices.host_arena import HostArena
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.trials.stamp_check_program import make_stamp_check_program
from gpu_runtime.verify_command import app
from instances.synthetic import training_graph
from planners import (
    Plan,
    Problem,
    Result,
    get,
    read_problem,
    registry,
    run,
    write_plan,
    write_problem,
)
from planners.model.budget import Budget
from planners.processes import standard_output
from tests.command_line import require_one_line, run_command

KEYS = {
    "schema", "version", "instance", "plan", "peak", "tensors", "nodes", "streams", "events",
    "device", "arena_bytes", "reserved_bytes", "stamped_bytes", "checked_bytes",
    "bytes_per_second", "copy_bytes_per_second", "trials", "directed_trials",
    "undisturbed_seconds", "seconds", "interrupted", "passed", "lost", "injections",
    "false_alarms", "corruptions",
}  # fmt: skip


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    problem = training_graph(60, streams=4, seed=1)
    write_problem(Problem(problem.size // 512, graph=problem.graph, name="four streams"), path)
    return path


def verify(*arguments: str | Path) -> CommandResult:
    return run_command(app, *arguments)


def test_a_right_plan_is_verified(graph: Path) -> None:
    result = verify(graph, "--trials", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("four streams, plan many-objects-size-first: peak ")
    assert lines[1].startswith("program: 60 tensors, 60 nodes, 4 streams, ")
    assert lines[-1] == "verified: every tensor held every byte in every trial"
    assert "\x1b" not in result.stdout


def test_every_byte_makes_an_arena_of_the_peak(graph: Path) -> None:
    words = json.loads(verify(graph, "--trials", "2", "--json").stdout)
    every = json.loads(verify(graph, "--trials", "2", "--json", "--every-byte").stdout)
    assert words.keys() == every.keys() == KEYS
    assert words["arena_bytes"] < every["arena_bytes"] == every["peak"] == words["peak"]
    assert every["reserved_bytes"] >= every["peak"]
    assert "of a copy's" in verify(graph, "--trials", "1", "--every-byte").stdout


@pytest.mark.parametrize(
    ("sizes", "tensors"), [([], "0 tensors, 0 nodes"), ([8], "1 tensor, 1 node")]
)
def test_programs_of_no_bytes_are_verified(tmp_path: Path, sizes: list[int], tensors: str) -> None:
    path = tmp_path / "small.json"
    write_problem(Problem(sizes, [0] * len(sizes), [1] * len(sizes), name="small"), path)
    result = verify(path, "--every-byte")
    assert result.exit_code == 0
    assert f"program: {tensors}, " in result.stdout
    assert ("of a copy's" in result.stdout) == bool(sizes)


def test_injected_mistakes_are_all_caught(graph: Path) -> None:
    result = verify(graph, "--inject", "4", "--seed", "3", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [it["caught"] for it in found["injections"]] == [True] * 4
    assert found["false_alarms"] == 0
    assert found["passed"] is False
    text = verify(graph, "--inject", "4", "--seed", "3").stdout
    assert text.count(": caught") == 4
    assert text.splitlines()[-1] == "4 of 4 injected caught, 0 false alarms"


@pytest.mark.parametrize("more", [[], ["--every-byte"]])
def test_one_thread_a_stream_reports_the_same(graph: Path, more: list[str]) -> None:
    whole = [graph, "--device", "cpu", "--json", *more]
    right = json.loads(verify(*whole, "--trials", "3").stdout)
    assert right.keys() == KEYS
    assert right["device"] == "CPU, one thread a stream"
    assert right["passed"] is True
    result = verify(*whole, "--inject", "4", "--seed", "3")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [it["caught"] for it in found["injections"]] == [True] * 4
    assert found["false_alarms"] == 0
    result = verify(*whole, "--ignore-streams")
    assert result.exit_code == 1, result.output
    assert {it["unsafe"] for it in json.loads(result.stdout)["corruptions"]} == {True}


def interrupt_at_check(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let Ctrl-C come at a check, counted from 0 over all trials."""
    check, made = HostArena.check, itertools.count()

    def interrupted(*arguments: Any) -> None:
        if next(made) == number:
            raise KeyboardInterrupt
        check(*arguments)

    monkeypatch.setattr(HostArena, "check", interrupted)


def test_ctrl_c_prints_results_so_far(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = sum(map(len, make_stamp_check_program(read_problem(graph)).checks))
    interrupt_at_check(monkeypatch, 2 * checks + 1)
    result = verify(graph)
    assert result.exit_code == 130
    assert "2 trials, 0 of them directed, in " in result.stdout
    assert result.stdout.endswith("interrupted: no byte was lost in 2 trials\n")


def test_ctrl_c_in_the_first_trial_keeps_its_findings(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = sum(map(len, make_stamp_check_program(read_problem(graph)).checks))
    interrupt_at_check(monkeypatch, checks - 1)
    monkeypatch.setattr(HostArena, "stamp", lambda *_arguments: None)
    result = verify(graph, "--json")
    assert result.exit_code == 130
    found = json.loads(result.stdout)
    assert (found["interrupted"], found["trials"], found["passed"]) == (True, 0, False)
    assert found["corruptions"] != []


def test_ctrl_c_at_once(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at_check(monkeypatch, 0)
    result = verify(graph)
    assert result.exit_code == 130
    assert ", not once to its end\n" in result.stdout
    assert result.stdout.endswith("interrupted: no byte was lost in 0 trials\n")


@pytest.mark.usefixtures("own_registry")
def test_ctrl_c_while_planning_verifies_nothing(graph: Path) -> None:
    @registry.register("keeps-its-best", summary="answers Ctrl-C with a plan")
    def plan(problem: Problem, budget: Budget) -> Plan | Result:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return get("naive").info.build()(problem, budget)

    result = verify(graph, "--planner", "keeps-its-best")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_injection_that_goes_unseen_exits_1(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gpu_runtime.verification.devices.host_arena.HostArena.check", lambda *_arguments: None
    )
    result = verify(graph, "--inject", "2")
    assert result.exit_code == 1
    assert result.stdout.count(": NOT CAUGHT") == 2
    assert result.stdout.endswith("0 of 2 injected caught, 0 false alarms\n")


def test_injections_are_not_all_there_is_where_words_were_not_reported(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedDevice.run
    monkeypatch.setattr(
        SimulatedDevice, "run", lambda device, trial: replace(run(device, trial), lost=1)
    )
    result = verify(graph, "--inject", "2", "--json")
    assert result.exit_code == 1
    assert all(it["caught"] for it in json.loads(result.stdout)["injections"])


def test_a_plan_that_ignores_streams_is_corrupted(graph: Path) -> None:
    result = verify(graph, "--ignore-streams")
    assert result.exit_code == 1
    assert "plan many-objects-size-first, which ignores streams: peak" in result.stdout
    assert "unsafe\n" in result.stdout
    last = result.stdout.splitlines()[-1]
    assert last.startswith("CORRUPTED: ")
    assert last.endswith(", 0 of them not unsafe")


def test_a_judged_plan_is_not_searched_for_mistakes(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_runtime.verify_command.unsafe_overlaps", lambda *_arguments: 1 / 0)
    assert verify(graph, "--trials", "1").exit_code == 0


def test_a_closed_reader_is_not_an_error(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_output, "write", leave)
    monkeypatch.setattr(standard_output, "abandon", lambda: None)
    result = verify(graph, "--trials", "1")
    assert result.exit_code == 141
    assert result.output == ""


def leave(_text: str) -> None:
    raise BrokenPipeError


def test_a_plan_file(graph: Path, tmp_path: Path) -> None:
    problem = read_problem(graph)
    plan = tmp_path / "best.json"
    write_plan(problem, run(problem, get("greedy-size-best")), plan)
    result = verify(graph, "--plan", plan, "--trials", "2")
    assert result.exit_code == 0, result.output
    assert f"plan {plan}: peak" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--planner", "naiv"], "no planner matches 'naiv'; did you mean 'naive'?"),
        (["--planner", ""], "no planner named"),
        (["--planner", "greedy-*"], "one planner is needed, found 8 by 'greedy-*'"),
        (["--trials", "0"], "trials: at least 1 is needed, found 0"),
        (["--seed", "-1"], "seed: 0 to 2**31 - 1 is needed, found -1"),
        (["--inject", "-1"], "--inject: at least 0 is needed, found -1"),
        (["--inject", "999"], "four streams: 999 injections need as many pairs of unsafe tensors"),
        (["--inject", "1", "--ignore-streams"], "--inject: a right plan is needed; leave out"),
        (["--plan", "x.json", "--ignore-streams"], "--plan: a plan file needs neither --planner"),
        (["--plan", "nowhere.json"], "nowhere.json: the file cannot be read"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    graph: Path, options: list[str], message: str
) -> None:
    require_one_line(verify(graph, *options), f"error: {message}")


def test_pairs_alone_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    write_problem(Problem([1, 2], unsafe_pairs=[(0, 1)], name="pairs"), path)
    result = verify(path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: pairs: verification runs a schedule; lifetimes or a")


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        ("", "error: no CUDA driver: "),
        ("cuda.bindings", "error: a GPU needs cuda-bindings ("),
    ],
)
def test_without_a_driver_or_its_bindings_the_gpu_is_one_line(
    graph: Path, monkeypatch: pytest.MonkeyPatch, hidden: str, message: str
) -> None:
    def no_driver(_flags: int) -> None:
        raise RuntimeError("no library")

    if hidden:
        monkeypatch.setitem(sys.modules, hidden, None)
        for name in ("context", "cuda_device"):
            monkeypatch.delitem(
                sys.modules, f"gpu_runtime.verification.devices.cuda.{name}", raising=False
            )
    else:
        monkeypatch.setattr(driver, "cuInit", no_driver)
        open_context.cache_clear()
    require_one_line(verify(graph, "--device", "cuda"), message)


def test_ctrl_c_ends_the_process_though_a_search_goes_on(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(sys, "argv", ["replay", "verify", str(graph)])
    monkeypatch.delitem(sys.modules, "gpu_runtime.replay", raising=False)  # it is run once more
    monkeypatch.setattr(HostArena, "check", lambda *_arguments: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit):
        runpy.run_module("gpu_runtime.replay", run_name="__main__", alter_sys=True)
    assert ended == [130]
