"""Exported PyTorch programs as problems; nothing in their files is unpickled."""

from __future__ import annotations

import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planners import read_problem
from planners.errors import InstanceError, MissingDependencyError
from tests.instances.formats.rows import rows_of


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("net/models/model.json", "{}")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "instances.formats.exported_graph", raising=False)
    with pytest.raises(MissingDependencyError, match=r"net.pt2: .* 'gapless\[torch\]'"):
        read_problem(tmp_path / "net.pt2")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "one program of torch.export.save is needed, found 0; older files are to be saved"),
        ({"n/models/a.json": "{}", "n/models/b.json": "{}"}, "is needed, found 2"),
        ({"n/models/a.json": "{"}, "the file is not a whole JSON text"),
    ],
)
def test_another_archive_is_refused(tmp_path: Path, members: dict[str, str], message: str) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    with pytest.raises(InstanceError, match=message):
        read_problem(tmp_path / "net.pt2")


def test_a_file_without_an_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.pt2").write_bytes(b"PK no archive")
    with pytest.raises(InstanceError, match=r"net.pt2: the file is not a whole archive"):
        read_problem(tmp_path / "net.pt2")


def exported(path: Path, run: Callable[..., Any], *inputs: Any, **options: Any) -> Path:
    """Export a function as a program with a weight of its own."""
    import torch

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(6))
            self.register_buffer("count", torch.zeros(6))

        def forward(self, *given: Any) -> Any:
            return run(self, *given)

    torch.export.save(torch.export.export(Program(), inputs, **options), path)
    return path


@pytest.mark.torch
def test_views_and_results_in_place_are_one_storage(tmp_path: Path) -> None:
    import torch

    def run(self: Any, x: Any) -> Any:
        a = x * self.weight
        b = a.view(3, 2).transpose(0, 1)
        c = torch.relu(b)
        c.add_(1)
        halves = torch.split(c.double(), 1)
        return halves[0] + 1, c

    path = exported(tmp_path / "net.pt2", run, torch.ones(6))
    problem = read_problem(path)
    assert problem.graph is not None
    # The view, the transposition and the split run nothing.
    assert problem.graph.op == ("input", "mul", "relu", "add_", "to", "add", "output")
    assert list(rows_of(problem).values()) == [
        (24, 0, 2), (24, 1, 3), (24, 2, 7), (48, 4, 6), (24, 5, 7),
    ]  # fmt: skip
    assert problem.alignment.tolist() == [4, 4, 4, 8, 8]
    assert problem.origin["persistent_bytes"] == 2 * 24


@pytest.mark.torch
def test_readers_of_a_tensor_come_before_a_write_to_it(tmp_path: Path) -> None:
    import torch

    def run(self: Any, x: Any) -> Any:
        a = x * 2
        b = a + 1
        a.relu_()
        self.count.add_(a)
        return a + b, self.count * 2

    problem = read_problem(exported(tmp_path / "net.pt2", run, torch.ones(6)))
    assert problem.graph is not None
    op = problem.graph.op
    assert [(op[u], op[v]) for u, v in problem.graph.control] == [
        ("add", "relu_"), ("relu_", "add_"), ("relu_", "add"), ("add_", "mul"),
    ]  # fmt: skip


@pytest.mark.torch
def test_a_buffer_that_changes_is_not_a_tensor(tmp_path: Path) -> None:
    import torch

    def run(self: Any, x: Any) -> Any:
        self.count.add_(x)
        return self.count * 2

    problem = read_problem(exported(tmp_path / "net.pt2", run, torch.ones(6)))
    assert len(rows_of(problem)) == 2


@pytest.mark.torch
def test_open_dimensions_are_given(tmp_path: Path) -> None:
    import torch

    def run(_self: Any, x: Any) -> Any:
        return torch.cat([x, x.new_zeros(x.shape[0], 2 * x.shape[1])], dim=1).view(-1)

    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length")
    shapes = {"given": ({0: batch, 1: length},)}
    path = exported(tmp_path / "net.pt2", run, torch.ones(2, 5), dynamic_shapes=shapes)
    with pytest.raises(InstanceError, match=r"open are (s\d+) \(given_0\[0\]\), (s\d+)") as caught:
        read_problem(path)
    first, second = [
        word.partition("=")[0] for word in str(caught.value).split() if word.endswith("=N")
    ]
    problem = read_problem(path, dimensions={first: 8, second: 7})
    assert [size for size, _, _ in rows_of(problem).values()] == [8 * 7 * 4, 8 * 14 * 4, 8 * 21 * 4]
    with pytest.raises(
        InstanceError, match=f"--dimension {first}: the program was exported for 0 to 64, found 65"
    ):
        read_problem(path, dimensions={first: 65, second: 7})


@pytest.mark.torch
def test_dimensions_beyond_all_memory_are_told(tmp_path: Path) -> None:
    import torch

    def run(_self: Any, x: Any) -> Any:
        return x.new_zeros(x.shape[0], 4 * x.shape[1])

    shapes = {"given": ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)}
    path = exported(tmp_path / "net.pt2", run, torch.ones(2, 5), dynamic_shapes=shapes)
    with pytest.raises(InstanceError) as caught:
        read_problem(path)
    names = [word.partition("=")[0] for word in str(caught.value).split() if word.endswith("=N")]
    for size, rule in (
        (1 << 40, r"tensor 'given_0': a shape of fewer than 2\*\*63 bytes .* \[1099511627776, 109"),
        (1 << 63, r"tensor 'given_0': a shape of fewer than 2\*\*63 bytes .* \[92233720368547758"),
        (1 << 30, r"node \d+ \('torch\.ops\.aten\.new_zeros.*: results of fewer than 2\*\*63"),
    ):
        with pytest.raises(InstanceError, match=rule) as caught:
            read_problem(path, dimensions=dict.fromkeys(names, size))
        assert len(str(caught.value)) < 300


@pytest.mark.torch
def test_every_size_is_that_of_a_run(tmp_path: Path) -> None:
    import torch

    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    program = torch.export.export(encoder, (torch.randn(2, 7, 16),))
    for kind, each in ("as exported", program), ("core", program.run_decompositions()):
        path = tmp_path / f"{kind}.pt2"
        torch.export.save(each, path)
        problem = read_problem(path)
        sizes: dict[str, int] = {}

        class Sizes(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                value = super().run_node(n)
                if isinstance(value, torch.Tensor):
                    sizes[n.name] = value.untyped_storage().nbytes()  # noqa: B023
                return value

        with torch.no_grad():
            Sizes(each.graph_module).run(*each.state_dict.values(), torch.randn(2, 7, 16))
        rows = rows_of(problem)
        assert len(rows) > 15
        assert {name: rows[name][0] for name in rows if name in sizes} == {
            name: sizes[name] for name in rows if name in sizes
        }


@pytest.mark.torch
def test_nothing_in_the_file_is_unpickled(tmp_path: Path) -> None:
    import torch

    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = exported(tmp_path / "net.pt2", lambda self, x: x + self.weight, torch.ones(6))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "trap.pt2", "w") as new:
        for member in old.infolist():
            is_json = member.filename.endswith(".json")
            content = old.read(member) if is_json else pickle.dumps(Trap())
            new.writestr(member.filename, content)
    assert read_problem(tmp_path / "trap.pt2").tensor_count == 2
    assert not (tmp_path / "sprung").exists()


def plain(self: Any, x: Any) -> Any:
    a = x * self.weight
    self.count.copy_(a)
    return (a + 1).relu() + self.count


def under_no_grad(self: Any, x: Any) -> Any:
    import torch

    with torch.no_grad():
        a = x * self.weight
        self.count.copy_(a)
        with torch.enable_grad():
            b = a + 1
    return b.relu() + self.count


def under_autocast(self: Any, x: Any) -> Any:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        return plain(self, x)


@pytest.mark.torch
@pytest.mark.parametrize("run", [under_no_grad, under_autocast])
def test_a_part_with_a_setting_of_its_own_runs_in_its_place(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    import torch

    given = exported(tmp_path / "net.pt2", run, torch.ones(6))
    assert "higher_order.wrap" in program_of(given)
    problem, expected = (
        read_problem(path)
        for path in (given, exported(tmp_path / "plain.pt2", plain, torch.ones(6)))
    )
    assert problem.graph is not None
    assert expected.graph is not None
    assert problem.graph.op == expected.graph.op
    assert problem.graph.control.tolist() == expected.graph.control.tolist()
    assert [*rows_of(problem).values()] == [*rows_of(expected).values()]


def cast_norm(_self: Any, x: Any) -> Any:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, x)
        return torch.softmax(y, -1) * 2


@pytest.mark.torch
def test_autocast_casts_as_the_device_of_the_program(tmp_path: Path) -> None:
    import torch

    path = exported(tmp_path / "net.pt2", cast_norm, torch.ones(6, 6))
    assert [row[0] for row in rows_of(read_problem(path)).values()] == [144, 72, 72, 72]

    def for_cuda(fields: Any) -> None:
        (node,) = fields["graph_module"]["graph"]["nodes"][:1]
        node["inputs"][0]["arg"]["as_string"] = "cuda"
        node["inputs"][4]["arg"]["as_graph"]["graph"]["tensor_values"] = {
            name: {**meta, "dtype": 7 if name != "linear" else meta["dtype"]}
            for name, meta in node["inputs"][4]["arg"]["as_graph"]["graph"]["tensor_values"].items()
        }

    # On CUDA softmax runs in float32.
    assert [row[0] for row in rows_of(read_problem(changed(path, for_cuda))).values()] == [
        144, 72, 144, 144,
    ]  # fmt: skip

    def wrong(fields: Any) -> None:
        fields["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"]["as_string"] = "cuda"

    with pytest.raises(InstanceError, match=r"'softmax': torch\.bfloat16 is needed"):
        read_problem(changed(path, wrong))


@pytest.mark.torch
def test_quantised_programs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    import torch.ao.quantization.fx._decomposed

    def run(_self: Any, x: Any) -> Any:
        few = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(
            few, 0.1, 0, -128, 127, torch.int8
        )

    path = exported(tmp_path / "net.pt2", run, torch.ones(6))
    assert [row[0] for row in rows_of(read_problem(path)).values()] == [24, 6, 24]
    for namespace, named in (("nobody", "import the module that registers"), ("torchvision", "")):
        target = f"torch.ops.{namespace}.unheard_of.default"
        monkeypatch.setitem(sys.modules, "torchvision", None)
        rule = f"operators of torch.ops.{namespace} are needed, found none: "
        with pytest.raises(InstanceError, match=rule + (named or "install torchvision")):
            read_problem(changed(path, set_target(target)))


@pytest.mark.torch
def test_a_weight_of_several_tensors_is_its_parts(tmp_path: Path) -> None:
    import torch

    def run(self: Any, x: Any) -> Any:
        return self.weight * 2 + x

    path = exported(tmp_path / "net.pt2", run, torch.ones(6))

    def unwrap(source: str) -> Callable[[Any], None]:
        def change(fields: Any) -> None:
            graph = fields["graph_module"]["graph"]
            (weight,) = graph["nodes"][:1]
            part = graph["tensor_values"]["mul"]
            graph["tensor_values"]["part"] = {**part, "dtype": 2}
            inner = {"as_tensor": {"name": "part"}}
            inputs = [{"name": "", "arg": {"as_tensor": {"name": source}}, "kind": 1}]
            target = "torch.ops.export.access_subclass_inner_tensor.default"
            node = {**weight, "target": target, "inputs": inputs, "outputs": [inner]}
            weight["inputs"][0]["arg"] = inner
            graph["nodes"].insert(0, node)

        return change

    problem = read_problem(changed(path, unwrap("p_weight")))
    # A byte an element of the weight, four of the buffer.
    assert problem.origin["persistent_bytes"] == 6 + 24
    with pytest.raises(InstanceError, match="a weight is needed, found another tensor"):
        read_problem(changed(path, unwrap("given_0")))


def with_control_flow(_self: Any, x: Any) -> Any:
    import torch

    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (with_control_flow, "torch.ops.higher_order.cond'.: an operator on tensors is needed"),
        (lambda _self, x: x.nonzero() + 1, "it does not run on tensors without numbers"),
    ],
)
def test_shapes_that_depend_on_data_are_refused(
    tmp_path: Path, run: Callable[..., Any], message: str
) -> None:
    import torch

    path = exported(tmp_path / "net.pt2", run, torch.ones(6))
    with pytest.raises(InstanceError, match=message):
        read_problem(path)


def program_of(path: Path) -> str:
    """Return the text of a program."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if "/models/" in name)
        return archive.read(name).decode()


def changed(path: Path, change: Callable[[Any], None]) -> Path:
    """Write a program anew, changed."""
    fields = json.loads(program_of(path))
    change(fields)
    with zipfile.ZipFile(path.with_name("changed.pt2"), "w") as archive:
        archive.writestr("net/models/model.json", json.dumps(fields))
    return path.with_name("changed.pt2")


def set_target(target: str) -> Callable[[Any], None]:
    def change(fields: Any) -> None:
        fields["graph_module"]["graph"]["nodes"][0]["target"] = target

    return change


def set_size(formula: str) -> Callable[[Any], None]:
    def change(fields: Any) -> None:
        size = {"as_expr": {"expr_str": formula, "hint": None}}
        fields["graph_module"]["graph"]["tensor_values"]["given_0"]["sizes"] = [size]

    return change


@pytest.mark.torch
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_target("os.system"), "node 0 .'os.system'.: an operator on tensors is needed"),
        (set_target("torch.ops.aten.from_file.default"), "an operator on tensors is needed"),
        (set_target("torch.ops.aten.nothing.default"), "node 0 .*nothing"),
        (set_size("__import__('os').getcwd()"), "sizes are sums and products"),
        (set_size("(" * 9), "a size as a formula is needed"),
        (set_size("Integer(2) "), "it does not run on tensors without numbers"),
        (lambda fields: fields.pop("graph_module"), "a program as torch.export.save writes it"),
    ],
)
def test_a_changed_program_is_refused(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    import torch

    path = exported(tmp_path / "net.pt2", lambda self, x: x + self.weight, torch.ones(6))
    with pytest.raises(InstanceError, match=message) as caught:
        read_problem(changed(path, change))
    assert str(caught.value).startswith(str(tmp_path))
