"""Eager training on fake tensors, against allocations known by hand and runs on a GPU."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module, functional

from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.allocation_trace import (
    AllocationTrace,
    Phase,
    iteration_phases,
    iteration_window,
)
from instances.traces.trace_differences import IterationFigures, find_differences, iteration_figures
from planners.errors import InstanceError
from tests.instances.extract.output import Output

pytestmark = pytest.mark.torch

FLOAT32 = TraceSettings(precision="float32", optimizer="sgd")
MATRIX_PRODUCT_WORKSPACES = [32 << 20]


class Computing(torch.nn.Module):
    """A module of one weight, from which a function computes the loss."""

    def __init__(self, loss_of: Callable[[Tensor, Tensor], Tensor], size: int = 5) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.loss_of = loss_of

    def forward(self, x: Tensor) -> Output:
        return Output(self.loss_of(self.weight, x))


def trace_of(
    make: Any, batch: dict[str, tuple[int, ...]], settings: TraceSettings
) -> AllocationTrace:
    from instances.extract.record.fake_trace import trace_on_fake_tensors

    def build() -> tuple[Module, dict[str, Tensor]]:
        return make(), {name: torch.zeros(shape) for name, shape in batch.items()}

    return trace_on_fake_tensors(build, settings, "tiny", {})


def sizes(trace: AllocationTrace, iteration: int = -1) -> list[list[int]]:
    return [trace.size[requests].tolist() for requests in iteration_phases(trace, iteration)]


def linear() -> Module:
    """Return a module of one weight, 3 x 4."""

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3, bias=False)

        def forward(self, x: Tensor) -> Output:
            return Output(self.layer(x).sum())

    return Linear()


def test_a_linear_layer_allocates_this() -> None:
    trace = trace_of(linear, {"x": (2, 4)}, FLOAT32)
    # Input; product; loss. Gradients of the loss and, expanded, of the product: a copy, for a
    # matrix product takes no expanded operand; of the weight.
    x, product, loss, gradient = 2 * 4 * 4, 2 * 3 * 4, 4, 3 * 4 * 4
    assert trace.size[0] == gradient
    assert sizes(trace) == [[x, product, loss], [loss, gradient], []]
    first = sizes(trace, 0)
    assert first[0] == [x, product, *MATRIX_PRODUCT_WORKSPACES, loss]
    assert first[1] == [loss, gradient, *MATRIX_PRODUCT_WORKSPACES]
    # The momentum is a copy of the gradient.
    assert first[2] == [gradient]


def test_the_blocks_that_outlive_an_iteration_are_weights_state_and_libraries() -> None:
    trace = trace_of(linear, {"x": (2, 4)}, FLOAT32)
    weight = 3 * 4 * 4
    figures = iteration_figures(trace)
    assert figures.persistent_bytes == 2 * weight + 2 * MATRIX_PRODUCT_WORKSPACES[0]
    _, end = iteration_window(trace, -1)
    alive = trace.freed >= end
    assert Counter(trace.size[alive].tolist()) == {weight: 2, MATRIX_PRODUCT_WORKSPACES[0]: 2}


def test_microbatches_add_their_gradients_in_place() -> None:
    settings = TraceSettings(microbatches=2, precision="float32", optimizer="sgd")
    trace = trace_of(linear, {"x": (2, 4)}, settings)
    x, product, loss, gradient = 2 * 4 * 4, 2 * 3 * 4, 4, 3 * 4 * 4
    assert sizes(trace) == [[x, product, loss], [loss, gradient]] * 2 + [[]]
    forward, backward = iteration_phases(trace, -1)[2:4]
    assert (trace.freed[forward] < trace.mark_event[-1]).all()
    # The second gradient goes right after it was added, the first lives until after the step.
    assert trace.freed[backward[-1]] < trace.mark_event[-1]


def residual(kept: list[tuple[Tensor, ...]] | None = None) -> Module:
    """Return ``sin(w * x) + exp(w * x)``; `kept` takes the gradient that comes first."""

    def loss_of(weight: Tensor, x: Tensor) -> Tensor:
        hidden = weight * x
        grown, waved = hidden.exp(), hidden.sin()
        if kept is not None:
            assert waved.grad_fn is not None
            waved.grad_fn.register_hook(lambda gradients, _: kept.append(gradients))
        return (waved + grown).sum()

    return Computing(loss_of)


def test_autograd_adds_into_a_gradient_that_nobody_else_holds() -> None:
    trace = trace_of(residual, {"x": (5,)}, FLOAT32)
    loss, vector = 4, 5 * 4
    backward = iteration_phases(trace, -1)[1]
    # Of the loss; of sin: the cosine, and its product with the gradient; of exp, which is added
    # to that; of the weight.
    assert trace.size[backward].tolist() == [loss, *[vector] * 4]
    _, cosine, total, of_exp, of_weight = backward.tolist()
    assert trace.freed[cosine] < trace.alloc[of_exp]
    assert trace.freed[of_exp] < trace.alloc[of_weight] < trace.free_requested[total]


def test_autograd_does_not_add_into_a_gradient_that_somebody_holds() -> None:
    trace = trace_of(lambda: residual(kept=[]), {"x": (5,)}, FLOAT32)
    assert sizes(trace)[1] == [4, *[20] * 5]


def test_an_addition_of_the_program_itself_stays() -> None:
    def loss_of(weight: Tensor, x: Tensor) -> Tensor:
        return (weight * x + weight * x).sum()

    forward, _, _ = sizes(trace_of(lambda: Computing(loss_of), {"x": (5,)}, FLOAT32))
    assert forward == [20, 20, 20, 20, 4]


@pytest.mark.parametrize("name", ["bert-base", "llama-1b", "resnet-50"])
def test_models_of_every_kind_are_traced(name: str) -> None:
    options = {"resnet-50": {"image": 64}}.get(name, {"layers": 1, "seq": 16})
    trace = record(name, TraceSettings(steps=1), batch=2, **options)
    assert iteration_figures(trace).requests > 50


def test_shapes_that_depend_on_data_are_refused() -> None:
    def loss_of(weight: Tensor, x: Tensor) -> Tensor:
        return (weight * x).repeat_interleave(x.long()).sum()

    with pytest.raises(InstanceError, match="tiny: its memory depends on the values of its data"):
        trace_of(lambda: Computing(loss_of), {"x": (5,)}, FLOAT32)


@pytest.mark.parametrize(
    ("pick", "rows"),
    [
        ("x[y > 0]", 6), ("x[(y > 0).nonzero().squeeze(-1)]", 6), ("x[x > 0]", 12),
        ("x.masked_select(y[:, None] > 0)", 12), ("y.unique()", 6), ("x[y > 0, :1]", 6),
    ],
)  # fmt: skip
def test_all_rows_are_picked_and_the_trace_says_so(pick: str, rows: int) -> None:
    def loss_of(weight: Tensor, x: Tensor) -> Tensor:
        picked = eval(pick, {"x": x * weight, "y": x[:, 0]})
        assert len(picked) == rows
        return picked.sum() + weight.sum()

    trace = trace_of(lambda: Computing(loss_of, 2), {"x": (6, 2)}, FLOAT32)
    assert trace.origin["notes"] == (
        "the program picks rows by their values, which are not known: all rows are taken"
    )


@pytest.mark.parametrize(
    ("question", "is_yes"),
    [("x.max() >= 2", False), ("x.max() > 0", True), ("x.min() < 0", False), ("x.min() < 9", True)],
)
def test_whole_numbers_are_within_the_limits_that_a_program_checks(
    question: str, is_yes: bool
) -> None:
    def loss_of(weight: Tensor, x: Tensor) -> Tensor:
        assert bool(eval(question, {"x": x.long()})) is is_yes
        return weight.sum()

    assert (
        trace_of(lambda: Computing(loss_of), {"x": (6, 2)}, FLOAT32).iteration_count
        == FLOAT32.steps
    )


def test_a_module_that_computes_no_loss_is_refused() -> None:
    class Silent(torch.nn.Linear):
        def forward(self, x: Tensor) -> Any:
            super().forward(x)
            return SimpleNamespace(loss=None)

    with pytest.raises(InstanceError, match="computes a loss of x is needed, found Silent"):
        trace_of(lambda: Silent(4, 3), {"x": (2, 4)}, FLOAT32)


@pytest.mark.parametrize("learnt", [False, True])
def test_a_learnt_bias_of_attention_takes_the_kernel_with_its_gradient(learnt: bool) -> None:
    class Attending(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(24))
            self.bias = torch.nn.Parameter(torch.ones(1, 2, 16, 16), requires_grad=learnt)

        def forward(self, x: Tensor) -> Output:
            query = (x * self.weight).bfloat16()
            attend = torch.nn.functional.scaled_dot_product_attention
            return Output(attend(query, query, query, self.bias.bfloat16()).sum())

    _, backward, _ = sizes(trace_of(Attending, {"x": (4, 2, 16, 24)}, FLOAT32))
    # The gradient of the bias.
    assert ((2 * 16 * 16 * 4) in backward) is learnt


@pytest.mark.parametrize(("probability", "allocated"), [(0.0, [20, 20]), (0.9, [20])])
def test_a_layer_is_dropped_where_that_is_likely(probability: float, allocated: list[int]) -> None:
    def loss_of(weight: Tensor, x: Tensor) -> Tensor:
        hidden = weight * x
        # As transformers asks before 5.20, whatever the probability is.
        if not torch.rand([]) < probability:
            hidden = hidden * x
        return hidden.sum()

    forward, _, _ = sizes(trace_of(lambda: Computing(loss_of), {"x": (5,)}, FLOAT32))
    assert [size for size in forward[1:] if size == 20] == allocated


def test_a_step_counter_is_on_the_host() -> None:
    settings = TraceSettings(precision="float32")
    trace = trace_of(linear, {"x": (2, 4)}, settings)
    moments = [48, 48]
    # Square roots of the second moments, one a parameter, are what AdamW needs in a step.
    assert sizes(trace, 0)[2] == [*moments, 48]
    assert sizes(trace)[2] == [48]


@pytest.fixture(scope="module")
def tiny_bert() -> AllocationTrace:
    return record("bert-base", TraceSettings(), layers=2, batch=2, seq=16)


def test_the_second_iteration_is_the_steady_one(tiny_bert: AllocationTrace) -> None:
    assert iteration_figures(tiny_bert, 1) == iteration_figures(tiny_bert, 2)
    assert sizes(tiny_bert, 1) == sizes(tiny_bert, 2)
    assert sizes(tiny_bert, 0) != sizes(tiny_bert, 1)


def test_nearly_all_requests_have_a_module(tiny_bert: AllocationTrace) -> None:
    names = tiny_bert.module_names
    for kind, requests in zip(Phase, iteration_phases(tiny_bert, -1), strict=True):
        modules = [names[m] for m in tiny_bert.alloc_module[requests].tolist() if m >= 0]
        inside = [name for name in modules if "." in name]
        if kind is Phase.OPTIMIZER:
            assert not modules
        else:
            assert len(inside) > 0.95 * len(requests)
    forward, backward, _ = iteration_phases(tiny_bert, -1)
    for requests in (forward, backward):
        seen = {names[m] for m in tiny_bert.alloc_module[requests].tolist() if m >= 0}
        for layer in (0, 1):
            inside_layer = f"BertForMaskedLM.bert.encoder.layer.{layer}"
            assert f"{inside_layer}.intermediate.dense" in seen
            assert f"{inside_layer}.attention.output.LayerNorm" in seen


def test_a_module_is_where_its_kernels_run(tiny_bert: AllocationTrace) -> None:
    names = tiny_bert.module_names
    wide = 2 * 16 * 3072 * 2
    for requests in iteration_phases(tiny_bert, -1)[:2]:
        for request in requests[tiny_bert.size[requests] == wide].tolist():
            name = names[tiny_bert.alloc_module[request]]
            assert ".intermediate" in name or name.endswith("output.dense"), name


def test_recomputation_keeps_less_and_runs_more() -> None:
    shape = {"layers": 4, "batch": 2, "seq": 384}
    traces = [
        record("gpt2-medium", TraceSettings(steps=2), **shape, checkpointing=checkpointing)
        for checkpointing in (False, True)
    ]
    figures = [iteration_figures(trace) for trace in traces]
    assert figures[1].peak_bytes < figures[0].peak_bytes
    assert figures[1].requested_bytes > figures[0].requested_bytes
    forward, backward = ([sizes(trace)[phase] for trace in traces] for phase in (0, 1))
    assert forward[0] == forward[1]
    mask_of_dropout = 2 * 384 * 1024
    assert backward[0].count(mask_of_dropout) == 0
    assert backward[1].count(mask_of_dropout) == 2 * 4
    # Weights are cast again for the recomputation, whose autocast is one of its own.
    cast_of_weight = 2 * 1024 * 4096
    assert backward[1].count(cast_of_weight) - backward[0].count(cast_of_weight) == 2 * 4


def test_a_trace_is_the_same_each_time(tiny_bert: AllocationTrace) -> None:
    again = record("bert-base", TraceSettings(), layers=2, batch=2, seq=16)
    assert not find_differences(tiny_bert, again)
    # Casts go with the cache that holds them, in the order of its hash table.
    assert again.alloc.tolist() == tiny_bert.alloc.tolist()
    assert again.alloc_module.tolist() == tiny_bert.alloc_module.tolist()


# Requested bytes of the last of three iterations, as PyTorch 2.11 recorded them on an NVIDIA H200
# (docs/recording.md). One request of BERT is 5,024,960 bytes smaller there.
BERT_BASE = IterationFigures(1_506, 37_248_368_666 + 5_024_960, 13_144_504_196, 1_382_337_208)
GPT2_MEDIUM = IterationFigures(13_864, 2_158_732_240_488, 29_067_798_536, 4_327_084_032)


def test_bert_base_is_that_of_a_gpu() -> None:
    assert iteration_figures(record("bert-base", TraceSettings(), batch=32, seq=512)) == BERT_BASE


def test_gpt2_medium_with_recomputation_is_that_of_a_gpu() -> None:
    settings = TraceSettings(steps=2, microbatches=4)
    trace = record("gpt2-medium", settings, batch=32, seq=1024, checkpointing=True)
    assert iteration_figures(trace) == GPT2_MEDIUM


def test_patched_functions_are_restored() -> None:
    before = (functional.dropout, functional.scaled_dot_product_attention)
    trace_of(linear, {"x": (2, 4)}, TraceSettings(steps=1))
    assert (functional.dropout, functional.scaled_dot_product_attention) == before
    assert "transformers.masking_utils" in sys.modules
    with torch.autocast("cpu", dtype=torch.bfloat16):
        # The CPU's own casts: no layer norm in float32.
        x = torch.ones(2, 3, dtype=torch.bfloat16)
        assert functional.layer_norm(x, (3,)).dtype == torch.bfloat16
