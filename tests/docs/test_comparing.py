"""The page on what ``planners.compare`` says: every field, status and exit status is there."""

from __future__ import annotations

import json
import re
from itertools import dropwhile, takewhile

from planners import get
from planners.command_line.starting import EXIT_INVALID_PLAN
from planners.compare.__main__ import EXIT_OF_ANSWER, GRAVEST_FIRST
from planners.compare.comparison import Answer, compare_planners
from planners.compare.records import (
    CSV_COLUMNS,
    SCHEMA,
    SCHEMA_VERSION,
    comparison_record,
    json_text,
)
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.model.reference import Reference
from planners.online.online_records import OnlineFields, RequestFields
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "comparing.md").read_text()


def first_cells(after: str) -> list[str]:
    """Return what stands first in the rows of the first table after some words."""
    lines = dropwhile(lambda line: not line.startswith("|"), PAGE.split(after)[1].splitlines())
    _heading, _rule, *rows = takewhile(lambda line: line.startswith("|"), lines)
    return [row.split("|")[1].strip() for row in rows]


def fields(after: str) -> set[str]:
    return {name for cell in first_cells(after) for name in re.findall(r"`(\w+)`", cell)}


def test_every_field_is_described() -> None:
    problem = Problem([1], [0], [1], origin=Reference("PyTorch", 1, exact=True).as_origin())
    comparison = compare_planners(problem, [get("naive")], Budget())
    instance = comparison_record(comparison, comparison.rows, "file")
    whole = json.loads(json_text(Budget(), [instance]))
    run = {"version", *whole["budget"], *whole["environment"]}
    (result,), reference = instance.pop("results"), instance.pop("reference")
    assert instance.pop("online") is None
    assert fields("Of the run:") == run
    assert fields("Of an instance:") == instance.keys()
    assert fields("Of a result:") == result.keys()
    assert fields("`reference` is null") == reference.keys()
    assert fields("`online` is null") == set(RequestFields.__annotations__)
    assert fields("Of an allocator") == set(OnlineFields.__annotations__)
    assert set(CSV_COLUMNS) == run | fields("Of an instance:") | fields("Of a result:")
    assert f"`{SCHEMA}`" in PAGE
    assert f"of these fields: {SCHEMA_VERSION} |" in PAGE


def test_every_status_is_described() -> None:
    assert fields("## Rows") == {status.value for status in Status}
    (verdicts,) = re.findall(r"\| `verdict` \|(.*)", PAGE)
    assert set(re.findall(r"`(\w+)`", verdicts)) == {answer.value for answer in Answer}


def test_exit_statuses_are_in_the_order_in_which_they_count() -> None:
    assert [int(cell) for cell in first_cells("The exit status is")] == GRAVEST_FIRST
    assert len({*GRAVEST_FIRST}) == len(GRAVEST_FIRST) == 6
    assert {EXIT_INVALID_PLAN, *EXIT_OF_ANSWER.values()} <= {*GRAVEST_FIRST}
