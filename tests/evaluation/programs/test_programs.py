"""Every program on a processor, tiny: it runs, the same for a seed, with as many steps as asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace as changed
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from evaluation.programs.program_list import PROGRAMS, find_programs
from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.allocator.pytorch.request_clock import RequestTime
from gpu_runtime.training.run_result import DeviceCounts, PeakFigures
from gpu_runtime.training.stream_times import StepTrace, StreamTimes
from gpu_runtime.training.training_run import Purpose, Scale, TrainingRun
from planners.errors import GaplessError
from tests.gpu_runtime.training.run_results import PLAN

if TYPE_CHECKING:
    from torch.nn import Module

    from gpu_runtime.training.scene import Scene

pytestmark = pytest.mark.torch

# So many that every program does what it does in some steps only.
WARM_UP, TURNS, TURN_STEPS = 2, 2, 1
STEPS = WARM_UP + TURNS * (1 + TURN_STEPS)


def tiny(program: str, purpose: Purpose = Purpose.CHECK) -> TrainingRun:
    run = PROGRAMS[program].timed_run(Scale.TINY, TURNS, TURN_STEPS, "cpu")
    return replace(run, purpose=purpose, warm_up=WARM_UP, ranks=1, profiled_steps=0)


class RecordingProbe:
    """Notes what it is asked, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_in_step = False

    @contextmanager
    def step(self) -> Iterator[None]:
        assert not self.is_in_step
        self.is_in_step = True
        yield
        self.is_in_step = False
        self.events.append("step")

    @contextmanager
    def timed_step(self) -> Iterator[None]:
        self.events.append("timed")
        with self.step():
            yield

    def exclusive_graphs(self) -> AbstractContextManager[object]:
        return nullcontext()

    def between_replays(self) -> AbstractContextManager[object]:
        return nullcontext()

    @property
    def step_times(self) -> tuple[RequestTime, ...]:
        return (RequestTime(0.5, 7),)

    def wait_for_planning(self) -> None:
        assert not self.is_in_step
        self.events.append("settle")

    def wait_for_turn(self) -> None:
        self.events.append("wait")

    def reset_peaks(self) -> None:
        self.events.append("reset")

    def peaks(self) -> PeakFigures:
        self.events.append("peaks")
        return PeakFigures(1, 2, 3)

    def counts(self) -> DeviceCounts:
        return DeviceCounts(5, 1)

    def plan(self) -> MemoryReport:
        return changed(PLAN, planned_requests=3, escaping_requests=0, unexpected_requests=1)

    def note(self) -> str:
        return ""


EVERY = [*find_programs(["*"]), *find_programs(["*"], "captured-graphs")]


# On a processor no graph is captured, into one pool or many.
@pytest.mark.parametrize("program", [its.name for its in EVERY if "one-pool" not in its.name])
def test_a_program_computes_the_same_for_a_seed(program: str) -> None:
    from gpu_runtime.training.program_run import run_program

    probe = RecordingProbe()
    first = run_program(tiny(program), probe, probe.wait_for_turn)
    assert probe.events == [
        "step", "step", "settle", "wait", "step", "step", "settle", "wait",
        "step", "step", "settle", "wait",
    ]  # fmt: skip
    assert [len(turn) for turn in first.step_seconds] == [TURN_STEPS] * TURNS
    assert all(seconds > 0 for turn in first.step_seconds for seconds in turn)
    assert len(first.losses) == STEPS
    losses = {loss for step in first.losses for loss in step}
    assert len(losses) > 1
    assert not any(loss.startswith("nan") for loss in losses)
    # Which of the steps are timed changes nothing that is computed.
    shifted = replace(tiny(program), warm_up=WARM_UP + 1, turns=1, turn_steps=2)
    again = run_program(shifted, RecordingProbe())
    assert (again.losses, again.parameters) == (first.losses, first.parameters)
    other = run_program(replace(tiny(program), seed=1), RecordingProbe())
    assert losses.isdisjoint(loss for step in other.losses for loss in step)
    assert other.parameters != first.parameters


@pytest.mark.parametrize("program", [program.name for program in find_programs(["*"])])
def test_a_program_trains_what_it_returns(program: str) -> None:
    from gpu_runtime.training.program_run import run_program

    shorter = replace(tiny(program), warm_up=1, turns=1)
    ends = [run_program(its, RecordingProbe()).parameters for its in (tiny(program), shorter)]
    assert ends[0] != ends[1]


def test_nothing_is_digested_where_time_is_taken() -> None:
    from gpu_runtime.training.program_run import run_program

    probe = RecordingProbe()
    found = run_program(tiny("vit", Purpose.TIME), probe, probe.wait_for_turn)
    assert probe.events == [
        "step", "step", "settle", "peaks", "reset", "wait",
        "timed", "step", "step", "settle", "wait",
        "timed", "step", "step", "settle", "peaks", "wait",
    ]  # fmt: skip
    assert (found.peaks, found.fallback_share) == (PeakFigures(1, 2, 3), 0.25)
    assert found.counts == DeviceCounts(5, 1)
    assert (found.allocator_seconds, found.allocator_events) == ((0.5,), (7,))
    assert (found.losses, found.parameters, found.buffers) == ((), {}, {})
    assert found.environment["torch"]


def test_a_worker_process_of_a_loader_can_be_started_afresh() -> None:
    from evaluation.programs.plain_loops import data_loader
    from gpu_runtime.training.scene import Scene

    losses = []
    for method in ("fork", "spawn"):
        scene = Scene(tiny("data-loader"), RecordingProbe())
        data_loader(scene, method)
        losses.append(scene.losses)
    assert losses[0] == losses[1]


def test_a_program_that_takes_other_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.programs import plain_loops
    from gpu_runtime.training.program_run import run_program

    def lazy(scene: Scene) -> Module:
        import torch

        for _ in range(WARM_UP + 1):
            with scene.step():
                pass
        return torch.nn.Linear(1, 1)

    monkeypatch.setattr(plain_loops, "plain", lazy)
    with pytest.raises(GaplessError, match="program plain: 6 steps are needed, found 3"):
        run_program(tiny("plain"), RecordingProbe())


def test_work_between_steps_is_outside_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.programs import plain_loops
    from gpu_runtime.training.scene import Scene

    seen: list[tuple[str, bool]] = []
    for name in ("loss_of", "_sample"):
        real = getattr(plain_loops, name)

        def told(*arguments: object, name: str = name, real: object = real) -> object:
            seen.append((name, probe.is_in_step))
            return real(*arguments)  # type: ignore[operator]

        monkeypatch.setattr(plain_loops, name, told)
    probe = RecordingProbe()
    plain_loops.evaluation_between_steps(Scene(tiny("evaluation"), probe))
    plain_loops.generation_between_steps(Scene(tiny("generation"), probe))
    assert seen == [*[("loss_of", False)] * 4, ("_sample", False)]
    seen.clear()
    plain_loops.validation_at_random(Scene(tiny("validation"), probe))
    assert sorted(set(seen)) == [("_sample", False), ("loss_of", False)]
    assert len(seen) < STEPS


def test_a_run_of_memory_counts_from_its_first_step() -> None:
    from gpu_runtime.training.program_run import run_program
    from gpu_runtime.training.scene import Scene

    run = replace(PROGRAMS["plain"].fit_run(3, "cpu"), scale=Scale.TINY)
    probe = RecordingProbe()
    assert run_program(run, probe).peaks is not None
    assert probe.events == ["step"] * 11 + ["settle", "peaks", "peaks"]
    assert (Scene(run, probe).batch(8), Scene(run, probe).batch(1)) == (3, 1)


def test_sequences_grow_in_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.programs import lengths
    from gpu_runtime.training.scene import Scene

    def take(*arguments: Any) -> list[int]:
        return [arguments[-1]() for _ in range(56)]

    monkeypatch.setattr(lengths, "_decoder", take)
    found: Any = lengths.longer_and_longer(Scene(tiny("curriculum"), RecordingProbe()))
    assert found == [length for length in (4, 8, 12, 16, 20, 24, 24) for _ in range(8)]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_rank_is_profiled_after_its_last_turn(
    monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    import torch

    from gpu_runtime.training import scene as module

    class Event:
        def record(self) -> None: ...

        def elapsed_time(self, other: Event) -> float:
            assert other is not self
            return 250.0

    @contextmanager
    def traced(traces: list[StepTrace]) -> Iterator[None]:
        yield
        kernel = {"cat": "kernel", "name": "gemm", "ts": 0.0, "args": {"stream": 7}}
        traces.append({"traceEvents": [{**kernel, "dur": 1000.0 * len(probe.events)}]})

    monkeypatch.setattr(module, "profiled_step", traced)
    monkeypatch.setattr(module, "_make_event", lambda **_: Event())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1, 1))
    probe = RecordingProbe()
    scene = module.Scene(
        replace(tiny("ddp", Purpose.TIME), profiled_steps=2, rank=rank, ranks=2), probe
    )
    scene.is_cuda = True
    for _ in scene.rounds:
        with scene.step():
            pass
    assert probe.events[-4:] == ["peaks", "step", "step", "step"]
    assert scene.step_seconds == ((0.25,), (0.25,))
    last = len(probe.events)
    expected = (StreamTimes("compute", (last - 1 + last) / 2, 0.0),)
    assert scene.streams == (expected if rank == 0 else ())


def test_scales_differ_in_layers_and_widths() -> None:
    from gpu_runtime.training.scene import Scene

    sizes = {
        scale: (scene.layers(12), scene.wide(1024, 32), scene.batch(8), scene.length(512))
        for scale in Scale
        for scene in [Scene(replace(tiny("plain"), scale=scale), RecordingProbe())]
    }
    assert sizes == {
        Scale.FULL: (12, 1024, 8, 512),
        Scale.QUICK: (4, 1024, 8, 512),
        Scale.TINY: (2, 32, 2, 16),
    }


def test_ranks_get_the_same_lengths_and_other_tokens() -> None:
    from gpu_runtime.training.scene import Scene

    scenes = [Scene(replace(tiny("ddp"), rank=rank, ranks=2), RecordingProbe()) for rank in (0, 1)]
    lengths = [[scene.length_between(128, 4096) for _ in range(9)] for scene in scenes]
    assert lengths[0] == lengths[1]
    assert len(set(lengths[0])) > 3
    tokens = [scene.tokens(2, 8, 50).tolist() for scene in scenes]
    assert tokens[0] != tokens[1]


def test_every_program_is_there() -> None:
    assert len(PROGRAMS) >= 28
    for program in PROGRAMS.values():
        if program.packages != ("bitsandbytes",):  # which tests do not install
            program.require_packages()
        module, _, function = program.check_run().entry.partition(":")
        assert callable(getattr(import_module(module), function))
