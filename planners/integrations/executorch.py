"""A planner of ours as an algorithm of ExecuTorch's memory planning.

Note: the contract of ExecuTorch's algorithms
---------------------------------------------
Rationale. ExecuTorch's ``MemoryPlanningPass`` calls an algorithm once for each graph, submodules of
control flow before the graph that calls them. It passes the specs of all tensors to place; inputs
and outputs that the user provides are not among them. The answer is an offset for each spec and the
size of each memory. ExecuTorch does not document their relation, so this note does.

Approach. A lifetime in ExecuTorch includes its last step. Each memory (``mem_id``, 1 if a spec has
none) is a separate problem. Its first bytes belong to the submodules, whose results stay there
after the call, so the problem leaves these bytes out. A tensor that is computed in place shares the
storage of another one, and a storage lives as long as any of its tensors. Tensors that share bytes
have one ``mem_obj_id``, as ExecuTorch's own verifier requires.

Limits. ExecuTorch does not plan tensors without an upper bound on their size, and neither do we.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from planners.errors import InstanceError, InvalidPlanError, MissingDependencyError
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.registry import ChosenPlanner, choose_one
from planners.text.byte_units import both_bytes

if TYPE_CHECKING:
    from executorch.exir.memory_planning import SpecAllocResult

# The memory of activations in ExecuTorch unless a backend chooses another; 0 has the constants.
DEFAULT_MEMORY = 1


class TensorSpec(Protocol):
    """The fields of ExecuTorch's class of this name that the planner reads."""

    # First and last step in which the tensor is needed.
    lifetime: list[int]
    mem_id: int | None
    mem_obj_id: int | None
    mem_offset: int | None
    # The tensor that this one overwrites in place.
    inplace_base: TensorSpec | None

    @property
    def allocated_memory(self) -> int:
        """Bytes, rounded up to its alignment."""

    def realign(self, new_alignment: int) -> int:
        """Round to another alignment from now on."""


def gapless_planner(
    planner: str = "auto",
    *,
    time_limit: float | None = 5.0,
    seed: int = 0,
    capacities: Mapping[int, int] | None = None,
) -> GaplessPlanner:
    """Return an algorithm for ExecuTorch's ``MemoryPlanningPass``, or for a suite of algorithms.

    Parameters
    ----------
    planner
        A planner with its parameters, as on the command line of ``planners.compare``.
    time_limit
        Seconds for each memory of each graph; None for no limit.
    seed
        Of the planner.
    capacities
        Bytes of each memory, by ``mem_id``; a memory that is not named has no end.

    Returns
    -------
    GaplessPlanner
        Called by ExecuTorch; keeps every problem with its result.

    Raises
    ------
    UnknownPlannerError
        No planner has this name, or it has no such parameter.
    MissingDependencyError
        ExecuTorch is not installed.

    Examples
    --------
    >>> algorithms = MemoryPlanningAlgorithmSuite([greedy, gapless_planner("auto")])
    >>> MemoryPlanningPass(memory_planning_algo=algorithms)
    >>> MemoryPlanningPass(memory_planning_algo=gapless_planner("auto"))
    """
    try:
        import_module("executorch.exir.memory_planning")
    except ImportError as error:
        raise MissingDependencyError(
            f"gapless_planner needs ExecuTorch ({error})", "executorch"
        ) from None
    return GaplessPlanner(
        choose_one(planner), Budget(time_limit_seconds=time_limit, seed=seed), capacities or {}
    )


@dataclass(frozen=True)
class MemoryResult:
    """One memory of one graph: its problem, and the planner's result.

    Parameters
    ----------
    memory
        Its ``mem_id``.
    problem
        One tensor a storage; alignment and lifetimes are those of ExecuTorch.
    result
        A judged plan, its bound, and how the planner came there.
    """

    memory: int
    problem: Problem
    result: Result


class MemorySizes(list[int]):
    """The bytes of each memory, as a pass takes them, with the places, as a suite takes both."""

    def __init__(self, sizes: Sequence[int], places: dict[TensorSpec, SpecAllocResult]) -> None:
        super().__init__(sizes)
        self.bufsizes = list(sizes)
        self.spec_dict = places


@dataclass
class GaplessPlanner:
    """An algorithm of ExecuTorch's memory planning; :func:`gapless_planner` makes it."""

    chosen: ChosenPlanner
    budget: Budget
    capacities: Mapping[int, int]
    # The results of all calls so far, submodules first.
    planned: list[MemoryResult] = field(default_factory=list)

    @property
    def __name__(self) -> str:
        # ExecuTorch tells the algorithms of a suite apart by this name.
        return f"gapless_{self.chosen.label}_seed_{self.budget.seed}"

    def __call__(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: Any,
        graph_signature: Any,  # noqa: ARG002
        extra_padding: int = 0,
    ) -> MemorySizes:
        """Place every spec; ExecuTorch's documentation has the meaning of the arguments.

        Raises
        ------
        InvalidPlanError
            The planner found no plan that the referee takes, or none within a capacity.
        """
        from executorch.exir.memory_planning import SpecAllocResult

        taken = list(getattr(graph_module, "input_mem_buffer_sizes", None) or ())
        in_memory: dict[int, list[TensorSpec]] = {}
        for spec in specs:
            spec.realign(alignment)
            memory = DEFAULT_MEMORY if spec.mem_id is None else spec.mem_id
            in_memory.setdefault(memory, []).append(spec)
        sizes = [0] * (max([DEFAULT_MEMORY, *in_memory]) + 1)
        places: dict[TensorSpec, SpecAllocResult] = {}
        names = _names_of(graph_module)
        for memory in range(len(sizes)):
            below = taken[memory] if memory < len(taken) else 0
            first = -(-below // alignment) * alignment
            sizes[memory] = first
            its = in_memory.get(memory)
            if its is None:
                continue
            storages = _storages_of(its)
            problem = self._problem(memory, storages, alignment, first, names)
            capacity = self.capacities.get(memory)
            room = None if capacity is None else max(0, capacity - first - extra_padding)
            plan = self._planned(memory, problem, room)
            offsets = first + plan.offsets
            objects = _shared_objects(offsets, problem.size)
            for storage, offset, its_object in zip(storages, offsets, objects, strict=True):
                for spec in storage:
                    places[spec] = SpecAllocResult(memory, its_object, int(offset))
                    # A suite does so for the best of its algorithms; a pass asks nobody else.
                    spec.mem_id, spec.mem_obj_id, spec.mem_offset = memory, its_object, int(offset)
            sizes[memory] = first + plan.peak + extra_padding
        return MemorySizes(sizes, places)

    def _problem(
        self,
        memory: int,
        storages: Sequence[Sequence[TensorSpec]],
        alignment: int,
        first: int,
        names: Mapping[int, str],
    ) -> Problem:
        return Problem(
            [max(spec.allocated_memory for spec in storage) for storage in storages],
            [min(spec.lifetime[0] for spec in storage) for storage in storages],
            [1 + max(spec.lifetime[1] for spec in storage) for storage in storages],
            alignment=[alignment] * len(storages),
            tensor_name=[names.get(id(storage[0]), "?") for storage in storages],
            name=f"memory {memory}",
            origin={"compiler": "ExecuTorch", "first_byte": first},
        )

    def _planned(self, memory: int, problem: Problem, room: int | None) -> Plan:
        bounds = bounds_of(problem)
        result = run(problem, self.chosen, self.budget, bounds)
        if room is not None and result.plan is not None and result.plan.peak > room:
            # The smallest peak was asked for; whether one fits is an easier question.
            result = run(problem.with_capacity(room), self.chosen, self.budget, bounds)
        self.planned.append(MemoryResult(memory, problem, result))
        if result.plan is None or result.status not in (Status.OPTIMAL, Status.FEASIBLE):
            raise InvalidPlanError(
                f"planner {self.chosen.label}, memory {memory} of {len(problem.size)} tensors, at "
                f"least {both_bytes(result.lower_bound)}: {result.status.value}, {result.reason}"
            )
        return result.plan


def _storages_of(specs: Sequence[TensorSpec]) -> list[list[TensorSpec]]:
    """Group the specs that share a storage: each with those that are computed in place of it."""
    there = set(map(id, specs))
    storages: dict[int, list[TensorSpec]] = {}
    for spec in specs:
        base, seen = spec, {id(spec)}
        # A base that the user provides has no offset, so what is in its place gets its own.
        while base.inplace_base is not None and id(base.inplace_base) in there:
            base = base.inplace_base
            if id(base) in seen:
                raise InstanceError(f"inplace_base of {spec}: a chain with an end is needed")
            seen.add(id(base))
        storages.setdefault(id(base), []).append(spec)
    return list(storages.values())


def _shared_objects(offsets: IntColumn, sizes: IntColumn) -> list[int]:
    """Return for each tensor the number of the stretch without a hole that it lies in."""
    objects = np.zeros(len(offsets), np.int64)
    number, end = -1, -1
    for tensor in np.argsort(offsets, kind="stable").tolist():
        if offsets[tensor] >= end:
            number += 1
        objects[tensor] = number
        end = max(end, int(offsets[tensor] + sizes[tensor]))
    return objects.tolist()


def _names_of(graph_module: Any) -> dict[int, str]:
    """Return the name of the node that first has each spec, by the identity of the spec."""
    names: dict[int, str] = {}
    for node in graph_module.graph.nodes:
        specs = node.meta.get("spec")
        for spec in specs if isinstance(specs, list | tuple) else [specs]:
            names.setdefault(id(spec), node.name)
    return names
