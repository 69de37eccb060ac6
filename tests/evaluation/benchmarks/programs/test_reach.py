"""What planned memory is to reach, judged on made-up figures at and beside each limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.benchmarks.programs.program_list import PROGRAMS
from evaluation.benchmarks.programs.program_result import ProgramAnswer
from evaluation.benchmarks.programs.program_study import ProgramFindings
from evaluation.benchmarks.programs.reach import REACH, ProgramFigures, Verdict
from gpu_runtime.training.run_specification import Allocator
from gpu_runtime.training.worker_result import Failure
from tests.evaluation.benchmarks.programs.made_up_studies import CHECK, bad, good, timed


def verdicts(findings: ProgramFindings, program: str = "plain") -> dict[str, Verdict]:
    figures = ProgramFigures.of(PROGRAMS[program], findings)
    return {name: judge(figures) for name, judge in REACH.items()}


def with_planned(answer: ProgramAnswer) -> ProgramFindings:
    findings = good()
    findings.timings[Allocator.PLANNED] = answer
    return findings


def test_what_reaches_everything_and_what_reaches_nothing() -> None:
    assert [verdict.found for verdict in verdicts(good()).values()] == [
        "-5.41%", "+0.50%", "+0.00%", "+7.69%", "equal",
    ]  # fmt: skip
    assert all(verdict.holds for verdict in verdicts(good()).values())
    assert [verdict.found for verdict in verdicts(bad()).values()] == [
        "+41.18%", "+50.00%", "+100.00%", "+361.54%", "differ",
    ]  # fmt: skip
    assert not any(verdict.holds for verdict in verdicts(bad()).values())


@pytest.mark.parametrize(
    ("program", "most"), [("plain", 8.08), ("random-lengths", 8.4), ("experts-loop", 8.8)]
)
def test_how_far_live_memory_may_be_exceeded(program: str, most: float) -> None:
    for reserved, holds in ((most - 0.001, True), (most + 0.001, False)):
        findings = with_planned(timed(reserved, 8.0, (0.1,)))
        assert verdicts(findings, program)["near live memory"].holds is holds


@pytest.mark.parametrize(
    ("line", "at_most"), [("median step", 0.11 * 1.005), ("worst step", 0.13 * 1.1)]
)
def test_steps_are_compared_with_the_faster_of_the_two(line: str, at_most: float) -> None:
    for seconds, holds in ((at_most - 1e-6, True), (at_most + 1e-6, False)):
        assert verdicts(with_planned(timed(8.0, 8.0, (seconds,))))[line].holds is holds


def test_live_memory_is_that_of_the_allocator_that_rounds_least() -> None:
    findings = good()
    findings.timings[Allocator.EXPANDABLE] = timed(8.5, 7.5, (0.12,))
    assert verdicts(findings)["near live memory"].found == "+7.20%"


def test_the_median_step_is_compared_turn_by_turn() -> None:
    # The machine is twice as slow from the second turn on, so that medians of all steps say less.
    findings = with_planned(timed(8.0, 8.0, (0.11, 0.11, 0.90), (0.22, 0.22, 0.22), (0.18,) * 3))
    findings.timings[Allocator.DEFAULT] = timed(9.0, 8.1, (0.10,) * 3, (0.20,) * 3, (0.20,) * 3)
    findings.timings[Allocator.EXPANDABLE] = timed(8.5, 8.0, (0.05,) * 3, (0.3,) * 3, (0.3,) * 3)
    figures = ProgramFigures.of(PROGRAMS["plain"], findings)
    assert figures.step_ratio == pytest.approx(1.1)
    assert verdicts(findings)["median step"] == Verdict(False, "+10.00%")
    assert figures.faster_native == figures.by_allocator[Allocator.DEFAULT]
    assert figures.faster_native.spread == pytest.approx(1.0)
    # The worst of all steps, not of a turn.
    assert verdicts(findings)["worst step"].found == "+350.00%"


def test_private_pools_have_no_limit_above_live_memory() -> None:
    for program in PROGRAMS.values():
        verdict = verdicts(bad(), program.name)["near live memory"]
        if program.name in ("reduce-overhead", "cuda-graph"):
            assert verdict == Verdict(True, "private pool", is_judged=False)
        else:
            assert verdict == Verdict(False, "+50.00%")


def test_a_run_that_failed_reaches_nothing() -> None:
    findings = with_planned(Failure("out of memory"))
    findings.checks[Allocator.PLANNED] = Failure("out of memory")
    assert set(verdicts(findings).values()) == {Verdict(False, "not measured")}


def test_one_of_pytorchs_own_is_enough_to_compare_memory_and_time_with() -> None:
    findings = good()
    findings.timings[Allocator.EXPANDABLE] = Failure("no expandable segments here")
    assert verdicts(findings)["reserves no more than PyTorch"].found == "-10.67%"


def test_bits_that_pytorch_itself_does_not_repeat_are_not_called_equal() -> None:
    findings = good()
    findings.checks[Allocator.EXPANDABLE] = replace(CHECK, losses=("nan 0000c07f",))
    assert verdicts(findings)["bits"] == Verdict(False, "PyTorch's own differ")
