"""An exact solver for the memory budget of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planners.errors import MissingDependencyError
from planners.recompute import exact_knapsack

try:
    import torch
    from torch import fx
    from torch._inductor.custom_graph_pass import CustomKnapsackSolver, get_hash_for_files
    from torch.fx.experimental.symbolic_shapes import optimization_hint
    from torch.utils import _pytree as pytree

    from instances.extract.kernels import call_effort
except ImportError as error:
    raise MissingDependencyError(
        f"the solver needs a PyTorch that asks solvers of others, 2.13 say ({error})", "torch"
    ) from None

# Stands for a length that is not known before the program runs, as in PyTorch's own solvers.
UNKNOWN_LENGTH = 4096


class ExactMemoryBudgetSolver(CustomKnapsackSolver):  # type: ignore[misc, unused-ignore]
    """Keeps the results that take the most operations to compute again, within the memory budget.

    Set ``torch._functorch.config.activation_memory_budget_solver`` to an instance. Of the operators
    that PyTorch might run again it keeps those whose floating-point operations are together the
    most, by proof unless thousands of choices stay open at once. With more budget it then never
    keeps fewer operations; the bytes that PyTorch's cut keeps in the end may still fall, because
    they also depend on what else is cut.

    Operations are counted from shapes, as PyTorch does by default, and at least one an operator.
    ``activation_memory_budget_runtime_estimator`` is not used.

    Raises
    ------
    MissingDependencyError
        PyTorch is too old to ask solvers of others; raised by the import.
    """

    def __call__(
        self,
        memory: list[float],
        _joint_graph: fx.Graph,
        max_memory: float,
        _node_info: Any,
        all_recomputable_banned_nodes: list[fx.Node],
    ) -> tuple[list[int], list[int]]:
        """Return the positions of the operators to keep, and of those to run again."""
        operations = [float(max(1, _flops(node))) for node in all_recomputable_banned_nodes]
        kept = exact_knapsack.best_pack(memory, operations, max_memory)
        return kept, sorted(set(range(len(memory))) - set(kept))

    def uuid(self) -> str:
        """Return by what PyTorch's cache of compiled graphs knows the solver: its sources."""
        return str(get_hash_for_files((__file__, exact_knapsack.__file__, call_effort.__file__)))


def _flops(node: fx.Node) -> int:
    args, kwargs = pytree.tree_map(_shown, (node.args, node.kwargs))
    return call_effort.effort_of_call(node.target, args, kwargs, _shown(node)).flops


def _shown(value: Any) -> Any:
    """Return what stands for a node's value: tensors without numbers and of known lengths."""
    if not isinstance(value, fx.Node):
        return value
    return pytree.tree_map(_of_known_length, value.meta.get("val"))


def _of_known_length(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty(_lengths(value.shape), dtype=value.dtype, device="meta")
    return _length(value) if isinstance(value, torch.SymInt) else value


def _lengths(shape: Sequence[Any]) -> list[int]:
    return [_length(length) for length in shape]


def _length(value: Any) -> int:
    return int(optimization_hint(value, fallback=UNKNOWN_LENGTH))
