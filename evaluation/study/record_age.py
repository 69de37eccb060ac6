"""The age of a study's records, and the planners whose code or answers changed since then."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from evaluation.study.kinds import KINDS
from evaluation.study.record import Record
from evaluation.study.record_changes import changes_between
from evaluation.study.records_file import read_records
from evaluation.study.study import Study
from planners.errors import GaplessError
from planners.recompute import choose_planners
from planners.registry import Chosen, choose, choose_online

ROOT = Path(__file__).parents[2]
# The records that come with the sources.
COMMITTED = ROOT / "evaluation" / "records"
# Changed planners that a line names.
MOST_NAMED = 8
UNKNOWN = "changes since then are unknown, because this history lacks the commit"
# The pages of studies without a GPU, and of those on one.
PAGES = (ROOT / "docs" / "studies", ROOT / "docs" / "benchmarks")

# The package of the allocator below a training.
PLANNED_MEMORY = "gpu_runtime.allocator"
# The folder of a header that is included.
_INCLUDED = re.compile(r'^#include "(\w+)/', re.MULTILINE)
# A comment of C++, or, as group 1, a literal, in which no comment begins.
_CPP_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)


def age_of_records(study: Study, results: Path) -> str:
    """Return a line: day and commit of the last record, and which planners changed since.

    Without a file of records, day and commit come from the committed page of the study. Whether a
    planner answers otherwise is said by the regression records of that commit and those of now.
    """
    found = _last_record(f"{study.name}.jsonl", results) or _on_page(f"{study.name}.md")
    if found is None:
        return "no records"
    kept, moment, commit = found
    made = f"{kept} of {moment:.10}, commit {commit or 'unknown'}"
    known = commit.partition("+")[0]
    is_known = bool(known) and _git("cat-file", "-e", known) is not None
    # Changes since the last commit before that moment are changes since the records as well.
    base = known if is_known else _git("rev-list", "-1", f"--before={moment}", "HEAD")
    if not base:
        return f"{made}; {UNKNOWN}"
    paths = {planner: _paths_of(module) for planner, module in _planners(study).items()}
    paths |= {plugin.name: (str(plugin.path),) for plugin in study.plugins}
    in_records, otherwise = _answers_since(base)
    # A planner answers otherwise as well where only code that it shares with others changed.
    changed = [
        name for name, its in paths.items() if name in otherwise or (its and _differ(base, its))
    ]
    if not changed:
        return f"{made}; {'nothing changed' if is_known else UNKNOWN}"
    says = (
        ("other answers in the regression records", otherwise),
        ("changed, and not in those records", set(changed) - in_records),
        ("changed, with the same answers there", in_records - otherwise),
    )
    named = [(what, [name for name in changed if name in its]) for what, its in says]
    return "; ".join([made, *(f"{what}: {_listed(names)}" for what, names in named if names)])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


@cache
def _answers_since(commit: str) -> tuple[set[str], set[str]]:
    """Return the planners in the regression records of a commit, and those that changed there."""
    path = COMMITTED / "regression.jsonl"
    text = _git("show", f"{commit}:{path.relative_to(ROOT)}") or ""
    old = [Record.from_json(line, f"{path.name} of {commit}") for line in text.splitlines()]
    changes = changes_between(old, read_records(path)).found if old else ()
    return {record.planner for record in old}, {change.label for change in changes}


def _last_record(name: str, results: Path) -> tuple[str, str, str] | None:
    path = next((path for folder in (results, COMMITTED) if (path := folder / name).exists()), None)
    records = [] if path is None else list(read_records(path))
    if not records:
        return None
    last = max(records, key=lambda record: record.moment)
    return "records", last.moment.isoformat(), last.commit or ""


def _on_page(name: str) -> tuple[str, str, str] | None:
    page = next((path for folder in PAGES if (path := folder / name).exists()), None)
    lines = page.read_text(encoding="utf-8").splitlines() if page else []
    # The other lines may name days and commits of something else.
    text = next((line for line in lines if line.startswith("Made ")), "")
    days = re.findall(r"20\d\d-\d\d-\d\d", text)
    commits = re.findall(r"commit ([0-9a-f]{7,40}(?:\+changes)?)", text)
    return ("page from records", max(days), commits[-1] if commits else "") if days else None


def _planners(study: Study) -> dict[str, str]:
    """Return the module of each planner; planners of the study's own files are not executed."""
    found: dict[str, str] = {}
    for trained in study.training:
        for allocator in map(str, trained.allocators):
            name = allocator.partition(":")[0]
            found[name] = PLANNED_MEMORY if name == "planned" else _modules().get(name, "")
    named = chain.from_iterable(grid.named.items() for grid in study.grids)
    for kind, text in ((kind, text) for kind, texts in named for text in texts):
        with suppress(GaplessError):
            names = [its.planner for its in KINDS[kind].choose(text)]
            if kind == "budget":
                # Planners of both kinds can have one name.
                limits = choose_planners(",".join(names))
                found |= {f"{its.name} under a limit": its.module for its in limits}
            else:
                found |= {name: _modules().get(name, "") for name in names}
    return found


@cache
def _modules() -> dict[str, str]:
    chosen: Iterable[Chosen[Any]] = chain(choose("*"), choose_online("*"))
    return {its.info.name: _function(its.info.build).__module__ for its in chosen}


def _function(build: object) -> object:
    """Return the function of a planner, without the parameters that are bound to it."""
    while isinstance(build, partial):
        build = build.args[0] if build.func is partial else build.func
    return build


def _paths_of(module: str) -> tuple[str, ...]:
    """Return the folders of a planner's Python and C++ code; none if it is a third party's."""
    file = Path(str(import_module(module).__file__)) if module else Path()
    if ROOT not in file.parents:
        return ()
    core = ROOT / file.relative_to(ROOT).parts[0] / "core" / "src"
    own = core / file.parent.name
    return str(file.parent), *map(str, _included(own) if own.is_dir() else [core])


def _included(folder: Path) -> list[Path]:
    """Return a folder of C++ code, and those that it includes."""
    found = [folder]
    for each in found:
        texts = (path.read_text(encoding="utf-8") for path in sorted(each.iterdir()))
        names = dict.fromkeys(chain.from_iterable(map(_INCLUDED.findall, texts)))
        found += [its for name in names if (its := folder.parent / name) not in found]
    return found


@cache
def _differ(commit: str, paths: tuple[str, ...]) -> bool:
    """Return True if the code of any file changed since a commit; comments do not count."""
    names = _git("diff", "--name-only", "--no-renames", commit, "--", *paths)
    return names is None or any(_computes_otherwise(commit, name) for name in names.splitlines())


@cache
def _computes_otherwise(commit: str, name: str) -> bool:
    before, path = _git("show", f"{commit}:{name}"), ROOT / name
    if before is None or not path.is_file():
        return True
    return _without_words(name, before) != _without_words(name, path.read_text(encoding="utf-8"))


def _without_words(name: str, text: str) -> str:
    """Return the code of a file without its comments, docstrings and layout."""
    if not name.endswith(".py"):
        return " ".join(_CPP_COMMENT.sub(lambda found: found[1] or " ", text).split())
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            del body[0]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _git(*arguments: str) -> str | None:
    """Return the output of git, or None if git fails or these sources are not a checkout."""
    try:
        return subprocess.run(
            ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
