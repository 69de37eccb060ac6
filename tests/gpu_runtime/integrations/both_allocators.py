"""Programs under PyTorch's own allocator and under planned memory, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.repository import ROOT

ROOM = "tests.gpu_runtime.integrations"
ALLOCATORS = ("native", "planned")
SECONDS = 300


def run_both(name: str, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a program in two processes at a time, and return what each printed."""
    native, planned = _outputs(
        {kind: [f"{ROOM}.programs", name, kind, device] for kind in ALLOCATORS}
    )
    return json.loads(native), json.loads(planned)


def run_on_two(
    name: str, device: str, folder: Path, kinds: tuple[str, ...] = ALLOCATORS
) -> list[list[dict[str, Any]]]:
    """Run a program of two processes; return, for each allocator, what each of them came to."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    commands = {}
    for kind in kinds:
        (folder / kind).mkdir()
        program = [f"{ROOM}.distributed_programs", name, kind, device, str(folder / kind)]
        commands[kind] = [*torchrun, *program]
    _outputs(commands)
    return [
        [json.loads((folder / kind / f"{rank}.json").read_text()) for rank in range(2)]
        for kind in kinds
    ]


def _outputs(commands: Mapping[str, list[str]]) -> list[str]:
    """Run modules at the same time and return the last line that each prints."""
    begun = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands.values()
    ]
    try:
        ended = [process.communicate(timeout=SECONDS) for process in begun]
    finally:
        for process in begun:
            process.kill()
    for kind, process, (_, errors) in zip(commands, begun, ended, strict=True):
        assert process.returncode == 0, f"{kind}: {errors}"
    return [(output.splitlines() or [""])[-1] for output, _ in ended]
