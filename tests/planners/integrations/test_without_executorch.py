"""Who has no ExecuTorch, or one of an unknown interface, is told what to install."""

from __future__ import annotations

import sys
import tomllib
from types import ModuleType, SimpleNamespace

import pytest

from planners.errors import MissingDependencyError
from planners.integrations import executorch
from planners.integrations.executorch import gapless_planner
from tests.repository import ROOT


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test may have imported parts of it.
    for name in [name for name in sys.modules if name.partition(".")[0] == "executorch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "executorch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'gapless\[executorch\]'"):
        gapless_planner()


def test_an_old_version_is_named_with_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("executorch", "executorch.exir", "executorch.exir.memory_planning"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    tensor = SimpleNamespace(TensorSpec=object)
    monkeypatch.setitem(sys.modules, "executorch.exir.tensor", tensor)
    monkeypatch.setattr(executorch, "version_of", lambda _package: "0.5.0")
    with pytest.raises(MissingDependencyError) as raised:
        gapless_planner()
    assert str(raised.value) == (
        f"gapless_planner needs executorch{executorch.VERSIONS}, found 0.5.0 "
        "(it has no MemoryPlanningAlgorithmSuite): pip install 'gapless[executorch]'"
    )


def test_the_extra_has_the_same_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = f"executorch{executorch.VERSIONS}"
    assert wanted in project["optional-dependencies"]["executorch"]
