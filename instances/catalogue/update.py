"""Bring the catalogue up to date with its files: derive facts again, record better plans."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Collection
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from instances.catalogue.catalogue_entry import (
    CONSTRUCTION,
    GREEDY,
    Best,
    CatalogueEntry,
    Facts,
    Kind,
)
from instances.catalogue.catalogue_file import FOLDER
from instances.catalogue.instance_folders import name_of_file
from planners.compare.comparison import Comparison, compare_planners
from planners.errors import GaplessError
from planners.files.formats import read_problem
from planners.files.problem_file import problem_digest
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.model.problem import Problem, Safety, Scalar
from planners.registry import choose

DEFAULT_PLANNERS = f"{GREEDY},auto"
DEFAULT_TIME_LIMIT_SECONDS = 5.0


def find_best(
    problem: Problem,
    facts: Facts,
    planners: str = DEFAULT_PLANNERS,
    seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    *,
    on_start: Callable[[int, str], None] = lambda _index, _label: None,
) -> Best:
    """Run planners on an instance, whatever its capacity, and return the best plan."""
    asked = problem.with_capacity(None)
    budget = Budget(time_limit_seconds=seconds)
    comparison = compare_planners(asked, choose(planners), budget, on_start=on_start)
    if comparison.interrupted:
        raise KeyboardInterrupt
    _require_valid(comparison)
    if comparison.best is None:
        raise GaplessError(f"{problem.name}: no planner found a plan within {seconds:g} s")
    result = comparison.best.result
    assert result.peak is not None
    best = Best(
        peak=result.peak,
        status=result.status.value,
        lower_bound=result.lower_bound,
        certificate=result.certificate,
        planner=comparison.best.label,
        version=version("gapless"),
        commit=git_commit(),
    )
    return _with_construction(problem.name, best, facts)


def merge(recorded: Best, found: Best) -> Best:
    """Return the record after another search: the plan of the lower peak, the higher bound."""
    best = found if found.peak < recorded.peak else recorded
    other = recorded if best is found else found
    if other.lower_bound > best.lower_bound:
        best = replace(best, lower_bound=other.lower_bound, certificate=other.certificate)
    proven = best.peak == best.lower_bound
    return replace(best, status=(Status.OPTIMAL if proven else Status.FEASIBLE).value)


def git_commit(*also: str) -> str:
    """Return the commit, with ``+changes`` if the planners, or other folders, differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(FOLDER.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        return commit + "+changes" * bool(git("status", "--porcelain", "--", "planners", *also))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _require_valid(comparison: Comparison) -> None:
    for row in comparison.rows:
        if row.result.status is Status.INVALID:
            name = comparison.problem.name
            raise GaplessError(f"{name}: {row.label} is invalid: {row.result.reason}")


def _with_construction(name: str, best: Best, facts: Facts) -> Best:
    if facts.optimum is None:
        return best
    if best.peak < facts.optimum or best.lower_bound > facts.optimum:
        raise GaplessError(
            f"{name}: the optimum by construction is {facts.optimum} bytes, and {best.planner} "
            f"has a plan of {best.peak}, {best.certificate} a bound of {best.lower_bound}"
        )
    if best.lower_bound == facts.optimum:
        return best
    known = replace(best, lower_bound=facts.optimum, certificate=CONSTRUCTION)
    return merge(known, known)


def facts_of(problem: Problem, seconds: float = math.inf) -> Facts:
    """Derive the facts of an instance; a bound that takes longer than the seconds is left out."""
    return Facts(
        digest=problem_digest(problem),
        tensors=problem.tensor_count,
        streams=problem.stream_count,
        chains=len(problem.contiguous),
        naive=problem.naive_bytes,
        bounds={bound.name: bound.bytes for bound in bounds_of(problem, seconds)},
        capacity=problem.capacity,
        optimum=_whole(problem.origin.get("optimum")),
        proof=str(problem.origin.get("proof", "")),
    )


def _whole(value: Scalar | None) -> int | None:
    return value if type(value) is int else None


BOUND_SECONDS = 60.0

# Fields of an instance's origin that say what made it.
VERSION_FIELDS = ("gapless", "python", "numpy", "torch", "transformers", "executorch")


# The benchmarks of others are published as MiniMalloc CSV. Gapless keeps its own as JSON.
PUBLISHED_SUFFIX = ".csv"


def instance_files(folder: Path, published: Collection[str] = ()) -> dict[str, Path]:
    """Return the instance files right in a folder by name, which has no suffix.

    A CSV may also be a plan or a table, so it is taken only if its name is one of the published.
    """
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        name = name_of_file(path)
        if path.suffix == PUBLISHED_SUFFIX and path.stem in published:
            name = path.stem
        if name is not None:
            found[name] = path
    return found


def updated_entry(
    path: Path,
    name: str,
    recorded: CatalogueEntry | None,
    *,
    committed: bool,
    planners: str = DEFAULT_PLANNERS,
    seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_start: Callable[[int, str], None] = lambda _index, _label: None,
) -> CatalogueEntry:
    """Derive the entry of an instance file again, and look for a better plan.

    Origin, tags and notes stay. The best plan stays if the instance is the same and no better plan
    is found.
    """
    problem = read_problem(path)
    facts = facts_of(problem, BOUND_SECONDS)
    found = find_best(problem, facts, planners, seconds, on_start=on_start)
    entry = _described(problem, path, name, facts, found, committed=committed)
    if recorded is None:
        return entry
    entry = replace(
        entry,
        origin=recorded.origin,
        tags=recorded.tags,
        notes=recorded.notes,
        source=recorded.source,
        licence=recorded.licence,
        command=entry.command or recorded.command,
        made_with=entry.made_with or recorded.made_with,
    )
    if recorded.facts.digest == facts.digest:
        return replace(entry, best=merge(recorded.best, found))
    return entry


def _described(
    problem: Problem, path: Path, name: str, facts: Facts, best: Best, *, committed: bool
) -> CatalogueEntry:
    origin = problem.origin
    made_with = [f"{field} {origin[field]}" for field in VERSION_FIELDS if field in origin]
    return CatalogueEntry(
        name=name,
        kind=_kind(problem, path),
        file=path.name,
        committed=committed,
        origin=str(origin.get("model") or origin.get("generator") or problem.name),
        command=str(origin.get("command", "")),
        made_with=", ".join(made_with),
        tags=_tags(facts),
        notes="",
        source="",
        licence="",
        facts=facts,
        best=best,
    )


def _tags(facts: Facts) -> tuple[str, ...]:
    """Return tags for the special features of an instance."""
    special = {
        "streams": facts.streams > 1,
        "chains": facts.chains > 0,
        "capacity": facts.capacity is not None,
        "known-optimum": facts.optimum is not None,
    }
    return tuple(tag for tag, holds in special.items() if holds)


def _kind(problem: Problem, path: Path) -> Kind:
    if path.suffix == PUBLISHED_SUFFIX:
        return "published benchmark"
    if "generator" in problem.origin:
        return "synthetic"
    if "compiler" in problem.origin:
        return "lowered program"
    return "extracted graph" if problem.safety is Safety.GRAPH else "extracted trace"
