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


def test_a_release_has_one_version_one_date_and_one_licence() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    cited = dict(re.findall(r"^([\w-]+): (\S.*)$", text_of("CITATION.cff"), re.MULTILINE))
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert f"\n## {project['version']}, {cited['date-released']}\n" in text_of("CHANGELOG.md")


def test_wheels_have_the_decorator_for_the_same_releases_of_pytorch_everywhere() -> None:
    builds = tomllib.loads(text_of("pyproject.toml"))["tool"]["cibuildwheel"]
    headers = builds["before-build"].partition("&& ")[2]
    setting = "=".join(*builds["config-settings"].items())
    release = text_of("CONTRIBUTING.md").partition("## Release")[2]
    assert f"{headers}\n" in release
    assert f"-C {setting}" in release


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
