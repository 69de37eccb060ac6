"""The loop of PyTorch's first tutorial: a loader, an evaluation, a checkpoint."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, random_split


def main(batch: int = 16, epochs: int = 5) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    items = TensorDataset(torch.randn(500, 64), torch.randint(0, 10, (500,)))
    train, test = random_split(items, [0.8, 0.2])
    loader = DataLoader(train, batch_size=batch, shuffle=True, num_workers=2, pin_memory=True)
    tests = DataLoader(test, batch_size=batch)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    for epoch in range(epochs):
        total = 0.0
        model.train()
        for images, labels in loader:
            x = images.to(device, non_blocking=True)
            y = labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        schedule.step()
        torch.cuda.synchronize()
        model.eval()
        correct = 0
        with torch.no_grad():
            for x, y in tests:
                correct += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
        used = torch.cuda.max_memory_allocated() / 2**30
        print(f"{epoch}: loss {total:.3f}, {correct / len(test):.1%} right, {used:.1f} GiB")
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
