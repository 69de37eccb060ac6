"""C++ programs that ask the core directly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gpu_runtime.cpp_program import CORE, SANITIZED, compile_cpp, run_cpp

HERE = Path(__file__).parent
SIMULATED = CORE / "device" / "simulated_memory.cpp"
DEVICES = [CORE / "device" / "ledger_memory.cpp", SIMULATED]
# PyTorch's table of functions brings memory of a GPU; replays serve no running program.
LEFT_OUT = {"serving_table", "replay", "request_log"}
ALLOCATORS = [
    *DEVICES,
    CORE / "device" / "known_waits.cpp",
    *(
        path
        for folder in ("allocator", "online")
        for path in sorted((CORE / folder).glob("*.cpp"))
        if path.stem not in LEFT_OUT
    ),
]
# GCC cannot watch memory and threads at once.
THREADS = ("-fsanitize=thread", "-fno-sanitize-recover=all")


@pytest.mark.parametrize(
    ("name", "core", "options"),
    [
        # Its child ends by a fault on closed memory, which the sanitizer turns into an exit.
        pytest.param("device_rules", DEVICES, (), id="the devices without a GPU"),
        pytest.param(
            "segment_counts", ALLOCATORS, SANITIZED, id="segments in statistics and snapshots"
        ),
        pytest.param("move_budget", ALLOCATORS, SANITIZED, id="the budget of moves"),
        pytest.param("stress", ALLOCATORS, SANITIZED, id="many threads on one allocator"),
        pytest.param("stress", ALLOCATORS, THREADS, id="races of threads", marks=pytest.mark.slow),
    ],
)
def test_a_program_passes(name: str, core: Sequence[Path], options: Sequence[str]) -> None:
    program = compile_cpp(name, [HERE / f"{name}.cpp", *core], options, headers=[HERE])
    # A thread that waits for ever is a fault as well.
    assert run_cpp(program, TSAN_OPTIONS="halt_on_error=1") == (0, f"{name}: passed\n", "")
