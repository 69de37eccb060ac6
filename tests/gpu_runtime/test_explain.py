"""The command: its text, its record and its page; and what frames and notes tell."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.explain import main
from gpu_runtime.explaining.explained_moment import find_moment
from tests.gpu_runtime.explaining.recorded_oom import Program
from tests.gpu_runtime.explaining.test_explanation import FORWARD, kept_apart
from tests.gpu_runtime.replaying.recordings import MIB


def answer(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    with pytest.raises(SystemExit) as end:
        main([*map(str, args)], "gapless explain")
    assert not end.value.code
    return capsys.readouterr().out


def test_one_screen_has_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kept_apart(120 * MIB).write(tmp_path / "oom.pickle")
    text = answer(capsys, path, "--memory", "128MiB")
    assert "8.000 MiB outside of PyTorch" in text
    assert "the smallest 2,097,152 bytes at 0x" in text
    assert ", optimizer states | project/train.py:7 train\n" in text
    assert "1. expandable_segments:True would have passed" in text
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("seed", range(4))
def test_the_record_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    program = Program(160 * MIB, seed)
    program.run(turns=10)
    record = json.loads(answer(capsys, program.write(tmp_path / "run.pickle"), "--json"))
    stranded = sum(one["size"] for one in record["stranded"])
    assert stranded == record["reserved"] - record["allocated"] > 0
    assert sum(one["size"] for one in record["kinds"]) == record["allocated"]
    assert record["room"] == 160 * MIB
    assert record["request"]["device_free"] == record["room"] - record["reserved"]


def test_a_snapshot_without_history_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "segments.pickle"
    path.write_bytes(pickle.dumps(kept_apart(120 * MIB).segments()))
    text = answer(capsys, path)
    assert "62.00 MiB" in text
    assert "no history was recorded, so no requests can be replayed" in text
    assert "passed" not in text


def test_the_page_has_the_tables_and_a_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bokeh")
    path = kept_apart(120 * MIB).write(tmp_path / "oom.pickle")
    answer(capsys, path, "--html", tmp_path / "oom.html")
    page = (tmp_path / "oom.html").read_text()
    assert "expandable_segments:True would have passed" in page
    assert "Memory map of the last requests" in page


def test_notes_of_a_program_stand_before_the_place(tmp_path: Path) -> None:
    program = Program(120 * MIB)
    first = program.allocate(3 * MIB, frames=FORWARD)
    program.events[-1]["user_metadata"] = "layer 3"
    program.tell("annotate", first or 0, 0, 0, 0)
    program.events[-1]["user_metadata"] = "kept by autograd"
    program.allocate(2 * MIB)
    content: dict[str, Any] = program.snapshot()
    for path, data in (
        (tmp_path / "run.pickle", pickle.dumps(content)),
        (tmp_path / "run.json", json.dumps(content).encode()),
    ):
        path.write_bytes(data)
        moment = find_moment(path, None, None)
        assert [one.told for one in moment.segments[0].blocks[:2]] == [
            "activations and the rest of forward passes | kept by autograd, layer 3, "
            "project/model.py:3 forward",
            "",
        ]
