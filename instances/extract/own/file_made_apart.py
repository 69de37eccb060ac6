"""A file that code of a user's makes, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from instances.extract.models.required_packages import require_packages
from instances.extract.own.own_function import is_own
from planners.command_line.progress_line import show_progress
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_MODEL_BYTES
from planners.files.output_file import say_written, write_output
from planners.processes.checked_answer import answer_apart


def write_made(
    name: str, models: Sequence[Path] | None, output: Path, make: Callable[[Path], str]
) -> None:
    """Write what a call makes, apart if code of a user's takes part; say what the call returns."""
    if is_own(name) or models:
        show_progress(f"{name}: importing PyTorch")
        require_packages()  # here, so that the process need not import them
        with TemporaryDirectory(prefix="gapless-extract-") as folder:
            made = Path(folder) / output.name
            said = answer_apart(name, lambda: {"said": make(made)}, {"said": str})["said"]
            write_output(output, read_bounded(made, MAX_MODEL_BYTES))
    else:
        said = make(output)
    show_progress("")
    say_written(output, f"{said}, {output.stat().st_size} bytes")
