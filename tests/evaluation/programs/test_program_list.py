"""The list of programs: found by name, and what is run of each."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from evaluation.programs.program_list import PROGRAMS, find_programs
from gpu_runtime.training.training_run import Allocator, Purpose, Scale, TrainingRun
from planners.errors import GaplessError, MissingDependencyError


def test_programs_are_found_in_the_order_of_the_list() -> None:
    assert [its.name for its in find_programs(["vit", "plain"])] == ["plain", "vit"]
    with pytest.raises(GaplessError, match=r"on 1 GPU\(s\) is called 'vitt'; did you mean 'vit'"):
        find_programs(["plain", "vitt"])
    assert {its.gpus for its in find_programs(["*"], gpus=2)} == {2}
    assert all(its.name.startswith("pairs-") for its in find_programs(["*"], "pairs"))


def test_a_missing_package_is_one_line() -> None:
    program = replace(PROGRAMS["lora"], packages=("peft_of_another_world",))
    with pytest.raises(MissingDependencyError, match=r"lora needs peft_of.*'gapless\[programs\]'"):
        program.require_packages()


def test_runs_follow_the_list() -> None:
    random, ddp = PROGRAMS["random-lengths"], PROGRAMS["ddp"]
    assert random.check_run() == TrainingRun(
        purpose=Purpose.CHECK, allocator=Allocator.DEFAULT, program="random-lengths",
        entry="evaluation.programs.lengths:at_random", scale=Scale.QUICK, warm_up=30,
        turns=1, turn_steps=4, strict=False,
    )  # fmt: skip
    assert ddp.timed_run(Scale.FULL, 3, 11, "cpu") == TrainingRun(
        purpose=Purpose.TIME, allocator=Allocator.DEFAULT, program="ddp",
        entry="evaluation.programs.parallel:data_parallel", turns=3, turn_steps=11,
        profiled_steps=2, device="cpu", strict=False, ranks=2,
    )  # fmt: skip
