"""What the statistics and a snapshot say of segments is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_runtime.cpp_program import CORE, compile_cpp, run_cpp

pytestmark = pytest.mark.core


def test_as_many_segments_are_counted_as_are_found() -> None:
    program = Path(__file__).with_name("segment_counts.cpp")
    made = compile_cpp("segment_counts", [program, *CORE.rglob("*.cpp")], [])
    status, _, said = run_cpp(made)
    assert (status, said) == (0, "")
