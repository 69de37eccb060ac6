"""Recordings that studies replay: their files, and mixtures whose routing is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.recordings.recorded_runs import RUNS, record_runs, run_name
from evaluation.recordings.routed_mixture import RoutedMixture
from evaluation.study.__main__ import app
from evaluation.study.study_file import FOLDER
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.allocation_trace import AllocationTrace, iteration_phases
from instances.traces.dynamic_requests import find_dynamic_requests
from planners.files.formats import read_requests


def test_every_run_has_a_name_of_its_own() -> None:
    names = [run_name(run) for run in RUNS]
    assert len(set(names)) == len(names) == 8
    assert "qwen2-moe-r-uneven" in names


@pytest.mark.torch
def test_a_run_is_written_as_a_trace(tmp_path: Path) -> None:
    small = RoutedMixture(
        False, layers=1, experts=4, batch=1, seq=16, loop=TraceSettings(2, precision="bfloat16")
    )
    assert list(record_runs(tmp_path, [small])) == [tmp_path / "qwen2-moe-n.npz"]
    requests = read_requests(tmp_path / "qwen2-moe-n.npz")
    assert len(requests.iteration_rows) == 2


def test_the_command_needs_a_folder(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["record", str(tmp_path / "nowhere")])
    assert said.exit_code == 2
    assert "a folder is needed, found none" in said.stderr


def test_the_command_says_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "run.npz"
    written.touch()
    monkeypatch.setattr("evaluation.study.__main__.record_runs", lambda _: [written])
    said = CliRunner().invoke(app, ["record", str(tmp_path)])
    assert (said.exit_code, said.output) == (0, f"wrote {written}\n")


def test_every_recording_that_studies_replay_can_be_made_again() -> None:
    traces = {path.name for path in (FOLDER / "traces").iterdir()}
    assert traces == {f"{run_name(run)}.npz" for run in RUNS}


LOOP = TraceSettings(3, precision="bfloat16")


def small_mixture(*, checkpointing: bool) -> RoutedMixture:
    return RoutedMixture(checkpointing, layers=1, experts=4, batch=1, seq=64, loop=LOOP)


@pytest.fixture(scope="module", params=[False, True], ids=["N", "R"])
def traced(request: pytest.FixtureRequest) -> AllocationTrace:
    return small_mixture(checkpointing=request.param).trace()


@pytest.mark.torch
def test_only_sparse_blocks_vary(traced: AllocationTrace) -> None:
    dynamic = find_dynamic_requests(traced, 2)
    modules = {traced.module_names[module] for module in traced.alloc_module[dynamic]}
    assert {name.split(".layers.0.")[-1].split(".")[0] for name in modules} == {"mlp"}
    assert any(".experts.3." in name for name in modules)
    counts = {sum(map(len, iteration_phases(traced, step))) for step in (1, 2)}
    assert len(counts) == 1


@pytest.mark.torch
def test_recomputed_tokens_go_to_the_same_experts() -> None:
    trace = small_mixture(checkpointing=True).trace()
    forward, backward, _ = iteration_phases(trace, 2)
    dynamic = find_dynamic_requests(trace, 2)[forward]
    assert dynamic.any()
    assert set(trace.size[forward[dynamic]].tolist()) <= set(trace.size[backward].tolist())
