"""A loop that accelerate prepares, in bfloat16, with two microbatches for each update."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    items = TensorDataset(torch.randn(500, 64), torch.randint(0, 10, (500,)))
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, DataLoader(items, batch_size=16, shuffle=True)
    )
    for epoch in range(3):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(epoch, accelerator.gather(loss).mean().item())
        accelerator.save_state("state")


if __name__ == "__main__":
    main()
