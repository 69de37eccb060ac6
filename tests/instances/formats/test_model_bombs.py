"""Models that unfold, share or repeat are answered in little memory and processor time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from planners.files.formats import read_problem
from tests.instances.formats.model_bombs import BOMBS, bytes_of
from tests.instances.formats.onnx_models import model_of
from tests.instances.formats.test_reader_bombs import require_answer


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
    if package == "torch":
        import instances.formats.exported_graph  # noqa: F401 - the child need not load PyTorch
    require_answer(path, needed, mib=1000, seconds=10)


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
