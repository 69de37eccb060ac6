"""Programs on four GPUs, tiny and on a processor, compute what one process computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from evaluation.programs.program_list import PROGRAMS, find_programs
from gpu_runtime.training.run_processes import answer_of
from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.training_run import Purpose, Scale

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

from evaluation.programs import parallel  # noqa: E402
from evaluation.programs.language_models import llama  # noqa: E402
from evaluation.programs.mixtures_of_experts import sparse_decoder  # noqa: E402
from gpu_runtime.training.allocator_probe import AllocatorProbe  # noqa: E402
from gpu_runtime.training.scene import Scene  # noqa: E402

pytestmark = pytest.mark.torch

STEPS, RANKS, WORDS = 4, 4, 128


def whole_llama(scene: Scene) -> tuple[nn.Module, Callable[..., Tensor]]:
    model = llama(scene, parallel.SHARDED_WIDTH)
    return model, lambda tokens: model(input_ids=tokens, labels=tokens).loss


def whole_mixture(scene: Scene) -> tuple[nn.Module, Callable[..., Tensor]]:
    model = sparse_decoder(scene)
    return model, model


def all_stages(scene: Scene) -> tuple[nn.Module, Callable[..., Tensor]]:
    """Return the stages of the pipeline one after the other, each as its process makes it."""
    count = RANKS * parallel.STAGES_EACH
    made: dict[int, nn.Module] = {}
    for rank in range(RANKS):
        torch.manual_seed(scene.run.seed)
        for number in range(rank, count, RANKS):
            made[number] = parallel._stage(scene, number, count)
    model = nn.Sequential(*(made[number] for number in range(count)))
    return model, lambda tokens: parallel._loss_of_words(model(tokens), tokens)


# Of each program the model in one piece, a parameter of which no two ranks hold the same part, the
# length of its sequences, the rank whose batch each rank sees, and how far losses in bfloat16 may
# lie from one another.
WHOLE: dict[str, tuple[Any, str, int, list[int], float]] = {
    "fsdp-tensor-parallel": (
        whole_llama, "model.layers.0.mlp.down_proj.weight", 2048, [0, 0, 2, 2], 2e-4,
    ),
    "pipeline-of-four": (all_stages, "1.0.linear1.weight", 2048, [0, 0, 0, 0], 2e-3),
    "expert-parallel": (
        whole_mixture, "layers.0.experts.experts.0.0.weight", 1024, [0, 1, 2, 3], 2e-3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", [its.name for its in find_programs(["*"], gpus=RANKS)])
def test_four_processes_train_as_one(program: str) -> None:
    make, parameter, length, seen, tolerance = WHOLE[program]
    timed = PROGRAMS[program].timed_run(Scale.TINY, 1, 1, "cpu")
    run = replace(timed, purpose=Purpose.CHECK, warm_up=STEPS - 2, profiled_steps=0)
    found = answer_of(run)
    assert isinstance(found, RunResult), found
    parts = {found.parameters[f"{parameter} of rank {rank}"] for rank in range(RANKS)}
    assert len(parts) == RANKS
    scenes = {rank: Scene(replace(run, rank=rank), AllocatorProbe()) for rank in seen}
    first = scenes[0]
    torch.manual_seed(run.seed)
    model, loss_of = make(first)
    optimizer = first.adamw(model.parameters())
    for step in found.losses:
        losses = {}
        for rank, scene in scenes.items():
            with scene.autocast():
                losses[rank] = loss_of(scene.tokens(2, scene.length(length), WORDS))
        expected = [losses[rank].item() for rank in seen]
        assert [float.fromhex(loss) for loss in step] == pytest.approx(expected, abs=tolerance)
        torch.autograd.backward(torch.stack([*losses.values()]).mean())
        optimizer.step()
        optimizer.zero_grad()
