"""Both rules for chains are held together where both ran: one planner on one instance."""

from __future__ import annotations

from evaluation.findings.chain_rules import chain_rules_table
from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def both(instance: str, planner: str, exact: int, paper: int) -> list[Record]:
    return [
        record(instance, planner, peak, parameters={"chain_rule": rule})
        for rule, peak in (("exact", exact), ("paper", paper))
    ]


def test_a_line_counts_the_plans_of_one_algorithm_and_fit() -> None:
    records = [
        *both("a", "greedy-size-first", 11, 12),
        *both("b", "greedy-size-first", 13, 13),
        *both("a", "greedy-unsafe-first", 12, 15),
        *both("a", "greedy-source-first", 12, 11),
        *both("a", "many-objects-size-best", 15, 20),
        # One rule alone, and a run without a plan, count for nothing.
        both("c", "greedy-size-first", 10, 20)[0],
        record("a", "greedy-size-best", None, parameters={"chain_rule": "exact"}),
        record("a", "auto", 10),
    ]
    assert [list(row.cells) for row in chain_rules_table(records).rows] == [
        ["SO, first fit", "4", "2", "1", "1", "20.000 %", "27.500 %"],
        ["MO, best fit", "1", "1", "0", "0", "50.000 %", "100.0 %"],
    ]


def test_without_both_rules_there_is_no_section() -> None:
    material = PageMaterial("made-up", [record("a", "auto")])
    assert fill("# T\n\n## Rules\n\n{chain-rules-table}\n", material, "words") == "# T\n"
