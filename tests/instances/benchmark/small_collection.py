"""A catalogue with an instance of every kind, its folder to take away, and results for it."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

from instances.catalogue.catalogue_entry import Best, CatalogueEntry
from instances.catalogue.catalogue_file import write_catalogue
from instances.catalogue.update import facts_of
from instances.formats.minimalloc_csv import write_minimalloc_csv
from instances.synthetic import random_lifetimes, training_graph
from planners import Problem, place, read_problem, write_problem
from planners.files.problem_file import problem_digest
from tests.instances.catalogue.entries import entry

# Peak 8 if tensors 0 and 1 share bytes, 4 + 4 + 2 if none do. The best plan has 6.
TOY = Problem([4, 4, 2], [0, 1, 0], [1, 2, 2], alignment=[2, 1, 2], name="toy")
TOY_BEST = [0, 0, 4]
TOY_NAIVE = [0, 4, 8]


def collection() -> dict[str, Problem]:
    """Return problems that lifetimes, gaps, pins, a graph with chains, and pairs decide."""
    return {
        "gaps": Problem([4, 4], [0, 1], [5, 3], gaps=[(0, 1, 3)]),
        "graph": training_graph(30, streams=3, chains=2),
        "pairs": Problem([4, 2, 2], unsafe_pairs=[(0, 1), (0, 2)]),
        "pins": Problem([4, 4], [0, 0], [2, 2], pinned={1: 0}),
        "toy": TOY,
        "traced": random_lifetimes(20),
    }


def recorded(name: str, problem: Problem, *, peak: int, **changes: Any) -> CatalogueEntry:
    """Return an entry whose best known plan has this peak."""
    facts = facts_of(problem)
    bound = max(facts.bounds.values())
    status = "optimal" if peak == bound else "feasible"
    best = Best(peak, status, bound, "lifetime", "greedy-size-first", "0.1.0", "0123456789ab")
    return entry(name, command="", file=f"{name}.json", facts=facts, best=best, **changes)


def write_collection(folder: Path) -> Path:
    """Write the instances and their catalogue; one instance is published and lies elsewhere."""
    entries = []
    for name, problem in collection().items():
        write_problem(problem.with_name(name), folder / f"{name}.json")
        entries.append(recorded(name, problem, peak=10 if name == "toy" else peak_of(problem)))
    theirs = random_lifetimes(9)
    (folder / "theirs").mkdir()
    write_minimalloc_csv(theirs, folder / "theirs" / "foreign.csv")
    read = read_problem(folder / "theirs" / "foreign.csv")
    foreign = recorded("foreign", read, peak=peak_of(read), committed=False, source="somebody")
    entries.append(foreign.__class__(**{**vars(foreign), "file": "foreign.csv"}))
    catalogue = folder / "catalogue.toml"
    write_catalogue(entries, catalogue)
    return catalogue


def peak_of(problem: Problem) -> int:
    return place(problem).peak


def result(name: str, problem: Problem, offsets: list[int], /, **changes: Any) -> dict[str, Any]:
    """Return the line of a results file for a plan; a field that becomes None is left out."""
    peak = max((at + size for at, size in zip(offsets, problem.size.tolist(), strict=True)))
    fields = {
        "instance": name, "digest": problem_digest(problem), "planner": "mine 1", "peak": peak,
        "offsets": offsets, "lower_bound": 1, "seconds": 0.5, "finder": "Ada",
    }  # fmt: skip
    return {key: value for key, value in (fields | changes).items() if value is not None}


def toy_result(offsets: list[int], /, **changes: Any) -> dict[str, Any]:
    return result("toy", TOY, offsets, **changes)


def write_results(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return path


def write_endless(folder: Path) -> Path:
    """Write a pipe, a link to an endless device, and a small file that unfolds to a large one."""
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "device.jsonl").symlink_to("/dev/zero")
    (folder / "unfolds.jsonl").write_bytes(gzip.compress(b"[" + b"[]," * (1 << 22) + b"0]"))
    return folder


def list_of(kit: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of the list in the folder that is taken away, by name."""
    return {row["name"]: row for row in json.loads((kit / "list.json").read_text())["instances"]}
