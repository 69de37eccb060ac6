"""Programs under PyTorch's own allocator and under planned memory, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.gpu_runtime.own_processes import outputs_of

ROOM = "tests.gpu_runtime.integrations"
ALLOCATORS = ("native", "planned")


def run_both(name: str, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a program in two processes at a time, and return what each printed."""
    native, planned = _last_lines([[f"{ROOM}.programs", name, kind, device] for kind in ALLOCATORS])
    return json.loads(native), json.loads(planned)


def run_on_two(
    name: str, device: str, folder: Path, kinds: tuple[str, ...] = ALLOCATORS
) -> list[list[dict[str, Any]]]:
    """Run a program of two processes; return, for each allocator, what each of them came to."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    commands = []
    for kind in kinds:
        (folder / kind).mkdir()
        program = [f"{ROOM}.distributed_programs", name, kind, device, str(folder / kind)]
        commands.append([*torchrun, *program])
    _last_lines(commands)
    return [
        [json.loads((folder / kind / f"{rank}.json").read_text()) for rank in range(2)]
        for kind in kinds
    ]


def _last_lines(commands: Sequence[Sequence[str]]) -> list[str]:
    outputs = outputs_of(commands, {"OMP_NUM_THREADS": "1"})
    return [(output.splitlines() or [""])[-1] for output, _ in outputs]
