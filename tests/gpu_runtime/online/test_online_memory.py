"""Online allocators by name, served and reported; PyTorch has no device here."""

from __future__ import annotations

import pytest

from gpu_runtime import OnlineMemory
from gpu_runtime._core import CudaMemory, Gmlake, SimulatedMemory
from gpu_runtime.online.online_allocators import CORE, make_online
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
            {"page_mb": 2},
            "online allocator vpmm has no parameter 'page_mb'; did you mean 'page_mib'?",
        ),
        ("vpmm", {"page_mib": "2"}, f"{VPMM}, found '2'"),
        ("vpmm", {"pages": -1}, "online allocator vpmm, parameter pages: a whole number from 0 to"),
        ("vpmm", {"chunk_mib": 1}, "online allocator vpmm, parameter chunk_mib: a whole number"),
        ("gmlake", {"most_stitched": True}, "online allocator gmlake, parameter most_stitched: a"),
        ("vpmm", {"page_mib": -1}, f"{VPMM}, found -1"),
        (
            "pytorch-caching",
            {"settings": "max_split_size:2"},
            f"{CACHING} no setting 'max_split_size'; did you mean",
        ),
    ],
)
def test_refuses_wrong_parameters_at_once(
    name: str, parameters: dict[str, int | str], expected: str
) -> None:
    with pytest.raises(GaplessError) as caught:
        OnlineMemory(name, **parameters)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("parameters", "begun", "ranges"),
    [
        ({}, 0, 1),
        ({"pages": 5}, 10, 1),
        ({"pages": 3, "page_mib": 4}, 12, 1),
        ({"chunk_mib": 8}, 0, 2),
    ],
)
def test_vpmm_begins_with_pages_and_chunks_of_addresses(
    parameters: dict[str, int], begun: int, ranges: int
) -> None:
    memory = OnlineMemory("vpmm", **parameters)
    allocator = memory.attach(SimulatedMemory(PAGE, 128 * MIB))
    assert memory.report().reserved_bytes == begun * MIB
    assert allocator.allocate(8 * MIB)
    assert allocator.allocate(4 * MIB)
    report = memory.report()
    assert report.reserved_bytes == 12 * MIB
    assert report.device_calls["reserve_range"] == ranges


def test_the_report_has_what_vpmm_alone_counts() -> None:
    memory = OnlineMemory("vpmm", chunk_mib=16)
    allocator = memory.attach(SimulatedMemory(PAGE, 128 * MIB))
    blocks = [allocator.allocate(PAGE) for _ in range(3)]
    assert allocator.free(blocks[0])
    assert allocator.free(blocks[2])
    # The two free pages move side by side.
    assert allocator.allocate(2 * PAGE)
    report = memory.report()
    assert report.own_figures == {
        "chunks": 1, "address_bytes": 16 * MIB, "holes": 1, "hole_bytes": 6 * MIB,
        "zombies": 2, "zombie_bytes": 4 * MIB, "zombie_bytes_peak": 4 * MIB,
    }  # fmt: skip
    assert "own        1 chunks, 16,777,216 address bytes, 1 holes, 6,291,456 ho" in str(report)
    assert report.to_json()["own_figures"] == report.own_figures
    other = OnlineMemory("gmlake")
    other.attach(SimulatedMemory(PAGE, 128 * MIB))
    assert other.report().own_figures == {}
    assert "\nown " not in str(other.report())


@pytest.mark.parametrize(
    ("bounds", "stitched"),
    [
        ({}, 3),
        ({"most_stitched": 1}, 1),
        ({"most_stitched_mib": 22}, 2),
        ({"most_stitched_mib": 0}, 1),
    ],
)
def test_gmlake_drops_what_is_stitched_above_its_bounds(
    bounds: dict[str, int], stitched: int
) -> None:
    _, make = make_online("gmlake", {"fragmentation_limit_mib": 0, **bounds})
    lake = make(SimulatedMemory(PAGE, 256 * MIB))
    assert isinstance(lake, Gmlake)
    for pages in (3, 4, 5):
        blocks = [lake.allocate(its * PAGE, 0) for its in (pages, 1)]
        held = lake.allocate(PAGE, 0)
        assert all(lake.free(block) for block in blocks)
        assert lake.free(lake.allocate((pages + 1) * PAGE, 0))
        assert lake.free(held)
    assert lake.stitched_count == stitched


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"pages": 65}, "field pages: the device has memory for 64 pages of 2097152 bytes, found"),
        ({"pages": 5, "chunk_mib": 8}, "field pages: at most a chunk's pages, 4, found 5"),
        ({"page_mib": 4, "chunk_mib": 6}, "field chunk_bytes: a multiple of page_bytes, 4194304"),
    ],
)
def test_parameters_that_the_device_or_each_other_rule_out(
    parameters: dict[str, int], expected: str
) -> None:
    memory = OnlineMemory("vpmm", **parameters)
    device = SimulatedMemory(PAGE, 128 * MIB)
    with pytest.raises(GaplessError, match=f"^online allocator vpmm, {expected}"):
        memory.attach(device)
    # All memory went back.
    OnlineMemory("vpmm", pages=64).attach(device)


def test_a_device_with_other_pages() -> None:
    memory = OnlineMemory("vpmm", page_mib=2)
    with pytest.raises(
        GaplessError, match=r"^online allocator vpmm, field page_bytes: a multiple of"
    ):
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
def test_refuses_a_missing_device(monkeypatch: pytest.MonkeyPatch) -> None:
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
