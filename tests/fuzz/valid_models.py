"""A small model of every format that needs a package of its own to be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.instances.formats.model_bombs import small_bombs
from tests.instances.formats.onnx_models import random_model, save
from tests.instances.formats.tflite_models import tflite_model


def onnx_files(folder: Path) -> dict[str, bytes]:
    """Write a model with operators that share bytes, and with weights."""
    return {"model.onnx": save(folder / "model.onnx", random_model(Random(3), 12)).read_bytes()}


def tflite_files(folder: Path) -> dict[str, bytes]:
    """Write a model with weights and a variable."""
    data = tflite_model(
        {"x": [1, 4], "w": [4, 4], "y": [1, 4], "z": [1, 4], "v": [1, 4]},
        [("ADD", ["x", "w"], ["y"]), ("MUL", ["y", "v"], ["z"])],
        ["x"],
        ["z"],
        weights=["w"],
        variables=["v"],
    )
    (folder / "model.tflite").write_bytes(data)
    return {"model.tflite": data}


def torch_files(folder: Path) -> dict[str, bytes]:
    """Write a program with weights and views."""
    import torch

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            return torch.relu(y).sum(0) + y[0]

    program = torch.export.export(Program(), (torch.ones(3, 4),))
    path = folder / "model.pt2"
    torch.export.save(program, path)
    return {path.name: path.read_bytes()}


_VALID: dict[str, Callable[[Path], dict[str, bytes]]] = {
    "onnx": onnx_files,
    "tflite": tflite_files,
    "torch": torch_files,
}
# Mutations begin with a valid model, or with one that is made to take too much.
WRITERS: dict[str, Callable[[Path], dict[str, bytes]]] = {
    package: lambda folder, package=package: {**_VALID[package](folder), **small_bombs(package)}
    for package in _VALID
}
