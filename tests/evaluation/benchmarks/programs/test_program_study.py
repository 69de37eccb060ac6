"""Specifications, answers and studies on their way through JSON; files that are something else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evaluation.benchmarks.programs.program_list import PROGRAMS, find_programs
from evaluation.benchmarks.programs.program_result import (
    ProgramResult,
    fallback_share,
    of_all_ranks,
    read_answer,
    to_fields,
)
from evaluation.benchmarks.programs.program_specification import ProgramSpecification, Scale
from evaluation.benchmarks.programs.program_study import read_study
from evaluation.benchmarks.programs.stream_times import StreamTimes
from gpu_runtime.training.run_specification import Allocator, Purpose
from gpu_runtime.training.worker_result import Failure, PeakFigures
from planners.errors import GaplessError, MissingDependencyError
from tests.evaluation.benchmarks.programs.made_up_studies import (
    bad,
    good,
    study,
    timed,
    with_online,
)
from tests.gpu_runtime.training.worker_results import PLAN

SPECIFICATION = ProgramSpecification(
    Purpose.CHECK, Allocator.PLANNED, "ddp", Scale.TINY, 3, 4, 2, 1, 7, "cpu", rank=1, ranks=2
)


def test_a_specification_comes_back() -> None:
    assert ProgramSpecification.from_json(SPECIFICATION.to_json()) == SPECIFICATION
    assert SPECIFICATION.label == "ddp, check planned"


def test_a_step_that_is_not_timed_begins_each_turn() -> None:
    assert (SPECIFICATION.timed_until, SPECIFICATION.steps) == (3 + 4 * 3, 3 + 4 * 3 + 2)
    assert replace(SPECIFICATION, profiled_steps=0).steps == 3 + 4 * 3


def test_a_study_comes_back() -> None:
    made = study(plain=good(), ddp=good(), cuda_graph=bad(), vit=with_online())
    streams = (StreamTimes("compute", 12.5, 0.25), StreamTimes("communication", 3.0, 9.0))
    profiled = replace(timed(8.0, 8.0, (0.1, 0.2), (0.3, 0.4)), streams=streams)
    made.findings["ddp"].timings[Allocator.PLANNED] = profiled
    made.findings["cuda-graph"].timings[Allocator.PLANNED] = Failure("illegal access")
    assert read_study(made.to_json(), "a.json") == made
    assert made.environment == {"torch": "2.11.0", "device": "NVIDIA H200"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not a file that --json wrote, JSONDecodeError"),
        ("[]", "not a file that --json wrote, TypeError"),
        ("{}", "not a file that --json wrote, KeyError 'schema'"),
        ('{"schema": "gapless-training", "version": 2}',
         "schema 'gapless-programs' of version 2 is needed, found ('gapless-training', 2)"),
        (study(plain=good()).to_json().replace('"result"', '"other"'),
         "not a file that --json wrote, ValueError not an answer of a program"),
        (study(plain=good()).to_json().replace('"planned"', '"pluned"'), "'pluned' is not a valid"),
    ],
)  # fmt: skip
def test_another_file_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(GaplessError) as caught:
        read_study(text, "a.json")
    assert str(caught.value).startswith("a.json: ")
    assert reason in str(caught.value)


def test_an_answer_is_the_worst_of_all_ranks_with_all_their_bits() -> None:
    streams = (StreamTimes("compute", 1.0, 0.0),)
    first = ProgramResult(
        ((1.0, 4.0), (5.0, 5.0)), PeakFigures(1, 2, 5), 0.5, ("a",), "x", ("put",), streams,
        {"t": "1"},
    )  # fmt: skip
    second = ProgramResult(
        ((3.0, 2.0), (4.0, 6.0)), PeakFigures(1, 3, 4), None, ("b",), "y", ("add", "put")
    )
    assert of_all_ranks([first, second]) == ProgramResult(
        ((3.0, 4.0), (5.0, 6.0)), PeakFigures(1, 2, 5), 0.5, ("a", "b"), "x y", ("add", "put"),
        streams, {"t": "1"},
    )  # fmt: skip
    assert of_all_ranks([first]) == first
    died = Failure("the process died")
    assert of_all_ranks([first, died]) == died
    assert read_answer(json.dumps(to_fields(first))) == first
    assert read_answer(json.dumps(to_fields(died))) == died


def test_what_no_step_was_planned_for_is_all_fallback() -> None:
    served = replace(PLAN, planned_requests=70, escaping_requests=5, fallback_requests=25)
    assert fallback_share(served) == 0.25
    assert fallback_share(replace(served, planned_steps=0)) == 1.0
    assert fallback_share(replace(PLAN, planned_requests=0)) == 1.0
    assert fallback_share(None) is None


def test_programs_are_found_in_the_order_of_the_list() -> None:
    assert [its.name for its in find_programs(["vit", "plain"])] == ["plain", "vit"]
    with pytest.raises(GaplessError, match="--only: no program is called 'vitt'; did you mean 'vi"):
        find_programs(["plain", "vitt"])
    assert {its.gpus for its in PROGRAMS.values()} == {1, 2}


def test_what_is_not_installed_is_one_line() -> None:
    program = replace(PROGRAMS["lora"], packages=("peft_of_another_world",))
    with pytest.raises(MissingDependencyError, match=r"lora needs peft_of.*'gapless\[programs\]'"):
        program.load()
