"""Planned memory under a curriculum: sequences become longer after every few steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.extract.own.own_extraction import open_own, trace_own
from instances.traces.trace_requests import requests_of_trace
from planners.model.online_result import OnlineTerms
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.instances.extract.own.user_scripts import written

STAGE_STEPS = 8
CURRICULUM = f"""
import torch
from transformers import GPT2Config, GPT2LMHeadModel


def make_step():
    model = GPT2LMHeadModel(GPT2Config(n_embd=1024, n_head=16, attn_pdrop=0)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    numbers = iter(range(1000))

    def step():
        length = 128 * (1 + next(numbers) // {STAGE_STEPS})
        tokens = torch.zeros(8, length, dtype=torch.int64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
"""


@pytest.mark.torch
def test_no_step_pays_for_old_mappings_of_the_stage_before(tmp_path: Path) -> None:
    # From 512 tokens on there are kernels more, and the plan of the stage before serves little.
    steps = 4 * STAGE_STEPS
    trace = trace_own(open_own(f"{written(tmp_path, CURRICULUM)}:make_step", []), steps)
    [row] = run_online(requests_of_trace(trace), choose_online("planned"), OnlineTerms()).rows
    assert row.result is not None
    of_stages = [
        row.result.iteration_calls[begin : begin + STAGE_STEPS]
        for begin in range(0, steps, STAGE_STEPS)
    ]
    # A place can be lost again in the steps in which a stage is not planned yet.
    assert [calls.get("map", 0) for stage in of_stages for calls in stage[4:]] == [0] * 16
