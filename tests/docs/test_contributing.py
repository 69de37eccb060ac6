"""The files for contributors and hosts agree with the project."""

from __future__ import annotations

import re
import tomllib

from tests.repository import ROOT


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def lanes() -> list[str]:
    found = re.search(r"^lanes=\(([^)]+)\)", text_of(".ci/run"), re.MULTILINE)
    assert found
    return found[1].split()


def test_the_citation_has_the_version_and_the_licence() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    citation = text_of("CITATION.cff")
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation


def test_hosts_run_every_lane() -> None:
    assert f"lane: [{', '.join(lanes())}]" in text_of(".github/workflows/checks.yml")


def test_contributors_are_told_every_lane_and_folders_that_exist() -> None:
    page = text_of("CONTRIBUTING.md")
    for lane in lanes():
        assert f"| `.ci/run {lane}` |" in page
    both = page + text_of("docs/architecture.md")
    folders = re.findall(r'pytest (?:-m (?:\w+|"[\w ]+") )?(tests/[\w/.]+)`', both)
    assert len(folders) > 4
    for folder in folders:
        assert (ROOT / folder).exists(), folder


def test_commit_hooks_run_what_ci_runs() -> None:
    hooks, checks = text_of(".pre-commit-config.yaml"), text_of(".ci/run")
    for tool in ("ruff check", "ruff format", "clang-format"):
        assert tool in hooks
        assert tool in checks
