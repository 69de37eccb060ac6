"""The buckets of ``DistributedDataParallel``, without the reducer that fills them.

Note: why the reducer is another one
------------------------------------
Rationale. PyTorch's reducer is C++ that reads the values of tensors: ranks agree on the order of
their buckets. Fake tensors have no values.

Approach. ``DistributedDataParallel`` is PyTorch's, and so is the assignment of parameters to
buckets. This class keeps the memory that the C++ one keeps: one tensor a bucket, one number a
parameter if the program looks for unused ones, new buckets in the order of the gradients before
the second forward pass, and gradients that are views of buckets if the program asks for that.
NCCL's process group gives a tensor back at its first collective after the one that used the
tensor. So the first buckets live until the first of the new ones is full.

Limits. Hooks that compress gradients are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed


class BucketReducer:
    """Keeps the buckets of a model's gradients."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        buckets: Sequence[Sequence[int]],
        _limits: Any,
        _group: Any,
        is_sparse: Sequence[bool],
        most_bytes: int,
        finds_unused: bool,
        are_views: bool,
        _names: Any,
        most_first_bytes: int,
        *_: Any,
    ) -> None:
        self._parameters = list(parameters)
        self._is_sparse = list(is_sparse)
        self._most_bytes = [most_first_bytes, most_bytes]
        self._are_views = are_views
        self._is_final = finds_unused
        self._ready: dict[int, Tensor] = {}
        self._views: dict[int, Tensor] = {}
        self._in_collectives: list[Tensor] = []
        if finds_unused:
            device = parameters[0].device
            self._used = torch.empty(len(parameters), dtype=torch.int32, device=device)
        self._make(buckets)
        # PyTorch leaves it untyped; the name lets types check alike with PyTorch and without.
        parameter: Any
        for number, parameter in enumerate(parameters):
            parameter.register_post_accumulate_grad_hook(self._hook(number))

    def __getattr__(self, _: str) -> Callable[..., None]:
        """Return a method that does nothing, for what concerns other ranks and logs."""
        return _nothing

    def _rebuild_buckets(self) -> bool:
        if self._is_final or len(self._ready) < len(self._parameters):
            return False
        self._is_final = True
        order = list(self._ready)
        library: Any = distributed
        buckets, _ = library._compute_bucket_assignment_by_size(
            [self._parameters[number] for number in order],
            self._most_bytes,
            [self._is_sparse[number] for number in order],
            order,
        )
        self._views.clear()
        self._in_collectives = self._buckets
        self._make(buckets)
        return True

    def _make(self, buckets: Sequence[Sequence[int]]) -> None:
        self._buckets: list[Tensor] = []
        self._before_collective = set(buckets[0])
        for numbers in buckets:
            of_bucket = [self._parameters[number] for number in numbers]
            sizes = [parameter.numel() for parameter in of_bucket]
            one: Any = of_bucket[0]
            bucket: Any = torch.empty(sum(sizes), dtype=one.dtype, device=one.device)
            self._buckets.append(bucket)
            if self._are_views:
                parts = zip(numbers, of_bucket, bucket.split(sizes), strict=True)
                self._views.update((number, part.view_as(one)) for number, one, part in parts)

    def _hook(self, number: int) -> Callable[[Tensor], None]:
        def has_gradient(parameter: Tensor) -> None:
            self._ready[number] = parameter
            self._before_collective.discard(number)
            if not self._before_collective:
                self._in_collectives.clear()
            if self._are_views:
                parameter.grad = self._views[number]

        return has_gradient


@contextmanager
def bucket_reducers() -> Iterator[None]:
    """Within this context ``DistributedDataParallel`` keeps its buckets by this reducer."""
    with ExitStack() as stack:
        for owner, name, value in (
            (distributed, "_verify_params_across_processes", _nothing),
            (distributed, "Reducer", BucketReducer),
            (distributed, "Logger", _Log),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


class _Log:
    def __init__(self, _: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: object, **__: object) -> None:
    pass
