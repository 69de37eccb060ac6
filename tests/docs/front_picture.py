"""Draws the picture of the README anew: python -m tests.docs.front_picture.

With ``record`` it makes the recording first, which needs a GPU on which PyTorch's default allocator
serves this process.
"""

from __future__ import annotations

import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluation.plots.drawing import DOTS_PER_INCH
from evaluation.plots.memory_over_time import memory_figure
from planners.files.formats import read_requests
from planners.model.online_result import OnlineTerms
from planners.online.online_run import OnlineRun, run_online
from planners.text.byte_units import human_bytes
from tests.repository import ROOT

RECORDING = ROOT / "examples" / "gpt2-random-lengths.npz"
PICTURE = ROOT / "docs" / "images" / "random-lengths.png"
TITLE = "Memory of a GPT-2 that trains on texts of random lengths, recorded on an NVIDIA H200"
# The words of a reader who knows PyTorch, and not yet the names of our allocators.
ALLOCATORS = {
    "pytorch-caching": "PyTorch",
    "pytorch-expandable": "PyTorch, expandable segments",
    "planned": "Gapless's planned memory",
}
# Each step has so many sequences, of a length between these two.
STEPS, SEQUENCES, LENGTHS = 12, 8, (128, 768)


def record() -> None:
    """Train a GPT-2 of 12 layers of 1,024 on texts of random lengths, and write its requests."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from instances.formats.pytorch_snapshot import read_pytorch_snapshot_trace
    from instances.formats.recorded_trace import write_recorded_trace

    memory: Any = torch.cuda.memory

    def mark(size: int) -> None:
        torch.empty(size, dtype=torch.uint8, device="cuda")

    memory._record_memory_history(context=None, max_entries=1_000_000)
    torch.manual_seed(0)
    draw = random.Random(0)
    # PyTorch's and transformers' types differ between their versions.
    model: Any = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=1024, n_head=16))
    model.to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        tokens = torch.randint(50_257, (SEQUENCES, draw.randint(*LENGTHS))).cuda()
        mark(101)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        mark(103)
        loss.backward()
        mark(105)
        optimizer.step()
        optimizer.zero_grad()
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "run.pickle"
        memory._dump_snapshot(str(snapshot))
        write_recorded_trace(read_pytorch_snapshot_trace(snapshot), RECORDING)
    figures = torch.cuda.memory_stats()
    print({kind: figures[f"{kind}_bytes.all.peak"] for kind in ("allocated", "reserved")})


def replayed() -> OnlineRun:
    """Return what each allocator holds after each request and each free of the recording."""
    requests = read_requests(RECORDING)
    run = run_online(requests, ",".join(ALLOCATORS), OnlineTerms(has_series=True))
    rows = tuple(replace(row, label=ALLOCATORS[row.label]) for row in run.rows)
    return replace(run, requests=replace(run.requests, name="12 steps"), rows=rows)


def words_of(run: OnlineRun) -> str:
    """Return the picture in words, for a reader who cannot see it."""
    results = [(row.label, row.result) for row in run.rows if row.result is not None]
    reserved = [f"{label} {human_bytes(result.reserved_peak)}" for label, result in results]
    live = min(result.allocated_peak for _, result in results)
    return f"{TITLE}. In use: {human_bytes(live)}. Reserved: {'; '.join(reserved)}"


def main() -> None:
    if sys.argv[1:] == ["record"]:
        record()
    run = replayed()
    figure = memory_figure(run)
    figure.axes[0].set_title(TITLE, loc="left", fontsize=11)
    figure.savefig(PICTURE, dpi=DOTS_PER_INCH, metadata={"Description": words_of(run)})


if __name__ == "__main__":
    main()
