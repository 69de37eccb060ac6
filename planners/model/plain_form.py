"""The plain form of a problem: planners that know neither memories nor classes can plan it.

Note [Plain form]
~~~~~~~~~~~~~~~~~
Rationale. Groups, pairs apart or exclusive, and memories are conditions on pairs and offsets. What
a planner knows already expresses them, so that every planner has them at once.

Approach. Pairs apart or exclusive change the unsafe pairs, which are then listed. A group is cut at
the ends of its members into slices. Each slice is as unsafe as the members that have it, and the
slices are a chain. So whoever is safe with the smaller members only may share the bytes of these
alone. If every block may lie in one memory only, then tensors of different memories never meet: the
problem falls apart into one problem for each memory, with its capacity. A reserved range is a
pinned tensor that is unsafe with all others. Costs of places are then the same in every plan.

Limits. A price for a tensor of several slices would be paid once for each, so that it is refused. A
problem in which a block has a choice of memories keeps its memories; a planner that does not know
them does not support it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.memories import Memory
from planners.model.places import block_places
from planners.model.problem import Problem, Safety


class NotPlainError(Exception):
    """A problem has no plain form, or none without memories; the message says why."""


class _NoPlaceError(Exception):
    """The tensors of a group may lie in no memory together; the message says which."""


@dataclass(frozen=True)
class PlainPart:
    """A part of a problem in its plain form."""

    problem: Problem
    # Tensors of the whole problem, and for each the tensor of the part that has its offset.
    tensors: IntColumn
    places: IntColumn
    # Added to the offsets of the part.
    begin: int
    # The memory; empty if the part has the whole problem.
    memory: str


@dataclass(frozen=True)
class PlainForm:
    """The parts of a problem in its plain form."""

    parts: tuple[PlainPart, ...]
    # Paid by every plan, and known to no part.
    fixed_cost: int
    # Why no plan fits, if that is plain already.
    infeasible: str = ""

    def offsets(self, tensors: int, of_parts: Iterable[IntColumn]) -> IntColumn:
        """Return the offsets of the whole problem from those of its parts."""
        offsets = np.zeros(tensors, dtype=np.int64)
        for part, column in zip(self.parts, of_parts, strict=True):
            offsets[part.tensors] = column[part.places] + part.begin
        return offsets


def is_plain(problem: Problem) -> bool:
    """Return True if a problem is its own plain form."""
    return not (problem.memories or problem.has_classes)


def plain_form(problem: Problem, *, memories: bool = False) -> PlainForm:
    """Return the plain form of a problem; ``memories`` allows it to keep those that it has."""
    fixed = 0
    if problem.has_classes:
        try:
            problem, shares, fixed = _without_classes(problem)
        except _NoPlaceError as error:
            return PlainForm((), 0, str(error))
    else:
        shares = np.arange(problem.tensor_count)
    tensors = np.arange(len(shares))
    if not problem.memories:
        return PlainForm((PlainPart(problem, tensors, shares, 0, ""),), fixed)
    rows = block_places(problem)
    counts = np.bincount(rows[:, 0], minlength=problem.blocks.count)
    for block in np.flatnonzero((counts == 0) & (problem.blocks.size > 0))[:1].tolist():
        tensor = int(problem.blocks.members[problem.blocks.indptr[block]])
        return PlainForm((), fixed, f"{problem.describe(tensor)} may lie in no memory")
    if counts.max(initial=0) > 1:
        if not memories:
            raise NotPlainError("a tensor may lie in several memories: auto and cp-sat choose one")
        return PlainForm((PlainPart(problem, tensors, shares, 0, ""),), fixed)
    memory_of = np.zeros(problem.blocks.count, dtype=np.int64)
    memory_of[rows[:, 0]] = rows[:, 1]
    parts = []
    for index, memory in enumerate(problem.memories):
        inside = np.flatnonzero(memory_of[problem.blocks.block_of] == index)
        if len(inside):
            place = np.full(problem.tensor_count, -1, dtype=np.int64)
            place[inside] = np.arange(len(inside))
            here = np.flatnonzero(place[shares] >= 0)
            part = _part_of(problem, memory, inside)
            parts.append(PlainPart(part, here, place[shares[here]], memory.begin, memory.name))
    return PlainForm(tuple(parts), fixed + int(rows[:, 2].sum()))


def _part_of(problem: Problem, memory: Memory, inside: IntColumn) -> Problem:
    """Return the problem of the tensors of one memory, whose reserved ranges are pinned tensors."""
    pinned = problem.pinned[inside]
    changes: dict[str, Any] = {
        "memories": (),
        "places": (),
        "capacity": memory.capacity,
        "pinned": np.where(pinned == NOT_PINNED, pinned, pinned - memory.begin),
        "alignment": problem.alignment[inside].copy(),
    }
    followers = [tensor for chain in problem.contiguous for tensor in chain[1:]]
    heads = ~np.isin(inside, followers)
    changes["alignment"][heads] = np.maximum(changes["alignment"][heads], memory.alignment)
    part = problem.select(inside, **changes)
    reserved = memory.reserved
    if not reserved:
        return part
    count, more = part.tensor_count, len(reserved)
    fields: dict[str, Any] = {
        "size": [*part.size.tolist(), *(end - begin for begin, end in reserved)],
        "alignment": [*part.alignment.tolist(), *[1] * more],
        "pinned": np.concatenate((part.pinned, [begin for begin, _ in reserved])),
        "contiguous": part.contiguous,
        "reuse_prices": part.reuse_prices,
        "capacity": part.capacity,
        "name": part.name,
    }
    if part.safety is Safety.LIFETIMES and len(part.start):
        fields["start"] = [*part.start.tolist(), *[int(part.start.min())] * more]
        fields["end"] = [*part.end.tolist(), *[int(part.end.max())] * more]
        fields["gaps"] = part.gaps
    else:
        new = [(t, count + i) for i in range(more) for t in range(count)]
        fields["unsafe_pairs"] = [*part.core.unsafe_pairs().tolist(), *new]
    return Problem(**fields)


def _without_classes(problem: Problem) -> tuple[Problem, IntColumn, int]:
    """Return a problem of pairs and slices, the first slice of each tensor, and what all plans pay.

    The slices of a group that has one are a chain.
    """
    slices = _Slices(problem)
    pairs = {
        (min(a, b), max(a, b))
        for one, other in problem.core.unsafe_pairs().tolist()
        for a in slices.of[one]
        for b in slices.of[other]
    }
    fixed = 0
    prices: dict[tuple[int, int], int] = {}
    sized = (problem.size[problem.reuse_prices[:, :2]] > 0).all(axis=1)
    for one, other, price in problem.reuse_prices[sized].tolist():
        a, b = slices.of[one][0], slices.of[other][0]
        key = min(a, b), max(a, b)
        if a == b:
            fixed += price
        elif len(slices.of[one]) > 1 or len(slices.of[other]) > 1:
            raise NotPlainError(
                f"prices of tensors in a group of several sizes, such as {problem.describe(one)}"
            )
        elif key not in pairs:
            prices[key] = prices.get(key, 0) + price
    plain = Problem(
        slices.size,
        unsafe_pairs=sorted(pairs),
        alignment=slices.alignment,
        contiguous=[*([slices.of[t][0] for t in chain] for chain in problem.contiguous),
                    *slices.chains],
        pinned=slices.pinned,
        reuse_prices=[(*pair, price) for pair, price in prices.items()],
        memories=problem.memories,
        places=slices.places(),
        capacity=problem.capacity,
        name=problem.name,
    )  # fmt: skip
    return plain, np.array([of[0] for of in slices.of], dtype=np.int64), fixed


class _Slices:
    """The slices of all tensors: a tensor outside of groups is its own."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.of: list[list[int]] = [[] for _ in range(problem.tensor_count)]
        self.size: list[int] = []
        self.alignment: list[int] = []
        self.pinned: dict[int, int] = {}
        self.chains: list[list[int]] = []
        # The tensors that begin with each first slice.
        self._groups: dict[int, Sequence[int]] = {}
        grouped = {tensor for group in problem.together for tensor in group}
        singles = ((t,) for t in range(problem.tensor_count) if t not in grouped)
        for group in (*singles, *problem.together):
            self._cut(group)

    def _cut(self, group: Sequence[int]) -> None:
        problem, first = self._problem, len(self.size)
        ends = sorted({0, *(int(problem.size[tensor]) for tensor in group)})
        sizes = [end - begin for begin, end in pairwise(ends)] or [0]
        self.size += sizes
        self.alignment += [int(problem.alignment[list(group)].max()), *[1] * (len(sizes) - 1)]
        for tensor in group:
            count = max(1, ends.index(int(problem.size[tensor])))
            self.of[tensor] = list(range(first, first + count))
            if problem.pinned[tensor] != NOT_PINNED:
                self.pinned[first] = int(problem.pinned[tensor])
        if len(sizes) > 1:
            self.chains.append(list(range(first, len(self.size))))
        self._groups[first] = group

    def places(self) -> list[tuple[int, int, int]]:
        """Return where the first slice of each group may lie: where all of its members may."""
        problem = self._problem
        costs: dict[int, dict[int, int]] = {}
        for tensor, memory, cost in problem.places.tolist():
            if problem.size[tensor]:
                costs.setdefault(tensor, {})[memory] = cost
        rows = []
        for first, group in self._groups.items():
            limited = [costs[tensor] for tensor in group if tensor in costs]
            if limited:
                shared = set(limited[0]).intersection(*limited)
                if not shared:
                    tensor = problem.describe(group[0])
                    raise _NoPlaceError(f"{tensor} and its group may lie in no memory together")
                rows += [(first, m, sum(one[m] for one in limited)) for m in sorted(shared)]
        return rows
