"""The referee: slow, obvious, and without any code of the planners that it judges."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import accumulate, chain, combinations, pairwise
from operator import and_

import numpy as np
from numpy.typing import NDArray

from planners.errors import InvalidPlanError
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety

Charge = Callable[[int], None]
"""Called with steps of work, of about half a microsecond each; may raise to end the check."""

# Limits, in tensors, the sets that every node of a graph has at the same time. A guess.
MOST_IN_A_SET = 1 << 12


def check(problem: Problem, plan: Plan) -> None:
    """Raise an error if a plan breaks a constraint of its problem.

    Raises
    ------
    InvalidPlanError
        The message has the tensors, their offsets, and the right values.
    """
    violation = find_violation(problem, plan)
    if violation is not None:
        raise InvalidPlanError(violation)


def find_violation(
    problem: Problem, plan: Plan, charge: Charge = lambda _steps: None
) -> str | None:
    """Return the fault of a plan, by pure Python and NumPy, or None."""
    wrong = find_wrong_offset(problem, plan)
    if wrong is not None:
        return wrong
    if problem.has_classes:
        pair = overlap_of_pairs(problem, plan.offsets, _pairs_with_classes(problem, charge))
    elif problem.unsafe_pairs is not None:
        pair = overlap_of_pairs(problem, plan.offsets, problem.unsafe_pairs)
    elif problem.safety is Safety.LIFETIMES:
        pair = _overlap_in_time(problem, plan.offsets, charge)
    else:
        pair = _overlap_in_graph(problem, plan.offsets, charge)
    return None if pair is None else describe_overlap(problem, plan, pair)


def find_wrong_offset(problem: Problem, plan: Plan) -> str | None:
    """Return the fault of an offset of a tensor or chain, or of the peak, or None."""
    offsets = plan.offsets
    if len(offsets) != problem.tensor_count:
        return f"one offset a tensor is needed, found {len(offsets)} for {problem.tensor_count}"
    for tensor in np.flatnonzero(offsets < 0)[:1].tolist():
        return f"{problem.describe(tensor)}: offsets are at least 0, found {offsets[tensor]}"
    # The model bounds sizes, so an offset this large is wrong long before a sum can overflow.
    for tensor in np.flatnonzero(offsets > 1 << 62)[:1].tolist():
        return f"{problem.describe(tensor)}: offsets stay below 2**62, found {offsets[tensor]}"
    peak = int((offsets + problem.size).max(initial=0))
    if plan.peak != peak:
        return f"the peak is the largest offset + size, {peak}, found {plan.peak}"
    for tensor in np.flatnonzero(offsets % problem.alignment)[:1].tolist():
        return (
            f"{problem.describe(tensor)}: the offset must be a multiple of "
            f"{problem.alignment[tensor]}, found {offsets[tensor]}"
        )
    moved = (problem.pinned >= 0) & (offsets != problem.pinned)
    for tensor in np.flatnonzero(moved)[:1].tolist():
        return (
            f"{problem.describe(tensor)}: it is pinned to {problem.pinned[tensor]}, "
            f"found {offsets[tensor]}"
        )
    for members in problem.contiguous:
        for first, second in pairwise(members):
            if offsets[second] != offsets[first] + problem.size[first]:
                return (
                    f"{problem.describe(second)}: its chain puts it at the end of "
                    f"{problem.describe(first)}, {offsets[first] + problem.size[first]}, "
                    f"found {offsets[second]}"
                )
    for first, *others in problem.together:
        for second in others:
            if offsets[second] != offsets[first]:
                return (
                    f"{problem.describe(second)}: its group puts it at {offsets[first]}, where "
                    f"{problem.describe(first)} lies, found {offsets[second]}"
                )
    return _find_wrong_place(problem, plan.offsets.tolist()) if problem.memories else None


def _find_wrong_place(problem: Problem, offsets: list[int]) -> str | None:
    """Return the fault of a tensor that lies in no memory, or not in one of its own, or None."""
    places = _places_of(problem)
    head = {tensor: chain[0] for chain in problem.contiguous for tensor in chain}
    home: dict[int, int] = {}
    for tensor, size in enumerate(problem.size.tolist()):
        if not size:
            continue
        begin, end = offsets[tensor], offsets[tensor] + size
        memory = _memory_of(problem, begin, end)
        span = f"{problem.describe(tensor)} at [{begin}, {end})"
        if memory is None:
            return f"{span}: a tensor lies within one memory"
        its = problem.memories[memory]
        if home.setdefault(head.get(tensor, tensor), memory) != memory:
            return f"{span}: its chain lies within one memory"
        if tensor in places and memory not in places[tensor]:
            return f"{span}: it may not lie in memory {its.name}"
        if offsets[head.get(tensor, tensor)] % its.alignment:
            return f"{span}: memory {its.name} needs multiples of {its.alignment}"
        for low, high in its.reserved:
            if begin < its.begin + high and its.begin + low < end:
                return f"{span}: memory {its.name} has [{low}, {high}) reserved"
    return None


def _memory_of(problem: Problem, begin: int, end: int) -> int | None:
    for index, memory in enumerate(problem.memories):
        if memory.begin <= begin and end <= memory.begin + memory.capacity:
            return index
    return None


def _places_of(problem: Problem) -> dict[int, dict[int, int]]:
    places: dict[int, dict[int, int]] = {}
    for tensor, memory, cost in problem.places.tolist():
        places.setdefault(tensor, {})[memory] = cost
    return places


def _pairs_with_classes(problem: Problem, charge: Charge) -> NDArray[np.int64]:
    """Return the unsafe pairs by definition: what decides safety, changed by the classes."""
    pairs: set[tuple[int, int]] = set()
    if problem.unsafe_pairs is not None:
        pairs = {(min(pair), max(pair)) for pair in problem.unsafe_pairs.tolist()}
    elif problem.graph is None:
        rows = problem.segments().tolist()
        charge(len(rows) ** 2 // 8)
        for (a, begin, end), (b, first, last) in combinations(rows, 2):
            if a != b and begin < last and first < end:
                pairs.add((min(a, b), max(a, b)))
    else:
        everything = list(range(problem.tensor_count))
        after = {}
        for some, later in born_after_use(problem, everything, charge):
            for place, other in enumerate(some):
                after.update({(t, other): later[t] >> place & 1 for t in everything})
        pairs = {p for p in combinations(everything, 2) if not after[p] and not after[p[::-1]]}
    pairs |= {(min(pair), max(pair)) for pair in problem.apart.tolist()}
    pairs -= {(min(pair), max(pair)) for pair in problem.exclusive.tolist()}
    for group in problem.together:
        pairs -= set(combinations(sorted(group), 2))
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def describe_overlap(problem: Problem, plan: Plan, pair: tuple[int, int]) -> str:
    """Return a sentence on two unsafe tensors that share bytes."""
    spans = [
        f"{problem.describe(t)} at [{plan.offsets[t]}, {plan.offsets[t] + problem.size[t]})"
        for t in pair
    ]
    return f"unsafe tensors share bytes: {spans[0]} and {spans[1]}"


def _overlap_in_time(
    problem: Problem, offsets: NDArray[np.int64], charge: Charge
) -> tuple[int, int] | None:
    """Sweep the steps; live tensors are kept by offset, and each new one meets its neighbours."""
    rows = problem.segments()
    rows = rows[problem.size[rows[:, 0]] > 0]
    events = [(end, 0, t) for t, _, end in rows.tolist()]
    events += [(start, 1, t) for t, start, _ in rows.tolist()]
    offset, size = offsets.tolist(), problem.size.tolist()
    live: list[tuple[int, int]] = []
    for _, starts, tensor in sorted(events):
        charge(1 + len(live) // 1024)
        entry = (offset[tensor], tensor)
        at = bisect_left(live, entry)
        if not starts:
            del live[at]
            continue
        for _, other in live[max(at - 1, 0) : at + 1]:
            if (
                offset[tensor] < offset[other] + size[other]
                and offset[other] < offset[tensor] + size[tensor]
            ):
                return min(tensor, other), max(tensor, other)
        insort(live, entry)
    return None


def overlap_of_pairs(
    problem: Problem, offsets: NDArray[np.int64], pairs: NDArray[np.int64]
) -> tuple[int, int] | None:
    """Return two tensors of one of some pairs that share a byte, if any."""
    a, b = pairs.T
    size = problem.size
    shared = (offsets[a] < offsets[b] + size[b]) & (offsets[b] < offsets[a] + size[a])
    shared &= (size[a] > 0) & (size[b] > 0)
    for row in np.flatnonzero(shared)[:1]:
        return int(min(a[row], b[row])), int(max(a[row], b[row]))
    return None


def _overlap_in_graph(
    problem: Problem, offsets: NDArray[np.int64], charge: Charge
) -> tuple[int, int] | None:
    """Compare every tensor with those that are born with it or later."""
    assert problem.graph is not None
    producer, end = problem.graph.producer, offsets + problem.size
    sized = np.flatnonzero(problem.size)
    for some, later in born_after_use(problem, sized.tolist(), charge):
        of = np.array(some)
        for tensor in sized.tolist():
            charge(1 + len(some) // 128)
            shared = (offsets[of] < end[tensor]) & (offsets[tensor] < end[of])
            shared &= (producer[tensor] <= producer[of]) & (of != tensor)
            unsafe = (
                int.from_bytes(np.packbits(shared, bitorder="little"), "little") & ~later[tensor]
            )
            if unsafe:
                other = some[unsafe.bit_length() - 1]
                return min(tensor, other), max(tensor, other)
    return None


def plan_cost(problem: Problem, offsets: NDArray[np.int64]) -> int:
    """Return what the reuse of bytes and the places of all tensors cost."""
    places, ends, cost = _places_of(problem), offsets + problem.size, 0
    for tensor, costs in places.items():
        memory = _memory_of(problem, int(offsets[tensor]), int(ends[tensor]))
        if problem.size[tensor] and memory is not None:
            cost += costs.get(memory, 0)
    return cost + reuse_cost(problem, offsets)


def reuse_cost(problem: Problem, offsets: NDArray[np.int64]) -> int:
    """Return the sum of the prices of all pairs that share a byte."""
    a, b, price = problem.reuse_prices.T
    size = problem.size
    shared = (offsets[a] < offsets[b] + size[b]) & (offsets[b] < offsets[a] + size[a])
    return int(price[shared & (size[a] > 0) & (size[b] > 0)].sum())


def find_no_clique(problem: Problem, sets: list[list[int]], charge: Charge) -> str | None:
    """Return the fault of a set that is not of different, pairwise unsafe tensors, or None."""
    if problem.has_classes:
        return "a problem without groups, pairs apart or exclusive is needed: its plain form"
    size = problem.size.tolist()
    given = () if problem.unsafe_pairs is None else problem.unsafe_pairs.tolist()
    charge(len(size) + len(given))
    pairs = {(min(pair), max(pair)) for pair in given}
    events: list[list[tuple[int, int]]] = [[] for _ in size]
    for tensor, start, end in problem.segments().tolist():
        events[tensor] += [(start, 1), (end, -1)]
    apart: dict[int, list[int]] = {}
    for index, tensors in enumerate(sets):
        charge(1 + len(tensors))
        if not tensors or len({*tensors}) < len(tensors) or not all(size[t] for t in tensors):
            return f"clique {index}: different tensors of bytes are needed"
        if problem.safety is Safety.PAIRS:
            charge(len(tensors) ** 2 // 16)
            for pair in combinations(sorted(tensors), 2):
                if pair not in pairs:
                    return f"clique {index}: tensors {pair} are not unsafe"
            continue
        # Tensors that are live at one step are unsafe, also on several streams: the last user of
        # one does not come before the producer of the other.
        charge(sum(len(events[tensor]) for tensor in tensors))
        changes = sorted(event for tensor in tensors for event in events[tensor])
        if max(accumulate(change for _, change in changes)) < len(tensors):
            if problem.graph is None:
                return f"clique {index}: at no step are all of it live"
            apart[index] = tensors
    for some, later in born_after_use(problem, sorted({*chain(*apart.values())}), charge):
        bit = {tensor: 1 << place for place, tensor in enumerate(some)}
        for index, tensors in apart.items():
            charge(len(tensors))
            members = sum(bit.get(tensor, 0) for tensor in tensors)
            for tensor in tensors:
                born = later[tensor] & members
                if born:
                    pair = tensor, some[born.bit_length() - 1]
                    return f"clique {index}: tensors {pair} are not unsafe"
    return None


def born_after_use(
    problem: Problem, tensors: list[int], charge: Charge
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield some tensors in turn, and for each tensor those of them born after all of its users.

    A whole number is a set: bit i stands for the i-th of the tensors that are yielded with it.
    """
    graph = problem.graph
    if graph is None or not tensors:
        return
    producer = graph.producer.tolist()
    users = [{born, *graph.consumers_of(tensor).tolist()} for tensor, born in enumerate(producer)]
    successors: list[set[int]] = [set() for _ in range(graph.node_count)]
    last_of_stream: dict[int, int] = {}
    for node, stream in enumerate(graph.stream.tolist()):
        if stream in last_of_stream:
            successors[last_of_stream[stream]].add(node)
        last_of_stream[stream] = node
    for born, nodes in zip(producer, users, strict=True):
        successors[born].update(nodes - {born})
    for first, second in graph.control.tolist():
        successors[first].add(second)
    for first in range(0, len(tensors), MOST_IN_A_SET):
        some = tensors[first : first + MOST_IN_A_SET]
        charge(2 * (graph.node_count + sum(map(len, successors)) + sum(map(len, users))))
        born_at = [0] * graph.node_count
        for bit, tensor in enumerate(some):
            born_at[producer[tensor]] |= 1 << bit
        # The tensors that are born at descendants of each node.
        below = [0] * graph.node_count
        for node in reversed(range(graph.node_count)):
            for successor in successors[node]:
                below[node] |= below[successor] | born_at[successor]
        yield some, [reduce(and_, (below[node] for node in nodes)) for nodes in users]
