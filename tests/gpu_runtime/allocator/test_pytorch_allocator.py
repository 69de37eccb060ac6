"""What PyTorch is told where it cannot be served, and when its memory is short."""

from __future__ import annotations

import weakref

import pytest

from gpu_runtime import PlannedMemory, _core
from planners.errors import DeviceError
from tests.gpu_runtime.allocator.synthetic_training import Training

pytestmark = pytest.mark.torch


def install(**options: int) -> str:
    with pytest.raises(DeviceError) as caught:
        PlannedMemory("naive", **options).install()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_pytorch_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", None)
    assert install() == (
        f"PyTorch {torch.__version__} is built without CUDA; install a build that has it"
    )


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def no_driver(_device: int) -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(_core, "CudaMemory", no_driver)
    assert install(device=3) == "device 3: libcuda.so.1: cannot open shared object file"


def test_an_installation_that_failed_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", None)
    memory = PlannedMemory("naive")
    for _ in range(2):
        with pytest.raises(DeviceError, match="built without CUDA"):
            memory.install()


def test_short_memory_is_pytorchs_own_error() -> None:
    import torch

    memory = Training().memory
    with pytest.raises(torch.OutOfMemoryError) as caught, memory.step():
        raise RuntimeError("CUDA out of memory. Of ours")
    assert str(caught.value) == "CUDA out of memory. Of ours"
    assert type(caught.value.__cause__) is RuntimeError
    assert memory.report().steps == 1


def test_what_a_step_held_when_memory_was_short_goes_at_once() -> None:
    import torch

    held: list[weakref.ref[torch.Tensor]] = []

    def interrupted() -> None:
        activation = torch.ones(8)
        held.append(weakref.ref(activation))
        raise RuntimeError("CUDA out of memory. Of ours")

    with pytest.raises(torch.OutOfMemoryError) as caught, Training().memory.step():
        interrupted()
    # The error, which is still there, does not keep it.
    assert caught.value.__cause__ is not None
    assert held[0]() is None


@pytest.mark.parametrize(
    "error", [RuntimeError("my own"), NotImplementedError("CUDA out of memory"), ValueError("x")]
)
def test_other_errors_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, Training().memory.step():
        raise error
    assert caught.value is error


def test_pytorchs_own_error_stays_as_it_is() -> None:
    import torch

    error = torch.OutOfMemoryError("CUDA out of memory. Of PyTorch")
    with pytest.raises(torch.OutOfMemoryError) as caught, Training().memory.step():
        raise error
    assert caught.value is error
