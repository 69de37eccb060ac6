"""A book that is saved serves the first step of another process, and a file is not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planners.errors import DeviceError, InstanceError, InvalidPlanError
from tests.gpu_runtime.allocator.synthetic_training import (
    SETTLED_STEPS,
    Life,
    Program,
    Request,
    Training,
    served,
)
from tests.gpu_runtime.allocator.training_programs import evaluation, training_step

pytestmark = pytest.mark.core

PROGRAM: Program = [
    Request(1000, 0, Life.WITHIN, 2),
    Request(3000, 9, Life.WITHIN, 3),
    Request(5000, 0, Life.NEXT, 1),
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the file of a training with a step and an evaluation."""
    training = Training("auto")
    for _ in range(SETTLED_STEPS):
        training.step(PROGRAM)
        training.step(evaluation(300), kind="eval")
    path = tmp_path / "plan.json"
    training.memory.save(path)
    return path


def test_a_saved_book_serves_the_first_step(saved: Path) -> None:
    training = Training("naive", plan=saved)
    assert training.planned
    assert served(training, PROGRAM)
    assert served(training, evaluation(300), kind="eval")
    report = training.memory.report()
    assert [kind.name for kind in report.kinds] == ["step", "eval"]
    assert report.plans == 1
    training.free_all()


def test_streams_have_other_handles_in_another_process(saved: Path) -> None:
    training = Training("naive", plan=saved)
    program = [Request(r.size, 1 << 44 if r.stream else 0, r.life, r.end) for r in PROGRAM]
    for _ in range(4):
        assert served(training, program)
    # What is learnt from then on is of the same kind.
    longer = [Request(2 * r.size, r.stream, r.life, r.end) for r in program]
    training.run(longer, SETTLED_STEPS)
    assert served(training, longer)
    assert [kind.requests for kind in training.memory.report().kinds if kind.name == "step"] == [3]
    training.free_all()


def test_a_file_of_a_file_is_the_same(saved: Path, tmp_path: Path) -> None:
    training = Training("naive", plan=saved)
    again = tmp_path / "again.json"
    training.memory.save(again)
    one, other = json.loads(saved.read_text()), json.loads(again.read_text())
    del one["origin"], other["origin"]
    assert one == other


def test_lengths_go_along(tmp_path: Path) -> None:
    training = Training("auto")
    for length in (300, 350, 320, 300, 350, 310):
        training.step(training_step(length))
    training.memory.save(tmp_path / "plan.json.gz")
    other = Training("auto", plan=tmp_path / "plan.json.gz")
    for length in (310, 350, 290):
        assert served(other, training_step(length))


def test_nothing_is_saved_before_anything_is_planned(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="none is in force yet"):
        Training().memory.save(tmp_path / "plan.json")


Change = Callable[[dict[str, Any]], object]


def first_kind(column: str, value: object) -> Change:
    return lambda fields: fields["kinds"][0].__setitem__(column, value)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda fields: fields.pop("kinds"), "field kinds: missing"),
        (lambda fields: fields.update(other=1), "field other: unknown"),
        (lambda fields: fields.update(format="plan"), "field format: 'gapless-step-plans'"),
        (lambda fields: fields.update(version=2), "field version: 1 is needed, found 2"),
        (lambda fields: fields.update(version=True), "field version: 1 is needed, found True"),
        (lambda fields: fields.update(kinds={}), "field kinds: a list"),
        (
            lambda fields: fields.update(kinds=fields["kinds"] * 20),
            "field kinds: a list of at most",
        ),
        (lambda fields: fields.update(least_peak=-1), "field least_peak: a whole number from 0"),
        (lambda fields: fields.update(arena_bytes=1), "field arena_bytes: [0-9]+, where the last"),
        (lambda fields: fields.update(names={"0": "x"}), "field names: labels from 1 on"),
        (lambda fields: fields.update(names={"1": "\n"}), "field names, 1: at most 200 printable"),
        (lambda fields: fields["offsets"].pop(), "field offsets: [0-9]+ entries are needed"),
        (first_kind("stream", []), "kind 0, stream: a list of 1 to"),
        (first_kind("stream", [0, 0, 256]), "stream, entry 2: a whole number from 0 to 255"),
        (first_kind("least", [0, 1, 1]), "least, entry 0: a whole number from 1"),
        (first_kind("least", [1, 1, 1 << 40]), "least, request 2: at most"),
        (first_kind("most", [1000, 3000, 1 << 60]), "most, entry 2"),
        (first_kind("most", [1000, 3000, 5000.0]), "most, entry 2: a whole number"),
        (first_kind("most", [1000, 3000]), "most: 3 entries are needed, found 2"),
        (first_kind("end", [2, 3, 4]), "end, entry 2: a whole number from 1 to 3"),
        (first_kind("end", [2, 1, 3]), "end, request 1: a later one"),
        (first_kind("short_end", [2, 1, 0]), "short_end, request 1: 0 or a later one"),
        (first_kind("was_freed", [1, 1, 2]), "was_freed, entry 2"),
        (first_kind("label", -2), "label: a whole number from -1"),
        (first_kind("seen", 0), "seen: a whole number from 1"),
        (first_kind("later", []), "later: an object"),
        (first_kind("later", {"9": [0, 0, 0]}), "later: numbers of kinds below"),
        (first_kind("later", {"0": [0, 0, 4]}), "later, 0, entry 2: a whole number from 0 to 3"),
    ],
)
def test_a_file_that_is_none_is_refused(saved: Path, change: Change, rule: str) -> None:
    fields = json.loads(saved.read_text())
    change(fields)
    saved.write_text(json.dumps(fields))
    with pytest.raises(InstanceError, match=rf"^{saved}: .*{rule}"):
        Training(plan=saved)


def test_a_plan_whose_requests_share_bytes_is_refused(saved: Path) -> None:
    fields = json.loads(saved.read_text())
    fields["offsets"] = [0] * len(fields["offsets"])
    fields["arena_bytes"] = max(
        -(-size // 512) * 512 for k in fields["kinds"] for size in k["most"]
    )
    saved.write_text(json.dumps(fields))
    with pytest.raises(InvalidPlanError, match="field offsets: "):
        Training(plan=saved)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match=r"plan\.json"):
        Training(plan=tmp_path / "plan.json")


def test_an_arena_that_cannot_be_had(tmp_path: Path) -> None:
    training = Training("auto")
    training.run(training_step(600), SETTLED_STEPS)
    training.memory.save(tmp_path / "plan.json")
    with pytest.raises(MemoryError):
        Training(plan=tmp_path / "plan.json", capacity_bytes=1 << 16)
