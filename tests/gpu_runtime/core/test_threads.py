"""Many threads on one allocator of every kind, watched by the compiler's sanitizers."""

from __future__ import annotations

from pathlib import Path

from tests.gpu_runtime.cpp_program import CORE, compile_cpp, run_cpp
from tests.slow import one_by_one

STRESS = Path(__file__).with_name("stress.cpp")
SOURCES = [STRESS, *CORE.rglob("*.cpp")]


@one_by_one("sanitizers", ["thread", "address,undefined"], first=1)
def test_many_threads(sanitizers: str) -> None:
    options = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    program = compile_cpp("stress", SOURCES, options, headers=[STRESS.parent])
    # A thread that waits for ever is a fault as well.
    assert run_cpp(program, TSAN_OPTIONS="halt_on_error=1") == (0, "stress: passed\n", "")
