"""The patches for other programs are well-formed and small, and use what PlannedMemory has."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import gpu_runtime
from gpu_runtime import PlannedMemory
from tests.repository import ROOT

PATCHES = sorted((ROOT / "docs" / "upstream").glob("*.patch"))
MOST_CHANGED_LINES = 60
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# The patches have an installed PlannedMemory under these names: a variable, and a function.
MEMORIES = {"memory", "planned_memory"}


def hunks_of(patch: str) -> list[tuple[re.Match[str], list[str]]]:
    """Return the header and the lines of each hunk, whose files have both names."""
    hunks: list[tuple[re.Match[str], list[str]]] = []
    missing = (0, 0)
    lines = iter(patch.splitlines())
    for line in lines:
        if missing > (0, 0):
            assert line[:1] in (" ", "+", "-"), line
            hunks[-1][1].append(line)
            missing = (missing[0] - (line[0] != "+"), missing[1] - (line[0] != "-"))
            assert min(missing) >= 0, line
        elif header := HUNK.fullmatch(line):
            hunks.append((header, []))
            missing = (int(header[1] or 1), int(header[2] or 1))
        else:
            old, new = re.fullmatch(r"--- a/(\S+)", line), next(lines, "")
            assert old, line
            assert new == f"+++ b/{old[1]}"
    assert missing == (0, 0), "the last hunk is too short"
    return hunks


def added_code(lines: list[str]) -> list[str]:
    """Return the runs of added lines of a hunk, without their indent."""
    marked = "\n".join(line[1:] if line[0] == "+" else "\0" for line in lines)
    runs = re.split(r"(?:^|\n)\0(?=\n|$)", marked)
    return [textwrap.dedent(run).strip("\n") for run in runs if run.strip()]


def parsed(code: str) -> ast.AST | None:
    """Return the tree of a run of lines; None if it is a part of a longer statement."""
    for whole in (code, f"{code}\n    pass", f"f({code})"):
        try:
            return ast.parse(whole)
        except SyntaxError:
            continue
    return None


def is_memory(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return name in MEMORIES and ast.unparse(node) != "config.training.planned_memory"


def wrong_uses(tree: ast.AST) -> list[str]:
    """Return what the code takes from the package, or calls at a memory, that is not there."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpu_runtime"):
            names = {alias.name for alias in node.names}
            wrong += sorted(names - set(gpu_runtime.__all__))
            wrong += [str(node.module)] if node.module != "gpu_runtime" else []
        elif isinstance(node, ast.Attribute) and is_memory(node.value):
            is_there = hasattr(PlannedMemory, node.attr) and not node.attr.startswith("_")
            wrong += [] if is_there else [node.attr]
        if isinstance(node, ast.Call):
            called: object = None
            if ast.unparse(node.func) == "PlannedMemory":
                called = PlannedMemory
            elif isinstance(node.func, ast.Attribute) and is_memory(node.func.value):
                called = getattr(PlannedMemory, node.func.attr, None)
            if callable(called):
                known = inspect.signature(called).parameters
                wrong += [word.arg or "**" for word in node.keywords if word.arg not in known]
    return wrong


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_patch_is_well_formed_and_small(path: Path) -> None:
    hunks = hunks_of(path.read_text(encoding="utf-8"))
    changed = [line for _, lines in hunks for line in lines if line[0] != " "]
    assert 0 < len(changed) <= MOST_CHANGED_LINES


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_patch_uses_what_planned_memory_has(path: Path) -> None:
    code = [
        run
        for _, lines in hunks_of(path.read_text(encoding="utf-8"))
        for run in added_code(lines)
    ]  # fmt: skip
    trees = [(run, parsed(run)) for run in code]
    # Comments and arguments aside, each run of added lines is code by itself.
    assert [run for run, tree in trees if tree is None] == []
    assert [word for _, tree in trees if tree is not None for word in wrong_uses(tree)] == []
    assert "from gpu_runtime import PlannedMemory" in "\n".join(code)


def test_there_is_a_patch_for_each_program() -> None:
    assert [path.stem for path in PATCHES] == ["torchtitan", "verl"]


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("memory.steps()", ["steps"]),
        ("planned_memory().pause(kept='host')", ["kept"]),
        ("self.planned_memory._pausing()", ["_pausing"]),
        ("PlannedMemory(gpu=0)", ["gpu"]),
        ("from gpu_runtime import MemoryPlan", ["MemoryPlan"]),
        ("planned_memory().pause(keep='host')", []),
    ],
)
def test_a_wrong_use_is_named(code: str, wrong: list[str]) -> None:
    assert wrong_uses(ast.parse(code)) == wrong


@pytest.mark.parametrize("count", ["1,2 +1,2", "1,1 +1,1", "1,2 +1,4"])
def test_a_wrong_count_is_found(count: str) -> None:
    assert hunks_of("--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n x\n+y\n z\n")
    with pytest.raises(AssertionError):
        hunks_of(f"--- a/f\n+++ b/f\n@@ -{count} @@\n x\n+y\n z\n")
