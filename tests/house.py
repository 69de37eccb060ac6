"""Counts each room of the house; ``house.toml`` holds the largest size that each may have.

``python -m tests.house`` lowers the entries to what is there. Only people raise them.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.repository import ROOT

HOUSE = ROOT / "house.toml"
PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation")
KINDS = ("python", "cpp", "tests", "names", "options")
HEAD = """\
# The most lines of Python, C++ and tests, public names of modules, and options of commands that a
# room may have. A test holds it. `python -m tests.house` lowers entries. Who raises one adds a line
# with the reason to CHANGELOG.md.
"""

Sizes = Mapping[str, Mapping[str, int]]


def count_rooms(root: Path = ROOT) -> dict[str, Counter[str]]:
    """Return what each room has, by its folder: a package, or a folder of a package."""
    rooms: dict[str, Counter[str]] = {}
    for package in PACKAGES:
        for folder, kind in ((root / package, "python"), (root / "tests" / package, "tests")):
            for path in _sources(folder):
                below = path.relative_to(folder).parts
                room = package if len(below) == 1 else f"{package}/{below[0]}"
                text = path.read_text(encoding="utf-8")
                counts = rooms.setdefault(room, Counter())
                is_python = path.suffix == ".py"
                counts[kind if is_python or kind == "tests" else "cpp"] += text.count("\n")
                if is_python and kind == "python":
                    counts["names"] += sum(_public_names(ast.parse(text)))
                    counts["options"] += sum(_options(ast.parse(text)))
    return rooms


def read_house(path: Path = HOUSE) -> dict[str, dict[str, int]]:
    """Return the entries of the file."""
    entries: dict[str, dict[str, int]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return entries


def too_large(rooms: Sizes, entries: Sizes) -> list[str]:
    """Return a line for each number that is above its entry, and for each room without entries."""
    return [
        f"{room}: at most {entries.get(room, {}).get(kind, 0):,} of {kind}, found {found:,}"
        for room, counts in sorted(rooms.items())
        for kind, found in sorted(counts.items())
        if found > entries.get(room, {}).get(kind, 0)
    ]


def lowered(rooms: Sizes, entries: Sizes) -> str:
    """Return the file with each entry lowered to what is there; rooms that are gone have none."""
    tables = [
        f'["{room}"]\n'
        + "".join(
            f"{kind} = {min(entries[room].get(kind, 0), rooms[room].get(kind, 0))}\n"
            for kind in KINDS
        )
        for room in sorted(entries)
        if room in rooms
    ]
    return HEAD + "\n" + "\n".join(tables)


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".h", ".cpp") and "__pycache__" not in path.parts:
            yield path


def _public_names(module: ast.Module) -> Iterator[bool]:
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield not node.name.startswith("_")


def _options(module: ast.Module) -> Iterator[bool]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr == "Option"


if __name__ == "__main__":
    HOUSE.write_text(lowered(count_rooms(), read_house()), encoding="utf-8")
