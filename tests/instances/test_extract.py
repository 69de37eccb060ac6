"""Extraction: storages, buckets, arcs and streams on small graphs; BERT itself under `torch`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import instances.extract
from instances.extract.arcs import find_control_arcs
from instances.extract.buckets import fill_buckets, insert_all_reduces
from instances.extract.models import find_model
from instances.extract.settings import StepSettings
from instances.extract.step_problem import build_problem
from instances.extract.storages import Kernel, Phase, Trace, TracedOp, merge_storages
from instances.extract.streams import Category, StreamScheme, assign_streams, category_of
from planners import Problem
from planners.errors import InstanceError
from planners.problem_file import read_problem

BERT = Path(instances.extract.__file__).parents[1] / "bert.json"

# Requested bytes, above those of parameters, state and batch, that PyTorch 2.11 itself reported
# on an NVIDIA H200 as the peak of this step: BertForMaskedLM(BertConfig()), batch 32 x 128 with a
# padding mask, float32, AdamW(capturable=True, foreach=False), clip_grad_norm_(1.0).
GPU_PEAK_BYTES = 4_086_071_304
GPU_PEAK_BATCH_BYTES = 2 * 32 * 128 * 8  # token types and tokens; ours are tensors of the step

FORWARD, BACKWARD, OPTIMIZER = Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER


def peak_of(problem: Problem) -> int:
    """Largest sum of the sizes of tensors alive at one step of the global order."""
    change = np.zeros(int(problem.end.max()) + 1, dtype=np.int64)
    np.add.at(change, problem.start, problem.size)
    np.add.at(change, problem.end, -problem.size)
    return int(change.cumsum().max())


def tiny_trace(**changes: Any) -> Trace:
    r"""One weight, updated by its gradient.

    x -- mul ---- h -- t (a view) -- exp_ (in place) -- sum -- loss
          |                                                |
    w ----+------------- dw = grad ------------------------+
          \--- w' = sub(w, dw), which becomes w
    """
    x, w, h, loss, dw, new_w = range(6)
    fields: dict[str, Any] = {
        "ops": (
            TracedOp("mul", "mul", FORWARD, (x, w), (), (h,)),
            TracedOp("t", "t", FORWARD, (h,), (), (h,)),
            TracedOp("exp_", "exp_", FORWARD, (h,), (h,), (h,)),
            TracedOp("sum", "sum", FORWARD, (h,), (), (loss,)),
            TracedOp("grad", "mm", BACKWARD, (h, w), (), (dw,)),
            TracedOp("sub", "sub", OPTIMIZER, (w, dw), (), (new_w,)),
        ),
        "size": (40, 8, 40, 4, 8, 8),
        "name": ("x", "w", "h", "loss", "grad w", "sub"),
        "batch": (x,),
        "persistent": frozenset({w}),
        "updates": {new_w: w},
        "gradients": (dw,),
        "returned": (loss,),
    }
    return Trace(**{**fields, **changes})


# --- storages ------------------------------------------------------------------------------


def test_views_run_nothing_and_in_place_results_are_their_argument() -> None:
    kernels = merge_storages(tiny_trace())
    assert [kernel.op for kernel in kernels] == [
        "input", "mul", "exp_", "sum", "mm", "sub", "output",
    ]  # fmt: skip
    assert kernels[2] == Kernel("exp_", FORWARD, writes=(2,))


def test_batch_has_a_source_and_the_loss_a_sink() -> None:
    kernels = merge_storages(tiny_trace())
    assert kernels[0] == Kernel("input", FORWARD, creates=(0,))
    assert kernels[-1] == Kernel("output", OPTIMIZER, reads=(3,))


def test_a_new_parameter_is_written_into_the_old_one() -> None:
    kernels = merge_storages(tiny_trace())
    assert kernels[-2] == Kernel("sub", OPTIMIZER, reads=(4,), writes=(1,))


def test_readers_of_a_new_value_read_the_persistent_storage() -> None:
    trace = tiny_trace()
    norm = TracedOp("norm", "norm", OPTIMIZER, (5,), (), (6,))
    trace = tiny_trace(ops=(*trace.ops, norm), size=(*trace.size, 4), name=(*trace.name, "norm"))
    assert merge_storages(trace)[-2] == Kernel("norm", OPTIMIZER, reads=(1,), creates=(6,))


def test_the_old_value_may_not_be_read_after_the_new_one_is_written() -> None:
    trace = tiny_trace()
    late = TracedOp("late", "neg", OPTIMIZER, (1,), (), (6,))
    trace = tiny_trace(ops=(*trace.ops, late), size=(*trace.size, 8), name=(*trace.name, "neg"))
    with pytest.raises(InstanceError, match=r"operation late: the old value of w is read"):
        merge_storages(trace)


def test_an_operation_may_begin_several_storages_and_repeat_an_argument() -> None:
    norm = TracedOp("norm", "norm", FORWARD, (0, 0), (), (1, 2, 1))
    trace = Trace((norm,), (4, 4, 4), ("x", "a", "b"), (0,), frozenset(), {}, (), (1,))
    assert merge_storages(trace)[1] == Kernel("norm", FORWARD, reads=(0,), creates=(1, 2))


# --- buckets -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        ([], []),
        ([4, 6], [[0, 1]]),
        ([4, 7], [[0], [1]]),
        ([25, 1, 1], [[0], [1, 2]]),
        ([1, 25, 1], [[0], [1], [2]]),
        ([0, 10, 0], [[0, 1, 2]]),
    ],
)
def test_buckets_of_ten_bytes(sizes: list[int], buckets: list[list[int]]) -> None:
    assert fill_buckets(sizes, 10) == buckets


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_buckets_until_full_keep_the_order_and_are_closed_as_soon_as_full(
    sizes: list[int], capacity: int
) -> None:
    buckets = fill_buckets(sizes, capacity, until_full=True)
    assert [position for bucket in buckets for position in bucket] == list(range(len(sizes)))
    for bucket in buckets:
        assert sum(sizes[position] for position in bucket[:-1]) < capacity
    for bucket in buckets[:-1]:
        assert sum(sizes[position] for position in bucket) >= capacity


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_buckets_keep_the_order_fit_and_are_closed_only_when_full(
    sizes: list[int], capacity: int
) -> None:
    buckets = fill_buckets(sizes, capacity)
    assert [position for bucket in buckets for position in bucket] == list(range(len(sizes)))
    totals = [sum(sizes[position] for position in bucket) for bucket in buckets]
    for bucket, total in zip(buckets, totals, strict=True):
        assert total <= capacity or len(bucket) == 1
    for total, following in zip(totals, buckets[1:], strict=False):
        assert total + sizes[following[0]] > capacity


def backward_of(*gradients: int) -> list[Kernel]:
    return [Kernel("mm", BACKWARD, creates=(gradient,)) for gradient in gradients]


def test_an_all_reduce_follows_the_last_gradient_of_its_bucket() -> None:
    kernels = [*backward_of(2, 0, 1), Kernel("sub", OPTIMIZER, reads=(0, 1, 2))]
    merged, buckets = insert_all_reduces(kernels, [0, 1, 2], [5, 5, 5], 10)
    # In the order in which they are ready, not in that of the parameters.
    assert buckets == [(2, 0), (1,)]
    assert [kernel.op for kernel in merged] == ["mm", "mm", "all_reduce", "mm", "all_reduce", "sub"]
    assert merged[2] == Kernel("all_reduce", BACKWARD, writes=(2, 0))


def test_an_all_reduce_waits_for_the_backward_pass_to_read_a_gradient() -> None:
    late = Kernel("add", BACKWARD, reads=(0,), creates=(2,))
    kernels = [*backward_of(0, 1), late, Kernel("sub", OPTIMIZER, reads=(0, 1))]
    merged, buckets = insert_all_reduces(kernels, [0, 1], [5, 5, 5], 10)
    assert buckets == [(1, 0)]
    assert [kernel.op for kernel in merged] == ["mm", "mm", "add", "all_reduce", "sub"]


def test_gradients_of_one_kernel_keep_the_order_of_the_parameters() -> None:
    kernels = [Kernel("norm_backward", BACKWARD, creates=(2, 1, 0))]
    assert insert_all_reduces(kernels, [0, 1, 2], [1, 1, 1], 10)[1] == [(0, 1, 2)]


# --- arcs ----------------------------------------------------------------------------------


def test_the_optimizer_waits_for_the_all_reduce() -> None:
    kernels = [
        *backward_of(0),
        Kernel("all_reduce", BACKWARD, writes=(0,)),
        Kernel("norm", OPTIMIZER, reads=(0,), creates=(1,)),
        Kernel("mul", OPTIMIZER, reads=(0,), creates=(2,)),
    ]
    assert find_control_arcs(kernels) == [(1, 2), (1, 3)]


def test_a_parameter_is_overwritten_after_its_readers_and_read_after_that() -> None:
    weight = 9
    kernels = [
        Kernel("addmm", FORWARD, reads=(weight,), creates=(0,)),
        Kernel("mm", BACKWARD, reads=(weight,), creates=(1,)),
        Kernel("addcdiv", OPTIMIZER, reads=(0,), writes=(weight,)),
        Kernel("norm", OPTIMIZER, reads=(weight,), creates=(2,)),
        Kernel("clamp_", OPTIMIZER, writes=(weight,)),
    ]
    # 0 -> 2 is there as the arc of tensor 0 already.
    assert find_control_arcs(kernels) == [(1, 2), (2, 3), (2, 4), (3, 4)]


def test_an_in_place_write_waits_for_earlier_readers_of_the_tensor() -> None:
    kernels = [
        Kernel("mm", FORWARD, creates=(0,)),
        Kernel("sum", FORWARD, reads=(0,), creates=(1,)),
        Kernel("relu_", FORWARD, writes=(0,)),
    ]
    assert find_control_arcs(kernels) == [(1, 2)]


def test_a_kernel_waits_for_those_who_have_read_what_it_comes_after() -> None:
    kernels = [
        Kernel("all_gather", FORWARD, creates=(0,)),
        Kernel("mm", FORWARD, reads=(0,), creates=(1,)),
        Kernel("mm", FORWARD, reads=(0,), creates=(2,)),
        Kernel("all_gather", FORWARD, creates=(3,), after=(0, 1)),
        Kernel("mm", FORWARD, reads=(0,), creates=(4,)),
    ]
    # The third reader comes later; nobody has read storage 1 yet.
    assert find_control_arcs(kernels) == [(1, 3), (2, 3)]


# --- streams -------------------------------------------------------------------------------


def test_a_stream_is_of_one_category_and_a_full_one_is_followed_by_a_new_one() -> None:
    ops = ["input", "mm", "mm", "all_reduce", "mm", "cat", "mm", "mm", "all_reduce"]
    assert assign_streams(ops, 2) == [0, 1, 1, 2, 3, 0, 3, 4, 2]


@given(st.lists(st.sampled_from(["mm", "all_reduce", "cat", "input"])), st.integers(1, 5))
def test_streams_hold_few_nodes_of_one_category_in_order(ops: list[str], limit: int) -> None:
    streams = assign_streams(ops, limit)
    assert list(dict.fromkeys(streams)) == list(range(len(set(streams))))
    categories = [category_of(op) for op in ops]
    assert len(set(zip(streams, categories, strict=True))) == len(set(streams))
    for category in Category:
        own = [s for s, of in zip(streams, categories, strict=True) if of is category]
        assert own == sorted(own)
        counts = list(Counter(own).values())
        assert all(count == limit for count in counts[:-1])
        assert all(count <= limit for count in counts)


def test_by_role_collectives_and_copies_from_the_host_have_a_stream_each() -> None:
    ops = ["input", "all_gather", "mm", "cat", "all_to_all", "reduce_scatter", "sub", "output"]
    assert assign_streams(ops, 1, StreamScheme.ROLES) == [0, 1, 2, 2, 1, 1, 2, 0]


@pytest.mark.parametrize("op", ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"])
def test_collectives_communicate(op: str) -> None:
    assert category_of(op) is Category.COMMUNICATION


# --- the problem ---------------------------------------------------------------------------


def test_a_tiny_step_becomes_this_problem() -> None:
    settings = StepSettings(nodes_per_stream=2)
    problem = build_problem(tiny_trace(), settings, "tiny", {"model": "hand-made"})
    assert problem.tensor_name == ("x", "h", "loss", "grad w")
    assert problem.size.tolist() == [40, 40, 4, 8]
    graph = problem.graph
    assert graph is not None
    #                  0        1      2       3      4     5             6      7
    assert graph.op == ("input", "mul", "exp_", "sum", "mm", "all_reduce", "sub", "output")
    assert graph.stream.tolist() == [0, 1, 1, 2, 2, 3, 4, 0]
    assert graph.producer.tolist() == [0, 1, 3, 4]
    consumers = [graph.consumers_of(tensor).tolist() for tensor in range(4)]
    assert consumers == [[1], [2, 3, 4], [7], [5, 6]]
    # mul reads w before sub writes it (that mm does is an arc of its gradient already); exp_ is
    # done before h is read; sub reads the reduced gradient.
    assert graph.control.tolist() == [[1, 6], [2, 3], [2, 4], [5, 6]]
    # One gradient alone is no chain.
    assert problem.contiguous == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "setting batch: at least 1, found 0"),
        ({"nodes_per_stream": -1}, "setting nodes_per_stream: at least 1, found -1"),
        ({"bucket_mb": 0}, "setting bucket_mb: at least 1, found 0"),
        ({"ranks": 0}, "setting ranks: at least 1, found 0"),
        ({"streams": "one"}, "setting streams: category or roles, found 'one'"),
        ({"parallel": "split"}, "setting parallel: replicated or sharded, found 'split'"),
        ({"clip_norm": float("nan")}, "setting clip_norm: a finite number"),
        ({"clip_norm": -1.0}, "setting clip_norm: a finite number"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        StepSettings(**changes)


def test_a_forward_pass_has_no_shards() -> None:
    assert StepSettings(parallel="sharded").sharded
    assert not StepSettings(parallel="sharded", mode="inference").sharded
    with pytest.raises(InstanceError, match="setting parallel: an inference graph has no use"):
        find_model("bert-base").settings(mode="inference", parallel="sharded")


def test_settings_of_parallelism_are_on_the_command_line_where_they_differ() -> None:
    defaults = StepSettings()
    assert "--parallel" not in defaults.command_line(defaults)
    changed = StepSettings(streams="roles", parallel="sharded", ranks=4)
    assert changed.command_line(defaults).endswith("--streams roles --parallel sharded --ranks 4")


# --- the command ---------------------------------------------------------------------------


def run_without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    # An entry of None makes the import fail as if the package were not installed.
    blocked = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['transformers'] = None; "
        f"sys.argv = ['extract', *{list(arguments)!r}]; "
        "runpy.run_module('instances.extract', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False
    )


def test_help_needs_no_torch() -> None:
    result = run_without_torch("--help")
    assert result.returncode == 0
    assert "--nodes-per-stream" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert-base"], "needs torch"),
        (["bert-bse"], "no model is called 'bert-bse'; did you mean 'bert-base'"),
        (["bert-base", "--batch", "0"], "setting batch: at least 1, found 0"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    result = run_without_torch(*arguments, "-o", str(output))
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not output.exists()


def test_a_missing_torch_names_the_extra(tmp_path: Path) -> None:
    result = run_without_torch("bert-base", "-o", str(tmp_path / "out.json"))
    assert "pip install -e '.[torch]'" in result.stderr


# --- the committed instance ----------------------------------------------------------------


@pytest.fixture(scope="module")
def bert() -> Problem:
    return read_problem(BERT)


def check_step(problem: Problem, bucket_bytes: int, nodes_per_stream: int) -> None:
    """What holds for every extracted training step."""
    graph = problem.graph
    assert graph is not None
    views = {"t", "view", "transpose", "expand", "detach", "unsqueeze", "slice", "getitem"}
    assert not views & set(graph.op)
    for chain in problem.contiguous:
        assert problem.size[list(chain)].sum() <= bucket_bytes
    all_reduces = {node for node, op in enumerate(graph.op) if op == "all_reduce"}
    control = set(map(tuple, graph.control.tolist()))
    chain_of = {tensor: index for index, chain in enumerate(problem.contiguous) for tensor in chain}
    reduced_by: dict[int, int] = {}
    assert problem.tensor_name is not None
    for tensor, name in enumerate(problem.tensor_name):
        touching = graph.consumers_of(tensor).tolist()
        waits = [node for node in touching if node in all_reduces]
        if not name.startswith("grad "):
            assert not waits, name
            continue
        (all_reduce,) = waits
        for later in (node for node in touching if node > all_reduce):
            assert (all_reduce, later) in control, name
        assert any(node > all_reduce for node in touching), name
        if tensor in chain_of:
            assert reduced_by.setdefault(all_reduce, chain_of[tensor]) == chain_of[tensor]
    assert sorted(reduced_by.values()) == list(range(len(problem.contiguous)))
    nodes_on = Counter(graph.stream.tolist())
    assert max(nodes_on.values()) <= nodes_per_stream
    categories = {(s, category_of(op)) for s, op in zip(graph.stream, graph.op, strict=True)}
    assert len(categories) == graph.stream_count


def test_bert_is_a_whole_training_step(bert: Problem) -> None:
    check_step(bert, 25 << 20, 350)
    assert bert.graph is not None
    assert bert.tensor_name is not None
    ops = Counter(bert.graph.op)
    parameters = 202
    assert ops["addcdiv"] == parameters
    assert sum(name.startswith("grad ") for name in bert.tensor_name) == parameters
    assert ops["_scaled_dot_product_efficient_attention_backward"] == 12
    assert 4_000 <= bert.tensor_count <= 5_000


def test_the_peak_of_bert_is_that_of_a_gpu(bert: Problem) -> None:
    assert peak_of(bert) == pytest.approx(GPU_PEAK_BYTES + GPU_PEAK_BATCH_BYTES, rel=1e-6)


def test_bert_keeps_gpu_masks_and_no_attention_matrix(bert: Problem) -> None:
    assert bert.graph is not None
    sizes: dict[str, list[int]] = {}
    for tensor, producer in enumerate(bert.graph.producer.tolist()):
        sizes.setdefault(bert.graph.op[producer], []).append(int(bert.size[tensor]))
    elements = 32 * 128 * 768
    # The result in float32 and a mask of one byte an element, for each of 25 dropouts.
    assert Counter(sizes["native_dropout"]) == {4 * elements: 25, elements: 25}
    # Output, log-sum-exp and the two words of the random state; no 32 x 12 x 128 x 128 matrix.
    attention = sizes["_scaled_dot_product_efficient_attention"]
    assert Counter(attention) == {4 * elements: 12, 4 * 32 * 12 * 128: 12, 8: 24}
    assert bert.size.max() == 4 * 32 * 128 * 30522
    assert Counter(bert.size.tolist())[int(bert.size.max())] == 4


def test_the_origin_of_bert_says_how_it_was_made(bert: Problem) -> None:
    assert bert.origin["command"] == (
        "python -m instances.extract bert-base --batch 32 --seq 128 --optimizer adamw "
        "--clip-norm 1 --nodes-per-stream 350 --bucket-mb 25"
    )
    parameters, buffers = 109_514_298, 2 * 512 * 8
    assert bert.origin["persistent_bytes"] == 4 * (3 * parameters + 202) + buffers


# --- with torch ----------------------------------------------------------------------------


@pytest.mark.torch
def test_bert_is_regenerated_byte_for_byte(tmp_path: Path, bert: Problem) -> None:
    for package in ("torch", "transformers"):
        found = version(package).split("+")[0]
        assert found == bert.origin[package], f"use constraints.txt: {package} is {found}"
    output = tmp_path / "bert.json"
    command = str(bert.origin["command"]).split()[1:]
    subprocess.run([sys.executable, *command, "-o", str(output)], check=True)
    assert output.read_bytes() == BERT.read_bytes()


@pytest.mark.torch
def test_two_layers_of_bert() -> None:
    from instances.extract.models.bert import build_bert
    from instances.extract.optimizers import AdamW
    from instances.extract.training_step import trace_training_step

    settings = StepSettings(
        batch=4, seq=20, layers=2, nodes_per_stream=50, bucket_mb=8, clip_norm=0
    )
    trace = trace_training_step(lambda: build_bert(settings), AdamW(), settings.clip_norm)
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


@pytest.mark.torch
def test_a_gradient_that_shares_its_storage_is_copied() -> None:
    import torch
    from torch import Tensor

    from instances.extract.optimizers import AdamW
    from instances.extract.training_step import trace_training_step

    class Output:
        def __init__(self, loss: Tensor) -> None:
            self.loss = loss

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
    assert [op.op for op in trace.ops if op.phase is BACKWARD].count("clone") == 3
    problem = build_problem(trace, StepSettings(), "sums", {})
    (chain,) = problem.contiguous
    assert problem.tensor_name is not None
    names = [problem.tensor_name[tensor] for tensor in chain]
    assert names == ["grad left", "grad right", "grad whole"]


@pytest.mark.torch
def test_adamw_and_clipping_compute_what_pytorch_computes() -> None:
    import torch

    from instances.extract.optimizers import AdamW, clip_factor

    generator = torch.Generator().manual_seed(0)
    ours = AdamW(lr=0.1, weight_decay=0.05)
    reference = torch.nn.Parameter(torch.rand(7, generator=generator, dtype=torch.float64))
    optimizer = torch.optim.AdamW([reference], lr=0.1, weight_decay=0.05)
    parameter = reference.detach().clone()
    state = ours.initial_state(parameter)
    for _ in range(4):
        gradient = 3 * torch.rand(7, generator=generator, dtype=torch.float64)
        reference.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([reference], 1.0)
        optimizer.step()
        scaled = gradient * clip_factor([gradient], 1.0)
        parameter, state = ours.update(parameter, scaled, state)
        # The step counter, and so the corrections, are float32, as PyTorch's capturable ones.
        torch.testing.assert_close(parameter, reference.detach(), rtol=1e-4, atol=1e-6)
    assert clip_factor([torch.full((2,), 0.1)], 1.0) == 1.0


@pytest.mark.torch
def test_functions_are_put_back_after_tracing() -> None:
    from torch.nn import functional

    from instances.extract.gpu_kernels import gpu_kernels

    before = (functional.dropout, functional.scaled_dot_product_attention)
    with gpu_kernels():
        assert functional.dropout is not before[0]
        assert functional.scaled_dot_product_attention is not before[1]
    assert (functional.dropout, functional.scaled_dot_product_attention) == before


@pytest.mark.torch
def test_an_unknown_optimizer_lists_what_is_near(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "instances.extract", "bert-base", "--optimizer", "adam"]
    result = subprocess.run(
        [*command, "-o", str(tmp_path / "out.json")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no optimizer is called 'adam'; did you mean 'adamw' or 'lamb'?" in result.stderr


def test_importing_instances_imports_no_torch() -> None:
    code = (
        "import json, sys, instances, instances.extract, instances.extract.extraction; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"torch", "transformers"} & set(json.loads(result.stdout))
