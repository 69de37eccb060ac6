"""The page of a prediction has its tables, and puts each block where an allocator does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evaluation.pages.fit_page import fit_page, place_step
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.live_peak import Kind, find_live_peak
from gpu_runtime.fitting.remedies import Remedies
from instances.traces.allocation_trace import REQUEST_FIELDS, AllocationTrace, Phase
from planners.model.problem import Problem
from planners.referee.naive import check
from tests.gpu_runtime.fitting.test_live_peak import two_steps
from tests.gpu_runtime.fitting.test_replayed_program import fragmenting_trace, replayed
from tests.gpu_runtime.replaying.recordings import MIB, random_trace

HOSTILE = "</script><script>alert(1)</script>"


def in_two_steps(trace: AllocationTrace) -> AllocationTrace:
    fields = {field: getattr(trace, field) for field in REQUEST_FIELDS}
    later = int(find_live_peak(trace).event) - 40
    return AllocationTrace(
        trace.event_count, **fields, name=trace.name, mark_event=[0, later],
        mark_phase=[Phase.FORWARD] * 2, mark_microbatch=[0, 0], mark_iteration=[0, 1],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_no_two_blocks_of_a_map_lie_on_each_other(seed: int) -> None:
    found = replayed(in_two_steps(random_trace(seed)))
    step = place_step(found)
    assert step.problem.tensor_count < found.traced.trace.request_count
    _, *rows = found.rows
    for mapped, row in zip(step.plans, rows, strict=True):
        assert mapped.result.plan is not None
        check(step.problem, mapped.result.plan)
        assert mapped.label == row.label
        # Planned memory moves some frames to other addresses.
        if row.label != "planned":
            assert mapped.result.plan.peak <= row.reserved_peak
    assert live_at(step.problem, step.moment) == found.peak.size


def live_at(problem: Problem, moment: int) -> int:
    return int(problem.size[(problem.start <= moment) & (moment < problem.end)].sum())


def test_the_map_ends_where_the_reserved_bytes_do() -> None:
    """Of the step of the peak alone, closed up: what a plan reserves, PyTorch's 40 and 20 MiB."""
    found = replayed(fragmenting_trace())
    step = place_step(found)
    assert step.problem.size.tolist() == [40 * MIB, 30 * MIB, 20 * MIB]
    assert (step.problem.start.tolist(), step.moment) == ([1, 3, 4], 4)
    ends = {mapped.label: mapped.result.peak for mapped in step.plans}
    assert (ends["pytorch-caching"], ends["planned"]) == (60 * MIB, 50 * MIB)


def test_blocks_from_before_the_step_are_there_from_its_begin() -> None:
    step = place_step(replayed(two_steps()))
    assert step.problem.size.tolist() == [100, 50, 20, 30, 25]
    assert step.problem.start.tolist() == [0, 0, 1, 2, 5]
    assert step.problem.end.tolist() == [8, 8, 4, 4, 6]
    assert step.kinds[:2] == [Kind.WEIGHTS, Kind.KEPT]


def test_the_page_has_the_tables_and_the_answer() -> None:
    found = replayed(fragmenting_trace(), 40 * MIB)
    fit = replace(found, traced=replace(found.traced, label=HOSTILE))
    remedies = Remedies([fit], left_out=["a reason"])
    page = fit_page(FitAnswer([fit], remedies=remedies, groups=3))
    assert HOSTILE not in page
    assert "<p><b>does not fit: 40.00 MiB (41,943,040)</b></p>" in page
    assert re.findall("<h2>(.*?)</h2>", page) == [
        "Reserved by allocator", "Peak by part of the run", "Live at the peak, by kind",
        "Live at the peak, by module", "Outside of PyTorch", "What would help",
        "Memory map of the step of the peak",
    ]  # fmt: skip
    assert "<td>pytorch-caching</td>" in page
    assert "<p>left out: a reason</p>" in page
    assert '[["0","pytorch-caching"],["1","pytorch-expandable"],["2","planned"]]' in page
    assert "does not fit" not in fit_page(FitAnswer([replace(fit, memory=None)]))
