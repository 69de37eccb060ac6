"""Models that unfold, share or repeat are answered in little memory and processor time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from planners.errors import MAX_MESSAGE_CHARACTERS, GaplessError
from planners.files.formats import formats, read_problem
from tests.fuzz.limited_child import MIB, limit_cpu, lines_of_child
from tests.instances.formats.model_bombs import BOMBS, bytes_of
from tests.instances.formats.onnx_models import model_of

SECONDS, MEMORY = 10, 1000 * MIB


def answer(path: Path) -> str:
    """Return how a file is answered by a child that may take little."""
    formats()
    if path.suffix == ".pt2":
        import instances.formats.exported_graph  # noqa: F401 - the child need not load PyTorch

    def read(say: object) -> None:
        assert callable(say)
        limit_cpu(SECONDS)
        try:
            say(f"{read_problem(path).tensor_count} tensors")
        except GaplessError as error:
            say(str(error))

    (said,) = lines_of_child(read, MEMORY)
    return said


@pytest.mark.parametrize(
    ("package", "name"),
    [
        pytest.param(package, name, marks=getattr(pytest.mark, package))
        for package, (_, bombs) in BOMBS.items()
        for name in bombs
    ],
)
def test_a_model_takes_little(tmp_path: Path, package: str, name: str) -> None:
    ending, bombs = BOMBS[package]
    make, needed = bombs[name]
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(make())
    assert path.stat().st_size < 3 << 20
    said = answer(path)
    assert len(said) <= MAX_MESSAGE_CHARACTERS
    if needed is None:
        assert said.endswith(" tensors")
    else:
        assert f"{path.name}: " in said
        assert needed in said


@pytest.mark.onnx
@pytest.mark.parametrize("op", ["Constant", "ConstantOfShape"])
def test_no_file_beside_a_model_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """What lies in the working directory makes no difference."""
    from onnx import TensorProto, helper

    value = TensorProto(data_type=TensorProto.INT64, dims=[1], data_location=TensorProto.EXTERNAL)
    value.external_data.add(key="location", value="beside.bin")
    inputs = "" if op == "Constant" else "one"
    nodes = [(op, inputs, "n", {"value": value}), ("Expand", "x,n", "a")]
    model = model_of(nodes, {"x": [1]}, "a", {"one": [1]})  # type: ignore[arg-type]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("a", TensorProto.FLOAT, [7]))
    path = tmp_path / "net.onnx"
    path.write_bytes(bytes_of(model))
    monkeypatch.chdir(tmp_path)
    Path("beside.bin").write_bytes(struct.pack("<q", 5))
    assert read_problem(path).size.tolist() == ([4, 28] if op == "Constant" else [4, 8, 28])
