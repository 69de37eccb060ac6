"""The graph of an exported PyTorch program, run operator by operator on fake tensors.

Note: why PyTorch does not load the file
----------------------------------------
Rationale. ``torch.export.load`` unpickles sample inputs, evaluates expressions and reads all
weights. No code of an untrusted file may run, and a plan needs neither weights nor sample inputs.

Approach. The program itself is JSON: operators by name, arguments, and shapes of inputs. Each
operator runs on fake tensors, in the file's order, with open dimensions replaced by whole numbers.
PyTorch's own results tell which tensors share a storage. Operators are those of PyTorch's registry,
except any with a file name among its arguments, and a few of Python's on whole numbers.

Numbers have 64 bits, and tensors few dimensions. An operator of PyTorch must have a tensor among
its arguments or results, or only assert. The operators within it, and the tensors that it returns,
are counted before it runs.

A part under ``torch.no_grad`` or autocast is a graph of its own, which runs once: its operators
stand in its place. Operators of quantisation are registered by a module that is imported first.

Limits. The workspace of an operator is not seen, such as the casts of autocast within it. Control
flow, custom objects and shapes that depend on data are refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, reduce
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch._export.serde import serialize
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from instances.extract.kernels.call_effort import written_arguments
from instances.extract.record.gpu.cuda_autocast import cuda_autocast_on_cpu
from instances.extract.record.graph.traced_graph import Storages, op_name
from instances.formats.model_problem import Operators
from planners.errors import InstanceError
from planners.files.dimensions import Dimensions, require_dimensions
from planners.files.file_limits import Allowance, ReadingWork, element_count, whole_number
from planners.text.plain_text import shown

Fields = Mapping[str, Any]

_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            "add", "and_", "eq", "floordiv", "ge", "gt", "le", "lt", "mod", "mul", "ne", "neg",
            "not_", "or_", "pos", "sub", "truediv",
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc")},
    **{
        f"torch.{name}": getattr(torch, name)
        for name in ("sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not")
    },
}  # fmt: skip
# Plain values, and lists of them.
_PLAIN = {
    "as_int", "as_ints", "as_bool", "as_bools", "as_string", "as_strings", "as_int_lists",
}  # fmt: skip
_NUMBERS = {"as_sym_int", "as_sym_float", "as_sym_bool"}
_KEYWORD = 2
# PyTorch also accepts whole numbers for arguments of these kinds, and crashes at unknown ones.
_KINDS = {
    "MemoryFormat": torch.memory_format,
    "Layout": torch.layout,
    "ScalarType": torch.dtype,
}
# A node takes at least 130 bytes. A composite operator, such as an LSTM, runs some twenty operators
# for each step, of 0.2 ms each.
OPERATORS = Allowance("operators, with those that operators run", free=1 << 14, for_bytes=64)
# Arguments that set the number of results or of inner operators, and the number that is always
# allowed.
_COUNTS = ("sections", "chunks", "r", "n", "decimals")
MAX_REPEATED = 64
# Entries of a list. PyTorch takes some 300 MB to order a product of so many matrices.
MAX_ENTRIES = 1 << 12
# The longest formula of a size seen from PyTorch has 300 characters.
MAX_FORMULA_CHARACTERS = 1 << 14


class ExportedGraph:
    """A program of ``torch.export.save``, with sizes for its open dimensions."""

    def __init__(self, program: Fields, dimensions: Dimensions, file_bytes: int) -> None:
        module = program["graph_module"]
        self.graph: Fields = module["graph"]
        self.specs: list[tuple[str, Fields]] = [
            next(iter(spec.items())) for spec in module["signature"]["input_specs"]
        ]
        self.ranges: Fields = program["range_constraints"]
        self.dimensions = dimensions
        self.work = ReadingWork(OPERATORS, file_bytes)
        self.values: dict[str, Any] = {}
        self.storages = Storages()
        self.operators = Operators()
        # Weights that stand for the tensors within them and have no bytes of their own.
        self.wrappers: set[int] = set()
        # Bytes of an element of each storage.
        self.width: dict[int, int] = {}
        # Keeps all results alive, so that no other storage gets the number of one of them.
        self.alive: list[Any] = []

    def run(self) -> Operators:
        """Go through the graph; the names of the operators' storages are those of `storages`."""
        self._require_dimensions()
        # Without inference mode PyTorch keeps the whole history of each view of a view.
        with (
            FakeTensorMode(allow_fallback_kernels=False),
            _Counted(self.work),
            torch.inference_mode(),
        ):
            batch, persistent = self._give()
            self.operators.keep(dict.fromkeys(persistent), "weights")
            self.operators.add("input", "input", makes=self._new(batch))
            self._run_graph(self.graph)
            returned = [self._argument(argument) for argument in self.graph["outputs"]]
            self.operators.add("output", "output", self.storages.of(returned))
        return self.operators

    def _new(self, storages: Iterable[int]) -> list[int]:
        return [each for each in dict.fromkeys(storages) if each not in self.operators]

    def _require_dimensions(self) -> None:
        where: dict[str, str] = {}
        for kind, spec in self.specs:
            if kind != "user_input":
                continue
            if "as_tensor" in spec["arg"]:
                name = spec["arg"]["as_tensor"]["name"]
                for axis, size in enumerate(self.graph["tensor_values"][name]["sizes"]):
                    for symbol in _symbols(size):
                        where.setdefault(symbol, f"{name}[{axis}]")
            elif "as_sym_int" in spec["arg"]:
                name = spec["arg"]["as_sym_int"]["as_name"]
                for symbol in _symbols(self.graph["sym_int_values"][name]):
                    where.setdefault(symbol, name)
        require_dimensions(where, self.dimensions)
        for name, size in self.dimensions.items():
            limits = self.ranges.get(name, {})
            least, most = limits.get("min_val") or 0, limits.get("max_val")
            if size < least or (most is not None and size > most):
                raise InstanceError(
                    f"--dimension {name}: the program was exported for {least} to "
                    f"{most or 'any'}, found {size}"
                )

    def _give(self) -> tuple[list[int], list[int]]:
        """Make inputs and weights; return the storages of each."""
        batch: list[int] = []
        persistent: list[int] = []
        for kind, spec in self.specs:
            argument = spec.get("arg", {})
            if kind in ("parameter", "buffer", "tensor_constant"):
                persistent += self._bind(argument["name"], self._fake(argument["name"]))
            elif kind == "constant_input":
                # References to such an input have its value written out.
                continue
            elif kind != "user_input":
                raise InstanceError(
                    f"inputs that are tensors or numbers are needed, found a {kind}"
                )
            elif "as_tensor" in argument:
                name = argument["as_tensor"]["name"]
                batch += self._bind(name, self._fake(name))
            elif "as_sym_int" in argument:
                name = argument["as_sym_int"]["as_name"]
                size = self.graph["sym_int_values"][name]
                self.values[name] = self._length(size)
        return batch, persistent

    def _fake(self, name: str) -> Tensor:
        meta = self.graph["tensor_values"][name]
        sizes = [self._length(size) for size in meta["sizes"]]
        strides = [self._length(stride) for stride in meta["strides"]]
        for lengths in sizes, strides:
            element_count([min(1, length) for length in lengths], f"tensor {shown(name)}")
        dtype = _dtype(meta["dtype"])
        # A storage may be larger than its tensor; only the tensor's part is needed.
        try:
            return torch.empty_strided(sizes, strides, dtype=dtype)
        # PyTorch raises a TypeError for numbers beyond 64 bits.
        except (RuntimeError, TypeError):
            raise InstanceError(
                f"tensor {shown(name)}: a shape of fewer than 2**63 bytes is needed, found sizes "
                f"{shown(sizes)} and strides {shown(strides)}"
            ) from None

    def _length(self, size: Fields) -> int:
        if "as_int" in size:
            return whole_number(size["as_int"], "a size")
        return _evaluate(_expression(size), self.dimensions)

    def _run_graph(self, graph: Fields) -> None:
        for index, node in enumerate(graph["nodes"]):
            self._op(index, node)

    def _op(self, index: int, node: Fields) -> None:
        target = node["target"]
        try:
            self.work.charge()
            if target in _RUN_ONCE:
                self._inline(target, node)
                return
            if target == _PART_OF_WEIGHT:
                self._unwrap(node)
                return
            function = _function(target)
            given = [self._argument(each["arg"]) for each in node["inputs"]]
            positional = [
                value
                for each, value in zip(node["inputs"], given, strict=True)
                if each.get("kind") != _KEYWORD
            ]
            named = {
                each["name"]: value
                for each, value in zip(node["inputs"], given, strict=True)
                if each.get("kind") == _KEYWORD
            }
            if isinstance(function, OpOverload):
                _require_results(function, positional, named, node["outputs"])
            result = function(*positional, **named)
            self._bind_results(node["outputs"], result)
        except InstanceError as error:
            raise InstanceError(f"node {index} ({shown(target)}): {error}") from None
        except Exception as error:  # whatever an operator raises on what it cannot take
            rule = "it does not run on tensors without numbers"
            if "overflow" in str(error):
                rule = "results of fewer than 2**63 bytes are needed"
            raise InstanceError(
                f"node {index} ({shown(target)}): {rule}, {type(error).__name__}: {error}"
            ) from None
        if isinstance(function, OpOverload):
            name = node.get("name") or next(self._names(node["outputs"]), target)
            written = self.storages.of(written_arguments(function._schema, positional, named))
            makes = self._new(self._of(result, name))
            # An operator that neither creates nor writes a storage is a view.
            if makes or written:
                self.operators.add(op_name(function), name, self.storages.of(given), makes, written)

    def _unwrap(self, node: Fields) -> None:
        """Begin a tensor within a quantised weight; the file has its shape."""
        source = self.storages.of(self._argument(node["inputs"][0]["arg"]))
        if not set(source) <= set(self.operators.kept):
            raise InstanceError("a weight is needed, found another tensor")
        self.wrappers.update(source)
        (name,) = self._names(node["outputs"])
        self.operators.keep(self._bind(name, self._fake(name)), name)

    def _inline(self, target: str, node: Fields) -> None:
        """Run the graph of a node in the node's place."""
        given = [self._argument(each["arg"]) for each in node["inputs"]]
        at = next(index for index, value in enumerate(given) if isinstance(value, Mapping))
        graph, operands = given[at], given[at + 1 :]
        outer, self.values = self.values, {}
        for argument, operand in zip(graph["inputs"], operands, strict=True):
            self._bind_results([argument], operand)
        with _RUN_ONCE[target](*given[:at]):
            self._run_graph(graph)
        results = [self._argument(argument) for argument in graph["outputs"]]
        for value, result in self.values.items():
            meta = graph["tensor_values"].get(value)
            if meta is not None and isinstance(result, Tensor):
                _require_dtype(value, result, _dtype(meta["dtype"]))
        self.values = outer
        for output, result in zip(node["outputs"], results, strict=True):
            self._bind_results([output], result)

    def _argument(self, argument: Fields) -> Any:
        ((kind, value),) = argument.items()
        if isinstance(value, list) and len(value) > MAX_ENTRIES:
            raise InstanceError(
                f"lists of at most {MAX_ENTRIES} entries are needed, found one of {len(value)}"
            )
        if kind == "as_none":
            return None
        if kind in _PLAIN:
            return _plain(value)
        if kind in ("as_tensor", "as_optional_tensor"):
            return self._argument(value) if "name" not in value else self.values[value["name"]]
        if kind in ("as_tensors", "as_optional_tensors"):
            return [self._argument({"as_optional_tensor": each}) for each in value]
        if kind == "as_float":
            # Floats without a form in JSON are written as text: Infinity.
            return float(value)
        if kind == "as_floats":
            return list(map(float, value))
        if kind in _NUMBERS:
            return self.values[value["as_name"]] if "as_name" in value else self._argument(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._argument({kind[:-1]: each}) for each in value]
        if kind == "as_scalar_type":
            return _dtype(value)
        if kind == "as_memory_format":
            return serialize._SERIALIZE_TO_TORCH_MEMORY_FORMAT[value]
        if kind == "as_layout":
            return serialize._SERIALIZE_TO_TORCH_LAYOUT[value]
        if kind == "as_device":
            # Fake tensors of another device would need its driver.
            return torch.device("cpu")
        if kind == "as_graph":
            graph: Fields = value["graph"]
            return graph
        raise InstanceError(f"an argument of a kind that is known is needed, found {shown(kind)}")

    def _bind_results(self, outputs: list[Fields], result: Any) -> None:
        """Give the results of an operator their names."""
        if len(outputs) == 1:
            ((kind, value),) = outputs[0].items()
            results = [result] if not kind.endswith("s") else result
            self._bind_each(kind, value if kind.endswith("s") else [value], results)
            return
        # An operator that only asserts has no result.
        for output, each in zip(outputs, result or (), strict=True):
            self._bind_results([output], each)

    def _bind_each(self, kind: str, values: Iterable[Any], results: Iterable[Any]) -> None:
        for value, result in zip(values, results, strict=True):
            if kind != "as_none":
                self._bind(value.get("name") or value["as_name"], result)

    def _bind(self, name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, Tensor):
            _number(value)
        self.values[name] = value
        return self._of(value, name)

    def _of(self, values: Any, name: str) -> tuple[int, ...]:
        """Return the storages of the results of an operator, and keep the results alive."""
        self.alive.append(values)
        tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
        numbers = self.storages.of(tensors, name)
        for number, tensor in zip(numbers, tensors, strict=True):
            element_count([1] * tensor.dim(), f"tensor {shown(name)}")
            self.width[number] = max(self.width.get(number, 1), tensor.element_size())
        return numbers

    def _names(self, outputs: Iterable[Fields]) -> Iterator[str]:
        for output in outputs:
            for value in output.values():
                if isinstance(value, dict) and "name" in value:
                    yield value["name"]


def _function(target: str) -> Callable[..., Any]:
    if target in _ON_NUMBERS:
        return partial(_on_numbers, _ON_NUMBERS[target])
    parts = target.split(".")
    if len(parts) == 5 and parts[:2] == ["torch", "ops"] and parts[2] != "higher_order":
        operators = getattr(torch.ops, parts[2])
        if not hasattr(operators, parts[3]):
            _import_module_of(parts[2])
        found: Any = getattr(getattr(operators, parts[3]), parts[4])
        if isinstance(found, OpOverload) and _is_on_tensors(found._schema):
            function: Callable[..., Any] = found
            return function
    raise InstanceError("an operator on tensors is needed; export the program without control flow")


def _import_module_of(namespace: str) -> None:
    """Import the module that registers the operators of a namespace; a file may not name others."""
    why = "import the module that registers them, and read the file in the same process"
    if (module := _MODULES.get(namespace)) is not None:
        try:
            import_module(module)
            return
        except ImportError as error:
            why = f"install {module.partition('.')[0]} ({error})"
    raise InstanceError(f"operators of torch.ops.{namespace} are needed, found none: {why}")


@contextmanager
def _autocast(
    device: str, dtype: torch.dtype | None, enabled: bool, _cache_enabled: bool | None = None
) -> Iterator[None]:
    """Cast CPU tensors as the device of the program casts its own."""
    with (
        cuda_autocast_on_cpu() if device == "cuda" else nullcontext(),
        torch.autocast("cpu", dtype=dtype, enabled=enabled),
    ):
        yield


def _require_dtype(name: str, found: Tensor, needed: torch.dtype) -> None:
    """Refuse a program in which the autocast of its device casts in another way."""
    if found.dtype != needed:
        raise InstanceError(f"tensor {shown(name)}: {needed} is needed, found {found.dtype}")


# The operator that reads one tensor of a weight of several, such as whole numbers and scales.
_PART_OF_WEIGHT = "torch.ops.export.access_subclass_inner_tensor.default"
# Operators that run a graph of their own once, and what holds while they do.
_RUN_ONCE: dict[str, Callable[..., AbstractContextManager[None]]] = {
    "torch.ops.higher_order.wrap_with_set_grad_enabled": lambda _enabled: nullcontext(),
    "torch.ops.higher_order.wrap_with_autocast": _autocast,
}
# Modules that register operators of these namespaces when they are imported.
_MODULES = {
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torchao": "torchao",
    "torchvision": "torchvision",
}


def _is_on_tensors(schema: Any) -> bool:
    """Return True if an operator takes or makes tensors, or only asserts, and names no file."""
    parts = (*schema.arguments, *schema.returns)
    has_tensor = any("Tensor" in str(part.type) for part in parts)
    return (has_tensor or not schema.returns) and not any(
        "file" in argument.name for argument in schema.arguments
    )


def _require_results(
    function: OpOverload, positional: list[Any], named: Fields, outputs: list[Fields]
) -> None:
    """Refuse an operator with too many results, or with a number as an argument of `_KINDS`."""
    schema = function._schema
    given = dict(zip((argument.name for argument in schema.arguments), positional, strict=False))
    given.update(named)
    for argument in schema.arguments:
        needed = _KINDS.get(str(argument.real_type).removeprefix("Optional[").removesuffix("]"))
        value = given.get(argument.name)
        if needed is not None and value is not None and not isinstance(value, needed):
            raise InstanceError(
                f"argument {argument.name}: a {needed.__name__} is needed, found {shown(value)}"
            )
    count = max((given.get(name) or 0 for name in _COUNTS if name in given), default=0)
    kind = schema.name.removeprefix("aten::")
    each = 1 if kind == "unbind" else given.get("split_size")
    if kind in ("unbind", "split", "unsafe_split") and isinstance(each, int):
        count = -(-given["self"].size(given.get("dim") or 0) // max(each, 1))
    named_results = sum(len(v) if isinstance(v, list) else 1 for o in outputs for v in o.values())
    if count > max(named_results, MAX_REPEATED):
        raise InstanceError(
            f"as many results as are named, {named_results}, are needed, found {count}"
        )


class _Counted(TorchDispatchMode):  # type: ignore[misc,no-untyped-call,unused-ignore]
    """Charges each operator that runs within another."""

    def __init__(self, work: ReadingWork) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.work = work

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.work.charge()
        return func(*args, **(kwargs or {}))


def _on_numbers(function: Callable[..., Any], *values: Any) -> Any:
    return _number(function(*map(_number, values)))


def _number(value: Any) -> Any:
    """Return a number for sizes; refuse other values and numbers beyond 64 bits."""
    if type(value) is float or type(value) is bool or value is None:
        return value
    return whole_number(value, "a size")


def _plain(value: Any) -> Any:
    """Return an argument that is not a tensor, once its numbers are known to be bounded."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if isinstance(value, str) else _number(value)


def _dtype(value: int) -> torch.dtype:
    dtype: torch.dtype = serialize._SERIALIZE_TO_TORCH_DTYPE[value]
    return dtype


def _expression(size: Fields) -> ast.expr:
    text = size["as_expr"]["expr_str"]
    if len(text) > MAX_FORMULA_CHARACTERS:
        raise InstanceError(
            f"a size as a formula of at most {MAX_FORMULA_CHARACTERS} characters is needed, found "
            f"{len(text)}"
        )
    try:
        parsed: ast.expr = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InstanceError(f"a size as a formula is needed, found {shown(text)}") from None
    return parsed


def _symbols(size: Fields) -> Iterator[str]:
    if "as_int" in size:
        return
    for part in ast.walk(_expression(size)):
        if isinstance(part, ast.Call) and _name(part) == "Symbol":
            yield _text(part)


def _evaluate(part: ast.expr, dimensions: Dimensions) -> int:
    """Return the value of a formula of symbols, whole numbers, sums and products."""
    if isinstance(part, ast.Call):
        if _name(part) == "Symbol" and _text(part) in dimensions:
            return dimensions[_text(part)]
        if _name(part) == "Integer" and isinstance(part.args[0], ast.Constant | ast.UnaryOp):
            return whole_number(ast.literal_eval(part.args[0]), "a size")
        if _name(part) in ("Add", "Mul"):
            step = operator.add if _name(part) == "Add" else operator.mul
            values = (_evaluate(each, dimensions) for each in part.args)
            return reduce(partial(_on_numbers, step), values, int(step is operator.mul))
    raise InstanceError(
        f"sizes are sums and products of the open dimensions, found {shown(ast.unparse(part))}"
    )


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _text(call: ast.Call) -> str:
    return str(call.args[0].value) if call.args and isinstance(call.args[0], ast.Constant) else ""
