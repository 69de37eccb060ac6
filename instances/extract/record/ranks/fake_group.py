"""A process group of which one rank is here, and the others are only counted.

Note: how one rank is traced alone
----------------------------------
Rationale. A rank asks its allocator for the same memory whether the others answer or not, because
no size depends on the data they send.

Approach. PyTorch's own fake process group takes the place of NCCL's. Its collectives return at
once, and all code around them is PyTorch's: buckets, buffers, shards and streams. A device mesh
computes with tensors of ranks, which need values; so it is built outside of the fake tensors.
``RANK`` and its kin are set as ``torchrun`` sets them.

Limits. A mesh that is given as a tensor has its ranks in their natural order. NCCL's own buffers
are not PyTorch's memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FunctionType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp._fully_shard import _fsdp_param
from torch.distributed.tensor import _dispatch, _random, _redistribute, debug
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import _disable_current_modes

from instances.extract.record.ranks.bucket_reducer import bucket_reducers
from instances.extract.record.ranks.conversation import talking
from instances.extract.record.ranks.rank import GroupFacts, Rank
from instances.extract.record.ranks.unlike_ranks import unlike_ranks
from instances.extract.record.requests.allocation_mode import AllocationMode


def group_facts(rank: Rank) -> GroupFacts:
    """Return the facts about all ranks, once the program has made its model."""
    groups: Any = distributed.distributed_c10d._world.pg_map
    with _disable_current_modes():
        unlike = unlike_ranks(rank.ranks)
    if not rank.parallel:
        # A function may ask which rank it is.
        unlike = sorted({*unlike, rank.ranks - 1})
    return GroupFacts(unlike, [group.size() for group in groups if group.size() > 1])


@contextmanager
def fake_group(rank: Rank, mode: AllocationMode) -> Iterator[None]:
    """Within this context this process is one rank of several, as a mode records it."""
    mode.imbalance = rank.imbalance
    # Importing it registers the backend.
    from torch.testing._internal.distributed.fake_pg import FakeStore

    make_group: Any = distributed.init_process_group
    make_group("fake", rank=rank.number, world_size=rank.ranks, store=FakeStore())
    try:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, rank.variables))
            for owner, name, value in (
                (distributed, "init_process_group", _nothing),
                (distributed, "destroy_process_group", _nothing),
                (_fsdp_param, "_chunk_with_empty", _Chunks),
                # The state of random numbers has values, and lies on the host.
                *((module, "is_rng_supported_mesh", _no) for module in (_dispatch, _random)),
            ):
                stack.enter_context(mock.patch.object(owner, name, value))
            stack.enter_context(bucket_reducers())
            if rank.messages is not None:
                stack.enter_context(talking(rank))
            derive: Any = ShardingPropagator._propagate_tensor_meta_non_cached

            def derive_unrecorded(*args: Any) -> Any:
                # It makes whole tensors to learn the shape of a result.
                with mode.not_recorded():
                    return derive(*args)

            stack.enter_context(
                mock.patch.object(ShardingPropagator, derive.__name__, derive_unrecorded)
            )
            for name, member in list(vars(DeviceMesh).items()):
                real: Any = None
                if isinstance(member, FunctionType) and name not in _WITHOUT_TENSORS:
                    real = _real(member)
                elif isinstance(member, property) and member.fget is not None:
                    real = property(_real(member.fget))
                if real is not None:
                    stack.enter_context(mock.patch.object(DeviceMesh, name, real))
            yield
    finally:
        distributed.destroy_process_group()
        _forget_layouts()


def _forget_layouts() -> None:
    """Let PyTorch forget what it keeps by meshes, whose groups have other names at other ranks."""
    clear: Any = debug._clear_sharding_prop_cache
    clear()
    for kept in vars(_redistribute).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


class _Chunks:
    """The shards of a tensor, of which a rank takes its own: the others are not made."""

    def __init__(self, tensor: Tensor, count: int, dim: int) -> None:
        self._tensor, self._count, self._dim = tensor, count, dim

    def __getitem__(self, number: int) -> Tensor:
        length = self._tensor.shape[self._dim]
        most = -(-length // self._count)
        start = number * most
        if start >= length:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, start, min(most, length - start))


# Methods of a mesh that are called often and compute nothing with ranks.
_WITHOUT_TENSORS = ("__eq__", "__hash__", "size", "get_group", "get_rank", "get_local_rank")


def _real(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that computes with ranks outside of the fake tensors."""

    def with_values(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            with _disable_current_modes():
                return torch.arange(value.numel(), dtype=torch.int).reshape(value.shape)
        return value

    @wraps(method)
    def run(*args: Any, **named: Any) -> Any:
        args = tuple(map(with_values, args))
        named = {name: with_values(value) for name, value in named.items()}
        with _disable_current_modes():
            return method(*args, **named)

    return run


def _no(_: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    pass
