"""Online allocators by name, served and reported; PyTorch has no device here."""

from __future__ import annotations

import pytest

from gpu_runtime import OnlineMemory
from gpu_runtime._core import CudaMemory, SimulatedMemory
from gpu_runtime.online.online_allocators import CORE
from planners.errors import DeviceError, GaplessError
from planners.registry import choose_online

MIB = 1 << 20
PAGE = 2 * MIB
CACHING = "online allocator pytorch-caching, parameter settings: PyTorch's allocator has"
VPMM = "online allocator vpmm, parameter page_mib: a power of two from 2 to 8388608 is needed"


@pytest.mark.parametrize("name", CORE)
def test_an_online_allocator_serves_and_reports(name: str) -> None:
    memory = OnlineMemory(name)
    allocator = memory.attach(SimulatedMemory(PAGE, 128 * MIB))
    first, second = allocator.allocate(3 * MIB), allocator.allocate(700)
    assert allocator.use_on(first, 7)
    assert allocator.free(first)
    report = memory.report()
    assert report.allocator == name
    assert report.requested_bytes == 3 * MIB + 700
    assert report.requested_bytes <= report.allocated_bytes <= report.reserved_bytes
    assert report.efficiency == report.allocated_bytes / report.reserved_bytes
    assert report.device_calls["record_event"] >= 1
    assert {"create_pages", "allocate_plain"} & report.device_calls.keys()
    assert report.device_seconds > 0
    assert str(report).startswith(f"allocator  {name}\n")
    assert report.to_json()["reserved_bytes"] == report.reserved_bytes

    memory.reset_peaks()
    assert memory.report().requested_bytes == 700
    assert allocator.free(second)
    assert not allocator.free(second)
    assert allocator.give_back() == report.reserved_bytes
    allocator.check()


def test_parameters_are_those_of_a_replay() -> None:
    memory = OnlineMemory("vpmm", page_mib=4)
    allocator = memory.attach(SimulatedMemory(PAGE, 128 * MIB))
    allocator.allocate(5 * MIB)
    assert memory.report().reserved_bytes == 8 * MIB
    assert memory.report().allocator == "vpmm:page_mib=4"


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("gmlak", {}, "no online allocator of the core is called 'gmlak'; did you mean 'gmlake'?"),
        (
            "vpmm",
            {"pages_mib": 2},
            "online allocator vpmm has no parameter 'pages_mib'; did you mean 'page_mib'?",
        ),
        ("vpmm", {"page_mib": "2"}, f"{VPMM}, found '2'"),
        ("vpmm", {"page_mib": -1}, f"{VPMM}, found -1"),
        (
            "pytorch-caching",
            {"settings": "max_split_size:2"},
            f"{CACHING} no setting 'max_split_size'; did you mean",
        ),
    ],
)
def test_what_is_refused_at_once(
    name: str, parameters: dict[str, int | str], expected: str
) -> None:
    with pytest.raises(GaplessError) as caught:
        OnlineMemory(name, **parameters)
    assert str(caught.value).startswith(expected)


def test_a_device_with_other_pages() -> None:
    memory = OnlineMemory("vpmm", page_mib=2)
    with pytest.raises(GaplessError, match=r"^vpmm:page_mib=2: field page_bytes: a multiple of"):
        memory.attach(SimulatedMemory(8 * MIB, 128 * MIB))
    # It may be tried elsewhere.
    memory.attach(SimulatedMemory(PAGE, 128 * MIB))
    with pytest.raises(DeviceError, match="installed already; one installation is enough"):
        memory.install()


def test_nothing_is_installed() -> None:
    with pytest.raises(DeviceError, match=r"^gmlake is not installed; call install\(\) first"):
        OnlineMemory("gmlake").report()
    assert OnlineMemory("gmlake", device=2).device == 2


@pytest.mark.torch
def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime import _core

    monkeypatch.setattr(torch.version, "cuda", "13.0")

    def no_driver(_device: int) -> CudaMemory:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(_core, "CudaMemory", no_driver)
    with pytest.raises(DeviceError, match=r"^device 0: libcuda"):
        OnlineMemory("gmlake").install()


@pytest.mark.parametrize("page_mib", [0, 1, 3, 6, 1 << 24])
def test_a_page_is_refused_by_the_name_that_the_user_wrote(page_mib: int) -> None:
    with pytest.raises(GaplessError, match=f"^{VPMM}, found {page_mib}$"):
        OnlineMemory("vpmm", page_mib=page_mib)
    with pytest.raises(GaplessError, match=f"^{VPMM}, found {page_mib}$"):
        choose_online(f"vpmm:page_mib={page_mib}")
