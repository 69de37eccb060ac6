"""The same seed gives the same digests, and everything that is trained is in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.agreement import compare
from gpu_runtime.training.run_result import PeakFigures, RunResult
from gpu_runtime.training.training_run import Allocator, Purpose, TrainingRun
from instances.extract.models.model_registry import MODELS
from instances.extract.record.trace_settings import TraceSettings
from tests.gpu_runtime.training.run_results import PLAN
from tests.gpu_runtime.training.tiny_bert import register_tiny_bert, tiny_run

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from instances.extract.step_settings import StepSettings

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    register_tiny_bert(monkeypatch)


def check(run: TrainingRun) -> RunResult:
    from gpu_runtime.training.allocator_probe import AllocatorProbe
    from gpu_runtime.training.program_run import run_program

    return run_program(run, AllocatorProbe())


def first_difference(one: RunResult, other: RunResult) -> str:
    (found,) = compare({Allocator.DEFAULT: one, Allocator.PLANNED: other}).differences
    return found.where


def test_two_runs_are_bit_identical() -> None:
    run = tiny_run()
    one, other = check(run), check(run)
    found = compare({Allocator.DEFAULT: one, Allocator.PLANNED: other})
    assert found.is_bit_identical
    assert (found.steps, found.losses) == (2, 4)
    # Each of the two steps has a gradient a parameter; the decoder's weight is the embedding's.
    assert found.gradients == 2 * found.parameters
    assert "bert.embeddings.word_embeddings.weight" in one.parameters
    assert "bert.embeddings.position_ids" in one.buffers


def test_every_step_computes_something_new() -> None:
    result = check(tiny_run())
    assert len({loss for losses in result.losses for loss in losses}) == 4
    first, second = result.gradients
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert first[name] != second[name]
    assert float.fromhex(result.losses[0][0]) == pytest.approx(4.1, abs=0.5)  # log(60)


def test_another_seed_is_seen_in_the_first_loss() -> None:
    run = tiny_run()
    assert first_difference(check(run), check(replace(run, seed=1))) == (
        "step 1, loss of microbatch 1"
    )


@pytest.mark.parametrize(
    "settings",
    [
        TraceSettings(2, 2, "float32", "sgd"),
        TraceSettings(2, 2, "autocast-bfloat16"),
        TraceSettings(2, 2, "bfloat16"),
    ],
    ids=lambda settings: f"{settings.optimizer}-{settings.precision}",
)
def test_the_loop_is_the_settings(settings: TraceSettings) -> None:
    tiny = tiny_run()
    assert tiny.model is not None
    run = replace(tiny, model=replace(tiny.model, settings=settings))
    result = check(run)
    found = compare({Allocator.DEFAULT: result, Allocator.PLANNED: check(run)})
    assert found.is_bit_identical
    where = first_difference(check(tiny_run()), result)
    # Another optimizer changes the second step, another precision the first.
    assert where.startswith("step 2" if settings.optimizer == "sgd" else "step 1")


def test_a_recomputed_layer_drops_out_the_same() -> None:
    plain = check(tiny_run())
    recomputed = check(tiny_run(checkpointing=True))
    found = compare({Allocator.DEFAULT: plain, Allocator.EXPANDABLE: recomputed})
    assert found.is_bit_identical, found.differences


def test_a_flipped_bit_is_named() -> None:
    import torch

    from gpu_runtime.training import determinism

    tensor = torch.zeros(5)
    before = determinism.digests([("a", tensor), ("b", torch.ones(2, dtype=torch.bfloat16))])
    tensor.view(torch.int32)[3] = 1
    after = determinism.digests([("a", tensor), ("b", torch.ones(2, dtype=torch.bfloat16))])
    assert list(after) == ["a", "b"]
    assert before["a"] != after["a"]
    assert before["b"] == after["b"]
    long = torch.zeros(100_001, dtype=torch.uint8)
    whole = determinism.digests([("a", long)])
    long[-1] = 1
    assert determinism.digests([("a", long)]) != whole


def test_digests_are_of_values_and_not_of_strides() -> None:
    import torch

    from gpu_runtime.training.determinism import digests

    tensor = torch.arange(6.0).reshape(2, 3)
    turned = tensor.t().contiguous().t()
    assert digests([("x", tensor)]) == digests([("x", turned)])
    assert digests([("x", tensor)]) != digests([("x", tensor.t())])
    assert digests([("x", torch.tensor(2.0))]) == digests([("x", torch.tensor([2.0]))])


def test_a_loss_keeps_every_bit() -> None:
    import torch

    from gpu_runtime.training.determinism import exact

    loss = torch.tensor(0.1)
    assert torch.tensor(float.fromhex(exact(loss))) == loss
    assert exact(torch.nextafter(loss, torch.tensor(1.0))) != exact(loss)


def test_a_loss_that_is_not_a_number_keeps_every_bit_too() -> None:
    import torch

    from gpu_runtime.training.determinism import exact

    bits = torch.tensor([0x7FC00000, 0x7FC00001, -0x400000], dtype=torch.int32)
    nans = [exact(loss) for loss in bits.view(torch.float32)]
    assert nans == ["nan 0000c07f", "nan 0100c07f", "nan 0000c0ff"]
    assert exact(torch.tensor(float("-inf"))) == "-inf"


def test_a_tensor_without_elements_has_a_digest() -> None:
    import torch

    from gpu_runtime.training.determinism import digests

    found = digests([("none", torch.empty(0)), ("flag", torch.tensor(True))])
    assert found["none"] != found["flag"]


def build_undetermined(_: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    import torch

    class Undetermined(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> object:
            grown = self.weight * x
            grown.detach().put_(torch.tensor([0]), torch.tensor([2.0]))
            return type("Output", (), {"loss": grown.sum()})

    return Undetermined(), {"x": torch.zeros(3)}


def test_undetermined_operators_are_refused_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training.determinism import UndeterminedError

    monkeypatch.setitem(MODELS, "tiny", changed(MODELS["tiny"], build=build_undetermined))
    run = tiny_run()
    with pytest.raises(UndeterminedError, match="put_ has no deterministic algorithm") as refused:
        check(run)
    assert refused.value.operator == "put_"
    assert check(replace(run, strict=False)).undetermined == ("put_",)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("strict", [True, False])
def test_a_check_chooses_deterministic_kernels_and_puts_all_back(
    monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    import torch

    from gpu_runtime.training.determinism import deterministic

    cuda: Any = torch.backends.cuda  # untyped in PyTorch
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(cudnn, "deterministic", False)
    monkeypatch.setattr(cudnn, "benchmark", True)
    with deterministic(strict=strict):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() != strict
        assert (cudnn.deterministic, cudnn.benchmark) == (True, False)
        assert cuda.math_sdp_enabled()
        # Where PyTorch may not refuse, only written-out attention is deterministic.
        assert cuda.flash_sdp_enabled() == cuda.mem_efficient_sdp_enabled() == strict
    assert not torch.are_deterministic_algorithms_enabled()
    assert (cudnn.deterministic, cudnn.benchmark) == (False, True)
    assert cuda.flash_sdp_enabled()


def timed(run: TrainingRun, growing: bool = False) -> tuple[RunResult, list[str]]:
    """Do a run under an allocator that writes down what it is asked."""
    from gpu_runtime.training.allocator_probe import AllocatorProbe
    from gpu_runtime.training.program_run import run_program

    calls: list[str] = []

    class Recording(AllocatorProbe):
        @contextmanager
        def step(self) -> Iterator[None]:
            calls.append("begin")
            yield
            calls.append("end")

        def reset_peaks(self) -> None:
            calls.append("reset")

        def peaks(self) -> PeakFigures:
            calls.append("peaks")
            falling = 3 if "reset" in calls else 10
            return PeakFigures(1, 2, len(calls) if growing else falling)

        def plan(self) -> MemoryReport:
            return PLAN

    return run_program(run, Recording()), calls


def test_steps_run_in_the_allocators_step() -> None:
    result, calls = timed(tiny_run())
    assert result.plan == PLAN
    assert calls == ["begin", "end"] * 2


def test_only_steps_after_the_reset_are_timed() -> None:
    result, calls = timed(tiny_run(Purpose.TIME))
    step = ["begin", "end"]
    assert calls == [*step * 2, "peaks", "reset", *step * 4, "peaks"]
    assert [len(turn) for turn in result.step_seconds] == [3]
    assert all(seconds > 0 for seconds in result.every_step)
    assert (result.peaks, result.plan) == (PeakFigures(1, 2, 3), PLAN)
    assert result.whole_run_reserved == 10
    assert (result.device_bytes, result.losses, result.gradients) == (None, (), ())
    assert set(result.environment) == {"python", "torch", "transformers"}
    result, calls = timed(tiny_run(Purpose.TIME), growing=True)
    assert result.peaks is not None
    assert result.whole_run_reserved == result.peaks.reserved == len(calls)


@pytest.mark.parametrize("turns", [1, 2])
def test_device_bytes_are_what_the_process_took(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    from gpu_runtime.training.scene import Scene

    taken = iter([40, 100])
    monkeypatch.setattr(Scene, "_taken_bytes", lambda _: next(taken))
    result, _ = timed(replace(tiny_run(Purpose.TIME), turns=turns))
    assert result.device_bytes == (60 if turns == 1 else None)
