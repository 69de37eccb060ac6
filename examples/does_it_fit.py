"""Ask without a GPU whether a training fits one, and how large its batch may be.

The command that answers is `python -m gpu_runtime.fit FILE.py:FUNCTION`; this file has the function
and reads the answer as JSON. Nothing is computed: the step runs with tensors without contents.
"""

import json
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional

from instances.extract import TrainingStep

COMMAND = "-m gpu_runtime.fit --memory 8GiB --vary batch --by 8 --json"


def make_step(batch: int = 64, width: int = 128) -> TrainingStep:
    """Return a step of a small convolutional network; `batch` is what the command varies."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, stride=2, padding=3)]
    for _ in range(4):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.GELU()]
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))
    return TrainingStep(
        network,
        torch.zeros(batch, 3, 224, 224),
        torch.optim.AdamW(network.parameters()),
        loss=functional.cross_entropy,
        targets=torch.zeros(batch, dtype=torch.int64),
    )


if __name__ == "__main__":
    # The exit status says the same as the answer: 0 it fits, 1 it does not, 3 only when planned.
    asked = [sys.executable, *COMMAND.split(), f"{__file__}:make_step"]
    run = subprocess.run(asked, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1, 3):
        sys.exit(run.stderr)
    answer = json.loads(run.stdout)
    largest = answer["vary"]["largest"]
    for allocator in answer["allocators"]:
        label, reserved = allocator["label"], allocator["reserved_peak"]
        print(f"{label:18} {reserved / 1024**3:5.2f} GiB; largest batch {largest[label]['value']}")
    print(f"Does a batch of 64 fit a GPU of 8 GiB? {answer['answer']}")
