"""Online allocators of a study have their memory from the device that its file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.study.kinds import carry_out
from evaluation.study.planned_runs import PlannedRun, runs_of
from evaluation.study.record import Record, RunStatus
from evaluation.study.study import Study
from evaluation.study.study_instances import Folders
from instances.formats.recorded_trace import write_recorded_trace
from planners.errors import GaplessError
from planners.model.online_result import OnlineDevice
from tests.evaluation.study.made_runs import tasks_in, written_study
from tests.instances.traces.microbatch_trace import microbatch_trace

FILES = 'files = ["run.npz"]'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_recorded_trace(microbatch_trace(), tmp_path / "run.npz")
    return tmp_path


def study_on(folder: Path, device: str = "", instances: str = FILES) -> Study:
    settings = 'seconds = 600\nmemory = "1TiB"\nplanners = ["naive"]\nonline = ["pytorch-caching"]'
    given = f'\ndevice = "{device}"' if device else ""
    return written_study(folder, settings + given, instances)


def runs(folder: Path, device: str = "", instances: str = FILES) -> list[PlannedRun]:
    return runs_of(study_on(folder, device, instances), Folders(folder))


def record_of(folder: Path, device: str = "") -> Record:
    [_, online] = tasks_in(study_on(folder, device))
    return Record.from_json(carry_out(online), "here")


def test_only_an_allocator_on_another_device_answers_another_question(folder: Path) -> None:
    plain, ledger, simulated = (runs(folder, device) for device in ("", "ledger", "simulated"))
    assert [run.device for run in simulated] == [OnlineDevice.SIMULATED] * 2
    assert [run.asked for run in plain] == [run.asked for run in ledger]
    assert plain[0].asked == simulated[0].asked
    assert plain[1].asked != simulated[1].asked


def test_a_run_on_two_devices_is_refused(folder: Path) -> None:
    other = f'[[grid]]\ndevice = "simulated"\n[[grid.instances]]\n{FILES}'
    with pytest.raises(GaplessError, match="under unlike devices"):
        runs(folder, instances=f"{FILES}\n{other}")


def test_an_unknown_device_is_refused(folder: Path) -> None:
    with pytest.raises(GaplessError, match="field device: one of ledger, simulated, cuda is need"):
        runs(folder, "gpu")


def test_calls_are_timed_but_on_the_ledger(folder: Path) -> None:
    counted = record_of(folder)
    timed = record_of(folder, "simulated")
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
