"""A small valid file of every format that is read: what the mutations begin with."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instances.catalogue.catalogue_file import CATALOGUE
from instances.formats.minimalloc_csv import write_minimalloc_csv
from instances.formats.recorded_trace import write_recorded_trace
from instances.formats.stalloc_text import write_stalloc_text
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.trace_problem import iteration_problem
from planners import Graph, Problem, get, run, write_plan, write_problem
from planners.dynamic.reusable_space import reusable_space
from planners.dynamic.static_part import static_part
from planners.files.certificate_file import certificate_to_fields
from planners.files.json_file import write_fields
from planners.model.certificate import Certificate, CostCertificate
from planners.model.plan import Plan
from tests.instances.formats.structured_problem import STRUCTURED

TRACE = AllocationTrace(
    20, [64, 10, 7, 20, 9, 11], [0, 2, 3, 8, 9, 14], [20, 4, 6, 10, 12, 16],
    [20, 4, 6, 10, 12, 16], address=[512, 1024, 2048, 1024, 2048, 4096],
    stream=[0, 0, 7, 0, 7, 0], pool=[0, 0, 1, 0, 0, 2],
    before=[True, False, False, False, False, False],
    alloc_module=[-1, 0, 1, 0, 1, 1], free_module=[-1, 1, 1, 1, -1, 0],
    module_names=["layers.0.mlp->Mlp", "head->Linear"],
    mark_event=[1, 5, 7, 11, 13, 17],
    mark_phase=[Phase.FORWARD, Phase.BACKWARD] * 3,
    mark_microbatch=[0] * 6, mark_iteration=[0, 0, 1, 1, 2, 2],
    segments=[(0, 0, 4096, 2 << 20, 0), (18, 1, 4096, 2 << 20, 0)],
)  # fmt: skip

LIFETIMES = Problem(
    [64, 32, 0, 128, 5], [0, 1, 2, 2, -3], [4, 3, 5, 6, 2], alignment=[1, 16, 1, 64, 1],
    contiguous=[[0, 1]], pinned={4: 0}, gaps=[(3, 3, 4)], capacity=512,
    tensor_name=["a", "b", "c", "d", "ä中"], name="everything",
    origin={"model": "none", "seed": 3, "share": 0.5, "made": True},
    phase_start=[-1, 0, 0, 1, 1], phase_end=[0, 1, 2, 2, 2],
    layer_start=[0, 0, 1, 1, -1], layer_end=[0, 1, 1, 1, 0],
    dynamic=[False, True, False, False, False],
)  # fmt: skip
PLAIN = Problem([4, 8, 16, 2], [0, 1, 2, 3], [2, 4, 5, 6], alignment=[1, 4, 1, 2], gaps=[(1, 2, 3)])
GRAPH = Problem(
    [8, 4, 2, 16],
    graph=Graph(
        op=["load", "add", "add", "mul", "sum"], stream=[0, 0, 1, 1, 0], producer=[0, 1, 2, 3],
        consumers=[[1, 2], [3], [2, 3], []], control=[(3, 4)],
    ),
)  # fmt: skip
PAIRS = Problem([3, 5, 7], unsafe_pairs=[(0, 1), (1, 2)], alignment=[1, 2, 4])
# Its plan files are read as well, one of them with the space that it leaves to dynamic tensors.
PLANNED = PLAIN
DYNAMIC = iteration_problem(TRACE, 2, dynamic_modules=["head*"])


def valid_files(folder: Path) -> dict[str, bytes]:
    """Write every file, and return them by name; the name says which reader takes a file."""
    for name, write in _WRITERS.items():
        write(folder / name)
    return {name: (folder / name).read_bytes() for name in _WRITERS}


def _snapshot(path: Path) -> None:
    actions = ("segment_alloc", "alloc", "alloc", "free_requested", "free_completed", "alloc")
    addresses = (4096, 4096, 8192, 4096, 4096, 4096)
    sizes = (2 << 20, 101, 300, 101, 101, 70_000)
    frames = [{"name": "f", "filename": "a.py", "line": 3}]
    events = [
        {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames,
         "time_us": 1 << 50}
        for action, address, size in zip(actions, addresses, sizes, strict=True)
    ]  # fmt: skip
    blocks = [
        {"address": 4096, "size": 70_144, "requested_size": 70_000, "state": "active_allocated"},
        {"address": 1 << 40, "size": 512, "requested_size": 8, "state": "active_pending_free"},
        {"size": 512, "state": "inactive"},
    ]
    segment = {"device": 0, "address": 4096, "total_size": 2 << 20, "stream": 0, "blocks": blocks}
    snapshot = {"segments": [segment], "device_traces": [events, []], "allocator_settings": {}}
    path.write_bytes(pickle.dumps(snapshot, protocol=4))


def _plan(path: Path) -> None:
    write_plan(PLANNED, run(PLANNED, get("greedy-size-first")), path)


def _certificate_of_cost(path: Path) -> None:
    problem = Problem([4, 3], [0, 1], [1, 2], reuse_prices=[(0, 1, 5)], capacity=6)
    rows: list[dict[str, Any]] = [
        {"sets": [[0, 1]], "divisor": 1}, {"sets": [[0, 1]], "tree": [0]}
    ]  # fmt: skip
    proof = CostCertificate(5, [], rows, [0, [1, 1, 5], [1]], Plan([0, 0], 4))
    write_fields(certificate_to_fields(problem, proof), path)


def _certificate(path: Path) -> None:
    proof = Certificate(13, [[0, 1], [1, 2]], [2, 0, 1, 2, 1, 2, 0, 0, 0], Plan([0, 8, 0], 13))
    write_fields(certificate_to_fields(PAIRS, proof), path)


def _plan_with_space(path: Path) -> None:
    result = run(DYNAMIC, get("greedy-size-first"))
    assert result.plan is not None
    static = static_part(DYNAMIC)
    write_plan(DYNAMIC, result, path, reusable_space(DYNAMIC, static.plan_within(result.plan)))


def _catalogue(path: Path) -> None:
    text = CATALOGUE.read_text(encoding="utf-8")
    path.write_text("\n[instance".join(text.split("\n[instance")[:7]), encoding="utf-8")


def _inclusive(path: Path) -> None:
    path.write_text("buffer,begin,end,size,gaps,offset,hint\na,0,4,8,1-2 4-4,0,\nb,3,9,16,,8,7\n")


def _xla(path: Path) -> None:
    path.write_text(
        "BufferAssignment:\nallocation 0: size 8, parameter 0, shape |f32[2]| at ShapeIndex {}:\n"
        " value: <0 x @0> (size=8,offset=0): f32[2]{0}\n"
        "allocation 1: size 24, preallocated-temp:\n"
        " value: <1 a @0> (size=8,offset=0): f32[2]{0}\n"
        " value: <2 b{0} (phi) @0> (size=8,offset=0): f32[2]{0}\n"
        " value: <3 c @0> (size=12,offset=8): f32[3]{0}\n"
        " value: <4 d @0> (size=12,offset=8): f32[3]{0}\n"
        "HloLiveRange (max 9):\n  InstructionSequence:\n    0:x\n  BufferLiveRange:\n"
        "    x{}:0-9\n    a{}:1-3\n    b{0}:5-7\n    c{}:2-4\n    d{}:4-6\n"
        "  Live ranges at 2 (peak):\n"
    )


def _iopddl(path: Path) -> None:
    nodes = {"intervals": [[0, 4], [1, 6], [0, 0]], "costs": [[1], [2, 3], [4]],
             "usages": [[10], [25, 20], [7]]}  # fmt: skip
    edges = {"nodes": [[0, 1]], "costs": [[30, 40]]}
    problem = {"name": "a", "nodes": nodes, "edges": edges, "usage_limit": 50}
    path.write_text(json.dumps({"problem": problem}))


def _dsa_problem(path: Path) -> None:
    path.write_text(json.dumps(STRUCTURED))


def _results(path: Path) -> None:
    line = {"instance": "a", "digest": "sha256:0", "planner": "b", "peak": 4, "offsets": [0, 2],
            "lower_bound": 3, "seconds": 0.5, "finder": "c"}  # fmt: skip
    path.write_text(f"{json.dumps(line)}\n{json.dumps(line | {'lower_bound': None})}\n")


_WRITERS: dict[str, Callable[[Path], None]] = {
    "everything.json": lambda path: write_problem(LIFETIMES, path),
    "graph.json": lambda path: write_problem(GRAPH, path),
    "pairs.json.gz": lambda path: write_problem(PAIRS, path),
    "plain.csv": lambda path: write_minimalloc_csv(PLAIN, path),
    "inclusive.csv": _inclusive,
    "trace.npz": lambda path: write_recorded_trace(TRACE, path),
    "iopddl.json": _iopddl,
    "structured.json": _dsa_problem,
    "xla.txt": _xla,
    "trace.txt": lambda path: write_stalloc_text(TRACE, path),
    "snapshot.pickle": _snapshot,
    "plan.plan": _plan,
    "space.plan": _plan_with_space,
    "proof.certificate": _certificate,
    "cost.certificate": _certificate_of_cost,
    "catalogue.toml": _catalogue,
    "results.jsonl": _results,
}
