"""The devices without a GPU, asked directly by a program."""

from __future__ import annotations

from pathlib import Path

from tests.gpu_runtime.cpp_program import CORE, compile_cpp, run_cpp

DEVICE = CORE / "device"
SOURCES = [
    Path(__file__).with_name("device_rules.cpp"),
    DEVICE / "ledger_memory.cpp",
    DEVICE / "simulated_memory.cpp",
]


def test_devices_keep_their_rules() -> None:
    program = compile_cpp("device_rules", SOURCES, [])
    assert run_cpp(program) == (0, "device_rules: passed\n", "")
