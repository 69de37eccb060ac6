"""What is said where PyTorch cannot be served, and which settings of its allocator are touched."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime import PlannedMemory, _core
from gpu_runtime.allocator.pytorch import decorated_allocator as module
from planners.errors import DeviceError, MissingDependencyError

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def nothing_is_decorated() -> Iterator[None]:
    module._decorate.cache_clear()
    yield
    module._decorate.cache_clear()


def refusal(**options: int) -> str:
    with pytest.raises(DeviceError) as caught:
        PlannedMemory("naive", **options).install()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    simulated = _core.SimulatedMemory(65536, 1 << 20)
    monkeypatch.setattr(_core, "CudaMemory", lambda _device: simulated)


def test_pytorch_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", None)
    assert refusal() == (
        f"PyTorch {torch.__version__} is built without CUDA; install a build that has it"
    )


@pytest.mark.usefixtures("with_cuda")
def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(_device: int) -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(_core, "CudaMemory", no_driver)
    assert refusal(device=3) == "device 3: libcuda.so.1: cannot open shared object file"


@pytest.mark.usefixtures("with_cuda")
def test_a_pytorch_that_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch, "__version__", "2.16.0")
    reason = "planned memory serves PyTorch 2.11 to 2.15, found 2.16.0; install one of these"
    assert refusal(strict=True) == reason
    memory = PlannedMemory("naive")
    with pytest.warns(RuntimeWarning) as warned:
        memory.install()
    assert [str(each.message) for each in warned] == [
        f"training goes on under PyTorch's own allocator: {reason}"
    ]
    for _ in range(5):
        with memory.step():
            pass
    report = memory.report()
    assert (report.status, report.reason, report.planned_steps) == ("unplanned", reason, 0)
    assert memory.pause() == 0


@pytest.mark.usefixtures("with_cuda")
def test_refuses_to_plan_without_caching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    assert refusal().startswith("PYTORCH_NO_CUDA_MEMORY_CACHING is set")


@pytest.mark.usefixtures("with_cuda")
def test_a_refusal_of_the_decorator_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(table: int) -> bytes:
        assert table == _core.serving_table() != 0
        return b"PyTorch's allocator is decorated already"

    library = SimpleNamespace(gapless_decorate=refuse)
    monkeypatch.setattr(module, "load_decorator", lambda _pytorch: library)
    assert refusal() == "PyTorch's allocator is decorated already"


def test_an_installation_that_failed_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", None)
    memory = PlannedMemory("naive")
    for _ in range(2):
        with pytest.raises(DeviceError, match="built without CUDA"):
            memory.install()


@pytest.mark.usefixtures("with_cuda")
def test_a_device_has_one_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(gapless_decorate=lambda _table: None)
    monkeypatch.setattr(module, "load_decorator", lambda _pytorch: library)
    PlannedMemory("naive", device=63).install()
    assert refusal(device=63) == (
        "one installation is enough: device 63 has an allocator, whose blocks may be in use"
    )


def test_headers_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_pytorch: Any) -> None:
        raise MissingDependencyError("the header is not there; get it with: pip install it")

    import torch

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(_core, "CudaMemory", lambda _device: _core.SimulatedMemory(65536, 65536))
    monkeypatch.setattr(module, "load_decorator", missing)
    with pytest.raises(MissingDependencyError, match="get it with"):
        PlannedMemory("naive").install()


@pytest.mark.parametrize(
    ("said", "backend", "settings", "expected"),
    [
        ("", "native", "", ["expandable_segments:True"]),
        ("max_split_size_mb:128", "native", "", []),
        ("", "cudaMallocAsync", "", []),
        ("", "native", "expandable_segments:False", []),
    ],
    ids=["nothing said", "by the environment", "another backend", "in the program"],
)
def test_segments_expand_where_the_user_has_said_nothing(
    said: str, backend: str, settings: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", said)
    found: list[str] = []
    memory = SimpleNamespace(get_allocator_backend=lambda: backend)
    pytorch = SimpleNamespace(
        cuda=SimpleNamespace(memory=memory),
        _C=SimpleNamespace(
            _accelerator_getAllocatorSettings=lambda: settings,
            _accelerator_setAllocatorSettings=found.append,
        ),
    )
    module._expand_segments(pytorch)
    assert found == expected


def test_pytorch_has_the_functions_for_its_settings() -> None:
    import torch

    assert callable(torch._C._accelerator_getAllocatorSettings)
    assert callable(torch._C._accelerator_setAllocatorSettings)
    assert callable(torch.cuda.memory.get_allocator_backend)
    assert callable(torch.compiled_with_cxx11_abi)
