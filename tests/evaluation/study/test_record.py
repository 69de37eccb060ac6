"""A record comes back from its line as it was, and a wrong line says where and what is wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from evaluation.study.record import Machine, OffsetsRecord, Record, RunStatus
from planners.errors import InstanceError

RECORD = OffsetsRecord(
    study="large",
    run="pair naive seed=0 repetition=1",
    asked="sha256:2",
    instance="pair",
    instance_digest="sha256:1",
    tensors=2,
    family="best-fit-traps",
    planner="greedy",
    parameters={"order": "size", "tries": 3, "share": 0.5, "deep": True},
    seed=7,
    budget_seconds=2.5,
    repetition=1,
    status=RunStatus.FEASIBLE,
    reason="its time was over",
    peak=12,
    lower_bound=10,
    certificate="lifetime",
    bounds={"lifetime": 10, "block": 4},
    processor_seconds=0.25,
    wall_seconds=0.5,
    peak_resident_bytes=4096,
    incumbents=((0.1, 14), (0.2, 12)),
    statistics={"nodes": 3},
    timed=True,
    machine=Machine("a processor", 4, 1 << 30, "Linux 6"),
    versions={"python": "3.11"},
    commit="0123456789ab",
    moment=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)


def test_a_record_comes_back_from_its_one_line() -> None:
    line = RECORD.to_json()
    assert "\n" not in line
    assert Record.from_json(line, "here") == RECORD


def test_every_field_is_in_the_line_beside_the_version_of_the_schema() -> None:
    line = json.loads(RECORD.to_json())
    assert line.pop("kind") == "offsets"
    assert line["schema"] == 1
    assert line.keys() == set(OffsetsRecord.__struct_fields__)


def test_a_label_is_what_the_command_line_takes() -> None:
    assert RECORD.label == "greedy:order=size:tries=3:share=0.5:deep=True"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "f.jsonl:3: field schema: 1 is needed, found 2"),
        ({"tensors": -1}, "field tensors: a whole number of at least 0"),
        ({"tensors": True}, "field tensors: a whole number"),
        ({"peak": 1 << 63}, "field peak: a whole number"),
        ({"status": "optimum"}, "field status: one of optimal, feasible"),
        ({"status": []}, "field status: one of optimal, feasible"),
        (
            {"kind": "both"},
            "one of offsets, online, budget, fit, limited, training is needed, found 'both'",
        ),
        ({"timed": 1}, "field timed: true or false is needed, found 1"),
        ({"wall_seconds": float("nan")}, "the line is not a whole JSON text"),
        ({"wall_seconds": -1}, "field wall_seconds: a number of seconds of at least 0"),
        ({"wall_seconds": 10**400}, "field wall_seconds: a number of seconds"),
        ({"bounds": {"lifetime": "10"}}, "field bounds.lifetime: a whole number"),
        ({"parameters": [1]}, "field parameters: an object, or a table, is needed"),
        ({"parameters": {"a": None}}, "field parameters.a: a text, a number, true or false"),
        ({"incumbents": [[1]]}, "field incumbents[0]: a pair of seconds and bytes"),
        ({"incumbents": [[1, 2.5]]}, "field incumbents[0][1]: a whole number"),
        ({"machine": {"cores": 1}}, "field machine.processor: missing"),
        ({"moment": "yesterday"}, "field moment: a date and time"),
        ({"study": None}, "field study: a text of at most 4000 characters is needed, found None"),
        ({"peek": 3}, "field 'peek': unknown; did you mean 'peak'"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], message: str) -> None:
    line = json.dumps(json.loads(RECORD.to_json()) | change)
    with pytest.raises(InstanceError, match=r"^f\.jsonl:3: ") as error:
        Record.from_json(line, "f.jsonl:3")
    assert message in str(error.value)


def test_a_field_that_is_missing_is_named() -> None:
    line = json.loads(RECORD.to_json())
    del line["asked"]
    with pytest.raises(InstanceError, match=r"^f: field asked: missing"):
        Record.from_json(json.dumps(line), "f")


@pytest.mark.parametrize("line", ["", "{", "[1]", "3", "[" * 100_000])
def test_a_line_that_is_not_an_object_is_refused(line: str) -> None:
    with pytest.raises(InstanceError, match=r"^f\.jsonl:1: "):
        Record.from_json(line, "f.jsonl:1")
