"""The stubs that the build writes for type checkers, against the cores that it built."""

from __future__ import annotations

import ast
from importlib import import_module

import pytest

from tests.repository import ROOT


@pytest.mark.parametrize("package", ["planners", "gpu_runtime"])
def test_the_stub_names_what_the_core_has(package: str) -> None:
    stub = ast.parse((ROOT / package / "_core.pyi").read_text(encoding="utf-8"))
    named = {getattr(node, "name", None) for node in ast.walk(stub)}
    named |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    core = import_module(f"{package}._core")
    assert {name for name in dir(core) if not name.startswith("_")} - named == set()
