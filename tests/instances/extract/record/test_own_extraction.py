"""Graphs and eager traces of what users' functions make, against registered models and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from instances.extract import TrainingStep
from instances.extract.record.own_extraction import OWN_DEFAULTS, extract_own, open_own, trace_own
from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.allocation_trace import AllocationTrace, Phase, iteration_phases
from instances.traces.trace_differences import find_differences, iteration_figures
from planners import Problem
from tests.instances.extract.own.user_scripts import BERT, LOOP, NETWORK, STEP, written

pytestmark = pytest.mark.torch

BATCH = 8
WEIGHTS = [4 * 16 * 32, 4 * 32, 4 * 32 * 4, 4 * 4]


def trace_of(folder: Path, text: str, *settings: str, name: str = "make_step") -> AllocationTrace:
    return trace_own(open_own(f"{written(folder, text)}:{name}", list(settings)), 3)


def graph_of(folder: Path, text: str, *settings: str, name: str = "make_step") -> Problem:
    function = open_own(f"{written(folder, text)}:{name}", list(settings))
    return extract_own(function, OWN_DEFAULTS)


def test_a_loop_written_for_a_gpu_is_traced_as_the_registered_model(tmp_path: Path) -> None:
    own = trace_of(tmp_path, BERT)
    registered = record("bert-base", TraceSettings(), layers=1, batch=2, seq=16)
    assert not find_differences(own, registered)
    assert iteration_figures(own) == iteration_figures(registered)


KINDS = ["tensor", "tuple", "list", "dict", "dataclass", "ModelOutput"]


@pytest.mark.parametrize("returns", KINDS)
def test_a_loss_is_found_in_what_a_module_returns(returns: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, STEP, f"returns={returns}")
    forward, backward, update = iteration_phases(trace, -1)
    scores = 4 * BATCH * 4
    inputs = [4 * BATCH * 16, 8 * BATCH]
    hidden = 4 * BATCH * 32
    # Inputs; two layers and the activation between them; log-softmax; the loss and its weight.
    assert trace.size[forward].tolist() == [*inputs, hidden, hidden, scores, scores, 4, 4]
    assert set(WEIGHTS) <= set(trace.size[backward].tolist())
    assert not len(update)


def test_a_graph_has_the_kernels_of_the_step_and_its_gradients_live_to_the_update(
    tmp_path: Path,
) -> None:
    problem = graph_of(tmp_path, STEP, name="make_loss")
    graph = problem.graph
    assert graph is not None
    ops = list(graph.op)
    assert ops[0] == "input"
    assert ops[-1] == "output"
    assert ops.count("addmm") == 2
    update = ops.index("_foreach_add_")
    read_by_update = [
        tensor for tensor in range(problem.tensor_count) if update in graph.consumers_of(tensor)
    ]
    assert sorted(problem.size[read_by_update].tolist()) == sorted(WEIGHTS)
    names = problem.tensor_name
    assert names is not None
    assert any(name.startswith("Network.first.addmm_") for name in names)
    # Weights, and what libraries keep: cuBLAS a thread, cuBLASLt once.
    assert problem.origin["persistent_bytes"] == sum(WEIGHTS) + 2 * (32 << 20) + (1 << 20)


def test_the_kernels_of_a_graph_have_work_and_copies_of_the_batch_do_not_run_again(
    tmp_path: Path,
) -> None:
    graph = graph_of(tmp_path, STEP, name="make_loss").graph
    assert graph is not None
    assert graph.work is not None
    work = dict(zip(zip(graph.op, graph.work.phase.tolist(), strict=True), zip(
        graph.work.flops.tolist(), graph.work.repeatable.tolist(), strict=True
    ), strict=True))  # fmt: skip
    assert work["_to_copy", 0] == (0, 0)
    assert work["relu", 0] == (0, 1)
    assert work["addmm", 0] == (2 * BATCH * 32 * 4, 1)  # the second layer
    assert {flops for (op, phase), (flops, _) in work.items() if op == "mm" and phase == 1} != {0}


def test_gradients_of_microbatches_add_up_in_place(tmp_path: Path) -> None:
    problem = graph_of(tmp_path, LOOP, "parts=3")
    assert problem.graph is not None
    ops = list(problem.graph.op)
    assert ops.count("nll_loss_forward") == 3
    assert ops.count("add_") == 2 * len(WEIGHTS)
    trace = trace_of(tmp_path, LOOP, "parts=3")
    kinds = [Phase.FORWARD, Phase.BACKWARD] * 3 + [Phase.OPTIMIZER]
    assert trace.mark_phase.tolist() == kinds * 3
    assert trace.iteration_count == 3
    # Clipping and the update allocate as they do on a GPU: many tensors at once.
    assert "_foreach_norm" in ops
    assert "_foreach_addcdiv_" in ops


def test_casts_of_autocast_are_those_of_a_gpu(tmp_path: Path) -> None:
    plain = trace_of(tmp_path, LOOP.replace("torch.bfloat16):", "torch.bfloat16, enabled=False):"))
    cast = trace_of(tmp_path, LOOP)
    weight_in_16_bits = 2 * 16 * 32
    assert weight_in_16_bits in cast.size[iteration_phases(cast, -1)[0]]
    assert weight_in_16_bits not in plain.size[iteration_phases(plain, -1)[0]]


TWO_OPTIMIZERS = """

def make_step():
    make, judge = nn.Linear(16, 16).cuda(), nn.Linear(16, 1).cuda()
    optimizers = [torch.optim.Adam(module.parameters()) for module in (judge, make)]

    def step():
        made = make(torch.randn(8, 16, device="cuda"))
        for optimizer, seen in zip(optimizers, (made.detach(), made), strict=True):
            judge(seen).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return step
"""


def test_a_step_with_two_optimizers_is_one_iteration(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, NETWORK + TWO_OPTIMIZERS)
    assert trace.mark_phase.tolist() == [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER] * 3
    assert trace.iteration_count == 3


FIRST_ZEROES = """

def make_step():
    module = nn.Linear(16, 16, bias=False)
    optimizer = torch.optim.SGD(module.parameters())

    def step():
        optimizer.zero_grad()
        module(torch.randn(8, 16)).sum().backward()
        optimizer.step()

    return step
"""


def test_gradients_that_outlive_a_step_live_to_its_end(tmp_path: Path) -> None:
    problem = graph_of(tmp_path, NETWORK + FIRST_ZEROES)
    graph = problem.graph
    assert graph is not None
    gradient = problem.size.tolist().index(4 * 16 * 16)
    assert len(graph.op) - 1 in graph.consumers_of(gradient)


def test_a_training_step_trains_outside_of_a_trace_too(tmp_path: Path) -> None:
    step = open_own(f"{written(tmp_path, STEP)}:make_step", []).make()
    assert isinstance(step, TrainingStep)
    before = [parameter.detach().clone() for parameter in step.module.parameters()]
    step()
    after = list(step.module.parameters())
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert all(parameter.grad is None for parameter in after)
