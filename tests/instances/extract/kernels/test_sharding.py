"""Sharded data parallel on small steps: what is gathered when, and what the optimizer sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.kernels.sharding import (
    UNITS_BETWEEN,
    Residency,
    Sharding,
    find_residencies,
    find_runs,
    group_units,
    layer_of,
    shard_parameters,
)
from instances.extract.kernels.storages import Kernel, StepPhase, StorageTable, Trace, TracedOp
from instances.extract.models.language_models import BERT_FIELDS, of_tokens
from instances.extract.step_settings import StepSettings
from planners import Problem, check, place
from planners.errors import InstanceError
from tests.definitions import unsafe_by_paths
from tests.instances.extract.tiny_models import extract_tiny, gradient_names

FORWARD, BACKWARD, OPTIMIZER = StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.OPTIMIZER
COLLECTIVES = {"all_gather", "reduce_scatter"}


@dataclass(frozen=True)
class SmallStep:
    """A step of a stack of layers, without communication."""

    kernels: list[Kernel]
    parameters: list[int]
    gradients: list[int]
    size: list[int]
    name: list[str]

    def shard(
        self, ranks: int = 2, bucket_bytes: int = 1000
    ) -> tuple[list[Kernel], list[tuple[int, ...]], StorageTable]:
        """Return kernels, chains and storages of the sharded step."""
        storages = StorageTable(self.size, self.name)
        kernels, chains = shard_parameters(
            self.kernels, self.parameters, self.gradients, storages, Sharding(ranks, bucket_bytes)
        )
        return kernels, chains, storages


class StepWriter:
    """Writes a step kernel by kernel; a storage is its size and name."""

    def __init__(self) -> None:
        self.size: list[int] = []
        self.name: list[str] = []
        self.kernels: list[Kernel] = []

    def storage(self, name: str, size: int) -> int:
        self.size.append(size)
        self.name.append(name)
        return len(self.size) - 1

    def run(self, op: str, phase: StepPhase, reads: Sequence[int], result: str, size: int) -> int:
        created = self.storage(result, size)
        self.kernels.append(Kernel(op, phase, tuple(dict.fromkeys(reads)), creates=(created,)))
        return created


def write_step(sizes: dict[str, int], forward: Sequence[Sequence[str]], reread: bool) -> SmallStep:
    """Write a step in which each kernel of the forward pass reads some parameters.

    The backward pass goes through the same kernels from the last to the first; each makes a part
    of the gradients of its parameters and reads these again or not. The optimizer has a moment
    for each parameter, a norm and a temporary.
    """
    step = StepWriter()
    weight = {name: step.storage(name, size) for name, size in sizes.items()}
    moment = {name: step.storage(f"moment {name}", size) for name, size in sizes.items()}
    x = step.storage("x", 40)
    step.kernels.append(Kernel("input", FORWARD, creates=(x,)))
    activation = [x]
    for index, names in enumerate(forward):
        reads = [activation[-1], *(weight[name] for name in names)]
        activation.append(step.run("mm", FORWARD, reads, f"h{index}", 40))
    grad: dict[str, int] = {}
    delta = activation[-1]
    for index, names in reversed(list(enumerate(forward))):
        again = [weight[name] for name in names] if reread else []
        arriving = delta
        delta = step.run("mm", BACKWARD, [arriving, *again], f"d{index}", 40)
        for name in names:
            reads = [arriving, activation[index]]
            part = step.run("mm", BACKWARD, reads, f"grad {name}", sizes[name])
            if name in grad:
                reads = [part, grad[name]]
                part = step.run("add", BACKWARD, reads, f"grad {name}", sizes[name])
            grad[name] = part
    for name, gradient in grad.items():
        norm = step.run("norm", OPTIMIZER, [gradient], f"norm {name}", 1)
        root = step.run("sqrt", OPTIMIZER, [gradient, norm], f"root {name}", sizes[name])
        step.kernels.append(Kernel("lerp", OPTIMIZER, (gradient,), (moment[name],)))
        decayed = step.run("mul", OPTIMIZER, [weight[name]], f"decayed {name}", sizes[name])
        reads = (decayed, root, moment[name])
        step.kernels.append(Kernel("addcdiv", OPTIMIZER, reads, (weight[name],)))
    step.kernels.append(Kernel("output", OPTIMIZER, reads=(activation[-1],)))
    trained = [name for name in sizes if name in grad]
    parameters, gradients = [weight[name] for name in trained], [grad[name] for name in trained]
    return SmallStep(step.kernels, parameters, gradients, step.size, step.name)


def four_layers() -> SmallStep:
    """Four layers of one weight, as large as an activation, read in both passes."""
    names = [f"layer.{index}.w" for index in range(4)]
    return write_step(dict.fromkeys(names, 40), [[name] for name in names], reread=True)


def described(kernels: Sequence[Kernel], storages: StorageTable) -> list[str]:
    """Return what each collective does, and the bare operators between them."""
    lines = []
    for kernel in kernels:
        if kernel.op in COLLECTIVES:
            result = " ".join(storages.name[storage] for storage in kernel.creates)
            after = " ".join(storages.name[storage] for storage in kernel.after)
            lines.append(f"{kernel.op}: {result}" + (f" after {after}" if after else ""))
        else:
            lines.append(kernel.op)
    return lines


# --- exact results -------------------------------------------------------------------------


def test_gathers_run_one_layer_ahead_and_reductions_follow_the_gradients() -> None:
    kernels, _, storages = four_layers().shard()
    optimizer = ["norm", "sqrt", "lerp", "mul", "addcdiv"]
    assert described(kernels, storages) == [
        "input",
        "all_gather: full layer.0.w.1",
        "all_gather: full layer.1.w.1",
        "mm",
        "all_gather: full layer.2.w.1 after full layer.0.w.1",
        "mm",
        "all_gather: full layer.3.w.1 after full layer.1.w.1",
        "mm",
        "mm",
        # The backward pass: layers 3 and 2 are there still.
        "mm",
        "mm",
        "reduce_scatter: shard of grad layer.3.w",
        "all_gather: full layer.1.w.2 after full layer.3.w.1",
        "mm",
        "mm",
        "reduce_scatter: shard of grad layer.2.w",
        "all_gather: full layer.0.w.2 after full layer.2.w.1",
        "mm",
        "mm",
        "reduce_scatter: shard of grad layer.1.w",
        "mm",
        "mm",
        "reduce_scatter: shard of grad layer.0.w",
        *(optimizer * 4),
        "output",
    ]


def test_sizes_of_what_the_optimizer_has_are_divided() -> None:
    _, _, storages = four_layers().shard(ranks=2)
    size = dict(zip(storages.name, storages.size, strict=True))
    assert size["full layer.0.w.1"] == size["grad layer.0.w"] == 40
    assert size["shard of grad layer.0.w"] == size["root layer.0.w"] == 20
    assert size["layer.0.w"] == size["moment layer.0.w"] == size["decayed layer.0.w"] == 20
    assert size["norm layer.0.w"] == 1
    assert size["h0"] == 40


def test_a_bucket_is_gathered_whole_and_is_a_chain_with_its_padding() -> None:
    sizes = {"layer.0.w": 16, "layer.0.b": 4, "layer.0.v": 24}
    step = write_step(sizes, [["layer.0.w", "layer.0.b"], ["layer.0.v"]], reread=False)
    kernels, chains, storages = step.shard(ranks=3, bucket_bytes=18)
    named = [[storages.name[storage] for storage in chain] for chain in chains]
    assert named == [
        ["full layer.0.w.1", "full layer.0.b.1", "padding"],
        ["full layer.0.v.1"],
        ["grad layer.0.w", "grad layer.0.b", "padding"],
        ["grad layer.0.v"],
    ]
    # 20 bytes are five words, two for each of three ranks.
    assert [storages.size[chain[-1]] for chain in (chains[0], chains[2])] == [4, 4]
    gathered = [kernel for kernel in kernels if kernel.op == "all_gather"]
    assert [kernel.reads for kernel in gathered] == [(0, 1), (2,)]


def test_a_bucket_of_which_nothing_is_read_stays_away() -> None:
    sizes = {"word": 16, "position": 16, "layer.0.w": 16, "layer.1.w": 16}
    forward = [["word"], ["position"], ["layer.0.w"], ["layer.1.w"], ["word"]]
    kernels, chains, storages = write_step(sizes, forward, False).shard(bucket_bytes=16)
    gathered = [storages.name[chain[0]] for chain in chains]
    assert [name for name in gathered if name.startswith("full")] == [
        "full word.1", "full position.1", "full layer.0.w.1", "full layer.1.w.1", "full word.2",
    ]  # fmt: skip
    passes = {kernel.phase for kernel in kernels if kernel.op == "all_gather"}
    assert passes == {FORWARD}


def test_one_rank_divides_nothing() -> None:
    step = four_layers()
    _, _, storages = step.shard(ranks=1)
    assert storages.size[: len(step.size)] == step.size


def test_a_parameter_written_in_the_forward_pass_is_refused() -> None:
    step = four_layers()
    spoiled = [Kernel("mul_", FORWARD, writes=(step.parameters[0],)), *step.kernels]
    with pytest.raises(InstanceError, match=r"mul_ writes parameter layer\.0\.w in the forward"):
        replace(step, kernels=spoiled).shard()


# --- what holds for every step -------------------------------------------------------------


@st.composite
def small_steps(draw: st.DrawFn) -> SmallStep:
    """Layers with several parameters, embeddings, heads, and weights that are used twice."""
    layers = draw(st.integers(0, 5))
    names = ["embedding.w", "head.w", "head.b"]
    names += [f"layer.{layer}.{part}" for layer in range(layers) for part in "wb"]
    sizes = {name: 4 * draw(st.integers(1, 9)) for name in names}
    forward = [["embedding.w"]]
    for layer in range(layers):
        parts = draw(st.permutations([f"layer.{layer}.w", f"layer.{layer}.b"]))
        forward += [parts] if draw(st.booleans()) else [[part] for part in parts]
        forward += draw(st.sampled_from([[], [[]], [["embedding.w"]], [["layer.0.w"]]]))
    forward += [
        ["head.w", "head.b"],
        draw(st.sampled_from([[], ["embedding.w"], ["embedding.w", "head.b"]])),
    ]
    return write_step(sizes, forward, reread=draw(st.booleans()))


STEPS = small_steps()
RANKS = st.integers(1, 5)
CAPACITIES = st.sampled_from([1, 30, 1000])


@given(STEPS, RANKS, CAPACITIES)
def test_a_gathered_parameter_is_there_exactly_when_it_is_needed(
    step: SmallStep, ranks: int, capacity: int
) -> None:
    kernels, _, _ = step.shard(ranks, capacity)
    computing = [kernel for kernel in kernels if kernel.op not in COLLECTIVES]
    assert [kernel.op for kernel in computing] == [kernel.op for kernel in step.kernels]
    # What each full parameter is a copy of, written apart from the code under test.
    copy_of: dict[int, int] = {}
    used: set[int] = set()
    position = -1
    for kernel in kernels:
        if kernel.op == "all_gather":
            copy_of.update(zip(kernel.creates, kernel.reads, strict=False))
        if kernel.op in COLLECTIVES:
            continue
        position += 1
        before = step.kernels[position]
        if before.phase is OPTIMIZER:
            assert set(kernel.reads).isdisjoint(copy_of)
            continue
        assert [copy_of.get(storage, storage) for storage in kernel.reads] == list(before.reads)
        assert set(kernel.reads).isdisjoint(step.parameters)
        used |= set(kernel.reads) & copy_of.keys()
    for kernel in kernels:
        assert kernel.op != "all_gather" or not used.isdisjoint(kernel.creates)


@given(STEPS, RANKS, CAPACITIES)
def test_a_reduction_follows_the_last_touch_and_leaves_the_only_gradient(
    step: SmallStep, ranks: int, capacity: int
) -> None:
    kernels, chains, storages = step.shard(ranks, capacity)
    reductions = [node for node, kernel in enumerate(kernels) if kernel.op == "reduce_scatter"]
    reduced = [gradient for node in reductions for gradient in kernels[node].reads]
    assert sorted(reduced) == sorted(step.gradients)
    for node in reductions:
        for gradient in kernels[node].reads:
            touching = [n for n, kernel in enumerate(kernels) if gradient in kernel.touches]
            assert touching[-1] == node
        total = sum(storages.size[gradient] for gradient in kernels[node].reads)
        words = -(-total // 4)
        shard = kernels[node].creates[0]
        assert storages.size[shard] == 4 * -(-words // ranks)
        readers = [kernel.phase for kernel in kernels if shard in kernel.reads]
        assert set(readers) == {OPTIMIZER}
    members = [storage for chain in chains for storage in chain]
    assert len(members) == len(set(members))
    for chain in chains:
        size = sum(storages.size[storage] for storage in chain)
        assert size % (4 * ranks) == 0


# --- the problem ---------------------------------------------------------------------------


def as_trace(step: SmallStep) -> Trace:
    """Return the trace that has the step's kernels."""
    operations = step.kernels[1:-1]
    ops = tuple(
        TracedOp(f"op{index}", k.op, k.phase, (*k.reads, *k.writes), k.writes, k.creates)
        for index, k in enumerate(operations)
    )
    created = {storage for kernel in step.kernels for storage in kernel.creates}
    return Trace(
        ops=ops,
        size=tuple(step.size),
        name=tuple(step.name),
        batch=step.kernels[0].creates,
        persistent=frozenset(range(len(step.size))) - created,
        updates={},
        gradients=tuple(step.gradients),
        returned=step.kernels[-1].reads,
        parameters=tuple(step.parameters),
    )


def problem_of(step: SmallStep, **changes: object) -> Problem:
    chosen = replace(StepSettings(), parallel="sharded", ranks=2, streams="roles")
    return build_problem(as_trace(step), replace(chosen, **changes), "small", {})


@settings(max_examples=30)
@given(STEPS, st.sampled_from(["category", "roles"]), st.integers(1, 4))
def test_every_sharded_step_is_a_problem_that_can_be_planned(
    step: SmallStep, streams: str, ranks: int
) -> None:
    problem = problem_of(step, streams=streams, ranks=ranks, nodes_per_stream=7)
    check(problem, place(problem, "size", "first"))
    assert problem.graph is not None
    control = set(map(tuple, problem.graph.control.tolist()))
    # Nobody overwrites a shard that has not been sent: the next gather would send the new one.
    last = problem.graph.node_count - 1
    gathers = [n for n, op in enumerate(problem.graph.op) if op == "all_gather"]
    assert {u for u, v in control if v < last} >= set(gathers)


def test_two_units_at_a_time_whatever_the_streams_do() -> None:
    """The full weights of layers that are two apart may share bytes; neighbours may not."""
    names = [f"layer.{index}.w" for index in range(6)]
    step = write_step(dict.fromkeys(names, 16), [[name] for name in names], reread=True)
    problem = problem_of(step)
    assert problem.graph is not None
    assert problem.tensor_name is not None
    unsafe = unsafe_by_paths(problem.graph)
    full = [problem.tensor_name.index(f"full layer.{index}.w.1") for index in range(6)]
    pairs = {(i, j) for i in range(6) for j in range(i + 1, 6)}
    found = {(i, j) for i, j in pairs if tuple(sorted((full[i], full[j]))) in unsafe}
    assert found == {(i, i + 1) for i in range(5)}


def test_computation_and_communication_overlap() -> None:
    problem = problem_of(four_layers())
    assert problem.graph is not None
    assert problem.graph.stream_count == 3
    # A gather and the layer before it run at the same time, so what they make is unsafe.
    assert problem.tensor_name is not None
    gathered = problem.tensor_name.index("full layer.2.w.1")
    hidden = problem.tensor_name.index("h0")
    assert tuple(sorted((gathered, hidden))) in unsafe_by_paths(problem.graph)


def test_persistent_bytes_are_those_of_shards() -> None:
    step = four_layers()
    assert problem_of(step).origin["persistent_bytes"] == 4 * (40 + 40) // 2
    assert problem_of(step, parallel="replicated").origin["persistent_bytes"] == 4 * (40 + 40)


# --- with torch ----------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("checkpointing", [False, True])
def test_two_layers_of_bert_sharded(checkpointing: bool) -> None:
    from instances.extract.models.building import recompute_layers
    from instances.extract.record.graph.optimizers import AdamW
    from instances.extract.record.graph.training_step import trace_training_step

    def build() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
        module, batch = of_tokens(chosen, "BertForMaskedLM", *BERT_FIELDS, vocab_size=1000)
        if checkpointing:
            recompute_layers(module.bert.encoder.layer)
        return module.train(), batch

    import torch

    chosen = StepSettings(batch=2, seq=16, layers=2, streams="roles", parallel="sharded", ranks=4)
    trace = trace_training_step(build, AdamW(), chosen.clip_norm)
    problem = build_problem(trace, chosen, "two layers", {})
    check(problem, place(problem, "size", "first"))
    assert problem.tensor_name is not None
    assert problem.graph is not None
    named = {trace.name[parameter] for parameter in trace.parameters}
    assert len(named) == len(trace.gradients) == 4 + 1 + 2 * 16 + 5
    full = [name for name in problem.tensor_name if name.startswith("full ")]
    # The head begins and ends with two units, itself and the tied embeddings, so the last layer
    # is gathered for each pass as the first one is (recomputation is part of the backward pass).
    # The embeddings come for both ends of the forward pass and for their norm at the very end.
    times = {"bert.embeddings": 3, "bert.encoder": 2, "cls.predictions": 1}
    for name in named:
        gathered = sum(other.startswith(f"full {name}.") for other in full)
        assert gathered == times[".".join(name.split(".")[:2])], name
    # Three quarters of parameters, gradients' results and moments are with other ranks.
    parameters = sum(trace.size[parameter] for parameter in trace.parameters)
    replicated = build_problem(trace, replace(chosen, parallel="replicated"), "two layers", {})
    kept, all_kept = (int(p.origin["persistent_bytes"]) for p in (problem, replicated))
    assert all_kept - kept == pytest.approx(3 * parameters * 3 / 4, rel=0.001)
    shards = sum(
        int(size)
        for size, name in zip(problem.size, problem.tensor_name, strict=True)
        if name.startswith("shard of")
    )
    assert shards == pytest.approx(parameters / 4, rel=0.001)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["gpt2-medium", "resnet-50", "transformer"])
def test_models_of_other_shapes_are_sharded_and_planned(name: str) -> None:
    problem = extract_tiny(name, parallel="sharded", streams="roles", ranks=4)
    check(problem, place(problem, "size", "first"))
    graph = problem.graph
    assert graph is not None
    assert problem.tensor_name is not None
    trained = {name.removeprefix("grad ") for name in gradient_names(problem)}
    full = [name for name in problem.tensor_name if name.startswith("full ")]
    assert {name.removeprefix("full ").rpartition(".")[0] for name in full} == trained
    # A gradient is done with when its reduce-scatter is: the optimizer has the shard.
    for tensor, tensor_name in enumerate(problem.tensor_name):
        if tensor_name.startswith("grad "):
            assert graph.op[max(graph.consumers_of(tensor))] == "reduce_scatter"


USES = st.lists(st.sets(st.integers(0, 4), max_size=2), max_size=20)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("encoder.layer.3.output.weight", "encoder.layer.3"),
        ("layers.10.experts.2.weight", "layers.10"),
        ("embeddings.weight", None),
        ("conv1.weight", None),
    ],
)
def test_a_layer_ends_with_the_first_number(name: str, layer: str | None) -> None:
    assert layer_of(name) == layer


@pytest.mark.parametrize(
    ("names", "units"),
    [
        # Parameters between layers are a unit.
        (["word", "position", "h.0.w", "h.1.w", "norm", "head"], [[0, 1], [2], [3], [4, 5]]),
        # A layer is one, even if something is read in between.
        (["h.0.w", "shared", "h.0.v", "head"], [[0, 2], [1], [3]]),
    ],
)
def test_parameters_are_grouped_by_layers(names: list[str], units: list[list[int]]) -> None:
    assert group_units(range(len(names)), dict(enumerate(names))) == units


@pytest.mark.parametrize(
    ("uses", "residencies"),
    [
        # Forward and backward over four layers: the last two are kept.
        ([{0}, {1}, {2}, {3}, {3}, {2}, {1}, {0}],
         [(0, (0,)), (1, (1,)), (2, (2, 5)), (3, (3, 4)), (1, (6,)), (0, (7,))]),
        # Tied weights, once for each end. Unit 2 is not kept: two others are used in between.
        ([{0}, {1}, {2}, {0, 3}, {0, 3}, {2}],
         [(0, (0,)), (1, (1,)), (2, (2,)), (0, (3, 4)), (3, (3, 4)), (2, (5,))]),
    ],
)  # fmt: skip
def test_a_gather_serves_a_stretch_of_uses(
    uses: list[set[int]], residencies: list[tuple[int, tuple[int, ...]]]
) -> None:
    assert find_residencies(uses) == [Residency(*one) for one in residencies]


def test_runs_use_the_same_units() -> None:
    uses: list[set[int]] = [set(), {0}, set(), {0}, {0, 1}, {1}, {0}]
    assert find_runs(uses) == [[1, 3], [4], [5], [6]]


@given(USES)
def test_a_gather_serves_uses_between_which_few_other_units_are_used(uses: list[set[int]]) -> None:
    residencies = find_residencies(uses)
    assert [r.readers[0] for r in residencies] == sorted(r.readers[0] for r in residencies)
    for unit in set().union(*uses):
        nodes = [node for node, used in enumerate(uses) if unit in used]
        served = [r.readers for r in residencies if r.unit == unit]
        assert [node for readers in served for node in readers] == nodes
        starts = {readers[0] for readers in served}
        for earlier, later in pairwise(nodes):
            others = set().union(*uses[earlier + 1 : later])
            assert (later in starts) == (len(others) > UNITS_BETWEEN)
