"""A recorded run with captured graphs and pools of its own, for a process of its own on a GPU.

``python -m tests.gpu_runtime.replaying.captured_run FILE.npz`` runs and writes the recording.
With PYTORCH_CUDA_ALLOC_CONF the segments can be expandable.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from instances.formats.pytorch_snapshot import read_pytorch_snapshot_trace
from instances.formats.recorded_trace import write_recorded_trace
from tests.gpu_runtime.fitting.graph_programs import network


def run() -> object:
    """Capture graphs in one pool and in pools of their own, beside a pool of the program.

    Return what must live until the snapshot, which tells the pools of segments.
    """
    model, kept = network(256, 3, 1000), []
    tokens = torch.zeros(2048, dtype=torch.int64, device="cuda")
    shared = torch.cuda.graph_pool_handle()
    pool = torch.cuda.MemPool()
    with torch.no_grad():
        for size in (2048, 512, 64):
            for chosen in (shared, None):
                model(tokens[:size])
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=chosen):
                    kept.append((graph, model(tokens[:size])))
            with torch.cuda.use_mem_pool(pool):
                kept.append((None, model(tokens[:size])))
        for graph, _ in kept:
            if graph is not None:
                graph.replay()
        # The largest graph of its own ends, and its pool goes back.
        del kept[1], graph
        gc.collect()
        torch.cuda.empty_cache()
        model(tokens)
    torch.cuda.synchronize()
    return model, tokens, kept, pool


def record(file: Path) -> None:
    """Write the whole history of the run."""
    torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
    kept = run()
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "run.pickle"
        torch.cuda.memory._dump_snapshot(str(snapshot))
        trace = read_pytorch_snapshot_trace(snapshot)
    # PyTorch 2.11 does not name the pool of an event. That of the graph that ended got what remains
    # on the stream of captures, but for the two numbers that random operators read.
    captures: Any = torch.cuda.graph.default_capture_stream
    ended = (trace.stream == captures.cuda_stream) & (trace.pool == 0) & (trace.size > 8)
    pool = np.where(ended, 1 + trace.pool.max(), trace.pool)
    write_recorded_trace(replace(trace, pool=pool), file)
    del kept


if __name__ == "__main__":
    record(Path(sys.argv[1]))
