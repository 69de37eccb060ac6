"""Activation checkpointing: layers are recomputed, with the kernels that a GPU runs."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from instances.extract.models import MODELS
from instances.extract.record.graph.optimizers import AdamW
from planners import Problem
from tests.instances.extract.output import Output
from tests.instances.extract.tiny_models import extract_tiny, ops_of, peak_of

pytestmark = pytest.mark.torch

RECOMPUTING = sorted(name for name, model in MODELS.items() if model.recomputed)


def first_backward(problem: Problem) -> int:
    """Node after which the backward pass has begun: the loss's gradient."""
    return ops_of(problem).index("nll_loss_backward")


@pytest.mark.parametrize("name", RECOMPUTING)
def test_layers_are_recomputed_in_the_backward_pass(name: str) -> None:
    plain, recomputed = (
        extract_tiny(name, checkpointing=checkpointing) for checkpointing in (False, True)
    )
    before, after = Counter(ops_of(plain)), Counter(ops_of(recomputed))
    assert after.total() > before.total()
    # No kernel is lost, and nothing but the forward pass comes twice.
    assert all(after[op] >= count for op, count in before.items())
    added = after - before
    assert not [op for op in added if "backward" in op or op == "all_reduce"]
    late = Counter(ops_of(recomputed)[first_backward(recomputed) :])
    assert all(late[op] >= count for op, count in added.items())


def test_recomputation_runs_the_dropout_and_the_attention_of_a_gpu() -> None:
    problem = extract_tiny("bert-base", checkpointing=True)
    late = Counter(ops_of(problem)[first_backward(problem) :])
    # Of each of two layers: dropout behind attention and behind the feed-forward.
    assert late["native_dropout"] == 4
    assert late["_scaled_dot_product_efficient_attention"] == 2
    assert not late["bernoulli_"]


def test_recomputation_runs_flash_attention_in_16_bits() -> None:
    problem = extract_tiny("llama-1b", checkpointing=True)
    assert Counter(ops_of(problem))["_scaled_dot_product_flash_attention"] == 4


@pytest.mark.parametrize("name", ["bert-base", "gpt2-medium"])
def test_recomputation_saves_memory(name: str) -> None:
    # Wide enough that activations, not gradients, make the peak.
    wide = {"batch": 64, "layers": 4}
    assert peak_of(extract_tiny(name, **wide, checkpointing=True)) < 0.8 * peak_of(
        extract_tiny(name, **wide)
    )


def test_a_recomputed_layer_reads_the_weights_that_the_step_updates() -> None:
    from instances.extract.models.building import recompute_layers
    from instances.extract.record.graph.training_step import trace_training_step

    class TwoLayers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                *(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(2))
            )
            recompute_layers(self.layers)

        def forward(self, x: Tensor) -> Output:
            return Output(self.layers(x).sum())

    trace = trace_training_step(lambda: (TwoLayers(), {"x": torch.ones(8, 4)}), AdamW(), 0)
    # Four parameters with two moments and a counter each, and no copy that the graph holds.
    assert len(trace.persistent) == 4 * 4
    assert [op.op for op in trace.ops].count("addmm") == 4
