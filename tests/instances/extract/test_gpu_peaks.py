"""The peaks of extracted steps beside those that a GPU reported."""

from __future__ import annotations

from typing import Any

import pytest

from instances.extract.models import find_model
from instances.extract.record.recording import extract
from planners.model.bounds import lifetime_bound

pytestmark = pytest.mark.torch

# Requested bytes, above those of parameters, state and batch, that PyTorch 2.11 reported on an
# NVIDIA H200 as the peak of the third step, and the bytes of the batch, which ours contain.
GPU_PEAKS: list[tuple[str, dict[str, Any], int, int]] = [
    ("llama-1b", {"checkpointing": True}, 13_279_739_912, 2 * 4 * 2048 * 8),
    ("resnet-50", {}, 1_410_352_612, 32 * (3 * 224 * 224 * 2 + 8)),
]

# Of cuDNN's workspaces, which are invisible here.
WORKSPACES = {"llama-1b": 1e-5, "resnet-50": 2e-3}


@pytest.mark.parametrize(("name", "changes", "peak", "batch"), GPU_PEAKS)
def test_the_peak_is_that_of_a_gpu(
    name: str, changes: dict[str, Any], peak: int, batch: int
) -> None:
    problem = extract(name, find_model(name).settings(**changes))
    assert lifetime_bound(problem).bytes == pytest.approx(peak + batch, rel=WORKSPACES[name])
