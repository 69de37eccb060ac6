"""A script for torchrun, whose model is fully sharded."""

import os

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    distributed.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    items = TensorDataset(torch.randn(500, 64), torch.randint(0, 10, (500,)))
    sampler = DistributedSampler(items)
    loader = DataLoader(items, batch_size=16, sampler=sampler, num_workers=2)
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = nn.Sequential(*layers)
    for layer in (layers[0], layers[2], model):
        fully_shard(layer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            x, y = images.to(device), labels.to(device)
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        distributed.all_reduce(loss)
        if distributed.get_rank() == 0:
            print(epoch, loss.item())
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
