"""How many pairs are unsafe when the same nodes are dealt to streams of another length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from evaluation.benchmarks.writing.page import ImplausiblePageError, Page
from instances.catalogue.instance_name import file_label
from instances.extract.parallel.streams import StreamScheme, assign_streams, find_successions
from planners import Graph, Problem, read_any
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError

# Around the limit of the framework in which the paper measured, and far from it.
LIMITS = (100, 200, 300, *range(345, 356), 400, 500, 700, 1000)


def density_page(files: Sequence[Path], command: str) -> Page:
    """Deal the nodes of extracted instances to other streams, and count unsafe pairs."""
    problems = {file_label(path): read_any(path) for path in files}
    page = Page("Unsafe pairs and the length of streams", command)
    page.say(
        "The nodes of committed instances, dealt again to streams that are full after so many "
        "nodes, with the arcs as they are. *Open* counts the streams that never wait for the full "
        "one that they follow: no node of theirs comes after its last one. *Unsafe* is the share "
        "of all pairs of tensors. [Why](../extracted-models.md#nodes-a-stream)."
    )
    headers = ["nodes a stream"]
    for name in problems:
        headers += [f"{name}: streams", "open", "unsafe"]
    rows = []
    for limit in LIMITS:
        show_progress(f"{limit} nodes a stream")
        rows.append([f"{limit:,}", *_cells(problems.values(), limit)])
    page.table(headers, rows)
    page.say(
        "The same with `--streams succession`, where a stream begins when the full one has ended: "
        "the share of unsafe pairs, which is one for all numbers of nodes above; the page is not "
        "written if it is not."
    )
    page.table(
        ["instance", "tensors", "unsafe"],
        [
            [name, f"{problem.tensor_count:,}", _share_in_succession(name, problem)]
            for name, problem in problems.items()
        ],
    )
    return page


def dealt_again(problem: Problem, nodes_per_stream: int, scheme: StreamScheme) -> Problem:
    """Return the same tensors, without chains, whose nodes run on other streams; arcs stay."""
    graph = _graph_of(problem)
    streams = assign_streams(graph.op, nodes_per_stream, scheme)
    control = {(int(before), int(after)) for before, after in graph.control}
    if scheme is StreamScheme.SUCCESSION:
        control.update(find_successions(graph.op, streams))
    return Problem(
        problem.size,
        graph=Graph(
            op=graph.op,
            stream=streams,
            producer=graph.producer,
            consumers=[graph.consumers_of(tensor) for tensor in range(graph.tensor_count)],
            control=sorted(control),
        ),
    )


def count_open(graph: Graph) -> tuple[int, int]:
    """Return how many streams never wait for the full one that they follow, of how many."""
    borders = find_successions(graph.op, graph.stream.tolist())
    ends = {before: 1 << border for border, (before, _) in enumerate(borders)}
    arcs: list[list[int]] = [[] for _ in graph.op]
    for tensor, reader in zip(
        graph.consumer_tensors.tolist(), graph.consumer_nodes.tolist(), strict=True
    ):
        arcs[reader].append(int(graph.producer[tensor]))
    for before, after in graph.control.tolist():
        arcs[after].append(before)
    # Bit by bit, which ends of full streams a node comes after.
    waits = [0] * graph.node_count
    last_on: dict[int, int] = {}
    for node, stream in enumerate(graph.stream.tolist()):
        for before in (*arcs[node], *([last_on[stream]] if stream in last_on else [])):
            if before != node:
                waits[node] |= waits[before] | ends.get(before, 0)
        last_on[stream] = node
    open_count = sum(
        not waits[last_on[int(graph.stream[after])]] >> border & 1
        for border, (_, after) in enumerate(borders)
    )
    return open_count, len(borders)


def unsafe_share(problem: Problem) -> float:
    """Return the share of all pairs of tensors that are unsafe."""
    count = problem.tensor_count
    return float(problem.core.unsafe_degrees().sum()) / max(1, count * (count - 1))


def _cells(problems: Iterable[Problem], limit: int) -> list[str]:
    cells = []
    for problem in problems:
        dealt = dealt_again(problem, limit, StreamScheme.CATEGORY)
        open_count, count = count_open(_graph_of(dealt))
        cells += [str(dealt.stream_count), f"{open_count} of {count}", f"{unsafe_share(dealt):.1%}"]
    return cells


def _share_in_succession(name: str, problem: Problem) -> str:
    dealt = partial(dealt_again, problem, scheme=StreamScheme.SUCCESSION)
    shares = {unsafe_share(dealt(limit)) for limit in LIMITS}
    if len(shares) != 1:
        raise ImplausiblePageError(
            f"{name}: in succession one share of unsafe pairs is expected, found {sorted(shares)}; "
            "no page is written"
        )
    return f"{shares.pop():.1%}"


def _graph_of(problem: Problem) -> Graph:
    if problem.graph is None:
        raise GaplessError(f"{problem.name}: a graph is needed, found lifetimes or pairs alone")
    return problem.graph
