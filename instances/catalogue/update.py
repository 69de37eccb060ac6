"""Bring the catalogue up to date with the files: facts derived again, better plans recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from instances.catalogue.best_plan import (
    DEFAULT_PLANNERS,
    DEFAULT_TIME_LIMIT_SECONDS,
    find_best,
    merge,
)
from instances.catalogue.catalogue_entry import Best, CatalogueEntry, Facts, Kind
from instances.catalogue.facts import facts_of
from instances.catalogue.instance_name import name_of_file
from planners.files.problem_file import read_gapless_json
from planners.model.problem import Problem, Safety

BOUND_SECONDS = 60.0

# Fields of an instance's origin that say what made it.
VERSION_FIELDS = ("gapless", "python", "numpy", "torch", "transformers", "executorch")


def instance_files(folder: Path) -> dict[str, Path]:
    """Return the instance files right in a folder by name, which has no suffix."""
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        name = name_of_file(path)
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

    Origin, tags and notes stay, and so does the best plan where the instance is the same and none
    better is found.
    """
    problem = read_gapless_json(path)
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
        kind=_kind(problem),
        file=path.name,
        committed=committed,
        origin=str(origin.get("model") or origin.get("generator") or problem.name),
        command=str(origin.get("command", "")),
        made_with=", ".join(made_with),
        tags=_tags(facts),
        notes="",
        facts=facts,
        best=best,
    )


def _tags(facts: Facts) -> tuple[str, ...]:
    """Return what is special about an instance, for those who look for such."""
    special = {
        "streams": facts.streams > 1,
        "chains": facts.chains > 0,
        "capacity": facts.capacity is not None,
        "known-optimum": facts.optimum is not None,
    }
    return tuple(tag for tag, holds in special.items() if holds)


def _kind(problem: Problem) -> Kind:
    if "generator" in problem.origin:
        return "synthetic"
    if "compiler" in problem.origin:
        return "lowered program"
    return "extracted graph" if problem.safety is Safety.GRAPH else "extracted trace"
