"""What holds for every extracted training step."""

from __future__ import annotations

from collections import Counter

from instances.extract.kernels.streams import category_of
from planners import Problem


def check_step(problem: Problem, bucket_bytes: int, nodes_per_stream: int) -> None:
    """What holds for every extracted training step."""
    graph = problem.graph
    assert graph is not None
    views = {"t", "view", "transpose", "expand", "detach", "unsqueeze", "slice", "getitem"}
    assert not views & set(graph.op)
    for chain in problem.contiguous:
        assert problem.size[list(chain)].sum() <= bucket_bytes
    all_reduces = {node for node, op in enumerate(graph.op) if op == "all_reduce"}
    control = set(map(tuple, graph.control.tolist()))
    chain_of = {tensor: index for index, chain in enumerate(problem.contiguous) for tensor in chain}
    reduced_by: dict[int, int] = {}
    assert problem.tensor_name is not None
    for tensor, name in enumerate(problem.tensor_name):
        touching = graph.consumers_of(tensor).tolist()
        waits = [node for node in touching if node in all_reduces]
        if not name.startswith("grad "):
            assert not waits, name
            continue
        (all_reduce,) = waits
        for later in (node for node in touching if node > all_reduce):
            assert (all_reduce, later) in control, name
        assert any(node > all_reduce for node in touching), name
        if tensor in chain_of:
            assert reduced_by.setdefault(all_reduce, chain_of[tensor]) == chain_of[tensor]
    assert sorted(reduced_by.values()) == list(range(len(problem.contiguous)))
    nodes_on = Counter(graph.stream.tolist())
    assert max(nodes_on.values()) <= nodes_per_stream
    categories = {(s, category_of(op)) for s, op in zip(graph.stream, graph.op, strict=True)}
    assert len(categories) == graph.stream_count
