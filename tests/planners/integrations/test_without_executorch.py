"""Who has no ExecuTorch is told what to install."""

from __future__ import annotations

import sys

import pytest

from planners.errors import MissingDependencyError
from planners.integrations.executorch import gapless_planner


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test may have imported parts of it.
    for name in [name for name in sys.modules if name.partition(".")[0] == "executorch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "executorch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'gapless\[executorch\]'"):
        gapless_planner()
