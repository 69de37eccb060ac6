"""How the fuzzer calls what planners._core exports."""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from planners import _core
from tests.fuzz.case import Case

INT32, INT64 = np.int32, np.int64


def column(values: Any, dtype: type = INT64) -> Any:
    return np.array(list(values), dtype=dtype)


def rows(values: Any, width: int, dtype: type = INT64) -> Any:
    return np.array(list(values), dtype=dtype).reshape(-1, width)


def seconds(rng: Random) -> float:
    return rng.choice((0.02, 0.02, 1.0))


class Graph:
    """A random graph as columns."""

    def __init__(self, rng: Random, tensors: int | None = None) -> None:
        nodes = rng.randint(1 if tensors else 0, 9)
        self.tensors = tensors if tensors is not None else rng.randint(0, 12) if nodes else 0
        streams = rng.randint(1, 3)
        drawn = [rng.randrange(streams) for _ in range(nodes)]
        dense = {stream: number for number, stream in enumerate(sorted(set(drawn)))}
        producer = [rng.randrange(nodes) for _ in range(self.tensors)]
        readers = [[rng.randint(p, nodes - 1) for _ in range(rng.randint(0, 3))] for p in producer]
        arcs = [sorted(rng.sample(range(nodes), 2)) for _ in range(rng.randint(0, 3)) if nodes > 1]
        self.columns = (
            column([dense[stream] for stream in drawn], INT32),
            column(producer, INT32),
            column(np.cumsum([0, *map(len, readers)])),
            column([reader for of_tensor in readers for reader in of_tensor], INT32),
            rows([node for arc in arcs for node in arc], 2, INT32),
        )
        self.size = column(rng.choice((0, 1, 512, 1 << 20)) for _ in range(self.tensors))


class Placed:
    """Random tensors in blocks, with lifetimes, as columns."""

    def __init__(self, rng: Random, tensors: int | None = None) -> None:
        self.tensors = rng.randint(0, 10) if tensors is None else tensors
        largest = rng.choice((3, 1 << 20, 1 << 57))
        self.size = column(rng.randint(0, largest) for _ in range(self.tensors))
        order = rng.sample(range(self.tensors), self.tensors)
        heads = sorted({0, *rng.sample(order, rng.randint(0, len(order)))}) if order else []
        self.offsets = column([*heads, self.tensors])
        self.members = column(order, INT32)
        chains = [order[a:b] for a, b in pairwise(self.offsets.tolist())]
        before = [[int(self.size[chain[:i]].sum()) for i in range(len(chain))] for chain in chains]
        self.before = column(bytes_ for chain in before for bytes_ in chain)
        self.block_size = column(int(self.size[chain].sum()) for chain in chains)
        self.blocks = len(chains)
        self.modulus = column(1 << rng.choice((0, 0, 9)) for _ in chains)
        self.residue = column(rng.randrange(int(m)) for m in self.modulus)
        pins = rng.random() < 0.3
        self.pinned = column(
            int(r + m * rng.randint(0, 4)) if pins and rng.random() < 0.5 else -1
            for r, m in zip(self.residue, self.modulus, strict=True)
        )
        self.segments = rows([v for t in range(self.tensors) for v in lifetimes(rng, t)], 3)
        pairs = [(a, b) for a in range(self.tensors) for b in range(a) if rng.random() < 0.4]
        self.pairs = rows([tensor for pair in pairs for tensor in pair], 2)
        self.columns = (
            self.offsets, self.members, self.before, self.block_size, self.modulus, self.residue,
            self.pinned,
        )  # fmt: skip


def lifetimes(rng: Random, tensor: int) -> list[int]:
    """Return the segments of a tensor, one after the other."""
    steps = sorted(rng.sample(range(-5, 20), 2 * rng.choice((1, 1, 1, 2, 3))))
    far = rng.choice((1, 1, 1 << 50))
    return [
        v for a, b in zip(steps[::2], steps[1::2], strict=True) for v in (tensor, far * a, far * b)
    ]


def requests(rng: Random, least: int, *, by_size: bool = False) -> list[Any]:
    """Return columns of requests by their starts, or by falling size and then so."""
    drawn = [
        (rng.choice((1, 512, 1 << 20, 1 << 55)), start, start + rng.randint(1, 9))
        for start in (rng.randint(-3, 20) for _ in range(rng.randint(least, 10)))
    ]
    drawn.sort(key=lambda r: (-r[0], r[1]) if by_size else (r[1],))
    return [column(values) for values in zip(*drawn, strict=True)] or [column([])] * 3


def search_columns(rng: Random, *, single: bool) -> list[Any]:
    members = rng.randint(0, 7)
    block = list(range(members)) if single else sorted(rng.randint(0, 3) for _ in range(members))
    blocks = members if single else 4
    sections = rng.randint(1, 6)
    modulus = [1 << rng.choice((0, 0, 3)) for _ in range(blocks)]
    residue = [rng.randrange(m) for m in modulus]
    table = []
    for member in range(members):
        cuts = sorted(rng.sample(range(sections + 1), 2))
        table += [member, *cuts]
    scale = rng.choice((1, 1 << 31, 1 << 55))
    return [
        column(modulus),
        column(residue),
        column(r if rng.random() < 0.1 else -1 for r in residue),
        column(block, INT32),
        column(0 if single else scale * rng.randint(0, 4) for _ in range(members)),
        column(scale * rng.randint(1, 9) for _ in range(members)),
        np.array([float(rng.randint(0, 9)) for _ in range(members)]),
        rows(table, 3),
        sections,
    ]


def canonical_question(rng: Random) -> list[Any]:
    rules = _core.CanonicalRules()
    for name in RULES:
        setattr(rules, name, rng.random() < 0.7)
    return [
        rng.choice((0, 12, 1 << 36, 1 << 60)),
        rng.choices(list(_core.SearchKey), k=rng.randint(0, 4)),
        rng.choice((0, 5, 3000)),
        rng.choice((0, 0, 500)),
        rng.randrange(1 << 32),
        rules,
        seconds(rng),
    ]


RULES = ("dominance", "passed_over", "lowest", "identical", "split", "memory")


def graph(case: Case) -> None:
    drawn = Graph(case.rng)
    made = case.call("Graph", _core.Graph, *drawn.columns)
    if made is None:
        return
    for name in rng_sample(case, SAFETY):
        case.call(name, getattr(_core, name), made)
    search = case.call("AntichainSearch", _core.AntichainSearch, made, drawn.size)
    if search is None:
        return
    for _ in range(2):
        case.call("AntichainSearch.run", _core.AntichainSearch.run, search, seconds(case.rng))
    if case.rng.random() < 0.2:
        search = _core.AntichainSearch(made, drawn.size)
        case.together("AntichainSearch.run", _core.AntichainSearch.run, search, 1.0)


SAFETY = (
    "unsafe_by_ancestors",
    "unsafe_by_last_ancestors",
    "unsafe_by_streams",
    "unsafe_by_clocks",
)


def rng_sample(case: Case, names: tuple[str, ...]) -> list[str]:
    return case.rng.sample(names, case.rng.randint(1, len(names)))


def bit_rows(case: Case) -> None:
    drawn = Placed(case.rng)
    case.call("rows_from_pairs", _core.rows_from_pairs, drawn.tensors, drawn.pairs)
    made, other = case.any(_core.BitRows), case.any(_core.BitRows)
    if made is None or made.tensors > 2000:
        return
    case.call("BitRows.matrix", _core.BitRows.matrix, made)
    case.call("BitRows.equals", _core.BitRows.equals, made, other)
    case.call("BitRows.tensors", _core.BitRows.tensors.__get__, made)  # type: ignore[attr-defined]
    case.call("BitRows.bytes", _core.BitRows.bytes.__get__, made)  # type: ignore[attr-defined]


def homosize(case: Case) -> None:
    host, guests = requests(case.rng, 1), requests(case.rng, 0)
    address = column(case.rng.choice((0, 512, 1 << 30)) for _ in host[0])
    within = case.rng.random() < 0.5
    case.call(
        "fuse_local_plans",
        _core.fuse_local_plans,
        *host,
        address,
        *guests,
        within,
        seconds(case.rng),
    )
    case.call("memory_layers", _core.memory_layers, *guests[1:])
    flags = [case.rng.random() < 0.5 for _ in range(2)]
    ordered = requests(case.rng, 0, by_size=True)
    case.call("plan_in_layers", _core.plan_in_layers, *ordered, *flags, seconds(case.rng))


def instance(case: Case) -> None:
    rng, drawn = case.rng, Placed(case.rng)
    case.call("section_ranges", _core.section_ranges, drawn.tensors, drawn.segments)
    blocks = case.call("Blocks", _core.Blocks, *drawn.columns)
    if blocks is None:
        return
    unsafe = _core.rows_from_pairs(drawn.tensors, drawn.pairs)
    ordered = _core.Graph(*Graph(rng, drawn.tensors).columns)
    makers = (
        ("Instance.from_segments", _core.Instance.from_segments, drawn.segments),
        ("Instance.from_rows", _core.Instance.from_rows, unsafe),
        ("Instance.from_graph", _core.Instance.from_graph, ordered),
    )
    for name, maker, safety in makers:
        made = case.call(name, maker, drawn.size, blocks, safety)
        if made is None:
            continue
        kind = _core.Instance
        case.call("Instance.with_rows", kind.with_rows, made)
        case.call("Instance.conflicting_pins", kind.conflicting_pins, made)
        case.call("Instance.unsafe", kind.unsafe, made, *(rng.randint(0, 9) for _ in range(2)))
        case.call("Instance.unsafe_with", kind.unsafe_with, made, rng.randint(0, 9))
        case.call("Instance.unsafe_degrees", kind.unsafe_degrees, made)
        case.call("Instance.unsafe_pairs", kind.unsafe_pairs, made)
        first, order = rng.randint(0, 9), rng.sample(range(drawn.tensors), drawn.tensors)
        case.call("Instance.grow_clique", kind.grow_clique, made, first, column(order))
        placements(case, made, drawn)


def placements(case: Case, made: Any, drawn: Placed) -> None:
    rng = case.rng
    order = column(rng.sample(range(drawn.blocks), drawn.blocks), INT32)
    limit = rng.choice((0, 1 << 20, _core.NO_LIMIT))
    for name in ("place_single_object", "place_many_objects"):
        case.call(
            name, getattr(_core, name), made, order, rng.choice(list(_core.Fit)),
            rng.choice(list(_core.ChainRule)), limit, seconds(rng),
        )  # fmt: skip
    case.call(
        "search_orders", _core.search_orders, made, order[: rng.randint(0, drawn.blocks)], limit,
        rng.choice((0, 10, 200)), rng.getrandbits(64), seconds(rng),
    )  # fmt: skip
    case.call(
        "beam_over_skylines", _core.beam_over_skylines, made, limit,
        rng.choice((limit, 0, _core.NO_LIMIT)), rng.choice((-1, 0, 1, 9)),
        rng.choice((0, 10, 200)), rng.getrandbits(64), seconds(rng),
    )  # fmt: skip
    reals = np.array([rng.uniform(-2, 2) for _ in range(drawn.blocks)])
    case.call(
        "search_fills", _core.search_fills, made,
        np.array([rng.uniform(-1, 2) for _ in range(rng.choice((0, 6, 6, 6, 7)))]),
        reals[: rng.choice((drawn.blocks, rng.randint(0, drawn.blocks)))],
        rng.choice((limit, -1, -_core.NO_LIMIT - 1)), rng.choice((-1, 0, 1, 20)),
        rng.getrandbits(64), seconds(rng),
    )  # fmt: skip
    offsets = column(rng.choice((-1, 0, 512, 1 << 60)) for _ in range(drawn.tensors))
    block = rng.randint(0, max(drawn.blocks - 1, 0))
    case.call("forbidden_starts", _core.forbidden_starts, made, offsets, block, rng.choice((0, 5)))
    if rng.random() < 0.1:
        case.together(
            "place_single_object", _core.place_single_object, made, order, _core.Fit.FIRST,
            _core.ChainRule.EXACT, limit, 1.0,
        )  # fmt: skip


def canonical(case: Case) -> None:
    problem = case.call(
        "SearchProblem", _core.SearchProblem, *search_columns(case.rng, single=True)
    )
    if problem is None:
        return
    search = case.call("CanonicalSearch", _core.CanonicalSearch, problem, seconds(case.rng))
    if search is None:
        return
    for _ in range(2):
        question = canonical_question(case.rng)
        decide(case, "CanonicalSearch.decide", _core.CanonicalSearch.decide, search, *question)


def disjunctive(case: Case) -> None:
    rng = case.rng
    problem = case.call("SearchProblem", _core.SearchProblem, *search_columns(rng, single=False))
    if problem is None:
        return
    search = case.call("DisjunctiveSearch", _core.DisjunctiveSearch, problem, seconds(rng))
    if search is None:
        return
    question = [
        rng.choice((0, 12, 1 << 36, 1 << 60)), rng.choice((0, 5, 3000)),
        *(rng.random() < 0.5 for _ in range(2)), seconds(rng),
    ]  # fmt: skip
    decide(case, "DisjunctiveSearch.decide", _core.DisjunctiveSearch.decide, search, *question)


def decide(case: Case, name: str, method: Callable[..., Any], *arguments: Any) -> None:
    decision = case.call(name, method, *arguments)
    if decision is not None:
        case.call("Decision", read, decision)
        case.call("SearchCounters", read, decision.counters)
    if case.rng.random() < 0.1:
        case.together(name, method, *arguments[:-1], 0.2)


def read(made: object) -> list[object]:
    """Return every property of an object."""
    return [getattr(made, name) for name in properties(type(made))]


def properties(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if inspect.isdatadescriptor(value)]


def pickles(case: Case) -> None:
    data = pickle.dumps(drawn_value(case.rng, 3), case.rng.randint(2, 5))
    limits = [case.rng.choice((0, 5, 1 << 20)) for _ in range(3)]
    case.call("find_pickle_fault", _core.find_pickle_fault, data, *limits)


def drawn_value(rng: Random, depth: int) -> object:
    """Return plain containers of plain values."""
    kind = rng.randrange(5 if depth else 2)
    inner = [drawn_value(rng, depth - 1) for _ in range(rng.randint(0, 4))] if kind > 1 else []
    plain = rng.choice((None, True, 1.5, "word", b"bytes", rng.getrandbits(200), -5))
    return (plain, plain, inner, tuple(inner), dict(zip("abcd", inner, strict=False)))[kind]


def check(case: Case) -> None:
    drawn = Placed(case.rng)
    offset = column(case.rng.choice((0, 5, 1 << 20, 1 << 62)) for _ in range(drawn.tensors))
    case.call(
        "find_overlap_in_time", _core.find_overlap_in_time, offset, drawn.size, drawn.segments
    )
    if case.rng.random() < 0.1:
        case.together(
            "find_overlap_in_time", _core.find_overlap_in_time, offset, drawn.size, drawn.segments
        )
    graph = Graph(case.rng)
    safety = case.call("DescendantSafety", _core.DescendantSafety, *graph.columns)
    if safety is not None:
        offset = column(case.rng.choice((0, 5, 1 << 20)) for _ in range(graph.tensors))
        case.call(
            "DescendantSafety.find_overlap", _core.DescendantSafety.find_overlap, safety, offset,
            graph.size,
        )  # fmt: skip


def reorder(case: Case) -> None:
    rng = case.rng
    drawn = Graph(rng)
    stream, *arcs = drawn.columns
    problem = case.call("OrderProblem", _core.OrderProblem, len(stream), *arcs, drawn.size)
    if problem is None:
        return
    given = column(range(len(stream)), INT32)
    case.call("OrderProblem.peak", _core.OrderProblem.peak, problem, given)
    case.call("OrderProblem.forced_bytes", _core.OrderProblem.forced_bytes, problem, seconds(rng))
    order = case.call(
        "OrderProblem.order_by_growth", _core.OrderProblem.order_by_growth, problem,
        rng.random() < 0.5, seconds(rng),
    )  # fmt: skip
    start = given if order is None or rng.random() < 0.5 else order
    floor, limit = (rng.choice((-1, 0, 512, 1 << 60)) for _ in range(2))
    steps = rng.choice((-1, 0, 1, 100))
    search = case.call("DownSetSearch", _core.DownSetSearch, problem)
    walk = case.call("OrderWalk", _core.OrderWalk, problem, start, floor, rng.getrandbits(64))
    if search is not None:
        case.call(
            "DownSetSearch.run", _core.DownSetSearch.run, search, floor, limit, steps, seconds(rng)
        )
    if walk is not None:
        case.call("OrderWalk.run", _core.OrderWalk.run, walk, steps, seconds(rng))
    columns = case.call("GraphColumns", _core.GraphColumns, *drawn.columns, drawn.size)
    if columns is None:
        return
    streams = case.call("StreamOrderSearch", _core.StreamOrderSearch, problem, columns)
    if streams is not None:
        case.call(
            "StreamOrderSearch.run", _core.StreamOrderSearch.run, streams, floor, limit, steps,
            seconds(rng),
        )  # fmt: skip
    walk = case.call(
        "StreamWalk", _core.StreamWalk, problem, columns, start, floor, rng.getrandbits(64)
    )
    if walk is not None:
        case.call("StreamWalk.run", _core.StreamWalk.run, walk, steps, seconds(rng))
    for found in (search, walk, streams):
        if found is not None:
            case.call("properties of an order", read_properties, found)


def budget(case: Case) -> None:
    rng = case.rng
    drawn = Graph(rng)
    stream, producer, offsets, consumers, _ = drawn.columns
    units = rng.randint(1, max(1, len(stream)))
    step = case.call(
        "Step", _core.Step, len(stream), producer, offsets, consumers, drawn.size,
        column([rng.randrange(units + rng.randrange(2)) for _ in stream], INT32),
        np.array([rng.choice((0.0, 1.0, -1.0, math.inf, math.nan)) for _ in stream]),
        np.array([rng.randrange(2) for _ in range(units)], dtype=np.uint8),
        np.array([rng.randrange(2) for _ in drawn.size], dtype=np.uint8),
        rng.choice((0.0, 1e-3, -1.0, math.nan)), rng.randint(-1, len(stream) + 1),
    )  # fmt: skip
    if step is None:
        return
    flags = [
        np.array([rng.randrange(2) if rng.random() < 0.5 else 0 for _ in range(count)], np.uint8)
        for count in (units + rng.randrange(2), len(drawn.size))
    ]
    limit = rng.choice((-1, 0, 512, 1 << 60))
    sequence = case.call("Step.late_sequence", _core.Step.late_sequence, step, *flags)
    entries = len(stream) + 2 * len(drawn.size)
    drawn_entries = [rng.randint(-1, entries) for _ in range(rng.randrange(9))]
    for listed in (sequence, column(drawn_entries, INT32)):
        if listed is not None:
            case.call("Step.cost", _core.Step.cost, step, listed, limit)
            case.call("Step.live_bytes", _core.Step.live_bytes, step, listed)
    walk = case.call("RepeatWalk", _core.RepeatWalk, step, *flags, limit, rng.getrandbits(64))
    if walk is not None:
        moves, warmth, coolness = rng.choice((-1, 0, 1, 100)), rng.random(), rng.random()
        case.call("RepeatWalk.run", _core.RepeatWalk.run, walk, moves, warmth, coolness,
                  seconds(rng))  # fmt: skip
        case.call("properties of a walk", read_properties, walk)


def read_properties(found: Any) -> None:
    for name in properties(type(found)):
        getattr(found, name)


# What each call reaches; a name that nobody lists fails a test.
CALLS: dict[Callable[[Case], None], tuple[str, ...]] = {
    graph: (
        "Graph", *SAFETY, "AntichainSearch", "AntichainSearch.run", "MOST_TABLE_BYTES",
    ),
    bit_rows: (
        "rows_from_pairs", "BitRows", "BitRows.matrix", "BitRows.equals", "BitRows.tensors",
        "BitRows.bytes",
    ),
    homosize: ("fuse_local_plans", "memory_layers", "plan_in_layers"),
    instance: (
        "section_ranges", "Blocks", "Instance", "Instance.from_segments", "Instance.from_rows",
        "Instance.from_graph",
        "Instance.with_rows", "Instance.conflicting_pins", "Instance.unsafe",
        "Instance.unsafe_with", "Instance.unsafe_degrees", "Instance.unsafe_pairs",
        "Instance.grow_clique", "place_single_object",
        "place_many_objects", "search_orders",
        "beam_over_skylines", "search_fills", "FILL_REASONS", "forbidden_starts", "NO_LIMIT", "Fit",
        "ChainRule",
    ),
    canonical: (
        "SearchProblem", "CanonicalSearch", "CanonicalSearch.decide", "CanonicalRules",
        *(f"CanonicalRules.{rule}" for rule in RULES), "SearchKey", "Verdict",
        "MOST_MEMBERS", "Decision", "Decision.tree", "Decision.verdict", "Decision.offsets",
        "Decision.counters",
        "SearchCounters",
        *(f"SearchCounters.{name}" for name in properties(_core.SearchCounters)),
    ),
    disjunctive: ("DisjunctiveSearch", "DisjunctiveSearch.decide"),
    pickles: ("find_pickle_fault",),
    reorder: (
        "OrderProblem", "OrderProblem.peak", "OrderProblem.forced_bytes",
        "OrderProblem.order_by_growth", "OrderVerdict",
        *(
            f"{kind.__name__}{part}"
            for kind in (
                _core.DownSetSearch, _core.OrderWalk, _core.StreamOrderSearch, _core.StreamWalk,
            )
            for part in ("", ".run", *(f".{name}" for name in properties(kind)))
        ),
        "GraphColumns",
    ),
    budget: (
        "Step", "Step.late_sequence", "Step.cost", "Step.live_bytes", "RepeatWalk",
        "RepeatWalk.run", *(f"RepeatWalk.{name}" for name in properties(_core.RepeatWalk)),
    ),
    check: ("find_overlap_in_time", "DescendantSafety", "DescendantSafety.find_overlap"),
}  # fmt: skip
