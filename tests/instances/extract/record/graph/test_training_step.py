"""Training steps as they are traced: layers of BERT, and gradients that share a storage."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.kernels.storages import StepPhase
from instances.extract.models import find_model
from instances.extract.record.graph.optimizers import AdamW
from instances.extract.step_settings import StepSettings
from tests.instances.extract.output import Output
from tests.instances.extract.step_structure import check_step
from tests.instances.extract.tiny_models import peak_of

pytestmark = pytest.mark.torch


def test_two_layers_of_bert() -> None:
    from instances.extract.record.graph.training_step import trace_training_step

    settings = StepSettings(
        batch=4, seq=20, layers=2, nodes_per_stream=50, bucket_mb=8, clip_norm=0
    )
    trace = trace_training_step(
        lambda: find_model("bert-base").build(settings), AdamW(), settings.clip_norm
    )
    problem = build_problem(trace, settings, "two layers", {})
    check_step(problem, 8 << 20, 50)
    # Every storage is one tensor, is persistent, or is a new value of what is persistent.
    assert problem.tensor_count == len(trace.size) - len(trace.persistent) - len(trace.updates)
    parameters = 4 + 1 + 2 * 16 + 5
    assert len(trace.gradients) == parameters
    assert len(trace.updates) == 4 * parameters
    logits, gradients = 4 * 4 * 20 * 30522, sum(trace.size[g] for g in trace.gradients)
    assert max(3 * logits, gradients) < peak_of(problem) < 3 * gradients
    # A row of the mask has 20 elements and is padded to a multiple of 8 for the kernel.
    pads = [kernel for kernel in trace.ops if kernel.op == "constant_pad_nd"]
    assert [trace.size[storage] for pad in pads for storage in pad.outputs] == [4 * 4 * 20 * 24] * 2


def test_a_gradient_that_shares_its_storage_is_copied() -> None:
    from instances.extract.record.graph.training_step import trace_training_step

    class Sums(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = torch.nn.Parameter(torch.ones(6))
            self.right = torch.nn.Parameter(torch.ones(6))
            self.whole = torch.nn.Parameter(torch.ones(6))
            self.unused = torch.nn.Parameter(torch.ones(6))

        def forward(self, x: Tensor) -> Output:
            # The gradients of left and right are one tensor; that of whole is a scalar, expanded.
            return Output(((self.left + self.right) * x).sum() + self.whole.sum())

    trace = trace_training_step(lambda: (Sums(), {"x": torch.ones(6)}), AdamW(), 0)
    assert [trace.size[gradient] for gradient in trace.gradients] == [24, 24, 24]
    assert len(set(trace.gradients)) == 3
    assert [op.op for op in trace.ops if op.phase is StepPhase.BACKWARD].count("clone") == 3
    problem = build_problem(trace, StepSettings(), "sums", {})
    (chain,) = problem.contiguous
    assert problem.tensor_name is not None
    names = [problem.tensor_name[tensor] for tensor in chain]
    assert names == ["grad left", "grad right", "grad whole"]
