"""Records the operators of a run beside its allocations: who reads, writes and begins which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from instances.extract.eager.allocation_mode import AllocationMode
from instances.extract.eager.request_recorder import AllocatorRequest, RequestRecorder
from instances.extract.tracing.traced_graph import written_arguments


@dataclass
class RanOperator:
    """An operator that ran on the device, and the blocks it touched."""

    name: str
    # Events that were recorded until then.
    event_count: int
    inputs: list[AllocatorRequest]
    # Those of them that it wrote in place.
    mutated: list[AllocatorRequest]
    # Those that began with it: its results and workspaces.
    outputs: list[AllocatorRequest]


class OperatorMode(AllocationMode):
    """Records allocations and operators, on fake tensors."""

    def __init__(self, recorder: RequestRecorder) -> None:
        super().__init__(recorder)
        self.operators: list[RanOperator] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and record it."""
        if not self.recording:
            return super().__torch_dispatch__(func, types, args, kwargs)
        written = written_arguments(func._schema, args, kwargs or {})
        inputs, mutated = self._blocks_of((args, kwargs)), self._blocks_of(written)
        known = len(self.recorder.requests)
        results = super().__torch_dispatch__(func, types, args, kwargs)
        name, events = func.overloadpacket.__name__, self.recorder.event_count
        outputs = self.recorder.requests[known:]
        self.operators.append(RanOperator(name, events, inputs, mutated, outputs))
        return results

    def _added_into(self, summand: AllocatorRequest) -> None:
        operator = self.operators[-1]
        operator.outputs.remove(self.recorder.requests[-1])
        operator.mutated.append(summand)
        super()._added_into(summand)

    def _blocks_of(self, values: Any) -> list[AllocatorRequest]:
        leaves: Iterable[Any] = pytree.tree_leaves(values)
        found = (self.block_of(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        return [request for request in found if request is not None]
