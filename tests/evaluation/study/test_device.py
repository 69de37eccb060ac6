"""Online allocators of a study have their memory from the device that its file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.study.kinds import carry_out
from evaluation.study.planned_runs import PlannedRun, runs_of
from evaluation.study.record import Record, RunStatus
from evaluation.study.runner import tasks_of
from evaluation.study.study_file import read_study
from evaluation.study.study_instances import Folders
from instances.formats.recorded_trace import write_recorded_trace
from planners.errors import GaplessError
from planners.model.online_result import OnlineDevice
from tests.instances.traces.microbatch_trace import microbatch_trace

GRID = """
[[grid]]
planners = ["naive"]
online = ["pytorch-caching"]
instances = [{ files = ["run.npz"] }]
"""
STUDY = f"""
question = "?"
seconds = 600
memory = "1TiB"
{GRID}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_recorded_trace(microbatch_trace(), tmp_path / "run.npz")
    return tmp_path


def runs(folder: Path, text: str) -> list[PlannedRun]:
    (folder / "own.toml").write_text(text)
    return runs_of(read_study(folder / "own.toml"), Folders(folder))


def on(device: str, text: str = STUDY) -> str:
    return text.replace("[[grid]]", f'[[grid]]\ndevice = "{device}"')


def record_of(folder: Path, text: str) -> Record:
    study = read_study(folder / "own.toml")
    [_, online] = tasks_of(study, runs(folder, text))
    return Record.from_json(carry_out(online), "here")


def test_only_an_allocator_on_another_device_answers_another_question(folder: Path) -> None:
    plain, ledger, simulated = (
        runs(folder, text) for text in (STUDY, on("ledger"), on("simulated"))
    )
    assert [run.device for run in simulated] == [OnlineDevice.SIMULATED] * 2
    assert [run.asked for run in plain] == [run.asked for run in ledger]
    assert plain[0].asked == simulated[0].asked
    assert plain[1].asked != simulated[1].asked


def test_a_run_on_two_devices_is_refused(folder: Path) -> None:
    text = STUDY + on("simulated", GRID)
    with pytest.raises(GaplessError, match="under unlike devices"):
        runs(folder, text)


def test_an_unknown_device_is_refused(folder: Path) -> None:
    with pytest.raises(GaplessError, match="field device: one of ledger, simulated, cuda is need"):
        runs(folder, on("gpu"))


def test_calls_are_timed_but_on_the_ledger(folder: Path) -> None:
    (folder / "own.toml").write_text(STUDY)
    counted = record_of(folder, STUDY)
    timed = record_of(folder, on("simulated"))
    assert counted.status is timed.status is RunStatus.FEASIBLE
    assert "device" not in counted.statistics
    its = timed.statistics
    assert its["device"] == "simulated"
    assert its["last_iteration_rows"] == 10
    assert 0 < float(its["last_iteration_seconds"]) <= float(its["allocator_seconds"])
    assert 0 < float(its["allocate_plain_seconds"]) <= float(its["allocator_seconds"])
    calls = {name: count for name, count in counted.statistics.items() if name.endswith("_calls")}
    assert calls
    assert calls.items() <= its.items()
