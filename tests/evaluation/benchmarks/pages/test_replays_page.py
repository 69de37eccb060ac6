"""The page of replays: a table a run, and none where an allocator could not serve it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.benchmarks.cases.traced_loops import find_loops
from evaluation.benchmarks.pages.replays_page import replays_page
from instances.formats.recorded_trace import write_recorded_trace
from planners.errors import GaplessError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import register_online, remove_online
from tests.gpu_runtime.replaying.recordings import caching_trace, random_trace


def test_each_recording_has_a_table_with_the_least_reserved_in_bold(tmp_path: Path) -> None:
    files = [tmp_path / "first.npz", tmp_path / "second.npz"]
    write_recorded_trace(caching_trace(), files[0])
    write_recorded_trace(random_trace(1), files[1])
    text = replays_page(files, "command").render()
    first, second = text.split("\n## ")[1:]
    assert first.startswith("first\n\n4 requests.\n")
    assert second.startswith("second\n\n300 requests.\n")
    row = next(line for line in first.splitlines() if line.startswith("| pytorch-caching"))
    assert [cell.strip() for cell in row.split("|")[3:-1]] == ["0.004", "18.186 %", "2", "0"]
    assert all(part.count("**") in (2, 4, 6) for part in (first, second))


def test_a_device_with_memory_adds_times(tmp_path: Path, main: object) -> None:
    for name in ("first", "second"):
        write_recorded_trace(caching_trace(), tmp_path / f"{name}.npz")
    page = tmp_path / "page.md"
    given = ("--device", "simulated", tmp_path, "-o", page)
    assert main("replays", *given) == 0
    text = page.read_text()
    assert "over memory of this machine" in text
    first, second = text.split("\n## ")[1:]
    assert second.startswith("second\n")
    figures, calls = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in first.splitlines()
        if line.startswith("| pytorch-caching")
    )
    assert (figures[:5], len(figures)) == (
        ["pytorch-caching", "0.021", "0.004", "18.186 %", "2"], 9,
    )  # fmt: skip
    assert calls[1].startswith("2 x ")
    assert set(calls[2:]) == {"-"}


def test_loops_are_chosen_by_name() -> None:
    assert [loop.model for loop in find_loops(["resnet-50"])] == ["resnet-50"]
    assert len(find_loops([])) == 4
    with pytest.raises(GaplessError, match=r"--runs: bert-base, .* are known, found bert"):
        find_loops(["bert"])


def test_no_page_is_written_where_an_allocator_fails(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    write_recorded_trace(caching_trace(), path)

    @register_online("refusing")
    def refuse(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        raise GaplessError("not these")

    try:
        with pytest.raises(GaplessError, match="run, refusing: not these; no page is written"):
            replays_page([path], "command")
    finally:
        remove_online("refusing")


def test_the_command_takes_recordings(main: object, tmp_path: Path) -> None:
    path, page = tmp_path / "run.npz", tmp_path / "page.md"
    write_recorded_trace(caching_trace(), path)
    assert main("replays", path, "-o", page) == 0
    assert "`python -m evaluation.benchmarks replays run.npz`" in page.read_text()
