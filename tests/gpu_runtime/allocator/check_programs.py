"""Programs on a GPU whose planned memory looks who writes to what was freed.

``python -m tests.gpu_runtime.allocator.check_programs NAME`` prints one line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

import torch
from torch import Tensor, nn

from gpu_runtime import PlannedMemory
from planners.errors import DeviceError
from tests.gpu_runtime.allocator.check_sizes import SIZE, STEPS, WRONG_IN


def run_steps(is_wrong: str) -> dict[str, Any]:
    """Train, use a tensor after its end in one step, and return what the steps said."""
    memory = PlannedMemory(check=True, _planning="between")
    memory.install()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    side = torch.cuda.Stream()
    errors: dict[int, str] = {}
    losses = []
    for step in range(STEPS):
        try:
            with memory.step():
                is_now = step == WRONG_IN
                WRITERS[is_wrong if is_now else "record_stream"](side)
                loss = model(torch.randn(64, 512, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        except DeviceError as error:
            errors[step] = str(error)
        losses.append(loss.item())
    report = memory.report()
    return {
        "errors": errors,
        "losses": losses,
        "overwrites": [[found.size, found.offset] for found in report.overwrites],
        "tenants": [found.before.size for found in report.overwrites if found.before],
        "planned": report.planned_requests,
        "text": str(report),
    }


def write_late(tensor: Tensor, side: torch.cuda.Stream) -> None:
    """Write to a tensor on another stream, some time after it was freed."""
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        tensor.fill_(1)


def unrecorded(side: torch.cuda.Stream) -> None:
    """Forget to say that another stream uses a tensor; its bytes are asked for after its write."""
    tensor = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    write_late(tensor, side)
    del tensor
    torch.cuda.current_stream().wait_stream(side)
    torch.empty(SIZE, dtype=torch.uint8, device="cuda")


def recorded(side: torch.cuda.Stream) -> None:
    """Say it."""
    tensor = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    write_late(tensor, side)
    tensor.record_stream(side)
    del tensor
    torch.empty(SIZE, dtype=torch.uint8, device="cuda")


def through_an_address(_side: torch.cuda.Stream) -> None:
    """Write to a freed tensor by an address that was kept."""
    tensor = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    address = tensor.data_ptr()
    del tensor
    # The driver asks nobody whose memory it is.
    fill = ctypes.CDLL("libcuda.so.1").cuMemsetD8_v2
    fill.argtypes = (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t)
    torch.cuda.synchronize()
    assert fill(address, 7, SIZE) == 0
    torch.cuda.synchronize()
    torch.empty(SIZE, dtype=torch.uint8, device="cuda")


WRITERS = {
    "record_stream": recorded,
    "unrecorded": unrecorded,
    "address": through_an_address,
}


def graph() -> dict[str, Any]:
    """Capture while tensors of the plan end, replay within steps."""
    memory = PlannedMemory(check=True)
    memory.install()
    static = torch.zeros(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    captured = torch.cuda.CUDAGraph()
    before = torch.ones(1 << 20, device="cuda")
    with torch.cuda.stream(stream):
        of_stream = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.graph(captured, stream=stream):
        static += 1
        del before, of_stream
    with torch.cuda.stream(stream):
        again = torch.full((1 << 20,), 5.0, device="cuda")
    torch.cuda.synchronize()
    for _ in range(6):
        with memory.step():
            kept = torch.full((1 << 20,), 3.0, device="cuda")
            captured.replay()
            assert bool((kept == 3).all())
    assert bool((again == 5).all())
    return {"value": static[0].item(), "overwrites": len(memory.report().overwrites)}


PROGRAMS = {
    "record_stream": lambda: run_steps("record_stream"),
    "unrecorded": lambda: run_steps("unrecorded"),
    "address": lambda: run_steps("address"),
    "graph": graph,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
