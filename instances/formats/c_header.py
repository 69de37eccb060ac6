"""A plan as a C99 header: where in one arena firmware keeps each tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from instances.formats.plan_target import name_of_tensor, refuse_target, require_valid_plan
from planners.files.output_file import write_output
from planners.model.plan import Result
from planners.model.problem import Problem

# What every C99 compiler tells apart of a name within a file.
MOST_CHARACTERS = 63


def write_c_header(problem: Problem, result: Result, path: Path) -> None:
    """Write the offsets and sizes of a plan, which is judged first.

    The prefix of every name is that of the file. A tensor is a name of an enumeration, an index
    into two tables; the arena's bytes and its alignment are macros.
    """
    assert result.plan is not None
    require_valid_plan(problem, result.plan)
    if not problem.tensor_count:
        refuse_target("a C header", "at least one tensor, for an empty table is no C,", "none")
    prefix = _identifier(path.stem) or "plan"
    text = "\n".join(_lines(problem, result, prefix))
    write_output(path, text.encode("ascii"))


def _lines(problem: Problem, result: Result, prefix: str) -> Iterator[str]:
    assert result.plan is not None
    upper, lower = prefix.upper(), prefix.lower()
    names = [name_of_tensor(problem, tensor) for tensor in range(problem.tensor_count)]
    constants = list(_constants(upper, names))
    count = f"{upper}_TENSOR_COUNT"
    yield f"/* {_comment(problem.name)}: {problem.tensor_count} tensors. */"
    yield f"/* {_proven(result)} */"
    yield f"#ifndef {upper}_H_"
    yield f"#define {upper}_H_"
    yield ""
    yield "#include <stddef.h>"
    yield ""
    yield "/* Bytes of the arena, and what its address is to be a multiple of. */"
    yield f"#define {upper}_ARENA_BYTES {result.plan.peak}"
    yield f"#define {upper}_ALIGNMENT {int(problem.alignment.max())}"
    yield ""
    yield "enum {"
    for index, (constant, name) in enumerate(zip(constants, names, strict=True)):
        yield f"    {constant} = {index}, /* {_comment(name)} */"
    yield f"    {count} = {len(names)}"
    yield "};"
    for table, values in (("offsets", result.plan.offsets), ("sizes", problem.size)):
        yield ""
        yield f"static const size_t {lower}_{table}[{count}] = {{"
        yield from (f"    {value}," for value in values.tolist())
        yield "};"
    yield ""
    yield f"#endif /* {upper}_H_ */"
    yield ""


def _proven(result: Result) -> str:
    bound = f"no plan needs less than {result.lower_bound} bytes" if result.lower_bound else ""
    made = f"planned by {_comment(result.planner)}" if result.planner else "planned"
    return ", ".join(filter(None, [made, result.status.value, bound])) + "."


def _constants(prefix: str, names: Iterable[str]) -> Iterator[str]:
    """Make each name a constant of its own."""
    taken = {f"{prefix}_{word}" for word in ("ARENA_BYTES", "ALIGNMENT", "TENSOR_COUNT", "H_")}
    for index, name in enumerate(names):
        room = MOST_CHARACTERS - len(prefix) - len(f"__{index}")
        plain = f"{prefix}_{_identifier(name).upper()[: max(0, room)]}".rstrip("_")
        if plain in taken or plain == prefix:
            plain = f"{plain}_{index}"
        while plain in taken:
            plain += "_"
        taken.add(plain)
        yield plain


def _identifier(name: str) -> str:
    """Return what of a name may stand in one of C; a digit in front is led by an underscore."""
    plain = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")[:MOST_CHARACTERS]
    return f"t{plain}" if plain[:1].isdigit() else plain


def _comment(text: str) -> str:
    """Return text that neither ends a comment nor begins one within it."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return re.sub(r"[^ -~]|[*/\\?](?=[*/?])", "_", plain)
