"""``python -m instances.extract executorch NAME -o FILE``: what ExecuTorch plans for a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instances.catalogue.instance_folders import named_after
from instances.extract.executorch.lowering import extract_memory
from instances.extract.executorch.networks import NETWORKS, find_network
from planners.command_line.progress_line import show_progress
from planners.command_line.typer_frame import CommandLine
from planners.files.output_file import require_suffix, require_targets, say_written
from planners.files.problem_file import SUFFIXES, write_problem

app = CommandLine()


@app.command()
def executorch(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NETWORKS)}.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Instance file, .json or .json.gz.")
    ],
) -> None:
    """Lower a network to ExecuTorch, without weights or download, and keep what it has to place."""
    find_network(name)
    require_targets({"--output": output})
    require_suffix("--output", output, "a problem", SUFFIXES)
    problem = extract_memory(name, show_progress)
    write_problem(named_after(problem, output), output)
    show_progress("")
    say_written(output, f"{output}: {problem.tensor_count} tensors, {output.stat().st_size} bytes")
