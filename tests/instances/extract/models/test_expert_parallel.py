"""Expert parallelism: the operators compute a mixture of experts, and trace as exchanges."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.models import find_model
from instances.extract.step_settings import StepSettings
from planners import check, place
from planners.errors import InstanceError

if TYPE_CHECKING:
    from instances.extract.kernels.storages import Trace

pytestmark = pytest.mark.torch

LAYERS, EXPERTS, TOP_K, RANKS = 2, 6, 2, 3
TINY = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_experts": EXPERTS,
    "num_experts_per_tok": TOP_K,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 8,
}


def tiny_settings(**changes: Any) -> StepSettings:
    settings = replace(find_model("qwen2-moe").defaults, batch=2, seq=10, layers=LAYERS)
    return replace(settings, ranks=RANKS, precision="float32", **changes)


@pytest.fixture(scope="module")
def tiny_trace() -> Trace:
    from instances.extract.models.language_models import build_qwen2_moe
    from instances.extract.record.graph.optimizers import AdamW
    from instances.extract.record.graph.training_step import trace_training_step

    return trace_training_step(lambda: build_qwen2_moe(tiny_settings(), **TINY), AdamW(), 1.0)


def test_gradients_of_the_operators_are_right() -> None:
    import torch
    from torch import Tensor

    from instances.extract.models.expert_parallel import (
        all_to_all,
        combine_rows,
        dispatch_rows,
    )

    torch.manual_seed(0)
    hidden = torch.rand(6, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    order = torch.randperm(12)

    def mix(hidden: Tensor, weights: Tensor) -> Tensor:
        # Fifteen places for twelve rows: three stay empty.
        chunks = all_to_all(dispatch_rows(hidden, order, [5, 5, 5]), [5, 5, 5])
        return combine_rows([chunk**2 for chunk in chunks], weights, order)

    assert torch.autograd.gradcheck(mix, (hidden, weights))


def test_shape_functions_agree_with_what_is_computed() -> None:
    import torch

    from instances.extract.models import expert_parallel as ep

    hidden, order = torch.rand(6, 4, requires_grad=True), torch.randperm(12)
    chunks = [torch.rand(6, 4, requires_grad=True) for _ in range(2)]
    weights = torch.rand(6, 2, requires_grad=True)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (ep.all_to_all, (chunks, [6, 6])),
        (ep.dispatch_rows, (hidden, order, [7, 6])),
        (ep.dispatch_rows_backward, (chunks, order, 6)),
        (ep.combine_rows, (chunks, weights, order)),
        (ep.combine_rows_backward, (hidden, chunks, weights, order)),
    ]
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for operator, arguments in calls:
        torch.library.opcheck(operator, arguments, test_utils=tests)


def test_a_balanced_block_computes_what_transformers_computes() -> None:
    import torch
    from transformers import Qwen2MoeConfig
    from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeSparseMoeBlock

    from instances.extract.models.language_models import spread_experts

    torch.manual_seed(0)
    config = Qwen2MoeConfig(**TINY)
    reference = Qwen2MoeSparseMoeBlock(config)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    # Token i goes to the experts i and i + 1, so that each expert gets its share.
    tokens = torch.zeros(1, EXPERTS, config.hidden_size)
    for token in range(EXPERTS):
        tokens[0, token, token] = 2.0
        tokens[0, token, (token + 1) % EXPERTS] = 1.0
    torch.nn.init.eye_(reference.gate.weight)
    block = spread_experts(reference, config, ranks=1)
    for index, expert in enumerate(block.experts):
        gate, up = reference.experts.gate_up_proj[index].detach().chunk(2)
        expert.gate_proj.weight.data = gate
        expert.up_proj.weight.data = up
        expert.down_proj.weight.data = reference.experts.down_proj[index].detach()
    ours, theirs = (tokens.clone().requires_grad_() for _ in range(2))
    computed, expected = block(ours), reference(theirs)
    torch.testing.assert_close(computed, expected)
    computed.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_chunk_within_a_larger_storage_is_copied_before_it_is_sent_back() -> None:
    import torch

    from instances.extract.models.expert_parallel import all_to_all

    sent = [torch.rand(2, 3, requires_grad=True) for _ in range(2)]
    received = all_to_all(sent, [2, 2])
    with torch.autograd.profiler.profile() as profile:
        torch.cat(received).square().sum().backward()
    copies = [event for event in profile.function_events if event.name == "aten::clone"]
    # Two parts of the concatenation's gradient, and what the exchange gives back.
    assert len(copies) == 4


def test_every_exchange_has_a_chain_for_what_is_sent_and_one_for_what_is_received(
    tiny_trace: Trace,
) -> None:
    problem = build_problem(tiny_trace, tiny_settings(streams="roles"), "tiny", {})
    graph = problem.graph
    assert graph is not None
    assert Counter(graph.op)["all_to_all"] == 4 * LAYERS
    sent: dict[int, list[int]] = {}
    received: dict[int, list[int]] = {}
    for tensor in range(problem.tensor_count):
        producer = int(graph.producer[tensor])
        if graph.op[producer] == "all_to_all":
            received.setdefault(producer, []).append(tensor)
        for node in graph.consumers_of(tensor).tolist():
            if graph.op[node] == "all_to_all":
                sent.setdefault(node, []).append(tensor)
    chains = {tuple(sorted(chain)) for chain in problem.contiguous}
    rows = 2 * 10 * TOP_K
    share = -(-rows // EXPERTS)
    for node in sent:
        assert {tuple(sent[node]), tuple(received[node])} <= chains
        assert {len(sent[node]), len(received[node])} == {EXPERTS, EXPERTS // RANKS}
        for chunks in (sent[node], received[node]):
            assert problem.size[chunks].sum() == 4 * 16 * share * EXPERTS
    # Nothing had to be copied, and the exchanges are on the stream of communication.
    assert not any("to send" in name for name in problem.tensor_name or ())
    assert len({int(graph.stream[node]) for node in sent}) == 1
    check(problem, place(problem, "size", "first"))


def test_experts_are_neither_reduced_nor_gathered(tiny_trace: Trace) -> None:
    names = [tiny_trace.name[gradient] for gradient in tiny_trace.gradients]
    assert not any(".experts." in name for name in names)
    assert sum(".shared." in name for name in names) == 4 * LAYERS
    experts = [name for name in tiny_trace.name if ".experts." in name]
    # A parameter and a gradient for each of three weights.
    assert len(experts) == 2 * 3 * LAYERS * EXPERTS // RANKS
    problem = build_problem(tiny_trace, tiny_settings(parallel="sharded"), "tiny", {})
    assert problem.tensor_name is not None
    gathered = [name for name in problem.tensor_name if name.startswith("full ")]
    assert gathered
    assert not any(".experts." in name for name in gathered)
    check(problem, place(problem, "size", "first"))


def test_all_ranks_together_have_the_published_parameters() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from instances.extract.models.building import build_module

    model = find_model("qwen2-moe")
    with FakeTensorMode():
        # Qwen1.5-MoE-A2.7B: 14.3 billion, of which a token goes through 2.7.
        module, _ = build_module(model, model.settings(layers=24, ranks=1))
    count = sum(parameter.numel() for parameter in module.parameters())
    assert count == pytest.approx(14.3e9, rel=0.002)


def test_experts_that_ranks_do_not_divide_are_refused() -> None:
    from instances.extract.models.language_models import build_qwen2_moe

    with pytest.raises(InstanceError, match="setting ranks: a divisor of 6"):
        build_qwen2_moe(replace(tiny_settings(), ranks=4), **TINY)
