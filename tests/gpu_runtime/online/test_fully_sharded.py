"""VPMM refuses fully sharded training, whichever comes first; others and other modules pass.

PyTorch keeps the classes of sharded modules for the rest of a process, so each test has its own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

# The decorator needs a GPU, so an installation ends where it would be put before the allocator.
BEGIN = """
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

from gpu_runtime import OnlineMemory, _core
from gpu_runtime.allocator.pytorch import decorated_allocator

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
torch.version.cuda = "13.0"
_core.CudaMemory = lambda device: _core.SimulatedMemory(2 << 20, 1 << 30)
decorated_allocator._decorate = lambda pytorch: None
_core.install = lambda device, allocator: None
"""
SHARD = "fully_shard(nn.Linear(3, 3))\n"
PLAIN = """
from torch.distributed._composable import replicate_with_fsdp

class Another(nn.Linear):
    pass

Another(3, 3)
"""


def ended(*lines: str) -> str:
    """Return the last line of what the program says of its error, or prints."""
    program = "\n".join([BEGIN, *lines, "print('end')"])
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return (ran.stderr if ran.returncode else ran.stdout).strip().splitlines()[-1]


@pytest.mark.parametrize("begun", [False, True])
def test_vpmm_refuses_a_fully_sharded_module(begun: bool) -> None:
    install = "OnlineMemory('vpmm', page_mib=4).install()"
    said = ended(*((install, PLAIN, SHARD) if begun else (SHARD, install)))
    assert "GaplessError: vpmm:page_mib=4: a module that is not fully sharded is needed" in said
    assert "found FSDPLinear; fully_shard lets a stream" in said
    assert 'PlannedMemory is safe, as are OnlineMemory("gmlake")' in said


def test_vpmm_refuses_nothing_else() -> None:
    assert ended(PLAIN, "OnlineMemory('vpmm').install()", PLAIN) == "end"


@pytest.mark.parametrize("name", ["gmlake", "pytorch-caching", "pytorch-expandable"])
def test_memory_that_stays_with_its_stream_is_safe(name: str) -> None:
    assert ended(SHARD, f"OnlineMemory({name!r}).install()", "fully_shard(nn.ReLU())") == "end"
