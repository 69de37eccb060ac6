"""The graph, or the eager trace, of a step that a user's function makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.models.required_packages import package_versions, require_packages
from instances.extract.own.own_function import OwnFunction, find_own_function, is_own
from instances.extract.record.ranks.rank import Rank
from instances.extract.step_settings import StepSettings, StreamScheme
from instances.traces.allocation_trace import AllocationTrace
from planners import Problem
from planners.errors import InstanceError
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_MODEL_BYTES
from planners.files.formats import read_problem
from planners.files.output_file import say_written, write_output
from planners.files.problem_file import SUFFIXES, write_problem
from planners.model.problem import Scalar
from planners.processes.isolated_process import answer_apart
from planners.text.progress_line import show_progress

# An eager program has one stream for its kernels.
OWN_DEFAULTS = StepSettings(streams=StreamScheme.ROLES.value)

# The first step makes the optimizer's state, the second is the first steady one.
STEPS_OF_A_GRAPH = 2


def extract_own(
    function: OwnFunction,
    settings: StepSettings,
    on_stage: Callable[[str], None] = lambda _text: None,
) -> Problem:
    """Extract the graph of a steady step; only the settings of streams are used."""
    from instances.extract.record.own_run import OperatorMode, run_own_steps, step_graph

    on_stage(f"{function.label}: tracing {STEPS_OF_A_GRAPH} steps")
    graph = step_graph(run_own_steps(function, STEPS_OF_A_GRAPH, {}, make_mode=OperatorMode))
    on_stage(f"{function.label}: building the problem of {len(graph.ops):,} operations")
    streams = f"--streams {settings.streams} --nodes-per-stream {settings.nodes_per_stream}"
    origin = _origin(function, "python -m instances.extract", streams)
    return build_problem(graph, settings, function.label, origin)


def trace_own(
    function: OwnFunction,
    steps: int,
    on_stage: Callable[[str], None] = lambda _text: None,
    rank: Rank | None = None,
) -> AllocationTrace:
    """Trace the requests of steps to the GPU's allocator, after those of the function itself.

    With a rank, the trace is that of one process of several.
    """
    from instances.extract.record.own_run import run_own_steps

    if steps < 1:
        raise InstanceError(f"setting steps: at least 1, found {steps}")
    on_stage(f"{function.label}: tracing {steps} steps")
    origin = _origin(function, "python -m instances.extract trace", f"--steps {steps}")
    return run_own_steps(function, steps, {**origin, "steps": steps}, rank).trace


def open_own(
    name: str,
    settings: Sequence[str],
    on_stage: Callable[[str], None] = lambda _text: None,
    words: Sequence[str] = (),
) -> OwnFunction:
    """Find a user's function; PyTorch must be installed."""
    on_stage(f"{name}: importing PyTorch")
    require_packages()
    return find_own_function(name, settings, words)


def _origin(function: OwnFunction, command: str, options: str) -> dict[str, Scalar]:
    given = [f"--set {quote(f'{name}={value}')}" for name, value in function.arguments.items()]
    words = ["--", *map(quote, function.file.words)] if function.file.words else []
    return {
        "model": function.label,
        "command": " ".join([command, quote(function.label), *given, options, *words]),
        **package_versions(),
    }


def read_own(name: str, settings: Sequence[str], words: Sequence[str]) -> Problem | None:
    """Return the graph of a step of the user's own; None for a name of something else."""
    if not is_own(name):
        return None

    def make(path: Path) -> str:
        function = open_own(name, settings, show_progress, words)
        write_problem(extract_own(function, OWN_DEFAULTS, show_progress), path)
        return ""

    with _made_apart(name, f"step{SUFFIXES[0]}", make) as (made, _):
        return read_problem(made)


def write_made(
    name: str, models: Sequence[Path] | None, output: Path, make: Callable[[Path], str]
) -> None:
    """Write the file that a call makes, in a process of its own if a user's code takes part."""
    if is_own(name) or models:
        with _made_apart(name, output.name, make) as (made, said):
            write_output(output, read_bounded(made, MAX_MODEL_BYTES))
    else:
        said = make(output)
    show_progress("")
    say_written(output, f"{said}, {output.stat().st_size} bytes")


@contextmanager
def _made_apart(name: str, file: str, make: Callable[[Path], str]) -> Iterator[tuple[Path, str]]:
    """Yield a file that a call made in a process of its own, and what the call returned."""
    show_progress(f"{name}: importing PyTorch")
    require_packages()  # here, so that the process need not import them
    with TemporaryDirectory(prefix="gapless-extract-") as folder:
        made = Path(folder) / file
        yield made, answer_apart(name, lambda: {"said": make(made)}, {"said": str})["said"]
