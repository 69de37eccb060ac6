"""What people read of a study, and what programs do."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.comparison import AllocatorComparison
from gpu_runtime.training.comparison_report import (
    COLUMNS,
    notes,
    study_record,
    study_table,
)
from gpu_runtime.training.training_run import Allocator, Purpose, model_run
from tests.gpu_runtime.training.run_results import (
    CHECK,
    GIB,
    MISMATCHES,
    MODEL,
    PLAN,
    TIME,
    planned_check,
    planned_time,
)


def findings() -> AllocatorComparison:
    checks = {Allocator.DEFAULT: CHECK, Allocator.PLANNED: planned_check()}
    return AllocatorComparison(checks, {Allocator.DEFAULT: TIME, Allocator.PLANNED: planned_time()})


def cells(allocator: Allocator) -> dict[str, str]:
    headings = ["", *(column.heading.replace("\n", " ") for column in COLUMNS)]
    rows = study_table(findings()).rows
    found = [dict(zip(headings, [row.mark, *row.cells], strict=True)) for row in rows]
    return next(row for row in found if row["allocator"] == allocator)


def test_a_row_of_pytorch() -> None:
    assert cells(Allocator.DEFAULT) == {
        "": "", "allocator": "default", "requested": "3.000", "allocated": "4.000",
        "reserved": "5.000", "efficiency": "80.000%", "arena": "-", "PyTorch": "-",
        "whole run": "6.000", "device": "7.000", "step ms": "11.000", "worst ms": "13.000",
        "to default": "+0.00%", "fallback": "-", "mismatches": "-",
    }  # fmt: skip


def test_the_row_of_the_plan_is_the_best() -> None:
    row = cells(Allocator.PLANNED)
    assert row[""] == "*"
    assert (row["arena"], row["PyTorch"]) == ("3.000", "5.000")
    assert row["to default"] == "+0.91%"
    assert (row["fallback"], row["mismatches"]) == ("0", "0")


def test_the_table_is_aligned() -> None:
    lines = study_table(findings()).plain().splitlines()
    assert len(lines) == 3
    assert lines[0].split()[0] == "allocator"
    assert lines[2].startswith("*  planned ")


@pytest.mark.parametrize(("width", "is_wide"), [(160, True), (80, False), (40, False)])
def test_a_terminal_breaks_no_number(width: int, is_wide: bool) -> None:
    from rich.console import Console

    console = Console(width=width, file=io.StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(study_table(findings()).rich(console.width))
    shown = capture.get()
    assert "\x1b[1;32m" in shown
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= width
    if is_wide:
        assert re.search(r"default +3\.000 +4\.000 +5\.000 +80\.000%", "\n".join(lines))
    else:
        assert lines[0].split() == ["default", "*", "planned"]
        assert ["efficiency", "80.000%", "99.976%"] in [line.split() for line in lines]


def test_the_last_line_says_what_was_compared() -> None:
    plan, verdict = notes(findings())
    assert plan == (
        "plan by auto, optimal: arena 3,221,225,472 bytes, lower bound 3,221,225,472; 30 of 30 "
        "steps followed it; PyTorch would reserve at least 5.000 GiB"
    )
    assert verdict == (
        "bit-identical: 4 losses, 4 gradients of 2 steps, 2 parameters and 1 buffer at the end, "
        "under default, planned"
    )


def test_an_online_allocator_says_what_it_planned() -> None:
    found = findings()
    timing = replace(found.timings[Allocator.DEFAULT], note="a static pool of 7 bytes")
    found.timings[Allocator.STWEAVER] = timing
    assert "plan by stweaver: a static pool of 7 bytes" in notes(found)


def test_losses_that_are_not_finite_are_told() -> None:
    found = findings()
    for allocator, answer in found.checks.items():
        found.checks[allocator] = replace(
            answer, losses=(("nan 0000c07f", "inf"), ("-inf", "0x1p+0"))
        )
    assert notes(found)[-1].startswith(
        "bit-identical: 4 losses (3 of them not finite), 4 gradients"
    )


def test_one_check_alone_compares_nothing() -> None:
    found = findings()
    del found.checks[Allocator.DEFAULT]
    assert notes(found)[-1] == (
        "no bits were compared: a comparison needs checks of two allocators"
    )
    assert notes(AllocatorComparison()) == []


def test_a_difference_is_named() -> None:
    found = findings()
    found.checks[Allocator.PLANNED] = replace(planned_check(), buffers={"norm.mean": "66" * 32})
    last = notes(found)[-2:]
    assert last[0].startswith("NOT bit-identical (4 losses, ")
    assert last[1] == (
        "planned differs from default first in buffer norm.mean at the end: 6666666666666666, "
        "not 5555555555555555"
    )


def with_plan(plan: MemoryReport) -> AllocatorComparison:
    found = findings()
    found.timings[Allocator.PLANNED] = replace(planned_time(), plan=plan)
    return found


def test_mismatches_are_told_but_not_all() -> None:
    counts = {"size": 1000, "extra": 234}
    plan = changed(PLAN, mismatches=MISMATCHES, mismatch_counts=counts)
    lines = notes(with_plan(plan))
    assert lines[1:7] == [
        *(f"mismatch: {mismatch}" for mismatch in MISMATCHES[:5]), "... and 1,229 more",
    ]  # fmt: skip
    assert study_table(with_plan(plan)).rows[1].cells[-1] == "1,000 size, 234 extra"


def test_only_a_plan_made_anew_is_told_from_the_first() -> None:
    assert notes(with_plan(PLAN))[0].startswith("plan by auto, optimal: arena")
    anew = with_plan(changed(PLAN, plans=2))
    assert notes(anew)[0].startswith("plan by auto, optimal (the last of 2): arena")


def test_a_plan_that_served_nothing_is_told() -> None:
    lines = notes(with_plan(changed(PLAN, planned_steps=0)))
    assert lines[0].startswith(
        "no step was served by the plan: planning begins after the third step"
    )
    lines = notes(with_plan(changed(PLAN, planned_steps=0, reason="an arena cannot be had")))
    assert lines[1] == "time: an arena cannot be had"


def test_names_operators_without_a_deterministic_form() -> None:
    found = findings()
    found.undetermined = ("max_pool_backward",)
    assert "no deterministic algorithm for max_pool_backward" in notes(found)


def test_without_figures_of_memory_there_is_a_row_all_the_same() -> None:
    time = replace(TIME, peaks=None, whole_run_reserved=None, device_bytes=None)
    (row,) = study_table(AllocatorComparison(timings={Allocator.EXPANDABLE: time})).rows
    assert row.cells[1:9] == ("-",) * 8
    assert row.cells[11] == "-"  # to default


def test_the_record_is_json_and_says_everything() -> None:
    found = findings()
    found.failures["time expandable"] = "out of memory: much"
    record = json.loads(json.dumps(study_record(model_run(Purpose.TIME, MODEL), MODEL, found)))
    assert record["schema"] == "gapless-training"
    assert record["model"] == "bert-base"
    assert record["command"].startswith("python -m gpu_runtime.train bert-base --batch 2 ")
    assert record["settings"]["microbatches"] == 2
    assert record["environment"] == TIME.environment
    assert record["passed"] is False
    assert record["bit_identical"] is True
    assert record["failures"] == {"time expandable": "out of memory: much"}
    planned = record["timings"]["planned"]
    assert planned["plan"]["arena_bytes"] == 3 * GIB
    assert planned["median_step_seconds"] == 0.0111
    assert planned["efficiency"] == pytest.approx(4 / (4 + 1 / 1024))
