"""Every program by name, known without PyTorch: what it does and what a plan may cost it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from planners.errors import GaplessError, MissingDependencyError, near_names

if TYPE_CHECKING:
    from torch.nn import Module

    from evaluation.benchmarks.programs.scene import Scene


class Steps(enum.Enum):
    """How unlike the steps of a program are: by how much planned memory may exceed live memory."""

    FEW_KINDS = 0.01
    RANDOM_LENGTHS = 0.05
    DYNAMIC = 0.10


@dataclass(frozen=True)
class Program:
    """A training script, to be run in processes of its own."""

    name: str
    sentence: str
    # ``module:function`` in this package; the function trains in a scene and returns the model.
    entry: str
    steps: Steps = Steps.FEW_KINDS
    gpus: int = 1
    # Before those that are timed: random lengths take longer until all have been seen.
    warm_up: int = 10
    # Whether PyTorch keeps the memory of its graphs apart, which is not live by its counting.
    has_private_pool: bool = False
    # Imported by it, beside PyTorch and transformers.
    packages: tuple[str, ...] = ()

    def load(self) -> Callable[[Scene], Module]:
        """Return its function; a package that is not installed is one line."""
        for package in self.packages:
            if find_spec(package) is None:
                raise MissingDependencyError(f"program {self.name} needs {package}", "programs")
        module, _, function = self.entry.partition(":")
        found: Callable[[Scene], Module] = getattr(
            import_module(f"evaluation.benchmarks.programs.{module}"), function
        )
        return found


def _random(name: str, sentence: str, entry: str) -> Program:
    return Program(name, sentence, entry, Steps.RANDOM_LENGTHS, warm_up=30)


def _dynamic(name: str, sentence: str, entry: str) -> Program:
    return Program(name, sentence, entry, Steps.DYNAMIC)


# Where nothing else is said, GPT-2 of 12 layers of 1,024, 8 sequences of 512 tokens.
ONE_GPU = (
    Program("plain", "a plain loop", "plain_loops:plain"),
    Program("data-loader", "the same fed by a DataLoader with workers", "plain_loops:data_loader"),
    Program(
        "microbatches",
        "four checkpointed microbatches of 8 x 1,024 in a step",
        "plain_loops:checkpointed_microbatches",
    ),
    Program("compile", "`torch.compile`", "compiled_steps:compiled"),
    Program(
        "evaluation",
        "two batches of 16 without gradients after every third step, outside of steps",
        "plain_loops:evaluation_between_steps",
    ),
    Program(
        "accumulate",
        "the optimizer in every fourth step only",
        "plain_loops:optimizer_in_every_fourth_step",
    ),
    Program("four-lengths", "256, 512, 384 and 640 tokens in turn", "lengths:four_in_turn"),
    _random("random-lengths", "128 to 768 tokens, at random", "lengths:at_random"),
    _dynamic(
        "experts-loop",
        "a mixture of experts, by a loop over experts with the tokens that each gets",
        "mixtures_of_experts:loop_over_experts",
    ),
    _dynamic(
        "qwen2-moe-eager",
        "Qwen2-MoE of transformers in bfloat16, experts one after the other",
        "mixtures_of_experts:qwen2_moe_eager",
    ),
    _dynamic(
        "qwen2-moe-grouped",
        "Qwen2-MoE of transformers in bfloat16, experts in grouped products",
        "mixtures_of_experts:qwen2_moe_grouped",
    ),
    Program(
        "trainer",
        "`transformers.Trainer` with memory metrics, evaluating every tenth step",
        "trainers:trainer_with_memory_metrics",
        packages=("accelerate", "psutil"),
    ),
    Program(
        "reduce-overhead",
        '`torch.compile(mode="reduce-overhead")`, 6 layers',
        "compiled_steps:reduce_overhead",
        has_private_pool=True,
    ),
    Program(
        "cuda-graph",
        "a CUDA graph of forward and backward, captured, then replayed within steps",
        "compiled_steps:captured_graph",
        has_private_pool=True,
    ),
    Program("vit", "ViT-base, 64 images of 224", "images:vit"),
    Program("resnet-50", "ResNet-50, 128 images of 224, SGD", "images:resnet_50"),
    _random(
        "llama-random",
        "Llama of 10 layers of 1,536, checkpointed, 512 to 2,048 tokens at random",
        "lengths:llama_checkpointed_at_random",
    ),
    Program("diffusion-unet", "a diffusion UNet, 32 images of 64", "diffusion:unet"),
    _random(
        "t5-random",
        "T5, sources and targets of 64 to 512 and 32 to 256 tokens at random",
        "lengths:encoder_decoder_at_random",
    ),
    Program(
        "lora",
        "LoRA with peft on frozen weights in bfloat16, 8 x 1,024",
        "adapters:lora",
        packages=("peft",),
    ),
    Program(
        "clip-ema",
        "four accumulated microbatches, a clipped gradient, a moving average of the weights",
        "plain_loops:accumulate_clip_average",
    ),
    Program("gan", "two networks of images, two optimizers in turn", "images:adversarial"),
    Program(
        "generation",
        "48 tokens sampled with a growing cache after every fifth step",
        "plain_loops:generation_between_steps",
    ),
    Program(
        "validation",
        "after a step, at random, a batch of 24 without gradients, or 16 tokens sampled",
        "plain_loops:validation_at_random",
    ),
    _random(
        "curriculum",
        "128 tokens in the first 8 steps, 128 more in every further 8, up to 768",
        "lengths:longer_and_longer",
    ),
)
TWO_GPUS = (
    Program("ddp", "data parallel, Llama of 10 layers of 2,048", "parallel:data_parallel", gpus=2),
    Program("fsdp", "fully sharded, Llama of 10 layers of 1,536", "parallel:sharded", gpus=2),
    Program(
        "fsdp-checkpointed",
        "the same with checkpointing",
        "parallel:sharded_checkpointed",
        gpus=2,
    ),
)
# By the number of GPUs that each of the group needs.
GROUPS = {1: ONE_GPU, 2: TWO_GPUS}
PROGRAMS = {program.name: program for program in (*ONE_GPU, *TWO_GPUS)}


def find_programs(names: Sequence[str]) -> list[Program]:
    """Return the programs with these names, in the order of the list."""
    for name in names:
        if name not in PROGRAMS:
            raise GaplessError(
                f"--only: no program is called {name!r}; {near_names(name, tuple(PROGRAMS))}"
            )
    return [program for program in PROGRAMS.values() if program.name in names]
