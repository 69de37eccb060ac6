"""A script for torchrun: unlike stages of a pipeline, on GPUs or on the host."""

import json
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

WIDTH, ITEMS = 16, 4


class Part(nn.Module):
    """A stage's layers, of which the activation keeps what it returns."""

    def __init__(self, stage, stages):
        super().__init__()
        self.first = nn.Linear(8 if stage == 0 else WIDTH + stage, 64)
        self.act = nn.Tanh()
        self.last = nn.Linear(64, 3 if stage == stages - 1 else WIDTH + stage + 1)

    def forward(self, batch):
        return self.last(self.act(self.first(batch)))


def main(schedule="1F1B", microbatches=4, copies=1, device="cuda", received=""):
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size() // copies
    group = init_device_mesh(device, (ranks, copies), mesh_dim_names=("pp", "dp"))["pp"].get_group()
    place = rank // copies
    one_each = schedule in ("1F1B", "GPipe")
    numbers = range(place, ranks if one_each else 2 * ranks, ranks)
    stages = len(numbers) * ranks
    parts = [Part(number, stages).to(device) for number in numbers]
    made = [
        PipelineStage(part, number, stages, torch.device(device), group=group)
        for part, number in zip(parts, numbers, strict=True)
    ]
    runs = get_schedule_class(schedule)(
        made[0] if one_each else made, microbatches, loss_fn=nn.functional.mse_loss
    )
    optimizer = torch.optim.SGD([weight for part in parts for weight in part.parameters()])
    for _ in range(4):
        batch = torch.ones(ITEMS * microbatches, 8, device=device)
        target = torch.ones(ITEMS * microbatches, 3, device=device)
        if place == 0:
            runs.step(batch)
        elif place == ranks - 1:
            runs.step(target=target, losses=[])
        else:
            runs.step()
        optimizer.step()
        optimizer.zero_grad()
        if received:
            infos = [
                info
                for stage in made
                for each in (stage.args_recv_info, stage.grad_recv_info)
                for of_microbatch in each.values()
                for info in of_microbatch
            ]
            shapes = [list(one.buffer.shape) for one in infos if one.buffer is not None]
            Path(f"{received}-{rank}").write_text(json.dumps(shapes))


if __name__ == "__main__":
    main(device=os.environ["DEVICE"], received=os.environ["RECEIVED"])
