"""What searches did, on variants and without a rule: tables on made-up records."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from evaluation.findings.exact_runs import asked
from evaluation.study.planned_runs import runs_of
from evaluation.study.record import Record, RunStatus
from evaluation.study.study_file import FOLDER, find_study
from evaluation.study.study_instances import Folders
from planners.exact.branch_and_bound.branch_and_bound import Rules
from tests.evaluation.findings.exact_records import FITS, LEAST, late, ours, table, theirs

GREEDY = {"statistics": {}}


def without(rule: str, seconds: float = 1.0, nodes: int = 100, **changes: Any) -> Record:
    parameters = {"split": True, "memory": True, rule: False}
    return ours(seconds=seconds, parameters=parameters, statistics={"nodes": nodes}, **changes)


def test_effort_has_medians_over_the_seeds_and_the_order_of_each() -> None:
    statistics = [{"nodes": nodes, "order": order} for nodes, order in ((10, "x"), (30, "y"))]
    _, row, greedy = table(
        "fit-effort",
        *(ours(seconds=2, statistics=its) for its in [*statistics, statistics[0]]),
        ours("b.9.csv:capacity=9", **GREEDY),
    )
    assert row == ["a.12.csv", "10", "5", "x (2 seeds); y (1 seed)"]
    assert greedy == ["b.9.csv", "0", "-", "-"]


def test_counters_are_those_of_the_first_seed() -> None:
    second = {"nodes": 5, "by_section": 4, "order": "x"}
    records = [ours(), ours(statistics=second), ours("b.9.csv:capacity=9", **GREEDY)]
    assert table("fit-counters", *records) == [
        ["instance", "nodes", "by_section"],
        ["a.12.csv", "100", "7"],
        ["b.9.csv", "-", "-"],
    ]
    assert table("smallest-peak-counters", *records) == []
    assert table("smallest-peak-counters", ours(LEAST))[1] == ["a.12.csv", "100", "7"]


def test_variants_count_what_fits_and_what_was_spent() -> None:
    def variant(variation: str, seconds: float, nodes: int, **changes: Any) -> Record:
        name = f"{FITS}:variation={variation}:seed={nodes}"
        return ours(name, seconds, statistics={"nodes": nodes}, **changes)

    _, *rows = table(
        "variant-answers",
        ours(),
        variant("smaller", 0.001, 4),
        variant("smaller", 0.003, 8, **late()),
        ours("b.9.csv:capacity=9:variation=smaller:seed=1", 0.005),
        variant("shorter", 0.1, 1, **late(status=RunStatus.INVALID)),
    )
    assert rows == [
        ["smaller", "a.12.csv", "1 of 2", "6", "8", "2", "3"],
        ["smaller", "b.9.csv", "1 of 1", "100", "100", "5", "5"],
        ["smaller", "all", "2 of 3", "8", "100", "3", "5"],
        ["shorter", "a.12.csv", *["invalid"] * 5],
        ["shorter", "all", *["invalid"] * 5],
    ]
    assert table("variant-answers", ours(), theirs()) == []


def test_each_rule_left_out_has_a_row_and_the_least_of_a_column_is_marked() -> None:
    records = [
        ours(seconds=2, seed=0),
        ours(seconds=9, seed=1),
        without("split", 3, 200),
        without("memory", 1, 300),
    ]
    assert table("time-without-a-rule", *records) == [
        ["rules, ms", "a.12.csv", "all"],
        ["all rules", "2,000", "2,000"],
        ["without split", "3,000", "3,000"],
        ["without memory", "**1,000**", "1,000"],
    ]
    assert [row[1:] for row in table("nodes-without-a-rule", *records)[1:]] == [
        ["**100**", "100"],
        ["200", "200"],
        ["300", "300"],
    ]
    assert table("time-without-a-rule", ours()) == []


def test_a_rule_without_which_the_time_is_over_has_a_bound_as_its_sum() -> None:
    records = [ours(), ours("b.9.csv:capacity=9"), without("split", 10, **late())]
    *_, row = table("time-without-a-rule", *records)
    assert row == ["without split", "- (10 s)", "-", "-"]
    *_, row = table("time-without-a-rule", *records[::2])
    assert row == ["without split", "- (10 s)", ">10,000"]


def test_the_study_leaves_out_every_rule_once(tmp_path: Path) -> None:
    (tmp_path / "A.12.csv").write_text("id,lower,upper,size\n0,0,2,4\n")
    runs = runs_of(find_study("exact"), Folders(FOLDER, {"minimalloc": tmp_path}))
    left_out = [name for run in runs for name, value in run.parameters.items() if value is False]
    assert left_out == [rule.name for rule in fields(Rules)]


def test_what_a_run_was_asked_is_in_its_name_and_parameters() -> None:
    question = asked(ours(f"{FITS}:variation=twice:seed=2", parameters={"split": False}))
    assert (question.instance, question.capacity) == ("a.12.csv", 12)
    assert (question.variation, question.rule_left_out) == ("twice", "split")
