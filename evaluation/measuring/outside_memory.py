"""Measure on GPUs what a process takes outside of PyTorch's allocator.

``torchrun --nproc-per-node RANKS -m evaluation.measuring.outside_memory`` prints a line of JSON a
rank: bytes of the GPU beyond those that PyTorch has reserved, after each of some first uses.
``NCCL_MIN_NCHANNELS`` and ``NCCL_MAX_NCHANNELS`` set the channels.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

import torch
from torch import distributed
from torch.nn import functional

# Enough for NCCL to use all of its channels.
_ELEMENTS = 64 << 20


def _used_bytes(device: int) -> int:
    """Return the bytes of a GPU that are in use, in whole MiB, without a context of one's own."""
    query = f"nvidia-smi --id={device} --query-gpu=memory.used --format=csv,noheader,nounits"
    return int(subprocess.run(query.split(), check=True, capture_output=True).stdout) << 20


def _multiply() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        block = torch.ones(1024, 1024, dtype=dtype, device="cuda", requires_grad=True)
        torch.autograd.backward(functional.gelu(block @ block).sum())


def _convolve() -> None:
    image = torch.ones(8, 64, 56, 56, device="cuda", requires_grad=True)
    convolved = functional.conv2d(image, torch.ones(64, 64, 3, 3, device="cuda"))
    torch.autograd.backward(convolved.sum())


def _reduce_and_gather() -> None:
    block = torch.ones(_ELEMENTS, device="cuda")
    part = torch.empty(_ELEMENTS // distributed.get_world_size(), device="cuda")
    distributed.all_reduce(block)
    distributed.reduce_scatter_tensor(part, block)
    distributed.all_gather_into_tensor(block, part)


def _send_and_receive() -> None:
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    blocks = torch.ones(2, _ELEMENTS, device="cuda")
    for work in distributed.batch_isend_irecv([
        distributed.P2POp(distributed.isend, blocks[0], (rank + 1) % ranks),
        distributed.P2POp(distributed.irecv, blocks[1], (rank - 1) % ranks),
    ]):  # fmt: skip
        work.wait()


def _exchange() -> None:
    block = torch.ones(_ELEMENTS, device="cuda")
    distributed.all_to_all_single(torch.empty_like(block), block)


def main() -> None:
    """Use one library after the other, and print what the process takes after each."""
    device, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    before, found = _used_bytes(device), {}
    torch.cuda.set_device(device)
    uses: list[Callable[[], object]] = [torch.cuda.synchronize, _multiply, _convolve]
    if ranks > 1:
        distributed.init_process_group("nccl")
        uses += [_reduce_and_gather, _send_and_receive, _exchange]
    for use in uses:
        use()
        torch.cuda.synchronize()
        found[use.__name__.strip("_")] = _used_bytes(device) - before - torch.cuda.memory_reserved()
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "ranks": ranks}
    channels = os.environ.get("NCCL_MAX_NCHANNELS")
    print(json.dumps({**about, "cuda": torch.version.cuda, "channels": channels, **found}))
    if ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
