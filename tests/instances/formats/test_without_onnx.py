"""Who has not the package that a model needs is told what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planners import read_problem
from planners.errors import MissingDependencyError


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"net.onnx: .* 'gapless\[onnx\]'"):
        read_problem(tmp_path / "net.onnx")
