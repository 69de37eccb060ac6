"""The files of the runs that studies of online allocators replay."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.recordings.recorded_runs import RUNS, record_runs, run_name
from evaluation.recordings.routed_mixture import RoutedMixture
from evaluation.study.__main__ import app
from evaluation.study.study_file import FOLDER
from instances.extract.eager.trace_settings import TraceSettings
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
