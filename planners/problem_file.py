"""The instance file: versioned, columnar JSON, plain or gzipped, read and written here alone."""

from __future__ import annotations

import gzip
import io
import json
import math
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from planners.blocks import NOT_PINNED
from planners.columns import flatten
from planners.errors import InstanceError
from planners.graph import Graph
from planners.problem import Problem, Safety

FORMAT = "gapless-problem"
VERSION = 1
MAX_FILE_BYTES = 1 << 30

_REQUIRED = {"format", "version", "size"}
_COLUMNS = ("start", "end", "alignment", "phase_start", "phase_end", "layer_start", "layer_end")
_OPTIONAL = {
    *_COLUMNS, "name", "origin", "graph", "unsafe_pairs", "contiguous", "pinned", "gaps",
    "capacity", "dynamic", "tensor_name",
}  # fmt: skip
_GRAPH_FIELDS = {"op_names", "op", "stream", "producer", "consumers", "control"}


def read_problem(path: str | Path) -> Problem:
    """Read an instance file.

    Parameters
    ----------
    path
        A ``.json`` or ``.json.gz`` file.

    Returns
    -------
    Problem
        Validated.

    Raises
    ------
    InstanceError
        The file cannot be read or breaks a rule; the message names file, field and tensor.
    """
    path = Path(path)
    try:
        return problem_from_fields(_parse(_read_bounded(path)))
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None


def write_problem(problem: Problem, path: str | Path) -> None:
    """Write an instance file, the same bytes for the same problem.

    Parameters
    ----------
    problem
        What to write.
    path
        Target; gzipped where the name ends in ``.gz``.
    """
    path = Path(path)
    fields = problem_to_fields(problem)
    lines = [f"{json.dumps(key)}: {_compact(value)}" for key, value in fields.items()]
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def problem_to_fields(problem: Problem) -> dict[str, Any]:
    """Return the content of an instance file; fields that say nothing are left out.

    Parameters
    ----------
    problem
        What to describe.

    Returns
    -------
    dict
        Plain lists, numbers and strings.
    """
    fields: dict[str, Any] = {"format": FORMAT, "version": VERSION, "name": problem.name}
    if problem.origin:
        fields["origin"] = dict(problem.origin)
    if problem.capacity is not None:
        fields["capacity"] = problem.capacity
    fields["size"] = problem.size.tolist()
    if problem.safety is Safety.LIFETIMES:
        fields["start"] = problem.start.tolist()
        fields["end"] = problem.end.tolist()
    if (problem.alignment != 1).any():
        fields["alignment"] = problem.alignment.tolist()
    if problem.contiguous:
        fields["contiguous"] = [list(chain) for chain in problem.contiguous]
    pins = np.flatnonzero(problem.pinned != NOT_PINNED)
    if len(pins):
        fields["pinned"] = np.column_stack([pins, problem.pinned[pins]]).tolist()
    if len(problem.gaps):
        fields["gaps"] = problem.gaps.tolist()
    if problem.unsafe_pairs is not None:
        fields["unsafe_pairs"] = problem.unsafe_pairs.tolist()
    for field in ("phase_start", "phase_end", "layer_start", "layer_end", "dynamic"):
        column = getattr(problem, field)
        if column is not None:
            fields[field] = column.tolist()
    if problem.graph is not None:
        fields["graph"] = _graph_to_fields(problem.graph)
    if problem.tensor_name is not None:
        fields["tensor_name"] = list(problem.tensor_name)
    return fields


def problem_from_fields(fields: Any) -> Problem:
    """Build a problem from the content of an instance file.

    Parameters
    ----------
    fields
        What :func:`problem_to_fields` returns; untrusted.

    Returns
    -------
    Problem
        Validated.

    Raises
    ------
    InstanceError
        A field is missing, unknown, or breaks a rule.
    """
    _require_fields("", fields, _REQUIRED, _OPTIONAL)
    if fields["format"] != FORMAT:
        _refuse("format", repr(FORMAT), fields["format"])
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        _refuse("version", f"{VERSION} (the only one so far)", fields["version"])
    for field in ("size", *_COLUMNS, "contiguous", "pinned", "gaps", "unsafe_pairs", "dynamic"):
        if field in fields:
            _require_list(field, fields[field])
    capacity = fields.get("capacity")
    if capacity is not None and type(capacity) is not int:
        _refuse("capacity", "a whole number of bytes", capacity)
    name = fields.get("name", "problem")
    if not isinstance(name, str):
        _refuse("name", "a string", name)
    return Problem(
        fields["size"],
        graph=_graph_from_fields(fields["graph"]) if "graph" in fields else None,
        unsafe_pairs=fields.get("unsafe_pairs"),
        contiguous=_chains(fields.get("contiguous", [])),
        pinned=_pins(fields.get("pinned", [])),
        gaps=fields.get("gaps", []),
        capacity=capacity,
        dynamic=fields.get("dynamic"),
        tensor_name=_strings("tensor_name", fields.get("tensor_name")),
        name=name,
        origin=_origin(fields.get("origin", {})),
        **{column: fields.get(column) for column in _COLUMNS},
    )


def _graph_to_fields(graph: Graph) -> dict[str, Any]:
    op_names = list(dict.fromkeys(graph.op))
    code = {name: index for index, name in enumerate(op_names)}
    bounds = graph.consumer_offsets.tolist()
    nodes = graph.consumer_nodes.tolist()
    return {
        "op_names": op_names,
        "op": [code[name] for name in graph.op],
        "stream": graph.stream.tolist(),
        "producer": graph.producer.tolist(),
        "consumers": [nodes[a:b] for a, b in pairwise(bounds)],
        "control": graph.control.tolist(),
    }


def _graph_from_fields(fields: Any) -> Graph:
    _require_fields("graph.", fields, _GRAPH_FIELDS, set())
    for field in sorted(_GRAPH_FIELDS):
        _require_list(f"graph.{field}", fields[field])
    op_names = _strings("graph.op_names", fields["op_names"]) or []
    for node, code in enumerate(fields["op"]):
        if type(code) is not int or not 0 <= code < len(op_names):
            _refuse(f"graph.op, node {node}", f"an index into the {len(op_names)} op_names", code)
    return Graph(
        op=[op_names[code] for code in fields["op"]],
        stream=fields["stream"],
        producer=fields["producer"],
        consumers=fields["consumers"],
        control=fields["control"],
    )


def _chains(chains: list[Any]) -> list[Any]:
    flatten("contiguous", chains)
    return chains


def _pins(rows: list[Any]) -> dict[int, int]:
    entries = flatten("pinned", rows, width=2)
    for index, entry in enumerate(entries):
        if type(entry) is not int:
            _refuse(f"pinned, entry {index // 2}", "whole numbers", entry)
    pins = dict(zip(entries[::2], entries[1::2], strict=True))
    if len(pins) != len(rows):
        _refuse("pinned", "one offset a tensor", f"{len(rows)} rows for {len(pins)} tensors")
    return pins


def _origin(origin: Any) -> dict[str, Any]:
    if not isinstance(origin, dict):
        _refuse("origin", "an object", origin)
    for key, value in origin.items():
        if not isinstance(value, (str, int, float, bool)):
            _refuse(f"origin.{key}", "a string, number or boolean", value)
    return origin


def _strings(field: str, values: Any) -> list[str] | None:
    if values is None:
        return None
    _require_list(field, values)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            _refuse(f"{field}, entry {index}", "a string", value)
    return list(values)


def _require_fields(prefix: str, fields: Any, required: set[str], optional: set[str]) -> None:
    if not isinstance(fields, dict):
        _refuse(prefix.rstrip(".") or "file", "an object", fields)
    for field in sorted(required - fields.keys()):
        raise InstanceError(f"field {prefix}{field}: missing, and every file needs it")
    for field in sorted(fields.keys() - required - optional):
        known = ", ".join(sorted(required | optional))
        raise InstanceError(f"field {prefix}{field}: unknown; known fields are {known}")


def _require_list(field: str, value: Any) -> None:
    if not isinstance(value, list):
        _refuse(field, "a list", value)


def _refuse(field: str, needed: str, found: object) -> NoReturn:
    raise InstanceError(f"field {field}: {needed} is needed, found {found!r:.60}")


def _read_bounded(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            data = io.BufferedReader(stream).read(MAX_FILE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InstanceError(f"the file is no whole gzip file: {error}") from None
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InstanceError(f"the file holds more than {MAX_FILE_BYTES} bytes of JSON")
    return data


def _parse(data: bytes) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is no UTF-8 text: byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InstanceError(
            f"the file is no whole JSON text: {error.msg} at line {error.lineno}, "
            f"column {error.colno}"
        ) from None
    except RecursionError:
        raise InstanceError("the file is no instance: its lists are nested too deeply") from None
    except ValueError as error:
        raise InstanceError(f"the file holds a number that is too long: {error}") from None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InstanceError(f"field {key}: given twice")
            seen.add(key)
    return fields


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InstanceError(f"numbers must be finite, found {text!r:.40}")
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
