"""Measure on GPUs what a process takes outside of PyTorch's allocator.

``torchrun --nproc-per-node RANKS -m evaluation.measuring.outside_memory`` prints a line of JSON a
rank: bytes of the GPU beyond those that PyTorch has reserved, after each of some first uses.
``NCCL_MIN_NCHANNELS`` and ``NCCL_MAX_NCHANNELS`` set the channels.
"""

from __future__ import annotations

import json
import os
import subprocess

import torch
from torch import distributed
from torch.nn import functional

# Enough for NCCL to use all of its channels.
_ELEMENTS = 64 << 20


def _used_bytes(device: int) -> int:
    query = f"nvidia-smi --id={device} --query-gpu=memory.used --format=csv,noheader,nounits"
    return int(subprocess.run(query.split(), check=True, capture_output=True).stdout) << 20


def _multiply_and_convolve() -> None:
    block = torch.ones(1024, 1024, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    torch.autograd.backward(functional.gelu(block @ block).sum())
    image = torch.ones(8, 64, 56, 56, device="cuda", requires_grad=True)
    weight = torch.ones(64, 64, 3, 3, device="cuda")
    torch.autograd.backward(functional.conv2d(image, weight).sum())


def _reduce_and_gather() -> None:
    block = torch.ones(_ELEMENTS, device="cuda")
    part = block.chunk(distributed.get_world_size())[0].clone()
    distributed.all_reduce(block)
    distributed.reduce_scatter_tensor(part, block)
    distributed.all_gather_into_tensor(block, part)


def _exchange() -> None:
    block = torch.ones(_ELEMENTS, device="cuda")
    distributed.all_to_all_single(torch.empty_like(block), block)


def main() -> None:
    """Use one library after the other, and print what the process takes after each."""
    device, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    before, found = _used_bytes(device), {}
    torch.cuda.set_device(device)
    uses = {"context": torch.cuda.synchronize, "libraries": _multiply_and_convolve}
    if ranks > 1:
        distributed.init_process_group("nccl")
        uses |= {"reduce and gather": _reduce_and_gather, "exchange": _exchange}
    for name, use in uses.items():
        use()
        torch.cuda.synchronize()
        found[name] = _used_bytes(device) - before - torch.cuda.memory_reserved()
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "ranks": ranks}
    most = {"channels": os.environ.get("NCCL_MAX_NCHANNELS"), "gpu": torch.cuda.get_device_name()}
    print(json.dumps({**versions, **most, **found}))
    if ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
