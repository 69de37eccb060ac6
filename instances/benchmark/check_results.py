"""Check a results file: ``python check_results.py RESULTS [FOLDER]``.

Needs Python 3.10 and NumPy, nothing else, and shares no code with any planner. FOLDER is what
``python -m instances benchmark FOLDER`` wrote; by default it is the folder of this file.

Prints a line for each result. Exits with 0 if all are right, with 1 if one is refused, with 2 if
the results or the folder cannot be read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import zlib
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

NOT_IN_DIGEST = {"name", "origin", "tensor_name", "capacity"}
# Fields of an instance. Those of the last line and those that the digest leaves out change no plan.
KNOWN = NOT_IN_DIGEST | {
    "size", "start", "end", "alignment", "contiguous", "pinned", "gaps", "unsafe_pairs", "graph",
    "format", "version", "dynamic", "phase_start", "phase_end", "layer_start", "layer_end",
}  # fmt: skip
# Offsets and sizes below this add up in 64 bits.
LIMIT = 1 << 62
# Limits of a file, since a results file names any other: its bytes; those of a gzipped file, which
# may have so many, and so many times its own; and its signs, each of which may take 100 bytes.
MOST_BYTES, FREE_BYTES, TIMES_PACKED, MOST_SIGNS = 1 << 28, 1 << 22, 64, 1 << 25

# Birth, tensor, death. In a graph the birth is the producer, and no number is the death.
Row = tuple[int, int, int]


class RefusedError(Exception):
    """The reason why a result does not count."""


def require(holds: Any, reason: str) -> None:
    if not holds:
        raise RefusedError(reason)


def is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < LIMIT


def is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= 80


# The fields of a result with the values that they may have; the first four are needed.
FIELDS: dict[str, Callable[[Any], bool]] = {
    "instance": is_name, "digest": is_name, "planner": is_name, "peak": is_whole,
    "offsets": lambda value: isinstance(value, list),
    "plan": lambda value: is_name(value) and Path(value).name == value,
    "lower_bound": lambda value: value is None or is_whole(value),
    "seconds": lambda value: value is None or (type(value) in (int, float) and 0 <= value < LIMIT),
    "finder": is_name,
}  # fmt: skip


def read_text(path: Path) -> bytes:
    """Read a file within the limits; a pipe or a device may never end."""
    require(path.is_file() or not path.exists(), f"{path}: a plain file is needed")
    most = MOST_BYTES
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
        if data[:2] == b"\x1f\x8b":
            most = min(most, FREE_BYTES + TIMES_PACKED * len(data))
            data = gzip.GzipFile(fileobj=BytesIO(data)).read(most + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise RefusedError(f"{path}: it cannot be read: {error}") from None
    require(len(data) <= most, f"{path}: at most {most} bytes are read, found more")
    signs = sum(map(data.count, (b",", b"[", b"{", b'"')))
    require(signs <= MOST_SIGNS, f"{path}: at most {MOST_SIGNS} signs are read, found {signs}")
    return data


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{path}: it cannot be read: {error}") from None


# Lines about one instance follow each other, so that it is read once.
@lru_cache(maxsize=1)
def read_instance(path: Path, digest: str) -> dict[str, Any]:
    """Read an instance of the folder, and make sure that it is the one that is meant."""
    fields: dict[str, Any] = read_json(path)
    require(isinstance(fields, dict), f"{path}: an object is needed")
    version = fields.get("format"), fields.get("version")
    require(version == ("gapless-problem", 1), f"{path}: this checker cannot judge {version}")
    for name in sorted(fields.keys() - KNOWN):
        require(False, f"{path}: this checker cannot judge the field {name}")
    kept = {name: value for name, value in fields.items() if name not in NOT_IN_DIGEST}
    if "graph" in kept:
        kept["graph"] = {name: value for name, value in kept["graph"].items() if name != "work"}
    text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
    found = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    require(found == digest, f"{path}: a file of the digest {digest} is needed, found {found}")
    return fields


def ends_of(fields: dict[str, Any], offsets: Any) -> tuple[list[int], list[int]]:
    """Check what concerns single tensors and chains; return offsets and ends."""
    count = len(fields["size"])
    require(isinstance(offsets, list), "offsets: a list is needed")
    require(len(offsets) == count, f"offsets: {count} are needed, found {len(offsets)}")
    for tensor, offset in enumerate(offsets):
        require(is_whole(offset), f"tensor {tensor}: an offset of at least 0 is needed")
    end = [offset + size for offset, size in zip(offsets, fields["size"], strict=True)]
    for tensor, alignment in enumerate(fields.get("alignment", [])):
        aligned = offsets[tensor] % alignment == 0
        require(aligned, f"tensor {tensor}: an offset that {alignment} divides is needed")
    for tensor, pin in fields.get("pinned", []):
        require(offsets[tensor] == pin, f"tensor {tensor}: it is pinned to {pin}")
    for chain in fields.get("contiguous", []):
        for first, second in pairwise(chain):
            touches = offsets[second] == end[first]
            require(touches, f"tensor {second}: it has to start where tensor {first} ends")
    return offsets, end


def lifetimes(fields: dict[str, Any]) -> Iterator[Row]:
    """Yield each part of a lifetime between gaps."""
    gaps: dict[int, list[tuple[int, int]]] = {}
    for tensor, first, after in sorted(fields.get("gaps", [])):
        gaps.setdefault(tensor, []).append((first, after))
    for tensor, (start, end) in enumerate(zip(fields["start"], fields["end"], strict=True)):
        birth = start
        for first, after in gaps.get(tensor, ()):
            if birth < first:
                yield birth, tensor, first
            birth = after
        if birth < end:
            yield birth, tensor, end


def clocks(graph: dict[str, Any]) -> tuple[Any, Any]:
    """Return a clock for each tensor and for each node: a number of nodes for each stream.

    The clock of a tensor counts the nodes of a stream up to the last one that uses the tensor. The
    clock of a node counts the nodes of a stream up to the last one from which a path leads to it.
    """
    number = {name: index for index, name in enumerate(sorted(set(graph["stream"])))}
    stream = [number[name] for name in graph["stream"]]
    before: list[set[int]] = [set() for _ in stream]
    users = [{node, *its} for node, its in zip(graph["producer"], graph["consumers"], strict=True)]
    for producer, its in zip(graph["producer"], users, strict=True):
        for user in its - {producer}:
            before[user].add(producer)
    for first, second in graph["control"]:
        before[second].add(first)
    passed = np.zeros((len(stream), len(number)), np.int64)
    place: list[int] = []
    last: dict[int, int] = {}
    for node, its_stream in enumerate(stream):
        for earlier in before[node] | ({last[its_stream]} if its_stream in last else set()):
            np.maximum(passed[node], passed[earlier], out=passed[node])
            at = node, stream[earlier]
            passed[at] = max(passed[at], place[earlier])
        place.append(int(passed[node, its_stream]) + 1)
        last[its_stream] = node
    needed = np.zeros((len(users), len(number)), np.int64)
    for tensor, its in enumerate(users):
        for user in its:
            needed[tensor, stream[user]] = max(needed[tensor, stream[user]], place[user])
    return needed, passed


def require_no_overlap(fields: dict[str, Any], offset: list[int], end: list[int]) -> None:
    """Refuse two tensors that share bytes although both may be needed at the same time.

    "Dead before born" is transitive. So if tensors share a byte and are sorted by birth, it is
    enough to compare neighbours. The loop walks through the addresses and keeps this list.
    """
    for a, b in fields.get("unsafe_pairs", []):
        shared = min(end[a], end[b]) - max(offset[a], offset[b])
        require(shared <= 0, f"unsafe tensors share bytes: {a} and {b}")
    if "unsafe_pairs" in fields:
        return
    if "graph" in fields:
        producer = fields["graph"]["producer"]
        if "clocks" not in fields:
            fields["clocks"] = clocks(fields["graph"])
        needed, passed = fields["clocks"]
        rows = [(birth, tensor, -1) for tensor, birth in enumerate(producer)]

        def is_safe(a: Row, b: Row) -> bool:
            return bool((needed[a[1]] <= passed[b[0]]).all())
    else:
        rows = list(lifetimes(fields))

        def is_safe(a: Row, b: Row) -> bool:
            return a[2] <= b[0]

    rows = [row for row in rows if offset[row[1]] < end[row[1]]]
    walk = [(end[row[1]], 0, row) for row in rows] + [(offset[row[1]], 1, row) for row in rows]
    here: list[Row] = []
    for _, begins, row in sorted(walk):
        at = bisect(here, row)
        if not begins:
            del here[at - 1]
            continue
        here.insert(at, row)
        for first, second in pairwise(here[max(at - 1, 0) : at + 2]):
            pair = f"{first[1]} and {second[1]}"
            require(is_safe(first, second), f"unsafe tensors share bytes: {pair}")


def check_fields(result: Any, known: dict[str, Any]) -> None:
    """Check one result except for its plan and its bound."""
    require(isinstance(result, dict), "an object is needed")
    for name in list(FIELDS)[:4]:
        require(name in result, f"field {name}: missing")
    for name, value in result.items():
        require(name in FIELDS, f"field {name!r:.60}: unknown")
        require(
            FIELDS[name](value), f"field {name}: the value {value!r:.60} is wrong; see README.md"
        )
    require(("offsets" in result) != ("plan" in result), "one of offsets and plan is needed")
    row = known.get(result["instance"])
    require(row, f"field instance: list.json has no {result['instance']!r:.60}")
    assert row is not None
    require(result["digest"] == row["digest"], f"field digest: {row['digest']} is needed")
    require(row["json"], f"{row['name']}: the folder has no file of it")


def peak_of(fields: dict[str, Any], offsets: Any) -> int:
    """Return the peak of a valid plan."""
    its, end = ends_of(fields, offsets)
    require_no_overlap(fields, its, end)
    return max(end, default=0)


# Lines about one file follow each other, so that it is judged once.
@lru_cache(maxsize=1)
def peak_of_file(instance: Path, digest: str, plan: Path) -> int | RefusedError:
    """Return the peak of the plan in a file, or why it does not count."""
    try:
        content = read_json(plan)
        offsets = content.get("offsets") if isinstance(content, dict) else content
        return peak_of(read_instance(instance, digest), offsets)
    except RefusedError as error:
        return error


def check_plan(result: dict[str, Any], row: dict[str, Any], folder: Path, beside: Path) -> None:
    """Check the plan of one result whose fields are right."""
    instance = folder / row["json"], row["digest"]
    if "plan" in result:
        found = peak_of_file(*instance, beside / result["plan"])
    else:
        found = peak_of(read_instance(*instance), result["offsets"])
    if isinstance(found, RefusedError):
        raise found
    peak = result["peak"]
    require(peak == found, f"peak: the largest offset + size is {found}, found {peak}")


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        raise SystemExit(__doc__)
    results, folder = Path(arguments[0]), Path([*arguments, str(Path(__file__).parent)][1])
    try:
        lines = read_text(results).decode("utf-8").split("\n")
        require("".join(lines).strip(), f"{results}: a result is needed, found none")
        known = {row["name"]: row for row in read_json(folder / "list.json")["instances"]}
        least = {name: row["best"]["peak"] for name, row in known.items()}
    except (ValueError, KeyError, TypeError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    said, valid, refused, found = {}, {}, {}, {}
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                found[number] = json.loads(line)
                check_fields(found[number], known)
        except (RefusedError, ValueError, RecursionError) as error:
            refused[number] = " ".join(str(error).split())
    checked = [(its["instance"], its.get("plan", ""), number)
               for number, its in found.items() if number not in refused]  # fmt: skip
    for name, _, number in sorted(checked):
        result = found[number]
        try:
            check_plan(result, known[name], folder, results.parent)
            least[name] = min(least[name], result["peak"])
            valid[number] = name, result["peak"], result.get("lower_bound") or 0
        except RefusedError as error:
            refused[number] = " ".join(str(error).split())
    for number, (name, peak, bound) in valid.items():
        if bound > least[name]:
            refused[number] = f"field lower_bound: {name} has a valid plan of {least[name]}"
            continue
        best = known[name]["best"]["peak"]
        word = "improves" if peak < best else "equals" if peak == best else "misses"
        said[number] = f"{name}: valid, {peak} bytes; {word} the best known {best}"
    said |= {number: f"refused: {reason}" for number, reason in refused.items()}
    for number in sorted(said):
        print(f"line {number}: {said[number]}")
    return 1 if refused else 0


if __name__ == "__main__":
    # The locale's encoding may lack a letter of a result.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
