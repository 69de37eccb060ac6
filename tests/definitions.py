"""What the words mean, as slow and plain as can be; written apart from everything in planners."""

from __future__ import annotations

from planners import Graph, Problem, Safety

Pairs = set[tuple[int, int]]


def successors(graph: Graph) -> list[set[int]]:
    """Return the nodes that each node has a direct arc to: data, control, next of its stream."""
    after: list[set[int]] = [set() for _ in range(graph.node_count)]
    streams = graph.stream.tolist()
    for node, stream in enumerate(streams):
        later = [v for v in range(node + 1, graph.node_count) if streams[v] == stream]
        after[node].update(later[:1])
    for tensor, producer in enumerate(graph.producer.tolist()):
        after[producer].update(graph.consumers_of(tensor).tolist())
    for u, v in graph.control.tolist():
        after[u].add(v)
    for node in range(graph.node_count):
        after[node].discard(node)
    return after


def descendants(graph: Graph) -> list[set[int]]:
    """Return the nodes that each node has a directed path of at least one arc to."""
    direct = successors(graph)
    reached: list[set[int]] = []
    for node in range(graph.node_count):
        found: set[int] = set()
        frontier = [node]
        while frontier:
            frontier = [w for v in frontier for w in direct[v] if w not in found]
            found.update(frontier)
        reached.append(found)
    return reached


def users(graph: Graph, tensor: int) -> set[int]:
    """Return the nodes that must end before a tensor is dead."""
    return set(graph.consumers_of(tensor).tolist()) or {int(graph.producer[tensor])}


def unsafe_by_paths(graph: Graph) -> Pairs:
    """Return the pairs of which neither is dead before the other is born (definition 3)."""
    after = descendants(graph)
    producer = graph.producer.tolist()

    def dead_before_born(a: int, b: int) -> bool:
        return all(producer[b] in after[user] for user in users(graph, a))

    return {
        (a, b)
        for b in range(graph.tensor_count)
        for a in range(b)
        if not dead_before_born(a, b) and not dead_before_born(b, a)
    }


def unsafe_by_executions(graph: Graph) -> Pairs:
    """Return the pairs that some execution needs at the same time.

    An execution starts and ends one node after the other, in any order in which a node starts
    only after all that it waits for have ended; nodes of different streams may thus run side by
    side. A tensor is needed from the start of its producer to the end of its last reader, or of
    its producer where nobody reads it. All states of all executions are visited.
    """
    direct = successors(graph)
    awaited = [{u for u in range(graph.node_count) if v in direct[u]} for v in range(len(direct))]
    readers = [users(graph, tensor) for tensor in range(graph.tensor_count)]
    producer = graph.producer.tolist()
    together: Pairs = set()
    seen: set[tuple[frozenset[int], frozenset[int]]] = set()
    states = [(frozenset[int](), frozenset[int]())]
    while states:
        started, ended = states.pop()
        if (started, ended) in seen:
            continue
        seen.add((started, ended))
        needed = [
            tensor
            for tensor in range(graph.tensor_count)
            if producer[tensor] in started and not readers[tensor] <= ended
        ]
        together.update((a, b) for b in needed for a in needed if a < b)
        states += [(started, ended | {node}) for node in started - ended]
        states += [
            (started | {node}, ended)
            for node in range(graph.node_count)
            if node not in started and awaited[node] <= ended
        ]
    return together


def steps_needed(problem: Problem, tensor: int) -> set[int]:
    """Return the steps in which a tensor needs memory."""
    steps = set(range(int(problem.start[tensor]), int(problem.end[tensor])))
    for other, first, last in problem.gaps.tolist():
        if other == tensor:
            steps -= set(range(first, last))
    return steps


def unsafe(problem: Problem) -> Pairs:
    """Return the pairs of tensors of any problem that may not share bytes, the lower first."""
    pairs = unsafe_without_classes(problem) | {tuple(sorted(p)) for p in problem.apart.tolist()}
    pairs -= {tuple(sorted(pair)) for pair in problem.exclusive.tolist()}
    return {(a, b) for a, b in pairs if not any({a, b} <= {*group} for group in problem.together)}


def unsafe_without_classes(problem: Problem) -> Pairs:
    """Return the pairs that may not share bytes by what decides safety alone."""
    if problem.safety is Safety.GRAPH:
        assert problem.graph is not None
        return unsafe_by_paths(problem.graph)
    if problem.safety is Safety.PAIRS:
        assert problem.unsafe_pairs is not None
        return {(min(pair), max(pair)) for pair in problem.unsafe_pairs.tolist()}
    needed = [steps_needed(problem, tensor) for tensor in range(problem.tensor_count)]
    return {(a, b) for b in range(problem.tensor_count) for a in range(b) if needed[a] & needed[b]}
