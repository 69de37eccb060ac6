"""A plan as a C99 header: the place of each tensor in one arena of a firmware."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from instances.formats.plan_target import (
    name_of_tensor,
    planned,
    refuse_target,
    require_valid_plan,
)
from planners.files.output_file import write_output
from planners.model.plan import Result
from planners.model.problem import Problem

# Characters of an internal name that every C99 compiler must tell apart.
MOST_CHARACTERS = 63


def write_c_header(problem: Problem, result: Result, path: Path) -> None:
    """Write the offsets and sizes of a plan as a C99 header.

    Each tensor is a constant of an enumeration, which indexes two tables. The arena's bytes and its
    alignment are macros.

    Parameters
    ----------
    problem
        The problem that was planned.
    result
        Has the plan, which is judged first.
    path
        Target; the file's name is the prefix of every name.

    Raises
    ------
    InvalidPlanError
        The result has no plan, or one that is not valid.
    InstanceError
        The problem has no tensor.
    GaplessError
        The file cannot be written.
    """
    require_valid_plan(problem, planned(result))
    if not problem.tensor_count:
        refuse_target("a C header", "at least one tensor, for an empty table is no C,", "none")
    prefix = _identifier(path.stem) or "plan"
    text = "\n".join(_lines(problem, result, prefix))
    write_output(path, text.encode("ascii"))


def _lines(problem: Problem, result: Result, prefix: str) -> Iterator[str]:
    plan = planned(result)
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
    yield f"#define {upper}_ARENA_BYTES {plan.peak}"
    yield f"#define {upper}_ALIGNMENT {int(problem.alignment.max())}"
    yield ""
    yield "enum {"
    for index, (constant, name) in enumerate(zip(constants, names, strict=True)):
        yield f"    {constant} = {index}, /* {_comment(name)} */"
    yield f"    {count} = {len(names)}"
    yield "};"
    for table, values in (("offsets", plan.offsets), ("sizes", problem.size)):
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
    """Yield a C constant for each name, all different."""
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
    """Return a name as a C identifier; a leading digit gets a letter in front."""
    plain = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")[:MOST_CHARACTERS]
    return f"t{plain}" if plain[:1].isdigit() else plain


def _comment(text: str) -> str:
    """Return text that neither ends nor begins a comment."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return re.sub(r"[^ -~]|[*/\\?](?=[*/?])", "_", plain)
