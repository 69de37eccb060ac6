"""Lower limits of dependencies are the tested versions; stubs name what the cores have."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module

import pytest

from tests.repository import ROOT


def test_lower_limits_are_the_tested_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    limits = dict(need.split(",")[0].split(">=") for need in project["dependencies"])
    pins = re.findall(r"^([\w-]+)==(.+)$", (ROOT / "constraints-lowest.txt").read_text(), re.M)
    assert limits.keys() == dict(pins).keys()
    assert all(f"{pin}.".startswith(f"{limits[package]}.") for package, pin in pins)


@pytest.mark.parametrize("package", ["planners", "gpu_runtime"])
def test_the_stub_names_what_the_core_has(package: str) -> None:
    stub = ast.parse((ROOT / package / "_core.pyi").read_text(encoding="utf-8"))
    named = {getattr(node, "name", None) for node in ast.walk(stub)}
    named |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    core = import_module(f"{package}._core")
    assert {name for name in dir(core) if not name.startswith("_")} - named == set()
