"""Every page is made from records as it was, and none from records that contradict each other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from evaluation.study.gaps import ContradictionError
from evaluation.study.record import Record
from evaluation.study.study_file import studies
from instances.catalogue.catalogue_file import read_catalogue
from planners.errors import GaplessError
from tests.evaluation.pages.golden_pages import (
    GOLDEN,
    page_of,
    records_of,
    studies_with_records,
)
from tests.evaluation.study.made_up_records import record


@pytest.mark.parametrize("study", studies_with_records())
def test_made_up_records_give_the_page(study: str) -> None:
    golden = (GOLDEN / f"{study}.md").read_text(encoding="utf-8")
    assert page_of(study, records_of(study)) == golden, "see golden_pages.py"


def test_every_study_has_a_page_here() -> None:
    # The page of the first is made from committed records; the other has the words of two GPUs.
    others = {"regression", "programs-four-gpus"}
    assert set(studies_with_records()) == set(studies()) - others


def test_older_records_of_two_gpus_tell_no_ranks_apart() -> None:
    records = records_of("programs-two-gpus")
    assert "## By rank" in page_of("programs-two-gpus", records)
    older = [each for each in records if "rank_0_reserved" not in each.statistics]
    assert "rank" not in page_of("programs-two-gpus", older)


def test_each_of_four_gpus_has_a_row() -> None:
    records = [its for its in records_of("programs-two-gpus") if its.instance == "pipeline"]
    more = {"rank_2_reserved": 3 << 30, "rank_3_reserved": 5 << 30, "rank_3_allocated": 4 << 30}
    four = [replace(its, statistics={**its.statistics, **more}) for its in records]
    page = page_of("programs-four-gpus", four).partition("## By rank")[2].partition("##")[0]
    rows = [[cell.strip() for cell in line.split("|")[2:6]] for line in page.splitlines()]
    assert [row for row in rows if row[:1] == ["planned"]] == [
        ["planned", "0", "8.002", "8.000"], ["planned", "1", "7.002", "7.000"],
        ["planned", "2", "3.000", "-"], ["planned", "3", "5.000", "4.000"],
    ]  # fmt: skip


def test_what_pytorch_held_on_a_rank_needs_both_of_its_allocators() -> None:
    records = [its for its in records_of("programs-two-gpus") if its.planner != "default"]
    page = page_of("programs-two-gpus", records)
    (said,) = (line for line in page.splitlines() if "8,592,031,744" in line)
    assert [cell.strip() for cell in said.split("|")][7:9] == ["-", "-"]


def other_pairs() -> Record:
    counted = next(its for its in records_of("streams") if "succession" in its.instance)
    statistics = {**counted.statistics, "unsafe_pairs": 9}
    return replace(counted, instance="bert:nodes_per_stream=7:streams=succession",
                   instance_digest="other", statistics=statistics)  # fmt: skip


@pytest.mark.parametrize(
    ("study", "wrong", "says"),
    [
        ("streams", other_pairs(), "bert: in succession one number .* found 2, 9"),
        ("proofs", record("bert", "greedy-size-first", 10), r"a peak of 11, where .* has 10"),
    ],
)
def test_records_that_contradict_a_rule_make_no_page(study: str, wrong: Record, says: str) -> None:
    with pytest.raises(GaplessError, match=says):
        page_of(study, [*records_of(study), wrong])


def test_no_plan_is_below_the_optimum_of_the_catalogue() -> None:
    entry = next(each for each in read_catalogue().values() if each.facts.optimum)
    wrong = record(entry.name, "auto", (entry.facts.optimum or 0) - 1, bounds={},
                   instance_digest=entry.facts.digest)  # fmt: skip
    with pytest.raises(ContradictionError, match="no plan is below a lower bound"):
        page_of("gap-to-optimal", [wrong])


def test_one_problem_of_two_names_is_two_instances_and_the_catalogue_has_a_better_plan() -> None:
    entry = next(its for its in read_catalogue().values() if its.best.status == "optimal")
    digest, peak = entry.facts.digest, entry.best.peak + 1
    records = [
        record(name, planner, family=family, instance_digest=digest, bounds={}, peak=peak)
        for name, family in (("a", None), ("b", "fam")) for planner in ("naive", "auto")
    ]  # fmt: skip
    lines = page_of("gap-to-optimal", records).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heading = next(row for row in rows if "and others" in row)
    others = [row[heading.index("and others")] for row in rows if len(row) == len(heading)]
    assert others[:1] + others[2:] == ["and others", "0", "0"]
    assert [row[:2] for row in rows if "5 to 5" in row] == [[entry.kind, "1"], ["fam", "1"]]
    assert any("runs of 2 instances" in line for line in lines)
