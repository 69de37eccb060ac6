"""Programs that look at PyTorch's memory while a plan serves, each for a process of its own.

``python -m tests.gpu_runtime.allocator.pytorch.gpu_programs NAME`` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gpu_runtime import PlannedMemory
from planners.errors import DeviceError

MIB = 1 << 20


def block(mebibytes: int) -> Tensor:
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")


def step(memory: PlannedMemory, during: Any = None) -> None:
    """Run a step that has 24 MiB at most, and look about when it has."""
    with memory.step():
        first = block(8)
        second = block(16)
        first.fill_(1)
        second.fill_(2)
        if during is not None:
            during(second)
        del first
        third = block(4)
        third.fill_(3)
        del second, third


def settle(memory: PlannedMemory, run: Callable[[], None]) -> None:
    """Repeat a step until it follows a plan."""
    for _ in range(10):
        before = memory.report().planned_steps
        run()
        if memory.report().planned_steps > before:
            return
    raise AssertionError(str(memory.report()))


def planned(arena: Literal["vmm", "cudaMalloc"] = "vmm") -> PlannedMemory:
    """Return memory whose steps are planned, at any time and at any price."""
    memory = PlannedMemory("auto", time_limit=2.0, arena=arena, moves=None, _planning="between")
    memory.install()
    settle(memory, lambda: step(memory))
    return memory


def sums() -> dict[str, bool]:
    """Hold PyTorch's figures against each other and against a snapshot."""
    stats = torch.cuda.memory_stats()
    segments = torch.cuda.memory_snapshot()
    blocks = [one for segment in segments for one in segment["blocks"]]
    allocated = sum(one["size"] for one in blocks if one["state"] == "active_allocated")
    active = sum(one["size"] for one in blocks if one["state"].startswith("active"))
    held = {
        "allocated": allocated == stats["allocated_bytes.all.current"],
        "active": active == stats["active_bytes.all.current"],
        "reserved": sum(one["total_size"] for one in segments)
        == stats["reserved_bytes.all.current"],
        "segments": len(segments) == stats["segment.all.current"],
        "covered": all(
            sum(one["size"] for one in segment["blocks"]) == segment["total_size"]
            for segment in segments
        ),
    }
    for kind in ("allocation", "allocated_bytes", "reserved_bytes", "active_bytes", "active"):
        of = {part: stats[f"{kind}.all.{part}"] for part in ("allocated", "freed", "current")}
        held[f"{kind} ever"] = of["allocated"] - of["freed"] == of["current"]
        held[f"{kind} sizes"] = of["current"] == sum(
            stats[f"{kind}.{size}.current"] for size in ("small_pool", "large_pool")
        )
        held[f"{kind} peak"] = stats[f"{kind}.all.peak"] >= of["current"]
    return held


def statistics() -> dict[str, Any]:
    """Everything in ``torch.cuda`` that tells of memory."""
    memory = planned()
    kept = block(32)
    found: dict[str, Any] = {"outside": sums()}
    step(memory, lambda _: found.update(inside=sums()))

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(memory)
    found["peak of a step"] = torch.cuda.max_memory_allocated() - before
    found["after it"] = torch.cuda.memory_allocated() - before
    torch.cuda.reset_peak_memory_stats()
    found["peak after a reset"] = torch.cuda.max_memory_allocated() - before
    found["reserved holds allocated"] = (
        torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved() >= before
    )
    free, total = torch.cuda.mem_get_info()
    found["device holds reserved"] = total - free >= torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    found["after empty_cache"] = sums()
    torch.cuda.reset_accumulated_memory_stats()
    step(memory)
    stats = torch.cuda.memory_stats()
    found["requests since a reset"] = stats["allocation.all.allocated"]
    found["bytes since a reset"] = stats["requested_bytes.all.allocated"] // MIB
    found["summary"] = "PyTorch CUDA memory summary" in torch.cuda.memory_summary()
    found["short summary"] = "Allocated memory" in torch.cuda.memory_summary(abbreviated=True)
    found["backend"] = torch.cuda.memory.get_allocator_backend()
    accelerator = torch.accelerator.memory_stats()
    found["accelerator"] = (
        accelerator["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    )
    torch.cuda.set_per_process_memory_fraction(0.5)
    found["fraction"] = torch.cuda.get_per_process_memory_fraction()
    torch.cuda.set_per_process_memory_fraction(1.0)
    step(memory)
    del kept
    return found


def pool() -> dict[str, Any]:
    """A pool of the program's own is PyTorch's business, within steps too."""
    memory = planned()
    own = torch.cuda.MemPool()
    kept = []

    def during(_: Tensor) -> None:
        with torch.cuda.use_mem_pool(own):
            kept.append(torch.full((MIB,), 7.0, device="cuda"))

    step(memory, during)
    segments = own.snapshot()
    addresses = [(one["address"], one["address"] + one["total_size"]) for one in segments]
    inside = any(begin <= kept[0].data_ptr() < end for begin, end in addresses)
    before = memory.report().planned_requests
    step(memory)
    return {
        "in the pool": inside,
        "sum": kept[0].sum().item(),
        "planned again": memory.report().planned_requests > before,
        "held": sums(),
    }


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()


def graph() -> dict[str, Any]:
    """A graph is captured, the rest of memory filled with NaN, and replayed within steps."""
    memory = planned()
    model = network()
    x = torch.randn(64, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).square().mean().backward()
            model.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = model(x).square().mean()
        loss.backward()
    captured.replay()
    expected = [loss.clone(), *(one.grad.clone() for one in model.parameters())]

    same = []

    def during(second: Tensor) -> None:
        second.view(torch.float32).fill_(float("nan"))
        captured.replay()
        found = [loss, *(one.grad for one in model.parameters())]
        same.append(all(map(torch.equal, found, expected)))

    planned_before = memory.report().planned_steps
    for _ in range(2):
        torch.cuda.empty_cache()
        rest = []
        while (free := torch.cuda.mem_get_info()[0]) > 4 << 30:
            count = min(free - (3 << 30), 16 << 30) // 4
            rest.append(torch.full((count,), float("nan"), device="cuda"))
        # Before steps of this kind are planned, and while they are.
        for _ in range(6):
            step(memory, during)
        del rest
    planned_steps = memory.report().planned_steps - planned_before
    return {"same bits": same, "planned": planned_steps, "held": sums()}


def out_of_memory() -> dict[str, Any]:
    """Operators raise PyTorch's own error, and idle memory of ours is given back before."""
    memory = planned()
    found: dict[str, Any] = {}
    with memory.step():
        try:
            torch.empty(torch.cuda.mem_get_info()[1] + (1 << 30), dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            found["error"] = str(error).splitlines()[0]
    step(memory)
    found["errors counted"] = torch.cuda.memory_stats()["num_ooms"]

    # Steps of 600 MiB, between which their arena is idle.
    def large_step() -> None:
        with memory.step():
            one = block(300)
            two = block(300)
            one.fill_(1)
            two.fill_(2)

    settle(memory, large_step)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    rest = block(free // MIB - 200)
    try:
        beside = block(600)
        beside.fill_(1)
        found["beside an idle arena"] = True
    except torch.OutOfMemoryError:
        found["beside an idle arena"] = False
    found["errors counted later"] = torch.cuda.memory_stats()["num_ooms"]
    del rest, beside
    large_step()
    return found


def history() -> dict[str, Any]:
    """A history and a snapshot tell of planned blocks, with the place in the program."""
    memory = planned()
    torch.cuda.memory._record_memory_history(max_entries=10_000)
    places: list[int] = []
    step(memory, lambda second: places.append(second.data_ptr()))
    other = torch.ones(1000, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.memory._dump_snapshot(str(Path(folder) / "snapshot.pickle"))
        dumped = (Path(folder) / "snapshot.pickle").stat().st_size
    torch.cuda.memory._record_memory_history(enabled=None)
    trace = snapshot["device_traces"][0]
    of_second = [entry for entry in trace if entry["addr"] == places[0]]
    times = [entry["time_us"] for entry in trace]
    # What a page that draws the trace does first.
    from torch.cuda import _memory_viz

    text = _memory_viz.segsum(snapshot)
    return {
        "actions": [entry["action"] for entry in of_second if entry["size"] == 16 * MIB],
        "of this file": any(
            "gpu_programs" in frame["filename"] for frame in of_second[0].get("frames", [])
        ),
        "in order": times == sorted(times),
        "dumped": dumped > 0,
        "segments told of": len(text) > 0,
        "other": other.sum().item(),
    }


def streams() -> dict[str, Any]:
    """``record_stream`` on blocks of either kind."""
    before = torch.ones(MIB, device="cuda")
    memory = planned()
    side = torch.cuda.Stream()
    wrong = []

    def read_late(x: Tensor, value: int) -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            total = x.sum()
        x.record_stream(side)
        del x
        filler = [torch.zeros(4 * MIB, dtype=torch.int32, device="cuda") for _ in range(4)]
        torch.cuda.current_stream().wait_stream(side)
        if total.item() != value:
            wrong.append(value)
        del filler

    read_late(before, MIB)
    del before
    for number in range(8):
        with memory.step():
            read_late(torch.full((4 * MIB,), number, dtype=torch.int64, device="cuda"),
                      number * 4 * MIB)  # fmt: skip
    return {"wrong": wrong, "held": sums()}


def installed_late() -> dict[str, Any]:
    """CUDA is in use and tensors exist when planned memory is installed."""
    model = network()
    x = torch.randn(64, 512, device="cuda")
    expected = model(x).square().mean().item()
    alive = [torch.ones(MIB, device="cuda") for _ in range(4)]
    before = torch.cuda.memory_allocated()
    memory = planned()
    same = torch.cuda.memory_allocated() == before
    del alive
    freed = before - torch.cuda.memory_allocated()
    try:
        PlannedMemory("naive").install()
        error = ""
    except DeviceError as found:
        error = str(found)
    with memory.step():
        loss = model(x).square().mean()
    return {
        "same": same,
        "freed": freed // MIB,
        "loss": loss.item() == expected,
        "error": error,
        "held": sums(),
    }


def _receive(queue: Any, answers: Any) -> None:
    answers.put(queue.get().sum().item())


def sharing() -> dict[str, Any]:
    """Tensors go to another process where their memory can, and the error says where not."""
    shared = torch.ones(MIB, device="cuda")
    memory = planned()
    found: dict[str, Any] = {}

    def during(second: Tensor) -> None:
        try:
            second.untyped_storage()._share_cuda_()
            found["error"] = ""
        except RuntimeError as error:
            found["error"] = str(error).splitlines()[0]

    step(memory, during)
    found["received"] = _received(shared)
    return found


def sharing_plain() -> dict[str, Any]:
    """Tensors at planned places go to another process where the arena is one allocation."""
    memory = planned("cudaMalloc")
    before = memory.report().planned_requests
    received = []
    step(memory, lambda second: received.append(_received(second)))
    return {"received": received, "planned": memory.report().planned_requests - before}


def _received(shared: Tensor) -> float:
    """Return the sum that another process finds."""
    context = torch.multiprocessing.get_context("spawn")
    queue, answers = context.SimpleQueue(), context.SimpleQueue()
    receiver = context.Process(target=_receive, args=(queue, answers))
    receiver.start()
    queue.put(shared)
    received: float = answers.get()
    receiver.join()
    return received


PROGRAMS = {
    program.__name__: program
    for program in (
        statistics,
        pool,
        graph,
        out_of_memory,
        history,
        streams,
        installed_late,
        sharing,
        sharing_plain,
    )
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
