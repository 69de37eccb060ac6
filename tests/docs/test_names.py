"""Whatever a page names of this repository is there: paths, files, modules and their members."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.repository import ROOT

PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation", "tests")
FOLDERS = (*PACKAGES, "docs")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

CODE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"python -m (\w+(?:\.\w+)*)")
# Of this repository: what a reader writes is called `my_...` in our pages.
SOURCE_FILE = re.compile(r"(?!my_)\w+\.(py|h|cpp|cu)")

# Names from a published listing and from other projects, which our source does not use.
OTHERS_WORDS = {
    "mem_end",
    "CUDAPluggableAllocator",
    "debug",
    "no_compile",
    "device_module",
    "cv_example",
}


def paths_of(text: str) -> set[str]:
    return {
        code for code in CODE.findall(text)
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]*", code)
    }  # fmt: skip


def files_of(text: str) -> set[str]:
    return {code for code in CODE.findall(text) if SOURCE_FILE.fullmatch(code)}


def dotted_of(text: str) -> set[str]:
    ours = "|".join(PACKAGES)
    written = re.findall(rf"(?<![\w-])((?:{ours})(?:\.\w+)+)", " ".join(CODE.findall(text)))
    imported = re.findall(rf"^(?:from|import) ((?:{ours})[\w.]*)", text, re.MULTILINE)
    commands = [name for name in COMMAND.findall(text) if name.split(".")[0] in PACKAGES]
    return {*written, *imported, *commands}


def identifiers_of(text: str) -> set[str]:
    """Return what is written as an identifier, a call, a chain of members, or an option."""
    written = [code.partition("(")[0] for code in CODE.findall(text)]
    chains = [code for code in written if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", code)]
    members = {
        part for code in chains if not SOURCE_FILE.fullmatch(code) for part in code.split(".")
    }
    options = {flag.replace("-", "_") for flag in re.findall(r"(?<![\w-])--([a-z][\w-]+)", text)}
    return {member for member in members if not member.startswith("my_")} | options


@cache
def words_of_the_source() -> frozenset[str]:
    sources = [
        path.read_text(encoding="utf-8")
        for folder in PACKAGES
        for suffix in ("py", "h", "cpp", "cu", "toml")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
        if path != Path(__file__)
    ]
    words = set(re.findall(r"[\w-]+", " ".join(sources)))
    return frozenset({*words, *(word.strip("-").replace("-", "_") for word in words)})


@cache
def file_names() -> frozenset[str]:
    return frozenset(path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.*"))


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or leads through members of one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module, members = ".".join(parts[:count]), parts[count:]
        with suppress(ModuleNotFoundError):
            if find_spec(module) is None:
                continue
            if not members:
                return True
            found: object = import_module(module)
            for member in members:
                found = getattr(found, member, None)
            return found is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [path for path in sorted(paths_of(text)) if not (ROOT / path).exists()] == []
    assert sorted(files_of(text) - file_names()) == []
    assert [name for name in sorted(dotted_of(text)) if not resolves(name)] == []
    assert sorted(identifiers_of(text) - words_of_the_source() - OTHERS_WORDS) == []


def test_names_are_found_in_a_page() -> None:
    text = "`planners/run.py`, `run.py`: `planners.run(x)`, python -m planners.compare\n"
    assert paths_of(text) == {"planners/run.py"}
    assert files_of(text) == {"run.py"}
    assert dotted_of(text) == {"planners.run", "planners.compare"}
    found = identifiers_of("`Plan.peak`, `read(x)`, `a.py`, --time-limit")
    assert found == {"Plan", "peak", "read", "time_limit"}
    assert resolves("planners.model.plan.Status.OPTIMAL")
    assert not resolves("planners.model.plan.Status.NOTHING")
    assert not resolves("planners.nothing.there")
