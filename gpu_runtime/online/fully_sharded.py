"""Refuses fully sharded training under an online allocator whose memory crosses streams.

Note: why it is unsafe
----------------------
A stream requests a gradient, a second one reads and frees it without ``record_stream``, and the
first one waits for the second only later. PyTorch's allocator keeps the bytes for the first stream.
An allocator that gives them to a third stream behind an event of the first does not know of the
second, which may still read them.

`fully_shard` and `replicate` make a class for each class of modules that they shard. So the classes
tell what was sharded before the installation, and a new class what is sharded after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import Module

from planners.errors import GaplessError


def refuse_fully_sharded(label: str) -> None:
    """Raise an error if a module is fully sharded, now or at its sharding from now on."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.fsdp import FSDPModule

    def refuse(kind: type) -> None:
        # Others derive from it as well, and shard no module by that.
        if issubclass(kind, Module):
            raise GaplessError(
                f"{label}: a module that is not fully sharded is needed, found {kind.__name__}; "
                f"fully_shard lets a stream read memory of another one without record_stream, and "
                f"here such memory may serve a third stream meanwhile. PlannedMemory is safe, as "
                f'are OnlineMemory("gmlake") and others that keep the memory of each stream apart'
            )

    for kind in _derived(FSDPModule):
        refuse(kind)
    sharded: Any = FSDPModule
    sharded.__init_subclass__ = classmethod(refuse)


def _derived(kind: type[object]) -> Iterator[type[object]]:
    for each in kind.__subclasses__():
        yield each
        yield from _derived(each)
