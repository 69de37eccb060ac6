"""Keep a training within a memory limit: plan without a GPU, then train by the plan.

`gapless instances recompute FILE.py:FUNCTION --limit ... -o FILE.json` says what to compute again
rather than keep. `KeptWithin` takes the file and runs the loss so, with the same gradients.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpu_runtime.repeating import KeptWithin
from instances.extract import TrainingStep

COMMAND = "-m instances recompute --limit 60% --planners greedy,local-search"


def make_network(width: int = 64, layers: int = 6) -> nn.Sequential:
    """Return a small network."""
    network = nn.Sequential()
    for _ in range(layers):
        network.extend([nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)])
    return network.append(nn.Linear(width, 10))


def make_step(batch: int = 256) -> TrainingStep:
    """Return the step that the command plans."""
    network = make_network()
    return TrainingStep(
        network,
        torch.zeros(batch, 64),
        torch.optim.AdamW(network.parameters()),
        loss=functional.cross_entropy,
        targets=torch.zeros(batch, dtype=torch.int64),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        plan = str(Path(folder) / "within.json")
        asked = [sys.executable, *COMMAND.split(), f"{__file__}:make_step", "-o", plan]
        run = subprocess.run(asked, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(run.stderr)

        torch.manual_seed(0)
        network = make_network()
        optimizer = torch.optim.AdamW(network.parameters())

        def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
            return functional.cross_entropy(network(inputs), targets)

        kept = KeptWithin(loss_of, plan, strict=True)
        for _ in range(3):
            inputs, targets = torch.randn(256, 64), torch.randint(0, 10, (256,))
            plain = torch.autograd.grad(loss_of(inputs, targets), list(network.parameters()))
            kept(inputs, targets).backward()
            # The gradients have the same bits as without a limit.
            for parameter, gradient in zip(network.parameters(), plain, strict=True):
                assert parameter.grad is not None
                assert torch.equal(parameter.grad, gradient)
            optimizer.step()
            optimizer.zero_grad()
        decision = kept.decision(inputs, targets)
        keeping_all = KeptWithin(loss_of, "1TiB").decision(inputs, targets)
    print(f"{decision.repeated_count} of {len(decision.ops)} kernels of the forward pass run again")
    peak, before = (each.peak / 1024**2 for each in (decision, keeping_all))
    print(f"{peak:.2f} MiB live at the peak, gradients included; {before:.2f} MiB without a limit")
