"""The commands of this package for ``gapless``."""

from __future__ import annotations

from planners.commands import Command

EXPLAIN = Command("why memory ran out, and what would have helped", "gpu_runtime.explain:main")
FIT = Command("does a training step fit a GPU, asked without one", "gpu_runtime.fit:main")
REPLAY = Command(
    "a run's requests, made again to allocators; or a plan, checked on real memory",
    "gpu_runtime.replay:main",
)
TRAIN = Command(
    "train a model under a plan and under PyTorch's allocators", "gpu_runtime.train:main"
)
