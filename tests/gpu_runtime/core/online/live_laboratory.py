"""An experiment of the laboratory under the real PyTorch, in a process of its own.

``python -m tests.gpu_runtime.core.online.live_laboratory NAME`` prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.gpu_runtime.core.online.laboratory import EXPERIMENTS, MIB, Laboratory
from tests.repository import ROOT

# The name that newer versions read, and the one that older ones do.
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
STATES = {"active_allocated": "active", "inactive": "free"}


class LiveLaboratory(Laboratory):
    """PyTorch's allocator on the first GPU, configured by the environment."""

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self._torch = torch

    def allocate(self, size: int) -> object:
        return self._torch.empty(size, dtype=self._torch.uint8, device="cuda")

    def free(self, block: object) -> None:
        # Its storage goes, whoever has a name for the tensor still.
        block.untyped_storage().resize_(0)  # type: ignore[attr-defined]

    def give_back(self) -> None:
        self._torch.cuda.empty_cache()

    def reserved_bytes(self) -> int:
        stats = self._torch.cuda.memory_stats()
        return int(stats["reserved_bytes.all.current"])

    def layout(self) -> list[str]:
        return layout_of_snapshot(self._torch.cuda.memory_snapshot())


def layout_of_snapshot(segments: Sequence[dict[str, Any]]) -> list[str]:
    """Return the blocks of each segment; those without pages are in no snapshot."""
    return [
        " | ".join(f"{each['size'] / MIB:g} {STATES[each['state']]}" for each in segment["blocks"])
        for segment in segments
    ]


def measure_live(name: str) -> list[tuple[float, list[str]]]:
    """Run an experiment under PyTorch, in a process that is configured for it."""
    setting = f"expandable_segments:{EXPERIMENTS[name].is_expandable}"
    ended = subprocess.run(
        [sys.executable, "-m", __name__, name],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | dict.fromkeys(SETTINGS, setting),
        cwd=ROOT,
    )
    assert ended.returncode == 0, ended.stderr
    return [(reserved, layout) for reserved, layout in json.loads(ended.stdout.splitlines()[-1])]


def main() -> None:
    import torch

    print(json.dumps(LiveLaboratory(torch).measure(EXPERIMENTS[sys.argv[1]].steps)))


if __name__ == "__main__":
    main()
