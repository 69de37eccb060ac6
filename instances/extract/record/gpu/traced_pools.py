"""Captured graphs and pools of memory in a program that is traced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest import mock

import torch

from instances.extract.record.requests.request_recorder import (
    COMMON_POOL,
    AllocatorRequest,
    RequestRecorder,
)

# While a graph lives, PyTorch keeps seed and offset of its random numbers on the GPU.
GENERATOR_BYTES = (8, 8)


@contextmanager
def traced_pools(recorder: RequestRecorder) -> Iterator[None]:
    """Within this context a recorder knows the pools of a program, of which each graph has one.

    A captured operator runs like any other, and its requests come to the pool of the graph. A
    replay makes no request. A pool that nobody uses any more goes back with the next idle memory.
    """
    numbers, captures = count(COMMON_POOL + 1), count(1)
    users: Counter[int] = Counter()
    of_generator: list[AllocatorRequest] = []

    def give_up(pool: int) -> None:
        users[pool] -= 1
        if not users[pool]:
            recorder.unused_pools.add(pool)

    class CUDAGraph:
        graphs = 0

        def __init__(self, *_: object, **__: object) -> None:
            self._pool = COMMON_POOL

        def __del__(self) -> None:
            self.reset()

        def capture_begin(self, pool: Any = None, *_: object, **__: object) -> None:
            self.reset()
            self._pool = next(numbers) if pool is None else pool[1]
            if not CUDAGraph.graphs:
                of_generator.extend(map(recorder.allocate, GENERATOR_BYTES))
            CUDAGraph.graphs += 1
            users[self._pool] += 1
            recorder.enter_pool(self._pool, next(captures))

        def capture_end(self) -> None:
            recorder.enter_pool(COMMON_POOL)

        def pool(self) -> tuple[int, int]:
            return 0, self._pool

        def reset(self) -> None:
            if self._pool == COMMON_POOL:
                return
            give_up(self._pool)
            self._pool = COMMON_POOL
            CUDAGraph.graphs -= 1
            while of_generator and not CUDAGraph.graphs:
                recorder.free(of_generator.pop())

        def replay(self) -> None:
            pass

        instantiate = enable_debug_mode = replay

        def debug_dump(self, debug_path: str) -> None:
            pass

    class MemPool:
        def __init__(self, *_: object, **__: object) -> None:
            self.id = 0, next(numbers)
            users[self.id[1]] += 1

        def __del__(self) -> None:
            give_up(self.id[1])

        def use_count(self) -> int:
            return users[self.id[1]]

    @contextmanager
    def use_mem_pool(pool: MemPool, _: object = None) -> Iterator[None]:
        before = recorder.pool, recorder.capture
        recorder.enter_pool(pool.id[1])
        try:
            yield
        finally:
            recorder.enter_pool(*before)

    graphs: Any = torch.cuda.graphs
    with ExitStack() as stack:
        for module, name, value in (
            (graphs, "CUDAGraph", CUDAGraph),
            (graphs, "graph_pool_handle", lambda: (0, next(numbers))),
            (graphs, "is_current_stream_capturing", lambda: recorder.capture > 0),
            (torch.cuda.memory, "MemPool", MemPool),
            (torch.cuda.memory, "use_mem_pool", use_mem_pool),
            (torch.cuda.memory, "empty_cache", recorder.give_back),
        ):
            for owner in (torch.cuda, module):
                stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(mock.patch.object(graphs.graph, "default_capture_stream", None))
        stack.enter_context(mock.patch.object(torch._C, "_host_emptyCache", create=True))
        yield
