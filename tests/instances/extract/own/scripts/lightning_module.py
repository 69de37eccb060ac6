"""A Lightning module and its trainer."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch, _):
        x, y = batch
        loss = functional.cross_entropy(self.layers(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("validation", functional.cross_entropy(self.layers(x), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def train_dataloader(self):
        items = TensorDataset(torch.randn(500, 64), torch.randint(0, 10, (500,)))
        return DataLoader(items, batch_size=16, shuffle=True, num_workers=2)

    def val_dataloader(self):
        items = TensorDataset(torch.randn(100, 64), torch.randint(0, 10, (100,)))
        return DataLoader(items, batch_size=16)


def main():
    trainer = pl.Trainer(max_epochs=3, accelerator="gpu", devices=1, log_every_n_steps=1)
    return trainer, Classifier()


if __name__ == "__main__":
    trainer, module = main()
    trainer.fit(module)
