"""The same seed gives the same digests, and everything that is trained is in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.agreement import compare
from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import CheckResult
from instances.extract.eager.trace_settings import TraceSettings
from instances.extract.models.model_registry import MODELS
from tests.gpu_runtime.training.tiny_bert import register_tiny_bert, tiny_specification
from tests.gpu_runtime.training.worker_results import PLAN

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from instances.extract.step_settings import StepSettings

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    register_tiny_bert(monkeypatch)


def check(specification: RunSpecification) -> CheckResult:
    from gpu_runtime.training.allocator_probe import HostProbe
    from gpu_runtime.training.check_run import run_check

    return run_check(specification, HostProbe())


def first_difference(one: CheckResult, other: CheckResult) -> str:
    (found,) = compare({Allocator.DEFAULT: one, Allocator.PLANNED: other}).differences
    return found.where


def test_two_runs_are_bit_identical() -> None:
    specification = tiny_specification(Purpose.CHECK)
    one, other = check(specification), check(specification)
    found = compare({Allocator.DEFAULT: one, Allocator.PLANNED: other})
    assert found.is_bit_identical
    assert (found.steps, found.losses) == (2, 4)
    # Each of the two steps has a gradient a parameter; the decoder's weight is the embedding's.
    assert found.gradients == 2 * found.parameters
    assert "bert.embeddings.word_embeddings.weight" in one.parameters
    assert "bert.embeddings.position_ids" in one.buffers


def test_every_step_computes_something_new() -> None:
    result = check(tiny_specification(Purpose.CHECK))
    assert len({loss for losses in result.losses for loss in losses}) == 4
    first, second = result.gradients
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert first[name] != second[name]
    assert float.fromhex(result.losses[0][0]) == pytest.approx(4.1, abs=0.5)  # log(60)


def test_another_seed_is_seen_in_the_first_loss() -> None:
    specification = tiny_specification(Purpose.CHECK)
    assert first_difference(check(specification), check(replace(specification, seed=1))) == (
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
    specification = replace(tiny_specification(Purpose.CHECK), settings=settings)
    result = check(specification)
    found = compare({Allocator.DEFAULT: result, Allocator.PLANNED: check(specification)})
    assert found.is_bit_identical
    where = first_difference(check(tiny_specification(Purpose.CHECK)), result)
    # Another optimizer changes the second step, another precision the first.
    assert where.startswith("step 2" if settings.optimizer == "sgd" else "step 1")


def test_a_recomputed_layer_drops_out_the_same() -> None:
    plain = check(tiny_specification(Purpose.CHECK))
    recomputed = check(tiny_specification(Purpose.CHECK, checkpointing=True))
    found = compare({Allocator.DEFAULT: plain, Allocator.EXPANDABLE: recomputed})
    assert found.is_bit_identical, found.differences


def test_a_flipped_bit_is_named() -> None:
    import torch

    from gpu_runtime.training import check_run

    tensor = torch.zeros(5)
    before = check_run.digests([("a", tensor), ("b", torch.ones(2, dtype=torch.bfloat16))])
    tensor.view(torch.int32)[3] = 1
    after = check_run.digests([("a", tensor), ("b", torch.ones(2, dtype=torch.bfloat16))])
    assert list(after) == ["a", "b"]
    assert before["a"] != after["a"]
    assert before["b"] == after["b"]
    long = torch.zeros(100_001, dtype=torch.uint8)
    whole = check_run.digests([("a", long)])
    long[-1] = 1
    assert check_run.digests([("a", long)]) != whole


def test_digests_are_of_values_and_not_of_strides() -> None:
    import torch

    from gpu_runtime.training.check_run import digests

    tensor = torch.arange(6.0).reshape(2, 3)
    turned = tensor.t().contiguous().t()
    assert digests([("x", tensor)]) == digests([("x", turned)])
    assert digests([("x", tensor)]) != digests([("x", tensor.t())])
    assert digests([("x", torch.tensor(2.0))]) == digests([("x", torch.tensor([2.0]))])


def test_a_loss_keeps_every_bit() -> None:
    import torch

    from gpu_runtime.training.check_run import exact

    loss = torch.tensor(0.1)
    assert torch.tensor(float.fromhex(exact(loss))) == loss
    assert exact(torch.nextafter(loss, torch.tensor(1.0))) != exact(loss)


def test_a_loss_that_is_no_number_keeps_every_bit_too() -> None:
    import torch

    from gpu_runtime.training.check_run import exact

    bits = torch.tensor([0x7FC00000, 0x7FC00001, -0x400000], dtype=torch.int32)
    nans = [exact(loss) for loss in bits.view(torch.float32)]
    assert nans == ["nan 0000c07f", "nan 0100c07f", "nan 0000c0ff"]
    assert exact(torch.tensor(float("-inf"))) == "-inf"


def test_a_tensor_without_elements_has_a_digest() -> None:
    import torch

    from gpu_runtime.training.check_run import digests

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


def test_what_is_not_deterministic_is_refused_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training.check_run import UndeterminedError

    monkeypatch.setitem(MODELS, "tiny", replace(MODELS["tiny"], build=build_undetermined))
    specification = tiny_specification(Purpose.CHECK)
    with pytest.raises(UndeterminedError, match="put_ has no deterministic algorithm") as refused:
        check(specification)
    assert refused.value.operator == "put_"
    assert check(replace(specification, strict=False)).undetermined == ("put_",)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("strict", [True, False])
def test_a_check_chooses_deterministic_kernels_and_puts_all_back(
    monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    import torch

    from gpu_runtime.training.check_run import deterministic

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


def test_steps_run_in_the_allocators_step() -> None:
    from gpu_runtime.training.allocator_probe import HostProbe
    from gpu_runtime.training.check_run import run_check

    steps: list[str] = []

    class Counting(HostProbe):
        @contextmanager
        def step(self) -> Iterator[None]:
            steps.append("begin")
            yield
            steps.append("end")

        def plan(self) -> MemoryReport:
            return PLAN

    assert run_check(tiny_specification(Purpose.CHECK), Counting()).plan == PLAN
    assert steps == ["begin", "end"] * 2
