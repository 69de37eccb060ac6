"""The page of STWeaver on mixtures of experts: its tables, and claims that are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.benchmarks.pages import stweaver_page as page_module
from evaluation.benchmarks.pages.stweaver_page import stweaver_page
from instances.formats.recorded_trace import write_recorded_trace
from planners.errors import GaplessError
from tests.evaluation.benchmarks.cases.test_routed_mixture import small_mixture
from tests.gpu_runtime.replaying.random_training import random_training

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "recorded.npz"
    write_recorded_trace(random_training(0, dynamic=40), path)
    mixtures = [small_mixture(checkpointing=False)]
    return stweaver_page([path], "command", mixtures).render()


def cells(text: str, heading: str, row: str) -> list[str]:
    """Return what the first table below a heading says in a row."""
    part = text.split(f"# {heading}\n")[1]
    line = next(line for line in part.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_every_run_is_taken_apart(text: str) -> None:
    for run in ("recorded", "qwen2-moe, N"):
        total, static, dynamic, pool, without, fallback = (
            float(cell) for cell in cells(text, "Composition (Table 3)", run)
        )
        assert total == pytest.approx(static + dynamic, abs=0.0011)
        assert pool >= static
        assert fallback <= without
        alone, static_plan, whole, *_ = cells(text, "Part by part (section 8.4)", run)
        assert all(share.endswith("%") for share in (alone, static_plan, whole))
    assert cells(text, "Composition (Table 3)", "the paper, R")[-1] == "1.12"


def test_parts_stand_beside_every_allocator(text: str) -> None:
    reserved = {
        name: cells(text, "recorded", name)[0].strip("*")
        for name in ("pytorch-caching", "pytorch-expandable", "gmlake", "vpmm", "planned")
    }
    row = "caching beats GMLake"
    claimed = cells(text, "What is said, and what comes out", row)
    assert claimed[1] == f"{reserved['pytorch-caching']}, {reserved['gmlake']}"
    runs = [[float(side) for side in cell.split(", ")] for cell in claimed[1:-1]]
    holds = sum(ours < theirs for ours, theirs in runs)
    assert claimed[-1] == f"{holds} of 2"


def test_a_claim_is_counted_where_it_holds(text: str) -> None:
    both = [
        cells(text, "What is said, and what comes out", claim)[-1]
        for claim in ("STWeaver beats expandable segments", "expandable segments beat STAlloc")
    ]
    assert sum(int(verdict.split()[0]) for verdict in both) <= 2


def test_no_page_is_written_where_an_allocator_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recorded.npz"
    write_recorded_trace(random_training(0), path)
    monkeypatch.setattr(page_module, "PLANNER", "homosize:variant=none")
    with pytest.raises(GaplessError, match="variant"):
        stweaver_page([path], "command", [])


def test_a_page_needs_a_run() -> None:
    with pytest.raises(GaplessError, match="at least one recording or traced mixture"):
        stweaver_page([], "command", [])


def test_the_command_takes_recordings(main: object, tmp_path: Path) -> None:
    path, page = tmp_path / "run.npz", tmp_path / "page.md"
    write_recorded_trace(random_training(0), path)
    assert main("stweaver", "--no-traced", path, "-o", page) == 0
    assert "`python -m evaluation.benchmarks stweaver --no-traced run.npz`" in page.read_text()
