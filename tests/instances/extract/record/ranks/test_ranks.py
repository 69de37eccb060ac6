"""Traces of one rank of several: against a recorded run, and by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instances.extract.record.own_extraction import open_own, trace_own
from instances.extract.record.ranks.parallel_model import parse_parallel
from instances.extract.record.ranks.rank import GroupFacts, Rank
from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.allocation_trace import NOTES, AllocationTrace, Phase, Role
from instances.traces.trace_requests import requests_of_trace
from planners.errors import InstanceError
from planners.model.online_result import OnlineTerms
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.instances.extract.own.user_scripts import STEP, written

pytestmark = pytest.mark.torch

SHARDED = """
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def make_step(rows=6, ranks=4):
    model = nn.Linear(5, rows, bias=False).to("cuda")
    fully_shard(model, mesh=init_device_mesh("cuda", (ranks,)))

    def step():
        model(torch.zeros(2, 5, device="cuda")).sum().backward()
        model.zero_grad()

    return step
"""

COPIED = """
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def make_step(views=False, unused=False, width=1000):
    distributed.init_process_group("nccl")
    torch.cuda.set_device(distributed.get_rank())
    shapes = (width, width), (width, width), (width, 7)
    layers = nn.Sequential(*(nn.Linear(*shape, bias=False) for shape in shapes))
    model = DistributedDataParallel(
        layers.cuda(), device_ids=[0], gradient_as_bucket_view=views,
        find_unused_parameters=unused, bucket_cap_mb=1,
    )

    def step():
        model(torch.zeros(2, width, device="cuda")).sum().backward()
        model.zero_grad()

    return step
"""

SPLIT = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from instances.extract import TrainingStep


def make_step(width=64):
    config = LlamaConfig(
        vocab_size=128, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return TrainingStep(model, {"input_ids": tokens, "labels": tokens}, optimizer)
"""

STREAMS = """
import torch


def make_step():
    side = torch.cuda.Stream()

    def step():
        block = torch.empty(10, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            other = torch.empty(20, dtype=torch.uint8, device="cuda")
            block.record_stream(side)
        del block, other
        torch.empty(30, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        torch.empty(40, dtype=torch.uint8, device="cuda")

    return step
"""


# The frequencies of positions, which no rank shards; there are two copies.
ROTARY_BYTES = 2 * 4 * 8


def trace_of(
    folder: Path, text: str, *settings: str, rank: int = 0, ranks: int = 2, parallel: str = ""
) -> AllocationTrace:
    function = open_own(f"{written(folder, text)}:make_step", list(settings))
    kinds = parse_parallel(parallel, ranks) if parallel else {}
    return trace_own(function, 3, rank=Rank(rank, ranks, kinds))


def before_the_steps(trace: AllocationTrace) -> list[int]:
    """Return the blocks that live when the first step begins."""
    begin = trace.mark_event[0]
    return sorted(trace.size[(trace.alloc < begin) & (trace.free_requested > begin)].tolist())


def live_peak(trace: AllocationTrace) -> int:
    events = [*zip(trace.alloc, trace.size, strict=True)]
    events += zip(trace.free_requested, -trace.size, strict=True)
    live = most = 0
    for _, size in sorted(events):
        live += int(size)
        most = max(most, live)
    return most


@pytest.mark.parametrize(
    ("function", "live", "reserved"),
    [
        ("make_sharded", 5_888_195_324, [7_440_695_296, 7_509_901_312]),
        ("make_copied", 12_514_204_572, [13_071_548_416, 12_945_719_296]),
    ],
)
def test_a_llama_holds_and_reserves_what_it_did_on_two_gpus(
    function: str, live: int, reserved: list[int]
) -> None:
    # Both ranks reserved the same.
    own = open_own(f"{Path(__file__).with_name('llama_on_two_gpus.py')}:{function}", [])
    trace = trace_own(own, 2, rank=Rank(0, 2))
    assert live_peak(trace) == live
    allocators = choose_online("pytorch-caching,pytorch-expandable")
    rows = run_online(requests_of_trace(trace), allocators, OnlineTerms()).rows
    assert [row.result.reserved_peak for row in rows if row.result is not None] == reserved
    if function == "make_sharded":
        # The lists by which kernels copy gathered layers and join gradients, as recorded.
        assert {32_112, 32_568, 72_088, 194_016} <= set(trace.size.tolist())


def test_whole_parameters_live_until_their_shards_are_made(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SHARDED, ranks=4)
    row = 4 * 5
    assert trace.size[:2].tolist() == [6 * row, 2 * row]
    assert before_the_steps(trace) == [2 * row]


WAYS_IN = """
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, OffloadPolicy
from torch.distributed.fsdp import fully_shard


def make_step(device="cuda", api=2, offload=False, passes=1):
    distributed.init_process_group("nccl")
    with torch.device(device):
        model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.ReLU(), nn.Linear(100, 100))
    if api == 1:
        model = FullyShardedDataParallel(model, device_id=torch.cuda.current_device())
    else:
        policy = CPUOffloadPolicy() if offload else OffloadPolicy()
        for part in (model[0], model):
            fully_shard(part, offload_policy=policy)
    if device == "meta":
        model.to_empty(device="cuda")
        for weight in model.parameters():
            nn.init.normal_(weight)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        for _ in range(passes):
            model(torch.zeros(2, 100, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
"""


@pytest.mark.parametrize("setting", ["api=1", "api=2", "offload=True"])
def test_gathered_parameters_are_not_an_update(setting: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, WAYS_IN, setting, "device='cpu'", "passes=2")
    forward, backward, update = Phase
    assert trace.mark_phase.tolist() == [forward, backward, forward, backward, update] * 3


def test_shards_are_the_same_whichever_way_a_model_comes_in(tmp_path: Path) -> None:
    def steady(*settings: str) -> tuple[list[int], int]:
        trace = trace_of(tmp_path, WAYS_IN, *settings)
        begin = trace.mark_event[trace.mark_iteration == 1][0]
        states = int(trace.size[trace.role == Role.STATE].sum())
        return trace.size[trace.alloc > begin].tolist(), states

    on_gpu = steady()
    assert on_gpu[1] == 2 * 4 * (50 * 100 + 50 * 100 + 50)
    assert steady("device='cpu'") == steady("device='meta'") == on_gpu
    assert steady("api=1")[1] == 2 * 4 * 20_100 // 2
    # The shards, their gradients and the states are on the host.
    offloaded = trace_of(tmp_path, WAYS_IN, "offload=True", "device='cpu'")
    assert not (offloaded.role == Role.STATE).any()
    assert before_the_steps(offloaded) == []


def test_ranks_are_unlike_by_their_shards(tmp_path: Path) -> None:
    # Six rows over four ranks: two, two, two, none, in a block of the largest shard.
    facts = GroupFacts.of(trace_of(tmp_path, SHARDED, ranks=4).origin)
    assert (facts.unlike, facts.groups) == ([0, 3], [4])
    last = trace_of(tmp_path, SHARDED, ranks=4, rank=3)
    assert last.origin["rank"] == 3
    assert GroupFacts.of(trace_of(tmp_path, SHARDED, "rows=9", ranks=4).origin).unlike == [0, 3]
    assert GroupFacts.of(trace_of(tmp_path, SHARDED, "rows=7", ranks=4).origin).unlike == [0, 3]


EXPERTS = """
import torch
from torch import distributed

EXPERTS = 4


def make_step(tokens=8, histogram=False):
    distributed.init_process_group("nccl")
    ranks = distributed.get_world_size()

    def step():
        rows = torch.zeros(tokens, 100, dtype=torch.uint8, device="cuda")
        chosen = torch.zeros(tokens, dtype=torch.int64, device="cuda")
        if histogram:
            sent = torch.histc(chosen, bins=EXPERTS, min=0, max=EXPERTS)
        else:
            sent = torch.bincount(chosen, minlength=EXPERTS)
        received = torch.empty_like(sent)
        distributed.all_to_all_single(received, sent)
        by_rank = [counts.view(ranks, -1).sum(1).tolist() for counts in (received, sent)]
        arrived = torch.empty(sum(by_rank[0]), 100, dtype=torch.uint8, device="cuda")
        distributed.all_to_all_single(arrived, rows, *by_rank)
        of = torch.arange(EXPERTS, device="cuda").repeat_interleave(received)
        for part in arrived[of.argsort()].split(received.view(ranks, -1).sum(0).tolist()):
            part.clone()

    return step
"""


@pytest.mark.parametrize("setting", ["histogram=False", "histogram=True"])
def test_experts_get_the_stated_share_of_the_tokens(setting: str, tmp_path: Path) -> None:
    function = open_own(f"{written(tmp_path, EXPERTS)}:make_step", [setting])
    for imbalance, rows in ((1.0, 8), (1.5, 12)):
        trace = trace_own(function, 1, rank=Rank(0, 2, imbalance=imbalance))
        sizes = [size for size in trace.size.tolist() if size % 100 == 0]
        # Its own rows, what arrives, the same by expert, and a copy for each of two experts.
        assert sizes == [800, *[100 * rows] * 2, *[50 * rows] * 2]
        assert f"times {imbalance:g} if" in str(trace.origin[NOTES])


LONG = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn import functional


def make_step(ranks=2):
    mesh = init_device_mesh("cuda", (ranks,))

    def step():
        inputs = torch.zeros(1, 2, 64, 8, dtype=torch.bfloat16, device="cuda")
        with context_parallel(mesh, buffers=[inputs], buffer_seq_dims=[2]):
            heads = inputs.detach().requires_grad_()
            functional.scaled_dot_product_attention(*[heads] * 3, is_causal=True).sum().backward()

    return step
"""


def test_a_part_of_a_sequence_gathers_the_keys_and_values_of_all(tmp_path: Path) -> None:
    part = 2 * 64 // 2 * 8 * 2
    assert 2 * (2 * part) in trace_of(tmp_path, LONG).size.tolist()


def test_copies_keep_gradients_in_buckets(tmp_path: Path) -> None:
    large, small = 4 * 1000 * 1000, 4 * 1000 * 7
    plain = trace_of(tmp_path, COPIED)
    # Weights, and one bucket for all gradients.
    bucket = 2 * large + small
    assert before_the_steps(plain) == sorted([large, large, small, bucket])
    # The first step tells the order of the gradients. The second one begins with buckets in this
    # order, of 1 MiB or the parameter that exceeds it.
    second = plain.mark_event[plain.mark_iteration == 1][0]
    assert plain.size[plain.alloc > second][:3].tolist() == [4 * 2 * 1000, small + large, large]
    views = trace_of(tmp_path, COPIED, "views=True")
    assert live_peak(plain) > live_peak(views)


def test_the_first_bucket_lives_until_the_next_collective(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, COPIED)
    second, third = (trace.mark_event[trace.mark_iteration == number][0] for number in (1, 2))
    bucket = 4 * (2 * 1000 * 1000 + 7 * 1000)
    [end] = trace.free_requested[
        (trace.size == bucket) & (trace.alloc < second) & (trace.free_requested > second)
    ]
    within = (trace.alloc > second) & (trace.alloc < third)
    [*_, of_middle, of_first] = trace.alloc[within & (trace.size == 4 * 1000 * 1000)]
    # The gradients of the last and the middle layer fill the first of the new buckets.
    assert of_middle < end < of_first


def test_a_number_a_parameter_tells_which_are_unused(tmp_path: Path) -> None:
    [plain, looking] = (
        before_the_steps(trace_of(tmp_path, COPIED, f"unused={unused}")) for unused in (False, True)
    )
    assert 3 * 4 not in plain
    assert 3 * 4 in looking


def test_tensor_parallel_ranks_share_what_the_plan_splits(tmp_path: Path) -> None:
    alone = trace_own(open_own(f"{written(tmp_path, SPLIT)}:make_step", []), 1)
    split = trace_of(tmp_path, SPLIT, parallel="tp")
    width = 64
    products = 4 * 2 * (2 * width * width + 2 * width * (width // 2) + 3 * width * 4 * width)
    head = 4 * 128 * width
    whole, shared = sum(before_the_steps(alone)), sum(before_the_steps(split))
    assert whole - shared == (products + head) // 2


def test_shards_of_a_mesh_of_two_dimensions(tmp_path: Path) -> None:
    four = trace_of(tmp_path, SPLIT, ranks=4, parallel="fsdp2=2,tp=2")
    alone = trace_own(open_own(f"{written(tmp_path, SPLIT)}:make_step", []), 1)
    assert sum(before_the_steps(four)) < sum(before_the_steps(alone)) / 2
    assert GroupFacts.of(four.origin).groups == [4, 2, 2]


@pytest.fixture
def small_llama(tmp_path: Path) -> str:
    fields = {
        "model_type": "llama", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields))
    return str(path)


def trace_of_model(name: str, rank: Rank | None = None) -> AllocationTrace:
    return record(name, TraceSettings(2), rank=rank, batch=2, seq=16)


def test_a_model_by_name_is_made_parallel(small_llama: str) -> None:
    alone = before_the_steps(trace_of_model(small_llama))
    copied = before_the_steps(trace_of_model(small_llama, Rank(0, 2, {"ddp": 2})))
    # One bucket for all gradients, which are as large as the weights.
    assert [*copied] == sorted([*alone, sum(alone) - ROTARY_BYTES])
    shards = before_the_steps(trace_of_model(small_llama, Rank(0, 2, {"fsdp2": 2})))
    assert sum(shards) - ROTARY_BYTES == (sum(alone) - ROTARY_BYTES) / 2


def test_ranks_of_one_process_have_groups_of_their_own(small_llama: str) -> None:
    mesh = {"fsdp2": 4, "tp": 2}
    first, last = (trace_of_model(small_llama, Rank(number, 8, mesh)) for number in (0, 7))
    assert live_peak(first) == live_peak(last)


def test_a_shared_block_ends_after_both_streams(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, STREAMS)
    assert trace.stream[:4].tolist() == [0, 1, 0, 0]
    shared, own = 0, 1
    assert trace.freed[shared] > trace.alloc[2] > trace.free_requested[shared]
    assert trace.freed[shared] < trace.alloc[3]
    assert trace.freed[own] == trace.free_requested[own] + 1


@pytest.mark.parametrize(
    ("parallel", "said"),
    [
        ("fsdp2=4,tp=4", "multiply to those of --ranks, 8; found fsdp2 4 x tp 4 = 16"),
        ("fsdp", "no kind is called 'fsdp'"),
        ("fsdp2=4,tp=x", "each kind once"),
        ("ddp=4,tp=2", "ddp goes alone"),
    ],
)
def test_refuses_impossible_kinds(parallel: str, said: str) -> None:
    with pytest.raises(InstanceError, match=f"--parallel: .*{said}"):
        parse_parallel(parallel, 8)


@pytest.mark.parametrize(
    ("text", "parallel", "said"),
    [
        (STREAMS, "fsdp2", "has to return a TrainingStep"),
        (STEP, "tp", "found Network without one; or call parallelize_module"),
        (SPLIT.replace("    tokens", "    __import__('torch').distributed.fsdp.fully_shard(model)\n"
         "    tokens"), "fsdp2", "not parallel yet, found a FSDPLlamaForCausalLM"),
    ],
)  # fmt: skip
def test_models_that_cannot_be_made_parallel(
    text: str, parallel: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InstanceError, match=said):
        trace_of(tmp_path, text, parallel=parallel)
