"""Figures of runs that online allocators served, and the tables of the papers on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.claims.evidence import Evidence, judge_claims
from evaluation.claims.gmlake import GMLAKE_EVIDENCE
from evaluation.claims.programs import PROGRAMS, programs_under
from evaluation.claims.replay_tables import (
    allocators_table,
    composition_table,
    efficiency_table,
    parts_table,
    plan_seconds_table,
)
from evaluation.claims.replayed_run import replayed_runs, reserved_to
from evaluation.claims.stweaver import STWEAVER_EVIDENCE, planned_sizes
from evaluation.claims.training_loops import LOOPS, MIXTURES
from evaluation.claims.vpmm import VPMM_EVIDENCE
from evaluation.study.record import Record
from evaluation.tables.committed_page import first_bold_of, number_of, rows_of
from planners.errors import GaplessError
from planners.model.problem import Scalar
from tests.evaluation.claims.made_up_records import record
from tests.evaluation.claims.shipped_claims import shipped_claims

GIB = 1 << 30


def served(
    run: str, planner: str, reserved: float, allocated: float, calls: int = 7, **settings: Scalar
) -> Record:
    live = round(allocated * GIB)
    statistics = {"requested": live, "map_calls": calls, "await_event_calls": 2}
    return record(
        run, planner, round(reserved * GIB), kind="online", allocated=live,
        parameters=settings, statistics=statistics,
    )  # fmt: skip


def figure_of(
    evidence: tuple[Evidence[object], ...], name: str, case: str, *records: Record
) -> object:
    its = next(each for each in evidence if name in each.figures)
    return its.figures[name](its.measured(records)[case])


def cells_of(table: str, line: int) -> list[str]:
    return [cell.strip() for cell in table.splitlines()[line].split("|")][1:-1]


def test_figures_of_one_run() -> None:
    records = [
        served("bert-base.npz", "pytorch-caching", 10, 8),
        served("bert-base.npz", "gmlake", 9, 8.1),
        # Another limit is another allocator.
        served("bert-base.npz", "gmlake", 1, 1, fragmentation_limit_mib=2),
        served("bert-base.npz", "calls-in-last-iteration", 9, 8.1, 3, allocator="gmlake"),
    ]
    expected = {
        "fragmentation": 0.1, "caching-fragmentation": 0.2, "reserved-to-caching": -0.1,
        "points-taken": 0.1, "late-calls": 5,
    }  # fmt: skip
    for name, value in expected.items():
        found = figure_of(GMLAKE_EVIDENCE, name, "bert-base", *records)
        assert found == pytest.approx(value), name


def test_a_mixture_that_was_recorded_on_a_gpu_is_held_against_the_claims() -> None:
    records = [
        served("qwen-moe-R.npz", "pytorch-caching", 10, 8),
        served("qwen-moe-R.npz", "pytorch-expandable", 9, 8),
        served("qwen-moe-R.npz", "stweaver", 8, 8),
        served("qwen-moe-R.npz", "planned", 6, 6),
    ]
    expected = {"to-caching": -0.2, "expandable-to": 0.125, "planned-to": -0.25}
    for name, value in expected.items():
        found = figure_of(STWEAVER_EVIDENCE, name, "qwen-moe-R", *records)
        assert found == pytest.approx(value), name


def test_an_allocator_without_a_record_has_no_figure() -> None:
    (run,) = replayed_runs([served("bert-base.npz", "gmlake", 9, 8)]).values()
    assert reserved_to("gmlake", "pytorch-caching")(run) is None
    assert reserved_to("vpmm", "gmlake")(run) is None


def test_figures_of_vpmm() -> None:
    records = [
        served("resnet-50.npz", "vpmm", 9, 8),
        served("resnet-50.npz", "calls-in-last-iteration", 9, 8, 4, allocator="vpmm"),
        served("vpmm-scenario", "vpmm", 16, 8),
    ]
    assert figure_of(VPMM_EVIDENCE, "host-waits", "resnet-50", *records) == 2
    assert figure_of(VPMM_EVIDENCE, "late-mappings", "resnet-50", *records) == 4
    assert figure_of(VPMM_EVIDENCE, "reserved-above-live", "vpmm-scenario", *records) == 1.0


def test_figures_of_stweaver() -> None:
    name = MIXTURES[0]
    records = [
        served(f"{name}.npz", "pytorch-caching", 10, 8),
        served(f"{name}.npz", "stweaver", 10, 9.8, reuse="layers"),
        served(f"{name}.npz", "stweaver", 10, 9.2, reuse="none"),
    ]
    shares = {"taken-from-caching": 0.9, "static-plan-takes": 0.6, "share-of-static-plan": 2 / 3,
              "reuse-takes": 0.75}  # fmt: skip
    for figure, share in shares.items():
        found = figure_of(STWEAVER_EVIDENCE, figure, name, *records)
        assert found == pytest.approx(share), figure
    row = cells_of(parts_table(records), 2)
    assert row == [name, "8.000", "10.000", "10.000", "20.000 %", "8.000 %", "2.000 %", "60.000 %",
                   "90.000 %", "66.667 %", "75.000 %"]  # fmt: skip


def test_the_composition_stands_beside_table_3() -> None:
    parts = {"static": 2 * GIB, "dynamic": GIB, "pool": 2 * GIB, "displaced_requests": 1234}
    records = [
        with_parts(served("qwen-moe-R.npz", "stweaver", 3, 3), parts, fallback=GIB),
        with_parts(
            served("qwen-moe-R.npz", "stweaver", 4, 3, reuse="none"), parts, fallback=2 * GIB
        ),
        with_parts(served("qwen2-moe-n.npz", "stweaver", 3, 3), parts, fallback=GIB),
        # No mixture.
        with_parts(served("bert-base.npz", "stweaver", 3, 3), parts, fallback=GIB),
    ]
    table = composition_table(records)
    head = ["10", "3.000", "2.000", "1.000", "2.000"]
    assert cells_of(table, 2) == ["qwen2-moe-n", *head, "-", "1.000", "1,234"]
    assert cells_of(table, 3) == ["qwen-moe-R", *head, "2.000", "1.000", "1,234"]
    assert cells_of(table, 5) == ["the paper, R (GB)", "-", "32.36", "-", "-", "31.39", "1.61",
                                  "1.12", "-"]  # fmt: skip
    assert len(table.splitlines()) == 10


def with_parts(record: Record, parts: dict[str, int], *, fallback: int) -> Record:
    return replace(record, statistics={**record.statistics, **parts, "fallback": fallback})


def test_plans_of_traces_and_of_sizes() -> None:
    trace = "trace-bert-base"
    size = "training-trace:tensors=12785:seed=0"
    records = [
        record(trace, "homosize", 200, bound=100, parameters={"variant": "paper"}),
        record(trace, "homosize", 100, bound=100, parameters={"variant": "best"}),
        *(
            record(size, "homosize", 100, bound=100, seconds=seconds, tensors=12785,
                   family="training-trace", parameters={"variant": "paper"})
            for seconds in (1.0, 2.0, 9.0)
        ),
    ]  # fmt: skip
    assert cells_of(efficiency_table(records), 2) == [trace, "0.000", "50.000 %", "100 %"]
    assert planned_sizes(records)["GPT-2-N"].seconds == {"paper": 2.0}
    row = ["GPT-2-N", "12,785", "24.4", "2.000", "-", "100 %", "-"]
    assert cells_of(plan_seconds_table(records), 2) == row


def test_the_paper_on_stweaver_against_its_own_table() -> None:
    judged = judge_claims(shipped_claims("paper-stweaver"), STWEAVER_EVIDENCE, [])
    theirs = {each.claim.key: each.theirs for each in judged}
    # 374 s is more than 6 minutes.
    assert theirs["plan-seconds"].holds is False
    assert len(theirs["plan-seconds"].agreeing) == 5


def test_the_least_reserved_is_bold_and_pytorch_first() -> None:
    records = [
        served("b.npz", "stweaver", 8, 8),
        served("b.npz", "pytorch-caching", 10, 8),
        served("a.npz", "vpmm", 9, 8),
        served("a.npz", "calls-in-last-iteration", 9, 8, 4, allocator="vpmm"),
    ]
    table = allocators_table(records)
    assert cells_of(table, 2) == ["a", "vpmm", "**9.000**", "8.000", "88.889 %", "2", "9", "6"]
    assert cells_of(table, 3)[:3] == ["b", "pytorch-caching", "10.000"]
    assert cells_of(table, 4)[:3] == ["b", "stweaver", "**8.000**"]


def test_calls_in_the_last_iteration_are_shown_where_they_are_known() -> None:
    assert "in the last iteration" not in allocators_table([served("b.npz", "vpmm", 8, 8)])


def test_figures_of_a_committed_page() -> None:
    rows = rows_of("programs.md", "Online allocators")
    assert {row["program"] for row in rows} == set(PROGRAMS)
    assert {row["allocator"] for row in rows} == {"gmlake", "vpmm"}
    ours, other = (programs_under(name)([])["plain"] for name in ("gmlake", "vpmm"))
    assert (ours["allocator"], other["allocator"]) == ("gmlake", "vpmm")
    assert number_of("1,234.5") == 1234.5
    assert number_of("+66.98%") == pytest.approx(0.6698)
    assert first_bold_of("device-calls.md").endswith(" ms")


def test_a_missing_page_or_heading_is_named() -> None:
    with pytest.raises(GaplessError, match="did you mean 'Online allocators'"):
        rows_of("programs.md", "Online allocator")
    with pytest.raises(GaplessError, match="the page is needed"):
        rows_of("program.md", "Online allocators")
    with pytest.raises(GaplessError, match="a number is needed in a cell, found 'equal'"):
        number_of("equal")


def test_names_of_runs_are_apart() -> None:
    assert not set(LOOPS) & set(MIXTURES)
