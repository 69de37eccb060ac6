"""Trees of CUDA graphs: PyTorch's own code runs, and its calls of the allocator are recorded.

Note: what of the trees runs
----------------------------
Rationale. ``torch.compile(mode="reduce-overhead")`` runs a compiled function once in a private
pool, captures it at its second call, and replays it afterwards. Which inputs are copied into the
pool, which results end with the next step, and when a function is captured once more is decided by
``torch._inductor.cudagraph_trees``, which is Python.

Approach. That code runs on fake tensors. A block has a number that stands for its address. The
storage of a replayed result is new and owns no block; it has the number of the captured block. A
state of a pool is the list of its live blocks. Going back to a state frees all blocks of the pool,
and takes those of the state again. Before and after each run in the pool cuBLAS gives its
workspaces back, all of them.

Limits. A block that is taken again may lie elsewhere in the pool than before. A function that gets
a tensor of the host runs without a graph as a whole; PyTorch leaves out only what uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.engine_addition import in_engine
from instances.extract.record.requests.request_recorder import COMMON_POOL, AllocatorRequest

_HOST = "torch.compile: a function runs without a CUDA graph, as it gets a tensor of the host"
_UNLIKE = "torch.compile: blocks of the pool of CUDA graphs are not those that PyTorch knows of"
_SAID = "torch.compile: PyTorch says: {}"
_DO_NOTHING = (
    "_cuda_releasePool",
    "_set_storage_access_error_msg",
    "_set_storage_data_ptr_access_error_msg",
    "_cuda_get_conv_benchmark_empty_cache",
    "_cudnn_set_conv_benchmark_empty_cache",
)
_make_storage: Any = torch.UntypedStorage
_Call = Callable[..., Any]
# A pool and its live blocks.
_PoolState = tuple[int, list[AllocatorRequest]]


@contextmanager
def traced_trees(
    mode: AllocationMode, within: Callable[[_Call], _Call], alone: Callable[[_Call], _Call]
) -> Iterator[None]:
    """Within this context compiled functions run in trees of graphs, whose pool is recorded.

    `within` returns a function in which CUDA is named, and `alone` one in which it is not.
    """
    from torch._inductor import compile_fx, cudagraph_trees, cudagraph_utils, output_code

    recorder = mode.recorder
    # The blocks of pool states that were gone back to, by their addresses.
    restored: dict[int, AllocatorRequest] = {}
    in_trees = compile_fx.cudagraphify
    address: Any = torch.UntypedStorage.data_ptr

    def cudagraphify(model: _Call, *args: Any, **named: Any) -> _Call:
        plain = alone(model)
        # PyTorch knows one for each thread, and autograd has a thread of its own.
        graphed = [within(in_trees(plain, *args, **named)) for _ in range(2)]

        def run(inputs: list[Any]) -> Any:
            if all(mode.is_on_gpu(one) for one in inputs if isinstance(one, Tensor)):
                return graphed[in_engine()](inputs)
            mode.notes[_HOST] = None
            return plain(inputs)

        return run

    def address_of(storage: Any) -> int:
        if storage.device.type != "meta":  # not that of a fake tensor
            return int(address(storage))
        return mode.address_of(storage._cdata) if storage.nbytes() else 0

    def at_address(place: int, _: object, size: int) -> Any:
        storage = _make_storage(size, device="meta")
        block = next((one for one in reversed(recorder.requests) if one.address == place), None)
        mode.lend(storage, block)
        return storage

    def tensor_of(told: dict[str, Any], storage: Any) -> Tensor:
        # Fake tensors keep what an operator on a storage was called with.
        fakes = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            made = torch.empty(0, dtype=told["dtype"], device="meta")
            made.set_(storage, told["storage_offset"], told["size"], told["stride"])
            return FakeTensor(fakes, made, torch.device("cpu"))

    def are_at(tensors: list[Tensor], places: list[int], which: list[int]) -> bool:
        return all(tensors[one].data_ptr() == places[one] for one in which)

    def enter(_: int, pool: tuple[int, int]) -> None:
        recorder.enter_pool(pool[1])

    def state_of(_: int, pool: tuple[int, int]) -> _PoolState:
        return pool[1], recorder.live_in(pool[1])

    def go_back(_: int, state: _PoolState, __: object, live: list[int]) -> None:
        pool, blocks = state
        for block in recorder.live_in(pool):
            recorder.free(block)
        restored.update({block.address: recorder.take_again(block) for block in blocks})
        for key in live:
            mode.hand_over(key, restored[mode.address_of(key)])

    def check(_: int, pool: tuple[int, int], live: list[Any]) -> None:
        """Compare the live blocks of the pool with what the trees know of, as PyTorch does."""
        found = {block.address for block in recorder.live_in(pool[1])}
        if found != {one.data_ptr() for one in live if one()}:
            mode.notes[_UNLIKE] = None

    def said(text: str, *_: object) -> None:
        mode.notes[_SAID.format(" ".join(text.split()))] = None

    def runs_backward(graph: Any, _: object) -> None:
        """Tell the trees of a backward pass without graphs, which is lowered first here."""
        run = graph.current_callable

        def call(inputs: Any) -> Any:
            manager = cudagraph_trees.get_manager(0, create_if_none_exists=False)
            if manager is not None:
                manager.set_to_running_backward()
            return run(inputs)

        if graph.fx_kwargs["is_backward"]:
            graph.current_callable = call

    def nothing(*_: object, **__: object) -> None:
        pass

    answers: dict[tuple[Any, str], Any] = {
        (compile_fx, "cudagraphify"): cudagraphify,
        (output_code, "maybe_handle_backward_generation"): runs_backward,
        (cudagraph_utils.cudagraphs_log, "warning"): said,
        (cudagraph_trees, "check_memory_pool"): check,
        (torch.UntypedStorage, "data_ptr"): address_of,
    }
    of_allocator: dict[str, Any] = {
        "_construct_storage_from_data_pointer": at_address,
        "_construct_CUDA_Tensor_From_Storage_And_Metadata": tensor_of,
        "_tensors_data_ptrs_at_indices_equal": are_at,
        "_cuda_beginAllocateCurrentThreadToPool": enter,
        "_cuda_endAllocateToPool": lambda *_: recorder.enter_pool(COMMON_POOL),
        "_cuda_getCheckpointState": state_of,
        "_cuda_setCheckpointPoolState": go_back,
        "_cuda_cudaCachingAllocator_raw_delete": lambda place: recorder.free(restored[place]),
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        "_cuda_clearCublasWorkspaces": mode.clear_libraries,
        "_free_And_Remove_DeleterFn": mode.let_go,
        "_has_Standard_Deleter": lambda _: True,
    }
    with ExitStack() as stack:
        for (owner, name), value in answers.items():
            stack.enter_context(mock.patch.object(owner, name, value))
        for name, value in (of_allocator | dict.fromkeys(_DO_NOTHING, nothing)).items():
            stack.enter_context(mock.patch.object(torch._C, name, value, create=True))
        # Compiled programs hold the recorder of this trace, so a later trace compiles anew.
        stack.callback(torch._dynamo.reset)
        yield
