"""The work of the committed training steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import instances
from planners.files.problem_file import SUFFIXES, read_gapless_json
from planners.model.work import BACKWARD, FORWARD, OPTIMIZER

STEPS = (
    "bert", "bert-large", "bert-nezha", "gpt2-medium", "gpt2-medium-checkpointing", "llama-1b",
    "llama-1b-checkpointing", "mobilenet-v2", "resnet-50", "tiny-bert", "transformer", "vit-base",
    "vit-base-checkpointing", "yolov3",
)  # fmt: skip
FOLDER = Path(instances.__file__).parent


@pytest.mark.parametrize("name", STEPS)
def test_a_committed_step_has_its_work(name: str) -> None:
    (path,) = (file for suffix in SUFFIXES if (file := FOLDER / f"{name}{suffix}").exists())
    graph = read_gapless_json(path).graph
    assert graph is not None
    work = graph.work
    assert work is not None
    assert set(work.phase.tolist()) == {FORWARD, BACKWARD, OPTIMIZER}
    assert np.all(np.diff(work.phase[:-1]) >= 0)
    # Gradients of weights and of inputs take as much as the forward pass each; so does running it
    # again. The teacher of tiny-bert has no backward pass.
    of_forward, of_backward = (int(work.flops[work.phase == p].sum()) for p in (FORWARD, BACKWARD))
    assert 0.1 * of_forward < of_backward < 3.1 * of_forward
    assert (work.moved_bytes[graph.producer] > 0).all()
    assert work.repeatable[[0, -1]].tolist() == [0, 0]
    assert work.repeatable[work.phase == FORWARD].mean() > 0.7
