"""The files of the runs that studies of online allocators replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.benchmarks.cases.recorded_runs import RUNS, record_runs, run_name
from evaluation.benchmarks.cases.routed_mixture import RoutedMixture
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


def test_the_command_needs_a_folder(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("record", tmp_path / "nowhere") == 2
    assert "a folder is needed, found none" in capsys.readouterr().err
