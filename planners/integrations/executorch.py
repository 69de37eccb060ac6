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

The field that names the other tensor differs between versions. In 1.3 there is none: both have one
spec. In 1.4 it is ``inplace_base``. From 1.5 it is ``storage_base``, and a tensor may lie anywhere
in its base. A version with yet another field is refused, for its plans may have another rule. So
is one before 1.3: it passes an iterator, which the first algorithm of a suite leaves empty.

From 1.5 a ``TargetMemoryMap`` names banks, from the fastest on. Tensors without a ``mem_id``, and
those of a bank, are one problem over all banks: a ``mem_id`` is the only bank of its tensor, and a
byte in the first bank costs nothing, in the second 1, in the third 2. Any other memory is a problem
of its own, as without banks.

Limits. ExecuTorch does not plan tensors without an upper bound on their size, and neither do we.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from planners.errors import InstanceError, InvalidPlanError, MissingDependencyError
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.memories import Memory
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.registry import ChosenPlanner, choose_one
from planners.text.byte_units import both_bytes
from planners.version import version_of

if TYPE_CHECKING:
    from executorch.exir.memory_planning import SpecAllocResult

# The memory of activations in ExecuTorch unless a backend chooses another; 0 has the constants.
DEFAULT_MEMORY = 1

# Those that the tests passed with; the extra `executorch` has the same range.
VERSIONS = ">=1.3.1,<1.6"
# The fields of a TensorSpec that a planner reads or writes, of all these versions together.
PLANNED_FIELDS = {
    "lifetime", "mem_id", "mem_obj_id", "mem_offset",
    "inplace_base", "storage_base", "storage_base_offset",
}  # fmt: skip


class TensorSpec(Protocol):
    """The fields of ExecuTorch's class of this name that the planner reads."""

    # First and last step in which the tensor is needed.
    lifetime: list[int]
    mem_id: int | None
    mem_obj_id: int | None
    mem_offset: int | None

    @property
    def allocated_memory(self) -> int:
        """Bytes, rounded up to its alignment."""

    def realign(self, new_alignment: int) -> int:
        """Round to another alignment from now on."""


class Bank(Protocol):
    """The fields of ExecuTorch's class of this name."""

    name: str
    size: int
    mem_id: int
    alignment: int | None


class TargetMemoryMap(Protocol):
    """The field of ExecuTorch's class of this name, which 1.5 has: banks, from the fastest on."""

    banks: list[Bank]


def gapless_planner(
    planner: str = "auto",
    *,
    time_limit: float | None = 5.0,
    seed: int = 0,
    capacities: Mapping[int, int] | None = None,
    target: TargetMemoryMap | None = None,
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
    target
        Banks; the plan has as few bytes outside the first one as the planner finds.

    Returns
    -------
    GaplessPlanner
        Called by ExecuTorch; keeps every problem with its result.

    Raises
    ------
    UnknownPlannerError
        No planner has this name, or it has no such parameter.
    MissingDependencyError
        ExecuTorch is not installed, or in a version that plans by another interface.

    Examples
    --------
    >>> algorithms = MemoryPlanningAlgorithmSuite([greedy, gapless_planner("auto")])
    >>> MemoryPlanningPass(memory_planning_algo=algorithms)
    >>> MemoryPlanningPass(memory_planning_algo=gapless_planner("auto"))
    """
    _require_interface()
    return GaplessPlanner(
        choose_one(planner),
        Budget(time_limit_seconds=time_limit, seed=seed),
        capacities or {},
        () if target is None else tuple(target.banks),
    )


def _require_interface() -> None:
    try:
        planning = import_module("executorch.exir.memory_planning")
        spec = import_module("executorch.exir.tensor").TensorSpec
    except ImportError as error:
        raise _unsupported(str(error)) from None
    for name in ("MemoryPlanningAlgorithmSuite", "SpecAllocResult"):
        if not hasattr(planning, name):
            raise _unsupported(f"it has no {name}")
    fields = spec.__new__(spec)
    fields.init_mem_planning_fields()
    unknown = sorted(vars(fields).keys() - PLANNED_FIELDS)
    if unknown:
        raise _unsupported(f"its TensorSpec has {', '.join(unknown)}")


def _unsupported(reason: str) -> MissingDependencyError:
    found = version_of("executorch") or "none"
    return MissingDependencyError(
        f"gapless_planner needs executorch{VERSIONS}, found {found} ({reason})", "executorch"
    )


@dataclass(frozen=True)
class MemoryResult:
    """One memory of one graph, or all banks: the problem, and the planner's result.

    Parameters
    ----------
    memory
        Its ``mem_id``; None for the banks.
    problem
        One tensor a storage; alignment and lifetimes are those of ExecuTorch.
    result
        A judged plan, its bound, and how the planner came there.
    """

    memory: int | None
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
    banks: Sequence[Bank] = ()
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
        InstanceError
            A tensor lies in another one that is not planned with it.
        MissingDependencyError
            This version of ExecuTorch plans by another interface.
        """
        from executorch.exir.memory_planning import SpecAllocResult

        if isinstance(specs, Iterator):
            raise _unsupported("its suites have tensors for their first algorithm only")
        in_memory: dict[int | None, list[TensorSpec]] = {}
        declared = {bank.mem_id for bank in self.banks}
        for spec in specs:
            spec.realign(alignment)
            memory = spec.mem_id
            if memory is None or memory in declared:
                memory = None if self.banks else DEFAULT_MEMORY
            in_memory.setdefault(memory, []).append(spec)
        # The bytes of submodules come first.
        taken = list(getattr(graph_module, "input_mem_buffer_sizes", None) or ())
        numbers = filter(None, in_memory)
        sizes = [0] * (max([DEFAULT_MEMORY, *declared, *numbers, len(taken) - 1]) + 1)
        for memory, below in enumerate(taken):
            sizes[memory] = -(-below // alignment) * alignment
        places: dict[TensorSpec, SpecAllocResult] = {}
        names = _names_of(graph_module)
        for key in sorted(in_memory, key=lambda its: -1 if its is None else its):
            storages = _storages_of(in_memory[key], alignment)
            fields = self._banked(storages, sizes, extra_padding) if key is None else {}
            problem = _problem(
                key, storages, alignment, 0 if key is None else sizes[key], names, fields
            )
            plan = self._planned(key, problem, self._room(key, sizes, extra_padding))
            for memory, first, ours in self._parts(key, sizes, plan):
                offsets = first + plan.offsets[ours]
                objects = _shared_objects(offsets, problem.size[ours])
                for index, offset, its_object in zip(ours.tolist(), offsets, objects, strict=True):
                    for spec, inside in storages[index]:
                        place = int(offset) + inside
                        places[spec] = SpecAllocResult(memory, its_object, place)
                        # A suite does so for the best of its algorithms; a pass asks nobody else.
                        spec.mem_id, spec.mem_obj_id, spec.mem_offset = memory, its_object, place
                sizes[memory] = int((offsets + problem.size[ours]).max()) + extra_padding
        return MemorySizes(sizes, places)

    def _banked(
        self, storages: Sequence[Storage], sizes: Sequence[int], padding: int
    ) -> dict[str, Any]:
        """Return the memories of the banks, and where each storage may lie."""
        memories = [
            Memory(
                bank.name, begin, max(0, bank.size - padding), bank.alignment or 1,
                ((0, sizes[bank.mem_id]),) if sizes[bank.mem_id] else (),
            )
            for bank, begin in zip(self.banks, self._begins(), strict=True)
        ]  # fmt: skip
        places = [
            (tensor, index, index * _bytes_of(storage))
            for tensor, storage in enumerate(storages)
            for index, bank in enumerate(self.banks)
            if {spec.mem_id for spec, _ in storage} <= {None, bank.mem_id}
        ]
        return {"memories": memories, "places": places}

    def _begins(self) -> list[int]:
        """Return where each bank begins in the address space of their problem."""
        largest = max(max(bank.size, bank.alignment or 1) for bank in self.banks)
        return [index << largest.bit_length() for index in range(len(self.banks))]

    def _room(self, memory: int | None, sizes: Sequence[int], padding: int) -> int | None:
        if memory is None or memory not in self.capacities:
            return None
        return max(0, self.capacities[memory] - sizes[memory] - padding)

    def _parts(
        self, memory: int | None, sizes: Sequence[int], plan: Plan
    ) -> Iterator[tuple[int, int, IntColumn]]:
        """Yield each memory that a plan uses, what to add to its offsets there, and its tensors."""
        if memory is not None:
            yield memory, sizes[memory], np.arange(len(plan.offsets))
            return
        begins = self._begins()
        number = np.searchsorted(begins, plan.offsets, side="right") - 1
        for index in np.unique(number).tolist():
            yield self.banks[index].mem_id, -begins[index], np.flatnonzero(number == index)

    def _planned(self, memory: int | None, problem: Problem, room: int | None) -> Plan:
        bounds = bounds_of(problem)
        result = run(problem, self.chosen, self.budget, bounds)
        if room is not None and result.plan is not None and result.plan.peak > room:
            # The smallest peak was asked for; whether one fits is an easier question.
            result = run(problem.with_capacity(room), self.chosen, self.budget, bounds)
        self.planned.append(MemoryResult(memory, problem, result))
        if result.plan is None or result.status not in (Status.OPTIMAL, Status.FEASIBLE):
            raise InvalidPlanError(
                f"planner {self.chosen.label}, {problem.name} of {len(problem.size)} tensors, at "
                f"least {both_bytes(result.lower_bound)}: {result.status.value}, {result.reason}"
            )
        return result.plan


# The tensors of one storage, each with the byte of the storage at which it begins.
Storage: TypeAlias = list[tuple[TensorSpec, int]]


def _bytes_of(storage: Storage) -> int:
    return max(inside + spec.allocated_memory for spec, inside in storage)


def _problem(
    memory: int | None,
    storages: Sequence[Storage],
    alignment: int,
    first: int,
    names: Mapping[int, str],
    banked: Mapping[str, Any],
) -> Problem:
    return Problem(
        [_bytes_of(its) for its in storages],
        [min(spec.lifetime[0] for spec, _ in its) for its in storages],
        [1 + max(spec.lifetime[1] for spec, _ in its) for its in storages],
        alignment=[alignment] * len(storages),
        tensor_name=[names.get(id(its[0][0]), "?") for its in storages],
        name="banks" if memory is None else f"memory {memory}",
        origin={"compiler": "ExecuTorch", "first_byte": first},
        **banked,
    )


def _storages_of(specs: Sequence[TensorSpec], alignment: int) -> list[Storage]:
    """Group the specs that share a storage: each with those that lie in it, such as in place."""
    there = set(map(id, specs))
    storages: dict[int, Storage] = {}
    for spec in specs:
        root, inside, seen = spec, 0, {id(spec)}
        base, offset = _base_of(root)
        while base is not None:
            if offset % alignment:
                raise InstanceError(
                    f"storage_base_offset of {root}: {offset}, a multiple of {alignment} is needed"
                )
            if id(base) not in there:
                # A base that the user provides has no offset, so what is in its place gets its own.
                if not offset:
                    break
                raise InstanceError(
                    f"storage_base of {root}: at its byte {offset}, a tensor of the same memory is "
                    "needed"
                )
            root, inside = base, inside + offset
            if id(root) in seen:
                raise InstanceError(f"storage_base of {spec}: a chain with an end is needed")
            seen.add(id(root))
            base, offset = _base_of(root)
        storages.setdefault(id(root), []).append((spec, inside))
    return list(storages.values())


def _base_of(spec: Any) -> tuple[TensorSpec | None, int]:
    """Return the spec in whose storage a spec lies, and the first byte there."""
    if hasattr(spec, "storage_base"):
        return spec.storage_base, spec.storage_base_offset
    return getattr(spec, "inplace_base", None), 0


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
