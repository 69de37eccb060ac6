"""``python -m instances synthetic FAMILY``: a command a family, its options the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from instances.catalogue.instance_folders import named_after
from instances.synthetic import FAMILIES
from instances.synthetic.family import Parameter
from planners.command_line.typer_frame import CommandLine
from planners.files.output_file import require_suffix, require_targets, say_written
from planners.files.problem_file import SUFFIXES, write_problem
from planners.model.problem import Problem

Output = Annotated[Path, typer.Option("--output", "-o", help="Instance file, .json or .json.gz.")]

app = CommandLine(no_args_is_help=True, help="Make a synthetic instance of a family.")


def command_of(family: Callable[..., Problem]) -> Callable[..., None]:
    """Return the command of a family, with the family's parameters as its options."""

    def command(output: Path, **parameters: Parameter | None) -> None:
        require_targets({"--output": output})
        require_suffix("--output", output, "a problem", SUFFIXES)
        problem = family(**parameters)
        write_problem(named_after(problem, output), output)
        say_written(
            output,
            f"{output}: {problem.tensor_count} tensors, {problem.stream_count} streams, "
            f"{len(problem.contiguous)} chains, {output.stat().st_size} bytes",
        )

    options = [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[parameter.annotation, typer.Option()],
        )
        for parameter in inspect.signature(family, eval_str=True).parameters.values()
    ]
    output = inspect.Parameter("output", inspect.Parameter.KEYWORD_ONLY, annotation=Output)
    # Typer reads these parameters instead of the function's own.
    command.__signature__ = inspect.Signature([*options, output])  # type: ignore[attr-defined]
    command.__doc__ = (inspect.getdoc(family) or "").partition("\n\n")[0]
    return command


for _name, _family in FAMILIES.items():
    app.command(_name.replace("_", "-"))(command_of(_family))
