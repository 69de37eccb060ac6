"""The commands of docs/compilers.md, on models that have what the page names."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instances.formats.onnx_models import model_of, save
from tests.instances.formats.tflite_models import tflite_model
from tests.repository import ROOT

pytestmark = [pytest.mark.onnx, pytest.mark.tflite, pytest.mark.torch]


def commands() -> list[str]:
    page = (ROOT / "docs" / "compilers.md").read_text(encoding="utf-8")
    return re.findall(r"^    python -m ((?:planners|instances)\..+)$", page, re.MULTILINE)


def put_models(folder: Path, batch: int | str, length: int | str) -> str:
    """Write the models that the page speaks of; return the symbol of the program's batch."""
    import torch

    model = model_of(
        [("Relu", "x", "a"), ("Softmax", "a", "scores")], {"x": [batch, length]}, "scores"
    )
    save(folder / "model.onnx", model)
    shapes = dict.fromkeys("xa", (1, 16))
    lite = tflite_model(shapes, [("RELU", ["x"], ["a"])], ["x"], ["a"])
    (folder / "model.tflite").write_bytes(lite)
    program = torch.export.export(
        torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.export.save(program, folder / "program.pt2")
    (symbol,) = map(str, program.range_constraints)
    return symbol


def put_dump(folder: Path) -> None:
    """Put what XLA wrote of a program where the page has it."""
    folder.mkdir()
    for kind in ("buffer-assignment", "live-range"):
        dumped = ROOT / "tests" / "instances" / "formats" / "xla_dumps" / f"loops-{kind}.txt"
        shutil.copy(dumped, folder / f"module_0012.jit_step.cpu_after_optimizations-{kind}.txt")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    listed = commands()
    assert len(listed) == 8
    put_dump(tmp_path / "dump")
    for command in listed:
        is_sized = "--dimension" in command
        symbol = put_models(tmp_path, *(("batch", "length") if is_sized else (1, 16)))
        module, *arguments = shlex.split(command.replace("s77", symbol))
        subprocess.run([sys.executable, "-m", module, *arguments], cwd=tmp_path, check=True)
    source = (
        "\n".join(
            line.strip()
            for block in re.findall(
                r"(?:^    .*\n|^\n)+", (ROOT / "docs/compilers.md").read_text(), re.M
            )
            if "#include" in block
            for line in block.splitlines()
        ).replace("float *scores", "int main(void) {\nfloat *scores")
        + "\nreturn scores == 0;\n}\n"
    )
    (tmp_path / "main.c").write_text(source)
    subprocess.run(
        ["gcc", "-std=c11", "-Wall", "-Werror", "-c", "main.c"], cwd=tmp_path, check=True
    )
