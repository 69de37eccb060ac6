"""A study of training: which runs, their records, and what an interrupt leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from evaluation.study.__main__ import app
from evaluation.study.record import AnyRecord, RunStatus, TrainingRecord
from evaluation.study.records_file import read_records
from evaluation.study.study_file import find_study, read_study, studies
from evaluation.study.training_grid import trained_programs
from gpu_runtime.allocator.graph_report import GraphReport
from gpu_runtime.training.run_processes import RunProcesses
from gpu_runtime.training.run_result import Answer, Failure, PeakFigures, RunResult, of_all_ranks
from gpu_runtime.training.stream_times import StreamTimes
from gpu_runtime.training.training_run import Allocator, Purpose, TrainingRun
from planners.errors import GaplessError, InstanceError
from tests.gpu_runtime.training.run_results import succeed

STUDY = """question = "Does it train?"
[[training]]
programs = ["plain", "vit"]
turns = 1
"""


class StandIn(RunProcesses):
    """A process that waits for its turns and then answers."""

    def __init__(self, run: TrainingRun, say: Callable[[TrainingRun], Answer]) -> None:
        super().__init__((), ())
        self._run, self._say = run, say

    def wait_for_pause(self) -> None:
        """Wait no time."""

    def answer(self) -> Answer:
        return self._say(self._run)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run the study with processes that answer at once."""
    monkeypatch.setattr("evaluation.study.__main__.use_every_core", lambda: None)

    def train(
        *options: str, text: str = STUDY, say: Callable[[TrainingRun], Answer] = succeed
    ) -> Result:
        @contextmanager
        def start(run: TrainingRun) -> Iterator[RunProcesses]:
            assert run.limit_seconds == 240
            yield StandIn(run, say)

        monkeypatch.setattr("evaluation.study.__main__.waiting_run", start)
        (tmp_path / "train.toml").write_text(text)
        file = tmp_path / "train.jsonl"
        return CliRunner().invoke(
            app, ["run", str(tmp_path / "train.toml"), "-o", str(file), *options]
        )

    return train


def records(tmp_path: Path) -> dict[str, AnyRecord]:
    return {its.run: its for its in read_records(tmp_path / "train.jsonl")}


def test_a_record_has_what_a_page_needs(run: Callable[..., Result], tmp_path: Path) -> None:
    def say(run: TrainingRun) -> Answer:
        answer = succeed(run)
        if run.label == "check planned" and isinstance(answer, RunResult):
            return replace(answer, buffers={}, undetermined=("put_",))
        if run.label == "time default" and isinstance(answer, RunResult):
            return replace(answer, streams=(StreamTimes("compute", 2.0, 0.5),))
        if run.label == "time expandable":
            return Failure("out of memory: much")
        return Failure("it died") if run.label == "check expandable" else answer

    result = run(say=say)
    assert result.exit_code == 0, result.output
    assert "train: 6 of 6 runs, 2 failed" in result.stdout
    default, expandable, planned = (
        records(tmp_path)[f"plain/training/{its}"] for its in ("default", "expandable", "planned")
    )
    assert isinstance(default, TrainingRecord)
    assert (default.instance, default.planner) == ("plain", "default")
    assert default.machine.processor.endswith(", NVIDIA H200")
    assert default.peak == 5 << 30
    said = default.statistics
    assert (said["device_calls"], said["host_waits"]) == (8, 1)
    assert (said["step_median_seconds"], said["step_worst_seconds"]) == (0.011, 0.013)
    assert (said["turn_1_seconds"], said["stream_1_idle_ms"]) == (0.011, 0.5)
    assert "differs" not in said
    assert planned.statistics["bits"] != said["bits"]
    assert "buffer norm.mean at the end" in str(planned.statistics["differs"])
    assert planned.statistics["undetermined"] == "put_"
    assert planned.statistics["fallback_share"] == 0
    assert expandable.status is RunStatus.OUT_OF_MEMORY
    assert (expandable.reason, expandable.peak) == ("out of memory: much", None)
    assert expandable.statistics["check_failed"] == "it died"


def test_a_record_has_the_memory_of_captured_graphs(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    def say(run: TrainingRun) -> Answer:
        found = succeed(run)
        if not isinstance(found, RunResult) or found.plan is None:
            return found
        graphs = GraphReport(1, 200, 30, 40, 500, "")
        return replace(found, plan=changed(found.plan, graphs=graphs, requests_above_pytorch=6))

    assert run("--only", "plain/*", say=say).exit_code == 0
    for name, record in records(tmp_path).items():
        figures = ("graph_bytes", "graph_live_bytes", "graph_pytorch_bytes")
        said = [record.statistics.get(key) for key in (*figures, "requests_above_pytorch")]
        assert said == ([230, 40, 500, 6] if name.endswith("planned") else [None] * 4)


def test_a_record_of_several_ranks_has_the_figures_of_each(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    def say(run: TrainingRun) -> Answer:
        large, small = succeed(run), succeed(run)
        if isinstance(large, RunResult) and isinstance(small, RunResult) and small.peaks:
            large = replace(large, allocator_seconds=(0.1, 0.4, 0.2))
            small = replace(small, peaks=PeakFigures(1, 2, 3), allocator_seconds=(0.3, 0.1, 0.2))
        return of_all_ranks([small, large])

    result = run("--only", "plain/*", say=say)
    assert result.exit_code == 0, result.output
    for name, record in records(tmp_path).items():
        assert isinstance(record, TrainingRecord)
        said = record.statistics
        figures = {key: its for key, its in said.items() if key.startswith("rank_")}
        assert (figures["rank_0_reserved"], figures["rank_0_allocated"]) == (3, 2)
        assert figures["rank_1_reserved"] == record.peak
        assert figures["rank_1_allocated"] == record.allocated
        spent = [figures[f"rank_{rank}_allocator_worst_seconds"] for rank in range(2)]
        assert spent == [0.3, 0.4]
        assert figures["rank_1_allocator_seconds"] == 0.2
        assert ("rank_1_pytorch_bytes" in figures) == name.endswith("planned")
        assert said.get("rank_1_pytorch_bytes") == said.get("pytorch_bytes")


def test_an_interrupt_leaves_whole_programs_and_goes_on(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    asked: list[str] = []

    def break_off(run: TrainingRun) -> Answer:
        asked.append(f"{run.program} {run.label}")
        if run.program == "vit" and run.purpose is Purpose.TIME:
            raise KeyboardInterrupt
        return succeed(run)

    result = run(say=break_off)
    assert result.exit_code == 130
    assert "the same command resumes there" in result.stderr
    assert [*records(tmp_path)] == [
        f"plain/training/{its}" for its in ("default", "expandable", "planned")
    ]
    asked.clear()
    result = run(
        "--only", "plain/*,vit/*/default", say=lambda run: asked.append(run.program) or succeed(run)
    )
    assert result.exit_code == 0, result.output
    assert asked == ["vit"] * 2
    assert run().exit_code == 0
    assert len(records(tmp_path)) == 6


def test_a_general_failure_ends_the_study(run: Callable[..., Result]) -> None:
    result = run(say=lambda _: Failure("no CUDA device", is_general=True))
    assert result.exit_code == 2
    assert "error: no CUDA device" in result.stderr


def test_records_of_another_question_or_machine_are_refused(
    run: Callable[..., Result],
) -> None:
    assert run("--only", "plain/*").exit_code == 0

    def elsewhere(run: TrainingRun) -> Answer:
        answer = succeed(run)
        if isinstance(answer, RunResult) and answer.environment:
            return replace(answer, environment={"device": "another"})
        return answer

    result = run(say=elsewhere)
    assert result.exit_code == 2
    assert "times of unlike machines do not compare" in result.stderr
    other = STUDY.replace("turns = 1", "turns = 2")
    result = run("--only", "plain/*", text=other)
    assert result.exit_code == 2
    assert "program plain has changed since" in result.stderr
    assert run("--only", "plain/*", "--drop-changed", text=other).exit_code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--jobs", "2"), "--jobs: a study of training takes the GPUs of this machine"),
        (("--scheduler", "tcp://a:1"), "--scheduler: a study of training takes the GPUs"),
        (("--folder", "a=b"), "--folder a=b: the study names no such folder"),
        (("--only", "x/y"), "--only: no run of train matches x/y"),
    ],
)
def test_refuses_options_that_a_training_does_not_have(
    run: Callable[..., Result], options: tuple[str, str], says: str
) -> None:
    result = run(*options)
    assert (result.exit_code, f"error: {says}" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "turns = 1",
            "turns = 0",
            "turns: a whole number from 1 to 10,000 is needed, found 0",
        ),
        ("turns = 1", 'turnz = "1"', "field 'turnz': unknown; did you mean 'turns'"),
        ('"plain", "vit"', "", "a list of programs, or of models, is needed, found neither"),
        (
            '"vit"]',
            '"vit"]\nallocators = ["defaut"]',
            "one of default, .*, found 'defaut'",
        ),
        (
            "[[training]]",
            '[[grid]]\nplanners = ["naive"]\nseconds = 1\ninstances = [{}]\n[[training]]',
            "field grid or training: one of the two is needed, found both",
        ),
        ("[[training]]", "[page]\n[training]", "found"),
        ('"vit"]', '"vit"]\nallocators = []', "allocators, each once, are needed"),
        ('"vit"]', '"vit"]\nmodels = ["bert-bse --batch 3"]', "no model is called 'bert-bse'"),
    ],
)
def test_a_fault_of_the_file_is_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "train.toml"
    path.write_text(STUDY.replace(old, new))
    with pytest.raises(GaplessError, match=says):
        read_study(path)


def test_programs_that_are_not_in_the_list_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.toml"
    path.write_text(STUDY.replace('"plain"', '"plane"'))
    with pytest.raises(GaplessError, match="is called 'plane'; did you mean 'plain'"):
        trained_programs(read_study(path).training)
    path.write_text(STUDY + STUDY.partition("\n")[2])
    with pytest.raises(InstanceError, match="'plain' is asked for twice"):
        trained_programs(read_study(path).training)


def test_shipped_studies_train_their_programs() -> None:
    programs = {
        name: trained_programs(study.training)
        for name in studies()
        if (study := find_study(name)).training
    }
    assert {name: len(its) for name, its in programs.items()} == {
        "captured-graphs": 10, "pairs": 4, "programs": 40, "programs-four-gpus": 3,
        "programs-two-gpus": 7, "training": 4,
    }  # fmt: skip
    for program in programs["training"]:
        assert program.checks[0].steps == 5
        assert program.timed[0].planning == "between"
    [default, *_] = programs["programs"][0].timed
    assert (default.turns, default.turn_steps, default.allocator) == (3, 4, Allocator.DEFAULT)


@pytest.mark.torch
def test_real_processes_train_a_study(tmp_path: Path) -> None:
    text = STUDY.replace(', "vit"', "").replace(
        "turns = 1",
        'turns = 2\nturn_steps = 1\nscale = "tiny"\nchecked_scale = "tiny"\ndevice = "cpu"\n'
        'allocators = ["default", "planned"]',
    )
    (tmp_path / "train.toml").write_text(text)
    result = CliRunner().invoke(
        app, ["run", str(tmp_path / "train.toml"), "-o", str(tmp_path / "train.jsonl")]
    )
    assert result.exit_code == 0, result.output
    default, planned = records(tmp_path).values()
    assert default.statistics["bits"] == planned.statistics["bits"]
    assert default.status is planned.status is RunStatus.FEASIBLE


def trained(tmp_path: Path, table: str) -> dict[str, AnyRecord]:
    (tmp_path / "train.toml").write_text(f'question = "?"\n[[training]]\nturns = 2\n{table}\n')
    result = CliRunner().invoke(
        app, ["run", str(tmp_path / "train.toml"), "-o", str(tmp_path / "train.jsonl")]
    )
    assert result.exit_code == 0, result.output
    found = records(tmp_path)
    for record in found.values():
        assert record.status is RunStatus.FEASIBLE, record.reason
        assert record.peak
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("program", ["plain", "accumulate"])
def test_a_plan_serves_a_program_with_the_same_bits(tmp_path: Path, program: str) -> None:
    found = trained(tmp_path, f'programs = ["{program}"]\nscale = "quick"\nturn_steps = 2')
    assert len({record.statistics["bits"] for record in found.values()}) == 1
    share = found[f"{program}/training/planned"].statistics["fallback_share"]
    assert isinstance(share, float)
    # The kinds of step of the other are not known before its run is over.
    assert share < 0.5 or program == "accumulate"


@pytest.mark.gpu
def test_a_plan_serves_every_pair(tmp_path: Path) -> None:
    found = trained(tmp_path, 'programs = ["pairs-cpp", "pairs-python"]\ngroup = "pairs"')
    for program in ("pairs-cpp", "pairs-python"):
        assert found[f"{program}/training/planned"].statistics["fallback_share"] == 0


@pytest.mark.gpus
def test_two_gpus_train_with_the_same_bits(tmp_path: Path) -> None:
    found = trained(tmp_path, 'programs = ["ddp"]\ngpus = 2\nscale = "quick"\nturn_steps = 2')
    assert len({record.statistics["bits"] for record in found.values()}) == 1
    assert all("stream_1_role" in record.statistics for record in found.values())
