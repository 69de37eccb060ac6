"""Programs that capture graphs: predicted without a GPU, and run on one, to the byte.

A compiled one is equal if nothing is tuned on the GPU: it runs twice, as the second run finds what
Inductor measured in the first one, and it is told to pad no matrix product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planners.model.online_result import OnlineTerms
from planners.online.online_run import run_online

NAMES = ("one-pool", "a-pool-each", "smallest-first", "blocks")
COMPILED = "trees"
RUN = """
import json, sys, torch
from tests.gpu_runtime.fitting.graph_programs import PROGRAMS
kept = PROGRAMS[sys.argv[1]]()
torch.cuda.synchronize()
print(json.dumps([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]))
"""


def predicted(name: str, allocator: str) -> tuple[int, int]:
    """Return the peaks of allocated and of reserved bytes."""
    from instances.extract.record.fake_trace import recorded_on_fake_tensors
    from instances.extract.record.requests.allocation_mode import AllocationMode
    from instances.traces.trace_requests import requests_of_trace
    from tests.gpu_runtime.fitting.graph_programs import PROGRAMS

    with recorded_on_fake_tensors(AllocationMode, None) as mode:
        kept = PROGRAMS[name]()
        trace = mode.recorder.trace(name, {})
        del kept
    (row,) = run_online(requests_of_trace(trace), allocator, OnlineTerms()).rows
    assert row.result is not None
    return row.result.allocated_peak, row.result.reserved_peak


@pytest.mark.torch
def test_one_pool_takes_less_than_a_pool_each() -> None:
    one, each = (predicted(name, "pytorch-caching")[1] for name in NAMES[:2])
    assert one < each


@pytest.mark.gpu
@pytest.mark.parametrize("is_expandable", [False, True])
@pytest.mark.parametrize("name", [*NAMES, COMPILED])
def test_a_gpu_takes_what_was_predicted(tmp_path: Path, name: str, is_expandable: bool) -> None:
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{is_expandable}",
        "TORCHINDUCTOR_DETERMINISTIC": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
    }
    for _ in range(2 if name == COMPILED else 1):
        run = subprocess.run(
            [sys.executable, "-c", RUN, name], env=os.environ | settings,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
    expected = predicted(name, "pytorch-expandable" if is_expandable else "pytorch-caching")
    assert tuple(json.loads(run.stdout)) == expected
