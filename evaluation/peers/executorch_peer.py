"""ExecuTorch's greedy planner, called on the specs of a problem."""

from __future__ import annotations

from types import SimpleNamespace

from evaluation.peers.plain_lifetimes import PlainLifetimes
from planners.errors import MissingDependencyError
from planners.model.plan import Plan

# Bytes to which it rounds by default.
BLOCK = 16


def plan_by_executorch(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``greedy``, given specs in the order of the tensors."""
    try:
        import torch
        from executorch.exir.memory_planning import greedy
        from executorch.exir.tensor import TensorSpec
    except ImportError as error:
        raise MissingDependencyError(
            f"this planner is ExecuTorch's ({error})", "executorch"
        ) from None
    specs = []
    for size, first, last in zip(lifetimes.size, lifetimes.first, lifetimes.last, strict=True):
        spec = TensorSpec(torch.uint8, torch.Size([size * BLOCK]))
        spec.lifetime = [first, last]
        specs.append(spec)
    found = greedy(BLOCK, specs, SimpleNamespace(input_mem_buffer_sizes=None), None)
    return lifetimes.plan([found.spec_dict[spec].mem_offset for spec in specs], BLOCK)
