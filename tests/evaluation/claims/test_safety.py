"""Figures of the paper on safety, of its table and of records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.claims.evidence import judge_claims
from evaluation.claims.safety import (
    SAFETY,
    drawn_table,
    measured_times,
    safety_table,
    verdict_table,
)
from evaluation.study.record import Record
from planners import GaplessError
from tests.evaluation.claims.made_up_records import record
from tests.evaluation.claims.shipped_claims import shipped_claims


def run(algorithm: str, seconds: float, relation: str = "same") -> Record:
    return record(
        "bert", "unsafe-pairs", 1, parameters={"algorithm": algorithm}, tensors=4,
        statistics={"seconds": seconds, "worst_seconds": 2 * seconds, "relation": relation,
                    "unsafe_pairs": 3, "streams": 2, "between_streams": 1},
    )  # fmt: skip


def test_the_paper_against_its_own_table() -> None:
    judged = judge_claims(shipped_claims("paper-safety"), SAFETY, [])
    holds = {each.claim.key: each.theirs.holds for each in judged}
    assert holds == {"one-relation": None, "least-saved": True, "faster": True, "most-saved": True}


def test_of_several_times_the_median_counts() -> None:
    runs = [run("1opt", 0.2), run("1opt", 0.3), run("1opt", 0.9), run("2", 0.24)]
    times = measured_times(runs)["BERT-base"]
    assert times.saved("2", "1opt") == pytest.approx(0.2)
    assert times.saved("clocks", "1opt") is None
    assert times.saved("1", "2") is None


@pytest.mark.parametrize(("answer", "agree"), [("same", 1.0), ("other", 0.0)])
def test_algorithms_agree_or_do_not(answer: str, agree: float) -> None:
    times = measured_times([run("1opt", 0.2), run("2", 0.1, answer)])
    assert SAFETY[0].figures["relations-agree"](times["BERT-base"]) == agree


def test_one_answer_agrees_with_none() -> None:
    times = measured_times([run("1opt", 0.2), run("1opt", 0.1)])
    assert SAFETY[0].figures["relations-agree"](times["BERT-base"]) is None


def test_the_table_has_the_paper_beside_ours() -> None:
    table = safety_table([run("1", 0.05), run("1opt", 0.04), run("2", 0.03), run("clocks", 0.002)])
    assert [cell.strip() for cell in table.splitlines()[-1].split("|")][1:-1] == [
        "BERT-base", "~4,400", "4", "2", "50.0%", "25.0%", "957", "620", "35.2%", "50", "40", "30",
        "25.0%", "2", "4", "20.0x", "15.0x",
    ]  # fmt: skip


def drawn(algorithm: str, relation: str = "same") -> Record:
    return replace(run(algorithm, 0.002, relation), instance="graph:streams=2", family="graph")


def test_drawn_graphs_have_a_table_of_their_own() -> None:
    records = [run("2", 0.03), *map(drawn, ("1", "1opt", "2", "clocks"))]
    assert [cell.strip() for cell in drawn_table(records).splitlines()[-1].split("|")][1:-1] == [
        "graph:streams=2", "4", "2", "50.0%", "25.0%", "2", "2", "2", "0.0%", "2", "4", "1.0x",
        "1.0x",
    ]  # fmt: skip
    assert drawn_table([run("2", 0.03)]) == ""


def test_algorithms_that_disagree_on_a_drawn_graph_make_no_page() -> None:
    with pytest.raises(GaplessError, match="found two answers among those of 1opt, 2"):
        drawn_table([drawn("1opt"), drawn("2", "other")])


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [(0.80, ["1", "1", "0", "0"]), (0.904, ["1", "1", "0", "0"]), (0.95, ["1", "0", "0", "0"]),
     (1.0, ["0", "0", "0", "0"]), (1.05, ["0", "0", "1", "0"]), (1.2, ["0", "0", "1", "1"])],
)  # fmt: skip
def test_clear_changes_are_counted_apart(seconds: float, counts: list[str]) -> None:
    table = verdict_table([run("1opt", 1.0), run("2", seconds)]).splitlines()
    paper, here = ([cell.strip() for cell in line.split("|")][1:-1] for line in table[2:])
    assert here == ["here", "1", *counts]
    # Faster on all of its own.
    assert paper == ["paper", "10", "10", "10", "0", "0"]
